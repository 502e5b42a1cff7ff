"""Names: look-up through environments, modules and builtins; assignment to every kind of target."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from flowcheck.interp import attributes, calls, changes, classes, elsewhere, functions, operators, refine, skeletons
from flowcheck.interp.confined import confinement, is_followed
from flowcheck.interp.frames import Dead, LazyCut
from flowcheck.interp.heap import State
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    BoundV,
    BuiltinV,
    ClassV,
    ExternalV,
    FuncV,
    Known,
    LazyImport,
    ModuleV,
    Ref,
    Slice,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
    join,
    union_of,
)
from flowcheck.program.modules import Module, Program
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

BUILTIN_NAMES = frozenset(dir(builtins))
PATCH_BUDGET = 4_000
"""Steps of a function that may replace functions of others."""
MOST_ROUNDS = 4
"""A module variable whose writers store what depends on it is asked for so often, until nothing new is stored."""


# ------------------------------------------------------------------------------------------------------------- look-up
def drop_unbound(v: Value) -> Value | None:
    """``v`` without the possibility that it is not set; None when nothing else is left."""
    if v is UNBOUND:
        return None
    if isinstance(v, Union) and UNBOUND in v.items:
        rest = [x for x in v.items if x is not UNBOUND]
        return union_of(rest) if rest else None
    return v


def lookup(it: Interpreter, name: str, fr: Frame, st: State, e: ir.Node | None = None) -> Value:
    """What a bare name means here."""
    if name not in fr.global_names:
        oid: int | None = fr.env
        first = True
        while oid is not None:
            obj = st.get(oid)
            if obj is None or obj.kind == "module":
                break
            if first or obj.kind != "class":
                v = obj.attrs.get(name)
                if v is not None:
                    bound = drop_unbound(v)
                    if bound is not v:
                        it.may_throw("UnboundLocalError" if oid == fr.env else "NameError", st, e, fr)
                    if bound is not None:
                        return bound

                    raise Dead
            if oid in it.slices and fr.env != oid:
                local = skeletons.local_value(it, name, it.slices[oid], st)
                if local is not None:
                    return local
            first = False
            oid = obj.parent
        if fr.slice_of is not None:
            local = skeletons.local_value(it, name, fr, st)
            if local is not None:
                return local
        if _is_local(it, name, fr):
            it.throw("UnboundLocalError", st, e, fr)
    override = it.config.globals.get(name)
    if override is not None:
        return override
    v = global_value(it, fr.module, name, st, hook=False)
    if v is not None:
        bound = drop_unbound(v)
        if bound is not v:
            it.may_throw("NameError", st, e, fr)
        if bound is not None:
            return bound
        v = None
    if name in BUILTIN_NAMES:
        return _builtin(name)
    if fr.func is not None and not it.in_base and v is None and fr.slice_of is None and not fr.module.stars:
        it.throw("NameError", st, e, fr)
    it.may_raise(st, e, fr)
    return Unknown(f"name {name}")


def _builtin(name: str) -> Value:
    if name == "__debug__":
        return Known(True)
    return BuiltinV(name)


def _is_local(it: Interpreter, name: str, fr: Frame) -> bool:
    """Whether Python's compiler takes ``name`` for a local of this function (so that reading it unset raises)."""
    if fr.func is None or fr.slice_of is not None:
        return False

    return name in functions.local_names(it, fr.func)


def global_value(it: Interpreter, module: Module, name: str, st: State, hook: bool = True) -> Value | None:
    """What ``module.name`` is, evaluating on demand the statements that bind it; None when nothing does.

    ``hook``: the module's own ``__getattr__`` is asked too, as for an attribute or an import, but not for a bare name.
    """
    it.module_oid(module)
    obj = st.get(it.module_oid(module))
    assert obj is not None
    writers = [f for f in module.global_writers(name) if f.name not in it.config.uncalled]
    written = obj.attrs.get(name) if obj is not it.base.objects[it.module_oid(module)] else None
    if written is not None:  # stored on this path
        v: Value | None = force(it, module, name, written)
        assert v is not None
        if v is not UNBOUND and UNBOUND in alternatives(v):
            before = _global_before(it, module, name, writers, st, hook)
            v = v if before is None else join(v, before)
        left_out = [f for f in writers if not is_followed(it, module, f)]
        v = _written_global(it, module, name, left_out, st, v) if left_out else v
        return v if v is None else elsewhere.joined(it, ModuleV(module), name, v, True)
    v = _global_before(it, module, name, writers, st, hook)
    if v is None or not it.config.lasting or name not in it.program.places.names:
        return v
    return elsewhere.joined(it, ModuleV(module), name, v, False)


