"""``c[k]``: taking, storing and deleting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowcheck.interp import calls, classes, documents, views
from flowcheck.interp.confined import drop_entry, entry_of, store_entry
from flowcheck.interp.heap import Obj, State, merge
from flowcheck.interp.iteration import element, record_items
from flowcheck.interp.truth import each, need_hash, plain
from flowcheck.interp.values import (
    NONE,
    BoundV,
    BuiltinV,
    ClassV,
    ExternalV,
    FuncV,
    Known,
    Member,
    Ref,
    Slice,
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


def take(it: Interpreter, c: Value, k: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
    """``c[k]``."""
    if isinstance(c, Union) or isinstance(k, Union):
        pairs: list[tuple[Value, ...]] = [(x, y) for x in alternatives(c) for y in alternatives(k)]
        return each(it, pairs, st, lambda x, y, state: take(it, x, y, fr, state, e))
    p = plain(k)
    if isinstance(c, TupleV) or (isinstance(c, Known) and isinstance(c.value, (str, bytes))):
        items: Any = c.items if isinstance(c, TupleV) else c.value
        if isinstance(p, Known) and isinstance(p.value, int):
            if -len(items) <= p.value < len(items):
                x = items[p.value]
                return x if isinstance(c, TupleV) else Known(x)
            it.throw("IndexError", st, e, fr)
        if isinstance(p, Known):
            it.throw("TypeError", st, e, fr)
        it.may_raise(st, e, fr)
        if isinstance(c, TupleV) and c.items:
            return union_of(c.items)
        return Unknown("an element")
    if isinstance(c, Known):
        it.throw("TypeError", st, e, fr)
    if isinstance(c, ExternalV) and c.name == "sys.modules" and isinstance(p, Known) and isinstance(p.value, str):
        return it.module_value(p.value)
    if isinstance(c, Ref):
        obj = st.get(c.oid)
        if obj is None:
            return Unknown("an element")
        if obj.cls is not None and obj.kind != "list":
            return _take_object(it, c, obj, k, fr, st, e)
        if obj.kind == "tensor" and it.config.tensors is not None:
            return it.config.tensors.taken(it, c, k, fr, st, e)
        if obj.kind == "dict":
            return _take_dict(it, c, obj, k, fr, st, e)
        if obj.kind == "list":
            if obj.items is None:
                it.may_raise(st, e, fr)
                return obj.elements if obj.elements is not None else Unknown("an element")
            if isinstance(p, Known) and isinstance(p.value, int):
                if -len(obj.items) <= p.value < len(obj.items):
                    return obj.items[p.value]  # type: ignore[no-any-return]
                it.throw("IndexError", st, e, fr)
            if isinstance(p, (Known, TupleV)):
                it.throw("TypeError", st, e, fr)
            it.may_raise(st, e, fr)
            return union_of(obj.items) if obj.items else Unknown("an element")
        it.throw("TypeError", st, e, fr)
    if isinstance(c, ClassV):
        return _take_class(it, c, k, fr, st, e)
    if isinstance(c, (BuiltinV, ExternalV)):
        if views.is_view(c):
            return views.take(it, c, k, fr, st, e)
        return c  # list[int], Optional[X]: a type
    it.may_raise(st, e, fr)
    if isinstance(c, Unknown):
        reason = f"{c.reason}[…]"
        if c.key is not None and isinstance(p, Known):
            try:
                hash(p.value)
                return Unknown(reason[:100], ("item", c.key, ("lit", p.value)))
            except TypeError:
                pass
        return Unknown(reason[:100])
    return Unknown("an element")


def _take_object(it: Interpreter, c: Ref, obj: Obj, k: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:

    assert obj.cls is not None
    method = classes.class_attr(it, obj.cls, "__getitem__", st)
    if isinstance(method, FuncV):
        return calls.call(it, BoundV(method, c), [k], {}, st, e, fr)
    record = record_items(it, obj)
    if record is not None:
        return take(it, TupleV(record), k, fr, st, e)
    it.may_raise(st, e, fr)
    return Unknown(f"an element of {obj.cls.name}")


def _take_class(it: Interpreter, c: ClassV, k: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
    from flowcheck.interp.classes import enum_members

    if c.enum_kind:
        members = enum_members(it, c)
        if isinstance(k, Known):
            for m in members:
                if m.name == k.value:
                    return it.at(m, fr.site(e) if e is not None else None, f"{c.name}[{k.value!r}]")
            alias = classes.class_attr(it, c, str(k.value), st)
            if isinstance(alias, Member):
                return alias
            it.throw("KeyError", st, e, fr)
        it.may_raise(st, e, fr)
        return union_of(members) if members else Unknown("a member")
    if isinstance(c.metaclass, ClassV):
        method = classes.class_attr(it, c.metaclass, "__getitem__", st)
        if isinstance(method, FuncV):
            return calls.call(it, BoundV(method, c), [k], {}, st, e, fr)
    return c  # Generic[T]


def _take_dict(it: Interpreter, c: Ref, obj: Obj, k: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:

    key = it.key(k)
    need_hash(it, k, fr, st, e)
    if it.config.on_key is not None:
        documents.asked(it, c.oid, k, fr, e)
    if obj.items is None:
        entry = entry_of(obj, key)
        if entry is not None:
            return entry
        it.may_raise(st, e, fr)
        known = obj.elements if obj.elements is not None else Unknown("a value of a mapping")
        if obj.default is None:
            return known
        before = st.fork()
        value = calls.call(it, obj.default, [], {}, st, e, fr)
        st.write(c.oid).open([value])
        st.become(merge([before, st.fork()]))
        return join(known, value)
    if key is None:
        if not obj.items and obj.default is None:
            it.throw("KeyError", st, e, fr)
        it.may_throw("KeyError", st, e, fr)
        values: list[Value] = [v for _, v in obj.items.values()]
        if obj.default is not None:
            before = st.fork()
            value = calls.call(it, obj.default, [], {}, st, e, fr)
            values.append(value)
            st.write(c.oid).open([value])
            st.become(merge([before, st.fork()]))
        return union_of(values) if values else Unknown("a value of a mapping")
    if key in obj.items:
        return obj.items[key][1]  # type: ignore[no-any-return]
    if obj.default is not None:
        value = calls.call(it, obj.default, [], {}, st, e, fr)
        target = st.write(c.oid)
        if target.items is not None and target.exact:
            target.items[key] = (k, value)
        else:
            target.open([value])
        return value
    it.throw("KeyError", st, e, fr)
    raise AssertionError("unreachable")


def take_slice(it: Interpreter, c: Value, bounds: list[Value], fr: Frame, st: State, e: ir.Node) -> Value:
    """``c[a:b:c]``."""
    if isinstance(c, Union):
        return union_of([take_slice(it, x, bounds, fr, st, e) for x in c.items])
    numbers = [plain(b) for b in bounds]
    exact = all(isinstance(b, Known) and (b.value is None or isinstance(b.value, int)) for b in numbers)
    cut = slice(*[b.value for b in numbers]) if exact else None  # type: ignore[attr-defined]
    if cut is not None and cut.step == 0:
        it.throw("ValueError", st, e, fr)
    if isinstance(c, TupleV):
        return TupleV(c.items[cut]) if cut is not None else Unknown("a slice")
    if isinstance(c, Known) and isinstance(c.value, (str, bytes)):
        return Known(c.value[cut]) if cut is not None else Unknown("a slice")
    if isinstance(c, Ref):
        obj = st.get(c.oid)
        if obj is not None and obj.cls is None and obj.kind == "list":
            if cut is not None and obj.items is not None:
                return it.new_list(st, obj.items[cut], fr.site(e))
            ref = it.new_list(st, None, fr.site(e))
            st.write(ref.oid).elements = element(it, c, st)
            return ref
        if obj is not None and obj.kind == "tensor" and it.config.tensors is not None:
            return it.config.tensors.taken(it, c, Slice(tuple(bounds)), fr, st, e)
        if obj is not None and obj.cls is not None:
            return _take_object(it, c, obj, Unknown("slice"), fr, st, e)
    it.may_raise(st, e, fr)
    return Unknown("a slice")


def put(it: Interpreter, c: Value, k: Value, v: Value, fr: Frame, st: State, e: ir.Node | None) -> None:
    """``c[k] = v``."""

    if isinstance(c, Union):

        def arm(x: Value) -> Callable[[State], Value]:
            def thunk(state: State) -> Value:
                put(it, x, k, v, fr, state, e)
                return NONE

            return thunk

        it.both(st, [(st.fork(), arm(x)) for x in c.items])
        return
    if not isinstance(c, Ref):
        if views.is_view(c):
            views.put(it, c, k, v, fr, st, e)
            return
        if isinstance(c, (Known, TupleV, Member, FuncV, BoundV)):
            it.throw("TypeError", st, e, fr)
        it.may_raise(st, e, fr)
        if isinstance(c, ClassV) and isinstance(c.metaclass, ClassV):
            method = classes.class_attr(it, c.metaclass, "__setitem__", st)
            if isinstance(method, FuncV):
                calls.call(it, BoundV(method, c), [k, v], {}, st, e, fr)
        return
    obj = st.get(c.oid)
    if obj is None:
        return
    if obj.cls is not None:
        method = classes.class_attr(it, obj.cls, "__setitem__", st)
        if isinstance(method, FuncV):
            calls.call(it, BoundV(method, c), [k, v], {}, st, e, fr)
        else:
            it.may_raise(st, e, fr)
        return
    if obj.kind == "tensor" and it.config.tensors is not None:
        it.config.tensors.stored(it, c, k, v, fr, st, e)
        return
    if obj.kind == "dict":
        need_hash(it, k, fr, st, e)
    obj = st.write(c.oid)
    if obj.kind == "dict":
        key = it.key(k)
        if obj.items is None or key is None:
            store_entry(obj, key, v, st)
        elif obj.exact:
            old = obj.items.get(key)
            obj.items[key] = (k if old is None else old[0], v)
        elif key in obj.items:
            obj.items[key] = (obj.items[key][0], join(obj.items[key][1], v))
        else:
            obj.open([v])
    elif obj.kind == "list":
        p = plain(k)
        if isinstance(p, (Known, TupleV)) and not (isinstance(p, Known) and isinstance(p.value, int)):
            it.throw("TypeError", st, e, fr)
        if obj.items is None:
            it.may_raise(st, e, fr)
            obj.open([v])
        elif isinstance(p, Known):
            if not -len(obj.items) <= p.value < len(obj.items):
                it.throw("IndexError", st, e, fr)
            obj.items[p.value] = v if obj.exact else join(obj.items[p.value], v)
        else:
            it.may_raise(st, e, fr)
            size = len(obj.items)
            obj.items = [join(old, v) for old in obj.items] if size <= 64 else obj.items
            if size > 64:
                obj.open([v])
    else:
        it.throw("TypeError", st, e, fr)


def delete_item(it: Interpreter, c: Value, k: Value, fr: Frame, st: State, e: ir.Node | None) -> None:
    """``del c[k]``."""

    if isinstance(c, Union):

        def arm(x: Value) -> Callable[[State], Value]:
            def thunk(state: State) -> Value:
                delete_item(it, x, k, fr, state, e)
                return NONE

            return thunk

        it.both(st, [(st.fork(), arm(x)) for x in c.items])
        return
    if isinstance(c, (Known, TupleV, Member)):
        it.throw("TypeError", st, e, fr)
    if views.is_view(c):
        views.delete(it, c, k, fr, st, e)
        return
    obj = st.get(c.oid) if isinstance(c, Ref) else None
    if obj is None or obj.cls is not None:
        it.may_raise(st, e, fr)
        method = classes.class_attr(it, obj.cls, "__delitem__", st) if obj is not None and obj.cls is not None else None
        if isinstance(method, FuncV):
            calls.call(it, BoundV(method, c), [k], {}, st, e, fr)
        return
    assert isinstance(c, Ref)
    key = it.key(k)
    obj = st.write(c.oid)
    if obj.kind == "dict" and obj.items is not None and key is not None and obj.exact:
        if key not in obj.items:
            it.throw("KeyError", st, e, fr)
        del obj.items[key]
        return
    if obj.kind == "dict" and obj.items is None:
        if entry_of(obj, key) is None:
            it.may_raise(st, e, fr)
        drop_entry(obj, key)
        return
    p = plain(k)
    if obj.kind == "list" and obj.items is not None and isinstance(p, Known) and isinstance(p.value, int) and obj.exact:
        if not -len(obj.items) <= p.value < len(obj.items):
            it.throw("IndexError", st, e, fr)
        del obj.items[p.value]
        return
    it.may_raise(st, e, fr)
    obj.open([])
