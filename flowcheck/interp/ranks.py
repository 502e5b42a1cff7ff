"""Branches that only some ranks take. Rank 0 stands for all ranks, but not in a branch that asks which rank it is.

What rank 0 alone adds to a tensor there is its part of a sum over the group; what the other ranks alone have is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp.contents import one_rank_apart
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import State, merge
from flowcheck.interp.values import Unknown, Value, alternatives

if TYPE_CHECKING:
    from collections.abc import Hashable

    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame, Outcome
    from flowcheck.syntax import ir

__all__ = ["by_rank", "group_of_test", "rank_in"]


def rank_in(group: str) -> Unknown:
    """The rank in a group: 0 where it is asked for, but known to be a rank."""
    return Unknown(f"the rank in {group}", ("rank", group))


def group_of_test(v: Value) -> str | None:
    """The group whose rank a test asks for; None for any other test."""
    for x in alternatives(v):
        found = _rank_in_key(x.key) if isinstance(x, Unknown) else None
        if found is not None:
            return found
    return None


def _rank_in_key(key: Hashable) -> str | None:
    if not isinstance(key, tuple):
        return None
    if len(key) == 2 and key[0] == "rank":
        return str(key[1])
    return next((found for part in key if (found := _rank_in_key(part)) is not None), None)


def by_rank(it: Interpreter, s: ir.If, first: bool, group: str, fr: Frame, st: State) -> list[Outcome]:
    """Runs an ``if`` that asks for the rank: rank 0 takes the body where ``first``, the other ranks take the other one.

    Where either does not simply go on, rank 0 stands for all, as elsewhere.
    """
    arms: list[list[Outcome]] = []
    for mine in (True, False):
        arm = st.fork()
        if not mine:
            arm.facts[("value", ("rank", group))] = 1
        try:
            arms.append(it.exec_block(s.body if first is mine else s.orelse, fr, arm))
        except Dead:
            if mine:
                raise
            return arms[0]
    if any(len(arm) != 1 or arm[0][0] != "n" for arm in arms):
        return arms[0]
    with one_rank_apart(group):
        return [("n", merge([arms[0][0][1], arms[1][0][1]]), None)]
