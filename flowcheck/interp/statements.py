"""What each kind of statement means. ``TABLE`` maps node types to functions that return the outcomes of the statement,
or None when it only falls through."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowcheck.interp import (
    attributes,
    calls,
    classes,
    functions,
    handlers,
    loops,
    names,
    operators,
    patterns,
    ranks,
    refine,
    views,
)
from flowcheck.interp.frames import Dead
from flowcheck.interp.handlers import catches, exception_class, exception_of, fold
from flowcheck.interp.heap import State, merge
from flowcheck.interp.loops import covers, stabilise, widen
from flowcheck.interp.values import (
    NONE,
    BoundV,
    BuiltinV,
    ExternalV,
    FuncV,
    Known,
    LazyImport,
    Member,
    ModuleV,
    Ref,
    Union,
    Unknown,
    Value,
    alternatives,
    union_of,
)
from flowcheck.program.modules import Program
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame, Outcome

__all__ = ["TABLE", "catches", "covers", "exception_class", "exception_of", "fold", "stabilise", "widen"]


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
            bounds = [
                it.eval(x, fr, st) if x is not None else NONE for x in (t.index.lower, t.index.upper, t.index.step)
            ]
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
    elif obj is not None and obj.kind == "tensor" and it.config.tensors is not None:
        return it.config.tensors.augmented(it, op, old, new, fr, st, s)
    elif obj is not None and obj.kind in ("list", "set", "dict"):
        name = IN_PLACE.get((obj.kind, op))
        if name is not None:
            calls.call(it, BuiltinV("m." + name, old), [new], {}, st, s, fr)
            return old
        if (obj.kind == "list" and op == "*") or (obj.kind == "set" and op in "&-^"):
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
        group = ranks.group_of_test(v) if it.config.tensors is not None else None
        if group is not None:
            return ranks.by_rank(it, s, t, group, fr, st)
        return it.exec_block(s.body if t else s.orelse, fr, st)
    it.count("forks")

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


TABLE: dict[type, Callable[[Any, Any, Any, State], list[Outcome] | None]] = {
    ir.ExprStmt: _expr,
    ir.Assign: _assign,
    ir.AnnAssign: _annassign,
    ir.AugAssign: _augassign,
    ir.Return: _return,
    ir.Pass: _pass,
    ir.Break: _break,
    ir.Continue: _continue,
    ir.Raise: handlers.raise_,
    ir.Assert: _assert,
    ir.Global: _global,
    ir.Nonlocal: _nonlocal,
    ir.Delete: _delete,
    ir.If: _if,
    ir.While: loops.while_,
    ir.For: loops.for_,
    ir.Try: handlers.try_,
    ir.With: handlers.with_,
    ir.Import: _import,
    ir.ImportFrom: _importfrom,
    ir.FunctionDef: _functiondef,
    ir.ClassDef: _classdef,
    ir.Match: _match,
    ir.Opaque: _opaque,
}

_ = (Known, Member)
