"""The syntax of a whole tree, a module at a time and only on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from flowcheck.syntax._decode import decode
from flowcheck.syntax._model import SyntaxProblem
from flowcheck.syntax.module import ModuleSyntax

__all__ = ["SyntaxStore", "Tree"]


class Tree(Protocol):
    """What this room asks of a source tree. Paths are relative to it, with "/"."""

    def paths(self) -> tuple[str, ...]: ...
    def read(self, path: str) -> bytes: ...
    def file_digest(self, path: str) -> str: ...
    def module_name(self, path: str) -> str: ...
    def path_of(self, module: str) -> str | None: ...


@dataclass
class SyntaxStats:
    """What a run has cost so far; sizes in bytes."""

    definitions_indexed: int = 0
    definitions_parsed: int = 0
    bytes_parsed: int = 0
    files_indexed: int = 0


class SyntaxStore:
    """Modules by path; ``problems`` lists each file or definition that could not be parsed, once."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.stats = SyntaxStats()
        self.problems: list[tuple[str, str]] = []
        self._modules: dict[str, ModuleSyntax | SyntaxProblem] = {}

    def module(self, path: str) -> ModuleSyntax:
        """The module at ``path``. Raises SyntaxProblem, each time, where its top level cannot be parsed."""
        module = self._modules.get(path)
        if module is None:
            try:
                module = ModuleSyntax(
                    path, self.tree.module_name(path), decode(path, self.tree.read(path)), self._report
                )
            except SyntaxProblem as problem:
                self._report(problem)
                module = problem
            self._modules[path] = module
        if isinstance(module, SyntaxProblem):
            raise module
        return module

    def _report(self, problem: SyntaxProblem) -> None:
        entry = (problem.path, str(problem))
        if entry not in self.problems:
            self.problems.append(entry)
