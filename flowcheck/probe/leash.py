"""What a rank runs under, in its own process: ``python -m flowcheck.probe.leash MODULE ARGUMENT...``.

The kernel ends the rank with its supervisor, and a rank that hangs can be asked where it stands (SIGUSR1 prints its stack on
standard error). Nothing here is imported but the standard library.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import runpy
import signal
import sys

__all__ = ["PARENT", "main"]

PARENT = "FLOWCHECK_PROBE_PARENT"
"""The variable that holds the supervisor's process id."""

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its supervisor, and become the module."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = os.environ.get(PARENT)
    if parent is not None and os.getppid() != int(parent):  # it went away before the kernel was told
        sys.exit("the supervisor of this rank has gone away")
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
