"""Runs a function with room for recursion: libcst recurses in C, its position metadata and this room in Python."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["with_deep_stack"]

_STACK_BYTES = 256 * 1024 * 1024  # reserved, not used: pages are only taken when touched
_RECURSION_LIMIT = 60_000
_lock = threading.Lock()
_here = threading.local()

T = TypeVar("T")


def with_deep_stack(function: Callable[[], T]) -> T:
    """The result of ``function()``, run in a thread of its own. Its exceptions are raised here.

    Raises RecursionError where the thread's room is not enough or cannot be had.
    """
    if getattr(_here, "deep", False):
        return function()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        _here.deep = True
        try:
            outcome.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
            failure.append(error)

    with _lock:  # the stack size and the recursion limit belong to the process
        limit = sys.getrecursionlimit()
        size = threading.stack_size(_STACK_BYTES)
        try:
            sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
            thread = threading.Thread(target=work, name="flowcheck-deep")
            try:
                thread.start()
            except (RuntimeError, MemoryError) as error:
                raise RecursionError("no memory for a deep stack") from error
            thread.join()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if failure:
        raise failure[0]
    return outcome[0]
