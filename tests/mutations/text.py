"""Edits of Python text by syntax node: where a node starts and ends in the text, and splices that stay apart."""

from __future__ import annotations

import ast
import textwrap
from functools import cached_property

from tests.mutations.overlay import Release

__all__ = ["Draft", "NoSuchEdit", "Source"]


class NoSuchEdit(Exception):
    """This edit cannot be made at this place: it needs something that the code here has not."""


class Source:
    """One file: its text, its syntax tree with parents, and positions in characters."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents.setdefault(child, node)

    @cached_property
    def _lines(self) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        start = 0
        for line in self.text.split("\n"):
            found.append((start, line))
            start += len(line) + 1
        return found

    @cached_property
    def _by_line(self) -> dict[int, list[ast.AST]]:
        found: dict[int, list[ast.AST]] = {}
        for node in self.parents:
            found.setdefault(getattr(node, "lineno", 0), []).append(node)
        return found

    def offset(self, line: int, utf8_column: int) -> int:
        start, text = self._lines[line - 1]
        return start + (utf8_column if text.isascii() else len(text.encode()[:utf8_column].decode()))

    def span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, (ast.expr, ast.stmt, ast.keyword, ast.arg))
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def at(self, line: int, column: int) -> list[ast.AST]:
        """The nodes that start at a place as editors count it, the outermost first."""
        found = [node for node in self._by_line.get(line, ()) if self.span_column(node) == column]
        return sorted(found, key=lambda node: -self.span(node)[1])

    def span_column(self, node: ast.AST) -> int:
        if not isinstance(node, (ast.expr, ast.stmt, ast.keyword, ast.arg)):
            return -1
        return self.offset(node.lineno, node.col_offset) - self._lines[node.lineno - 1][0] + 1

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that holds a node."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def function(self, node: ast.AST) -> ast.FunctionDef | None:
        """The function that holds a node."""
        found = self.parents.get(node)
        while found is not None and not isinstance(found, ast.FunctionDef):
            found = self.parents.get(found)
        return found

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        found = self.parents.get(node)
        while found is not None and not isinstance(found, ast.ClassDef):
            found = self.parents.get(found)
        return found

    def classes(self, name: str) -> list[ast.ClassDef]:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name]

    def line_start(self, node: ast.stmt) -> int:
        """Where the line of a statement starts. Raises NoSuchEdit if something else stands before it."""
        line = node.lineno
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.decorator_list:
            line = node.decorator_list[0].lineno
        start, text = self._lines[line - 1]
        stripped = text.lstrip()
        if len(text) - len(stripped) != node.col_offset or stripped.startswith("elif"):
            raise NoSuchEdit("the statement does not start its line")
        return start

    def indent(self, node: ast.stmt) -> str:
        return " " * node.col_offset

    def line_end(self, node: ast.stmt) -> int:
        assert node.end_lineno is not None
        start, text = self._lines[node.end_lineno - 1]
        return start + len(text)

    def body_start(self, function: ast.FunctionDef) -> ast.stmt:
        """The first statement after the docstring."""
        for statement in function.body:
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                return statement
        raise NoSuchEdit("the function has no body")

    def imports(self, name: str) -> bool:
        """Whether the module binds ``name`` by an import at its top level, or defines it there."""
        for node in self.tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if any((alias.asname or alias.name.partition(".")[0]) == name for alias in node.names):
                    return True
            elif isinstance(node, ast.ClassDef) and node.name == name:
                return True
        return False


class Draft:
    """Splices over the files of a release, gathered and then applied at once."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self._splices: dict[str, list[tuple[int, int, str]]] = {}
        self._added: dict[str, str] = {}
        self._sources: dict[str, Source] = {}

    def splice(self, source: Source, start: int, end: int, text: str) -> None:
        self._sources[source.path] = source
        self._splices.setdefault(source.path, []).append((start, end, text))

    def replace(self, source: Source, node: ast.AST, text: str) -> None:
        self.splice(source, *source.span(node), text)

    def before(self, source: Source, statement: ast.stmt, lines: str) -> None:
        start = source.line_start(statement)
        self.splice(source, start, start, _indented(lines, source.indent(statement)))

    def after(self, source: Source, statement: ast.stmt, lines: str) -> None:
        source.line_start(statement)
        end = source.line_end(statement)
        self.splice(source, end, end, "\n" + _indented(lines, source.indent(statement)).rstrip("\n"))

    def instead(self, source: Source, statement: ast.stmt, lines: str) -> None:
        self.splice(
            source,
            source.line_start(statement),
            source.line_end(statement),
            _indented(lines, source.indent(statement)).rstrip("\n"),
        )

    def at_top(self, source: Source, lines: str) -> None:
        """Before the first definition of the module."""
        for node in source.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                start = source.line_start(node)
                self.splice(source, start, start, lines.rstrip("\n") + "\n\n\n")
                return
        raise NoSuchEdit("the module defines nothing")

    def at_end(self, source: Source, lines: str) -> None:
        self.splice(source, len(source.text), len(source.text), "\n\n" + lines.rstrip("\n") + "\n")

    def add(self, path: str, text: str) -> None:
        self._added[path] = text

    def changed(self) -> dict[str, bytes]:
        """The new contents. Raises NoSuchEdit where two splices overlap or what comes out is no Python."""
        out = {path: text.encode() for path, text in self._added.items()}
        for path, splices in self._splices.items():
            text = self._sources[path].text
            done = len(text) + 1
            for start, end, new in sorted(splices, key=lambda each: (each[0], each[1]), reverse=True):
                if end > done:
                    raise NoSuchEdit("two edits overlap")
                text = text[:start] + new + text[end:]
                done = start
            try:
                compile(text, path, "exec", dont_inherit=True)
            except SyntaxError as error:
                raise NoSuchEdit(f"gives no Python: {error}") from error
            out[path] = text.encode()
        return out


def _indented(lines: str, indent: str) -> str:
    return textwrap.indent(textwrap.dedent(lines).strip("\n"), indent) + "\n"
