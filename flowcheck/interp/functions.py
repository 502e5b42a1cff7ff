"""Functions: making them (decorators included), binding arguments, running bodies and generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import reach
from flowcheck.interp.heap import NEVER, BaseState, Obj, State, merge
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    BoundV,
    BuiltinV,
    ClassV,
    ExternalV,
    FuncV,
    GeneratorV,
    Known,
    PartialV,
    Ref,
    TupleV,
    Unknown,
    Value,
    join,
)
from flowcheck.program.modules import target_names
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowcheck.interp.engine import Frame, Interpreter, Outcome

TRANSPARENT = frozenset(
    {
        "abc.abstractmethod", "contextlib.wraps", "functools.wraps", "typing.override", "typing.overload",
        "typing_extensions.override", "typing.final", "typing.no_type_check", "torch.no_grad", "torch.inference_mode",
        "torch.compile", "torch.jit.script", "torch.jit.ignore", "torch.jit.unused", "torch.enable_grad",
        "torch.compiler.disable", "torch._dynamo.disable", "functools.lru_cache", "functools.cache",
        "torch.compiler.allow_in_graph", "typing.runtime_checkable",
    }
)  # fmt: skip
MEMOISING = frozenset({"functools.lru_cache", "functools.cache"})


# -------------------------------------------------------------------------------------------------------------- making
def make_lambda(it: Interpreter, e: ir.Lambda, fr: Frame, st: State) -> FuncV:
    env = st.obj(fr.env)
    home = fr.env if env.kind != "class" else (env.parent or 0)
    f = FuncV(e, fr.module, home, fr.owner, fr.cls, _defaults(it, e.params, fr, st))
    return f


def _defaults(it: Interpreter, params: ir.Params, fr: Frame, st: State) -> dict[str, Value]:
    return {p.name: it.eval(p.default, fr, st) for p in params.items if p.default is not None}


def make_function(it: Interpreter, s: ir.FunctionDef, fr: Frame, st: State) -> Value:
    """The value that a ``def`` binds, its decorators applied."""
    env = st.obj(fr.env)
    in_class = env.kind == "class"
    home = (env.parent or 0) if in_class else fr.env
    owner = None if s.body is None else fr.owner
    f = FuncV(s, fr.module, home, owner, fr.cls, _defaults(it, s.params, fr, st))
    value: Value = f
    for d in reversed(s.decorators):
        value = _decorate(it, f, value, d, s, fr, st)
    return value


def _decorate(it: Interpreter, f: FuncV, value: Value, d: ir.Expr, s: ir.FunctionDef, fr: Frame, st: State) -> Value:
    from flowcheck.interp import calls, managers

    target = d.func if isinstance(d, ir.Call) else d
    if isinstance(target, ir.Attribute) and target.attr in ("setter", "deleter", "getter"):
        old = it.eval(target.value, fr, st)
        if isinstance(old, FuncV) and old.kind in ("property", "cached"):
            base = f if target.attr == "getter" else old
            new = FuncV(base.node, base.module, base.env, base.owner, base.cls, base.defaults, old.kind)
            new.setter = f if target.attr == "setter" else old.setter
            new.deleter = f if target.attr == "deleter" else old.deleter
            return new
    dv = it.eval(target, fr, st)
    name = dv.name if isinstance(dv, (BuiltinV, ExternalV)) else None
    if name == "staticmethod":
        f.kind = "static"
        return value
    if name == "classmethod":
        f.kind = "class"
        return value
    if name in ("property", "abc.abstractproperty"):
        f.kind = "property"
        return value
    if name in ("functools.cached_property", "cached_property"):
        f.kind = "cached"
        return value
    if name in ("contextlib.contextmanager", "contextlib.asynccontextmanager"):
        f.is_context = True
        return value
    if name in ("functools.singledispatch", "functools.singledispatchmethod"):
        return BuiltinV("dispatch.", value)
    if name is not None and name in TRANSPARENT:
        f.memo = f.memo or name in MEMOISING
        return value
    if isinstance(dv, (FuncV, BoundV, PartialV, ClassV)):
        from flowcheck.interp.engine import Dead

        try:
            full = it.eval(d, fr, st) if isinstance(d, ir.Call) else dv
            if isinstance(value, FuncV) and isinstance(d, ir.Call) and managers.decorates(it, full, st):
                value.around = (*value.around, full)
                return value
            result = calls.call(it, full, [value], {}, st, d, fr)
        except Dead:
            return Unknown(f"what a decorator makes of {f.qualname}")
        for x in (result,):
            if isinstance(x, FuncV) and x.cls is None:
                x.cls = f.cls
            if isinstance(x, FuncV) and f.kind in ("static", "class") and x is not f:
                x.kind = f.kind
        return result
    # A decorator that nobody can read: assumed to call what it wraps. Kernels are told apart by what they are made with.
    if isinstance(dv, ExternalV) and ("triton" in dv.name or "tilelang" in dv.name or dv.name.startswith("numba")):
        return ExternalV(f"kernel.{f.qualname}")
    it.count("opaque decorators")
    return value


# -------------------------------------------------------------------------------------------------------------- locals
def body_of(it: Interpreter, f: FuncV) -> tuple[ir.Stmt, ...]:
    node = f.node
    assert isinstance(node, ir.FunctionDef)
    if node.body is not None:
        return node.body
    assert f.module.syntax is not None
    return f.module.syntax.body_of(node)


_LOCALS: dict[int, tuple[object, frozenset[str]]] = {}


def local_names(it: Interpreter, f: FuncV) -> frozenset[str]:
    """Names that the function's body binds, so that reading one before it is bound raises."""
    found = _LOCALS.get(id(f.node))
    if found is not None and found[0] is f.node:
        return found[1]
    if isinstance(f.node, ir.Lambda):
        names: set[str] = {p.name for p in f.node.params.items}
    else:
        names = {p.name for p in f.node.params.items}
        outer: set[str] = set()
        stack: list[ir.Stmt] = list(body_of(it, f))
        while stack:
            s = stack.pop()
            if isinstance(s, (ir.FunctionDef, ir.ClassDef)):
                names.add(s.name)
            elif isinstance(s, ir.Assign):
                for t in s.targets:
                    names.update(target_names(t))
            elif isinstance(s, (ir.AnnAssign, ir.AugAssign)):
                names.update(target_names(s.target))
            elif isinstance(s, ir.For):
                names.update(target_names(s.target))
                stack += s.body + s.orelse
            elif isinstance(s, (ir.If, ir.While)):
                stack += s.body + s.orelse
            elif isinstance(s, ir.With):
                for item in s.items:
                    if item.target is not None:
                        names.update(target_names(item.target))
                stack += s.body
            elif isinstance(s, ir.Try):
                stack += s.body + s.orelse + s.final
                for h in s.handlers:
                    if h.name:
                        names.add(h.name)
                    stack += h.body
            elif isinstance(s, (ir.Global, ir.Nonlocal)):
                outer.update(s.names)
            elif isinstance(s, ir.Import):
                names.update(alias or dotted.split(".")[0] for dotted, alias in s.names)
            elif isinstance(s, ir.ImportFrom):
                names.update(alias or name for name, alias in s.names)
            elif isinstance(s, ir.Match):
                for case in s.cases:
                    stack += case.body
                    names.update(_captures(case.pattern))
            elif isinstance(s, ir.Delete):
                for t in s.targets:
                    names.update(target_names(t))
            names.update(_walrus_names(s))
        names -= outer
    result = frozenset(names)
    _LOCALS[id(f.node)] = (f.node, result)
    return result


