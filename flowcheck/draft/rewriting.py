"""The same draft with other layer ids: its configuration as it would be if somebody wrote them under a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowcheck.draft.config import DraftConfig, draft_from
from flowcheck.draft.conventions import ID_KEYS

__all__ = ["keyed", "snippet", "with_ids"]


def keyed(states: int) -> dict[str, tuple[int, ...]]:
    """Ids for every key that some engine reads, other ones under each: which of them a tree takes tells its key.

    All of them are small, so that every target has these layers.
    """
    keys = [each.path for each in reversed(ID_KEYS) if each.engines]
    return {key: tuple(range(number, number + states)) for number, key in enumerate(keys, start=1)}


def with_ids(draft: DraftConfig, ids: Mapping[str, Sequence[int]]) -> DraftConfig:
    """The draft with these ids, by key (dots lead into objects); whatever else it writes stays."""
    raw: dict[str, Any] = dict(draft.raw)
    for key, numbers in ids.items():
        _write(raw, key.split("."), list(numbers))
    return replace(draft_from(raw, draft.label), label=draft.label)


def snippet(draft: DraftConfig, key: str, ids: Sequence[int]) -> dict[str, Any]:
    """What to put into the draft's configuration: the whole object that holds the key, so that nothing else of it is lost."""
    first, *rest = key.split(".")
    part = {first: draft.raw[first]} if rest and isinstance(draft.raw.get(first), Mapping) else {}
    _write(part, [first, *rest], list(ids))
    return part


def _write(place: dict[str, Any], path: Sequence[str], ids: list[int]) -> None:
    first, *rest = path
    if not rest:
        place[first] = ids
        return
    inside = place.get(first)
    place[first] = dict(inside) if isinstance(inside, Mapping) else {}
    _write(place[first], rest, ids)
