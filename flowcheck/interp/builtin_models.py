"""Python's builtins: functions, types, and the methods of builtin objects."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING

from flowcheck.interp import (
    attributes,
    calls,
    classes,
    dispatch_models,
    documents,
    handover,
    iteration_models,
    operators,
    reach,
    type_models,
    views,
)
from flowcheck.interp.container_models import method
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.iteration_models import number
from flowcheck.interp.models import Args, Keywords, Model
from flowcheck.interp.type_models import is_instance
from flowcheck.interp.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    BoundV,
    BuiltinV,
    ClassV,
    FuncV,
    Known,
    Member,
    ModuleV,
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


__all__ = ["MODELS", "call", "is_instance", "method"]

EXCEPTIONS = frozenset(
    n
    for n in dir(builtins)
    if isinstance(getattr(builtins, n), type) and issubclass(getattr(builtins, n), BaseException)
)


def call(it: Interpreter, f: BuiltinV, args: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """Call a builtin, or a method of one."""
    name = f.name
    if name.startswith("m."):
        assert f.self_ is not None
        return method(it, f.self_, name[2:], args, kw, st, node, fr)
    if f.self_ is not None and name.startswith(("tensor.", "module.")) and it.config.tensors is not None:
        return it.config.tensors.method(it, f, args, kw, st, node, fr)
    if name.startswith("t."):
        _, kind, attr = name.split(".", 2)
        return _type_method(it, kind, attr, args, kw, st, node, fr)
    if name == "dispatch.":
        return dispatch_models.anything(it, args, kw, st, node, fr)
    if name == dispatch_models.REGISTER and isinstance(f.self_, Ref):
        return dispatch_models.register(it, f.self_, args, kw, st, node, fr)
    if name == "thread.start":
        reach.weakly(it, st, lambda s: attributes.calls_method(it, f.self_, "run", fr, s, node))
        return NONE
    if name.startswith("view."):
        assert views.is_view(f.self_)  # type: ignore[arg-type]
        return views.method(it, f.self_, name[5:], args, kw, st, node, fr)
    if name.startswith("leaf."):
        return calls.unknown_call(it, f, args, kw, st, node, fr, f"the model's {name[5:]}")
    if name.startswith("super."):
        return _super_method(it, f, name[6:], args, kw, st, node, fr)
    model = MODELS.get(name)
    if model is not None:
        return model(it, args, kw, st, node, fr)
    if name in EXCEPTIONS:
        ref = it.alloc(st, Obj("exception", attrs={"args": TupleV(args)}))
        st.write(ref.oid).tag = name
        return ref

    return calls.unknown_call(it, f, args, kw, st, node, fr, name)


def _super_method(
    it: Interpreter, f: BuiltinV, name: str, args: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    """A method of ``object`` or of a base outside the tree."""
    if it.config.tensors is not None and isinstance(f.self_, Ref):
        made = it.config.tensors.inherited(it, f.self_, name, args, kw, st, node, fr)
        if made is not None:
            return made
    if name in ("__init__", "__init_subclass__", "__post_init__", "__exit__"):
        return NONE
    if name == "__enter__":
        return Unknown("super().__enter__()")
    if name == "__delattr__" and len(args) == 1 and isinstance(args[0], Known) and isinstance(f.self_, Ref):
        w = st.write(f.self_.oid)
        gone = str(args[0].value)
        if gone not in w.attrs:
            it.may_throw("AttributeError", st, node, fr)
        w.attrs[gone] = UNBOUND if w.exact else join(w.attrs.get(gone, UNBOUND), UNBOUND)
        return NONE
    if name == "__setattr__" and len(args) == 2 and f.self_ is not None:
        _set_by_name(it, f.self_, args[0], args[1], st, node, fr, attributes.set_past_hook)
        return NONE
    if name == "__getattribute__" and args and isinstance(args[0], Known) and isinstance(f.self_, Ref):
        held = st.obj(f.self_.oid)
        if held.cls is not None:
            return attributes.plain_get(it, f.self_, held, str(args[0].value), fr, st, node)
    if name in ("__getattribute__", "__getattr__") and args and isinstance(args[0], Known) and isinstance(f.self_, Ref):
        v = st.obj(f.self_.oid).attrs.get(str(args[0].value))
        if v is not None and v is not UNBOUND:
            return v
        if name == "__getattr__":
            obj = st.obj(f.self_.oid)
            if obj.cls is not None and not obj.cls.opaque_base:
                it.throw("AttributeError", st, node, fr)
        it.may_raise(st, node, fr)
        return Unknown(f"super().{name}")
    if name == "__new__" and args and isinstance(args[0], ClassV):
        if it.making and it.making[-1].metaclass is args[0]:
            return it.making[-1]  # a metaclass: the class stands already, but for what its ``__new__`` does to it
        return it.alloc(st, Obj("object", args[0]))
    if name == "__eq__":
        return BuiltinV("NotImplemented")
    it.may_raise(st, node, fr)
    return Unknown(f"super().{name}(…)")


def _type_method(
    it: Interpreter, kind: str, name: str, args: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    if kind in ("object", "type") and name == "__setattr__" and len(args) == 3:
        _set_by_name(it, args[0], args[1], args[2], st, node, fr, attributes.set_past_hook)
        return NONE
    if kind == "object" and name in ("__delattr__", "__getattribute__") and args and isinstance(args[0], Ref):
        return _super_method(it, BuiltinV("super." + name, args[0]), name, args[1:], kw, st, node, fr)
    if name == "__setattr__" and len(args) == 3:
        reach.forget_tracked(it, args[:1], st, fr.site(node) if node is not None else None, "__setattr__", 1)
    if kind == "object" and name == "__new__" and args and isinstance(args[0], ClassV):
        return it.alloc(st, Obj("object", args[0]))
    if kind == "dict" and name == "fromkeys" and args:
        items = operators.iterate(it, args[0], fr, st, node)
        value = args[1] if len(args) > 1 else NONE
        keys = [it.key(x) for x in items] if items is not None else [None]
        if items is None or None in keys:
            return it.new_dict(st, None)
        return it.new_dict(st, {k: (x, value) for k, x in zip(keys, items, strict=True)})
    if kind == "type" and name == "__new__" and args and it.making and it.making[-1].metaclass is args[0]:
        return it.making[-1]
    if args and isinstance(args[0], Ref):
        return method(it, args[0], name, args[1:], kw, st, node, fr)
    if args and isinstance(args[0], Known):
        return method(it, args[0], name, args[1:], kw, st, node, fr)
    it.may_raise(st, node, fr)
    return Unknown(f"{kind}.{name}(…)")


# ----------------------------------------------------------------------------------------------------------- functions
def _len(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) != 1:
        it.throw("TypeError", st, node, fr)
    return operators.each(it, [(v,) for v in alternatives(a[0])], st, lambda v, state: _length(it, v, state, node, fr))


def _length(it: Interpreter, v: Value, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if isinstance(v, TupleV):
        return Known(len(v.items))
    if isinstance(v, Known):
        if not hasattr(v.value, "__len__"):
            it.throw("TypeError", st, node, fr)
        return Known(len(v.value))
    if views.is_view(v):
        v = views.contents(it, v, st)
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is not None and obj.kind in ("list", "dict", "set"):
            return Known(len(obj.items)) if obj.items is not None else Unknown("a length")
        if obj is not None and obj.kind == "tensor" and it.config.tensors is not None:
            return it.config.tensors.length(v, st)
        if obj is not None and obj.cls is not None:
            m = classes.class_attr(it, obj.cls, "__len__", st)
            if isinstance(m, FuncV):
                return calls.call(it, BoundV(m, v), [], {}, st, node, fr)
            record = operators.record_items(it, obj)
            if record is not None:
                return Known(len(record))
            it.may_raise(st, node, fr)
            return Unknown("a length", ("len", v.oid) if obj.kind == "free" else None)
    if isinstance(v, ClassV) and v.enum_kind:
        return Known(len(classes.enum_members(it, v)))
    it.may_raise(st, node, fr)
    return Unknown("a length", ("len", v.key) if isinstance(v, Unknown) and v.key is not None else None)


_MISSING = Known("<no such attribute>")


def _getattr(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) not in (2, 3):
        it.throw("TypeError", st, node, fr)
    if not isinstance(a[1], Known):
        it.may_raise(st, node, fr)
        if isinstance(a[1], Union) and all(isinstance(x, Known) for x in a[1].items):
            found: list[Value] = []
            for x in a[1].items:
                try:
                    found.append(_getattr(it, [a[0], x, *a[2:]], kw, st, node, fr))
                except Dead:
                    continue
            if not found:
                raise Dead
            return union_of(found)
        return Unknown("an attribute chosen at run time")
    if len(a) > 2:
        return attributes.get_or(it, a[0], str(a[1].value), a[2], fr, st, node)
    return attributes.get(it, a[0], str(a[1].value), fr, st, node)


def _hasattr(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if not isinstance(a[1], Known):
        return Unknown("hasattr")
    for x in alternatives(a[0]) if it.config.on_key is not None else ():
        if isinstance(x, Ref):
            documents.asked(it, x.oid, a[1], fr, node)
    v = attributes.get_or(it, a[0], str(a[1].value), _MISSING, fr, st)
    options = alternatives(v)
    if options == (_MISSING,):
        return FALSE
    if _MISSING in options or (isinstance(v, Unknown) and isinstance(a[0], (Unknown, Union))):
        key = None
        if isinstance(a[0], Unknown) and a[0].key is not None:
            key = ("hasattr", a[0].key, a[1].value)
        return Unknown("hasattr", key)
    if isinstance(v, Unknown) and isinstance(a[0], Ref):
        obj = st.get(a[0].oid)
        if obj is not None and (obj.kind == "free" or (obj.cls is not None and obj.cls.opaque_base)):
            return Unknown("hasattr", ("hasattr", a[0].oid, a[1].value))
    return TRUE


def _setattr(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) != 3:
        it.throw("TypeError", st, node, fr)
    _set_by_name(it, a[0], a[1], a[2], st, node, fr, attributes.set_)
    return NONE


Setter = Callable[["Interpreter", Value, str, Value, "Frame", State, "ir.Node | None"], None]


def _set_by_name(
    it: Interpreter, target: Value, name: Value, v: Value, st: State, node: ir.Node | None, fr: Frame, setter: Setter
) -> None:
    """A store under a computed name: one of several is chosen at run time, or any that code here may spell."""
    if isinstance(name, Known):
        setter(it, target, str(name.value), v, fr, st, node)
        return
    options = alternatives(name)
    if all(isinstance(x, Known) for x in options):

        def arm(x: Value) -> Callable[[State], Value]:
            def thunk(state: State) -> Value:
                setter(it, target, str(x.value), v, fr, state, node)  # type: ignore[attr-defined]
                return NONE

            return thunk

        it.both(st, [(st.fork(), arm(x)) for x in options])
        return
    it.may_raise(st, node, fr)
    for x in alternatives(target):
        if isinstance(x, Ref) and st.obj(x.oid).cls is not None:
            attributes.forget(it, x, v, st)
            obj = st.write(x.oid)
            for tracked in it.config.tracked & obj.attrs.keys():
                if it.may_name(fr, tracked, here=True):
                    chosen = Unknown("an attribute is set by a name chosen at run time")
                    obj.attrs[tracked] = join(
                        obj.attrs[tracked], it.at(chosen, fr.site(node) if node else None, "setattr")
                    )


def _delattr(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) != 2:
        it.throw("TypeError", st, node, fr)
    names = alternatives(a[1])
    if all(isinstance(x, Known) for x in names):

        def arm(x: Value) -> Callable[[State], Value]:
            def thunk(state: State) -> Value:
                attributes.delete(it, a[0], str(x.value), fr, state, node)  # type: ignore[attr-defined]
                return NONE

            return thunk

        return arm(a[1])(st) if len(names) == 1 else it.both(st, [(st.fork(), arm(x)) for x in names])
    it.may_raise(st, node, fr)
    for x in alternatives(a[0]):
        if isinstance(x, Ref) and st.get(x.oid) is not None and st.obj(x.oid).cls is not None:
            attributes.forget(it, x, UNBOUND, st)
    return NONE


def _bool(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if not a:
        return FALSE
    t = operators.truth(it, a[0], st, fr)
    if t is not None:
        return Known(t)
    key = operators.truth_key(a[0])
    return Unknown("bool", None if key is None else ("truth", key))


def _convert(kind: type) -> Model:
    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        if not a:
            return Known(kind())
        return operators.each(
            it, [(v,) for v in alternatives(a[0])], st, lambda v, state: one(it, v, a, kw, state, node, fr)
        )

    def one(it: Interpreter, v: Value, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        p = operators.plain(v)
        cls = st.obj(v.oid).cls if isinstance(v, Ref) and st.get(v.oid) else v.cls if isinstance(v, Member) else None
        dunder = {int: "__int__", float: "__float__", str: "__str__"}.get(kind)
        m = classes.class_attr(it, cls, dunder, st) if cls is not None and dunder is not None else None
        if isinstance(m, FuncV):
            return calls.call(it, BoundV(m, v), [], {}, st, node, fr)
        written = kind is str and (isinstance(v, Member) or (isinstance(p, Known) and isinstance(p.value, bytes)))
        if isinstance(p, Known) and len(a) == 1 and not kw and not written:  # how a member is written, versions differ
            try:
                return Known(kind(p.value))
            except (TypeError, ValueError, OverflowError) as error:
                it.throw(type(error).__name__, st, node, fr)
        if (
            kind is str
            and isinstance(v, Member)
            and v.cls.enum_kind == "StrEnum"
            and "enum.StrEnum" in {e for b in v.cls.mro for e in b.external}
        ):
            return p
        if kind is not str or not isinstance(v, (Known, Member)):
            it.may_raise(st, node, fr)
        key = (kind.__name__, v.key) if isinstance(v, Unknown) and v.key is not None and len(a) == 1 else None
        return Unknown(kind.__name__, key)

    return model


def _vars(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) == 1:
        return union_of([attributes.get(it, x, "__dict__", fr, st, node) for x in alternatives(a[0])])
    return views.view_of(ModuleV(fr.module)) if _at_top(fr) else Unknown("vars()")


def _at_top(fr: Frame) -> bool:
    """Whether a frame is that of a module's top level."""
    return fr.func is None and fr.slice_of is None and fr.cls is None


