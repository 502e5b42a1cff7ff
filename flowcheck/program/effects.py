"""Which functions may matter: a cheap closure over the bytes of the tree, before anything is parsed.

A function matters when its text touches something tracked (a *seed*), or when it may call one that does. Calls are
resolved by scope where the text says enough: ``self.m(`` within the file or by method name, ``f(`` within the file or by
function name; ``x.m(`` by method name. What a function that matters reads from a module variable, others have put there:
functions of its file that declare a ``global`` which it mentions matter too, and those that fill a container of the
module from which a seed takes something. The answer errs towards "matters", except
for names that so many unrelated classes define that following them would make everything matter; those are listed as an
assumption.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flowcheck.program.texts import Texts, Wanted, indent_before, required

__all__ = ["Effects"]

_DYNAMIC = Wanted(
    (rb"\bsetattr\(", rb"__setattr__\(", rb"__dict__", rb"\bvars\(", rb"\bexec\(", rb"\bdelattr\(", rb"__delattr__\(")
)
_DYNAMIC_WORDS = (b"setattr", b"__dict__", b"vars(", b"exec(", b"delattr")
_REGISTERED = re.compile(rb"\.register\b")
_REGISTERING = re.compile(rb"[ \t]*@(?:\w+\.)*(\w+)")
_FILLS = (
    re.compile(rb"\[[^\]\n]*\][ \t]*(?:[-+*/|&]?=(?!=)|$)", re.M),
    re.compile(
        rb"\.(?:append|appendleft|extend|update|add|pop|insert|remove|clear|setdefault|discard|popitem|sort|reverse)\("
    ),
)
_FILLED = re.compile(rb"[ \t]+(?:del[ \t]+)?(\w+)((?:\.\w+)?)")
_STORES = re.compile(rb"\.\w+[ \t]*[-+*/|&]?=(?!=)")
_STORED = re.compile(rb"[ \t]+(\w+)")
_NONLOCAL = re.compile(rb"^[ \t]+nonlocal[ \t]", re.M)
_HEAD = re.compile(rb"\)[ \t]*(?:->[^\n]*)?:[ \t]*(?:#[^\n]*)?\n")
_GLOBAL = re.compile(rb"global[ \t]+([^\n#]+)")
_BASES = re.compile(rb"[ \t]*\(([^)]*)\)")
_PARAMETER = re.compile(rb"(?<=[(,*\s])\w+")
_CONTAINER = re.compile(
    rb"^([A-Za-z_]\w*)[ \t]*(?::[^=\n]+)?=[ \t]*"
    rb"(?:[\[{]|(?:collections\.|queue\.)?(?:dict|list|set|deque|defaultdict|OrderedDict|(?:Simple|Lifo)?Queue)\b)",
    re.M,
)
_FILLING = (
    rb"(?:\[[^\]\n]*\][ \t]*[-+|&]?=(?!=)"
    rb"|\.(?:append|appendleft|add|clear|extend|insert|pop|popitem|popleft|put|put_nowait|remove|setdefault|update)\()"
)
_GIVES = re.compile(rb"\breturn\b|\byield\b")
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
    also: str = ""  # the function for which a decorator registers it: whoever calls that one may call it
    seed: bool = False
    dynamic: bool = False


def _any_within(spans: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether one of the spans, which are in order, lies between two positions."""
    i = bisect_left(spans, (start, start))
    return i < len(spans) and spans[i][1] <= end


def _registered(data: bytes) -> Iterator[tuple[int, str]]:
    """Decorators that register for a function: where one stands, and the function's name."""
    for m in _REGISTERED.finditer(data):
        before = _REGISTERING.fullmatch(data, data.rfind(b"\n", 0, m.start()) + 1, m.start())
        if before is not None:
            yield m.end(), before.group(1).decode()


