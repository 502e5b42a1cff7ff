"""What each kind of statement means. ``TABLE`` maps node types to functions that return the outcomes of the statement,
or None when it only falls through."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowcheck.interp import attributes, calls, classes, functions, managers, names, operators, refine, views
from flowcheck.interp.heap import Obj, State, merge
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
    LazyImport,
    Member,
    ModuleV,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
    join,
    union_of,
)
from flowcheck.program.modules import Program
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Frame, Interpreter, Outcome, Raised

__all__ = ["TABLE"]

MAX_LOOP_ROUNDS = 40
MOST_RAISED = 8
MOST_SOURCES = 6
"""A loop over one of more iterables than this is not run once for each."""


def _expr(it: Interpreter, s: ir.ExprStmt, fr: Frame, st: State) -> None:
    if isinstance(s.value, ir.Const):
        return
    before, it.effect_statement = it.effect_statement, s.value
    try:
        it.eval(s.value, fr, st)
    finally:
        it.effect_statement = before


def _assign(it: Interpreter, s: ir.Assign, fr: Frame, st: State) -> None:
    v, pure = refine.evaluate(it, s.value, fr, st)
    for t in s.targets:
        names.assign(it, t, v, fr, st, s.value if pure else None)


def _annassign(it: Interpreter, s: ir.AnnAssign, fr: Frame, st: State) -> None:
    if s.value is not None:
        v, pure = refine.evaluate(it, s.value, fr, st)
        names.assign(it, s.target, v, fr, st, s.value if pure else None)


def _augassign(it: Interpreter, s: ir.AugAssign, fr: Frame, st: State) -> None:
    t = s.target
    if isinstance(t, ir.Name):
        old = names.lookup(it, t.id, fr, st, t)
        names.assign(it, t, _augmented(it, s.op, old, it.eval(s.value, fr, st), fr, st, s), fr, st)
    elif isinstance(t, ir.Attribute):
        owner = it.eval(t.value, fr, st)
        old = attributes.get(it, owner, t.attr, fr, st, t)
        new = it.eval(s.value, fr, st)
        attributes.set_(it, owner, t.attr, _augmented(it, s.op, old, new, fr, st, s), fr, st, t)
    elif isinstance(t, ir.Subscript):
        owner = it.eval(t.value, fr, st)
        if isinstance(t.index, ir.Slice):
            bounds = [it.eval(x, fr, st) if x is not None else NONE for x in (t.index.lower, t.index.upper, t.index.step)]
            old = operators.take_slice(it, owner, bounds, fr, st, t)
            new = it.eval(s.value, fr, st)
            names.store_slice(it, owner, bounds, _augmented(it, s.op, old, new, fr, st, s), fr, st, t)
            return
        key = it.eval(t.index, fr, st)
        old = operators.take(it, owner, key, fr, st, t)
        new = it.eval(s.value, fr, st)
        operators.put(it, owner, key, _augmented(it, s.op, old, new, fr, st, s), fr, st, t)


IN_PLACE = {("list", "+"): "extend", ("set", "|"): "update", ("dict", "|"): "update"}


def _augmented(it: Interpreter, op: str, old: Value, new: Value, fr: Frame, st: State, s: ir.Node) -> Value:
    """What ``old op= new`` binds: lists, sets and dicts change in place, and so do objects that say so."""
    if isinstance(old, Union):

        def arm(x: Value) -> Callable[[State], Value]:
            return lambda state: _augmented(it, op, x, new, fr, state, s)

        return it.both(st, [(st.fork(), arm(x)) for x in old.items])
    if views.is_view(old) and op == "|":
        views.method(it, old, "update", [new], {}, st, s, fr)
        return old
    obj = st.get(old.oid) if isinstance(old, Ref) else None
    if obj is not None and obj.cls is not None:
        method = classes.class_attr(it, obj.cls, f"__i{operators.DUNDER[op]}__", st)
        if isinstance(method, FuncV):
            result = calls.call(it, BoundV(method, old), [new], {}, st, s, fr)
            if not (isinstance(result, BuiltinV) and result.name == "NotImplemented"):
                return result
    elif obj is not None and obj.kind in ("list", "set", "dict"):
        name = IN_PLACE.get((obj.kind, op))
        if name is not None:
            calls.call(it, BuiltinV("m." + name, old), [new], {}, st, s, fr)
            return old
        if obj.kind == "list" and op == "*" or obj.kind == "set" and op in "&-^":
            assert isinstance(old, Ref)
            made = operators.binary(it, op, old, new, fr, st, s)
            source = st.get(made.oid) if isinstance(made, Ref) else None
            target = st.write(old.oid)
            if source is not None and source.items is not None and target.exact:
                target.items = list(source.items)
            else:
                target.open([operators.element(it, made, st)])
            return old
    return operators.binary(it, op, old, new, fr, st, s)


def _return(it: Interpreter, s: ir.Return, fr: Frame, st: State) -> list[Outcome]:
    if fr.want is None or s.value is None:
        v = it.eval(s.value, fr, st) if s.value is not None else NONE
        pure = True
    else:
        v, pure = refine.evaluate(it, s.value, fr, st)
    if fr.want is not None:
        from flowcheck.interp.engine import Dead

        t = operators.truth(it, v, st, fr)
        if t is not None and t != fr.want:
            raise Dead
        if t is None and s.value is not None:
            if pure:
                refine.assume(it, s.value, fr.want, fr, st)
            operators.learn(it, v, fr.want, st)
            v = union_of([operators.with_truth(x, fr.want) for x in alternatives(v)])
    return [("r", st, v)]


def _pass(it: Interpreter, s: ir.Pass, fr: Frame, st: State) -> None:
    return None


def _break(it: Interpreter, s: ir.Break, fr: Frame, st: State) -> list[Outcome]:
    return [("b", st, None)]


def _continue(it: Interpreter, s: ir.Continue, fr: Frame, st: State) -> list[Outcome]:
    return [("c", st, None)]


def _raise(it: Interpreter, s: ir.Raise, fr: Frame, st: State) -> None:
    from flowcheck.interp.engine import Dead

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


def _assert(it: Interpreter, s: ir.Assert, fr: Frame, st: State) -> None:
    v = it.eval(s.test, fr, st)
    t = operators.truth(it, v, st, fr)
    if t is False:
        it.throw("AssertionError", st, s, fr)
    if t is None:
        it.may_throw("AssertionError", st, s, fr, certain=False)


def _global(it: Interpreter, s: ir.Global, fr: Frame, st: State) -> None:
    fr.global_names |= set(s.names)


def _nonlocal(it: Interpreter, s: ir.Nonlocal, fr: Frame, st: State) -> None:
    fr.nonlocal_names |= set(s.names)


def _delete(it: Interpreter, s: ir.Delete, fr: Frame, st: State) -> None:
    for t in s.targets:
        names.delete(it, t, fr, st)


def _if(it: Interpreter, s: ir.If, fr: Frame, st: State) -> list[Outcome]:
    v, t, pure = refine.decide(it, s.test, fr, st)
    if t is not None:
        return it.exec_block(s.body if t else s.orelse, fr, st)
    it.count("forks")
    from flowcheck.interp.engine import Dead

    done: list[Outcome] = []
    normal: list[State] = []
    for want, body in ((True, s.body), (False, s.orelse)):
        arm = st.fork()
        try:
            if pure:
                refine.assume(it, s.test, want, fr, arm)
        except Dead:
            continue
        operators.learn(it, v, want, arm)
        for outcome in it.exec_block(body, fr, arm):
            if outcome[0] == "n":
                normal.append(outcome[1])
            else:
                done.append(outcome)
    if normal:
        it.count("merges")
        done.append(("n", merge(normal), None))
    return done


def _while(it: Interpreter, s: ir.While, fr: Frame, st: State) -> list[Outcome]:
    """Runs rounds while the condition is decided; once it is not, iterates to a fixed point."""
    from flowcheck.interp.engine import Dead

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
    """A loop that runs any number of rounds. Objects that its body makes are one object per site."""
    it.count("loops")
    table: dict[Any, int] = it.loop_sites[-1] if it.loop_sites else {}  # one for a loop and those inside it
    it.loop_sites = [*it.loop_sites, table]
    exits: list[State] = []
    head = st.fork()
    newest = it.base.next
    try:
        for round_ in range(MAX_LOOP_ROUNDS):
            inside, leave = enter(head)
            if leave is not None:
                exits.append(leave)
            if inside is None:
                break
            end = _round(it, body, fr, inside, breaks, done)
            if end is None:
                break
            merged = merge([head.fork(), end])
            if _settled(it, head, merged, newest, table, round_):
                break
            widen(head, merged, everything=round_ >= 2)
            head = merged
        else:
            it.count("loops without a fixed point")
            it.may_raise(head, None, None)
    finally:
        it.loop_sites = it.loop_sites[:-1]
    return _after_loop(it, orelse, fr, merge(exits) if exits else None, breaks, done)


def stabilise(it: Interpreter, st: State, step: Callable[[State], None]) -> None:
    """Makes ``st`` stand for any number of rounds of ``step``, none included; a round that raises Dead does not end."""
    from flowcheck.interp.engine import Dead

    it.count("loops")
    table: dict[Any, int] = it.loop_sites[-1] if it.loop_sites else {}  # one for a loop and those inside it
    pushed = it.loop_sites
    it.loop_sites = [*pushed, table]
    head = st.fork()
    newest = it.base.next
    try:
        for round_ in range(MAX_LOOP_ROUNDS):
            inside = head.fork()
            try:
                step(inside)
            except Dead:
                break
            merged = merge([head.fork(), inside])
            if _settled(it, head, merged, newest, table, round_):
                break
            widen(head, merged, everything=round_ >= 2)
            head = merged
    finally:
        it.loop_sites = pushed
    st.become(head)


def _settled(
    it: Interpreter, head: State, merged: State, newest: int, table: dict[Any, int], round_: int
) -> bool:
    """Whether a loop has reached its fixed point; one that makes ever more objects ends with some of them unnamed."""
    if round_ < MAX_LOOP_ROUNDS // 2:
        return covers(head, merged, newest, set(table.values()))
    if not covers(head, merged, -1, set()):
        return False
    it.count("loops that lose objects")
    return True


def _changed(head: State, merged: State) -> list[int]:
    """Addresses whose object differs between the two."""
    seen: set[int] = set()
    out: list[int] = []
    layer: Any = merged.top
    stop: Any = head.top.parent if not head.top.objects else None
    while layer is not None and layer is not stop:
        for oid in layer.objects:
            if oid not in seen:
                seen.add(oid)
                a, b = head.get(oid), merged.get(oid)
                if a is not b:
                    out.append(oid)
        layer = layer.parent
    return out


def covers(head: State, merged: State, newest: int, lasting: set[int]) -> bool:
    """Whether ``head`` already stands for everything that ``merged`` does (``merged`` is above ``head``).

    Objects above ``newest`` were made inside the loop; those that are not ``lasting`` belong to one round, and nothing
    in ``head`` names them but as unknown.
    """

    def within(a: Value, b: Value) -> bool:
        if a is b or a == b:
            return True
        mine = alternatives(a)
        anything = any(
            isinstance(x, Unknown) and x.key is None and x.truth is None and not x.not_none for x in mine
        )
        return all(y in mine or (anything and y is not UNBOUND and passing(y)) for y in alternatives(b))

    def passing(y: Value) -> bool:
        if isinstance(y, Ref):
            return y.oid > newest and y.oid not in lasting
        return all(map(passing, y.items)) if isinstance(y, TupleV) else True

    for oid in _changed(head, merged):
        a, b = head.get(oid), merged.get(oid)
        if a is None or b is None:
            continue  # made in this round: what was there before does not lead to it, or its value differs too
        if a.exact != b.exact:
            return False
        if any(
            not within(a.attrs.get(name, UNBOUND), v) for name, v in b.attrs.items() if name[0] != "@"
        ) or any(name not in b.attrs and name[0] != "@" for name in a.attrs):
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
    for oid in _changed(head, merged):
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
            if w.items is None and (w.elements != a.elements or a.items is not None) and w.elements is not None:
                w.elements = join(w.elements, Unknown("changes in a loop"))


def _for(it: Interpreter, s: ir.For, fr: Frame, st: State) -> list[Outcome]:
    from flowcheck.interp.engine import Dead

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
    return _merge_normal(out)


def _loop_over(it: Interpreter, s: ir.For, source: Value, fr: Frame, st: State) -> list[Outcome]:
    from flowcheck.interp.engine import Dead

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
    if items is not None and len(items) <= it.config.max_unroll:
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
    from flowcheck.interp.engine import Dead

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
    from flowcheck.interp.engine import Dead

    done: list[Outcome] = []
    breaks: list[State] = []
    current: State | None = st
    for i in range(it.config.max_unroll + 1):
        assert current is not None
        obj = current.obj(source.oid)
        if obj.items is None or i == it.config.max_unroll or not obj.exact:
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
    from flowcheck.interp.engine import Dead

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
    from flowcheck.interp.engine import Dead, Raised

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
    ended: State | None = st
    try:
        functions.consume(it, source, fr, st, s, body)
    except Dead:
        ended = None
    finally:
        mine = it.handlers.pop()
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


# ---------------------------------------------------------------------------------------------------------- exceptions
def _handler_names(it: Interpreter, h: ir.Handler, fr: Frame, st: State) -> list[tuple[str, ClassV | None]] | None:
    """What a handler catches: None for everything."""
    if h.type is None:
        return None
    from flowcheck.interp.engine import Dead

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


def _try(it: Interpreter, s: ir.Try, fr: Frame, st: State) -> list[Outcome]:
    it.handlers.append([])
    if s.handlers or s.final:
        it.in_try += 1
    want = fr.want
    if s.final:
        fr.want = None  # what ``finally`` returns may replace what is returned here
    try:
        outcomes = it.exec_block(s.body, fr, st)
    finally:
        raised = it.handlers.pop()
        if s.handlers or s.final:
            it.in_try -= 1
    done: list[Outcome] = []
    late: list[Raised] = []
    it.handlers.append(late)  # what the else block and the handlers raise passes through ``finally`` only
    if s.final:
        it.in_try += 1
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
        if s.final:
            it.in_try -= 1
    raised = raised + late
    if s.final:
        return _finally(it, s.final, fr, done, raised)
    it.handlers[-1].extend(raised)
    return _merge_normal(done)


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


def _merge_normal(done: list[Outcome]) -> list[Outcome]:
    normal = [o[1] for o in done if o[0] == "n"]
    if len(normal) < 2:
        return done
    return [*[o for o in done if o[0] != "n"], ("n", merge(normal), None)]


def _finally(
    it: Interpreter, final: tuple[ir.Stmt, ...], fr: Frame, done: list[Outcome], raised: list[Raised]
) -> list[Outcome]:
    from flowcheck.interp.engine import Raised as RaisedType

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
    return _merge_normal(out)


# ---------------------------------------------------------------------------------------------------------------- with
def _with(it: Interpreter, s: ir.With, fr: Frame, st: State) -> list[Outcome]:
    return _with_item(it, s, 0, fr, st)


def _with_item(it: Interpreter, s: ir.With, i: int, fr: Frame, st: State) -> list[Outcome]:
    if i == len(s.items):
        return it.exec_block(s.body, fr, st)
    item = s.items[i]
    manager = calls.evaluate_manager(it, item.value, fr, st)
    if isinstance(manager, Union):
        from flowcheck.interp.engine import Dead

        out: list[Outcome] = []
        for x in manager.items:
            try:
                out.extend(_with_manager(it, s, i, item, x, fr, st.fork()))
            except Dead:
                continue
        return _merge_normal(out)
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
    from flowcheck.interp.engine import Dead

    it.handlers.append([])
    it.in_try += 1
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
        it.in_try -= 1
        fr.want = want
    done: list[Outcome] = []
    for o in outcomes:
        try:
            managers.leave(it, manager, None, s, fr, o[1])
        except Dead:
            continue
        done.append(o)
    for r in fold(raised):
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
    return _merge_normal(done)


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
    from flowcheck.interp.engine import Dead

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
    it.in_try += 1
    try:
        calls.call(it, func, args, keywords, st, item.value, fr, hook=body)
    finally:
        it.in_try -= 1
    out: list[Outcome] = []
    left = st.obj(how).attrs
    for x in alternatives(left["how"]):
        kind = x.value if isinstance(x, Known) else "n"
        if kind == "unused":
            it.may_throw("RuntimeError", st, s, fr)
        else:  # "raised": the function has swallowed it
            out.append(("n" if kind == "raised" else kind, st.fork(), left["value"] if kind == "r" else None))
    return out


# ------------------------------------------------------------------------------------------------- imports, definitions
def _import(it: Interpreter, s: ir.Import, fr: Frame, st: State) -> None:
    env = st.write(fr.env)
    for dotted, alias in s.names:
        if alias:
            env.attrs[alias] = it.module_value(dotted)
        else:
            top = dotted.split(".")[0]
            env.attrs[top] = it.module_value(top)


def _importfrom(it: Interpreter, s: ir.ImportFrom, fr: Frame, st: State) -> None:
    if s.module == "__future__" and not s.level:
        return
    name = Program.resolve(fr.module, s)
    source = it.module_value(name)
    at_top = st.obj(fr.env).kind == "module"
    for attr, alias in s.names:
        if attr == "*":
            continue
        v: Value
        if isinstance(source, ModuleV):
            if at_top:
                v = LazyImport(source.module, attr)
            else:
                found = names.global_value(it, source.module, attr, st)
                v = found if found is not None else Unknown(f"{name} has no {attr}")
                v = names.drop_unbound(v) or Unknown(f"{name}.{attr} may not be set")
        elif isinstance(source, ExternalV):
            v = calls.external_attr(it, source, attr)
        else:
            v = Unknown(f"import {name}.{attr}")
        st.write(fr.env).attrs[alias or attr] = v


def _functiondef(it: Interpreter, s: ir.FunctionDef, fr: Frame, st: State) -> None:
    v = functions.make_function(it, s, fr, st)
    names._assign_name(it, s.name, v, fr, st, None)


def _classdef(it: Interpreter, s: ir.ClassDef, fr: Frame, st: State) -> None:
    v = classes.make_class(it, s, fr, st)
    names._assign_name(it, s.name, v, fr, st, None)


def _match(it: Interpreter, s: ir.Match, fr: Frame, st: State) -> list[Outcome]:
    from flowcheck.interp import patterns
    from flowcheck.interp.engine import Dead

    subject = it.eval(s.subject, fr, st)
    done: list[Outcome] = []
    normal: list[State] = []
    current: State | None = st
    for case in s.cases:
        assert current is not None
        arm = current.fork()
        try:
            t = patterns.matches(it, case.pattern, subject, fr, arm)
        except Dead:
            current = None
            break
        if t is False:
            continue
        missed: list[State] = [] if t else [current]
        if case.guard is not None:
            try:
                v, g, pure = refine.decide(it, case.guard, fr, arm)
            except Dead:
                g, v, pure = False, NONE, False
                arm = None  # type: ignore[assignment]
            if g is not True and arm is not None:
                other = arm.fork()
                try:
                    if pure and g is None:
                        refine.assume(it, case.guard, False, fr, other)
                    operators.learn(it, v, False, other)
                    missed.append(other)  # names that the pattern has bound stay bound
                except Dead:
                    pass
            if g is None:
                try:
                    if pure:
                        refine.assume(it, case.guard, True, fr, arm)
                    operators.learn(it, v, True, arm)
                except Dead:
                    g = False
            if g is False:
                arm = None  # type: ignore[assignment]
        if arm is not None:
            for o in it.exec_block(case.body, fr, arm):
                if o[0] == "n":
                    normal.append(o[1])
                else:
                    done.append(o)
        if not missed:
            current = None
            break
        current = merge(missed)
    if current is not None:
        normal.append(current)
    if normal:
        done.append(("n", merge(normal), None))
    return done


def _opaque(it: Interpreter, s: ir.Opaque, fr: Frame, st: State) -> None:
    it.may_raise(st, s, fr)


TABLE: dict[type, Callable[[Any, Any, Any, State], "list[Outcome] | None"]] = {
    ir.ExprStmt: _expr,
    ir.Assign: _assign,
    ir.AnnAssign: _annassign,
    ir.AugAssign: _augassign,
    ir.Return: _return,
    ir.Pass: _pass,
    ir.Break: _break,
    ir.Continue: _continue,
    ir.Raise: _raise,
    ir.Assert: _assert,
    ir.Global: _global,
    ir.Nonlocal: _nonlocal,
    ir.Delete: _delete,
    ir.If: _if,
    ir.While: _while,
    ir.For: _for,
    ir.Try: _try,
    ir.With: _with,
    ir.Import: _import,
    ir.ImportFrom: _importfrom,
    ir.FunctionDef: _functiondef,
    ir.ClassDef: _classdef,
    ir.Match: _match,
    ir.Opaque: _opaque,
}

_ = (Known, Member)
