"""The cheap index over a whole tree: which file defines, mentions, stores a name.

Owns questions that can be answered from bytes. It reads every file in scope once, keeps their bytes in one block and
searches that; nothing is parsed, and only files that may have been misread are scanned character by character.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property

import msgspec

from flowcheck.syntax import _uses
from flowcheck.syntax._cache import SyntaxCache
from flowcheck.syntax._model import DefSpan, SyntaxProblem
from flowcheck.syntax._scan import mask
from flowcheck.syntax._source import SourceFile, Tree

__all__ = ["DefRef", "NameIndex", "Use"]

_DEFINITION = re.compile(rb"\n([ \t\f]*)(?:async[ \t]+)?(def|class)[ \t]+([\w\x80-\xff]+)")
_TRIPLE = re.compile(rb"\"\"\"|'''")
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") | frozenset(range(128, 256))


_Finder = Callable[[str, str, str], Iterator[_uses.TextUse]]


class DefRef(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A definition of a name: ``kind`` is "def" or "class"; ``indent`` counts the characters before its keyword."""

    path: str
    line: int
    kind: str
    indent: int


class Use(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A place that binds an attribute or passes a keyword.

    ``receiver`` is the text before the attribute's dot, or the callee's; ``qualname`` is the definition that holds the
    place, "" at top level. ``kind``: "assign", "augment", "annotate", "unpack" (a tuple of targets), "bind" (``for``
    or ``as``), "setattr", "keyword".
    """

    path: str
    line: int
    receiver: str
    qualname: str
    kind: str


class _Table(msgspec.Struct, array_like=True):
    """What the cache keeps. Files are numbers into ``paths``; a definition is (file, line, 1 for a class, indent)."""

    paths: tuple[str, ...]
    names: dict[str, list[tuple[int, int, int, int]]]
    words: dict[str, tuple[int, ...]]
    stores: dict[str, tuple[Use, ...]]
    keywords: dict[str, tuple[Use, ...]]


class _Block:
    """The bytes of all files in one piece, each after a line end; ``starts`` says where each begins."""

    def __init__(self, tree: Tree, paths: tuple[str, ...]) -> None:
        pieces = [b""]
        self.starts: list[int] = []
        offset = 1
        for path in paths:
            try:
                data = tree.read(path)
            except OSError:
                data = b""
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            data = data.removeprefix(b"\xef\xbb\xbf")
            self.starts.append(offset)
            pieces.append(data)
            offset += len(data) + 1
        pieces.append(b"")
        self.data = b"\n".join(pieces)

    def file_at(self, offset: int) -> int:
        return bisect_right(self.starts, offset) - 1

    def end_of(self, file: int) -> int:
        return self.starts[file + 1] if file + 1 < len(self.starts) else len(self.data)


class NameIndex:
    """Questions about names over ``paths``. Every answer is computed when it is asked for, once."""

    def __init__(
        self,
        tree: Tree,
        paths: tuple[str, ...],
        source: Callable[[str], SourceFile],
        report: Callable[[SyntaxProblem], None],
        cache: SyntaxCache | None,
    ) -> None:
        self._tree = tree
        self._paths = paths
        self._source = source
        self._report = report
        self._cache = cache
        self._dirty = False
        self._masked: dict[str, str] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the index covers."""
        return self._paths

    @cached_property
    def definition_count(self) -> int:
        """The number of definitions in all files."""
        return sum(len(entries) for entries in self._table.names.values())

    def definitions(self, name: str) -> tuple[DefRef, ...]:
        """Every ``def`` and ``class`` of this name, nested ones included, in the order of paths and lines."""
        return tuple(
            DefRef(self._paths[file], line, "class" if is_class else "def", indent)
            for file, line, is_class, indent in self._table.names.get(name, ())
        )

    def files_with(self, word: str | bytes) -> tuple[str, ...]:
        """The files whose text holds ``word`` as a whole identifier, in code, strings or comments."""
        name = word if isinstance(word, str) else word.decode("utf-8", "surrogateescape")
        files = self._table.words.get(name)
        if files is None:
            files = self._table.words[name] = tuple(self._search(name.encode("utf-8", "surrogateescape")))
            self._dirty = True
        return tuple(self._paths[file] for file in files)

    def spans(self, path: str) -> tuple[DefSpan, ...]:
        """The definitions of one file in source order, exact. Raises SyntaxProblem for a file that is not text."""
        return self._source(path).structure.spans

    def enclosing(self, path: str, line: int) -> DefSpan | None:
        """The innermost definition that holds the line, decorators counted to it; None at top level."""
        spans = self.spans(path)
        index = bisect_right(spans, line, key=lambda span: span.start_line) - 1
        while index >= 0:
            if spans[index].start_line <= line <= spans[index].end_line:
                return spans[index]
            index = spans[index].parent
        return None

    def attribute_stores(self, attribute: str) -> tuple[Use, ...]:
        """Every place that binds ``X.attribute`` or calls ``setattr(X, "attribute", …)``."""
        return self._uses(self._table.stores, attribute, _uses.attribute_stores)

    def keyword_uses(self, name: str) -> tuple[Use, ...]:
        """Every call with the keyword argument ``name``; ``receiver`` is the callee."""
        return self._uses(self._table.keywords, name, _uses.keyword_uses)

    def save(self) -> bool:
        """Write the table to the cache, if it has changed; whether it had."""
        if not self._dirty or self._cache is None:
            return False
        self._cache.save_table(self._key, self._table)
        self._dirty = False
        return True

    @cached_property
    def _key(self) -> str:
        """What names the table in the cache: the content of all files, and their paths."""
        # A tree that knows a digest of all that is in scope need not read every file for it.
        whole = getattr(self._tree, "digest", None) if set(self._paths) <= set(self._tree.paths()) else None
        digest = hashlib.sha256(f"{whole}\n".encode())
        for path in self._paths:
            mark = "" if whole is not None else self._tree.file_digest(path)
            digest.update(f"{path}\0{mark}\n".encode("utf-8", "surrogateescape"))
        return f"index-{digest.hexdigest()}"

    @cached_property
    def _block(self) -> _Block:
        return _Block(self._tree, self._paths)

    @cached_property
    def _table(self) -> _Table:
        if self._cache is not None:
            table = self._cache.load_table(self._key, _Table)
            if table is not None and table.paths == self._paths:
                return table
        self._dirty = True
        names: dict[str, list[tuple[int, int, int, int]]] = {}
        for name, entry in self._all_definitions():
            names.setdefault(name, []).append(entry)
        return _Table(self._paths, names, {}, {}, {})

    def _all_definitions(self) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
        for file, path in enumerate(self._paths):
            found = self._definitions_in(file)
            if found is None:
                try:
                    spans = self.spans(path)
                except SyntaxProblem as problem:
                    self._report(problem)
                    continue
                found = [(span.name, span.line, span.kind == "class", span.indent) for span in spans]
            for name, line, is_class, indent in found:
                yield name, (file, line, int(is_class), indent)

    def _definitions_in(self, file: int) -> list[tuple[str, int, bool, int]] | None:
        """The definitions by their looks; None where one of them may be the content of a string."""
        data = self._block.data
        start, end = self._block.starts[file] - 1, self._block.end_of(file) - 1
        marks = [(match.start(), match[0]) for match in _TRIPLE.finditer(data, start, end)]
        quoted: list[tuple[int, int]] = []
        opened: tuple[int, bytes] | None = None
        for mark in marks:
            if opened is None:
                opened = mark
            elif mark[1] == opened[1]:
                quoted.append((opened[0], mark[0]))
                opened = None
        if opened is not None:
            return None
        found: list[tuple[str, int, bool, int]] = []
        line, counted = 0, start
        region = 0
        for match in _DEFINITION.finditer(data, start, end):
            at = match.start()
            while region < len(quoted) and quoted[region][1] < at:
                region += 1
            if region < len(quoted) and quoted[region][0] < at:
                return None
            line += data.count(b"\n", counted, at + 1)
            counted = at + 1
            name = match[3].decode("utf-8", "surrogateescape")
            found.append((name, line, match[2] == b"class", len(match[1])))
        return found

    def _search(self, word: bytes) -> Iterator[int]:
        data = self._block.data
        at = data.find(word) if word else -1
        while at >= 0:
            after = at + len(word)
            if data[at - 1] not in _WORD and data[after] not in _WORD:
                file = self._block.file_at(at)
                yield file
                after = self._block.end_of(file)
            at = data.find(word, after)

    def _uses(
        self,
        known: dict[str, tuple[Use, ...]],
        name: str,
        find: _Finder,
    ) -> tuple[Use, ...]:
        uses = known.get(name)
        if uses is None:
            uses = known[name] = tuple(use for path in self.files_with(name) for use in self._uses_in(path, name, find))
            self._dirty = True
        return uses

    def _uses_in(self, path: str, name: str, find: _Finder) -> Iterator[Use]:
        source = self._source(path)
        try:
            text = source.text
        except SyntaxProblem as problem:
            self._report(problem)
            return
        masked = self._masked.get(path)
        if masked is None:
            masked = self._masked[path] = mask(text)
        for offset, receiver, kind in sorted(find(text, masked, name)):
            line = bisect_right(source.starts, offset)
            holder = self.enclosing(path, line)
            yield Use(path, line, receiver, holder.qualname if holder is not None else "", kind)
