"""``isinstance``, ``type`` and what else asks a value for its class."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from flowcheck.interp import classes
from flowcheck.interp.heap import State
from flowcheck.interp.models import Args, Keywords, Model
from flowcheck.interp.values import (
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
    union_of,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame


def isinstance_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``isinstance``, called."""
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
            if obj.kind == "tensor":
                return obj.tag.is_instance(c.name)  # type: ignore[no-any-return]
            if obj.cls is None:
                if obj.kind == "queue":
                    return None
                if obj.tag == "deque" and c.name == "collections.deque":
                    return True
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
        if obj.kind in ("document", "tensor"):
            return False
        if obj.cls is None:
            if obj.kind == "exception":
                of = getattr(builtins, str(obj.tag), None)
                return issubclass(of, kind) if isinstance(of, type) and isinstance(kind, type) else None
            if obj.tag == "deque" or obj.kind == "queue":
                return False
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
        return None if obj.cls.opaque_base and obj.kind != "free" else False
    if isinstance(x, ClassV):
        return name == "type"
    if isinstance(x, (FuncV, BoundV, ModuleV, GeneratorV, PartialV)):
        return False
    return None


def issubclass_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``issubclass``, called."""
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


def type_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``type``, called."""
    if len(a) != 1:
        return Unknown("a class made at run time")
    results: list[Value] = []
    for x in alternatives(a[0]):
        if isinstance(x, Ref) and st.get(x.oid) is not None:
            obj = st.obj(x.oid)
            if obj.cls is not None:
                results.append(obj.cls)
            elif obj.kind in ("queue", "dispatch") or obj.tag == "deque":
                results.append(ExternalV("collections.deque") if obj.tag == "deque" else Unknown("a type"))
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


def callable_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``callable``, called."""
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


def super_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``super``, called."""
    if len(a) == 2 and isinstance(a[0], ClassV):
        return SuperV(a[0], a[1])
    return Unknown("super()")


def property_(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``property``, called."""
    if a and isinstance(a[0], FuncV):
        f = a[0]
        new = FuncV(f.node, f.module, f.env, f.owner, f.cls, f.defaults, "property")
        setter, deleter = (a[i] if len(a) > i else kw.get(n, NONE) for i, n in ((1, "fset"), (2, "fdel")))
        new.setter = setter if isinstance(setter, FuncV) else None
        new.deleter = deleter if isinstance(deleter, FuncV) else None
        return new
    return Unknown("a property")


def rebound_(kind: str) -> Model:
    """``staticmethod`` or ``classmethod``, called."""

    def model(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
        if a and isinstance(a[0], FuncV):
            f = a[0]
            return FuncV(f.node, f.module, f.env, f.owner, f.cls, f.defaults, kind)
        return a[0] if a else Unknown(kind)

    return model
