"""What is known going in is known coming out: one small program for each construct, no join and no loss."""

from __future__ import annotations

import pytest

from tests.interp.harness import check, check_exact
from tests.interp.programs import PROGRAMS

# A module's own variables hold whatever any function of the module may store in them, and a key that is compared by a
# method of the tree is looked up by nobody: these are covered, not known.
VAGUE = ("global", "equality", "frozen-dataclass")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in VAGUE])
def test_known_inputs_give_the_concrete_outcome(name: str) -> None:
    check_exact(PROGRAMS[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_free_inputs_cover_every_concrete_outcome(name: str) -> None:
    check(PROGRAMS[name])
