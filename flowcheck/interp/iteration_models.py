"""Builtins that go over an iterable: ``any``, ``map``, ``zip``, ``sorted``, ``next``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowcheck.interp import calls, classes, functions, operators, statements
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import State, merge
from flowcheck.interp.models import Args, Keywords, Model
from flowcheck.interp.values import (
    FALSE,
    NONE,
    BoundV,
    FuncV,
    GeneratorV,
    Known,
    Member,
    PartialV,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
    join,
    union_of,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame


def number(v: Value) -> Any:
    """The number that a value certainly is; None for anything else."""
    p = operators.plain(v)
    return p.value if isinstance(p, Known) and not isinstance(p.value, (type(None), str, bytes)) else None


def extreme_(pick: Callable[..., Any]) -> Model:
    """``max`` or ``min``."""

    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:

        items = operators.iterate(it, a[0], fr, st, node) if len(a) == 1 else list(a)
        if items is None:
            it.may_raise(st, node, fr)
            key_each(it, a[0], kw, st, node, fr)
            return Unknown(f"{pick.__name__} of an unknown number of values")
        if not items:
            if "default" in kw:
                return kw["default"]
            it.throw("ValueError", st, node, fr)
        if "key" in kw:
            order = ordered(it, items, {"key": kw["key"], "reverse": Known(pick is max)}, st, node, fr)
            if order is None:
                return union_of(items)
            return items[order[0]]
        best: list[Value] = list(alternatives(items[0]))
        for other in items[1:]:
            round_: list[Value] = []
            for p in best:
                for q in alternatives(other):
                    try:
                        round_.append(_better(it, pick, p, q, st, node, fr))
                    except Dead:
                        continue
            if not round_:
                raise Dead
            best = list(alternatives(union_of(round_)))
        return union_of(best)

    return model


def key_each(it: Interpreter, source: Value, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> None:
    """The key of every row, of which the number is not known."""
    key = kw.get("key", NONE)
    if isinstance(key, (FuncV, BoundV, PartialV, Ref, Union)):

        def one(s: State) -> None:
            calls.call(it, key, [operators.element(it, source, s)], {}, s, node, fr)

        statements.stabilise(it, st, one)


def ordered(
    it: Interpreter, items: list[Value], kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> list[int] | None:
    """The positions of ``items`` in order; None when the order is not known."""

    key = kw.get("key", NONE)
    keys = list(items)
    if not (isinstance(key, Known) and key.value is None):
        keys = [calls.call(it, key, [x], {}, st, node, fr) for x in items]
    values = [None if _orders_itself(it, x, "__lt__", st) else operators.python_value(x, st) for x in keys]
    down = operators.truth(it, kw.get("reverse", FALSE), st, fr)
    if any(v is None for v in values) or down is None:
        return None
    try:
        return sorted(range(len(items)), key=lambda i: values[i], reverse=down)  # type: ignore[arg-type,return-value]
    except TypeError:
        it.throw("TypeError", st, node, fr)
        raise AssertionError("unreachable") from None


def _orders_itself(it: Interpreter, v: Value, method: str, st: State) -> bool:
    """Whether a member of an enum is compared by code of the tree."""
    return isinstance(v, Member) and classes.class_attr(it, v.cls, method, st) is not None


def _better(
    it: Interpreter, pick: Callable[..., Any], p: Value, q: Value, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    op, method = (">", "__gt__") if pick is max else ("<", "__lt__")
    if (
        isinstance(p, Member)
        and isinstance(q, Member)
        and (_orders_itself(it, q, method, st) or not isinstance(operators.plain(q), Known))
    ):
        t = operators.truth(it, operators.compare(it, op, q, p, fr, st, node), st, fr)
        return union_of((p, q)) if t is None else q if t else p
    x, y = operators.plain(p), operators.plain(q)
    if isinstance(x, Known) and isinstance(y, Known):
        try:
            return p if pick(x.value, y.value) is x.value or pick(x.value, y.value) == x.value else q
        except TypeError:
            it.throw("TypeError", st, node, fr)
    for known, other in ((p, q), (q, p)):  # nothing exceeds the largest member of an enum, whatever the other is
        if isinstance(known, Member) and isinstance(other, Unknown):
            values = [number(m) for m in classes.enum_members(it, known.cls)]
            mine = number(known)
            if mine is not None and None not in values and mine == pick(values):
                return known
    it.may_raise(st, node, fr)
    return union_of(
        [Unknown(f"{pick.__name__} with an unknown value"), *(v for v in (p, q) if not isinstance(v, Unknown))]
    )


def any_all_(want: bool) -> Model:
    """``any`` or ``all``."""

    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        name = "any" if want else "all"
        obj = st.get(a[0].oid) if isinstance(a[0], Ref) else None
        if obj is not None and isinstance(obj.tag, functions.Lazy):
            return lazily(it, a[0], st, node, fr)
        items = operators.iterate(it, a[0], fr, st, node)
        if items is None:
            return Unknown(name)
        truths = [operators.truth(it, x, st, fr) for x in items]
        if want in truths:
            return Known(want)
        return Unknown(name) if None in truths else Known(not want)

    def lazily(it: Interpreter, ref: Value, st: State, node: ir.Node | None, fr: Frame) -> Value:

        stops: list[State] = []

        def step(v: Value, state: State) -> Value:
            t = operators.truth(it, v, state, fr)
            if t is not (not want):
                stops.append(state.fork())
            if t is want:
                raise Dead
            return NONE

        assert isinstance(ref, Ref)
        ended = True
        try:
            functions.consume(it, ref, fr, st, node, step)
        except Dead:
            ended = False
        for state in stops:
            state.write(ref.oid).items = None
        if not stops and not ended:
            raise Dead
        if stops:
            st.become(merge([*stops, st.fork()] if ended else stops).fork())
        if stops and ended:
            return Unknown("any" if want else "all")
        return Known(not want) if ended else Known(want)

    return model


def range_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``range``, called."""
    numbers = [operators.plain(x) for x in a]
    if all(isinstance(x, Known) and isinstance(x.value, int) for x in numbers):
        try:
            r = range(*[x.value for x in numbers])  # type: ignore[attr-defined]
        except (TypeError, ValueError) as error:
            it.throw(type(error).__name__, st, node, fr)
        if len(r) <= 1024:
            return TupleV([Known(i) for i in r])
    elif any(isinstance(x, Known) for x in numbers) and len(numbers) == 1:
        it.throw("TypeError", st, node, fr)
    it.may_raise(st, node, fr)
    return Unknown("a range", truth=None)


