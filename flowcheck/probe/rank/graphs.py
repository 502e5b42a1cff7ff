"""A forward recorded as a graph and replayed, with what it leaves kept by copies that are part of the graph.

Nothing of Python runs in a replay, hooks included: what enters each layer, and the states in the end, are copied into buffers
that are made before the recording. They are spoilt before the replay, so that what is in them afterwards was put there by it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from flowcheck.probe.rank.record import Stream
from flowcheck.probe.rank.tree import Tree

__all__ = ["Inside", "NotRecorded", "Taken", "on_gpu", "recorded"]

WARM_UPS = 2
"""Forwards before the recording, as the tree's own runner makes them: kernels are built and memory is set aside in them."""

Run = Callable[[], None]
Recorder = Callable[[Run, Any], Run]
"""Records what a function does (on a stream, where one is given), and gives what replays it and waits for its end."""


class NotRecorded(Exception):
    """There is no graph to replay."""


@dataclass
class Taken:
    """Buffers for what one forward leaves.

    Attributes:
        streams: For what entered each layer and what left the last one, by boundary.
        states: For the captured states, [rows, width].
    """

    streams: dict[int, Stream]
    states: Any

    @classmethod
    def like(cls, streams: Mapping[int, Stream], states: Any) -> Taken:
        """Buffers of the shapes that an eager forward of the same batch left."""
        return cls({k: tuple(map(torch.empty_like, each)) for k, each in streams.items()}, torch.empty_like(states))

    def entered(self, index: int, stream: Stream) -> None:
        """Copies what enters a layer."""
        self._copy(f"what enters layer {index}", self.streams.get(index, ()), stream)

    def left(self, index: int, stream: Stream) -> None:
        """Copies what leaves the last layer."""
        self._copy("what leaves the last layer", self.streams.get(index + 1, ()), stream)

    def gave(self, states: Any) -> None:
        """Copies the captured states."""
        self._copy("what is captured", (self.states,), (states,))

    def _copy(self, what: str, buffers: Stream, stream: Stream) -> None:
        shapes = [tuple(each.shape) if isinstance(each, torch.Tensor) else None for each in stream]
        if shapes != [tuple(each.shape) for each in buffers]:
            raise NotRecorded(f"{what} has another shape than in the eager forward")
        for buffer, each in zip(buffers, stream, strict=True):
            buffer.copy_(each)

    def spoil(self) -> None:
        """Makes everything in the buffers no number."""
        for _, buffer in self._all():
            buffer.fill_(float("nan"))

    def unwritten(self) -> str:
        """Which buffer has a row that nothing was written to since it was spoilt, "" for none."""
        return next((name for name, each in self._all() if bool(each.isnan().all(dim=-1).any())), "")

    def _all(self) -> Iterator[tuple[str, Any]]:
        for k, stream in sorted(self.streams.items()):
            yield from ((f"boundary {k}", each) for each in stream)
        yield "the captured states", self.states


class Inside:
    """Buffers for what enters the layers in graphs that somebody else records, several of them and of several sizes.

    Forwards before a recording make the buffers, for as many rows as they have: the largest batch comes first. Every graph copies
    into the first rows of the same ones.

    Args:
        recording: Whether what runs now is being recorded.
    """

    def __init__(self, recording: Callable[[], bool]) -> None:
        self._recording = recording
        self._buffers: dict[int, Stream] = {}
        self._outgrown: list[Stream] = []  # graphs may go on writing there

    def entered(self, index: int, stream: Stream) -> None:
        """What enters a layer."""
        held = self._buffers.get(index, ())
        fits = len(held) == len(stream) and all(
            len(buffer) >= len(each) and buffer.shape[1:] == each.shape[1:]
            for buffer, each in zip(held, stream, strict=True)
        )
        if self._recording():
            for buffer, each in zip(held, stream, strict=True) if fits else ():
                buffer[: len(each)].copy_(each)
        elif not fits:
            self._outgrown.append(held)
            self._buffers[index] = tuple(map(torch.empty_like, stream))

    def left(self, index: int, stream: Stream) -> None:
        """What leaves the last layer."""
        self.entered(index + 1, stream)

    def spoil(self) -> None:
        """Makes everything in the buffers no number."""
        for stream in self._buffers.values():
            for buffer in stream:
                buffer.fill_(float("nan"))

    def written(self, rows: int, states: Any) -> Taken:
        """What is in the first rows since, with the states that came with it."""
        return Taken({k: tuple(each[:rows] for each in stream) for k, stream in self._buffers.items()}, states)


def recorded(tree: Tree, run: Run, recorder: Recorder | None = None) -> Run:
    """A graph of what a function does, recorded as the tree's own runner records: its modules know that one is being recorded,
    and its groups make their collectives ready for it.

    Args:
        tree: The scanned tree.
        run: One forward, with its copies.
        recorder: :func:`on_gpu` by default.

    Returns:
        What replays it.

    Raises:
        NotRecorded: it cannot be recorded, with the reason.
    """
    failed: Exception | None = None
    replay: Run | None = None
    with _while_recording(tree) as stream:
        try:  # inside: the tree's managers may not put back what they set if an exception passes them
            replay = (recorder or on_gpu)(run, stream)
        except Exception as error:  # noqa: BLE001 - whatever cannot be recorded
            failed = error
    if replay is None:
        said = " ".join(str(failed).split())[:300]
        raise NotRecorded(said if isinstance(failed, NotRecorded) else f"{type(failed).__name__}: {said}") from failed
    return replay


@contextlib.contextmanager
def _while_recording(tree: Tree) -> Iterator[Any]:
    """What the tree does around a recording; gives the stream that its groups want, or None."""
    table = tree.names["graphs"]
    with contextlib.ExitStack() as stack:
        stream = None
        for module, name in table["announced"]:
            if (manager := tree.find(module, name)) is not None:
                stack.enter_context(manager())
                break
        if (groups := tree.find(*table["groups"])) is not None:
            stream = getattr(stack.enter_context(groups()), table["stream"], None)
        yield stream


def on_gpu(run: Run, stream: Any = None) -> Run:
    """Records on the current GPU."""
    graph = torch.cuda.CUDAGraph()
    beside = stream if stream is not None else torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM_UPS):
            run()
    torch.cuda.synchronize()
    # Threads of the process group ask the GPU for events meanwhile: that must not break the recording.
    with torch.cuda.graph(graph, stream=beside, capture_error_mode="thread_local"):
        run()
    torch.cuda.synchronize()

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return replay
