"""Skeletons: objects whose attributes are evaluated when they are read.

A scheduler or a model runner has hundreds of attributes, and a walk needs a dozen. Reading one that this run has not set
evaluates every write to that name in the class and its bases (guards evaluated, constructor arguments propagated through
``super().__init__``), and joins what they store: flow-insensitive, so it holds at any time after construction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from flowcheck.interp import elsewhere, functions
from flowcheck.interp.frames import Dead, Frame, LazyCut
from flowcheck.interp.heap import Obj, State, merge
from flowcheck.interp.local_slices import local_stores, local_value, slice_value
from flowcheck.interp.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    ClassV,
    FuncV,
    Known,
    Ref,
    Unknown,
    Value,
    alternatives,
    join,
    union_of,
)
from flowcheck.program.slicing import Criterion, slice_body
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

WORTH_OF_A_GUARD = 2_000
"""Steps spent on the tests around the store of a literal; beyond, it may be stored or not."""
_NAMED_INIT = re.compile(r"(\w+)\.__init__\(")
ALWAYS_BOOLEAN = frozenset({"is", "is not", "in", "not in"})

__all__ = [
    "Write",
    "attribute",
    "constructor_arguments",
    "frame_for",
    "local_stores",
    "local_value",
    "methods",
    "slice_value",
    "writes",
]


@dataclass(slots=True)
class Write:
    """One store to ``self.<name>``. ``value`` is None where only "something" is stored (loops, augmented assignment);
    ``index`` picks an element of an unpacked value. ``guards`` are the tests around it, with the side that is taken."""

    function: ir.FunctionDef
    value: ir.Expr | None
    index: int | None
    statement: ir.Stmt
    guards: tuple[tuple[ir.Expr | None, bool], ...]


OF_THE_CLASS = frozenset({"__init_subclass__", "__class_getitem__"})
"""Methods that are called on the class, with no decorator that says so: what they store is an attribute of no instance."""


def methods(c: ClassV) -> Iterator[ir.FunctionDef]:
    """The functions in a class body, those under ``if`` included."""
    stack: list[ir.Stmt] = list(reversed(c.node.body))
    while stack:
        s = stack.pop()
        if isinstance(s, ir.FunctionDef):
            yield s
        elif isinstance(s, ir.If):
            stack.extend(reversed(s.body + s.orelse))


def _may_store(source: str, name: str) -> bool:
    """A cheap look at the text: is there a place where ``.name`` may be a target."""
    return f".{name}" in source and _target(name).search(source) is not None


@lru_cache(maxsize=4096)
def _target(name: str) -> re.Pattern[str]:
    return re.compile(rf"\.{re.escape(name)}\b[ \t]*(?:[,):\]]|=(?!=)|[-+*/|&%^@<>](?:=|[\s\S]=)|in)")


def writes(it: Interpreter, c: ClassV, name: str) -> list[Write]:
    """Every store to ``self.name`` in the methods of ``c`` itself, in textual order."""
    if c.writes is None:
        c.writes = {}
    found: list[Write] | None = c.writes.get(name)
    if found is not None:
        return found
    found = []
    syntax = c.module.syntax
    if syntax is not None:
        absent = f".{name}" not in syntax.text
        for f in methods(c):
            if f.body is None and (absent or not _may_store(syntax.def_source(f), name)):
                continue
            body = f.body if f.body is not None else syntax.body_of(f)
            params = f.params.items
            if not params or f.name in OF_THE_CLASS:
                continue
            _collect(body, f, params[0].name, name, (), found)
    c.writes[name] = found
    return found


def _collect(
    body: tuple[ir.Stmt, ...],
    f: ir.FunctionDef,
    self_name: str,
    name: str,
    guards: tuple[tuple[ir.Expr | None, bool], ...],
    out: list[Write],
) -> None:
    def target(t: ir.Expr, value: ir.Expr | None, index: int | None, s: ir.Stmt) -> None:
        if isinstance(t, (ir.TupleExpr, ir.ListExpr)):
            for i, e in enumerate(t.items):
                if isinstance(value, (ir.TupleExpr, ir.ListExpr)) and len(value.items) == len(t.items):
                    target(e, value.items[i], None, s)
                else:
                    target(e, value, i if index is None else -1, s)
        elif (
            isinstance(t, ir.Attribute) and t.attr == name and isinstance(t.value, ir.Name) and t.value.id == self_name
        ):
            out.append(Write(f, None if index == -1 else value, index, s, guards))

    for s in body:
        if isinstance(s, ir.Assign):
            for t in s.targets:
                target(t, s.value, None, s)
        elif isinstance(s, ir.AnnAssign):
            if s.value is not None:
                target(s.target, s.value, None, s)
        elif isinstance(s, ir.AugAssign):
            target(s.target, None, None, s)
        elif isinstance(s, ir.If):
            _collect(s.body, f, self_name, name, (*guards, (s.test, True)), out)
            _collect(s.orelse, f, self_name, name, (*guards, (s.test, False)), out)
        elif isinstance(s, (ir.For, ir.While)):
            if isinstance(s, ir.For):
                target(s.target, None, None, s)
            _collect(s.body + s.orelse, f, self_name, name, (*guards, (None, True)), out)
        elif isinstance(s, ir.With):
            for item in s.items:
                if item.target is not None:
                    target(item.target, None, None, s)
            _collect(s.body, f, self_name, name, guards, out)
        elif isinstance(s, ir.Try):
            _collect(s.body, f, self_name, name, (*guards, (None, True)), out)
            for h in s.handlers:
                _collect(h.body, f, self_name, name, (*guards, (None, True)), out)
            _collect(s.orelse + s.final, f, self_name, name, (*guards, (None, True)), out)
        elif isinstance(s, ir.FunctionDef) and s.body is not None:
            _collect(s.body, f, self_name, name, (*guards, (None, True)), out)
        elif isinstance(s, ir.Match):
            for case in s.cases:
                _collect(case.body, f, self_name, name, (*guards, (None, True)), out)


def attribute(it: Interpreter, b: Ref, obj: Obj, name: str, fr: Frame, st: State) -> Value | None:
    """What ``b.name`` may hold; None when nothing in the class or its bases writes it."""

    key = ("attribute", b.oid, name)
    if key in it.lazy:
        return it.lazy[key]
    assert obj.cls is not None
    if key in it.lazy_busy:
        return Unknown(f"{obj.cls.name}.{name} depends on itself")
    if it.lazy_depth > it.config.skeleton_depth:
        it.count("skeleton depth")
        return Unknown(f"{obj.cls.name}.{name}: nested too deep")
    it.lazy_busy.add(key)
    it.count("skeleton attributes")
    limit = it.lazy_limit
    own = it.charged + (it.config.skeleton_budget if limit is None else it.config.nested_budget)
    it.lazy_limit = own if limit is None else min(own, limit)
    result: Value | None = None
    failed = False
    it.lazy_depth += 1
    try:
        with it.outside():
            overridden: set[str] = set()
            for c in obj.cls.mro:
                by_method: dict[int, list[Write]] = {}
                for w in writes(it, c, name):
                    if w.function.name in overridden and w.function.name != "__init__":
                        continue  # an overriding method replaces it, unless it calls super()
                    by_method.setdefault(id(w.function), []).append(w)
                for group in by_method.values():
                    value = _run_method(it, b, obj, c, name, group)
                    if value is None:
                        failed = True
                    elif value is not UNBOUND or result is None:
                        result = value if result is None else join(result, value)
                overridden |= _replacing(c)
    except LazyCut:
        if limit is not None and it.charged > limit:
            raise  # it is what asked for this attribute that has run out
        result = Unknown(f"{obj.cls.name}.{name} costs too much to evaluate", ("skeleton", b.oid, name))
    finally:
        it.lazy_depth -= 1
        it.lazy_busy.discard(key)
        it.lazy_limit = limit
    if failed:
        unknown = Unknown(f"{obj.cls.name}.{name}: a write to it cannot be followed", ("skeleton", b.oid, name))
        result = unknown if result is None else join(result, unknown)
    if result is UNBOUND:
        result = None  # written under guards that this scenario excludes
    if result is not None:
        result = _settle(it, b, name, obj, result)
    it.lazy[key] = result  # type: ignore[assignment]
    return result


def _replacing(c: ClassV) -> frozenset[str]:
    """The methods of a class that do not go on to those that they override."""
    if c.replacing is None:
        c.replacing = frozenset(m.name for m in methods(c) if not _calls_super(c, m))
    return c.replacing


def _calls_super(c: ClassV, m: ir.FunctionDef) -> bool:
    syntax = c.module.syntax
    return syntax is not None and m.body is None and f"super().{m.name}(" in syntax.def_source(m)


def _settle(it: Interpreter, b: Ref, name: str, obj: Obj, result: Value) -> Value:
    """Makes what was found safe to share: containers that other code fills are opened, twins become one object."""
    assert obj.cls is not None
    kept: list[Value] = []
    twins: dict[int, Ref] = {}
    for x in alternatives(result):
        if isinstance(x, Unknown) and x.key is None:
            x = Unknown(x.reason, ("skeleton", b.oid, name), x.truth, x.not_none, x.trail)
        if isinstance(x, Ref):
            o = it.base.objects.get(x.oid)
            if (
                o is not None
                and o.cls is None
                and o.kind in ("list", "dict", "set", "queue")
                and (_filled_elsewhere(obj.cls, name) or elsewhere.filled(it, b, name))
            ):
                o.items = None
                o.elements = None
            if o is not None and o.kind == "skeleton" and o.cls is not None:
                first = twins.get(id(o.cls))
                if first is not None:
                    a = it.base.objects[first.oid]
                    if a.ctor is not None and o.ctor is not None:
                        a.ctor = {k: join(a.ctor[k], v) for k, v in o.ctor.items() if k in a.ctor and v != x}
                    continue
                twins[id(o.cls)] = x
        kept.append(x)
    return union_of(kept)


def _filled_elsewhere(c: ClassV, name: str) -> bool:
    n = re.escape(name)
    pattern = re.compile(
        rf"\.{n}(?:\[[^\]\n]*\])?\s*(?:=(?!=)|\.(?:append|appendleft|extend|extendleft|update|add|pop|insert|put|put_nowait"
        r"|remove|clear|setdefault|discard)\()"
        rf"|\.{n}\[[^\]\n]*\]\s*="
    )
    for k in c.mro:
        if k.module.syntax is None:
            continue
        for m in methods(k):
            if m.body is not None:
                return True
            source = k.module.syntax.def_source(m)
            if f".{name}" in source:
                for hit in pattern.finditer(source):
                    if not hit.group(0).rstrip().endswith("=") or "[" in hit.group(0):
                        return True
    return False


def frame_for(
    it: Interpreter, b: Ref, obj: Obj, c: ClassV, f: ir.FunctionDef, arguments: dict[str, Value] | None, st: State
) -> Frame:
    """A frame of one method on a skeleton: ``self`` is known, so are a constructor's arguments, the rest is not."""

    attrs: dict[str, Value] = {}
    for i, p in enumerate(f.params.items):
        if i == 0:
            attrs[p.name] = b
        elif arguments is not None and p.name in arguments:
            attrs[p.name] = arguments[p.name]
        elif arguments is not None and p.default is not None:
            attrs[p.name] = it.eval(p.default, it.module_frame(c.module), it.base_state)
        else:
            attrs[p.name] = Unknown(f"{f.qualname}({p.name})", ("parameter", b.oid, id(f), p.name))
    oid = st.new(Obj("env", attrs=attrs, parent=it.module_oid(c.module)))
    fr = Frame(None, c.module, oid, f if f.body is None else c.owner, c, b)
    fr.slice_of = (f, set())
    it.slices[oid] = fr
    return fr


