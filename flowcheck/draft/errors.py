"""What can go wrong with a pair, in the user's words."""

from __future__ import annotations

__all__ = ["BoundariesError", "ConfigError", "DraftError", "HeaderError", "HubError", "LaunchError", "ManifestError"]


class DraftError(Exception):
    """Unreadable input or bad usage; ``str(error)`` is one clear line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


class ConfigError(DraftError):
    """A draft or target whose configuration cannot be read or used."""


class HeaderError(DraftError):
    """A checkpoint whose header is damaged or lies."""


class HubError(DraftError):
    """Something that had to come from the hub and did not."""


class BoundariesError(DraftError):
    """Trained boundaries that cannot be those of the pair."""


class ManifestError(DraftError):
    """A frozen pair that cannot be written, found or believed."""


class LaunchError(DraftError):
    """A launch script in which no single launch command can be found."""


def one_line(text: str) -> str:
    """``text`` on one line that any terminal can print: what is not printable is escaped."""
    flat = " ".join(text.split())
    if flat.isprintable():
        return flat
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in flat)


def shown(value: object, *, limit: int = 60) -> str:
    """A value that somebody wrote, as a message quotes it: short, and with the name of its type in JSON."""
    text = repr(value) if not isinstance(value, (dict, list)) else _listed(value)
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return f"{short} ({kind_of(value)})"


def kind_of(value: object) -> str:
    """What JSON calls the type of ``value``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return {int: "an integer", float: "a float", str: "a string"}.get(type(value), type(value).__name__)


def _listed(value: dict[str, object] | list[object]) -> str:
    """A container without its depths: only the scalars of a list are spelled."""
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    shallow = [
        "[…]" if isinstance(each, list) else "{…}" if isinstance(each, dict) else repr(each) for each in value[:8]
    ]
    return f"[{', '.join(shallow)}{', …' if len(value) > 8 else ''}]"


def counted(number: int, one: str, many: str | None = None) -> str:
    """``3 layers``, ``1 layer``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def spelled(ids: tuple[int, ...] | list[int], *, limit: int = 12) -> str:
    """Ids as people write them: ``[2, 30, 58]``. A number that nobody can read is cut, as is a long list."""
    parts = [_digits(each) for each in ids[:limit]]
    return f"[{', '.join(parts)}{', …' if len(ids) > limit else ''}]"


def _digits(number: int) -> str:
    if -(10**15) < number < 10**15:
        return str(number)
    return f"a number of {abs(number).bit_length()} bits"
