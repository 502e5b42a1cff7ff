"""Loops: rounds while they are known one by one, a fixed point after that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flowcheck.interp import calls, classes, functions, names, operators, refine
from flowcheck.interp.bodies import escapes
from flowcheck.interp.frames import Dead, Raised
from flowcheck.interp.handlers import merge_normal
from flowcheck.interp.heap import Obj, State, merge
from flowcheck.interp.recency import Rounds, changed
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    BoundV,
    FuncV,
    Known,
    Ref,
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
    from flowcheck.interp.frames import Frame, Outcome


MAX_LOOP_ROUNDS = 40

MOST_SOURCES = 6
"""A loop over one of more iterables than this is not run once for each."""


def while_(it: Interpreter, s: ir.While, fr: Frame, st: State) -> list[Outcome]:
    """Runs rounds while the condition is decided; once it is not, iterates to a fixed point."""

    done: list[Outcome] = []
    breaks: list[State] = []
    current: State | None = st
    for _ in range(it.config.max_unroll):
        assert current is not None
        before = current.fork()
        try:
            t = operators.truth(it, it.eval(s.test, fr, current), current, fr)
        except Dead:
            current = None
            break
        if t is None:
            current = before  # the loop evaluates the test again
            break
        if t is False:
            return _after_loop(it, s.orelse, fr, current, breaks, done)
        normal = _round(it, s.body, fr, current, breaks, done)
        if normal is None:
            current = None
            break
        current = normal
    if current is None:
        return _after_loop(it, (), fr, None, breaks, done)

    def enter(state: State) -> tuple[State | None, State | None]:
        body = state.fork()
        try:
            v, t, pure = refine.decide(it, s.test, fr, body)
        except Dead:
            return None, None
        leave: State | None = None
        if t is not True:
            leave = body.fork()
            try:
                if pure:
                    refine.assume(it, s.test, False, fr, leave)
                operators.learn(it, v, False, leave)
            except Dead:
                leave = None
        if t is False:
            return None, leave
        try:
            if pure:
                refine.assume(it, s.test, True, fr, body)
            operators.learn(it, v, True, body)
        except Dead:
            return None, leave
        return body, leave

    return _fixpoint(it, s.body, s.orelse, fr, current, enter, breaks, done)


def _round(
    it: Interpreter, body: tuple[ir.Stmt, ...], fr: Frame, st: State, breaks: list[State], done: list[Outcome]
) -> State | None:
    """One pass through a loop's body; the state at its end, or None when it never gets there."""
    normal: list[State] = []
    for outcome in it.exec_block(body, fr, st):
        if outcome[0] in "nc":
            normal.append(outcome[1])
        elif outcome[0] == "b":
            breaks.append(outcome[1])
        else:
            done.append(outcome)
    return merge(normal) if normal else None


def _after_loop(
    it: Interpreter,
    orelse: tuple[ir.Stmt, ...],
    fr: Frame,
    end: State | None,
    breaks: list[State],
    done: list[Outcome],
) -> list[Outcome]:
    normal: list[State] = []
    if end is not None:
        for outcome in it.exec_block(orelse, fr, end):
            if outcome[0] == "n":
                normal.append(outcome[1])
            else:
                done.append(outcome)
    normal += breaks
    if normal:
        done.append(("n", merge(normal), None))
    return done


def _fixpoint(
    it: Interpreter,
    body: tuple[ir.Stmt, ...],
    orelse: tuple[ir.Stmt, ...],
    fr: Frame,
    st: State,
    enter: Callable[[State], tuple[State | None, State | None]],
    breaks: list[State],
    done: list[Outcome],
) -> list[Outcome]:
    """A loop that runs any number of rounds. Objects that earlier rounds made are one object per site."""
    it.count("loops")
    rounds = Rounds(it)
    pushed = it.loop_sites
    it.loop_sites = [*pushed, rounds]
    exits: list[State] = []
    head = st.fork()
    newest = it.base.next
    try:
        for round_ in range(MAX_LOOP_ROUNDS):
            rounds.begin(it)
            inside, leave = enter(head)
            if leave is not None:
                exits.append(leave)
            if inside is None:
                break
            left: list[State] = []
            given: list[Outcome] = []
            end = _round(it, body, fr, inside, left, given)
            rounds.leave(it, head, left, given)
            breaks += left
            done += given
            if end is None:
                break
            rounds.end(it, head, end)
            merged = _either_round(head, end)
            if _settled(it, head, merged, newest, rounds, round_):
                break
            widen(head, merged, everything=round_ >= 2)
            head = merged
        else:
            it.count("loops without a fixed point")
            it.may_raise(head, None, None)
    finally:
        it.loop_sites = pushed
    return _after_loop(it, orelse, fr, merge(exits) if exits else None, breaks, done)


