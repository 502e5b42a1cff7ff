"""``match`` patterns against abstract values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import builtin_models, classes, names, operators
from flowcheck.interp.heap import State
from flowcheck.interp.values import (
    UNBOUND,
    BuiltinV,
    ClassV,
    Known,
    Member,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame


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
            if t is True and answer is False:
                return True
            if t is not False:
                answer = None
                if t is True:
                    answer = True
                    break
        if answer is not False:
            bind_all(it, p, fr, st)  # by whichever of them matched
        return answer
    if p.kind == "sequence":
        return _sequence(it, p, v, fr, st)
    if p.kind == "mapping":
        return _mapping(it, p, v, fr, st)
    if p.kind == "class":
        return _class(it, p, v, fr, st)
    bind_all(it, p, fr, st)
    return None


def _all_match(
    it: Interpreter, pairs: list[tuple[ir.Pattern, Value]], certain: bool, fr: Frame, st: State
) -> bool | None:
    answer: bool | None = True if certain else None
    for child, x in pairs:
        t = matches(it, child, x, fr, st)
        if t is False:
            return False
        if t is None:
            answer = None
    return answer


def _sequence(it: Interpreter, p: ir.Pattern, v: Value, fr: Frame, st: State) -> bool | None:
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    if isinstance(v, (Known, Member)) or (obj is not None and obj.cls is None and obj.kind != "list"):
        return False
    items: list[Value] | None = None
    if isinstance(v, TupleV) or (obj is not None and obj.cls is None):
        items = operators.iterate(it, v, fr, st, None)
    stars = [i for i, c in enumerate(p.children) if c.kind == "star"]
    if items is None:
        bind_all(it, p, fr, st)
        return None
    if not stars:
        return len(items) == len(p.children) and _all_match(
            it, list(zip(p.children, items, strict=False)), True, fr, st
        )
    (i,) = stars
    tail = len(p.children) - i - 1
    if len(items) < i + tail:
        return False
    pairs = [
        *zip(p.children[:i], items[:i], strict=False),
        *zip(p.children[i + 1 :], items[len(items) - tail :], strict=False),
    ]
    answer = _all_match(it, pairs, True, fr, st)
    name = p.children[i].name
    if answer is not False and name is not None:
        names._assign_name(it, name, it.new_list(st, items[i : len(items) - tail]), fr, st, None)
    return answer


def _mapping(it: Interpreter, p: ir.Pattern, v: Value, fr: Frame, st: State) -> bool | None:
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    if isinstance(v, (Known, Member, TupleV)) or (obj is not None and obj.cls is None and obj.kind != "dict"):
        return False
    if obj is None or obj.cls is not None or obj.items is None or not obj.exact:
        bind_all(it, p, fr, st)
        return None
    keys = [it.key(it.eval(k, fr, st)) if isinstance(k, ir.Node) else None for k in p.keys]
    if None in keys or len(keys) != len(p.children):
        bind_all(it, p, fr, st)
        return None
    if any(k not in obj.items for k in keys):
        return False
    answer = _all_match(it, [(c, obj.items[k][1]) for k, c in zip(keys, p.children, strict=False)], True, fr, st)
    if answer is not False and p.name is not None:
        rest = {k: x for k, x in obj.items.items() if k not in keys}
        names._assign_name(it, p.name, it.new_dict(st, rest), fr, st, None)
    return answer


SELF_MATCHING = ("bool", "bytearray", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple")


def _class(it: Interpreter, p: ir.Pattern, v: Value, fr: Frame, st: State) -> bool | None:
    assert p.expr is not None
    c = it.eval(p.expr, fr, st)
    t = builtin_models.is_instance(it, v, c, st) if not isinstance(v, Union) else None
    if t is False:
        return False
    if not p.children:
        return t
    if isinstance(c, BuiltinV) and c.name in SELF_MATCHING and len(p.children) == 1 and p.keys in ((), (None,)):
        inner = matches(it, p.children[0], v, fr, st)
        return False if inner is False else inner if t else None
    pairs = _parts(it, p, c, v, fr, st)
    if pairs is None:
        bind_all(it, p, fr, st)
        return None
    return _all_match(it, pairs, t is True, fr, st)


def _parts(
    it: Interpreter, p: ir.Pattern, c: Value, v: Value, fr: Frame, st: State
) -> list[tuple[ir.Pattern, Value]] | None:
    """The attributes that a class pattern looks at; None when they cannot be told, or may be missing."""
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    if not isinstance(c, ClassV) or obj is None or obj.kind != "object" or len(p.keys) != len(p.children):
        return None
    order: list[str] = list(classes.record_fields(it, c)) if c.is_record else []
    own = classes.class_attr(it, c, "__match_args__", st)
    if isinstance(own, TupleV) and all(isinstance(x, Known) for x in own.items):
        order = [str(x.value) for x in own.items]  # type: ignore[attr-defined]
    pairs: list[tuple[ir.Pattern, Value]] = []
    for i, (key, child) in enumerate(zip(p.keys, p.children, strict=False)):
        name = key if isinstance(key, str) else order[i] if i < len(order) else None
        value = obj.attrs.get(name) if name is not None else None
        if value is None or UNBOUND in alternatives(value):
            return None
        pairs.append((child, value))
    return pairs


def bind_all(it: Interpreter, p: ir.Pattern, fr: Frame, st: State) -> None:
    """Binds every name of a pattern to something unknown."""
    if p.name is not None:
        names._assign_name(it, p.name, Unknown("a part of a matched value"), fr, st, None)
    for child in p.children:
        bind_all(it, child, fr, st)
