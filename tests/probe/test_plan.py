"""The plan of a probe, from the rows of a scan's report."""

from __future__ import annotations

from typing import Any

import pytest

from flowcheck.probe.expansion import Switch
from flowcheck.probe.plan import Model, Plan, plan_of
from flowcheck.report.model import Capture, CapturedState, ToldIds

SWITCH = Switch("fusion", {"fusion": False}, {"fusion": True})
PLAIN, FUSED = "fusion is false", "fusion is true"


def told(*calls: list[int] | None) -> list[ToldIds]:
    return [ToldIds(method="set", ids=ids, key="", reason="", place=None) for ids in calls]


def row(phase: str = "extend", path: str = "eager", **changes: Any) -> Capture:
    names = changes.pop("captured", [3, 5, 7])
    states = [
        CapturedState(
            boundary=each, normed=False, per_rank="complete", rows="", width="", reason="", file=None, line=None
        )
        for each in names
    ]
    given: dict[str, Any] = {
        "architecture": "A",
        "model_class": "A",
        "phase": phase,
        "path": path,
        "runner": "",
        "condition": "",
        "batch": "",
        "ids": None,
        "ids_key": "",
        "captured_boundaries": names,
        "states": states,
        "needed_boundaries": [3, 5, 7],
        "readings": [[3, 5, 7]],
        "captures_embedding": False,
        "per_rank": "complete",
        "rows": "",
        "width": 192,
        "draft_fc_in_features": 192,
        "fits": True,
        "verdict": "proved",
        "rules": [],
        "reason": "",
        "evidence": [],
        "told": told([2, 4, 6]),
    }
    return Capture.model_validate({**given, **changes})


def plan(*rows: Capture, backend: Any = "gloo", ranks: int = 8, switch: Switch | None = SWITCH, **more: Any) -> Plan:
    return plan_of(rows, backend=backend, ranks=ranks, sizes=Model(64), switch=switch, **more)


def test_paths_that_are_told_the_same_share_a_forward() -> None:
    made = plan(row(), row("verify"), row("verify", "decode_graph", runner="Runner"))
    assert [(each.name, each.requests, each.tokens) for each in made.phases] == [("extend", 2, 5), ("verify", 2, 4)]
    assert [each.stands_in for each in made.paths] == ["extend", "verify", "verify"]
    assert (made.needed, made.states) == ((3, 5, 7), 3)


def test_what_a_graph_was_told_comes_before_what_is_told_later() -> None:
    early = row("verify", "decode_graph", told=told(None), captured=[2, 4, 6])
    made = plan(row(told=told(None, [2, 4, 6])), row("verify", told=told(None, [2, 4, 6])), early)
    assert [(each.name, each.calls) for each in made.phases] == [
        ("verify 1", (None,)),
        ("extend", (None, (2, 4, 6))),
        ("verify 2", (None, (2, 4, 6))),
    ]
    assert made.paths[2].stands_in == "verify 1"


def test_what_a_cpu_cannot_reach_is_excluded() -> None:
    rows = (row(), row(condition=FUSED), row("verify", "decode_graph"))
    made = plan(*rows)
    assert [bool(each.excluded) for each in made.paths] == [False, True, True]
    assert [each.stands_in for each in made.paths] == ["extend", "", "verify"]
    assert (made.settings, made.variants) == ({}, ())


def test_a_gpu_runs_every_row_with_fusion_and_without() -> None:
    made = plan(row(), row("verify", "decode_graph"), backend="nccl")
    assert [(each.path, each.condition, each.variant, each.stands_in) for each in made.paths] == [
        ("eager", PLAIN, "", "extend"),
        ("eager", FUSED, "fused", "extend fused"),
        ("decode_graph", PLAIN, "", "verify graph"),
        ("decode_graph", FUSED, "fused", "verify graph fused"),
    ]
    assert [(each.graph, each.fused, each.excluded) for each in made.paths] == [
        (False, "none", ""),
        (False, "some", ""),
        (True, "none", ""),
        (True, "some", ""),
    ]
    assert [(each.name, each.graph) for each in made.phases] == [("extend", False), ("verify graph", True)]
    assert made.settings == SWITCH.off
    (variant,) = made.variants
    assert (variant.name, variant.settings) == ("fused", SWITCH.on)
    assert [each.name for each in variant.phases] == ["extend fused", "verify graph fused"]


def test_a_row_of_one_side_is_run_on_that_side_alone() -> None:
    made = plan(row(condition=PLAIN), row(condition=FUSED, captured=[3, 5]), backend="nccl")
    assert [(each.condition, each.variant, each.expected) for each in made.paths] == [
        (PLAIN, "", (3, 5, 7)),
        (FUSED, "fused", (3, 5)),
    ]


