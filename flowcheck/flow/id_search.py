"""Which ids make a tree capture given boundaries: tried on the tree's own setter and forward, never computed by a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from flowcheck.flow.boundaries import Capture
from flowcheck.flow.pair_facts import Ids, Repair

__all__ = ["find_ids"]

Try = Callable[[tuple[int, ...]], Capture]
"""What an eager forward captures when the target is told these ids in place of the draft's."""

SHIFTS = (-1, 0, 1, -2, 2)
"""How far apart an id and its boundary may be, the likeliest first. Trees that are known have the first three."""


def find_ids(try_: Try, wanted: Sequence[int], layers: int, written: Ids = None) -> Repair:
    """Ids for ``wanted`` (ascending) on a target of so many layers; ``written`` are known not to be right."""
    goal = tuple(wanted)
    questions: list[str] = []
    for ids in _candidates(goal, layers):
        if ids == written:
            continue
        found = try_(ids)
        if _is_right(found, goal):
            return Repair(goal, ids)
        questions += [found.question] if found.question is not None else []
        questions += [state.boundary.reason for state in found.states if not state.boundary.certain]
    if questions:
        return Repair(goal, (), questions[0], certain=False)
    return Repair(goal, (), _why_not(try_, goal, layers))


def _candidates(goal: tuple[int, ...], layers: int) -> Iterator[tuple[int, ...]]:
    seen: set[tuple[int, ...]] = set()
    for shift in SHIFTS:
        ids = tuple(each + shift for each in goal)
        if ids and min(ids) >= -1 and max(ids) <= layers and ids not in seen:
            seen.add(ids)
            yield ids


def _is_right(found: Capture, goal: tuple[int, ...]) -> bool:
    certain = found.question is None and all(state.boundary.certain for state in found.states)
    return certain and found.raised is None and found.boundaries == goal


def _why_not(try_: Try, goal: tuple[int, ...], layers: int) -> str:
    """What keeps the boundaries from being captured: those that are missing when the tree is asked for every layer."""
    for last in (layers, layers - 1):
        every = try_(tuple(range(last)))
        if every.question is not None:
            return every.question
        if every.raised is None:
            break
    else:
        return f"the setter raises {every.raised[0]}" if every.raised is not None else "nothing is captured"
    captured = set(every.boundaries)
    missing = [each for each in goal if each not in captured]
    if missing:
        spelled = ", ".join(map(str, missing))
        return (
            f"boundary {spelled} is captured for no id" if len(missing) == 1 else f"{spelled} are captured for no ids"
        )
    return f"each of them can be captured, but no ids that differ by up to {max(SHIFTS)} give exactly these"
