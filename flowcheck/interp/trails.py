"""Trails: the chain of sites that made a value, kept outside value equality.

A trail is a parent pointer, so that sharing costs nothing; two equal values may have different trails, and a join keeps
the first. Positions are resolved when a report asks for them, never here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowcheck.program.modules import Module
    from flowcheck.syntax import ir

__all__ = ["Site", "Trail", "extend", "links"]

LONGEST_TRAIL = 40
"""A trail that grows past this is kept as it is: loops would make it grow for ever, and nobody reads on."""


@dataclass(frozen=True, slots=True)
class Site:
    """A node of the tree: its module, the definition whose slice numbers it (None: the module's top level), its number."""

    module: Module
    owner: ir.FunctionDef | None
    nid: int
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Trail:
    site: Site
    note: str
    parent: Trail | None = None
    length: int = 1


def extend(trail: Trail | None, site: Site | None, note: str) -> Trail | None:
    """``trail`` with one more link; the same trail when it ends at that site already, or is too long."""
    if site is None:
        return trail
    if trail is None:
        return Trail(site, note)
    if trail.site == site or trail.length >= LONGEST_TRAIL:
        return trail
    return Trail(site, note, trail, trail.length + 1)


def links(trail: Trail | None) -> list[Trail]:
    """The links from the origin to the last use."""
    result: list[Trail] = []
    while trail is not None:
        result.append(trail)
        trail = trail.parent
    result.reverse()
    return result
