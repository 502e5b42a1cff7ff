"""What a model's residual stream holds between its layers, in numbers: boundaries.

Boundary k is what enters layer k (0: the embedding), the last one what leaves the last layer: the sum of what the layers hand
on. Layers are watched where their ``forward`` is called, however that happens.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flowcheck.probe.rank.tree import Tree, Unbridged

__all__ = ["Stream", "decoder_layers", "watched"]

Stream = tuple[Any, ...]
"""The tensors whose sum is a boundary: one, or the layer's output and the residual that it is yet to be added to."""


def decoder_layers(tree: Tree, model: Any, layers: int) -> tuple[str, list[Any]]:
    """The decoder layers of a model, and the path of the list that holds them.

    They are the one list of that length of which every member has attention of the tree's kind inside.

    Raises:
        Unbridged: there is no such list, or more than one.
    """
    import torch

    names = (*tree.names["attention"]["layers"], *tree.names["attention"]["other"])
    mixing = tuple(cls for each in names if (cls := tree.find(*each.split(":"))) is not None)
    found = [
        (path, list(module))
        for path, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList)
        and len(module) == layers
        and all(any(isinstance(inner, mixing) for inner in layer.modules()) for layer in module)
    ]
    if len(found) != 1:
        raise Unbridged(f"{len(found)} lists of {layers} decoder layers in {type(model).__name__}")
    return found[0]


@contextlib.contextmanager
def watched(
    layers: Sequence[Any],
    names: Sequence[str],
    width: int,
    entered: Callable[[int, Stream], None],
    left: Callable[[int, Stream], None],
) -> Iterator[None]:
    """Tells what enters each layer and what leaves it, for as long as the context lasts.

    Args:
        layers: In order.
        names: The parameters that are the stream.
        width: Of the stream.
        entered: Called with k and what enters layer k, before the layer sees it.
        left: The same of what it returns.
    """
    saved = []
    for index, layer in enumerate(layers):
        real = layer.forward
        parameters = inspect.signature(real)

        def forward(*args: Any, _index: int = index, _real: Any = real, _how: Any = parameters, **kwargs: Any) -> Any:
            bound = _how.bind(*args, **kwargs).arguments
            stream = tuple(bound[name] for name in names if _is_stream(bound.get(name), width))
            entered(_index, stream)
            out = _real(*args, **kwargs)
            parts = out if isinstance(out, (tuple, list)) else (out,)
            left(_index, tuple(each for each in parts[: len(names)] if _is_stream(each, width)))
            return out

        saved.append((layer, "forward" in vars(layer), real))
        layer.forward = forward
    try:
        yield
    finally:
        for layer, own, real in saved:
            if own:
                layer.forward = real
            else:
                del layer.forward


def _is_stream(value: Any, width: int) -> bool:
    return hasattr(value, "dim") and value.dim() == 2 and value.shape[-1] == width and value.dtype.is_floating_point
