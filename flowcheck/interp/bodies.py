"""What the text of a function says: the names that it binds, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp.values import (
    FuncV,
)
from flowcheck.program.modules import target_names
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter


def body_of(it: Interpreter, f: FuncV) -> tuple[ir.Stmt, ...]:
    """The statements of a function, parsed when they are first wanted."""
    node = f.node
    assert isinstance(node, ir.FunctionDef)
    if node.body is not None:
        return node.body
    assert f.module.syntax is not None
    return f.module.syntax.body_of(node)


def blocks(s: ir.Stmt) -> list[tuple[ir.Stmt, ...]]:
    """The blocks of statements that a statement holds; those of a nested definition are none of them."""
    if isinstance(s, (ir.If, ir.For, ir.While)):
        return [s.body, s.orelse]
    if isinstance(s, ir.With):
        return [s.body]
    if isinstance(s, ir.Try):
        return [s.body, *(h.body for h in s.handlers), s.orelse, s.final]
    if isinstance(s, ir.Match):
        return [c.body for c in s.cases]
    return []


def escapes(body: tuple[ir.Stmt, ...], in_loop: bool = False) -> bool:
    """Whether a block may be left by ``return``, ``break`` or ``continue``: in a ``finally``, that drops an exception."""
    for s in body:
        if isinstance(s, ir.Return) or (isinstance(s, (ir.Break, ir.Continue)) and not in_loop):
            return True
        turns = s.body if isinstance(s, (ir.For, ir.While)) else None
        if any(escapes(block, in_loop or block is turns) for block in blocks(s)):
            return True
    return False


def reraises(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a handler always ends by raising."""
    return bool(body) and isinstance(body[-1], ir.Raise) and not escapes(body)