def _body(c: ClassV, f: ir.FunctionDef) -> tuple[ir.Stmt, ...]:
    if f.body is not None:
        return f.body
    return c.module.syntax.body_of(f) if c.module.syntax is not None else ()


def _slice(it: Interpreter, c: ClassV, f: ir.FunctionDef, wanted: frozenset[int]) -> tuple[ir.Stmt, ...]:
    """The slice of a method on some of its statements, by identity."""
    cache = it.program.slice_cache
    key = (id(f), wanted)
    found = cache.slices.get(key)
    if found is None:
        criterion = Criterion(
            statement=lambda s: id(s) in wanted, call=lambda call: False, wants_value=False, keep_stores=False
        )
        params = frozenset(p.name for p in f.params.items)
        found = cache.slices[key] = slice_body(_body(c, f), criterion, params, cache)
    return found


def _run_method(it: Interpreter, b: Ref, obj: Obj, c: ClassV, name: str, group: list[Write]) -> Value | None:
    """What one method may leave in ``b.name``: its slice on the stores is run in order.

    UNBOUND among the alternatives: it may return without storing. None: it raises before it gets there.
    """

    f = group[0].function
    vague = [w for w in group if isinstance(w.statement, (ir.For, ir.With))]
    wanted = {id(w.statement) for w in group if w not in vague}
    result: Value | None = Unknown(f"{f.qualname} changes it") if vague else None
    if wanted:
        body = _slice(it, c, f, frozenset(wanted))
        arguments = None
        if f.name == "__init__":
            arguments = constructor_arguments(it, b, obj, c)
            if arguments is None and not _constructor_runs(obj, c):
                return UNBOUND
        st = State(it.base)
        marker = obj.copy()
        marker.attrs.pop(name, None)
        st.put(b.oid, marker)
        plain = None if vague else _constants(group)
        limit = it.lazy_limit
        if plain is not None and (limit is None or it.charged + WORTH_OF_A_GUARD < limit):
            it.lazy_limit = it.charged + WORTH_OF_A_GUARD
        try:
            fr = frame_for(it, b, obj, c, f, arguments, st)
            outcomes = it.exec_block(body, fr, st)
        except LazyCut:
            if plain is None or (limit is not None and it.charged > limit):
                raise
            return plain
        except Dead:
            outcomes = []
        except RecursionError:
            return Unknown("recursion")
        finally:
            it.lazy_limit = limit
        states = [s for kind, s, _ in outcomes if kind in "nr"]
        if not states:
            return result
        end = merge(states)
        left = end.obj(b.oid).attrs.get(name, UNBOUND)
        it.base_state.become_without(end, b.oid)
        result = left if result is None else join(result, left)
    return result


