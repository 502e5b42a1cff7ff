"""On released code: the lowered tree is that of the standard ``ast``, and the index finds what a parser finds."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest

from flowcheck.source import open_source
from flowcheck.syntax import SyntaxStore
from tests.syntax.oracle import AstDump, IrDump, difference

pytestmark = [
    pytest.mark.long,
    pytest.mark.release,
    pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning"),
]


@pytest.mark.parametrize(("release", "step"), [("0.5.6", 10), ("0.5.23", 60)])
def test_lowering_agrees_with_ast(release: str, step: int) -> None:
    tree = open_source(f"sglang=={release}")
    store = SyntaxStore(tree)
    for path in tree.core_paths()[::step]:
        module = store.module(path)
        assert difference(AstDump(module.text).module(), IrDump(module).module(), path) is None
    assert not store.problems


def stores_of(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each attribute that a file binds, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.end_lineno or 0
        elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            callee = node.func
            name = callee.id if isinstance(callee, ast.Name) else getattr(callee, "attr", "")
            if name in ("setattr", "__setattr__"):
                yield node.args[1].value, node.lineno  # type: ignore[misc]


def test_the_index_agrees_with_ast() -> None:
    tree = open_source("sglang==0.5.6")
    store = SyntaxStore(tree, index_paths=tree.core_paths())
    definitions: dict[str, set[tuple[str, int]]] = defaultdict(set)
    stores: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for path in tree.core_paths():
        parsed = ast.parse(tree.read(path))
        for name, line in stores_of(parsed):
            stores[name].add((path, line))
        for node in ast.walk(parsed):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                definitions[node.name].add((path, node.lineno))
    for name, places in definitions.items():
        assert {(ref.path, ref.line) for ref in store.index.definitions(name)} == places
    assert store.index.definition_count == sum(map(len, definitions.values()))
    for name in sorted(stores)[::5]:
        assert {(use.path, use.line) for use in store.index.attribute_stores(name)} == stores[name], name
