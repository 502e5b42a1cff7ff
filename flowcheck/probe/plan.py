"""What a probe runs and what it expects: one forward for each way in which the scan says that the target runs. Pure.

The plan is made from the rows of a scan's report, so that a probe can be held against the scan of today or an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Union

from flowcheck.probe.protocol import Backend, Phase, Reduction
from flowcheck.report import model

__all__ = ["Model", "PathName", "Plan", "PlannedPath", "plan_of"]

Ids = Union[tuple[int, ...], None]
PathName = Literal["eager", "decode_graph", "prefill_graph"]

REQUESTS = 2
TOKENS: Mapping[str, int] = {"extend": 5, "verify": 4}
"""Tokens of each request where nothing asks for more: no two numbers that a mistake could confuse are alike."""


@dataclass(frozen=True, slots=True)
class PlannedPath:
    """One way in which a forward of the target runs, and what the scan says of it.

    Attributes:
        phase, path, runner, condition, batch: as in the scan's row.
        told: what the target is told before, in this order.
        expected: the boundaries that reach the draft by the scan (None for a state that has no name); None where it does
            not know.
        partial: the scan says that each rank has only a part of them.
        refused: why the target never gets that far, by the scan ("" where it does).
        stands_in: the name of the job's phase that shows it, or an eager forward that stands in for a graph; "" for none.
        excluded: why this backend cannot reach it, "" if it can.
        open: why nothing can be run for it, "" if something can.
    """

    phase: Literal["extend", "verify"]
    path: PathName
    runner: str
    condition: str
    batch: str
    told: tuple[Ids, ...]
    expected: tuple[int | None, ...] | None
    partial: bool = False
    refused: str = ""
    stands_in: str = ""
    excluded: str = ""
    open: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """Sizes that the verdict needs, those of the models that are built (perhaps shrunk): ``target_width``, and how wide the
    input of the draft's first layer is (None: not known)."""

    target_width: int
    draft_width: int | None = None
    reductions: tuple[Reduction, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that the verdict holds results against.

    ``needed``: what the draft was trained on, None while that is open; then ``readings`` are what it may be.
    """

    backend: Backend
    ranks: int
    paths: tuple[PlannedPath, ...]
    phases: tuple[Phase, ...]
    needed: tuple[int, ...] | None
    readings: tuple[tuple[int, ...], ...] = ()
    model: Model = field(default_factory=lambda: Model(0))
    has_draft: bool = True

    @property
    def states(self) -> int | None:
        """How many states the draft needs; None where its readings disagree."""
        counts = {len(self.needed)} if self.needed is not None else {len(each) for each in self.readings}
        return counts.pop() if len(counts) == 1 else None


def plan_of(
    rows: Iterable[model.Capture],
    *,
    backend: Backend,
    ranks: int,
    sizes: Model,
    gpu_conditions: frozenset[str] = frozenset(),
    has_draft: bool = True,
) -> Plan:
    """The plan for the rows of a scan. ``gpu_conditions``: conditions of rows that only kernels of a GPU bring about."""
    captures = [row for row in rows if row.phase in ("extend", "verify")]
    wanted = {_batch_of(row) for row in captures if _can_stand_in(row, backend, gpu_conditions)}
    # Fewer calls first: what a graph was recorded under comes before what is told later.
    phases = tuple(_phases(sorted(wanted, key=lambda each: (len(each.told), each.kind, each.tokens))))
    names = {_Batch(each.kind, each.calls, each.tokens): each.name for each in phases}
    paths = [_planned(row, backend, gpu_conditions, names) for row in captures]
    needed = next((row.needed_boundaries for row in captures), None)
    readings = next((row.readings for row in captures), [])
    return Plan(
        backend=backend,
        ranks=ranks,
        paths=tuple(paths),
        phases=phases,
        needed=tuple(needed) if needed is not None else None,
        readings=tuple(tuple(each) for each in readings),
        model=sizes,
        has_draft=has_draft,
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    """What tells forwards apart."""

    kind: Literal["extend", "verify"]
    told: tuple[Ids, ...]
    tokens: int


def _batch_of(row: model.Capture) -> _Batch:
    return _Batch(_kind(row), _told(row), _tokens(row))


def _phases(batches: Sequence[_Batch]) -> Iterable[Phase]:
    kinds = [batch.kind for batch in batches]
    for number, batch in enumerate(batches):
        same = kinds[: number + 1].count(batch.kind)
        name = batch.kind if kinds.count(batch.kind) == 1 else f"{batch.kind} {same}"
        yield Phase(name, batch.kind, REQUESTS, batch.tokens, batch.told)


def _planned(
    row: model.Capture, backend: Backend, gpu_conditions: frozenset[str], names: Mapping[_Batch, str]
) -> PlannedPath:
    reason = _open(row)
    known = bool(row.states) and all(state.boundary is not None or state.per_rank for state in row.states)
    refused = row.reason if row.verdict == "violated" and not row.states else ""
    return PlannedPath(
        phase=_kind(row),
        path=row.path,
        runner=row.runner,
        condition=row.condition,
        batch=row.batch,
        told=_told(row),
        expected=tuple(row.captured_boundaries) if known and row.verdict != "unproved" else None,
        partial=row.per_rank == "partial",
        refused=refused,
        stands_in=names[_batch_of(row)] if _can_stand_in(row, backend, gpu_conditions) else "",
        excluded=_excluded(row, backend, gpu_conditions),
        open=reason,
    )


def _open(row: model.Capture) -> str:
    unknown = next((told.reason for told in row.told if told.reason), "")
    if unknown:
        return f"what the target is told is not known: {unknown}"
    if not row.told:
        return row.reason or "nothing tells the target what to capture on this path"
    return ""


def _can_stand_in(row: model.Capture, backend: Backend, gpu_conditions: frozenset[str]) -> bool:
    """Whether an eager forward says anything of a row: of a graph it says what was told, of fused kernels nothing."""
    return not _open(row) and (backend == "nccl" or row.condition not in gpu_conditions)


def _excluded(row: model.Capture, backend: Backend, gpu_conditions: frozenset[str]) -> str:
    if row.path != "eager":
        return "the probe's forwards are eager" if backend == "nccl" else "graphs are recorded on a GPU"
    if backend != "nccl" and row.condition in gpu_conditions:
        return f"{row.condition}: that needs kernels of a GPU"
    return ""


def _kind(row: model.Capture) -> Literal["extend", "verify"]:
    return "verify" if row.phase == "verify" else "extend"


def _told(row: model.Capture) -> tuple[Ids, ...]:
    return tuple(tuple(told.ids) if told.ids is not None else None for told in row.told)


def _tokens(row: model.Capture) -> int:
    """Tokens of each request, such that the batch is in the row's range of numbers of tokens."""
    usual = TOKENS[row.phase]
    numbers = [int(each) for each in re.findall(r"\d+", row.batch)]
    if not numbers:
        return usual
    if row.batch.startswith("<="):
        low, high = 1, numbers[0]
    elif row.batch.startswith(">"):
        low, high = numbers[0] + 1, None
    else:
        low, high = numbers[0], numbers[-1]
    tokens = max(usual, -(-low // REQUESTS))
    return tokens if high is None else max(1, min(tokens, high // REQUESTS))
