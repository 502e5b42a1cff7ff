"""From what ranks saw to verdicts: nothing that could not run, or says too little, is ever a proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flowcheck.checks.rules import Rule, load_rules
from flowcheck.probe.plan import Plan
from flowcheck.probe.protocol import Block, Failure, IdsRead, PhaseResult, RankResult, Replay
from flowcheck.probe.verdict import PROBE_RULES, Judged, LiveVerdict, Problem, judge
from tests.probe.recorded import FIXTURES, Results, changed, plan_of, results_of

PROVED, VIOLATED = LiveVerdict.PROVED, LiveVerdict.VIOLATED
OPEN, APART = LiveVerdict.INCONCLUSIVE, LiveVerdict.NOT_COVERED

RULES = [rule for rule in load_rules() if rule.id in PROBE_RULES]


def verdicts(judged: Judged) -> list[LiveVerdict]:
    return [path.verdict for path in judged.paths]


def problems(judged: Judged) -> set[Problem]:
    return {problem for path in judged.paths for problem in path.problems}


def rules_of(judged: Judged) -> set[str]:
    return {problem.rule for problem in problems(judged)}


def block(identity: str, boundary: int | None, explanation: str = "", index: int = 0) -> Block:
    return Block(index, identity, boundary, explanation)  # type: ignore[arg-type]


def with_block(new: Block) -> Callable[[PhaseResult], PhaseResult]:
    def change(phase: PhaseResult) -> PhaseResult:
        return replace(phase, blocks=tuple(new if each.index == new.index else each for each in phase.blocks))

    return change


# ---------------------------------------------------------------------------------------------------------- fixtures
def test_every_fixture_belongs_to_a_rule() -> None:
    of_rules = {name for rule in RULES for name in (rule.fixture_breaks, rule.fixture_passes)}
    assert {path.name for path in FIXTURES.glob("probe-*")} == of_rules


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_breaking_fixture_breaks_its_rule_and_no_other(rule: Rule) -> None:
    judged = judge(plan_of(rule.fixture_breaks), results_of(rule.fixture_breaks))
    assert rules_of(judged) == {rule.id}
    assert PROVED not in [path.verdict for path in judged.paths if path.problems]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_passing_fixture_is_proved(rule: Rule) -> None:
    judged = judge(plan_of(rule.fixture_passes), results_of(rule.fixture_passes))
    assert verdicts(judged) == [PROVED, PROVED, APART]
    assert judged.is_conclusive


def test_the_embedding_is_called_by_its_name() -> None:
    (problem,) = problems(judge(plan_of("probe-states-differ"), results_of("probe-states-differ")))
    assert (problem.found, problem.expected) == ("the embedding, 3, 5", "3, 5, 7")


# ----------------------------------------------------------------------------------------------------------- ids
def test_ids_that_the_tree_reads_as_the_scan_does_change_nothing() -> None:
    plan = plan_of()
    ids = IdsRead((plan.paths[0].told[0],), ("runner.py:7 start",))
    assert verdicts(judge(plan, results_of(), ids=ids)) == [PROVED, PROVED, APART]


@pytest.mark.parametrize(("calls", "said"), [(((1, 2, 3),), "[1, 2, 3]"), ((None,), "no ids"), ((), "nothing")])
@pytest.mark.parametrize("fixture", ["probe-healthy", "probe-states-differ"])
def test_ids_that_the_tree_reads_otherwise_leave_everything_open(
    fixture: str, calls: tuple[tuple[int, ...] | None, ...], said: str
) -> None:
    """Right or wrong, the states of a target that was told something else say nothing."""
    judged = judge(plan_of(fixture), results_of(fixture), ids=IdsRead(calls, ("runner.py:7 start",)))
    assert verdicts(judged) == [OPEN, OPEN, APART]
    (problem,) = problems(judged)
    assert (problem.rule, problem.kind, problem.found) == ("HS507", "ids", said)


# --------------------------------------------------------------------------------------------------- what is shown
def test_the_first_block_that_is_wrong_is_named() -> None:
    def all_wrong(phase: PhaseResult) -> PhaseResult:
        return replace(phase, blocks=tuple(replace(each, identity="other", boundary=None) for each in phase.blocks))

    judged = judge(plan_of(), changed(results_of(), all_wrong))
    assert {each.expected for each in problems(judged) if each.kind == "other"} == {"block 1"}


def test_ranks_that_differ_do_so_on_paths_that_are_not_covered_too() -> None:
    (path,) = (each for each in plan_of().paths if each.excluded)
    results = changed(results_of(), lambda phase: replace(phase, spread=0.5), ranks=(1,), phase=path.stands_in)
    judged = judge(plan_of(), results)
    assert [(each.verdict, each.same) for each in judged.paths if each.path == path] == [(APART, False)]


# ------------------------------------------------------------------------------------------------- never a proof
def test_a_graph_is_not_covered_by_an_eager_forward_however_right_it_is() -> None:
    assert judge(plan_of(), results_of()).paths[2].verdict is APART


def test_a_rank_that_left_nothing_leaves_everything_open() -> None:
    judged = judge(plan_of(), {0: results_of()[0]})
    assert verdicts(judged) == [OPEN, OPEN, APART]
    assert judged.paths[0].reason == "rank 1 left no result"
    assert not judged.is_conclusive


def test_a_probe_that_came_to_no_end_shows_nothing() -> None:
    judged = judge(plan_of(), results_of(), trouble="rank 1 hung until time was up in forward")
    assert verdicts(judged) == [OPEN, OPEN, APART]


def failed(stage: str, about: str = "tree") -> Failure:
    return Failure(stage, "TypeError", "no", ("models/a.py:7 forward",), about=about)  # type: ignore[arg-type]


def test_an_exception_in_a_forward_is_no_defect_unless_the_scan_says_so_too() -> None:
    def change(phase: PhaseResult) -> PhaseResult:
        return replace(phase, rows=None, width=None, blocks=(), error=failed("forward"))

    results = changed(results_of(), change)
    judged = judge(plan_of(), results)
    assert verdicts(judged) == [OPEN, OPEN, APART]
    assert "rank 0 ended in forward: TypeError: no (models/a.py:7 forward)" in judged.paths[0].reason
    plan = plan_of()
    refused = replace(plan, paths=tuple(replace(path, expected=None, refused="TypeError") for path in plan.paths))
    assert verdicts(judge(refused, results)) == [VIOLATED, VIOLATED, APART]


@pytest.mark.parametrize("about", ["probe", "machine", "other"])
def test_a_setter_that_this_tool_cannot_call_is_no_defect(about: str) -> None:
    results = changed(results_of(), lambda phase: replace(phase, rows=None, width=None, error=failed("setter", about)))
    assert verdicts(judge(plan_of(), results)) == [OPEN, OPEN, APART]


def test_a_setter_that_raises_on_one_rank_alone_is_no_defect_of_the_ids() -> None:
    results = changed(results_of(), lambda phase: replace(phase, error=failed("setter")), ranks=(1,))
    assert verdicts(judge(plan_of(), results)) == [OPEN, OPEN, APART]


def test_a_rank_that_was_ended_because_of_another_is_not_blamed() -> None:
    def early(rank: int, failure: Failure) -> RankResult:
        return RankResult(rank=rank, stage="build", error=failure)

    ended = early(0, Failure("build", "Stopped", "another rank failed", about="other"))
    judged = judge(plan_of(), {0: ended, 1: early(1, Failure("build", "KeyError", "'a'"))})
    assert judged.paths[0].reason == "rank 1 ended in build: KeyError: 'a'"


def test_boundaries_that_are_too_alike_are_no_proof() -> None:
    judged = judge(plan_of(), changed(results_of(), with_block(block("inconclusive", 3, "4 is as near"))))
    assert verdicts(judged) == [OPEN, OPEN, APART]
    assert "could not be named: 4 is as near" in judged.paths[0].reason


def test_states_that_nobody_compared_are_no_proof() -> None:
    judged = judge(plan_of(), changed(results_of(), lambda phase: replace(phase, spread=None), ranks=(1,)))
    assert verdicts(judged) == [OPEN, OPEN, APART]


def test_simulated_ranks_have_no_numbers_to_compare() -> None:
    plan = replace(plan_of(), backend="fake")
    results = changed(results_of(), lambda phase: replace(phase, spread=None, digest=None))
    assert verdicts(judge(plan, results)) == [PROVED, PROVED, APART]


def test_a_draft_that_was_not_run_proves_nothing() -> None:
    results = {rank: replace(result, draft=()) for rank, result in results_of().items()}
    judged = judge(plan_of(), results)
    assert verdicts(judged) == [OPEN, OPEN, APART]
    assert judged.paths[0].reason == "the draft was not run on rank 0"


def test_a_draft_whose_layer_nobody_found_proves_nothing() -> None:
    results = {
        rank: replace(result, draft=tuple(replace(each, accepted=None, layer=None) for each in result.draft))
        for rank, result in results_of().items()
    }
    assert verdicts(judge(plan_of(), results)) == [OPEN, OPEN, APART]


@pytest.mark.parametrize(("readings", "verdict"), [(((3, 5, 7), (2, 4, 6)), OPEN), (((1, 2, 3), (2, 4, 6)), VIOLATED)])
def test_where_the_training_is_open_only_what_fits_no_reading_is_wrong(
    readings: tuple[tuple[int, ...], ...], verdict: LiveVerdict
) -> None:
    plan = replace(plan_of(), needed=None, readings=readings)
    assert judge(plan, results_of()).paths[0].verdict is verdict


def test_nothing_covered_is_not_conclusive() -> None:
    plan = plan_of()
    nothing = replace(plan, paths=tuple(replace(path, excluded="no GPU") for path in plan.paths))
    assert not judge(nothing, results_of()).is_conclusive


# ------------------------------------------------------------------------------------------------------- defects
def test_no_states_at_all() -> None:
    results = changed(results_of(), lambda phase: replace(phase, rows=None, width=None, blocks=()))
    assert problems(judge(plan_of(), results)) == {Problem("HS502", "none", keys="every rank")}


def test_one_rank_with_its_part_of_a_sum() -> None:
    part = block("partial", 5, "rank 1 holds 1/2 of boundary 5", 1)
    judged = judge(plan_of(), changed(results_of(), with_block(part), ranks=(1,), phase="verify"))
    assert verdicts(judged) == [PROVED, VIOLATED, APART]
    assert rules_of(judged) == {"HS503", "HS504"}
    found = next(each for each in problems(judged) if each.rule == "HS503")
    assert (found.kind, found.keys, found.reason) == ("partial", "rank 1", "rank 1 holds 1/2 of boundary 5")


def test_a_block_that_is_no_boundary() -> None:
    other = block("other", None, "the layer's output without its residual", 2)
    judged = judge(plan_of(), changed(results_of(), with_block(other)))
    assert {(each.rule, each.kind, each.expected) for each in problems(judged)} >= {("HS503", "other", "block 3")}


@pytest.mark.parametrize("nearest", [None, 3, 5])
def test_what_both_call_no_boundary_is_no_disagreement(nearest: int | None) -> None:
    """The ranks know what comes nearest to it, the scan may know another (a norm that a GPU writes in place)."""
    other = block("other", nearest, "without its residual", 0)
    plan = plan_of()
    paths = tuple(replace(path, expected=(None, *path.expected[1:])) for path in plan.paths if path.expected)
    judged = judge(replace(plan, paths=paths), changed(results_of(), with_block(other)))
    assert rules_of(judged) == {"HS503"}
    # One of them alone is.
    assert rules_of(judge(plan, changed(results_of(), with_block(other)))) == {"HS503", "HS507"}
    assert rules_of(judge(replace(plan, paths=paths), results_of())) == {"HS507"}


def test_the_scan_may_not_say_partial_where_states_are_whole() -> None:
    plan = plan_of()
    partial = replace(plan, paths=tuple(replace(path, partial=True) for path in plan.paths))
    judged = judge(partial, results_of())
    assert (rules_of(judged), verdicts(judged)) == ({"HS507"}, [OPEN, OPEN, APART])


def test_what_the_scan_does_not_know_it_cannot_contradict() -> None:
    plan = plan_of()
    unknown = replace(plan, paths=tuple(replace(path, expected=None) for path in plan.paths))
    assert verdicts(judge(unknown, results_of())) == [PROVED, PROVED, APART]


def test_many_ranks_are_named_in_words() -> None:
    def rows(phase: PhaseResult) -> PhaseResult:
        return replace(phase, rows=1)

    plan = replace(plan_of(), ranks=4)
    base: Results = {rank: replace(results_of()[min(rank, 1)], rank=rank) for rank in range(4)}
    judged = judge(plan, changed(base, rows, ranks=(1, 2, 3)))
    assert {each.keys for each in problems(judged) if each.rule == "HS502"} == {"ranks 1, 2 and 3"}


# ------------------------------------------------------------------------------------------- graphs, fused all-reduces
DONE = Replay(True, apart=0.0, shape=(8, 192))


def graph_plan(fused: str = "") -> Plan:
    """The fixture's plan with the row of a graph that a phase of its own shows, and fusion as is said."""
    plan = plan_of()
    row = replace(plan.paths[2], excluded="", stands_in="verify graph", graph=True)
    return replace(plan, paths=tuple(replace(each, fused=fused) for each in (*plan.paths[:2], row)))  # type: ignore[arg-type]


