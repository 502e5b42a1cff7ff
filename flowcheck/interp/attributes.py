"""Attributes: reading, writing and deleting them on every kind of value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flowcheck.interp import (
    calls,
    classes,
    dispatch_models,
    documents,
    elsewhere,
    managers,
    names,
    observed,
    operators,
    skeletons,
    super_attributes,
    torch_modules,
    views,
)
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.stores import CONTAINER_NAMES, delete, descriptor, forget, set_, set_past_hook, store
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    BoundV,
    BuiltinV,
    ClassV,
    ExternalV,
    FieldSpec,
    FuncV,
    GeneratorV,
    Known,
    Member,
    ModuleV,
    PartialV,
    Ref,
    SuperV,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
    join,
    union_of,
)
from flowcheck.program.callgraph import EdgeKind
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = [
    "RECORD_METHODS", "bind", "calls_method", "delete", "descriptor", "forget", "get", "get_or", "plain_get", "set_",
    "set_past_hook", "store",
]  # fmt: skip

BUILTIN_TYPES = ("dict", "str", "int", "list", "object", "set", "tuple", "bytes", "float", "frozenset", "type", "bool")


def get(
    it: Interpreter,
    b: Value,
    name: str,
    fr: Frame,
    st: State,
    node: ir.Node | None = None,
    default: Value | None = None,
) -> Value:
    """``b.name``; with ``default``, ``getattr(b, name, default)``."""

    if isinstance(b, Union):
        if len(b.items) > 1 and any(_runs_code(it, x, name, st) for x in b.items):

            def arm(x: Value) -> Callable[[State], Value]:
                return lambda state: get(it, x, name, fr, state, node, default)

            return it.both(st, [(st.fork(), arm(x)) for x in b.items])
        results: list[Value] = []
        for x in b.items:
            try:
                results.append(get(it, x, name, fr, st, node, default))
            except Dead:
                continue
        if not results:
            raise Dead
        return union_of(results)
    if isinstance(b, Ref):
        return _of_object(it, b, name, fr, st, node, default)
    if isinstance(b, Unknown):
        return _of_unknown(it, b, name, fr, st, node, default)
    if isinstance(b, Member):
        return _of_member(it, b, name, fr, st, node, default)
    if isinstance(b, ClassV):
        return _of_class(it, b, name, fr, st, node, default)
    if isinstance(b, ModuleV):
        if name == "__dict__":
            return views.view_of(b)
        v = names.global_value(it, b.module, name, st)
        v = names.drop_unbound(v) if v is not None else None
        if v is not None:
            return v
        if default is not None:
            return default
        it.may_raise(st, node, fr)
        return Unknown(f"{b.module.name}.{name}")
    if isinstance(b, ExternalV):
        return calls.external_attr(it, b, name)
    if isinstance(b, SuperV):
        return super_attributes.of_super(it, b, name, fr, st, node)
    if isinstance(b, (Known, TupleV)):
        value = b.value if isinstance(b, Known) else b.items
        if not hasattr(value, name):
            if default is not None:
                return default
            it.throw("AttributeError", st, node, fr)
        return BuiltinV("m." + name, b)
    if isinstance(b, BuiltinV) and name == "__name__" and "." not in b.name:
        return Known(b.name)
    if isinstance(b, BuiltinV) and b.name in BUILTIN_TYPES:
        return Known(b.name) if name == "__name__" else BuiltinV(f"t.{b.name}.{name}")
    if isinstance(b, FuncV):
        if name in ("__name__", "__qualname__"):
            return Known(b.name if name == "__name__" else b.qualname)
        part = _of_property(b, name) if b.kind == "property" else None
        if part is not None:
            return part
        return default if default is not None else Unknown(f"{b.name}.{name}")
    if views.is_view(b) and name in views.METHODS:
        return BuiltinV("view." + name, b)
    if isinstance(b, BoundV) and name in ("__func__", "__self__"):
        return b.func if name == "__func__" else b.self_
    if isinstance(b, PartialV) and name in ("func", "args", "keywords"):
        if name == "keywords":  # a copy: what is written into it does not reach the partial
            return it.new_dict(st, {("k", k): (Known(k), v) for k, v in b.keywords.items()})
        return b.func if name == "func" else TupleV(b.args)
    if isinstance(b, GeneratorV):
        return BuiltinV("m." + name, b)
    if default is not None:
        return join(default, Unknown(f"attribute {name}"))
    it.may_raise(st, node, fr)
    return Unknown(f"attribute {name}")


def _of_property(b: FuncV, name: str) -> Value | None:
    """``fget``, ``fset`` and ``fdel`` of a property."""
    if name in ("fset", "fdel", "__set__", "__delete__"):
        return (b.setter if name in ("fset", "__set__") else b.deleter) or (NONE if name[0] == "f" else None)
    if name in ("fget", "__get__"):
        return FuncV(b.node, b.module, b.env, b.owner, b.cls, b.defaults)
    return None


def _runs_code(it: Interpreter, b: Value, name: str, st: State) -> bool:
    """Whether reading ``b.name`` may run code of the tree."""
    if isinstance(b, Ref):
        obj = st.get(b.oid)
        if obj is None or obj.cls is None:
            return False
        cv = classes.class_attr(it, obj.cls, name, st)
        if isinstance(cv, FuncV):
            return cv.kind in ("property", "cached")
        if isinstance(cv, Ref):
            return True
        if cv is not None or (name in obj.attrs and UNBOUND not in alternatives(obj.attrs[name])):
            return False
        return obj.kind == "object" and classes.class_attr(it, obj.cls, "__getattr__", st) is not None
    if isinstance(b, Member):
        cv = classes.class_attr(it, b.cls, name, st)
        return isinstance(cv, FuncV) and cv.kind in ("property", "cached")
    return isinstance(b, ClassV) and isinstance(b.metaclass, ClassV)


def get_or(
    it: Interpreter, b: Value, name: str, default: Value, fr: Frame, st: State, node: ir.Node | None = None
) -> Value:
    """``getattr(b, name, default)``: what a getter raises is the default too, if it is an AttributeError."""
    if not any(_runs_code(it, x, name, st) for x in alternatives(b)):
        return get(it, b, name, fr, st, node, default)
    from flowcheck.interp.heap import merge
    from flowcheck.interp.statements import catches

    v: Value | None = None
    it.handlers.append([])
    it.in_try += 1
    try:
        v = get(it, b, name, fr, st, node, default)
    except Dead:
        pass
    finally:
        raised = it.handlers.pop()
        it.in_try -= 1
    caught: list[State] = []
    for r in raised:
        answer = catches([("AttributeError", None)], r)
        if answer is not False:
            caught.append(r.state.fork())
        if answer is not True:
            it.handlers[-1].append(r)
    if not caught:
        if v is None:
            raise Dead
        return v
    if v is not None:
        caught.append(st.fork())
    st.become(merge(caught).fork())
    return default if v is None else join(v, default)


def _of_unknown(
    it: Interpreter, b: Unknown, name: str, fr: Frame, st: State, node: ir.Node | None, default: Value | None
) -> Value:
    reason = f"{b.reason}.{name}"[-120:]
    key = ("attr", b.key, name) if b.key is not None else None
    setting = it.config.settings.get(name)
    if setting is not None and calls.of_bag(b.key):
        return setting
    fixed = it.config.keyed.get(reason) if it.config.keyed else None
    if fixed is None and it.config.keyed:
        dotted = reason
        while fixed is None and "." in dotted:
            dotted = dotted.split(".", 1)[1]
            if "." not in dotted:
                break
            fixed = it.config.keyed.get(dotted)
    if fixed is not None:
        return fixed
    v = Unknown(reason, key)
    if default is not None:
        return v if isinstance(default, Unknown) else join(default, v)
    it.may_raise(st, node, fr)
    return v


def _of_member(
    it: Interpreter, b: Member, name: str, fr: Frame, st: State, node: ir.Node | None, default: Value | None
) -> Value:
    v = classes.class_attr(it, b.cls, name, st)
    if name in ("value", "_value_") and not isinstance(v, FuncV):
        return b.value
    if name in ("name", "_name_") and not isinstance(v, FuncV):
        return Known(b.name)
    if isinstance(v, FuncV):
        return bind(it, v, b, b.cls, fr, st, node)
    if v is not None:
        return _bind_each(it, v, b, b.cls, fr, st, node)
    if name == "__class__":
        return b.cls
    if isinstance(b.value, Known) and b.cls.enum_kind in ("IntEnum", "IntFlag", "StrEnum"):
        return get(it, b.value, name, fr, st, node, default)
    if any(isinstance(classes.class_attr(it, b.cls, n, st), FuncV) for n in ("__init__", "__new__", "__getattr__")):
        it.may_raise(st, node, fr)
        v = Unknown(f"{b.cls.name}.{b.name}.{name}")
        return v if default is None else join(default, v)
    if default is not None:
        return default
    it.throw("AttributeError", st, node, fr)
    raise AssertionError("unreachable")


def _of_class(
    it: Interpreter, b: ClassV, name: str, fr: Frame, st: State, node: ir.Node | None, default: Value | None
) -> Value:
    if name == "__dict__":
        return views.view_of(b)
    v = classes.class_attr(it, b, name, st)
    if v is None:
        if name in ("__name__", "__qualname__"):
            return Known(b.name if name == "__name__" else b.qualname)
        if name == "__module__":
            return Known(b.module.name)
        if name == "__members__" and b.enum_kind:
            return it.new_dict(st, {("k", m.name): (Known(m.name), m) for m in classes.enum_members(it, b)})
        if name == "__mro__":
            return TupleV([*b.mro, BuiltinV("object")])
        if name == "__bases__":
            return TupleV(b.bases)
        if name == "__doc__":
            return Unknown("a docstring")
        if isinstance(b.metaclass, ClassV):
            meta = classes.class_attr(it, b.metaclass, name, st)
            if isinstance(meta, FuncV):
                return bind(it, meta, b, b.metaclass, fr, st, node)
            if meta is not None:
                return meta
            hook = classes.class_attr(it, b.metaclass, "__getattr__", st)
            if isinstance(hook, FuncV):
                return calls.call(it, BoundV(hook, b), [Known(name)], {}, st, node, fr)
        if name == "__init__" and classes.is_made_record(b):
            return PartialV(BuiltinV(classes.RECORD_INIT), (b,), {})
        if name == "__new__" and not b.opaque_base and not b.external and b.enum_kind is None:
            return BuiltinV("t.object.__new__")
        if name in ("__init__", "__new__", "__subclasses__", "__eq__", "__hash__", "__repr__", "mro", "__call__"):
            return Unknown(f"{b.name}.{name}")
        if name in OF_OBJECT:
            return BuiltinV("t.object." + name)
        if hasattr(type, name):
            return Unknown(f"{b.name}.{name}")
        if not b.opaque_base:
            if default is not None:
                return default
            if b.enum_kind is None:
                it.throw("AttributeError", st, node, fr)
        it.may_raise(st, node, fr)
        missing = Unknown(f"{b.name}.{name}")
        return missing if default is None else join(default, missing)
    if isinstance(v, FuncV):
        if v.kind == "class":
            return BoundV(v, b)
        return v
    if isinstance(v, Member) and node is not None and v.trail is None:
        return it.at(v, fr.site(node), f"{b.name}.{name}")
    if isinstance(v, FieldSpec):
        return v.default if v.default is not None else Unknown(f"the field {b.name}.{name}")

    if isinstance(v, Ref):
        held = st.get(v.oid)
        if held is not None and held.kind == dispatch_models.KIND and held.tag:
            return Unknown(f"{b.name}.{name}, which is chosen by type")
        reader = descriptor(it, v, "__get__", st)
        if reader is not None:
            return calls.call(it, reader, [NONE, b], {}, st, node, fr)
    bound = names.drop_unbound(v)
    if isinstance(bound, Union):
        bound = union_of([BoundV(x, b) if isinstance(x, FuncV) and x.kind == "class" else x for x in bound.items])
    return elsewhere.joined(it, b, name, bound, False, fr) if bound is not None else Unknown(f"{b.name}.{name}")


def _bind_each(
    it: Interpreter, v: Value, self_: Value, cls: ClassV, fr: Frame, st: State, node: ir.Node | None
) -> Value:
    """What an instance sees of a class attribute that may be one of several functions."""
    if not isinstance(v, Union) or not any(isinstance(x, FuncV) for x in v.items):
        return v
    arms: list[tuple[State, Callable[[State], Value]]] = [
        (st.fork(), lambda s, x=x: bind(it, x, self_, cls, fr, s, node) if isinstance(x, FuncV) else x)  # type: ignore[misc]
        for x in v.items
        if x is not UNBOUND
    ]
    return it.both(st, arms)


def bind(it: Interpreter, v: FuncV, self_: Value, cls: ClassV, fr: Frame, st: State, node: ir.Node | None) -> Value:
    """A function found on a class, as an instance sees it."""
    if v.kind == "static":
        return v
    if v.kind == "class":
        return BoundV(v, cls)
    if v.kind in ("property", "cached"):
        return calls.call(it, v, [self_], {}, st, node, fr, attribute=True)
    return BoundV(v, self_)


def _of_object(
    it: Interpreter, b: Ref, name: str, fr: Frame, st: State, node: ir.Node | None, default: Value | None
) -> Value:

    obj = st.get(b.oid)
    if obj is None:
        return Unknown("an object that is gone")
    if it.config.on_key is not None and documents.is_document(obj):
        documents.asked(it, b.oid, name, fr, node)
    if obj.cls is None:
        if obj.kind == "tensor" and it.config.tensors is not None:
            return it.config.tensors.attribute(it, b, obj, name, default, fr, st, node)
        if obj.kind == "variable" and name in ("get", "set", "reset"):
            return BuiltinV("module." + name, b)
        if obj.kind in CONTAINER_NAMES:
            if name in CONTAINER_NAMES[obj.kind]:
                return BuiltinV("m." + name, b)
            if default is not None:
                return default
            it.throw("AttributeError", st, node, fr)
        if obj.tag == managers.STACK and name in managers.METHODS:
            return BuiltinV("m." + name, b)
        if obj.kind == dispatch_models.KIND:
            if name in dispatch_models.NAMES:
                return BuiltinV("dispatch." + name, b)
            if name == "__wrapped__" and obj.default is not None:
                return obj.default
        if obj.kind == "leaf":
            leaf = BuiltinV("leaf." + name, b)
            return leaf if default is None else join(default, leaf)
        v = obj.attrs.get(name)
        if v is not None:
            return names.drop_unbound(v) or Unknown(f"attribute {name}")
        if documents.is_document(obj):
            return documents.attribute(it, b.oid, obj, name, fr, st, node, default)
        if default is not None:
            return join(default, Unknown(f"attribute {name}"))
        it.may_raise(st, node, fr)
        return Unknown(f"attribute {name}")
    if name in it.config.tracked:
        observed.touched(it, obj.cls, name, EdgeKind.READS, node, fr)
    if it.hooked_reads and obj.kind == "object":
        reader = classes.class_attr(it, obj.cls, "__getattribute__", st)
        if isinstance(reader, FuncV):
            return calls.call(it, BoundV(reader, b), [Known(name)], {}, st, node, fr)
    return plain_get(it, b, obj, name, fr, st, node, default)


def plain_get(
    it: Interpreter,
    b: Ref,
    obj: Obj,
    name: str,
    fr: Frame,
    st: State,
    node: ir.Node | None,
    default: Value | None = None,
) -> Value:
    """``object.__getattribute__(b, name)`` of an instance of a class of the tree."""

    assert obj.cls is not None
    if name == "__class__":
        return obj.cls
    if name == "__dict__":
        return views.view_of(b)
    if obj.kind in ("skeleton", "free"):
        rule = _rule(it, obj.cls, name)
        if rule is not None and name not in obj.attrs:
            found: Value | None = rule(it, b, obj) if callable(rule) else rule
            if found is not None:
                return found
    cv = classes.class_attr(it, obj.cls, name, st)
    if isinstance(cv, FuncV) and cv.kind == "property":
        return bind(it, cv, b, obj.cls, fr, st, node)
    if isinstance(cv, Ref) and descriptor(it, cv, "__set__", st) is not None:
        reader = descriptor(it, cv, "__get__", st)
        if reader is not None:
            return calls.call(it, reader, [b, obj.cls], {}, st, node, fr)
    v = obj.attrs.get(name)
    may_lack = False
    if v is not None:
        if it.config.lasting and obj.kind in ("skeleton", "object"):
            v = _since(it, b, name, v, fr)
        bound = names.drop_unbound(v)
        may_lack = bound is not v
        if bound is not None and not may_lack:
            return bound
        v = bound
    if isinstance(cv, FuncV) and cv.kind == "cached":
        cls = obj.cls
        if v is not None:
            return it.both(
                st, [(st.fork(), lambda s: v), (st.fork(), lambda s: _cache(it, b, name, cv, cls, fr, s, node))]
            )
        return _cache(it, b, name, cv, cls, fr, st, node)
    if v is not None:  # on some paths the instance holds it: only the others look further
        from flowcheck.interp.heap import merge

        other = st.fork()
        try:
            rest = _beyond_instance(it, b, obj, cv, name, fr, other, node, default, may_lack)
        except Dead:
            return v
        st.become(merge([st.fork(), other]).fork())
        return v if rest is None else join(v, rest)
    rest = _beyond_instance(it, b, obj, cv, name, fr, st, node, default, False)
    if rest is None:
        raise Dead
    return rest


def _since(it: Interpreter, b: Ref, name: str, v: Value, fr: Frame) -> Value:
    """``v``, which the instance holds, and what code that is not followed may have stored there since."""
    base = it.base.objects.get(b.oid)
    if base is None or it.eager_depth:
        return v
    on_path = base.attrs.get(name) is not v
    return v if on_path and it.in_base else elsewhere.joined(it, b, name, v, on_path, fr)


def _cache(
    it: Interpreter, b: Ref, name: str, f: FuncV, cls: ClassV, fr: Frame, st: State, node: ir.Node | None
) -> Value:
    """A cached property is computed and kept."""
    value = bind(it, f, b, cls, fr, st, node)
    store(it, b, name, value, st)
    return value


def _rule(it: Interpreter, cls: ClassV, name: str):  # type: ignore[no-untyped-def]
    table = it.config.attributes
    if not table:
        return None
    found = table.get(("*", name))
    if found is not None:
        return found
    for c in cls.mro:
        found = table.get((c.name, name))
        if found is not None:
            return found
    return None


def _beyond_instance(
    it: Interpreter,
    b: Ref,
    obj: Obj,
    cv: Value | None,
    name: str,
    fr: Frame,
    st: State,
    node: ir.Node | None,
    default: Value | None,
    also: bool,
) -> Value | None:
    """What reading gives where the instance itself does not hold the attribute; None when that only raises."""

    assert obj.cls is not None
    if cv is not None and not (obj.kind == "free" and not isinstance(cv, FuncV)):
        if isinstance(cv, FuncV):
            method = bind(it, cv, b, obj.cls, fr, st, node)
            if obj.kind != "skeleton" or not any(c.module.stores(name) for c in obj.cls.mro):
                return method
            if ("attribute", b.oid, name) in it.lazy_busy:
                return method  # what the replacement is made of
            own = skeletons.attribute(it, b, obj, name, fr, st)  # a method that is replaced on the instance
            held = names.drop_unbound(own) if own is not None else None
            return method if held is None else held if held is own else join(method, held)
        if isinstance(cv, Ref):
            if st.obj(cv.oid).kind == dispatch_models.KIND:
                return BoundV(cv, b)
            reader = descriptor(it, cv, "__get__", st)
            if reader is not None:
                return calls.call(it, reader, [b, obj.cls], {}, st, node, fr)
        if isinstance(cv, FieldSpec):
            cv = cv.default if cv.default is not None else Unknown(f"the field {name}")
        cv = _bind_each(it, cv, b, obj.cls, fr, st, node)
        cv = elsewhere.joined(it, obj.cls, name, cv, False, fr)
        if obj.kind == "skeleton" and not isinstance(cv, BoundV):
            written = elsewhere.asked(it, b, name, skeletons.attribute(it, b, obj, name, fr, st), fr)
            written = names.drop_unbound(written) if written is not None else None
            return cv if written is None else join(cv, written)
        return cv
    if obj.kind == "free":
        return Unknown(f"{obj.tag or obj.cls.name}.{name}", ("free", obj.tag or b.oid, name))
    if obj.kind == "skeleton":
        written = elsewhere.asked(it, b, name, skeletons.attribute(it, b, obj, name, fr, st), fr)
        if written is not None:
            bound = names.drop_unbound(written)
            if bound is not written and default is not None:
                return default if bound is None else join(default, bound)
            if bound is not None:
                return bound
    getter = classes.class_attr(it, obj.cls, "__getattr__", st)
    if isinstance(getter, FuncV):
        return calls.call(it, BoundV(getter, b), [Known(name)], {}, st, node, fr)
    if documents.is_document(obj):
        return documents.attribute(it, b.oid, obj, name, fr, st, node, default)
    if obj.kind == "skeleton":
        missing = Unknown(f"{obj.cls.name}.{name}, which nothing writes", ("skeleton", b.oid, name))
        if it.config.closed_modules and torch_modules.has_no_other_names(obj.cls, name, it.config.own_names):
            if default is None:
                it.throw("AttributeError", st, node, fr)
            return default
        if default is not None:
            return default if not obj.cls.opaque_base else join(default, missing)
        it.may_raise(st, node, fr)
        return missing
    if name in OF_OBJECT:
        return BuiltinV("super." + name, b)
    if obj.kind == "list" and name in CONTAINER_NAMES["list"]:
        return BuiltinV("m." + name, b)  # an instance of a class that derives from list
    if it.config.tensors is not None and it.config.tensors.is_module(obj.cls):
        found = it.config.tensors.module_attribute(it, b, obj, name)
        if found is not None:
            return found
    if name == "start" and any(e.endswith(("Thread", "Process")) for c in obj.cls.mro for e in c.external):
        return BuiltinV("thread.start", b)
    if obj.cls.opaque_base or obj.attrs.get("#any") is not None:
        missing = Unknown(f"{obj.cls.name}.{name}")
        it.may_raise(st, node, fr)
        return missing if default is None else join(default, missing)
    if name in RECORD_METHODS and operators.record_items(it, obj) is not None:
        return BuiltinV("m." + name, b)
    if name == "__init__" and classes.is_made_record(obj.cls):
        return PartialV(BuiltinV(classes.RECORD_INIT), (obj.cls, b), {})
    if default is not None:
        return default
    it.may_throw("AttributeError", st, node, fr)
    return None


def calls_method(it: Interpreter, b: Value | None, name: str, fr: Frame, st: State, node: ir.Node | None) -> Value:
    """``b.name()``."""

    return calls.call(it, get(it, b or NONE, name, fr, st, node), [], {}, st, node, fr)


OF_OBJECT = ("__setattr__", "__delattr__", "__getattribute__")
RECORD_METHODS = ("_replace", "_asdict", "index", "count")
