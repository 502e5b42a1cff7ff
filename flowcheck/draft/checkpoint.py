"""Headers of checkpoints on disk: a safetensors file, several with or without an index, or a dump of names and shapes.

A header is the first bytes of a file; the weights behind it are never read, so a checkpoint of 100 GB costs kilobytes.
What a header claims is checked against the size of its file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from flowcheck.draft.documents import parse_object, read_bytes, refuse_special
from flowcheck.draft.errors import ConfigError, HeaderError, counted, shown
from flowcheck.draft.header import Header, Tensor, header_from, shown_name, tensor_bits, tensor_from

__all__ = ["INDEX", "SINGLE", "header_in", "joined", "read_header_file", "shards_of"]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DUMP = "header.json"

MAX_HEADER_BYTES = 100 * 1024 * 1024
"""The limit of the format itself."""

MAX_INDEX_BYTES = 64 * 1024 * 1024


def header_in(folder: Path, label: str) -> Header | str:
    """The header of the checkpoint in a model's folder, or the reason why there is none to read.

    Raises `HeaderError` where there is one and it is damaged.
    """
    try:
        names = sorted(each.name for each in folder.iterdir())
    except OSError as problem:
        raise HeaderError(f"cannot read the folder {label}: {problem.strerror or problem}") from None
    if INDEX in names:
        shards = shards_of(_json(folder / INDEX, f"{label}/{INDEX}", MAX_INDEX_BYTES), f"{label}/{INDEX}")
        missing = sorted(each for each in set(shards.values()) if not (folder / each).is_file())
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise HeaderError(f"{label}/{INDEX} names {missing[0]}{more}, which is not there")
        parts = {each: read_header_file(folder / each, f"{label}/{each}") for each in sorted(set(shards.values()))}
        return joined(parts, label, shards)
    weights = [each for each in names if each.endswith(".safetensors") and not each.startswith("adapter_")]
    if SINGLE in weights:
        weights = [SINGLE]
    if weights:
        return joined({each: read_header_file(folder / each, f"{label}/{each}") for each in weights}, label)
    if DUMP in names:
        return read_header_file(folder / DUMP, f"{label}/{DUMP}")
    return absence(names)


def absence(names: Iterable[str]) -> str:
    """Why no header can be read where only these files are."""
    pickled = [each for each in names if each.endswith((".bin", ".pt", ".pth", ".ckpt"))]
    if pickled:
        return f"the weights are pickled ({pickled[0]}): that format has no header that is safe to read"
    gguf = [each for each in names if each.endswith(".gguf")]
    return (
        f"the weights are {gguf[0]}, which is not read" if gguf else "there is no checkpoint beside the configuration"
    )


def read_header_file(path: Path, label: str) -> Header:
    """The header of one safetensors file, or the one that a JSON file spells. Raises `HeaderError`."""
    if path.suffix.lower() == ".json":
        raw = _json(path, label, MAX_HEADER_BYTES)
        if "weight_map" in raw and "tensors" not in raw:
            raise HeaderError(f"{label} is an index of shards; name the folder that it lies in")
        return header_from(raw, label)
    try:
        refuse_special(path, label, HeaderError)
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            data = _header_bytes(stream.read(8), size, label)
            text = stream.read(data)
    except IsADirectoryError:
        raise HeaderError(f"{label} is a folder where a file is expected") from None
    except FileNotFoundError:
        raise HeaderError(f"no such file: {label}") from None
    except OSError as problem:
        raise HeaderError(f"cannot read {label}: {problem.strerror or problem}") from None
    return Header(label, _checked(parse_object(text, f"the header of {label}", HeaderError), size - 8 - data, label))


def shards_of(index: Mapping[str, Any], label: str) -> dict[str, str]:
    """The file of each tensor, as an index gives it. Raises `HeaderError`, also for a file outside of the folder."""
    table = index.get("weight_map")
    if not isinstance(table, dict) or not table:
        raise HeaderError(f"{label} is no index of shards: its weight_map is {shown(table)}")
    for name, shard in table.items():
        if not isinstance(shard, str) or not shard:
            raise HeaderError(f"{label}: the shard of {shown_name(name)} is {shown(shard)}")
        parts = PurePosixPath(shard).parts
        foreign = shard.startswith("/") or ".." in parts or "\0" in shard or PureWindowsPath(shard).anchor
        if foreign or not shard.endswith(".safetensors"):
            raise HeaderError(
                f"{label}: the shard of {shown_name(name)} is {shown(shard)}, no safetensors file beside it"
            )
    return table


def joined(parts: Mapping[str, Header], label: str, shards: Mapping[str, str] | None = None) -> Header:
    """One header of several files. Raises `HeaderError` where they contradict each other or the index."""
    tensors: dict[str, Tensor] = {}
    homes: dict[str, str] = {}
    for shard, part in parts.items():
        for name, tensor in part.tensors.items():
            if name in homes:
                raise HeaderError(f"{label}: {shown_name(name)} stands in {homes[name]} and in {shard}")
            tensors[name] = tensor
            homes[name] = shard
    for name, shard in (shards or {}).items():
        if homes.get(name) != shard:
            other = f"; it is in {homes[name]}" if name in homes else ""
            raise HeaderError(f"{label}: the index puts {shown_name(name)} into {shard}, which does not hold it{other}")
    if not tensors:
        raise HeaderError(f"{label} names no tensor")
    return Header(label, tensors, len(parts))


def _json(path: Path, label: str, limit: int) -> dict[str, Any]:
    try:
        return parse_object(read_bytes(path, label, limit, HeaderError), label, HeaderError)
    except ConfigError as problem:
        raise HeaderError(str(problem)) from None


def _header_bytes(prefix: bytes, size: int, label: str) -> int:
    """How long the header is that the first eight bytes announce."""
    if len(prefix) < 8:
        raise HeaderError(f"{label} is cut short: {counted(size, 'byte')}, and a safetensors file begins with 8")
    if prefix == b"version ":
        raise HeaderError(f"{label} is a pointer of Git LFS; the file itself was not fetched")
    length = int(struct.unpack("<Q", prefix)[0])
    if length > MAX_HEADER_BYTES:
        raise HeaderError(f"{label} is no safetensors file: it announces a header of {length} bytes")
    if length > size - 8:
        raise HeaderError(f"{label} is cut short: it announces a header of {length} bytes and has {size - 8} more")
    if length < 2:
        raise HeaderError(f"{label} is no safetensors file: it announces a header of {counted(length, 'byte')}")
    return length


def _checked(raw: dict[str, Any], room: int, label: str) -> dict[str, Tensor]:
    """The tensors of a header whose data has to fill ``room`` bytes, none of them twice."""
    tensors: dict[str, Tensor] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in raw.items():
        if name == "__metadata__":
            continue
        if not isinstance(entry, dict):
            raise HeaderError(
                f"{label}: {shown_name(name)} is {shown(entry)}; a header gives each tensor a dtype and a shape"
            )
        tensor = tensors[name] = tensor_from(name, entry, label)
        offsets = entry.get("data_offsets")
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(each) is int for each in offsets):
            raise HeaderError(f"{label}: the data_offsets of {shown_name(name)} are {shown(offsets)}")
        begin, end = offsets
        if not 0 <= begin <= end <= room:
            raise HeaderError(
                f"{label}: the data of {shown_name(name)} is said to lie at {begin} to {end}, "
                f"and the file has {counted(room, 'byte')} of data"
            )
        if tensor_bits(tensor) != 8 * (end - begin):
            raise HeaderError(
                f"{label}: {shown_name(name)} is {tensor.dtype} {list(tensor.shape)}, which takes "
                f"{tensor_bits(tensor) / 8:.0f} bytes, and its data has {end - begin}"
            )
        spans.append((begin, end, name))
    _check_spans(sorted(spans), room, label)
    return tensors


def _check_spans(spans: list[tuple[int, int, str]], room: int, label: str) -> None:
    last, before = 0, ""
    for begin, end, name in spans:
        if begin < last:
            raise HeaderError(f"{label}: the data of {shown_name(name)} overlaps that of {shown_name(before)}")
        if begin > last:
            raise HeaderError(f"{label}: {counted(begin - last, 'byte')} before {shown_name(name)} belong to no tensor")
        last, before = end, name
    if last != room:
        raise HeaderError(f"{label}: the tensors take {last} bytes, and the file has {counted(room, 'byte')} of data")
