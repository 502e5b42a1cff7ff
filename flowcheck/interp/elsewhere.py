"""What code that is not followed stores in an attribute of something that is there before a run.

``self.worker.quiet = True`` in a method of a class that has nothing to do with the worker's: a dispatch may call it, or
an earlier one has. What such places store is joined into what is read. Whose attribute it is, the receiver's value says;
where that is not known, the receiver's annotation and what else the function reads of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from flowcheck.interp import classes, functions, skeletons
from flowcheck.interp.frames import CallCut, Dead, Frame, LazyCut
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    ClassV,
    ExternalV,
    FuncV,
    Known,
    Member,
    ModuleV,
    Ref,
    Unknown,
    Value,
    alternatives,
    join,
    union_of,
)
from flowcheck.program.corpus import classes_of
from flowcheck.program.modules import Module, Program
from flowcheck.program.parts import sub_expressions
from flowcheck.program.placing import FILLING, IN_ANNOTATIONS, Place
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter

__all__ = ["asked", "filled", "into_classes", "joined", "stored"]

Holder = Ref | ClassV | ModuleV
FILLERS = frozenset(FILLING.split("|"))
WORTH = 4_000
"""Steps spent on one receiver or value; beyond, it is not known."""
MOST_SELVES = 4
"""Objects of one class as which a method is looked at; more of them are one that nobody knows."""
ANNOTATED = "annotated"
_OF_ENVIRONMENT = re.compile(r"\bos\.(?:environ|getenv)\b")
TO_A_CLASS = ("type(", "__class__", "cls")
_OF_A_CLASS = re.compile(r"^[A-Z]\w*$|^cls\b|^type\(|__class__")
CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__", "__set_name__", "__init_subclass__"})


def joined(it: Interpreter, holder: Holder, name: str, v: Value, on_path: bool, fr: Frame | None = None) -> Value:
    """``v``, which was read as ``holder.name``, and what code that is not followed may have stored there since.

    ``on_path``: the run itself has stored ``v``; what is followed would have stored it then. What is evaluated on demand
    is mostly what constructors did, before anything else: only the methods that an asked attribute depends on at once are
    looked at in this way.
    """
    if not it.config.lasting or (it.in_base and not _runs_later(it, fr)):
        return v
    options = alternatives(v)
    if any(isinstance(x, Unknown) for x in options):
        return v  # it may be anything as it is
    if on_path and not all(isinstance(x, Member) or _is_flag(x) for x in options):
        return v  # what a run replaces and what it decides by are two things
    more = stored(it, holder, name, on_path)
    if more is not None and all(isinstance(x, Ref) or x == NONE for x in options):
        # Where an object is held, texts and numbers are another's attribute. What is not known may be any object, and
        # following what that may do costs more than a scan: a limit, see NOTES.
        rest = [
            x for x in alternatives(more) if not isinstance(x, (Known, ExternalV, Unknown)) or _is_flag(x) or x == NONE
        ]
        more = union_of(rest) if rest else None
    return v if more is None else join(v, more)


def _is_flag(v: Value) -> bool:
    return isinstance(v, Known) and isinstance(v.value, bool)


def asked(it: Interpreter, holder: Ref, name: str, v: Value | None, fr: Frame) -> Value | None:
    """``v``, which the methods of the holder's class leave in ``holder.name`` (None: nothing), joined in that way."""
    obj = it.base.objects.get(holder.oid)
    if v is not None or obj is None or obj.cls is None or obj.cls.opaque_base or not it.config.lasting or it.in_base:
        return v if v is None else joined(it, holder, name, v, False, fr)
    more = stored(it, holder, name)
    return None if more is None else join(UNBOUND, more)


def _runs_later(it: Interpreter, fr: Frame | None) -> bool:
    """Whether a frame is that of a method that is looked at for an attribute which the run has asked for, and no
    constructor."""
    return it.lazy_depth == 1 and fr is not None and fr.slice_of is not None and fr.slice_of[0].name not in CONSTRUCTORS


