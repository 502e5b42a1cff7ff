"""Where a string token ends, f-strings with nested quotes (PEP 701) included.

Owns the lexical rules of strings, so that the scanner answers the same whatever Python it runs on: the standard
tokenizer of Python 3.11 and older refuses f-strings that SGLang may use tomorrow.
"""

from __future__ import annotations

import re

__all__ = ["string_end"]

_SINGLE = {
    quote: re.compile(rf"[^{quote}\\\n]*(?:\\.[^{quote}\\\n]*)*(?:({quote})|(?=\n)|\Z)", re.DOTALL) for quote in "'\""
}
_PREFIX_LETTERS = frozenset("rRbBuUfFtT")
_FIELDLESS = re.compile(r"(?:[^{}\\]|\\[^N]|\{\{|\}\}|\{[^{}'\"\\#\n]*\})*", re.DOTALL)
_LITERAL_STOP = re.compile(r"[{}\\\n'\"]")
_FIELD_STOP = re.compile(r"[()\[\]{}'\"#:\n]")
_MAX_NESTING = 100


def string_end(text: str, quote: int) -> int:
    """The offset after the string token whose first quote character is at ``quote``.

    A string that is not terminated ends with its line, one in triple quotes with the text.
    """
    return _string_end(text, quote, 0)


def _string_end(text: str, quote: int, nesting: int) -> int:
    mark = text[quote]
    if text.startswith(mark * 3, quote):
        mark *= 3
    prefix = _prefix(text, quote)
    start = quote + len(mark)
    end = _plain_end(text, start, mark)
    if ("f" not in prefix and "t" not in prefix) or nesting > _MAX_NESTING:
        return end
    if _FIELDLESS.fullmatch(text, start, max(start, end - len(mark))) is not None:
        return end
    return _formatted_end(text, start, mark, "r" in prefix, nesting)


def _prefix(text: str, quote: int) -> str:
    start = quote
    while start > 0 and quote - start < 2 and text[start - 1] in _PREFIX_LETTERS:
        start -= 1
    if start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        return ""
    return text[start:quote].lower()


def _plain_end(text: str, start: int, mark: str) -> int:
    if len(mark) == 1:
        match = _SINGLE[mark].match(text, start)
        return match.end() if match is not None else start
    position = start
    while True:
        found = text.find(mark, position)
        if found < 0:
            return len(text)
        before = found
        while before > start and text[before - 1] == "\\":
            before -= 1
        if (found - before) % 2 == 0:
            return found + 3
        position = found + 1


def _formatted_end(text: str, start: int, mark: str, raw: bool, nesting: int) -> int:
    """The end of an f-string whose content starts at ``start``."""
    position = start
    while True:
        match = _LITERAL_STOP.search(text, position)
        if match is None:
            return len(text)
        at = match.start()
        char = text[at]
        if char == "{":
            position = at + 2 if text.startswith("{{", at) else _field_end(text, at + 1, mark, raw, nesting)
        elif char == "\\":
            position = at + 2
            if not raw and text.startswith("N{", at + 1):
                position = max(position, text.find("}", at) + 1)
            elif text[at + 1 : at + 2] in ("{", "}"):
                position = at + 1
        elif char == "\n" and len(mark) == 1:
            return at
        elif text.startswith(mark, at):
            return at + len(mark)
        else:
            position = at + 1


def _field_end(text: str, start: int, mark: str, raw: bool, nesting: int) -> int:
    """The offset after the ``}`` of a replacement field whose content starts at ``start``."""
    depth = 0
    position = start
    while True:
        match = _FIELD_STOP.search(text, position)
        if match is None:
            return len(text)
        at = match.start()
        char = text[at]
        position = at + 1
        if char in "([{":
            depth += 1
        elif char == "}" and depth == 0:
            return position
        elif char in ")]}":
            depth = max(0, depth - 1)
        elif char == ":" and depth == 0:
            return _spec_end(text, position, mark, raw, nesting)
        elif char == "#":
            newline = text.find("\n", at)
            position = len(text) if newline < 0 else newline
        elif char in "'\"":
            position = _string_end(text, at, nesting + 1)


def _spec_end(text: str, start: int, mark: str, raw: bool, nesting: int) -> int:
    position = start
    while True:
        match = _LITERAL_STOP.search(text, position)
        if match is None:
            return len(text)
        at = match.start()
        char = text[at]
        position = at + 1
        if char == "{":
            if nesting > _MAX_NESTING:
                return len(text)
            position = _field_end(text, position, mark, raw, nesting + 1)
        elif char == "}":
            return position
        elif (char == "\n" and len(mark) == 1) or text.startswith(mark, at):
            return at  # unterminated: the caller meets the same character again