def sequence_(kind: str) -> Model:
    """``list``, ``tuple`` or ``set``."""

    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        items = operators.iterate(it, a[0], fr, st, node) if a else []
        if kind == "tuple":
            return Unknown("a tuple of unknown length") if items is None else TupleV(items)
        site = fr.site(node) if node is not None else None
        if items is None and kind == "set" and a and isinstance(a[0], Ref):
            source = st.get(a[0].oid)
            if source is not None and source.kind == "set" and source.items is not None:  # a set has no order to lose
                return it.new_list(st, list(source.items), site, kind)
        if items is None:
            ref = it.new_list(st, None, site, kind)
            element = operators.element(it, a[0], st)
            if not isinstance(element, Unknown):
                st.write(ref.oid).elements = element
            return ref
        return it.new_list(st, items, site, kind)

    return model


def dict_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``dict``, called."""
    site = fr.site(node) if node is not None else None
    ref = it.new_dict(st, {}, site)
    if a or kw:
        from flowcheck.interp.container_models import dict_update

        dict_update(it, ref, a, kw, st, node, fr)
    return ref


def enumerate_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``enumerate``, called."""
    if len(a) == 1 and not kw and operators.is_lazy(a[0], st):
        return functions.lazily(st, functions.Lazy(None, source=a[0], frame=fr, how="enumerate"))
    items = operators.iterate(it, a[0], fr, st, node)
    start = operators.plain(a[1] if len(a) > 1 else kw.get("start", Known(0)))
    if items is None or not (isinstance(start, Known) and isinstance(start.value, int)):
        ref = it.new_list(st, None, None, "iterator")
        st.write(ref.oid).elements = TupleV([Unknown("an index"), operators.element(it, a[0], st)])
        return ref
    return it.new_list(st, [TupleV([Known(start.value + i), x]) for i, x in enumerate(items)], None, "iterator")


