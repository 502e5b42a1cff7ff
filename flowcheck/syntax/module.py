"""One module of the tree: its statements at once, each function's statements on demand."""

from __future__ import annotations

from collections.abc import Callable

from flowcheck.syntax import ir
from flowcheck.syntax._model import DefSpan, SyntaxProblem
from flowcheck.syntax._parse import lower_body, lower_module
from flowcheck.syntax._scan import scan

__all__ = ["ModuleSyntax"]


class ModuleSyntax:
    """The syntax of one file.

    ``path`` is relative to the tree, ``name`` the dotted module name, ``body`` the top level, where every function
    has ``body=None``.
    """

    def __init__(self, path: str, name: str, text: str, report: Callable[[SyntaxProblem], None]) -> None:
        """Raises SyntaxProblem where the top level cannot be parsed; a body that cannot goes to ``report``."""
        self.path = path
        self.name = name
        self.is_package = path.rpartition("/")[2] == "__init__.py"
        self.text = text
        self.spans = scan(text)
        self._report = report
        self._by_line = {span.line: index for index, span in enumerate(self.spans)}
        self._bodies: dict[int, tuple[ir.Stmt, ...]] = {}
        self._generators: dict[int, bool] = {}
        self.body = lower_module(path, text, self.spans, self._is_generator)[0]

    def body_of(self, fn: ir.FunctionDef) -> tuple[ir.Stmt, ...]:
        """The statements of a function of this module. One that cannot be parsed is a single :class:`ir.Opaque`."""
        if fn.body is not None:
            return fn.body
        return self._body_at(self._by_line[fn.line])

    def def_source(self, fn: ir.FunctionDef) -> str:
        """The text of a definition from its ``def`` or ``async`` on, without decorators."""
        span = self.spans[self._by_line[fn.line]]
        return self.text[span.start : span.end]

    def _body_at(self, index: int) -> tuple[ir.Stmt, ...]:
        body = self._bodies.get(index)
        if body is None:
            try:
                body, generator, _ = lower_body(self.path, self.text, self.spans, index)
            except SyntaxProblem as problem:
                self._report(problem)
                body, generator = (ir.Opaque(0, f"cannot be parsed: {problem.reason}"),), False
            self._bodies[index] = body
            self._generators[index] = generator
        return body

    def _is_generator(self, span: DefSpan) -> bool:
        if "yield" not in self.text[span.header_end : span.end]:
            return False
        index = self._by_line[span.line]
        self._body_at(index)
        return self._generators[index]
