"""Wheels and sdists, read in place: nothing is ever unpacked to disk."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import struct
import tarfile
import threading
import zipfile
import zlib
from contextlib import contextmanager
from functools import cached_property
from typing import IO, TYPE_CHECKING, cast

from flowcheck.source.errors import SourceError, SourceWarning, UnreadableError
from flowcheck.source.store import MAX_FILE_BYTES, too_large

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["TarStore", "ZipStore", "is_archive_name"]

MAX_STREAM_BYTES = 4 * 1024**3
MAX_PYTHON_BYTES = 1024**3
MAX_MEMBERS = 500_000

_METADATA = ("METADATA", "PKG-INFO", "pyproject.toml")
_ENCRYPTED = 0x1
_DAMAGE = (
    OSError,
    EOFError,
    RuntimeError,  # NotImplementedError is one: a compression that this Python does not know
    ValueError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
)
"""What the standard library raises for an archive that is not what it says; bz2 and gzip raise OSError."""


def is_archive_name(name: str) -> bool:
    """Whether a file of this name claims to be an archive that a Python distribution comes in."""
    return name.lower().endswith((".whl", ".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz"))


def safe_name(name: str) -> str | None:
    """The member's path, or None if it is absolute, climbs out, or is written for another system."""
    while name.startswith("./"):
        name = name[2:]
    if not name or name.startswith("/") or "\\" in name or "\0" in name or ":" in name.split("/", 1)[0]:
        return None
    return None if any(part in ("", ".", "..") for part in name.split("/")) else name


class _Names:
    """The folders of a flat list of member names."""

    def __init__(self) -> None:
        self._children: dict[str, set[str]] = {}

    def add(self, name: str) -> None:
        while name:
            folder, _, leaf = name.rpartition("/")
            known = self._children.setdefault(folder, set())
            if leaf in known:
                return
            known.add(leaf)
            name = folder

    def children(self, folder: str) -> list[str]:
        return sorted(self._children.get(folder, ()))


_LOCAL_HEADER = 30
"""Bytes before the name of a member; the last four are the lengths of its name and of what follows (APPNOTE 4.3.7)."""


class ZipStore:
    """Members of a zip archive, decompressed one at a time when they are read.

    `fingerprint` is that of the bytes as they are packed, so a digest of the tree decompresses nothing, and a damaged archive
    has another one than the sound one of the same directory. A member whose bytes do not match its CRC-32 is refused when it
    is read.
    """

    def __init__(self, path: Path) -> None:
        self.notes: list[SourceWarning] = []
        self._path = path
        self._lock = threading.Lock()
        self._zip = self._open()
        self._owner = os.getpid()
        self._names = _Names()
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            name = safe_name(info.filename)
            if name is not None and not info.is_dir():
                self._members[name] = info
                self._names.add(name)
        self.files = [name for name in self._members if name.endswith(".py")]
        if any(self._members[name].flag_bits & _ENCRYPTED for name in self.files):
            self.close()
            raise SourceError(f"{path} is encrypted and cannot be read")

    def __reduce__(self) -> tuple[type[ZipStore], tuple[Path]]:
        return ZipStore, (self._path,)

    def _open(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self._path)
        except _DAMAGE as error:
            raise SourceError(f"{self._path} is not a readable wheel or zip archive: {error}") from error

    def read(self, path: str) -> bytes:
        """The bytes of a file; raises `UnreadableError`."""
        return self._read(self._members[path])

    def _read(self, info: zipfile.ZipInfo) -> bytes:
        if info.file_size > MAX_FILE_BYTES:
            raise too_large(info.file_size)
        with self._lock:
            if self._owner != os.getpid():  # a forked worker shares the offset of the descriptor: take one of our own
                self._zip, self._owner = self._open(), os.getpid()
            try:
                with self._zip.open(info) as stream:
                    # One more byte than promised: the directory may lie about the size.
                    data = stream.read(info.file_size + 1)
            except _DAMAGE as error:
                raise UnreadableError(f"damaged in the archive: {error}") from error
        if len(data) != info.file_size:
            raise UnreadableError("damaged in the archive: not of the size that its directory gives")
        return data

    def fingerprint(self, path: str) -> str | None:
        """See `Store.fingerprint`."""
        info = self._members[path]
        return f"{info.CRC:08x}-{info.file_size}-{self._packed[path]}"

    def names(self, folder: str) -> list[str]:
        """Names directly in ``folder``."""
        return self._names.children(folder)

    def peek(self, path: str) -> bytes | None:
        """The bytes of a metadata file, or None."""
        info = self._members.get(path)
        try:
            return None if info is None else self._read(info)
        except UnreadableError:
            return None

    @property
    def folder(self) -> Path | None:
        """See `Store.folder`."""
        return None

    def identity(self) -> str:
        """The SHA-256 of the archive."""
        return _sha256(self._path)

    @cached_property
    def _packed(self) -> dict[str, str]:
        """The SHA-256 of each ``.py`` file as it is packed, whatever it unpacks to."""
        out: dict[str, str] = {}
        with self._path.open("rb") as stream:
            for name in self.files:
                info = self._members[name]
                stream.seek(info.header_offset)
                header = stream.read(_LOCAL_HEADER)
                lengths = struct.unpack("<HH", header[-4:]) if len(header) == _LOCAL_HEADER else (0, 0)
                stream.seek(info.header_offset + _LOCAL_HEADER + sum(lengths))
                out[name] = hashlib.sha256(stream.read(min(info.compress_size, 2 * MAX_FILE_BYTES))).hexdigest()
        return out

    def unpack(self, prefix: str, into: Path) -> None:
        """See `Store.unpack`; members of any size are written, up to 4 GB in all."""
        chosen = [(name, info) for name, info in self._members.items() if name.startswith(prefix)]
        if sum(info.file_size for _, info in chosen) > MAX_STREAM_BYTES:
            raise UnreadableError(f"it unpacks to more than {MAX_STREAM_BYTES // 1024**3} GB")
        for name, info in chosen:
            with self._lock, _damage_is_said(name), self._zip.open(info) as stream:
                _write(stream, into / name, info.file_size)

    def close(self) -> None:
        """Give back what is held."""
        self._zip.close()


