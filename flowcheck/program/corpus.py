"""The bytes of a tree's core, read once, and cheap questions about them.

What a question finds is a hint about where to look; what it means is for the syntax and the interpreter to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from flowcheck.program.texts import has_word, indent_before
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.program.modules import Module, Program

__all__ = ["Corpus", "classes_of", "members_of", "methods_of"]


class Corpus:
    """Bytes by path, for the files of the core (``tree.core_paths()``)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tree = program.tree
        self._with: dict[tuple[str, ...], list[str]] = {}
        self._matching: dict[tuple[object, ...], list[str]] = {}
        self._captures: dict[bytes, frozenset[str]] = {}
        self._named: dict[str, list[tuple[Module, ir.ClassDef]]] = {}

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The bytes of every file of the core, by path."""
        return self.program.texts.files

    def files_with(self, *words: str) -> list[str]:
        """Paths of the files that hold every word, as a whole identifier."""
        found = self._with.get(words)
        if found is None:
            plain = [w.encode() for w in words]
            found = self._with[words] = [
                path for path, data in self.files.items() if all(has_word(data, w) for w in plain)
            ]
        return list(found)

    def modules_with(self, *words: str) -> Iterator[Module]:
        """The modules whose text holds every word."""
        for path in self.files_with(*words):
            module = self.program.module_at(path)
            if module is not None:
                yield module

    def captures(self, pattern: bytes, *words: bytes) -> frozenset[str]:
        """Everything that the pattern's groups match, anywhere. ``words``: it matches nothing in a file without any of
        them, if any are given."""
        found = self._captures.get(pattern)
        if found is None:
            compiled = re.compile(pattern)
            found = self._captures[pattern] = frozenset(
                group.decode()
                for data in self.files.values()
                if not words or any(word in data for word in words)
                for match in compiled.finditer(data)
                for group in match.groups()
                if group
            )
        return found

    # ------------------------------------------------------------------------------------------ classes by content
    def classes_with_methods(self, *names: str) -> list[tuple[Module, ir.ClassDef]]:
        """Classes that define all of these methods themselves."""
        patterns = [rb"def[ \t]+" + n.encode() + rb"[ \t]*\(" for n in names]
        return [
            (module, c)
            for module in self._modules_matching(names, patterns)
            for c in classes_of(module)
            if set(names) <= methods_of(c)
        ]

    def classes_with_members(self, *names: str) -> list[tuple[Module, ir.ClassDef]]:
        """Classes whose body assigns or annotates all of these names."""
        patterns = [n.encode() + rb"[ \t]*[:=]" for n in names]
        return [
            (module, c)
            for module in self._modules_matching(names, patterns, indented=True)
            for c in classes_of(module)
            if set(names) <= members_of(c)
        ]

    def classes_named(self, name: str) -> list[tuple[Module, ir.ClassDef]]:
        """Classes of that name at any module's top level."""
        found = self._named.get(name)
        if found is None:
            paths = self._files_of_classes.get(name, ())
            found = self._named[name] = [
                (module, c)
                for module in map(self.program.module_at, paths)
                if module is not None
                for c in classes_of(module)
                if c.name == name
            ]
        return found

    @cached_property
    def _files_of_classes(self) -> dict[str, dict[str, None]]:
        """The paths, in order, of the files that define a class of a name."""
        texts = self.program.texts
        found: dict[str, dict[str, None]] = {}
        for path in texts.files:
            for d in texts.definitions(path):
                if d.is_class:
                    found.setdefault(d.name, {})[path] = None
        return found

    def _modules_matching(
        self, words: tuple[str, ...], patterns: list[bytes], indented: bool = False
    ) -> Iterator[Module]:
        key = (words, indented, *patterns)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = self._search(words, patterns, indented)
        for path in found:
            module = self.program.module_at(path)
            if module is not None:
                yield module

    def _search(self, words: tuple[str, ...], patterns: list[bytes], indented: bool) -> list[str]:
        """Paths of the files that hold every word and match every pattern, ``indented``: after blanks on a line."""
        compiled = [re.compile(p) for p in patterns]
        plain = [w.encode() for w in words]

        def holds(pattern: re.Pattern[bytes], data: bytes) -> bool:
            if not indented:
                return pattern.search(data) is not None
            return any(indent_before(data, m.start()) > 0 for m in pattern.finditer(data))

        return [
            path
            for path, data in self.files.items()
            if all(w in data for w in plain) and all(holds(p, data) for p in compiled)
        ]


def classes_of(module: Module) -> Iterator[ir.ClassDef]:
    """The classes of a module's top level, those under ``if`` and ``try`` included."""
    stack: list[ir.Stmt] = list(reversed(module.body))
    while stack:
        s = stack.pop()
        if isinstance(s, ir.ClassDef):
            yield s
        elif isinstance(s, ir.If):
            stack.extend(reversed(s.body + s.orelse))
        elif isinstance(s, ir.Try):
            stack.extend(reversed(s.body + s.orelse + s.final))


def methods_of(c: ir.ClassDef) -> set[str]:
    """The names of the functions in a class body."""
    return {s.name for s in c.body if isinstance(s, ir.FunctionDef)}


def members_of(c: ir.ClassDef) -> set[str]:
    """The names that a class body assigns."""
    names: set[str] = set()
    for s in c.body:
        if isinstance(s, ir.Assign):
            names.update(t.id for t in s.targets if isinstance(t, ir.Name))
        elif isinstance(s, ir.AnnAssign) and isinstance(s.target, ir.Name):
            names.add(s.target.id)
    return names
