"""Operators, truth, equality, iteration, subscripts: what Python's data model does to abstract values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowcheck.interp import views
from flowcheck.interp.heap import NEVER, Obj, State, merge
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

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
DUNDER = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
ORDER_DUNDER = {"<": ("lt", "gt"), "<=": ("le", "ge"), ">": ("gt", "lt"), ">=": ("ge", "le")}
NUMERIC_ENUMS = ("IntEnum", "IntFlag")
BIGGEST = 4096


def plain(v: Value) -> Value:
    """An IntEnum or StrEnum member as the scalar that it is; anything else unchanged."""
    if isinstance(v, Member) and v.cls.enum_kind in ("IntEnum", "IntFlag", "StrEnum") and isinstance(v.value, Known):
        return v.value
    return v


# -------------------------------------------------------------------------------------------------------------- truth
def truth_key(v: Value) -> Any:
    return v.key if isinstance(v, Unknown) else None


def truth(it: Interpreter, v: Value, st: State, fr: Frame | None) -> bool | None:
    """Whether ``v`` is true; None when it may be either."""
    if isinstance(v, Known):
        return bool(v.value)
    if isinstance(v, Union):
        if any(_class_of(x, st) is not None for x in v.items):
            return _truth_of_objects(it, v, st, fr)
        result: bool | None = None
        for i, x in enumerate(v.items):
            t = truth(it, x, st, fr)
            if t is None or (i and t != result):
                return None
            result = t
        return result
    if isinstance(v, Unknown):
        if v.truth is not None:
            return v.truth
        if v.key is not None:
            return key_truth(it, v.key, st)
        return None
    if isinstance(v, Member):
        from flowcheck.interp.classes import class_attr

        method = class_attr(it, v.cls, "__bool__", st)
        if isinstance(method, FuncV):
            return _dunder_truth(it, BoundV(method, v), st, fr)
        p = plain(v)
        if p is not v:
            return truth(it, p, st, fr)
        return True if v.cls.enum_kind in ("Enum", "Flag") and not _mixes_builtin(v.cls) else None
    if isinstance(v, TupleV):
        return bool(v.items)
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is None:
            return None
        if obj.kind in ("list", "dict", "set"):
            return None if obj.items is None else bool(obj.items)
        if obj.cls is not None:
            from flowcheck.interp.classes import class_attr

            for name in ("__bool__", "__len__"):
                method = class_attr(it, obj.cls, name, st)
                if isinstance(method, FuncV):
                    return _dunder_truth(it, BoundV(method, v), st, fr)
                if method is not None:
                    return None
            if obj.cls.opaque_base:
                return None
            record = record_items(it, obj)
            if record is not None:
                return bool(record)
            if any(e in ("list", "dict", "set", "tuple", "str", "int") for c in obj.cls.mro for e in c.external):
                return None
        return True
    if isinstance(v, (FuncV, BoundV, ClassV, ModuleV, BuiltinV, PartialV, GeneratorV)):
        return None if views.is_view(v) else True
    return None


def _truth_of_objects(it: Interpreter, v: Union, st: State, fr: Frame | None) -> bool | None:
    """Objects may run code when they are tested: each in a state of its own."""
    answers: set[bool | None] = set()
    lowest, it.base.lowest = it.base.lowest, NEVER
    newest = it.base.next
    states: list[State] = []
    for x in v.items:
        arm = st.fork()
        answers.add(truth(it, x, arm, fr))
        states.append(arm)
    if it.base.lowest <= newest:
        st.become(merge(states).fork())
    it.base.lowest = min(lowest, it.base.lowest)
    return answers.pop() if len(answers) == 1 else None


def each(
    it: Interpreter, options: list[tuple[Value, ...]], st: State, work: Callable[..., Value]
) -> Value:
    """The join of ``work(*option, state)`` over alternatives; one that raises ends its own path alone."""
    from flowcheck.interp.engine import Dead

    if any(runs_code(x, st) for option in options for x in option):

        def arm(option: tuple[Value, ...]) -> Callable[[State], Value]:
            return lambda state: work(*option, state)

        return it.both(st, [(st.fork(), arm(option)) for option in options])
    results: list[Value] = []
    for option in options:
        try:
            results.append(work(*option, st))
        except Dead:
            continue
    if not results:
        raise Dead
    return union_of(results)


def runs_code(v: Value, st: State) -> bool:
    """Whether an operation on ``v`` may run code of the tree, or change something."""
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        return obj is not None and (obj.cls is not None or obj.default is not None or obj.kind == "iterator")
    return isinstance(v, (Member, ClassV, GeneratorV))


def hashable(it: Interpreter, v: Value, st: State) -> bool | None:
    """Whether ``hash(v)`` works; None when it may not."""
    if isinstance(v, TupleV):
        answers = [hashable(it, x, st) for x in v.items]
        return False if False in answers else None if None in answers else True
    if isinstance(v, (Union, Unknown)):
        return None
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is None:
            return None
        if obj.cls is None:
            return False if obj.kind in ("list", "dict") else None if obj.kind == "set" else True
        from flowcheck.interp.classes import class_attr

        if it.custom_eq(obj.cls):
            frozen = obj.cls.keywords.get("frozen")
            if class_attr(it, obj.cls, "__hash__", st) is not None:
                return True
            return True if isinstance(frozen, Known) and frozen.value else None
    return True


def need_hash(it: Interpreter, v: Value, fr: Frame, st: State, e: ir.Node | None) -> None:
    """A key that has no hash raises."""
    if isinstance(v, (Known, Member)):
        return
    answer = hashable(it, v, st)
    if answer is False:
        it.throw("TypeError", st, e, fr)
    elif answer is None:
        it.may_raise(st, e, fr)


def _mixes_builtin(cls: ClassV) -> bool:
    return any(e in ("int", "str", "float") for c in cls.mro for e in c.external)


def _dunder_truth(it: Interpreter, method: BoundV, st: State, fr: Frame | None) -> bool | None:
    from flowcheck.interp import calls
    from flowcheck.interp.engine import Dead

    if fr is None:
        return None
    try:
        result = calls.call(it, method, [], {}, st, None, fr)
    except Dead:
        return None
    return truth(it, result, st, fr)


def key_truth(it: Interpreter, key: Any, st: State) -> bool | None:
    """What this path, or the restart that we are in, has established about a keyed unknown."""
    if key in st.facts:
        fact = st.facts[key]
        return fact if isinstance(fact, bool) else None
    if key in it.forced_facts:
        fact = it.forced_facts[key]
        return fact if isinstance(fact, bool) else None
    if isinstance(key, tuple):
        if key[0] == "not" and len(key) == 2:
            t = key_truth(it, key[1], st)
            return None if t is None else not t
        if key[0] == "truth" and len(key) == 2:
            return key_truth(it, key[1], st)
        if key[0] == "cmp" and len(key) == 4:
            _, op, left, right = key
            if op == "!=" or op == "is not":
                t = key_truth(it, ("cmp", "==" if op == "!=" else "is", left, right), st)
                return None if t is None else not t
            known = st.facts.get(("value", left), it.forced_facts.get(("value", left), UNBOUND))
            if known is not UNBOUND and isinstance(right, tuple) and right[0] == "lit":
                try:
                    if op == "is" and right[1] is not None:  # equal is not yet identical
                        return None if known == right[1] else False
                    if op in ("==", "is"):
                        return bool(known == right[1])
                    if op in ORDER:
                        return bool(ORDER[op](known, right[1]))
                except TypeError:
                    return None
    return None


def learn(it: Interpreter, v: Value, want: bool, st: State) -> None:
    """Records on this path that the tested value was ``want``, where the value has an identity."""
    if isinstance(v, Unknown) and v.key is not None and v.truth is None:
        it.asked_keys[v.key] = it.asked_keys.get(v.key, 0) + 1
        if it.active is not None:
            it.asked_in.setdefault(v.key, set()).add(it.active)
        learn_key(v.key, want, st)


def learn_key(key: Any, want: bool, st: State) -> None:
    if isinstance(key, tuple) and key[0] == "not" and len(key) == 2:
        learn_key(key[1], not want, st)
        return
    if isinstance(key, tuple) and key[0] == "truth" and len(key) == 2:
        learn_key(key[1], want, st)
        return
    if isinstance(key, tuple) and key[0] == "cmp" and len(key) == 4:
        _, op, left, right = key
        if op in ("!=", "is not"):
            learn_key(("cmp", "==" if op == "!=" else "is", left, right), not want, st)
            return
        if op in ("==", "is") and want and isinstance(right, tuple) and right[0] == "lit":
            st.facts[("value", left)] = right[1]
    st.facts[key] = want


def with_truth(v: Value, want: bool) -> Value:
    if isinstance(v, Unknown) and v.truth is None:
        return Unknown(v.reason, v.key, want, v.not_none or want, v.trail)
    return v


# ----------------------------------------------------------------------------------------------------------- operators
def unary(it: Interpreter, op: str, v: Value, fr: Frame, st: State, e: ir.Node) -> Value:
    if isinstance(v, Union):
        return each(it, [(x,) for x in v.items], st, lambda x, s: unary(it, op, x, fr, s, e))
    cls = _class_of(v, st)
    if cls is not None:
        from flowcheck.interp import calls
        from flowcheck.interp.classes import class_attr

        method = class_attr(it, cls, {"-": "__neg__", "+": "__pos__", "~": "__invert__"}[op], st)
        if isinstance(method, FuncV):
            return calls.call(it, BoundV(method, v), [], {}, st, e, fr)
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
    if isinstance(a, Union) or isinstance(b, Union):
        pairs: list[tuple[Value, ...]] = [(x, y) for x in alternatives(a) for y in alternatives(b)]
        return each(it, pairs, st, lambda x, y, s: binary(it, op, x, y, fr, s, e))
    custom = _custom_binary(it, op, a, b, fr, st, e)
    if custom is not None:
        return custom
    x, y = plain(a), plain(b)
    if isinstance(x, Known) and isinstance(y, Known):
        return _scalar(it, op, x.value, y.value, fr, st, e)
    if op in ("|", "&") and isinstance(a, Member) and isinstance(b, Member) and a.cls is b.cls:
        if isinstance(a.value, Known) and isinstance(b.value, Known) and isinstance(a.value.value, int):
            return Unknown("combined flags")
    if op == "+":
        if isinstance(a, TupleV) and isinstance(b, TupleV):
            return TupleV(a.items + b.items)
        if _is_list(a, st) and _is_list(b, st):
            return _concat(it, a, b, fr, st, e)
    if op == "*":
        for seq, n in ((a, y), (b, x)):
            if isinstance(n, Known) and isinstance(n.value, int):
                if isinstance(seq, TupleV) and len(seq.items) * max(n.value, 0) <= BIGGEST:
                    return TupleV(seq.items * n.value)
                if _is_list(seq, st):
                    obj = st.obj(seq.oid)  # type: ignore[attr-defined]
                    if obj.items is not None and len(obj.items) * max(n.value, 0) <= BIGGEST:
                        return it.new_list(st, obj.items * n.value, fr.site(e) if e is not None else None)
        for seq in (a, b):
            if _is_list(seq, st):
                it.may_raise(st, e, fr)
                ref = it.new_list(st, None, fr.site(e) if e is not None else None)
                st.write(ref.oid).elements = element(it, seq, st)
                return ref
    if op == "|" and (views.is_view(a) or views.is_view(b)):
        a, b = (views.contents(it, v, st) if views.is_view(v) else v for v in (a, b))
    if op == "|" and _is_kind(a, "dict", st) and _is_kind(b, "dict", st):
        x_items, y_items = st.obj(a.oid).items, st.obj(b.oid).items  # type: ignore[attr-defined]
        return it.new_dict(st, None if x_items is None or y_items is None else {**x_items, **y_items})
    if op in ("|", "&", "-", "^") and _is_kind(a, "set", st) and _is_kind(b, "set", st):
        return _set_op(it, op, a, b, st)
    if op == "|" and (isinstance(a, (ClassV, BuiltinV, ExternalV)) or isinstance(b, (ClassV, BuiltinV, ExternalV))):
        return Unknown("a union type")
    if op == "%" and isinstance(x, Known) and isinstance(x.value, (str, bytes)):
        it.may_raise(st, e, fr)
        return Unknown("formatted string")
    if not isinstance(a, Unknown) and not isinstance(b, Unknown) and _builtin_like(a, st) and _builtin_like(b, st):
        it.throw("TypeError", st, e, fr)
    it.may_raise(st, e, fr)
    return Unknown("arithmetic", _op_key(op, a, b))


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
    from flowcheck.interp import calls
    from flowcheck.interp.classes import class_attr

    for subject, other, prefix in ((a, b, ""), (b, a, "r")):
        cls = _class_of(subject, st)
        if cls is None:
            continue
        method = class_attr(it, cls, f"__{prefix}{DUNDER[op]}__", st)
        if isinstance(method, FuncV):
            result = calls.call(it, BoundV(method, subject), [other], {}, st, e, fr)
            if isinstance(result, BuiltinV) and result.name == "NotImplemented":
                continue
            return result
    return None


def _class_of(v: Value, st: State) -> ClassV | None:
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        return obj.cls if obj is not None else None
    if isinstance(v, Member):
        return v.cls
    return None


def _builtin_like(v: Value, st: State) -> bool:
    if isinstance(v, (Known, TupleV, FuncV, BoundV, ModuleV)):
        return True
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        return obj is not None and obj.cls is None and obj.kind in ("list", "dict", "set")
    return False


def _is_kind(v: Value, kind: str, st: State) -> bool:
    if not isinstance(v, Ref):
        return False
    obj = st.get(v.oid)
    return obj is not None and obj.cls is None and obj.kind == kind


def _is_list(v: Value, st: State) -> bool:
    return _is_kind(v, "list", st)


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


# ---------------------------------------------------------------------------------------------------------- comparison
def compare(it: Interpreter, op: str, a: Value, b: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
    """The value of ``a op b``; usually a bool, an Unknown with a key where the operands have identities."""
    if isinstance(a, Union) or isinstance(b, Union):
        pairs: list[tuple[Value, ...]] = [(x, y) for x in alternatives(a) for y in alternatives(b)]
        if op in ("is", "is not"):
            answers = {identical(it, x, y, st) for x, y in pairs}
            if len(answers) == 1 and None not in answers:
                return Known(answers.pop() is (op == "is"))
            return Unknown("identity")
        v = each(it, pairs, st, lambda x, y, s: compare(it, op, x, y, fr, s, e))
        scalars = all(isinstance(x, (Known, Unknown)) for x in alternatives(v))
        return v if isinstance(v, Known) or not scalars else Unknown("comparison")
    if op in ("is", "is not"):
        r = identical(it, a, b, st)
        if r is None:
            return Unknown("identity", _compare_key(it, op, a, b))
        return Known(r if op == "is" else not r)
    if op in ("in", "not in"):
        r = contains(it, a, b, fr, st, e)
        if r is None:
            return Unknown("membership", _compare_key(it, op, a, b))
        return Known(r if op == "in" else not r)
    if op == "!=":
        cls = _class_of(a, st)
        if cls is not None:
            from flowcheck.interp import calls
            from flowcheck.interp.classes import class_attr

            method = class_attr(it, cls, "__ne__", st)
            if isinstance(method, FuncV):
                result = calls.call(it, BoundV(method, a), [b], {}, st, e, fr)
                if not (isinstance(result, BuiltinV) and result.name == "NotImplemented"):
                    return result
    if op in ("==", "!="):
        r = equal(it, a, b, fr, st, e)
        if r is None:
            return Unknown("equality", _compare_key(it, op, a, b))
        return Known(r if op == "==" else not r)
    for subject, other, name in ((a, b, ORDER_DUNDER[op][0]), (b, a, ORDER_DUNDER[op][1])):
        cls = _class_of(subject, st)
        if cls is not None:
            from flowcheck.interp import calls
            from flowcheck.interp.classes import class_attr

            method = class_attr(it, cls, f"__{name}__", st)
            if isinstance(method, FuncV):
                result = calls.call(it, BoundV(method, subject), [other], {}, st, e, fr)
                if isinstance(result, BuiltinV) and result.name == "NotImplemented":
                    continue
                return result
    x, y = plain(a), plain(b)
    if isinstance(x, Known) and isinstance(y, Known):
        try:
            return Known(bool(ORDER[op](x.value, y.value)))
        except TypeError:
            it.throw("TypeError", st, e, fr)
    if isinstance(a, (Known, TupleV, Ref)) and isinstance(b, (Known, TupleV, Ref)):
        left, right = python_value(a, st), python_value(b, st)
        if left is not None and right is not None:
            try:
                return Known(bool(ORDER[op](left[0], right[0])))
            except TypeError:
                it.throw("TypeError", st, e, fr)
    bound = _bounded_order(op, a, b)
    if bound is not None:
        return Known(bound)
    it.may_raise(st, e, fr)
    return Unknown("ordering", _compare_key(it, op, a, b))


def python_value(v: Value, st: State) -> tuple[Any] | None:
    """The scalars, tuples and lists that a value is, in a tuple of one; None when it is more than that, or not known."""
    p = plain(v)
    if isinstance(p, Known):
        return (p.value,)
    items: list[Value] | None = None
    if isinstance(v, TupleV):
        items = list(v.items)
    elif _is_list(v, st):
        items = st.obj(v.oid).items  # type: ignore[attr-defined]
    if items is None:
        return None
    parts = [python_value(x, st) for x in items]
    if any(x is None for x in parts):
        return None
    values = [x[0] for x in parts if x is not None]
    return (tuple(values),) if isinstance(v, TupleV) else (values,)


def _bounded_order(op: str, a: Value, b: Value) -> bool | None:
    """A member against an unknown of the same kind: the largest member is never exceeded."""
    return None


def _compare_key(it: Interpreter, op: str, a: Value, b: Value) -> Any:
    sides = []
    if not isinstance(a, Unknown) and not isinstance(b, Unknown):
        return None  # two equal literals are no one object
    for x in (a, b):
        if isinstance(x, Unknown):
            if x.key is None:
                return None
            sides.append(x.key)
        else:
            p = plain(x) if op not in ("is", "is not") else x
            if isinstance(p, Known) and op in ("is", "is not") and p.value is not None:
                if not isinstance(p.value, bool):
                    return None
                sides.append(("lit", ("bool", p.value)))  # True is not 1
            elif isinstance(p, Known):
                sides.append(("lit", p.value))
            elif isinstance(x, Member):
                sides.append(("lit", (id(x.cls), x.name)))
            elif isinstance(x, TupleV) and it.key(x) is not None:
                sides.append(("lit", it.key(x)))
            else:
                return None
    if isinstance(a, Unknown) or not isinstance(b, Unknown):
        key: Any = ("cmp", op, sides[0], sides[1])
    else:
        mirror = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        key = ("cmp", mirror.get(op, op), sides[1], sides[0]) if op not in ("in", "not in") else None
    if key is None:
        return None
    if op == "not in":
        key = ("not", ("cmp", "in", sides[0], sides[1]))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def identical(it: Interpreter, a: Value, b: Value, st: State) -> bool | None:
    """``a is b``."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Unknown) and isinstance(y, Known):
                if y.value is None and x.not_none:
                    return False
                if x.truth is not None and bool(y.value) != x.truth:
                    return False
                if y.value is None and x.key is not None:
                    fact = st.facts.get(("value", x.key), it.forced_facts.get(("value", x.key), UNBOUND))
                    if fact is not UNBOUND:
                        return fact is None
        return None
    if isinstance(a, Known) and isinstance(b, Known):
        if type(a.value) is not type(b.value):
            return False
        if a.value is None or isinstance(a.value, bool) or a.value is Ellipsis:
            return bool(a.value is b.value)
        return None if a.value == b.value else False
    if isinstance(a, Ref) and isinstance(b, Ref):
        if a.oid != b.oid:
            return False
        obj = st.get(a.oid)
        return True if obj is None or obj.exact else None
    if type(a) is not type(b):
        return False
    if isinstance(a, (Member, ClassV, ModuleV, ExternalV)):
        return a == b
    if isinstance(a, BuiltinV):
        return a.name == b.name if a.self_ is None else None  # type: ignore[attr-defined]
    if isinstance(a, FuncV):
        return True if a is b else None if a == b else False
    return None