def _constants(group: list[Write]) -> Value | None:
    """What the writes store, or nothing, when all store literals or the outcome of a test: it holds whatever the tests
    around them say."""
    values: list[Value] = [UNBOUND]
    for w in group:
        if w.index is not None:
            return None
        if isinstance(w.value, ir.Const):
            values.append(NONE if w.value.value is None else Known(w.value.value))
        elif (isinstance(w.value, ir.UnaryOp) and w.value.op == "not") or (
            isinstance(w.value, ir.Compare) and all(op in ALWAYS_BOOLEAN for op in w.value.ops)
        ):
            values += [TRUE, FALSE]
        else:
            return None
    return union_of(values)


def _constructor_runs(obj: Obj, c: ClassV) -> bool:
    """Whether ``c.__init__`` may run when the object is made: a constructor below it that calls no other hides it."""
    assert obj.cls is not None
    for k in obj.cls.mro:
        if k is c:
            return True
        for m in methods(k):
            if m.name == "__init__":
                syntax = k.module.syntax
                text = syntax.def_source(m) if syntax is not None and m.body is None else "super()"
                above = obj.cls.mro[obj.cls.mro.index(k) + 1 :]
                called = set(_NAMED_INIT.findall(text))  # those of a class outside the tree run no code of it
                if "super(" not in text and called.isdisjoint(b.name for b in above):
                    return False
    return True