def _global_before(
    it: Interpreter, module: Module, name: str, writers: list[ir.FunctionDef], st: State, hook: bool
) -> Value | None:
    """What ``module.name`` may be where the path that is followed has not stored it."""
    if writers:
        return _written_global(it, module, name, writers, st)
    return _plain_global(it, module, name, st, hook)


def before_store(it: Interpreter, module: Module, name: str, st: State) -> None:
    """A module variable is stored on one path: those that do not store it go on with what it may have held before."""
    oid = it.module_oid(module)
    base = it.base.objects[oid]
    if (it.in_base and not it.lazy_depth) or (st.get(oid) is not base and name in st.obj(oid).attrs):
        return
    v = _global_before(it, module, name, module.global_writers(name), st, False)
    if v is not None:
        base.attrs[name] = v


def _from_later_star(it: Interpreter, module: Module, name: str, st: State) -> Value | None:
    """What a ``from … import *`` below every other binding of the name makes of it; None when there is none."""
    last = max(s.nid for s in module.bindings[name])
    later = [star for star in module.stars if star.nid > last]
    key = ("star", it.module_oid(module), name)
    if not later or key in it.lazy_busy:
        return None
    it.lazy_busy.add(key)
    try:
        return _from_stars(it, module, name, later, st)
    finally:
        it.lazy_busy.discard(key)


def _from_stars(it: Interpreter, module: Module, name: str, stars: list[ir.ImportFrom], st: State) -> Value | None:
    for star in reversed(stars):
        source = it.module_value(Program.resolve(module, star))
        if not isinstance(source, ModuleV) or source.module is module:
            continue
        public = "__all__" in source.module.bindings or not name.startswith("_")
        v = global_value(it, source.module, name, st, hook=False) if public else None
        if v is not None and "__all__" in source.module.bindings:  # it may be one of the names, or not
            own = it.base.objects[it.module_oid(module)].attrs.get(name)
            return v if own is None else join(own, v)
        if v is not None:
            return v
    return None


def _plain_global(it: Interpreter, module: Module, name: str, st: State, hook: bool = False) -> Value | None:
    if module.stars and name in module.bindings and module not in it.running:
        found = _from_later_star(it, module, name, st)
        if found is not None:
            return found
    base = it.base.objects[it.module_oid(module)]
    v = base.attrs.get(name)
    if v is not None and v is not UNBOUND and not _is_bound_again(it, module, name):
        return force(it, module, name, v)
    if module.ordered and module not in it.running:
        it.running.add(module)
        for statement in module.body:
            run_top(it, module, statement)
    elif name in module.bindings:
        busy = ("bindings", it.module_oid(module), name)
        if busy not in it.lazy_busy:
            it.lazy_busy.add(busy)
            try:
                for statement in module.bindings[name]:
                    run_top(it, module, statement)
            finally:
                it.lazy_busy.discard(busy)
    v = base.attrs.get(name)
    if v is not None:
        v = force(it, module, name, v)
        if isinstance(v, Ref) and module not in it.running:
            _open_shared(it, module, name, v)
        return v
    if module.is_package:
        sub = it.program.module(f"{module.name}.{name}")
        if sub is not None:
            it.module_oid(sub)
            return ModuleV(sub)
    for star in module.stars:
        source = it.module_value(Program.resolve(module, star))
        if isinstance(source, ModuleV):
            v = global_value(it, source.module, name, st)
            if v is not None:
                return v
        elif name not in BUILTIN_NAMES and isinstance(source, ExternalV):
            return ExternalV(f"{source.name}.{name}")
    if hook and "__getattr__" in module.bindings and not name.startswith("__"):
        function = _plain_global(it, module, "__getattr__", st)
        if isinstance(function, FuncV):
            try:
                with it.outside():
                    return calls.call(it, function, [Known(name)], {}, it.base_state, None, it.module_frame(module))
            except Dead:
                return None
    return None


def _is_bound_again(it: Interpreter, module: Module, name: str) -> bool:
    """Whether statements that bind a name have not run yet though others have: one that binds several names runs for the
    sake of any of them. Not while they run in their order."""
    statements = module.bindings.get(name, ())
    if len(statements) < 2 or module in it.running or ("bindings", it.module_oid(module), name) in it.lazy_busy:
        return False
    return any(id(s) not in it.ran for s in statements)


