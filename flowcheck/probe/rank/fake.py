"""The fake backend: tensors without memory, and tags that say where a tensor comes from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from flowcheck.probe.protocol import Block
from flowcheck.probe.rank.tree import Tree, replaced

__all__ = ["Provenance", "simulated"]


@contextlib.contextmanager
def simulated(tree: Tree) -> Iterator[None]:
    """Everything made inside has a shape and no numbers."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    for name in dir(torch.nn.init):
        if name.endswith("_") and not name.startswith("_"):
            setattr(torch.nn.init, name, lambda tensor, *args, **kwargs: tensor)
    for module, name in tree.names["experts"]["data_dependent"]:
        if (old := tree.find(module, name)) is not None:
            replaced(tree.package, name, old, _experts(tree.names["experts"]["states"]))
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def _experts(states: str) -> Any:
    def forward(layer: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        rows = getattr(x, states, x)
        return rows.new_empty(rows.shape)

    return forward


class Provenance(contextlib.AbstractContextManager[None]):
    """Placeholder."""

    def __init__(self, layers: int) -> None:
        self.layers = layers

    def __exit__(self, *args: object) -> None:
        return None

    def __enter__(self) -> None:
        return None

    def entered(self, index: int, stream: Any) -> None:
        return None

    def left(self, index: int, stream: Any) -> None:
        return None

    def blocks(self, states: Any, width: int) -> tuple[Block, ...]:
        return ()
