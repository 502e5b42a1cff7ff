"""Attributes: writing and deleting them."""

from __future__ import annotations

import collections
import queue
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

from flowcheck.interp import calls, classes, names, observed, views
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Layer, State
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    BoundV,
    ClassV,
    FuncV,
    Known,
    ModuleV,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
    join,
)
from flowcheck.program.callgraph import EdgeKind
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame
    from flowcheck.interp.trails import Site

CONTAINER_NAMES = {
    "list": frozenset(dir(list)) | frozenset(dir(collections.deque)),
    "dict": frozenset(dir(dict)) | frozenset(dir(collections.OrderedDict)) | frozenset(dir(collections.Counter)),
    "set": frozenset(dir(set)),
    "queue": frozenset(dir(queue.Queue)),
    "iterator": frozenset(dir(types.GeneratorType)),
}


def set_(it: Interpreter, b: Value, name: str, v: Value, fr: Frame, st: State, node: ir.Node | None = None) -> None:
    """``b.name = v``."""

    if name in it.config.tracked:
        v = it.at(v, fr.site(node) if node is not None else None, f".{name} = …")

    if isinstance(b, Union):
        refs = [x for x in b.items if isinstance(x, (Ref, ClassV, ModuleV))]
        if any(isinstance(x, Known) for x in b.items):
            it.may_throw("AttributeError", st, node, fr)
        if len(refs) == 1 and all(isinstance(x, Known) for x in b.items if x is not refs[0]):
            set_(it, refs[0], name, v, fr, st, node)
            return
        for x in refs:
            arm = st.fork()
            try:
                set_(it, x, name, v, fr, arm, node)
            except Dead:
                continue
            from flowcheck.interp.heap import merge

            st.become(merge([st.fork(), arm]))
        for other in b.items:
            if isinstance(other, Unknown):
                _unknown_store(it, name, v, fr, st, node)
        return
    if isinstance(b, Ref):
        obj = st.get(b.oid)
        if obj is None:
            return
        if name in ("__dict__", "__class__") and obj.cls is not None:
            if name == "__class__":
                _change_class(it, b, v, st)
            elif not (views.is_view(v) and v.self_ == b):
                views.replace(it, b, v, fr, st, node)
            return
        if obj.cls is not None:
            if name in it.config.tracked:
                observed.touched(it, obj.cls, name, EdgeKind.WRITES, node, fr)
            hook = classes.class_attr(it, obj.cls, "__setattr__", st)
            if isinstance(hook, FuncV):
                calls.call(it, BoundV(hook, b), [Known(name), v], {}, st, node, fr)
                return
            if _set_property(it, b, obj.cls, name, v, fr, st, node):
                return
            if obj.cls.is_record and _frozen(it, obj.cls, name):
                it.throw("AttributeError", st, node, fr)
        elif obj.kind in CONTAINER_NAMES:
            it.throw("AttributeError", st, node, fr)
        elif obj.kind == "tensor" and name == "data" and it.config.tensors is not None:
            it.config.tensors.replaced(it, b, st, fr.site(node) if node is not None else None)
            return
        if node is not None and name in it.config.tracked and not it.in_base and not it.quiet:
            site = fr.site(node)
            it.followed.update((site, id(f.func.node)) for f in fr.chain() if f.func is not None)
        if it.config.on_write is not None and node is not None:
            it.config.on_write(it, b, name, fr.site(node))
        store(it, b, name, v, st)
    elif isinstance(b, (ClassV, ModuleV)):
        oid = b.oid if isinstance(b, ClassV) else it.module_oid(b.module)
        if isinstance(b, ModuleV):
            names.before_store(it, b.module, name, st)
        if it.in_base and (b.module is not fr.module or it.patching):
            it.patched.add(name)
        if it.patching:  # it may be stored or not, before or after what is asked
            if isinstance(b, ClassV):
                held = classes.class_attr(it, b, name, st)
            else:
                held = names.global_value(it, b.module, name, st)
            v = v if held is None else join(held, v)
        st.write(oid).attrs[name] = v
    elif isinstance(b, Unknown):
        _unknown_store(it, name, v, fr, st, node)
    elif isinstance(b, (Known, TupleV, BoundV)):
        it.throw("AttributeError", st, node, fr)


def descriptor(it: Interpreter, cv: Ref, name: str, st: State) -> BoundV | None:
    """A method of the descriptor that a class attribute is, if it has that one."""
    holder = st.get(cv.oid)
    method = classes.class_attr(it, holder.cls, name, st) if holder is not None and holder.cls is not None else None
    return BoundV(method, cv) if isinstance(method, FuncV) else None


