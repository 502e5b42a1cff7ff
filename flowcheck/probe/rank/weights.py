"""Weights of no value that are the same model on any number of ranks.

Each parameter's undivided ("logical") matrix is drawn from a seed and the parameter's name: unit norms stay as the tree makes
them, embeddings have unit variance, matrices are scaled by 1/√fan_in. The tree's own loader of the parameter then takes this
rank's part of it, so that a sharding that the tree gets wrong shows. Shapes of the undivided matrices come from a run on one
rank.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from flowcheck.probe.rank.tree import Unbridged

__all__ = ["Undivided", "load", "logical", "undivided"]


@dataclass(frozen=True)
class Undivided:
    """How the parameters look on one rank.

    Attributes:
        shapes: By path from the model.
        parts: For a fused matrix, the rows of each part, in order.
    """

    shapes: Mapping[str, tuple[int, ...]]
    parts: Mapping[str, tuple[int, ...]]


def undivided(model: Any, table: Mapping[str, Any]) -> Undivided:
    """The shapes of a model that was built on one rank."""
    shapes, parts = {}, {}
    for name, parameter in model.named_parameters():
        shapes[name] = tuple(parameter.shape)
        owner = model.get_submodule(name.rpartition(".")[0])
        if found := _parts(owner, parameter.shape[0] if parameter.dim() else 0, table):
            parts[name] = found
    return Undivided(shapes, parts)


def _parts(owner: Any, rows: int, table: Mapping[str, Any]) -> tuple[int, ...]:
    heads, keys, width = (getattr(owner, table[name], None) for name in ("query_heads", "key_heads", "head_width"))
    if heads and keys and width:
        values = getattr(owner, table["value_head_width"], None) or width
        return (heads * width, keys * width, keys * values)
    widths = getattr(owner, table["parts"], None)
    if isinstance(widths, (list, tuple)) and len(widths) > 1 and sum(widths) == rows:
        return tuple(widths)
    return ()


def logical(name: str, shape: tuple[int, ...], seed: int, *, scale: float | None = None, device: Any = "cpu") -> Any:
    """A matrix by its name: the same on every rank. It is drawn where it is needed: a processor would take minutes for what a GPU
    draws at once. GPUs of one kind draw the same; where they are of several kinds, ranks compute something else than one rank,
    and that shows.

    Args:
        name: Path of the parameter.
        shape: Of the undivided matrix; the last dimension is the fan-in.
        seed: Of the job.
        scale: Standard deviation instead of 1/√fan_in.
        device: Where it is drawn, whatever PyTorch's default is now.
    """
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    generator = torch.Generator(device=device).manual_seed(int.from_bytes(digest[:7], "big"))
    if scale is None:
        scale = 1 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.1
    return torch.randn(shape, generator=generator, dtype=torch.float32, device=device).mul_(scale)


def load(
    model: Any, whole: Undivided, table: Mapping[str, Any], seed: int, rank: int, ranks: int
) -> list[tuple[str, str]]:
    """Fills the parameters of this rank.

    Returns:
        What was not divided by the tree's own loader: the parameter, and why.

    Raises:
        Unbridged: a parameter that one rank does not have, or that nobody can divide.
    """
    notes: set[tuple[str, str]] = set()
    for name, parameter in model.named_parameters():
        if not parameter.dtype.is_floating_point:
            notes.add((name, "not floating point, left as it was made"))
            continue
        owner = model.get_submodule(name.rpartition(".")[0])
        if _is_norm(owner, parameter, table):
            continue
        if _is_bias_of_experts(name, table):
            parameter.data.zero_()  # one rank of a group holds it, and trees differ in which
            notes.add((name, "a bias of experts, left zero"))
            continue
        if name not in whole.shapes:
            raise Unbridged(f"parameter {name} is not there on one rank")
        shape = whole.shapes[name]
        rows = getattr(owner, table["rows"], None)
        scale = 1.0 if rows is not None and "head" not in name.rpartition(".")[0].rpartition(".")[2] else None
        value = logical(name, shape, seed, scale=scale, device=parameter.device)
        if note := _load(parameter, value, _Place(name, owner, whole.parts.get(name, ()), rows, rank, ranks), table):
            notes.add((name, note))
    return sorted(notes)


def _is_norm(owner: Any, parameter: Any, table: Mapping[str, Any]) -> bool:
    return parameter.dim() == 1 and any(hasattr(owner, name) for name in table["norms"])


def _is_bias_of_experts(name: str, table: Mapping[str, Any]) -> bool:
    last = name.rpartition(".")[2]
    return last.startswith((table["gate_and_up"], table["down"])) and last.endswith("bias")


@dataclass(frozen=True)
class _Place:
    name: str
    owner: Any
    parts: tuple[int, ...]
    rows: int | None
    rank: int
    ranks: int


def _load(parameter: Any, value: Any, place: _Place, table: Mapping[str, Any]) -> str | None:
    loader = getattr(parameter, table["loader"], None)
    if loader is None:
        return _sliced(parameter, value, place)
    shards = table["shards"]
    last = place.name.rpartition(".")[2]
    wanted = inspect.signature(loader).parameters
    if table["expert"] in wanted:
        _load_experts(loader, parameter, value, place, table)
    elif last.startswith((table["gate_and_up"], table["down"])) and len(wanted) > 3:
        kind = "gate_and_up" if last.startswith(table["gate_and_up"]) else "down"
        loader(parameter, value, place.name, table["fused_shards"][kind])
    elif place.parts and len(wanted) > 2:
        heads = getattr(place.owner, table["query_heads"], None) is not None
        ids: list[Any] = [shards["query"], shards["key"], shards["value"]] if heads else list(range(len(place.parts)))
        for shard, part in zip(ids, torch.split(value, list(place.parts)), strict=True):
            loader(parameter, part, shard)
    elif place.rows is not None:
        loader(parameter, value[: place.rows])
    else:
        loader(parameter, value)
    return None


def _load_experts(loader: Any, parameter: Any, value: Any, place: _Place, table: Mapping[str, Any]) -> None:
    shards = table["shards"]
    last = place.name.rpartition(".")[2]
    for expert in range(value.shape[0]):
        if last.startswith(table["gate_and_up"]):
            for shard, part in zip((shards["gate"], shards["up"]), value[expert].chunk(2), strict=True):
                loader(parameter, part.contiguous(), place.name, shard, expert)
        else:
            loader(parameter, value[expert], place.name, shards["down"], expert)


def _sliced(parameter: Any, value: Any, place: _Place) -> str | None:
    if parameter.shape == value.shape:
        parameter.data.copy_(value)
        return None
    differs = [axis for axis in range(value.dim()) if parameter.shape[axis] != value.shape[axis]]
    if len(differs) != 1 or parameter.shape[differs[0]] * place.ranks != value.shape[differs[0]]:
        raise Unbridged(
            f"parameter {place.name} is {tuple(parameter.shape)} of {tuple(value.shape)}, and has no loader"
        )
    size = parameter.shape[differs[0]]
    parameter.data.copy_(value.narrow(differs[0], place.rank * size, size))
    return "no loader of its own, divided in equal parts by rank"
