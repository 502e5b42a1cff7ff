"""From a slice of text to IR, through libcst.

Owns how a slice is cut so that lines and columns stay exact, and how libcst is called. libcst is imported here and
nowhere else, on first use.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flowcheck.syntax import ir
from flowcheck.syntax._lower_stmt import Lowerer, StructureMismatch
from flowcheck.syntax._model import DefSpan, SyntaxProblem

if TYPE_CHECKING:
    import libcst as cst

__all__ = ["body_slice", "lower_body", "lower_module", "module_slice"]


def module_slice(text: str, spans: Sequence[DefSpan]) -> str:
    """``text`` with every outermost function's body replaced by ``pass``; the line count and all headers are kept."""
    pieces = []
    position = 0
    for span in spans:
        if span.local or span.kind != "def":
            continue
        pieces += (text[position : span.header_end], " pass", "\n" * text.count("\n", span.header_end, span.end))
        position = span.end
    pieces.append(text[position:])
    return "".join(pieces)


def body_slice(text: str, span: DefSpan) -> tuple[str, int]:
    """The text to parse for one function, and what to add to its lines to get the file's.

    An indented definition hangs under an ``if``: dedenting it would move columns and the lines of its strings.
    """
    prefix = "if 1:\n" if span.indent else ""
    return f"{prefix}{text[span.start - span.indent : span.end]}\n", span.line - (2 if prefix else 1)


def lower_module(
    path: str,
    text: str,
    spans: Sequence[DefSpan],
    is_generator: Callable[[DefSpan], bool],
    nodes: list[Any] | None = None,
) -> tuple[tuple[ir.Stmt, ...], Any]:
    """A module's statements and its libcst tree. Raises SyntaxProblem."""
    tree = _parse(path, module_slice(text, spans), 0)
    lowerer = Lowerer((span for span in spans if not span.local), is_generator, nodes)
    with _mismatches(path, 1):
        return lowerer.module(tree), tree


def lower_body(
    path: str, text: str, spans: Sequence[DefSpan], index: int, nodes: list[Any] | None = None
) -> tuple[tuple[ir.Stmt, ...], bool, Any]:
    """One function's statements, whether it is a generator, and its libcst tree. Raises SyntaxProblem."""
    span = spans[index]
    source, shift = body_slice(text, span)
    tree = _parse(path, source, shift)
    node: Any = tree.body[0]
    if span.indent:
        node = node.body.body[0]
    if type(node).__name__ != "FunctionDef":
        raise SyntaxProblem(path, span.line, f"no definition of {span.name} here")
    last = index + 1
    while last < len(spans) and spans[last].start < span.end:
        last += 1
    lowerer = Lowerer(spans[index + 1 : last], None, nodes)
    with _mismatches(path, span.line):
        statements, generator = lowerer.function_body(node)
    return statements, generator, tree


@contextmanager
def _mismatches(path: str, line: int) -> Iterator[None]:
    try:
        yield
    except StructureMismatch as error:
        raise SyntaxProblem(path, line, f"definitions not understood: {error}") from error


@contextmanager
def quiet_gc() -> Iterator[None]:
    """No garbage collection while trees pile up: it would walk them again and again and find nothing."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _parse(path: str, source: str, shift: int) -> cst.Module:
    import libcst

    try:
        with quiet_gc():
            return libcst.parse_module(source)
    except libcst.ParserSyntaxError as error:
        raise SyntaxProblem(path, error.raw_line + shift, _reason(error)) from error
    except libcst.CSTValidationError as error:
        raise SyntaxProblem(path, shift + 1, str(error)) from error


def _reason(error: cst.ParserSyntaxError) -> str:
    return error.message
