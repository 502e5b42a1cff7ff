"""Where bytes come from: the interface of every store, and the store over a folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Protocol

from flowcheck.source.errors import SourceError, SourceWarning, UnreadableError

__all__ = ["MAX_FILE_BYTES", "FolderStore", "Store", "too_large"]

MAX_FILE_BYTES = 8 * 1024 * 1024
"""A larger ``.py`` file is data, not code: the largest one of any SGLang release is below 1 MB."""

_PRUNED = frozenset({"__pycache__", "node_modules"})
_BUILT = ("lib", "bdist")


class Store(Protocol):
    """A set of files. All paths are relative to SOURCE and use ``/``."""

    @property
    def files(self) -> list[str]:
        """Every ``.py`` file, in no particular order."""

    @property
    def notes(self) -> list[SourceWarning]:
        """What the listing met and left out."""

    def read(self, path: str) -> bytes:
        """The bytes of a file; raises `UnreadableError`."""

    def fingerprint(self, path: str) -> str | None:
        """Something that changes with the content and costs no read, or None if there is no such thing."""

    def names(self, folder: str) -> list[str]:
        """Names of the files and folders directly in ``folder`` (``""`` is SOURCE)."""

    def peek(self, path: str) -> bytes | None:
        """The bytes of a small file of any kind (metadata), or None if it is absent or unreadable."""

    @property
    def folder(self) -> Path | None:
        """The folder on disk that SOURCE is, None for what would have to be unpacked first."""

    def identity(self) -> str:
        """Something that changes whenever any file does; only of stores that have no `folder`."""

    def unpack(self, prefix: str, into: Path) -> None:
        """Write every file whose path begins with ``prefix`` below ``into``; only of stores that have no `folder`.

        Raises OSError where it cannot be written and UnreadableError where a file cannot be read.
        """

    def close(self) -> None:
        """Give back handles and processes."""


def too_large(size: int) -> UnreadableError:
    """The reason for leaving out a file of ``size`` bytes."""
    return UnreadableError(f"left out: larger than {MAX_FILE_BYTES // 1024**2} MB ({size / 1024**2:.0f} MB)")


class FolderStore:
    """Files below a folder on disk.

    Symbolic links to folders are not followed, so that a loop cannot trap the walk; hidden folders, byte-code caches
    and build outputs (``build/lib*``) are not entered. Whatever is not a regular file is refused when it is read, by
    its open descriptor: that needs no ``stat`` per file while listing.
    """

    def __init__(self, base: str | Path) -> None:
        self.base = os.fspath(base)
        self.files: list[str] = []
        self.notes: list[SourceWarning] = []
        try:
            with os.scandir(self.base):
                pass
        except OSError as error:
            raise SourceError(f"cannot read the folder {self.base}: {error.strerror or error}") from error
        self._walk()

    def _walk(self) -> None:
        pending = [("", self.base)]
        while pending:
            relative, absolute = pending.pop()
            try:
                entries = list(os.scandir(absolute))
            except OSError as error:
                self.notes.append(SourceWarning(relative, f"cannot list the folder: {error.strerror or error}"))
                continue
            in_build = relative.rpartition("/")[2] == "build"
            for entry in entries:
                name = entry.name
                path = f"{relative}/{name}" if relative else name
                if entry.is_dir(follow_symlinks=False):
                    if name.endswith(".py"):
                        self.notes.append(SourceWarning(path, "a folder with the name of a Python file"))
                    elif (
                        name[:1] != "." and name not in _PRUNED and not (in_build and name.startswith(("lib", "bdist")))
                    ):
                        pending.append((path, entry.path))
                elif name.endswith(".py"):
                    self.files.append(path)
                elif entry.is_symlink() and "." not in name and self._links_to_folder(entry):
                    self.notes.append(SourceWarning(path, "a symbolic link to a folder, not followed"))

    @staticmethod
    def _links_to_folder(entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir()
        except OSError:
            return False

    def _absolute(self, path: str) -> str:
        return f"{self.base}/{path}" if path else self.base

    def read(self, path: str) -> bytes:
        """The bytes of a file; raises `UnreadableError`."""
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(self._absolute(path), flags)
        except OSError as error:
            raise UnreadableError(f"cannot be read: {error.strerror or error}") from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError("not a regular file")
            if status.st_size > MAX_FILE_BYTES:
                raise too_large(status.st_size)
            with open(descriptor, "rb", closefd=False) as stream:
                # Bounded although the size is known: the file may grow meanwhile, or lie as those of /proc do.
                data = stream.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise UnreadableError(f"cannot be read: {error.strerror or error}") from error
        finally:
            os.close(descriptor)
        if len(data) > MAX_FILE_BYTES:
            raise too_large(len(data))
        return data

    def fingerprint(self, path: str) -> str | None:
        """See `Store.fingerprint`."""
        return None

    def names(self, folder: str) -> list[str]:
        """Names directly in ``folder``."""
        try:
            with os.scandir(self._absolute(folder)) as entries:
                return [entry.name for entry in entries]
        except OSError:
            return []

    def peek(self, path: str) -> bytes | None:
        """The bytes of a metadata file, or None."""
        try:
            return self.read(path)
        except UnreadableError:
            return None

    @property
    def folder(self) -> Path | None:
        """See `Store.folder`."""
        return Path(self.base)

    def identity(self) -> str:
        """A folder may change at any time: see `Store.identity`."""
        raise NotImplementedError

    def unpack(self, prefix: str, into: Path) -> None:
        """A folder lies on disk already: see `Store.unpack`."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is held open."""