def _captures(p: ir.Pattern) -> set[str]:
    found = {p.name} if p.name is not None else set()
    for child in p.children:
        found |= _captures(child)
    return found


def _walrus_names(node: object) -> set[str]:
    """Names that ``:=`` binds in the expressions of a statement; nested functions and statements have their own."""
    found: set[str] = set()
    stack: list[object] = [getattr(node, f) for f in node.__struct_fields__] if isinstance(node, ir.Node) else []
    while stack:
        x = stack.pop()
        if isinstance(x, tuple):
            stack.extend(x)
        elif isinstance(x, ir.Walrus):
            found.update(target_names(x.target))
            stack.append(x.value)
        elif isinstance(x, EXPRESSIONS):
            stack.extend(getattr(x, f) for f in x.__struct_fields__)
    return found


def always_reaches(it: Interpreter, f: FuncV, node: ir.Node) -> bool:
    """Whether the body evaluates the expression ``node`` on every path that does not raise before it."""
    if isinstance(f.node, ir.Lambda):
        return False
    for s in body_of(it, f):
        if not isinstance(s, (ir.ExprStmt, ir.Assign, ir.AnnAssign, ir.AugAssign, ir.Return)):
            if _holds(s, ir.Return) or _holds(s, ir.Yield):
                return False
            continue
        if _evaluates(s, node):
            return True
        if isinstance(s, ir.Return):
            return False
    return False