def _change_class(it: Interpreter, b: Ref, v: Value, st: State) -> None:
    """``b.__class__ = v``."""
    obj = st.write(b.oid)
    if isinstance(v, ClassV) and obj.exact:
        obj.cls = v
    forget(it, b, Unknown("of an object that changes its class"), st)


def _set_property(
    it: Interpreter, b: Ref, cls: ClassV, name: str, v: Value, fr: Frame, st: State, node: ir.Node | None
) -> bool:
    """Whether ``name`` is a property of the class, or another descriptor that sets; its setter has run then."""
    cv = classes.class_attr(it, cls, name, st)
    if isinstance(cv, Ref):
        setter = descriptor(it, cv, "__set__", st)
        if setter is None:
            return False

        calls.call(it, setter, [b, v], {}, st, node, fr, followed=name in it.config.tracked)
        return True
    if not isinstance(cv, FuncV) or cv.kind != "property":
        return False
    if cv.setter is None:
        it.throw("AttributeError", st, node, fr)

    assert cv.setter is not None
    calls.call(it, cv.setter, [b, v], {}, st, node, fr, followed=name in it.config.tracked)
    return True


def stores_itself(it: Interpreter, c: ClassV, st: State) -> bool:
    """Whether the stores of a dataclass's generated constructor run code of the tree."""
    if isinstance(classes.class_attr(it, c, "__setattr__", st), FuncV) or set_by_descriptors(it, c, st):
        return not any(e in classes.RECORD_BASES for b in c.mro for e in b.external)
    return False


def set_by_descriptors(it: Interpreter, c: ClassV, st: State) -> list[str]:
    """The fields of a record that a property or another descriptor of the class sets."""
    return [
        name
        for name in classes.record_fields(it, c)
        if isinstance(v := classes.class_attr(it, c, name, st), (Ref, FuncV))
        and (
            descriptor(it, v, "__set__", st) is not None
            if isinstance(v, Ref)
            else v.kind == "property" and v.setter is not None
        )
    ]


def set_past_hook(it: Interpreter, b: Value, name: str, v: Value, fr: Frame, st: State, node: ir.Node | None) -> None:
    """``object.__setattr__(b, name, v)``: no hook and no frozen class is asked."""
    if isinstance(b, Union):

        def arm(x: Value) -> Callable[[State], Value]:
            def thunk(state: State) -> Value:
                set_past_hook(it, x, name, v, fr, state, node)
                return NONE

            return thunk

        it.both(st, [(st.fork(), arm(x)) for x in b.items])
        return
    cls = st.obj(b.oid).cls if isinstance(b, Ref) and st.get(b.oid) is not None else None
    if cls is None or not isinstance(b, Ref) or name in ("__dict__", "__class__"):
        set_(it, b, name, v, fr, st, node)
        return
    if name in it.config.tracked:
        v = it.at(v, fr.site(node) if node is not None else None, f"__setattr__(…, {name!r}, …)")
    if not _set_property(it, b, cls, name, v, fr, st, node):
        store(it, b, name, v, st)


def forget(it: Interpreter, b: Ref, v: Value, st: State) -> None:
    """Any attribute of the object may be ``v`` from here on, and it may have any."""
    obj = st.write(b.oid)
    for name in list(obj.attrs):
        if name[0] not in "#@":
            obj.attrs[name] = join(obj.attrs[name], v)
    if obj.kind == "object" and obj.cls is not None:  # what the class gives is no longer all that may be found
        for name in it.config.tracked - obj.attrs.keys():
            if classes.class_attr(it, obj.cls, name, st) is not None:
                obj.attrs[name] = join(v, UNBOUND)
    obj.attrs["#any"] = Known(True)


def store(it: Interpreter, b: Ref, name: str, v: Value, st: State) -> None:
    """Writes an instance attribute, weakly where the address stands for several objects."""
    target = st.write(b.oid)
    if it.config.on_store is not None and name in it.config.tracked:
        it.config.on_store(it, b, name, target.attrs.get(name), v, st)
    if target.exact:
        target.attrs[name] = v
    else:
        target.attrs[name] = join(target.attrs.get(name, UNBOUND), v)


