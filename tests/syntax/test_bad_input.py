"""Files that libcst or Python would choke on: one clear problem each, and the rest goes on."""

from __future__ import annotations

import sys

import pytest

from flowcheck.syntax import ModuleSyntax, SyntaxProblem, SyntaxStore, _parse, ir
from tests.syntax.trees import module_of, store_of


def functions(module: ModuleSyntax) -> dict[str, tuple[ir.Stmt, ...]]:
    return {fn.name: module.body_of(fn) for fn in module.body if isinstance(fn, ir.FunctionDef)}


def store_with(statement: str) -> SyntaxStore:
    return store_of({"m.py": f"def before(): return 1\ndef f():\n    x = 1\n    {statement}\ndef after(): return 2\n"})


DEADLY = {
    "parentheses": "y = " + "(" * 3000 + "1" + ")" * 3000,
    "sum": "y = " + "+".join(["1"] * 20_000),
    "signs": "y = " + "-" * 20_000 + "1",
    "attributes": "y = x" + ".a" * 20_000,
    "calls": "y = x" + "()" * 20_000,
    "conditions": "y = " + "1 if x else " * 20_000 + "2",
    "nots": "y = " + "not " * 20_000 + "x",
    "booleans": "y = " + " and ".join(["x"] * 20_000),
    "strings": "y = (" + "'a' " * 20_000 + ")",
    "lists": "y = " + "[" * 3000 + "]" * 3000,
    "format fields": "y = f'" + "{f(" * 3000 + "1" + ")}" * 3000 + "'",
    "format strings": "y = " + "f'{" * 3000 + "1" + "}'" * 3000,
    "lines": "y = (\n" + "(\n" * 3000 + "1" + "\n)" * 3000 + ")",
    "elif": "if x: pass\n" + "    elif x: pass\n" * 20_000,
    "blocks": "if x:\n" + "".join(" " * (5 + n) + "if x:\n" for n in range(1000)) + " " * 1100 + "pass",
}


@pytest.mark.parametrize("statement", DEADLY.values(), ids=DEADLY)
def test_what_would_kill_the_parser_is_refused(statement: str) -> None:
    store = store_with(statement)
    bodies = functions(store.module("m.py"))
    assert [type(body[0]) for body in bodies.values()] == [ir.Return, ir.Opaque, ir.Return]
    (problem,) = store.problems
    text = str(problem)
    assert problem.path == "m.py"
    assert text.startswith(("m.py:2: ", "m.py:4: ")) or "indentation" in text
    with pytest.raises(SyntaxProblem, match=r"m\.py:\d+: "):
        store_of({"m.py": statement}).module("m.py")


DEEP = {
    "parentheses": "y = " + "(" * 190 + "1" + ")" * 190,
    "calls": "y = " + "f(a=" * 150 + "1" + ")" * 150,
    "sum": "y = " + " + ".join(["1"] * 1200),
    "attributes": "y = x" + ".a" * 600,
    "lambdas": "y = " + "lambda: " * 300 + "1",
    "elif": "if x: pass\n" + "    elif x: pass\n" * 500,
}


@pytest.mark.parametrize("statement", DEEP.values(), ids=DEEP)
def test_what_is_merely_deep_is_parsed_with_positions(statement: str) -> None:
    limit = sys.getrecursionlimit()
    store = store_with(statement)
    module = store.module("m.py")
    assert not isinstance(functions(module)["f"][1], ir.Opaque)
    assert not store.problems
    f = next(fn for fn in module.body if isinstance(fn, ir.FunctionDef) and fn.name == "f")
    # Python 3.12 bounds the recursion through C whatever limit is set: a place is then that of the definition.
    assert module.span(f, module.body_of(f)[1].nid).line in ((2, 4) if sys.version_info[:2] == (3, 12) else (4,))
    assert sys.getrecursionlimit() == limit


def test_where_positions_cannot_be_had_a_place_is_that_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of("x = 1\n\n\ndef f():\n    return 1\n")

    def refuse(*unused: object) -> list[ir.Span]:
        raise RecursionError

    monkeypatch.setattr(_parse, "spans_of", refuse)
    _, f = module.body
    assert isinstance(f, ir.FunctionDef)
    assert module.span(f, module.body_of(f)[0].nid).line == 4
    assert module.span(None, f.nid).line == 1


def test_a_deep_module_may_hold_a_deep_generator() -> None:
    deep = " + ".join(["1"] * 600)
    module = module_of(f"x = {deep}\ndef f():\n    yield {deep}\n")
    f = module.body[1]
    assert isinstance(f, ir.FunctionDef)
    assert f.is_generator