def stored(
    it: Interpreter, holder: Holder, name: str, on_path: bool = False, called_only: bool = False
) -> Value | None:
    """What functions elsewhere store in ``holder.name``; None when none does. ``on_path``: only those that a run does
    not follow, and that are no constructors. ``called_only``: only those that some function calls, by the text."""
    if name in it.config.tracked or name.startswith("__"):
        return None
    if not isinstance(holder, Ref) and name not in it.program.places.names:
        return None
    own = isinstance(holder, Ref) and (on_path or _is_made(it, holder))
    if own and _stands_for_environment(it, holder):  # type: ignore[arg-type]
        return None
    if not own and name not in it.program.places.names:
        return None
    key = ("elsewhere", _identity(it, holder), name, on_path, called_only)
    if key in it.lazy:
        found = it.lazy[key]
        return None if found is UNBOUND else found
    if key in it.lazy_busy:
        return None
    it.lazy_busy.add(key)
    values: list[Value] = []
    try:
        if own:
            values += _own(it, holder, name, on_path)  # type: ignore[arg-type]
        for place in it.program.places.of(name):
            if not place.fills and _may_be(it, holder, place) and (not called_only or _is_called(it, place)):
                values += _at(it, holder, name, place, on_path)
    finally:
        it.lazy_busy.discard(key)
    if own and not on_path and not _is_eager(it, holder):  # what an import makes: its state is that of the whole tree
        values = [x for v in values for x in alternatives(v) if not isinstance(x, Unknown)]
    result = union_of(values) if values else UNBOUND
    it.lazy[key] = result
    return None if result is UNBOUND else result


def into_classes(it: Interpreter, path: str, line: int, name: str) -> Iterator[tuple[ClassV, Value]]:
    """The classes into which the function of a line stores an attribute of that name, and what it stores."""
    module = it.program.module_at(path)
    f = next((f for f in module.functions() if f.line == line), None) if module is not None else None
    for place in it.program.places.of(name) if module is not None and f is not None else ():
        if (place.path, place.line) == (path, line) and not place.fills:
            for receiver, value, frame in _resolved(it, module, f, name, place):  # type: ignore[arg-type]
                held = _value(it, value, frame, f"{place.receiver}.{name}")
                yield from ((x, held) for x in alternatives(receiver) if isinstance(x, ClassV))


def filled(it: Interpreter, holder: Ref, name: str) -> bool:
    """Whether functions elsewhere may change the container in ``holder.name``."""
    return it.config.lasting and any(
        place.fills and _may_be(it, holder, place) and _at(it, holder, name, place, False)
        for place in it.program.places.of(name)
    )


def _identity(it: Interpreter, holder: Holder) -> object:
    return it.module_oid(holder.module) if isinstance(holder, ModuleV) else holder.oid


def _is_made(it: Interpreter, holder: Ref) -> bool:
    """Whether the object's own attributes are known because its constructor has run, not its methods one by one."""
    obj = it.base.objects.get(holder.oid)
    return obj is not None and (obj.kind == "object" or _is_eager(it, holder))


def _is_eager(it: Interpreter, holder: Holder) -> bool:
    obj = it.base.objects.get(holder.oid) if isinstance(holder, Ref) else None
    return obj is not None and obj.kind == "skeleton" and obj.cls is not None and it.config.eager(obj.cls)


def _followed(it: Interpreter, module: Module, f: ir.FunctionDef) -> bool:
    relevant = it.config.relevant
    return relevant is None or relevant(FuncV(f, module, it.module_oid(module), None))


def _stands_for_environment(it: Interpreter, holder: Ref) -> bool:
    """Whether an import has made the object to read the environment: its values are facts of a scenario."""
    obj = it.base.objects.get(holder.oid)
    if obj is None or obj.cls is None or obj.kind != "object":
        return False
    if obj.cls.environment is None:
        obj.cls.environment = any(
            c.module.syntax is not None and _OF_ENVIRONMENT.search(c.module.syntax.def_source(m)) is not None
            for c in obj.cls.mro
            for m in skeletons.methods(c)
            if m.body is None
        )
    return obj.cls.environment


def _own(it: Interpreter, holder: Ref, name: str, on_path: bool) -> list[Value]:
    """What methods of the object's class store, other than its constructor."""
    obj = it.base.objects.get(holder.oid)
    out: list[Value] = []
    if obj is None or obj.cls is None:
        return out
    for c in obj.cls.mro:
        for w in skeletons.writes(it, c, name):
            f = w.function
            if f.name in CONSTRUCTORS or (on_path and _followed(it, c.module, f)):
                continue
            if obj.kind == "skeleton" and not _is_made(it, holder):
                v = skeletons.attribute(it, holder, obj, name, it.module_frame(c.module), it.base_state)
                return [x for x in alternatives(v) if x is not UNBOUND] if v is not None else out
            frame = skeletons.frame_for(it, holder, obj, c, f, None, it.base_state)
            out.append(_value(it, w.value if w.index is None else None, frame, f"{f.qualname} changes {name}"))
    return out


