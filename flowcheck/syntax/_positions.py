"""Exact positions of the nodes of one slice.

Owns what a position means here: as the standard ``ast`` has it (parentheses belong to a tuple and to a generator
expression, to nothing else; a statement ends with its last statement; a definition starts at its keyword), but counted
in code points from 1.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from flowcheck.syntax._model import DefSpan
from flowcheck.syntax._scan import line_starts
from flowcheck.syntax.ir import Span

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import CodePosition

    from flowcheck.syntax._lower_stmt import Lowerer

__all__ = ["definition_span", "spans_of"]

_WITH_PARENTHESES = ("Tuple", "GeneratorExp")


def definition_span(span: DefSpan, starts: list[int]) -> Span:
    """The position of a whole definition; ``starts`` are the offsets of the file's lines."""
    last = bisect_right(starts, span.end)
    return Span(span.line, span.start - starts[span.line - 1] + 1, last, span.end - starts[last - 1] + 1)


def spans_of(
    tree: cst.Module, nodes: list[Any], lowerer: Lowerer, text: str, shift: int, dropped: dict[int, int]
) -> list[Span]:
    """The position of each of ``nodes``, which ``lowerer`` took from ``tree``; a node may be a sequence of nodes.

    ``text`` is the file's, ``shift`` is added to the tree's lines, ``dropped`` tells how many characters the start of
    one of the tree's lines lacks.
    """
    from libcst.metadata import MetadataWrapper, PositionProvider

    ranges: Any = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)
    located = _Located(ranges, lowerer, line_starts(text), shift, dropped)
    return [located.span(node) for node in nodes]


class _Located:
    def __init__(self, ranges: Any, lowerer: Lowerer, starts: list[int], shift: int, dropped: dict[int, int]) -> None:
        self._ranges = ranges
        self._lowerer = lowerer
        self._starts = starts
        self._shift = shift
        self._dropped = dropped

    def span(self, node: Any) -> Span:
        if isinstance(node, (list, tuple)):  # the items of a subscript, which are a tuple without a node of its own
            first, last = self.span(node[0].slice), self.span(node[-1].slice)
            end = (last.end_line, last.end_column)
            if type(node[-1].comma).__name__ == "Comma":
                end = self._end(node[-1].comma)
            return Span(first.line, first.column, *end)
        if type(node).__name__ == "Slice":
            return Span(*self._slice_start(node), *self._slice_end(node))
        definition = self._lowerer.spans.get(node)
        if definition is not None:  # the tree may lack its body
            return definition_span(definition, self._starts)
        return Span(*self._start(node), *self._end(node))

    def _slice_start(self, node: cst.Slice) -> tuple[int, int]:
        if node.lower is None:
            return self._start(node.first_colon)
        return self._start(node.lower.lpar[0] if node.lower.lpar else node.lower)

    def _slice_end(self, node: cst.Slice) -> tuple[int, int]:
        second = type(node.second_colon).__name__ == "Colon"
        last = node.step if second else node.upper
        if last is None:
            return self._end(node.second_colon if second else node.first_colon)
        return self._end(last.rpar[-1] if last.rpar else last)

    def _start(self, node: Any) -> tuple[int, int]:
        if type(node).__name__ in _WITH_PARENTHESES and node.lpar:
            node = node.lpar[-1]
        elif node in self._lowerer.calls:  # the parentheses of the call are those of the generator too
            start = self._ranges[self._lowerer.calls[node].whitespace_before_args].start
            line, column = self._place(start)
            return line, column - 1
        return self._place(self._ranges[node].start)

    def _end(self, node: Any) -> tuple[int, int]:
        while True:
            if isinstance(node, (list, tuple)):
                node = node[-1]
            definition = self._lowerer.spans.get(node)
            if definition is not None:
                span = definition_span(definition, self._starts)
                return span.end_line, span.end_column
            last = _last_part(node)
            if last is None:
                break
            node = last
        if type(node).__name__ in _WITH_PARENTHESES and node.rpar:
            node = node.rpar[0]
        elif node in self._lowerer.calls:
            node = self._lowerer.calls[node]
        return self._place(self._ranges[node].end)

    def _place(self, position: CodePosition) -> tuple[int, int]:
        return position.line + self._shift, position.column + 1 + self._dropped.get(position.line, 0)


def _last_part(node: Any) -> Any:
    """What a compound statement ends with; None for anything else."""
    kind = type(node).__name__
    if kind in ("SimpleStatementLine", "SimpleStatementSuite"):
        last = node.body[-1]
        # A last semicolon belongs to the compound statement, not to the simple one.
        return last.semicolon if type(last.semicolon).__name__ == "Semicolon" else last
    if kind == "IndentedBlock":
        return node.body[-1] if node.body else None
    if kind in ("Try", "TryStar"):
        return node.finalbody or node.orelse or (node.handlers[-1] if node.handlers else node.body)
    if kind in ("If", "For", "While"):
        return node.orelse or node.body
    if kind == "Match":
        return node.cases[-1]
    if kind in ("With", "Else", "Finally", "ExceptHandler", "ExceptStarHandler", "MatchCase"):
        return node.body
    return None
