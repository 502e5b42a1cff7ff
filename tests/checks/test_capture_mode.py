from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck.checks.capture_mode import diagnose
from flowcheck.checks.findings import Finding, Verdict
from flowcheck.checks.rules import Severity
from flowcheck.checks.run import run_checks, verdicts
from flowcheck.flow.facts import Facts, Flow, Mode, Open, Path, Phase
from tests.report.fakes import BATCH, GRAPH, LOGITS, RULES, WORKER, carried, facts, flow, healthy, mode, place

UNKNOWN = mode("unknown", (WORKER, 500, "read from a file"), reason="a file decides")


def check(*flows: Flow, **more: object) -> tuple[Finding, ...]:
    """Findings about these flows alone: what is missing beside them is made up for."""
    known = facts(*flows, **more)  # type: ignore[arg-type]
    return run_checks(Facts(flows=(*flows, *healthy("Elsewhere")), open=known.open, assumptions=(), workers=()), RULES)


def rule_ids(*flows: Flow) -> list[str]:
    return [finding.rule for finding in check(*flows)]


def test_full_everywhere_is_proved_without_findings() -> None:
    known = facts(*healthy())
    found = run_checks(known, RULES)
    assert found == ()
    ends = verdicts(known, found)
    assert ends.flows == (Verdict.PROVED,) * 3
    assert (ends.proved, ends.violated, ends.unproved) == (3, 0, 0)


@pytest.mark.parametrize("member", ["LAST", "NULL"])
@pytest.mark.parametrize("path", [Path.EAGER, Path.DECODE_GRAPH])
@pytest.mark.parametrize(("phase", "rule"), [(Phase.EXTEND, "HS101"), (Phase.VERIFY, "HS102")])
def test_a_low_request_is_blamed_where_it_is_made(phase: Phase, rule: str, path: Path, member: str) -> None:
    (finding,) = check(flow(phase, path, asked=[carried(member, WORKER, 77)]))
    assert finding.rule == rule
    assert finding.verdict is Verdict.VIOLATED
    assert finding.place is not None
    assert (finding.place.path, finding.place.span.line) == (WORKER, 77)
    assert member in finding.message


def test_one_low_alternative_among_full_ones_is_enough() -> None:
    assert rule_ids(flow(asked=[carried("FULL", WORKER, 372), carried("LAST", WORKER, 380)])) == ["HS101"]


def test_a_mode_that_changes_on_the_way_is_lost_where_its_chain_ends() -> None:
    lost = mode("NULL", (LOGITS, 88, "default of the field"), (LOGITS, 118, "metadata made without the mode"))
    (finding,) = check(flow(Phase.VERIFY, reached=[lost]))
    assert finding.rule == "HS103"
    assert finding.place is not None
    assert finding.place.span.line == 118
    assert "asks for FULL" in finding.message
    assert "NULL" in finding.message


@pytest.mark.parametrize(("member", "words"), [("None", "ends as None"), ("unset", "never set")])
@pytest.mark.parametrize("path", [Path.EAGER, Path.PREFILL_GRAPH])
def test_a_mode_that_ends_as_nothing_is_lost(path: Path, member: str, words: str) -> None:
    (finding,) = check(flow(path=path, asked=[mode(member, (BATCH, 40, "the field's default"))]))
    assert finding.rule == "HS103"
    assert words in finding.message


def test_none_that_the_tree_reads_as_null_is_blamed_on_the_none() -> None:
    found = check(flow(asked=[mode("None", (BATCH, 40, "default"))], reached=[mode("NULL", (LOGITS, 90, "or NULL"))]))
    assert [(each.rule, each.place and each.place.span.line) for each in found] == [("HS103", 40)]


def test_a_low_request_that_a_callee_raises_to_full_is_proved() -> None:
    raised = flow(asked=[carried("LAST", WORKER, 1)], reached=[carried("FULL", LOGITS, 2)])
    assert diagnose(raised) == ()


@pytest.mark.parametrize("recorded", ["LAST", "NULL", "None"])
def test_a_graph_recorded_lower_than_asked_is_blamed_where_the_recording_is_decided(recorded: str) -> None:
    (finding,) = check(flow(Phase.VERIFY, Path.DECODE_GRAPH, reached=[mode(recorded, (GRAPH, 265, "recorded"))]))
    assert finding.rule == "HS104"
    assert finding.severity is Severity.ERROR
    assert finding.place is not None
    assert (finding.place.path, finding.place.span.line) == (GRAPH, 265)
    assert finding.evidence[-1].note == "the replayed batch asks for FULL"


def test_a_graph_that_the_tree_refuses_to_replay_weighs_less() -> None:
    recorded = mode("NULL", (GRAPH, 227, "starts with NULL"))
    (finding,) = check(flow(path=Path.PREFILL_GRAPH, reached=[recorded], replay_guard=True))
    assert finding.rule == "HS104"
    assert finding.verdict is Verdict.VIOLATED
    assert finding.severity is Severity.WARNING
    assert "can replay" in finding.message


def test_a_graph_recorded_as_low_as_its_low_batch_is_one_root_cause() -> None:
    low = flow(
        Phase.VERIFY, Path.DECODE_GRAPH, asked=[carried("LAST", WORKER, 1)], reached=[mode("LAST", (GRAPH, 2, ""))]
    )
    assert rule_ids(low) == ["HS102"]


