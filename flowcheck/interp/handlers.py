"""``raise``, ``try`` and ``with``: exceptions, and what runs on the way out."""

from __future__ import annotations

import builtins
import dataclasses
from typing import TYPE_CHECKING

from flowcheck.interp import calls, managers, names
from flowcheck.interp.bodies import escapes, reraises
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj, State, merge
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    BuiltinV,
    ClassV,
    ExternalV,
    FuncV,
    GeneratorV,
    Known,
    Member,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
    union_of,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame, Outcome, Raised


MOST_RAISED = 8


def raise_(it: Interpreter, s: ir.Raise, fr: Frame, st: State) -> None:
    """``raise``: each exception that it may be is on its way from here."""

    if s.exc is None:
        current = st.obj(fr.env).attrs.get("#exception", NONE)
        for x in alternatives(current):
            name, cls = exception_class(it, x, st)
            it.may_throw(name, st, s, fr, cls, x)
        raise Dead
    assert s.exc is not None
    quiet = it.effect_statement
    it.effect_statement = None
    v = it.eval(s.exc, fr, st)
    it.effect_statement = quiet
    if s.cause is not None:
        it.eval(s.cause, fr, st)
    for x in alternatives(v):
        state = st.fork()
        if isinstance(x, (ClassV, BuiltinV)):
            try:
                x = calls.call(it, x, [], {}, state, s, fr)
            except Dead:
                continue
        name, cls = exception_class(it, x, state)
        it.may_throw(name, state, s, fr, cls, x)
    raise Dead


def exception_class(it: Interpreter, v: Value, st: State) -> tuple[str, ClassV | None]:
    """The builtin name or the class of the tree of an exception, or of an exception class."""
    if isinstance(v, BuiltinV):
        return v.name, None
    if isinstance(v, ClassV):
        return v.name, v
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is not None and obj.cls is not None:
            return obj.cls.name, obj.cls
        if obj is not None and isinstance(obj.tag, str):
            return obj.tag, None
    if isinstance(v, ExternalV):
        return v.name.split(".")[-1], None
    if isinstance(v, (Known, TupleV, Member)):
        return "TypeError", None
    return "?", None


def _handler_names(it: Interpreter, h: ir.Handler, fr: Frame, st: State) -> list[tuple[str, ClassV | None]] | None:
    """What a handler catches: None for everything."""
    if h.type is None:
        return None

    try:
        v = it.eval(h.type, fr, st)
    except Dead:
        return [("?", None)]
    out: list[tuple[str, ClassV | None]] = []
    for x in alternatives(v):
        for y in x.items if isinstance(x, TupleV) else (x,):
            out.append(exception_class(it, y, st))
    return out


def catches(caught: list[tuple[str, ClassV | None]] | None, r: Raised) -> bool | None:
    """Whether a handler catches an exception; None when it may."""
    if caught is None:
        return True
    answer: bool | None = False
    for name, cls in caught:
        one = _catches_one(name, cls, r)
        if one is True:
            return True
        if one is None:
            answer = None
    return answer


def _catches_one(name: str, cls: ClassV | None, r: Raised) -> bool | None:
    if name == "BaseException":
        return True
    if r.name == "?" or name == "?":
        return None
    if r.cls is not None:
        if cls is not None:
            return cls in r.cls.mro
        bases = {e.split(".")[-1] for c in r.cls.mro for e in c.external}
        answer: bool | None = False
        for base in bases:
            one = _builtin_subclass(base, name)
            if one is True:
                return True
            if one is None:
                answer = None
        if not bases and not r.cls.opaque_base:
            return name in ("Exception", "BaseException")
        return None if r.cls.opaque_base else answer
    if cls is not None:
        return False
    return _builtin_subclass(r.name, name)


def _builtin_subclass(name: str, of: str) -> bool | None:
    a, b = getattr(builtins, name, None), getattr(builtins, of, None)
    if isinstance(a, type) and isinstance(b, type):
        return issubclass(a, b)
    if name == of:
        return True
    if of == "Exception":
        return True
    return None if a is None else False


