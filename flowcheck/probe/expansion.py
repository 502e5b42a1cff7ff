"""Which runs a row of a scan's report stands for on GPUs: with all-reduce fusion and without, and on either side of every number
of tokens from which on the code goes another way. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flowcheck.probe.protocol import Backend, Through
from flowcheck.report import model

__all__ = ["FUSED", "Fused", "Switch", "Way", "range_of", "ways_of"]

FUSED = "fused"
"""Name of the further run in which all-reduces are fused."""

MOST_CUTS = 4
"""Ranges of numbers of tokens behind more limits than this are not told apart."""

MOST_TOKENS = 16384
"""Larger batches are not run: what they hold would be compared for minutes."""

MOST_GRAPH_TOKENS = 512
"""Larger batches are not recorded: servers record graphs for some hundred tokens at most."""

Fused = Literal["", "some", "none", "elsewhere"]
"""What a forward must show of fused all-reduces to stand for its row: nothing; some of them; none; or that others of its run had
some (this one is behind a limit)."""


@dataclass(frozen=True, slots=True)
class Switch:
    """All-reduce fusion: ``name`` is the setting that the scan's conditions speak of, ``off`` and ``on`` are all the server
    arguments that decide it."""

    name: str
    off: Mapping[str, Any]
    on: Mapping[str, Any]

    def condition(self, *, on: bool) -> str:
        """As the scan spells it."""
        return f"{self.name} is {str(on).lower()}"


@dataclass(frozen=True, slots=True)
class Way:
    """One run of a row.

    Attributes:
        row: the row.
        condition: under which it is run, as the scan spells it.
        batch: for which numbers of tokens it stands.
        variant: "" for the first run of the probe, else the further one.
        graph: whether a graph is recorded and replayed.
        excluded: why the backend cannot reach it, "" if it can.
        fused: see :data:`Fused`.
        shown: whether a forward of this backend says anything of it: of a graph that is not recorded, an eager one says what was
            told; of kernels that are not there, nothing.
    """

    row: model.Capture
    condition: str
    batch: str
    variant: str = ""
    graph: bool = False
    excluded: str = ""
    fused: Fused = ""
    shown: bool = True

    @property
    def tokens(self) -> tuple[int, int | None]:
        """The numbers of tokens of all requests together: the least and the most (None: any)."""
        return range_of(self.batch)


def ways_of(row: model.Capture, backend: Backend, ranks: int, through: Through, switch: Switch | None) -> Iterator[Way]:
    """The runs of one row: one where no GPU is, else one for each side of the switch and of each limit."""
    if backend != "nccl":
        needs_gpu = switch is not None and row.condition == switch.condition(on=True)
        excluded = f"{row.condition}: that needs kernels of a GPU" if needs_gpu else ""
        if row.path != "eager":
            excluded = "graphs are recorded on a GPU"
        yield Way(row, row.condition, row.batch, excluded=excluded, shown=not needs_gpu)
        return
    graph = row.path == "decode_graph" or (row.path != "eager" and through == "model-runner")
    for batch in _batches(row) if row.path == "eager" else [row.batch]:
        least, _ = range_of(batch)
        for condition, variant, fused in _sides(row.condition, batch, ranks, switch):
            excluded, shown = "", True
            if row.path != "eager" and not graph:
                excluded = "only the tree's own runner records these graphs (--through model-runner)"
            elif least > (MOST_GRAPH_TOKENS if graph else MOST_TOKENS):
                excluded = f"batches of {least} tokens and more are not {'recorded' if graph else 'run'}"
                shown = False
            elif variant and ranks == 1:
                excluded, shown = "one rank has nothing to reduce", False
            yield Way(row, condition, batch, variant, graph and not excluded, excluded, fused, shown)


def _sides(condition: str, batch: str, ranks: int, switch: Switch | None) -> list[tuple[str, str, Fused]]:
    """Condition, variant, and what must be seen of fused all-reduces."""
    if switch is None:
        return [(condition, "", "")]
    shown: Fused = "some" if range_of(batch)[0] == 1 else "elsewhere"
    off: tuple[str, str, Fused] = (switch.condition(on=False), "", "none")
    on: tuple[str, str, Fused] = (switch.condition(on=True), FUSED, shown)
    if condition == "":
        return [off, on] if ranks > 1 else [("", "", "none")]
    if condition == on[0]:
        return [on]
    return [off] if condition == off[0] else [(condition, "", "")]


def _batches(row: model.Capture) -> list[str]:
    least, most = range_of(row.batch)
    cuts = [cut for cut in sorted(set(row.cuts)) if least < cut and (most is None or cut <= most)][:MOST_CUTS]
    if not cuts:
        return [row.batch]
    lows = [least, *cuts]
    highs = [*(cut - 1 for cut in cuts), most]
    return [_spelled(low, high) for low, high in zip(lows, highs, strict=True)]


def _spelled(low: int, high: int | None) -> str:
    """As the scan spells ranges of numbers of tokens."""
    if high is None:
        return "" if low <= 1 else f">{low - 1} tok"
    return f"<={high} tok" if low <= 1 else f"{low} to {high} tok"


def range_of(batch: str) -> tuple[int, int | None]:
    """The least and the most number of tokens (None: any) of what the scan spells."""
    numbers = [int(each) for each in re.findall(r"\d+", batch)]
    if not numbers:
        return 1, None
    if batch.startswith("<="):
        return 1, numbers[0]
    if batch.startswith(">"):
        return numbers[0] + 1, None
    return numbers[0], numbers[-1]
