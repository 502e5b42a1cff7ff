"""Edits of the healthy fixture on the way from the worker to the logits processor: the harmful ones are caught at the
guilty line, those that keep the meaning stay proved. CPython runs every tree too, and has the last word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.broken import BROKEN
from tests.flow.broken_ways import HARD
from tests.flow.edits import Case
from tests.flow.rewrites import HEALTHY_REWRITES
from tests.flow.trees import QUESTIONS, Answer, Truth, marks, scan, truths, write

HARMFUL = (*BROKEN, *HARD)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Answer]:
    """The scans that were made, by case."""
    del tmp_path_factory
    return {}


@pytest.fixture(scope="module")
def concrete(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Truth]:
    """What CPython says about every case that it can run."""
    cases = [case for case in (*HARMFUL, *HEALTHY_REWRITES) if case.runs]
    roots = [write(tmp_path_factory.mktemp("concrete"), case.files) for case in cases]
    found = truths([(root, case.settings) for root, case in zip(roots, cases, strict=True)])
    return {id(case): truth for case, truth in zip(cases, found, strict=True)}


def answer_of(case: Case, answers: dict[int, Answer], folder: Path) -> Answer:
    if id(case) not in answers:
        answers[id(case)] = scan(write(folder, case.files))
    return answers[id(case)]


@pytest.mark.parametrize("case", HARMFUL, ids=lambda case: case.name)
def test_a_harmful_edit_is_caught(case: Case, answers: dict[int, Answer], tmp_path: Path) -> None:
    answer = answer_of(case, answers, tmp_path)
    marked = marks(case.files)
    assert answer.rules - case.also == (case.rules or {rule for rule, _, _ in marked}) - case.also, str(answer)
    assert answer.rules, str(answer)
    assert marked <= answer.places, str(answer)
    assert set(case.workers) <= set(answer.facts.workers), str(answer)


@pytest.mark.parametrize("case", [case for case in HARMFUL if case.condition], ids=lambda case: case.name)
def test_a_finding_says_when_it_holds(case: Case, answers: dict[int, Answer], tmp_path: Path) -> None:
    answer = answer_of(case, answers, tmp_path)
    assert any(case.condition in condition for condition in answer.conditions), answer.conditions


@pytest.mark.parametrize("case", [case for case in HARMFUL if case.runs], ids=lambda case: case.name)
def test_nothing_is_proved_that_cpython_refutes(
    case: Case, answers: dict[int, Answer], concrete: dict[int, Truth], tmp_path: Path
) -> None:
    truth = concrete[id(case)]
    assert not truth.healthy or case.name == "the-graph-refuses-what-it-did-not-record"
    answer = answer_of(case, answers, tmp_path)
    assert not truth.broken & answer.proved, f"CPython broke {sorted(truth.broken)}\n{answer}"


@pytest.mark.parametrize("case", HEALTHY_REWRITES, ids=lambda case: case.name)
def test_a_rewrite_that_keeps_the_meaning_stays_proved(
    case: Case, answers: dict[int, Answer], concrete: dict[int, Truth], tmp_path: Path
) -> None:
    if case.runs:
        assert concrete[id(case)] == Truth(QUESTIONS, set(), ())
    answer = answer_of(case, answers, tmp_path)
    assert answer.findings == (), str(answer)
    assert answer.proved == QUESTIONS
    assert answer.facts.workers == case.workers
