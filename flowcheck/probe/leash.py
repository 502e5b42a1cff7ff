"""What a rank runs under, in its own process: ``python -m flowcheck.probe.leash MODULE ARGUMENT...``.

The kernel ends the rank with its supervisor, and a rank that hangs can be asked where it stands (SIGUSR1 prints its stack on
standard error). Nothing here is imported but the standard library.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import os
import runpy
import signal
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["BYTECODE", "PARENT", "end_with", "main"]

PARENT = "FLOWCHECK_PROBE_PARENT"
"""The variable that holds the supervisor's process id."""

BYTECODE = "FLOWCHECK_PROBE_BYTECODE"
"""The variable that holds a folder of sources and, after a colon, the one in which their byte code is kept: nothing is written
beside the sources."""

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its supervisor, and become the module."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    if PARENT in os.environ:
        end_with(int(os.environ[PARENT]))
    if BYTECODE in os.environ:
        sources, _, kept = os.environ[BYTECODE].partition(":")
        _keep_bytecode_apart(sources, kept)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def end_with(parent: int) -> None:
    """Let the kernel end this process with ``parent``, which made it. A fork has to ask for it anew."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it went away before the kernel was told
        os._exit(1)


def _keep_bytecode_apart(sources: str, kept: str) -> None:
    """Byte code of what lies below ``sources`` goes to ``kept``, whatever that folder is called this time; that of all else is
    where it always was."""
    machinery: Any = importlib.import_module("importlib._bootstrap_external")
    usual: Callable[..., str] = machinery.cache_from_source
    below = f"{sources}{os.sep}"

    def place(path: str, *rest: Any, **named: Any) -> str:
        whole = os.fspath(path)
        if not whole.startswith(below):
            return usual(path, *rest, **named)
        before, sys.pycache_prefix = sys.pycache_prefix, kept
        try:
            return usual(os.sep + whole[len(below) :], *rest, **named)
        finally:
            sys.pycache_prefix = before

    machinery.cache_from_source = place


if __name__ == "__main__":
    main()