def _either_round(head: State, end: State) -> State:
    """The state at the head of this round or of the next one.

    What rounds make of a tensor is joined, not kept apart as a choice: each round would be a choice of its own, over those
    of all rounds before it, and the loop would never settle.
    """
    base = head.base
    unify, base.unify = base.unify, None
    try:
        return merge([head.fork(), end])
    finally:
        base.unify = unify


def stabilise(it: Interpreter, st: State, step: Callable[[State], None]) -> None:
    """Makes ``st`` stand for any number of rounds of ``step``, none included; a round that raises Dead does not end."""

    it.count("loops")
    rounds = Rounds(it)
    pushed = it.loop_sites
    it.loop_sites = [*pushed, rounds]
    head = st.fork()
    newest = it.base.next
    try:
        for round_ in range(MAX_LOOP_ROUNDS):
            rounds.begin(it)
            inside = head.fork()
            try:
                step(inside)
            except Dead:
                break
            rounds.end(it, head, inside)
            merged = _either_round(head, inside)
            if _settled(it, head, merged, newest, rounds, round_):
                break
            widen(head, merged, everything=round_ >= 2)
            head = merged
    finally:
        it.loop_sites = pushed
    st.become(head)


def _settled(it: Interpreter, head: State, merged: State, newest: int, rounds: Rounds, round_: int) -> bool:
    """Whether a loop has reached its fixed point; one that makes ever more objects ends with some of them unnamed."""
    if round_ < MAX_LOOP_ROUNDS // 2:
        return covers(head, merged, newest, set(rounds.lasting.values()))
    if not covers(head, merged, -1, set()):
        return False
    it.count("loops that lose objects")
    return True


def covers(head: State, merged: State, newest: int, lasting: set[int]) -> bool:
    """Whether ``head`` already stands for everything that ``merged`` does (``merged`` is above ``head``).

    Objects above ``newest`` were made inside the loop; those that are not ``lasting`` belong to one round, and nothing
    in ``head`` names them but as unknown.
    """

    def within(a: Value, b: Value) -> bool:
        if a is b or a == b:
            return True
        mine = alternatives(a)
        anything = any(isinstance(x, Unknown) and x.key is None and x.truth is None and not x.not_none for x in mine)
        return all(y in mine or (anything and y is not UNBOUND and passing(y)) for y in alternatives(b))

    def passing(y: Value) -> bool:
        if isinstance(y, Ref):
            return y.oid > newest and y.oid not in lasting
        return all(map(passing, y.items)) if isinstance(y, TupleV) else True

    for oid in changed(head, merged):
        a, b = head.get(oid), merged.get(oid)
        if a is None or b is None:
            continue  # made in this round: what was there before does not lead to it, or its value differs too
        if a.exact != b.exact:
            return False
        if any(not within(a.attrs.get(name, UNBOUND), v) for name, v in b.attrs.items() if name[0] != "@") or any(
            name not in b.attrs and name[0] != "@" for name in a.attrs
        ):
            return False
        if a.items is None:
            if a.elements is not None and (b.elements is None or not within(a.elements, b.elements)):
                return False
        elif a.items != b.items:
            return False
        if a.tag is not b.tag and a.tag != b.tag:
            return False
    return True


def _counts(v: Value) -> bool:
    """Whether a value that changes between rounds is one that goes on changing: numbers, strings, what is unknown."""
    return all(
        isinstance(x, Unknown) or (isinstance(x, Known) and x.value is not None and not isinstance(x.value, bool))
        for x in alternatives(v)
    )


