"""A rank from its first import to its result, stage by stage."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from flowcheck.probe.protocol import Job, Phase, RankResult
from flowcheck.probe.rank import bridges, device, draft, ids, models, runner, stubs
from flowcheck.probe.rank.fake import simulated
from flowcheck.probe.rank.output import Progress
from flowcheck.probe.rank.state import Rank, failure_of
from flowcheck.probe.rank.target import Target
from flowcheck.probe.rank.tree import Tree

__all__ = ["Imported", "imported", "kept_stubs", "run"]


@dataclass(frozen=True)
class Imported:
    """The tree in this process; forks share it.

    Attributes:
        tree: The scanned tree.
        cls: The target's class; for the role ``ids`` the tree's runner of models.
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
    tree = Tree(job.package, job.names, job.algorithm)
    if job.role == "ids":
        return Imported(tree, tree.need(job.names["ids"]["module"], job.names["ids"]["cls"]), finder)
    cls = models.class_named(tree, job.architecture)
    tree.tells(cls)
    if job.draft_architecture is not None and job.role != "reference":
        models.class_named(tree, job.draft_architecture)
    for table in ("arguments", "parallel", "config", "batch", *(["runner"] if job.through == "model-runner" else [])):
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
    if job.role == "ids":
        me.progress.begin("setter", "the draft's configuration is read by the tree")
        me.read = ids.read_ids(tree, job)
        me.progress.begin("done")
        return
    me.cls = f"{cls.__module__}.{cls.__qualname__}"
    me.bridges["torch"] = torch.__version__
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
    faked = job.backend == "fake"
    through_runner = job.through == "model-runner" and not faked
    if not through_runner:
        model_config = own if own is not None else bridges.stand_in_config(tree, config, shape, dtype)
        me.bridges["groups"] = ", ".join(bridges.join(tree, job, me.rank, arguments, model_config))
    context = simulated(tree) if faked else contextlib.nullcontext()
    with context, where, models.default_dtype(dtype), torch.no_grad():
        target: Target
        if through_runner:
            runner.prepare(job)
            target = own_target = runner.RunnerTarget(me, tree, shape, where)
            own_target.start(arguments, own)
        else:
            target = Target(me, tree, shape, where)
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
    target = Target(me, tree, shape, where)
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
    if any(each.replay is not None and each.replay.done for each in me.phases):
        me.lacks("when a graph is replayed", "graphs are recorded by the probe, for a batch of its own")
    else:
        me.lacks("recorded graphs", "forwards are eager ones")
    if me.job.through != "model-runner":
        me.lacks("attention", "keys and values are mixed by the probe's own backend")
    me.lacks("choice of the mode", "the batches are made by the probe and ask for all rows")
    if me.job.backend == "nccl":
        return
    me.lacks("branches for CUDA", "the tree runs as on a machine without a GPU")
    me.lacks("fused all-reduce", "it needs kernels of a GPU")
    if me.job.backend == "fake":
        me.lacks("what ranks say to each other", "simulated ranks communicate with nobody: each is alone")


def kept_stubs(job: Job) -> list[str]:
    """What an earlier run learned for this tree."""
    path = job.stubs_path()
    return list(json.loads(path.read_text("utf-8"))) if path.is_file() else []
