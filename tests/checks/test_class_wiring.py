"""What runs of a class prove: nothing that was not seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowcheck.checks.class_wiring import class_ends
from flowcheck.checks.findings import Question, Verdict
from flowcheck.flow.class_facts import ClassFacts, ClassRun, Purpose, TargetClass
from flowcheck.flow.pair_facts import Ids, Reach, State

CLASS = TargetClass("Model", None, "set_layers", None)


def state(boundary: int) -> State:
    return State(boundary, Reach.COMPLETE, False, True, "", "all rows", "64", None, None)


def run(purpose: Purpose, told: tuple[Ids, ...], boundaries: tuple[int, ...], deployment: str = "") -> ClassRun:
    states = tuple(map(state, boundaries))
    width = str(64 * len(states))
    return ClassRun(purpose, deployment, "extend", 8, told, states, len(states), width, None, None)


INNER = run(Purpose.INNER, ((1, 2),), (2, 3))
VERIFY = replace(INNER, phase="verify")
AGAIN = run(Purpose.AGAIN, ((1,), (1, 2)), (2, 3))
DEFAULT = run(Purpose.DEFAULT, (None,), (2, 4))
LAST = run(Purpose.LAST, ((1, 7),), (2, 8))
SHARED = run(Purpose.INNER, ((1, 2),), (2, 3), "DP attention")
RUNS = (INNER, VERIFY, AGAIN, DEFAULT, LAST, SHARED)
LOST = replace(state(2), boundary=None, certain=False, reason="who knows")


def verdicts(*runs: ClassRun) -> dict[Question, Verdict | None]:
    (end,) = class_ends([ClassFacts(CLASS, runs, 1)])
    return {question: end.verdict(question) for question in Question}


def without(one: ClassRun, other: ClassRun) -> tuple[ClassRun, ...]:
    return tuple(other if each is one else each for each in RUNS)


def test_runs_that_show_everything_prove_everything() -> None:
    assert set(verdicts(*RUNS).values()) == {Verdict.PROVED}


@pytest.mark.parametrize(
    ("one", "question"),
    [
        (VERIFY, Question.PATHS),
        (AGAIN, Question.READ),
        (DEFAULT, Question.SAME),
        (LAST, Question.ENDS),
        (SHARED, Question.SUMS),
        (SHARED, Question.ROWS),
    ],
)
def test_a_run_of_which_something_is_not_known_proves_nothing(one: ClassRun, question: Question) -> None:
    unsure = replace(one, states=(LOST, *one.states[1:]))
    assert verdicts(*without(one, unsure))[question] is Verdict.UNPROVED
    stopped = replace(one, states=(), question="more steps than there are")
    assert verdicts(*without(one, stopped))[question] is Verdict.UNPROVED


@pytest.mark.parametrize("question", [Question.SUMS, Question.ROWS])
def test_a_deployment_under_which_a_forward_raises_is_open(question: Question) -> None:
    raising = replace(SHARED, states=(), raised="TypeError")
    assert verdicts(*without(SHARED, raising))[question] is Verdict.UNPROVED
    refused = replace(raising, deliberate=True)
    assert verdicts(*without(SHARED, refused))[question] is Verdict.PROVED


def test_a_width_that_is_not_known_is_open() -> None:
    wide = replace(INNER, states=tuple(replace(each, width="?") for each in INNER.states))
    assert verdicts(*without(INNER, wide))[Question.AUX] is Verdict.UNPROVED


def test_what_a_class_may_compute_is_open() -> None:
    for computed, verdict in ((True, Verdict.UNPROVED), (False, Verdict.VIOLATED)):
        cls = replace(CLASS, lacks=("get_embed",), computed=computed)
        (end,) = class_ends([ClassFacts(cls, RUNS, 1)])
        assert end.verdict(Question.HOOK) is verdict


def test_a_deployment_that_a_class_is_not_made_for_is_not_asked_and_named() -> None:
    partial = tuple(replace(each, reach=Reach.PARTIAL) for each in SHARED.states)
    asked = without(SHARED, replace(SHARED, states=partial))
    assert verdicts(*asked)[Question.SUMS] is Verdict.VIOLATED
    unfit = without(SHARED, replace(SHARED, states=partial, unfit="its sums are never completed"))
    (end,) = class_ends([ClassFacts(CLASS, unfit, 1)])
    assert end.verdict(Question.SUMS) is Verdict.PROVED
    assert end.left == (("DP attention", "its sums are never completed"),)


def test_a_deployment_that_the_tree_refuses_is_named() -> None:
    refused = without(SHARED, replace(SHARED, states=(), raised="ValueError", deliberate=True))
    (end,) = class_ends([ClassFacts(CLASS, refused, 1)])
    assert end.left == (("DP attention", "the tree refuses it: ValueError is raised"),)