def widen(head: State, merged: State, everything: bool = True) -> None:
    """Makes what still changes in ``merged`` unknown, so that the rounds come to an end. Objects stay named.

    Without ``everything`` only counters and the like, and containers that grow: flags and members settle by themselves.
    """
    for oid in changed(head, merged):
        a, b = head.get(oid), merged.get(oid)
        if a is None or b is None:
            continue
        if a.attrs != b.attrs or a.items != b.items or a.elements != b.elements:
            w = merged.write(oid)
            for name in list(w.attrs):
                if name[0] == "@":
                    del w.attrs[name]
                elif w.attrs.get(name) != a.attrs.get(name) and (everything or _counts(w.attrs[name])):
                    w.attrs[name] = join(w.attrs[name], Unknown("changes in a loop"))
            if w.items != a.items:
                w.open(())
            grows = w.items is None and (w.elements != a.elements or a.items is not None)
            if grows and w.elements is not None and (everything or _counts(w.elements)):
                w.elements = join(w.elements, Unknown("changes in a loop"))


def for_(it: Interpreter, s: ir.For, fr: Frame, st: State) -> list[Outcome]:
    """``for``, over each of the iterables that there may be."""

    source = it.eval(s.iter, fr, st)
    options = alternatives(source)
    if len(options) == 1 or len(options) > MOST_SOURCES:
        return _loop_over(it, s, source, fr, st)
    out: list[Outcome] = []
    for x in options:
        try:
            out.extend(_loop_over(it, s, x, fr, st.fork()))
        except Dead:
            continue
    return merge_normal(out)


def _loop_over(it: Interpreter, s: ir.For, source: Value, fr: Frame, st: State) -> list[Outcome]:

    done: list[Outcome] = []
    breaks: list[State] = []
    obj = st.get(source.oid) if isinstance(source, Ref) else None
    if obj is not None and obj.kind == "iterator" and isinstance(obj.tag, functions.Lazy):
        assert isinstance(source, Ref)
        return _loop_lazily(it, s, source, fr, st)
    if obj is not None and obj.cls is None and obj.kind in ("list", "iterator") and obj.items is not None and obj.exact:
        assert isinstance(source, Ref)
        return _loop_live(it, s, source, fr, st)
    if obj is not None and obj.cls is not None and obj.kind == "object":
        assert isinstance(source, Ref)
        method = classes.class_attr(it, obj.cls, "__iter__", st)
        if isinstance(method, FuncV):
            given = calls.call(it, BoundV(method, source), [], {}, st, s, fr)
            target = st.get(given.oid) if isinstance(given, Ref) else None
            if isinstance(given, Ref) and target is not None and target.cls is not None:
                return _loop_next(it, s, given, fr, st)
            if not isinstance(given, Union):
                return _loop_over(it, s, given, fr, st)
            source = given
    items = operators.iterate(it, source, fr, st, s)
    if items is not None and len(items) <= it.most_turns:
        size = len(items)
        current: State | None = st
        for x in items:
            assert current is not None
            try:
                _same_size(it, source, size, current, s, fr)
                names.assign(it, s.target, x, fr, current)
            except Dead:
                current = None
                break
            current = _round(it, s.body, fr, current, breaks, done)
            if current is None:
                break
        if current is not None:
            try:
                _same_size(it, source, size, current, s, fr)
            except Dead:
                current = None
        return _after_loop(it, s.orelse, fr, current, breaks, done)
    return _loop_unknown(it, s, source, fr, st, breaks, done)


def _same_size(it: Interpreter, source: Value, size: int, st: State, s: ir.For, fr: Frame) -> None:
    """A dict or set that changes its size while it is looped over raises."""
    obj = st.get(source.oid) if isinstance(source, Ref) else None
    if obj is not None and obj.kind in ("dict", "set"):
        if obj.items is None:
            it.may_throw("RuntimeError", st, s, fr, certain=False)
        elif len(obj.items) != size:
            it.throw("RuntimeError", st, s, fr)


def _loop_unknown(
    it: Interpreter, s: ir.For, source: Value, fr: Frame, st: State, breaks: list[State], done: list[Outcome]
) -> list[Outcome]:

    start: dict[int, Obj | None] = {}
    for x in alternatives(source):
        if isinstance(x, Ref):
            obj = st.get(x.oid)
            if obj is not None and obj.kind == "iterator" and obj.items is not None:
                st.write(x.oid).open(())
            if obj is not None and obj.cls is None and obj.kind in ("dict", "set"):
                start[x.oid] = obj

    def enter(state: State) -> tuple[State | None, State | None]:
        for oid, obj in start.items():
            if state.get(oid) is not obj:
                it.may_throw("RuntimeError", state, s, fr, certain=False)
        body = state.fork()
        try:
            names.assign(it, s.target, operators.element(it, source, body), fr, body)
        except Dead:
            return None, state
        return body, state.fork()

    return _fixpoint(it, s.body, s.orelse, fr, st, enter, breaks, done)