# ----------------------------------------------------------------------------------------------------------- by the text
def _is_called(it: Interpreter, place: Place) -> bool:
    """Whether some function calls the one that holds a place: Python itself calls the methods with two underscores."""
    module = it.program.module_at(place.path)
    f = next((f for f in module.functions() if f.line == place.line), None) if module is not None else None
    return f is None or f.name.startswith("__") or it.program.patches.is_called_inside(f.name.encode())


def _may_be(it: Interpreter, holder: Holder, place: Place) -> bool:
    """Whether the text leaves it open that a place stores into the holder."""
    if place.own == "self" or not place.line:
        return False  # the methods of the holder's class, and the top levels of modules, are looked at by others
    if place.own:
        return isinstance(holder, ClassV) and any(
            c.node.line == place.owner and c.module.path == place.path for c in holder.mro
        )
    places = it.program.places
    if isinstance(holder, ModuleV):
        return places.spells(place, [holder.module.name.rpartition(".")[2]], everywhere=True)
    if isinstance(holder, ClassV):
        names = [c.name for c in holder.mro if not _OF_A_CLASS.search(place.receiver)]
        return not names or places.spells(place, [*names, *TO_A_CLASS])
    kind = _class_of(it, holder)
    if kind is None:
        return True
    if not place.receiver.isidentifier():
        last = place.receiver.rpartition(".")[2]
        held = places.held(last) if last.isidentifier() else None
        return held is None or _related(it, kind, held)
    if not places.is_parameter(place):
        return True
    said = _annotation(it, place)
    return _related(it, kind, said) if said is not None else _fits(it, kind, place)


def _related(it: Interpreter, kind: ClassV, said: Iterable[str]) -> bool:
    """Whether something that is said to be of one of these classes may be an instance of ``kind``."""
    return any(n in {c.name for c in kind.mro} or not it.program.places.is_class(n) for n in said)


def _class_of(it: Interpreter, holder: Holder) -> ClassV | None:
    if isinstance(holder, Ref):
        return it.base.objects[holder.oid].cls if holder.oid in it.base.objects else None
    return holder if isinstance(holder, ClassV) else None


def _annotation(it: Interpreter, place: Place) -> list[str] | None:
    """The names in the annotation of a parameter that is the receiver; None without one."""
    head = it.program.places.head(place)
    match = re.search(rf"\b{place.receiver}[ \t]*:[ \t]*([^,=)\n]+)", head)
    if match is None:
        return None
    return [n for n in re.findall(r"\w+", match.group(1)) if n not in IN_ANNOTATIONS] or None


def _fits(it: Interpreter, kind: ClassV, place: Place) -> bool:
    """Whether an object of a class can have everything that the function reads of an unknown receiver."""
    if kind.opaque_base or classes.class_attr(it, kind, "__getattr__", it.base_state) is not None:
        return True
    return all(_has(it, kind, n) for n in it.program.places.reads(place))


def _has(it: Interpreter, kind: ClassV, name: str) -> bool:
    if classes.class_attr(it, kind, name, it.base_state) is not None or name.startswith("__"):
        return True
    if kind.is_record and name in classes.record_fields(it, kind):
        return True
    return any(skeletons.writes(it, c, name) for c in kind.mro)


# --------------------------------------------------------------------------------------------------------- by the values
def _held(it: Interpreter, module: Module, home: ir.ClassDef, attribute: str) -> list[str] | None:
    """The classes that ``self.<attribute>`` holds in the methods of a class of which there is no object, as far as its
    text says: what its methods make for it, and annotations. None where they do not say."""
    out: list[str] = []
    found = False
    for f in home.body:
        if not isinstance(f, ir.FunctionDef) or not f.params.items:
            continue
        me = f.params.items[0].name
        annotations = {p.name: p.annotation for p in f.params.items}
        for s in sub_expressions(functions.body_of(it, FuncV(f, module, it.module_oid(module), None))):
            if not isinstance(s, (ir.Assign, ir.AnnAssign)):
                continue
            for t in s.targets if isinstance(s, ir.Assign) else (s.target,):
                own = isinstance(t, ir.Attribute) and t.attr == attribute and isinstance(t.value, ir.Name)
                if not own or t.value.id != me:  # type: ignore[union-attr]
                    continue
                found = True
                said = _said(s, annotations)
                if said is None:
                    return None
                out += said
    return out if found else None


