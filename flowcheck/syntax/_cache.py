"""The content-addressed cache: what was made of a file's bytes, by the digest of these bytes.

Owns the files' layout and when one is believed. An entry is plain data (msgpack, decoded into the types declared here
and in ``ir``): reading one executes nothing. One that is damaged, of another version, of other content or of another
shape is removed and made anew. A folder that cannot be written is a cache that never hits.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from flowcheck import __version__
from flowcheck.syntax import ir
from flowcheck.syntax._scan import Structure

__all__ = ["Body", "Entry", "SyntaxCache", "TOP_LEVEL", "decode_body", "encode"]

_MAGIC = b"flowcheck.syntax/1\n"
_CHECKSUM_BYTES = 32

_UNDECODABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError, struct.error)

TOP_LEVEL = -1

T = TypeVar("T")


class Body(msgspec.Struct, array_like=True, frozen=True):
    """The statements of a function or module, and whether they make a generator of the function."""

    statements: tuple[ir.Stmt, ...]
    is_generator: bool


class Entry(msgspec.Struct, array_like=True):
    """What is known of one file. The slices stay encoded until one is asked for.

    ``slices`` encodes a :class:`Body` for each definition that was lowered, by its index, and at :data:`TOP_LEVEL` the
    module's own statements.
    """

    structure: Structure | None = None
    slices: dict[int, msgspec.Raw] = {}


_ELLIPSIS, _COMPLEX = 1, 2


def _to_extension(value: object) -> msgspec.msgpack.Ext:
    """The constants that msgpack has no type for."""
    if value is ...:
        return msgspec.msgpack.Ext(_ELLIPSIS, b"")
    if isinstance(value, complex):
        return msgspec.msgpack.Ext(_COMPLEX, struct.pack("<dd", value.real, value.imag))
    raise TypeError(f"no encoding for {type(value).__name__}")


def _from_extension(code: int, data: memoryview) -> object:
    if code == _ELLIPSIS:
        return ...
    if code == _COMPLEX:
        return complex(*struct.unpack("<dd", data))
    raise ValueError(f"unknown extension {code}")


_entries = msgspec.msgpack.Decoder(Entry)
_bodies = msgspec.msgpack.Decoder(Body, ext_hook=_from_extension)
_encoder = msgspec.msgpack.Encoder(enc_hook=_to_extension)


def decode_body(raw: msgspec.Raw) -> Body | None:
    """The statements of a slice; None where ``raw`` does not encode any."""
    return _decoded(_bodies, raw)


def _decoded(decoder: msgspec.msgpack.Decoder[T], raw: bytes | msgspec.Raw) -> T | None:
    try:
        return decoder.decode(raw)
    except _UNDECODABLE:
        return None


def encode(value: object) -> msgspec.Raw | None:
    """``value`` encoded; None where the format cannot hold it (a constant of more than 64 bits, a lone surrogate)."""
    try:
        return msgspec.Raw(_encoder.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


@lru_cache(maxsize=1)
def _stamp() -> bytes:
    """What an entry depends on beside the file: the versions in play, and this room's own code."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        libcst = version("libcst")
    except PackageNotFoundError:
        libcst = "unknown"
    stamp = hashlib.sha256(_MAGIC)
    stamp.update(f"{__version__} {libcst} {sys.version_info[0]}.{sys.version_info[1]}\n".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):  # so that nobody has to remember to count a version
        stamp.update(source.read_bytes())
    return stamp.digest()


class SyntaxCache:
    """Entries in ``folder``, one file each, which several processes may use at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / f"syntax-{_stamp().hex()[:16]}"
        self._writable = True

    def load(self, digest: str) -> Entry | None:
        """The entry of the file with this content; None where there is none to be believed."""
        return self._table(digest, _entries)

    def save(self, digest: str, entry: Entry) -> None:
        """Write an entry, together with the slices that another process has added meanwhile. Never fails."""
        if not self._writable:
            return
        other = self.load(digest)
        if other is not None:
            entry = Entry(entry.structure, {**other.slices, **entry.slices})
        self.save_table(digest, entry)

    def load_table(self, name: str, kind: type[T]) -> T | None:
        """A value of the type ``kind`` saved under ``name``; None where there is none to be believed."""
        return self._table(name, msgspec.msgpack.Decoder(kind))

    def _table(self, name: str, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
        payload = self.load_bytes(name)
        if payload is None:
            return None
        table = _decoded(decoder, payload)
        if table is None:
            self._drop(name)
        return table

    def save_table(self, name: str, table: object) -> None:
        """Write a value under ``name``. Never fails."""
        payload = encode(table)
        if payload is not None:
            self.save_bytes(name, bytes(payload))

    def load_bytes(self, name: str) -> bytes | None:
        """What was saved under ``name``; a file that is not exactly that is removed."""
        try:
            data = (self._folder / name).read_bytes()
        except OSError:
            return None
        head = self._head(name)
        payload = data[len(head) + _CHECKSUM_BYTES :]
        if data.startswith(head) and data[len(head) : len(head) + _CHECKSUM_BYTES] == _checksum(payload):
            return payload
        self._drop(name)
        return None

    def save_bytes(self, name: str, payload: bytes) -> None:
        """Write ``payload`` in one step: a reader sees the old file or the new one. Never fails."""
        temporary = self._folder / f".{name}.{secrets.token_hex(8)}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(self._head(name) + _checksum(payload) + payload)
            temporary.replace(self._folder / name)
        except OSError:  # read-only, full, no folder: go on without
            self._writable = False
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def trim(self, limit: int = 512 * 1024 * 1024) -> None:
        """Remove the oldest entries while all of them take more than ``limit`` bytes, those of other versions too."""
        files: list[tuple[float, int, Path]] = []
        with suppress(OSError):
            for path in self._folder.parent.glob("syntax-*/*"):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
            total = sum(size for _, size, _ in files)
            for _, size, path in sorted(files):
                if total <= limit:
                    break
                path.unlink(missing_ok=True)
                total -= size

    @staticmethod
    def _head(name: str) -> bytes:
        return _MAGIC + hashlib.sha256(_stamp() + name.encode()).digest()

    def _drop(self, name: str) -> None:
        with suppress(OSError):
            (self._folder / name).unlink(missing_ok=True)


def _checksum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=_CHECKSUM_BYTES).digest()
