"""Where the definitions of a file stand: one pass over its characters, without a parser.

Owns the lexical structure: logical lines, brackets, indentation, strings, comments. It answers the same on every host
and survives files that do not parse: ``def`` and ``class`` at the start of a line end whatever bracket is open, since
no expression can hold them.
"""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec

from flowcheck.syntax._bounds import SHALLOW_LENGTH
from flowcheck.syntax._model import DefSpan
from flowcheck.syntax._strings import string_end

__all__ = ["Structure", "line_starts", "mask", "scan", "unterminated_string", "without_form_feeds"]

_TOKEN = re.compile(r"\n[ \t\f]*|#[^\n]*|[\"'()\[\]{}]|\\\n")
_HEADER_TOKEN = re.compile(r"\n[ \t\f]*|#[^\n]*|[\"'()\[\]{}:]|\\\n|\blambda\b")
_DEFINITION = re.compile(r"(?:async(?:[ \t\f]|\\\n)+)?(def|class)(?:[ \t\f]|\\\n)+(\w+)")
_INDENT = re.compile(r"[ \t\f]*")
_FORM_FEED = re.compile(r"^[ \t\f]*\f", re.MULTILINE)
_VISIBLE = re.compile(r"[^\n]")
_NO_CODE = ("", "\n", "#")
_SPACE = " \t\f\n\\"


def line_starts(text: str) -> list[int]:
    """The offset of each line's first character."""
    starts = [0]
    position = text.find("\n")
    while position >= 0:
        starts.append(position + 1)
        position = text.find("\n", position + 1)
    return starts


class Structure(msgspec.Struct, frozen=True, array_like=True):
    """What one pass finds: the definitions in source order, and where the long logical lines start and end.

    Only a long line can nest so deep that it must not be given to libcst unseen; see ``_bounds``.
    """

    spans: tuple[DefSpan, ...]
    long_lines: tuple[tuple[int, int], ...]

    def inside(self, index: int) -> tuple[DefSpan, ...]:
        """The definitions inside the one at ``index``."""
        last = index + 1
        while last < len(self.spans) and self.spans[last].start < self.spans[index].end:
            last += 1
        return self.spans[index + 1 : last]


class _Open:
    """A definition whose end is not known yet."""

    __slots__ = ("column", "end", "header_end", "indent", "kind", "local", "name", "parent", "qualname", "start", "top")

    def __init__(self, kind: str, name: str, start: int, column: int, indent: int, top: int) -> None:
        self.kind = kind
        self.name = name
        self.start = start
        self.column = column
        self.indent = indent
        self.top = top
        self.parent = -1
        self.local = False
        self.qualname = name
        self.header_end = self.end = start


class _Scanner:
    """The state of one pass: the definitions found, and which of them are open."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[_Open] = []
        self.long_lines: list[tuple[int, int]] = []
        self.code_end = 0  # where the last logical line ended, its comment not counted
        self._stack: list[int] = []
        self._decorator = -1  # the start of the first of the decorators just read

    def begin(self, line: int, position: int) -> int:
        """Note a logical line whose first character is at ``position``; the offset to go on from."""
        text, found, stack = self.text, self.found, self._stack
        column = _column(text, line, position)
        while stack and column <= found[stack[-1]].column:
            found[stack.pop()].end = self.code_end
        first = text[position]
        match = _DEFINITION.match(text, position) if first in "dca" else None
        if match is None:
            if first != "@":
                self._decorator = -1
            elif self._decorator < 0:
                self._decorator = position
            return position
        top = self._decorator if self._decorator >= 0 else position
        entry = _Open(match[1], match[2], position, column, position - line, top)
        if stack:
            entry.parent = stack[-1]
            holder = found[entry.parent]
            entry.local = holder.local or holder.kind == "def"
            entry.qualname = f"{holder.qualname}{'.<locals>.' if holder.kind == 'def' else '.'}{entry.name}"
        stack.append(len(found))
        found.append(entry)
        self._decorator = -1
        entry.header_end = _header_end(text, match.end())
        return entry.header_end

    def end(self, line: int, position: int) -> None:
        """Note that the logical line that started at ``line`` ends at ``position``."""
        self.code_end = position
        if position - line > SHALLOW_LENGTH:
            self.long_lines.append((line, position))

    def finish(self) -> Structure:
        """What was found, once the text is at its end."""
        for index in self._stack:
            self.found[index].end = self.code_end
        return Structure(_finished(self.text, self.found), tuple(self.long_lines))


def scan(text: str) -> Structure:
    """The structure of ``text``, which has "\\n" line ends. It never fails: see the module's first lines."""
    scanner = _Scanner(text)
    indent = _INDENT.match(text)
    position = indent.end() if indent is not None else 0
    line = depth = 0
    inside = False  # inside a logical line
    search = _TOKEN.search
    while True:
        if not inside and text[position : position + 1] not in _NO_CODE:
            inside = True
            position = scanner.begin(line, position)
        token = search(text, position)
        if token is None:
            break
        at, position = token.span()
        char = text[at]
        if char == "\n":
            if depth and not (text[position : position + 1] in "dca" and _DEFINITION.match(text, position)):
                continue
            depth = 0
            if inside:
                scanner.end(line, at)
                inside = False
            line = at + 1
        elif char in "\"'":
            position = string_end(text, at)
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= depth > 0
        elif char == "#" and inside and not depth:
            scanner.end(line, at)  # only white space follows on this line
            inside = False
    if inside:
        scanner.end(line, len(text))
    return scanner.finish()