def _evaluates(x: object, node: ir.Node) -> bool:
    """Whether ``node`` lies in ``x`` where evaluation cannot pass it by."""
    if x is node:
        return True
    if isinstance(x, (ir.BoolOp, ir.IfExp, ir.Lambda, ir.Comp, ir.Compare)):
        return False
    if isinstance(x, ir.Node):
        return any(_evaluates(getattr(x, name), node) for name in type(x).__struct_fields__)
    return isinstance(x, tuple) and any(_evaluates(y, node) for y in x)


EXPRESSIONS = (
    ir.Attribute, ir.Call, ir.Arg, ir.Subscript, ir.Slice, ir.Star, ir.TupleExpr, ir.ListExpr, ir.SetExpr, ir.DictExpr,
    ir.BinOp, ir.UnaryOp, ir.BoolOp, ir.Compare, ir.IfExp, ir.Comp, ir.Generator, ir.FString, ir.Await, ir.Yield,
    ir.WithItem,
)  # fmt: skip
_NESTED: dict[int, tuple[object, bool]] = {}


def keeps_environment(it: Interpreter, f: FuncV) -> bool:
    """Whether something made inside the function may outlive the call and still see its locals."""
    found = _NESTED.get(id(f.node))
    if found is not None and found[0] is f.node:
        return found[1]
    result = isinstance(f.node, ir.Lambda) or any(_holds_function(s) for s in body_of(it, f))
    _NESTED[id(f.node)] = (f.node, result)
    return result


CONSUMERS = frozenset(
    {"all", "any", "sum", "list", "tuple", "set", "frozenset", "dict", "max", "min", "sorted", "join", "extend", "update"}
)


def _consumes(f: ir.Expr) -> bool:
    return (f.id if isinstance(f, ir.Name) else f.attr if isinstance(f, ir.Attribute) else "") in CONSUMERS


def _holds_function(node: object) -> bool:
    if isinstance(node, (ir.FunctionDef, ir.Lambda, ir.ClassDef)):
        return True
    if isinstance(node, ir.Comp) and node.kind == "generator":
        return True
    if isinstance(node, ir.Call) and len(node.args) == 1 and _consumes(node.func):
        (only,) = node.args
        if isinstance(only.value, ir.Comp) and only.value.kind == "generator":  # used up before the call returns
            return any(map(_holds_function, (only.value.element, *only.value.generators)))
    if isinstance(node, ir.Node):
        return any(_holds_function(getattr(node, name)) for name in type(node).__struct_fields__)
    if isinstance(node, tuple):
        return any(map(_holds_function, node))
    return False