@pytest.mark.parametrize(
    "doubtful",
    [
        flow(reached=[UNKNOWN]),
        flow(reached=[]),
        flow(reached=[mode("AUX", (WORKER, 3, "a fork's own member"))]),
        flow(path=Path.DECODE_GRAPH, asked=[UNKNOWN]),
        flow(path=Path.DECODE_GRAPH, asked=[]),
        flow(path=Path.DECODE_GRAPH, reached=[UNKNOWN]),
        flow(path=Path.DECODE_GRAPH, reached=[]),
        flow(path=Path.DECODE_GRAPH, reached=[mode("AUX", (GRAPH, 3, ""))]),
    ],
)
def test_what_is_not_known_is_unproved(doubtful: Flow) -> None:
    (finding,) = check(doubtful)
    assert finding.rule == "HS109"
    assert finding.verdict is Verdict.UNPROVED


def test_the_reason_of_an_unknown_is_said() -> None:
    (finding,) = check(flow(reached=[UNKNOWN]))
    assert "a file decides" in finding.message
    assert finding.place is not None
    assert finding.place.span.line == 500


def test_a_violation_beside_an_unknown_is_still_a_violation() -> None:
    both = flow(asked=[carried("LAST", WORKER, 9), UNKNOWN])
    known = facts(both, *healthy("Elsewhere"))
    found = run_checks(known, RULES)
    assert [finding.rule for finding in found] == ["HS101", "HS109"]
    assert verdicts(known, found).flows[0] is Verdict.VIOLATED


@pytest.mark.parametrize(
    "silent",
    [
        flow(Phase.IDLE, asked=[carried("NULL", WORKER, 1)]),
        flow(Phase.OTHER, asked=[carried("LAST", WORKER, 1)]),
        flow(Phase.EXTEND, asked=[carried("NULL", WORKER, 1)], consumed=False),
    ],
)
def test_forwards_that_do_not_feed_the_draft_are_no_question(silent: Flow) -> None:
    known = facts(silent, *healthy())
    found = run_checks(known, RULES)
    assert found == ()
    ends = verdicts(known, found)
    assert ends.flows[0] is None
    assert ends.proved == 3


def test_one_root_cause_on_several_paths_and_workers_is_one_finding() -> None:
    cause = carried("LAST", WORKER, 372)
    flows = [
        flow(Phase.EXTEND, path, worker, asked=[cause])
        for path in (Path.EAGER, Path.PREFILL_GRAPH)
        for worker in ("EAGLEWorker", "MultiLayerEagleWorker")
    ]
    (finding,) = check(*flows)
    assert finding.rule == "HS101"
    assert finding.subjects == tuple(flows)


def test_two_sites_are_two_findings() -> None:
    assert rule_ids(flow(asked=[carried("LAST", WORKER, 1)]), flow(asked=[carried("LAST", WORKER, 2)])) == [
        "HS101",
        "HS101",
    ]


def open_(kind: str, phase: Phase | None = Phase.VERIFY, worker: str = "EAGLEWorker") -> Open:
    return Open(
        "does verify return", "NotImplementedError is raised", place(WORKER, 600), kind, phase, Path.EAGER, worker
    )


@pytest.mark.parametrize(("phase", "rule"), [(Phase.EXTEND, "HS101"), (Phase.VERIFY, "HS102")])
def test_a_phase_that_only_raises_is_violated_at_the_raise(phase: Phase, rule: str) -> None:
    (finding,) = check(left=[open_("raises", phase)])
    assert (finding.rule, finding.verdict) == (rule, Verdict.VIOLATED)
    assert finding.place is not None
    assert finding.place.span.line == 600


@pytest.mark.parametrize("kind", ["missing", "budget", "unknown", "entry"])
def test_an_open_question_is_unproved(kind: str) -> None:
    (finding,) = check(left=[open_(kind)])
    assert (finding.rule, finding.verdict) == ("HS109", Verdict.UNPROVED)


def test_an_open_question_about_idle_forwards_is_nobodys_concern() -> None:
    assert check(left=[open_("missing", Phase.IDLE)]) == ()


def test_an_open_question_spoils_the_proof_of_the_same_phase_path_and_worker() -> None:
    known = facts(*healthy(), left=[open_("budget")])
    ends = verdicts(known, run_checks(known, RULES))
    assert (ends.proved, ends.violated, ends.unproved) == (2, 0, 1)


def test_silence_is_never_a_proof() -> None:
    known = facts()
    found = run_checks(known, RULES)
    assert {(finding.rule, finding.message.rsplit(" ", 1)[-1]) for finding in found} == {
        ("HS109", "extend"),
        ("HS109", "verify"),
    }
    assert verdicts(known, found).unproved == 2


def test_a_worker_without_any_flow_is_unproved() -> None:
    known = facts(*healthy(), workers=["EAGLEWorker", "EAGLEWorkerV2"])
    (finding,) = run_checks(known, RULES)
    assert finding.rule == "HS109"
    assert "EAGLEWorkerV2" in finding.message


members = st.sampled_from(["NULL", "LAST", "FULL", "None", "unset", "unknown", "AUX"])
modes = st.lists(members.map(lambda member: Mode(member, reason="because")), max_size=3).map(tuple)


@given(st.sampled_from([Phase.EXTEND, Phase.VERIFY]), st.sampled_from(list(Path)), modes, modes, st.booleans())
def test_a_flow_is_proved_exactly_when_nothing_is_found(
    phase: Phase, path: Path, asked: tuple[Mode, ...], reached: tuple[Mode, ...], guard: bool
) -> None:
    one = flow(phase, path, asked=asked, reached=reached, replay_guard=guard)
    known = facts(one, *healthy("Elsewhere"))
    found = run_checks(known, RULES)
    verdict = verdicts(known, found).flows[0]
    full = {"FULL"}
    acts_on = {mode.member for mode in reached}
    right = acts_on == full and (path is Path.EAGER or {mode.member for mode in asked} == full)
    assert (verdict is Verdict.PROVED) == right == (found == ())
    if acts_on & {"NULL", "LAST", "None", "unset"} and path is Path.EAGER:
        assert verdict is Verdict.VIOLATED
