"""What a probe runs and what it expects: one forward for each way in which the scan says that the target runs. Pure.

The plan is made from the rows of a scan's report, so that a probe can be held against the scan of today or an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from flowcheck.probe.expansion import FUSED, Fused, Switch, Way, ways_of
from flowcheck.probe.protocol import Backend, Phase, Reduction, Through
from flowcheck.report import model

__all__ = ["Model", "PathName", "Plan", "PlannedPath", "Variant", "plan_of"]

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
        variant: the further run that shows it, "" for the first.
        graph: whether only the replay of a graph shows it.
        fused: what its forward must show of fused all-reduces.
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
    variant: str = ""
    graph: bool = False
    fused: Fused = ""


@dataclass(frozen=True, slots=True)
class Model:
    """Sizes that the verdict needs, those of the models that are built (perhaps shrunk): ``target_width``, and how wide the
    input of the draft's first layer is (None: not known)."""

    target_width: int
    draft_width: int | None = None
    reductions: tuple[Reduction, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """A further run of the same ranks: its name, its forwards, and the server arguments that it differs by."""

    name: str
    phases: tuple[Phase, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that the verdict holds results against.

    ``needed``: what the draft was trained on, None while that is open; then ``readings`` are what it may be. ``settings``: server
    arguments of the first run, whose forwards are ``phases``; ``variants`` are the further ones.
    """

    backend: Backend
    ranks: int
    paths: tuple[PlannedPath, ...]
    phases: tuple[Phase, ...]
    needed: tuple[int, ...] | None
    readings: tuple[tuple[int, ...], ...] = ()
    model: Model = field(default_factory=lambda: Model(0))
    has_draft: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()

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
    switch: Switch | None = None,
    through: Through = "model",
    has_draft: bool = True,
) -> Plan:
    """The plan for the rows of a scan. ``switch``: all-reduce fusion, where no setting decides it."""
    captures = [row for row in rows if row.phase in ("extend", "verify")]
    ways = [way for row in captures for way in ways_of(row, backend, ranks, through, switch)]
    wanted = {_batch_of(way) for way in ways if _is_run(way)}
    # Fewer calls first: what a graph was recorded under comes before what is told later.
    ordered = sorted(
        wanted, key=lambda each: (each.variant, len(each.told), each.kind, each.graph, each.requests * each.tokens)
    )
    phases = dict(zip(ordered, _phases(ordered), strict=True))
    paths = [_planned(way, phases) for way in ways]
    needed = next((row.needed_boundaries for row in captures), None)
    readings = next((row.readings for row in captures), [])
    further = tuple(phase for batch, phase in phases.items() if batch.variant)
    return Plan(
        backend=backend,
        ranks=ranks,
        paths=tuple(paths),
        phases=tuple(phase for batch, phase in phases.items() if not batch.variant),
        needed=tuple(needed) if needed is not None else None,
        readings=tuple(tuple(each) for each in readings),
        model=sizes,
        has_draft=has_draft,
        settings=switch.off if switch is not None and backend == "nccl" else {},
        variants=(Variant(FUSED, further, switch.on),) if switch is not None and further else (),
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    """What tells forwards apart."""

    kind: Literal["extend", "verify"]
    told: tuple[Ids, ...]
    requests: int
    tokens: int
    graph: bool
    variant: str

    @property
    def stem(self) -> str:
        """What its name begins with."""
        return " ".join(filter(None, (self.kind, "graph" if self.graph else "", self.variant)))


def _batch_of(way: Way) -> _Batch:
    return _Batch(_kind(way.row), _told(way.row), *_size(way), way.graph, way.variant)


def _phases(batches: Sequence[_Batch]) -> Iterable[Phase]:
    stems = [batch.stem for batch in batches]
    for number, batch in enumerate(batches):
        same = stems[: number + 1].count(batch.stem)
        name = batch.stem if stems.count(batch.stem) == 1 else f"{batch.stem} {same}"
        yield Phase(name, batch.kind, batch.requests, batch.tokens, batch.told, batch.graph)


def _planned(way: Way, phases: Mapping[_Batch, Phase]) -> PlannedPath:
    row = way.row
    known = bool(row.states) and all(state.boundary is not None or state.per_rank for state in row.states)
    refused = row.reason if row.verdict == "violated" and not row.states else ""
    return PlannedPath(
        phase=_kind(row),
        path=row.path,
        runner=row.runner,
        condition=way.condition,
        batch=way.batch,
        told=_told(row),
        expected=tuple(row.captured_boundaries) if known and row.verdict != "unproved" else None,
        partial=row.per_rank == "partial",
        refused=refused,
        stands_in=phases[_batch_of(way)].name if _is_run(way) else "",
        excluded=way.excluded,
        open=_open(row),
        variant=way.variant,
        graph=way.graph,
        fused=way.fused,
    )


def _open(row: model.Capture) -> str:
    unknown = next((told.reason for told in row.told if told.reason), "")
    if unknown:
        return f"what the target is told is not known: {unknown}"
    if not row.told:
        return row.reason or "nothing tells the target what to capture on this path"
    return ""


def _is_run(way: Way) -> bool:
    return way.shown and not _open(way.row)


def _kind(row: model.Capture) -> Literal["extend", "verify"]:
    return "verify" if row.phase == "verify" else "extend"


def _told(row: model.Capture) -> tuple[Ids, ...]:
    return tuple(tuple(told.ids) if told.ids is not None else None for told in row.told)


def _size(way: Way) -> tuple[int, int]:
    """Requests and tokens of each, such that the batch is in the range of numbers of tokens."""
    usual = TOKENS[way.row.phase]
    low, high = way.tokens
    tokens = max(usual, -(-low // REQUESTS))
    if high is not None:
        tokens = min(tokens, high // REQUESTS)
    return (REQUESTS, tokens) if tokens * REQUESTS >= low else (1, low)
