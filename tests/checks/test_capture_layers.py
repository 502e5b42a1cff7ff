"""What a tree captures for a pair against what the draft was trained on: each kind of trouble is one rule's business."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flowcheck.checks.capture_layers import LAYER_CHECKS, layer_findings, row_ends
from flowcheck.checks.findings import Finding, Verdict
from flowcheck.checks.rules import load_rules
from flowcheck.draft import Pairing, pair
from flowcheck.flow.facts import Path, Phase
from flowcheck.flow.pair_facts import CaptureRow, NoModel, PairFacts, Reach, Repair, Told
from tests.draft.samples import deepseek, draft, target
from tests.report.fakes import MODEL, RUNNER, place, row

RULES = load_rules()
E, V, EAGER, GRAPH = Phase.EXTEND, Phase.VERIFY, Path.EAGER, Path.DECODE_GRAPH


def made(*declared: int, ids: Sequence[int] = (2, 30, 58)) -> Pairing:
    return pair(deepseek(*ids), target("deepseek-v3"), declared=declared or None)


def served(*rows: CaptureRow, **more: object) -> PairFacts:
    return replace(PairFacts("DeepseekV3ForCausalLM", True, rows), **more)  # type: ignore[arg-type]


def ends(facts: PairFacts, pairing: Pairing) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.verdict.value, each.rules) for each in row_ends(facts, pairing, found(facts, pairing))]


def found(facts: PairFacts, pairing: Pairing) -> tuple[Finding, ...]:
    return layer_findings(facts, pairing, RULES)


def test_what_is_captured_as_it_was_trained_is_proved() -> None:
    facts = served(row(E, EAGER, 3, 31, 59), row(V, EAGER, 3, 31, 59), row(V, GRAPH, 3, 31, 59))
    assert found(facts, made(3, 31, 59)) == ()
    assert ends(facts, made(3, 31, 59)) == [("proved", ())] * 3


@pytest.mark.parametrize(
    ("captured", "rule"),
    [
        ((2, 30, 58), "HS201"),
        ((3, 31, 60), "HS201"),
        ((59, 31, 3), "HS201"),
        ((0, 3, 31), "HS203"),
        ((0, 3, 31, 59), "HS203"),
        ((3, 31), "HS202"),
        ((), "HS202"),
    ],
)
def test_other_boundaries_are_one_rules_business(captured: tuple[int, ...], rule: str) -> None:
    facts = served(row(E, EAGER, *captured), row(V, EAGER, *captured))
    (finding,) = found(facts, made(3, 31, 59))
    assert (finding.rule, finding.verdict) == (rule, Verdict.VIOLATED)
    assert finding.place == place(MODEL, 140, symbol="LlamaForCausalLM.set_layers")
    assert len(finding.subjects) == 2, "the same trouble of two paths is one finding"
    assert ends(facts, made(3, 31, 59)) == [("violated", (rule,))] * 2


def test_the_same_captures_are_right_for_one_training_and_wrong_for_another() -> None:
    facts = served(row(E, EAGER, 3, 31, 59))
    assert ends(facts, made(3, 31, 59)) == [("proved", ())]
    assert ends(facts, made(2, 30, 58)) == [("violated", ("HS201",))]


def test_a_training_that_is_open_proves_nothing_and_accuses_nobody_that_may_be_right() -> None:
    open_ = made()
    assert open_.trained.question is not None
    assert ends(served(row(E, EAGER, 3, 31, 59)), open_) == [("unproved", ())]
    assert ends(served(row(E, EAGER, 2, 30, 58)), open_) == [("unproved", ())]
    assert ends(served(row(E, EAGER, 4, 32, 60)), open_) == [("violated", ("HS201",))]


def test_a_head_that_takes_the_last_state_was_not_trained_on_nothing() -> None:
    head = pair(draft("llama-2-7b.hass-eagle1"), target("llama-2-7b-chat"))
    assert ends(served(row(E, EAGER)), head) == [("proved", ())]
    (finding,) = found(served(row(E, EAGER, 2, 16, 29)), head)
    assert finding.rule == "HS201"
    assert finding.message.endswith(
        "boundaries 2, 16, 29, and the draft was trained on the last state after the final norm"
    )
    assert finding.fix == RULES["HS201"].fix_of("last"), "flowcheck ids finds no ids for such a head"
    (beside,) = found(served(row(E, EAGER, 0)), head)
    assert beside.message.endswith("0 instead of the last state after the final norm")


def test_an_embedding_that_the_draft_was_trained_on_has_to_be_captured() -> None:
    facts = served(row(E, EAGER, 3, 31, 59))
    (finding,) = found(facts, made(0, 31, 59))
    assert finding.rule == "HS203"
    assert "not captured" in finding.message


def test_a_graph_that_differs_from_eager_is_told_too_early() -> None:
    later = Told("set_layers", (2, 30, 58), "ids", "", place(RUNNER, 622))
    eager = [row(phase, EAGER, 3, 31, 59, told_at=365, more=(later,)) for phase in (E, V)]
    graph = row(V, GRAPH, 2, 30, 58, told_at=365)
    (finding,) = found(served(*eager, graph), made(3, 31, 59))
    assert (finding.rule, finding.place) == ("HS205", place(RUNNER, 365))
    assert "recorded before" in finding.message
    assert finding.evidence[-1].place == place(RUNNER, 622)
    assert ends(served(*eager, graph), made(3, 31, 59)) == [("proved", ()), ("proved", ()), ("violated", ("HS205",))]


def test_a_graph_and_an_eager_forward_that_differ_cannot_both_be_right() -> None:
    facts = served(row(V, EAGER, 3, 31, 59), row(V, GRAPH, 2, 30, 58))
    assert ends(facts, made()) == [("unproved", ()), ("violated", ("HS205",))]


def test_where_eager_is_wrong_and_the_graph_is_right_eager_is_blamed() -> None:
    facts = served(row(V, EAGER, 2, 30, 58), row(V, GRAPH, 3, 31, 59))
    assert ends(facts, made(3, 31, 59)) == [("violated", ("HS201",)), ("proved", ())]


def test_a_graph_is_compared_with_eager_under_its_own_condition() -> None:
    on, off = "fusion is true", "fusion is false"
    facts = served(
        row(V, EAGER, 3, 31, 59, condition=on),
        row(V, EAGER, 2, 30, 58, condition=off),
        row(V, GRAPH, 2, 30, 58, condition=off),
    )
    assert [rules for _, rules in ends(facts, made(3, 31, 59))] == [(), ("HS201",), ("HS201",)]


def test_extend_and_verify_that_differ_are_a_finding() -> None:
    facts = served(row(E, EAGER, 3, 31, 59), row(V, EAGER, 2, 30, 58))
    assert "HS205" in {each.rule for each in found(facts, made(3, 31, 59))}
    assert [verdict for verdict, _ in ends(facts, made(3, 31, 59))] == ["proved", "violated"]


@pytest.mark.parametrize(("reach", "rule"), [(Reach.PARTIAL, "HS209"), (Reach.SCATTERED, "HS210")])
def test_the_right_boundaries_in_parts_are_wrong(reach: Reach, rule: str) -> None:
    facts = served(row(E, EAGER, 3, 31, 59, reach=reach), row(V, EAGER, 3, 31, 59))
    (finding,) = found(facts, made(3, 31, 59))
    assert (finding.rule, finding.place) == (rule, place(MODEL, 88))
    assert ends(facts, made(3, 31, 59)) == [("violated", (rule,)), ("proved", ())]


def test_the_right_boundaries_with_rows_of_others_are_wrong() -> None:
    gathered = row(E, EAGER, 3, 31, 59)
    gathered = replace(gathered, states=tuple(replace(x, rows="rows of all ranks of tp") for x in gathered.states))
    (finding,) = found(served(gathered), made(3, 31, 59))
    assert (finding.rule, finding.place) == ("HS210", place(MODEL, 88))
    assert "rows of all ranks of tp" in finding.message
    assert ends(served(gathered), made(3, 31, 59)) == [("violated", ("HS210",))]


def test_a_graph_is_not_compared_with_an_eager_forward_that_is_not_known() -> None:
    unknown = row(V, EAGER, 3, None, 59, reason="? an unknown kernel")
    graph = row(V, GRAPH, 2, 30, 58)
    assert ends(served(unknown, graph), made(3, 31, 59)) == [("unproved", ("HS219",)), ("violated", ("HS201",))]
    known = replace(row(V, EAGER, 3, 31, 59), batch=">4096 tok")
    found_ = found(served(replace(unknown, batch="<=4096 tok"), known, graph), made(3, 31, 59))
    (differs,) = (each for each in found_ if each.rule == "HS205")
    assert "3, 31, 59" in differs.message
    assert "?" not in differs.message


def test_other_boundaries_in_parts_are_two_findings() -> None:
    facts = served(row(E, EAGER, 2, 30, 58, reach=Reach.PARTIAL))
    assert ends(facts, made(3, 31, 59)) == [("violated", ("HS201", "HS209"))]


def test_a_setter_that_raises_is_the_draft_asking_for_what_is_not_there() -> None:
    facts = served(row(E, EAGER, raised="IndexError", in_setter=True))
    (finding,) = found(facts, made(3, 31, 61))
    assert (finding.rule, finding.place) == ("HS202", place(MODEL, 141))
    assert "IndexError" in finding.message


def test_a_forward_that_raises_is_no_proof() -> None:
    assert ends(served(row(E, EAGER, raised="TypeError")), made(3, 31, 59)) == [("violated", ("HS201",))]


def test_what_is_not_known_is_unproved_whatever_the_rest_says() -> None:
    for unknown in (
        row(E, EAGER, question="a budget ran out"),
        row(E, EAGER, 3, None, 59, reason="? an unknown kernel"),
    ):
        assert ends(served(unknown), made(3, 31, 59)) == [("unproved", ("HS219",))]


def test_a_state_that_certainly_is_no_boundary_is_named() -> None:
    facts = served(row(E, EAGER, 3, None, 59, reason="contributions without the residual"))
    (finding,) = found(facts, made(3, 31, 59))
    assert (finding.rule, finding.place) == ("HS201", place(MODEL, 88))
    assert "without the residual" in finding.message


@pytest.mark.parametrize("left", [None, 32], ids=["no-boundary", "another-one"])
def test_a_state_that_is_written_over_after_its_capture_is_named_by_what_it_was(left: int | None) -> None:
    kept = row(E, EAGER, 3, left, 59, reason="contributions without the residual")
    first, second, third = kept.states
    lost = replace(second, overwritten=place(MODEL, 95), meant=31)
    facts = served(replace(kept, states=(first, lost, third)), repair=Repair((3, 31, 59), (), "none does"))
    (finding,) = found(facts, made(3, 31, 59))
    assert (finding.rule, finding.place) == ("HS201", place(MODEL, 88))
    assert "boundary 31" in finding.message
    assert "overwritten" in finding.message
    assert any(step.place == place(MODEL, 95) for step in finding.evidence)
    assert "copy" in finding.fix.lower()


def test_a_target_without_the_method_is_violated_and_one_that_is_not_registered_is_open() -> None:
    hookless = NoModel("A", "A", "set_layers", "A has no set_layers", place(MODEL, 7), ("language_model",))
    (finding,) = found(served(missing=hookless), made(3, 31, 59))
    assert (finding.rule, finding.verdict, finding.place) == ("HS204", Verdict.VIOLATED, place(MODEL, 7))
    assert "language_model" in finding.message
    unknown = NoModel("A", "", "set_layers", "this tree registers no model class for A", None)
    (finding,) = found(served(missing=unknown), made(3, 31, 59))
    assert (finding.rule, finding.verdict) == ("HS204", Verdict.UNPROVED)


def test_the_fix_names_ids_that_are_right_or_says_that_there_are_none() -> None:
    wrong = row(E, EAGER, 2, 30, 58)
    (finding,) = found(served(wrong, repair=Repair((3, 31, 59), (2, 30, 58))), made(3, 31, 59))
    assert "[2, 30, 58]" in finding.fix
    (finding,) = found(
        served(wrong, repair=Repair((3, 31, 61), (), "boundary 61 is captured for no id")), made(3, 31, 61)
    )
    assert "61 is captured for no id" in finding.fix


def test_every_finding_is_worded_by_its_rule() -> None:
    assert set(LAYER_CHECKS) <= {rule.id for rule in RULES}
    for facts in (
        served(row(E, EAGER, 2, 30, 58)),
        served(open="no scheduler"),
        served(row(E, EAGER, 3, 31, 59, reach=Reach.PARTIAL)),
    ):
        for finding in found(facts, made(3, 31, 59)):
            assert "{" not in finding.message + finding.fix
            assert finding.fix.strip()