def with_graph(*replays: Replay | None, fused: tuple[int, int] = (0, 0)) -> Results:
    """The fixture's results, and a phase of a graph with these replays on the ranks."""
    out = {}
    for rank, result in results_of().items():
        verify = next(each for each in result.phases if each.phase == "verify")
        shape = (verify.rows or 0, verify.width or 0)
        replay = replays[rank]
        replay = replace(replay, shape=shape) if replay is not None and replay.shape == DONE.shape else replay
        graph = replace(verify, phase="verify graph", replay=replay)
        drafts = (*result.draft, replace(result.draft[-1], phase="verify graph"))
        phases = tuple(replace(each, fused=fused[rank]) for each in (*result.phases, graph))
        out[rank] = replace(result, phases=phases, draft=drafts)
    return out


def test_a_graph_that_was_replayed_on_every_rank_is_proved() -> None:
    judged = judge(graph_plan(), with_graph(DONE, DONE))
    assert verdicts(judged) == [PROVED, PROVED, PROVED]


@pytest.mark.parametrize("other", [None, Replay(False, "the stream cannot be captured")])
def test_a_graph_that_one_rank_did_not_replay_is_not_covered(other: Replay | None) -> None:
    judged = judge(graph_plan(), with_graph(DONE, other))
    assert verdicts(judged) == [PROVED, PROVED, APART]
    why = f": {other.why}" if other is not None else ""
    assert judged.paths[2].reason == f"no graph was replayed on rank 1{why}"


