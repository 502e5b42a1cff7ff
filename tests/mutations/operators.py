"""What all operators share."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.mutations.overlay import Changes
from tests.mutations.runner import Expect, Mutant
from tests.mutations.sites import Code, Site
from tests.mutations.text import Draft, NoSuchEdit

__all__ = ["Made", "Maker", "at", "changes_of", "edit"]

Maker = Callable[[Code], Iterator[Mutant]]
"""Finds its places in the release by itself, and gives a mutant for each."""

Made = tuple[Changes, str]


@contextmanager
def edit() -> Iterator[list[Made]]:
    """Collects what an edit makes: nothing where it cannot be made."""
    made: list[Made] = []
    try:
        yield made
    except NoSuchEdit:
        made.clear()


def changes_of(draft: Draft) -> Made:
    """What a draft changes, and its diff without context."""
    files = draft.changed()
    lines: list[str] = []
    known = set(draft.release.paths)
    for path, data in files.items():
        before = draft.release.text(path).splitlines() if path in known else []
        for line in difflib.unified_diff(before, data.decode().splitlines(), lineterm="", n=0):
            if not line.startswith(("---", "+++", "@@")):
                lines.append(line)
    if not lines:
        raise NoSuchEdit("changes nothing")
    return Changes(files), "\n".join(lines)


def at(name: str, expect: Expect, site: Site, made: Made) -> Mutant:
    changes, snippet = made
    return Mutant(name, expect, site.path, site.line, snippet, changes, site.settings)
