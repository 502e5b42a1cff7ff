"""Python's builtins: functions, types, and the methods of builtin objects."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowcheck.interp import attributes, classes, functions, handover, managers, operators, reach, views
from flowcheck.interp.heap import Obj, State, merge
from flowcheck.interp.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    BoundV,
    BuiltinV,
    ClassV,
    ExternalV,
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
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Frame, Interpreter

Args = list[Value]
Keywords = dict[str, Value]
Model = Callable[["Interpreter", Args, Keywords, State, "ir.Node | None", "Frame"], Value]

EXCEPTIONS = frozenset(
    n for n in dir(builtins) if isinstance(getattr(builtins, n), type) and issubclass(getattr(builtins, n), BaseException)
)


def call(
    it: Interpreter, f: BuiltinV, args: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    name = f.name
    if name.startswith("m."):
        assert f.self_ is not None
        return method(it, f.self_, name[2:], args, kw, st, node, fr)
    if name.startswith("t."):
        _, kind, attr = name.split(".", 2)
        return _type_method(it, kind, attr, args, kw, st, node, fr)
    if name == "dispatch.":
        reach.forget_tracked(it, [*args, *kw.values()], st, fr.site(node) if node is not None else None, "dispatched")
        return Unknown("what a function that is chosen by type returns")
    if name == "thread.start":
        reach.weakly(it, st, lambda s: attributes.calls_method(it, f.self_, "run", fr, s, node))
        return NONE
    if name.startswith("view."):
        assert views.is_view(f.self_)  # type: ignore[arg-type]
        return views.method(it, f.self_, name[5:], args, kw, st, node, fr)  # type: ignore[arg-type]
    if name.startswith("leaf."):
        from flowcheck.interp import calls

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
    from flowcheck.interp import calls

    return calls.unknown_call(it, f, args, kw, st, node, fr, name)


def _super_method(
    it: Interpreter, f: BuiltinV, name: str, args: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    """A method of ``object`` or of a base outside the tree."""
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
        return it.new_dict(st, {k: (x, value) for k, x in zip(keys, items)})
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
    return operators.each(
        it, [(v,) for v in alternatives(a[0])], st, lambda v, state: _length(it, v, state, node, fr)
    )


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
        if obj is not None and obj.cls is not None:
            m = classes.class_attr(it, obj.cls, "__len__", st)
            if isinstance(m, FuncV):
                from flowcheck.interp import calls

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


def _isinstance(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    answers = {is_instance(it, x, a[1], st) for x in alternatives(a[0])}
    if len(answers) == 1:
        answer = answers.pop()
        if answer is not None:
            return Known(answer)
    key = None
    if isinstance(a[0], Unknown) and a[0].key is not None:
        named = _type_name(a[1])
        key = ("isinstance", a[0].key, named) if named is not None else None
    return Unknown("isinstance", key)


def _type_name(v: Value) -> Any:
    if isinstance(v, ClassV):
        return ("class", id(v))
    if isinstance(v, (BuiltinV, ExternalV)):
        return v.name
    if isinstance(v, TupleV):
        parts = tuple(_type_name(x) for x in v.items)
        return None if None in parts else parts
    return None


def is_instance(it: Interpreter, x: Value, c: Value, st: State) -> bool | None:
    """``isinstance(x, c)``."""
    if isinstance(c, TupleV):
        answers = [is_instance(it, x, y, st) for y in c.items]
        return True if True in answers else None if None in answers else False
    if isinstance(c, Union):
        answers = [is_instance(it, x, y, st) for y in c.items]
        return answers[0] if len(set(answers)) == 1 else None
    if isinstance(x, Unknown) or x is UNBOUND:
        return None
    if isinstance(c, ClassV):
        cls = st.obj(x.oid).cls if isinstance(x, Ref) and st.get(x.oid) else x.cls if isinstance(x, Member) else None
        if cls is None:
            if isinstance(x, ClassV) and isinstance(x.metaclass, ClassV):
                return c in x.metaclass.mro
            return False
        if c in cls.mro:
            return True
        return None if any(b.opaque_base and not b.external and not b.bases for b in cls.mro) else False
    if isinstance(c, BuiltinV):
        return _is_builtin_instance(x, c.name, st)
    if isinstance(c, ExternalV):
        if isinstance(x, Ref):
            obj = st.get(x.oid)
            if obj is None:
                return None
            if obj.cls is None:
                if obj.kind in ("list", "dict", "set"):
                    last = c.name.rsplit(".", 1)[-1]
                    if last in ("Sequence", "Iterable", "Mapping", "Collection", "List", "Dict", "Set", "Hashable"):
                        return None
                    return False
                return None
            if any(c.name in b.external for b in obj.cls.mro):
                return True
            if c.name == "torch.Tensor":
                return None if any("Tensor" in e for b in obj.cls.mro for e in b.external) else False
            return None if obj.cls.opaque_base or c.name.startswith(("typing.", "collections.")) else False
        if isinstance(x, (Known, TupleV, Member)):
            return None if c.name.startswith(("typing.", "collections.", "numbers.")) else False
    return None


def _is_builtin_instance(x: Value, name: str, st: State) -> bool | None:
    if name == "object":
        return True
    kind = getattr(builtins, name, None)
    if isinstance(x, Known):
        return isinstance(x.value, kind) if isinstance(kind, type) else None
    if isinstance(x, TupleV):
        return name == "tuple"
    if isinstance(x, Member):
        if name == "int":
            return x.cls.enum_kind in ("IntEnum", "IntFlag") or any("int" in b.external for b in x.cls.mro)
        if name == "str":
            return x.cls.enum_kind == "StrEnum" or any("str" in b.external for b in x.cls.mro)
        return False
    if isinstance(x, Ref):
        obj = st.get(x.oid)
        if obj is None:
            return None
        if obj.cls is None:
            if obj.kind == "exception":
                of = getattr(builtins, str(obj.tag), None)
                return issubclass(of, kind) if isinstance(of, type) and isinstance(kind, type) else None
            return obj.kind == name if obj.kind in ("list", "dict", "set") else None
        if any(name in b.external for b in obj.cls.mro):
            return True
        if isinstance(kind, type) and issubclass(kind, BaseException):
            answers = {
                issubclass(b, kind)
                for c in obj.cls.mro
                for e in c.external
                if isinstance(b := getattr(builtins, e, None), type)
            }
            return True if True in answers else None if obj.cls.opaque_base else False
        if name == "tuple" and any("typing.NamedTuple" in b.external for b in obj.cls.mro):
            return True
        return None if obj.cls.opaque_base and not obj.kind == "free" else False
    if isinstance(x, ClassV):
        return name == "type"
    if isinstance(x, (FuncV, BoundV, ModuleV, GeneratorV, PartialV)):
        return False
    return None


def _issubclass(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) == 2 and isinstance(a[0], ClassV):
        targets = a[1].items if isinstance(a[1], TupleV) else (a[1],)
        if all(isinstance(t, ClassV) for t in targets):
            hit = any(t in a[0].mro for t in targets)
            if hit or not a[0].opaque_base:
                return Known(hit)
        if any(isinstance(t, (ExternalV, BuiltinV)) and any(t.name in b.external for b in a[0].mro) for t in targets):
            return TRUE
    it.may_raise(st, node, fr)
    return Unknown("issubclass")


_MISSING = Known("<no such attribute>")


def _getattr(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) not in (2, 3):
        it.throw("TypeError", st, node, fr)
    if not isinstance(a[1], Known):
        it.may_raise(st, node, fr)
        if isinstance(a[1], Union) and all(isinstance(x, Known) for x in a[1].items):
            from flowcheck.interp.engine import Dead

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
                if it.may_name(fr, tracked):
                    chosen = Unknown("an attribute is set by a name chosen at run time")
                    obj.attrs[tracked] = join(obj.attrs[tracked], it.at(chosen, fr.site(node) if node else None, "setattr"))


def _delattr(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if isinstance(a[1], Known):
        attributes.delete(it, a[0], str(a[1].value), fr, st, node)
    return NONE


def _number(v: Value) -> Any:
    p = operators.plain(v)
    return p.value if isinstance(p, Known) and not isinstance(p.value, (type(None), str, bytes)) else None


def _extreme(pick: Callable[..., Any]) -> Model:
    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        from flowcheck.interp.engine import Dead

        items = operators.iterate(it, a[0], fr, st, node) if len(a) == 1 else list(a)
        if items is None:
            it.may_raise(st, node, fr)
            _key_each(it, a[0], kw, st, node, fr)
            return Unknown(f"{pick.__name__} of an unknown number of values")
        if not items:
            if "default" in kw:
                return kw["default"]
            it.throw("ValueError", st, node, fr)
        if "key" in kw:
            order = _ordered(it, items, {"key": kw["key"], "reverse": Known(pick is max)}, st, node, fr)
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


def _key_each(it: Interpreter, source: Value, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> None:
    """The key of every row, of which the number is not known."""
    key = kw.get("key", NONE)
    if isinstance(key, (FuncV, BoundV, PartialV, Ref, Union)):
        from flowcheck.interp import calls, statements

        def one(s: State) -> None:
            calls.call(it, key, [operators.element(it, source, s)], {}, s, node, fr)

        statements.stabilise(it, st, one)


def _ordered(
    it: Interpreter, items: list[Value], kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> list[int] | None:
    """The positions of ``items`` in order; None when the order is not known."""
    from flowcheck.interp import calls

    key = kw.get("key", NONE)
    keys = list(items)
    if not (isinstance(key, Known) and key.value is None):
        keys = [calls.call(it, key, [x], {}, st, node, fr) for x in items]
    values = [operators.python_value(x, st) for x in keys]
    down = operators.truth(it, kw.get("reverse", FALSE), st, fr)
    if any(v is None for v in values) or down is None:
        return None
    try:
        return sorted(range(len(items)), key=lambda i: values[i], reverse=down)  # type: ignore[arg-type,return-value]
    except TypeError:
        it.throw("TypeError", st, node, fr)
        raise AssertionError("unreachable") from None


def _better(
    it: Interpreter, pick: Callable[..., Any], p: Value, q: Value, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    x, y = operators.plain(p), operators.plain(q)
    if isinstance(x, Known) and isinstance(y, Known):
        try:
            return p if pick(x.value, y.value) is x.value or pick(x.value, y.value) == x.value else q
        except TypeError:
            it.throw("TypeError", st, node, fr)
    for known, other in ((p, q), (q, p)):  # nothing exceeds the largest member of an enum, whatever the other is
        if isinstance(known, Member) and isinstance(other, Unknown):
            values = [_number(m) for m in classes.enum_members(it, known.cls)]
            mine = _number(known)
            if mine is not None and None not in values and mine == pick(values):
                return known
    it.may_raise(st, node, fr)
    return union_of([Unknown(f"{pick.__name__} with an unknown value"), *(v for v in (p, q) if not isinstance(v, Unknown))])


def _bool(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if not a:
        return FALSE
    t = operators.truth(it, a[0], st, fr)
    if t is not None:
        return Known(t)
    key = operators.truth_key(a[0])
    return Unknown("bool", None if key is None else ("truth", key))


def _any_all(want: bool) -> Model:
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
        from flowcheck.interp.engine import Dead

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


def _convert(kind: type) -> Model:
    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        if not a:
            return Known(kind())
        return operators.each(it, [(v,) for v in alternatives(a[0])], st, lambda v, state: one(it, v, a, kw, state, node, fr))

    def one(
        it: Interpreter, v: Value, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
    ) -> Value:
        p = operators.plain(v)
        cls = st.obj(v.oid).cls if isinstance(v, Ref) and st.get(v.oid) else v.cls if isinstance(v, Member) else None
        dunder = {int: "__int__", float: "__float__", str: "__str__"}.get(kind)
        m = classes.class_attr(it, cls, dunder, st) if cls is not None and dunder is not None else None
        if isinstance(m, FuncV):
            from flowcheck.interp import calls

            return calls.call(it, BoundV(m, v), [], {}, st, node, fr)
        written = kind is str and (isinstance(v, Member) or (isinstance(p, Known) and isinstance(p.value, bytes)))
        if isinstance(p, Known) and len(a) == 1 and not kw and not written:  # how a member is written, versions differ
            try:
                return Known(kind(p.value))
            except (TypeError, ValueError, OverflowError) as error:
                it.throw(type(error).__name__, st, node, fr)
        if kind is str and isinstance(v, Member) and v.cls.enum_kind == "StrEnum" and "enum.StrEnum" in {
            e for b in v.cls.mro for e in b.external
        }:
            return p
        if kind is not str or not isinstance(v, (Known, Member)):
            it.may_raise(st, node, fr)
        key = (kind.__name__, v.key) if isinstance(v, Unknown) and v.key is not None and len(a) == 1 else None
        return Unknown(kind.__name__, key)

    return model


def _range(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
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


def _sequence(kind: str) -> Model:
    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        items = operators.iterate(it, a[0], fr, st, node) if a else []
        if kind == "tuple":
            return Unknown("a tuple of unknown length") if items is None else TupleV(items)
        site = fr.site(node) if node is not None else None
        if items is None:
            ref = it.new_list(st, None, site, kind)
            element = operators.element(it, a[0], st)
            if not isinstance(element, Unknown):
                st.write(ref.oid).elements = element
            return ref
        return it.new_list(st, items, site, kind)

    return model


def _dict(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    site = fr.site(node) if node is not None else None
    ref = it.new_dict(st, {}, site)
    if a or kw:
        _dict_update(it, ref, a, kw, st, node, fr)
    return ref


def _enumerate(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
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


def _zip(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    lazy = [i for i, x in enumerate(a) if operators.is_lazy(x, st)]
    if len(lazy) == 1:
        known = [NONE if i in lazy else _row(it, x, st, node, fr) for i, x in enumerate(a)]
        if all(x is not None for x in known):
            args = (Known(lazy[0]), *(x for x in known if x is not None))
            return functions.lazily(st, functions.Lazy(None, args, source=a[lazy[0]], frame=fr, how="zip"))
    rows = [operators.iterate(it, x, fr, st, node) for x in a]
    if any(r is None for r in rows):
        ref = it.new_list(st, None, None, "iterator")
        st.write(ref.oid).elements = TupleV([operators.element(it, x, st) for x in a])
        return ref
    return it.new_list(st, [TupleV(t) for t in zip(*rows)], None, "iterator")  # type: ignore[arg-type]


def _map(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) == 2:
        return functions.lazily(st, functions.Lazy(None, (a[0],), source=a[1], frame=fr, how="map"))
    from flowcheck.interp import calls

    rows = [operators.iterate(it, x, fr, st, node) for x in a[1:]]
    if any(r is None for r in rows) or not rows:
        return calls.unknown_call(it, Unknown("map"), a, kw, st, node, fr, "map")
    return it.new_list(
        st, [calls.call(it, a[0], list(t), {}, st, node, fr) for t in zip(*rows)], None, "iterator"  # type: ignore[arg-type]
    )


def _filter(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) != 2:
        it.throw("TypeError", st, node, fr)
    return functions.lazily(st, functions.Lazy(None, (a[0],), source=a[1], frame=fr, how="filter"))


def _sorted(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    items = operators.iterate(it, a[0], fr, st, node)
    order = _ordered(it, items, kw, st, node, fr) if items is not None else None
    if items is not None and order is not None:
        return it.new_list(st, [items[i] for i in order])
    it.may_raise(st, node, fr)
    if items is None:
        _key_each(it, a[0], kw, st, node, fr)
    ref = it.new_list(st, None)
    st.write(ref.oid).elements = operators.element(it, a[0], st) if items is None else union_of(items) if items else None
    return ref


def _reversed(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    items = operators.iterate(it, a[0], fr, st, node)
    ref = it.new_list(st, None if items is None else items[::-1], None, "iterator")
    if items is None:
        st.write(ref.oid).elements = operators.element(it, a[0], st)
    return ref


def _sum(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    items = operators.iterate(it, a[0], fr, st, node)
    if items is None:
        it.may_raise(st, node, fr)
        return Unknown("a sum")
    total: Value = a[1] if len(a) > 1 else kw.get("start", Known(0))
    for x in items:
        total = operators.binary(it, "+", total, x, fr, st, node)
    return total


def _type(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) != 1:
        return Unknown("a class made at run time")
    results: list[Value] = []
    for x in alternatives(a[0]):
        if isinstance(x, Ref) and st.get(x.oid) is not None:
            obj = st.obj(x.oid)
            if obj.cls is not None:
                results.append(obj.cls)
            else:
                results.append(BuiltinV(obj.tag if obj.kind == "exception" else obj.kind))
        elif isinstance(x, Member):
            results.append(x.cls)
        elif isinstance(x, Known):
            results.append(BuiltinV(type(x.value).__name__))
        elif isinstance(x, TupleV):
            results.append(BuiltinV("tuple"))
        elif isinstance(x, ClassV) and x.metaclass is not None:
            results.append(x.metaclass)
        else:
            results.append(Unknown("a type"))
    return union_of(results)


def _callable(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    answers: set[bool | None] = set()
    for x in alternatives(a[0]):
        if isinstance(x, (FuncV, BoundV, ClassV, BuiltinV, PartialV, ExternalV)):
            answers.add(True)
        elif isinstance(x, (Known, TupleV, Member)):
            answers.add(False)
        elif isinstance(x, Ref) and st.get(x.oid) is not None and st.obj(x.oid).cls is not None:
            cls = st.obj(x.oid).cls
            assert cls is not None
            has = classes.class_attr(it, cls, "__call__", st) is not None
            answers.add(True if has else None if cls.opaque_base else False)
        else:
            answers.add(None)
    if len(answers) == 1 and None not in answers:
        return Known(answers.pop())
    return Unknown("callable")


def _iter(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if isinstance(a[0], (GeneratorV, Unknown)) or len(a) > 1:
        return a[0] if len(a) == 1 else Unknown("an iterator")
    if isinstance(a[0], Union):
        return operators.each(
            it, [(x,) for x in a[0].items], st, lambda x, state: _iter(it, [x, *a[1:]], kw, state, node, fr)
        )
    if isinstance(a[0], Ref) and st.obj(a[0].oid).kind == "iterator":
        return a[0]
    obj = st.get(a[0].oid) if isinstance(a[0], Ref) else None
    if obj is not None and obj.cls is not None:
        from flowcheck.interp import calls

        m = classes.class_attr(it, obj.cls, "__iter__", st)
        if isinstance(m, FuncV):
            return calls.call(it, BoundV(m, a[0]), [], {}, st, node, fr)
    items = operators.iterate(it, a[0], fr, st, node)
    ref = it.new_list(st, items, None, "iterator")
    if items is None:
        st.write(ref.oid).elements = operators.element(it, a[0], st)
    return ref


def _next(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    v = a[0]
    if isinstance(v, Union):
        return operators.each(
            it, [(x,) for x in v.items], st, lambda x, state: _next(it, [x, *a[1:]], kw, state, node, fr)
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
                from flowcheck.interp import calls

                if len(a) < 2:
                    return calls.call(it, BoundV(m, v), [], {}, st, node, fr)
                value, ended = operators.next_of(it, v, fr, st, node)
                if ended is not None:
                    st.become(merge([ended, st.fork()] if value is not None else [ended]).fork())
                return a[1] if value is None else value if ended is None else join(value, a[1])
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    plain = obj is not None and obj.cls is not None and obj.kind == "object" and not obj.cls.opaque_base
    if plain or isinstance(v, (Known, TupleV, Member, FuncV)) or (obj is not None and obj.kind in ("list", "dict", "set")):
        it.throw("TypeError", st, node, fr)
    it.may_throw("StopIteration", st, node, fr, certain=False)
    element = operators.element(it, v, st)
    return element if len(a) < 2 else join(a[1], element)


def _super(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) == 2 and isinstance(a[0], ClassV):
        return SuperV(a[0], a[1])
    return Unknown("super()")


def _vars(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if len(a) == 1:
        return union_of([attributes.get(it, x, "__dict__", fr, st, node) for x in alternatives(a[0])])
    return Unknown("vars()")


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


def _abs(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    n = _number(a[0])
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


def _property(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    if a and isinstance(a[0], FuncV):
        f = a[0]
        new = FuncV(f.node, f.module, f.env, f.owner, f.cls, f.defaults, "property")
        setter, deleter = (a[i] if len(a) > i else kw.get(n, NONE) for i, n in ((1, "fset"), (2, "fdel")))
        new.setter = setter if isinstance(setter, FuncV) else None
        new.deleter = deleter if isinstance(deleter, FuncV) else None
        return new
    return Unknown("a property")


def _rebound(kind: str) -> Model:
    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        if a and isinstance(a[0], FuncV):
            f = a[0]
            return FuncV(f.node, f.module, f.env, f.owner, f.cls, f.defaults, kind)
        return a[0] if a else Unknown(kind)

    return model


def _method_caller(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``operator.methodcaller(name, …)``, called: the object stands last."""
    from flowcheck.interp import calls

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
    "operator.methodcaller": _method_caller, "operator.attrgetter": _attr_getter, "operator.itemgetter": _item_getter,
    "len": _len, "isinstance": _isinstance, "issubclass": _issubclass, "getattr": _getattr, "hasattr": _hasattr,
    "setattr": _setattr, "delattr": _delattr, "max": _extreme(max), "min": _extreme(min), "bool": _bool,
    "any": _any_all(True), "all": _any_all(False), "int": _convert(int), "float": _convert(float),
    "str": _convert(str), "range": _range, "list": _sequence("list"), "tuple": _sequence("tuple"),
    "set": _sequence("set"), "frozenset": _sequence("set"), "dict": _dict, "enumerate": _enumerate, "zip": _zip,
    "map": _map, "filter": _filter, "sorted": _sorted, "reversed": _reversed, "sum": _sum, "type": _type,
    "callable": _callable, "iter": _iter, "next": _next, "super": _super, "vars": _vars, "globals": _globals,
    "exec": _text_of("exec"), "eval": _text_of("eval"), "__import__": _import, "print": _print,
    "repr": _text("repr"), "hash": _text("hash"), "id": _text("id"), "format": _text("format"), "abs": _abs,
    "round": _round, "divmod": _divmod, "object": _object, "property": _property, "staticmethod": _rebound("static"),
    "classmethod": _rebound("class"),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- methods
