"""Refinement: what a test's outcome says about the variables in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flowcheck.interp import attributes, classes, functions, names, operators
from flowcheck.interp.frames import CallCut, Dead
from flowcheck.interp.heap import NEVER, BaseState, State, merge
from flowcheck.interp.values import (
    UNBOUND,
    FuncV,
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
    from flowcheck.interp.frames import Frame
    from flowcheck.interp.heap import Obj

Place = tuple[int, str]
"""(address, attribute or variable name): where a value that a test mentions is stored."""


class Origin(Value):
    """The expression that a local came from, and the values that it was computed from at that time.

    ``epoch`` is that of the state, where the expression reads more than the locals among ``stamps``.
    """

    __slots__ = ("epoch", "expr", "stamps")

    def __init__(self, expr: ir.Expr, stamps: tuple[tuple[Place, Value], ...], epoch: int | None) -> None:
        self.expr = expr
        self.stamps = stamps
        self.epoch = epoch


ORIGINS = (ir.BoolOp, ir.Compare, ir.UnaryOp, ir.Call, ir.IfExp)
"""The expressions that are worth remembering."""
READS_LOCALS = (ir.Name, ir.Const, ir.BoolOp, ir.Compare, ir.UnaryOp, ir.IfExp)


def evaluate(it: Interpreter, e: ir.Expr, fr: Frame, st: State) -> tuple[Value, bool]:
    """The value of ``e``, and whether evaluating it left everything as it was: only then may it be evaluated again."""
    if isinstance(e, (ir.Name, ir.Const)):
        return it.eval(e, fr, st), True
    base = it.base
    before, newest = base.lowest, base.next
    base.lowest = NEVER
    try:
        v = it.eval(e, fr, st)
        return v, base.lowest > newest
    finally:
        base.lowest = min(before, base.lowest)


def decide(it: Interpreter, e: ir.Expr, fr: Frame, st: State) -> tuple[Value, bool | None, bool]:
    """A test's value, its truth (None when it may be either), and whether ``assume`` may be asked about it."""
    base = it.base
    before, newest = base.lowest, base.next
    base.lowest = NEVER
    try:
        v = it.eval(e, fr, st)
        t = operators.truth(it, v, st, fr)
        return v, t, base.lowest > newest
    finally:
        base.lowest = min(before, base.lowest)


def forget_origins(env: Obj, oid: int, name: str) -> None:
    """Local ``name`` is about to change: what was computed from it says nothing about it any more."""
    attrs = env.attrs
    stale = [
        key
        for key, origin in attrs.items()
        if key[0] == "@" and isinstance(origin, Origin) and any(p == (oid, name) for p, _ in origin.stamps)
    ]
    for key in stale:
        del attrs[key]


def _reads_locals(e: object) -> bool:
    """Whether an expression reads nothing but names."""
    if not isinstance(e, READS_LOCALS):
        return False
    if isinstance(e, ir.BoolOp):
        return all(map(_reads_locals, e.values))
    if isinstance(e, ir.Compare):
        return _reads_locals(e.left) and all(map(_reads_locals, e.comparators))
    if isinstance(e, ir.UnaryOp):
        return _reads_locals(e.operand)
    if isinstance(e, ir.IfExp):
        return _reads_locals(e.test) and _reads_locals(e.body) and _reads_locals(e.orelse)
    return True


def remember(it: Interpreter, name: str, expr: ir.Expr, v: Value, fr: Frame, st: State) -> None:
    """Notes that local ``name`` is the outcome of ``expr``, so that testing it later tests the expression."""
    env = st.write(fr.env)
    if isinstance(v, (Unknown, Union)) and not isinstance(st, BaseState):
        read = paths(it, expr)
        stamps = tuple((p, value) for e in read if (found := place(it, e, fr, st)) for p, value in (found,))
        local = len(stamps) == len(read) and all(p[0] == fr.env for p, _ in stamps) and _reads_locals(expr)
        if any(p == (fr.env, name) for p, _ in stamps):
            env.attrs.pop("@" + name, None)  # ``x = not x``: what it was computed from is gone
            return
        env.attrs["@" + name] = Origin(expr, stamps, None if local else st.epoch)
    else:
        env.attrs.pop("@" + name, None)


def paths(it: Interpreter, e: ir.Expr) -> tuple[ir.Expr, ...]:
    """The names and attribute chains in an expression, longest first."""
    cache = it.program.slice_cache.paths
    known = cache.get(id(e))
    if known is None:
        known = cache[id(e)] = (e, tuple(_paths(e)))
    return known[1]


