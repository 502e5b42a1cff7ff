"""A released tree with a few files changed, added or moved, in memory: no copy on disk, no 68 MB per mutant."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from flowcheck.source import Tree, open_source
from flowcheck.source.errors import SourceWarning
from flowcheck.source.roots import Root, find_roots

__all__ = ["Changes", "Release", "Rename"]


@dataclass(frozen=True)
class Rename:
    """One name of the tree that a fork writes differently, everywhere.

    ``kind``: "name" (an identifier), "file" (a module's file, with its imports) or "package" (the package's folder,
    with all its imports). ``old`` and ``new`` are identifiers, the last part of a module's name, or import names.
    """

    kind: str
    old: str
    new: str

    def text(self, data: bytes) -> bytes:
        old, new = re.escape(self.old.encode()), self.new.encode()
        if self.old.encode() not in data:
            return data
        if self.kind == "name":
            return re.sub(rb"\b%b\b" % old, new, data)
        if self.kind == "file":
            data = re.sub(rb"(?<=\.)%b(?=\s+import\b)" % old, new, data)
            return re.sub(rb"(\bimport\s+[\w.]*\.|\bfrom\s+\.+)%b\b" % old, rb"\g<1>" + new, data)
        data = re.sub(rb"(^[ \t]*(?:from|import)[ \t]+)%b(?=[.\s])" % old, rb"\g<1>" + new, data, flags=re.M)
        return re.sub(rb"(?<=[\"'])%b(?=\.srt\.)" % old, new, data)

    def path(self, path: str, package_folder: str) -> str:
        if self.kind == "file":
            folder, _, name = path.rpartition("/")
            return f"{folder}/{self.new}.py" if name == f"{self.old}.py" else path
        if self.kind == "package" and path.startswith(f"{package_folder}/"):
            above = package_folder.rpartition("/")[0]
            return f"{above}/{self.new}{path[len(package_folder) :]}".lstrip("/")
        return path


@dataclass(frozen=True)
class Changes:
    """What makes a mutant of a release: new contents by path (of files that are there, and of added ones), then renames
    over the whole tree."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    renames: tuple[Rename, ...] = ()


class Release:
    """A released SGLang, or a small tree in a folder, its bytes read once."""

    def __init__(self, version: str) -> None:
        """``version``: that of a release, or the path of a folder."""
        self.version = version
        self.tree = open_source(version if "/" in version else f"sglang=={version}", include_all=True)
        self._bytes: dict[str, bytes] = {}

    @cached_property
    def paths(self) -> tuple[str, ...]:
        return self.tree.paths()

    @cached_property
    def core(self) -> tuple[str, ...]:
        """The files that a scan looks at."""
        from flowcheck.source.scope import in_scope

        cut = len(self.tree.root) + 1
        return tuple(path for path in self.tree.core_paths() if in_scope(path[cut:]))

    def read(self, path: str) -> bytes:
        data = self._bytes.get(path)
        if data is None:
            data = self._bytes[path] = self.tree.read(path)
        return data

    def text(self, path: str) -> str:
        return self.read(path).decode("utf-8")

    def with_changes(self, changes: Changes) -> Tree:
        """The changed tree, as a scan of the fork's folder would open it."""
        files = {path: path for path in self.paths}
        contents = dict(changes.files)
        for path in contents:
            files.setdefault(path, path)
        if changes.renames:
            files, contents = self._renamed(files, contents, changes.renames)
        store = _Overlay(self, files, contents)
        root = Root(self.tree.root, self.tree.package, self.tree.core)
        if any(rename.kind == "package" for rename in changes.renames):
            (root,) = find_roots(store, "")
        return Tree(store, root, kind="release", label=f"{self.version} (changed)", version=self.version)

    def _renamed(
        self, files: dict[str, str], contents: dict[str, bytes], renames: tuple[Rename, ...]
    ) -> tuple[dict[str, str], dict[str, bytes]]:
        moved: dict[str, str] = {}
        written: dict[str, bytes] = {}
        for path, origin in files.items():
            before = data = contents[path] if path in contents else self.read(origin)
            new = path
            for rename in renames:
                data = rename.text(data)
                new = rename.path(new, self.tree.root)
            moved[new] = origin
            if data != before or path in contents:
                written[new] = data
        return moved, written


class _Overlay:
    """The store of a changed tree: path now -> path in the release, and the contents that are not the release's."""

    def __init__(self, release: Release, files: Mapping[str, str], contents: Mapping[str, bytes]) -> None:
        self._release = release
        self._origins = files
        self._contents = contents
        self.files = list(files)
        self.notes: list[SourceWarning] = []

    def read(self, path: str) -> bytes:
        data = self._contents.get(path)
        return data if data is not None else self._release.read(self._origins[path])

    def fingerprint(self, path: str) -> str | None:
        data = self._contents.get(path)
        if data is not None:
            return hashlib.sha256(data).hexdigest()
        return self._release.tree.file_digest(self._origins[path])

    def names(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        return sorted({path[len(prefix) :].partition("/")[0] for path in self.files if path.startswith(prefix)})

    def peek(self, path: str) -> bytes | None:
        return self.read(path) if path in self._origins else None

    def close(self) -> None:
        pass