def _loop_live(it: Interpreter, s: ir.For, source: Ref, fr: Frame, st: State) -> list[Outcome]:
    """A list or iterator that the body may change while it is looped over."""

    done: list[Outcome] = []
    breaks: list[State] = []
    current: State | None = st
    most = it.most_turns
    if len(st.obj(source.oid).items or ()) > most:
        return _loop_unknown(it, s, source, fr, st, breaks, done)
    for i in range(most + 1):
        assert current is not None
        obj = current.obj(source.oid)
        if obj.items is None or i == most or not obj.exact:
            return _loop_unknown(it, s, source, fr, current, breaks, done)
        if obj.kind == "iterator":
            if not obj.items:
                break
            x = current.write(source.oid).items.pop(0)
        else:
            if i >= len(obj.items):
                break
            x = obj.items[i]
        try:
            names.assign(it, s.target, x, fr, current)
        except Dead:
            current = None
            break
        current = _round(it, s.body, fr, current, breaks, done)
        if current is None:
            break
    return _after_loop(it, s.orelse, fr, current, breaks, done)


def _loop_next(it: Interpreter, s: ir.For, source: Ref, fr: Frame, st: State) -> list[Outcome]:
    """An object that is an iterator itself: its ``__next__`` runs before each round."""

    done: list[Outcome] = []
    breaks: list[State] = []

    def enter(state: State) -> tuple[State | None, State | None]:
        body = state.fork()
        v, ended = operators.next_of(it, source, fr, body, s)
        if v is None:
            return None, ended
        try:
            names.assign(it, s.target, v, fr, body)
        except Dead:
            return None, ended
        return body, ended

    current = st
    for _ in range(it.config.max_unroll):
        body, leave = enter(current)
        if body is None:
            return _after_loop(it, s.orelse, fr, leave, breaks, done)
        if leave is not None:
            break
        after = _round(it, s.body, fr, body, breaks, done)
        if after is None:
            return _after_loop(it, (), fr, None, breaks, done)
        current = after
    return _fixpoint(it, s.body, s.orelse, fr, current, enter, breaks, done)


def _loop_lazily(it: Interpreter, s: ir.For, source: Ref, fr: Frame, st: State) -> list[Outcome]:
    """A generator: the body runs inside each ``yield``; leaving the loop closes the generator there."""

    left: dict[int, tuple[str, Value | None]] = {}
    outside = it.handlers[-1]

    def body(yielded: Value, state: State) -> Value:
        it.handlers.append([])
        try:
            names.assign(it, s.target, yielded, fr, state)
            outcomes = it.exec_block(s.body, fr, state)
        except Dead:
            outcomes = []
        finally:
            raised = it.handlers.pop()
            outside.extend(raised)  # what the body raises is not raised inside the generator
        normal = [o[1] for o in outcomes if o[0] in "nc"]
        for kind, ended, value in outcomes:
            if kind in "br":
                marker = Unknown("a generator is closed", key=("closed", len(left)))
                left[id(marker)] = (kind, value)
                markers.append(marker)
                it.handlers[-1].append(Raised(ended.fork(), "GeneratorExit", None, marker, None))
        if not normal:
            raise Dead
        merged = merge(normal)
        if merged is not state:
            state.become(merged)
        return NONE

    markers: list[Value] = []
    it.handlers.append([])
    closes = escapes(s.body)  # leaving the loop raises inside the generator, and goes on here
    it.in_try += closes
    ended: State | None = st
    try:
        functions.consume(it, source, fr, st, s, body)
    except Dead:
        ended = None
    finally:
        mine = it.handlers.pop()
        it.in_try -= closes
    done: list[Outcome] = []
    breaks: list[State] = []
    for r in mine:
        found = left.get(id(r.value))
        if found is None:
            it.handlers[-1].append(r)
            if r.name in ("?", "GeneratorExit"):  # raised again on the way: it may have been any of them
                breaks.extend(r.state.fork() for kind, _ in left.values() if kind == "b")
                done.extend(("r", r.state.fork(), v) for kind, v in left.values() if kind == "r")
        elif found[0] == "b":
            breaks.append(r.state)
        else:
            done.append(("r", r.state, found[1]))
    return _after_loop(it, s.orelse, fr, ended, breaks, done)
