"""What libcst must not be given: it overflows the C stack on deep nesting and long chains, and the process dies.

Owns the measure of how deep the tree of one logical line can get, from its characters alone. The measure is an upper
bound: every operator, call, string of an implicit concatenation and bracket counts for one level.
"""

from __future__ import annotations

import re

from flowcheck.syntax._strings import string_end

__all__ = ["MAX_DEPTH", "MAX_INDENT", "MAX_LENGTH", "SHALLOW_LENGTH", "excess", "is_deep"]

SHALLOW_LENGTH = 300  # a logical line of fewer characters is never too deep
MAX_NESTING = 200  # Python's own bound on brackets
MAX_DEPTH = 1500  # libcst needs 5 kB of stack a level and time in the square of the depth: 1 s here
MAX_INDENT = 800  # columns; Python itself refuses more than 100 levels
MAX_LENGTH = 8_000_000  # characters; ten seconds

_SAFE_DEPTH = 200
_SAFE_NESTING = 50
_TOKEN = re.compile(
    r"#[^\n]*|[\"'()\[\]{},;]|\b(?:and|or|not|if|lambda|await|for|in|is|yield|return)\b|[-+*/%@&|^~<>=.!]+"
)


def excess(text: str, start: int, end: int) -> str:
    """Why the logical line at ``text[start:end]`` must not be parsed, or "" where it may be."""
    indent = 0
    while text[start + indent : start + indent + 1] in (" ", "\t", "\f"):
        indent += 1
    if indent > MAX_INDENT:
        return "too many levels of indentation"
    nesting, depth = _depth(text, start, end)
    if nesting > MAX_NESTING:
        return f"more than {MAX_NESTING} nested brackets"
    if depth > MAX_DEPTH:
        return f"an expression of more than {MAX_DEPTH} levels"
    return ""


def is_deep(text: str, start: int, end: int) -> bool:
    """Whether the logical line needs more stack than a thread is sure to have."""
    nesting, depth = _depth(text, start, end)
    return nesting > _SAFE_NESTING or depth > _SAFE_DEPTH


def _depth(text: str, start: int, end: int) -> tuple[int, int]:
    """Upper bounds of the brackets open at once and of the levels of the tree."""
    levels = [0]
    total = nesting = deepest = 0
    position = start
    while True:
        match = _TOKEN.search(text, position, end)
        if match is None:
            return nesting, deepest
        position = match.end()
        char = text[match.start()]
        if char in "([{":
            levels.append(1)
            total += 1
            nesting = max(nesting, len(levels) - 1)
        elif char in ")]}":
            if len(levels) > 1:
                total -= levels.pop()
            levels[-1] += 1  # a call of a call of a call is a chain too
            total += 1
        elif char in ",;":
            total -= levels[-1] - (len(levels) > 1)
            levels[-1] = int(len(levels) > 1)
        elif char in "\"'":
            close = string_end(text, match.start())
            inner_nesting, inner = _text_depth(text, position, close)
            nesting = max(nesting, len(levels) - 1 + inner_nesting)
            deepest = max(deepest, total + inner)
            position = max(close, position)
            levels[-1] += 1
            total += 1
        elif char != "#":
            # Adjacent signs ("--1", "**-") are one token here and several levels there.
            width = match.end() - match.start() if not char.isalpha() else 1
            levels[-1] += width
            total += width
        deepest = max(deepest, total)


def _text_depth(text: str, start: int, end: int) -> tuple[int, int]:
    """The same for a string that may be an f-string, whose fields hold expressions and strings in turn."""
    if "{" not in text[start:end]:
        return 0, 0
    open_brackets = nesting = run = longest = 0
    for match in re.finditer(r"[(\[{]|[)\]}]|[-+*/%@&|^~<>=.!]|\b(?:and|or|not|if|lambda|for)\b", text[start:end]):
        char = match[0]
        if char in "([{":
            open_brackets += 1
            nesting = max(nesting, open_brackets)
        elif char in ")]}":
            open_brackets = max(0, open_brackets - 1)
            run = run if open_brackets else 0
        elif open_brackets:
            run += 1
            longest = max(longest, run)
    return nesting, nesting + longest
