"""Dicts at module level whose every change is followed: what a path stores in one under a string stays there.

Such a dict is open, because earlier runs may have filled it: what it holds is not known but for the entries that the path
itself has stored. Functions that are left out may read it, and change other entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowcheck.interp.heap import BaseState, Obj, State
from flowcheck.interp.values import UNBOUND, FuncV, Value, alternatives, join
from flowcheck.program.modules import Module
from flowcheck.program.parts import sub_expressions
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter

__all__ = ["Confined", "confinement", "drop_entry", "entry_of", "is_followed", "store_entry"]


@dataclass(frozen=True)
class Confined:
    """The tag of such a dict. ``loose``: the keys under which code that is not followed may store."""

    loose: frozenset[str]


# ------------------------------------------------------------------------------------------------------------- entries
def entry_of(obj: Obj, key: Any) -> Value | None:
    """What a dict of unknown contents certainly holds under a key; None when nobody knows."""
    name = _spelled(key)
    found = obj.attrs.get(name) if name is not None else None
    return None if found is None or UNBOUND in alternatives(found) else found


def _spelled(key: Any) -> str | None:
    """The name under which an entry is remembered: only strings have one, which no other key is equal to."""
    return f"[{key[1]}]" if key is not None and key[0] == "k" and isinstance(key[1], str) else None


def store_entry(obj: Obj, key: Any, v: Value, st: State) -> None:
    """``obj[key] = v`` in a dict of unknown contents; the key is None where it is not known."""
    entries = obj.attrs.copy()
    obj.open([v])
    if not isinstance(obj.tag, Confined) or not obj.exact or isinstance(st, BaseState):
        return
    name = _spelled(key)
    if key is None:  # it may be any of them
        entries = {k: join(old, v) for k, old in entries.items()}
    elif name is not None and key[1] not in obj.tag.loose:
        entries[name] = v
    obj.attrs.update(entries)


def drop_entry(obj: Obj, key: Any) -> None:
    """An entry of a dict of unknown contents goes; any may, where the key is not known."""
    name = _spelled(key)
    if key is None:
        obj.attrs.clear()
    elif name is not None:
        obj.attrs.pop(name, None)


# --------------------------------------------------------------------------------------------------------- confinement
_READS = frozenset({"get", "items", "keys", "values", "copy"})
_ONE = frozenset({"pop", "setdefault"})
_ALL = frozenset({"update", "clear", "popitem"})
_ASKING = frozenset({"len", "bool", "dict", "list", "set", "tuple", "sorted", "iter", "any", "all"})


def is_followed(it: Interpreter, module: Module, function: ir.FunctionDef) -> bool:
    """Whether every call of a function is entered: what it stores is seen when it stores it."""
    relevant = it.config.relevant
    return relevant is None or relevant(FuncV(function, module, it.module_oid(module), None))


def confinement(it: Interpreter, module: Module, name: str) -> Confined | None:
    """How a module's dict is confined: None if it goes by another name, or code that is not followed may store anything."""
    if module.syntax is None or module.global_writers(name) or _known_elsewhere(it, module, name):
        return None
    text = module.syntax.text
    if name not in text:
        return None
    loose: set[str] = set()
    outside = 0
    seen: set[int] = set()
    for match in re.finditer(rf"\b{re.escape(name)}\b", text):
        line = text.count("\n", 0, match.start()) + 1
        around = [f for f in module.functions() if f.line <= line <= f.end_line]
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        outside += not around and not before.lstrip().startswith("#")
        for f in around:
            if id(f) in seen:
                continue
            seen.add(id(f))
            changed = _changes((f.params, module.syntax.body_of(f)), name)
            if changed is None:
                return None
            if changed and not is_followed(it, module, f):
                if None in changed:
                    return None
                loose.update(k for k in changed if k is not None)
    return Confined(frozenset(loose)) if outside == 1 else None


def _known_elsewhere(it: Interpreter, module: Module, name: str) -> bool:
    """Whether another file may reach the dict, by text: it imports the name, or takes it from something."""
    n = re.escape(name.encode())
    last = re.escape(module.name.rsplit(".", 1)[-1].encode())
    taken = re.compile(
        rb"\." + n + rb"\b|['\"]" + n + rb"['\"]|\bimport\b[^\n]*(?:\([^)]*)?\b" + n + rb"\b"
        rb"|\bfrom[ \t]+[\w.]*" + last + rb"[ \t]+import[ \t]+\*"
    )
    corpus = it.program.corpus
    return any(p != module.path and taken.search(corpus.files[p]) for p in corpus.files_with(name))


def _changes(body: object, name: str) -> set[str | None] | None:
    """The keys of ``name`` that code may change (None among them: any); None if it may call the dict something else."""
    keys: set[str | None] = set()
    fine: set[int] = set()

    def is_it(e: object) -> bool:
        return isinstance(e, ir.Name) and e.id == name

    for x in sub_expressions(body):
        if isinstance(x, ir.Opaque) or (isinstance(x, (ir.Global, ir.Nonlocal)) and name in x.names):
            return None
        if isinstance(x, ir.Subscript):
            fine.add(id(x.value))
        elif isinstance(x, ir.Call):
            f = x.func
            if isinstance(f, ir.Attribute) and is_it(f.value) and f.attr in _READS | _ONE | _ALL:
                fine.add(id(f.value))
                if f.attr in _ONE:
                    keys.add(_literal(x.args[0].value) if x.args and not x.args[0].star else None)
                elif f.attr in _ALL:
                    keys.add(None)
            elif isinstance(f, ir.Name) and f.id in _ASKING:
                fine.update(id(a.value) for a in x.args)
        elif isinstance(x, ir.Compare):
            fine.update(id(c) for op, c in zip(x.ops, x.comparators, strict=True) if op in ("in", "not in"))
        elif isinstance(x, (ir.For, ir.Generator)):
            fine.add(id(x.iter))
        elif isinstance(x, (ir.If, ir.While, ir.IfExp, ir.Assert)):
            fine.add(id(x.test))
        elif isinstance(x, ir.UnaryOp) and x.op == "not":
            fine.add(id(x.operand))
        keys.update(_literal(t.index) for t in _targets(x) if isinstance(t, ir.Subscript) and is_it(t.value))
    if any(is_it(x) and id(x) not in fine for x in sub_expressions(body)):
        return None
    return keys


def _literal(e: ir.Expr) -> str | None:
    return e.value if isinstance(e, ir.Const) and isinstance(e.value, str) else None


def _targets(s: ir.Node) -> Iterator[ir.Expr]:
    """What a statement or comprehension stores into or deletes."""
    todo: list[ir.Expr | None] = []
    if isinstance(s, (ir.Assign, ir.Delete)):
        todo += s.targets
    elif isinstance(s, (ir.AnnAssign, ir.AugAssign, ir.For, ir.Generator, ir.WithItem)):
        todo.append(s.target)
    while todo:
        t = todo.pop()
        if isinstance(t, (ir.TupleExpr, ir.ListExpr)):
            todo += t.items
        elif isinstance(t, ir.Star):
            todo.append(t.value)
        elif t is not None:
            yield t
