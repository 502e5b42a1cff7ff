"""Context managers: what entering one gives, what leaving one does, and the standard library's stack of them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING

from flowcheck.interp import calls, classes, operators, reach, statements
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj, State, merge
from flowcheck.interp.values import (
    NONE,
    BoundV,
    BuiltinV,
    FuncV,
    GeneratorV,
    Known,
    PartialV,
    Ref,
    TupleV,
    Unknown,
    Value,
    alternatives,
    union_of,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame, Raised

__all__ = [
    "METHODS",
    "STACK",
    "enter",
    "leave",
    "call_inside",
    "decorates",
    "make",
    "may_swallow",
    "method",
    "needs_leaving",
]

STACK = "exit stack"
METHODS = frozenset(
    {
        "enter_context", "enter_async_context", "push", "push_async_exit", "callback", "push_async_callback", "pop_all",
        "close", "aclose", "__enter__", "__exit__", "__aenter__", "__aexit__",
    }
)  # fmt: skip
SELVES = ("AbstractContextManager", "ContextDecorator", "AbstractAsyncContextManager", "AsyncContextDecorator")


def make(it: Interpreter, tag: str, values: list[Value], st: State, node: ir.Node | None, fr: Frame) -> Ref:
    """A manager of the standard library: "suppress", "closing", or a stack, which holds what it has to leave."""
    site = fr.site(node) if node is not None else None
    obj = Obj("manager", items=values, site=site)
    obj.tag = tag
    ref = it.alloc(st, obj, site)
    it.base.keyless.discard(ref.oid)
    return ref


def _tag(v: Value, st: State) -> str | None:
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    return obj.tag if obj is not None and obj.kind == "manager" else None


def _method(it: Interpreter, v: Value, st: State, *names: str) -> Value | None:
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    if obj is None or obj.cls is None:
        return None
    for name in names:
        found = classes.class_attr(it, obj.cls, name, st)
        if isinstance(found, FuncV):
            return BoundV(found, v)
    return None


def enter(it: Interpreter, manager: Value, node: ir.Node | None, fr: Frame, st: State) -> Value:
    """What ``manager.__enter__()`` gives. A generator is run up to its ``yield``."""

    if isinstance(manager, GeneratorV):
        return _start(it, manager, node, fr, st)
    tag = _tag(manager, st)
    if tag == STACK:
        return manager
    if tag == "closing":
        assert isinstance(manager, Ref)
        return union_of(st.obj(manager.oid).items or [Unknown("what is to be closed")])
    if tag is not None:
        return NONE
    obj = st.get(manager.oid) if isinstance(manager, Ref) else None
    if obj is not None and obj.tag == "nullcontext":
        return obj.attrs.get("value", NONE)
    if obj is not None and obj.cls is not None:
        method = _method(it, manager, st, "__enter__", "__aenter__")
        if method is not None:
            return calls.call(it, method, [], {}, st, node, fr)
        if any(e.endswith(SELVES) for c in obj.cls.mro for e in c.external):
            return manager
        if not obj.cls.opaque_base and obj.kind == "object":
            it.throw("TypeError", st, node, fr)
    elif isinstance(manager, (Known, TupleV)):
        it.throw("TypeError", st, node, fr)
    return Unknown("what a context manager gives")


def needs_leaving(it: Interpreter, manager: Value, st: State) -> bool:
    """Whether leaving the manager runs code of the tree, or may swallow an exception."""
    return _tag(manager, st) is not None or _method(it, manager, st, "__exit__", "__aexit__") is not None


def may_swallow(it: Interpreter, manager: Value, st: State) -> bool:
    """Whether the run may go on after an exception inside the manager, as far as the text of its exit says."""
    from flowcheck.interp.bodies import answers, body_of

    if _tag(manager, st) is not None:
        return _tag(manager, st) != "closing"
    method = _method(it, manager, st, "__exit__", "__aexit__")
    if method is None:
        return False
    assert isinstance(method, BoundV)
    f = method.func
    return not isinstance(f, FuncV) or bool(f.around) or answers(body_of(it, f))


def leave(
    it: Interpreter, manager: Value, raised: Raised | None, node: ir.Node | None, fr: Frame, st: State
) -> bool | None:
    """Leaves the manager, with an exception or without; whether it swallows it, None when it may."""

    tag = _tag(manager, st)
    if tag == "suppress":
        assert isinstance(manager, Ref)
        if raised is None:
            return False
        caught = [
            statements.exception_class(it, y, st) for x in st.obj(manager.oid).items or () for y in alternatives(x)
        ]
        return statements.catches(caught, raised)
    if tag == "closing":
        assert isinstance(manager, Ref)
        for x in st.obj(manager.oid).items or ():
            method = _method(it, x, st, "close", "aclose")
            if method is not None:
                calls.call(it, method, [], {}, st, node, fr)
        return False
    if tag == STACK:
        assert isinstance(manager, Ref)
        return _unwind(it, manager, raised, node, fr, st)
    if isinstance(manager, GeneratorV):
        _finish(it, manager, node, fr, st)
        return None if raised is not None else False
    method = _method(it, manager, st, "__exit__", "__aexit__")
    if method is None:
        return False
    if raised is None:
        calls.call(it, method, [NONE, NONE, NONE], {}, st, node, fr)
        return False
    error = statements.exception_of(raised, st)
    kind: Value = error
    if raised.cls is not None:
        kind = raised.cls
    elif hasattr(builtins, raised.name):
        kind = BuiltinV(raised.name)
    answer = calls.call(it, method, [kind, error, Unknown("traceback", truth=True)], {}, st, node, fr)
    t = operators.truth(it, answer, st, fr)
    if t is None and not may_swallow(it, manager, st):
        return False
    return t


# --------------------------------------------------------------------------------------------------------------- stacks
def method(
    it: Interpreter,
    stack: Ref,
    name: str,
    a: list[Value],
    kw: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
) -> Value:
    """A method of an ``ExitStack``."""
    if name in ("enter_context", "enter_async_context") and a:

        def one(x: Value, state: State) -> Value:
            given = enter(it, x, node, fr, state)
            _push(stack, TupleV([Known("leave"), x]), state)
            return given

        return operators.each(it, [(x,) for x in alternatives(a[0])], st, one)
    if name in ("callback", "push_async_callback") and a:
        _push(stack, TupleV([Known("call"), PartialV(a[0], tuple(a[1:]), dict(kw))]), st)
        return a[0]
    if name in ("push", "push_async_exit") and a:
        _push(stack, TupleV([Known("leave"), a[0]]), st)
        return a[0]
    if name == "pop_all":
        held = st.write(stack.oid)
        moved = make(it, STACK, list(held.items or []), st, node, fr)
        if held.items is None:
            st.write(moved.oid).items, st.write(moved.oid).elements = None, held.elements
        else:
            held.items = []
        return moved
    if name in ("close", "aclose", "__exit__", "__aexit__"):
        _unwind(it, stack, None, node, fr, st)
        return NONE
    if name in ("__enter__", "__aenter__"):
        return stack
    it.may_raise(st, node, fr)
    return Unknown(f"ExitStack.{name}(…)")


def _push(stack: Ref, entry: Value, st: State) -> None:
    held = st.write(stack.oid)
    if held.items is None or not held.exact:
        held.open([entry])
    else:
        held.items.append(entry)


def _unwind(
    it: Interpreter, stack: Ref, raised: Raised | None, node: ir.Node | None, fr: Frame, st: State
) -> bool | None:
    """Leaves everything on the stack, last in first out; whether the exception is swallowed on the way."""
    held = st.write(stack.oid)
    swallowed: bool | None = False
    if held.items is not None and held.exact:
        entries, held.items = list(reversed(held.items)), []
        for entry in entries:
            answer = _unwind_one(it, entry, raised, node, fr, st)
            if answer:
                raised, swallowed = None, True
            elif answer is None:
                swallowed = None
        return swallowed

    held.open(())
    options = alternatives(held.elements) if held.elements is not None else ()

    def work(state: State) -> None:
        nonlocal swallowed
        ends = [state.fork()]
        for entry in options:
            arm = state.fork()
            if _unwind_one(it, entry, raised, node, fr, arm) is not False:
                swallowed = None
            ends.append(arm)
        state.become(merge(ends).fork())

    statements.stabilise(it, st, work)
    return swallowed


def _unwind_one(
    it: Interpreter, entry: Value, raised: Raised | None, node: ir.Node | None, fr: Frame, st: State
) -> bool | None:

    if not isinstance(entry, TupleV) or len(entry.items) != 2:
        return False
    how, what = entry.items
    if how == Known("call"):
        calls.call(it, what, [], {}, st, node, fr)
        return False
    if not needs_leaving(it, what, st) and isinstance(what, (FuncV, BoundV, PartialV)):  # ``push`` takes a function too
        calls.call(it, what, [Unknown("an exception or None")] * 3, {}, st, node, fr)
        return None if raised is not None else False
    return leave(it, what, raised, node, fr, st)


# ----------------------------------------------------------------------------------------------------------- generators
def _start(it: Interpreter, manager: GeneratorV, node: ir.Node | None, fr: Frame, st: State) -> Value:
    """Runs a ``@contextmanager`` function up to its ``yield``."""

    stops: list[State] = []
    values: list[Value] = []

    def stop(v: Value, state: State) -> Value:
        stops.append(state.fork())
        values.append(v)
        raise Dead

    it.handlers.append([])
    ended: State | None = st
    try:
        calls.call(it, manager.func, list(manager.args), manager.keywords, st, node, fr, hook=stop)
    except Dead:
        ended = None
    finally:
        raised = it.handlers.pop()
    it.handlers[-1].extend(raised)
    if ended is not None:
        it.may_throw("RuntimeError", st, node, fr)
    if not stops:
        raise Dead
    st.become(merge(stops).fork())
    return union_of(values)


def _finish(it: Interpreter, manager: GeneratorV, node: ir.Node | None, fr: Frame, st: State) -> None:
    """What follows the ``yield`` may restore anything that the function writes: it is not known what."""

    def run(state: State) -> None:
        calls.call(it, manager.func, list(manager.args), manager.keywords, state, node, fr, hook=lambda v, s: NONE)

    reach.blurred(it, st, run, fr.site(node) if node is not None else None, "restored at the end of an exit stack")


def decorates(it: Interpreter, v: Value, st: State) -> bool:
    """Whether a value that is called with a function, as a decorator, gives that function run inside the manager."""
    if isinstance(v, GeneratorV):
        return v.func.is_context
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    if obj is None or obj.cls is None or classes.class_attr(it, obj.cls, "__call__", st) is not None:
        return False
    return any(e.endswith("ContextDecorator") for c in obj.cls.mro for e in c.external)


def call_inside(
    it: Interpreter,
    around: tuple[Value, ...],
    node: ir.Node | None,
    fr: Frame,
    st: State,
    work: Callable[[State], Value],
) -> Value:
    """``work`` inside some managers, the innermost first."""
    for manager in reversed(around):
        enter(it, manager, node, fr, st)
    value = work(st)
    for manager in around:
        leave(it, manager, None, node, fr, st)
    return value
