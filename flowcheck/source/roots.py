"""Find SGLang packages in a listing of files, by what the files contain.

Neither a folder's name nor a version is trusted: forks rename both. The signature is an enum that names how much of
the hidden states a forward keeps (NULL, LAST, FULL) or what a forward is for (EXTEND, DECODE, TARGET_VERIFY): every
SGLang since 0.4.6 has both, in one file. The package folder is then the one in which the absolute imports of that file
and of its neighbours resolve.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowcheck.source.errors import UnreadableError
from flowcheck.source.scope import in_scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flowcheck.source.store import Store

__all__ = ["Root", "find_roots", "root_at"]

_HINT = "forward_batch_info.py"
"""Every release so far keeps the signature in a file of this name; it only orders the search."""

_THOROUGH = 3000
"""With a hinted root found, this many other files are still searched for more; a site-packages has more than that."""

_CAPTURE = frozenset({"NULL", "LAST", "FULL"})
_FORWARD = frozenset({"EXTEND", "DECODE", "TARGET_VERIFY"})
_CLASS = re.compile(rb"^([ \t]*)class[ \t]+\w+[ \t]*(?:\([^)]*\))?[ \t]*:[^\n]*\n", re.M)
_MEMBER = re.compile(rb"^[ \t]+([A-Z_]+)[ \t]*(?::[^=\n]*)?=", re.M)
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([A-Za-z_][\w.]*)[ \t]+import|import[ \t]+([A-Za-z_][\w.]*))", re.M)
_SAMPLE = 60


@dataclass(frozen=True)
class Root:
    """A package found in SOURCE: its folder, the import name used inside it, and its ``srt``-like folder."""

    folder: str
    package: str
    core: str


def find_roots(store: Store, name: str, *, thorough: bool = True) -> list[Root]:
    """All packages in ``store``, sorted by folder. ``name`` is the name of the SOURCE folder itself, or ``""``.

    Without ``thorough`` only files with the usual name are looked into.
    """
    tree = _Listing(store.files, name)
    serving = [path for path in store.files if in_scope(path)]
    # A package that lies in a folder of tests or examples is seen only where there is no other.
    roots = _search(store, tree, serving, thorough)
    if not roots and len(serving) < len(store.files):
        roots = _search(store, tree, store.files, thorough)
    # A package inside another one, where both qualify, is a part of it unless it is imported by another name.
    kept = [r for r in roots.values() if not any(_inside(r, other) for other in roots.values())]
    return sorted(kept, key=lambda root: root.folder)


def _search(store: Store, tree: _Listing, files: list[str], thorough: bool) -> dict[str, Root]:
    hinted = {path for path in files if path.endswith(_HINT)}
    roots = {root.folder: root for root in _roots(store, tree, hinted)}
    rest = [path for path in files if path not in hinted and not _under(path, roots)]
    if thorough and (not roots or len(rest) <= _THOROUGH):
        roots.update((root.folder, root) for root in _roots(store, tree, rest))
    return roots


def root_at(store: Store, name: str, folder: str) -> Root | None:
    """The package whose folder the user named, or None if there is no Python file below it."""
    prefix = f"{folder}/" if folder else ""
    files = [path for path in store.files if path.startswith(prefix)]
    if not files:
        return None
    tree = _Listing(store.files, name)
    signed = [path for path in _ordered(files) if _has_signature(store, path)][:1]
    anchors = signed or sorted(files, key=lambda path: path.count("/"))[-1:]
    votes = _votes(store, tree, anchors[0])
    named = [(count, package) for (at, package), count in votes.items() if at == folder]
    package = max(named, default=(0, ""), key=lambda item: (item[0], -len(item[1])))[1]
    return Root(folder, package or tree.folder_name(folder) or "sglang", _core(folder, anchors[0]))


class _Listing:
    def __init__(self, files: Iterable[str], name: str) -> None:
        self.name = name
        self.known: set[str] = {""}
        self.folders: dict[str, list[str]] = {}
        for path in files:
            stem = path.removesuffix(".py")
            self.known.add(stem)
            folder = path.rpartition("/")[0]
            self.folders.setdefault(folder, []).append(path)
            while folder and folder not in self.known:
                self.known.add(folder)
                folder = folder.rpartition("/")[0]

    def folder_name(self, folder: str) -> str:
        return folder.rpartition("/")[2] or self.name


def _under(path: str, roots: Iterable[str]) -> bool:
    return any(not folder or path.startswith(f"{folder}/") for folder in roots)


def _inside(root: Root, other: Root) -> bool:
    return root is not other and _under(root.folder, [other.folder]) and root.package.startswith(f"{other.package}.")


def _ordered(files: Iterable[str]) -> list[str]:
    return sorted(files, key=lambda path: (not path.endswith(_HINT), path))


def _roots(store: Store, tree: _Listing, candidates: Iterable[str]) -> Iterator[Root]:
    found: list[str] = []
    for path in sorted(candidates):
        # A signature below a root that is known already adds nothing.
        if not _under(path, found) and _has_signature(store, path):
            root = _root_of(store, tree, path)
            found.append(root.folder)
            yield root


def _has_signature(store: Store, path: str) -> bool:
    try:
        data = store.read(path)
    except UnreadableError:
        return False
    if not ((b"LAST" in data and b"NULL" in data and b"FULL" in data) or b"TARGET_VERIFY" in data):
        return False
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for match in _CLASS.finditer(text):
        members = set(_members(text, match.end(), len(match.group(1))))
        if members >= _FORWARD or (members >= _CAPTURE and (b"forward" in text or b"idden" in text)):
            return True
    return False


def _members(text: bytes, start: int, indent: int) -> Iterator[str]:
    end = re.compile(rb"^[ \t]{0,%d}[^\s#)\]}]" % indent, re.M).search(text, start)
    for match in _MEMBER.finditer(text, start, end.start() if end else len(text)):
        yield match.group(1).decode()


def _votes(store: Store, tree: _Listing, path: str) -> Counter[tuple[str, str]]:
    """How many absolute imports near ``path`` each reading "folder F is package P" explains.

    A reading that gives the folder another name needs an import that resolves two levels deep, or three imports:
    ``torch.distributed`` also resolves, by accident, in a folder that has a ``distributed``.
    """
    folder = path.rpartition("/")[0]
    ancestors = [folder]
    while ancestors[-1]:
        ancestors.append(ancestors[-1].rpartition("/")[0])
    sample = [path]
    for near in ancestors[:4]:
        sample += [other for other in sorted(tree.folders.get(near, ())) if other != path][:_SAMPLE]
    modules: set[str] = set()
    for other in sample[:_SAMPLE]:
        try:
            found = _IMPORT.findall(store.read(other))
        except UnreadableError:
            continue
        modules.update((first or second).decode() for first, second in found)
    votes: Counter[tuple[str, str]] = Counter()
    deep: set[tuple[str, str]] = set()
    for module in modules:
        parts = module.split(".")
        if parts[0] in sys.stdlib_module_names:
            continue
        for split in range(1, len(parts)):
            rest = "/".join(parts[split:])
            for ancestor in ancestors:
                if (f"{ancestor}/{rest}" if ancestor else rest) in tree.known:
                    reading = (ancestor, ".".join(parts[:split]))
                    votes[reading] += 1
                    if len(parts) - split > 1 or tree.folder_name(ancestor) == parts[split - 1]:
                        deep.add(reading)
    return Counter({reading: count for reading, count in votes.items() if reading in deep or count >= 3})


def _root_of(store: Store, tree: _Listing, path: str) -> Root:
    votes = _votes(store, tree, path)
    usual = "/".join(path.split("/")[:-3])  # package/srt/model_executor/file.py
    if votes:
        best = max(votes.values())
        level = [reading for reading, count in votes.items() if count >= 0.8 * best]

        def rank(reading: tuple[str, str]) -> tuple[object, ...]:
            folder = reading[0]
            package = "__init__.py" in store.names(folder)  # `srt` has none, so it is not taken for the package itself
            return not package, folder != usual, -votes[reading], folder.count("/"), reading

        folder, package = min(level, key=rank)
        return Root(folder, package, _core(folder, path))
    folder = _guess(store, path)
    return Root(folder, tree.folder_name(folder) or "sglang", _core(folder, path))


def _guess(store: Store, path: str) -> str:
    """The package folder when no absolute import tells it: a tree with relative imports only, or a tiny one."""
    parts = path.split("/")[:-1]
    if "srt" in parts:
        return "/".join(parts[: parts.index("srt")])
    for depth in range(len(parts) + 1):
        if "__init__.py" in store.names("/".join(parts[:depth])):
            return "/".join(parts[:depth])
    return "/".join(parts[:-2])


def _core(folder: str, path: str) -> str:
    """The ``srt``-like part: the folder directly below the package that holds the signature's folder."""
    inside = path[len(folder) + 1 :] if folder else path
    parts = inside.split("/")
    if len(parts) < 3 and parts[0] != "srt":
        return folder  # no part of the package serves alone
    return f"{folder}/{parts[0]}" if folder else parts[0]