# ------------------------------------------------------------------------------------------------------------- binding
def bind(
    it: Interpreter,
    f: FuncV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    open_: bool,
    node: ir.Node | None,
    fr: Frame | None,
) -> dict[str, Value]:
    """The environment of a call. ``open_``: there may be more arguments than ``args`` and ``keywords`` say."""
    env: dict[str, Value] = {}
    kw = dict(keywords)
    n = 0
    variadic = False
    for p in f.node.params.items:
        if p.kind in ("pos", "arg"):
            if n < len(args):
                env[p.name] = args[n]
                if p.kind == "arg" and p.name in kw:
                    it.throw("TypeError", st, node, fr)
            elif p.kind == "arg" and p.name in kw:
                env[p.name] = kw.pop(p.name)
            elif open_:
                unknown: Value = Unknown("an argument of an unknown list")
                env[p.name] = join(f.defaults[p.name], unknown) if p.name in f.defaults else unknown
            elif p.name in f.defaults:
                env[p.name] = f.defaults[p.name]
            else:
                it.throw("TypeError", st, node, fr)
            n += 1
        elif p.kind == "*":
            variadic = True
            if p.name:
                env[p.name] = Unknown("variadic arguments") if open_ else TupleV(args[n:])
        elif p.kind == "kw":
            if p.name in kw:
                env[p.name] = kw.pop(p.name)
            elif open_:
                unknown = Unknown("an argument of an unknown mapping")
                env[p.name] = join(f.defaults[p.name], unknown) if p.name in f.defaults else unknown
            elif p.name in f.defaults:
                env[p.name] = f.defaults[p.name]
            else:
                it.throw("TypeError", st, node, fr)
        else:
            if open_:
                ref = it.new_dict(st, None)
            else:
                ref = it.new_dict(st, {("k", k): (Known(k), v) for k, v in kw.items()})
            env[p.name] = ref
            kw = {}
    if kw or (len(args) > n and not variadic):
        it.throw("TypeError", st, node, fr)
    return env


# ------------------------------------------------------------------------------------------------------------- calling
def run(
    it: Interpreter,
    f: FuncV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
    hook: Callable[[Value, State], Value] | None,
    want: bool | None,
    body: tuple[ir.Stmt, ...] | None = None,
    discarded: bool = False,
) -> Value:
    """Runs a function's body in ``st`` and gives what it returns."""
    from flowcheck.interp.engine import Dead, Frame

    env = bind(it, f, args, keywords, st, open_, node, fr)
    if it.config.tracked and node is not None:
        site = fr.site(node)
        for name in env.keys() & it.config.tracked:
            env[name] = it.at(env[name], site, f"passed to {f.qualname}({name}=…)")
    if isinstance(f.node, ir.FunctionDef) and f.node.is_generator and hook is None:
        if f.is_context:
            return GeneratorV(f, tuple(args), dict(keywords))
        return lazily(st, Lazy(f, tuple(args), dict(keywords)))
    oid = st.new(Obj("env", attrs=env, parent=f.env))
    self_ = _self_of(f, env, fr, st)
    owner = f.node if isinstance(f.node, ir.FunctionDef) and f.node.body is None else f.owner
    inner = Frame(f, f.module, oid, owner, f.cls, self_, fr, fr.site(node) if node is not None else None)
    inner.hook = hook
    inner.want = want
    inner.discarded = discarded
    it.count("calls")
    if isinstance(f.node, ir.FunctionDef):
        it.called[(f.module.path, f.node.line)] = f.qualname
    it.depth += 1
    loops, it.loop_sites = it.loop_sites, [*it.loop_sites] if it.loop_sites else it.loop_sites
    active, it.active = it.active, f.qualname
    try:
        if isinstance(f.node, ir.Lambda):
            return it.eval(f.node.body, inner, st)
        outcomes = it.exec_block(body if body is not None else body_of(it, f), inner, st)
    finally:
        it.depth -= 1
        it.loop_sites = loops
        it.active = active
    value = finish(outcomes, st)
    if value is None:
        raise Dead
    if not isinstance(st, BaseState) and hook is None and not keeps_environment(it, f):
        st.top.objects.pop(oid, None)
    if isinstance(f.node, ir.FunctionDef) and f.node.is_async:
        return value
    return value