def equal(it: Interpreter, a: Value, b: Value, fr: Frame, st: State, e: ir.Node | None = None) -> bool | None:
    """``a == b``."""
    if isinstance(a, Union) or isinstance(b, Union):
        pairs: list[tuple[Value, ...]] = [(x, y) for x in alternatives(a) for y in alternatives(b)]

        def one(x: Value, y: Value, s: State) -> Value:
            r = equal(it, x, y, fr, s, e)
            return Unknown("equality") if r is None else Known(r)

        v = each(it, pairs, st, one)
        return bool(v.value) if isinstance(v, Known) else None
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Unknown):
                p = plain(y)
                if isinstance(p, Known) and p.value is None and (x.not_none or x.truth):
                    return None if not x.not_none else False
        return None
    for subject, other in ((a, b), (b, a)):
        cls = _class_of(subject, st)
        if cls is None:
            continue
        from flowcheck.interp import calls
        from flowcheck.interp.classes import class_attr

        method = class_attr(it, cls, "__eq__", st)
        if isinstance(method, FuncV):
            result = calls.call(it, BoundV(method, subject), [other], {}, st, e, fr)
            if isinstance(result, BuiltinV) and result.name == "NotImplemented":
                continue
            return truth(it, result, st, fr)
    x, y = plain(a), plain(b)
    if isinstance(x, Known) and isinstance(y, Known):
        return bool(x.value == y.value)
    if isinstance(a, Member) and isinstance(b, Member):
        return a == b
    if isinstance(a, TupleV) and isinstance(b, TupleV):
        if len(a.items) != len(b.items):
            return False
        rs = {equal(it, p, q, fr, st, e) for p, q in zip(a.items, b.items)}
        return False if False in rs else None if None in rs else True
    if isinstance(a, Ref) and isinstance(b, Ref):
        oa, ob = st.get(a.oid), st.get(b.oid)
        if oa is None or ob is None:
            return None
        if oa.cls is None and ob.cls is None:
            if oa.kind != ob.kind:
                return False if {oa.kind, ob.kind} <= {"list", "dict", "set"} else None
            return _equal_containers(it, oa, ob, fr, st, e)
        if a.oid == b.oid:
            return True if oa.exact else None
        if oa.cls is not None and ob.cls is not None:
            if oa.cls.is_record or ob.cls.is_record:
                return _equal_records(it, oa, ob, fr, st, e)
            return None if oa.cls.opaque_base or ob.cls.opaque_base else False
        return None
    if isinstance(a, (Known, TupleV, Member)) and isinstance(b, Ref) or isinstance(b, (Known, TupleV, Member)) and (
        isinstance(a, Ref)
    ):
        ref = a if isinstance(a, Ref) else b
        assert isinstance(ref, Ref)
        obj = st.get(ref.oid)
        record = record_items(it, obj) if obj is not None else None
        if record is not None:
            return equal(it, TupleV(record), a if ref is b else b, fr, st, e)
        return None if obj is None or (obj.cls is not None and obj.cls.opaque_base) else False
    if isinstance(a, ExternalV) and isinstance(b, ExternalV):
        return True if a.name == b.name else None
    if views.is_view(a) or views.is_view(b):
        x, y = (views.contents(it, v, st) if views.is_view(v) else v for v in (a, b))
        return equal(it, x, y, fr, st, e)
    if isinstance(a, (ClassV, ModuleV, FuncV, BuiltinV, BoundV)) or isinstance(b, (ClassV, ModuleV, FuncV, BuiltinV)):
        if type(a) is type(b):
            return True if a == b else False if not isinstance(a, BoundV) else None
        return False if not isinstance(a, ExternalV) and not isinstance(b, ExternalV) else None
    if isinstance(a, ExternalV) or isinstance(b, ExternalV):
        other = b if isinstance(a, ExternalV) else a
        return False if isinstance(other, Known) and other.value is None else None
    return False if isinstance(a, (Known, TupleV, Member)) and isinstance(b, (Known, TupleV, Member)) else None


