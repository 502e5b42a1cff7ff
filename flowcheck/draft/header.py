"""The header of a checkpoint: names, types and shapes of its tensors, and what their names say about a draft.

Knows how drafts name their tensors. Knows neither files nor configurations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from flowcheck.draft.errors import HeaderError, shown

__all__ = ["Header", "Tensor", "header_from", "tensor_bits"]

_DTYPE = re.compile(r"BOOL|(?:BF|F|I|U|C)(\d{1,3})(?:_[A-Z0-9]+)?")
_MAX_BITS = 1 << 66
_PREFIXES = ("model.", "encoder.", "module.", "language_model.")
_LAYER = re.compile(r"(?:layers|mtp_layers)\.(\d{1,6})\.(.+)")
_MIDLAYER = "midlayer."

TRAINING = ("draft_model.", "eagle_module.", "context_proj.", "context_norm.", "verifier_")
"""How names begin that a trainer uses and an export replaces."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint, under the name that the file gives it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def is_packed(self) -> bool:
        """Whether several values may share an element, so that the shape is not that of the matrix."""
        return self.dtype not in ("F64", "F32", "F16", "BF16") and not self.dtype.startswith("F8_")

    def __str__(self) -> str:
        return f"{self.name} [{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Header:
    """All tensors of a checkpoint by name. ``label`` says in messages what was read; ``files`` counts what it took.

    Draft layers are found under any prefix, ``midlayer`` is layer 0.
    """

    label: str
    tensors: Mapping[str, Tensor] = field(repr=False, hash=False)
    files: int = 1

    @cached_property
    def plain(self) -> Mapping[str, Tensor]:
        """The tensors by their names without the prefixes of containers (``model.``, ``encoder.``)."""
        result: dict[str, Tensor] = {}
        for name in sorted(self.tensors, key=len, reverse=True):  # a shorter name has the last word
            result[_bare(name)] = self.tensors[name]
        return result

    @cached_property
    def layers(self) -> Mapping[int, Mapping[str, Tensor]]:
        """The draft layers by number: their tensors by the name inside the layer."""
        result: dict[int, dict[str, Tensor]] = {}
        for name, tensor in self.plain.items():
            number, inner = _placed(name)
            if inner:
                result.setdefault(number, {})[inner] = tensor
        return dict(sorted(result.items()))

    @property
    def layer_naming(self) -> str:
        """``midlayer``, ``layers`` or ``""``: how the first layer is named."""
        if any(name.startswith(_MIDLAYER) for name in self.plain):
            return "midlayer"
        return "layers" if self.layers else ""

    @property
    def fc(self) -> Tensor | None:
        """The projection of the captured states."""
        found = self.plain.get("fc.weight") or self.plain.get("context_proj.weight")
        return found if found is not None and len(found.shape) == 2 else None

    @property
    def fc_name(self) -> str:
        """What a projection is called here although its matrix cannot be read from the header (quantised), or ``""``."""
        return next((each.name for name, each in self.plain.items() if name.startswith(("fc.", "context_proj."))), "")

    def find(self, name: str) -> Tensor | None:
        """The tensor of that name, under whatever prefix."""
        return self.plain.get(name)

    def numbered(self, stem: str) -> dict[int, Tensor]:
        """The tensors ``stem.N.weight`` by their number."""
        pattern = re.compile(rf"{re.escape(stem)}\.(\d{{1,6}})\.weight")
        return {
            int(match.group(1)): tensor for name, tensor in self.plain.items() if (match := pattern.fullmatch(name))
        }

    def beginning(self, *starts: str) -> list[Tensor]:
        """The tensors whose plain names begin with one of ``starts``, by name."""
        return [self.plain[name] for name in sorted(self.plain) if name.startswith(starts)]

    def ending(self, end: str) -> list[Tensor]:
        """The tensors whose names end in ``end``, by name."""
        return [self.tensors[name] for name in sorted(self.tensors) if name.endswith(end)]


def header_from(raw: Mapping[str, Any], label: str, *, files: int = 1) -> Header:
    """The header that a JSON object spells.

    It may be the header of a safetensors file as it stands there (``__metadata__``, and offsets beside each shape) or a
    dump of names and shapes below ``tensors``; other keys of a dump begin with ``_``. Raises `HeaderError`.
    """
    entries = raw.get("tensors")
    if not isinstance(entries, dict) or {"dtype", "shape"} <= entries.keys():  # a tensor may be called "tensors"
        entries = {key: value for key, value in raw.items() if not key.startswith("_")}
    tensors = {}
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise HeaderError(
                f"{label}: {shown(name)} is {shown(entry)}; a header gives each tensor a dtype and a shape"
            )
        tensors[name] = tensor_from(name, entry, label)
    if not tensors:
        raise HeaderError(f"{label} names no tensor")
    return Header(label, tensors, files)


def tensor_from(name: str, entry: dict[str, Any], label: str) -> Tensor:
    """The tensor that an entry of a header describes. Raises `HeaderError`."""
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise HeaderError(
            f"{label}: the dtype of {shown_name(name)} is {shown(dtype)}, which is no type of safetensors"
        )
    sizes: list[Any] = shape if isinstance(shape, list) else [None]
    if len(sizes) > 64 or not all(type(each) is int and 0 <= each < 1 << 63 for each in sizes):
        raise HeaderError(f"{label}: the shape of {shown_name(name)} is {shown(shape)}; it has to be a list of sizes")
    tensor = Tensor(name, dtype, tuple(sizes))
    if tensor_bits(tensor) > _MAX_BITS:
        raise HeaderError(f"{label}: {shown_name(name)} claims a shape that no file can hold: {list(tensor.shape)}")
    return tensor


def tensor_bits(tensor: Tensor) -> int:
    """How many bits the data of a tensor takes."""
    match = _DTYPE.fullmatch(tensor.dtype)
    bits = int(match.group(1) or 8) if match else 8
    for size in tensor.shape:
        bits *= size
    return bits


def shown_name(name: str) -> str:
    """A tensor's name as a message quotes it."""
    return repr(name if len(name) <= 80 else name[:79] + "…")


def listed(tensors: Iterable[Tensor], limit: int = 3) -> str:
    """The first names of several tensors."""
    names = [each.name for each in tensors]
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _bare(name: str) -> str:
    while True:
        for prefix in _PREFIXES:
            if name.startswith(prefix):
                name = name[len(prefix) :]
                break
        else:
            return name


def _placed(name: str) -> tuple[int, str]:
    if name.startswith(_MIDLAYER):
        return 0, name[len(_MIDLAYER) :]
    match = _LAYER.fullmatch(name)
    return (int(match.group(1)), match.group(2)) if match else (0, "")
