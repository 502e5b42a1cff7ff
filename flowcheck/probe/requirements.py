"""Which packages a tree's model code needs to be imported, in which versions: from the tree's own metadata. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

__all__ = ["Wanted", "named_among", "wanted_of"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be installed (``requirements``, sorted, without markers), and the packages that ought to have one exact
    version, and for which the tree names none (``open``)."""

    requirements: tuple[str, ...]
    open: tuple[str, ...] = ()


def wanted_of(stated: Iterable[str], light: Sequence[str], pinned: Sequence[str]) -> Wanted:
    """What to install of ``light`` and ``pinned`` (names, perhaps with markers) for a tree that states ``stated``.

    A requirement of an extra counts where the tree itself asks for no version of that package.
    """
    versions = _versions(stated)
    chosen: list[str] = []
    for text in (*pinned, *light):
        named = Requirement(text)
        if named.marker is None or named.marker.evaluate():
            chosen.append(f"{named.name}{versions.get(canonicalize_name(named.name), '')}")
    names = [canonicalize_name(Requirement(text).name) for text in pinned]
    return Wanted(tuple(sorted(chosen)), tuple(name for name in names if "==" not in versions.get(name, "")))


def named_among(stated: Iterable[str], names: Sequence[str]) -> list[str]:
    """Which of ``names`` a tree asks for, in any version."""
    asked = set()
    for text in stated:
        try:
            asked.add(canonicalize_name(Requirement(text).name))
        except InvalidRequirement:
            continue
    return [name for name in names if canonicalize_name(name) in asked]


def _versions(stated: Iterable[str]) -> dict[str, str]:
    """The specifier that holds here for each package that is named with one, the package's own before those of extras."""
    own: dict[str, str] = {}
    extra: dict[str, str] = {}
    for text in stated:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        marker = requirement.marker
        bound = str(requirement.specifier)
        if not bound:
            continue
        if marker is None or marker.evaluate({"extra": ""}):
            own.setdefault(canonicalize_name(requirement.name), bound)
        elif "extra" in str(marker):
            extra.setdefault(canonicalize_name(requirement.name), bound)
    return {**extra, **own}
