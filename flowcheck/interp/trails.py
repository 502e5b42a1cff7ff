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

__all__ = ["Site", "Trail", "chains", "extend", "joined", "links"]

LONGEST_TRAIL = 40
"""A trail that grows past this is kept as it is: loops would make it grow for ever, and nobody reads on."""

MOST_ALTERNATIVES = 4


@dataclass(frozen=True, slots=True)
class Site:
    """A node of the tree: its module, the definition whose slice numbers it (None: the module's top level), its number."""

    module: Module
    owner: ir.FunctionDef | None
    nid: int
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Trail:
    """One link. ``also`` holds other trails that lead to an equal value at this point: a join keeps a few of them."""

    site: Site
    note: str
    parent: Trail | None = None
    length: int = 1
    also: tuple[Trail, ...] = ()

    @property
    def origin(self) -> Site:
        """Where the value was made."""
        trail = self
        while trail.parent is not None:
            trail = trail.parent
        return trail.site


def extend(trail: Trail | None, site: Site | None, note: str) -> Trail | None:
    """``trail`` with one more link; the same trail when it ends at that site already, or is too long."""
    if site is None:
        return trail
    if trail is None:
        return Trail(site, note)
    if trail.site == site or trail.length >= LONGEST_TRAIL:
        return trail
    return Trail(site, note, trail, trail.length + 1)


def joined(a: Trail | None, b: Trail | None) -> Trail | None:
    """The trail of a value that two equal values were joined into: both, when they began at different sites."""
    if a is None or b is None or a is b:
        return a or b
    origin = b.origin
    if a.origin == origin or len(a.also) >= MOST_ALTERNATIVES or any(t.origin == origin for t in a.also):
        return a
    return Trail(a.site, a.note, a.parent, a.length, (*a.also, b))


def links(trail: Trail | None) -> list[Trail]:
    """The links from the origin to the last use."""
    result: list[Trail] = []
    while trail is not None:
        result.append(trail)
        trail = trail.parent
    result.reverse()
    return result


def chains(trail: Trail | None) -> list[list[Trail]]:
    """Every chain of links that leads here, the trail's own first; one for each origin."""
    main = links(trail)
    out = [main] if main else []
    for i, link in enumerate(main):
        for other in link.also:
            for chain in chains(other):
                out.append([*chain, *main[i + 1 :]])
    seen: set[Site] = set()
    unique: list[list[Trail]] = []
    for chain in out:
        if chain[0].site not in seen:
            seen.add(chain[0].site)
            unique.append(chain)
    return unique[: 2 * MOST_ALTERNATIVES]