def _row(it: Interpreter, x: Value, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    items = operators.iterate(it, x, fr, st, node)
    return TupleV(items) if items is not None else None


def zip_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``zip``, called."""
    lazy = [i for i, x in enumerate(a) if operators.is_lazy(x, st)]
    if len(lazy) == 1:
        known = [NONE if i in lazy else _row(it, x, st, node, fr) for i, x in enumerate(a)]
        if all(x is not None for x in known):
            args = (Known(lazy[0]), *(x for x in known if x is not None))
            return functions.lazily(st, functions.Lazy(None, args, source=a[lazy[0]], frame=fr, how="zip"))
    rows = [operators.iterate(it, x, fr, st, node) for x in a]
    full = [r for r in rows if r is not None]
    if len(full) < len(rows):
        ref = it.new_list(st, None, None, "iterator")
        st.write(ref.oid).elements = TupleV([operators.element(it, x, st) for x in a])
        return ref
    return it.new_list(st, [TupleV(t) for t in zip(*full, strict=False)], None, "iterator")


def map_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``map``, called."""
    if len(a) == 2:
        return functions.lazily(st, functions.Lazy(None, (a[0],), source=a[1], frame=fr, how="map"))

    rows = [operators.iterate(it, x, fr, st, node) for x in a[1:]]
    full = [r for r in rows if r is not None]
    if len(full) < len(rows) or not rows:
        return calls.unknown_call(it, Unknown("map"), a, kw, st, node, fr, "map")
    made = [calls.call(it, a[0], list(t), {}, st, node, fr) for t in zip(*full, strict=False)]
    return it.new_list(st, made, None, "iterator")


def filter_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``filter``, called."""
    if len(a) != 2:
        it.throw("TypeError", st, node, fr)
    return functions.lazily(st, functions.Lazy(None, (a[0],), source=a[1], frame=fr, how="filter"))


def sorted_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``sorted``, called."""
    items = operators.iterate(it, a[0], fr, st, node)
    if items is None and not kw:
        items = _of_set(a[0], st)
    order = ordered(it, items, kw, st, node, fr) if items is not None else None
    if items is not None and order is not None:
        return it.new_list(st, [items[i] for i in order])
    it.may_raise(st, node, fr)
    if items is None:
        key_each(it, a[0], kw, st, node, fr)
    ref = it.new_list(st, None)
    st.write(ref.oid).elements = (
        operators.element(it, a[0], st) if items is None else union_of(items) if items else None
    )
    return ref


def _of_set(v: Value, st: State) -> list[Value] | None:
    """The elements of a set, in any order: for what puts them into one of its own."""
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    return list(obj.items) if obj is not None and obj.kind == "set" and obj.items is not None else None


def reversed_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``reversed``, called."""
    items = operators.iterate(it, a[0], fr, st, node)
    ref = it.new_list(st, None if items is None else items[::-1], None, "iterator")
    if items is None:
        st.write(ref.oid).elements = operators.element(it, a[0], st)
    return ref


def sum_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``sum``, called."""
    items = operators.iterate(it, a[0], fr, st, node)
    if items is None:
        it.may_raise(st, node, fr)
        return Unknown("a sum")
    total: Value = a[1] if len(a) > 1 else kw.get("start", Known(0))
    for x in items:
        total = operators.binary(it, "+", total, x, fr, st, node)
    return total


def iter_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``iter``, called."""
    if isinstance(a[0], (GeneratorV, Unknown)) or len(a) > 1:
        return a[0] if len(a) == 1 else Unknown("an iterator")
    if isinstance(a[0], Union):
        return operators.each(
            it, [(x,) for x in a[0].items], st, lambda x, state: iter_(it, [x, *a[1:]], kw, state, node, fr)
        )
    if isinstance(a[0], Ref) and st.obj(a[0].oid).kind == "iterator":
        return a[0]
    obj = st.get(a[0].oid) if isinstance(a[0], Ref) else None
    if obj is not None and obj.cls is not None:
        m = classes.class_attr(it, obj.cls, "__iter__", st)
        if isinstance(m, FuncV):
            return calls.call(it, BoundV(m, a[0]), [], {}, st, node, fr)
    items = operators.iterate(it, a[0], fr, st, node)
    ref = it.new_list(st, items, None, "iterator")
    if items is None:
        st.write(ref.oid).elements = operators.element(it, a[0], st)
    return ref


def next_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``next``, called."""
    v = a[0]
    if isinstance(v, Union):
        return operators.each(
            it, [(x,) for x in v.items], st, lambda x, state: next_(it, [x, *a[1:]], kw, state, node, fr)
        )
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is not None and obj.kind == "iterator" and isinstance(obj.tag, functions.Lazy):
            return functions.first(it, v, fr, st, node, a[1] if len(a) > 1 else None)
        if obj is not None and obj.kind == "iterator" and obj.items is not None and not obj.exact:
            st.write(v.oid).open(())
        elif obj is not None and isinstance(obj.tag, functions.Rest):
            functions.resume(it, v, fr, st, node)
        elif obj is not None and obj.kind == "iterator" and obj.items is not None:
            if obj.items:
                return st.write(v.oid).items.pop(0)  # type: ignore[no-any-return]
            if len(a) > 1:
                return a[1]
            it.throw("StopIteration", st, node, fr)
        if obj is not None and obj.cls is not None:
            m = classes.class_attr(it, obj.cls, "__next__", st)
            if isinstance(m, FuncV):
                if len(a) < 2:
                    return calls.call(it, BoundV(m, v), [], {}, st, node, fr)
                value, ended = operators.next_of(it, v, fr, st, node)
                if ended is not None:
                    st.become(merge([ended, st.fork()] if value is not None else [ended]).fork())
                return a[1] if value is None else value if ended is None else join(value, a[1])
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    plain = obj is not None and obj.cls is not None and obj.kind == "object" and not obj.cls.opaque_base
    if (
        plain
        or isinstance(v, (Known, TupleV, Member, FuncV))
        or (obj is not None and obj.kind in ("list", "dict", "set"))
    ):
        it.throw("TypeError", st, node, fr)
    it.may_throw("StopIteration", st, node, fr, certain=False)
    element = operators.element(it, v, st)
    return element if len(a) < 2 else join(a[1], element)
