"""What a test has taught of something unknown, and a change in place makes void: its truth, its length, what it equals."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from flowcheck.interp import refine
from flowcheck.interp.heap import State
from flowcheck.interp.values import Unknown, Value, alternatives, union_of
from flowcheck.program.slicing import MUTATORS
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["by_call", "in_place"]

ASKS = frozenset({"get"})
"""Names among those of methods that change a container which are mostly those of one that is only asked."""


def by_call(it: Interpreter, e: ir.Call, callee: Value, fr: Frame, st: State) -> None:
    """A call may have been that of a method that changes what it is called on."""
    f = e.func
    if not isinstance(f, ir.Attribute) or f.attr not in MUTATORS or f.attr in ASKS:
        return
    if any(isinstance(x, Unknown) for x in alternatives(callee)):
        in_place(it, f.value, fr, st)


def in_place(it: Interpreter, e: ir.Expr, fr: Frame, st: State) -> None:
    """What the expression gives has changed: where it is something unknown, nothing of its contents is known any more,
    under whatever name."""
    found = refine.place(it, e, fr, st)
    v = found[1] if found is not None else refine.quietly(it, e, fr, st)
    for x in alternatives(v) if v is not None else ():
        if not isinstance(x, Unknown):
            continue
        if x.key is not None:
            _forget_facts(it, x.key, st)
        if x.truth is not None:
            _forget_truth(x, st)


def _forget_facts(it: Interpreter, key: Hashable, st: State) -> None:
    for facts in (st.facts, it.forced_facts):
        for known in list(facts):
            if _mentions(known, key):
                st.facts[known] = None  # neither true nor false; it hides what a restart has fixed, too


def _mentions(known: object, key: Hashable) -> bool:
    if known == key:
        return True
    if not isinstance(known, tuple) or (known[:1] == ("cmp",) and known[-1:] == (("lit", None),)):
        return False  # what is not None stays so
    return any(_mentions(x, key) for x in known if isinstance(x, tuple))


def _forget_truth(x: Unknown, st: State) -> None:
    def bare(v: Value) -> Value:
        if isinstance(v, Unknown) and v.truth is not None and v.reason == x.reason and v.key == x.key:
            return Unknown(v.reason, v.key, None, v.not_none, v.trail)
        return v

    for oid, obj in st.changed():
        for name, v in obj.attrs.items():
            options = alternatives(v) if name[0] != "@" else ()
            if any(bare(o) is not o for o in options):
                st.write(oid).attrs[name] = union_of([bare(o) for o in options])
