"""All operators, and which of their mutants are scanned."""

from __future__ import annotations

from collections.abc import Sequence

from tests.mutations.forks import FORKS
from tests.mutations.harmful import HARMFUL
from tests.mutations.harmless import HARMLESS
from tests.mutations.operators import Maker
from tests.mutations.runner import Laboratory, Mutant
from tests.mutations.sites import Code

__all__ = ["OPERATORS", "chosen", "mutants_of"]

OPERATORS: dict[str, Maker] = {**HARMFUL, **HARMLESS, **FORKS}


def mutants_of(laboratory: Laboratory) -> list[Mutant]:
    """Every mutant that the operators find in a release."""
    code = Code(laboratory.release, laboratory.facts)
    found: list[Mutant] = []
    for maker in OPERATORS.values():
        found += maker(code)
    return found


def chosen(mutants: Sequence[Mutant], per_operator: int = 0, limit: int = 0, turn: int = 0) -> list[Mutant]:
    """A choice that is the same at each run and spreads over the sites.

    The k-th operator, counted from ``turn``, takes its sites from the k-th on: few operators together cover all sites.
    """
    groups: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        groups.setdefault(mutant.operator, []).append(mutant)
    kept: list[Mutant] = []
    for k, group in enumerate(groups.values(), turn):
        count = min(per_operator, len(group)) if per_operator else len(group)
        step = max(1, len(group) // count)
        kept += [group[(k + i * step) % len(group)] for i in range(count)]
    if limit and len(kept) > limit:
        kept = [kept[i * len(kept) // limit] for i in range(limit)]
    return kept
