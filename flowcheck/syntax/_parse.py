"""From a slice of text to IR, through libcst.

Owns how a slice is cut so that lines and columns stay exact, and how libcst is called. libcst is imported on first use:
a scan that finds everything in its cache never pays for it.
"""

from __future__ import annotations

import gc
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from flowcheck.syntax import _bounds, ir
from flowcheck.syntax._deep import with_deep_stack
from flowcheck.syntax._lower_stmt import Lowerer, StructureMismatchError
from flowcheck.syntax._model import DefSpan, SyntaxProblem
from flowcheck.syntax._positions import spans_of
from flowcheck.syntax._scan import Structure, mask, unterminated_string, without_form_feeds

if TYPE_CHECKING:
    import libcst as cst

__all__ = ["BodySlice", "ModuleSlice"]

_MAX_ELIFS = 1000  # libcst nests them
_SAFE_ELIFS = 150

_PREFIX = "if 1:\n"
_PARSER_ERROR = re.compile(r"parser error: error at (\d+):(\d+)")

T = TypeVar("T")


class _Slice(ABC):
    """A piece of a file that is parsed on its own. ``shift`` is what its line numbers lack to be the file's."""

    def __init__(self, path: str, text: str, structure: Structure, source: str, shift: int) -> None:
        self.path = path
        self.text = text
        self.structure = structure
        self.source, self._dropped = without_form_feeds(source) if "\f" in source else (source, {})
        self.shift = shift
        self.first_line = max(1, shift + 1 + source.startswith(_PREFIX))

    @abstractmethod
    def _long_lines(self) -> Iterator[tuple[int, int]]:
        """Start and end of the long logical lines that the slice holds, as offsets in ``text``."""

    @abstractmethod
    def _lowerer(self, nodes: list[Any] | None) -> Lowerer:
        """What makes IR of the slice; it appends the nodes that it numbers to ``nodes``."""

    @abstractmethod
    def _lowered(self, tree: cst.Module, lowerer: Lowerer) -> tuple[tuple[ir.Stmt, ...], bool]:
        """The statements of the slice in ``tree``, and whether a ``yield`` stands among them."""

    def lower(self) -> tuple[tuple[ir.Stmt, ...], bool]:
        """The statements, and whether a ``yield`` stands among them. Raises SyntaxProblem."""
        return self._run(lambda: self._lowered(self._parsed(), self._lowerer(None)))

    def spans(self) -> list[ir.Span]:
        """The span of each node that :meth:`lower` numbers. Raises SyntaxProblem."""

        def work() -> list[ir.Span]:
            nodes: list[Any] = []
            tree, lowerer = self._parsed(), self._lowerer(nodes)
            self._lowered(tree, lowerer)
            return spans_of(tree, nodes, lowerer, self.text, self.shift, self._dropped)

        return self._run(work)

    def _run(self, work: Callable[[], T]) -> T:
        deep = self._check()
        with _quiet_gc():
            if not deep:
                try:
                    return work()
                except RecursionError:
                    pass  # the caller may itself be deep: a stack of its own is worth a second try
            try:
                return with_deep_stack(work)
            except RecursionError as error:
                raise SyntaxProblem(self.path, self.first_line, "nested too deeply") from error

    def _check(self) -> bool:
        """Whether the slice needs a deep stack. Raises SyntaxProblem where it must not be parsed at all."""
        if len(self.source) > _bounds.MAX_LENGTH:
            raise SyntaxProblem(self.path, self.first_line, f"more than {_bounds.MAX_LENGTH} characters")
        elifs = self.source.count("elif")
        if elifs > _MAX_ELIFS:
            raise SyntaxProblem(self.path, self.first_line, f"more than {_MAX_ELIFS} elif branches")
        deep = elifs > _SAFE_ELIFS
        for start, end in self._long_lines():
            reason = _bounds.excess(self.text, start, end)
            if reason:
                raise SyntaxProblem(self.path, self.text.count("\n", 0, start) + 1, reason)
            deep = deep or _bounds.is_deep(self.text, start, end)
        return deep

    def _parsed(self) -> cst.Module:
        import libcst

        try:
            return libcst.parse_module(self.source)
        except libcst.ParserSyntaxError as error:
            line, reason = _located(error, self.source)
            raise SyntaxProblem(self.path, max(line + self.shift, self.first_line), reason) from error
        except libcst.CSTValidationError as error:
            raise SyntaxProblem(self.path, self.first_line, str(error)) from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # a bug in libcst's Rust half, which is no Exception
                raise
            raise SyntaxProblem(self.path, self.first_line, f"libcst failed: {error}") from error

    @contextmanager
    def _mismatches(self) -> Iterator[None]:
        try:
            yield
        except StructureMismatchError as error:
            raise SyntaxProblem(self.path, self.first_line, f"definitions not understood: {error}") from error