def finish(outcomes: list[Outcome], st: State) -> Value | None:
    """Merges the ways in which a body ends into ``st``; the returned value, or None when it never returns."""
    states: list[State] = []
    value: Value | None = None
    for kind, state, v in outcomes:
        if kind == "r":
            assert v is not None
        elif kind == "n":
            v = NONE
        else:
            continue
        states.append(state)
        value = v if value is None else join(value, v)  # type: ignore[arg-type]
    if not states:
        return None
    merged = merge(states)
    if merged is not st:
        st.become(merged)
    return value


def _self_of(f: FuncV, env: dict[str, Value], fr: Frame, st: State) -> Value | None:
    params = f.node.params.items
    if f.cls is not None and isinstance(f.node, ir.FunctionDef) and params and f.kind != "static":
        home = st.get(f.env)
        if home is None or home.kind in ("module", "class") or params[0].name in ("self", "cls"):
            return env.get(params[0].name)
    home = st.get(f.env)
    while home is not None and home.kind == "env":  # a closure inside a method sees the method's self
        for name in ("self", "cls"):
            if name in home.attrs:
                return home.attrs[name]
        home = st.get(home.parent) if home.parent is not None else None
    return None


class Lazy:
    """What an iterator that has not started will do: a generator's call, or a generator expression in its frame."""

    __slots__ = ("args", "expr", "frame", "func", "how", "keywords", "source")

    def __init__(
        self,
        func: FuncV | None,
        args: tuple[Value, ...] = (),
        keywords: dict[str, Value] | None = None,
        expr: ir.Comp | None = None,
        frame: Frame | None = None,
        source: Value = NONE,
        how: str = "",
    ) -> None:
        self.how = how  # "map", "filter", "enumerate", for what stands before ``source``
        self.func = func
        self.args = args
        self.keywords = keywords or {}
        self.expr = expr
        self.frame = frame
        self.source = source


class Rest:
    """What an iterator that was left in the middle will do: some of what ``lazy`` does."""

    __slots__ = ("lazy",)

    def __init__(self, lazy: Lazy) -> None:
        self.lazy = lazy


def resume(it: Interpreter, ref: Ref, fr: Frame, st: State, node: ir.Node | None) -> None:
    """Runs an iterator on that was left in the middle: anything that it writes may have been written, or restored."""
    rest = st.obj(ref.oid).tag
    if not isinstance(rest, Rest):
        return

    def run(state: State) -> None:
        again = state.write(ref.oid)
        again.tag = rest.lazy
        consume(it, ref, fr, state, node, lambda v, s: Unknown("what is sent to a generator"))

    reach.blurred(it, st, run, fr.site(node) if node is not None else None, "written by a generator")


def may_matter(it: Interpreter, lazy: Lazy) -> bool:
    """Whether an iterator may touch what is tracked when it runs."""
    if lazy.func is not None:
        return it.config.relevant is None or it.config.relevant(lazy.func) or it.config.dynamic(lazy.func)
    if lazy.expr is not None:
        found = _CALLING.get(id(lazy.expr))
        if found is None or found[0] is not lazy.expr:
            found = _CALLING[id(lazy.expr)] = (lazy.expr, _holds(lazy.expr, ir.Call))
        return found[1]
    return True


_CALLING: dict[int, tuple[object, bool]] = {}


def _holds(node: object, kind: type) -> bool:
    if isinstance(node, kind):
        return True
    if isinstance(node, ir.Node):
        return any(_holds(getattr(node, name), kind) for name in type(node).__struct_fields__)
    return isinstance(node, tuple) and any(_holds(x, kind) for x in node)


