"""What the tree tells its target to capture once it has read the draft's configuration: its own code reads it.

The tree's runner of models reads the draft's file and calls the target's setter, in the midst of much that needs a GPU.
Only the statements that lead to that call are run (:mod:`flowcheck.probe.rank.slices`), on a target that keeps what it is told.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowcheck.probe.protocol import IdsRead, Job
from flowcheck.probe.rank import bridges, models
from flowcheck.probe.rank.slices import Method, bare, methods_of
from flowcheck.probe.rank.tree import Tree, Unbridged, filled

__all__ = ["read_ids"]


def read_ids(tree: Tree, job: Job) -> IdsRead:
    """Lets the tree read the draft's configuration and tell a target.

    Args:
        tree: The scanned tree.
        job: Whose draft and target; its server arguments are made and published here.

    Returns:
        The calls of the setter, and where the tree makes them.

    Raises:
        Unbridged: the tree has no such runner, or nothing in it tells a target.
        Exception: whatever the tree raises on the way.
    """
    table = tree.names["ids"]
    cls = tree.need(table["module"], table["cls"])
    settings = {**filled(table["arguments"], {"draft": job.draft, "algorithm": job.algorithm}), **job.settings}
    arguments, _, _ = bridges.publish(tree, replace(job, settings=settings), 0)
    own, _, how = bridges.config_of(tree, job, arguments, job.target)
    if own is None:
        raise Unbridged(f"the tree's own configuration of the target cannot be made: {how}")
    tree.tells(models.class_named(tree, job.architecture))
    setter = tree.names["models"]["setter"]
    methods = methods_of(cls, tree.package)
    target = _target(setter)
    given = filled(table["given"], {"arguments": arguments, "config": own, "ranks": job.ranks, "target": job.target})
    where = []
    for method in methods:
        if statements := _telling(method, setter, tree.package):
            runner = bare(cls, methods, given, {table["model"]: target})
            method.run(statements, runner, given)
            where += [_short(method.where(each), job) for each in statements]
    if not where:
        raise Unbridged(f"nothing in {cls.__name__} calls {setter} with ids")
    return IdsRead(tuple(target.told), tuple(where))


def _target(setter: str) -> Any:
    """A target that keeps what it is told."""
    told: list[tuple[int, ...] | None] = []

    def keep(self: Any, ids: Any = None, *others: Any) -> None:
        told.append(None if ids is None else tuple(int(each) for each in ids))

    made = type("Target", (), {setter: keep})()
    made.told = told
    return made


def _telling(method: Method, setter: str, package: str) -> list[ast.stmt]:
    """The statements that call the setter with ids, themselves or through a function of the package that does."""

    def tells(part: ast.AST) -> bool:
        if not isinstance(part, ast.Call):
            return False
        if isinstance(part.func, ast.Attribute) and part.func.attr == setter:
            return bool(part.args or part.keywords)
        function = _resolved(part.func, method.function.__globals__)
        return (
            isinstance(function, types.FunctionType)
            and function.__module__.split(".")[0] == package
            and setter in _names(function.__code__)
        )

    return method.statements(tells)


def _resolved(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """What a dotted name stands for in a module."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(above := _resolved(node.value, names), types.ModuleType):
        return getattr(above, node.attr, None)
    return None


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)


def _short(where: str, job: Job) -> str:
    path, _, rest = where.rpartition(":")
    return f"{Path(path).relative_to(job.tree) if path.startswith(job.tree) else Path(path).name}:{rest}"
