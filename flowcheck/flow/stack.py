"""A stack that holds the interpreter's recursion."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["rarely_collected", "with_deep_stack"]

STACK = 512 * 1024 * 1024
DEEPEST = 60_000
T = TypeVar("T")
COLLECTED = (10_000, 10, 100)
"""New objects before garbage is looked for, and how often older objects are looked at again. What a walk makes is mostly
kept until it ends: looking through it at Python's usual pace is a tenth of a scan, for little that is found."""


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Looks for garbage less often. Whoever asked for less than that, or for none, is left alone."""
    before = gc.get_threshold()
    if before[0] and before[0] < COLLECTED[0]:
        gc.set_threshold(*COLLECTED)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def with_deep_stack(work: Callable[[], T]) -> T:
    """Runs ``work`` in a thread whose stack holds the interpreter's recursion, and raises what it raises.

    An interrupt ends the waiting; the thread then ends with the process, which nothing has to wait for.
    """
    box: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            box.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            errors.append(error)

    limit = sys.getrecursionlimit()
    size = threading.stack_size(STACK)
    try:
        sys.setrecursionlimit(max(limit, DEEPEST))
        thread = threading.Thread(target=run, name="flowcheck", daemon=True)
        thread.start()
    finally:
        threading.stack_size(size)
    try:
        thread.join()
    finally:
        if not thread.is_alive():
            sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return box[0]
