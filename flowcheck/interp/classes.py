"""Classes of the tree: bases, MRO, enums, records (dataclasses, msgspec structs, NamedTuples), construction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import attributes, calls, functions, observed, stores
from flowcheck.interp.frames import Dead
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
    from flowcheck.interp.trails import Site

ENUM_BASES = {
    "enum.Enum": "Enum", "enum.IntEnum": "IntEnum", "enum.Flag": "Flag", "enum.IntFlag": "IntFlag",
    "enum.StrEnum": "StrEnum",
}  # fmt: skip
RECORD_BASES = {"msgspec.Struct", "typing.NamedTuple", "pydantic.BaseModel"}
RECORD_INIT = "record.__init__"
"""The generated constructor of a record, as a function of the class and the object."""
PLAIN_BASES = {
    "abc.ABC", "object", "typing.Protocol", "typing.Generic", "typing_extensions.Protocol", "int", "str", "float",
    "Exception", "BaseException", "ValueError", "RuntimeError", "TypeError", "KeyError", "type", "abc.ABCMeta",
    "typing.TypedDict",
} | set(ENUM_BASES) | RECORD_BASES  # fmt: skip


def make_class(it: Interpreter, s: ir.ClassDef, fr: Frame, st: State) -> Value:
    """Runs a class statement: its body, metaclass, descriptors and decorators."""
    from flowcheck.interp.frames import Frame as FrameType

    c = ClassV(s.name, s, fr.module, it.base.address(), fr.owner)
    for arg in s.bases:
        if arg.keyword is not None:
            value = it.eval(arg.value, fr, st)
            if arg.keyword == "metaclass":
                c.metaclass = value
            c.keywords[arg.keyword] = value
            continue
        if arg.star:
            c.opaque_base = True
            continue
        for x in alternatives(it.eval(arg.value, fr, st)):
            if isinstance(x, ClassV):
                c.bases.append(x)
            elif isinstance(x, (ExternalV, BuiltinV)):
                c.external.append(x.name)
            else:
                c.opaque_base = True
    _linearise(c)
    if c.metaclass is None:
        c.metaclass = next((b.metaclass for b in c.mro[1:] if b.metaclass is not None), None)
    for b in c.mro:
        for e in b.external:
            c.enum_kind = c.enum_kind or ENUM_BASES.get(e)
            if (
                e in ("int", "str")
                and c.enum_kind in (None, "Enum")
                and any(x in ENUM_BASES for y in c.mro for x in y.external)
            ):
                c.enum_kind = "IntEnum" if e == "int" else "StrEnum"
            if e in RECORD_BASES:
                c.is_record = True
            if it.config.tensors is not None and it.config.tensors.plain_base(e):
                continue
            if e not in PLAIN_BASES and not e.endswith(("Error", "Exception", "Warning")):
                c.opaque_base = True
        if b is not c and b.opaque_base:
            c.opaque_base = True
    for d in s.decorators:
        target = d.func if isinstance(d, ir.Call) else d
        name = target.attr if isinstance(target, ir.Attribute) else target.id if isinstance(target, ir.Name) else ""
        if name == "dataclass":
            c.is_record = True
            if isinstance(d, ir.Call):
                for a in d.args:
                    if a.keyword:
                        c.keywords[a.keyword] = it.eval(a.value, fr, st)
    if not c.is_record and any(b.is_record for b in c.mro[1:]):
        c.is_record = True
    env = Obj("class", cls=None, parent=fr.env)
    it.base.objects[c.oid] = env
    inner = FrameType(None, fr.module, c.oid, fr.owner, c, None, fr, None)
    body_state = it.base_state if st is it.base_state else st
    if body_state is not it.base_state:
        # A class made inside a function: its namespace lives in the base, its free names in the function's state.
        body_state.put(c.oid, env)
    for statement in s.body:
        if isinstance(statement, ir.ExprStmt) and isinstance(statement.value, ir.Const):
            continue
        try:
            it.exec_block((statement,), inner, body_state)
        except Dead:
            continue
    if body_state is not it.base_state:
        it.base.objects[c.oid] = body_state.obj(c.oid)
    if "__getattribute__" in it.base.objects[c.oid].attrs:
        it.hooked_reads = True
    c.own_init = any(isinstance(x, ir.FunctionDef) and x.name == "__init__" for x in s.body)
    if c.enum_kind:
        _make_members(it, c, s)
    _name_descriptors(it, c, inner, body_state)
    _run_hooks(it, c, fr, body_state)
    made: Value = c
    for d in reversed(s.decorators):
        made = _decorate(it, c, made, d, fr, st)
    return made


def _name_descriptors(it: Interpreter, c: ClassV, fr: Frame, st: State) -> None:
    """``__set_name__`` of what the class body assigned."""

    for name, v in list(it.base.objects[c.oid].attrs.items()):
        obj = st.get(v.oid) if isinstance(v, Ref) else None
        if obj is None or obj.cls is None:
            continue
        hook = class_attr(it, obj.cls, "__set_name__", st)
        if isinstance(hook, FuncV):
            try:
                calls.call(it, BoundV(hook, v), [c, Known(name)], {}, st, None, fr)
            except Dead:
                continue


def _run_hooks(it: Interpreter, c: ClassV, fr: Frame, st: State) -> None:
    """What the class statement runs besides its body: ``__init_subclass__``, a metaclass's ``__new__`` and ``__init__``."""

    given = {k: v for k, v in c.keywords.items() if k in {a.keyword for a in c.node.bases} and k != "metaclass"}
    hook = class_attr(it, c, "__init_subclass__", st, after=c)
    it.making.append(c)
    try:
        if isinstance(hook, FuncV):
            calls.call(it, BoundV(hook, c), [], given, st, None, fr)
        if not isinstance(c.metaclass, ClassV) or c.enum_kind:
            return
        for name in ("__new__", "__init__"):
            method = class_attr(it, c.metaclass, name, st)
            if isinstance(method, FuncV):
                own = st.obj(c.oid).attrs
                space = it.new_dict(st, {("k", k): (Known(k), v) for k, v in own.items() if k[0] not in "#@"})
                first: Value = c.metaclass if name == "__new__" else c
                calls.call(it, method, [first, Known(c.name), TupleV(c.bases), space], given, st, None, fr)
    except Dead:
        return
    finally:
        it.making.pop()
        it.base.objects[c.oid] = st.obj(c.oid)


