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

__all__ = ["Structure", "line_starts", "mask", "scan", "unterminated_string"]

_TOKEN = re.compile(r"\n[ \t\f]*|#[^\n]*|[\"'()\[\]{}]|\\\n")
_HEADER_TOKEN = re.compile(r"\n[ \t\f]*|#[^\n]*|[\"'()\[\]{}:]|\\\n|\blambda\b")
_DEFINITION = re.compile(r"(?:async(?:[ \t\f]|\\\n)+)?(def|class)(?:[ \t\f]|\\\n)+(\w+)")
_INDENT = re.compile(r"[ \t\f]*")
_VISIBLE = re.compile(r"[^\n]")
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


def scan(text: str) -> Structure:
    """The structure of ``text``, which has "\\n" line ends. It never fails: see the module's first lines."""
    found: list[_Open] = []
    long_lines: list[tuple[int, int]] = []
    stack: list[int] = []
    depth = 0
    code_end = 0  # where the last logical line ended, its comment not counted
    decorator = -1  # the start of the first of the decorators just read
    fresh = True  # at the start of a logical line
    indent = _INDENT.match(text)
    line_at = 0
    position = indent.end() if indent is not None else 0
    length = len(text)
    search = _TOKEN.search
    while True:
        if fresh:
            first = text[position : position + 1]
            if first and first not in "\n#":
                fresh = False
                column = _column(text, line_at, position)
                while stack and column <= found[stack[-1]].column:
                    found[stack.pop()].end = code_end
                match = _DEFINITION.match(text, position) if first in "dca" else None
                if match is not None:
                    top = decorator if decorator >= 0 else position
                    entry = _Open(match[1], match[2], position, column, position - line_at, top)
                    if stack:
                        entry.parent = stack[-1]
                        holder = found[entry.parent]
                        entry.local = holder.local or holder.kind == "def"
                        entry.qualname = holder.qualname + (".<locals>." if holder.kind == "def" else ".") + entry.name
                    stack.append(len(found))
                    found.append(entry)
                    position = entry.header_end = _header_end(text, match.end())
                    decorator = -1
                elif first == "@":
                    if decorator < 0:
                        decorator = position
                else:
                    decorator = -1
        token = search(text, position)
        if token is None:
            break
        at, position = token.span()
        char = text[at]
        if char == "\n":
            if depth and not (
                text[position : position + 1] in ("d", "c", "a") and _DEFINITION.match(text, position) is not None
            ):
                continue
            depth = 0
            if not fresh:
                code_end = at
                fresh = True
                if at - line_at > SHALLOW_LENGTH:
                    long_lines.append((line_at, at))
            line_at = at + 1
        elif char in "\"'":
            position = string_end(text, at)
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            if depth:
                depth -= 1
        elif char == "#" and not fresh and not depth:
            code_end = at
            fresh = True  # only white space follows on this line
            if at - line_at > SHALLOW_LENGTH:
                long_lines.append((line_at, at))
    if not fresh:
        code_end = length
        if length - line_at > SHALLOW_LENGTH:
            long_lines.append((line_at, length))
    for index in stack:
        found[index].end = code_end
    return Structure(_finished(text, found), tuple(long_lines))


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