def _equal_containers(
    it: Interpreter, oa: Obj, ob: Obj, fr: Frame, st: State, e: ir.Node | None
) -> bool | None:
    if oa is ob:
        return True if oa.exact and oa.items is not None and all(_reflexive(v) for v in _values(oa)) else None
    if oa.items is None or ob.items is None:
        return None
    if len(oa.items) != len(ob.items):
        return False
    if oa.kind == "list":
        rs = {equal(it, p, q, fr, st, e) for p, q in zip(oa.items, ob.items)}
        return False if False in rs else None if None in rs else True
    if oa.kind == "set":
        ka, kb = {it.key(v) for v in oa.items}, {it.key(v) for v in ob.items}
        return None if None in ka | kb else ka == kb
    if oa.kind == "dict":
        if set(oa.items) != set(ob.items):
            return False
        rs = {equal(it, oa.items[k][1], ob.items[k][1], fr, st, e) for k in oa.items}
        return False if False in rs else None if None in rs else True
    return None


def _values(obj: Obj) -> list[Value]:
    return [v for _, v in obj.items.values()] if obj.kind == "dict" else list(obj.items)


def _reflexive(v: Value) -> bool:
    return isinstance(v, Known) and not (isinstance(v.value, float) and v.value != v.value) or isinstance(v, Member)


