"""The user cache, and archives kept in it."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flowcheck.source.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Slot", "cache_root"]

_SEAL = "seal.json"
_WAIT = 1800.0


def cache_root() -> Path:
    """The folder of everything that flowcheck caches: ``FLOWCHECK_CACHE_DIR``, or the platform's user cache folder.

    It need not exist yet.
    """
    import platformdirs  # here, since start-up counts and most scans fetch nothing

    named = os.environ.get("FLOWCHECK_CACHE_DIR")
    return Path(named) if named else Path(platformdirs.user_cache_dir("flowcheck", appauthor=False))


class Slot:
    """One cached archive: a folder with the file and a seal (size, time, SHA-256) that says it arrived whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the slot against other processes. Raises SourceError if the cache cannot be written or stays locked."""
        from filelock import FileLock, Timeout

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder.with_name(self.folder.name + ".lock"), timeout=_WAIT)
            lock.acquire()
        except Timeout:
            raise SourceError(f"another process holds the cache entry {self.folder} for too long") from None
        except (OSError, NotImplementedError) as error:
            raise SourceError(f"cannot write to the cache {self.folder}: {error}") from error
        try:
            yield
        finally:
            lock.release()

    def get(self) -> Path | None:
        """The archive if it is whole; a file that does not match its seal is dropped."""
        try:
            seal = json.loads((self.folder / _SEAL).read_text("utf-8"))
            path = self.folder / Path(str(seal["file"])).name
            status = path.stat()
            if status.st_size != seal["size"]:
                raise ValueError("size")
            # Hashing costs a tenth of a second; a file that nobody wrote to since it was sealed needs none.
            if status.st_mtime_ns != seal["mtime_ns"] and _sha256(path) != seal["sha256"]:
                raise ValueError("content")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            self.drop()
            return None
        return path

    def put(self, fetched: Path) -> Path:
        """Move ``fetched``, which lies on the same file system, into the slot: whole or not at all."""
        path = self.folder / fetched.name
        seal = self.folder / _SEAL
        try:
            status = fetched.stat()
            facts = {
                "file": path.name,
                "size": status.st_size,
                "mtime_ns": status.st_mtime_ns,
                "sha256": _sha256(fetched),
            }
            fresh = seal.with_suffix(".new")
            fresh.write_text(json.dumps(facts), "utf-8")
            fetched.replace(path)
            fresh.replace(seal)
        except OSError as error:
            raise SourceError(f"cannot write to the cache {self.folder}: {error}") from error
        return path

    def drop(self) -> None:
        """Forget the archive."""
        for path in (self.folder / _SEAL, *self.folder.glob("*")):
            try:
                path.unlink(missing_ok=True)
            except OSError:
                continue


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
