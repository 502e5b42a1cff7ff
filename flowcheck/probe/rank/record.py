"""What a model's residual stream holds between its layers, in numbers: boundaries.

Boundary k is what enters layer k (0: the embedding), the last one what leaves the last layer: the sum of what the layers hand
on. Layers and norms are watched where their ``forward`` is called, however that happens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from flowcheck.probe.rank.tree import Tree, Unbridged

__all__ = ["Stream", "Watch", "decoder_layers", "norms_of"]

Stream = tuple[Any, ...]
"""The tensors whose sum is a boundary: one, or the layer's output and the residual that it is yet to be added to."""


def decoder_layers(tree: Tree, model: Any, layers: int) -> tuple[str, list[Any]]:
    """The decoder layers of a model, and the path of the list that holds them.

    They are the one list of that length of which every member has attention of the tree's kind inside.

    Raises:
        Unbridged: there is no such list, or more than one.
    """
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


class Watch:
    """Tells what enters each layer and what leaves the last one, for as long as its context lasts.

    A layer whose ``forward`` is given the residual beside the stream says both by its arguments. Where the tree keeps the
    residual elsewhere, the first norm inside of the layer is given both, and the first norm after the last layer likewise.

    Args:
        layers: In order.
        norms: The modules that normalise, in and outside of the layers.
        names: The parameters of a layer that are the stream; the first is the output of the layer before.
        width: Of the stream.
        entered: Called with k and what enters layer k, before anything is done with it.
        left: The same of what leaves the last layer.
    """

    def __init__(
        self,
        layers: Sequence[Any],
        norms: Sequence[Any],
        names: Sequence[str],
        width: int,
        entered: Callable[[int, Stream], None],
        left: Callable[[int, Stream], None],
    ) -> None:
        self._layers, self._norms, self._names = list(layers), list(norms), list(names)
        self._width = width
        self._entered, self._left = entered, left
        self._waiting: tuple[Callable[[int, Stream], None], int, Any] | None = None
        self._saved: list[tuple[Any, Any]] = []

    def __enter__(self) -> Watch:
        for index, layer in enumerate(self._layers):
            self._put(layer, self._of_layer(index, layer.forward))
        for norm in self._norms:
            self._put(norm, self._of_norm(norm.forward))
        return self

    def __exit__(self, *args: object) -> None:
        for module, before in reversed(self._saved):
            if before is None:
                del module.forward
            else:
                module.forward = before
        self._saved.clear()

    def _put(self, module: Any, forward: Any) -> None:
        self._saved.append((module, vars(module).get("forward")))
        module.forward = forward

    def _of_layer(self, index: int, real: Any) -> Any:
        signature = inspect.signature(real)
        has_residual = all(name in signature.parameters for name in self._names)

        def forward(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            first = given.get(self._names[0])
            if has_residual:
                self._entered(index, tuple(given[name] for name in self._names if self._is_stream(given.get(name))))
            else:
                self._settle()
                self._waiting = (self._entered, index, first)
            out = real(*args, **kwargs)
            self._settle()
            if index == len(self._layers) - 1:
                parts = out if isinstance(out, (tuple, list)) else (out,)
                if has_residual:
                    self._left(index, tuple(each for each in parts[: len(self._names)] if self._is_stream(each)))
                else:
                    self._waiting = (self._left, index, parts[0])
            return out

        return forward

    def _of_norm(self, real: Any) -> Any:
        def forward(*args: Any, **kwargs: Any) -> Any:
            given = [each for each in (*args, *kwargs.values()) if self._is_stream(each)][: len(self._names)]
            if self._waiting is not None and given:
                tell, index, first = self._waiting
                if not isinstance(first, torch.Tensor) or _is_view_of(given[0], first):
                    self._waiting = None
                    tell(index, tuple(given))
            return real(*args, **kwargs)

        return forward

    def _settle(self) -> None:
        """No norm was given the stream: it is what the layer was given."""
        if self._waiting is not None:
            tell, index, first = self._waiting
            self._waiting = None
            if self._is_stream(first):
                tell(index, (first,))

    def finish(self) -> None:
        """The forward is over."""
        self._settle()

    def _is_stream(self, value: Any) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and value.dim() == 2
            and value.shape[-1] == self._width
            and value.dtype.is_floating_point
        )


def _is_view_of(one: Any, other: Any) -> bool:
    if one is other:
        return True
    same = one.untyped_storage()._cdata == other.untyped_storage()._cdata
    return bool(same and one.shape == other.shape and one.storage_offset() == other.storage_offset())


def norms_of(model: Any, marks: Sequence[str]) -> list[Any]:
    """The modules that normalise: those with one of these attributes."""
    return [module for module in model.modules() if any(hasattr(module, name) for name in marks)]