def _decorate(it: Interpreter, c: ClassV, value: Value, d: ir.Expr, fr: Frame, st: State) -> Value:

    try:
        dv = it.eval(d.func if isinstance(d, ir.Call) else d, fr, st)
    except Dead:
        return value
    if isinstance(dv, (FuncV, BoundV)):
        try:
            full = it.eval(d, fr, st) if isinstance(d, ir.Call) else dv
            result = calls.call(it, full, [value], {}, st, d, fr)
        except Dead:
            return value
        return result if isinstance(result, ClassV) else value
    return value


def _linearise(c: ClassV) -> None:
    """C3; an inconsistent hierarchy keeps whatever order is left (Python would refuse it)."""
    sequences = [list(b.mro) for b in c.bases] + [list(c.bases)]
    mro = [c]
    while any(sequences):
        for q in sequences:
            if q and not any(q[0] in r[1:] for r in sequences):
                head = q[0]
                break
        else:
            head = next(q[0] for q in sequences if q)
        mro.append(head)
        sequences = [[x for x in r if x is not head] for r in sequences]
    c.mro = mro


def _make_members(it: Interpreter, c: ClassV, s: ir.ClassDef) -> None:
    obj = it.base.objects[c.oid]
    following: int | None = 1
    flag = c.enum_kind in ("Flag", "IntFlag")
    highest = 0
    seen: dict[object, Member] = {}
    opaque = isinstance(class_attr(it, c, "__new__", it.base_state), FuncV)
    counted = isinstance(class_attr(it, c, "_generate_next_value_", it.base_state), FuncV)
    bound = [
        t.id
        for x in s.body
        if isinstance(x, (ir.Assign, ir.AnnAssign)) and x.value is not None
        for t in (x.targets if isinstance(x, ir.Assign) else (x.target,))
        if isinstance(t, ir.Name)
    ]
    for name in dict.fromkeys(bound):
        v = obj.attrs.get(name)
        if name.startswith("_") or v is None or isinstance(v, (FuncV, Member)):
            if isinstance(v, Member):
                continue
            if name.startswith("_") or v is None or isinstance(v, FuncV):
                continue
        value: Value = v
        if isinstance(v, Unknown) and v.reason == "enum.auto()":
            if counted or (c.enum_kind == "StrEnum" and "enum.StrEnum" not in {e for b in c.mro for e in b.external}):
                value = Unknown("an automatic value")
            elif c.enum_kind == "StrEnum":
                value = Known(name.lower())
            elif flag:
                value = Known(1 << highest.bit_length() if highest else 1)
            else:
                value = Known(following) if following is not None else Unknown("an automatic value")
        if isinstance(value, Known) and isinstance(value.value, int) and not isinstance(value.value, bool):
            following = value.value + 1
            highest = max(highest, value.value)
        if opaque:
            value = Unknown("what __new__ makes of a member")
        key = it.key(value)
        if key is not None and key in seen:
            obj.attrs[name] = seen[key]  # an alias
            continue
        member = Member(c, name, value)
        if key is not None:
            seen[key] = member
        obj.attrs[name] = member
        c.order.append(name)