def _open_shared(it: Interpreter, module: Module, name: str, v: Ref) -> None:
    """A container at module level that functions fill later holds more than its module's top level says."""
    obj = it.base.objects.get(v.oid)
    if obj is None or obj.cls is not None or obj.kind not in ("list", "dict", "set", "queue") or obj.items is None:
        return
    own, other = it.program.mutated(module, name)
    if other or (own and not obj.items):
        obj.open([Unknown(f"what is put into {name}")])
        if obj.kind == "dict":
            obj.tag = confinement(it, module, name)


def run_top(it: Interpreter, module: Module, statement: ir.Stmt) -> None:
    """Runs one top-level statement, once."""
    if id(statement) in it.ran:
        return
    it.ran.add(id(statement))
    lazy_depth, it.lazy_depth = it.lazy_depth, 0  # an import is a run of its own, whoever asked for the name
    eager, it.eager_depth = it.eager_depth, 0
    try:
        with it.outside(), it.uncharged(None):
            it.exec_block((statement,), it.module_frame(module), it.base_state)
    finally:
        it.lazy_depth, it.eager_depth = lazy_depth, eager


def apply_patches(it: Interpreter) -> None:
    """Runs what modules of the tree store into the classes and functions of others: when they are imported, and in
    functions that may be called later (what was there may be there still)."""
    for module, statements in it.program.patches.at_import:
        run = module.body if module.ordered and module not in it.running else statements
        if module.ordered:
            it.running.add(module)
        for statement in run:
            with suppress(Dead):
                run_top(it, module, statement)
    for module, f in it.program.patches.later:
        name, _, method = f.qualname.partition(".")
        v = global_value(it, module, name, it.base_state)
        if method:
            v = classes.class_attr(it, v, method, it.base_state) if isinstance(v, ClassV) else None
        if not isinstance(v, FuncV):
            continue
        given: list[Value] = [Unknown(f"{f.qualname}({p.name})") for p in f.params.items if p.default is None]
        _patch(it, v, given, {}, module)
    for module, f, caller, texts in it.program.patches.given_classes:
        v = global_value(it, module, f.name, it.base_state)
        if isinstance(v, FuncV):
            named = [text.partition("=") for text in texts]
            given = [_written_argument(it, caller, text) for text, _, value in named if not value]
            _patch(it, v, given, {k.strip(): _written_argument(it, caller, t) for k, _, t in named if t}, module)
    for path, line, attribute in it.program.patches.by_methods_of_python:
        for cls, stored in elsewhere.into_classes(it, path, line, attribute):
            held = classes.class_attr(it, cls, attribute, it.base_state)
            it.base_state.write(cls.oid).attrs[attribute] = stored if held is None else join(held, stored)
            it.patched.add(attribute)


def _patch(it: Interpreter, f: FuncV, given: list[Value], named: dict[str, Value], module: Module) -> None:
    """Runs a function that may be called later for what it stores into classes and modules."""
    it.patching = True
    try:
        with it.outside(), it.uncharged(PATCH_BUDGET):
            calls.call(it, f, given, named, it.base_state, None, it.module_frame(module))
    except (Dead, LazyCut):
        pass
    finally:
        it.patching = False


def _written_argument(it: Interpreter, module: Module, text: str) -> Value:
    """What an argument means that is written as a name or a literal in a function of a module."""
    text = text.strip()
    if text[:1] in "\"'" and text[:1] == text[-1:]:
        return Known(text[1:-1])
    name = text.rpartition(".")[2]
    v = global_value(it, module, text, it.base_state) if text.isidentifier() else None
    if v is None and name[:1].isupper() and name.isidentifier():  # imported where it is used
        homes = {m.path: (m, c) for m, c in it.program.corpus.classes_named(name)}
        if len(homes) == 1:
            ((home, _),) = homes.values()
            v = global_value(it, home, name, it.base_state)
    return v if v is not None else Unknown(text)


def force(it: Interpreter, module: Module, name: str, v: Value) -> Value:
    """``v`` with imports resolved."""
    if isinstance(v, LazyImport):
        busy = ("import", it.module_oid(module), name)
        if busy in it.lazy_busy:
            return Unknown(f"import cycle through {name}")
        it.lazy_busy.add(busy)
        try:
            found = global_value(it, v.module, v.name, it.base_state)
        finally:
            it.lazy_busy.discard(busy)
        result = found if found is not None else Unknown(f"{v.module.name} has no {v.name}")
        base = it.base.objects[it.module_oid(module)]
        if base.attrs.get(name) is v:
            base.attrs[name] = result
        return result
    if isinstance(v, Union) and any(isinstance(x, LazyImport) for x in v.items):
        return union_of([force(it, module, f"{name}#{i}", x) for i, x in enumerate(v.items)])
    return v


