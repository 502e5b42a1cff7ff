"""Exit codes, and how every way to fail is said in one line on stderr."""

from __future__ import annotations

import os
import sys
from enum import IntEnum

__all__ = ["Exit", "InputError", "exit_code_of"]


class Exit(IntEnum):
    """What the exit code says."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    BUG = 3
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class InputError(Exception):
    """Bad usage or unreadable input, said in one line."""


def exit_code_of(error: BaseException) -> int:
    """Says what went wrong and gives the exit code for it."""
    if isinstance(error, BrokenPipeError):
        _mute_stdout()
        return Exit.BROKEN_PIPE
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        _say("interrupted")
        return Exit.INTERRUPTED
    if isinstance(error, InputError):
        _say(f"error: {error}")
        return Exit.USAGE
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # whatever typer raises for a command line that it cannot read
        said = str(format_message()).replace("Value error, ", "").rstrip(".")
        command = getattr(getattr(error, "ctx", None), "command_path", None) or "flowcheck"
        _say(f"error: {said[:1].lower()}{said[1:]} (see {command} --help)")
        return Exit.USAGE
    if os.environ.get("FLOWCHECK_DEBUG"):
        raise error
    _say(f"bug: {type(error).__name__}: {error} (FLOWCHECK_DEBUG=1 shows the traceback; please report it)")
    return Exit.BUG


def _say(text: str) -> None:
    print(f"flowcheck: {' '.join(text.split())}", file=sys.stderr)  # noqa: T201


def _mute_stdout() -> None:
    """Whoever read us is gone: let the interpreter's last flush go nowhere instead of failing."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
