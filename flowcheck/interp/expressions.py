"""What each kind of expression means. ``TABLE`` maps node types to functions ``(interpreter, node, frame, state)``."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from flowcheck.interp import (
    attributes,
    builtin_models,
    calls,
    functions,
    names,
    operators,
    ranks,
    refine,
    statements,
    views,
)
from flowcheck.interp.frames import Dead, Frame
from flowcheck.interp.heap import Obj, State, merge
from flowcheck.interp.values import (
    NONE,
    BoundV,
    FuncV,
    Known,
    Member,
    Ref,
    Slice,
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
    from flowcheck.interp.frames import Frame

__all__ = ["TABLE"]


def _const(it: Interpreter, e: ir.Const, fr: Frame, st: State) -> Value:
    if e.value is None:
        return NONE
    return Known(e.value)


def _name(it: Interpreter, e: ir.Name, fr: Frame, st: State) -> Value:
    return names.lookup(it, e.id, fr, st, e)


def _attribute(it: Interpreter, e: ir.Attribute, fr: Frame, st: State) -> Value:
    return attributes.get(it, it.eval(e.value, fr, st), e.attr, fr, st, e)


def _items(
    it: Interpreter, items: tuple[ir.Expr, ...], fr: Frame, st: State
) -> tuple[list[Value] | None, Value | None]:
    """The values of a display; None (and what an element may be, if known) when a starred part has unknown length."""
    out: list[Value] = []
    exact = True
    for x in items:
        if isinstance(x, ir.Star):
            source = it.eval(x.value, fr, st)
            part = operators.iterate(it, source, fr, st, x)
            if part is None:
                exact = False
                out.append(operators.element(it, source, st))
            else:
                out.extend(part)
        else:
            out.append(it.eval(x, fr, st))
    if exact:
        return out, None
    return None, union_of(out)


def _tuple(it: Interpreter, e: ir.TupleExpr, fr: Frame, st: State) -> Value:
    items, _ = _items(it, e.items, fr, st)
    return Unknown("a tuple of unknown length") if items is None else TupleV(items)


def _list(it: Interpreter, e: ir.ListExpr, fr: Frame, st: State) -> Value:
    items, element = _items(it, e.items, fr, st)
    obj = Obj("list", items=items, site=fr.site(e))
    obj.elements = element
    return it.alloc(st, obj, obj.site)


def _set(it: Interpreter, e: ir.SetExpr, fr: Frame, st: State) -> Value:
    items, element = _items(it, e.items, fr, st)
    for x in items if items is not None else (element,):
        if x is not None:
            operators.need_hash(it, x, fr, st, e)
    if items is not None:
        return it.new_list(st, items, fr.site(e), "set")
    obj = Obj("set", site=fr.site(e))
    obj.elements = element
    return it.alloc(st, obj, obj.site)


def _dict(it: Interpreter, e: ir.DictExpr, fr: Frame, st: State) -> Value:
    items: dict[Hashable, tuple[Value, Value]] | None = {}
    values: list[Value] = []
    for k, v in e.items:
        if k is None:
            source = it.eval(v, fr, st)
            if views.is_view(source):
                source = views.contents(it, source, st)
            obj = st.get(source.oid) if isinstance(source, Ref) else None
            if obj is not None and obj.kind == "dict" and obj.items is not None:
                if items is not None:
                    items.update(obj.items)
                values.extend(x for _, x in obj.items.values())
            else:
                items = None
                values.append(Unknown("a value of an unknown mapping"))
            continue
        key_value = it.eval(k, fr, st)
        value = it.eval(v, fr, st)
        values.append(value)
        key = it.key(key_value)
        operators.need_hash(it, key_value, fr, st, e)
        if key is None:
            items = None
        elif items is not None:
            items[key] = (items[key][0] if key in items else key_value, value)
    made = Obj("dict", items=items, site=fr.site(e))
    if items is None:
        made.elements = union_of(values)
    return it.alloc(st, made, made.site)


def _binop(it: Interpreter, e: ir.BinOp, fr: Frame, st: State) -> Value:
    left = it.eval(e.left, fr, st)
    return operators.binary(it, e.op, left, it.eval(e.right, fr, st), fr, st, e)


def _unary(it: Interpreter, e: ir.UnaryOp, fr: Frame, st: State) -> Value:
    v = it.eval(e.operand, fr, st)
    if e.op == "not":
        t = operators.truth(it, v, st, fr)
        if t is not None:
            return Known(not t)
        items = alternatives(v)
        if not all(isinstance(x, (Known, Unknown)) for x in items):
            return Unknown("not")
        return union_of(
            [
                Known(not x.value) if isinstance(x, Known)
                else Unknown("not", None if (key := operators.truth_key(x)) is None else ("not", key))
                for x in items
            ]
        )  # fmt: skip
    return operators.unary(it, e.op, v, fr, st, e)


def _boolop(it: Interpreter, e: ir.BoolOp, fr: Frame, st: State) -> Value:
    is_and = e.op == "and"

    def go(i: int, s: State) -> Value:
        if i == len(e.values) - 1:
            return it.eval(e.values[i], fr, s)
        v, t, pure = refine.decide(it, e.values[i], fr, s)
        if t is not None:
            return go(i + 1, s) if t == is_and else v
        it.count("forks")

        def rest(s2: State) -> Value:
            if pure:
                refine.assume(it, e.values[i], is_and, fr, s2)
            operators.learn(it, v, is_and, s2)
            return go(i + 1, s2)

        def short(s2: State) -> Value:
            if pure:
                refine.assume(it, e.values[i], not is_and, fr, s2)
            operators.learn(it, v, not is_and, s2)
            keep: list[Value] = []
            for x in alternatives(v):
                if pure and operators.truth(it, x, s2, fr) == is_and:
                    continue
                keep.append(operators.with_truth(x, not is_and))
            if not keep:
                raise Dead
            return union_of(keep)

        return it.both(s, [(s.fork(), short), (s.fork(), rest)])

    return go(0, st)


def _compare(it: Interpreter, e: ir.Compare, fr: Frame, st: State) -> Value:
    last = len(e.ops) - 1

    def go(i: int, left: Value, s: State) -> Value:
        right = it.eval(e.comparators[i], fr, s)
        result = operators.compare(it, e.ops[i], left, right, fr, s, e)
        if i == last:
            return result
        t = operators.truth(it, result, s, fr)
        if t is not None:
            return go(i + 1, right, s) if t else result
        it.count("forks")

        def short(s2: State) -> Value:
            operators.learn(it, result, False, s2)
            return union_of([operators.with_truth(x, False) for x in alternatives(result)])

        def rest(s2: State) -> Value:
            operators.learn(it, result, True, s2)
            return go(i + 1, right, s2)

        return it.both(s, [(s.fork(), short), (s.fork(), rest)])

    return go(0, it.eval(e.left, fr, st), st)


def _ifexp(it: Interpreter, e: ir.IfExp, fr: Frame, st: State) -> Value:
    v, t, pure = refine.decide(it, e.test, fr, st)
    if t is not None:
        group = ranks.group_of_test(v) if it.config.tensors is not None else None
        if group is not None:
            return ranks.value_by_rank(it, e, t, group, fr, st)
        return it.eval(e.body if t else e.orelse, fr, st)
    it.count("forks")

    def arm(want: bool, x: ir.Expr) -> Callable[[State], Value]:
        def thunk(s: State) -> Value:
            if pure:
                refine.assume(it, e.test, want, fr, s)
            operators.learn(it, v, want, s)
            return it.eval(x, fr, s)

        return thunk

    return it.both(st, [(st.fork(), arm(True, e.body)), (st.fork(), arm(False, e.orelse))])


def _lambda(it: Interpreter, e: ir.Lambda, fr: Frame, st: State) -> Value:

    return functions.make_lambda(it, e, fr, st)


def _walrus(it: Interpreter, e: ir.Walrus, fr: Frame, st: State) -> Value:
    v, pure = refine.evaluate(it, e.value, fr, st)
    target = e.target
    lowest = it.base.lowest
    while fr.outer is not None:  # a comprehension's walrus binds in the function around it
        fr = fr.outer
    names.assign(it, target, v, fr, st, e.value if pure else None)
    if isinstance(target, ir.Name) and not any(
        isinstance(x, ir.Name) and x.id == target.id for x in refine.paths(it, e.value)
    ):
        it.base.lowest = lowest  # a test may be evaluated again for all that this changes
    return v


def _await(it: Interpreter, e: ir.Await, fr: Frame, st: State) -> Value:
    return it.eval(e.value, fr, st)


def _star(it: Interpreter, e: ir.Star, fr: Frame, st: State) -> Value:
    return it.eval(e.value, fr, st)


def _yield(it: Interpreter, e: ir.Yield, fr: Frame, st: State) -> Value:
    v: Value = it.eval(e.value, fr, st) if e.value is not None else NONE
    hook = fr.hook
    if hook is None:
        return Unknown("yield")
    if not e.is_from:
        return hook(v, st)

    obj = st.get(v.oid) if isinstance(v, Ref) else None
    if obj is not None and isinstance(obj.tag, functions.Lazy):
        assert isinstance(v, Ref)
        functions.consume(it, v, fr, st, e, hook)
        return Unknown("what a generator returns")
    part = operators.iterate(it, v, fr, st, e)
    if part is not None:
        for x in part:
            hook(x, st)
        return NONE

    def step(s: State) -> None:
        hook(operators.element(it, v, s), s)

    statements.stabilise(it, st, step)
    return Unknown("what an iterator returns")


def _fstring(it: Interpreter, e: ir.FString, fr: Frame, st: State) -> Value:
    out: list[str] = []
    exact = e.plain
    for part in e.parts:
        if isinstance(part, str):
            out.append(part)
            continue
        v = it.eval(part, fr, st)
        if isinstance(v, Known) and exact and not isinstance(v.value, bytes):
            out.append(str(v.value))
        else:
            exact = False
    return Known("".join(out)) if exact else Unknown("formatted string", truth=True if any(out) else None)


def _subscript(it: Interpreter, e: ir.Subscript, fr: Frame, st: State) -> Value:
    container = it.eval(e.value, fr, st)
    if isinstance(e.index, ir.Slice):
        bounds = [it.eval(x, fr, st) if x is not None else NONE for x in (e.index.lower, e.index.upper, e.index.step)]
        return operators.take_slice(it, container, bounds, fr, st, e)
    return operators.take(it, container, it.eval(e.index, fr, st), fr, st, e)


def _slice(it: Interpreter, e: ir.Slice, fr: Frame, st: State) -> Value:
    bounds = tuple(it.eval(x, fr, st) if x is not None else NONE for x in (e.lower, e.upper, e.step))
    if it.config.tensors is not None:
        return Slice(bounds)
    return Unknown("slice")


def _comp(it: Interpreter, e: ir.Comp, fr: Frame, st: State) -> Value:
    source = it.eval(e.generators[0].iter, fr, st)
    if e.kind == "generator":
        return functions.lazily(st, functions.Lazy(None, expr=e, frame=fr, source=source))
    if e.kind == "dict":
        ref = it.new_dict(st, {}, fr.site(e))
    else:
        ref = it.new_list(st, [], fr.site(e), e.kind)
    exact = st.obj(ref.oid).exact
    if not exact:  # several objects at one address: it may be filled already
        st.write(ref.oid).open(())

    def step(v: Value, s: State) -> Value:
        if isinstance(v, TupleV) and e.kind == "dict":
            operators.put(it, ref, v.items[0], v.items[1], fr, s, e)
        elif e.kind == "set":
            builtin_models.method(it, ref, "add", [v], {}, s, e, fr)
        else:
            w = s.write(ref.oid)
            if w.items is not None:
                w.items.append(v)
            else:
                w.open([v])
        return NONE

    run_comprehension(it, e, fr, st, source, step)
    return ref


def run_comprehension(
    it: Interpreter, e: ir.Comp, fr: Frame, st: State, source: Value, step: Callable[[Value, State], Value]
) -> None:
    """Runs a comprehension over ``source``, its first iterable; a "dict" gives pairs to ``step``."""

    inner = Frame(fr.func, fr.module, st.new(Obj("env", parent=fr.env)), fr.owner, fr.cls, fr.self_, fr.up, fr.call)
    inner.outer = fr
    inner.global_names, inner.nonlocal_names = fr.global_names, fr.nonlocal_names
    inner.slice_of = fr.slice_of
    inner.hook = fr.hook

    def leaf(s: State) -> None:
        if e.key is not None:
            key = it.eval(e.key, inner, s)
            step(TupleV([key, it.eval(e.element, inner, s)]), s)
        else:
            step(it.eval(e.element, inner, s), s)

    def filtered(i: int, n: int, s: State) -> None:
        tests = e.generators[i].ifs
        if n == len(tests):
            if i + 1 == len(e.generators):
                leaf(s)
            else:
                over(i + 1, it.eval(e.generators[i + 1].iter, inner, s), s)
            return
        v, t, pure = refine.decide(it, tests[n], inner, s)
        if t is True:
            filtered(i, n + 1, s)
        elif t is None:
            it.count("forks")
            arms: list[State] = []
            for want in (True, False):
                arm = s.fork()
                try:
                    if pure:
                        refine.assume(it, tests[n], want, inner, arm)
                    operators.learn(it, v, want, arm)
                    if want:
                        filtered(i, n + 1, arm)
                except Dead:
                    continue
                arms.append(arm)
            if not arms:
                raise Dead
            s.become(merge(arms))

    def each(i: int, x: Value, s: State) -> None:
        names.assign(it, e.generators[i].target, x, inner, s, None)
        filtered(i, 0, s)

    def over(i: int, v: Value, s: State) -> None:
        operators.visit(it, v, inner, s, e, lambda x, s2: each(i, x, s2))

    over(0, source, st)


def _call(it: Interpreter, e: ir.Call, fr: Frame, st: State) -> Value:
    return calls.evaluate(it, e, fr, st)


def _opaque(it: Interpreter, e: ir.Opaque, fr: Frame, st: State) -> Value:
    it.may_raise(st, e, fr)
    return Unknown(e.reason)


TABLE: dict[type, Callable[[Any, Any, Any, State], Value]] = {
    ir.Const: _const,
    ir.Name: _name,
    ir.Attribute: _attribute,
    ir.TupleExpr: _tuple,
    ir.ListExpr: _list,
    ir.SetExpr: _set,
    ir.DictExpr: _dict,
    ir.BinOp: _binop,
    ir.UnaryOp: _unary,
    ir.BoolOp: _boolop,
    ir.Compare: _compare,
    ir.IfExp: _ifexp,
    ir.Lambda: _lambda,
    ir.Walrus: _walrus,
    ir.Await: _await,
    ir.Star: _star,
    ir.Yield: _yield,
    ir.FString: _fstring,
    ir.Subscript: _subscript,
    ir.Slice: _slice,
    ir.Comp: _comp,
    ir.Call: _call,
    ir.Opaque: _opaque,
}

_ = (BoundV, FuncV, Member, Union)
