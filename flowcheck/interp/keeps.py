"""Tensors that are put into lists: what they held then, and where that was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowcheck.interp.contents import Segment
from flowcheck.interp.trails import Site
from flowcheck.interp.values import Ref

if TYPE_CHECKING:
    from flowcheck.interp.frames import Frame

__all__ = ["Kept", "asking"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A tensor that was put into a list: the addresses of both, what it held then, and where that stands."""

    container: int
    tensor: int
    segments: tuple[Segment, ...]
    site: Site | None


def asking(container: Ref, made: Site | None, fr: Frame) -> Site | None:
    """Where a list is asked to take something in by one of its own methods: in the function that made the list, else where
    the method is called. None where no method of its own puts it in."""
    if fr.self_ != container:
        return None
    asked = fr.call
    for frame in fr.chain():
        if (
            made is not None
            and frame.up is not None
            and frame.up.symbol == made.symbol
            and frame.up.module is made.module
        ):
            return frame.call
        asked = frame.call if frame.self_ == container else asked
    return asked
