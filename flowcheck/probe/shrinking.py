"""Makes a model small enough for CPUs, by its configuration: narrower, with fewer heads, experts and tokens, never with fewer
layers. Pure; the keys stand in ``rules/shrinking.toml``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowcheck.draft.target import TOWERS
from flowcheck.probe.protocol import Reduction

__all__ = ["Shrinking", "Shrunk", "few_experts", "shrunk", "shrunk_draft"]

HEAD_DIM = 16
EXPERTS = 16


@dataclass(frozen=True, slots=True)
class Shrinking:
    """The table of keys. ``sizes``: how many times the number of ranks; ``fixed``: how small; ``keys``: keys by what they
    mean."""

    sizes: Mapping[str, int]
    fixed: Mapping[str, int]
    keys: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A smaller configuration. ``widths``: what became of the widths of hidden states; ``left_out``: keys that are gone."""

    raw: dict[str, Any]
    reductions: tuple[Reduction, ...] = ()
    widths: Mapping[int, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def shrunk(raw: Mapping[str, Any], nesting: str, ranks: int, table: Shrinking) -> Shrunk:
    """A target, smaller. ``nesting``: where its language model is described (``"text_config"``, ``""`` for the document)."""
    work = _Work(copy.deepcopy(dict(raw)), table, ranks, {})
    text = work.raw
    for key in filter(None, nesting.split(".")):
        text = text[key]
    work.model(text, nesting)
    for path, part in work.parts():
        if any(tower in path.lower() for tower in TOWERS):
            work.tower(part, path)
        else:
            work.rest(part, path)
    return work.done()


def shrunk_draft(raw: Mapping[str, Any], widths: Mapping[int, int], ranks: int, table: Shrinking) -> Shrunk:
    """A draft, as much smaller as its target was made: ``widths`` are the target's."""
    work = _Work(copy.deepcopy(dict(raw)), table, ranks, dict(widths))
    for path, part in work.parts():
        work.model(part, path)
    return work.done()


def few_experts(raw: Mapping[str, Any], nesting: str, ranks: int, table: Shrinking) -> Shrunk:
    """A target with as many experts as its routing needs, and every width as it was. What its kernels take is as wide as it
    ever is; weights of experts that one storage holds they refuse, for they have to be contiguous (``fused_experts_impl``).
    """
    work = _Work(copy.deepcopy(dict(raw)), table, ranks, {})
    text = work.raw
    for key in filter(None, nesting.split(".")):
        text = text[key]
    work.experts(text, nesting)
    return work.done()


@dataclass
class _Work:
    raw: dict[str, Any]
    table: Shrinking
    ranks: int
    widths: dict[int, int]
    reductions: list[Reduction] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def done(self) -> Shrunk:
        return Shrunk(self.raw, tuple(self.reductions), dict(self.widths), tuple(self.left_out))

    def parts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """All objects inside the document, the outer ones first, and the document itself."""
        pending: list[tuple[str, dict[str, Any]]] = [("", self.raw)]
        while pending:
            path, part = pending.pop(0)
            yield path, part
            inside = [
                (f"{path}.{key}" if path else key, value) for key, value in part.items() if isinstance(value, dict)
            ]
            pending += [each for each in inside if each[0].rpartition(".")[2] not in self.table.keys["rotations"]]

    def model(self, part: dict[str, Any], path: str) -> None:
        """Heads, widths, sizes and experts of a language model."""
        heads, dim = self._heads(part, path)
        width = self._first(part, "widths")
        if heads is not None and width is not None and width not in self.widths:
            narrow = heads * dim
            while narrow < 8 * self.ranks:  # each rank needs some columns; heads have to go into the width
                narrow *= 2
            self.widths[width] = min(width, narrow)
        for key, times in self.table.sizes.items():
            self._lower(part, path, key, times * self.ranks)
        for key, least in self.table.fixed.items():
            self._lower(part, path, key, least)
        self.experts(part, path)
        self.rest(part, path)

    def experts(self, part: dict[str, Any], path: str) -> None:
        """As many as a token and its groups choose among, with some to spare."""
        chosen = self._first(part, "chosen") or 1
        groups = self._first(part, "groups") or 1
        least = max(EXPERTS, 2 * groups, chosen)
        self._lower_all(part, path, "experts", -(-least // groups) * groups)

    def rest(self, part: dict[str, Any], path: str) -> None:
        """What other parts say of the same things."""
        for key in self.table.keys["widths"]:
            self._narrow(part, path, key)
        for key in ("vocab_size", "draft_vocab_size"):
            self._lower(part, path, key, self.table.fixed[key])
        for key in self.table.keys["padding"]:
            if _number(part.get(key)) and part[key] >= self.table.fixed["vocab_size"]:
                self._set(part, path, key, 0)
        for key in self.table.keys["quantized"]:
            if part.pop(key, None) is not None:
                self.left_out.append(_join(path, key))

    def tower(self, part: dict[str, Any], path: str) -> None:
        """A tower of another modality has one layer left; what it gives to the language model is as wide as that is.

        Classes read the depth under another key than files write, and have a default for it: all of them are set.
        """
        keys = self.table.keys["tower_depths"]
        if any(_number(part.get(key)) for key in keys):
            for key in keys:
                self._lower(part, path, key, 1)
                part.setdefault(key, 1)
        for key in self.table.keys["widths"][1:]:
            self._narrow(part, path, key)

    def _heads(self, part: dict[str, Any], path: str) -> tuple[int | None, int]:
        """The number of heads that are left, and how wide each is."""
        heads, width = self._first(part, "heads"), self._first(part, "widths")
        if heads is None:
            return None, HEAD_DIM
        kept = self._first(part, "kv_heads") or heads
        written = self._first(part, "head_dim")
        turned = any(_has_list(part.get(key)) for key in self.table.keys["rotations"])
        dim = written or (width // heads if width else HEAD_DIM)
        if not turned:
            dim = min(dim, HEAD_DIM)
        few = self.ranks if kept % self.ranks == 0 else kept
        if kept % self.ranks and self.ranks % kept:
            return heads, dim  # heads that the ranks cannot share: the tree says so itself
        left = math.lcm(self.ranks, few) * (2 if heads > kept else 1)
        left = left if left < heads else heads
        self._lower_all(part, path, "heads", left)
        self._lower_all(part, path, "kv_heads", few)
        if not turned:
            self._lower_all(part, path, "head_dim", HEAD_DIM)
        return left, dim

    def _narrow(self, part: dict[str, Any], path: str, key: str) -> None:
        width = _number(part.get(key))
        if width is not None and width in self.widths:
            self._lower(part, path, key, self.widths[width])

    def _first(self, part: Mapping[str, Any], meaning: str) -> int | None:
        return next((value for key in self.table.keys[meaning] if (value := _number(part.get(key)))), None)

    def _lower_all(self, part: dict[str, Any], path: str, meaning: str, least: int) -> None:
        for key in self.table.keys[meaning]:
            self._lower(part, path, key, least)

    def _lower(self, part: dict[str, Any], path: str, key: str, least: int) -> None:
        value = _number(part.get(key))
        if value is not None and value > least:
            self._set(part, path, key, least)

    def _set(self, part: dict[str, Any], path: str, key: str, value: int) -> None:
        self.reductions.append(Reduction(_join(path, key), part[key], value))
        part[key] = value


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _has_list(value: Any) -> bool:
    return isinstance(value, Mapping) and any(isinstance(each, list) for each in value.values())


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