class _Bounded:
    """A binary stream that stops a decompression bomb."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = MAX_STREAM_BYTES

    def read(self, size: int = -1) -> bytes:
        """The bytes of a file; raises `UnreadableError`."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise tarfile.ReadError(f"it unpacks to more than {MAX_STREAM_BYTES // 1024**3} GB")
        return data


class TarStore:
    """Members of a tar archive of any compression.

    A compressed tar has no random access, so one pass at the start keeps the ``.py`` files, deflated, in memory.
    """

    def __init__(self, path: Path) -> None:
        self.notes: list[SourceWarning] = []
        self._names = _Names()
        self._data: dict[str, bytes] = {}
        self._digests: dict[str, str] = {}
        self._refused: dict[str, UnreadableError] = {}
        self._path = path
        try:
            self._load(path)
        except _DAMAGE as error:
            raise SourceError(f"{path} is not a readable source archive: {error}") from error
        self.files = [name for name in (*self._data, *self._refused) if name.endswith(".py")]

    def _load(self, path: Path) -> None:
        kept = 0
        with _decompressed(path) as plain, tarfile.open(fileobj=_Bounded(plain), mode="r|", bufsize=1 << 16) as archive:  # type: ignore[call-overload]
            for count, member in enumerate(archive):
                if count > MAX_MEMBERS:
                    raise tarfile.ReadError(f"more than {MAX_MEMBERS} members")
                # A stream archive remembers every header that it passed; nobody asks for them again.
                archive.members = []
                name = safe_name(member.name)
                if name is None:
                    continue
                self._names.add(name)
                python = name.endswith(".py")
                if not python and name.rpartition("/")[2] not in _METADATA:
                    continue
                if not member.isfile():
                    if python and not member.isdir():
                        self.notes.append(SourceWarning(name, "a link or a special file in the archive, not followed"))
                    continue
                if member.size > MAX_FILE_BYTES:
                    self._refused[name] = too_large(member.size)
                    continue
                stream = archive.extractfile(member)
                data = stream.read() if stream is not None else b""
                kept += len(data)
                if kept > MAX_PYTHON_BYTES:
                    raise tarfile.ReadError("its Python files alone exceed 1 GB")
                self._data[name] = zlib.compress(data, 1)
                self._digests[name] = hashlib.sha256(data).hexdigest()

    def read(self, path: str) -> bytes:
        """The bytes of a file; raises `UnreadableError`."""
        if path in self._refused:
            raise self._refused[path]
        return zlib.decompress(self._data[path])

    def fingerprint(self, path: str) -> str | None:
        """See `Store.fingerprint`."""
        return self._digests.get(path)

    def names(self, folder: str) -> list[str]:
        """Names directly in ``folder``."""
        return self._names.children(folder)

    def peek(self, path: str) -> bytes | None:
        """The bytes of a metadata file, or None."""
        data = self._data.get(path)
        return None if data is None else zlib.decompress(data)

    @property
    def folder(self) -> Path | None:
        """See `Store.folder`."""
        return None

    def identity(self) -> str:
        """The SHA-256 of the archive."""
        return _sha256(self._path)

    def unpack(self, prefix: str, into: Path) -> None:
        """See `Store.unpack`; links and special files are left out."""
        with (
            _damage_is_said(self._path.name),
            _decompressed(self._path) as plain,
            tarfile.open(fileobj=_Bounded(plain), mode="r|", bufsize=1 << 16) as archive,  # type: ignore[call-overload]
        ):
            for member in archive:
                archive.members = []
                name = safe_name(member.name)
                if name is None or not name.startswith(prefix) or not member.isfile():
                    continue
                stream = archive.extractfile(member)
                if stream is not None:
                    _write(stream, into / name, member.size)

    def close(self) -> None:
        """Give back what is held."""
        self._data.clear()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _write(stream: IO[bytes], target: Path, size: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    left = size
    with target.open("wb") as out:
        while chunk := stream.read(min(1 << 20, left + 1)):
            left -= len(chunk)
            if left < 0:
                break
            out.write(chunk)
    if left:
        raise ValueError("not of the size that its header gives")


@contextmanager
def _damage_is_said(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # writing failed, not reading
            raise
        raise UnreadableError(f"{name}: damaged in the archive: {error}") from error
    except _DAMAGE as error:
        raise UnreadableError(f"{name}: damaged in the archive: {error}") from error


def _decompressed(path: Path) -> IO[bytes]:
    stream = path.open("rb")
    magic = stream.read(6)
    stream.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        stream.close()
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if magic.startswith(b"BZh"):
        stream.close()
        return bz2.open(path, "rb")
    if magic.startswith(b"\xfd7zXZ"):
        stream.close()
        return lzma.open(path, "rb")
    return stream
