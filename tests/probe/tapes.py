"""Graphs without a GPU: operations are noted while a function runs, and run again with the same tensors. As with a GPU's graph
nothing of Python runs then, and every result goes to where it was.

``python -m tests.probe.tapes JOB.json RANKS`` is a rank whose graphs are of this kind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flowcheck.probe.rank import graphs
from flowcheck.probe.rank.__main__ import main


class Tape(TorchDispatchMode):  # type: ignore[misc]
    """What was run inside of the context, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.steps.append((func, args, kwargs or {}, out))
        return out


def tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def on_tape(run: Callable[[], None], stream: Any = None) -> Callable[[], None]:
    """Stands for `graphs.on_gpu`."""
    run()
    tape = Tape()
    with tape:
        run()

    def replay() -> None:
        for func, args, kwargs, out in tape.steps:
            again = func(*args, **kwargs)
            for each in again if isinstance(again, tuple) else ():
                if hasattr(each, "wait"):
                    each.wait()
            for old, new in zip(tensors(out), tensors(again), strict=True):
                if old.untyped_storage()._cdata != new.untyped_storage()._cdata:
                    old.copy_(new)

    return replay


if __name__ == "__main__":
    graphs.on_gpu = on_tape  # type: ignore[assignment]
    sys.exit(main(sys.argv[1:]))
