"""Generated programs: what CPython does lies in what the interpreter says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.interp.harness import check, reduced
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
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
MANY = settings(FEW, max_examples=500)


@pytest.mark.parametrize("part", PARTS)
def test_concrete_outcomes_are_covered(part: str) -> None:
    search(part, FEW)


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
def test_many_more_concrete_outcomes_are_covered(part: str) -> None:
    search(part, MANY)


def search(part: str, how: settings) -> None:
    found: list[str] = []

    @how
    @given(st.data())
    def run(data: Any) -> None:
        found.append(data.draw(programs(PARTS[part])))
        check(found[-1])

    try:
        run()
    except AssertionError:
        check(reduced(found[-1]))  # the same failure, in fewer lines
        raise