def answers(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether an ``__exit__`` decides itself whether it swallows: it may return what is not None or False.

    One that only hands on what another manager's exit says is taken to swallow nothing.
    """
    for s in body:
        if isinstance(s, ir.Return) and s.value is not None:
            v = s.value.value if isinstance(s.value, ir.Await) else s.value
            hands_on = isinstance(v, ir.Call) and isinstance(v.func, ir.Attribute) and v.func.attr in EXITS
            if not hands_on and not (isinstance(v, ir.Const) and v.value in (None, False)):
                return True
        elif any(answers(block) for block in blocks(s)):
            return True
    return False


EXITS = frozenset({"__exit__", "__aexit__"})


_LOCALS: dict[int, tuple[object, frozenset[str]]] = {}


def local_names(it: Interpreter, f: FuncV) -> frozenset[str]:
    """Names that the function's body binds, so that reading one before it is bound raises."""
    found = _LOCALS.get(id(f.node))
    if found is not None and found[0] is f.node:
        return found[1]
    if isinstance(f.node, ir.Lambda):
        names: set[str] = {p.name for p in f.node.params.items}
    else:
        names = {p.name for p in f.node.params.items}
        outer: set[str] = set()
        walrus = f.module.syntax is None or ":=" in f.module.syntax.text
        stack: list[ir.Stmt] = list(body_of(it, f))
        while stack:
            s = stack.pop()
            if isinstance(s, (ir.FunctionDef, ir.ClassDef)):
                names.add(s.name)
            elif isinstance(s, ir.Assign):
                for t in s.targets:
                    names.update(target_names(t))
            elif isinstance(s, (ir.AnnAssign, ir.AugAssign)):
                names.update(target_names(s.target))
            elif isinstance(s, ir.For):
                names.update(target_names(s.target))
                stack += s.body + s.orelse
            elif isinstance(s, (ir.If, ir.While)):
                stack += s.body + s.orelse
            elif isinstance(s, ir.With):
                for item in s.items:
                    if item.target is not None:
                        names.update(target_names(item.target))
                stack += s.body
            elif isinstance(s, ir.Try):
                stack += s.body + s.orelse + s.final
                for h in s.handlers:
                    if h.name:
                        names.add(h.name)
                    stack += h.body
            elif isinstance(s, (ir.Global, ir.Nonlocal)):
                outer.update(s.names)
            elif isinstance(s, ir.Import):
                names.update(alias or dotted.split(".")[0] for dotted, alias in s.names)
            elif isinstance(s, ir.ImportFrom):
                names.update(alias or name for name, alias in s.names)
            elif isinstance(s, ir.Match):
                for case in s.cases:
                    stack += case.body
                    names.update(_captures(case.pattern))
            elif isinstance(s, ir.Delete):
                for t in s.targets:
                    names.update(target_names(t))
            if walrus:
                names.update(_walrus_names(s))
        names -= outer
    result = frozenset(names)
    _LOCALS[id(f.node)] = (f.node, result)
    return result


def _captures(p: ir.Pattern) -> set[str]:
    found = {p.name} if p.name is not None else set()
    for child in p.children:
        found |= _captures(child)
    return found


def _walrus_names(node: object) -> set[str]:
    """Names that ``:=`` binds in the expressions of a statement; nested functions and statements have their own."""
    found: set[str] = set()
    stack: list[object] = [getattr(node, f) for f in node.__struct_fields__] if isinstance(node, ir.Node) else []
    while stack:
        x = stack.pop()
        if isinstance(x, tuple):
            stack.extend(x)
        elif isinstance(x, ir.Walrus):
            found.update(target_names(x.target))
            stack.append(x.value)
        elif isinstance(x, EXPRESSIONS):
            stack.extend(getattr(x, f) for f in x.__struct_fields__)
    return found


def always_reaches(it: Interpreter, f: FuncV, node: ir.Node) -> bool:
    """Whether the body evaluates the expression ``node`` on every path that does not raise before it."""
    if isinstance(f.node, ir.Lambda):
        return False
    for s in body_of(it, f):
        if not isinstance(s, (ir.ExprStmt, ir.Assign, ir.AnnAssign, ir.AugAssign, ir.Return)):
            if holds(s, ir.Return) or holds(s, ir.Yield):
                return False
            continue
        if _evaluates(s, node):
            return True
        if isinstance(s, ir.Return):
            return False
    return False


def _evaluates(x: object, node: ir.Node) -> bool:
    """Whether ``node`` lies in ``x`` where evaluation cannot pass it by."""
    if x is node:
        return True
    if isinstance(x, (ir.BoolOp, ir.IfExp, ir.Lambda, ir.Comp, ir.Compare)):
        return False
    if isinstance(x, ir.Node):
        return any(_evaluates(getattr(x, name), node) for name in type(x).__struct_fields__)
    return isinstance(x, tuple) and any(_evaluates(y, node) for y in x)


EXPRESSIONS = (
    ir.Attribute, ir.Call, ir.Arg, ir.Subscript, ir.Slice, ir.Star, ir.TupleExpr, ir.ListExpr, ir.SetExpr, ir.DictExpr,
    ir.BinOp, ir.UnaryOp, ir.BoolOp, ir.Compare, ir.IfExp, ir.Comp, ir.Generator, ir.FString, ir.Await, ir.Yield,
    ir.WithItem,
)  # fmt: skip

_NESTED: dict[int, tuple[object, bool]] = {}


def keeps_environment(it: Interpreter, f: FuncV) -> bool:
    """Whether something made inside the function may outlive the call and still see its locals."""
    found = _NESTED.get(id(f.node))
    if found is not None and found[0] is f.node:
        return found[1]
    result = isinstance(f.node, ir.Lambda) or any(_holds_function(s) for s in body_of(it, f))
    _NESTED[id(f.node)] = (f.node, result)
    return result


CONSUMERS = frozenset(
    {
        "all",
        "any",
        "sum",
        "list",
        "tuple",
        "set",
        "frozenset",
        "dict",
        "max",
        "min",
        "sorted",
        "join",
        "extend",
        "update",
    }
)


def _consumes(f: ir.Expr) -> bool:
    return (f.id if isinstance(f, ir.Name) else f.attr if isinstance(f, ir.Attribute) else "") in CONSUMERS


def _holds_function(node: object) -> bool:
    if isinstance(node, (ir.FunctionDef, ir.Lambda, ir.ClassDef)):
        return True
    if isinstance(node, ir.Comp) and node.kind == "generator":
        return True
    if isinstance(node, ir.Call) and len(node.args) == 1 and _consumes(node.func):
        (only,) = node.args
        if isinstance(only.value, ir.Comp) and only.value.kind == "generator":  # used up before the call returns
            return any(map(_holds_function, (only.value.element, *only.value.generators)))
    if isinstance(node, ir.Node):
        return any(_holds_function(getattr(node, name)) for name in type(node).__struct_fields__)
    if isinstance(node, tuple):
        return any(map(_holds_function, node))
    return False


def holds(node: object, kind: type) -> bool:
    """Whether a node of that kind lies in ``node``."""
    if isinstance(node, kind):
        return True
    if isinstance(node, ir.Node):
        return any(holds(getattr(node, name), kind) for name in type(node).__struct_fields__)
    return isinstance(node, tuple) and any(holds(x, kind) for x in node)