def _paths(e: ir.Expr) -> list[ir.Expr]:
    out: list[ir.Expr] = []

    def walk(x: object) -> None:
        if isinstance(x, (ir.Name, ir.Attribute)):
            out.append(x)
            if isinstance(x, ir.Attribute):
                walk(x.value)
        elif isinstance(x, ir.Call):
            walk(x.func)
            for a in x.args:
                walk(a.value)
        elif isinstance(x, ir.BoolOp):
            for v in x.values:
                walk(v)
        elif isinstance(x, ir.UnaryOp):
            walk(x.operand)
        elif isinstance(x, ir.Compare):
            walk(x.left)
            for v in x.comparators:
                walk(v)
        elif isinstance(x, ir.IfExp):
            walk(x.test)
            walk(x.body)
            walk(x.orelse)
        elif isinstance(x, (ir.BinOp,)):
            walk(x.left)
            walk(x.right)
        elif isinstance(x, ir.Subscript):
            walk(x.value)
            walk(x.index)
        elif isinstance(x, ir.Walrus):
            walk(x.target)
            walk(x.value)

    walk(e)
    return out


def place(it: Interpreter, e: ir.Expr, fr: Frame, st: State) -> tuple[Place, Value] | None:
    """Where a name or attribute chain is stored, and its value; None when reading it could do anything else."""
    if isinstance(e, ir.Walrus):
        return place(it, e.target, fr, st)
    if isinstance(e, ir.Name):
        if e.id in fr.global_names:
            return None
        oid: int | None = fr.env
        while oid is not None:
            obj = st.get(oid)
            if obj is None or obj.kind == "module":
                return None
            if obj.kind != "class" and e.id in obj.attrs:
                return (oid, e.id), obj.attrs[e.id]
            oid = obj.parent
        return None
    if isinstance(e, ir.Attribute):
        found = place(it, e.value, fr, st)
        if found is None:
            return None
        refs = [x for x in alternatives(found[1]) if isinstance(x, Ref)]
        others = [x for x in alternatives(found[1]) if not isinstance(x, (Ref, Known)) and x is not UNBOUND]
        if len(refs) != 1 or others:
            return None
        return _attribute_place(it, refs[0], e, fr, st)
    return None


def _attribute_place(it: Interpreter, ref: Ref, e: ir.Attribute, fr: Frame, st: State) -> tuple[Place, Value] | None:
    obj = st.get(ref.oid)
    if obj is None:
        return None
    if obj.cls is not None:
        cv = classes.class_attr(it, obj.cls, e.attr, st)
        if isinstance(cv, FuncV):
            if cv.kind == "property" and isinstance(cv.node, ir.FunctionDef):
                body = [s for s in functions.body_of(it, cv) if not _is_docstring(s)]
                only = body[0] if len(body) == 1 else None
                if isinstance(only, ir.Return) and isinstance(only.value, ir.Attribute):
                    base = only.value.value
                    if isinstance(base, ir.Name) and base.id == cv.node.params.items[0].name:
                        return place_of_attribute(it, ref, only.value.attr, fr, st)
            return None
    return place_of_attribute(it, ref, e.attr, fr, st)


def _is_docstring(s: ir.Stmt) -> bool:
    return isinstance(s, ir.ExprStmt) and isinstance(s.value, ir.Const)


def place_of_attribute(it: Interpreter, ref: Ref, name: str, fr: Frame, st: State) -> tuple[Place, Value] | None:
    """Where an attribute of one object is stored, and its value there."""
    obj = st.get(ref.oid)
    if obj is None or not obj.exact:
        return None
    v = obj.attrs.get(name)
    if v is not None and v is not UNBOUND and not (isinstance(v, Union) and UNBOUND in v.items):
        return (ref.oid, name), v
    if obj.kind in ("skeleton", "free"):
        it.quiet += 1
        handlers = len(it.handlers[-1])
        try:
            v = attributes.get(it, ref, name, fr, st)
        except Dead:
            return None
        finally:
            it.quiet -= 1
            del it.handlers[-1][handlers:]
        return (ref.oid, name), v
    return None


def _write(st: State, p: Place, v: Value) -> None:
    """Replaces what is known of a place; the place itself does not change."""
    epoch, lowest = st.epoch, st.base.lowest
    st.write(p[0]).attrs[p[1]] = v
    st.epoch, st.base.lowest = epoch, lowest


