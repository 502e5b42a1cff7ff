"""``--set key=value``: facts of a deployment, as Python values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union

from flowcheck.cli.errors import InputError

__all__ = ["Value", "parse_settings"]

Value = Union[bool, int, float, str, None]

WORDS: dict[str, Value] = {
    **dict.fromkeys(("true", "on", "yes"), True),
    **dict.fromkeys(("false", "off", "no"), False),
    **dict.fromkeys(("none", "null")),
}


def parse_settings(given: Iterable[str]) -> dict[str, Value]:
    """Settings by name. Dashes in a name read as underscores, as in a launch command; a value in quotes is text, which
    may be empty. Raises InputError."""
    settings: dict[str, Value] = {}
    for each in given:
        key, equals, value = each.partition("=")
        value = value.strip()
        name = key.strip().removeprefix("--").replace("-", "_")
        if not equals or not name.isidentifier():
            raise InputError(f"--set {each}: expected key=value, as in --set dp_size=2")
        if not value:
            raise InputError(f"--set {each}: no value is given; an empty text is written \"{name}=''\"")
        if name in settings and settings[name] != _value(value):
            raise InputError(f"--set {each}: {name} is set to {settings[name]!r} already")
        settings[name] = _value(value)
    return settings


def _value(text: str) -> Value:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
