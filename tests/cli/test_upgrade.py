"""``flowcheck upgrade``: a pair in two trees, and whether it gets worse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.pairs import FIXTURES, flowcheck, refused
from tests.cli.wirings import draft_of, lines_of, needing, pair_of, parsed, tree_of, with_cache

__all__ = ["with_cache"]

PAIR = pair_of("wiring-healthy")


def upgrade(old: str, new: str, *arguments: object) -> list[object]:
    return ["upgrade", tree_of(old), tree_of(new), *PAIR, *arguments]


def change(old: str, new: str, *arguments: object) -> dict[str, Any]:
    (found,) = parsed(*upgrade(old, new, *arguments), schema="upgrade")["pairs"]
    return dict(found)


def test_the_ids_that_the_new_tree_wants() -> None:
    found = change("wiring-healthy", "wiring-other-layers", *needing())
    assert (found["old_ids"]["ids"], found["new_ids"]["ids"]) == ([2, 4, 6], [3, 5, 7])
    assert (found["old_ids"]["is_written"], found["new_ids"]["is_written"]) == (True, False)
    assert [each["rule"] for each in found["came"]] == ["HS201"]
    assert found["worse"]
    result = flowcheck(*upgrade("wiring-healthy", "wiring-other-layers", *needing()))
    lines = lines_of(result)
    assert result.exit_code == 1
    assert lines[-1] == "1 pair: 1 worse"
    assert "ids     old: [2, 4, 6], as the draft writes them" in lines
    assert "        new: [3, 5, 7], which the draft does not write" in lines
    assert "extend eager         old   3 5 7  192  complete  proved" in lines
    assert "                     new   2 4 6  192  complete  VIOLATED HS201" in lines


def test_a_path_that_is_mended_is_better_and_no_failure() -> None:
    found = change("wiring-graph-default", "wiring-healthy", *needing())
    assert [each["becomes"] for each in found["paths"]] == ["same", "same", "better"]
    assert [each["rule"] for each in found["gone"]] == ["HS205"]
    assert (found["worse"], found["because"]) == (False, "")
    assert flowcheck(*upgrade("wiring-graph-default", "wiring-healthy", *needing())).exit_code == 0


def test_a_pair_that_is_as_wrong_as_before_is_no_failure() -> None:
    result = flowcheck(*upgrade("wiring-graph-default", "wiring-graph-default", *needing()))
    assert result.exit_code == 0
    assert "verify decode graph  both  2 4 5  192  complete  VIOLATED HS205" in lines_of(result)


def test_one_condition_is_enough_to_be_worse() -> None:
    found = change("wiring-healthy", "wiring-partial-sums", *needing())
    worse = {(each["condition"].rpartition(" ")[2], each["batch"], each["becomes"]) for each in found["paths"]}
    assert worse == {("false", "", "same"), ("true", "<=2048 tok", "worse"), ("true", ">2048 tok", "same")}
    assert found["worse"]


@pytest.mark.parametrize("name", ["wiring-no-hook", "wiring-unknown"])
def test_what_is_not_proved_any_more_is_worse(name: str) -> None:
    assert change("wiring-healthy", name, *needing())["worse"]
    assert not change(name, "wiring-healthy", *needing())["worse"]


def test_states_that_move_while_nobody_knows_which_are_right() -> None:
    found = change("wiring-healthy", "wiring-other-layers")
    assert {each["becomes"] for each in found["paths"]} == {"moved"}
    assert found["because"] == "other states are captured, and what the draft was trained on is not known"
    assert not change("wiring-healthy", "wiring-healthy")["worse"]


def test_several_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = FIXTURES / "wiring-healthy" / "target"
    for name, fixture, trained in (("right", "wiring-healthy", "3,5,7"), ("wrong", "wiring-embedding", "0,3,5")):
        flowcheck("pair", "freeze", draft_of(fixture), target, "--name", name, "--trained-boundaries", trained)
    trees = (tree_of("wiring-healthy"), tree_of("wiring-other-layers"))
    result = flowcheck("upgrade", *trees, "--pair", "right", "--pair", "wrong")
    assert result.exit_code == 1
    assert [line for line in lines_of(result) if line.startswith("pair ")] == ["pair    right", "pair    wrong"]
    assert result.stdout.splitlines()[-1].startswith("2 pairs: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "upgrade compares pairs: give --pair NAME, or --draft and --target"),
        (["--draft", draft_of("wiring-healthy")], "--draft without --target"),
        (["--pair", "kimi", *PAIR], "--pair names the draft, the target and the header"),
        (["--pair", "kimi"], "there is no pair kimi"),
        (PAIR, "no such file or folder: ./no-tree"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], said: str) -> None:
    refused(flowcheck("upgrade", "./no-tree", "./no-tree", *arguments), said)
