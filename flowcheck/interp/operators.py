"""Operators, truth, equality, iteration, subscripts: what Python's data model does to abstract values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowcheck.interp import calls, classes, views
from flowcheck.interp.comparisons import compare, contains, equal, identical, python_value
from flowcheck.interp.heap import State
from flowcheck.interp.iteration import BIGGEST, element, is_lazy, iterate, next_of, record_items, visit, void
from flowcheck.interp.subscripts import delete_item, put, take, take_slice
from flowcheck.interp.truth import (
    builtin_like,
    class_of,
    each,
    hashable,
    is_kind,
    is_list,
    key_truth,
    learn,
    learn_key,
    need_hash,
    plain,
    runs_code,
    truth,
    truth_key,
    with_truth,
)
from flowcheck.interp.values import (
    FALSE,
    NONE,
    TRUE,
    BoundV,
    BuiltinV,
    ClassV,
    ExternalV,
    FuncV,
    Known,
    Member,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
    join,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = [
    "BIGGEST", "DUNDER", "binary", "compare", "contains", "delete_item", "each", "element", "equal", "hashable",
    "identical", "is_kind", "is_lazy", "iterate", "key_truth", "learn", "learn_key", "need_hash", "next_of", "plain", "put",
    "python_value", "record_items", "runs_code", "take", "take_slice", "truth", "truth_key", "unary", "visit",
    "void", "with_truth",
]  # fmt: skip

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
DUNDER = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
NUMERIC_ENUMS = ("IntEnum", "IntFlag")


# ----------------------------------------------------------------------------------------------------------- operators
def unary(it: Interpreter, op: str, v: Value, fr: Frame, st: State, e: ir.Node) -> Value:
    """``op v``."""
    if isinstance(v, Union):
        return each(it, [(x,) for x in v.items], st, lambda x, s: unary(it, op, x, fr, s, e))
    cls = class_of(v, st)
    if cls is not None:
        method = classes.class_attr(it, cls, {"-": "__neg__", "+": "__pos__", "~": "__invert__"}[op], st)
        if isinstance(method, FuncV):
            return calls.call(it, BoundV(method, v), [], {}, st, e, fr)
    if it.config.tensors is not None and is_kind(v, "tensor", st):
        return it.config.tensors.unary(it, op, v, fr, st, e)
    p = plain(v)
    if isinstance(p, Known):
        try:
            x = p.value
            return Known(-x if op == "-" else ~x if op == "~" else +x)
        except TypeError:
            it.throw("TypeError", st, e, fr)
    it.may_raise(st, e, fr)
    return Unknown("arithmetic", _op_key(op, v, None))


def _op_key(op: str, a: Value, b: Value | None) -> Any:
    parts = []
    for x in (a, b):
        if x is None:
            continue
        if isinstance(x, Unknown):
            if x.key is None:
                return None
            parts.append(x.key)
        elif isinstance(x, (Known, Member)):
            p = plain(x)
            parts.append(("lit", p.value) if isinstance(p, Known) else ("member", x))
        else:
            return None
    try:
        hash(tuple(parts))
    except TypeError:
        return None
    return ("op", op, *parts)


def binary(it: Interpreter, op: str, a: Value, b: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
    """``a op b``."""
    if isinstance(a, Union) or isinstance(b, Union):
        pairs: list[tuple[Value, ...]] = [(x, y) for x in alternatives(a) for y in alternatives(b)]
        return each(it, pairs, st, lambda x, y, s: binary(it, op, x, y, fr, s, e))
    if it.config.tensors is not None and (isinstance(a, Ref) or isinstance(b, Ref)):
        made = it.config.tensors.binary(it, op, a, b, fr, st, e)
        if made is not None:
            return made
    custom = _custom_binary(it, op, a, b, fr, st, e)
    if custom is not None:
        return custom
    x, y = plain(a), plain(b)
    if isinstance(x, Known) and isinstance(y, Known):
        return _scalar(it, op, x.value, y.value, fr, st, e)
    if (
        op in ("|", "&")
        and isinstance(a, Member)
        and isinstance(b, Member)
        and a.cls is b.cls
        and isinstance(a.value, Known)
        and isinstance(b.value, Known)
        and isinstance(a.value.value, int)
    ):
        return Unknown("combined flags")
    if op == "+":
        if isinstance(a, TupleV) and isinstance(b, TupleV):
            return TupleV(a.items + b.items)
        if is_list(a, st) and is_list(b, st):
            return _concat(it, a, b, fr, st, e)
    if op == "*":
        for seq, n in ((a, y), (b, x)):
            if isinstance(n, Known) and isinstance(n.value, int):
                if isinstance(seq, TupleV) and len(seq.items) * max(n.value, 0) <= BIGGEST:
                    return TupleV(seq.items * n.value)
                if is_list(seq, st):
                    obj = st.obj(seq.oid)  # type: ignore[attr-defined]
                    if obj.items is not None and len(obj.items) * max(n.value, 0) <= BIGGEST:
                        return it.new_list(st, obj.items * n.value, fr.site(e) if e is not None else None)
        for seq in (a, b):
            if is_list(seq, st):
                it.may_raise(st, e, fr)
                ref = it.new_list(st, None, fr.site(e) if e is not None else None)
                st.write(ref.oid).elements = element(it, seq, st)
                return ref
    if op == "|" and (views.is_view(a) or views.is_view(b)):
        a, b = (views.contents(it, v, st) if views.is_view(v) else v for v in (a, b))
    if op == "|" and is_kind(a, "dict", st) and is_kind(b, "dict", st):
        x_items, y_items = st.obj(a.oid).items, st.obj(b.oid).items  # type: ignore[attr-defined]
        return it.new_dict(st, None if x_items is None or y_items is None else {**x_items, **y_items})
    if op in ("|", "&", "-", "^"):
        a, b = (_as_set(it, v, st) for v in (a, b))
    if op in ("|", "&", "-", "^") and is_kind(a, "set", st) and is_kind(b, "set", st):
        return _set_op(it, op, a, b, st)
    if op == "|" and (isinstance(a, (ClassV, BuiltinV, ExternalV)) or isinstance(b, (ClassV, BuiltinV, ExternalV))):
        return Unknown("a union type")
    if op == "%" and isinstance(x, Known) and isinstance(x.value, (str, bytes)):
        it.may_raise(st, e, fr)
        return Unknown("formatted string")
    if not isinstance(a, Unknown) and not isinstance(b, Unknown) and builtin_like(a, st) and builtin_like(b, st):
        it.throw("TypeError", st, e, fr)
    it.may_raise(st, e, fr)
    return Unknown("arithmetic", _op_key(op, a, b))


def _as_set(it: Interpreter, v: Value, st: State) -> Value:
    """The keys or items of a dict as the set that they are to operators; anything else unchanged."""
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    if obj is not None and obj.kind == "list" and obj.tag == "view" and obj.items is not None:
        return it.new_list(st, list(obj.items), None, "set")
    return v


def _scalar(it: Interpreter, op: str, x: Any, y: Any, fr: Frame, st: State, e: ir.Node | None) -> Value:
    if op == "**" and isinstance(x, (int, float)) and isinstance(y, (int, float)) and (abs(y) > 64 or abs(x) > 1 << 64):
        return Unknown("a large power")
    if op == "<<" and isinstance(y, int) and y > 256:
        return Unknown("a large shift")
    if op == "*" and (isinstance(x, (str, bytes)) or isinstance(y, (str, bytes))):
        n = y if isinstance(y, int) else x
        s = x if isinstance(x, (str, bytes)) else y
        if isinstance(n, int) and isinstance(s, (str, bytes)) and len(s) * max(n, 0) > BIGGEST:
            return Unknown("a long string")
    if op == "%" and isinstance(x, (str, bytes)):
        it.may_raise(st, e, fr)
        return Unknown("formatted string")
    try:
        return Known(BINARY[op](x, y))
    except ZeroDivisionError:
        it.throw("ZeroDivisionError", st, e, fr)
    except TypeError:
        it.throw("TypeError", st, e, fr)
    except (ValueError, OverflowError) as error:
        it.throw(type(error).__name__, st, e, fr)
    raise AssertionError("unreachable")


def _custom_binary(
    it: Interpreter, op: str, a: Value, b: Value, fr: Frame, st: State, e: ir.Node | None
) -> Value | None:

    for subject, other, prefix in ((a, b, ""), (b, a, "r")):
        cls = class_of(subject, st)
        if cls is None:
            continue
        method = classes.class_attr(it, cls, f"__{prefix}{DUNDER[op]}__", st)
        if isinstance(method, FuncV):
            result = calls.call(it, BoundV(method, subject), [other], {}, st, e, fr)
            if isinstance(result, BuiltinV) and result.name == "NotImplemented":
                continue
            return result
    return None


def _concat(it: Interpreter, a: Value, b: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
    x = iterate(it, a, fr, st, e)
    y = iterate(it, b, fr, st, e)
    site = fr.site(e) if e is not None else None
    if x is not None and y is not None:
        return it.new_list(st, x + y, site)
    ref = it.new_list(st, None, site)
    st.write(ref.oid).elements = join(element(it, a, st), element(it, b, st))
    return ref


def _set_op(it: Interpreter, op: str, a: Value, b: Value, st: State) -> Value:
    x, y = st.obj(a.oid), st.obj(b.oid)  # type: ignore[attr-defined]
    if x.items is None or y.items is None or any(it.key(v) is None for v in [*x.items, *y.items]):
        ref = it.new_list(st, None, None, "set")
        st.write(ref.oid).elements = join(element(it, a, st), element(it, b, st))
        return ref
    ky = {it.key(v) for v in y.items}
    kx = {it.key(v) for v in x.items}
    if op == "|":
        items = x.items + [v for v in y.items if it.key(v) not in kx]
    elif op == "&":
        items = [v for v in x.items if it.key(v) in ky]
    elif op == "-":
        items = [v for v in x.items if it.key(v) not in ky]
    else:
        items = [v for v in x.items if it.key(v) not in ky] + [v for v in y.items if it.key(v) not in kx]
    return it.new_list(st, items, None, "set")


_ = (FALSE, NONE, TRUE)
