"""What tensors hold, as plain data: sums of named contributions, their widths, their rows, their segments of columns.

Nothing here knows the heap. A content is a sum of *terms*; a term is a source (what made it) times a factor, complete or
still to be summed over named groups of ranks. A content that is not known in full keeps the terms that it certainly has,
and the reason.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Union

from flowcheck.interp.trails import Site
from flowcheck.interp.values import Known, Unknown, Value

__all__ = [
    "NOTHING", "Content", "Either", "Named", "Normed", "Opaque", "Rows", "Segment", "Source", "Term", "Width", "either",
    "leaves", "named", "one_rank_apart", "value_of", "whole", "width_of",
]  # fmt: skip

MOST_TERMS = 4096
"""More terms than this are no stream of any model: the content is given up."""


# --------------------------------------------------------------------------------------------------------------- widths
@dataclass(frozen=True, slots=True)
class Width:
    """A linear expression ``const + sum(factor x atom)`` in named quantities, such as the names of a configuration."""

    const: int = 0
    atoms: tuple[tuple[Hashable, int], ...] = ()

    def __add__(self, other: Width) -> Width:
        total: dict[Hashable, int] = dict(self.atoms)
        for atom, factor in other.atoms:
            total[atom] = total.get(atom, 0) + factor
        kept = sorted(((a, f) for a, f in total.items() if f), key=lambda item: repr(item[0]))
        return Width(self.const + other.const, tuple(kept))

    def __mul__(self, factor: int) -> Width:
        return Width(self.const * factor, tuple((a, f * factor) for a, f in self.atoms if factor))

    def __sub__(self, other: Width) -> Width:
        return self + other * -1

    @property
    def number(self) -> int | None:
        """The width as a number, where it is one."""
        return None if self.atoms else self.const

    @property
    def sign(self) -> int | None:
        """-1, 0 or 1 where that is known of a difference; atoms are positive numbers that nobody knows."""
        if not self.atoms:
            return (self.const > 0) - (self.const < 0)
        if self.const >= 0 and all(f > 0 for _, f in self.atoms):
            return 1
        if self.const <= 0 and all(f < 0 for _, f in self.atoms):
            return -1
        return None

    def __str__(self) -> str:
        parts = [f"{f}*{_atom(a)}" if f != 1 else _atom(a) for a, f in self.atoms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


def _atom(atom: Hashable) -> str:
    return str(atom[-1]) if isinstance(atom, tuple) and atom else str(atom)


def width_of(v: Value | None) -> Width | None:
    """The width that a value of the interpreter says; None where it says none."""
    if isinstance(v, Known):
        return Width(v.value) if type(v.value) is int else None
    if isinstance(v, Unknown) and v.key is not None:
        return _of_key(v.key)
    return None


def _of_key(key: Hashable) -> Width:
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "width" and isinstance(key[1], Width):
        return key[1]
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "lit" and type(key[1]) is int:
        return Width(key[1])
    if isinstance(key, tuple) and len(key) == 4 and key[0] == "op":
        a, b = _of_key(key[2]), _of_key(key[3])
        if key[1] == "+":
            return a + b
        if key[1] == "-":
            return a - b
        if key[1] == "*" and a.number is not None:
            return b * a.number
        if key[1] == "*" and b.number is not None:
            return a * b.number
    return Width(0, ((key, 1),))


def value_of(width: Width | None, what: str = "a width") -> Value:
    """A width as a value of the interpreter: equal widths are equal values."""
    if width is None:
        return Unknown(what)
    if width.number is not None:
        return Known(width.number)
    if width.const == 0 and len(width.atoms) == 1 and width.atoms[0][1] == 1:
        return Unknown(str(width), width.atoms[0][0])
    return Unknown(str(width), ("width", width))


# ------------------------------------------------------------------------------------------------------------- contents
@dataclass(frozen=True, slots=True)
class Named:
    """A contribution by name: the path of the module that made it."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Opaque:
    """What an operation makes of others: its name, where it stands, and the names of the contributions in it."""

    op: str
    site: str
    deps: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.op}@{self.site}"


