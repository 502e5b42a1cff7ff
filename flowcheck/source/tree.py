"""A read-only SGLang package: its files as bytes, their digests, and the modules that they are."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from flowcheck.source.errors import SourceWarning, UnreadableError
from flowcheck.source.scope import in_scope
from flowcheck.source.version import read_version

if TYPE_CHECKING:
    from pathlib import Path

    from flowcheck.source.roots import Root
    from flowcheck.source.store import Store

__all__ = ["Tree"]

_FORMAT = b"flowcheck.tree/1\0"


class Tree:
    """One SGLang package inside SOURCE. Made by `open_source`; may be used from several threads, and pickled: the copy
    reads the files anew.

    Attributes:
        kind: ``checkout``, ``package``, ``wheel``, ``sdist``, ``release`` or ``git``.
        label: what the user typed.
        root: the package folder inside SOURCE (POSIX), ``""`` if SOURCE is that folder.
        package: the import name that the tree itself uses for its absolute imports, such as ``sglang``.
        include_all: whether tests, benchmarks and examples are in scope.
        core: the ``srt``-like folder inside SOURCE, found by content; ``root`` where the package has no such part.
        warnings: what was left out and why; grows as files are read.

    Scope and reach differ. `paths` is what a scan looks at: the package without tests, benchmarks and examples (unless
    ``include_all``). `path_of`, `read` and `file_digest` reach every ``.py`` file of the package, because serving code
    imports a few modules of ``sglang.test``.
    """

    def __init__(
        self, store: Store, root: Root, *, kind: str, label: str, include_all: bool = False, version: str | None = None
    ) -> None:
        self.kind = kind
        self.label = label
        self.root = root.folder
        self.package = root.package
        self.core = root.core
        self._store = store
        self._prefix = f"{root.folder}/" if root.folder else ""
        self._all = frozenset(path for path in store.files if path.startswith(self._prefix))
        self.include_all = include_all
        self._given_version = version
        self._digests: dict[str, str] = {}
        self._warned: set[str] = set()
        self._lock = threading.Lock()
        self.warnings: list[SourceWarning] = []
        for note in sorted(store.notes, key=lambda note: note.path):
            if note.path.startswith(self._prefix) and (include_all or in_scope(note.path[len(self._prefix) :])):
                self._warn(note)

    @cached_property
    def version(self) -> str | None:
        """The version that the tree states, or None; see `flowcheck.source.version`."""
        return read_version(self._store, self.root, self.package) or self._given_version

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        cut = len(self._prefix)
        return tuple(sorted(path for path in self._all if self.include_all or in_scope(path[cut:])))

    def paths(self) -> tuple[str, ...]:
        """The ``.py`` files in scope, relative to SOURCE, with ``/``, sorted."""
        return self._paths

    def core_paths(self) -> tuple[str, ...]:
        """Those of `paths` that lie in `core`."""
        prefix = f"{self.core}/" if self.core else ""
        return tuple(path for path in self._paths if path.startswith(prefix))

    def read(self, path: str) -> bytes:
        """The bytes of a file of the package.

        A file that cannot be read (no permission, no regular file, too large, damaged) gives ``b""`` and one warning.
        Raises KeyError for a path that is no ``.py`` file of this package.
        """
        if path not in self._all:
            raise KeyError(path)
        try:
            data = self._store.read(path)
        except UnreadableError as error:
            self._warn(SourceWarning(path, str(error)))
            data = b""
        if path not in self._digests:
            self._digests[path] = hashlib.sha256(data).hexdigest()
        return data

    def file_digest(self, path: str) -> str:
        """SHA-256 (hex) of what `read` gives for ``path``, and of nothing else. Raises KeyError as `read` does."""
        known = self._digests.get(path)
        if known is None:
            self.read(path)
            known = self._digests[path]
        return known

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over the files in scope: the path of each, and a digest of its content.

        The digest of a file is its SHA-256; where a store knows something that changes with the content and costs no
        decompression, it stands in: that of the packed bytes in a zip, the blob id from git. Digests of one tree from two kinds
        of source therefore differ.
        """
        return self._digest(self._paths)

    @cached_property
    def package_digest(self) -> str:
        """As `digest`, over every ``.py`` file of the package: code in scope may import any of them."""
        return self._digest(sorted(self._all))

    def _digest(self, paths: Iterable[str]) -> str:
        whole = hashlib.sha256(_FORMAT)
        for path in paths:
            mark = self._store.fingerprint(path) or self.file_digest(path)
            whole.update(f"{path}\0{mark}\n".encode("utf-8", "surrogateescape"))
        return whole.hexdigest()

    def module_name(self, path: str) -> str:
        """The dotted name of the module in ``path``, under `package`. Raises KeyError as `read` does."""
        if path not in self._all:
            raise KeyError(path)
        parts = path[len(self._prefix) : -len(".py")].split("/")
        if parts[-1] == "__init__":
            parts.pop()
        return ".".join([self.package, *parts])

    @cached_property
    def _modules(self) -> tuple[dict[str, str], frozenset[str]]:
        modules: dict[str, str] = {}
        folders: set[str] = set()
        for path in sorted(self._all):
            name = self.module_name(path)
            # Python prefers the package where x.py and x/__init__.py stand side by side.
            if name not in modules or path.endswith("/__init__.py"):
                modules[name] = path
            parent = name if path.endswith("__init__.py") else name.rpartition(".")[0]
            while parent and parent not in folders:
                folders.add(parent)
                parent = parent.rpartition(".")[0] if parent != self.package else ""
        return modules, frozenset(folders - modules.keys())

    def path_of(self, module: str) -> str | None:
        """The file of a module or of a package's ``__init__``; None for a namespace package and what is not here."""
        return self._modules[0].get(module)

    def is_namespace(self, module: str) -> bool:
        """Whether ``module`` is a folder with ``.py`` files somewhere below it and without an ``__init__.py``."""
        return module in self._modules[1]

    @property
    def digests(self) -> dict[str, str]:
        """As `file_digest`, of the files that were read so far."""
        return dict(self._digests)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_lock": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _digests={})

    @property
    def folder(self) -> Path | None:
        """The package's folder on disk, None where it would have to be unpacked first (`unpacked`)."""
        base = self._store.folder
        return None if base is None else base / self.root

    def unpacked(self, cache_dir: Path, progress: Callable[[str], None] | None = None) -> Path:
        """The package's folder on disk, with files of every kind: where SOURCE is no folder, unpacked once below
        ``cache_dir``. Nothing of it is run. Raises SourceError where it cannot be read or written."""
        from flowcheck.source.unpacking import unpacked

        return self.folder or unpacked(self._store, self.root, cache_dir, progress)

    def requirements(self) -> list[str]:
        """What the tree says that it needs, extras included, as written; see `flowcheck.source.requirements`."""
        from flowcheck.source.requirements import stated_requirements

        return stated_requirements(self._store, self.root, self.package)

    def close(self) -> None:
        """Give back file handles and processes; reading ends here."""
        self._store.close()

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def _warn(self, warning: SourceWarning) -> None:
        with self._lock:
            if warning.path not in self._warned:
                self._warned.add(warning.path)
                self.warnings.append(warning)
