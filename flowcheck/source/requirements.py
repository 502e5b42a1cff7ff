"""What a tree says that it needs to run: read from its metadata as text, never found by running anything."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from flowcheck.source.store import FolderStore

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from flowcheck.source.store import Store

__all__ = ["stated_requirements"]

_REQUIRES = re.compile(r"^Requires-Dist:[ \t]*(.+)$", re.M)


def stated_requirements(store: Store, folder: str, package: str) -> list[str]:
    """The requirements of the package at ``folder``, those of its extras included (with their markers).

    Asked in this order, in the folders above the package, the nearest first: ``METADATA`` of a ``*.dist-info`` of that
    name, ``PKG-INFO`` with requirements in it, the ``[project]`` table of ``pyproject.toml``. Where SOURCE is the package
    itself, the folder beside which it lies is asked. Empty where nothing says it.
    """
    if not folder and store.folder is not None:
        resolved = store.folder.resolve()
        beside = _Beside(resolved.parent)
        return _found_in(beside, "", {_normal(package.partition(".")[0]), _normal(resolved.name)})
    names = {_normal(package.partition(".")[0]), _normal(folder.rpartition("/")[2])}
    above = folder
    while above:
        above = above.rpartition("/")[0]
        if found := _found_in(store, above, names):
            return found
    return []


class _Beside(FolderStore):
    """The folder in which a package lies: its own files, and no walk through what else is in it."""

    def _walk(self) -> None:
        """Nothing is listed."""


def _found_in(store: Store, folder: str, names: set[str]) -> list[str]:
    entries = sorted(store.names(folder))
    prefix = f"{folder}/" if folder else ""
    for entry in entries:
        if entry.endswith((".dist-info", ".egg-info")) and _normal(entry.partition("-")[0]) in names:
            for leaf in ("METADATA", "PKG-INFO"):
                if found := _headers(store.peek(f"{prefix}{entry}/{leaf}")):
                    return found
    if "PKG-INFO" in entries and (found := _headers(store.peek(f"{prefix}PKG-INFO"))):
        return found
    return _project(store.peek(f"{prefix}pyproject.toml")) if "pyproject.toml" in entries else []


def _headers(data: bytes | None) -> list[str]:
    """The requirements among the headers of a metadata file; its description, after the first empty line, is prose."""
    text = (data or b"").decode("utf-8", "replace").replace("\r\n", "\n").partition("\n\n")[0]
    return [each.strip() for each in _REQUIRES.findall(text)]


def _project(data: bytes | None) -> list[str]:
    try:
        table: Any = tomllib.loads((data or b"").decode("utf-8", "replace")).get("project")
    except tomllib.TOMLDecodeError:
        return []
    if not isinstance(table, dict):
        return []
    groups = [table.get("dependencies")]
    extras = table.get("optional-dependencies")
    groups += extras.values() if isinstance(extras, dict) else []
    return [each for group in groups if isinstance(group, list) for each in group if isinstance(each, str)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.removesuffix(".egg-info").removesuffix(".dist-info")).lower()
