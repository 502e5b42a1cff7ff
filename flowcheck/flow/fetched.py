"""Whether somebody takes what a forward gives: the calls that it comes back through, or who reads where it was left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from flowcheck.interp.bodies import body_of
from flowcheck.interp.frames import CallEvent, Frame
from flowcheck.interp.values import Ref, alternatives
from flowcheck.program.parts import bindings, root_of, sub_expressions, target_names
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.flow.walk import Walk

__all__ = ["Fetched"]

PUTS = frozenset(
    {
        "add", "append", "appendleft", "extend", "insert", "push", "put", "put_nowait", "send", "set", "set_result",
        "setdefault", "update", "__setattr__", "__setitem__",
    }
)  # fmt: skip
"""Methods of containers, futures and queues by which these keep what they are given."""

DEEPEST = 3
"""Calls of calls that are looked into for a store of what they are given."""

MOST_DEFINITIONS = 8
"""A name that more files define says nothing about who is called."""

_FRESH = (ir.ListExpr, ir.DictExpr, ir.SetExpr, ir.Comp, ir.TupleExpr, ir.Const)
_MAKERS = frozenset({"list", "dict", "set", "deque", "defaultdict", "copy", "deepcopy", "replace"})


class Fetched:
    """What one walk has asked of functions that discard a forward's result."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self._read: dict[str, bool] = {}
        self._leaves: dict[tuple[int, int], tuple[bool, bool]] = {}
        self._keepers: dict[tuple[str, frozenset[int | str]], bool] = {}

    def consumed(self, event: CallEvent, runner: Ref | None, workers: Iterable[int], replay: bool) -> bool:
        """Whether the result of a forward is taken on the way to its worker, or may be fetched from where it was left."""
        frames = list(event.frame.chain())
        served = {runner} if runner is not None and replay else set()
        last = max((i for i, fr in enumerate(frames) if fr.self_ in served), default=-1)
        known = set(workers)
        ends = next((i for i, fr in enumerate(frames) if _is_worker(fr, known)), len(frames))
        at = next((i for i in range(last + 1, min(ends, len(frames))) if frames[i].discarded), None)
        if not replay and event.node is self.walk.it.effect_statement:
            return False
        if at is None:
            return True
        site = frames[last].call if last >= 0 else event.frame.site(event.node) if event.node is not None else None
        node = site.nid if site is not None else None
        for frame in frames[last + 1 : at + 1]:
            if frame.func is None:
                continue
            if node is None:
                return True
            kept, returned = self._left(frame, node)
            if kept:
                return True
            if not returned:
                return False
            node = frame.call.nid if frame.call is not None else None
        return False

    def _left(self, frame: Frame, node: int) -> tuple[bool, bool]:
        """Whether a function leaves what a call of it gives where it may be read later, and whether it returns it."""
        f = frame.func
        assert f is not None
        if not isinstance(f.node, ir.FunctionDef):
            return False, True
        key = (id(f.node), node)
        if key not in self._leaves:
            body = body_of(self.walk.it, f)
            sources = {id(x) for x in sub_expressions(body) if x.nid == node and isinstance(x, ir.Call)}
            self._leaves[key] = self._followed(f.node, body, sources, frozenset(), DEEPEST)
        return self._leaves[key]

    def _followed(
        self, f: ir.FunctionDef, body: tuple[ir.Stmt, ...], sources: set[int], given: frozenset[str], deep: int
    ) -> tuple[bool, bool]:
        """The same for what some nodes are, and some parameters hold."""
        result = _Result(f, body, sources, given)
        before = -1
        while len(result.names) != before:
            before = len(result.names)
            if any(self._stored(result, part) for part in result.targets()):
                return True, True
            if any(self._put(result, call, deep) for call in result.calls()):
                return True, True
        return False, result.is_returned()

    def _stored(self, result: _Result, target: ir.Expr) -> bool:
        """Whether what is stored in a target may be read once the function has ended."""
        if isinstance(target, ir.Name):
            if target.id in result.outer:
                return self._is_read(target.id, variable=True)
            result.names.add(target.id)
            return False
        root = root_of(target)
        if root is not None and root in result.own:
            result.names.add(root)
            return False
        while isinstance(target, (ir.Subscript, ir.Call)):
            target = target.func if isinstance(target, ir.Call) else target.value
        return self._is_read(target.attr) if isinstance(target, ir.Attribute) else True

    def _put(self, result: _Result, call: ir.Call, deep: int) -> bool:
        """Whether a call puts the result where it may be read once the function has ended."""
        places = frozenset(a.keyword or i for i, a in enumerate(call.args) if result.is_in(a.value))
        if not places:
            return False
        if isinstance(call.func, ir.Name) and call.func.id == "setattr" and len(call.args) == 3:
            name = call.args[1].value
            return not (isinstance(name, ir.Const) and isinstance(name.value, str)) or self._is_read(name.value)
        if isinstance(call.func, ir.Attribute) and call.func.attr in PUTS:
            return self._stored(result, ir.Subscript(call.nid, call.func.value, ir.Const(call.nid, None)))
        return bool(deep) and self._keeps(call.func, places, deep)

    def _keeps(self, callee: ir.Expr, places: frozenset[int | str], deep: int) -> bool:
        """Whether a function or method of the tree that is called so may keep something that it is given at some places."""
        name = callee.attr if isinstance(callee, ir.Attribute) else callee.id if isinstance(callee, ir.Name) else ""
        if not name or name in self.walk.words.target.forward_methods:
            return False
        key = (name, places)
        if key not in self._keepers:
            self._keepers[key] = False  # until it is known: it may call itself
            self._keepers[key] = any(
                self._followed(f, body, set(), _parameters(f, places, skip), deep - 1)[0]
                for f, body, skip in self._defined(name)
            )
        return self._keepers[key]

    def _defined(self, name: str) -> Iterator[tuple[ir.FunctionDef, tuple[ir.Stmt, ...], int]]:
        """The functions and methods of a name, their bodies, and how many parameters come before what they are given."""
        paths = self.walk.corpus.files_with(f"def {name}")
        for path in paths if len(paths) <= MOST_DEFINITIONS else ():
            module = self.walk.program.module_at(path)
            syntax = module.syntax if module is not None else None
            if syntax is None:
                continue
            for x in sub_expressions(syntax.body):
                if isinstance(x, ir.FunctionDef) and x.name == name:
                    yield x, syntax.body_of(x), 1 if "." in x.qualname else 0

    def _is_read(self, name: str, variable: bool = False) -> bool:
        """Whether anything in the tree may read an attribute, or a variable of a module, of that name."""
        if name not in self._read:
            start = rb"(?<!\w)" if variable else rb"[.\"']"
            pattern = re.compile(start + re.escape(name.encode()) + _NOT_STORED)
            skipped = re.compile(rb"^[ \t]*(?:global|nonlocal)[ \t].*$", re.M)
            self._read[name] = any(
                pattern.search(skipped.sub(b"", data) if variable else data) is not None
                for data in self.walk.corpus.files.values()
                if name.encode() in data
            )
        return self._read[name]


