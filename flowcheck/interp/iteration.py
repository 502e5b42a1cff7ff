"""What a value gives when it is gone over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flowcheck.interp import calls, classes, functions, statements, views
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj, State, merge
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    BoundV,
    ClassV,
    FuncV,
    Known,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
    union_of,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame


BIGGEST = 4096


def iterate(it: Interpreter, v: Value, fr: Frame, st: State, e: ir.Node | None) -> list[Value] | None:
    """The elements in order; None when they are not known one by one."""
    if isinstance(v, Union):
        return _iterate_union(it, v, fr, st, e)
    if isinstance(v, TupleV):
        return list(v.items)
    if isinstance(v, Known):
        if isinstance(v.value, str):
            return [Known(c) for c in v.value] if len(v.value) <= BIGGEST else None
        if isinstance(v.value, bytes):
            return [Known(c) for c in v.value] if len(v.value) <= BIGGEST else None
        it.throw("TypeError", st, e, fr)
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is None:
            return None
        if obj.cls is None or obj.kind in ("list", "dict", "set"):
            if obj.items is None:
                if obj.kind == "iterator" and obj.tag is not None:
                    if isinstance(obj.tag, functions.Lazy):
                        return functions.drain(it, v, fr, st, e)
                    functions.resume(it, v, fr, st, e)
                return None
            if obj.kind == "dict":
                return [k for k, _ in obj.items.values()]
            if obj.kind == "iterator" and not obj.exact:
                st.write(v.oid).open(())
                return None
            if obj.kind == "set" and len(obj.items) > 1:
                return None  # the order of a set is not known
            if obj.kind == "iterator":
                items = list(obj.items)
                st.write(v.oid).items = []
                return items
            return list(obj.items)

        method = classes.class_attr(it, obj.cls, "__iter__", st)
        if isinstance(method, FuncV):
            given = calls.call(it, BoundV(method, v), [], {}, st, e, fr)
            target = st.get(given.oid) if isinstance(given, Ref) else None
            if isinstance(given, Ref) and target is not None and target.cls is not None:
                return _drain_object(it, given, fr, st, e)
            return iterate(it, given, fr, st, e)
        record = record_items(it, obj)
        if record is None:
            it.may_raise(st, e, fr)
            method = classes.class_attr(it, obj.cls, "__getitem__", st)
            if isinstance(method, FuncV):  # the old protocol: from 0 on, until IndexError
                asked = BoundV(method, v)
                statements.stabilise(it, st, lambda s: void(calls.call(it, asked, [Unknown("an index")], {}, s, e, fr)))
        return record
    if isinstance(v, ClassV):
        if v.enum_kind:
            from flowcheck.interp.classes import enum_members

            return list(enum_members(it, v))

        if isinstance(v.metaclass, ClassV):
            method = classes.class_attr(it, v.metaclass, "__iter__", st)
            if isinstance(method, FuncV):
                return iterate(it, calls.call(it, BoundV(method, v), [], {}, st, e, fr), fr, st, e)
        return None
    if isinstance(v, Unknown):
        it.may_raise(st, e, fr)
    elif views.is_view(v):
        return iterate(it, views.contents(it, v, st), fr, st, e)
    return None


def is_lazy(v: Value, st: State) -> bool:
    """Whether ``v`` is a generator that has not started."""

    obj = st.get(v.oid) if isinstance(v, Ref) else None
    return obj is not None and isinstance(obj.tag, functions.Lazy)


def visit(
    it: Interpreter, v: Value, fr: Frame, st: State, e: ir.Node | None, work: Callable[[Value, State], object]
) -> None:
    """``work(element, state)`` for each element of ``v`` in order, as a loop without a body of its own does."""

    if is_lazy(v, st):

        def step(x: Value, s: State) -> Value:
            work(x, s)
            return NONE

        assert isinstance(v, Ref)
        functions.consume(it, v, fr, st, e, step)
        return
    items = iterate(it, v, fr, st, e)
    if items is not None and len(items) <= it.config.max_unroll:
        for x in items:
            work(x, st)
        return
    statements.stabilise(it, st, lambda s: void(work(element(it, v, s), s)))


def void(v: object) -> None:
    """For a call made for its effects."""


def record_items(it: Interpreter, obj: Obj) -> list[Value] | None:
    """The fields of a NamedTuple, which is a tuple too."""
    cls = obj.cls
    if (
        cls is None
        or obj.kind != "object"
        or not cls.is_record
        or "typing.NamedTuple" not in {e for b in cls.mro for e in b.external}
    ):
        return None
    from flowcheck.interp.classes import record_fields

    values = [obj.attrs.get(name, UNBOUND) for name in record_fields(it, cls)]
    return None if any(UNBOUND in alternatives(v) for v in values) else values


def next_of(it: Interpreter, v: Ref, fr: Frame, st: State, e: ir.Node | None) -> tuple[Value | None, State | None]:
    """``v.__next__()``: the value, in ``st``, and the state in which there is none; either may be missing."""
    from flowcheck.interp.statements import catches

    obj = st.get(v.oid)
    method = classes.class_attr(it, obj.cls, "__next__", st) if obj is not None and obj.cls is not None else None
    if not isinstance(method, FuncV):
        it.may_raise(st, e, fr)
        return Unknown("an element"), st.fork()
    value: Value | None = None
    it.handlers.append([])
    it.in_try += 1
    try:
        value = calls.call(it, BoundV(method, v), [], {}, st, e, fr)
    except Dead:
        pass
    finally:
        raised = it.handlers.pop()
        it.in_try -= 1
    ended: list[State] = []
    for r in raised:
        answer = catches([("StopIteration", None)], r)
        if answer is not False:
            ended.append(r.state.fork())
        if answer is not True:
            it.handlers[-1].append(r)
    return value, merge(ended).fork() if ended else None


def _drain_object(it: Interpreter, v: Ref, fr: Frame, st: State, e: ir.Node | None) -> list[Value] | None:

    out: list[Value] = []
    while len(out) <= it.config.max_unroll:
        before = st.fork()
        value, ended = next_of(it, v, fr, st, e)
        if value is not None and ended is not None:
            st.become(before)
            break
        if value is None:
            if ended is None:
                raise Dead
            st.become(ended)
            return out
        out.append(value)

    ends: list[State] = []

    def step(state: State) -> None:
        value, ended = next_of(it, v, fr, state, e)
        if ended is not None:
            ends.append(ended)
        if value is None:
            raise Dead

    statements.stabilise(it, st, step)
    if not ends:
        raise Dead
    st.become(merge(ends).fork())
    return None


def _iterate_union(it: Interpreter, v: Union, fr: Frame, st: State, e: ir.Node | None) -> list[Value] | None:

    rows: list[list[Value] | None] = []
    states: list[State] = []
    for x in v.items:
        arm = st.fork()
        try:
            row = iterate(it, x, fr, arm, e)
        except Dead:
            continue
        obj = arm.get(x.oid) if isinstance(x, Ref) else None
        if row is not None and obj is not None and obj.kind == "iterator":  # used up, but ``element`` is asked next
            assert isinstance(x, Ref)
            used = arm.write(x.oid)
            used.items = None
            used.elements = union_of(row) if row else None
        rows.append(row)
        states.append(arm)
    if not states:
        raise Dead
    st.become(merge(states).fork())
    first = rows[0]
    if first is None or any(row is None or len(row) != len(first) for row in rows):
        return None
    return [union_of(column) for column in zip(*(row for row in rows if row is not None), strict=True)]


def element(it: Interpreter, v: Value, st: State) -> Value:
    """What an element of ``v`` may be."""
    results: list[Value] = []
    for x in alternatives(v):
        if isinstance(x, TupleV) and x.items:
            results.append(union_of(x.items))
        elif isinstance(x, Ref):
            obj = st.get(x.oid)
            if obj is None or obj.cls is not None:
                results.append(Unknown("an element"))
            elif obj.kind == "tensor" and it.config.tensors is not None:
                results.append(it.config.tensors.element(it, x, st))
            elif obj.items is not None:
                values = [k for k, _ in obj.items.values()] if obj.kind == "dict" else list(obj.items)
                if values:
                    results.append(union_of(values))
            elif obj.kind != "dict" and obj.elements is not None:
                results.append(obj.elements)
            else:
                results.append(Unknown("an element"))
        elif isinstance(x, Unknown):
            results.append(Unknown(f"an element of {x.reason}"[:100]))
        elif isinstance(x, TupleV):
            continue
        else:
            results.append(Unknown("an element"))
    return union_of(results) if results else Unknown("an element of nothing")