def _said(s: ir.Assign | ir.AnnAssign, annotations: dict[str, ir.Expr | None]) -> list[str] | None:
    """The classes of what a statement stores: as annotated, as constructed, or as the parameter is annotated."""
    e: ir.Expr | None = s.annotation if isinstance(s, ir.AnnAssign) else s.value
    if not isinstance(s, ir.AnnAssign):
        if isinstance(e, ir.Const):
            return []
        if isinstance(e, ir.Call) and isinstance(e.func, ir.Name):
            return [e.func.id]
        if not isinstance(e, ir.Name) or annotations.get(e.id) is None:
            return None
        e = annotations[e.id]
    assert e is not None
    words = [w for x in sub_expressions(e) for w in _words(x)]
    return [w for w in words if w not in IN_ANNOTATIONS] or None


def _words(e: ir.Node) -> list[str]:
    if isinstance(e, ir.Const):
        return re.findall(r"\w+", e.value) if isinstance(e.value, str) else []
    return [e.id] if isinstance(e, ir.Name) else []


def _at(it: Interpreter, holder: Holder, name: str, place: Place, on_path: bool) -> list[Value]:
    """What a place stores into the holder; nothing when it is another's attribute."""
    module = it.program.module_at(place.path)
    f = next((f for f in module.functions() if f.line == place.line), None) if module is not None else None
    if module is None or f is None:
        return [Unknown(f"{place.path}:{place.line} stores {name}")] if isinstance(holder, Ref) else []
    if on_path and (f.name in CONSTRUCTORS or _followed(it, module, f)):
        return []
    out: list[Value] = []
    for receiver, value, frame in _resolved(it, module, f, name, place):
        if _hits(it, holder, receiver, place):
            out.append(_value(it, value, frame, f"{f.qualname} stores {name}"))
    return out


Resolved = list[tuple[Value, "ir.Expr | None", Frame]]


def _resolved(it: Interpreter, module: Module, f: ir.FunctionDef, name: str, place: Place) -> Resolved:
    """The receivers of a function's stores: their values, what is stored, and where to evaluate that."""
    selves = _selves(it, module, place)
    known = it.placed.get((place, name))
    if known is None or known[0] != len(selves):
        frames = list(_frames(it, module, f, selves))
        rows = [
            (_value(it, receiver, frame, place.receiver), value, frame)
            for receiver, value in _stores(it, module, f, name, place.fills)
            for frame in frames
        ]
        known = it.placed[(place, name)] = (len(selves), rows)
    return known[1]


def _selves(it: Interpreter, module: Module, place: Place) -> list[tuple[int, ClassV]]:
    """The objects of the base that the method which holds a place may be called on."""
    objects = it.base.objects
    for oid in islice(objects, it.scanned, None):
        obj = objects[oid]
        if obj.cls is not None and obj.kind in ("skeleton", "object"):
            for c in obj.cls.mro:
                it.instances.setdefault((c.module.path, c.node.line), []).append((oid, c))
    it.scanned = len(objects)
    return it.instances.get((module.path, place.owner), []) if place.owner else []


def _hits(it: Interpreter, holder: Holder, v: Value, place: Place) -> bool:
    kind = _class_of(it, holder)
    options = alternatives(v)
    typed = [o.cls for x in options if isinstance(x, Ref) and (o := it.base.objects.get(x.oid)) is not None]
    if typed:  # what is not known of it is taken to be of the same class
        options = tuple(x for x in options if not isinstance(x, Unknown))
    for x in options:
        if x == holder or (isinstance(x, ClassV) and isinstance(holder, ClassV) and x in holder.mro):
            return True
        if isinstance(holder, Ref):
            if isinstance(x, Ref) and _same(it, holder, x):
                return True
            if isinstance(x, Unknown) and (kind is None or _unknown_may_be(it, kind, x, place)):
                return True
        elif isinstance(holder, ClassV) and isinstance(x, Unknown):
            return bool(place.own) or _OF_A_CLASS.search(place.receiver) is not None
    return False


