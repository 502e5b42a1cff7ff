"""Models of what lies outside the tree: the standard library's helpers that move values about, and a few of torch's.

Everything else outside is unknown: it may return anything, and cannot write a Python attribute of the tree's objects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from flowcheck.interp import (
    attributes,
    builtin_models,
    calls,
    classes,
    functions,
    managers,
    observed,
    operators,
    queue_models,
    stores,
)
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    BoundV,
    BuiltinV,
    ClassV,
    ExternalV,
    FieldSpec,
    FuncV,
    Known,
    Member,
    PartialV,
    Ref,
    TupleV,
    Unknown,
    Value,
    alternatives,
    union_of,
)
from flowcheck.program.callgraph import EdgeKind
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

Args = list[Value]
Keywords = dict[str, Value]
Model = Callable[["Interpreter", Args, Keywords, State, "ir.Node | None", "Frame"], "Value | None"]
MUTATORS = ("heapq.", "bisect.insort", "random.shuffle")


def call(
    it: Interpreter,
    f: ExternalV,
    args: Args,
    kw: Keywords,
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
) -> Value:
    """Call something outside the tree."""

    fixed = it.config.externals.get(f.name + "()")
    if fixed is not None:
        return fixed
    model = None if open_ and f.name not in OPEN_SAFE else MODELS.get(f.name)
    if model is not None:
        result = model(it, args, kw, st, node, fr)
        if result is not None:
            return result
    if open_ and MODELS.get(f.name) is _replace:
        result = _open_replace(it, args, kw, st, node, fr)
        if result is not None:
            return result
    if f.name.startswith(MUTATORS):
        for v in args:
            calls.forget_container(it, v, st)
    return calls.unknown_call(it, f, args, kw, st, node, fr, f.name)


def _auto(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    return Unknown("enum.auto()")


def _field(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    default = kw.get("default")
    if isinstance(default, Unknown):
        default = None

    def flag(name: str, normal: bool) -> bool:
        v = kw.get(name)
        return bool(v.value) if isinstance(v, Known) else normal

    return FieldSpec(
        default, kw.get("default_factory"), flag("init", True), flag("compare", True), flag("kw_only", False)
    )


def _cast(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    return a[1] if len(a) == 2 else None


def _partial(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    return PartialV(a[0], tuple(a[1:]), dict(kw)) if a else None


def _same(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    """A decorator that gives back what it wraps, called with or without arguments of its own."""
    if a and isinstance(a[0], (FuncV, BoundV, ClassV, PartialV, BuiltinV)):
        return a[0]
    return ExternalV("flowcheck.identity") if not a or isinstance(a[0], (Known, Unknown)) else None


def _identity(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    return a[0] if a else None


def _getenv(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    """The environment is unset, unless the scenario says otherwise."""
    return a[1] if len(a) > 1 else kw.get("default", NONE)


def _replace(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    """``dataclasses.replace``, ``msgspec.structs.replace``, ``copy.copy``: a copy with some fields changed."""
    results: list[Value] = []
    site = fr.site(node) if node is not None else None
    for x in alternatives(a[0]) if a else ():
        if not isinstance(x, Ref):
            if isinstance(x, (Known, TupleV, Member)):
                results.append(x)
                continue
            return None
        obj = st.get(x.oid)
        if obj is None:
            return None
        copy = obj.copy()
        copy.site = site
        copy.exact = True
        if copy.kind == "skeleton" or copy.kind == "iterator":
            return None
        if obj.cls is not None and not kw and _copies_itself(it, obj.cls, "__copy__", st):
            return None
        for name, v in kw.items():
            if name in it.config.tracked:
                v = it.at(v, site, f"replace({name}=…)")
                if obj.cls is not None:
                    observed.touched(it, obj.cls, name, EdgeKind.WRITES, node, fr)
            copy.attrs[name] = v
        ref = it.alloc(st, copy, site)
        if kw and obj.cls is not None and stores.stores_itself(it, obj.cls, st):
            by_descriptor = stores.set_by_descriptors(it, obj.cls, st)
            for name in classes.record_fields(it, obj.cls):
                if name in kw or name in by_descriptor:
                    given = copy.attrs[name] if name in kw else attributes.get(it, x, name, fr, st, node)
                    if name in by_descriptor:
                        st.write(ref.oid).attrs.pop(name, None)
                    attributes.set_(it, ref, name, given, fr, st, node)
                elif name in copy.attrs:
                    attributes.set_(it, ref, name, copy.attrs[name], fr, st, node)
        if kw and obj.cls is not None:
            post = classes.class_attr(it, obj.cls, "__post_init__", st)
            if isinstance(post, FuncV):
                calls.call(it, BoundV(post, ref), [], {}, st, node, fr)
        results.append(ref)
    return union_of(results) if results else None


def _copies_itself(it: Interpreter, c: ClassV, how: str, st: State) -> bool:
    hooks = (how, "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
    return any(classes.class_attr(it, c, name, st) is not None for name in hooks)


def _open_replace(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    """``replace(x, **mapping)`` with a mapping whose keys are not known: any field that can be named may change."""
    result = _replace(it, a, kw, st, node, fr)
    for x in alternatives(result) if result is not None else ():
        if isinstance(x, Ref):
            obj = st.write(x.oid)
            for name, v in obj.attrs.items():
                if name not in kw and it.may_name(fr, name):
                    obj.attrs[name] = union_of([v, Unknown(f"{name} may be set by a mapping")])
    return result


def _deepcopy(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    return deep_copy(it, a[0], st, {}) if len(a) == 1 else None


def deep_copy(it: Interpreter, v: Value, st: State, seen: dict[int, Ref]) -> Value:
    """``copy.deepcopy``; ``seen`` holds what is copied already."""
    if isinstance(v, TupleV):
        return TupleV([deep_copy(it, x, st, seen) for x in v.items])
    if isinstance(v, Ref):
        if v.oid in seen:
            return seen[v.oid]
        obj = st.get(v.oid)
        if obj is None or obj.kind in ("skeleton", "free", "env", "class", "module"):
            return v
        if obj.kind == "iterator":
            return Unknown("a copy of an iterator")
        if obj.cls is not None and _copies_itself(it, obj.cls, "__deepcopy__", st):
            return Unknown("what __deepcopy__ gives")
        copy = obj.copy()
        ref = it.alloc(st, copy)
        seen[v.oid] = ref
        w = st.write(ref.oid)
        w.attrs = {k: deep_copy(it, x, st, seen) for k, x in obj.attrs.items()}
        if obj.items is not None:
            if obj.kind == "dict":
                w.items = {k: (p[0], deep_copy(it, p[1], st, seen)) for k, p in obj.items.items()}
            else:
                w.items = [deep_copy(it, x, st, seen) for x in obj.items]
        elif obj.elements is not None:
            w.elements = deep_copy(it, obj.elements, st, seen)
        return ref
    if len(alternatives(v)) > 1:
        return union_of([deep_copy(it, x, st, seen) for x in alternatives(v)])
    return v


def _fields(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    """``dataclasses.fields`` and ``msgspec.structs.fields``: objects with a name."""
    cls: ClassV | None = None
    for x in alternatives(a[0]) if a else ():
        found = x if isinstance(x, ClassV) else st.obj(x.oid).cls if isinstance(x, Ref) and st.get(x.oid) else None
        if found is None or (cls is not None and found is not cls):
            return None
        cls = found
    if cls is None or not cls.is_record:
        return None
    out: list[Value] = []
    for name in classes.record_fields(it, cls):
        obj = Obj("plain object", attrs={"name": Known(name)})
        out.append(it.alloc(st, obj))
    return TupleV(out)


def _asdict(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    if len(a) == 1 and isinstance(a[0], Ref):
        obj = st.get(a[0].oid)
        if obj is not None and obj.kind == "object" and obj.cls is not None and obj.cls.is_record:
            names = classes.record_fields(it, obj.cls)
            if all(n in obj.attrs for n in names):
                return it.new_dict(st, {("k", n): (Known(n), obj.attrs[n]) for n in names})
    return None


def _defaultdict(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    items = {}
    if len(a) > 1:
        source = st.get(a[1].oid) if isinstance(a[1], Ref) else None
        if source is None or source.kind != "dict" or source.items is None:
            return None
        items = dict(source.items)
    ref = it.new_dict(st, items, fr.site(node) if node is not None else None)
    if a and not (isinstance(a[0], Known) and a[0].value is None):
        st.write(ref.oid).default = a[0]
    return ref


def _ordered(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:

    return builtin_models.MODELS["dict"](it, a, kw, st, node, fr)


def _deque(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:

    if len(a) > 1 or kw:
        ref = it.new_list(st, None)
        if a:
            builtin_models.method(it, ref, "extend", a[:1], {}, st, node, fr)
        st.write(ref.oid).tag = "deque"
        return ref
    made = builtin_models.MODELS["list"](it, a, {}, st, node, fr)
    if isinstance(made, Ref):
        st.write(made.oid).tag = "deque"
    return made


def _module_list(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    """``torch.nn.ModuleList``: a list, as far as a model goes through it."""
    given = [x for x in (a or list(kw.values())) if x != NONE]
    return builtin_models.MODELS["list"](it, given, {}, st, node, fr)


def _module_dict(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    """``torch.nn.ModuleDict``: a dictionary."""
    given = [x for x in (a or list(kw.values())) if x != NONE]
    return builtin_models.MODELS["dict"](it, given, {}, st, node, fr)


def _nullcontext(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    obj = Obj("plain object", attrs={"value": a[0] if a else kw.get("enter_result", NONE)})
    obj.tag = "nullcontext"
    return it.alloc(st, obj)


def _manager(tag: str) -> Model:
    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
        return managers.make(it, tag, list(a), st, node, fr)

    return model


def _operator(name: str) -> Model:
    """``operator.methodcaller`` and the like: a callable that knows all its arguments but the object."""

    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
        return PartialV(BuiltinV(name), tuple(a), dict(kw)) if a else None

    return model


def _setitem(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    if len(a) != 3:
        return None
    operators.put(it, a[0], a[1], a[2], fr, st, node)
    return NONE


def _cycle(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    """``itertools.cycle`` of what nobody else can change: it gives any of these, however far it has come."""
    if len(a) != 1 or kw:
        return None
    written = node.args[0].value if isinstance(node, ir.Call) and node.args else None
    own = isinstance(a[0], TupleV) or (isinstance(written, ir.ListExpr) and isinstance(a[0], Ref))
    return _endless(it, operators.element(it, a[0], st), st) if own else None


def _repeat(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    return _endless(it, a[0], st) if a else None


def _endless(it: Interpreter, element: Value, st: State) -> Value:
    ref = it.new_list(st, None, None, "iterator")
    st.write(ref.oid).elements = element
    return ref


def _lazily(how: str) -> Model:
    """A function of itertools, which does nothing before it is asked."""

    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
        if how == "chain" and kw:
            return None
        if how == "chain":
            return functions.lazily(st, functions.Lazy(None, source=TupleV(a), frame=fr, how="chain"))
        if how == "chain of" and len(a) == 1:
            return functions.lazily(st, functions.Lazy(None, source=a[0], frame=fr, how="chain"))
        if how == "islice" and a:
            return functions.lazily(st, functions.Lazy(None, source=a[0], frame=fr, how="some"))
        if len(a) != 2:
            return None
        return functions.lazily(st, functions.Lazy(None, (a[0],), source=a[1], frame=fr, how=how))

    return model


def _reduce(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    """``functools.reduce``."""

    if len(a) not in (2, 3):
        return None
    total = st.new(Obj("list", items=list(a[2:])))

    def work(x: Value, s: State) -> None:
        held = s.obj(total)
        if held.items == []:
            s.write(total).items = [x]
            return
        so_far = operators.element(it, Ref(total), s)
        value = calls.call(it, a[0], [so_far, x], {}, s, node, fr)
        w = s.write(total)
        if w.items is not None:
            w.items = [value]
        else:
            w.open([value])

    operators.visit(it, a[1], fr, st, node, work)
    if st.obj(total).items == []:
        it.throw("TypeError", st, node, fr)
    return operators.element(it, Ref(total), st)


def _import_module(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    name = a[0] if a else kw.get("name")
    if isinstance(name, Known) and isinstance(name.value, str) and not name.value.startswith("."):
        return it.module_value(name.value)
    return None


def _bound(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    return BoundV(a[0], a[1]) if len(a) == 2 else None


def _namespace(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    return it.alloc(st, Obj("plain object", attrs=dict(kw))) if not a else None


def _forget(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    return NONE


def _struct_force(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value | None:
    if len(a) == 3 and isinstance(a[0], Ref) and isinstance(a[1], Known):
        attributes.store(it, a[0], str(a[1].value), a[2], st)
        return NONE
    return None


MODELS: dict[str, Model] = {
    "enum.auto": _auto,
    "dataclasses.field": _field,
    "msgspec.field": _field,
    "typing.cast": _cast,
    "functools.partial": _partial,
    "functools.lru_cache": _same,
    "functools.cache": _same,
    "functools.wraps": _same,
    "torch.nn.ModuleList": _module_list,
    "torch.nn.ModuleDict": _module_dict,
    "torch.no_grad": _same,
    "torch.inference_mode": _same,
    "torch.compile": _same,
    "torch.compiler.disable": _same,
    "torch._dynamo.disable": _same,
    "contextlib.contextmanager": _same,
    "dataclasses.dataclass": _same,
    "flowcheck.identity": _identity,
    "os.getenv": _getenv,
    "os.environ.get": _getenv,
    "copy.copy": _replace,
    "dataclasses.replace": _replace,
    "msgspec.structs.replace": _replace,
    "copy.replace": _replace,
    "msgspec.structs.force_setattr": _struct_force,
    "copy.deepcopy": _deepcopy,
    "dataclasses.fields": _fields,
    "msgspec.structs.fields": _fields,
    "dataclasses.asdict": _asdict,
    "msgspec.structs.asdict": _asdict,
    "collections.defaultdict": _defaultdict,
    "collections.OrderedDict": _ordered,
    "collections.deque": _deque,
    "queue.Queue": partial(queue_models.make, queue_models.FIRST),
    "queue.SimpleQueue": partial(queue_models.make, queue_models.FIRST),
    "queue.LifoQueue": partial(queue_models.make, queue_models.LAST),
    "contextlib.nullcontext": _nullcontext,
    "contextlib.suppress": _manager("suppress"),
    "contextlib.closing": _manager("closing"),
    "contextlib.aclosing": _manager("closing"),
    "contextlib.ExitStack": _manager(managers.STACK),
    "contextlib.AsyncExitStack": _manager(managers.STACK),
    "types.SimpleNamespace": _namespace,
    "types.MethodType": _bound,
    "types.MappingProxyType": _identity,
    "functools.reduce": _reduce,
    "importlib.import_module": _import_module,
    "operator.methodcaller": _operator("operator.methodcaller"),
    "operator.attrgetter": _operator("operator.attrgetter"),
    "operator.itemgetter": _operator("operator.itemgetter"),
    "operator.setitem": _setitem,
    "itertools.starmap": _lazily("starmap"),
    "itertools.chain": _lazily("chain"),
    "itertools.chain.from_iterable": _lazily("chain of"),
    "itertools.cycle": _cycle,
    "itertools.repeat": _repeat,
    "itertools.islice": _lazily("islice"),
    "itertools.takewhile": _lazily("some"),
    "itertools.dropwhile": _lazily("some"),
    "itertools.filterfalse": _lazily("some"),
}
OPEN_SAFE = frozenset({"enum.auto"})

_ = UNBOUND
