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
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from threading import Thread
from typing import TYPE_CHECKING, Any

from flowcheck.flow.outcomes import Ground, Learned, Outcome, Question
from flowcheck.flow.stack import rarely_collected, with_deep_stack

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Crew"]

Forced = dict[Any, Any]
Answer = tuple[Outcome, Learned]


class Crew:
    """Up to ``jobs`` processes with this one, as a context manager: on its way out, however that is, helpers end.

    One helper is started at once, to have read the tree when the first walks are known; the others when they have a
    walk to do.
    """

    def __init__(self, question: Question, jobs: int) -> None:
        self._helpers = jobs - 1
        self._pool: ProcessPoolExecutor | None = None
        self._lifeline: Connection | None = None
        if jobs < 2:
            return
        context = multiprocessing.get_context("spawn")  # the walk runs in a thread: a fork would copy it halfway
        try:
            kept = pickle.dumps(question)
            theirs, self._lifeline = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(self._helpers, context, _begin, (theirs, kept))
        except (OSError, ImportError, NotImplementedError, pickle.PicklingError, TypeError, AttributeError):
            return  # no semaphores here, or a tree that cannot travel
        self._prepared = self._submit(_prepare)

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

    def outcomes(self, ground: Ground, walks: Sequence[Forced]) -> Iterator[Outcome]:
        """The outcome of a walk for each set of forced facts, in order. Raises what the walk raises."""
        if self._pool is None or len(walks) < 2 or not all(map(_is_plain, walks)):
            yield from map(ground.outcome, walks)
            return
        todo = deque(range(len(walks)))
        here: dict[int, Outcome | Exception] = {}
        there: dict[int, Future[Answer] | None] = {}
        i: int | None = todo.popleft()

        def send() -> None:
            if self._prepared is not None:
                wait([self._prepared])  # a helper that is not ready takes nothing away
            while (given := _next(todo)) is not None:
                there[given] = future = self._submit(_walk, walks[given])
                if future is not None:
                    wait([future])

        senders = [Thread(target=send, daemon=True) for _ in range(min(self._helpers, len(todo)))]
        for sender in senders:
            sender.start()
        while i is not None:
            here[i] = _tried(ground, walks[i])
            i = _next(todo)
        for sender in senders:
            sender.join()
        for nth, forced in enumerate(walks):
            future = there.get(nth)
            outcome = here.get(nth) or (self._received(ground, future) if future is not None else None)
            yield _given(outcome if outcome is not None else _tried(ground, forced))

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any] | None:
        pool = self._pool
        if pool is not None:
            with suppress(OSError, RuntimeError), _quiet_interrupts():  # no more processes, or a pool that is broken
                return pool.submit(work, *arguments)
        return None

    @staticmethod
    def _received(ground: Ground, future: Future[Answer]) -> Outcome | None:
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


def _next(todo: deque[int]) -> int | None:
    try:
        return todo.popleft()
    except IndexError:
        return None


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

    Thread(target=watch, daemon=True).start()
    _question.append(question)


def _prepare() -> None:
    """Reads the tree."""
    if not _ground:
        with rarely_collected():
            _ground.append(with_deep_stack(lambda: Ground(pickle.loads(_question[0]))))


def _walk(forced: Forced) -> Answer:
    _prepare()
    ground = _ground[0]
    try:
        with rarely_collected():
            outcome = with_deep_stack(lambda: ground.outcome(forced))
    finally:
        ground.store.save()
    return outcome, ground.learned()
