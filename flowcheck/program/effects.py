"""Which functions may matter: a cheap closure over the bytes of the tree, before anything is parsed.

A function matters when its text touches something tracked (a *seed*), or when it may call one that does. Calls are
resolved by scope where the text says enough: ``self.m(`` within the file or by method name, ``f(`` within the file or by
function name; ``x.m(`` by method name. What a function that matters reads from a module variable, others have put there:
functions of its file that declare a ``global`` which it mentions matter too. The answer errs towards "matters", except
for names that so many unrelated classes define that following them would make everything matter; those are listed as an
assumption.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flowcheck.source import Tree

__all__ = ["Effects"]

_DEF = re.compile(rb"^([ \t]*)(?:async[ \t]+)?(def|class)[ \t]+([A-Za-z_]\w*)", re.M)
_CALL = re.compile(rb"\b[A-Za-z_]\w*\(")
_DYNAMIC = re.compile(rb"\bsetattr\(|__setattr__\(|__dict__|\bvars\(|\bexec\(")
_DYNAMIC_WORDS = (b"setattr", b"__dict__", b"vars(", b"exec(")
_GLOBAL = re.compile(rb"^[ \t]+global[ \t]+([^\n#]+)", re.M)
_ANSWERS = re.compile(rb"\breturn[ \t]+(?!(?:None|False)\b)[^\s#]")
_ON_ITS_OWN = frozenset({"__init__", "__post_init__", "__new__", "__enter__", "__exit__"})
"""Methods that run when a class is called or an instance is entered, without a call that names them."""

FANOUT = 24
"""A method name with more definitions than this in the tree says nothing about which one a call means."""


@dataclass(slots=True)
class _Def:
    name: str
    path: str
    line: int
    indent: int
    is_class: bool
    start: int
    end: int
    holder: str = ""
    seed: bool = False
    dynamic: bool = False


def _any_within(spans: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether one of the spans, which are in order, lies between two positions."""
    i = bisect_left(spans, (start, start))
    return i < len(spans) and spans[i][1] <= end


