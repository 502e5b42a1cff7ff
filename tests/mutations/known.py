"""Mutants that are not judged as their operator says, each with the reason. The runs print them."""

from __future__ import annotations

from tests.mutations.runner import Mutant

__all__ = ["KNOWN", "reason"]

KNOWN: dict[tuple[str, str, str], str] = {}
"""(operator, release, end of the path) -> why the scan's answer is right, or what it cannot know."""


def reason(version: str, mutant: Mutant) -> str:
    """Why this mutant is not judged; "" if it is."""
    for (operator, release, path), why in KNOWN.items():
        if mutant.operator == operator and version == release and mutant.path.endswith(path):
            return why
    return ""