@pytest.mark.parametrize(
    ("replay", "said"),
    [
        (replace(DONE, apart=0.5), "their rows differ by 5.0e-01 of their length"),
        (Replay(True, apart=None, shape=(2, 64)), "2 x 64 after the eager forward"),
        (Replay(True, apart=None, shape=()), "none after the eager forward"),
    ],
)
def test_a_replay_that_is_unlike_the_eager_forward_is_violated(replay: Replay, said: str) -> None:
    judged = judge(graph_plan(), with_graph(DONE, replay))
    assert verdicts(judged) == [PROVED, PROVED, VIOLATED]
    (problem,) = problems(judged)
    assert (problem.rule, problem.kind, problem.keys) == ("HS503", "replayed", "rank 1")
    assert said in problem.reason


def test_a_replay_that_was_compared_with_nothing_is_no_proof() -> None:
    assert verdicts(judge(graph_plan(), with_graph(DONE, replace(DONE, apart=None)))) == [PROVED, PROVED, OPEN]


def test_a_graph_is_held_against_what_the_draft_needs() -> None:
    results = changed(with_graph(DONE, DONE), with_block(block("boundary", 0)), phase="verify graph")
    judged = judge(graph_plan(), results)
    assert verdicts(judged) == [PROVED, PROVED, VIOLATED]


