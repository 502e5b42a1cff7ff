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

__all__ = ["definition_span", "spans_of"]

_WITH_PARENTHESES = ("Tuple", "GeneratorExp")


def definition_span(span: DefSpan, starts: list[int]) -> Span:
    """The position of a whole definition; ``starts`` are the offsets of the file's lines."""
    last = bisect_right(starts, span.end)
    return Span(span.line, span.start - starts[span.line - 1] + 1, last, span.end - starts[last - 1] + 1)


def spans_of(
    tree: cst.Module, nodes: list[Any], definitions: dict[Any, DefSpan], text: str, shift: int
) -> list[Span]:
    """The position of each of ``nodes``, which belong to ``tree``; a node may be a sequence of nodes.

    ``shift`` is added to lines; definitions take their position from ``definitions``, since the tree may lack their
    bodies.
    """
    from libcst.metadata import MetadataWrapper, PositionProvider

    ranges: Any = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)
    starts = line_starts(text)

    def start_of(node: Any) -> tuple[int, int]:
        if isinstance(node, (list, tuple)):
            return start_of(node[0])
        if type(node).__name__ in _WITH_PARENTHESES and node.lpar:
            node = node.lpar[-1]
        position = ranges[node].start
        return position.line + shift, position.column + 1

    def end_of(node: Any) -> tuple[int, int]:
        while True:
            if isinstance(node, (list, tuple)):
                node = node[-1]
            if node in definitions:
                span = definition_span(definitions[node], starts)
                return span.end_line, span.end_column
            last = _last_part(node)
            if last is None:
                break
            node = last
        if type(node).__name__ in _WITH_PARENTHESES and node.rpar:
            node = node.rpar[0]
        position = ranges[node].end
        return position.line + shift, position.column + 1

    return [
        definition_span(definitions[node], starts)
        if not isinstance(node, (list, tuple)) and node in definitions
        else Span(*start_of(node), *end_of(node))
        for node in nodes
    ]


def _last_part(node: Any) -> Any:
    """What a compound statement ends with; None for anything else."""
    kind = type(node).__name__
    if kind in ("IndentedBlock", "SimpleStatementLine", "SimpleStatementSuite"):
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
