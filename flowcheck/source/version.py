"""The version that a tree says it has: reported, never relied on, and never found by running anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowcheck.source.store import Store

__all__ = ["read_version"]

_LITERAL = re.compile(rb"""^(?:__version__|version)\b[^\n=]*=[^\n]*?["']([^"'\n]+)["']""", re.M)
_HEADER = re.compile(rb"^Version:[ \t]*(\S+)", re.M)
_PROJECT = re.compile(rb"""^\[project\][^\[]*?^version\s*=\s*["']([^"'\n]+)["']""", re.M)


def read_version(store: Store, folder: str, package: str) -> str | None:
    """The version of the package at ``folder``.

    Asked in this order: the literal in ``_version.py`` and ``version.py``, the ``METADATA`` of a ``*.dist-info`` beside
    the package, then ``PKG-INFO`` and the ``[project]`` table of ``pyproject.toml`` in the folders above it.
    """
    for name in ("_version.py", "version.py"):
        found = _find(_LITERAL, store.peek(_join(folder, name)))
        if found:
            return found
    if not folder:
        return None
    above = folder
    names = {_normal(package.partition(".")[0]), _normal(folder.rpartition("/")[2]), "sglang"}
    while above:
        above = above.rpartition("/")[0]
        inside = store.names(above)
        for entry in sorted(inside):
            if entry.endswith((".dist-info", ".egg-info")) and _normal(entry.partition("-")[0]) in names:
                for leaf in ("METADATA", "PKG-INFO"):
                    found = _find(_HEADER, store.peek(_join(above, f"{entry}/{leaf}")))
                    if found:
                        return found
        for entry, pattern in (("PKG-INFO", _HEADER), ("pyproject.toml", _PROJECT)):
            found = _find(pattern, store.peek(_join(above, entry))) if entry in inside else None
            if found:
                return found
    return None


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.removesuffix(".egg-info")).lower()


def _find(pattern: re.Pattern[bytes], data: bytes | None) -> str | None:
    match = pattern.search(data) if data else None
    return match.group(1).decode("utf-8", "replace") if match else None