@dataclass(frozen=True, slots=True)
class Normed:
    """The norm of a sum. The sum is kept: the input of the final norm is what boundaries are named after."""

    by: str
    of: Content

    def __str__(self) -> str:
        return f"norm by {self.by}"


@dataclass(frozen=True, slots=True)
class Either:
    """What one of two paths made, where they came together again. ``event`` names that place in the run: what has the same
    event was made by the same of the two paths, so that equal ones are equal whichever it was."""

    event: int
    first: Content
    second: Content

    def __post_init__(self) -> None:
        # choices of choices share what they are made of: as one object, so that comparing two never walks all ways through them
        object.__setattr__(self, "first", _only(self.first))
        object.__setattr__(self, "second", _only(self.second))

    def __str__(self) -> str:
        return f"({self.first} or {self.second})"


Source = Union[Named, Opaque, Normed, Either]


@dataclass(frozen=True, slots=True)
class Term:
    """``number x tokens x source``, summed over nothing more or still to be summed over the groups in ``pending``.

    ``tokens`` name factors that are tensors or numbers nobody knows.
    """

    source: Source
    number: float = 1
    tokens: tuple[str, ...] = ()
    pending: frozenset[str] = frozenset()

    def __str__(self) -> str:
        factor = "" if self.number == 1 else f"{self.number:g}*"
        owed = f" (partial over {', '.join(sorted(self.pending))})" if self.pending else ""
        return f"{factor}{''.join(t + '*' for t in self.tokens)}{self.source}{owed}"


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """A sum of terms; ``lost`` says why there may be others, or why these may be missing a factor."""

    terms: frozenset[Term] = frozenset()
    lost: str | None = None
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.terms, self.lost)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Content) or self._hash != other._hash:
            return False
        return self.lost == other.lost and self.terms == other.terms

    def plus(self, other: Content, sign: float = 1) -> Content:
        """The sum, or with ``sign`` -1 the difference."""
        if not self.terms and self.lost is None and sign == 1:
            return other
        if not other.terms and other.lost is None:
            return self
        total: dict[tuple[Source, tuple[str, ...], frozenset[str]], float] = {}
        for terms, factor in ((self.terms, 1.0), (other.terms, sign)):
            for t in terms:
                key = (t.source, t.tokens, t.pending)
                total[key] = total.get(key, 0) + factor * t.number
        if len(total) > MOST_TERMS:
            return Content(lost="a sum of too many terms")
        made = frozenset(Term(s, _tidy(n), tokens, pending) for (s, tokens, pending), n in total.items() if n)
        return Content(made, self.lost or other.lost)

    def times(self, number: float = 1, token: str | None = None) -> Content:
        """The content scaled by a number, or by something that is named but not known."""
        if number == 1 and token is None:
            return self
        if number == 0:
            return Content()
        return Content(
            frozenset(
                Term(
                    t.source,
                    _tidy(t.number * number),
                    tuple(sorted((*t.tokens, token))) if token else t.tokens,
                    t.pending,
                )
                for t in self.terms
            ),
            self.lost,
        )

    def reduced(self, group: str, ranks: float | None) -> Content:
        """After a sum over the ranks of ``group``: what was partial is complete, what was complete is ``ranks`` fold."""
        return _reduced(self, group, ranks)

    def joined(self, other: Content) -> Content:
        """What is certain of a content that is one or the other: the terms that both have."""
        if self == other:
            return self
        if self.terms == other.terms:
            return Content(self.terms, self.lost or other.lost)
        if _APART:
            return self._one_rank_apart(other, _APART[-1])
        lost = self.lost or other.lost or "differs from path to path"
        return Content(self.terms & other.terms, lost)

    def _one_rank_apart(self, others: Content, group: str) -> Content:
        """What each rank has where rank 0 has this and the others have that: what it alone has is its part of a sum."""
        common = self.terms & others.terms
        parts = None if others.terms - self.terms else _part_of(Content(self.terms - common), group)
        if parts is None:
            return Content(common, "differs from rank to rank")
        return Content(common, self.lost or others.lost).plus(parts)

    @property
    def pending(self) -> frozenset[str]:
        """The groups over which some term is partial, or may be."""
        return _pending(self)

    @property
    def settled(self) -> bool:
        """Whether it is partial over the same groups on all paths."""
        return _settled(self)

    @property
    def summed(self) -> Content:
        """The content as it is when nothing of it is left to be summed over ranks."""
        return _summed(self)

    def __str__(self) -> str:
        parts = sorted(str(t) for t in self.terms)
        text = " + ".join(parts) if parts else "nothing"
        return text if self.lost is None else f"{text} + ? ({self.lost})"


