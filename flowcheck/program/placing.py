"""Where the text of a tree stores into attributes: ``x.name = …``, ``x.name[k] = …``, ``x.name.append(…)``, ``setattr``.

One pass over the bytes. What a place means, and whose attribute it is, is for the interpreter to say.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from flowcheck.program.texts import Definition, Texts, indent_before

__all__ = ["Place", "Places"]

FILLING = "append|appendleft|extend|update|add|pop|insert|remove|clear|setdefault|discard"
IN_ANNOTATIONS = frozenset(
    {
        "Optional",
        "Union",
        "List",
        "Dict",
        "Set",
        "Tuple",
        "list",
        "dict",
        "set",
        "tuple",
        "None",
        "Sequence",
        "Iterable",
    }
)
"""Words in an annotation that say nothing about a class of the tree."""
_AUGMENTED = rb"(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=(?!=)"
_STORE = re.compile(
    rb"\.(\w+)\b(?:[ \t]*(?::[^=\n]+)?"
    + _AUGMENTED
    + rb"|((?:\[[^\]\n]*\])+[ \t]*"
    + _AUGMENTED
    + rb"|(?:\[[^\]\n]*\])*"
    rb"\.(?:" + FILLING.encode() + rb")\()|(?=(,)[\w.\[\], \t]*=(?!=)))"
)
_BY_NAME = re.compile(
    rb"\b(?:setattr|__setattr__)\(\s*([^,\n]+),\s*[\"'](\w+)[\"']|\.__dict__\[[\"'](\w+)[\"']\][ \t]*=(?!=)"
    rb"|\.__setattr__\(\s*[\"'](\w+)[\"']"
)
_PLAIN = re.compile(rb"[\w.]+$")
_FOR = re.compile(rb"for\b((?:(?!\bin\b)[^\n:])*\.\w+(?:(?!\bin\b)[^\n:])*)\bin\b")
_AS = re.compile(rb"as[ \t]+([\w.]+\.\w+)[ \t]*[,:)]")
_DEL = re.compile(rb"del[ \t]+([^\n#]+)")
_BRACKETED = (re.compile(rb"\)[ \t]*=(?!=)"), re.compile(rb"\][ \t]*=(?!=)"))
_IN_BRACKETS = re.compile(rb"[\w., *\t\n]{0,400}\.[A-Za-z_][\w., *\t\n]{0,400}")
_MOST_IN_BRACKETS = 802
_TARGET = re.compile(rb"\.(\w+)[ \t]*(\[[^\n]*?\])?[ \t]*(?=[,\n)]|$)")
_ALIAS = re.compile(rb"=[ \t]*[\w.]+\.(\w+)[ \t]*(?:#[^\n]*)?$", re.M)
_ALIASED = re.compile(rb"[ \t]+(\w+)[ \t]*")
_RECEIVER = re.compile(rb"[A-Za-z_]\w*(?:\.\w+|\[[^\[\]\n]*\]|\([^()\n]*\))*$")
_OWN = (b" self", b"\tself", b"(self", b",self")
_FIRST = re.compile(rb"\([ \t\n]*(\w+)")


@dataclass(frozen=True, slots=True)
class Place:
    """One store in the text. ``receiver``: how the object is written, empty where that is not plain. ``line``: that of
    the function that holds it, 0 for the top level of the module; ``span``: the function's bytes. ``owner``: the line of
    the class whose method that is, else 0. ``own``: the object is the method's first parameter, "self" or "class"
    for what that is. ``fills``: it is the
    container in the attribute that changes."""

    path: str
    receiver: str
    line: int
    span: tuple[int, int]
    owner: int
    own: str
    fills: bool


def _bound(data: bytes) -> Iterator[tuple[int, int]]:
    """Targets that no sign for a store follows at once: of a loop, of a manager, in brackets, of a deletion."""
    for m in _FOR.finditer(data):
        if _blank_but(data, m.start(), b"async"):
            yield m.span(1)
    for m in _AS.finditer(data):
        if not data[m.start() - 1 : m.start()].isalnum() and data[m.start() - 1 : m.start()] != b"_":
            yield m.span(1)
    for m in _DEL.finditer(data):
        if _blank_but(data, m.start()):
            yield m.span(1)
    for pattern in _BRACKETED:
        for m in pattern.finditer(data):
            end = m.start()
            first = max(0, end - _MOST_IN_BRACKETS)
            start = max(data.rfind(b"(", first, end), data.rfind(b"[", first, end)) + 1
            if start and _blank_but(data, start - 1) and _IN_BRACKETS.fullmatch(data, start, end):
                yield start, end


def _blank_but(data: bytes, at: int, word: bytes = b"") -> bool:
    """Whether nothing stands before a position on its line, or but that word."""
    before = data[data.rfind(b"\n", 0, at) + 1 : at].strip(b" \t")
    return not before or before == word


class Places:
    """The stores of some files, by the name of the attribute."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._files = texts.files
        self._held: dict[str, frozenset[str] | None] = {}
        self._placed: dict[str, tuple[Place, ...]] = {}

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        return tuple(self._files)

    def _found(self, name: bytes) -> Iterator[tuple[str, int, bytes, bool]]:
        """Path, position, the receiver where it is spelled apart, and whether a container is filled."""
        plain, spelled = self._hits
        for code in plain.get(name, ()):
            yield self._paths[code >> 33], code >> 1 & 0xFFFFFFFF, b"", bool(code & 1)
        yield from spelled.get(name, ())

    @cached_property
    def _hits(self) -> tuple[dict[bytes, array[int]], dict[bytes, list[tuple[str, int, bytes, bool]]]]:
        """By name: those without a receiver of their own as numbers, of which there are many (file, position, whether a
        container is filled), and the others."""
        plain: dict[bytes, array[int]] = {}
        out: dict[bytes, list[tuple[str, int, bytes, bool]]] = {}
        for number, (path, data) in enumerate(self._files.items()):
            for m in _STORE.finditer(data):
                if m.group(3) and b"(" in data[data.rfind(b"\n", 0, m.start()) + 1 : m.start()]:
                    continue  # an argument before a keyword, and no target among several
                code = number << 33 | m.start() << 1 | (m.group(2) is not None)
                plain.setdefault(m.group(1), array("q")).append(code)
            for m in _BY_NAME.finditer(data) if b"setattr" in data or b"__dict__[" in data else ():
                receiver, name, at = m.group(1), m.group(2) or m.group(3) or m.group(4), m.start()
                if receiver is None:  # what stands before it is looked up from here: most words are before nothing
                    before = _PLAIN.search(data, data.rfind(b"\n", 0, at) + 1, at)
                    if before is None:
                        continue
                    receiver, at = before.group(), before.start()
                out.setdefault(name, []).append((path, at, receiver.strip(), False))
            for span in _bound(data):
                for t in _TARGET.finditer(data, *span):
                    code = number << 33 | t.start() << 1 | (t.group(2) is not None)
                    plain.setdefault(t.group(1), array("q")).append(code)
        return plain, out

    @cached_property
    def _aliases(self) -> dict[bytes, list[tuple[str, int, bytes]]]:
        """Locals that are what an attribute holds, by the attribute: path, position of the attribute, the local's name."""
        out: dict[bytes, list[tuple[str, int, bytes]]] = {}
        for path, data in self._files.items():
            for m in _ALIAS.finditer(data):
                local = _ALIASED.fullmatch(data, data.rfind(b"\n", 0, m.start()) + 1, m.start())
                if local is not None:
                    out.setdefault(m.group(1), []).append((path, m.start(1) - 1, local.group(1)))
        return out

    def _filled_aliases(self, name: bytes) -> Iterator[Place]:
        """Places where a container that an attribute holds is changed under the name of a local."""
        for path, at, local in self._aliases.get(name, ()):
            filling = (
                rb"\b" + local + rb"(?:(?:\[[^\]\n]*\])+[ \t]*" + _AUGMENTED + rb"|\.(?:" + FILLING.encode() + rb")\()"
            )
            place = self._place(path, at, b"", True)
            if place.line and re.compile(filling).search(self._files[path], at, place.span[1]):
                yield place

    @cached_property
    def names(self) -> frozenset[str]:
        """The attributes that anything stores into, those of ``self`` alone left out."""
        return frozenset(
            name.decode()
            for name in {*self._hits[0], *self._hits[1]}
            if any(
                spelled or self._files[path][max(0, at - 5) : at] not in _OWN
                for path, at, spelled, _ in self._found(name)
            )
        )

    def of(self, name: str) -> tuple[Place, ...]:
        """Every store to an attribute of that name."""
        found = self._placed.get(name)
        if found is None:
            hits = self._found(name.encode())
            places = [*(self._place(*hit) for hit in hits), *self._filled_aliases(name.encode())]
            found = self._placed[name] = tuple(dict.fromkeys(places))
        return found

    def is_class(self, name: str) -> bool:
        """Whether a class of that name is defined anywhere."""
        return name in self._classes

    @cached_property
    def _classes(self) -> frozenset[str]:
        definitions = self._texts.definitions
        return frozenset(d.name for path in self._files for d in definitions(path) if d.is_class)

    def held(self, name: str) -> frozenset[str] | None:
        """The classes of what attributes of that name hold, as the text says at every place that stores or declares one:
        by an annotation, or a construction. None where one says nothing."""
        if name not in self._held:
            self._held[name] = self._find_held(name.encode())
        return self._held[name]

    def _find_held(self, name: bytes) -> frozenset[str] | None:
        declared = re.compile(name + rb"[ \t]*:[ \t]*([^=\n#]+)")
        stored = re.compile(rb"[ \t]*(?::[ \t]*([^=\n]+))?=[ \t]*(?:([A-Z]\w*)\(|(None\b))?")
        words: set[str] = set()
        for data in self._files.values():
            for m in declared.finditer(data) if name + b":" in data else ():
                if indent_before(data, m.start()) > 0:
                    words.update(w.decode() for w in re.findall(rb"\w+", m.group(1)))
        for path, at, spelled, fills in self._found(name):
            if fills:
                continue
            found = stored.match(self._files[path], at + 1 + len(name))
            said = (found.group(1) or found.group(2)) if found is not None else None
            if spelled or found is None or not (said or found.group(3)):
                return None
            words.update(w.decode() for w in re.findall(rb"\w+", said or b""))
        return frozenset(words - IN_ANNOTATIONS) or None

    def head(self, place: Place) -> str:
        """The text of the function up to its body."""
        data = self._files[place.path]
        end = data.find(b":\n", place.span[0], place.span[1])
        return data[place.span[0] : end if end >= 0 else place.span[1]].decode("utf-8", "replace")

    def is_parameter(self, place: Place) -> bool:
        """Whether the receiver is a parameter that the function binds to nothing else."""
        name = re.escape(place.receiver)
        if not re.search(rf"[(,*\s]{name}[ \t]*[:,=)\n]", self.head(place)):
            return False
        text = self._files[place.path][place.span[0] : place.span[1]].decode("utf-8", "replace")
        return not re.search(
            rf"^[ \t]+(?:{name}|[^=\n(]*, ?{name}\b[^=\n(]*)[ \t]*=(?!=)|\bfor {name}\b|\bas {name}\b", text, re.M
        )

    def spells(self, place: Place, words: Iterable[str], everywhere: bool = False) -> bool:
        """Whether the function that holds a place spells one of the words; ``everywhere``: or the rest of its file."""
        data = self._files[place.path]
        start, end = (0, len(data)) if everywhere else place.span
        return any(data.find(w.encode(), start, end) >= 0 for w in words)

    def reads(self, place: Place) -> frozenset[str]:
        """What the function that holds a place reads of its receiver."""
        text = self._files[place.path][place.span[0] : place.span[1]].decode("utf-8", "replace")
        pattern = rf"(?<![\w.]){re.escape(place.receiver)}\.(\w+)\b(?![ \t]*=[^=])"
        return frozenset(re.findall(pattern, text)) if place.receiver else frozenset()

    def _place(self, path: str, at: int, spelled: bytes, fills: bool) -> Place:
        data = self._files[path]
        begin = data.rfind(b"\n", 0, at) + 1
        receiver = spelled
        if not spelled:
            match = _RECEIVER.search(data, begin, at)
            receiver = match.group() if match is not None else b""
        here = len(data[begin:at]) - len(data[begin:at].lstrip())
        chain = self._around(path, begin, here)
        outer = next((i for i, d in enumerate(chain) if not d.is_class), None)
        if outer is None:
            return Place(path, receiver.decode(), 0, (0, len(data)), 0, "", fills)
        function = chain[outer]
        owner = chain[outer - 1] if outer else None
        inner = max(i for i, d in enumerate(chain) if not d.is_class)
        method = chain[inner] if inner and chain[inner - 1].is_class else None
        own = self._own(data, method, receiver) if method is not None else ""
        return Place(
            path,
            receiver.decode(),
            self._line(data, function.line_start),
            (function.line_start, self._end(path, function)),
            self._line(data, owner.line_start) if owner is not None else 0,
            own,
            fills,
        )

    @staticmethod
    def _own(data: bytes, method: Definition, receiver: bytes) -> str:
        """Whether the receiver is what a method is called on: "self", "class", or nothing."""
        first = _FIRST.search(data, method.line_start)
        if first is None or first.group(1) != receiver:
            return ""
        before = data.rfind(b"\n", 0, method.line_start) + 1
        above = data[data.rfind(b"\n", 0, max(0, before - 1)) + 1 : before].strip()
        return {b"@staticmethod": "", b"@classmethod": "class"}.get(above, "self")

    @staticmethod
    def _line(data: bytes, at: int) -> int:
        return data.count(b"\n", 0, at) + 1

    def _around(self, path: str, at: int, indent: int) -> list[Definition]:
        """The definitions around a position, outermost first."""
        defs = self._texts.definitions(path)
        out: list[Definition] = []
        for i in range(bisect_right(defs, at, key=_line_start) - 1, -1, -1):
            d = defs[i]
            if d.indent < indent:
                out.append(d)
                indent = d.indent
            if not indent:
                break
        out.reverse()
        return out

    def _end(self, path: str, function: Definition) -> int:
        defs = self._texts.definitions(path)
        for i in range(bisect_right(defs, function.line_start, key=_line_start), len(defs)):
            if defs[i].indent <= function.indent:
                return defs[i].line_start
        return len(self._files[path])


_line_start = attrgetter("line_start")