def try_(it: Interpreter, s: ir.Try, fr: Frame, st: State) -> list[Outcome]:
    """``try``: what is raised goes to the handlers, and everything passes through ``finally``."""
    it.handlers.append([])
    leaves = escapes(s.final)
    goes_on = leaves or not all(reraises(h.body) for h in s.handlers)
    it.in_try += goes_on
    want = fr.want
    if s.final:
        fr.want = None  # what ``finally`` returns may replace what is returned here
    try:
        outcomes = it.exec_block(s.body, fr, st)
    finally:
        raised = it.handlers.pop()
        it.in_try -= goes_on
    raised = it.catchable(raised)
    done: list[Outcome] = []
    late: list[Raised] = []
    it.handlers.append(late)  # what the else block and the handlers raise passes through ``finally`` only
    it.in_try += leaves
    try:
        for outcome in outcomes:
            if outcome[0] == "n" and s.orelse:
                done.extend(it.exec_block(s.orelse, fr, outcome[1]))
            else:
                done.append(outcome)
        for h in s.handlers:
            if not raised:
                break
            caught = _handler_names(it, h, fr, st)
            taken: list[Raised] = []
            rest: list[Raised] = []
            for r in raised:
                answer = catches(caught, r)
                if answer is not False:
                    taken.append(r)
                if answer is not True:
                    rest.append(r)
            raised = rest
            if not taken:
                continue
            state = merge([r.state for r in taken]).fork()
            env = state.write(fr.env)
            value = union_of([exception_of(r, state) for r in taken])
            env.attrs["#exception"] = value
            if h.name:
                names._assign_name(it, h.name, value, fr, state, None)
            for o in it.exec_block(h.body, fr, state):
                if h.name and o[0] != "r":
                    names._assign_name(it, h.name, UNBOUND, fr, o[1], None)
                done.append(o)
    finally:
        it.handlers.pop()
        fr.want = want
        it.in_try -= leaves
    raised = raised + it.catchable(late)
    if s.final:
        return _finally(it, s.final, fr, done, raised)
    it.handlers[-1].extend(raised)
    return merge_normal(done)


def fold(raised: list[Raised]) -> list[Raised]:
    """At most a few exceptions of one kind: each runs what stands on the way out."""
    if len(raised) <= MOST_RAISED:
        return raised
    groups: dict[tuple[str, int], list[Raised]] = {}
    for r in raised:
        groups.setdefault((r.name, id(r.value) if r.name == "GeneratorExit" else id(r.cls)), []).append(r)
    out: list[Raised] = []
    for group in groups.values():
        first = group[0]
        if len(group) > 1:
            first = dataclasses.replace(
                first,
                state=merge([r.state for r in group]).fork(),
                value=union_of([r.value for r in group]),
                certain=all(r.certain for r in group),
            )
        out.append(first)
    return out


def exception_of(r: Raised, st: State) -> Value:
    """The exception object that a handler sees."""
    if r.value is not NONE and r.value != NONE and NONE not in alternatives(r.value):
        return r.value
    if r.name == "?" or r.cls is not None:
        return Unknown("an exception", truth=True, not_none=True)
    obj = Obj("exception", attrs={"args": Unknown("the arguments of an exception")})
    obj.tag = r.name
    return Ref(st.new(obj))


def merge_normal(done: list[Outcome]) -> list[Outcome]:
    """The outcomes with those that fall through as one."""
    normal = [o[1] for o in done if o[0] == "n"]
    if len(normal) < 2:
        return done
    return [*[o for o in done if o[0] != "n"], ("n", merge(normal), None)]


def _finally(
    it: Interpreter, final: tuple[ir.Stmt, ...], fr: Frame, done: list[Outcome], raised: list[Raised]
) -> list[Outcome]:
    from flowcheck.interp.frames import Raised as RaisedType

    out: list[Outcome] = []
    for kind in "nrbc":
        group = [o for o in done if o[0] == kind]
        if not group:
            continue
        state = merge([o[1] for o in group]).fork()
        values = [o[2] for o in group if o[2] is not None]
        for o in it.exec_block(final, fr, state):
            out.append((kind, o[1], union_of(values) if values else None) if o[0] == "n" else o)
    for r in fold(raised):
        for o in it.exec_block(final, fr, r.state.fork()):
            if o[0] == "n":
                it.handlers[-1].append(RaisedType(o[1], r.name, r.cls, r.value, r.site, r.certain))
            else:
                out.append(o)
    return merge_normal(out)