def _written_global(
    it: Interpreter, module: Module, name: str, writers: list[ir.FunctionDef], st: State, own: Value | None = None
) -> Value | None:
    """A module variable that functions write through ``global``: joined with everything that they may store.

    ``own``: what the path itself has stored there; without it, what the module's top level does.
    """

    key = ("global" if own is None else "global, by others", it.module_oid(module), name)
    if key in it.lazy:
        return it.lazy[key] if own is None else join(own, it.lazy[key])
    start = _plain_global(it, module, name, st) if own is None else None
    if key in it.lazy_busy:
        it.lazy_so_far.setdefault(key, start or own or Unknown(f"global {name}"))
        return it.lazy_so_far[key]
    it.lazy_busy.add(key)
    value = start
    try:
        for _ in range(MOST_ROUNDS):
            for function in writers:
                for source in skeletons.local_stores(it, module, function, name):
                    v = skeletons.slice_value(it, module, function, source, name)
                    if v is not None:
                        value = v if value is None else join(value, v)
            asked = it.lazy_so_far.get(key)
            if asked is None or value is None or asked == value:
                break  # nothing that is stored depends on what is held, or the two agree
            it.lazy_so_far[key] = value
        else:
            value = join(value or UNBOUND, Unknown(f"global {name}"))
    finally:
        it.lazy_busy.discard(key)
        it.lazy_so_far.pop(key, None)
    if value is None:
        value = Unknown(f"global {name}")
    it.lazy[key] = value
    return value if own is None else join(own, value)


# ---------------------------------------------------------------------------------------------------------- assignment
def assign(it: Interpreter, t: ir.Expr, v: Value, fr: Frame, st: State, source: ir.Expr | None = None) -> None:
    """Binds target ``t`` to ``v``; ``source`` is the expression that gave it, remembered for later tests of a name."""
    if isinstance(t, ir.Name):
        _assign_name(it, t.id, v, fr, st, source)
    elif isinstance(t, ir.Attribute):
        attributes.set_(it, it.eval(t.value, fr, st), t.attr, v, fr, st, t)
    elif isinstance(t, (ir.TupleExpr, ir.ListExpr)):
        _unpack(it, t, v, fr, st)
    elif isinstance(t, ir.Subscript):
        c = it.eval(t.value, fr, st)
        if isinstance(t.index, ir.Slice):
            bounds = [
                it.eval(x, fr, st) if x is not None else NONE for x in (t.index.lower, t.index.upper, t.index.step)
            ]
            store_slice(it, c, bounds, v, fr, st, t)
        else:
            operators.put(it, c, it.eval(t.index, fr, st), v, fr, st, t)
        if any(isinstance(x, Unknown) for x in alternatives(c)):
            changes.in_place(it, t.value, fr, st)
    elif isinstance(t, ir.Star):
        assign(it, t.value, v, fr, st)


def store_slice(
    it: Interpreter, c: Value, bounds: list[Value], v: Value | None, fr: Frame, st: State, e: ir.Node | None
) -> None:
    """``c[a:b:c] = v``; without ``v``, ``del c[a:b:c]``."""
    targets = alternatives(c)
    if it.config.tensors is not None and v is not None and any(operators.is_kind(x, "tensor", st) for x in targets):
        operators.put(it, c, Slice(tuple(bounds)), v, fr, st, e)
        return
    numbers = [operators.plain(b) for b in bounds]
    exact = all(isinstance(b, Known) and (b.value is None or isinstance(b.value, int)) for b in numbers)
    given = operators.iterate(it, v, fr, st, e) if v is not None else []
    for x in targets:
        obj = st.get(x.oid) if isinstance(x, Ref) else None
        if obj is None or obj.cls is not None or obj.kind != "list":
            it.may_raise(st, e, fr)
            if obj is not None and obj.cls is not None:
                name = "__setitem__" if v is not None else "__delitem__"
                method = classes.class_attr(it, obj.cls, name, st)
                if isinstance(method, FuncV):
                    args = [Unknown("slice"), *([v] if v is not None else [])]
                    calls.call(it, BoundV(method, x), args, {}, st, e, fr)
            continue
        assert isinstance(x, Ref)
        obj = st.write(x.oid)
        if exact and given is not None and obj.items is not None and obj.exact and len(targets) == 1:
            cut = slice(*[b.value for b in numbers])  # type: ignore[attr-defined]
            try:
                if v is None:
                    del obj.items[cut]
                else:
                    obj.items[cut] = given
            except ValueError:
                it.throw("ValueError", st, e, fr)
        else:
            it.may_raise(st, e, fr)
            obj.open(given if given is not None else [operators.element(it, v, st)] if v is not None else [])


