"""Edits of released trees are caught, and rewrites that keep the meaning raise nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.mutations.catalogue import OPERATORS, chosen
from tests.mutations.known import reason
from tests.mutations.runner import Laboratory, Result, Running
from tests.mutations.sites import Code

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.release

SHARES = {"0.5.6": (4, 0), "0.5.9": (8, 1), "0.5.14": (32, 3), "0.5.23": (48, 5)}
"""Every n-th operator, from the k-th on, is tried on a release: a scan of a newer one takes several times as long."""

EVERYWHERE = (
    "value: LAST",
    "value: NULL",
    "value: lower if a condition holds",
    "store removed",
    "keyword removed",
    "fork, renamed and lowered",
    "graph records lower",
)
EVERY_SITE = ("value: LAST",)
SMALL = "fixtures/mode-healthy"
"""A small tree, on which every operator is tried."""

QUICK = (
    "value: LAST",
    "graph records lower",
    "lowered on the way by: alias",
    "same value through: local",
)
NAMES = sorted(OPERATORS)


def planned(version: str) -> list[str]:
    step, first = SHARES.get(version, (1, 0))
    return sorted({*NAMES[first::step], *EVERYWHERE})


@dataclass
class Shelf:
    """One laboratory at a time: all mutants of a release are under way as soon as the first is asked for."""

    wanted: dict[str, list[str]]
    version: str = ""
    laboratory: Laboratory | None = None
    running: dict[str, list[Running]] = field(default_factory=dict)

    def results(self, version: str, operator: str) -> list[Result]:
        if self.version != version:
            self.close()
            self.laboratory = Laboratory(str(ROOT / version) if version == SMALL else version)
            assert self.laboratory.baseline.proved, f"{version} unchanged: {self.laboratory.baseline}"
            code = Code(self.laboratory.release, self.laboratory.facts)
            mutants = {
                name: chosen(list(OPERATORS[name](code)), self.count(version, name), turn=NAMES.index(name))
                for name in self.wanted[version]
            }
            everything = [mutant for group in mutants.values() for mutant in group]
            started = dict(zip(map(id, everything), self.laboratory.start(everything), strict=True))
            self.version = version
            self.running = {name: [started[id(mutant)] for mutant in group] for name, group in mutants.items()}
        return [running.result() for running in self.running[operator]]

    def count(self, version: str, operator: str) -> int:
        """How many sites of an operator are tried, 0 being all."""
        if operator not in EVERY_SITE:
            return 1
        return 0 if SHARES.get(version, (1, 0))[0] <= 8 else 4

    def close(self) -> None:
        if self.laboratory is not None:
            self.laboratory.close()
        self.laboratory = None


@pytest.fixture(scope="module")
def shelf(request: pytest.FixtureRequest) -> Iterator[Shelf]:
    wanted: dict[str, list[str]] = {}
    for item in request.session.items:
        given = getattr(item, "callspec", None)
        if given is not None and item.path == request.path and "operator" in given.params:
            wanted.setdefault(given.params["version"], []).append(given.params["operator"])
    found = Shelf(wanted)
    yield found
    found.close()


def judge(results: list[Result]) -> None:
    failures = []
    for result in results:
        why = reason(result.version, result.mutant)
        if why:
            print(f"not judged: {result.mutant.name}: {why}")
        elif result.failed:
            failures.append(f"{result.outcome.value}: {result.mutant.name}\n{result.mutant.snippet}\n{result.said()}")
    assert not failures, "\n\n".join(failures)


def test_a_few_mutants_of_one_release() -> None:
    settings = (("disable_overlap_schedule", True), ("enable_multi_layer_eagle", False))
    laboratory = Laboratory("0.5.9", settings=settings)
    assert laboratory.baseline.proved, laboratory.baseline
    code = Code(laboratory.release, laboratory.facts)
    mutants = [mutant for name in QUICK for mutant in chosen(list(OPERATORS[name](code)), per_operator=1)]
    assert len(mutants) == len(QUICK)
    try:
        judge([running.result() for running in laboratory.start(mutants)])
    finally:
        laboratory.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "operator"), [(version, operator) for version in (SMALL, *SHARES) for operator in planned(version)]
)
def test_mutants(shelf: Shelf, version: str, operator: str) -> None:
    judge(shelf.results(version, operator))