def _column(text: str, start: int, end: int) -> int:
    """The indentation's width as Python counts it: tabs stop at multiples of 8, a form feed starts again."""
    column = end - start
    if "\t" in text[start:end] or "\f" in text[start:end]:
        column = 0
        for char in text[start:end]:
            column = 0 if char == "\f" else (column // 8 + 1) * 8 if char == "\t" else column + 1
    return column


def _header_end(text: str, position: int) -> int:
    """The offset after the colon that ends a header; the line's end where there is none."""
    depth = lambdas = 0
    while True:
        token = _HEADER_TOKEN.search(text, position)
        if token is None:
            return len(text)
        at, position = token.span()
        char = text[at]
        if char == "\n":
            if not depth or _DEFINITION.match(text, position) is not None:
                return at
        elif char in "\"'":
            position = string_end(text, at)
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth = max(0, depth - 1)
        elif char == "l":
            lambdas += not depth
        elif char == ":" and not depth:
            if not lambdas:
                return position
            lambdas -= 1


def _finished(text: str, found: list[_Open]) -> tuple[DefSpan, ...]:
    starts = line_starts(text)
    spans = []
    for entry in found:
        end = max(entry.end, entry.header_end)
        while end > entry.header_end and text[end - 1] in _SPACE:
            end -= 1
        spans.append(
            DefSpan(
                kind=entry.kind,
                name=entry.name,
                qualname=entry.qualname,
                line=bisect_right(starts, entry.start),
                start_line=bisect_right(starts, entry.top),
                end_line=bisect_right(starts, end),
                indent=entry.indent,
                start=entry.start,
                header_end=entry.header_end,
                end=end,
                parent=entry.parent,
                local=entry.local,
            )
        )
    return tuple(spans)


def mask(text: str) -> str:
    """``text`` with blanks for what strings and comments hold: offsets, quotes, line ends and all code are kept."""
    pieces: list[str] = []
    done = position = 0
    while True:
        token = _TOKEN.search(text, position)
        if token is None:
            break
        at, position = token.span()
        if text[at] in "\"'":
            position = string_end(text, at)
        elif text[at] != "#":
            continue
        content = text[at + 1 : position - 1] if text[at] != "#" else text[at:position]
        start = at + 1 if text[at] != "#" else at
        blank = " " * len(content) if "\n" not in content else _VISIBLE.sub(" ", content)
        pieces += (text[done:start], blank)
        done = start + len(content)
    pieces.append(text[done:])
    return "".join(pieces)


def without_form_feeds(text: str) -> tuple[str, dict[int, int]]:
    """``text`` without the form feeds in its indentation, and how many characters each line (from 1) has lost.

    A form feed sets the column back to 0, so that what stands before it goes too. libcst accepts but mislays them.
    """
    pieces: list[str] = []
    dropped: dict[int, int] = {}
    position = 0
    for match in _FORM_FEED.finditer(mask(text)):
        pieces.append(text[position : match.start()])
        position = match.end()
        dropped[text.count("\n", 0, position) + 1] = match.end() - match.start()
    pieces.append(text[position:])
    return "".join(pieces), dropped


def unterminated_string(text: str) -> int | None:
    """The offset of the first string that nothing ends, None where every string ends."""
    position = 0
    while True:
        token = _TOKEN.search(text, position)
        if token is None:
            return None
        at, position = token.span()
        if text[at] in "\"'":
            position = string_end(text, at)
            mark = text[at] * 3 if text.startswith(text[at] * 3, at) else text[at]
            if position < at + 2 * len(mark) or not text.endswith(mark, at, position):
                return at
