"""What happens on each rank, on a terminal while it happens; nothing where stderr is none."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from flowcheck.probe.protocol import Event

__all__ = ["watching"]


@contextlib.contextmanager
def watching(ranks: int, *, enabled: bool) -> Iterator[Callable[[str, Event], None]]:
    """Something to call with the role of a process and each event of it: one line for each rank."""
    if not enabled or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.live import Live

    shown: dict[str, Event] = {}

    def heard(role: str, event: Event) -> None:
        shown[f"rank {event.rank}" if role == "rank" else role] = event
        live.update(_lines(shown, ranks))

    with Live(console=Console(stderr=True), transient=True, refresh_per_second=8) as live:
        yield heard


def _lines(shown: dict[str, Event], ranks: int) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, event in sorted(shown.items(), key=lambda each: (each[0].startswith("rank"), each[1].rank)):
        table.add_row(name, event.stage, escape(event.detail), f"{event.seconds:.0f} s")
    ended = sum(event.stage == "done" for name, event in shown.items() if name.startswith("rank"))
    table.add_row(f"{ended}/{ranks}", "done")
    return table
