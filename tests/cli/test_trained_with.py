"""``--trained-with``: what a draft was trained on, by the setter of the tree that it was trained with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.pairs import FIXTURES, flowcheck, refused
from tests.cli.wirings import draft_of, pair_of, parsed, tree_of, with_cache

__all__ = ["with_cache"]

DRAFT, TARGET = draft_of("wiring-healthy"), str(FIXTURES / "wiring-healthy" / "target")


@pytest.mark.parametrize(
    ("training", "code", "verdict"), [("wiring-healthy", 0, "proved"), ("wiring-other-layers", 1, "violated")]
)
def test_the_same_ids_mean_other_states_to_another_trainer(training: str, code: int, verdict: str) -> None:
    given = ["trace", tree_of("wiring-healthy"), *pair_of("wiring-healthy"), "--trained-with", tree_of(training)]
    assert flowcheck(*given).exit_code == code
    document = parsed(*given)
    assert {each["verdict"] for each in document["capture"]} == {verdict}
    assert document["pairing"]["trained"]["readings"][0]["basis"] == "computed"


def test_a_scan_and_the_ids_ask_the_same_tree() -> None:
    other = ["--trained-with", tree_of("wiring-other-layers")]
    report = parsed("scan", tree_of("wiring-healthy"), *pair_of("wiring-healthy"), *other)
    (wrong,) = [each for each in report["findings"] if each["rule"] == "HS201"]
    assert "Ids [1, 3, 5] make this tree capture boundaries 2, 4, 6." in wrong["fix"]
    (choice,) = parsed("ids", tree_of("wiring-healthy"), DRAFT, TARGET, *other, schema="ids")["choices"]
    assert (choice["boundaries"], choice["because"], choice["ids"]) == ([2, 4, 6], "computed", [1, 3, 5])


def test_a_pair_that_is_checked_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    healthy, other = (["--trained-with", tree_of(name)] for name in ("wiring-healthy", "wiring-other-layers"))
    said = " ".join(flowcheck("check-pair", DRAFT, TARGET, *other).stdout.split())
    assert "boundaries 2 4 6: the setter of LlamaForCausalLM in" in said
    flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kept", *other)
    held = json.loads((tmp_path / ".flowcheck" / "pairs" / "kept.json").read_text("utf-8"))
    (reading,) = held["trained"]["readings"]
    assert (reading["boundaries"], reading["basis"]) == ([2, 4, 6], "computed")
    assert str(FIXTURES) not in json.dumps(held)
    assert flowcheck("check-pair", "--pair", "kept", *other).exit_code == 0
    said = "gives boundaries [3, 5, 7]: pair kept was frozen with boundaries [2, 4, 6], computed"
    refused(flowcheck("check-pair", "--pair", "kept", *healthy), said)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("./no-tree", "--trained-with ./no-tree: no such file or folder"),
        (tree_of("wiring-unknown"), "cannot be computed with"),
        (tree_of("wiring-no-hook"), "has no set_eagle3_layers_to_capture"),
        (tree_of("wiring-scattered-rows"), "it captures one rank's rows of boundary 3"),
    ],
)
def test_a_tree_that_nothing_can_be_trained_with_is_refused(source: str, said: str) -> None:
    refused(flowcheck("check-pair", DRAFT, TARGET, "--trained-with", source), said)


def test_partial_sums_of_some_deployments_are_no_training() -> None:
    """A trainer of this kind runs with whole states, or the draft would be useless on any number of ranks."""
    given = ["--trained-with", tree_of("wiring-partial-sums")]
    assert "boundaries 3 5 7" in flowcheck("check-pair", DRAFT, TARGET, *given).stdout


def test_it_belongs_to_a_pair() -> None:
    refused(flowcheck("scan", "./no-tree", "--trained-with", "x"), "--trained-with belongs to a pair")
    refused(flowcheck("scan", "./no-tree", "--tp", "4"), "--tp belongs to a pair")
