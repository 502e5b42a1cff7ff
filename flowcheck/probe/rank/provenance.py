"""Where a tensor without numbers comes from: every operation's result is a sum of terms, followed by storage and place.

An addition holds the terms of both sides, a copy or another view those of the original, and any other operation makes a new
term. A boundary is what enters a layer, so it is whatever terms its stream had then. A term that is summed over the ranks later
was a part until then.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flowcheck.probe.protocol import Block
from flowcheck.probe.rank.identify import name_of

__all__ = ["Provenance"]

Terms = Counter[int]
Place = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Offset, shape and strides of a view."""

_SAME = frozenset(
    {"clone", "_to_copy", "to", "contiguous", "detach", "alias", "lift_fresh", "view", "_unsafe_view", "reshape"}
)
_VIEWS = frozenset(
    {"view", "_unsafe_view", "reshape", "alias", "detach", "slice", "unsqueeze", "squeeze", "expand", "as_strided"}
)
_SUMS = frozenset({"add", "add_"})
_COPIES = frozenset({"copy_"})


class Provenance(TorchDispatchMode):  # type: ignore[misc]
    """Follows what is computed inside the context.

    Args:
        layers: Number of decoder layers of the target.
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = layers
        self.parts: dict[int, list[Terms]] = {}
        self.summed: set[int] = set()
        self._next = 0
        self._held: dict[int, tuple[Any, dict[Place, Terms]]] = {}

    def entered(self, index: int, stream: Sequence[Any]) -> None:
        """What enters a layer is the boundary of its number."""
        self.parts[index] = [self.terms(each) for each in stream]

    def left(self, index: int, stream: Sequence[Any]) -> None:
        """What leaves the last layer is the last boundary."""
        if index == self.layers - 1:
            self.parts[index + 1] = [self.terms(each) for each in stream]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One operation: done, then noted."""
        kwargs = kwargs or {}
        space, _, rest = str(func).partition(".")
        name = rest.partition(".")[0]
        before = [self.terms(each) for each in _tensors(args)] if "reduce" in name else []
        given = (
            [(each, self.terms(each)) for each in args if isinstance(each, torch.Tensor)]
            if name in _SUMS | _COPIES
            else []
        )
        out = func(*args, **kwargs)
        for terms in before:
            self.summed |= set(terms)
        if name in _SUMS and len(given) == 2 and kwargs.get("alpha", 1) == 1:
            self._note(out, given[0][1] + given[1][1])
        elif name in _COPIES and len(given) == 2:
            self._note(out, given[1][1], given[1][0])
        elif name in _SAME and isinstance(out, torch.Tensor):
            self._same(args[0], out)
        elif name == "cat":
            self._cat(args, kwargs, out)
        elif space == "c10d" and name.endswith("_"):
            for each in _tensors(args):
                self._note(each, self._fresh())
        elif name in _VIEWS:
            pass
        else:
            self._anew(func, args, out)
        return out

    def _anew(self, func: Any, args: Any, out: Any) -> None:
        """Results that share their storage with an argument are views, unless the operation says that it wrote."""
        schema = getattr(func, "_schema", None)
        if schema is None:
            return
        for argument, value in zip(schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for each in _tensors(value):
                    self._note(each, self._fresh())
        if all(each.alias_info is None for each in schema.returns):
            for each in _tensors(out):
                self._note(each, self._fresh())

    def _fresh(self) -> Terms:
        self._next += 1
        return Counter({self._next: 1})

    def _storage(self, tensor: Any) -> dict[Place, Terms]:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._held:
            self._held[key] = (storage, {})  # held, so that no other storage gets its number
        return self._held[key][1]

    def terms(self, tensor: Any) -> Terms:
        """What a tensor is the sum of. One that was never met gets a term of its own."""
        places = self._storage(tensor)
        place = _place(tensor)
        if place not in places:
            same = next((each for each in places if _covers(each, place)), None)
            places[place] = self._fresh() if same is None else Counter(places[same])
        return places[place]

    def _note(self, tensor: Any, terms: Terms, source: Any = None) -> None:
        if not isinstance(tensor, torch.Tensor):
            return
        places = self._storage(tensor)
        place = _place(tensor)
        for each in [each for each in places if each != place and _meet(each, place)]:
            del places[each]
        places[place] = Counter(terms)
        if source is not None:
            self._blocks_along(source, tensor)

    def _same(self, source: Any, out: Any) -> None:
        if source.untyped_storage()._cdata != out.untyped_storage()._cdata:
            self._note(out, self.terms(source), source)
        elif _place(source) != _place(out):
            self._storage(out)[_place(out)] = Counter(self.terms(source))

    def _blocks_along(self, source: Any, out: Any) -> None:
        """A copy holds, in each range of its columns, what the original held there."""
        if source.dim() != 2 or out.shape != source.shape:
            return
        inside, to = self._storage(source), self._storage(out)
        start, row, target_row = source.storage_offset(), source.stride(0), out.stride(0)
        for (offset, shape, stride), terms in list(inside.items()):
            column = offset - start
            if (
                len(shape) == 2
                and shape[0] == source.shape[0]
                and stride == (row, 1)
                and 0 <= column < source.shape[1] != shape[1]
            ):
                to[(out.storage_offset() + column, shape, (target_row, 1))] = Counter(terms)

    def _cat(self, args: Any, kwargs: Any, out: Any) -> None:
        pieces = list(args[0])
        axis = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        terms = [self.terms(each) for each in pieces]
        self._note(out, terms[0] if len(pieces) == 1 else self._fresh())
        if out.dim() != 2 or axis not in (1, -1):
            return
        places, column = self._storage(out), 0
        for piece, held in zip(pieces, terms, strict=True):
            places[(out.storage_offset() + column, tuple(piece.shape), tuple(out.stride()))] = Counter(held)
            column += piece.shape[1]

    def blocks(self, states: Any, width: int) -> tuple[Block, ...]:
        """What each piece of the target's width is."""
        out = []
        for index in range(states.shape[1] // width):
            out.append(self._named(index, self.terms(states[:, index * width : (index + 1) * width])))
        return tuple(out)

    def _named(self, index: int, terms: Terms) -> Block:
        last = self.layers
        whole = {k: sum(parts, Counter()) for k, parts in self.parts.items()}
        partial = sorted(set(terms) & self.summed)
        for k, each in whole.items():
            if terms == each:
                if partial:
                    said = f"{name_of(k, last)} before {len(partial)} of its terms were summed over the ranks"
                    return Block(index, "partial", k, said)
                return Block(index, "boundary", k, name_of(k, last))
        for k, parts in self.parts.items():
            if len(parts) > 1 and terms == parts[0]:
                return Block(
                    index, "other", k, f"{name_of(k, last)} without its residual: only what the layer before it gave"
                )
            if len(parts) > 1 and terms == sum(parts[1:], Counter()):
                return Block(
                    index, "other", k, f"the residual of {name_of(k, last)} without what the layer before it gave"
                )
        nearest = min(whole, key=lambda k: sum(((whole[k] - terms) + (terms - whole[k])).values()), default=None)
        if nearest is None or not set(whole[nearest]) & set(terms):
            return Block(index, "other", None, "made by an operation of which no boundary holds the result")
        less, more = sum((whole[nearest] - terms).values()), sum((terms - whole[nearest]).values())
        differs = [f"without {less} of its terms"] * bool(less) + [f"with {more} more"] * bool(more)
        return Block(index, "other", nearest, f"{name_of(nearest, last)} {' and '.join(differs)}")


def _place(tensor: Any) -> Place:
    return tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())


def _covers(one: Place, other: Place) -> bool:
    """Whether two places are the same elements in the same order under different shapes."""
    return one[0] == other[0] and _is_dense(one) and _is_dense(other) and math.prod(one[1]) == math.prod(other[1])


def _is_dense(place: Place) -> bool:
    size = 1
    for length, stride in zip(reversed(place[1]), reversed(place[2]), strict=True):
        if length != 1 and stride != size:
            return False
        size *= length
    return True


def _meet(one: Place, other: Place) -> bool:
    """Whether two places of one storage may share elements."""
    if len(one[1]) != 2 or len(other[1]) != 2 or one[2] != other[2] or one[2][1] != 1 or one[2][0] <= 0:
        return True
    row = one[2][0]
    (top, left), (low, right) = divmod(one[0], row), divmod(other[0], row)
    apart = left + one[1][1] <= right or right + other[1][1] <= left
    return not (apart or top + one[1][0] <= low or low + other[1][0] <= top)


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