PURE_METHODS = frozenset(
    n for n in dir(str) if not n.startswith("_")
) - {"format", "format_map", "maketrans", "translate", "encode"}  # fmt: skip


def method(
    it: Interpreter, x: Value, name: str, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    if isinstance(x, Known):
        return _scalar_method(it, x, name, a, kw, st, node, fr)
    if isinstance(x, TupleV):
        if name in ("index", "count") and a:
            keys = [it.key(v) for v in x.items]
            k = it.key(a[0])
            if k is not None and None not in keys:
                if name == "count":
                    return Known(keys.count(k))
                if k in keys:
                    return Known(keys.index(k))
                it.throw("ValueError", st, node, fr)
        it.may_raise(st, node, fr)
        return Unknown(f"tuple.{name}(…)")
    if isinstance(x, Ref):
        obj = st.get(x.oid)
        if obj is None:
            return Unknown(f"{name}(…)")
        if name in attributes.RECORD_METHODS and obj.cls is not None:
            record = operators.record_items(it, obj)
            if record is not None and name == "_replace":
                copy = obj.copy()
                copy.exact = True
                copy.attrs.update(kw)
                return it.alloc(st, copy)
            if record is not None and name in ("index", "count"):
                return method(it, TupleV(record), name, a, kw, st, node, fr)
            return Unknown(f"{name}(…)")
        if obj.kind == "dict":
            return _dict_method(it, x, obj, name, a, kw, st, node, fr)
        if obj.tag == managers.STACK:
            return managers.method(it, x, name, a, kw, st, node, fr)
        if obj.kind in ("list", "set", "iterator"):
            return _list_method(it, x, obj, name, a, kw, st, node, fr)
    if isinstance(x, GeneratorV) and name in ("close", "throw", "send"):
        it.may_raise(st, node, fr)
        return Unknown(f"generator.{name}(…)")
    it.may_raise(st, node, fr)
    return Unknown(f"{name}(…)")


def _scalar_method(
    it: Interpreter, x: Known, name: str, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    args: list[Any] = []
    exact = not kw
    for v in a:
        p = operators.plain(v)
        if isinstance(p, Known):
            args.append(p.value)
        elif isinstance(p, TupleV) and all(isinstance(y, Known) for y in p.items):
            args.append(tuple(y.value for y in p.items))  # type: ignore[attr-defined]
        elif name == "join":
            items = operators.iterate(it, v, fr, st, node)
            if items is not None and all(isinstance(y, Known) and isinstance(y.value, str) for y in items):
                args.append([y.value for y in items])  # type: ignore[attr-defined]
            else:
                exact = False
        else:
            exact = False
    if exact and (not isinstance(x.value, str) or name in PURE_METHODS) and isinstance(x.value, (str, int, float, bytes)):
        try:
            result = getattr(x.value, name)(*args)
        except Exception as error:
            it.throw(type(error).__name__, st, node, fr)
        if isinstance(result, list):
            return it.new_list(st, [Known(y) for y in result])
        if isinstance(result, tuple):
            return TupleV([Known(y) for y in result])
        if isinstance(result, (str, int, float, bytes, bool, type(None))):
            return Known(result)
    it.may_raise(st, node, fr)
    return Unknown(f"{type(x.value).__name__}.{name}(…)")


def _dict_method(
    it: Interpreter, x: Ref, obj: Obj, name: str, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    key = it.key(a[0]) if a else None
    unknown = obj.elements if obj.elements is not None else Unknown("a value of a mapping")
    if name == "get":
        default = a[1] if len(a) > 1 else kw.get("default", NONE)
        if isinstance(a[0], Union):
            return union_of([_dict_method(it, x, obj, name, [k, *a[1:]], kw, st, node, fr) for k in a[0].items])
        if obj.items is None:
            return join(default, unknown)
        if key is None:
            return union_of([default, *(v for _, v in obj.items.values())])
        return obj.items[key][1] if key in obj.items else default
    if name in ("items", "keys", "values"):
        if obj.items is None:
            ref = it.new_list(st, None, None, "iterator")
            k = Unknown("a key")
            st.write(ref.oid).elements = TupleV([k, unknown]) if name == "items" else k if name == "keys" else unknown
            return ref
        rows: list[Value] = [
            TupleV(p) if name == "items" else p[0] if name == "keys" else p[1] for p in obj.items.values()
        ]
        return it.new_list(st, rows)
    if name == "copy":
        return it.alloc(st, obj.copy())
    w = st.write(x.oid)
    if name == "clear":
        w.items = {} if w.exact else None
        return NONE
    if name == "update":
        _dict_update(it, x, a, kw, st, node, fr)
        return NONE
    if w.items is None:
        it.may_raise(st, node, fr)
        if name == "setdefault":
            v = a[1] if len(a) > 1 else NONE
            w.elements = join(w.elements, v) if w.elements is not None else None
            return join(unknown, v)
        return unknown if len(a) < 2 else join(unknown, a[1])
    if name == "setdefault":
        v = a[1] if len(a) > 1 else NONE
        if key is not None and w.exact:
            if key not in w.items:
                w.items[key] = (a[0], v)
            return w.items[key][1]  # type: ignore[no-any-return]
    elif name == "pop":
        if key is not None and w.exact:
            if key in w.items:
                return w.items.pop(key)[1]  # type: ignore[no-any-return]
            if len(a) > 1:
                return a[1]
            it.throw("KeyError", st, node, fr)
    elif name == "popitem" and w.exact and w.items:
        k = list(w.items)[-1]
        return TupleV(w.items.pop(k))
    elif name == "move_to_end" and key is not None and key in w.items and w.exact:
        w.items[key] = w.items.pop(key)
        return NONE
    it.may_raise(st, node, fr)
    values: list[Value] = [v for _, v in w.items.values()]
    w.items = None
    w.elements = union_of([*values, *a[1:]]) if values or len(a) > 1 else None
    return w.elements if w.elements is not None else Unknown(f"dict.{name}(…)")


def _dict_update(
    it: Interpreter, x: Ref, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> None:
    w = st.write(x.oid)
    for source in a[:1]:
        if views.is_view(source):
            source = views.contents(it, source, st)
        other = st.get(source.oid) if isinstance(source, Ref) else None
        pairs: list[Value] | None = None
        if other is not None and other.kind == "dict" and other.items is not None:
            items = dict(other.items)
        else:
            items = None
            if not isinstance(source, Unknown):
                pairs = operators.iterate(it, source, fr, st, node) if other is None or other.kind != "dict" else None
            if pairs is not None:
                items = {}
                for p in pairs:
                    row = operators.iterate(it, p, fr, st, node)
                    k = it.key(row[0]) if row is not None and len(row) == 2 else None
                    if row is None or k is None:
                        items = None
                        break
                    items[k] = (row[0], row[1])
        if items is None or not w.exact:
            w.items = None
            w.elements = None
        elif w.items is not None:
            for k, v in items.items():
                w.items[k] = (w.items[k][0] if k in w.items else v[0], v[1])
    if w.items is not None:
        for name, v in kw.items():
            w.items[("k", name)] = (Known(name), v)
    elif kw:
        w.elements = None


def _list_method(
    it: Interpreter, x: Ref, obj: Obj, name: str, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    if name == "copy":
        return it.alloc(st, obj.copy())
    if name in ("index", "count"):
        if obj.items is not None:
            keys = [it.key(v) for v in obj.items]
            k = it.key(a[0])
            if k is not None and None not in keys:
                if name == "count":
                    return Known(keys.count(k))
                if k in keys and len(a) == 1:
                    return Known(keys.index(k))
                if len(a) == 1:
                    it.throw("ValueError", st, node, fr)
        it.may_raise(st, node, fr)
        return Unknown(f"list.{name}(…)")
    if name in ("issubset", "issuperset", "isdisjoint", "union", "intersection", "difference", "symmetric_difference"):
        op = {"union": "|", "intersection": "&", "difference": "-"}.get(name)
        if op and len(a) == 1 and isinstance(a[0], Ref) and st.obj(a[0].oid).kind == "set":
            return operators.binary(it, op, x, a[0], fr, st, node)
        if op:
            ref = it.new_list(st, None, None, "set")
            st.write(ref.oid).elements = union_of([operators.element(it, x, st), *(operators.element(it, y, st) for y in a)])
            return ref
        return Unknown(f"set.{name}(…)")
    w = st.write(x.oid)
    weak = not w.exact
    if name in ("append", "add"):
        if name == "add" and w.items is not None and not weak:
            k = it.key(a[0])
            keys = [it.key(v) for v in w.items]
            if k is not None and None not in keys:
                if k not in keys:
                    w.items.append(a[0])
                return NONE
            w.elements = union_of([*w.items, a[0]])
            w.items = None
        elif w.items is not None and not weak and len(w.items) < operators.BIGGEST:
            w.items.append(a[0])
        else:
            _open(w, [a[0]])
        return NONE
    if name in ("extend", "update"):
        for source in a:
            items = operators.iterate(it, source, fr, st, node)
            w = st.write(x.oid)
            if items is not None and w.items is not None and not weak and w.kind == "list":
                w.items.extend(items)
            elif items is not None and w.items is not None and not weak and w.kind == "set":
                for v in items:
                    _list_method(it, x, w, "add", [v], {}, st, node, fr)
            else:
                _open(w, [operators.element(it, source, st)] if items is None else items)
        return NONE
    if name == "clear":
        if weak:
            _open(w, [])
        else:
            w.items = []
            w.elements = None
        return NONE
    if name == "pop" and w.items is not None and not weak and w.kind == "list":
        if not w.items:
            it.throw("IndexError", st, node, fr)
        if not a:
            return w.items.pop()  # type: ignore[no-any-return]
        p = operators.plain(a[0])
        if isinstance(p, Known) and isinstance(p.value, int):
            if not -len(w.items) <= p.value < len(w.items):
                it.throw("IndexError", st, node, fr)
            return w.items.pop(p.value)  # type: ignore[no-any-return]
    if name == "insert" and w.items is not None and not weak:
        p = operators.plain(a[0])
        if isinstance(p, Known) and isinstance(p.value, int):
            w.items.insert(p.value, a[1])
            return NONE
    if name in ("remove", "discard") and w.items is not None and not weak:
        keys = [it.key(v) for v in w.items]
        k = it.key(a[0])
        if k is not None and None not in keys:
            if k in keys:
                w.items.pop(keys.index(k))
            elif name == "remove":
                it.throw("KeyError" if w.kind == "set" else "ValueError", st, node, fr)
            return NONE
    if name == "reverse" and w.items is not None and not weak:
        w.items.reverse()
        return NONE
    if name == "sort" and w.items is not None and not weak:
        items = list(w.items)
        order = _ordered(it, items, kw, st, node, fr)
        w = st.write(x.oid)
        if order is not None:
            w.items = [items[i] for i in order]
            return NONE
    it.may_raise(st, node, fr)
    if name == "sort":
        _key_each(it, x, kw, st, node, fr)
        w = st.write(x.oid)
    if w.kind == "iterator":
        functions.resume(it, x, fr, st, node)
        w = st.write(x.oid)
    _open(w, a[1:] if name == "insert" else [])
    if name in ("pop",):
        return w.elements if w.elements is not None else Unknown(f"{w.kind}.pop()")
    return NONE if name in ("sort", "reverse", "insert", "remove", "discard") else Unknown(f"{w.kind}.{name}(…)")


def _open(w: Obj, more: Args) -> None:
    """From here on the container may hold any number of the values that it holds or is given."""
    w.open(more)