def lazily(st: State, lazy: Lazy) -> Ref:
    """A generator object that has not started."""
    obj = Obj("iterator", items=None)
    obj.tag = lazy
    return Ref(st.new(obj))


def consume(
    it: Interpreter, ref: Ref, fr: Frame, st: State, node: ir.Node | None, step: Callable[[Value, State], Value]
) -> None:
    """Runs a generator that has not started to its end in ``st``, ``step`` at each value that it yields."""
    from flowcheck.interp.engine import Dead, Frame

    lazy = st.obj(ref.oid).tag
    assert isinstance(lazy, Lazy)
    target = st.write(ref.oid)
    target.tag = None
    target.items = []
    if lazy.how:
        _consume_builtin(it, lazy, fr, st, node, step)
        return
    if lazy.expr is not None:
        from flowcheck.interp import expressions

        assert lazy.frame is not None
        expressions.run_comprehension(it, lazy.expr, lazy.frame, st, lazy.source, step)
        return
    f = lazy.func
    assert f is not None
    if it.depth >= it.config.max_depth:
        it.cuts[f.qualname] = it.cuts.get(f.qualname, 0) + 1
        it.may_raise(st, node, fr)
        stopped = st.fork()
        step(Unknown(f"{f.qualname}, which recurses"), st)
        st.become(merge([stopped, st.fork()]))
        return
    env = bind(it, f, list(lazy.args), lazy.keywords, st, False, node, fr)
    oid = st.new(Obj("env", attrs=env, parent=f.env))
    owner = f.node if isinstance(f.node, ir.FunctionDef) and f.node.body is None else f.owner
    inner = Frame(f, f.module, oid, owner, f.cls, _self_of(f, env, fr, st), fr, None)
    inner.hook = step
    it.depth += 1
    try:
        outcomes = it.exec_block(body_of(it, f), inner, st)
    finally:
        it.depth -= 1
    if finish(outcomes, st) is None:
        raise Dead


def _consume_builtin(
    it: Interpreter, lazy: Lazy, fr: Frame, st: State, node: ir.Node | None, step: Callable[[Value, State], Value]
) -> None:
    from flowcheck.interp import calls, operators

    counter = st.new(Obj("list", items=[Known(0)]))

    def work(x: Value, s: State) -> None:
        if lazy.how == "map":
            step(calls.call(it, lazy.args[0], [x], {}, s, node, fr), s)
        elif lazy.how == "starmap":
            row = operators.iterate(it, x, fr, s, node)
            step(calls.call(it, lazy.args[0], row or [], {}, s, node, fr, open_=row is None), s)
        elif lazy.how == "chain":
            operators.visit(it, x, fr, s, node, step)
        elif lazy.how == "some":  # of what it goes over it gives some, as far as it goes
            if lazy.args:
                calls.call(it, lazy.args[0], [x], {}, s, node, fr)
            it.both(s, [(s.fork(), lambda s2: step(x, s2)), (s.fork(), lambda s2: NONE)])
        elif lazy.how == "enumerate":
            n = operators.element(it, Ref(counter), s)
            s.write(counter).items = [operators.binary(it, "+", n, Known(1), fr, s, node)]
            step(TupleV([n, x]), s)
        else:
            test = lazy.args[0]
            v = x if isinstance(test, Known) else calls.call(it, test, [x], {}, s, node, fr)
            t = operators.truth(it, v, s, fr)
            if t is True:
                step(x, s)
            elif t is None:
                other = s.fork()
                it.both(s, [(s.fork(), lambda s2: step(x, s2)), (other, lambda s2: NONE)])

    if lazy.how == "zip":
        _consume_zip(it, lazy, counter, fr, st, node, step)
        return
    operators.visit(it, lazy.source, fr, st, node, work)


