"""What a rank has come to, and how it ends."""

from __future__ import annotations

import re
import resource
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowcheck.probe.protocol import Coverage, DraftInput, Failure, IdsRead, Job, PhaseResult, RankResult
from flowcheck.probe.rank import stubs
from flowcheck.probe.rank.output import Progress
from flowcheck.probe.rank.tree import Unbridged

__all__ = ["NoHook", "Rank", "failure_of"]


SHOWN_PARTS = 2


class NoHook(Exception):
    """The target cannot be told which layers to capture: what the tree would raise."""


@dataclass
class Rank:
    """What a rank has come to; its result is read from it whenever it ends."""

    job: Job
    rank: int
    progress: Progress
    stubs: tuple[str, ...] = ()
    bridges: dict[str, str] = field(default_factory=dict)
    not_covered: list[Coverage] = field(default_factory=list)
    phases: list[PhaseResult] = field(default_factory=list)
    drafts: list[DraftInput] = field(default_factory=list)
    cls: str | None = None
    layers: int | None = None
    parameters: int | None = None
    error: Failure | None = None
    read: IdsRead | None = None

    def result(self) -> RankResult:
        """What there is to say now."""
        self.progress.seconds.setdefault(self.progress.stage, 0.0)
        return RankResult(
            rank=self.rank,
            stage=self.progress.stage,
            cls=self.cls,
            layers=self.layers,
            parameters=self.parameters,
            phases=tuple(self.phases),
            draft=tuple(self.drafts),
            launches=tuple(sorted(stubs.LAUNCHES)),
            stubs=self.stubs,
            bridges=self.bridges,
            not_covered=tuple(self.not_covered),
            seconds=self.progress.seconds,
            peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            error=self.error,
            read=self.read,
        )

    def lacks(self, what: str, why: str) -> None:
        """Something is not shown by this run."""
        self.not_covered.append(Coverage(what, why))

    def lacks_each(self, what: str, notes: Iterable[tuple[str, str]]) -> None:
        """The same of named parts of the model, each with its reason: parts of all layers that share one are said once."""
        parts: dict[str, list[str]] = {}
        for name, reason in notes:
            parts.setdefault(reason, []).append(re.sub(r"(?<=\.)\d+(?=\.)", "*", name))
        for reason, names in parts.items():
            kinds = list(dict.fromkeys(names))
            more = f" and {len(kinds) - SHOWN_PARTS} more" if len(kinds) > SHOWN_PARTS else ""
            self.lacks(what, f"{', '.join(kinds[:SHOWN_PARTS])}{more}: {reason}")


def failure_of(error: BaseException, me: Rank) -> Failure:
    """An exception as part of a result."""
    frames = traceback.extract_tb(error.__traceback__)
    marks = [f"{_short(each.filename, me.job)}:{each.lineno} {each.name}" for each in frames]
    inside = [mark for each, mark in zip(frames, marks, strict=True) if each.filename.startswith(me.job.tree)]
    about: Any = "tree" if inside else "probe"
    if isinstance(error, (NoHook, Unbridged)):
        about = "tree" if isinstance(error, NoHook) else "probe"
    if isinstance(error, (MemoryError, OSError)) or me.progress.stage == "ranks" or _is_of_device(error):
        about = "machine"
    return Failure(
        stage=me.progress.stage,
        kind=type(error).__name__,
        message=" ".join(str(error).split())[:600],
        where=tuple((inside or marks)[-6:]),
        missing=stubs.missing_root(error, me.job.package),
        about=about,
    )


DEVICE_ERRORS = {"OutOfMemoryError", "AcceleratorError", "DistBackendError"}
"""How PyTorch calls that a GPU has no room, or has failed, or cannot talk to others: by name, as releases differ."""


def _is_of_device(error: BaseException) -> bool:
    named = {each.__name__ for each in type(error).__mro__}
    return bool(named & DEVICE_ERRORS) or (isinstance(error, RuntimeError) and str(error).startswith("CUDA "))


def _short(filename: str, job: Job) -> str:
    for root in (job.tree, str(Path(__file__).parents[3])):
        if filename.startswith(root):
            return str(Path(filename).relative_to(root))
    return Path(filename).name
