"""A second scan of the same tree evaluates nothing, and nothing that could change an answer is taken for the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from flowcheck.flow import Scenario
from flowcheck.flow.analysis import analyse
from flowcheck.flow.facts import Facts
from flowcheck.source import SourceWarning, open_source
from tests.flow.trees import EAGLE_WORKER, HEALTHY


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return shutil.copytree(HEALTHY, tmp_path / "tree")


def scan(tree: Path, cache: Path, algorithm: str = "EAGLE3") -> Facts:
    with open_source(str(tree)) as opened:
        return analyse(opened, Scenario(algorithm), cache_dir=cache)


def test_a_second_scan_says_the_same_and_evaluates_nothing(tree: Path, tmp_path: Path) -> None:
    first, second = scan(tree, tmp_path / "cache"), scan(tree, tmp_path / "cache")
    assert first.flows
    assert (second.flows, second.open, second.assumptions, second.workers) == (
        first.flows,
        first.open,
        first.assumptions,
        first.workers,
    )
    assert first.stats.steps > 0
    assert second.stats.steps == 0


def test_an_edit_is_seen(tree: Path, tmp_path: Path) -> None:
    before = scan(tree, tmp_path / "cache")
    worker = tree / EAGLE_WORKER
    worker.write_text(worker.read_text("utf-8").replace("CaptureHiddenMode.FULL", "CaptureHiddenMode.LAST"), "utf-8")
    after = scan(tree, tmp_path / "cache")
    assert after.stats.steps > 0
    assert after.flows != before.flows


def test_another_algorithm_is_another_question(tree: Path, tmp_path: Path) -> None:
    scan(tree, tmp_path / "cache")
    assert scan(tree, tmp_path / "cache", "NGRAM").scenario != scan(tree, tmp_path / "cache").scenario


def test_what_is_said_of_a_bad_file_is_said_again(tree: Path, tmp_path: Path) -> None:
    (tree / "sglang" / "srt" / "bad.py").write_text("A = 1\ndef broken(:\n")
    said: list[list[SourceWarning]] = []
    for steps in (True, False):
        with open_source(str(tree)) as opened:
            facts = analyse(opened, Scenario(), cache_dir=tmp_path / "cache")
            said.append(opened.warnings)
        assert bool(facts.stats.steps) is steps
    assert said[0] == said[1]
    assert [(each.path, each.line) for each in said[0]] == [("sglang/srt/bad.py", 2)]


def test_a_bad_file_whose_name_is_no_text_is_said(tree: Path, tmp_path: Path) -> None:
    (tree / "sglang" / "srt" / os.fsdecode(b"b\xffd.py")).write_text("def broken(:\n")
    for _ in range(2):
        with open_source(str(tree)) as opened:
            assert analyse(opened, Scenario(), cache_dir=tmp_path / "cache").flows
            assert [each.line for each in opened.warnings] == [1]


def test_facts_without_conditions_are_not_taken_for_those_with(tree: Path, tmp_path: Path) -> None:
    worker = tree / EAGLE_WORKER
    text = worker.read_text("utf-8")
    lower = "CaptureHiddenMode.LAST if self.server_args.odd else CaptureHiddenMode.FULL"
    assert "CaptureHiddenMode.FULL" in text
    worker.write_text(text.replace("CaptureHiddenMode.FULL", f"({lower})"), "utf-8")
    found: dict[bool, set[str]] = {}
    for explain in (False, True):
        with open_source(str(tree)) as opened:
            facts = analyse(opened, Scenario(), cache_dir=tmp_path / "cache", explain=explain)
        found[explain] = {flow.condition for flow in facts.flows}
    assert found[False] == {""}
    assert any("odd" in condition for condition in found[True])


@pytest.mark.parametrize("damage", [b"", b"no facts", None])
def test_a_damaged_entry_is_made_anew(tree: Path, tmp_path: Path, damage: bytes | None) -> None:
    first = scan(tree, tmp_path / "cache")
    (entry,) = (tmp_path / "cache" / "facts").iterdir()
    data = entry.read_bytes()
    entry.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if damage is None else damage)
    second = scan(tree, tmp_path / "cache")
    assert second.flows == first.flows
    assert second.stats.steps > 0
    assert scan(tree, tmp_path / "cache").stats.steps == 0