def _text_of(name: str) -> Model:
    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        return handover.run_text(it, a, kw, st, node, fr, name)

    return model


def _import(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if a and isinstance(a[0], Known) and isinstance(a[0].value, str) and len(a) == 1:
        return it.module_value(a[0].value.split(".")[0])
    it.may_raise(st, node, fr)
    return Unknown("a module chosen at run time")


def _globals(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    return views.view_of(ModuleV(fr.module))


def _print(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    return NONE


def _text(name: str) -> Model:
    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        return Unknown(name, truth=None)

    return model


def _id(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``id``, called: a number of its own for what is certainly one object, so that it may be a key."""
    if it.config.tensors is not None and len(a) == 1 and isinstance(a[0], Ref):
        obj = st.get(a[0].oid)
        if obj is not None and obj.exact:
            return Known((1 << 46) + 64 * a[0].oid)
    return Unknown("id(…)")


def _abs(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    n = number(a[0])
    if n is not None:
        return Known(abs(n))
    it.may_raise(st, node, fr)
    return Unknown("abs")


def _round(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    it.may_raise(st, node, fr)
    return Unknown("round")


def _divmod(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    return TupleV(
        [operators.binary(it, "//", a[0], a[1], fr, st, node), operators.binary(it, "%", a[0], a[1], fr, st, node)]
    )


def _object(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    return it.alloc(st, Obj("plain object"), fr.site(node) if node is not None else None)


def _method_caller(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``operator.methodcaller(name, …)``, called: the object stands last."""

    found = _getattr(it, [a[-1], a[0]], {}, st, node, fr)
    return calls.call(it, found, a[1:-1], kw, st, node, fr)


def _attr_getter(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    got: list[Value] = []
    for name in a[:-1]:
        v = a[-1]
        for part in str(name.value).split(".") if isinstance(name, Known) else ():
            v = attributes.get(it, v, part, fr, st, node)
        got.append(v if isinstance(name, Known) else Unknown("an attribute chosen at run time"))
    return got[0] if len(got) == 1 else TupleV(got)


def _item_getter(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    got = [operators.take(it, a[-1], k, fr, st, node) for k in a[:-1]]
    return got[0] if len(got) == 1 else TupleV(got)


MODELS: dict[str, Model] = {
    "operator.methodcaller": _method_caller,
    "operator.attrgetter": _attr_getter,
    "operator.itemgetter": _item_getter,
    documents.GIVES: lambda it, a, kw, st, node, fr: a[0],
    "len": _len,
    "isinstance": type_models.isinstance_,
    "issubclass": type_models.issubclass_,
    "getattr": _getattr,
    "hasattr": _hasattr,
    "setattr": _setattr,
    "delattr": _delattr,
    "max": iteration_models.extreme_(max),
    "min": iteration_models.extreme_(min),
    "bool": _bool,
    "any": iteration_models.any_all_(True),
    "all": iteration_models.any_all_(False),
    "int": _convert(int),
    "float": _convert(float),
    "str": _convert(str),
    "range": iteration_models.range_,
    "list": iteration_models.sequence_("list"),
    "tuple": iteration_models.sequence_("tuple"),
    "set": iteration_models.sequence_("set"),
    "frozenset": iteration_models.sequence_("set"),
    "dict": iteration_models.dict_,
    "enumerate": iteration_models.enumerate_,
    "zip": iteration_models.zip_,
    "map": iteration_models.map_,
    "filter": iteration_models.filter_,
    "sorted": iteration_models.sorted_,
    "reversed": iteration_models.reversed_,
    "sum": iteration_models.sum_,
    "type": type_models.type_,
    "callable": type_models.callable_,
    "iter": iteration_models.iter_,
    "next": iteration_models.next_,
    "super": type_models.super_,
    "vars": _vars,
    "globals": _globals,
    "locals": _vars,
    "exec": _text_of("exec"),
    "eval": _text_of("eval"),
    "__import__": _import,
    "print": _print,
    "repr": _text("repr"),
    "hash": _text("hash"),
    "id": _id,
    "format": _text("format"),
    "abs": _abs,
    "round": _round,
    "divmod": _divmod,
    "object": _object,
    "property": type_models.property_,
    "staticmethod": type_models.rebound_("static"),
    "classmethod": type_models.rebound_("class"),
}
