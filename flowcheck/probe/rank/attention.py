"""An attention backend that needs no kernels: causal attention within each request, in the numbers' own precision.

It derives from the tree's own abstract backend: what that does not have raises as it would on a real one. The layer that calls
it is the tree's. Rows depend on their position and on the rows before them, so that layers can be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from flowcheck.probe.rank.tree import Tree, Unbridged

__all__ = ["attend", "backend", "enter"]


def attend(query: Any, key: Any, value: Any, lengths: list[int], heads: int, key_heads: int) -> Any:
    """Causal attention, unscaled by anything that a layer brings: numbers of no value.

    Args:
        query: [rows, heads × width].
        key: [rows, key heads × width].
        value: [rows, key heads × value width].
        lengths: Rows of each request, in order.
        heads: Heads of this rank.
        key_heads: Key heads of this rank; each serves heads / key_heads heads.

    Returns:
        [rows, heads × value width].
    """
    rows = query.shape[0]
    query = query.reshape(rows, heads, -1)
    key = key.reshape(rows, key_heads, -1).repeat_interleave(heads // key_heads, dim=1)
    value = value.reshape(rows, key_heads, -1).repeat_interleave(heads // key_heads, dim=1)
    out = query.new_zeros((rows, heads, value.shape[-1]))
    scale = query.shape[-1] ** -0.5
    start = 0
    for length in lengths:
        part = slice(start, start + length)
        scores = torch.einsum("qhd,khd->hqk", query[part], key[part]) * scale
        later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        out[part] = torch.einsum("hqk,khd->qhd", weights, value[part])
        start += length
    return out.reshape(rows, -1)


class _Pool:
    """Stands for a pool of keys and values that nobody reads: every method of it does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Pool()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        return None

    def __bool__(self) -> bool:
        return False


def backend(tree: Tree, lengths: list[int], *, shapes_only: bool) -> Any:
    """A backend for one batch.

    Args:
        tree: The scanned tree.
        lengths: Rows of each request.
        shapes_only: Give an empty tensor of the right shape (nothing has values under fake tensors).
    """
    table: Mapping[str, Any] = tree.names["attention"]
    base = tree.find(*table["backend"]) or object

    def forward(self: Any, q: Any, k: Any, v: Any, layer: Any, *args: Any, **kwargs: Any) -> Any:
        heads = getattr(layer, table["heads"])
        width = getattr(layer, table["value_width"], None) or getattr(layer, table["width"])
        rows = sum(lengths)
        if q.numel() % (rows * heads):
            raise Unbridged(f"attention is given {tuple(q.shape)} for {rows} rows of {heads} heads")
        if shapes_only:
            return q.new_empty((rows, heads * width))
        key_heads = max(getattr(layer, table["key_heads"], heads), 1)
        if k is None:  # keys of another layer: any mixture of the rows before will do
            k, v, key_heads = q, q.reshape(rows, heads, -1)[..., :width], heads
        query, key = q.reshape(rows, heads, -1), k.reshape(rows, key_heads, -1)
        value = v.reshape(rows, key_heads, -1)
        if (extra := kwargs.get(table["extra_query"])) is not None:
            query = torch.cat([query, extra.reshape(rows, heads, -1)], dim=-1)
            key = torch.cat([key, kwargs[table["extra_key"]].reshape(rows, key_heads, -1)], dim=-1)
        return attend(query, key, value[..., :width], lengths, heads, key_heads)

    space: dict[str, Any] = {"__init__": lambda self: None, "forward": forward}
    for name in ("forward_extend", "forward_decode", "forward_mixed"):
        space[name] = forward
    for name in table["nothing"]:
        space[name] = lambda self, *args, **kwargs: None
    for name in table["pools"]:
        space[name] = _Pool()
    made = type("ProbeBackend", (base,), space)
    made.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    return made()


def enter(tree: Tree, made: Any) -> str | None:
    """Makes a backend the current one, where the tree looks it up in a context; says how, or None where it does not."""
    module, setter, context = tree.names["attention"]["context"]
    if (function := tree.find(module, setter)) is None:
        return None
    function(tree.need(module, context)(**{tree.names["batch"]["backend"]: made}))
    return f"{module}.{setter}"


def pool() -> Any:
    """See :class:`_Pool`."""
    return _Pool()
