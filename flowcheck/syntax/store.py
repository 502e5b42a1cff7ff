"""The syntax of a whole tree, a module at a time and only on demand."""

from __future__ import annotations

from functools import cached_property
from types import TracebackType

from flowcheck.syntax._cache import SyntaxCache
from flowcheck.syntax._model import SyntaxProblem
from flowcheck.syntax._source import SourceFile, Tree
from flowcheck.syntax.index import NameIndex
from flowcheck.syntax.module import ModuleSyntax, SyntaxStats

__all__ = ["SyntaxStore"]


class SyntaxStore:
    """Modules by path, and the name index.

    ``problems`` lists each file and definition that could not be parsed, once. Leave it as a context manager, or call
    :meth:`save`, to write the cache.
    """

    def __init__(
        self, tree: Tree, cache: SyntaxCache | None = None, index_paths: tuple[str, ...] | None = None
    ) -> None:
        """``index_paths`` are the files that the index covers, those in the tree's scope if None."""
        self.tree = tree
        self._index_paths = index_paths
        self.stats = SyntaxStats()
        self.problems: list[SyntaxProblem] = []
        self._cache = cache
        self._sources: dict[str, SourceFile] = {}
        self._modules: dict[str, ModuleSyntax | SyntaxProblem] = {}

    def module(self, path: str) -> ModuleSyntax:
        """The module at ``path``. Raises SyntaxProblem, each time, where its top level cannot be parsed."""
        module = self._modules.get(path)
        if module is None:
            try:
                module = ModuleSyntax(self.source(path), self.tree.module_name(path), self.stats, self.report)
            except SyntaxProblem as problem:
                self.report(problem)
                module = problem
            self._modules[path] = module
        if isinstance(module, SyntaxProblem):
            raise module
        return module

    def try_module(self, path: str) -> ModuleSyntax | None:
        """The module at ``path``; None where it cannot be parsed, which ``problems`` then tells."""
        try:
            return self.module(path)
        except SyntaxProblem:
            return None

    def parse_whole(self, path: str) -> None:
        """Parse everything in a file; what cannot be parsed is in ``problems`` then."""
        module = self.try_module(path)
        if module is not None:
            module.parse_all()

    def source(self, path: str) -> SourceFile:
        """The file at ``path``, read when something of it is asked for."""
        source = self._sources.get(path)
        if source is None:
            source = self._sources[path] = SourceFile(self.tree, path, self._cache)
        return source

    def report(self, problem: SyntaxProblem) -> None:
        """Take note of a problem, once."""
        if all(str(problem) != str(known) for known in self.problems):
            self.problems.append(problem)

    @cached_property
    def index(self) -> NameIndex:
        """The name index; the first question to it reads every file that it covers, unless the cache knows them."""
        paths = self.tree.paths() if self._index_paths is None else self._index_paths
        index = NameIndex(self.tree, paths, self.source, self.report, self._cache)
        self.stats.files_indexed = len(paths)
        self.stats.count_definitions = lambda: index.definition_count
        return index

    def save(self) -> None:
        """Write what this run has learned to the cache. Never fails."""
        written = [source.save() for source in self._sources.values()]
        if "index" in self.__dict__:
            written.append(self.index.save())
        if self._cache is not None and any(written):
            self._cache.trim()

    def __enter__(self) -> SyntaxStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.save()