def _filled(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Statements that change what a plain name means, other than ``self``: where the line begins, the name, and whether
    an attribute of the object is changed, not the object as a container."""
    for pattern in _FILLS:
        for m in pattern.finditer(data):
            at = m.start()
            begin = data.rfind(b"\n", 0, at) + 1
            before = _FILLED.fullmatch(data, begin, at)
            if before is not None and before.group(1) != b"self":
                yield begin, before.group(1), bool(before.group(2))
    for m in _STORES.finditer(data):
        at = m.start()
        begin = data.rfind(b"\n", 0, at) + 1
        before = _STORED.fullmatch(data, begin, at)
        if before is not None and before.group(1) != b"self":
            yield begin, before.group(1), True


class Effects:
    """The closure, for one set of seeds.

    ``seeds``: regular expressions over bytes; a function whose text matches one is a seed. ``beyond``: files whose
    definitions are never entered (the model classes: the walk ends at the target's forward). ``constructs``: who
    makes an instance of a class whose constructor matters, or names such a class where a value stands, matters too.
    ``fanout``: how many definitions a method name may have and still say which one a call means; those ``followed``
    may have any number. ``ends``: functions that are never entered. ``values``: methods that are taken as values, and
    what fills containers of a module, are followed too.
    """

    def __init__(
        self,
        texts: Texts,
        seeds: Iterable[bytes],
        beyond: bytes | None = None,
        common: Iterable[str] = (),
        constructs: bool = False,
        fanout: int = FANOUT,
        followed: Iterable[str] = (),
        ends: Iterable[str] = (),
        values: bool = True,
    ) -> None:
        self._values = values
        self._ends = frozenset(ends)
        self._fanout = fanout
        self._followed = frozenset(followed)
        self._texts = texts
        self._files = texts.files
        self._constructs = constructs
        self.common = frozenset(common)
        self.defs: list[_Def] = []
        self._at: dict[tuple[str, int], int] = {}
        self._known: set[str] = set()
        self._with_globals: dict[str, range] = {}
        self._spans: dict[str, range] = {}
        self._asked: set[str] = set()
        self.swallowing: set[str] = {"suppress"}
        """Names of classes and functions that may make context managers which go on after an exception."""
        self.filling: set[tuple[str, int]] = set()
        """Functions that change a container or an object which they are given: path and line."""
        self.filling_names: set[str] = set()
        """The names of those that change a container."""
        self.cells: set[tuple[str, int]] = set()
        """Functions that change a variable of the function around them, which others there may read: path and line."""
        self.cell_names: set[str] = set()
        self.files = 0
        self._build(Wanted(seeds), re.compile(beyond, re.M) if beyond else None)

    def _build(self, seeds: Wanted, beyond: re.Pattern[bytes] | None) -> None:
        word = required(beyond.pattern) if beyond is not None else b""
        by_name: dict[str, list[int]] = {}
        by_file: dict[tuple[str, str], list[int]] = {}
        classes: set[str] = set()
        calls: list[tuple[str, set[int]]] = []
        for path, data in self._files.items():
            if beyond is not None and word in data and beyond.search(data):
                continue
            self.files += 1
            self._known.add(path)
            self._file(path, data, seeds, by_name, by_file, classes, calls)
        self._inherit_exits()
        callers: dict[int, list[int]] = {}
        for i, (path, names) in enumerate(calls):
            for kind, name in map(self._texts.called.__getitem__, names):
                targets: Iterable[int] = ()
                if kind != "o":
                    targets = by_file.get((path, name), ())
                if not targets:
                    found = by_name.get(name)
                    if found is None or kind == "v":
                        continue
                    if kind == "f":
                        targets = [j for j in found if self.defs[j].indent == 0]
                    elif name in self.common or name.startswith("__"):
                        continue
                    else:
                        targets = [j for j in found if self.defs[j].indent]
                        if kind == "o" and len(targets) > self._fanout and name not in self._followed:
                            continue
                for j in targets:
                    callers.setdefault(j, []).append(i)
        todo = [i for i, d in enumerate(self.defs) if d.seed]
        if self._values:
            todo.extend(self._fillers(set(todo), callers))
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
        self.relevant_names = {name for i in reached for name in (self.defs[i].name, self.defs[i].also) if name}
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
            data = self._files[path]
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
            data = self._files[path]
            for m in _GLOBAL.finditer(data):
                if indent_before(data, m.start()) < 1:
                    continue
                names = [re.escape(n.strip()) for n in m.group(1).split(b",") if n.strip()]
                mention = re.compile(rb"\b(?:" + b"|".join(names) + rb")\b")
                if any(i in reached and mention.search(data, self.defs[i].start, self.defs[i].end) for i in here):
                    yield from (i for i in here if self.defs[i].start < m.start() < self.defs[i].end)

    def _fillers(self, seeds: set[int], callers: dict[int, list[int]]) -> Iterator[int]:
        """The functions that fill a container of their module out of which a seed may take a batch or a mode: the seed
        mentions the container, or calls a function that does."""
        takers: dict[str, list[_Def]] = {}
        for i, d in enumerate(self.defs):
            if i in seeds or (
                not seeds.isdisjoint(callers.get(i, ())) and _GIVES.search(self._files[d.path], d.start, d.end)
            ):
                takers.setdefault(d.path, []).append(d)
        for path, here in takers.items():
            data = self._files[path]
            for name in {re.escape(m.group(1)) for m in _CONTAINER.finditer(data)}:
                word = re.compile(rb"\b" + name + rb"\b")
                if any(word.search(data, d.start, d.end) for d in here):
                    fills = re.compile(rb"(?<![\w.])" + name + _FILLING + rb"|\bdel[ \t]+" + name + rb"\[")
                    at = [m.start() for m in fills.finditer(data)]
                    yield from (
                        i for i, d in enumerate(self.defs) if d.path == path and any(d.start < x < d.end for x in at)
                    )

    def _file(
        self,
        path: str,
        data: bytes,
        seeds: Wanted,
        by_name: dict[str, list[int]],
        by_file: dict[tuple[str, str], list[int]],
        classes: set[str],
        calls: list[tuple[str, set[int]]],
    ) -> None:
        definitions = self._texts.definitions(path)
        seeded = seeds.spans(data)
        dynamic = _DYNAMIC.spans(data) if any(w in data for w in _DYNAMIC_WORDS) else []
        registered = dict(_registered(data)) if b".register" in data else {}
        called = self._texts.calls(path)
        taken = self._texts.values(path) if self._values else None
        holders: list[tuple[int, str]] = []
        line = 1
        position = 0
        first = len(self.defs)
        for k, m in enumerate(definitions):
            name, start, indent, header = m.name, m.start, m.indent, m.name_end
            line += data.count(b"\n", position, start)
            position = start
            while holders and holders[-1][0] >= indent:
                holders.pop()
            if m.is_class:
                classes.add(name)
                holders.append((indent, name))
                continue
            end = len(data)
            for j in range(k + 1, len(definitions)):
                if definitions[j].indent <= indent:
                    end = definitions[j].line_start
                    break
            d = _Def(name, path, line, indent, False, start, end, holders[-1][1] if holders else "")
            d.dynamic = _any_within(dynamic, header, end)
            d.seed = _any_within(seeded, header, end)
            if name in ("__exit__", "__aexit__"):
                if _ANSWERS.search(data, header, end):
                    self.swallowing.add(d.holder)
            elif all(data.find(word, header, end) >= 0 for word in (b"yield", b"except")):
                self.swallowing.add(name)
            i = len(self.defs)
            self.defs.append(d)
            self._at[(path, line)] = i
            by_name.setdefault(name, []).append(i)
            by_file.setdefault((path, name), []).append(i)
            above = definitions[k - 1].line_start if k else 0
            for at, decorating in registered.items():
                if above < at < m.line_start:
                    d.also = decorating
                    by_name.setdefault(decorating, []).append(i)
                    by_file.setdefault((path, decorating), []).append(i)
            names = set(called.within(header, end))
            if taken is not None:
                names.update(taken.within(header, end))
            calls.append((path, names))
        if self._values and b"nonlocal" in data:  # it changes what other functions read, whatever that is
            for hit in _NONLOCAL.finditer(data):
                inner = max((d for d in self.defs[first:] if d.start < hit.start() < d.end), key=lambda d: d.start)
                self.cells.add((inner.path, inner.line))
                self.cell_names.add(inner.name)
        self._note_filling(path, data, first)
        self._spans[path] = range(first, len(self.defs))
        if b"global" in data:
            self._with_globals[path] = range(first, len(self.defs))

    def _inherit_exits(self) -> None:
        """Classes below one whose exit may swallow may swallow too."""
        below: dict[str, set[str]] = {}
        for path in self._known:
            data = self._files[path]
            for d in self._texts.definitions(path):
                m = _BASES.match(data, d.name_end) if d.is_class else None
                for base in re.findall(rb"\w+", m.group(1)) if m is not None else ():
                    below.setdefault(base.decode(), set()).add(d.name)
        todo = list(self.swallowing)
        while todo:
            new = below.get(todo.pop(), set()) - self.swallowing
            self.swallowing |= new
            todo.extend(new)

    def _note_filling(self, path: str, data: bytes, first: int) -> None:
        """Notes the functions of a file, those from ``first`` on, that change a container which is a parameter."""
        starts = [d.start for d in self.defs[first:]]
        heads: dict[int, set[bytes]] = {}
        for at, name, is_store in _filled(data):
            i = first + bisect_right(starts, at) - 1
            if i < first or self.defs[i].end <= at:
                continue
            d = self.defs[i]
            if i not in heads:
                end = _HEAD.search(data, d.start, d.end)
                heads[i] = set(_PARAMETER.findall(data[d.start : end.start() if end is not None else d.end]))
            if name in heads[i]:
                self.filling.add((d.path, d.line))
                if not is_store:
                    self.filling_names.add(d.name)

    def fills(self, path: str, line: int) -> bool:
        """Whether a function changes a container or an object that it is given."""
        return (path, line) in self.filling

    def relevant(self, path: str, line: int) -> bool:
        """Whether a function may matter. One that the index does not hold (nested, generated) does."""
        if (path, line) in self._relevant or (path, line) in self.cells:
            return True
        return (path, line) not in self._at and path in self._known

    def dynamic(self, path: str, line: int) -> bool:
        """Whether a function stores attributes whose names its text does not say, or calls one that does."""
        return (path, line) in self._dynamic

    def counts(self) -> tuple[int, int]:
        """Definitions in all, and those that matter."""
        return len(self.defs), len(self._relevant)