def enum_members(it: Interpreter, c: ClassV) -> list[Member]:
    """The members of an enumeration, in the order of their definition."""
    out: list[Member] = []
    for b in reversed(c.mro):
        attrs = it.base.objects[b.oid].attrs
        out += [m for name in b.order if isinstance(m := attrs.get(name), Member)]
    return out


def class_attr(it: Interpreter, c: ClassV, name: str, st: State, after: ClassV | None = None) -> Value | None:
    """An attribute of the class or of a base of the tree, in MRO order; ``after``: only beyond that class (super)."""
    mro = c.mro
    if after is not None:
        mro = mro[mro.index(after) + 1 :] if after in mro else []
    for b in mro:
        obj = st.get(b.oid)
        v = obj.attrs.get(name) if obj is not None else None
        if v is not None and v is not UNBOUND:
            return v
    return None


def record_fields(it: Interpreter, c: ClassV) -> dict[str, tuple[ClassV, bool]]:
    """Fields of a dataclass, struct or NamedTuple in order: name -> (defining class, has a default)."""
    if c.field_list is None:
        fields: dict[str, tuple[ClassV, bool]] = {}
        for b in reversed(c.mro):
            if not _declares_fields(b):
                continue
            for s in b.node.body:
                if isinstance(s, ir.AnnAssign) and isinstance(s.target, ir.Name) and not _is_classvar(s.annotation):
                    fields[s.target.id] = (b, s.value is not None)
        c.field_list = fields
    return c.field_list


def _declares_fields(c: ClassV) -> bool:
    """Whether the annotations of the class itself are fields: not those of a plain subclass of a dataclass."""
    if any(e in RECORD_BASES for b in c.mro for e in b.external):
        return True
    for d in c.node.decorators:
        target = d.func if isinstance(d, ir.Call) else d
        if (target.attr if isinstance(target, ir.Attribute) else getattr(target, "id", "")) == "dataclass":
            return True
    return False


def _is_classvar(e: ir.Expr) -> bool:
    if isinstance(e, ir.Subscript):
        e = e.value
    if isinstance(e, ir.Const) and isinstance(e.value, str):
        return "ClassVar" in e.value or "InitVar" in e.value
    return (isinstance(e, ir.Name) and e.id in ("ClassVar", "InitVar")) or (
        isinstance(e, ir.Attribute) and e.attr in ("ClassVar", "InitVar")
    )


def construct(
    it: Interpreter,
    c: ClassV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
) -> Value:
    """``C(…)``."""

    if c.enum_kind:
        return _member_of(it, c, args, st, node, fr)
    observed.constructed(it, c, node, fr)
    if isinstance(c.metaclass, ClassV):
        hook = class_attr(it, c.metaclass, "__call__", st)
        if isinstance(hook, FuncV):
            return calls.call(it, BoundV(hook, c), args, keywords, st, node, fr, open_=open_, followed=True)
    return make(it, c, args, keywords, st, node, fr, open_)


