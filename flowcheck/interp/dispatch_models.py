"""``functools.singledispatch`` and ``singledispatchmethod``: functions that choose what runs by the type of an argument.

One is an object of kind "dispatch": ``default`` is what runs for any other type, ``items`` are rows of a class and what runs
for it, and ``tag`` says which argument decides.
"""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING

from flowcheck.interp import attributes, calls, operators, reach
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.models import Args, Keywords
from flowcheck.interp.values import (
    BuiltinV,
    ClassV,
    ExternalV,
    FuncV,
    Known,
    Member,
    PartialV,
    Ref,
    TupleV,
    Unknown,
    Value,
    alternatives,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["KIND", "KINDS", "NAMES", "REGISTER", "anything", "call", "make", "register"]

KIND = "dispatch"
KINDS = {"functools.singledispatch": 0, "functools.singledispatchmethod": 1}
"""The decorators, and the place of the argument whose type decides."""
NAMES = frozenset({"register"})
REGISTER = "dispatch.register"
UNDECIDED = Unknown("the type for which a function is registered")


def make(it: Interpreter, value: Value, decorator: str, fr: Frame, st: State) -> Value:
    """What the decorator makes of a function."""
    if not isinstance(value, FuncV) or value.kind != "func" or _registered_elsewhere(it, value, fr):
        return BuiltinV("dispatch.", value)
    obj = Obj(KIND, items=[])
    obj.default, obj.tag = value, KINDS[decorator]
    return Ref(st.new(obj))


def _registered_elsewhere(it: Interpreter, f: FuncV, fr: Frame) -> bool:
    """Whether something may be registered where the interpreter does not come by: in another module, in a function, or
    through the class or instance that holds it."""
    if fr.func is not None:
        return False  # it is made anew by each call, and what follows is run
    name = re.escape(f.name.encode())
    through = re.compile(rb"\." + name + rb"\.register\b")
    indented = re.compile(rb"^[ \t]+[^\n]*\b" + name + rb"\.register\b", re.M)
    anywhere = re.compile(rb"\b" + name + rb"\.register\b")
    for path in it.program.corpus.files_with(f.name, "register"):
        data = it.program.corpus.files[path]
        if through.search(data):
            return True
        if fr.cls is None and (indented if path == f.module.path else anywhere).search(data):
            return True
    return False


def register(it: Interpreter, x: Ref, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """``f.register(cls)``, ``f.register(cls, function)``, ``f.register(function)`` by its annotation."""
    given = [*a, *(kw[k] for k in ("cls", "func") if k in kw)]
    held = st.write(x.oid).items
    rows: list[Value] = [] if held is None else held  # of one that a loop has changed nothing is known any more
    if len(given) == 1 and isinstance(given[0], FuncV):
        for kind in _annotated(it, given[0], fr, st):
            rows.append(TupleV((kind, given[0])))
        return given[0]
    if len(given) == 1:
        return PartialV(BuiltinV(REGISTER, x), (given[0],), {})
    if len(given) == 2:
        kind = given[0] if isinstance(given[0], (ClassV, BuiltinV, ExternalV)) else UNDECIDED
        rows.append(TupleV((kind, given[1])))
        return given[1]
    it.throw("TypeError", st, node, fr)
    raise AssertionError("unreachable")


def _annotated(it: Interpreter, f: FuncV, fr: Frame, st: State) -> list[Value]:
    """The classes that the first annotation names."""
    first = next((p.annotation for p in f.node.params.items if p.annotation is not None), None)
    return [UNDECIDED] if first is None else _classes(it, first, fr, st)


def _classes(it: Interpreter, e: ir.Expr, fr: Frame, st: State) -> list[Value]:
    if isinstance(e, ir.Const) and isinstance(e.value, str) and re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", e.value):
        root, *rest = e.value.split(".")
        named: ir.Expr = ir.Name(e.nid, root)
        for part in rest:
            named = ir.Attribute(e.nid, named, part)
        return _classes(it, named, fr, st)
    if isinstance(e, ir.BinOp) and e.op == "|":
        return [*_classes(it, e.left, fr, st), *_classes(it, e.right, fr, st)]
    if isinstance(e, ir.Const) and e.value is None:
        return [BuiltinV("NoneType")]
    if isinstance(e, (ir.Name, ir.Attribute)):
        v = it.eval(e, fr, st)
        if isinstance(v, (ClassV, BuiltinV, ExternalV)):
            return [v]
    return [UNDECIDED]


def call(
    it: Interpreter, x: Ref, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame, open_: bool
) -> Value:
    """A call: what is registered for the type of the argument runs."""
    obj = st.obj(x.oid)
    if len(a) <= obj.tag:
        if open_:
            return anything(it, a, kw, st, node, fr)
        it.throw("TypeError", st, node, fr)

    def one(v: Value, s: State) -> Value:
        target = _chosen(it, obj, v, s)
        if target is None:
            return anything(it, a, kw, s, node, fr)
        given = [*a[: obj.tag], v, *a[obj.tag + 1 :]]
        return calls.call(it, target, given, dict(kw), s, node, fr, open_)

    return operators.each(it, [(v,) for v in alternatives(a[obj.tag])], st, one)


def anything(it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """A call of which nobody knows what runs: it may do anything to what it is given."""
    it.may_raise(st, node, fr)
    site = fr.site(node) if node is not None else None
    given = [*a, *kw.values()]
    reach.forget_tracked(it, given, st, site, "dispatched")
    for v in given:
        calls.forget_container(it, v, st)
        for x in alternatives(v):
            held = st.get(x.oid) if isinstance(x, Ref) else None
            if isinstance(x, Ref) and held is not None and held.cls is not None and held.kind == "object":
                attributes.forget(it, x, it.at(Unknown("dispatched"), site, "dispatched"), st)
    return Unknown("what a function that is chosen by type returns")


def _chosen(it: Interpreter, obj: Obj, v: Value, st: State) -> Value | None:
    """What runs for a value; None when that is not known."""
    if obj.items is None or not obj.exact:
        return None
    rows: dict[Value, Value] = {}
    for row in obj.items:
        if not isinstance(row, TupleV) or isinstance(row.items[0], Unknown):
            return None
        kind, target = row.items
        if isinstance(kind, ExternalV):
            return None  # it may be an abstract class, of which anything may be an instance
        rows[kind] = target
    order = _order(it, v, st)
    if order is None:
        return None
    return next((rows[k] for k in (*order, BuiltinV("object")) if k in rows), obj.default)


def _order(it: Interpreter, v: Value, st: State) -> list[Value] | None:
    """The classes of a value that count, the nearest first; None when they are not known."""
    cls: ClassV | None = None
    if isinstance(v, (Known, TupleV)):
        plain = type(v.value) if isinstance(v, Known) else tuple
        return [BuiltinV(t.__name__) for t in plain.__mro__]
    if isinstance(v, Member):
        cls = v.cls
    elif isinstance(v, Ref):
        held = st.get(v.oid)
        if held is None:
            return None
        cls = held.cls
        if cls is None:
            return [BuiltinV(held.kind)] if held.kind in ("list", "dict", "set") and held.tag != "deque" else None
    if cls is None or cls.opaque_base:
        return None
    beyond = [e for c in cls.mro for e in c.external]
    names = [t.__name__ for e in beyond if isinstance(b := getattr(builtins, e, None), type) for t in b.__mro__]
    enum = {"IntEnum": "int", "IntFlag": "int", "StrEnum": "str"}.get(cls.enum_kind or "")
    return [*cls.mro, *map(BuiltinV, [n for n in (*names, enum) if n and n != "object"])]
