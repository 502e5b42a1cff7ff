"""What a tensor holds, named as a point of the residual stream: boundary k is the embedding and all that layers before k add."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from flowcheck.flow.facts import Place
from flowcheck.interp.contents import Content, Either, Named, Normed, Opaque, Source, Term, whole

__all__ = ["Boundary", "Capture", "Captured", "Reach", "RowLimit", "Stream", "boundary_of"]


class Reach(str, Enum):
    """What each rank holds of a captured state."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    SCATTERED = "scattered"


@dataclass(frozen=True, slots=True)
class Boundary:
    """One value on the axis of boundaries. ``index`` is None where it is none, or where that is not known (``reason``).

    ``residual``: whether the residual stream is in it. ``normed``: it is the norm of the boundary, not the boundary.
    ``certain``: the verdict holds; without, ``reason`` says what is not known.
    """

    index: int | None
    reach: Reach
    residual: bool
    normed: bool
    certain: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Captured:
    """One captured state as it reaches the logits processor, in the order of the list.

    ``at_capture``: what it held when it was put into the list; another value than ``boundary`` where an alias was written
    since (``overwritten`` says where). ``rows``: which rows it has. ``width``: its width as text.
    """

    boundary: Boundary
    at_capture: Boundary
    rows: str
    width: str
    made: Place | None
    appended: Place | None
    overwritten: Place | None