@pytest.mark.parametrize("switch", [SWITCH, None])
def test_one_gpu_has_nothing_to_fuse(switch: Switch | None) -> None:
    rows = [row(), row("verify", "decode_graph")]
    made = plan(*rows, backend="nccl", ranks=1, switch=switch)
    assert [(each.path, each.excluded, each.variant) for each in made.paths] == [
        ("eager", "", ""),
        ("decode_graph", "", ""),
    ]
    assert made.variants == ()
    (only,) = plan(row(condition=FUSED), backend="nccl", ranks=1).paths
    assert (only.excluded, only.stands_in) == ("one rank has nothing to reduce", "")


def test_batches_on_either_side_of_a_limit_are_rows_of_their_own() -> None:
    made = plan(row(cuts=[2049]), row("verify", "decode_graph", cuts=[2049]), backend="nccl")
    eager = [each for each in made.paths if each.path == "eager"]
    assert [(each.batch, each.condition, each.fused) for each in eager] == [
        ("<=2048 tok", PLAIN, "none"),
        ("<=2048 tok", FUSED, "some"),
        (">2048 tok", PLAIN, "none"),
        (">2048 tok", FUSED, "elsewhere"),
    ]
    sizes = {each.name: each.requests * each.tokens for each in made.phases}
    assert sizes["extend 1"] <= 2048 < sizes["extend 2"]
    assert {each.batch for each in made.paths if each.path == "decode_graph"} == {""}
    assert {each.batch for each in plan(row(cuts=[2049])).paths} == {""}


def test_limits_inside_of_a_range_divide_that_range() -> None:
    made = plan(row(batch="<=2048 tok", cuts=[65, 2049]), row(batch=">2048 tok"), backend="nccl", switch=None)
    assert [each.batch for each in made.paths] == ["<=64 tok", "65 to 2048 tok", ">2048 tok"]
    for path, phase in zip(made.paths, made.phases, strict=True):
        assert path.stands_in == phase.name


def test_what_a_gpu_could_but_the_probe_does_not_run_is_said() -> None:
    made = plan(row(batch=">100000 tok"), row("verify", "decode_graph", batch=">2048 tok"), backend="nccl", switch=None)
    assert [(each.excluded, each.stands_in) for each in made.paths] == [
        ("batches of 100001 tokens and more are not run", ""),
        ("batches of 2049 tokens and more are not recorded", ""),
    ]
    assert made.phases == ()


def test_graphs_of_prefills_are_recorded_by_the_trees_own_runner_alone() -> None:
    rows = [row(), row(path="prefill_graph")]
    alone = plan(*rows, backend="nccl", switch=None)
    assert [each.graph for each in alone.paths] == [False, False]
    assert "--through model-runner" in alone.paths[1].excluded
    assert alone.paths[1].stands_in == "extend"
    runner = plan(*rows, backend="nccl", switch=None, through="model-runner")
    assert [(each.graph, each.excluded) for each in runner.paths] == [(False, ""), (True, "")]


@pytest.mark.parametrize(
    ("batch", "low", "high"),
    [
        ("<=3 tok", 1, 3),
        (">2048 tok", 2049, 10**9),
        ("20 to 30 tok", 20, 30),
        ("7 to 7 tok", 7, 7),
        ("<=1 tok", 1, 1),
        ("", 10, 10),
    ],
)
def test_a_batch_is_of_a_size_that_its_row_speaks_of(batch: str, low: int, high: int) -> None:
    (phase,) = plan(row(batch=batch)).phases
    assert low <= phase.requests * phase.tokens <= high


def test_a_row_that_nobody_knows_is_not_run() -> None:
    unknown = [ToldIds(method="set", ids=None, key="", reason="who knows", place=None)]
    made = plan(row(told=unknown, verdict="unproved"), row("verify", told=[], reason="no call"))
    assert made.phases == ()
    assert [each.open for each in made.paths] == ["what the target is told is not known: who knows", "no call"]


def test_what_the_scan_could_not_name_is_not_expected() -> None:
    assert plan(row(verdict="unproved")).paths[0].expected is None
    assert plan(row(verdict="violated", captured=[], states=[], reason="ValueError")).paths[0].refused == "ValueError"


def test_states_are_counted_only_where_all_readings_agree() -> None:
    either = row(needed_boundaries=None, readings=[[3, 5, 7], [2, 4, 6]])
    assert (plan(either).needed, plan(either).states) == (None, 3)
    assert plan(row(needed_boundaries=None, readings=[[3], [2, 4]])).states is None