def _equal_records(it: Interpreter, oa: Obj, ob: Obj, fr: Frame, st: State, e: ir.Node | None) -> bool | None:
    if oa.cls is not ob.cls or oa.kind != "object" or ob.kind != "object" or oa.cls is None:
        return False if oa.kind == ob.kind == "object" and oa.cls is not ob.cls else None
    from flowcheck.interp.classes import record_fields
    from flowcheck.interp.values import FieldSpec

    if not it.custom_eq(oa.cls):
        return False
    rs: set[bool | None] = set()
    for name, (home, _) in record_fields(it, oa.cls).items():
        spec = it.base.objects[home.oid].attrs.get(name)
        if isinstance(spec, FieldSpec) and not spec.compare:
            continue
        x, y = oa.attrs.get(name), ob.attrs.get(name)
        rs.add(None if x is None or y is None else equal(it, x, y, fr, st, e))
    return False if False in rs else None if None in rs else True


def contains(it: Interpreter, a: Value, b: Value, fr: Frame, st: State, e: ir.Node | None) -> bool | None:
    """``a in b``."""
    if views.is_view(b):
        b = views.contents(it, b, st)
    if isinstance(b, Known) and isinstance(b.value, (str, bytes)):
        p = plain(a)
        if isinstance(p, Known) and isinstance(p.value, type(b.value)):
            return bool(p.value in b.value)  # type: ignore[operator]
        if isinstance(p, (Known, TupleV)) and not (isinstance(b.value, bytes) and isinstance(p, Known)):
            it.throw("TypeError", st, e, fr)
        it.may_raise(st, e, fr)
        return None
    if isinstance(b, Ref):
        obj = st.get(b.oid)
        if obj is not None and obj.cls is not None:
            from flowcheck.interp import calls
            from flowcheck.interp.classes import class_attr

            method = class_attr(it, obj.cls, "__contains__", st)
            if isinstance(method, FuncV):
                return truth(it, calls.call(it, BoundV(method, b), [a], {}, st, e, fr), st, fr)
            if record_items(it, obj) is None and class_attr(it, obj.cls, "__iter__", st) is None:
                iterate(it, b, fr, st, e)
                return None
        if obj is not None and obj.kind in ("dict", "set"):
            need_hash(it, a, fr, st, e)
        if obj is not None and obj.kind == "dict" and obj.items is not None:
            key = it.key(a)
            if key is None:
                return False if not obj.items else None
            return key in obj.items
        if obj is not None and obj.kind == "set" and obj.items is not None:
            key = it.key(a)
            keys = {it.key(x) for x in obj.items}
            if not obj.items or (key is not None and key in keys):
                return bool(obj.items)
            return None if key is None or None in keys else False
    items = iterate(it, b, fr, st, e)
    if items is None:
        return None
    result: bool | None = False
    for x in items:
        same = identical(it, a, x, st)
        r = True if same else equal(it, a, x, fr, st, e)
        if r:
            return True
        if r is None:
            result = None
    return result


