"""Captured states as plain facts, as rows of a pair and of a class hold them."""

from __future__ import annotations

from flowcheck.flow.boundaries import Captured
from flowcheck.flow.pair_facts import Reach, State

__all__ = ["state_of"]


def state_of(captured: Captured) -> State:
    """One captured state of a forward as a fact. Where an alias was written since, ``meant`` is what it held when it was kept."""
    now, then = captured.boundary, captured.at_capture
    return State(
        boundary=now.index,
        reach=Reach(now.reach.value),
        normed=now.normed,
        certain=now.certain,
        reason=now.reason,
        rows=captured.rows,
        width=captured.width,
        place=captured.appended or captured.made,
        overwritten=captured.overwritten,
        meant=then.index if captured.overwritten is not None else None,
    )