def _consume_zip(
    it: Interpreter,
    lazy: Lazy,
    counter: int,
    fr: Frame,
    st: State,
    node: ir.Node | None,
    step: Callable[[Value, State], Value],
) -> None:
    """``zip`` of one generator and known rows: where a row ends, the generator is left."""
    from flowcheck.interp import operators
    from flowcheck.interp.engine import Dead

    place = lazy.args[0].value  # type: ignore[attr-defined]
    rows = lazy.args[1:]
    sizes = [len(r.items) if isinstance(r, TupleV) else 1 << 30 for r in rows]
    before, after = min(sizes[:place], default=1 << 30), min(sizes[place + 1 :], default=1 << 30)
    stops: list[State] = []

    def work(x: Value, s: State) -> None:
        n = operators.element(it, Ref(counter), s)
        i = n.value if isinstance(n, Known) else None
        if i is None:
            stops.append(s.fork())
        elif i >= after:
            stops.append(s.fork())
            raise Dead
        row = [
            x if k == place else r.items[i] if i is not None and isinstance(r, TupleV) else operators.element(it, r, s)
            for k, r in enumerate(rows)
        ]
        s.write(counter).items = [operators.binary(it, "+", n, Known(1), fr, s, node)]
        step(TupleV(row), s)
        if i is None or i + 1 >= before:
            stops.append(s.fork())
            if i is not None:
                raise Dead

    if not before:
        return
    try:
        operators.visit(it, lazy.source, fr, st, node, work)
    except Dead:
        if not stops:
            raise
    else:
        stops.append(st.fork())
    st.become(merge(stops).fork())


def drain(it: Interpreter, ref: Ref, fr: Frame, st: State, node: ir.Node | None) -> list[Value] | None:
    """Everything that a generator yields, in order; None when that is not one known list (see the object then)."""
    out = st.new(Obj("list", items=[]))

    def step(v: Value, state: State) -> Value:
        w = state.write(out)
        if w.items is not None and w.exact:
            w.items.append(v)
        else:
            w.open([v])
        return NONE

    consume(it, ref, fr, st, node, step)
    got = st.obj(out)
    if got.items is not None:
        return list(got.items)
    target = st.write(ref.oid)
    target.items = None
    target.elements = got.elements
    return None


def first(
    it: Interpreter, ref: Ref, fr: Frame, st: State, node: ir.Node | None, default: Value | None
) -> Value:
    """``next`` of a generator that has not started."""
    from flowcheck.interp.engine import Dead

    base = it.base
    lowest, newest = base.lowest, base.next
    base.lowest = NEVER
    scratch = st.fork()
    it.handlers.append([])
    items: list[Value] | None = None
    try:
        items = drain(it, ref, fr, scratch, node)
        if it.handlers[-1]:
            items = None
    except Dead:
        items = None
    finally:
        it.handlers.pop()
        pure = all(oid > newest or oid == ref.oid for oid in (base.lowest,))
        base.lowest = min(lowest, ref.oid)
    if items is not None and pure:
        st.become(scratch)
        rest = st.write(ref.oid)
        rest.items = items
        if items:
            return rest.items.pop(0)  # type: ignore[no-any-return]
        if default is not None:
            return default
        it.throw("StopIteration", st, node, fr)
    stops: list[State] = []
    values: list[Value] = []
    lazy = st.obj(ref.oid).tag

    def step(v: Value, state: State) -> Value:
        stops.append(state.fork())
        values.append(v)
        raise Dead

    ended: State | None = st
    try:
        consume(it, ref, fr, st, node, step)
    except Dead:
        ended = None
    it.count("generators left in the middle")
    for state in stops:
        left = state.write(ref.oid)
        left.items, left.tag = None, Rest(lazy)  # what is left of it is not known
    if ended is not None:
        if default is None:
            it.may_throw("StopIteration", ended, node, fr)
        else:
            stops.append(ended.fork())
            values.append(default)
    if not stops:
        raise Dead
    st.become(merge(stops).fork())
    result = values[0]
    for v in values[1:]:
        result = join(result, v)
    return result


_ = (UNBOUND, Ref)
