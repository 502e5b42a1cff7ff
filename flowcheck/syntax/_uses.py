"""Where a file's text stores an attribute or passes a keyword, without parsing it.

Owns the textual shapes of a store. Everything here works on a masked text (strings and comments blanked), so that a
docstring that shows an assignment is none. The answers are generous: they say where to look, not what happens there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["TextUse", "attribute_stores", "keyword_uses"]

TextUse = tuple[int, str, str]
"""The offset of the name, the receiver's or callee's text, and the kind of use."""

_BLANKS = " \t\n\\"
_SPACES = r"(?:[ \t]|\\\n)*"
_ASSIGNED = re.compile(rf"{_SPACES}(?:=(?!=)|(?P<augmented>(?:\+|-|\*\*?|//?|%|@|&|\||\^|<<|>>)=))")
_ANNOTATED = re.compile(rf"{_SPACES}:(?!=)")
_TARGET_TEXT = re.compile(r"[\w.,\s\[\]()*\\]*")
_AFTER = re.compile(r"\n|\bin\b|==?|[()\[\]]|[^\w\s.,*\\]")
_AFTER_TARGET = re.compile(r"[\s\\]*(?:[,\])]|in\b)|[ \t]*:")
_LAST_WORD = re.compile(r"\w+\Z")
_TARGET_KEYWORDS = ("for", "as", "in", "async")
_KEYWORD = re.compile(
    r"\b(?:and|assert|await|del|elif|else|from|if|import|in|is|lambda|not|or|raise|return|while|yield)\b"
)
_COMPOUND = re.compile(r"\s*(?:async|case|class|def|elif|else|except|finally|for|if|try|while|with)\b")
_LOOP = re.compile(r"\bfor(?:\s[\w.,\s\[\]()*]*)?$")
_ALIAS = re.compile(r"\bas(?:\s[\w.,\s]*)?$")
_SETATTR = re.compile(r"setattr(?:__)?\s*\(")
_HEADER = re.compile(r"(?:\bdef|\bclass)\s+\w+\s*(?:\[.*\]\s*)?$")
_CLOSING = {")": "(", "]": "[", "}": "{"}


@lru_cache(maxsize=256)
def _named(name: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    word = re.escape(name)
    return (
        re.compile(rf"\.\s*({word})\b"),
        re.compile(rf"\s*(?:'{word}'|\"{word}\")\s*,"),
        re.compile(rf"(?<![\w.])({word})\s*=(?!=)"),
    )


def attribute_stores(text: str, masked: str, attribute: str) -> Iterator[TextUse]:
    """Every place that binds ``X.attribute``: kinds "assign", "augment", "annotate", "unpack", "bind", "setattr"."""
    access, literal, _ = _named(attribute)
    for match in access.finditer(masked):
        end = _skip_back(masked, match.start(), _BLANKS)
        start = _receiver_start(masked, end)
        kind = _store_kind(masked, start, match.end())
        if kind:
            yield match.start(1), _flat(text[start:end]), kind
    for match in _SETATTR.finditer(masked):
        comma = _argument_end(masked, match.end())
        if masked[comma : comma + 1] == "," and literal.match(text, comma + 1) is not None:
            yield match.start(), _flat(text[match.end() : comma]), "setattr"


def keyword_uses(text: str, masked: str, name: str) -> Iterator[TextUse]:
    """Every ``name=`` among the arguments of a call, but for f-strings; with the callee's text; kind "keyword"."""
    for match in _named(name)[2].finditer(masked):
        before = _skip_back(masked, match.start(), _BLANKS)
        if masked[before - 1 : before] not in ("(", ","):
            continue
        bracket = _open_bracket(masked, match.start())
        if bracket < 0 or masked[bracket] != "(":
            continue
        start = _receiver_start(masked, bracket)
        if start < bracket and _HEADER.search(masked[max(0, start - 200) : bracket]) is None:
            yield match.start(1), _flat(text[start:bracket]), "keyword"


