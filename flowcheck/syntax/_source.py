"""One file: its text and its structure, each read or computed on first use and once."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

from flowcheck.syntax._cache import Entry, SyntaxCache
from flowcheck.syntax._decode import decode
from flowcheck.syntax._model import SyntaxProblem
from flowcheck.syntax._scan import Structure, line_starts, scan

__all__ = ["SourceFile", "Tree"]


class Tree(Protocol):
    """What this room asks of a source tree. Paths are relative to it, with "/"."""

    def paths(self) -> tuple[str, ...]:
        """The files in scope, sorted."""
        ...

    def read(self, path: str) -> bytes:
        """A file's bytes."""
        ...

    def core_paths(self) -> tuple[str, ...]:
        """Those of the files in scope that belong to the part of the tree that serves."""
        ...

    def is_namespace(self, module: str) -> bool:
        """Whether a dotted name is a folder of the tree without a module of its own."""
        ...

    @property
    def package(self) -> str:
        """The name of the package."""
        ...

    def file_digest(self, path: str) -> str:
        """SHA-256 (hex) of a file's bytes."""
        ...

    def module_name(self, path: str) -> str:
        """The dotted name of a file's module."""
        ...

    def path_of(self, module: str) -> str | None:
        """The file of a module."""
        ...


class SourceFile:
    """A file of the tree. ``entry`` is what the cache knows of it; it is written back by :meth:`save`."""

    def __init__(self, tree: Tree, path: str, cache: SyntaxCache | None) -> None:
        self.path = path
        self._tree = tree
        self._cache = cache
        self._dirty = False
        self.is_cached = cache is not None

    @cached_property
    def text(self) -> str:
        """The decoded text with "\\n" line ends. Raises SyntaxProblem."""
        try:
            data = self._tree.read(self.path)
        except OSError as error:
            raise SyntaxProblem(self.path, 0, f"cannot be read: {error.strerror or error}") from error
        return decode(self.path, data)

    @cached_property
    def entry(self) -> Entry:
        """What is cached of this file, or an empty entry."""
        found = self._cache.load(self._tree.file_digest(self.path)) if self._cache is not None else None
        return found if found is not None else Entry()

    @cached_property
    def structure(self) -> Structure:
        """The definitions and long lines. Raises SyntaxProblem where the text cannot be decoded."""
        found = self.entry.structure
        if found is None:
            found = scan(self.text)
            self.entry.structure = found
            self.changed()
        return found

    @cached_property
    def starts(self) -> list[int]:
        """The offset in ``text`` of each line's first character."""
        return line_starts(self.text)

    def changed(self) -> None:
        """Remember that the entry holds something new."""
        self._dirty = True

    def save(self) -> bool:
        """Write what is new to the cache, if there is one; whether there was anything."""
        if not self._dirty or self._cache is None:
            return False
        self._cache.save(self._tree.file_digest(self.path), self.entry)
        self._dirty = False
        return True
