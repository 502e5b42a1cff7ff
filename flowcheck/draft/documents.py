"""JSON documents as somebody wrote them: read with bounds, and asked for typed values with errors that name the key.

Knows JSON and its traps; knows no key of any configuration.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowcheck.draft.errors import ConfigError, DraftError, kind_of, one_line, shown

__all__ = ["MAX_CONFIG_BYTES", "MAX_DEPTH", "Document", "parse_object", "read_bytes", "read_object", "refuse_special"]

MAX_CONFIG_BYTES = 8 * 1024 * 1024
"""A larger config is no config: the largest that are published take some hundred kB."""

MAX_DEPTH = 64
"""How deep objects and lists may be nested; those that are published need less than ten levels."""

MAX_NUMBER = 10**12
"""Above the number of anything that a model has."""


def read_bytes(path: Path, label: str, limit: int, error: type[DraftError] = ConfigError) -> bytes:
    """The bytes of a regular file; raises ``error`` in one line that begins with ``label``."""
    try:
        refuse_special(path, label, error)
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise error(f"{label} is not a regular file")
            if status.st_size > limit:
                raise error(f"{label} is too large: {_size(status.st_size)}, and no more than {_size(limit)} is read")
            data = stream.read(limit + 1)
    except IsADirectoryError:
        raise error(f"{label} is a folder where a file is expected") from None
    except FileNotFoundError:
        raise error(f"no such file: {label}") from None
    except (OSError, ValueError) as problem:
        raise error(f"cannot read {label}: {getattr(problem, 'strerror', None) or problem}") from None
    if len(data) > limit:
        raise error(f"{label} is larger than {_size(limit)}")
    return data


def refuse_special(path: Path, label: str, error: type[DraftError]) -> None:
    """Raises ``error`` for a pipe, a socket or a device: to open one may wait for ever. Other errors are left to opening."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise error(f"{label} is not a regular file")


def read_object(path: Path, label: str, limit: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in a file; raises `ConfigError`."""
    return parse_object(read_bytes(path, label, limit), label)


def parse_object(
    data: bytes, label: str, error: type[DraftError] = ConfigError, *, depth: int = MAX_DEPTH
) -> dict[str, Any]:
    """The JSON object that ``data`` is. What Python reads beyond JSON (``NaN``, ``Infinity``) is read too.

    Raises ``error`` in one line for all else: no UTF-8, a byte order mark, a key written twice with different values, a
    nesting without end.
    """
    if data[:3] == b"\xef\xbb\xbf" or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise error(f"{label} begins with a byte order mark, which readers of JSON refuse; save it as plain UTF-8")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{label} is not UTF-8 (byte {problem.start})") from None
    try:
        value = json.loads(text, object_pairs_hook=_once)
        if not isinstance(value, dict):
            raise error(f"{label} holds {kind_of(value)} where a JSON object is expected")
        _check_depth(value, depth)
    except _TwiceError as problem:
        raise error(f"{label} writes the key {shown(problem.key)} twice, with different values") from None
    except (RecursionError, _DeepError):
        raise error(f"{label} is nested deeper than {depth} levels") from None
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise error(f"{label} is not valid JSON: {problem.msg} ({where})") from None
    except ValueError as problem:  # an integer of more digits than Python reads
        raise error(f"{label} is not valid JSON: {str(problem).partition(';')[0]}") from None
    return value


class _TwiceError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _DeepError(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result and not _same(result[key], value):
            raise _TwiceError(key)
        result[key] = value
    return result


def _same(left: object, right: object) -> bool:
    return type(left) is type(right) and (left == right or repr(left) == repr(right))


def _check_depth(value: object, limit: int) -> None:
    pending: list[tuple[object, int]] = [(value, 1)]
    while pending:
        each, depth = pending.pop()
        if depth > limit:
            raise _DeepError
        if isinstance(each, dict):
            pending += [(inner, depth + 1) for inner in each.values() if isinstance(inner, (dict, list))]
        elif isinstance(each, list):
            pending += [(inner, depth + 1) for inner in each if isinstance(inner, (dict, list))]


def _size(number: int) -> str:
    return f"{number / 1024**2:.0f} MB" if number >= 1024**2 else f"{number} bytes"


@dataclass(frozen=True)
class Document:
    """A JSON object, or one nested in it, asked for typed values. ``null`` reads as absent; `has` tells them apart.

    ``label`` says in messages what the document is; ``path`` is where in it this object stands (``""`` is the top).
    """

    label: str
    raw: Mapping[str, Any] = field(repr=False)
    path: str = ""

    def has(self, key: str) -> bool:
        """Whether the key is written at all, be it as null."""
        return key in self.raw

    def key(self, key: str) -> str:
        """The whole way to ``key``: ``eagle_config.use_aux_hidden_state``."""
        return f"{self.path}.{key}" if self.path else key

    def integer(self, key: str, *, least: int | None = None) -> int | None:
        """The integer at ``key``; no boolean, no float, no text that looks like one."""
        value = self.raw.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, value, "an integer")
        if least is not None and value < least:
            raise ConfigError(f"{self.label}: {self.key(key)} is {shown(value)}; it has to be at least {least}")
        if abs(value) > MAX_NUMBER:
            raise ConfigError(f"{self.label}: {self.key(key)} is {shown(value)}, which no model can have")
        return value

    def flag(self, key: str) -> bool | None:
        """The boolean at ``key``."""
        value = self.raw.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def text(self, key: str) -> str | None:
        """The string at ``key``."""
        value = self.raw.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of strings at ``key``, or nothing."""
        value = self.raw.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._wrong(key, value, "a list of strings")
        return tuple(value)

    def ids(self, key: str) -> tuple[int, ...] | None:
        """The list of integers at ``key``, or None if it is absent or null."""
        value = self.raw.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self._wrong(key, value, "a list of integers")
        for index, each in enumerate(value):
            if isinstance(each, bool) or not isinstance(each, int):
                name = f"{self.key(key)}[{index}]"
                raise ConfigError(f"{self.label}: {name} is {shown(each)}; layer ids have to be integers")
        return tuple(value)

    def inside(self, key: str) -> Document | None:
        """The object at ``key``, or None if it is absent or null."""
        value = self.raw.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(key, value, "an object")
        return Document(self.label, value, self.key(key))

    def objects(self) -> Iterator[tuple[str, Document]]:
        """Every object directly inside this one, by its key."""
        for key, value in self.raw.items():
            if isinstance(value, dict):
                yield key, Document(self.label, value, self.key(key))

    def _wrong(self, key: str, value: object, wanted: str) -> ConfigError:
        return ConfigError(one_line(f"{self.label}: {self.key(key)} is {shown(value)}; it has to be {wanted}"))
