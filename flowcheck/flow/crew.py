"""Walks in several processes. Each is on its own: it opens the tree anew, walks, and hands plain data back.

A helper changes nothing but the time that a scan takes. What it cannot do, or fails at, is done in this process; so is
everything that no helper has begun when this process has nothing else to do. A helper that saw other bytes than this
process is not believed.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from flowcheck.flow.outcomes import Ground, Learned, Outcome, Question
from flowcheck.flow.stack import with_deep_stack

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Crew"]

Forced = dict[Any, Any]
Answer = tuple[Outcome, Learned]


class Crew:
    """Up to ``jobs`` processes with this one, as a context manager: on its way out, however that is, helpers end.

    One helper is started at once, to have read the tree when the first walks are known; the others as they are needed.
    """

    def __init__(self, question: Question, jobs: int) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._lifeline: Connection | None = None
        if jobs < 2:
            return
        context = multiprocessing.get_context("spawn")  # the walk runs in a thread: a fork would copy it halfway
        try:
            kept = pickle.dumps(question)
            theirs, self._lifeline = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(jobs - 1, context, _begin, (theirs, kept))
        except (OSError, ImportError, NotImplementedError, pickle.PicklingError, TypeError, AttributeError):
            self._pool = None  # no semaphores here, or a tree that cannot travel
        self._submit(_prepare)

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pool, self._pool = self._pool, None
        if self._lifeline is not None:
            self._lifeline.close()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any] | None:
        if self._pool is not None:
            with suppress(OSError, RuntimeError), _quiet_interrupts():  # no more processes, or a pool that is broken
                return self._pool.submit(work, *arguments)
        return None

    def outcomes(self, ground: Ground, walks: Sequence[Forced]) -> Iterator[Outcome]:
        """The outcome of a walk for each set of forced facts, in order. Raises what the walk raises."""
        futures = [self._submit(_walk, forced) if i and _is_plain(forced) else None for i, forced in enumerate(walks)]
        if not any(futures):
            yield from map(ground.outcome, walks)
            return
        here: dict[int, Outcome | Exception] = {0: _tried(ground, walks[0])}
        for i in reversed(range(1, len(walks))):
            future = futures[i]
            if future is None or future.cancel():
                here[i] = _tried(ground, walks[i])
        for i, future in enumerate(futures):
            answer = here.get(i)
            if answer is None and future is not None:
                answer = self._received(ground, future)
            yield _given(answer if answer is not None else _tried(ground, walks[i]))

    def _received(self, ground: Ground, future: Future[Answer]) -> Outcome | None:
        """What a helper found; None where it failed, for whatever reason: this process then meets the same, or not."""
        try:
            outcome, learned = future.result()
        except Exception:  # noqa: BLE001
            return None
        mine = ground.question.tree.digests
        if any(mine.get(path, digest) != digest for path, digest in learned.digests.items()):
            return None
        ground.learn(learned)
        return outcome


def _tried(ground: Ground, forced: Forced) -> Outcome | Exception:
    try:
        return ground.outcome(forced)
    except Exception as error:  # noqa: BLE001 - raised again in its turn
        return error


def _given(answer: Outcome | Exception) -> Outcome:
    if isinstance(answer, Exception):
        raise answer
    return answer


def _is_plain(key: object) -> bool:
    """Whether a key means the same in another process."""
    if isinstance(key, dict):
        return all(_is_plain(k) for k in key)
    if isinstance(key, tuple):
        return all(map(_is_plain, key))
    return key is None or isinstance(key, (str, int, float, bytes))


@contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """A process that starts here never sees Ctrl-C: it ends when this one says so, and prints nothing."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --------------------------------------------------------------------------------------------------------- in a helper
_question: list[bytes] = []
_ground: list[Ground] = []


def _begin(lifeline: Connection, question: bytes) -> None:
    """A helper's first act: to end with its parent, be it killed, or done with the helper in the middle of a walk."""

    def watch() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv_bytes()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    _question.append(question)


def _prepare() -> None:
    """Reads the tree."""
    if not _ground:
        _ground.append(with_deep_stack(lambda: Ground(pickle.loads(_question[0]))))


def _walk(forced: Forced) -> Answer:
    _prepare()
    ground = _ground[0]
    try:
        outcome = with_deep_stack(lambda: ground.outcome(forced))
    finally:
        ground.store.save()
    return outcome, ground.learned()