def _store_kind(masked: str, start: int, end: int) -> str:
    """How the attribute access at ``masked[start:end]`` is bound; "" where it is only read."""
    assigned = _ASSIGNED.match(masked, end)
    line = masked.rfind("\n", 0, start) + 1
    prefix = masked[line:start]
    if assigned is not None:
        before = prefix.rstrip()[-1:]
        if before in (",", "*"):
            return "unpack"
        # ``x: torch.dtype = y`` binds ``x``; so does a parameter. After ``if c:`` the colon is another one.
        compound = before == ":" and _COMPOUND.match(prefix) is not None and _open_bracket(masked, start, 4_000) < 0
        if before not in ("", ";", "=", "\\") and not compound:
            return ""
        return "augment" if assigned["augmented"] else "assign"
    if _ANNOTATED.match(masked, end) is not None and not prefix.strip():
        # In a display of several lines it is a key; there the line before ends with a comma or a bracket.
        above = _skip_back(masked, line, _BLANKS)
        return "" if masked[above - 1 : above] in ("{", ",", "(", "[") else "annotate"
    after = _AFTER_TARGET.match(masked, end)
    if after is None:
        return ""
    if after[0].endswith(":"):
        return "bind" if _ALIAS.search(prefix) is not None else ""
    return _unpacked(masked, start, end)


def _unpacked(masked: str, start: int, end: int) -> str:
    """The kind of store where the access is one of several targets, or that of a ``for`` or ``as``; "" for a read."""
    depth = 0
    bracket = start
    while True:  # targets may stand in displays, never in calls or subscripts
        outer = _open_bracket(masked, bracket, 4_000)
        if outer < 0:
            break
        before = masked[:outer].rstrip(" \t")
        word = _LAST_WORD.search(before)
        if (
            masked[outer] == "{"
            or (before[-1:] in (")", "]"))
            or (word is not None and word[0] not in _TARGET_KEYWORDS)
        ):
            return ""
        depth += 1
        bracket = outer
    prefix = masked[masked.rfind("\n", 0, bracket) + 1 : bracket]
    if _ALIAS.search(prefix) is not None:
        return "bind"
    loop = _LOOP.search(prefix)
    if loop is None and (_TARGET_TEXT.fullmatch(prefix) is None or _KEYWORD.search(prefix) is not None):
        return ""
    for match in _AFTER.finditer(masked, end):
        token = match[0]
        if token in "([":
            depth += 1
        elif token in ")]":
            depth -= 1
        elif depth:
            if token != "\n":
                return ""
        elif token == "in":
            return "bind" if loop is not None else ""
        else:
            return "unpack" if token == "=" and loop is None else ""
        if depth < 0:
            return ""
    return ""


def _receiver_start(masked: str, end: int) -> int:
    """Where the primary expression (names, dots, calls, subscripts) that ends at ``end`` starts."""
    position = end
    while True:
        position = _skip_back(masked, position, " \t")
        if position == 0:
            return 0
        char = masked[position - 1]
        if char in _CLOSING:
            opening = _open_bracket(masked, position - 1)
            if opening < 0:
                return position
            position = opening
            before = masked[position - 1 : position]
            if before.isalnum() or before in ("_", ")", "]"):
                continue
        elif char.isalnum() or char == "_":
            while position > 0 and (masked[position - 1].isalnum() or masked[position - 1] == "_"):
                position -= 1
        elif char in "\"'":
            return position - 1
        else:
            while masked[position : position + 1] in (" ", "\t"):
                position += 1
            return position
        left = _skip_back(masked, position, _BLANKS)
        if left == 0 or masked[left - 1] != ".":
            return position
        position = _skip_back(masked, left - 1, _BLANKS)


def _skip_back(masked: str, position: int, blanks: str) -> int:
    while position > 0 and masked[position - 1] in blanks:
        position -= 1
    return position


def _open_bracket(masked: str, end: int, reach: int = 50_000) -> int:
    """The offset of the bracket that is open at ``end``, -1 where there is none within ``reach`` characters."""
    depth = 0
    for position in range(end - 1, max(-1, end - reach), -1):
        char = masked[position]
        if char in ")]}":
            depth += 1
        elif char in "([{":
            if not depth:
                return position
            depth -= 1
    return -1


def _argument_end(masked: str, start: int) -> int:
    """The offset of the comma or bracket that ends the argument at ``start``."""
    depth = 0
    for position in range(start, len(masked)):
        char = masked[position]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if not depth:
                return position
            depth -= 1
        elif char == "," and not depth:
            return position
    return len(masked)


def _flat(text: str) -> str:
    return " ".join(text.split())
