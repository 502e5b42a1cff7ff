"""A stack that holds the interpreter's recursion."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["with_deep_stack"]

STACK = 512 * 1024 * 1024
DEEPEST = 60_000
T = TypeVar("T")


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
