"""Whether captured states enter the draft: its real class is built and given them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from flowcheck.probe.protocol import DraftInput

__all__ = ["enter", "takers"]


def enter(phase: str, draft: Any, states: Any, forward: Any) -> DraftInput:
    """Gives states to a draft, through its own forward if that can run here.

    Args:
        phase: Whose states they are.
        draft: The model.
        states: [rows, width].
        forward: Called without arguments, it runs the draft's forward on a batch that carries these states.
    """
    name = type(draft).__name__
    with takers(draft, states) as met:
        try:
            forward()
            error = None
        except Exception as raised:  # noqa: BLE001 - whatever the tree raises
            error = f"{type(raised).__name__}: {' '.join(str(raised).split())[:300]}"
    if met:
        path, layer, accepted = met[0]
        return DraftInput(
            phase, name, path, type(layer).__name__, _in_features(layer), accepted, True, None if accepted else error
        )
    return _directly(phase, draft, states, error)


@contextlib.contextmanager
def takers(draft: Any, states: Any) -> Iterator[list[tuple[str, Any, bool]]]:
    """Notes which linear layers are given exactly these states, in order: path, layer, and whether it gave an answer."""
    met: list[tuple[str, Any, bool]] = []
    hooks = []

    def before(path: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...]) -> None:
            if args and _same(args[0], states):
                met.append((path, module, False))

        return hook

    def after(path: str) -> Any:
        def hook(module: Any, args: tuple[Any, ...], output: Any) -> None:
            for place, (seen, layer, _) in enumerate(met):
                if seen == path:
                    met[place] = (seen, layer, True)

        return hook

    for path, module in draft.named_modules():
        if _in_features(module) is not None:
            hooks += [module.register_forward_pre_hook(before(path)), module.register_forward_hook(after(path))]
    try:
        yield met
    finally:
        for hook in hooks:
            hook.remove()


def _same(given: Any, states: Any) -> bool:
    if not isinstance(given, torch.Tensor) or given.shape != states.shape:
        return False
    if given is states:
        return True
    try:
        return bool(given.data_ptr() == states.data_ptr())
    except RuntimeError:  # a tensor without memory
        return bool(given.dtype == states.dtype)


def _in_features(module: Any) -> int | None:
    weight = getattr(module, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.dim() != 2 or isinstance(module, torch.nn.Embedding):
        return None
    if hasattr(module, "org_vocab_size"):
        return None
    return int(weight.shape[-1])


def _directly(phase: str, draft: Any, states: Any, error: str | None) -> DraftInput:
    """The draft's forward did not come to a layer that takes the states: the first one wider than the draft is asked."""
    name = type(draft).__name__
    for path, module in draft.named_modules():
        if path.rpartition(".")[2] != "fc" or _in_features(module) is None:
            continue
        try:
            module(states)
        except Exception as raised:  # noqa: BLE001
            said = f"{type(raised).__name__}: {' '.join(str(raised).split())[:300]}"
            return DraftInput(phase, name, path, type(module).__name__, _in_features(module), False, False, said)
        why = f"the draft's forward did not run here: {error}" if error else None
        return DraftInput(phase, name, path, type(module).__name__, _in_features(module), True, False, why)
    return DraftInput(phase, name, error=error or "no layer of the draft was given the states")
