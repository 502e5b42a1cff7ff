"""The plan of a probe, from the rows of a scan's report."""

from __future__ import annotations

from typing import Any

import pytest

from flowcheck.probe.plan import Model, Plan, plan_of
from flowcheck.report.model import Capture, CapturedState, ToldIds

FUSED = "fusion is true"


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


def plan(*rows: Capture, backend: Any = "gloo") -> Plan:
    return plan_of(rows, backend=backend, ranks=8, sizes=Model(64), gpu_conditions=frozenset({FUSED}))


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
    assert [bool(each.excluded) for each in plan(*rows, backend="nccl").paths] == [False, False, True]


@pytest.mark.parametrize(
    ("batch", "low", "high"), [("<=3 tok", 1, 3), (">2048 tok", 2049, 10**9), ("20 to 30 tok", 20, 30), ("", 10, 10)]
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