# ------------------------------------------------------------------------------------------------------------ assuming
def assume(it: Interpreter, test: ir.Expr, want: bool, fr: Frame, st: State) -> None:
    """Narrows ``st`` to the states in which ``test`` is ``want``; raises Dead when there are none."""
    if isinstance(test, ir.UnaryOp) and test.op == "not":
        assume(it, test.operand, not want, fr, st)
        return
    if isinstance(test, ir.Walrus):
        assume(it, test.target, want, fr, st)
        return
    if isinstance(test, ir.BoolOp):
        _assume_chain(it, test, want, fr, st)
        return
    if isinstance(test, (ir.Name, ir.Attribute)):
        found = place(it, test, fr, st)
        if found is not None:
            _narrow(it, test, test, found, want, fr, st)
        if isinstance(test, ir.Name):
            _assume_origin(it, test.id, want, fr, st)
        return
    if isinstance(test, ir.Call):
        _assume_call(it, test, want, fr, st)
        return
    if isinstance(test, ir.IfExp):
        t = _quiet_truth(it, test.test, fr, st)
        if t is not None:
            assume(it, test.body if t else test.orelse, want, fr, st)
        return
    seen = 0
    for e in paths(it, test):
        if seen >= 4:
            break
        found = place(it, e, fr, st)
        if found is None:
            continue
        direct = isinstance(test, ir.Compare) and (_same(test.left, e) or _same(test.comparators[0], e))
        if isinstance(found[1], Union) or (isinstance(found[1], Unknown) and direct):
            seen += 1
            _narrow(it, test, e, found, want, fr, st)


def _same(a: ir.Expr, b: ir.Expr) -> bool:
    return a is b or (isinstance(a, ir.Walrus) and a.target is b)


def _assume_chain(it: Interpreter, test: ir.BoolOp, want: bool, fr: Frame, st: State) -> None:
    if (test.op == "and") == want:
        for x in test.values:
            assume(it, x, want, fr, st)
            v = quietly(it, x, fr, st)
            if v is not None:
                t = operators.truth(it, v, st, fr)
                if t is not None and t != want:
                    raise Dead
                operators.learn(it, v, want, st)
        return
    open_: list[ir.Expr] = []
    for x in test.values:
        t = _quiet_truth(it, x, fr, st)
        if t == want:
            return  # this one decides: the others are free
        if t is None:
            open_.append(x)
    if len(open_) == 1:
        x = open_[0]
        assume(it, x, want, fr, st)
        v = quietly(it, x, fr, st)
        if v is not None:
            operators.learn(it, v, want, st)


def quietly(it: Interpreter, e: ir.Expr, fr: Frame, st: State) -> Value | None:
    """Evaluates for information alone: in a scratch state, unobserved, its raises dropped."""

    if it.quiet > 2 or id(e) in it.dear:
        return None
    scratch = st.fork()
    try:
        with _quietly(it):
            return it.eval(e, fr, scratch)
    except Dead:
        return None
    except TooDear:
        it.dear.add(id(e))
        return None


class TooDear(Exception):
    """Evaluating for information alone has cost more than the information is worth."""


@contextmanager
def _quietly(it: Interpreter) -> Iterator[None]:
    """Evaluation for information alone: unobserved, its raises dropped, its cost bounded (TooDear)."""

    limit = it.steps + it.config.quiet_budget
    mine = not it.budgets or limit < it.budgets[-1]
    level, handlers = len(it.budgets), len(it.handlers)
    it.budgets.append(limit if mine else it.budgets[-1])
    it.quiet += 1
    it.handlers.append([])
    depth, lowest, in_try, loops = it.depth, it.base.lowest, it.in_try, it.loop_sites
    it.in_try = 0
    try:
        yield
    except CallCut:
        if not mine:
            raise
        raise TooDear from None
    finally:
        del it.budgets[level:]
        del it.handlers[handlers:]
        it.quiet -= 1
        it.wanted = None
        it.depth, it.base.lowest, it.in_try, it.loop_sites = depth, lowest, in_try, loops


def _quiet_truth(it: Interpreter, e: ir.Expr, fr: Frame, st: State) -> bool | None:
    v = quietly(it, e, fr, st)
    return None if v is None else operators.truth(it, v, st, fr)


def _assume_origin(it: Interpreter, name: str, want: bool, fr: Frame, st: State) -> None:
    env = st.get(fr.env)
    origin = env.attrs.get("@" + name) if env is not None else None
    if not isinstance(origin, Origin) or (origin.epoch is not None and origin.epoch != st.epoch):
        return
    for (oid, attr), value in origin.stamps:
        obj = st.get(oid)
        now = obj.attrs.get(attr) if obj is not None else None
        if now is not None and now is not value and now != value:
            return  # something that the expression read has changed since
    assume(it, origin.expr, want, fr, st)


