"""The fake backend: tensors without memory. Everything has its true shape, nothing has a value."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from flowcheck.probe.rank.tree import Tree, replaced

__all__ = ["simulated"]


@contextlib.contextmanager
def simulated(tree: Tree) -> Iterator[None]:
    """Everything made inside has a shape and no numbers.

    What depends on numbers is answered by its shape: initial values, and the experts' product.
    """
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
