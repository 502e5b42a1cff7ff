"""A package that is to be run needs to lie on disk: what is no folder is unpacked once into the cache. Nothing is run here."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from flowcheck.source.cache import Slot
from flowcheck.source.errors import SourceError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowcheck.source.store import Store

__all__ = ["unpacked"]


def unpacked(store: Store, root: str, cache_dir: Path, progress: Callable[[str], None] | None = None) -> Path:
    """The folder ``root`` of a store, below ``cache_dir``; written whole or not at all.

    Raises SourceError in one line where a file cannot be read, or the cache cannot be written.
    """
    key = hashlib.sha256(f"{store.identity()}\0{root}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    final = cache_dir / key
    package = final / root if root else final
    if package.is_dir():
        return package
    with Slot(final.with_name(f"{key}.slot")).locked():
        if package.is_dir():
            return package
        if progress is not None:
            progress(f"unpacking {root or 'SOURCE'}, once")
        scratch = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=cache_dir))
        try:
            store.unpack(f"{root}/" if root else "", scratch)
            scratch.rename(final)
        except UnreadableError as error:
            raise SourceError(f"cannot unpack: {error}") from error
        except OSError as error:
            raise SourceError(f"cannot write to the cache {cache_dir}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return package
