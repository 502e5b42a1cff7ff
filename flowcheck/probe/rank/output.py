"""A rank's standard output carries events and nothing else; what the tree prints goes to standard error."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

from flowcheck.probe.protocol import Event, Stage, dumps

__all__ = ["Progress"]


class Progress:
    """Says what a rank is doing, and remembers how long each stage took.

    Args:
        rank: Of whom it speaks.
        stream: Where the lines go.
    """

    def __init__(self, rank: int, stream: TextIO) -> None:
        self.rank = rank
        self.stage: Stage = "start"
        self.seconds: dict[str, float] = {}
        self._stream = stream
        self._began = self._since = time.monotonic()

    @classmethod
    def on_standard_output(cls, rank: int) -> Progress:
        """Takes standard output for events, and points everybody else's at standard error."""
        sys.stdout.flush()
        stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        return cls(rank, stream)

    def of(self, rank: int) -> Progress:
        """The same for another rank, from here on: for a process forked from this one."""
        other = Progress(rank, self._stream)
        other.stage, other.seconds = self.stage, dict(self.seconds)
        other._began, other._since = self._began, self._since
        return other

    def begin(self, stage: Stage, detail: str = "") -> None:
        """A stage begins, or something in it; the one before it has ended."""
        now = time.monotonic()
        if stage != self.stage:
            self.seconds[self.stage] = round(self.seconds.get(self.stage, 0.0) + now - self._since, 3)
            self.stage, self._since = stage, now
        line = dumps(Event(self.rank, stage, detail, round(now - self._began, 3)))
        self._stream.write(line + "\n")
        self._stream.flush()
