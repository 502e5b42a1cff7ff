"""The target in a rank: built, filled with weights, told its layers, run, and what it captured named."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist

from flowcheck.probe.protocol import Block, Failure, Job, Phase, PhaseResult, Replay
from flowcheck.probe.rank import attention, batches, bridges, fusing, graphs, identify, models, record, stubs, weights
from flowcheck.probe.rank.provenance import Provenance
from flowcheck.probe.rank.state import NoHook, Rank, failure_of
from flowcheck.probe.rank.tree import Tree, Unbridged

__all__ = ["Target"]

PATIENCE = 20.0
"""Seconds that a rank whose forward failed waits for the others to fail too."""


@dataclass
class Target:
    """The model of a rank.

    Attributes:
        me: The rank.
        tree: The scanned tree.
        shape: Of its configuration.
        device: Where its tensors are.
        model: None before it is built.
        layers: Its decoder layers.
        streams: What entered each of them in the last forward, and what left the last one.
        whole: How the parameters look on one rank.
        fusions: What counts fused all-reduces; None where none can be.
    """

    me: Rank
    tree: Tree
    shape: bridges.Shape
    device: Any
    model: Any = None
    layers: list[Any] = field(default_factory=list)
    streams: dict[int, record.Stream] = field(default_factory=dict)
    whole: weights.Undivided = field(default_factory=lambda: weights.Undivided({}, {}))
    fusions: fusing.Fusions | None = None

    def build(self, cls: Any, config: Any) -> None:
        """Builds the class, finds its layers and fills its parameters."""
        me = self.me
        me.progress.begin("build", f"{cls.__name__}, {self.shape.layers} layers, {self.shape.width} wide")
        self.model = models.build(self.tree, cls, config).eval()
        self.fill()

    def fill(self, *, finish: bool = True) -> None:
        """Finds the layers of the model and fills its parameters; and does what the tree does after loading, unless it has."""
        me = self.me
        me.parameters = sum(each.numel() for each in self.model.parameters())
        path, self.layers = record.decoder_layers(self.tree, self.model, self.shape.layers)
        me.bridges["layers"] = path
        me.progress.begin("weights")
        table = self.tree.names["weights"]
        if me.job.backend != "fake":
            self.fusions = fusing.Fusions(self.tree)
            self.whole = self._undivided(table)  # before the tree lays them out for its kernels
            notes = weights.load(self.model, self.whole, table, me.job.seed, me.rank, me.job.ranks)
            me.lacks_each("sharding by the tree's own loader", notes)
        if finish:
            me.lacks_each("what the tree does after loading", models.finish(self.tree, self.model))

    def _undivided(self, table: Any) -> weights.Undivided:
        job = self.me.job
        if job.role == "reference":
            return weights.undivided(self.model, table)
        kept = torch.load(job.reference_path(), map_location="cpu", weights_only=True)
        return weights.Undivided(kept["shapes"], kept["parts"])

    def batch(self, phase: Phase, states: Any = None) -> Any:
        """A batch of a phase, with the attention that computes it; with states, one of the draft."""
        shapes_only = self.me.job.backend == "fake"
        made = attention.backend(self.tree, [phase.tokens] * phase.requests, shapes_only=shapes_only)
        if how := attention.enter(self.tree, made):
            self.me.bridges["attention"] = how
        else:
            self.me.bridges["attention"] = "the batch"
        return batches.batch(self.tree, phase, self.shape.vocabulary, self.device, self.me.job.seed, made, states)

    def forward(self, phase: Phase, entered: Any, left: Any, batch: Any = None) -> Any:
        """Runs a phase through the model's own forward, watched as :class:`record.Watch` says; on a batch that is there
        already, or on one of its own."""
        batch = self.batch(phase) if batch is None else batch
        names = self.tree.names["layer"]["stream"]
        norms = record.norms_of(self.model, self.tree.names["weights"]["norms"])
        with record.Watch(self.layers, norms, names, self.shape.width, entered, left) as watch:
            out = self.model.forward(batch.input_ids, batch.positions, batch)
            watch.finish()
        return out

    def refer(self) -> None:
        """Keeps the boundaries of each phase, and how the weights look undivided."""
        me, job = self.me, self.me.job
        kept: dict[str, Any] = {"shapes": dict(self.whole.shapes), "parts": dict(self.whole.parts), "phases": {}}
        for phase in job.phases:
            me.progress.begin("forward", phase.name)
            self.streams = {}
            self.forward(phase, self._keep, self._keep_last)
            kept["phases"][phase.name] = self._reference()
        torch.save(kept, job.reference_path())

    def _keep(self, index: int, stream: record.Stream) -> None:
        self.streams[index] = tuple(each.detach().clone() for each in stream)

    def _keep_last(self, index: int, stream: record.Stream) -> None:
        self._keep(index + 1, stream)

    def _reference(self) -> dict[str, Any]:
        streams = self.streams
        if sorted(streams) != list(range(self.shape.layers + 1)) or not all(streams.values()):
            lacking = sorted(set(range(self.shape.layers + 1)) - {key for key, each in streams.items() if each})
            raise Unbridged(f"layers {lacking} were not entered with a stream that can be read")
        boundaries, outputs, residuals = [], [], []
        rows = identify.rows_to_name(streams[0][0].shape[0])
        for index in range(self.shape.layers + 1):
            first, *more = (_some(each, rows).float() for each in streams[index])
            residual = sum(more) if more else torch.zeros_like(first)
            boundaries.append(first + residual)
            outputs.append(first)
            residuals.append(residual)
        return {
            "rows": rows,
            "boundaries": torch.stack(boundaries).cpu(),
            "outputs": torch.stack(outputs).cpu(),
            "residuals": torch.stack(residuals).cpu(),
        }

    def capture(self) -> list[tuple[Phase, Any]]:
        """Runs the phases as the job says; gives the states of those that had some."""
        me, job = self.me, self.me.job
        captured = []
        for phase in job.phases:
            error: Failure | None = None
            states: Any = None
            replay: Replay | None = None
            provenance = Provenance(self.shape.layers)
            self.streams = {}
            entered, left = (
                (provenance.entered, provenance.left) if job.backend == "fake" else (self._keep, self._keep_last)
            )
            try:
                me.progress.begin("setter", phase.name)
                told = self.tell(phase)
                me.progress.begin("forward", phase.name)
                before = self._fused()
                with provenance if job.backend == "fake" else contextlib.nullcontext():
                    out = self.forward(phase, entered, left)
                states, kept = self._states(out)
                fused = self._fused() - before
                if phase.graph:
                    states, replay, fused = self.replayed(phase, states, fused)
            except Exception as raised:
                if stubs.missing_root(raised, job.package) and job.role == "learn":
                    raise
                error, kept = failure_of(raised, me), None
            me.progress.begin("identify", phase.name)
            if error is not None:
                me.phases.append(PhaseResult(phase.name, phase.calls, _rows(phase), self.shape.width, error=error))
            _agreed(job, me.rank, phase.name, error is None)
            seen = self._seen(phase, states, kept, provenance)
            if error is None:
                me.phases.append(replace(seen, told=told, replay=replay, fused=fused))
            if states is not None:
                captured.append((phase, states))
        return captured

    def _fused(self) -> int:
        return self.fusions.count if self.fusions is not None else 0

    def replayed(self, phase: Phase, states: Any, fused: int) -> tuple[Any, Replay, int]:
        """Records the forward that has just been run, and replays it on the same tokens.

        Returns:
            The states that the replay left, what came of it, and how many all-reduces are fused in the graph. Where none was
            replayed, the states are those of the eager forward.
        """
        me = self.me
        me.progress.begin("forward", f"{phase.name}, recorded")
        eager = states.detach().clone() if isinstance(states, torch.Tensor) else None
        taken, replay, why, within = None, None, "the eager forward left no states", fused
        if eager is not None:
            taken, why = graphs.Taken.like(self.streams, eager), ""
            try:
                replay, within = self._recorded(phase, taken)
            except graphs.NotRecorded as error:
                why = str(error)
        shape = tuple(eager.shape) if eager is not None else ()
        all_have = _agreed(me.job, me.rank, f"{phase.name}, recorded", replay is not None)
        if replay is None or taken is None or not all_have:
            return states, Replay(False, why or "another rank has recorded none", shape=shape), fused
        taken.spoil()
        replay()
        if left_out := taken.unwritten():
            return eager, Replay(False, f"the replay wrote nothing to {left_out}", shape=shape), fused
        self.streams = taken.streams
        return taken.states, Replay(True, apart=identify.distance(taken.states, eager), shape=shape), within

    def _recorded(self, phase: Phase, taken: graphs.Taken) -> tuple[Any, int]:
        """What replays a forward that copies into these buffers, and how many all-reduces are fused in it."""
        batch = self.batch(phase)
        before = 0

        def run() -> None:
            nonlocal before
            before = self._fused()
            taken.gave(self._states(self.forward(phase, taken.entered, taken.left, batch))[0])

        replay = graphs.recorded(self.tree, run)
        return replay, self._fused() - before

    def tell(self, phase: Phase) -> tuple[tuple[int, ...] | None, ...]:
        """Tells the target what the phase says; gives the calls that were made."""
        name = self.tree.names["models"]["setter"]
        for ids in phase.calls:
            setter = getattr(self.model, name, None)
            if setter is None:
                raise NoHook(f"{type(self.model).__name__} has no {name}")
            if ids is None:
                setter()
            else:
                setter(list(ids))
        return phase.calls

    def _states(self, out: Any) -> tuple[Any, str]:
        name = self.tree.names["batch"]["states"]
        states = getattr(out, name, None)
        return states, f"{type(out).__name__}.{name}"

    def _seen(self, phase: Phase, states: Any, kept: str | None, provenance: Provenance) -> PhaseResult:
        job = self.me.job
        rows, width = _rows(phase), self.shape.width
        are_states = isinstance(states, torch.Tensor) and states.dim() == 2
        total, spread = _together(job, states.contiguous() if are_states else None)
        streams = self._streams_together()
        if not are_states:
            return PhaseResult(phase.name, phase.calls, rows, width, kept=kept)
        blocks: tuple[Block, ...]
        if job.backend == "fake":
            digest, spread, blocks = None, None, provenance.blocks(states, width)
        else:
            digest, blocks = _digest(states), self._identified(phase, states, total, streams)
        return PhaseResult(
            phase=phase.name,
            told=phase.calls,
            expected_rows=rows,
            target_width=width,
            rows=states.shape[0],
            width=states.shape[1],
            dtype=str(states.dtype),
            blocks=blocks,
            digest=digest,
            spread=spread,
            kept=kept,
        )

    def _streams_together(self) -> tuple[Any, Any]:
        """What entered the layers here, and its sums over the ranks, where all have that in one shape. Every rank calls it."""
        sums = [
            sum(_some(each, identify.rows_to_name(each.shape[0])).float() for each in stream)
            for _, stream in sorted(self.streams.items())
            if stream
        ]
        same = len(sums) == self.shape.layers + 1 and len({each.shape for each in sums}) == 1
        mine = torch.stack(sums).cpu() if same else None
        total, spread = _together(self.me.job, None if mine is None else mine.to(self.device))
        if mine is None or spread is None:
            return None, None
        return mine, mine if total is None else total.cpu()

    def _identified(self, phase: Phase, states: Any, total: Any, streams: tuple[Any, Any]) -> tuple[Block, ...]:
        me, job = self.me, self.me.job
        kept = torch.load(job.reference_path(), map_location="cpu", weights_only=True)["phases"].get(phase.name)
        if kept is None:
            me.lacks(f"which layers {phase.name} captured", "the reference has no such phase")
            return ()
        reference = identify.Reference(kept["boundaries"], kept["outputs"], kept["residuals"])
        rows = kept["rows"]
        if rows is not None:
            me.lacks(
                f"every row of {phase.name}",
                f"{len(rows)} of {_rows(phase)} rows are named, from the first to the last",
            )
            if states.shape[0] != _rows(phase):
                return ()  # the rows of another batch say nothing
        mine = identify.split(_some(states, rows).cpu(), self.shape.width, job.ranks)
        sums: list[Any] = [None] * len(mine)
        if total is not None:
            sums = identify.split(_some(total, rows).cpu(), self.shape.width, job.ranks)
        found = [
            identify.identify(index, block, whole, reference, job.limits, me.rank, job.ranks)
            for index, (block, whole) in enumerate(zip(mine, sums, strict=True))
        ]
        here, there = streams
        if here is not None and here.shape == reference.boundaries.shape:
            if job.backend == "nccl":
                found = identify.coarsely(found, mine, sums, here, there, reference, job.limits, me.rank, job.ranks)
            found = identify.against_own(found, mine, here, there, reference, job.limits, me.rank, job.ranks)
        return tuple(map(_doubted, found))


def _doubted(block: Block) -> Block:
    """Numbers that are wrong after a kernel that is not here was launched say nothing about the tree."""
    if block.identity in ("boundary", "inconclusive") or not stubs.LAUNCHES:
        return block
    kernels = ", ".join(sorted(stubs.LAUNCHES)[:3])
    said = f"{block.explanation}; but kernels that are not here were launched, and made nothing: {kernels}"
    return replace(block, identity="inconclusive", boundary=None, explanation=said)


def _some(tensor: Any, rows: list[int] | None) -> Any:
    return tensor if rows is None else tensor[torch.tensor(rows, device=tensor.device)]


def _rows(phase: Phase) -> int:
    return phase.requests * phase.tokens


def _agreed(job: Job, rank: int, name: str, good: bool) -> bool:
    """Waits until all ranks have come out of a forward: one that failed alone would leave the others in a collective. Gives
    whether it went well on all of them.

    Raises:
        RuntimeError: the others did not come.
    """
    if job.backend == "fake" or job.ranks == 1:
        return good
    store = dist.distributed_c10d._get_default_store()
    keys = [f"flowcheck/{name}/{each}" for each in range(job.ranks)]
    store.set(keys[rank], "good" if good else "bad")
    patience = job.limits.collective_seconds if good else PATIENCE
    try:
        store.wait(keys, datetime.timedelta(seconds=patience))
    except Exception:  # noqa: BLE001 - of another class by release of PyTorch
        raise RuntimeError(f"not all ranks came out of {name} within {patience:.0f} s") from None
    return all(store.get(key) == b"good" for key in keys)


def _together(job: Job, states: Any) -> tuple[Any, float | None]:
    """The sum over the ranks and the largest difference to rank 0, where all have states of one shape. Every rank calls it."""
    if job.backend == "fake" or job.ranks == 1:
        return None, (None if states is None else 0.0)
    shapes: list[Any] = [None] * job.ranks
    dist.all_gather_object(shapes, None if states is None else tuple(states.shape))
    if states is None or len(set(shapes)) != 1:
        return None, None
    total = states.double()
    first = states.double()
    dist.all_reduce(total)
    dist.broadcast(first, 0)
    return total, identify.distance(states.double(), first)


def _digest(states: Any) -> str:
    data = states.detach().cpu().contiguous()
    head = f"{tuple(data.shape)} {data.dtype}".encode()
    return hashlib.sha256(head + data.view(torch.uint8).numpy().tobytes()).hexdigest()