def _unknown_may_be(it: Interpreter, kind: ClassV, x: Unknown, place: Place) -> bool:
    if isinstance(x.key, tuple) and x.key[0] == ANNOTATED:
        module = it.program.module_at(place.path)
        said = [n for n in x.key[1] if module is None or not _is_foreign(it, module, n)]
        return bool(said) and _related(it, kind, said)
    return _fits(it, kind, place) and not _another(it, kind, place)


def _is_foreign(it: Interpreter, module: Module, name: str) -> bool:
    """Whether a name in an annotation comes from outside the tree, where none of its classes is defined."""
    if name in ("Any", "object"):
        return False
    bound = module.bindings.get(name, [])
    imports = [x for s in bound for x in sub_expressions(s) if isinstance(x, (ir.Import, ir.ImportFrom))]
    return bool(imports) and not any(
        it.program.inside(dotted)
        for x in imports
        for dotted in ([n for n, _ in x.names] if isinstance(x, ir.Import) else [Program.resolve(module, x)])
    )


def _another(it: Interpreter, kind: ClassV, place: Place) -> bool:
    """Whether an unknown receiver is an attribute of an object of which its class's text says that it is no ``kind``."""
    parts = place.receiver.split(".")
    module = it.program.module_at(place.path)
    if len(parts) < 2 or not place.owner or module is None or not parts[1].isidentifier():
        return False
    home = next((c for c in classes_of(module) if c.line == place.owner), None)
    said = _held(it, module, home, parts[1]) if home is not None else None
    if said is None:
        return False
    if len(parts) > 2:  # an attribute of what the tree does not define is none of its objects
        return not any(it.program.places.is_class(n) for n in said)
    return not _related(it, kind, said)


def _same(it: Interpreter, a: Ref, b: Ref) -> bool:
    """Whether two addresses of the base may stand for one object: objects are evaluated once for each way to them."""
    x, y = it.base.objects.get(a.oid), it.base.objects.get(b.oid)
    if x is None or y is None or x.cls is None or y.cls is None:
        return False
    if x.kind == "free" or y.kind == "free":
        return x.cls in y.cls.mro or y.cls in x.cls.mro
    if x.cls is not y.cls or x.site is None or x.site != y.site:
        return False
    given, other = x.ctor or {}, y.ctor or {}
    return not any(isinstance(v, Known) and isinstance(other.get(k), Known) and v != other[k] for k, v in given.items())


def _frames(it: Interpreter, module: Module, f: ir.FunctionDef, selves: list[tuple[int, ClassV]]) -> Iterator[Frame]:
    """Frames of a function that is not run: of a method, one for each object that it may be called on."""
    if not selves or len(selves) > MOST_SELVES:
        attrs: dict[str, Value] = {p.name: _parameter(f, p) for p in f.params.items}
        oid = it.base_state.new(Obj("env", attrs=attrs, parent=it.module_oid(module)))
        frame = Frame(None, module, oid, f if f.body is None else None)
        frame.slice_of = (f, set())
        it.slices[oid] = frame
        yield frame
        return
    for oid, c in selves:
        frame = skeletons.frame_for(it, Ref(oid), it.base.objects[oid], c, f, None, it.base_state)
        held = it.base.objects[frame.env].attrs
        held.update({p.name: _parameter(f, p) for p in f.params.items[1:]})
        yield frame


def _parameter(f: ir.FunctionDef, p: ir.Param) -> Value:
    """An argument that nobody knows, under the names of the classes that its annotation says."""
    words = [w for x in sub_expressions(p.annotation) for w in _words(x)] if p.annotation is not None else []
    said = tuple(w for w in words if w not in IN_ANNOTATIONS)
    return Unknown(f"{f.qualname}({p.name})", (ANNOTATED, said, id(f), p.name) if said else None)