def _assume_call(it: Interpreter, test: ir.Call, want: bool, fr: Frame, st: State) -> None:
    f = test.func
    if isinstance(f, ir.Name) and f.id == "bool" and len(test.args) == 1:
        assume(it, test.args[0].value, want, fr, st)
        return
    if isinstance(f, ir.Name) and f.id in names.BUILTIN_NAMES:
        for e in paths(it, test):
            found = place(it, e, fr, st)
            if found is not None and isinstance(found[1], Union):
                _narrow(it, test, e, found, want, fr, st)
        return
    receiver = f.value if isinstance(f, ir.Attribute) else None
    dear = it.in_base or it.quiet > 1 or id(test) in it.dear
    if dear and (id(test), fr.env) not in it.answers:
        return
    found = place(it, receiver, fr, st) if receiver is not None else None
    if found is not None and isinstance(found[1], Union):
        assert receiver is not None
        _narrow(it, test, receiver, found, want, fr, st)
        found = place(it, receiver, fr, st)
    if dear:
        return
    epoch = st.epoch
    try:
        if found is not None and isinstance(found[1], Union):
            _partition(it, test, found, want, fr, st)
        else:
            scratch = st.fork()
            with _quietly(it):
                it.wanted = (test, want)
                it.eval(test, fr, scratch)
            st.become(scratch)
    except TooDear:
        it.dear.add(id(test))
    finally:
        st.epoch = epoch


def _partition(it: Interpreter, test: ir.Call, found: tuple[Place, Value], want: bool, fr: Frame, st: State) -> None:
    """Takes each object that the receiver may be on its own, and keeps those for which the call may be ``want``."""

    p, v = found
    keep: list[Value] = []
    states: list[State] = []
    for x in alternatives(v):
        if isinstance(x, Known):
            continue
        arm = st.fork()
        _write(arm, p, x)
        try:
            with _quietly(it):
                it.wanted = (test, want)
                it.eval(test, fr, arm)
        except Dead:
            continue
        except TooDear:
            arm = st.fork()
            _write(arm, p, x)
        keep.append(x)
        states.append(arm)
    if not keep:
        raise Dead
    st.become(merge(states).fork() if len(states) > 1 else states[0])
    _write(st, p, union_of(keep))


def _narrow(
    it: Interpreter, test: ir.Expr, e: ir.Expr, found: tuple[Place, Value], want: bool, fr: Frame, st: State
) -> None:
    """Keeps the alternatives at one place under which ``test`` may be ``want``."""

    p, v = found
    if isinstance(v, Unknown):
        if test is e:
            if v.truth is None:
                _write(st, p, operators.with_truth(v, want))
            return
        decided = _equal_to(it, test, e, want, fr, st)
        if decided is not None:
            _write(st, p, decided)
        elif _not_none(test, e, want) and not v.not_none:
            _write(st, p, Unknown(v.reason, v.key, v.truth, True, v.trail))
        return
    if not isinstance(v, Union):
        return
    keep: list[Value] = []
    receives = isinstance(test, ir.Call) and isinstance(test.func, ir.Attribute) and test.func.value is e
    said = it.answers.get((id(test), fr.env), {}) if receives else {}
    for x in v.items:
        if x is UNBOUND:
            continue
        if isinstance(x, Unknown):
            decided = _equal_to(it, test, e, want, fr, st)
            if decided is not None:
                keep.append(decided)
                continue
            if _not_none(test, e, want):
                keep.append(Unknown(x.reason, x.key, x.truth, True, x.trail))
                continue
        arm = st.fork()
        _write(arm, p, x)
        t: bool | None = None
        if x in said:
            t = said[x]
        elif id(test) not in it.dear:
            try:
                with _quietly(it):
                    t = operators.truth(it, it.eval(test, fr, arm), arm, fr)
            except Dead:
                continue
            except TooDear:
                it.dear.add(id(test))
        if t is None or t == want:
            keep.append(operators.with_truth(x, want) if test is e else x)
    if not keep:
        raise Dead
    _write(st, p, union_of(keep))


def _equal_to(it: Interpreter, test: ir.Expr, e: ir.Expr, want: bool, fr: Frame, st: State) -> Value | None:
    """The value that ``e`` must be when ``e == c`` or ``e is c`` holds."""
    if isinstance(test, ir.Compare) and len(test.ops) == 1 and (_same(test.left, e) or _same(test.comparators[0], e)):
        op = test.ops[0]
        if (op in ("is", "==") and want) or (op in ("is not", "!=") and not want):
            other = test.comparators[0] if _same(test.left, e) else test.left
            c = quietly(it, other, fr, st)
            if isinstance(c, Known) and (
                op in ("is", "is not") or c.value is None or isinstance(c.value, (str, bytes))
            ):
                return c
            if isinstance(c, Member) and c.cls.enum_kind == "Enum":
                return c
            if isinstance(c, Member) and op in ("is", "is not"):
                return c
            if isinstance(c, Member) and c.cls.enum_kind is not None:
                return c  # an int equal to an IntEnum member acts like it on every path that tests it again
    return None


def _not_none(test: ir.Expr, e: ir.Expr, want: bool) -> bool:
    if not isinstance(test, ir.Compare) or len(test.ops) != 1 or not _same(test.left, e):
        return False
    c = test.comparators[0]
    if not (isinstance(c, ir.Const) and c.value is None):
        return False
    return (test.ops[0] in ("is not", "!=") and want) or (test.ops[0] in ("is", "==") and not want)


_ = TupleV