class ModuleSlice(_Slice):
    """A module's top level: every outermost function's body is one string; the lines and all headers are kept.

    A string of empty lines, since libcst makes a node of every empty line that is outside of one.

    ``is_generator`` says of each of these functions what its body would tell.
    """

    def __init__(self, path: str, text: str, structure: Structure, is_generator: Callable[[DefSpan], bool]) -> None:
        pieces: list[str] = []
        position = 0
        for span in structure.spans:
            if not span.local and span.kind == "def":
                lines = text.count("\n", span.header_end, span.end)
                pieces += (text[position : span.header_end], ' """', "\n" * lines, '"""')
                position = span.end
        pieces.append(text[position:])
        super().__init__(path, text, structure, "".join(pieces), 0)
        self._is_generator = is_generator

    def _long_lines(self) -> Iterator[tuple[int, int]]:
        bodies = (span for span in self.structure.spans if span.kind == "def" and not span.local)
        body = next(bodies, None)
        for start, end in self.structure.long_lines:
            while body is not None and body.end <= start:
                body = next(bodies, None)
            if body is None or start < body.header_end:
                yield start, end

    def _lowerer(self, nodes: list[Any] | None) -> Lowerer:
        return Lowerer((span for span in self.structure.spans if not span.local), self._is_generator, nodes)

    def _lowered(self, tree: cst.Module, lowerer: Lowerer) -> tuple[tuple[ir.Stmt, ...], bool]:
        with self._mismatches():
            return lowerer.module(tree), False


class BodySlice(_Slice):
    """One function with everything in it.

    An indented one hangs under an ``if``: dedenting it would move its columns and change its strings.
    """

    def __init__(self, path: str, text: str, structure: Structure, index: int) -> None:
        span = structure.spans[index]
        # A form feed sets the column back to 0: what stands before one is no indentation.
        indent = text[span.start - span.indent : span.start].rpartition("\f")[2]
        prefix = _PREFIX if indent else ""
        source = f"{prefix}{text[span.start - span.indent : span.end]}\n"
        super().__init__(path, text, structure, source, span.line - (2 if prefix else 1))
        self._index = index
        self._span = span

    def _long_lines(self) -> Iterator[tuple[int, int]]:
        for start, end in self.structure.long_lines:
            if start < self._span.end and end > self._span.start:
                yield start, end

    def _lowerer(self, nodes: list[Any] | None) -> Lowerer:
        return Lowerer(self.structure.inside(self._index), None, nodes)

    def _lowered(self, tree: cst.Module, lowerer: Lowerer) -> tuple[tuple[ir.Stmt, ...], bool]:
        node: Any = tree.body[0]
        if type(node).__name__ == "If":
            node = node.body.body[0]
        if type(node).__name__ != "FunctionDef":
            raise SyntaxProblem(self.path, self._span.line, f"no definition of {self._span.name} here")
        with self._mismatches():
            return lowerer.function_body(node)


@contextmanager
def _quiet_gc() -> Iterator[None]:
    """No garbage collection while a tree is built and dropped: it would walk it again and again for nothing."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _located(error: cst.ParserSyntaxError, source: str) -> tuple[int, str]:
    """The line in ``source`` to blame for a syntax error, and the reason in a phrase.

    libcst gives the end of what its parser did not expect, but no place for what its tokenizer refused.
    """
    message = error.message
    place = _PARSER_ERROR.match(message)
    if place is not None:
        line, column = int(place[1]), int(place[2])
        before = source.split("\n")[:line]
        if (before[line - 1 :] and before[-1][:column].strip()) or ", pass, " in message:
            return line, f"invalid syntax at column {column}"
        # Nothing stands before it, and it is no indentation, after which a statement may come: it is a line end, whose
        # own end is where the next token begins.
        code = [number for number, text in enumerate(before[: line - 1], 1) if text.strip()]
        return (code[-1] if code else line), "invalid syntax at the end of the line"
    reason = message.removeprefix("tokenizer error: ")
    at = None
    if reason.startswith("unterminated"):
        at = unterminated_string(source)
    elif reason.startswith("'"):
        found = mask(source).find(reason[1])
        at = found if found >= 0 else None
    line = 1 if at is None else source.count("\n", 0, at) + 1
    return line, reason