# Choices nest: there are many more ways through them than contents, so that each content is asked once.
@lru_cache(maxsize=1 << 16)
def _only(content: Content) -> Content:
    """The one object that stands for all equal contents."""
    return content


@lru_cache(maxsize=1 << 16)
def _reduced(content: Content, group: str, ranks: float | None) -> Content:
    token = None if ranks is not None else f"ranks of {group}"
    kept: set[Term] = set()
    total = Content(lost=content.lost)
    parts: set[Term] = set()
    for t in content.terms:
        if isinstance(t.source, Either):
            arms = (_reduced(x, group, ranks) for x in (t.source.first, t.source.second))
            made = either(t.source.event, *arms).times(t.number)
            for name in t.tokens:
                made = made.times(token=name)
            total = total.plus(made)
        elif group in t.pending:
            parts.add(Term(t.source, t.number, t.tokens, t.pending - {group}))
        else:
            kept.add(t)
    return total.plus(Content(frozenset(parts))).plus(Content(frozenset(kept)).times(ranks or 1, token))


@lru_cache(maxsize=1 << 16)
def _part_of(content: Content, group: str) -> Content | None:
    """The content as one rank's part of a sum over a group; None where some of it is a part of one already."""
    parts: set[Term] = set()
    for t in content.terms:
        if isinstance(t.source, Either):  # what is owed stands in what either path made
            first, second = (_part_of(x, group) for x in (t.source.first, t.source.second))
            if first is None or second is None:
                return None
            parts.add(Term(Either(t.source.event, first, second), t.number, t.tokens, t.pending))
        elif group in t.pending:
            return None
        else:
            parts.add(Term(t.source, t.number, t.tokens, t.pending | {group}))
    return Content(frozenset(parts), content.lost)


@lru_cache(maxsize=1 << 16)
def _pending(content: Content) -> frozenset[str]:
    inside = (
        _pending(x) for t in content.terms if isinstance(t.source, Either) for x in (t.source.first, t.source.second)
    )
    return frozenset().union(*(t.pending for t in content.terms), *inside)


@lru_cache(maxsize=1 << 16)
def _settled(content: Content) -> bool:
    pairs = [(t.source.first, t.source.second) for t in content.terms if isinstance(t.source, Either)]
    return all(_pending(x) == _pending(y) and _settled(x) and _settled(y) for x, y in pairs)


@lru_cache(maxsize=1 << 16)
def _summed(content: Content) -> Content:
    return Content(frozenset(Term(whole(t.source), t.number, t.tokens) for t in content.terms), content.lost)


def _tidy(number: float) -> float:
    return int(number) if number == int(number) else number


NOTHING = Content()
_APART: list[str] = []


@contextmanager
def one_rank_apart(group: str) -> Iterator[None]:
    """While it is open, contents that are joined are those of rank 0 and of the other ranks of a group, in this order."""
    _APART.append(group)
    try:
        yield
    finally:
        _APART.pop()


def named(path: str, *pending: str) -> Content:
    """The content of one named contribution."""
    return Content(frozenset((Term(Named(path), pending=frozenset(pending)),)))


def whole(source: Source) -> Source:
    """What a source is when nothing of it is left to be summed over ranks."""
    return Either(source.event, source.first.summed, source.second.summed) if isinstance(source, Either) else source


def either(event: int, a: Content, b: Content) -> Content:
    """A content that is one or the other: what both have, and one term for what they differ in."""
    if a == b:
        return a
    common = a.terms & b.terms
    lost = a.lost or b.lost
    if a.terms == b.terms:
        return Content(common, lost)
    choice = Either(event, Content(a.terms - common), Content(b.terms - common))
    return Content(common | {Term(choice)}, lost)