def make(
    it: Interpreter,
    c: ClassV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
) -> Value:
    """``type.__call__(C, …)``: what no metaclass has a say in."""
    site = fr.site(node) if node is not None else None
    if it.config.tensors is not None:
        made_of = it.config.tensors.constructed(it, c, args, keywords, st, node, fr)
        if made_of is not None:
            return made_of
    new = class_attr(it, c, "__new__", st)
    if isinstance(new, FuncV):
        result = calls.call(it, new, [c, *args], keywords, st, node, fr, open_=open_)
        if isinstance(result, Ref) and st.obj(result.oid).cls is not None and c in st.obj(result.oid).cls.mro:  # type: ignore[union-attr]
            initialise(it, c, result, args, keywords, st, node, fr, open_)
        return result
    if it.config.skeletons(c) or (it.in_base and it.lazy_depth and not c.is_record and not it.config.eager(c)):
        ref = skeleton(it, c, args, keywords, st, node, fr, open_)
        if not it.in_base and it.config.constructed(c, it.base.objects[ref.oid].ctor or {}):
            initialise(it, c, ref, args, keywords, st, node, fr, open_)
        return ref
    if it.in_base and it.lazy_depth and not c.is_record:
        return _eager(it, c, args, keywords, st, node, fr, open_)
    obj = Obj("object", c, site=site)
    if it.config.tensors is not None and any("list" in b.external for b in c.mro):
        obj.kind, obj.items = "list", []
    made = is_made_record(c)
    if made and stores.stores_itself(it, c, st):
        ref = it.alloc(st, obj, site)
        initialise(it, c, ref, args, keywords, st, node, fr, open_)
        return ref
    if made:  # before the address is given: what several rounds of a loop make is joined as whole objects
        obj.attrs = _record_values(it, c, args, keywords, st, node, fr, open_)
    ref = it.alloc(st, obj, site)
    if made:
        post = class_attr(it, c, "__post_init__", st)
        if isinstance(post, FuncV):
            calls.call(it, BoundV(post, ref), [], {}, st, node, fr)
        return ref
    initialise(it, c, ref, args, keywords, st, node, fr, open_)
    return ref


def skeleton(
    it: Interpreter,
    c: ClassV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
) -> Ref:
    """An instance whose attributes are evaluated when they are read."""
    init = class_attr(it, c, "__init__", st)
    obj = Obj("skeleton", c, site=fr.site(node) if node is not None else None)
    obj.ctor = {}
    if isinstance(init, FuncV):
        obj.ctor = functions.bind(it, init, [NONE, *args], keywords, it.base_state, open_, node, fr)
    elif c.is_record:
        obj.attrs = _record_values(it, c, args, keywords, it.base_state, node, fr, open_)
    oid = it.base_state.new(obj)
    if isinstance(init, FuncV) and init.node.params.items:
        obj.ctor[init.node.params.items[0].name] = Ref(oid)
    return Ref(oid)


def _eager(
    it: Interpreter,
    c: ClassV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
) -> Ref:
    """A skeleton whose constructor is also run, for the order of its effects on what is tracked."""
    ref = skeleton(it, c, args, keywords, st, node, fr, open_)
    it.base.objects[ref.oid].unmade = st is not it.base_state
    it.eager_depth += 1
    try:
        with it.uncharged(it.config.eager_budget):
            initialise(it, c, ref, args, keywords, st, node, fr, open_)
    finally:
        it.eager_depth -= 1
    return ref


def _member_of(it: Interpreter, c: ClassV, args: list[Value], st: State, node: ir.Node | None, fr: Frame) -> Value:
    members = enum_members(it, c)
    if len(args) != 1:
        return Unknown(f"a member of {c.name}")
    out: list[Value] = []
    for x in alternatives(args[0]):
        if isinstance(x, Member) and x.cls is c:
            out.append(x)
            continue
        key = it.key(x)
        hit = next((m for m in members if key is not None and it.key(m.value) == key), None)
        if hit is not None:
            out.append(it.at(hit, fr.site(node) if node is not None else None, f"{c.name}(…)"))
        elif key is None or isinstance(class_attr(it, c, "_missing_", st), FuncV):
            out.extend(members)
            it.may_throw("ValueError", st, node, fr, certain=False)
        elif c.enum_kind in ("Flag", "IntFlag"):
            out.append(Unknown(f"flags of {c.name}"))
        else:
            it.may_throw("ValueError", st, node, fr)
    if not out:
        raise Dead
    return union_of(out)


def is_exception(c: ClassV) -> bool:
    """Whether a class of the tree derives from an exception."""
    return any(e.endswith(("Exception", "Error", "Warning", "Exit", "Interrupt")) for b in c.mro for e in b.external)


def initialise(
    it: Interpreter,
    c: ClassV,
    ref: Ref,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
) -> None:
    """``C.__init__(ref, …)``."""
    init = class_attr(it, c, "__init__", st)
    if is_made_record(c):
        values = _record_values(it, c, args, keywords, st, node, fr, open_)
        setter = attributes.set_ if stores.stores_itself(it, c, st) else attributes.set_past_hook
        for field, v in values.items():
            setter(it, ref, field, v, fr, st, node)
        post = class_attr(it, c, "__post_init__", st)
        if isinstance(post, FuncV):
            calls.call(it, BoundV(post, ref), [], {}, st, node, fr)
    elif isinstance(init, FuncV):
        given = calls.call(it, BoundV(init, ref), list(args), keywords, st, node, fr, open_=open_)
        if isinstance(given, Known) and given.value is not None:
            it.throw("TypeError", st, node, fr)
    elif is_exception(c):
        attributes.store(it, ref, "args", Unknown("the arguments of an exception"), st)
    elif (args or keywords) and not c.opaque_base and not _foreign_init(c):
        it.throw("TypeError", st, node, fr)


