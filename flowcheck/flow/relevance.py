"""What a walk may leave out: calls that cannot touch what is tracked, and the statements that only feed them."""

from __future__ import annotations

import builtins
import fnmatch
import re
from collections.abc import Iterable

from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.interp import functions
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.values import FuncV
from flowcheck.program.effects import Effects
from flowcheck.program.parts import sub_expressions
from flowcheck.program.raising import with_raises
from flowcheck.program.slicing import Criterion, slice_body
from flowcheck.program.texts import Texts, Wanted
from flowcheck.syntax import ir

__all__ = ["Relevance", "effects_of"]

BUILTINS = frozenset(dir(builtins))
FILLING = "append|appendleft|add|insert|extend|update|put|setdefault"
DYNAMIC = frozenset({"setattr", "exec", "eval", "delattr", "next"})
SETTERS = frozenset({"__setattr__", "__delattr__", "send", "enter_context"})
APPLIES = frozenset({"map", "filter", "next", "list", "tuple", "any", "all", "sum", "sorted"})
"""Builtins that call what they are given, or run the iterators that do."""
KEPT_WHOLE = frozenset({"__init__", "__post_init__", "__new__", "__setattr__", "__getattr__", "__exit__", "__enter__"})


def effects_of(texts: Texts, words: Vocabulary) -> Effects:
    """The closure over a tree of what may touch a mode, a phase or a forward."""
    mode, phase = words.mode.attribute, words.phase.attribute
    seeds = [
        rf"\b{mode}\b",
        rf"\b{phase}\s*=[^=]",
        rf"\.{phase}\s*(?::[^=\n]+)?=[^=]",
        rf"\.{words.phase.speculative_input}\s*(?::[^=\n]+)?=[^=]",
        *words.relevance.seeds,
    ]
    holders = _holders(texts, words) - {words.phase.speculative_input}
    if holders:
        names = "|".join(map(re.escape, sorted(holders)))
        seeds.append(rf"\.(?:{names})(?:\[[^\]\n]*\])?\s*(?::[^=\n]+)?=[^=]")
        seeds.append(rf"\.(?:{names})\.(?:{FILLING})\(")
    patterns = [seed.encode() for seed in seeds]
    return Effects(texts, patterns, words.relevance.beyond.encode(), words.relevance.common_methods)


def _holders(texts: Texts, words: Vocabulary) -> set[str]:
    """The attributes through which a mode is read or set, or a batch is given to a forward: who stores into one decides
    which batch that is, without a word of its mode."""
    word = words.mode.attribute.encode()
    direct = re.compile(rb"\.(\w+)(?:\[[^\]\n]*\])?\." + word + rb"\b")
    forwards = [seed for seed in words.relevance.seeds if not any(m in seed for m in words.graph.replay_methods)]
    given = Wanted(rb"(?:" + forward.encode() + rb")\s*self\.(\w+)\s*[,)]" for forward in forwards)
    found: set[str] = set()
    for data in texts.files.values():
        if word in data:
            found.update(m.decode() for m in direct.findall(data))
        found.update(m.group(m.lastindex or 0).decode() for m in given.matches(data))
    return found


def _is_view(e: ir.Expr) -> bool:
    """Whether an expression is written as the dict of an object's attributes."""
    if isinstance(e, ir.Attribute):
        return e.attr == "__dict__"
    return isinstance(e, ir.Call) and isinstance(e.func, ir.Name) and e.func.id in ("vars", "globals", "locals")


