"""Lines of the scanned tree, safe to show: decoded, without control characters, tabs as blanks."""

from __future__ import annotations

import re
from collections.abc import Callable

from flowcheck.report.model import Snippet

__all__ = ["Lines", "ReadText", "plain"]

ReadText = Callable[[str], "str | None"]
"""Gives the text of a file of the tree by its path relative to SOURCE, or None."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

CONTEXT = 2
TAB = 4


def plain(text: str) -> str:
    """``text`` on one line, with whatever a terminal would act on replaced."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _LINE_END.sub(" ", text))


class Lines:
    """Source lines by file and number; each file is read once."""

    def __init__(self, read: ReadText) -> None:
        self._read = read
        self._files: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """One line as it stands, "" where there is none."""
        lines = self._lines(file)
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def snippet(self, file: str, line: int, column: int, end_line: int, end_column: int) -> Snippet | None:
        """The line with its neighbours; a mark that runs over several lines ends at the end of the first."""
        lines = self._lines(file)
        if not 0 < line <= len(lines):
            return None
        first, last = max(1, line - CONTEXT), min(len(lines), line + CONTEXT)
        marked = lines[line - 1]
        end = end_column if end_line == line else len(marked.rstrip()) + 1
        start_shown, end_shown = _shown_column(marked, column), _shown_column(marked, end)
        return Snippet(
            first_line=first,
            lines=[plain(_untabbed(text)) for text in lines[first - 1 : last]],
            line=line,
            column=start_shown,
            end_column=max(end_shown, start_shown + 1),
        )

    def _lines(self, file: str) -> list[str]:
        known = self._files.get(file)
        if known is None:
            text = self._read(file)
            known = self._files[file] = [] if text is None else _LINE_END.split(text)
        return known


def _untabbed(text: str) -> str:
    return text.expandtabs(TAB)


def _shown_column(text: str, column: int) -> int:
    return len(_untabbed(text[: column - 1])) + 1
