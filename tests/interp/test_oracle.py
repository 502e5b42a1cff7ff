"""Generated programs: what CPython does lies in what the interpreter says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.interp.harness import check
from tests.interp.strategies import (
    Classes,
    Closures,
    Conditions,
    Control,
    DataModel,
    Exceptions,
    Heap,
    Unknowns,
    Writer,
    programs,
)

PARTS: dict[str, type[Writer]] = {
    "control": Control, "heap": Heap, "exceptions": Exceptions, "classes": Classes, "data model": DataModel,
    "unknown loops": Unknowns, "conditions": Conditions, "closures": Closures,
}  # fmt: skip
FEW = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
MANY = settings(FEW, max_examples=2_000)


@pytest.mark.parametrize("part", PARTS)
def test_concrete_outcomes_are_covered(part: str) -> None:
    search(part, FEW)


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
def test_many_more_concrete_outcomes_are_covered(part: str) -> None:
    search(part, MANY)


def search(part: str, how: settings) -> None:
    @how
    @given(st.data())
    def run(data: Any) -> None:
        check(data.draw(programs(PARTS[part])))

    run()