class Relevance:
    """Slices, cached by definition: they do not depend on the run."""

    def __init__(self, effects: Effects, words: Vocabulary, tracked: Iterable[str]) -> None:
        self.effects = effects
        self.tracked = frozenset(tracked)
        self.always = frozenset(words.graph.replay_methods) | frozenset(words.target.forward_methods)
        self.bags = [n for n in effects.all_names if any(fnmatch.fnmatchcase(n, p) for p in words.scenario.bags)]
        self._slices: dict[tuple[int, bool, bool], tuple[object, tuple[ir.Stmt, ...]]] = {}

    def function(self, f: FuncV) -> bool:
        """Whether entering ``f`` may matter."""
        if not isinstance(f.node, ir.FunctionDef) or f.node.body is not None:
            return True
        return self.effects.relevant(f.module.path, f.node.line)

    def dynamic(self, f: FuncV) -> bool:
        """Whether ``f`` may store an attribute that its text does not name: it matters when it is given a batch."""
        return isinstance(f.node, ir.FunctionDef) and self.effects.dynamic(f.module.path, f.node.line)

    def fills(self, f: FuncV) -> bool:
        """Whether ``f`` changes a container that it is given."""
        return isinstance(f.node, ir.FunctionDef) and self.effects.fills(f.module.path, f.node.line)

    def body(self, it: Interpreter, f: FuncV, effect_only: bool, eager: bool) -> tuple[ir.Stmt, ...] | None:
        """The slice of a function's body to run; None for all of it."""
        node = f.node
        assert isinstance(node, ir.FunctionDef)
        constructing = eager and node.name == "__init__"
        if node.name in KEPT_WHOLE and not constructing:
            return None
        key = (id(node), effect_only, constructing)
        found = self._slices.get(key)
        if found is not None and found[0] is node:
            return found[1]
        whole = functions.body_of(it, f)
        if len(whole) < 3 and not any(isinstance(s, (ir.With, ir.If, ir.For, ir.While, ir.Try)) for s in whole):
            result = whole
        else:
            params = frozenset(p.name for p in node.params.items)
            local = functions.local_names(it, f)
            criterion = Criterion(
                statement=self._stores_tracked,
                call=lambda c: self._call(c, local),
                wants_value=not effect_only,
                keep_stores=not constructing,
                mentions=self._mentions_tracked,
                fills=self.effects.filling_names.__contains__,
                follows=lambda c: self._may_be_followed(c, local),
                swallows=self.effects.swallowing.__contains__,
                outer=lambda name: name in params or name not in local,
            )
            result = with_raises(whole, slice_body(whole, criterion, params, it.program.slice_cache))
        self._slices[key] = (node, result)
        return result

    def _stores_tracked(self, s: ir.Stmt) -> bool:
        targets: tuple[ir.Expr, ...] = ()
        if isinstance(s, ir.Assign):
            targets = s.targets
        elif isinstance(s, (ir.AnnAssign, ir.AugAssign)):
            targets = (s.target,)
        elif isinstance(s, ir.Delete):
            targets = s.targets
        for t in targets:
            for x in t.items if isinstance(t, (ir.TupleExpr, ir.ListExpr)) else (t,):
                if isinstance(x, ir.Attribute) and (x.attr in self.tracked or x.attr in ("__dict__", "__class__")):
                    return True
                if isinstance(x, ir.Subscript) and _is_view(x.value):
                    return True
        return False

    def _mentions_tracked(self, node: ir.Node) -> bool:
        return any(isinstance(x, ir.Attribute) and x.attr in self.tracked for x in sub_expressions(node))

    def _hands_over(self, e: ir.Expr) -> bool:
        """Whether an argument is a function or a class that may matter: who is given it may call it."""
        name = e.attr if isinstance(e, ir.Attribute) else e.id if isinstance(e, ir.Name) else ""
        return (
            name in self.effects.relevant_names
            or name in self.effects.relevant_classes
            or (isinstance(e, ir.Name) and name in self.effects.inner_names)
        )

    def _may_be_followed(self, c: ir.Call, local: frozenset[str]) -> bool:
        """Whether a call may be one of a function of the tree, or hand one on."""
        f = c.func
        if isinstance(f, ir.Name):
            return f.id in local or f.id not in BUILTINS or f.id in APPLIES
        if isinstance(f, ir.Attribute) and f.attr in self.effects.all_names:
            return True
        names = (a.value.attr if isinstance(a.value, ir.Attribute) else getattr(a.value, "id", "") for a in c.args)
        return not isinstance(f, ir.Attribute) or any(n in self.effects.all_names for n in names)

    def _call(self, c: ir.Call, local: frozenset[str]) -> bool:
        f = c.func
        if any(self._hands_over(a.value) or _is_view(a.value) for a in c.args):
            return True
        if isinstance(f, ir.Name):
            if f.id in local or f.id in DYNAMIC:
                return True
            return (
                f.id in self.effects.relevant_names
                or f.id in self.effects.relevant_classes
                or f.id in self.effects.dynamic_names
                or f.id in self.effects.cell_names
            )
        if isinstance(f, ir.Attribute):
            if f.attr in self.effects.relevant_names or f.attr in self.always or f.attr in SETTERS:
                return True
            if f.attr in self.effects.cell_names and f.attr not in self.effects.common:
                return True
            if _is_view(f.value):
                return True
            if f.attr in self.effects.dynamic_names and any(a.keyword in self.tracked for a in c.args):
                return True
            if (
                f.attr in self.effects.dynamic_names
                and isinstance(f.value, ir.Name)
                and f.value.id == "self"
                and c.args
            ):
                return True
            if f.attr in self.effects.all_names:
                return False
            # A method that the tree defines nowhere: a callable kept in an attribute, if it is given a local at all.
            return isinstance(f.value, ir.Name) and f.value.id in ("self", "cls") and bool(c.args)
        return not isinstance(f, ir.Const)