def _assign_name(it: Interpreter, name: str, v: Value, fr: Frame, st: State, source: ir.Expr | None) -> None:
    if name in fr.global_names:
        before_store(it, fr.module, name, st)
        target = st.write(it.module_oid(fr.module))
        held = target.attrs.get(name)
        # What is evaluated on demand may have run or not.
        target.attrs[name] = v if held is None or not it.lazy_depth else join(held, v)
        return
    if name in fr.nonlocal_names:
        env = st.get(fr.env)
        oid = env.parent if env is not None else None
        while oid is not None:
            obj = st.get(oid)
            if obj is None or obj.kind == "module":
                break
            if obj.kind != "class" and name in obj.attrs:
                st.write(oid).attrs[name] = v
                st.touch()
                return
            oid = obj.parent

    env_obj = st.write(fr.env)
    refine.forget_origins(env_obj, fr.env, name)
    env_obj.attrs[name] = v
    if fr.func is not None and functions.keeps_environment(it, fr.func):
        st.touch()  # a closure may read it
    if source is not None and isinstance(source, refine.ORIGINS):
        refine.remember(it, name, source, v, fr, st)
    else:
        env_obj.attrs.pop("@" + name, None)


def _unpack(it: Interpreter, t: ir.TupleExpr | ir.ListExpr, v: Value, fr: Frame, st: State) -> None:
    if isinstance(v, Union) and any(operators.runs_code(x, st) for x in v.items):

        def arm(x: Value) -> Callable[[State], Value]:
            def thunk(state: State) -> Value:
                _unpack(it, t, x, fr, state)
                return NONE

            return thunk

        it.both(st, [(st.fork(), arm(x)) for x in v.items])
        return
    stars = [i for i, e in enumerate(t.items) if isinstance(e, ir.Star)]
    n = len(t.items)
    rows: list[list[Value]] = []
    unknown = False
    for x in alternatives(v):
        if it.config.tensors is not None and isinstance(x, Ref) and not stars:
            parts = it.config.tensors.unpacked(it, x, n, st, t, fr)
            if parts is not None:
                rows += [parts] if parts else []
                continue
        items = operators.iterate(it, x, fr, st, t) if not isinstance(x, Known) or x.value is not None else None
        if items is None:
            if isinstance(x, Known) and x.value is None:
                if isinstance(v, Union):
                    it.may_throw("TypeError", st, t, fr)
                    continue
                it.throw("TypeError", st, t, fr)
            unknown = True
            continue
        if stars:
            if len(items) < n - 1:
                it.may_throw("ValueError", st, t, fr)
                continue
            i, tail = stars[0], n - stars[0] - 1
            middle = items[i : len(items) - tail]
            rows.append([*items[:i], it.new_list(st, middle), *items[len(items) - tail :]])
        elif len(items) == n:
            rows.append(items)
        else:
            it.may_throw("ValueError", st, t, fr)
    if not rows and not unknown:
        raise Dead
    if unknown:
        it.may_raise(st, t, fr)
    for i, e in enumerate(t.items):
        column = [row[i] for row in rows]
        if unknown:
            element = operators.element(it, v, st)
            if i in stars:
                ref = it.new_list(st, None)
                st.write(ref.oid).elements = element
                column.append(ref)
            else:
                column.append(element)
        assign(it, e.value if isinstance(e, ir.Star) else e, union_of(column), fr, st)


def delete(it: Interpreter, t: ir.Expr, fr: Frame, st: State) -> None:
    """``del t``."""
    if isinstance(t, ir.Name):
        lookup(it, t.id, fr, st, t)
        _assign_name(it, t.id, UNBOUND, fr, st, None)
    elif isinstance(t, ir.Subscript):
        c = it.eval(t.value, fr, st)
        if isinstance(t.index, ir.Slice):
            bounds = [
                it.eval(x, fr, st) if x is not None else NONE for x in (t.index.lower, t.index.upper, t.index.step)
            ]
            store_slice(it, c, bounds, None, fr, st, t)
        else:
            operators.delete_item(it, c, it.eval(t.index, fr, st), fr, st, t)
        if any(isinstance(x, Unknown) for x in alternatives(c)):
            changes.in_place(it, t.value, fr, st)
    elif isinstance(t, ir.Attribute):
        attributes.delete(it, it.eval(t.value, fr, st), t.attr, fr, st, t)
    elif isinstance(t, (ir.TupleExpr, ir.ListExpr)):
        for x in t.items:
            delete(it, x, fr, st)


_ = (NONE, ClassV, TupleV)
