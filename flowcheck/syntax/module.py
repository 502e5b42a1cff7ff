"""One module of the tree: its statements at once, each function's statements and all positions on demand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from flowcheck.syntax import _cache, ir
from flowcheck.syntax._model import DefSpan, SyntaxProblem
from flowcheck.syntax._parse import BodySlice, ModuleSlice
from flowcheck.syntax._positions import definition_span
from flowcheck.syntax._source import SourceFile

__all__ = ["ModuleSyntax", "SyntaxStats"]


class SyntaxStats:
    """What a run has cost so far; a definition is counted as parsed when libcst had to read it."""

    def __init__(self) -> None:
        self.files_indexed = 0
        self.count_definitions: Callable[[], int] = lambda: 0
        self.slices: dict[tuple[str, int], int] = {}
        """What libcst has read, as a file and the number of a definition in it (-1: the top level), and its bytes."""

    @property
    def definitions_parsed(self) -> int:
        """How many slices libcst has read."""
        return len(self.slices)

    @property
    def bytes_parsed(self) -> int:
        """How many bytes these slices have."""
        return sum(self.slices.values())

    @property
    def definitions_indexed(self) -> int:
        """The number of definitions that the name index covers, 0 where nothing has asked it anything."""
        return self.count_definitions()

    def parsed(self, path: str, index: int, source: str) -> None:
        """Count one slice that libcst has read."""
        self.slices[path, index] = len(source.encode("utf-8", "surrogatepass"))


class ModuleSyntax:
    """The syntax of one file.

    ``path`` is relative to the tree, ``name`` the dotted module name, ``body`` the top level, where every function
    has ``body=None``.
    """

    def __init__(
        self, source: SourceFile, name: str, stats: SyntaxStats, report: Callable[[SyntaxProblem], None]
    ) -> None:
        """Raises SyntaxProblem where the top level cannot be parsed; a body that cannot goes to ``report``."""
        self.path = source.path
        self.name = name
        self.is_package = source.path.rpartition("/")[2] == "__init__.py"
        self._source = source
        self._stats = stats
        self._report = report
        self._bodies: dict[int, _cache.Body] = {}
        self._positions: dict[int, list[ir.Span] | ir.Span] = {}
        self.body = self._lowered_module()

    @property
    def text(self) -> str:
        """The whole file, decoded, with "\\n" line ends and without a byte order mark."""
        return self._source.text

    @property
    def definitions(self) -> tuple[DefSpan, ...]:
        """Every definition of the file in source order."""
        return self._source.structure.spans

    def body_of(self, fn: ir.FunctionDef) -> tuple[ir.Stmt, ...]:
        """The statements of a function of this module. One that cannot be parsed is a single :class:`ir.Opaque`."""
        if fn.body is not None:
            return fn.body
        return self._body_at(self._index_of(fn)).statements

    def parse_all(self) -> None:
        """Parse every function; what cannot be parsed is reported."""
        for index, span in enumerate(self.definitions):
            if span.kind == "def" and not span.local:
                self._body_at(index)

    def def_source(self, fn: ir.FunctionDef) -> str:
        """The text of a definition from its ``def`` or ``async`` on, without decorators."""
        span = self.definitions[self._index_of(fn)]
        return self.text[span.start : span.end]

    def span(self, owner: ir.FunctionDef | None, nid: int) -> ir.Span:
        """The position of the node ``nid`` of the slice that ``owner`` names: a function's body, or the top level.

        ``owner`` is a function whose own ``body`` is None; nodes of a function nested in it belong to the same slice.
        Raises IndexError for a number that no node of the slice has. Where positions cannot be had, of what cannot be
        parsed or nests more deeply than this Python recurses, each node has that of the whole slice.
        """
        key = -1 if owner is None else self._index_of(owner)
        spans = self._positions.get(key)
        if spans is None:
            spans = self._positions[key] = self._spans(key)
        if isinstance(spans, ir.Span):
            return spans
        if nid < 0:
            raise IndexError(nid)
        return spans[nid]

    def _spans(self, key: int) -> list[ir.Span] | ir.Span:
        try:
            if key < 0:
                return self._module_slice().spans()
            return BodySlice(self.path, self.text, self._source.structure, key).spans()
        except SyntaxProblem:  # reported when the statements were asked for, if they cannot be parsed
            return ir.Span(1, 1, 1, 1) if key < 0 else definition_span(self.definitions[key], self._source.starts)

    @cached_property
    def _by_line(self) -> dict[int, int]:
        return {span.line: index for index, span in enumerate(self.definitions)}

    def _index_of(self, fn: ir.FunctionDef) -> int:
        index = self._by_line.get(fn.line)
        if index is None or self.definitions[index].qualname != fn.qualname:
            raise LookupError(f"{fn.qualname} at line {fn.line} is no function of {self.path}")
        return index

    def _module_slice(self) -> ModuleSlice:
        return ModuleSlice(self.path, self.text, self._source.structure, self._is_generator)

    def _lowered_module(self) -> tuple[ir.Stmt, ...]:
        known = self._cached(_cache.TOP_LEVEL)
        if known is not None:
            return known.statements
        body = self._lowered(_cache.TOP_LEVEL, self._module_slice())
        return body.statements

    def _body_at(self, index: int) -> _cache.Body:
        body = self._bodies.get(index)
        if body is None:
            body = self._cached(index)
            if body is None:
                try:
                    body = self._lowered(index, BodySlice(self.path, self.text, self._source.structure, index))
                except SyntaxProblem as problem:
                    self._report(problem)
                    body = _cache.Body((ir.Opaque(0, f"cannot be parsed: {problem.reason}"),), False)
            self._bodies[index] = body
        return body

    def _cached(self, index: int) -> _cache.Body | None:
        encoded = self._source.entry.slices.get(index)
        return _cache.decode_body(encoded) if encoded is not None else None

    def _lowered(self, index: int, piece: ModuleSlice | BodySlice) -> _cache.Body:
        body = _cache.Body(*piece.lower())
        self._stats.parsed(self.path, index, piece.source)
        if self._source.is_cached:
            encoded = _cache.encode(body)
            if encoded is not None:
                self._source.entry.slices[index] = encoded
                self._source.changed()
        return body

    def _is_generator(self, span: DefSpan) -> bool:
        if "yield" not in self.text[span.header_end : span.end]:
            return False
        return self._body_at(self._by_line[span.line]).is_generator