# ----------------------------------------------------------------------------------------------------------- iteration
def iterate(it: Interpreter, v: Value, fr: Frame, st: State, e: ir.Node | None) -> list[Value] | None:
    """The elements in order; None when they are not known one by one."""
    if isinstance(v, Union):
        return _iterate_union(it, v, fr, st, e)
    if isinstance(v, TupleV):
        return list(v.items)
    if isinstance(v, Known):
        if isinstance(v.value, str):
            return [Known(c) for c in v.value] if len(v.value) <= BIGGEST else None
        if isinstance(v.value, bytes):
            return [Known(c) for c in v.value] if len(v.value) <= BIGGEST else None
        it.throw("TypeError", st, e, fr)
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is None:
            return None
        if obj.cls is None or obj.kind in ("list", "dict", "set"):
            if obj.items is None:
                if obj.kind == "iterator" and obj.tag is not None:
                    from flowcheck.interp import functions

                    if isinstance(obj.tag, functions.Lazy):
                        return functions.drain(it, v, fr, st, e)
                    functions.resume(it, v, fr, st, e)
                return None
            if obj.kind == "dict":
                return [k for k, _ in obj.items.values()]
            if obj.kind == "iterator" and not obj.exact:
                st.write(v.oid).open(())
                return None
            if obj.kind == "set" and len(obj.items) > 1:
                return None  # the order of a set is not known
            if obj.kind == "iterator":
                items = list(obj.items)
                st.write(v.oid).items = []
                return items
            return list(obj.items)
        from flowcheck.interp import calls
        from flowcheck.interp.classes import class_attr

        method = class_attr(it, obj.cls, "__iter__", st)
        if isinstance(method, FuncV):
            given = calls.call(it, BoundV(method, v), [], {}, st, e, fr)
            target = st.get(given.oid) if isinstance(given, Ref) else None
            if isinstance(given, Ref) and target is not None and target.cls is not None:
                return _drain_object(it, given, fr, st, e)
            return iterate(it, given, fr, st, e)
        record = record_items(it, obj)
        if record is None:
            it.may_raise(st, e, fr)
            method = class_attr(it, obj.cls, "__getitem__", st)
            if isinstance(method, FuncV):  # the old protocol: from 0 on, until IndexError
                from flowcheck.interp import statements

                asked = BoundV(method, v)
                statements.stabilise(
                    it, st, lambda s: void(calls.call(it, asked, [Unknown("an index")], {}, s, e, fr))
                )
        return record
    if isinstance(v, ClassV):
        if v.enum_kind:
            from flowcheck.interp.classes import enum_members

            return list(enum_members(it, v))
        from flowcheck.interp import calls
        from flowcheck.interp.classes import class_attr

        if isinstance(v.metaclass, ClassV):
            method = class_attr(it, v.metaclass, "__iter__", st)
            if isinstance(method, FuncV):
                return iterate(it, calls.call(it, BoundV(method, v), [], {}, st, e, fr), fr, st, e)
        return None
    if isinstance(v, Unknown):
        it.may_raise(st, e, fr)
    elif views.is_view(v):
        return iterate(it, views.contents(it, v, st), fr, st, e)
    return None


