"""Two reports of one pair held against each other: rows that trees tell apart otherwise, and what is no row's business."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath

from flowcheck.checks.capture_layers import layer_findings
from flowcheck.checks.rules import load_rules
from flowcheck.checks.run import selection
from flowcheck.draft import Pairing, read_pairing
from flowcheck.flow.facts import Facts, Path, Phase
from flowcheck.flow.pair_facts import CaptureRow, PairFacts, Reach
from flowcheck.report.build import SourceInfo, Timing, build_report
from flowcheck.report.comparing import change_of
from flowcheck.report.documents import PairChange, WantedIds
from flowcheck.report.model import Finding, Report
from tests.report.fakes import row

FIXTURES = FilePath(__file__).resolve().parents[2] / "fixtures"
IDS = WantedIds(ids=None, is_written=False, reason="")


def pairing() -> Pairing:
    folder = FIXTURES / "wiring-healthy"
    return read_pairing(str(folder / "draft"), str(folder / "target"), declared=(3, 5, 7))


def extend(
    *boundaries: int, batch: str = "", condition: str = "", reach: Reach = Reach.COMPLETE, question: str = ""
) -> CaptureRow:
    made = row(
        Phase.EXTEND, Path.EAGER, *boundaries, ids=(2, 4, 6), condition=condition, reach=reach, question=question
    )
    return replace(made, batch=batch)


def report(*rows: CaptureRow) -> Report:
    pair, rules = pairing(), load_rules()
    facts = PairFacts("LlamaForCausalLM", True, rows)
    return build_report(
        Facts((), (), (), ()),
        layer_findings(facts, pair, rules),
        rules=rules,
        selected=selection(rules),
        source=SourceInfo("package", "tree", "", "sglang", None, "0" * 64),
        algorithm="EAGLE3",
        version="0",
        timing=Timing(0.0, 0.0),
        read_text=lambda _: None,
        pairing=pair,
        served=facts,
    )


def change(old: Report, new: Report) -> PairChange:
    return change_of(old, new, IDS, IDS)


def test_a_batch_that_one_tree_tells_apart_is_held_against_all_of_the_other() -> None:
    parts = (extend(3, 5, 7, batch=">2048 tok"), extend(3, 5, 7, batch="<=2048 tok", reach=Reach.PARTIAL))
    found = change(report(extend(3, 5, 7)), report(*parts))
    assert [(each.batch, each.becomes) for each in found.paths] == [(">2048 tok", "same"), ("<=2048 tok", "worse")]
    assert found.worse
    back = change(report(*parts), report(extend(3, 5, 7)))
    assert [each.becomes for each in back.paths] == ["same", "better"]


def test_batches_that_are_divided_elsewhere_hide_nothing() -> None:
    old = report(extend(3, 5, 7, batch="<=128 tok"), extend(3, 5, 7, batch=">128 tok", reach=Reach.PARTIAL))
    new = report(extend(3, 5, 7, batch="<=64 tok"), extend(3, 5, 7, batch=">64 tok", reach=Reach.PARTIAL))
    assert change(old, new).worse


def test_a_condition_that_only_the_old_tree_has() -> None:
    parts = (extend(3, 5, 7, condition="x is false"), extend(3, 5, 7, condition="x is true", reach=Reach.PARTIAL))
    found = change(report(*parts), report(extend(2, 4, 6)))
    assert [(each.condition, each.becomes) for each in found.paths] == [("x is false", "worse"), ("x is true", "same")]


def test_a_proof_that_is_lost_is_worse_and_a_violation_that_is_not_proved_any_more_is_not_better() -> None:
    right, wrong, open_ = report(extend(3, 5, 7)), report(extend(2, 4, 6)), report(extend(question="a budget"))
    becomes = {
        (one, other): change(reports[one], reports[other]).paths[0].becomes
        for reports in ({"right": right, "wrong": wrong, "open": open_},)
        for one in reports
        for other in reports
        if one != other
    }
    assert becomes == {
        ("right", "wrong"): "worse",
        ("right", "open"): "worse",
        ("wrong", "right"): "better",
        ("wrong", "open"): "same",
        ("open", "right"): "better",
        ("open", "wrong"): "worse",
    }


def test_an_error_that_no_path_has_makes_a_pair_worse() -> None:
    healthy = report(extend(3, 5, 7))
    (wrong,) = report(extend(2, 4, 6)).findings
    lost: Finding = wrong.model_copy(update={"rule": "HS406", "message": "the draft is not loaded", "affects": []})
    new = healthy.model_copy(update={"findings": [lost]})
    found = change(healthy, new)
    assert (found.worse, found.because) == (True, "HS406 is new: the draft is not loaded")
    assert not change(new, new).worse
    assert not change(new, healthy).worse
