"""Finding out which packages must be stubbed: run a simulated rank in a fork, stub what it lacked, and again."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import torch

from flowcheck.probe.leash import end_with
from flowcheck.probe.protocol import Job, RankResult, dumps, loads
from flowcheck.probe.rank.output import Progress
from flowcheck.probe.rank.run import imported, kept_stubs, run

__all__ = ["learn"]


def learn(job: Job, progress: Progress) -> RankResult:
    """Learns the stubs of a tree for a target, and keeps them in :meth:`Job.stubs_path`.

    Returns:
        What the last attempt saw. An error in it that is no missing package is no reason not to try the real thing.
    """
    roots = kept_stubs(job)
    result = _attempt(job, progress, roots)
    for _ in range(job.limits.stub_rounds):
        root = result.error.missing if result.error else None
        if root is None or root in roots:
            break
        roots.append(root)
        progress.begin("imports", f"stands in for {root}")
        result = _attempt(job, progress, roots)
    job.stubs_path().write_text(json.dumps(sorted(roots)), "utf-8")
    return replace(result, stubs=tuple(sorted(roots)))


def _attempt(job: Job, progress: Progress, roots: list[str]) -> RankResult:
    """One run in a process of its own: a failed import leaves halves of modules behind."""
    torch.set_num_threads(1)
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        end_with(parent)
        os.close(reading)
        status = 1
        try:
            with os.fdopen(writing, "w") as out, open(os.devnull, "w") as nothing:  # noqa: PTH123
                quiet = Progress(0, nothing)
                out.write(dumps(run(job, 0, quiet, lambda: imported(job, quiet, roots))))
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        raise RuntimeError("the attempt died")
    return loads(RankResult, text)