def _value(it: Interpreter, e: ir.Expr | None, frame: Frame, why: str) -> Value:
    if e is None:
        return Unknown(why)
    if isinstance(e, ir.Const):
        return NONE if e.value is None else Known(e.value)
    limit = it.lazy_limit
    stores = len(it.unknown_stores)
    it.lazy_limit = it.charged + WORTH if limit is None else min(limit, it.charged + WORTH)
    it.lazy_depth += 1
    try:
        with it.outside():
            v = it.eval(e, frame, State(it.base))
    except (Dead, CallCut, RecursionError):
        return Unknown(why)
    except LazyCut:
        if limit is not None and it.charged > limit:
            raise
        return Unknown(why)
    finally:
        it.lazy_depth -= 1
        it.lazy_limit = limit
        del it.unknown_stores[
            stores:
        ]  # what is evaluated here is not run: a run that follows it sees its stores itself
    if any(isinstance(x, Ref) and x.oid not in it.base.objects for x in alternatives(v)):
        return Unknown(why)  # made by the evaluation itself
    return v


def _stores(
    it: Interpreter, module: Module, f: ir.FunctionDef, name: str, fills: bool
) -> Iterator[tuple[ir.Expr, ir.Expr | None]]:
    """The objects and values of a function's stores to an attribute of that name, those to its own ``self`` left out."""
    first = f.params.items[0].name if f.params.items and "." in f.qualname else None

    def is_own(e: ir.Expr) -> bool:
        return isinstance(e, ir.Name) and e.id == first

    def target(t: ir.Expr, value: ir.Expr | None) -> Iterator[tuple[ir.Expr, ir.Expr | None]]:
        if isinstance(t, (ir.TupleExpr, ir.ListExpr)):
            given: tuple[ir.Expr | None, ...] = (None,) * len(t.items)
            if isinstance(value, (ir.TupleExpr, ir.ListExpr)) and len(value.items) == len(t.items):
                given = value.items
            for x, v in zip(t.items, given, strict=True):
                yield from target(x, v)
        elif isinstance(t, ir.Star):
            yield from target(t.value, None)
        elif fills and isinstance(t, ir.Subscript):
            yield from _holder(t, name)
        elif not fills and isinstance(t, ir.Attribute) and t.attr == name and not is_own(t.value):
            yield t.value, value
        elif not fills and isinstance(t, ir.Subscript) and isinstance(t.value, ir.Attribute):
            is_named = isinstance(t.index, ir.Const) and t.index.value == name
            if is_named and t.value.attr == "__dict__" and not is_own(t.value.value):
                yield t.value.value, value

    body = functions.body_of(it, FuncV(f, module, it.module_oid(module), None))
    for s in sub_expressions(body):
        if isinstance(s, ir.Assign):
            for t in s.targets:
                yield from target(t, s.value)
                if fills and isinstance(t, ir.Name):  # which is filled, the text says
                    yield from _holder(s.value, name)
        elif isinstance(s, (ir.AnnAssign, ir.AugAssign, ir.For)):
            yield from target(s.target, s.value if isinstance(s, ir.AnnAssign) else None)
        elif isinstance(s, ir.WithItem) and s.target is not None:
            yield from target(s.target, None)
        elif isinstance(s, ir.Delete):
            for t in s.targets:
                yield from target(t, None)
        elif isinstance(s, ir.Call):
            yield from _called(s, name, fills)


def _holder(e: ir.Expr, name: str) -> Iterator[tuple[ir.Expr, None]]:
    """The object in whose attribute of that name the container is that an expression, or its subscripts, start from."""
    while isinstance(e, ir.Subscript):
        e = e.value
    if isinstance(e, ir.Attribute) and e.attr == name:
        yield e.value, None


def _called(s: ir.Call, name: str, fills: bool) -> Iterator[tuple[ir.Expr, ir.Expr | None]]:
    """What a call of ``setattr``, or of a method that fills a container, stores."""
    if fills:
        if isinstance(s.func, ir.Attribute) and s.func.attr in FILLERS:
            yield from _holder(s.func.value, name)
    elif isinstance(s.func, ir.Attribute) and s.func.attr == "__setattr__" and len(s.args) == 2:
        spelled, value = (a.value for a in s.args)
        if isinstance(spelled, ir.Const) and spelled.value == name:
            yield s.func.value, value
    elif (
        (isinstance(s.func, ir.Name) and s.func.id == "setattr")
        or (isinstance(s.func, ir.Attribute) and s.func.attr == "__setattr__")
    ) and len(s.args) == 3:
        target, spelled, value = (a.value for a in s.args)
        if isinstance(spelled, ir.Const) and spelled.value == name:
            yield target, value
