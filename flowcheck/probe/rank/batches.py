"""Batches of the tree's own class, of tokens that mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from flowcheck.probe.protocol import Phase
from flowcheck.probe.rank.attention import pool
from flowcheck.probe.rank.tree import Tree, Unbridged, fields_of, filled

__all__ = ["batch", "token_ids"]


def token_ids(rows: int, vocabulary: int, seed: int) -> list[int]:
    """Tokens of a batch: all different where the vocabulary allows it, the same on every rank."""
    step = next(each for each in (7, 11, 13, 17, 1) if vocabulary % each)
    return [(seed + 3 + step * index) % vocabulary for index in range(rows)]


def places(rows: int, device: Any, first: int = 0) -> Any:
    """Where the keys of tokens are kept."""
    return torch.arange(first, first + rows, device=device)


def batch(
    tree: Tree,
    phase: Phase,
    vocabulary: int,
    device: Any,
    seed: int,
    attention: Any,
    states: Any = None,
    *,
    first_place: int = 0,
    pools: Mapping[str, Any] | None = None,
) -> Any:
    """One forward's batch that asks for the states of all rows.

    Args:
        tree: The scanned tree.
        phase: How many requests and tokens, and of which mode.
        vocabulary: Tokens are below it.
        device: Where the tensors are.
        seed: Of the tokens.
        attention: The backend.
        states: For a draft's batch: what the target gave.
        first_place: Where the keys of the first token are kept.
        pools: What holds keys, by the names of the batch's attributes; without it nothing does.

    Raises:
        Unbridged: the tree has no such batch or mode.
    """
    table = tree.names["batch"]
    cls = tree.need(table["module"], table["cls"])
    modes = tree.need(table["module"], table["modes"])
    verify = phase.kind == "verify" and states is None
    mode = getattr(modes, table["verify" if verify else "extend"], None)
    if mode is None:
        raise Unbridged(f"{table['modes']} has no {table['verify' if verify else 'extend']}")
    kept = getattr(tree.need(table["module"], table["kept"]), table["all_rows"])
    rows, requests, tokens = phase.requests * phase.tokens, phase.requests, phase.tokens
    positions = torch.arange(tokens, device=device).repeat(requests)
    small = {"dtype": torch.int32, "device": device}
    values: dict[str, Any] = {
        "mode": mode,
        "requests": requests,
        "rows": rows,
        "tokens": torch.tensor(token_ids(rows, vocabulary, seed), dtype=torch.int64, device=device),
        "slots": torch.arange(requests, device=device),
        "lengths": torch.full((requests,), tokens, dtype=torch.int64, device=device),
        "lengths_cpu": torch.full((requests,), tokens, dtype=torch.int64, device="cpu"),
        "lengths32": torch.full((requests,), tokens, **small),
        "lengths_list": [tokens] * requests,
        "places": places(rows, device, first_place),
        "positions": positions,
        "positions3": positions.repeat(3, 1),
        "zeros32": torch.zeros(requests, **small),
        "zeros_list": [0] * requests,
        "starts": torch.arange(requests, **small) * tokens,
        "nones": [None] * requests,
        "names": [str(index) for index in range(requests)],
        "no": False,
        "kept": kept,
        "algorithm": _algorithm(tree),
    }
    known = fields_of(cls)
    made = cls(**{name: values[what] for name, what in table["fields"].items() if name in known and what in values})
    setattr(made, table["backend"], attention)
    for name in tree.names["attention"]["pools"]:
        try:
            setattr(made, name, pool() if pools is None else pools[name])
        except AttributeError:
            continue
    if verify or states is not None:
        kind = "verify_input" if states is None else "draft_input"
        setattr(
            made, table["speculative"], _speculative(table[kind], {"tokens": tokens, "kept": kept, "states": states})
        )
    return made


def _algorithm(tree: Tree) -> Any:
    made = tree.find(*tree.names["batch"]["algorithm"])
    return made(tree.algorithm) if made is not None else None


def _speculative(table: dict[str, Any], values: dict[str, Any]) -> Any:
    space: dict[str, Any] = {}
    for name, value in filled(table, values).items():
        if name.endswith("()"):
            space[name[:-2]] = lambda self, value=value: value
        else:
            space[name] = value
    return type("SpeculativeInput", (), space)()
