"""A rank from its first import to its result, stage by stage."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import resource
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from flowcheck.probe.protocol import (
    Block,
    Coverage,
    DraftInput,
    Failure,
    Job,
    Phase,
    PhaseResult,
    RankResult,
)
from flowcheck.probe.rank import attention, batches, bridges, device, draft, identify, models, record, stubs, weights
from flowcheck.probe.rank.fake import simulated
from flowcheck.probe.rank.output import Progress
from flowcheck.probe.rank.provenance import Provenance
from flowcheck.probe.rank.tree import Tree, Unbridged

__all__ = ["Rank", "failure_of", "run"]


PATIENCE = 20.0
"""Seconds that a rank whose forward failed waits for the others to fail too."""


class NoHook(Exception):
    """The target cannot be told which layers to capture: what the tree would raise."""


@dataclass
class Rank:
    """What a rank has come to; its result is read from it whenever it ends."""

    job: Job
    rank: int
    progress: Progress
    stubs: tuple[str, ...] = ()
    bridges: dict[str, str] = field(default_factory=dict)
    not_covered: list[Coverage] = field(default_factory=list)
    phases: list[PhaseResult] = field(default_factory=list)
    drafts: list[DraftInput] = field(default_factory=list)
    cls: str | None = None
    layers: int | None = None
    parameters: int | None = None
    error: Failure | None = None

    def result(self) -> RankResult:
        """What there is to say now."""
        self.progress.seconds.setdefault(self.progress.stage, 0.0)
        return RankResult(
            rank=self.rank,
            stage=self.progress.stage,
            cls=self.cls,
            layers=self.layers,
            parameters=self.parameters,
            phases=tuple(self.phases),
            draft=tuple(self.drafts),
            launches=tuple(sorted(stubs.LAUNCHES)),
            stubs=self.stubs,
            bridges=self.bridges,
            not_covered=tuple(self.not_covered),
            seconds=self.progress.seconds,
            peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            error=self.error,
        )

    def lacks(self, what: str, why: str) -> None:
        """Something is not shown by this run."""
        self.not_covered.append(Coverage(what, why))


@dataclass(frozen=True)
class Imported:
    """The tree in this process; forks share it.

    Attributes:
        tree: The scanned tree.
        cls: The target's class.
        finder: Which stand-ins were asked for.
    """

    tree: Tree
    cls: Any
    finder: stubs.StubFinder


def imported(job: Job, progress: Progress, roots: Sequence[str]) -> Imported:
    """Imports what a rank of this job needs of the tree.

    Args:
        job: See there.
        progress: Where stages are told.
        roots: Packages to stub where they are missing.
    """
    progress.begin("imports", job.architecture)
    sys.path.insert(0, job.tree)
    finder = device.prepare(job, job.names, roots)
    tree = Tree(job.package, job.names)
    cls = models.class_named(tree, job.architecture)
    if job.draft_architecture is not None and job.role != "reference":
        models.class_named(tree, job.draft_architecture)
    for table in ("arguments", "parallel", "config", "batch"):
        tree.module(job.names[table]["module"])
    if job.backend != "nccl":
        bridges.positions_of_a_gpu(tree)
    return Imported(tree, cls, finder)


def run(job: Job, rank: int, progress: Progress, importing: Callable[[], Imported]) -> RankResult:
    """Runs one rank, or the reference, to its end.

    Args:
        job: See there.
        rank: Which one.
        progress: Where stages are told.
        importing: Gives the tree, or raises.

    Returns:
        What it saw; an error in it is what the run ended with.
    """
    me = Rank(job, rank, progress)
    try:
        _run(me, importing())
    except Exception as error:  # noqa: BLE001 - whatever the tree raises is the result
        me.error = failure_of(error, me)
    return me.result()


def _run(me: Rank, given: Imported) -> None:
    job, tree, cls, finder = me.job, given.tree, given.cls, given.finder
    me.cls = f"{cls.__module__}.{cls.__qualname__}"
    where = device.place(job, me.rank)
    me.progress.begin("arguments")
    arguments, me.bridges["arguments"], me.bridges["publish"] = bridges.publish(tree, job, me.rank)
    me.progress.begin("config")
    own, config, me.bridges["config"] = bridges.config_of(tree, job, arguments, job.target)
    shape = bridges.shape_of(tree, config, own)
    me.layers = shape.layers
    dtype = getattr(torch, bridges.dtype_name(job))
    me.progress.begin("ranks")
    _port_is_free(me)
    model_config = own if own is not None else bridges.stand_in_config(tree, config, shape, dtype)
    me.bridges["groups"] = ", ".join(bridges.join(tree, job, me.rank, arguments, model_config))
    faked = job.backend == "fake"
    context = simulated(tree) if faked else contextlib.nullcontext()
    with context, where, models.default_dtype(dtype), torch.no_grad():
        target = _Target(me, tree, shape, where)
        target.build(cls, config)
        me.stubs = tuple(sorted(finder.found))
        if job.role == "reference":
            target.refer()
        else:
            captured = target.capture()
            if job.draft is not None and job.draft_architecture is not None:
                me.progress.begin("draft", job.draft_architecture)
                _enter_draft(me, tree, arguments, where, captured)
    me.stubs = tuple(sorted(finder.found))
    _say_what_is_not_covered(me)
    me.progress.begin("done")


@dataclass
class _Target:
    me: Rank
    tree: Tree
    shape: bridges.Shape
    device: Any
    model: Any = None
    layers: list[Any] = field(default_factory=list)
    streams: dict[int, record.Stream] = field(default_factory=dict)

    def build(self, cls: Any, config: Any) -> None:
        me = self.me
        me.progress.begin("build", f"{cls.__name__}, {self.shape.layers} layers, {self.shape.width} wide")
        self.model = models.build(self.tree, cls, config).eval()
        me.parameters = sum(each.numel() for each in self.model.parameters())
        path, self.layers = record.decoder_layers(self.tree, self.model, self.shape.layers)
        me.bridges["layers"] = path
        me.progress.begin("weights")
        table = self.tree.names["weights"]
        if me.job.backend != "fake":
            whole = self._undivided(table)
            for note in weights.load(self.model, whole, table, me.job.seed, me.rank, me.job.ranks):
                me.lacks("sharding by the tree's own loader", note)
        for note in models.finish(self.tree, self.model):
            me.lacks("what the tree does after loading", note)

    def _undivided(self, table: Any) -> weights.Undivided:
        job = self.me.job
        if job.role == "reference":
            return weights.undivided(self.model, table)
        kept = torch.load(job.reference_path(), weights_only=True)
        return weights.Undivided(kept["shapes"], kept["parts"])

    def batch(self, phase: Phase, states: Any = None) -> Any:
        shapes_only = self.me.job.backend == "fake"
        made = attention.backend(self.tree, [phase.tokens] * phase.requests, shapes_only=shapes_only)
        if how := attention.enter(self.tree, made):
            self.me.bridges["attention"] = how
        else:
            self.me.bridges["attention"] = "the batch"
        return batches.batch(self.tree, phase, self.shape.vocabulary, self.device, self.me.job.seed, made, states)

    def forward(self, phase: Phase, entered: Any, left: Any) -> Any:
        batch = self.batch(phase)
        names = self.tree.names["layer"]["stream"]
        norms = record.norms_of(self.model, self.tree.names["weights"]["norms"])
        with record.Watch(self.layers, norms, names, self.shape.width, entered, left) as watch:
            out = self.model.forward(batch.input_ids, batch.positions, batch)
            watch.finish()
        return out

    def refer(self) -> None:
        """Keeps the boundaries of each phase, and how the weights look undivided."""
        me, job = self.me, self.me.job
        whole = weights.undivided(self.model, self.tree.names["weights"])
        kept: dict[str, Any] = {"shapes": dict(whole.shapes), "parts": dict(whole.parts), "phases": {}}
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
        for index in range(self.shape.layers + 1):
            first, *more = (each.float() for each in streams[index])
            residual = sum(more) if more else torch.zeros_like(first)
            boundaries.append(first + residual)
            outputs.append(first)
            residuals.append(residual)
        return {
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
            provenance = Provenance(self.shape.layers)
            self.streams = {}
            entered, left = (
                (provenance.entered, provenance.left) if job.backend == "fake" else (self._keep, self._keep_last)
            )
            try:
                me.progress.begin("setter", phase.name)
                self._tell(phase)
                me.progress.begin("forward", phase.name)
                with provenance if job.backend == "fake" else contextlib.nullcontext():
                    out = self.forward(phase, entered, left)
                states, kept = self._states(out)
            except Exception as raised:
                if stubs.missing_root(raised, job.package) and job.role == "learn":
                    raise
                error, kept = failure_of(raised, me), None
            me.progress.begin("identify", phase.name)
            if error is not None:
                me.phases.append(PhaseResult(phase.name, phase.calls, _rows(phase), self.shape.width, error=error))
            _gather(job, me.rank, phase, failed=error is not None)
            seen = self._seen(phase, states, kept, provenance)
            if error is None:
                me.phases.append(seen)
            if states is not None:
                captured.append((phase, states))
        return captured

    def _tell(self, phase: Phase) -> None:
        name = self.tree.names["models"]["setter"]
        for ids in phase.calls:
            setter = getattr(self.model, name, None)
            if setter is None:
                raise NoHook(f"{type(self.model).__name__} has no {name}")
            if ids is None:
                setter()
            else:
                setter(list(ids))

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
        sums = [sum(each.float() for each in stream) for _, stream in sorted(self.streams.items()) if stream]
        same = len(sums) == self.shape.layers + 1 and len({each.shape for each in sums}) == 1
        mine = torch.stack(sums).cpu() if same else None
        total, spread = _together(self.me.job, None if mine is None else mine.to(self.device))
        if mine is None or spread is None:
            return None, None
        return mine, mine if total is None else total.cpu()

    def _identified(self, phase: Phase, states: Any, total: Any, streams: tuple[Any, Any]) -> tuple[Block, ...]:
        me, job = self.me, self.me.job
        kept = torch.load(job.reference_path(), weights_only=True)["phases"].get(phase.name)
        if kept is None:
            me.lacks(f"which layers {phase.name} captured", "the reference has no such phase")
            return ()
        reference = identify.Reference(kept["boundaries"], kept["outputs"], kept["residuals"])
        mine = identify.split(states.cpu(), self.shape.width, job.ranks)
        sums = identify.split(total.cpu(), self.shape.width, job.ranks) if total is not None else [None] * len(mine)
        found = [
            identify.identify(index, block, whole, reference, job.limits, me.rank, job.ranks)
            for index, (block, whole) in enumerate(zip(mine, sums, strict=True))
        ]
        here, there = streams
        if here is not None and here.shape == reference.boundaries.shape:
            found = identify.against_own(found, mine, here, there, reference, job.limits, me.rank, job.ranks)
        return tuple(map(_doubted, found))


def _doubted(block: Block) -> Block:
    """Numbers that are wrong after a kernel that is not here was launched say nothing about the tree."""
    if block.identity in ("boundary", "inconclusive") or not stubs.LAUNCHES:
        return block
    kernels = ", ".join(sorted(stubs.LAUNCHES)[:3])
    said = f"{block.explanation}; but kernels that are not here were launched, and made nothing: {kernels}"
    return replace(block, identity="inconclusive", boundary=None, explanation=said)


def _rows(phase: Phase) -> int:
    return phase.requests * phase.tokens


def _gather(job: Job, rank: int, phase: Phase, *, failed: bool) -> None:
    """Waits until all ranks have come out of a forward: one that failed alone would leave the others in a collective.

    Raises:
        RuntimeError: the others did not come.
    """
    if job.backend == "fake" or job.ranks == 1:
        return
    store = dist.distributed_c10d._get_default_store()
    keys = [f"flowcheck/{phase.name}/{each}" for each in range(job.ranks)]
    store.set(keys[rank], "here")
    patience = PATIENCE if failed else job.limits.collective_seconds
    try:
        store.wait(keys, datetime.timedelta(seconds=patience))
    except Exception:  # noqa: BLE001 - of another class by release of PyTorch
        raise RuntimeError(f"not all ranks came out of {phase.name} within {patience:.0f} s") from None


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


def _enter_draft(me: Rank, tree: Tree, arguments: Any, where: Any, captured: list[tuple[Phase, Any]]) -> None:
    job = me.job
    folder = str(job.draft)
    cls = models.class_named(tree, str(job.draft_architecture))
    own, config, me.bridges["draft config"] = bridges.config_of(tree, job, arguments, folder, draft=True)
    model = models.build(tree, cls, config).eval()
    shape = bridges.shape_of(tree, config, own)
    if job.backend != "fake":
        for parameter in model.parameters():
            if parameter.dtype.is_floating_point and parameter.dim() > 1:
                parameter.data.normal_(0, parameter.shape[-1] ** -0.5)
    target = _Target(me, tree, shape, where)
    for phase, states in captured:

        def forward(phase: Phase = phase, states: Any = states) -> None:
            batch = target.batch(phase, states)
            model.forward(batch.input_ids, batch.positions, batch)

        me.drafts.append(draft.enter(phase.name, model, states, forward))


def _port_is_free(me: Rank) -> None:
    job = me.job
    elsewhere = "TORCHELASTIC_RUN_ID" in os.environ or job.address not in ("127.0.0.1", "localhost")
    if me.rank or job.backend == "fake" or elsewhere:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((job.address, job.port))
        except OSError as error:
            raise OSError(f"port {job.port} of {job.address} cannot be taken: {error.strerror}") from None


def _say_what_is_not_covered(me: Rank) -> None:
    me.lacks("recorded graphs", "forwards are eager ones")
    me.lacks("attention", "keys and values are mixed by the probe's own backend")
    me.lacks(
        "ids of the draft", "the target is told what the job says, not what the tree reads in the draft's configuration"
    )
    me.lacks("choice of the mode", "the batches are made by the probe and ask for all rows")
    if me.job.backend == "nccl":
        return
    me.lacks("branches for CUDA", "the tree runs as on a machine without a GPU")
    me.lacks("fused all-reduce", "it needs kernels of a GPU")
    if me.job.backend == "fake":
        me.lacks("what ranks say to each other", "simulated ranks communicate with nobody: each is alone")


def failure_of(error: BaseException, me: Rank) -> Failure:
    """An exception as part of a result."""
    frames = traceback.extract_tb(error.__traceback__)
    marks = [f"{_short(each.filename, me.job)}:{each.lineno} {each.name}" for each in frames]
    inside = [mark for each, mark in zip(frames, marks, strict=True) if each.filename.startswith(me.job.tree)]
    about: Any = "tree" if inside else "probe"
    if isinstance(error, (NoHook, Unbridged)):
        about = "tree" if isinstance(error, NoHook) else "probe"
    if isinstance(error, (MemoryError, OSError)) or me.progress.stage == "ranks":
        about = "machine"
    return Failure(
        stage=me.progress.stage,
        kind=type(error).__name__,
        message=" ".join(str(error).split())[:600],
        where=tuple((inside or marks)[-6:]),
        missing=stubs.missing_root(error, me.job.package),
        about=about,
    )


def _short(filename: str, job: Job) -> str:
    for root in (job.tree, str(Path(__file__).parents[3])):
        if filename.startswith(root):
            return str(Path(filename).relative_to(root))
    return Path(filename).name


def kept_stubs(job: Job) -> list[str]:
    """What an earlier run learned for this tree."""
    path = job.stubs_path()
    return list(json.loads(path.read_text("utf-8"))) if path.is_file() else []