def constructor_arguments(it: Interpreter, b: Ref, obj: Obj, c: ClassV) -> dict[str, Value] | None:
    """The arguments that reach ``c.__init__`` when ``b`` is constructed, followed through ``super().__init__`` calls."""

    assert obj.cls is not None
    if obj.ctor is None:
        return None
    chain: list[tuple[ClassV, ir.FunctionDef]] = []
    for k in obj.cls.mro:
        for m in methods(k):
            if m.name == "__init__":
                chain.append((k, m))
    if not chain or chain[0][0] is c:
        return obj.ctor
    index = next((i for i, (k, _) in enumerate(chain) if k is c), None)
    if index is None:
        return None
    key = ("constructor", b.oid, c.oid)
    if key in it.lazy:
        stored = it.lazy[key]
        return it.base.objects[stored.oid].attrs if isinstance(stored, Ref) else None
    if key in it.lazy_busy:
        return None
    it.lazy_busy.add(key)
    result: dict[str, Value] | None = None
    try:
        d, df = chain[index - 1]
        upper = constructor_arguments(it, b, obj, d)
        body = _body(d, df)
        found = _init_call(body, c)
        init = it.base.objects[c.oid].attrs.get("__init__")
        if upper is not None and found is not None and isinstance(init, FuncV):
            statement, call, skip = found
            sliced = _slice(it, d, df, frozenset({id(statement)}))
            st = State(it.base)
            seen: list[dict[str, Value]] = []

            def caught(args: list[Value], keywords: dict[str, Value], open_: bool) -> None:
                try:
                    seen.append(functions.bind(it, init, [b, *args[skip:]], keywords, st, open_, None, fr))
                except Dead:
                    return

            before, it.intercept = it.intercept, (call, caught)
            try:
                fr = frame_for(it, b, obj, d, df, upper, st)
                outcomes = it.exec_block(sliced, fr, st)
                states = [s for kind, s, _ in outcomes if kind in "nr"]
                if states:
                    it.base_state.become_without(merge(states), b.oid)
            except Dead:
                pass
            finally:
                it.intercept = before
            if seen:
                result = seen[0]
                for other in seen[1:]:
                    result = {k: join(result[k], other[k]) for k in result if k in other}
    finally:
        it.lazy_busy.discard(key)
    if result is not None:
        it.lazy[key] = Ref(it.base_state.new(Obj("env", attrs=result)))
    else:
        it.lazy[key] = Unknown("constructor arguments")
    return result


def _init_call(body: tuple[ir.Stmt, ...], c: ClassV) -> tuple[ir.Stmt, ir.Call, int] | None:
    """The ``super().__init__(…)`` or ``Base.__init__(self, …)`` of a constructor."""
    stack: list[ir.Stmt] = list(reversed(body))
    while stack:
        s = stack.pop()
        if isinstance(s, ir.ExprStmt) and isinstance(s.value, ir.Call):
            f = s.value.func
            if isinstance(f, ir.Attribute) and f.attr == "__init__":
                if isinstance(f.value, ir.Call) and isinstance(f.value.func, ir.Name) and f.value.func.id == "super":
                    return s, s.value, 0
                if isinstance(f.value, ir.Name) and f.value.id == c.name:
                    return s, s.value, 1
        elif isinstance(s, (ir.If, ir.For, ir.While)):
            stack.extend(reversed(s.body + s.orelse))
        elif isinstance(s, ir.With):
            stack.extend(reversed(s.body))
        elif isinstance(s, ir.Try):
            stack.extend(reversed(s.body + s.orelse + s.final))
    return None
