"""What a literal's text means: numbers, strings, bytes.

Owns the evaluation of literal tokens, so that it depends neither on the host's Python (``ast.literal_eval`` warns on
escapes that older releases accepted, and refuses strings that newer ones accept) nor on libcst.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["number", "string_prefix", "unescape", "unescape_bytes"]

_SIMPLE = {
    "\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|N\{([^{}]+)\}|(.))", re.DOTALL
)
_BYTES_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)


def number(text: str) -> int | float | complex:
    """The value of a number's text, e.g. ``0x_ff``, ``1e-5``, ``3j``. Raises ValueError where Python refuses it."""
    text = text.replace("_", "")
    if text[-1] in "jJ":
        return complex(0.0, float(text[:-1]))
    lowered = text.lower()
    if lowered.startswith(("0x", "0o", "0b")):
        return int(lowered, 0)
    if any(mark in lowered for mark in ".e"):
        return float(text)
    return int(text, 10)


def string_prefix(text: str) -> tuple[str, str]:
    """A string token's prefix in lower case and its content without quotes: ``Rb'''x'''`` is ``("rb", "x")``."""
    start = 0
    while text[start] not in "'\"":
        start += 1
    quote = text[start]
    width = 3 if text.startswith(quote * 3, start) and len(text) >= start + 6 else 1
    return text[:start].lower(), text[start + width : len(text) - width]


def unescape(content: str) -> str:
    """The value of a string's content with backslash escapes. Raises ValueError for an unknown character name."""
    if "\\" not in content:
        return content
    return _ESCAPE.sub(_escaped, content)


def _escaped(match: re.Match[str]) -> str:
    octal, hexadecimal, short, long, name, other = match.groups()
    if octal is not None:
        return chr(int(octal, 8))
    if name is not None:
        try:
            return unicodedata.lookup(name)
        except KeyError as error:
            raise ValueError(f"unknown character name {name!r}") from error
    if other is not None:
        return _SIMPLE.get(other, "\\" + other)
    return chr(int(hexadecimal or short or long, 16))


def unescape_bytes(content: str) -> bytes:
    """The value of a bytes literal's content with backslash escapes. Raises ValueError for a non-ASCII character."""
    if "\\" in content:
        content = _BYTES_ESCAPE.sub(_escaped_byte, content)
    return content.encode("latin-1")


def _escaped_byte(match: re.Match[str]) -> str:
    octal, hexadecimal, other = match.groups()
    if octal is not None:
        return chr(int(octal, 8) & 0xFF)
    if hexadecimal is not None:
        return chr(int(hexadecimal, 16))
    return _SIMPLE.get(other, "\\" + other)