class _Result:
    """Where a function holds what some nodes of it give, and some of its parameters.

    ``outer``: names that it shares with its module or the function around it. ``names``: local names that hold the result.
    """

    def __init__(self, f: ir.FunctionDef, body: tuple[ir.Stmt, ...], sources: set[int], given: frozenset[str]) -> None:
        self.body = body
        self.sources = sources
        self.given = given
        self.names = set(given)
        self.outer = {n for x in sub_expressions(body) if isinstance(x, (ir.Global, ir.Nonlocal)) for n in x.names}
        self.made = _made_here(f, body) - self.outer

    @property
    def own(self) -> set[str]:
        """Names of objects that the function has made, and of the result: what these hold goes where they go."""
        return self.made | self.names - self.given

    def is_in(self, e: object) -> bool:
        """Whether an expression mentions the result."""
        return e is not None and any(
            id(x) in self.sources or (isinstance(x, ir.Name) and x.id in self.names) for x in sub_expressions(e)
        )

    def targets(self) -> Iterator[ir.Expr]:
        """Where the result is stored."""
        for target, value in bindings(self.body):
            if self.is_in(value):
                yield from _targets(target)

    def calls(self) -> Iterator[ir.Call]:
        return (x for x in sub_expressions(self.body) if isinstance(x, ir.Call))

    def is_returned(self) -> bool:
        return any(isinstance(x, (ir.Return, ir.Yield)) and self.is_in(x.value) for x in sub_expressions(self.body))


def _made_here(f: ir.FunctionDef, body: tuple[ir.Stmt, ...]) -> set[str]:
    """The local names that hold nothing but what the function itself has made."""
    given = {p.name for p in f.params.items}
    made: dict[str, bool] = {}
    for target, value in bindings(body):
        for name in target_names(target):
            fresh = isinstance(target, ir.Name) and (isinstance(value, _FRESH) or _makes(value))
            made[name] = made.get(name, True) and fresh
    return {name for name, fresh in made.items() if fresh} - given


_NOT_STORED = rb"(?!\w)(?![ \t]*(?:\[[^\]\n]*\])?[ \t]*(?::[^=\n]*)?=(?!=))(?!\.(?:%s)\()" % b"|".join(
    name.encode() for name in sorted(PUTS)
)
"""What follows a name that is not stored there, nor stored into."""


def _makes(value: ir.Expr | None) -> bool:
    """Whether a call makes a new object, by its looks: that of a class, or of a container."""
    if not isinstance(value, ir.Call):
        return False
    callee = value.func
    name = callee.attr if isinstance(callee, ir.Attribute) else callee.id if isinstance(callee, ir.Name) else ""
    return name in _MAKERS or name[:1].isupper()


def _parameters(f: ir.FunctionDef, places: frozenset[int | str], skip: int) -> frozenset[str]:
    """The parameters that take what a call gives at some places."""
    params = f.params.items[skip:]
    named = {p.name for p in params}
    rest = [p.name for p in params if p.kind in ("*", "**")]
    out: list[str] = []
    for place in places:
        if isinstance(place, int):
            out += [params[place].name] if place < len(params) and params[place].kind in ("pos", "arg") else rest
        else:
            out += [place] if place in named else rest
    return frozenset(out)


def _is_worker(frame: Frame, workers: set[int]) -> bool:
    return frame.self_ is not None and any(isinstance(x, Ref) and x.oid in workers for x in alternatives(frame.self_))


def _targets(target: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(target, (ir.TupleExpr, ir.ListExpr)):
        for item in target.items:
            yield from _targets(item)
    elif isinstance(target, ir.Star):
        yield from _targets(target.value)
    else:
        yield target