def with_(it: Interpreter, s: ir.With, fr: Frame, st: State) -> list[Outcome]:
    """``with``: one item after the other."""
    return _with_item(it, s, 0, fr, st)


def _with_item(it: Interpreter, s: ir.With, i: int, fr: Frame, st: State) -> list[Outcome]:
    if i == len(s.items):
        return it.exec_block(s.body, fr, st)
    item = s.items[i]
    manager = calls.evaluate_manager(it, item.value, fr, st)
    if isinstance(manager, Union):
        out: list[Outcome] = []
        for x in manager.items:
            try:
                out.extend(_with_manager(it, s, i, item, x, fr, st.fork()))
            except Dead:
                continue
        return merge_normal(out)
    return _with_manager(it, s, i, item, manager, fr, st)


def _with_manager(
    it: Interpreter,
    s: ir.With,
    i: int,
    item: ir.WithItem,
    manager: Value | tuple[FuncV, list[Value], dict[str, Value]],
    fr: Frame,
    st: State,
) -> list[Outcome]:
    if isinstance(manager, GeneratorV):
        manager = (manager.func, list(manager.args), manager.keywords)
    if isinstance(manager, tuple):
        return _with_generator(it, s, i, item, manager, fr, st)
    entered = managers.enter(it, manager, item.value, fr, st)
    if not managers.needs_leaving(it, manager, st):
        if item.target is not None:
            names.assign(it, item.target, entered, fr, st)
        return _with_item(it, s, i + 1, fr, st)
    return _with_exit(it, s, i, manager, fr, st, item.target, entered)


def _with_exit(
    it: Interpreter, s: ir.With, i: int, manager: Value, fr: Frame, st: State, target: ir.Expr | None, entered: Value
) -> list[Outcome]:
    """The body under a manager that is known: it is left on every way out, and may swallow an exception."""

    it.handlers.append([])
    swallows = managers.may_swallow(it, manager, st)
    it.in_try += swallows
    want, fr.want = fr.want, None  # a return is no end before the manager is left
    outcomes: list[Outcome] = []
    try:
        if target is not None:
            names.assign(it, target, entered, fr, st)
        outcomes = _with_item(it, s, i + 1, fr, st)
    except Dead:
        pass
    finally:
        raised = it.handlers.pop()
        it.in_try -= swallows
        fr.want = want
    done: list[Outcome] = []
    for o in outcomes:
        try:
            managers.leave(it, manager, None, s, fr, o[1])
        except Dead:
            continue
        done.append(o)
    for r in fold(it.catchable(raised)):
        state = r.state.fork()
        try:
            swallowed = managers.leave(it, manager, r, s, fr, state)
        except Dead:
            continue
        if swallowed is not False:
            done.append(("n", state.fork(), None))
        if swallowed is not True:
            r.state = state
            it.handlers[-1].append(r)
    return merge_normal(done)


def _with_generator(
    it: Interpreter,
    s: ir.With,
    i: int,
    item: ir.WithItem,
    manager: tuple[FuncV, list[Value], dict[str, Value]],
    fr: Frame,
    st: State,
) -> list[Outcome]:
    """``@contextmanager``: the body runs inside the ``yield``."""

    how = st.new(Obj("with", attrs={"how": Known("unused"), "value": NONE}))

    def body(yielded: Value, state: State) -> Value:
        state.write(how).attrs["how"] = Known("raised")
        if item.target is not None:
            names.assign(it, item.target, yielded, fr, state)
        want, fr.want = fr.want, None
        try:
            outcomes = _with_item(it, s, i + 1, fr, state)
        finally:
            fr.want = want
        if not outcomes:
            raise Dead
        for kind, ended, value in outcomes:
            ended.write(how).attrs.update(how=Known(kind), value=value if value is not None else NONE)
        merged = merge([o[1] for o in outcomes])
        if merged is not state:
            state.become(merged)
        return NONE

    func, args, keywords = manager
    calls.call(it, func, args, keywords, st, item.value, fr, hook=body)
    out: list[Outcome] = []
    left = st.obj(how).attrs
    for x in alternatives(left["how"]):
        kind = x.value if isinstance(x, Known) else "n"
        if kind == "unused":
            it.may_throw("RuntimeError", st, s, fr)
        else:  # "raised": the function has swallowed it
            out.append(("n" if kind == "raised" else kind, st.fork(), left["value"] if kind == "r" else None))
    return out
