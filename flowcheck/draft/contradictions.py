"""All that can be said about a pair without a tree, most severe first."""

from __future__ import annotations

from flowcheck.draft.against_header import algorithm_mismatches, header_mismatches
from flowcheck.draft.against_target import config_mismatches
from flowcheck.draft.mismatch import Mismatch, Weight
from flowcheck.draft.pairing import Pairing

__all__ = ["mismatches_of"]


def mismatches_of(pair: Pairing, *, algorithm: str | None = None) -> tuple[Mismatch, ...]:
    """What does not fit in a pair; ``algorithm`` is the one that a launch asks for, if it is known."""
    found = [*header_mismatches(pair), *config_mismatches(pair)]
    if algorithm is not None:
        found += algorithm_mismatches(pair, algorithm)
    order = list(Weight)
    return tuple(sorted(dict.fromkeys(found), key=lambda each: order.index(each.kind.weight)))
