"""Small pieces that every part of the page uses: styles, words, wrapping.

Colour is for verdicts and severities alone; everything else is plain, bold or dim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

__all__ = ["SEVERITY_STYLE", "VERDICT_STYLE", "counted", "hanging", "labelled", "padded", "shorter", "spoken_path"]
__all__ += ["wrapped"]

VERDICT_STYLE = {"proved": "green", "violated": "bold red", "unproved": "bold yellow", None: "dim"}
SEVERITY_STYLE = {"error": "bold red", "warning": "bold yellow", "note": "bold"}


@cache
def _measure() -> Console:
    return Console(width=80, color_system=None, force_terminal=False)


def padded(text: str, width: int) -> str:
    """``text`` filled up to ``width`` cells, never cut."""
    return text if cell_len(text) >= width else set_cell_size(text, width)


def wrapped(text: str | Text, width: int, *, first: Text | None = None, indent: int = 0) -> list[Text]:
    """``text`` in lines of at most ``width`` cells: ``first`` before the first, ``indent`` blanks before the others.

    What has no blank to break at is folded, never cut.
    """
    body = text if isinstance(text, Text) else Text(text)
    lead = first if first is not None else Text(" " * indent)
    room = max(width - max(indent, lead.cell_len), 16)
    lines = body.wrap(_measure(), room, overflow="fold")
    result = []
    for number, line in enumerate(lines):
        line.rstrip()
        result.append(Text.assemble(lead if number == 0 else " " * indent, line))
    return result


def hanging(line: Text, width: int, indent: int) -> list[Text]:
    """A line that begins at the margin; where it does not fit, what is left of it stands below, indented."""
    return [line] if line.cell_len <= width else wrapped(line, width, first=Text(), indent=min(indent, width // 2))


def labelled(
    rows: Iterable[tuple[str, str]], width: int, *, indent: int = 2, styles: Mapping[str, str] = MappingProxyType({})
) -> list[Text]:
    """Rows of a label (dim, or in a style of its own) and a text, the texts aligned and wrapped."""
    shown = [(label, text) for label, text in rows if text]
    column = indent + max((len(label) for label, _ in shown), default=0) + 2
    lines: list[Text] = []
    for label, text in shown:
        first = Text(padded(" " * indent + label, column), style=styles.get(label, "dim"))
        lines += wrapped(text, width, first=first, indent=column)
    return lines


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 question", "3 questions"; ``plural`` where that takes more than an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def spoken_path(path: str | None) -> str:
    """The path of a flow in words."""
    return (path or "any").replace("_", " ")


def shorter(file: str, level: int, root: str) -> str:
    """A file's name at one of three lengths: as in SOURCE (0), inside the package (1), its last two parts (2)."""
    if level == 0:
        return file
    if level == 1:
        return file.removeprefix(f"{root}/") if root else file
    return "/".join(file.split("/")[-2:])