def test_long_flat_displays_are_not_deep() -> None:
    store = store_with("y = [" + "-1.5, x.y(2), 'a', " * 2000 + "]")
    assert not isinstance(functions(store.module("m.py"))["f"][1], ir.Opaque)
    assert not store.problems


def test_a_caller_near_its_recursion_limit_gets_its_body() -> None:
    module = module_of("def f():\n    return " + "-".join("a(b)" for _ in range(20)) + "\n")
    (f,) = module.body
    assert isinstance(f, ir.FunctionDef)

    def down(levels: int) -> tuple[ir.Stmt, ...]:
        return down(levels - 1) if levels else module.body_of(f)

    depth = len(__import__("inspect").stack(0))
    (statement,) = down(sys.getrecursionlimit() - depth - 40)
    assert isinstance(statement, ir.Return)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("x = 1\ny = = 2\n", "m.py:2: "),
        ("def f(:\n    pass\n", "m.py:1: "),
        ("x = 1\nclass A\n\n    pass\n", "m.py:2: "),
        ("x = 1\n    y = 2\n", "m.py:2: "),
        ("if x:\npass\n", "m.py:2: "),
        ("x = 1\n\ny = 'abc\n", "m.py:3: unterminated"),
        ("x = 1\ny = '''abc\n\n\n", "m.py:2: unterminated"),
        ("x = 1\ny = 2 $ 3\n", "m.py:2: "),
        ("class A:\n    x = (\n    def f(self): pass\n", "m.py:3: "),
        (b"x = 1\ny = '\0'\n", "m.py:2: null byte"),
        (b"x = 1\r\ny = '\xff'\r\n", "m.py:2: not valid utf-8"),
        (b"x = '\xff'\n", "m.py:1: not valid utf-8"),
        (b"x = 1\n# caf\xe9\n", "m.py:2: not valid utf-8"),
        (b"# coding: no-such-codec\n", "m.py:1: "),
        (b"# coding: hex\nx\n", "m.py:1: "),
        (b"\xef\xbb\xbf# coding: latin-1\nx = 1\n", "m.py:1: "),
    ],
)
def test_a_module_that_does_not_parse_is_one_problem(source: bytes | str, place: str) -> None:
    store = store_of({"m.py": source, "good.py": "x = 1\n"})
    for _ in range(2):
        with pytest.raises(SyntaxProblem, match=place) as caught:
            store.module("m.py")
        assert "\n" not in str(caught.value)
    assert store.try_module("m.py") is None
    assert [str(problem) for problem in store.problems] == [str(caught.value)]
    assert len(store.module("good.py").body) == 1


@pytest.mark.parametrize("source", ["", "\n", "\f\n", "# c", "\ufeff", "\r"])
def test_files_without_code_are_empty(source: str) -> None:
    assert module_of(source).body == ()


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (b"\xef\xbb\xbfx = '\xc3\xa9'\n", "é"),
        (b"\xef\xbb\xbf# coding: utf-8\nx = '\xc3\xa9'\n", "é"),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "é"),
        (b"#!/bin/x\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n", "€"),
        (b"x = '''\r\na\rb'''\r\n", "\na\nb"),
        (b"x = 'no line end'", "no line end"),
    ],
)
def test_bytes_are_read_as_python_reads_them(source: bytes, value: str) -> None:
    module = module_of(source)
    (assign,) = module.body
    assert isinstance(assign, ir.Assign)
    assert isinstance(assign.value, ir.Const)
    assert assign.value.value == value
    span = module.span(None, assign.nid)
    assert span.column == 1
    namespace: dict[str, object] = {}
    exec(compile(source, "m.py", "exec"), namespace)
    assert namespace["x"] == value


def test_columns_count_code_points() -> None:
    module = module_of("\ufeffx = '𝒳é' + y\n")
    (assign,) = module.body
    assert isinstance(assign, ir.Assign)
    assert isinstance(assign.value, ir.BinOp)
    span = module.span(None, assign.value.right.nid)
    assert (span.line, span.column, span.end_column) == (1, 12, 13)


def test_an_unreadable_file_is_a_problem() -> None:
    store = store_of({"m.py": ""})

    def refuse(path: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    store.tree.read = refuse  # type: ignore[method-assign]
    with pytest.raises(SyntaxProblem, match=r"m\.py: cannot be read: Permission denied"):
        store.module("m.py")
