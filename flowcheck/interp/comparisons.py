"""``==``, ``is``, ``<`` and ``in``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowcheck.interp import calls, classes, documents, views
from flowcheck.interp.confined import entry_of
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.iteration import iterate, record_items
from flowcheck.interp.ranks import note_limit
from flowcheck.interp.truth import (
    ORDER,
    ORDER_DUNDER,
    class_of,
    each,
    is_list,
    need_hash,
    plain,
    truth,
)
from flowcheck.interp.values import (
    UNBOUND,
    BoundV,
    BuiltinV,
    ClassV,
    ExternalV,
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
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame


def compare(it: Interpreter, op: str, a: Value, b: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
    """The value of ``a op b``; usually a bool, an Unknown with a key where the operands have identities."""
    if it.config.on_compare is not None:
        it.config.on_compare(it, op, a, b, fr.site(e) if e is not None else None)
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
    if it.config.tensors is not None and op not in ("in", "not in") and (isinstance(a, Ref) or isinstance(b, Ref)):
        made = it.config.tensors.compared(it, op, a, b, fr, st, e)
        if made is not None:
            return made
    if it.config.tensors is not None and op not in ("in", "not in") and _same_quantity(a, b):
        return Known(op in ("==", "<=", ">="))
    if op in ("in", "not in"):
        r = contains(it, a, b, fr, st, e)
        if r is None:
            return Unknown("membership", _compare_key(it, op, a, b))
        return Known(r if op == "in" else not r)
    if op == "!=":
        cls = class_of(a, st)
        if cls is not None:
            method = classes.class_attr(it, cls, "__ne__", st)
            if isinstance(method, FuncV):
                result = calls.call(it, BoundV(method, a), [b], {}, st, e, fr)
                if not (isinstance(result, BuiltinV) and result.name == "NotImplemented"):
                    return result
    if op in ("==", "!="):
        r = equal(it, a, b, fr, st, e)
        if r is None:
            return _undecided(it, "equality", op, a, b, fr, e)
        return Known(r if op == "==" else not r)
    for subject, other, name in ((a, b, ORDER_DUNDER[op][0]), (b, a, ORDER_DUNDER[op][1])):
        cls = class_of(subject, st)
        if cls is not None:
            method = classes.class_attr(it, cls, f"__{name}__", st)
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
    it.may_raise(st, e, fr)
    return _undecided(it, "ordering", op, a, b, fr, e)


def _same_quantity(a: Value, b: Value) -> bool:
    """Whether both are one thing that nobody knows, such as the number of rows of two tensors."""
    return isinstance(a, Unknown) and isinstance(b, Unknown) and a.key is not None and a.key == b.key


def _undecided(it: Interpreter, what: str, op: str, a: Value, b: Value, fr: Frame, e: ir.Node | None) -> Unknown:
    """A comparison that the values do not decide; what is compared with a number of rows is noted."""
    key = _compare_key(it, op, a, b)
    if it.config.tensors is not None and e is not None:
        note_limit(it.config.tensors.limits, key, fr.site(e))
    return Unknown(what, key)


def python_value(v: Value, st: State) -> tuple[Any] | None:
    """The scalars, tuples and lists that a value is, in a tuple of one; None when it is more, or not known."""
    p = plain(v)
    if isinstance(p, Known):
        return (p.value,)
    items: list[Value] | None = None
    if isinstance(v, TupleV):
        items = list(v.items)
    elif is_list(v, st):
        items = st.obj(v.oid).items  # type: ignore[attr-defined]
    if items is None:
        return None
    parts = [python_value(x, st) for x in items]
    if any(x is None for x in parts):
        return None
    values = [x[0] for x in parts if x is not None]
    return (tuple(values),) if isinstance(v, TupleV) else (values,)


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
                sides.append(("lit", ("member", x.cls.module.name, x.cls.qualname, x.name)))
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


def _is_one(key: Any) -> bool:
    """Whether a key stands for one object, however often it is read."""
    return isinstance(key, tuple) and bool(key) and key[0] == "group"


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
        if isinstance(a, Unknown) and isinstance(b, Unknown) and a.key == b.key and _is_one(a.key):
            return True
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
        cls = class_of(subject, st)
        if cls is None:
            continue

        method = classes.class_attr(it, cls, "__eq__", st)
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
        rs = {equal(it, p, q, fr, st, e) for p, q in zip(a.items, b.items, strict=True)}
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
    if (isinstance(a, (Known, TupleV, Member)) and isinstance(b, Ref)) or (
        isinstance(b, (Known, TupleV, Member)) and (isinstance(a, Ref))
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


def _equal_containers(it: Interpreter, oa: Obj, ob: Obj, fr: Frame, st: State, e: ir.Node | None) -> bool | None:
    if oa is ob:
        return True if oa.exact and oa.items is not None and all(_reflexive(v) for v in _values(oa)) else None
    if oa.items is None or ob.items is None:
        return None
    if len(oa.items) != len(ob.items):
        return False
    if oa.kind == "list":
        rs = {equal(it, p, q, fr, st, e) for p, q in zip(oa.items, ob.items, strict=True)}
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
    return (isinstance(v, Known) and not (isinstance(v.value, float) and v.value != v.value)) or isinstance(v, Member)


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
        owner = b.self_ if isinstance(b, BuiltinV) else None
        if isinstance(owner, ClassV) and isinstance(a, Known) and isinstance(a.value, str) and a.value[:2] != "__":
            held = st.obj(owner.oid).attrs.get(a.value, UNBOUND)
            if UNBOUND not in alternatives(held) or held is UNBOUND:
                return held is not UNBOUND
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
            method = classes.class_attr(it, obj.cls, "__contains__", st)
            if isinstance(method, FuncV):
                return truth(it, calls.call(it, BoundV(method, b), [a], {}, st, e, fr), st, fr)
            if record_items(it, obj) is None and classes.class_attr(it, obj.cls, "__iter__", st) is None:
                iterate(it, b, fr, st, e)
                return None
        if obj is not None and obj.kind in ("dict", "set"):
            need_hash(it, a, fr, st, e)
            if it.config.on_key is not None:
                documents.asked(it, b.oid, a, fr, e)
        if obj is not None and obj.kind == "dict" and obj.items is not None:
            key = it.key(a)
            if key is None:
                return False if not obj.items else None
            return key in obj.items
        if obj is not None and obj.kind == "dict" and entry_of(obj, it.key(a)) is not None:
            return True
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
