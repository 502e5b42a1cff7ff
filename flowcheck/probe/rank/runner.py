"""The target through the tree's own model runner: it resolves the configuration, builds and loads the class, reads the draft's
ids, tells the target what to capture, sets memory aside, and runs batches with its own attention.

Only weights are the probe's, put in once the runner has loaded the class, and what is watched.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from flowcheck.probe.protocol import Job, Phase, Replay
from flowcheck.probe.rank import batches, bridges, graphs, identify, record
from flowcheck.probe.rank.target import Target
from flowcheck.probe.rank.tree import Unbridged, call, filled, replaced

__all__ = ["RunnerTarget", "prepare"]

Ids = tuple[int, ...] | None


def prepare(job: Job) -> None:
    """Sets what a runner reads in the environment, for as many ranks as there are."""
    for name, each in job.names["runner"]["environment"].items():
        os.environ.setdefault(name, "|".join([each] * job.ranks))


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


@dataclass
class RunnerTarget(Target):
    """A target that the tree's own runner made.

    Attributes:
        runner: The runner; None before it is made.
        inside: What its graphs keep of their forwards; None where it records none.
        recorded_fused: How many all-reduces were fused while it recorded them.
        told: The calls of the target's setter so far, as the tree made them.
    """

    runner: Any = None
    inside: graphs.Inside | None = None
    recorded_fused: int = 0
    told: list[Ids] = field(default_factory=list)

    def start(self, arguments: Any, model_config: Any) -> None:
        """Makes the runner, as the tree's worker does.

        Raises:
            Unbridged: the tree has none, or has not made a configuration of its own for it.
        """
        me, job, table = self.me, self.me.job, self.tree.names["runner"]
        cls = self.tree.need(table["module"], table["cls"])
        if model_config is None:
            raise Unbridged(f"{table['cls']} needs the tree's own configuration: {me.bridges.get('config', '')}")
        values = {
            "arguments": arguments,
            "config": model_config,
            "rank": me.rank,
            "local_rank": bridges.local_rank(me.rank),
            "ranks": job.ranks,
            "port": job.port,
        }
        me.progress.begin("build", f"{cls.__name__}, {self.shape.layers} layers, {self.shape.width} wide")
        for module, name in table["dummies"]:
            if (old := self.tree.find(module, name)) is not None:
                replaced(self.tree.package, name, old, _nothing)
        load = getattr(cls, table["load"])
        watching = contextlib.ExitStack()
        setattr(cls, table["load"], self._loading(load, watching))
        try:
            self.runner = call(cls, filled(table["given"], values))
            for name in table["begin"]:  # steps that a release leaves to its worker
                if self.model is None and hasattr(self.runner, name):
                    getattr(self.runner, name)()
        finally:
            watching.close()
            setattr(cls, table["load"], load)
        self.recorded_fused = self._fused()
        if self.model is None:
            raise Unbridged(f"{table['cls']} was made and has loaded nothing")
        me.bridges["runner"] = f"{table['module']}.{table['cls']}"
        me.bridges["attention"] = type(self.runner_has("attention")).__name__

    def runner_has(self, what: str) -> Any:
        """An attribute of the runner, by what it is for."""
        name = self.tree.names["runner"][what]
        if (found := getattr(self.runner, name, None)) is None:
            raise Unbridged(f"{type(self.runner).__name__} has no {name}")
        return found

    def _loading(self, load: Any, watching: contextlib.ExitStack) -> Callable[..., Any]:
        """The runner's own loading, after which the weights are the probe's, and what it records is watched."""

        def loading(runner: Any, *args: Any, **kwargs: Any) -> Any:
            out = load(runner, *args, **kwargs)
            if self.model is None:
                self.model = getattr(runner, self.tree.names["runner"]["model"])
                self.me.cls = f"{type(self.model).__module__}.{type(self.model).__qualname__}"
                self.fill(finish=False)
                self._listen()
                if bridges.records(self.me.job):
                    self.inside = graphs.Inside(torch.cuda.is_current_stream_capturing)
                    watching.enter_context(self._watch(self.inside.entered, self.inside.left))
            return out

        return loading

    def _listen(self) -> None:
        """Notes what the tree tells the target."""
        name = self.tree.names["models"]["setter"]
        if (setter := getattr(self.model, name, None)) is None:
            return

        def told(*args: Any, **kwargs: Any) -> Any:
            given = inspect.signature(setter).bind(*args, **kwargs).arguments
            ids = next(iter(given.values()), None)
            self.told.append(tuple(ids) if ids is not None else None)
            return setter(*args, **kwargs)

        setattr(self.model, name, told)

    def tell(self, phase: Phase) -> tuple[Ids, ...]:
        """The tree has told the target itself."""
        return tuple(self.told)

    def batch(self, phase: Phase, states: Any = None) -> Any:
        """A batch with the runner's own attention and memory; with states, one of the draft, which has neither."""
        if states is not None:
            return super().batch(phase, states)
        table = self.tree.names["runner"]
        pool, first = self.runner_has("requests"), int(table["first_place"])
        made = batches.batch(
            self.tree,
            phase,
            self.shape.vocabulary,
            self.device,
            self.me.job.seed,
            self.runner_has("attention"),
            first_place=first,
            pools={name: getattr(self.runner, name, None) for name in self.tree.names["attention"]["pools"]},
        )
        for request in range(phase.requests):
            start = first + request * phase.tokens
            places = batches.places(phase.tokens, self.device, start)
            rows = getattr(pool, table["places"])
            rows[request, : phase.tokens] = places.to(rows.dtype)
        return made

    def forward(self, phase: Phase, entered: Any, left: Any, batch: Any = None) -> Any:
        """Runs a phase through the runner, without its graphs, watched as :class:`record.Watch` says."""
        batch = self.batch(phase) if batch is None else batch
        with self._eager(), self._watch(entered, left) as watch:
            out = self._answer(batch)
            watch.finish()
        return out

    def _watch(self, entered: Any, left: Any) -> record.Watch:
        names = self.tree.names["layer"]["stream"]
        norms = record.norms_of(self.model, self.tree.names["weights"]["norms"])
        return record.Watch(self.layers, norms, names, self.shape.width, entered, left)

    def _answer(self, batch: Any) -> Any:
        table = self.tree.names["runner"]
        out = getattr(self.runner, table["forward"])(batch)
        out = getattr(out, table["answer"], out)
        return out[0] if isinstance(out, tuple) else out

    @contextlib.contextmanager
    def _eager(self) -> Iterator[None]:
        """The runner has no graphs inside of the context."""
        table = self.tree.names["runner"]
        names = [name for name in table["graph_runners"] if self.inside is not None and hasattr(self.runner, name)]
        before = {name: getattr(self.runner, name) for name in names}
        for name in names:
            setattr(self.runner, name, getattr(self.runner, table["eager"], None))
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self.runner, name, value)

    def replayed(self, phase: Phase, states: Any, fused: int) -> tuple[Any, Replay, int]:
        """Lets the runner replay a graph of its own on the same tokens; see :meth:`Target.replayed`."""
        eager = states.detach().clone() if isinstance(states, torch.Tensor) else None
        shape = tuple(eager.shape) if eager is not None else ()
        if eager is None or self.inside is None:
            why = "the runner recorded no graphs" if self.inside is None else "the eager forward left no states"
            return states, Replay(False, why, shape=shape), fused
        first, _ = self._states(self._answer(self.batch(phase)))  # where the graph leaves its states
        self.inside.spoil()
        if isinstance(first, torch.Tensor):
            first.fill_(float("nan"))
        left, _ = self._states(self._answer(self.batch(phase)))
        if not isinstance(left, torch.Tensor):
            return eager, Replay(False, "the runner left no states", shape=shape), fused
        taken = self.inside.written(shape[0], left)
        if len(taken.streams) <= self.shape.layers or (left_out := taken.unwritten()):
            said = left_out if len(taken.streams) > self.shape.layers else "some boundaries"
            return eager, Replay(False, f"the runner replayed nothing: {said} not written", shape=shape), fused
        self.streams = taken.streams
        apart = identify.distance(left, eager) if left.shape == eager.shape else None
        return left, Replay(True, apart=apart, shape=shape), self.recorded_fused
