"""Where a report goes: stdout or a file, with colour or without, and what is said on stderr beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from flowcheck.cli.errors import InputError, say, unwritable

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["PIPED_WIDTH", "Color", "check_writable", "print_lines", "progress", "warn", "write", "write_file"]

PIPED_WIDTH = 80
"""The columns of what goes to no terminal."""

WIDEST = 140
SHOWN_WARNINGS = 5


class Color(str, Enum):
    """When to use colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def write(text: str) -> None:
    """Write to stdout, to the last byte."""
    with _unwritable_is_said():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextlib.contextmanager
def _unwritable_is_said() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(error) from None


def print_lines(layout: Callable[[int], Sequence[Text]], color: Color) -> None:
    """Print lines that ``layout`` lays out for a width: the terminal's own, or 80 columns."""
    width = _width()
    if not _colored(color):
        write("".join(f"{line.plain}\n" for line in layout(width)))
        return
    from rich.console import Console

    console = Console(
        file=sys.stdout, width=width, force_terminal=True, color_system="standard", no_color=False, highlight=False
    )
    lines = layout(width)
    with _unwritable_is_said():
        for line in lines:
            console.print(line, soft_wrap=True)


def _width() -> int:
    if not sys.stdout.isatty():
        return PIPED_WIDTH
    return max(40, min(shutil.get_terminal_size((PIPED_WIDTH, 24)).columns, WIDEST))


def _colored(color: Color) -> bool:
    if color is not Color.AUTO:
        return color is Color.ALWAYS
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def warn(warnings: Sequence[str], *, everything: bool) -> None:
    """Name what was left out: ``everything``, or the first few."""
    shown = len(warnings) if everything else SHOWN_WARNINGS
    for warning in warnings[:shown]:
        say(f"warning: {warning}")
    if len(warnings) > shown:
        say(f"warning: and {len(warnings) - shown} more (--verbose lists them all)")


# -------------------------------------------------------------------------------------------------------------- file
def check_writable(target: Path) -> None:
    """Refuse a file that cannot be written before the scan spends its time."""
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {target}: no such folder as {target.parent}")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise InputError(f"cannot write {target}: permission denied")


def write_file(target: Path, text: str) -> None:
    """Write a report whole or not at all. What is no regular file (a device, a pipe) is written in place."""
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
            return
        final = target.resolve()
        handle, name = tempfile.mkstemp(prefix=f".{final.name}.", dir=final.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(name).chmod(final.stat().st_mode & 0o777 if final.exists() else 0o666 & ~_umask())
            Path(name).replace(final)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---------------------------------------------------------------------------------------------------------- progress
@contextlib.contextmanager
def progress(enabled: bool) -> Iterator[Callable[[str], None] | None]:
    """Something to call with a line about what happens now; None unless stderr is a terminal."""
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("reading") as status:
        yield lambda text: status.update(Text(text))
