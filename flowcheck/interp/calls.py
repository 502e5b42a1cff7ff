"""Calls: arguments, dispatch on what is called, and what happens to calls that are not entered."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from flowcheck.interp import (
    builtin_models,
    changes,
    classes,
    dispatch_models,
    external_models,
    functions,
    handover,
    managers,
    observed,
    operators,
    reach,
    views,
)
from flowcheck.interp.frames import CallCut, CallEvent, Dead
from flowcheck.interp.heap import BaseState, Obj, State, merge
from flowcheck.interp.made import any_made, telling
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
    SuperV,
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

Hook = Callable[[Value, State], Value]


def arguments(it: Interpreter, e: ir.Call, fr: Frame, st: State) -> tuple[list[Value], dict[str, Value], bool]:
    """Positional and keyword arguments, and whether there may be more of them."""
    args: list[Value] = []
    keywords: dict[str, Value] = {}
    open_ = False
    for a in e.args:
        v = it.eval(a.value, fr, st)
        if a.star == "*":
            items = operators.iterate(it, v, fr, st, a)
            if items is None:
                open_ = True
            else:
                args += items
        elif a.star == "**":
            if views.is_view(v):
                v = views.contents(it, v, st)
            obj = st.get(v.oid) if isinstance(v, Ref) else None
            if obj is not None and obj.kind == "dict" and obj.items is not None:
                for k, x in obj.items.values():
                    if isinstance(k, Known) and isinstance(k.value, str):
                        keywords[k.value] = x
                    else:
                        open_ = True
            else:
                open_ = True
        elif a.keyword is not None:
            keywords[a.keyword] = v
        else:
            args.append(v)
    return args, keywords, open_


def evaluate(it: Interpreter, e: ir.Call, fr: Frame, st: State) -> Value:
    """A call expression."""
    quiet = it.effect_statement
    if quiet is not e:
        it.effect_statement = None
    try:
        f = _callee(it, e, fr, st)
        if isinstance(f, SuperV):
            return f
        inner, it.effect_statement = it.effect_statement, None
        args, keywords, open_ = arguments(it, e, fr, st)
        it.effect_statement = inner
        if it.intercept is not None and it.intercept[0] is e:
            it.intercept[1](args, keywords, open_)
            return NONE
        result = call(it, f, args, keywords, st, e, fr, open_=open_)
        changes.by_call(it, e, f, fr, st)
        return result
    finally:
        it.effect_statement = quiet


def _callee(it: Interpreter, e: ir.Call, fr: Frame, st: State) -> Value:
    if isinstance(e.func, ir.Name) and e.func.id == "super" and not e.args:
        if fr.cls is not None and fr.self_ is not None:
            return SuperV(fr.cls, fr.self_)
        return Unknown("super()")
    before, it.effect_statement = it.effect_statement, None
    try:
        return it.eval(e.func, fr, st)
    finally:
        it.effect_statement = before


def evaluate_manager(
    it: Interpreter, e: ir.Expr, fr: Frame, st: State
) -> Value | tuple[FuncV, list[Value], dict[str, Value]]:
    """The value of a with-item; a call of a ``@contextmanager`` function is returned unstarted."""
    if isinstance(e, ir.Call):
        f = _callee(it, e, fr, st)
        if isinstance(f, SuperV):
            return f
        args, keywords, open_ = arguments(it, e, fr, st)
        func, prefix = (f.func, [f.self_]) if isinstance(f, BoundV) else (f, [])
        if isinstance(func, FuncV) and func.is_context and not open_ and not _override(it, func):
            observed.called(it, func, e, fr)
            return func, [*prefix, *args], keywords
        return call(it, f, args, keywords, st, e, fr, open_=open_)
    v = it.eval(e, fr, st)
    if isinstance(v, GeneratorV) and v.func.is_context:
        return v.func, list(v.args), v.keywords
    return v


def _override(it: Interpreter, f: FuncV) -> Value | None:
    table = it.config.functions
    return (table.get(f.qualname) or table.get(f.name)) if table else None


def call(
    it: Interpreter,
    f: Value,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool = False,
    hook: Hook | None = None,
    attribute: bool = False,
    followed: bool = False,
) -> Value:
    """Calls any value. ``attribute``: the call comes from reading a property, so its value is wanted. ``followed``: a
    function matters whatever its text says, as one that sets what is tracked."""
    if isinstance(f, BoundV):
        return call(it, f.func, [f.self_, *args], keywords, st, node, fr, open_, hook, attribute, followed)
    if isinstance(f, FuncV):
        return call_function(it, f, args, keywords, st, node, fr, open_, hook, followed)
    if isinstance(f, Union):
        return _call_union(it, f, args, keywords, st, node, fr, open_, hook)
    if isinstance(f, ClassV):
        return classes.construct(it, f, args, keywords, st, node, fr, open_)
    if isinstance(f, PartialV):
        return call(it, f.func, [*f.args, *args], {**f.keywords, **keywords}, st, node, fr, open_, hook)
    if isinstance(f, BuiltinV):
        if f.name == "super.__call__" and isinstance(f.self_, ClassV):
            return classes.make(it, f.self_, args, keywords, st, node, fr, open_)
        if f.name == "t.type.__call__" and args and isinstance(args[0], ClassV):
            return classes.make(it, args[0], args[1:], keywords, st, node, fr, open_)
        if f.name == classes.RECORD_INIT and len(args) > 1 and isinstance(args[0], ClassV) and isinstance(args[1], Ref):
            classes.initialise(it, args[0], args[1], args[2:], keywords, st, node, fr, open_)
            return NONE
        if open_:
            _open_builtin(it, f, args, st, node, fr)
            return unknown_call(it, f, args, keywords, st, node, fr, f.name)
        return builtin_models.call(it, f, args, keywords, st, node, fr)
    if isinstance(f, ExternalV):
        return external_models.call(it, f, args, keywords, st, node, fr, open_)
    if isinstance(f, Ref):
        obj = st.get(f.oid)
        if obj is not None and obj.cls is not None:
            for name in ("__call__", "forward"):
                method = obj.attrs.get(name) if name == "forward" else None
                if method is None:
                    method = classes.class_attr(it, obj.cls, name, st)
                elif it.config.tensors is not None:  # a module whose forward is set on the instance
                    return call(it, method, args, keywords, st, node, fr, open_, hook)
                if isinstance(method, FuncV) and (name == "__call__" or _is_module(it, obj.cls)):
                    return call(it, BoundV(method, f), args, keywords, st, node, fr, open_, hook)
            if not obj.cls.opaque_base:
                it.throw("TypeError", st, node, fr)
            return unknown_call(it, f, args, keywords, st, node, fr, f"an instance of {obj.cls.name}")
        if obj is not None and obj.kind in ("list", "dict", "set"):
            it.throw("TypeError", st, node, fr)
        if obj is not None and obj.kind == dispatch_models.KIND:
            return dispatch_models.call(it, f, args, keywords, st, node, fr, open_)
        if obj is not None and obj.kind == "torch module" and it.config.tensors is not None:
            return it.config.tensors.called(it, f, obj, args, keywords, st, node, fr)
    if isinstance(f, (Known, TupleV)):
        it.throw("TypeError", st, node, fr)
    return unknown_call(it, f, args, keywords, st, node, fr, f.reason if isinstance(f, Unknown) else repr(f))


def _is_module(it: Interpreter, c: ClassV) -> bool:
    return c.opaque_base or (it.config.tensors is not None and it.config.tensors.is_module(c))


def _open_builtin(it: Interpreter, f: BuiltinV, args: list[Value], st: State, node: ir.Node | None, fr: Frame) -> None:
    """A builtin, or a method of one, is given arguments that are not known: what it may do to the objects is not either."""
    if f.self_ is not None:
        if views.is_view(f.self_):
            views.put(it, f.self_, Unknown("a key"), Unknown("a value of an unknown mapping"), fr, st, node)
        forget_container(it, f.self_, st)
    if f.name in ("setattr", "delattr", "exec", "eval") or f.name.endswith("attr__"):
        site = fr.site(node) if node is not None else None
        owner = [f.self_] if f.self_ is not None else []
        reach.forget_tracked(it, [*owner, *args], st, site, f.name, 1)


def _call_union(
    it: Interpreter,
    f: Union,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
    hook: Hook | None,
) -> Value:
    targets: list[Value] = []
    for x in f.items:
        if isinstance(x, (Known, TupleV)) or x is UNBOUND:
            it.may_throw("TypeError", st, node, fr)
        else:
            targets.append(x)
    if not targets:
        raise Dead
    if len(targets) == 1:
        return call(it, targets[0], args, keywords, st, node, fr, open_, hook)

    def arm(x: Value) -> Callable[[State], Value]:
        def run(s: State) -> Value:
            v = call(it, x, list(args), dict(keywords), s, node, fr, open_, hook)
            if node is not None and not it.quiet and isinstance(x, BoundV):
                _note_answer(it, node, fr, x.self_, _plain_truth(v))
            return v

        return run

    return it.both(st, [(st.fork(), arm(x)) for x in targets])


def _plain_truth(v: Value) -> bool | None:
    truths = {bool(x.value) if isinstance(x, Known) else None for x in alternatives(v)}
    return truths.pop() if len(truths) == 1 else None


def _note_answer(it: Interpreter, node: ir.Node, fr: Frame, receiver: Value, truth: bool | None) -> None:
    """What a call said for one object that its receiver may be; what it says differently in one activation is unknown."""
    said = it.answers.setdefault((id(node), fr.env), {})
    said[receiver] = truth if said.get(receiver, truth) == truth else None


def call_function(
    it: Interpreter,
    f: FuncV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool = False,
    hook: Hook | None = None,
    followed: bool = False,
) -> Value:
    """Calls a function of the tree: entered, replaced by the config, or left out when it cannot matter."""
    observed.called(it, f, node, fr)
    if it.config.on_call is not None and not it.quiet:
        given = it.config.on_call(it, f, args, keywords, st, fr.site(node) if node is not None else None, fr)
        if given is not None:
            return given
    fixed = _override(it, f)
    if fixed is not None:
        return fixed
    if it.config.tensors is not None and not isinstance(st, BaseState):
        made = it.config.tensors.function(it, f, args, keywords, st, node, fr)
        if made is not None:
            return made
    if f.around:
        bare = FuncV(f.node, f.module, f.env, f.owner, f.cls, f.defaults, f.kind)
        return managers.call_inside(
            it,
            f.around,
            node,
            fr,
            st,
            lambda s: call_function(it, bare, args, keywords, s, node, fr, open_, hook, followed),
        )
    states = it.config.apart(f, args, st, fr) if it.config.apart is not None and not isinstance(st, BaseState) else ()
    if states:
        effect = it.effect_statement

        def arm(name: Hashable) -> Callable[[State], Value]:
            def run(s: State) -> Value:
                it.effect_statement = effect
                it.arms.append(name)
                try:
                    return call_function(it, f, list(args), dict(keywords), s, node, fr, open_, hook)
                finally:
                    it.arms.pop()

            return run

        return it.both(st, [(s, arm(name)) for s, name in states])
    want: bool | None = None
    if it.wanted is not None and it.wanted[0] is node:
        want = it.wanted[1]
        it.wanted = None
    in_base = it.in_base > 0 or isinstance(st, BaseState)
    relevant = it.config.relevant
    # What the top level of a module calls is part of what the module is: nothing there is left out.
    importing = isinstance(st, BaseState) or (in_base and not it.lazy_depth)
    matters = importing or followed or hook is not None or relevant is None or relevant(f)
    if not matters and it.config.dynamic(f):
        matters = any(_carries_tracked(it, v, st) for v in [*args, *keywords.values()])
    if not matters and not isinstance(st, BaseState):
        matters = any(handover.callables(it, v, st) for v in [*args, *keywords.values()])
    filled = [] if matters or in_base else telling(it, [*args, *keywords.values()], st)
    changed = not matters and not in_base and it.config.fills(f) and any_made(it, [*args, *keywords.values()], st)
    if not matters and not filled and not changed and node is not None and node is it.effect_statement:
        it.count("skipped calls")
        skipped(it, f, st, node, fr)
        return Unknown(f"{f.qualname} is left out")
    depth = 0
    for frame in fr.chain():
        if frame.func is not None and frame.func.node is f.node:
            depth += 1
    counts = depth >= it.config.recursion and _counts(it, f, args, keywords, st, fr)
    if (depth >= it.config.recursion and not counts) or it.depth >= it.config.max_depth:
        it.cuts[f.qualname] = it.cuts.get(f.qualname, 0) + 1
        if matters and not isinstance(st, BaseState):
            site = fr.site(node) if node is not None else None
            reach.forget_tracked(it, [f, *args, *keywords.values()], st, site, f"{f.qualname} recurses")
        it.count("recursions cut")
        if (
            fr.func is not None
            and fr.func.node is f.node
            and node is not None
            and functions.always_reaches(it, f, node)
        ):
            it.throw("?", st, node, fr, certain=False)  # it never returns, but may raise before it comes here again
        return unknown_call(it, f, args, keywords, st, node, fr, f"{f.qualname}, which recurses")
    body: tuple[ir.Stmt, ...] | None = None
    if (
        (not in_base or it.eager_depth)
        and not followed
        and it.config.sliced is not None
        and isinstance(f.node, ir.FunctionDef)
        and not f.node.is_generator
    ):
        body = it.config.sliced(f, node is it.effect_statement and node is not None)
    before, it.effect_statement = it.effect_statement, None
    discarded = node is not None and node is before
    known = _skeleton_call(it, f, args, keywords, st, open_, hook, want)
    if known is not None and known in it.skeleton_calls:
        result = it.skeleton_calls[known]
        if all(not isinstance(x, Ref) or st.get(x.oid) is not None for x in alternatives(result)):
            it.effect_statement = before
            return result
    start = it.steps
    try:
        if matters:
            result = functions.run(it, f, args, keywords, st, node, fr, open_, hook, want, body, discarded)
        else:
            result = _bounded(it, f, args, keywords, st, node, fr, open_, want, None if filled or changed else body)
            if id(f.node) in it.opaque:
                for v in filled:
                    forget_container(it, v, st)
    finally:
        it.effect_statement = before
    if it.config.on_return is not None and not it.quiet:
        it.config.on_return(it, f, args, result, st, fr)
    if known is not None and it.steps - start > it.config.worth_keeping:
        it.skeleton_calls[known] = result
    return result


MOST_COUNTED = 200
"""Calls in which a recursion goes deeper than others because it counts, in one run: a tree of them has no end."""


def _counts(it: Interpreter, f: FuncV, args: list[Value], keywords: dict[str, Value], st: State, fr: Frame) -> bool:
    """Whether a recursion is one that counts: it is given a number that no activation of it was given."""
    if it.counts.get("counted recursions", 0) >= MOST_COUNTED:
        return False
    given = dict(zip((p.name for p in f.node.params.items), args, strict=False)) | keywords
    active = [
        o for x in fr.chain() if x.func is not None and x.func.node is f.node and (o := st.get(x.env)) is not None
    ]
    for name, v in given.items():
        if isinstance(v, Known) and type(v.value) is int:
            held = [o.attrs.get(name) for o in active]
            if all(isinstance(h, Known) and type(h.value) is int for h in held) and v not in held:
                it.count("counted recursions")
                return True
    return False


def _skeleton_call(
    it: Interpreter,
    f: FuncV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    open_: bool,
    hook: Hook | None,
    want: bool | None,
) -> tuple[object, ...] | None:
    """What identifies a call made for a skeleton's attributes, which are all evaluated at the same time: None elsewhere.

    Several attributes of one object often come from one call; it is made once, and they share what it returns.
    """
    if not it.lazy_depth or isinstance(st, BaseState) or open_ or hook is not None or want is not None or it.quiet:
        return None
    for v in [*args, *keywords.values()]:
        if any(isinstance(x, Ref) and x.oid not in it.base.objects for x in alternatives(v)):
            return None
    return (id(f.node), f.env, tuple(args), tuple(sorted(keywords.items(), key=lambda item: item[0])), *it.arms)


def _bounded(
    it: Interpreter,
    f: FuncV,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    open_: bool,
    want: bool | None,
    body: tuple[ir.Stmt, ...] | None,
) -> Value:
    """A call whose value is used, but which cannot touch what is tracked: entered within a budget, else unknown."""

    if id(f.node) in it.opaque:
        return skipped(it, f, st, node, fr)
    snapshot = st.fork()
    handlers = (len(it.handlers), len(it.handlers[-1]))
    depth, in_try, loops = it.depth, it.in_try, it.loop_sites
    carries = any(_carries_tracked(it, v, st) for v in [*args, *keywords.values()])
    limit = it.steps + it.config.call_budget * (20 if carries else 5 if it.in_base else 1)
    mine = not it.budgets or limit < it.budgets[-1]
    level = len(it.budgets)
    it.budgets.append(limit if mine else it.budgets[-1])
    try:
        return functions.run(it, f, args, keywords, st, node, fr, open_, None, want, body)
    except CallCut:
        if not mine:
            raise
        st.become(snapshot)
        del it.handlers[handlers[0] :]
        del it.handlers[-1][handlers[1] :]
        it.depth, it.in_try, it.loop_sites = depth, in_try, loops
        it.opaque.add(id(f.node))
        it.count("opaque functions")
        return skipped(it, f, st, node, fr)
    finally:
        del it.budgets[level:]


def _carries_tracked(it: Interpreter, v: Value, st: State) -> bool:
    """Whether a value is an object with a tracked attribute: what a call makes of it is worth more."""
    for x in alternatives(v):
        if isinstance(x, Ref):
            obj = st.get(x.oid)
            if obj is not None and obj.cls is not None and not it.config.tracked.isdisjoint(obj.attrs):
                return True
    return False


def skipped(it: Interpreter, f: FuncV, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """A call that is not entered. It stores no tracked attribute; what else it may change is forgotten."""
    it.count("opaque calls")
    it.may_raise(st, node, fr)
    return Unknown(f"{f.qualname}(…)")


def unknown_call(
    it: Interpreter,
    f: Value,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
    why: str,
) -> Value:
    """A call of something that the interpreter cannot enter."""

    it.count("unknown calls")
    name = why.rsplit(".", 1)[-1]
    if isinstance(node, ir.Call):
        if isinstance(node.func, ir.Attribute):
            name = node.func.attr
        elif isinstance(node.func, ir.Name):
            name = node.func.id
    if isinstance(f, Unknown) and name in it.config.functions:
        return it.config.functions[name]
    it.may_raise(st, node, fr)
    if it.config.observer is not None and not it.quiet:
        result = it.config.observer(it, CallEvent(f, name, args, keywords, st, node, fr))
        if result is not None:
            return result
    if not isinstance(f, ExternalV):
        for v in [*args, *keywords.values()]:
            forget_container(it, v, st)
    if args or keywords:
        handover.may_call(it, args, keywords, st, node, fr)
        if (
            isinstance(f, Unknown)
            and of_bag(f.key)
            and any(_carries_tracked(it, v, st) for v in [*args, *keywords.values()])
        ):
            handover.by_name(it, name, args, keywords, st, node, fr)
    key = None
    if isinstance(f, Unknown) and f.key is not None and not args and not keywords:
        key = ("call", f.key)
    return Unknown(f"{why}(…)"[-120:], key)


def of_bag(key: object) -> bool:
    """Whether a key is that of a bag of configuration, or of a part of one."""
    while isinstance(key, tuple) and key and key[0] == "attr":
        key = key[1]
    return isinstance(key, tuple) and bool(key) and key[0] == "bag"


def forget_container(it: Interpreter, v: Value, st: State) -> None:
    """A list, dict or set that unknown code was given may hold anything afterwards."""
    for x in alternatives(v):
        if isinstance(x, Ref):
            obj = st.get(x.oid)
            if obj is not None and obj.cls is None and obj.kind in ("list", "dict", "set", "queue"):
                obj = st.write(x.oid)
                obj.items = None
                obj.elements = None
                obj.attrs.clear()


def external_attr(it: Interpreter, b: ExternalV, name: str) -> Value:
    """An attribute of something outside the tree: named, never looked into."""
    dotted = f"{b.name}.{name}"
    fixed = it.config.externals.get(dotted)
    if fixed is not None:
        return fixed
    if dotted in ("typing.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING"):
        return Known(False)
    if dotted == "builtins.object":
        return BuiltinV("object")
    return ExternalV(dotted)


_ = (Obj, merge, join)
