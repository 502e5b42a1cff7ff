"""A method that is replaced on an instance is the one that runs."""

from __future__ import annotations

from pathlib import Path

from flowcheck.checks.rules import load_rules
from flowcheck.checks.run import run_checks
from flowcheck.flow import Scenario
from flowcheck.flow.analysis import analyse
from flowcheck.source import open_source
from tests.flow.trees import MODEL_RUNNER, edited

LINE = "        self.is_draft_worker = is_draft_worker\n"


def rules_for(tmp_path: Path, mode: str) -> set[str]:
    replacement = f"""
        from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode

        whole = self.forward_extend

        def trimmed(forward_batch):
            forward_batch.capture_hidden_mode = CaptureHiddenMode.{mode}
            return whole(forward_batch)

        self.forward_extend = trimmed
"""
    for path, text in edited([(MODEL_RUNNER, LINE, LINE + replacement)]).items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    with open_source(str(tmp_path)) as tree:
        facts = analyse(tree, Scenario())
    return {finding.rule for finding in run_checks(facts, load_rules())}


def test_a_replacement_that_lowers_the_mode_is_found(tmp_path: Path) -> None:
    assert rules_for(tmp_path, "LAST") & {"HS101", "HS103"}


def test_a_replacement_that_keeps_the_mode_raises_nothing(tmp_path: Path) -> None:
    assert rules_for(tmp_path, "FULL") == set()
