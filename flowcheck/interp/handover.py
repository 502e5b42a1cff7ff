"""Callables of the tree that are given to code that is not followed, an executor or a thread: they may be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import calls, classes, functions, names, operators, reach
from flowcheck.interp.heap import BaseState, State
from flowcheck.interp.values import (
    NONE,
    BoundV,
    ClassV,
    FuncV,
    Known,
    PartialV,
    Ref,
    TupleV,
    Unknown,
    Value,
    alternatives,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["by_name", "callables", "may_call", "run_text"]

MOST_ITEMS = 16
DEEPEST = 3
"""Callables that are handed over while one that was handed over runs, and so on: further ones are left out."""


def may_call(
    it: Interpreter, args: list[Value], keywords: dict[str, Value], st: State, node: ir.Node | None, fr: Frame
) -> None:
    """What is handed over may be called: once, with what is handed over beside it where that fits."""
    if isinstance(st, BaseState) or it.handed >= DEEPEST:
        return
    for v in [*args, *keywords.values()]:
        if isinstance(v, Ref):
            _use_up(it, v, st, node, fr)
    for i, v in enumerate(args):
        for f in callables(it, v, st):
            _try(it, f, args[i + 1 :], keywords, st, node, fr)
    for name, v in keywords.items():
        for f in callables(it, v, st):
            given = keywords.get("args")
            beside: list[Value] = args
            if given is not None:
                beside = list(given.items) if isinstance(given, TupleV) else [Unknown("an argument")]
            rest = {k: x for k, x in keywords.items() if k != name}
            _try(it, f, beside, rest, st, node, fr)


def callables(it: Interpreter, v: Value, st: State) -> list[Value]:
    """The callables of the tree that matter in an argument, or in a row of them."""
    out: list[Value] = []
    for x in alternatives(v):
        if isinstance(x, (FuncV, BoundV, PartialV, ClassV)):
            if matters(it, x, st):
                out.append(x)
        elif isinstance(x, TupleV):
            out += [y for y in x.items if not isinstance(y, (TupleV, Ref)) and matters(it, y, st)]
        elif isinstance(x, Ref):
            obj = st.get(x.oid)
            if obj is None:
                continue
            if obj.cls is not None:
                method = classes.class_attr(it, obj.cls, "__call__", st)
                if isinstance(method, FuncV) and _relevant(it, method):
                    out.append(BoundV(method, x))
            elif obj.kind == "list" and obj.items is not None and len(obj.items) <= MOST_ITEMS:
                out += [y for y in obj.items if not isinstance(y, (TupleV, Ref)) and matters(it, y, st)]
    return out


def matters(it: Interpreter, f: Value, st: State) -> bool:
    """Whether a call of ``f`` may touch what is tracked."""
    while isinstance(f, (BoundV, PartialV)):
        f = f.func
    if isinstance(f, ClassV):
        found = None if f.enum_kind else classes.class_attr(it, f, "__init__", st)
        return isinstance(found, FuncV) and _relevant(it, found)
    return isinstance(f, FuncV) and _relevant(it, f)


def _relevant(it: Interpreter, f: FuncV) -> bool:
    return it.config.relevant is None or it.config.relevant(f) or it.config.dynamic(f)


def _is_row(v: Value, st: State) -> bool:
    obj = st.get(v.oid) if isinstance(v, Ref) else None
    return isinstance(v, TupleV) or (obj is not None and obj.cls is None and obj.kind in ("list", "set", "iterator"))


def _use_up(it: Interpreter, v: Ref, st: State, node: ir.Node | None, fr: Frame) -> None:
    """An iterator of the tree that is handed over may run."""

    obj = st.get(v.oid)
    if obj is None or not isinstance(obj.tag, functions.Lazy) or not functions.may_matter(it, obj.tag):
        return
    it.handed += 1
    try:
        reach.weakly(it, st, lambda s: functions.consume(it, v, fr, s, node, lambda x, s2: Unknown("sent")))
    finally:
        it.handed -= 1


def _fits(f: Value, n: int, keywords: set[str]) -> bool:
    """Whether a call with ``n`` positional arguments and these keywords can be bound."""
    while isinstance(f, (BoundV, PartialV)):
        n += 1 if isinstance(f, BoundV) else len(f.args)
        keywords = keywords | set(f.keywords) if isinstance(f, PartialV) else keywords
        f = f.func
    if not isinstance(f, FuncV):
        return False
    params = f.node.params.items
    places = [p for p in params if p.kind in ("pos", "arg")]
    named = {p.name for p in params if p.kind in ("arg", "kw")}
    if n > len(places) and not any(p.kind == "*" for p in params):
        return False
    if keywords - named and not any(p.kind == "**" for p in params):
        return False
    needed = [p for p in places[n:] if p.default is None] + [p for p in params if p.kind == "kw" and p.default is None]
    return all(p.name in keywords for p in needed)


def _try(
    it: Interpreter, f: Value, args: list[Value], keywords: dict[str, Value], st: State, node: ir.Node | None, fr: Frame
) -> None:

    ways: list[tuple[list[Value], dict[str, Value], bool]] = []
    if _fits(f, len(args), set(keywords)):
        ways.append((args, keywords, False))
    if args and _fits(f, 1, set()):  # a row of them, one for each call
        ways += [([operators.element(it, x, st)], {}, False) for x in args if _is_row(x, st)]
    if not ways:
        ways.append(([], {}, True))
    it.handed += 1
    it.count("calls of what is handed over")
    before, it.effect_statement = it.effect_statement, None
    try:
        for given, named, open_ in ways:
            reach.weakly(
                it,
                st,
                lambda s, given=given, named=named, open_=open_: calls.call(  # type: ignore[misc]
                    it, f, list(given), dict(named), s, node, fr, open_=open_
                ),
            )
    finally:
        it.effect_statement = before
        it.handed -= 1


def by_name(
    it: Interpreter,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
) -> None:
    """A method of something that is known by its name alone is given what is tracked: any of the tree's may be meant.

    Those that may store what is tracked are run, and what they write may hold that or anything else.
    """
    if isinstance(st, BaseState) or it.handed >= DEEPEST:
        return
    for module, c in it.program.corpus.classes_with_methods(name):
        found = next(s for s in c.body if isinstance(s, ir.FunctionDef) and s.name == name)
        if not _relevant(it, FuncV(found, module, it.module_oid(module), None)):
            continue
        cls = names.global_value(it, module, c.name, it.base_state)
        method = classes.class_attr(it, cls, name, st) if isinstance(cls, ClassV) else None
        if not isinstance(method, FuncV):
            continue
        given = args if method.kind == "static" else [Unknown(f"an object that has {name}"), *args]

        def work(s: State, method: FuncV = method, given: list[Value] = given) -> None:
            hook = (lambda v, s2: NONE) if method.node.is_generator else None  # type: ignore[union-attr]
            calls.call(it, method, given, dict(keywords), s, node, fr, open_=True, hook=hook)

        it.handed += 1
        try:
            reach.blurred(it, st, work, fr.site(node) if node is not None else None, f"{name} of what is not known")
        finally:
            it.handed -= 1


def run_text(
    it: Interpreter, args: list[Value], keywords: dict[str, Value], st: State, node: ir.Node | None, fr: Frame, why: str
) -> Value:
    """``exec`` and ``eval`` of a text: it may store in anything that the names here lead to."""
    it.may_raise(st, node, fr)
    values = [*reach.frame_values(fr, st), *args, *keywords.values()]
    reach.forget_tracked(it, values, st, fr.site(node) if node is not None else None, why, depth=6)
    return Known(None) if why == "exec" else Unknown(f"{why}(…)")
