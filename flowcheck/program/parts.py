"""The parts of expressions and statements, and the names in them."""

from __future__ import annotations

from collections.abc import Iterator

from flowcheck.syntax import ir

__all__ = ["bindings", "children", "names_in", "root_of", "sub_expressions", "target_names"]


def target_names(target: ir.Expr) -> Iterator[str]:
    """The names that an assignment target binds; attributes and subscripts bind none."""
    if isinstance(target, ir.Name):
        yield target.id
    elif isinstance(target, (ir.TupleExpr, ir.ListExpr)):
        for item in target.items:
            yield from target_names(item)
    elif isinstance(target, ir.Star):
        yield from target_names(target.value)


def children(node: object) -> Iterator[object]:
    """The direct parts of an expression or statement."""
    for name in _fields_of(type(node)):
        yield getattr(node, name)


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type) -> tuple[str, ...]:
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = tuple(n for n in kind.__struct_fields__ if n != "nid")  # type: ignore[attr-defined]
    return found


def sub_expressions(node: object) -> Iterator[ir.Node]:
    """Every expression node inside ``node``, itself included; nested function bodies are entered too."""
    stack: list[object] = [node]
    while stack:
        x = stack.pop()
        if isinstance(x, ir.Node):
            yield x
            for name in _fields_of(type(x)):
                part = getattr(x, name)
                if isinstance(part, (ir.Node, tuple)):
                    stack.append(part)
        elif isinstance(x, tuple):
            stack.extend(x)


def names_in(node: object) -> set[str]:
    """The names that an expression or statement mentions."""
    return {x.id for x in sub_expressions(node) if isinstance(x, ir.Name)}


def root_of(e: ir.Expr) -> str | None:
    """The name at which a chain of attributes, subscripts and calls begins, if it begins with one."""
    while isinstance(e, (ir.Attribute, ir.Subscript, ir.Star, ir.Call)):
        e = e.func if isinstance(e, ir.Call) else e.value
    return e.id if isinstance(e, ir.Name) else None


def bindings(body: tuple[ir.Stmt, ...]) -> Iterator[tuple[ir.Expr, ir.Expr | None]]:
    """The targets of a body, each with what is stored there."""
    for x in sub_expressions(body):
        if isinstance(x, ir.Assign):
            for target in x.targets:
                yield target, x.value
        elif isinstance(x, (ir.AnnAssign, ir.AugAssign, ir.Walrus)):
            yield x.target, x.value
        elif isinstance(x, ir.For):
            yield x.target, x.iter
        elif isinstance(x, ir.WithItem) and x.target is not None:
            yield x.target, x.value