@dataclass(frozen=True, slots=True)
class RowLimit:
    """A place that compares a number of rows with a number: of the batch ("rows"), of one rank's share of them ("share"),
    or of all replicas together ("gathered").
    """

    whose: str
    operator: str
    number: int
    place: Place

    def cuts(self, shares: int, replicas: int) -> tuple[int, ...]:
        """The numbers of rows of a batch from which on the answer may be another one, for so many shares and replicas."""
        after = {"<": (0,), ">=": (0,), "<=": (1,), ">": (1,)}.get(self.operator, (0, 1))
        values = [self.number + a for a in after]
        if self.whose == "share":
            values = [v * shares for v in values]
        elif self.whose == "gathered":
            values = [-(-v // replicas) for v in values]
        return tuple(v for v in values if v > 1)


@dataclass(frozen=True, slots=True)
class Capture:
    """What one class captures on one path. ``told``: the calls of its setter before that, in their order.

    ``question`` is why nothing is known, where nothing is. ``raised``: the forward certainly raises there. ``width``: the
    width of what is handed to the draft; ``None`` where it is not known. ``unmodelled``: what was called and has no model.
    ``limits``: where the number of rows was compared with a number; the answer is that for the rows of the assumptions.
    ``unfinished``: what layers before the last one add is one rank's part of a sum in the input of the final norm, and nothing
    captured owes more than that: the class itself never completes its sums on ranks that share the work so.
    """

    model: str
    phase: str
    told: tuple[tuple[int, ...] | None, ...]
    layers: int
    states: tuple[Captured, ...]
    width: str | None
    rows: str | None
    concat: Place | None
    processor: Place | None
    raised: tuple[str, Place | None] | None
    question: str | None
    unmodelled: tuple[str, ...]
    assumptions: tuple[str, ...]
    limits: tuple[RowLimit, ...] = ()
    unfinished: bool = False

    @property
    def boundaries(self) -> tuple[int | None, ...]:
        """The indices alone; None for what is no boundary, or only the norm of one."""
        return tuple(None if s.boundary.normed else s.boundary.index for s in self.states)


@dataclass(frozen=True, slots=True)
class Stream:
    """The input of the final norm, and to which layer each of its contributions belongs (-1: before the first layer).

    ``stack``: the path of the list of layers.
    """

    final: Content
    layers: int
    stack: str

    def layer_of(self, source: Source) -> int | None:
        """The layer that adds a contribution; None where it is no single one's."""
        if isinstance(source, (Named, Normed)):
            index = layer_index(source.path if isinstance(source, Named) else source.by, self.stack)
            return -1 if index is None else index
        found: set[int | None]
        if isinstance(source, Either):
            found = {self.layer_of(t.source) for x in (source.first, source.second) for t in x.terms}
        else:
            found = {-1 if (i := layer_index(n, self.stack)) is None else i for n in source.deps}
        return found.pop() if len(found) == 1 else None

    def below(self, k: int) -> frozenset[Source]:
        """What boundary k has: what the layers before it add."""
        return frozenset(whole(t.source) for t in self.final.terms if (self.layer_of(t.source) or 0) < k)

    def scaled_before(self, term: Term, k: int) -> tuple[str, ...]:
        """The factors of a term of the stream but for those by which the layers from k on scale it."""
        indices = {token: layer_index(token, self.stack) for token in term.tokens}
        return tuple(token for token in term.tokens if (i := indices[token]) is None or i < k)

    def unfinished(self, captured: Iterable[Content]) -> bool:
        """Whether the stream owes what a layer before the last one added, and captured contents owe nothing that it does not."""
        owed = _owed(self.final)
        early = any(groups and -1 <= (self.layer_of(s) or 0) < self.layers - 1 for s, groups in owed.items())
        return early and all(
            groups <= owed.get(s, frozenset()) for content in captured for s, groups in _owed(content).items()
        )

    @property
    def question(self) -> str | None:
        """Why the stream names no boundaries, where it does not."""
        if self.final.lost is not None:
            return f"the input of the final norm is not known: {self.final.lost}"
        odd = next((t for t in self.final.terms if self.layer_of(t.source) is None), None)
        return None if odd is None else f"the input of the final norm holds {odd.source}"


def _owed(content: Content) -> dict[Source, frozenset[str]]:
    """Over which groups each contribution is still to be summed, or may be."""
    out: dict[Source, frozenset[str]] = {}
    for t in content.terms:
        key = whole(t.source)
        out[key] = out.get(key, frozenset()) | Content(frozenset((t,))).pending
    return out


def _unknown(reason: str, reach: Reach = Reach.COMPLETE) -> Boundary:
    return Boundary(None, reach, False, False, False, reason)


def boundary_of(content: Content, stream: Stream, scattered: bool = False) -> Boundary:
    """Names a content relative to the stream."""
    reach = Reach.SCATTERED if scattered else Reach.PARTIAL if content.pending else Reach.COMPLETE
    if content.lost is not None:
        return _unknown(content.lost, reach)
    if stream.question is not None:
        return _unknown(stream.question, reach)
    if not content.settled:
        return _unknown("it is partial on some paths only", reach)
    sources = frozenset(whole(t.source) for t in content.terms)
    for k in range(stream.layers + 1):
        if sources == stream.below(k):
            return _compared(content, stream, k, reach)
    if len(content.terms) == 1:
        only = next(iter(content.terms))
        if isinstance(only.source, Normed) and only.number == 1 and not only.tokens:
            inside = boundary_of(only.source.of, stream, scattered)
            return Boundary(
                inside.index, inside.reach, inside.residual, True, inside.certain, inside.reason or "normed"
            )
    odd = sorted(str(t.source) for t in content.terms if isinstance(t.source, Opaque))
    if odd:
        return _unknown(f"it holds {odd[0]}", reach)
    chosen = _chosen(sources | stream.below(stream.layers))
    if any(sources - chosen == stream.below(k) - chosen for k in range(stream.layers + 1)):
        return _unknown("what paths add to it may not be what they add to the stream", reach)
    highest = max((stream.layer_of(s) or 0 for s in sources), default=-1)
    missing = sorted(str(s) for s in stream.below(highest + 1) - sources)
    residual = len(missing) < len(sources)
    what = "nothing" if not sources else f"contributions up to layer {highest}, without {', '.join(missing[:2])}"
    return Boundary(None, reach, residual, False, True, what)


def _chosen(sources: frozenset[Source]) -> frozenset[Source]:
    """What is there on some paths only."""
    out: set[Source] = set()
    for s in sources:
        if isinstance(s, Either):
            inside = frozenset(t.source for x in (s.first, s.second) for t in x.terms)
            out |= {s} | inside | _chosen(inside)
    return frozenset(out)


def _compared(content: Content, stream: Stream, k: int, reach: Reach) -> Boundary:
    """The same contributions are in it: whether they count as much as in the stream where layer k takes it in."""
    wanted: dict[tuple[Source, tuple[str, ...]], float] = {}
    for t in stream.final.terms:
        if (stream.layer_of(t.source) or 0) < k:
            key = (whole(t.source), stream.scaled_before(t, k))
            wanted[key] = wanted.get(key, 0) + t.number
    held = {(whole(t.source), t.tokens): t.number for t in content.terms}
    if held != wanted:
        off = min(str(source) for source, _ in dict(held.items() ^ wanted.items()))
        return Boundary(None, reach, True, False, True, f"like boundary {k}, but {off} counts otherwise")
    return Boundary(k, reach, True, False, True, "")


LAYER = re.compile(r"\.(\d+)(?:\.|$)")


def layer_index(path: str, stack: str) -> int | None:
    """The number of the layer to which a module belongs, where it is one of those in ``stack``."""
    if not path.startswith(stack + "."):
        return None
    found = LAYER.match(path[len(stack) :])
    return int(found.group(1)) if found is not None else None
