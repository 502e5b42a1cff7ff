"""Branches that only some ranks take. Rank 0 stands for all ranks, but not in a branch that asks which rank it is.

What rank 0 alone adds to a tensor there is its part of a sum over the group; what the other ranks alone have is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp.contents import one_rank_apart
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import State, merge, merge_with
from flowcheck.interp.values import Unknown, Value, alternatives

if TYPE_CHECKING:
    from collections.abc import Hashable

    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame, Outcome
    from flowcheck.interp.trails import Site
    from flowcheck.syntax import ir

__all__ = ["by_rank", "group_of_test", "note_limit", "rank_in", "value_by_rank"]


OTHER = 1
"""The rank that stands for those that are not rank 0."""


def rank_in(group: str) -> Unknown:
    """The rank in a group: 0 where it is asked for, but known to be a rank."""
    return Unknown(f"the rank in {group}", ("rank", group))


def note_limit(limits: dict[tuple[str, str, int], Site], key: Hashable, site: Site) -> None:
    """Takes note of a comparison by its key, if it is one of a number of rows with a number."""
    if isinstance(key, tuple) and len(key) == 4 and key[0] == "cmp" and isinstance(key[2], tuple):
        _, op, left, right = key
        kind = str(left[0])
        number = right[1] if isinstance(right, tuple) and len(right) > 1 else None
        if left in (("rows",), (kind, ("rows",))) and type(number) is int:
            limits.setdefault((kind, str(op), number), site)


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
            arm.facts[("value", ("rank", group))] = OTHER
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


def value_by_rank(it: Interpreter, e: ir.IfExp, first: bool, group: str, fr: Frame, st: State) -> Value:
    """What a conditional expression gives that asks for the rank: one thing for rank 0, another one for the others."""
    states, values = [], []
    for mine in (True, False):
        arm = st.fork()
        if not mine:
            arm.facts[("value", ("rank", group))] = OTHER
        try:
            values.append(it.eval(e.body if first is mine else e.orelse, fr, arm))
        except Dead:
            if mine:
                raise
            break
        states.append(arm)
    with one_rank_apart(group):
        merged, value = merge_with(states, values)
    st.become(merged)
    return value
