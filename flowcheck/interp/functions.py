"""Functions: making them (decorators included), binding arguments, running bodies and generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import calls, dispatch_models, managers
from flowcheck.interp.bodies import always_reaches, body_of, keeps_environment, local_names
from flowcheck.interp.frames import Dead, Frame
from flowcheck.interp.generators import Lazy, Rest, consume, drain, first, lazily, may_matter, resume
from flowcheck.interp.heap import BaseState, Obj, State, merge_with
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
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame, Outcome

__all__ = [
    "Lazy", "Rest", "always_reaches", "bind", "body_of", "consume", "drain", "finish", "first", "keeps_environment", "lazily",
    "local_names", "make_function", "make_lambda", "may_matter", "resume", "run",
]  # fmt: skip

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
    """The function that a lambda makes."""
    env = st.obj(fr.env)
    home = fr.env if env.kind != "class" else (env.parent or 0)
    return FuncV(e, fr.module, home, fr.owner, fr.cls, _defaults(it, e.params, fr, st))


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
        if (
            isinstance(value, FuncV) and value is not f
        ):  # what a decorator below made takes the class, not what it wraps
            value = FuncV(value.node, value.module, value.env, value.owner, f.cls, value.defaults, "class")
        else:
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
    if name in dispatch_models.KINDS:
        return dispatch_models.make(it, value, str(name), fr, st)
    if isinstance(dv, BuiltinV) and dv.name == dispatch_models.REGISTER:
        try:
            return calls.call(it, it.eval(d, fr, st), [value], {}, st, d, fr)
        except Dead:
            return Unknown(f"what a decorator makes of {f.qualname}")
    if name is not None and name in TRANSPARENT:
        f.memo = f.memo or name in MEMOISING
        return value
    if isinstance(dv, (FuncV, BoundV, PartialV, ClassV)):
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

    env = bind(it, f, args, keywords, st, open_, node, fr)
    if it.config.tracked and node is not None:
        from flowcheck.interp.classes import keyword_site

        for name in env.keys() & it.config.tracked:
            env[name] = it.at(env[name], keyword_site(fr, node, name), f"passed to {f.qualname}({name}=…)")
    if isinstance(f.node, ir.FunctionDef) and f.node.is_generator and hook is None:
        if f.is_context:
            return GeneratorV(f, tuple(args), dict(keywords))
        return lazily(st, Lazy(f, tuple(args), dict(keywords)))
    oid = st.new(Obj("env", attrs=env, parent=f.env))
    self_ = self_of(f, env, fr, st)
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
    values: list[Value] = []
    for kind, state, v in outcomes:
        if kind == "r":
            assert v is not None
        elif kind == "n":
            v = NONE
        else:
            continue
        states.append(state)
        values.append(v)
    if not states:
        return None
    merged, value = merge_with(states, values)
    if merged is not st:
        st.become(merged)
    return value


def self_of(f: FuncV, env: dict[str, Value], fr: Frame, st: State) -> Value | None:
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


_ = (UNBOUND, Ref)
