"""For which numbers of rows a class captures what: asked on every side of every limit that a forward compares them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flowcheck.flow.boundaries import Capture, RowLimit
from flowcheck.flow.capturing import capture
from flowcheck.flow.forwarding import Forwarding

__all__ = ["RowRange", "capture_by_rows"]

MOST_RANGES = 12
"""More ranges than this are not asked."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """Batches of ``low`` to ``high`` rows (None: any number from there), and what is captured of them.

    ``limits``: the comparisons at either end, which is to say the condition under which the answer holds. ``whole`` is False
    where a part of the range was not asked. ``cuts``: the numbers of rows inside of it from which on a comparison comes out
    otherwise, in order: the code goes another way there, and the answer is the same.
    """

    low: int
    high: int | None
    capture: Capture
    limits: tuple[RowLimit, ...]
    whole: bool = True
    cuts: tuple[int, ...] = ()


def capture_by_rows(
    forwarding: Forwarding,
    architecture: str,
    config: Mapping[str, Any],
    ids: Sequence[int] | None,
    phase: str,
    told: Sequence[Sequence[int] | None] | None = None,
) -> tuple[RowRange, ...]:
    """What a class captures for ids, by the number of rows of the batch: the ranges are in order and leave no gap.

    ``told``: the ids of several calls of the setter, in their order, in place of ``ids``.
    """
    usual = forwarding.rows
    shares, replicas = forwarding.deployment.sizes()["attn_tp"], forwarding.deployment.replicas
    limits: dict[int, list[RowLimit]] = {}
    asked: dict[int, Capture] = {}
    try:
        while len(asked) < MOST_RANGES:
            open_ranges = [r for r in _ranges(limits) if _answer(asked, *r) is None]
            if not open_ranges:
                break
            low, high = open_ranges[0]
            forwarding.rows = max(low, usual) if high is None else min(max(low, usual), high)
            answer = capture(forwarding, architecture, config, ids, (phase,), told)[0]
            asked[forwarding.rows] = answer
            for limit in answer.limits:
                for cut in limit.cuts(shares, replicas):
                    held = limits.setdefault(cut, [])
                    if limit not in held:
                        held.append(limit)
    finally:
        forwarding.rows = usual
    return _joined(asked, limits)


def _ranges(limits: Mapping[int, Sequence[RowLimit]]) -> list[tuple[int, int | None]]:
    """The first and last numbers of rows between two limits; the last range has no end."""
    lows = [1, *sorted(limits)]
    return [(low, lows[i + 1] - 1 if i + 1 < len(lows) else None) for i, low in enumerate(lows)]


def _answer(asked: Mapping[int, Capture], low: int, high: int | None) -> Capture | None:
    return next((c for rows, c in asked.items() if low <= rows and (high is None or rows <= high)), None)


def _joined(asked: Mapping[int, Capture], limits: Mapping[int, Sequence[RowLimit]]) -> tuple[RowRange, ...]:
    """Ranges side by side that have one answer are one range; one that was not asked goes with the one before it."""
    out: list[RowRange] = []
    for low, high in _ranges(limits):
        answer = _answer(asked, low, high)
        if answer is None and out:
            out[-1] = replace(out[-1], high=high, whole=False)
        elif out and answer is not None and _said(out[-1].capture) == _said(answer):
            out[-1] = replace(out[-1], high=high)
        elif answer is not None:
            out.append(RowRange(low, high, answer, ()))
    return tuple(
        replace(
            r,
            limits=(*limits.get(r.low, ()), *(limits.get(r.high + 1, ()) if r.high is not None else ())),
            cuts=tuple(cut for cut in sorted(limits) if r.low < cut and (r.high is None or cut <= r.high)),
        )
        for r in out
    )


def _said(c: Capture) -> tuple[object, ...]:
    """What an answer says, wherever in the code it comes from."""
    states = tuple((s.boundary, s.at_capture, s.rows, s.width, s.overwritten is None) for s in c.states)
    raised = c.raised[0] if c.raised is not None else None
    return states, c.width, c.rows, raised, c.question, c.unmodelled
