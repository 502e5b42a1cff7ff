"""What several questions about the bytes of a tree have in common, found once: definitions, and calls by name.

A regular expression that begins with a letter or a dot is searched for many times faster than one that begins with a line's
start or a word's edge. So everything here looks for what stands in the middle, and then at what stands before it.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from flowcheck.syntax import Tree

__all__ = ["Calls", "Definition", "Texts", "Wanted", "has_word", "indent_before", "required"]

_DEFINED = (re.compile(rb"def[ \t]+(\w+)"), re.compile(rb"class[ \t]+(\w+)"))
_CALL = re.compile(rb"\b[A-Za-z_]\w*\(")
_METHOD = re.compile(rb"self\.(\w+)\b(?![ \t]*[(=.\[:])")
"""A method that is taken as a value, to be called later: an attribute of that spelling is not told apart from one."""
_WORDS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class Definition(NamedTuple):
    """A definition by its looks: where its line starts, how far it is indented, where ``def`` or ``class`` stands
    and where its name ends, which of the two it is, and its name."""

    line_start: int
    indent: int
    start: int
    name_end: int
    is_class: bool
    name: str


class Calls(NamedTuple):
    """The calls of a file: where each name stands, and which it is, as a number into ``Texts.called``."""

    at: array[int]
    what: array[int]

    def within(self, start: int, end: int) -> array[int]:
        """What is called between two positions."""
        return self.what[bisect_left(self.at, start) : bisect_left(self.at, end)]


class Texts:
    """The definitions and calls of the files of a tree's core."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.called: list[tuple[str, str]] = []
        """What is called: "f" for a plain name, "s" for one of ``self``, "o" for one of another object, "v" for a
        method of ``self`` that is taken as a value; and the name."""
        self._numbers: dict[bytes, int] = {}
        self._names: dict[bytes, str] = {}
        self._definitions: dict[str, tuple[Definition, ...]] = {}
        self._calls: dict[str, Calls] = {}
        self._values: dict[str, Calls] = {}

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The bytes of every file of the core, by path."""
        return {path: self.tree.read(path) for path in self.tree.core_paths()}

    def definitions(self, path: str) -> tuple[Definition, ...]:
        """The definitions of a file, in order. One in a text counts too."""
        found = self._definitions.get(path)
        if found is None:
            found = self._definitions[path] = tuple(sorted(self._find_definitions(self.files[path])))
        return found

    def _find_definitions(self, data: bytes) -> Iterator[Definition]:
        for is_class, pattern in enumerate(_DEFINED):
            for m in pattern.finditer(data):
                start = m.start()
                line_start = data.rfind(b"\n", 0, start) + 1
                before = data[line_start:start]
                word = before.lstrip(b" \t")
                if word and (is_class or word.rstrip(b" \t") != b"async" or word == b"async"):
                    continue
                name = m.group(1)
                text = self._names.get(name)
                if text is None:
                    text = self._names[name] = name.decode()
                yield Definition(line_start, len(before) - len(word), start, m.end(), bool(is_class), text)

    def calls(self, path: str) -> Calls:
        """What a file calls by a name, in order."""
        found = self._calls.get(path)
        if found is None:
            data = self.files[path]
            numbers, called = self._numbers, self.called
            at, what = array("I"), array("I")
            for m in _CALL.finditer(data):
                start = m.start()
                word = m.group()
                if data[start - 1 : start] == b".":
                    word = (b"s" if data[start - 5 : start - 1] == b"self" else b"o") + b"." + word
                number = numbers.get(word)
                if number is None:
                    number = numbers[word] = len(called)
                    kind, dot, name = word[:-1].partition(b".")
                    called.append((kind.decode(), name.decode()) if dot else ("f", kind.decode()))
                at.append(start)
                what.append(number)
            found = self._calls[path] = Calls(at, what)
        return found

    def values(self, path: str) -> Calls:
        """The methods that a file takes as values, in order."""
        found = self._values.get(path)
        if found is None:
            data = self.files[path]
            at, what = array("I"), array("I")
            for m in _METHOD.finditer(data):
                start = m.start()
                if start and data[start - 1] in _WORDS:
                    continue
                name = m.group(1)
                number = self._numbers.get(b"v." + name)
                if number is None:
                    number = self._numbers[b"v." + name] = len(self.called)
                    self.called.append(("v", name.decode()))
                at.append(start)
                what.append(number)
            found = self._values[path] = Calls(at, what)
        return found

    def forget_calls(self) -> None:
        """Drops what is known of calls and values: some ten megabytes, for what is asked at the start of a scan. What
        is asked again is found again."""
        self._numbers, self._calls, self._values = {}, {}, {}
        self.called = []


class Wanted:
    """Alternatives that are looked for one after the other, each by the letters that it begins with.

    An alternative may begin with ``\\b`` and a letter. Unlike with one pattern of them all, matches may overlap.
    """

    def __init__(self, patterns: Iterable[bytes]) -> None:
        self._patterns: list[tuple[re.Pattern[bytes], bool]] = []
        for pattern in patterns:
            bounded = re.match(rb"\\b\w", pattern) is not None
            self._patterns.append((re.compile(pattern[2:] if bounded else pattern), bounded))

    def matches(self, data: bytes) -> Iterator[re.Match[bytes]]:
        """Every match, those of each alternative in order."""
        for pattern, bounded in self._patterns:
            for m in pattern.finditer(data):
                at = m.start()
                if not (bounded and at and data[at - 1] in _WORDS):
                    yield m

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Where every match begins and ends, in order."""
        return sorted(m.span() for m in self.matches(data))


def required(pattern: bytes) -> bytes:
    """Letters without which a pattern matches nothing, as far as it begins with some; empty where it does not."""
    found = re.match(rb"\^?(?:\\b)?(\w{3,})(?![?*{])", pattern) if b"|" not in pattern else None
    return found.group(1) if found is not None else b""


def indent_before(data: bytes, at: int) -> int:
    """How many blanks stand before a position on its line; -1 where something else does."""
    begin = data.rfind(b"\n", 0, at) + 1
    return at - begin if not data[begin:at].strip(b" \t") else -1


def has_word(data: bytes, word: bytes) -> bool:
    """Whether ``word`` stands in ``data`` with no letter, digit or underscore on either side of it."""
    at = data.find(word)
    while at >= 0:
        end = at + len(word)
        if not (at and data[at - 1] in _WORDS) and not (end < len(data) and data[end] in _WORDS):
            return True
        at = data.find(word, at + 1)
    return False