def _frozen(it: Interpreter, c: ClassV, name: str) -> bool:
    for b in c.mro:
        flag = b.keywords.get("frozen")
        if isinstance(flag, Known) and flag.value is True and (b is c or name in classes.record_fields(it, b)):
            return True
        if "typing.NamedTuple" in b.external:
            return name in classes.record_fields(it, b)
    return False


def _unknown_store(it: Interpreter, name: str, v: Value, fr: Frame, st: State, node: ir.Node | None) -> None:
    """A store on an object that nobody knows may hit any object that has such an attribute."""
    it.may_raise(st, node, fr)
    if it.config.on_write is not None and node is not None:
        it.config.on_write(it, None, name, fr.site(node))
    if name not in it.config.tracked:
        return
    if node is not None:
        *_, outermost = fr.chain()
        on_demand = id(outermost.slice_of[0]) if outermost.slice_of is not None else None
        it.unknown_stores.append((name, fr.site(node), on_demand))
    layer: Layer | None = st.top
    seen: set[int] = set()
    hit: list[int] = []
    while layer is not None:
        for oid, obj in layer.objects.items():
            if oid not in seen:
                seen.add(oid)
                if obj.cls is not None and obj.kind in ("object", "free", "skeleton") and name in obj.attrs:
                    hit.append(oid)
        layer = layer.parent
    for oid in hit:
        target = st.write(oid)
        target.attrs[name] = join(target.attrs[name], v)


def open_stores(it: Interpreter) -> list[tuple[str, Site]]:
    """The stores of tracked attributes on objects that nobody knows: attribute and place, each once.

    A method is also evaluated on demand, with arguments that are not known, for an attribute that it leaves behind. Where
    the run itself took that method to the same store, on objects that it knew, that is what the method does.
    """
    found = [
        (name, site)
        for name, site, on_demand in it.unknown_stores
        if on_demand is None or (site, on_demand) not in it.followed
    ]
    return list(dict.fromkeys(found))


def delete(it: Interpreter, b: Value, name: str, fr: Frame, st: State, node: ir.Node | None = None) -> None:
    """``del b.name``."""
    targets = alternatives(b)
    if isinstance(b, Union):

        def arm(x: Value) -> Callable[[State], Value]:
            def thunk(state: State) -> Value:
                delete(it, x, name, fr, state, node)
                return NONE

            return thunk

        it.both(st, [(st.fork(), arm(x)) for x in targets])
        return
    for x in targets:
        if isinstance(x, Unknown):
            it.may_raise(st, node, fr)
        elif isinstance(x, (Known, TupleV)):
            it.throw("AttributeError", st, node, fr)
        elif isinstance(x, (ClassV, ModuleV)):
            it.may_raise(st, node, fr)
            holder = st.write(x.oid if isinstance(x, ClassV) else it.module_oid(x.module))
            if name in holder.attrs:
                holder.attrs[name] = UNBOUND
        elif isinstance(x, Ref) and st.get(x.oid) is not None:
            of = st.obj(x.oid).cls
            if of is not None:
                hook = classes.class_attr(it, of, "__delattr__", st)
                cv = classes.class_attr(it, of, name, st)
                if isinstance(hook, FuncV):
                    calls.call(it, BoundV(hook, x), [Known(name)], {}, st, node, fr)
                    continue
                deleter: Value | None = descriptor(it, cv, "__delete__", st) if isinstance(cv, Ref) else None
                if isinstance(cv, FuncV) and cv.kind == "property" and cv.deleter is not None:
                    deleter = BoundV(cv.deleter, x)
                if deleter is not None:
                    calls.call(it, deleter, [x] if isinstance(cv, Ref) else [], {}, st, node, fr)
                    continue
                if (of.is_record and _frozen(it, of, name)) or (isinstance(cv, FuncV) and cv.kind == "property"):
                    it.throw("AttributeError", st, node, fr)
            obj = st.write(x.oid)
            if obj.attrs.get(name) is UNBOUND and obj.kind == "object":
                it.throw("AttributeError", st, node, fr)
            if name in obj.attrs and UNBOUND in alternatives(obj.attrs[name]):
                it.may_throw("AttributeError", st, node, fr)
            if obj.kind == "object" and name not in obj.attrs and obj.cls is not None and not obj.cls.opaque_base:
                it.throw("AttributeError", st, node, fr)
            if len(targets) == 1 and obj.exact:
                obj.attrs[name] = UNBOUND
            elif name in obj.attrs:
                obj.attrs[name] = join(obj.attrs[name], UNBOUND)
