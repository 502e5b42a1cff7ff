"""Generators and the other iterators that do nothing before they are asked: what they will do, and doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import calls, expressions, operators, reach
from flowcheck.interp.bodies import body_of, holds
from flowcheck.interp.frames import Dead, Frame
from flowcheck.interp.heap import NEVER, Obj, State, merge
from flowcheck.interp.values import (
    NONE,
    FuncV,
    Known,
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
    from flowcheck.interp.frames import Frame


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
            found = _CALLING[id(lazy.expr)] = (lazy.expr, holds(lazy.expr, ir.Call))
        return found[1]
    return True


_CALLING: dict[int, tuple[object, bool]] = {}


def lazily(st: State, lazy: Lazy) -> Ref:
    """A generator object that has not started."""
    obj = Obj("iterator", items=None)
    obj.tag = lazy
    return Ref(st.new(obj))


def consume(
    it: Interpreter, ref: Ref, fr: Frame, st: State, node: ir.Node | None, step: Callable[[Value, State], Value]
) -> None:
    """Runs a generator that has not started to its end in ``st``, ``step`` at each value that it yields."""

    lazy = st.obj(ref.oid).tag
    assert isinstance(lazy, Lazy)
    target = st.write(ref.oid)
    target.tag = None
    target.items = []
    if lazy.how:
        _consume_builtin(it, lazy, fr, st, node, step)
        return
    if lazy.expr is not None:
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
    from flowcheck.interp.functions import bind, finish, self_of

    env = bind(it, f, list(lazy.args), lazy.keywords, st, False, node, fr)
    oid = st.new(Obj("env", attrs=env, parent=f.env))
    owner = f.node if isinstance(f.node, ir.FunctionDef) and f.node.body is None else f.owner
    inner = Frame(f, f.module, oid, owner, f.cls, self_of(f, env, fr, st), fr, None)
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


def first(it: Interpreter, ref: Ref, fr: Frame, st: State, node: ir.Node | None, default: Value | None) -> Value:
    """``next`` of a generator that has not started."""

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
