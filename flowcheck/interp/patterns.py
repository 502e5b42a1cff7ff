"""``match`` patterns against abstract values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import builtin_models, names, operators
from flowcheck.interp.heap import State
from flowcheck.interp.values import NONE, Known, TupleV, Ref, Unknown, Value
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Frame, Interpreter


def matches(it: Interpreter, p: ir.Pattern, v: Value, fr: Frame, st: State) -> bool | None:
    """Whether ``v`` matches, binding captures in ``st``; None when it may."""
    if p.kind == "capture":
        if p.name is not None:
            names._assign_name(it, p.name, v, fr, st, None)
        return True
    if p.kind == "as":
        t = matches(it, p.children[0], v, fr, st) if p.children else True
        if p.name is not None and t is not False:
            names._assign_name(it, p.name, v, fr, st, None)
        return t
    if p.kind in ("value", "singleton"):
        assert p.expr is not None
        c = it.eval(p.expr, fr, st)
        if p.kind == "singleton":
            return operators.identical(it, v, c, st)
        return operators.equal(it, v, c, fr, st)
    if p.kind == "or":
        answer: bool | None = False
        for child in p.children:
            t = matches(it, child, v, fr, st)
            if t is True:
                return True
            if t is None:
                answer = None
        return answer
    if p.kind == "sequence":
        return _sequence(it, p, v, fr, st)
    if p.kind == "class":
        return _class(it, p, v, fr, st)
    bind_all(it, p, fr, st)
    return None


def _sequence(it: Interpreter, p: ir.Pattern, v: Value, fr: Frame, st: State) -> bool | None:
    items = operators.iterate(it, v, fr, st, None) if isinstance(v, (TupleV, Ref)) else None
    if isinstance(v, Known):
        return False
    if items is None or any(c.kind == "star" for c in p.children):
        bind_all(it, p, fr, st)
        return None
    if len(items) != len(p.children):
        return False
    answer: bool | None = True
    for child, x in zip(p.children, items):
        t = matches(it, child, x, fr, st)
        if t is False:
            return False
        if t is None:
            answer = None
    return answer


def _class(it: Interpreter, p: ir.Pattern, v: Value, fr: Frame, st: State) -> bool | None:
    assert p.expr is not None
    c = it.eval(p.expr, fr, st)
    t = builtin_models.is_instance(it, v, c, st)
    if t is False:
        return False
    if not p.children:
        return t
    bind_all(it, p, fr, st)
    return None


def bind_all(it: Interpreter, p: ir.Pattern, fr: Frame, st: State) -> None:
    """Binds every name of a pattern to something unknown."""
    if p.name is not None:
        names._assign_name(it, p.name, Unknown("a part of a matched value"), fr, st, None)
    for child in p.children:
        bind_all(it, child, fr, st)


_ = NONE