def leaves(contents: Iterable[Content]) -> frozenset[str]:
    """The names of the contributions that contents are made of, however."""
    out: set[str] = set()
    seen: set[int] = set()
    left = list(contents)
    while left:  # what several sources hold is looked at once: there are more ways to it than anybody could walk
        content = left.pop()
        if id(content) in seen:
            continue
        seen.add(id(content))
        for t in content.terms:
            if isinstance(t.source, Named):
                out.add(t.source.path)
            elif isinstance(t.source, Opaque):
                out |= t.source.deps
            elif isinstance(t.source, Either):
                left += (t.source.first, t.source.second)
            else:
                left.append(t.source.of)
    return frozenset(out)


# ---------------------------------------------------------------------------------------------------- rows and segments
DIFFER = "rows differ from path to path"


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows a tensor has: all tokens of the batch, or its part along ``shards``; ``picked`` says which were taken."""

    shards: frozenset[str] = frozenset()
    picked: str | None = None

    def joined(self, other: Rows) -> Rows:
        """The rows of a tensor that has one or the other."""
        if self == other:
            return self
        return Rows(self.shards | other.shards, DIFFER)

    @property
    def differ(self) -> bool:
        """Whether it is not known which of several."""
        return self.picked == DIFFER

    def __str__(self) -> str:
        parts = ["all rows" if self.picked is None else self.picked]
        parts += [f"sharded over {s}" for s in sorted(self.shards)]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Segment:
    """Columns of a storage that hold one content."""

    width: Width | None
    content: Content


@dataclass(frozen=True, slots=True)
class Storage:
    """What a storage holds, column range by column range, and who wrote it in place, the last one last.

    ``kin``: the addresses of storages that stand for a part of its rows, or of whose rows it stands for a part: what is
    written into one may be seen in the other.
    """

    segments: tuple[Segment, ...]
    writers: tuple[Site, ...] = field(default=(), compare=False)
    kin: frozenset[int] = frozenset()

    @property
    def addresses(self) -> frozenset[int]:
        """The addresses that it names."""
        return self.kin

    def renamed(self, names: Mapping[int, int]) -> Storage:
        """The same where what was at the addresses that are the keys of ``names`` goes by their values."""
        if names.keys().isdisjoint(self.kin):
            return self
        return Storage(self.segments, self.writers, frozenset(names.get(oid, oid) for oid in self.kin))

    def either(self, event: int, other: Storage) -> Storage | None:
        """A storage that holds one or the other, where the columns are the same (see :func:`either`)."""
        if _APART or [s.width for s in self.segments] != [s.width for s in other.segments]:
            return None  # what ranks hold is no choice between them: it is joined as what each of them has
        pairs = zip(self.segments, other.segments, strict=True)
        parts = tuple(Segment(a.width, either(event, a.content, b.content)) for a, b in pairs)
        writers = self.writers if len(self.writers) >= len(other.writers) else other.writers
        return Storage(parts, writers, self.kin | other.kin)

    def joined(self, other: Storage) -> Storage:
        """What is certain of a storage that holds one or the other."""
        kin = self.kin | other.kin
        if self.segments == other.segments:
            return self if kin == self.kin else Storage(self.segments, self.writers, kin)
        writers = self.writers if len(self.writers) >= len(other.writers) else other.writers
        if [s.width for s in self.segments] == [s.width for s in other.segments]:
            pairs = zip(self.segments, other.segments, strict=True)
            return Storage(tuple(Segment(a.width, a.content.joined(b.content)) for a, b in pairs), writers, kin)
        whole: Content | None = None
        for s in (*self.segments, *other.segments):
            whole = s.content if whole is None else whole.joined(s.content)
        lost = Content((whole or NOTHING).terms, "columns differ from path to path")
        return Storage((Segment(_total(self.segments), lost),), writers, kin)


def _total(segments: tuple[Segment, ...]) -> Width | None:
    total = Width()
    for s in segments:
        if s.width is None:
            return None
        total += s.width
    return total