def is_made_record(c: ClassV) -> bool:
    """Whether instances are made by the generated constructor of a record."""
    record = next((b for b in c.mro if b.is_record or b.own_init), None)
    return record is not None and not record.own_init and c.is_record


def _foreign_init(c: ClassV) -> bool:
    return any(e not in ("object", "abc.ABC", "typing.Generic", "typing.Protocol") for b in c.mro for e in b.external)


def _record_values(
    it: Interpreter,
    c: ClassV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
) -> dict[str, Value]:
    """The fields of a new record. A field that is neither given nor defaulted raises, as in Python."""

    fields = record_fields(it, c)
    site = fr.site(node) if node is not None else None
    specs = {n: it.base.objects[home.oid].attrs.get(n) for n, (home, _) in fields.items()}
    left_out = {n for n, spec in specs.items() if isinstance(spec, FieldSpec) and not spec.init}
    positional = [
        n
        for n in fields
        if n not in left_out
        and not _keyword_only(it, fields[n][0], n)
        and not (isinstance(spec := specs[n], FieldSpec) and spec.keyword_only)
    ]
    given = dict(zip(positional, args, strict=False))
    twice = any(k in given for k in keywords)
    given.update(keywords)
    if not open_ and (twice or len(args) > len(positional) or any(k not in fields or k in left_out for k in keywords)):
        it.throw("TypeError", st, node, fr)
    out: dict[str, Value] = {}
    for name, (home, has_default) in fields.items():
        tracked = name in it.config.tracked
        if tracked:
            observed.touched(it, c, name, EdgeKind.WRITES, node, fr)
        if name in given:
            v = given[name]
            out[name] = it.at(v, keyword_site(fr, node, name), f"{c.name}({name}=…)") if tracked else v
        elif open_ and (not has_default or it.may_name(fr, name)):
            out[name] = Unknown(f"{c.name}({name}=…) from an unknown mapping")
        elif not has_default:
            it.throw("TypeError", st, node, fr)
        else:
            v = it.base.objects[home.oid].attrs.get(name, UNBOUND)
            if isinstance(v, FieldSpec):
                if v.default is not None:
                    v = v.default
                elif v.factory is not None:
                    v = calls.call(it, v.factory, [], {}, st, node, fr)
                elif name in left_out:
                    continue
                else:
                    it.throw("TypeError", st, node, fr)
            elif v is UNBOUND:
                v = Unknown(f"the default of {c.name}.{name}")
            elif isinstance(v, Ref) and (reader := attributes.descriptor(it, v, "__get__", st)) is not None:
                v = calls.call(it, reader, [NONE, c], {}, st, node, fr)
            if isinstance(v, Ref) and home.module is not None:
                v = _copy_default(it, v, st)
            if tracked:
                v = it.at(v, _field_site(home, name), f"{home.name}.{name} defaults to this")
                v = it.at(v, site, f"{c.name}(…) without {name}")
            out[name] = v
    return out


def keyword_site(fr: Frame, node: ir.Node | None, name: str) -> Site | None:
    """Where a call passes a keyword: the argument itself, so that a report points at its line."""
    if isinstance(node, ir.Call):
        for a in node.args:
            if a.keyword == name:
                return fr.site(a)
    return fr.site(node) if node is not None else None


def _field_site(home: ClassV, name: str):  # type: ignore[no-untyped-def]
    from flowcheck.interp.trails import Site

    for s in home.node.body:
        if isinstance(s, ir.AnnAssign) and isinstance(s.target, ir.Name) and s.target.id == name:
            return Site(home.module, home.owner, s.nid, home.qualname)
    return None


def _keyword_only(it: Interpreter, c: ClassV, name: str) -> bool:
    flag = c.keywords.get("kw_only")
    return isinstance(flag, Known) and flag.value is True


def _copy_default(it: Interpreter, v: Ref, st: State) -> Value:
    """msgspec copies a mutable default for each instance; dataclasses refuse one."""
    obj = st.get(v.oid)
    if obj is None or obj.cls is not None or obj.kind not in ("list", "dict", "set"):
        return v
    return Ref(st.new(obj.copy()))
