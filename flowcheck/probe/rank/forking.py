"""Several ranks of one import: the tree is imported once, and each rank is a fork of that process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from flowcheck.probe.leash import end_with
from flowcheck.probe.protocol import Failure, Job, RankResult
from flowcheck.probe.rank.output import Progress
from flowcheck.probe.rank.run import imported, kept_stubs, run
from flowcheck.probe.rank.state import Rank, failure_of

__all__ = ["fork_ranks"]

GRACE = 5.0
"""Seconds that the other ranks have to end by themselves once one has failed."""

Write = Callable[[RankResult, Path], None]


def fork_ranks(job: Job, ranks: Iterable[int], progress: Progress, write: Write) -> int:
    """Imports the tree and runs the ranks in processes of their own, to their end.

    Returns:
        0 if every result is without an error, else 1. Every rank has a result.
    """
    waiting = list(ranks)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        given = imported(job, progress, kept_stubs(job))
    except Exception as error:  # noqa: BLE001 - whatever the tree raises is the result of all
        for rank in waiting:
            me = Rank(job, rank, progress)
            me.error = failure_of(error, me)
            write(me.result(), job.result_path(rank))
        return 1
    torch.set_num_threads(job.threads)
    at_once = job.at_once if job.backend == "fake" else len(waiting)
    running: dict[int, int] = {}
    failed: float | None = None
    worst = 0
    try:
        while waiting or running:
            while waiting and len(running) < at_once and failed is None:
                rank = waiting.pop(0)
                running[_start(job, rank, progress, write, lambda: given)] = rank
            for pid, rank, status in _ended(running):
                del running[pid]
                if status:
                    worst, failed = 1, failed or time.monotonic()
                    _account(job, rank, status, write)
            if failed is not None and not running:
                break
            if failed is not None and time.monotonic() - failed > GRACE:
                _end(job, running, write)
                break
            time.sleep(0.02)
    finally:
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for rank in waiting:
        write(
            _without(rank, Failure("start", "Stopped", "not started: another rank failed", about="other")),
            job.result_path(rank),
        )
    return worst


def _start(job: Job, rank: int, progress: Progress, write: Write, importing: Callable[[], object]) -> int:
    path = job.result_path(rank)
    path.unlink(missing_ok=True)
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        end_with(parent)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        words = os.open(job.words_path(rank), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(words, 1)
        os.dup2(words, 2)
        result = run(job, rank, progress.of(rank), importing)  # type: ignore[arg-type]
        write(result, path)
        status = 1 if result.error is not None else 0
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
    raise AssertionError


def _ended(running: dict[int, int]) -> list[tuple[int, int, int]]:
    out = []
    for pid, rank in list(running.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            out.append((pid, rank, status))
    return out


def _account(job: Job, rank: int, status: int, write: Write) -> None:
    """A rank that died has no result of its own."""
    path = job.result_path(rank)
    if path.is_file():
        return
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.waitstatus_to_exitcode(status)}"
    lines = job.words_path(rank).read_text("utf-8", errors="replace").strip().splitlines()
    said = f"died with {how}; last words: {lines[-1][:300] if lines else 'none'}"
    write(_without(rank, Failure("start", "Died", said, about="machine" if os.WIFSIGNALED(status) else "tree")), path)


def _end(job: Job, running: dict[int, int], write: Write) -> None:
    for pid, rank in running.items():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if not job.result_path(rank).is_file():
            failure = Failure("start", "Stopped", "ended: another rank failed", about="other")
            write(_without(rank, failure), job.result_path(rank))
    running.clear()


def _without(rank: int, error: Failure) -> RankResult:
    return RankResult(rank=rank, stage="start", error=error)