def is_lazy(v: Value, st: State) -> bool:
    """Whether ``v`` is a generator that has not started."""
    from flowcheck.interp import functions

    obj = st.get(v.oid) if isinstance(v, Ref) else None
    return obj is not None and isinstance(obj.tag, functions.Lazy)


def visit(
    it: Interpreter, v: Value, fr: Frame, st: State, e: ir.Node | None, work: Callable[[Value, State], object]
) -> None:
    """``work(element, state)`` for each element of ``v`` in order, as a loop without a body of its own does."""
    from flowcheck.interp import functions, statements

    if is_lazy(v, st):

        def step(x: Value, s: State) -> Value:
            work(x, s)
            return NONE

        assert isinstance(v, Ref)
        functions.consume(it, v, fr, st, e, step)
        return
    items = iterate(it, v, fr, st, e)
    if items is not None and len(items) <= it.config.max_unroll:
        for x in items:
            work(x, st)
        return
    statements.stabilise(it, st, lambda s: work(element(it, v, s), s))


def void(v: Value) -> None:
    """For a call made for its effects."""


def record_items(it: Interpreter, obj: Obj) -> list[Value] | None:
    """The fields of a NamedTuple, which is a tuple too."""
    cls = obj.cls
    if cls is None or obj.kind != "object" or not cls.is_record or "typing.NamedTuple" not in {
        e for b in cls.mro for e in b.external
    }:
        return None
    from flowcheck.interp.classes import record_fields

    values = [obj.attrs.get(name, UNBOUND) for name in record_fields(it, cls)]
    return None if any(UNBOUND in alternatives(v) for v in values) else values