class Effects:
    """The closure, for one set of seeds.

    ``seeds``: a regular expression over bytes; a function whose text matches it is a seed. ``beyond``: files whose
    definitions are never entered (the model classes: the walk ends at the target's forward). ``constructs``: who
    makes an instance of a class whose constructor matters, or names such a class where a value stands, matters too.
    ``fanout``: how many definitions a method name may have and still say which one a call means; those ``followed``
    may have any number. ``ends``: functions that are never entered.
    """

    def __init__(
        self,
        tree: Tree,
        seeds: bytes,
        beyond: bytes | None = None,
        common: Iterable[str] = (),
        constructs: bool = False,
        fanout: int = FANOUT,
        followed: Iterable[str] = (),
        ends: Iterable[str] = (),
    ) -> None:
        self._ends = frozenset(ends)
        self._fanout = fanout
        self._followed = frozenset(followed)
        self._tree = tree
        self._constructs = constructs
        self._common = frozenset(common)
        self.defs: list[_Def] = []
        self._at: dict[tuple[str, int], int] = {}
        self._known: set[str] = set()
        self._with_globals: dict[str, range] = {}
        self._spans: dict[str, range] = {}
        self._asked: set[str] = set()
        self.swallowing: set[str] = {"suppress"}
        """Names of classes and functions that may make context managers which go on after an exception."""
        self.files = 0
        self._build(re.compile(seeds), re.compile(beyond, re.M) if beyond else None)

    def _build(self, seeds: re.Pattern[bytes], beyond: re.Pattern[bytes] | None) -> None:
        by_name: dict[str, list[int]] = {}
        by_file: dict[tuple[str, str], list[int]] = {}
        classes: set[str] = set()
        calls: list[tuple[str, set[tuple[str, str]]]] = []
        for path in self._tree.core_paths():
            data = self._tree.read(path)
            if beyond is not None and beyond.search(data):
                continue
            self.files += 1
            self._known.add(path)
            self._file(path, data, seeds, by_name, by_file, classes, calls)
        callers: dict[int, list[int]] = {}
        for i, (path, names) in enumerate(calls):
            for kind, name in names:
                targets: Iterable[int] = ()
                if kind != "o":
                    targets = by_file.get((path, name), ())
                if not targets:
                    found = by_name.get(name)
                    if found is None:
                        continue
                    if kind == "f":
                        targets = [j for j in found if self.defs[j].indent == 0]
                    elif name in self._common or name.startswith("__"):
                        continue
                    else:
                        targets = [j for j in found if self.defs[j].indent]
                        if kind == "o" and len(targets) > self._fanout and name not in self._followed:
                            continue
                for j in targets:
                    callers.setdefault(j, []).append(i)
        todo = [i for i, d in enumerate(self.defs) if d.seed]
        reached: set[int] = set()
        while todo:
            while todo:
                i = todo.pop()
                if i in reached:
                    continue
                if self.defs[i].name in self._ends:
                    continue
                reached.add(i)
                todo.extend(callers.get(i, ()))
            todo = [i for i in self._writers(reached) if i not in reached]
            if not todo and self._constructs:
                todo = [i for i in self._makers(reached) if i not in reached]
        inner = {j for i in reached for j in self._inside(i)}
        self._relevant = {(self.defs[i].path, self.defs[i].line) for i in reached | inner}
        self.inner_names = {self.defs[i].name for i in inner}
        """Functions inside functions that matter: they see the locals there, and may call any of them."""
        self.relevant_names = {self.defs[i].name for i in reached}
        self.relevant_classes = {
            self.defs[i].holder for i in reached if self.defs[i].holder and self.defs[i].name in _ON_ITS_OWN
        }
        dynamic = {i for i, d in enumerate(self.defs) if d.dynamic}
        for i in list(dynamic):  # what calls them by a plain name or on itself hands on what it was given
            dynamic.update(callers.get(i, ()))
        self._dynamic = {(self.defs[i].path, self.defs[i].line) for i in dynamic}
        self.dynamic_names = {self.defs[i].name for i in dynamic if not self.defs[i].name.startswith("__")}
        self.all_names = set(by_name)

    def _makers(self, reached: set[int]) -> Iterator[int]:
        """The functions that make, or choose, an instance of a class whose constructor matters. A class that a class inherits
        from counts by its own name: a constructor that is inherited is found through what overrides it."""
        names = {self.defs[i].holder for i in reached if self.defs[i].holder and self.defs[i].name in _ON_ITS_OWN}
        names -= self._asked
        self._asked |= names
        if not names:
            return
        words = b"|".join(sorted(re.escape(n.encode()) for n in names))
        plain = [n.encode() for n in names]
        value = re.compile(
            rb"(?<![\w.])(?:" + words + rb")\(|(?:\blambda|[\"'\]])[ \t]*:\s*(?:" + words + rb")\b"
            rb"|(?:\breturn|=)[ \t]+(?:" + words + rb")\b"
        )
        returned = re.compile(rb"\breturn[ \t]+(?:" + words + rb")\b")
        choosers = {self.defs[i].name for i in self._holding(returned, plain)}
        yield from self._holding(value, plain)
        if choosers:  # who is handed the function that chooses the class may call it
            plain = [n.encode() for n in choosers]
            named = re.compile(rb"\.(?:" + b"|".join(map(re.escape, sorted(plain))) + rb")\b(?!\()")
            yield from self._holding(named, plain)

    def _holding(self, pattern: re.Pattern[bytes], plain: list[bytes]) -> Iterator[int]:
        """The functions whose text matches, in the files that hold one of the words."""
        for path, here in self._spans.items():
            data = self._tree.read(path)
            if any(n in data for n in plain) and (spans := [m.span() for m in pattern.finditer(data)]):
                yield from (i for i in here if _any_within(spans, self.defs[i].start, self.defs[i].end))

    def _inside(self, i: int) -> Iterator[int]:
        """The functions inside a function."""
        outer = self.defs[i]
        for j in range(i + 1, len(self.defs)):
            if self.defs[j].path != outer.path or self.defs[j].start >= outer.end:
                return
            yield j

    def _writers(self, reached: set[int]) -> Iterator[int]:
        """The functions that write a module variable which a function of their file that matters mentions."""
        for path, here in self._with_globals.items():
            data = self._tree.read(path)
            for m in _GLOBAL.finditer(data):
                names = [re.escape(n.strip()) for n in m.group(1).split(b",") if n.strip()]
                mention = re.compile(rb"\b(?:" + b"|".join(names) + rb")\b")
                if any(i in reached and mention.search(data, self.defs[i].start, self.defs[i].end) for i in here):
                    yield from (i for i in here if self.defs[i].start < m.start() < self.defs[i].end)

    def _file(
        self,
        path: str,
        data: bytes,
        seeds: re.Pattern[bytes],
        by_name: dict[str, list[int]],
        by_file: dict[tuple[str, str], list[int]],
        classes: set[str],
        calls: list[tuple[str, set[tuple[str, str]]]],
    ) -> None:
        matches = list(_DEF.finditer(data))
        seeded = [m.span() for m in seeds.finditer(data)]
        dynamic = [m.span() for m in _DYNAMIC.finditer(data)] if any(w in data for w in _DYNAMIC_WORDS) else []
        holders: list[tuple[int, str]] = []
        line = 1
        position = 0
        first = len(self.defs)
        for k, m in enumerate(matches):
            name = m.group(3).decode()
            start = m.start(2)
            line += data.count(b"\n", position, start)
            position = start
            indent = len(m.group(1))
            while holders and holders[-1][0] >= indent:
                holders.pop()
            if m.group(2) == b"class":
                classes.add(name)
                holders.append((indent, name))
                continue
            end = len(data)
            for j in range(k + 1, len(matches)):
                if len(matches[j].group(1)) <= indent:
                    end = matches[j].start()
                    break
            d = _Def(name, path, line, indent, False, start, end, holders[-1][1] if holders else "")
            d.dynamic = _any_within(dynamic, m.end(), end)
            d.seed = _any_within(seeded, m.end(), end)
            if name in ("__exit__", "__aexit__"):
                if _ANSWERS.search(data, m.end(), end):
                    self.swallowing.add(d.holder)
            elif all(data.find(word, m.end(), end) >= 0 for word in (b"yield", b"except")):
                self.swallowing.add(name)
            i = len(self.defs)
            self.defs.append(d)
            self._at[(path, line)] = i
            by_name.setdefault(name, []).append(i)
            by_file.setdefault((path, name), []).append(i)
            names: set[tuple[str, str]] = set()
            for hit in _CALL.finditer(data, m.end(), end):
                at = hit.start()
                before = data[at - 1 : at]
                kind = "f" if before != b"." else "s" if data[at - 5 : at - 1] == b"self" else "o"
                names.add((kind, hit.group()[:-1].decode()))
            calls.append((path, names))
        self._spans[path] = range(first, len(self.defs))
        if b"global" in data:
            self._with_globals[path] = range(first, len(self.defs))

    def relevant(self, path: str, line: int) -> bool:
        """Whether a function may matter. One that the index does not hold (nested, generated) does."""
        if (path, line) in self._relevant:
            return True
        return (path, line) not in self._at and path in self._known

    def dynamic(self, path: str, line: int) -> bool:
        """Whether a function stores attributes whose names its text does not say, or calls one that does."""
        return (path, line) in self._dynamic

    def counts(self) -> tuple[int, int]:
        """Definitions in all, and those that matter."""
        return len(self.defs), len(self._relevant)
