"""Live views of attributes: ``x.__dict__``, ``vars(x)``, ``globals()``. A view is a builtin that names its holder."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from flowcheck.interp import attributes, builtin_models, calls, names
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj, State, merge
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    BuiltinV,
    ClassV,
    Known,
    ModuleV,
    Ref,
    TupleV,
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

__all__ = ["METHODS", "contents", "delete", "is_view", "method", "put", "replace", "take", "view_of"]

NAME = "m.__dict__"
METHODS = frozenset(dir(dict))


def view_of(holder: Ref | ClassV | ModuleV) -> BuiltinV:
    """The view of a holder's attributes."""
    return BuiltinV(NAME, holder)


def is_view(v: Value) -> TypeGuard[BuiltinV]:
    """Whether a value is a view."""
    return isinstance(v, BuiltinV) and v.name == NAME


def _public(name: str) -> bool:
    return name[0] not in "#@"


def contents(it: Interpreter, v: BuiltinV, st: State) -> Ref:
    """A new dict that holds what the view shows now."""
    holder = v.self_
    ref = it.new_dict(st, None)
    made = st.write(ref.oid)
    obj = st.get(holder.oid) if isinstance(holder, Ref) else None
    if obj is None or obj.cls is None:
        return ref
    rows = {name: x for name, x in obj.attrs.items() if _public(name) and x is not UNBOUND}
    if _closed(obj) and not any(UNBOUND in alternatives(x) for x in rows.values()):
        made.items = {("k", name): (Known(name), x) for name, x in rows.items()}
    elif _closed(obj):
        made.elements = union_of([y for x in rows.values() for y in alternatives(x) if y is not UNBOUND])
    return ref


def _closed(obj: Obj) -> bool:
    """Whether the instance certainly has no attributes but those that are known."""
    return obj.kind == "object" and obj.cls is not None and not obj.cls.opaque_base and "#any" not in obj.attrs


def _entry(it: Interpreter, holder: Value | None, name: str, fr: Frame, st: State) -> tuple[Value | None, bool]:
    """What is held under ``name``, None for nothing, and whether it may be missing."""

    if isinstance(holder, ModuleV):
        v = names.global_value(it, holder.module, name, st, hook=False)
        bound = names.drop_unbound(v) if v is not None else None
        return (Unknown(f"{holder.module.name}.{name}"), True) if bound is None else (bound, bound is not v)
    if isinstance(holder, ClassV):
        v = st.obj(holder.oid).attrs.get(name)
        bound = names.drop_unbound(v) if v is not None else None
        return (Unknown(f"{holder.name}.{name}"), True) if bound is None else (bound, bound is not v)
    obj = st.get(holder.oid) if isinstance(holder, Ref) else None
    if obj is None:
        return Unknown("an attribute"), True
    v = obj.attrs.get(name)
    if v is not None:
        bound = names.drop_unbound(v)
        return bound, bound is not v
    if _closed(obj):
        return None, True
    if obj.kind in ("skeleton", "free"):
        try:
            return attributes.get(it, holder or NONE, name, fr, st), True
        except Dead:
            return None, True
    return Unknown(f"{obj.cls.name if obj.cls is not None else obj.kind}.{name}"), True