def next_of(
    it: Interpreter, v: Ref, fr: Frame, st: State, e: ir.Node | None
) -> tuple[Value | None, State | None]:
    """``v.__next__()``: the value, in ``st``, and the state in which there is none; either may be missing."""
    from flowcheck.interp import calls
    from flowcheck.interp.classes import class_attr
    from flowcheck.interp.engine import Dead
    from flowcheck.interp.statements import catches

    obj = st.get(v.oid)
    method = class_attr(it, obj.cls, "__next__", st) if obj is not None and obj.cls is not None else None
    if not isinstance(method, FuncV):
        it.may_raise(st, e, fr)
        return Unknown("an element"), st.fork()
    value: Value | None = None
    it.handlers.append([])
    it.in_try += 1
    try:
        value = calls.call(it, BoundV(method, v), [], {}, st, e, fr)
    except Dead:
        pass
    finally:
        raised = it.handlers.pop()
        it.in_try -= 1
    ended: list[State] = []
    for r in raised:
        answer = catches([("StopIteration", None)], r)
        if answer is not False:
            ended.append(r.state.fork())
        if answer is not True:
            it.handlers[-1].append(r)
    return value, merge(ended).fork() if ended else None


def _drain_object(it: Interpreter, v: Ref, fr: Frame, st: State, e: ir.Node | None) -> list[Value] | None:
    from flowcheck.interp import statements
    from flowcheck.interp.engine import Dead

    out: list[Value] = []
    while len(out) <= it.config.max_unroll:
        before = st.fork()
        value, ended = next_of(it, v, fr, st, e)
        if value is not None and ended is not None:
            st.become(before)
            break
        if value is None:
            if ended is None:
                raise Dead
            st.become(ended)
            return out
        out.append(value)

    ends: list[State] = []

    def step(state: State) -> None:
        value, ended = next_of(it, v, fr, state, e)
        if ended is not None:
            ends.append(ended)
        if value is None:
            raise Dead

    statements.stabilise(it, st, step)
    if not ends:
        raise Dead
    st.become(merge(ends).fork())
    return None


def _iterate_union(it: Interpreter, v: Union, fr: Frame, st: State, e: ir.Node | None) -> list[Value] | None:
    from flowcheck.interp.engine import Dead

    rows: list[list[Value] | None] = []
    states: list[State] = []
    for x in v.items:
        arm = st.fork()
        try:
            row = iterate(it, x, fr, arm, e)
        except Dead:
            continue
        obj = arm.get(x.oid) if isinstance(x, Ref) else None
        if row is not None and obj is not None and obj.kind == "iterator":  # used up, but ``element`` is asked next
            assert isinstance(x, Ref)
            used = arm.write(x.oid)
            used.items = None
            used.elements = union_of(row) if row else None
        rows.append(row)
        states.append(arm)
    if not states:
        raise Dead
    st.become(merge(states).fork())
    first = rows[0]
    if first is None or any(row is None or len(row) != len(first) for row in rows):
        return None
    return [union_of(column) for column in zip(*(row for row in rows if row is not None))]