@pytest.mark.parametrize(
    ("wanted", "fused", "verdict", "said"),
    [
        ("some", (3, 3), PROVED, ""),
        ("some", (3, 0), APART, "no all-reduce was fused on rank 1"),
        ("some", (0, 0), APART, "no all-reduce was fused on every rank"),
        ("none", (0, 0), PROVED, ""),
        ("none", (0, 2), OPEN, "rank 1 fused all-reduces, and was told not to"),
        ("elsewhere", (0, 0), APART, "no all-reduce was fused on every rank"),
        ("", (0, 0), PROVED, ""),
    ],
)
def test_what_must_be_seen_of_fused_all_reduces(
    wanted: str, fused: tuple[int, int], verdict: LiveVerdict, said: str
) -> None:
    judged = judge(graph_plan(wanted), with_graph(DONE, DONE, fused=fused))
    assert set(verdicts(judged)) == {verdict}
    assert {path.reason for path in judged.paths} == {said}


def test_behind_the_limit_fusion_is_shown_by_the_rows_before_it() -> None:
    plan = graph_plan("some")
    plan = replace(plan, paths=(plan.paths[0], replace(plan.paths[1], fused="elsewhere")))
    results = changed(results_of(), lambda phase: replace(phase, fused=4), phase="extend")
    assert verdicts(judge(plan, results)) == [PROVED, PROVED]


def test_trouble_of_a_further_run_leaves_the_first_alone() -> None:
    plan = graph_plan()
    plan = replace(plan, paths=(*plan.paths[:2], replace(plan.paths[2], variant="fused")))
    judged = judge(plan, with_graph(DONE, DONE), troubles={"fused": "rank 1 died"})
    assert verdicts(judged) == [PROVED, PROVED, OPEN]
    assert judged.paths[2].reason == "rank 1 died"
    assert verdicts(judge(plan, with_graph(DONE, DONE), trouble="rank 0 died")) == [OPEN, OPEN, PROVED]


# ------------------------------------------------------------------------------------------------- the tree's own start
def test_a_start_that_tells_otherwise_and_ends_alike_counts() -> None:
    results = changed(results_of(), lambda phase: replace(phase, told=(None, *phase.told)))
    assert verdicts(judge(plan_of(), results)) == [PROVED, PROVED, APART]


def test_a_start_that_tells_otherwise_and_ends_otherwise_says_nothing_of_the_path() -> None:
    results = changed(results_of("probe-states-differ"), lambda phase: replace(phase, told=((1, 2, 3),)))
    judged = judge(plan_of(), results)
    assert verdicts(judged) == [APART, APART, APART]
    assert judged.paths[0].reason.startswith("the tree told its target [1, 2, 3] here")
    assert problems(judged) == set()
