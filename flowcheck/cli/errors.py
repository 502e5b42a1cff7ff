"""Exit codes, and how every way to fail is said in one line on stderr."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from enum import IntEnum
from typing import TextIO

__all__ = ["Exit", "InconclusiveError", "InputError", "exit_code_of", "say", "unwritable"]


UNWRITABLE = (errno.EBADF, errno.EIO, errno.ENOSPC)
"""Errors of a stream that takes nothing."""


class Exit(IntEnum):
    """What the exit code says."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    BUG = 3
    INCONCLUSIVE = 4
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class InputError(Exception):
    """Bad usage or unreadable input, said in one line."""


class InconclusiveError(Exception):
    """A probe that could show nothing, said in one line."""


def exit_code_of(error: BaseException) -> int:
    """Says what went wrong and gives the exit code for it."""
    if isinstance(error, BrokenPipeError):
        _mute(sys.stdout)
        return Exit.BROKEN_PIPE
    if isinstance(error, OSError):
        error = _surroundings(error) or error
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        say("interrupted")
        return Exit.INTERRUPTED
    if isinstance(error, InputError):
        say(f"error: {error}")
        _settle(sys.stdout)
        return Exit.USAGE
    if isinstance(error, InconclusiveError):
        say(f"inconclusive: {error}")
        _settle(sys.stdout)
        return Exit.INCONCLUSIVE
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # whatever typer raises for a command line that it cannot read
        said = str(format_message()).replace("Value error, ", "").rstrip(".")
        command = getattr(getattr(error, "ctx", None), "command_path", None) or "flowcheck"
        say(f"error: {said[:1].lower()}{said[1:]} (see {command} --help)")
        return Exit.USAGE
    if os.environ.get("FLOWCHECK_DEBUG"):
        raise error
    say(f"bug: {type(error).__name__}: {error} (FLOWCHECK_DEBUG=1 shows the traceback; please report it)")
    return Exit.BUG


def say(text: str) -> None:
    """One line on stderr, with whatever a terminal would act on spelled out.

    Where stderr takes nothing, the exit code alone has to do.
    """
    flat = " ".join(text.split())
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in flat)
    with contextlib.suppress(OSError):
        print(f"flowcheck: {shown}", file=sys.stderr)  # noqa: T201
    _settle(sys.stderr)


def unwritable(error: OSError) -> InputError:
    """What to say where stdout does not take the report."""
    reason = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
    return InputError(f"cannot write to stdout: {reason}")


def _surroundings(error: OSError) -> InputError | None:
    """What is wrong around this process, where that and no bug is why the system said no."""
    if isinstance(error, FileNotFoundError):
        try:
            os.getcwd()  # noqa: PTH109
        except FileNotFoundError:
            return InputError("the working directory does not exist any more")
    if error.filename is None and error.errno in UNWRITABLE:  # typer prints help itself
        return unwritable(error)
    return None


def _settle(stream: TextIO) -> None:
    """Flush a stream; one that takes nothing is muted."""
    try:
        stream.flush()
    except OSError:
        _mute(stream)


def _mute(stream: TextIO) -> None:
    """Nobody takes what we say there: let the interpreter's last flush go nowhere instead of failing."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stream.fileno())