def element(it: Interpreter, v: Value, st: State) -> Value:
    """What an element of ``v`` may be."""
    results: list[Value] = []
    for x in alternatives(v):
        if isinstance(x, TupleV) and x.items:
            results.append(union_of(x.items))
        elif isinstance(x, Ref):
            obj = st.get(x.oid)
            if obj is None or obj.cls is not None:
                results.append(Unknown("an element"))
            elif obj.items is not None:
                values = [k for k, _ in obj.items.values()] if obj.kind == "dict" else list(obj.items)
                if values:
                    results.append(union_of(values))
            elif obj.kind != "dict" and obj.elements is not None:
                results.append(obj.elements)
            else:
                results.append(Unknown("an element"))
        elif isinstance(x, Unknown):
            results.append(Unknown(f"an element of {x.reason}"[:100]))
        elif isinstance(x, TupleV):
            continue
        else:
            results.append(Unknown("an element"))
    return union_of(results) if results else Unknown("an element of nothing")


# ---------------------------------------------------------------------------------------------------------- subscripts
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
    if isinstance(c, Ref):
        obj = st.get(c.oid)
        if obj is None:
            return Unknown("an element")
        if obj.cls is not None:
            return _take_object(it, c, obj, k, fr, st, e)
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
    from flowcheck.interp import calls
    from flowcheck.interp.classes import class_attr

    assert obj.cls is not None
    method = class_attr(it, obj.cls, "__getitem__", st)
    if isinstance(method, FuncV):
        return calls.call(it, BoundV(method, c), [k], {}, st, e, fr)
    record = record_items(it, obj)
    if record is not None:
        return take(it, TupleV(record), k, fr, st, e)
    it.may_raise(st, e, fr)
    return Unknown(f"an element of {obj.cls.name}")


def _take_class(it: Interpreter, c: ClassV, k: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
    from flowcheck.interp import calls
    from flowcheck.interp.classes import class_attr, enum_members

    if c.enum_kind:
        members = enum_members(it, c)
        if isinstance(k, Known):
            for m in members:
                if m.name == k.value:
                    return it.at(m, fr.site(e) if e is not None else None, f"{c.name}[{k.value!r}]")
            alias = class_attr(it, c, str(k.value), st)
            if isinstance(alias, Member):
                return alias
            it.throw("KeyError", st, e, fr)
        it.may_raise(st, e, fr)
        return union_of(members) if members else Unknown("a member")
    if isinstance(c.metaclass, ClassV):
        method = class_attr(it, c.metaclass, "__getitem__", st)
        if isinstance(method, FuncV):
            return calls.call(it, BoundV(method, c), [k], {}, st, e, fr)
    return c  # Generic[T]


def _take_dict(it: Interpreter, c: Ref, obj: Obj, k: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
    from flowcheck.interp import calls

    key = it.key(k)
    need_hash(it, k, fr, st, e)
    if obj.items is None:
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
        if obj is not None and obj.cls is not None:
            return _take_object(it, c, obj, Unknown("slice"), fr, st, e)
    it.may_raise(st, e, fr)
    return Unknown("a slice")


def put(it: Interpreter, c: Value, k: Value, v: Value, fr: Frame, st: State, e: ir.Node | None) -> None:
    """``c[k] = v``."""
    from flowcheck.interp import calls
    from flowcheck.interp.classes import class_attr

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
            method = class_attr(it, c.metaclass, "__setitem__", st)
            if isinstance(method, FuncV):
                calls.call(it, BoundV(method, c), [k, v], {}, st, e, fr)
        return
    obj = st.get(c.oid)
    if obj is None:
        return
    if obj.cls is not None:
        method = class_attr(it, obj.cls, "__setitem__", st)
        if isinstance(method, FuncV):
            calls.call(it, BoundV(method, c), [k, v], {}, st, e, fr)
        else:
            it.may_raise(st, e, fr)
        return
    if obj.kind == "dict":
        need_hash(it, k, fr, st, e)
    obj = st.write(c.oid)
    if obj.kind == "dict":
        key = it.key(k)
        if obj.items is None or key is None:
            obj.open([v])
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
    from flowcheck.interp import calls
    from flowcheck.interp.classes import class_attr

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
        method = class_attr(it, obj.cls, "__delitem__", st) if obj is not None and obj.cls is not None else None
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
    p = plain(k)
    if obj.kind == "list" and obj.items is not None and isinstance(p, Known) and isinstance(p.value, int) and obj.exact:
        if not -len(obj.items) <= p.value < len(obj.items):
            it.throw("IndexError", st, e, fr)
        del obj.items[p.value]
        return
    it.may_raise(st, e, fr)
    obj.open([])


_ = (FALSE, NONE, TRUE)
