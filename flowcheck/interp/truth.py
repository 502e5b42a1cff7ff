"""What is true, what can be hashed, and what a test teaches about a value."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowcheck.interp import calls, classes, views
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import NEVER, State, merge
from flowcheck.interp.values import (
    UNBOUND,
    BoundV,
    BuiltinV,
    ClassV,
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
    union_of,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
ORDER_DUNDER = {"<": ("lt", "gt"), "<=": ("le", "ge"), ">": ("gt", "lt"), ">=": ("ge", "le")}


OPPOSITE = {"==": "!=", "!=": "==", "is": "is not", "is not": "is", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _is_number(key: Any) -> bool:
    """Whether a key is that of a number: of what can be compared with one, one of two opposite comparisons holds."""
    return isinstance(key, tuple) and key[:1] == ("lit",) and type(key[1]) in (int, float)


def plain(v: Value) -> Value:
    """An IntEnum or StrEnum member as the scalar that it is; anything else unchanged."""
    if isinstance(v, Member) and v.cls.enum_kind in ("IntEnum", "IntFlag", "StrEnum") and isinstance(v.value, Known):
        return v.value
    return v


def truth_key(v: Value) -> Any:
    """What identifies the truth of a value."""
    return v.key if isinstance(v, Unknown) else None


def truth(it: Interpreter, v: Value, st: State, fr: Frame | None) -> bool | None:
    """Whether ``v`` is true; None when it may be either."""
    if isinstance(v, Known):
        return bool(v.value)
    if isinstance(v, Union):
        if any(class_of(x, st) is not None for x in v.items):
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
        method = classes.class_attr(it, v.cls, "__bool__", st)
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
        if obj.kind == "tensor":
            return None
        if obj.cls is not None:
            for name in ("__bool__", "__len__"):
                method = classes.class_attr(it, obj.cls, name, st)
                if isinstance(method, FuncV):
                    return _dunder_truth(it, BoundV(method, v), st, fr)
                if method is not None:
                    return None
            if obj.cls.opaque_base:
                return None
            from flowcheck.interp.iteration import record_items

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


def each(it: Interpreter, options: list[tuple[Value, ...]], st: State, work: Callable[..., Value]) -> Value:
    """The join of ``work(*option, state)`` over alternatives; one that raises ends its own path alone."""

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

        if it.custom_eq(obj.cls):
            frozen = obj.cls.keywords.get("frozen")
            if classes.class_attr(it, obj.cls, "__hash__", st) is not None:
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
            if op in OPPOSITE and (op not in ORDER or _is_number(right)):
                other = ("cmp", OPPOSITE[op], left, right)
                fact = st.facts.get(other, it.forced_facts.get(other))
                if isinstance(fact, bool):
                    return not fact
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
    if isinstance(v, Union):  # the one alternative that can be it says what holds
        fitting = [x for x in v.items if not (isinstance(x, Known) and bool(x.value) != want)]
        if len(fitting) == 1:
            v = fitting[0]
    if isinstance(v, Unknown) and v.key is not None and v.truth is None:
        it.asked_keys[v.key] = it.asked_keys.get(v.key, 0) + 1
        if it.active is not None:
            it.asked_in.setdefault(v.key, set()).add(it.active)
        learn_key(v.key, want, st)


def learn_key(key: Any, want: bool, st: State) -> None:
    """Record that what a key stands for is ``want``."""
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
            while isinstance(left, tuple) and left[0] == "attr" and right[1] is not None:
                left = left[1]  # what has an attribute is not None
                st.facts[("cmp", "is", left, ("lit", None))] = False
    st.facts[key] = want


def with_truth(v: Value, want: bool) -> Value:
    """The value, of which a test has established the truth."""
    if isinstance(v, Unknown) and v.truth is None:
        return Unknown(v.reason, v.key, want, v.not_none or want, v.trail)
    return v


def class_of(v: Value, st: State) -> ClassV | None:
    """The class of the tree that a value is an instance of."""
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        return obj.cls if obj is not None else None
    if isinstance(v, Member):
        return v.cls
    return None


def builtin_like(v: Value, st: State) -> bool:
    """Whether a value is a builtin scalar or container."""
    if isinstance(v, (Known, TupleV, FuncV, BoundV, ModuleV)):
        return True
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        return obj is not None and obj.cls is None and obj.kind in ("list", "dict", "set")
    return False


def is_kind(v: Value, kind: str, st: State) -> bool:
    """Whether a value is a builtin container of that kind."""
    if not isinstance(v, Ref):
        return False
    obj = st.get(v.oid)
    return obj is not None and obj.cls is None and obj.kind == kind


def is_list(v: Value, st: State) -> bool:
    """Whether a value is a list."""
    return is_kind(v, "list", st)