def take(it: Interpreter, v: BuiltinV, k: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
    """``view[k]``."""
    if isinstance(k, Known):
        found, may_lack = _entry(it, v.self_, str(k.value), fr, st)
        if found is None:
            it.throw("KeyError", st, e, fr)
        if may_lack:
            it.may_throw("KeyError", st, e, fr, certain=False)
        assert found is not None
        return found
    it.may_raise(st, e, fr)
    return Unknown("an attribute chosen at run time")


def put(it: Interpreter, v: BuiltinV, k: Value, x: Value, fr: Frame, st: State, e: ir.Node | None) -> None:
    """``view[k] = x``: past every hook, as Python does it."""
    keys = alternatives(k)
    before = st.fork() if len(keys) > 1 else None
    arms: list[State] = []
    for key in keys:
        arm = st if before is None else before.fork()
        _put_one(it, v.self_, key, x, fr, arm, e)
        arms.append(arm)
    if before is not None:
        st.become(merge(arms).fork())


def _put_one(
    it: Interpreter, holder: Value | None, k: Value, x: Value, fr: Frame, st: State, e: ir.Node | None
) -> None:

    site = fr.site(e) if e is not None else None
    if isinstance(k, Known):
        name = str(k.value)
        if name in it.config.tracked:
            x = it.at(x, site, f".__dict__[{name!r}] = …")
        if isinstance(holder, Ref):
            attributes.store(it, holder, name, x, st)
        elif isinstance(holder, (ClassV, ModuleV)):
            st.write(holder.oid if isinstance(holder, ClassV) else it.module_oid(holder.module)).attrs[name] = x
        return
    it.may_raise(st, e, fr)
    if isinstance(holder, Ref):
        attributes.forget(it, holder, it.at(x, site, ".__dict__[…] = …"), st)


def delete(it: Interpreter, v: BuiltinV, k: Value, fr: Frame, st: State, e: ir.Node | None) -> None:
    """``del view[k]``."""

    holder = v.self_
    for key in alternatives(k):
        if not isinstance(key, Known) or not isinstance(holder, Ref):
            it.may_raise(st, e, fr)
            if isinstance(holder, Ref):
                attributes.forget(it, holder, UNBOUND, st)
            continue
        found, may_lack = _entry(it, holder, str(key.value), fr, st)
        if found is None and key is k:
            it.throw("KeyError", st, e, fr)
        if may_lack:
            it.may_throw("KeyError", st, e, fr, certain=False)
        target = st.write(holder.oid)
        strong = key is k and target.exact
        name = str(key.value)
        target.attrs[name] = UNBOUND if strong else join(target.attrs.get(name, UNBOUND), UNBOUND)


def replace(it: Interpreter, holder: Ref, x: Value, fr: Frame, st: State, e: ir.Node | None) -> None:
    """``holder.__dict__ = x``: the two are one from here on, so that every later store may be seen in both."""

    site = fr.site(e) if e is not None else None
    given = x
    for alt in alternatives(x):
        if is_view(alt) and isinstance(alt.self_, Ref):
            attributes.forget(it, alt.self_, Unknown("shared with another object"), st)
            st.write(alt.self_.oid).exact = False
    calls.forget_container(it, given, st)
    attributes.forget(it, holder, it.at(Unknown("the attributes are replaced"), site, ".__dict__ = …"), st)
    st.write(holder.oid).exact = False


def method(
    it: Interpreter,
    v: BuiltinV,
    name: str,
    a: list[Value],
    kw: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
) -> Value:
    """A method of the dict that the view is."""

    if name in ("get", "pop", "setdefault") and a:
        default = a[1] if len(a) > 1 else NONE
        key = a[0]
        if not isinstance(key, Known):
            if name == "pop":
                delete(it, v, key, fr, st, node)
            elif name == "setdefault":
                put(it, v, key, default, fr, st, node)
            return join(default, Unknown("an attribute chosen at run time"))
        found, may_lack = _entry(it, v.self_, str(key.value), fr, st)
        if name == "get":
            return default if found is None else join(found, default) if may_lack else found
        if name == "setdefault":
            value = default if found is None else join(found, default) if may_lack else found
            if may_lack:
                put(it, v, key, value, fr, st, node)
            return value
        if found is None and len(a) > 1:
            return default
        if may_lack and len(a) < 2:
            delete(it, v, key, fr, st, node)
            return found if found is not None else default
        if isinstance(v.self_, Ref):
            target = st.write(v.self_.oid)
            old = target.attrs.get(str(key.value), UNBOUND)
            target.attrs[str(key.value)] = UNBOUND if target.exact else join(old, UNBOUND)
        assert found is not None
        return join(found, default) if may_lack else found
    if name == "update":
        given = it.new_dict(st, {})
        builtin_models.method(it, given, "update", a, kw, st, node, fr)
        obj = st.obj(given.oid)
        if obj.items is not None:
            for k, x in list(obj.items.values()):
                put(it, v, k, x, fr, st, node)
        else:
            put(it, v, Unknown("a key"), obj.elements or Unknown("a value of a mapping"), fr, st, node)
        return NONE
    if name == "__setitem__" and len(a) == 2:
        put(it, v, a[0], a[1], fr, st, node)
        return NONE
    if name == "__getitem__" and len(a) == 1:
        return take(it, v, a[0], fr, st, node)
    if name == "__delitem__" and len(a) == 1:
        delete(it, v, a[0], fr, st, node)
        return NONE
    if name in ("clear", "popitem"):
        delete(it, v, Unknown("a key"), fr, st, node)
        return NONE if name == "clear" else TupleV([Unknown("a key"), Unknown("a value of a mapping")])
    return builtin_models.method(it, contents(it, v, st), name, a, kw, st, node, fr)
