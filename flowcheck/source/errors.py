"""What can go wrong with a source, in the user's words."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SourceError", "SourceWarning", "UnreadableError", "one_line"]


class SourceError(Exception):
    """UnreadableError input or bad usage; ``str(error)`` is one clear line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


@dataclass(frozen=True)
class SourceWarning:
    """A file or folder that was left out, whole or in part, and why; the scan goes on without it.

    ``path`` is relative to SOURCE, with ``/``; ``line`` is 0 where no line is to blame.
    """

    path: str
    text: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


class UnreadableError(Exception):
    """One file cannot be read; ``str(error)`` says why, without the path."""


def one_line(text: str) -> str:
    """``text`` with every run of blanks and line ends made one blank."""
    return " ".join(text.split())
