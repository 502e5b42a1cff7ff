"""``flowcheck ids``: the ids that a tree takes for what a draft was trained on, tried on every path."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.pairs import FIXTURES, IDS, flowcheck, refused
from tests.cli.wirings import KEY, draft_of, lines_of, needing, parsed, rewritten, tree_of, with_cache

__all__ = ["with_cache"]

TARGET = str(FIXTURES / "wiring-healthy" / "target")
DRAFT = draft_of("wiring-healthy")


def ids(name: str, *arguments: object, draft: str = DRAFT) -> list[object]:
    return ["ids", tree_of(name), draft, TARGET, *arguments]


@pytest.mark.parametrize(("name", "expected"), [("wiring-healthy", [2, 4, 6]), ("wiring-other-layers", [3, 5, 7])])
def test_two_trees_take_other_ids_for_the_same_boundaries(name: str, expected: list[int]) -> None:
    (choice,) = parsed(*ids(name, *needing()), schema="ids")["choices"]
    assert (choice["ids"], choice["key"], choice["verdict"]) == (expected, KEY, "proved")
    assert [row["captured_boundaries"] for row in choice["paths"]] == [[3, 5, 7]] * 3
    assert choice["is_written"] == (expected == [2, 4, 6])
    assert choice["snippet"] == {"eagle_config": {IDS: expected}}


def test_what_is_printed_can_be_pasted(tmp_path: Path) -> None:
    written = rewritten(tmp_path, eagle_config={IDS: [1, 2, 3], "use_aux_hidden_state": True})
    result = flowcheck(*ids("wiring-other-layers", *needing(), "--quiet", draft=written))
    assert json.loads(result.stdout) == {"eagle_config": {IDS: [3, 5, 7], "use_aux_hidden_state": True}}
    page = lines_of(flowcheck(*ids("wiring-other-layers", *needing(), draft=written)))
    assert f'      "{IDS}": [3, 5, 7],' in page


def test_the_key_is_the_one_that_the_tree_reads(tmp_path: Path) -> None:
    for changes in ({"eagle_config": ...}, {"eagle_config": ..., IDS: [2, 4, 6]}, {"eagle_config": {"layer_ids": [1]}}):
        (choice,) = parsed(*ids("wiring-healthy", *needing(), draft=rewritten(tmp_path, **changes)), schema="ids")[
            "choices"
        ]
        assert (choice["ids"], choice["key"], choice["verdict"]) == ([2, 4, 6], KEY, "proved")
        assert not choice["is_written"]


def test_a_path_that_is_not_told_the_ids_is_said() -> None:
    result = flowcheck(*ids("wiring-graph-default", *needing()))
    assert result.exit_code == 1
    assert "  verify decode graph  2 4 5  VIOLATED HS205" in lines_of(result)
    said = " ".join(result.stdout.split())
    assert "decode graph is not told these ids (sglang/srt/model_executor/cuda_graph_runner.py:40)" in said
    off = flowcheck(*ids("wiring-graph-default", *needing(), "--set", "disable_cuda_graph=true"))
    assert (off.exit_code, "decode graph" in off.stdout) == (0, False)


def test_ids_that_are_right_do_not_hide_what_remains() -> None:
    result = flowcheck(*ids("wiring-partial-sums", *needing()))
    lines = lines_of(result)
    assert result.exit_code == 0
    assert "  the ids are right; HS209 remains (flowcheck trace)" in lines
    at = lines.index("  where enable_flashinfer_allreduce_fusion is true")
    assert " ".join(lines[at + 1].split()) == "extend eager, <=2048 tok 3 5 7 VIOLATED HS209"


def test_ids_with_which_no_server_starts_do_not_hide_those_that_are_right(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(tree_of("wiring-healthy"), tree)
    model = tree / "sglang" / "srt" / "models" / "llama.py"
    text = model.read_text("utf-8")
    line = "        self.capture_aux_hidden_states = True\n"
    assert text.count(line) == 1
    model.write_text(text.replace(line, f"{line}        self.model.layers[max(layer_ids)].marked = True\n"), "utf-8")
    written = rewritten(tmp_path, eagle_config={IDS: [2, 4, 8]})
    stuck = " ".join(flowcheck("trace", tree, "--draft", written, "--target", TARGET).stdout.split())
    assert "IndexError at sglang/srt/models/llama.py:134" in stuck
    (choice,) = parsed("ids", tree, written, TARGET, *needing(), schema="ids")["choices"]
    assert (choice["ids"], choice["key"]) == ([2, 4, 6], KEY)


@pytest.mark.parametrize(
    ("name", "boundaries", "verdict", "said"),
    [
        ("wiring-healthy", "3,5,8", "violated", "unreachable: boundary 8 is captured for no id"),
        ("wiring-no-hook", "3,5,7", "violated", "unreachable: LlamaForCausalLM has no"),
        ("wiring-unknown", "3,5,7", "unproved", "not known: "),
    ],
)
def test_what_no_ids_give_is_told_from_what_nobody_knows(name: str, boundaries: str, verdict: str, said: str) -> None:
    given = ids(name, *needing(boundaries))
    (choice,) = parsed(*given, schema="ids")["choices"]
    assert (choice["ids"], choice["snippet"], choice["verdict"]) == (None, None, verdict)
    result = flowcheck(*given)
    assert (result.exit_code, said in result.stdout) == (1, True)


def test_an_open_training_has_an_answer_for_each_reading() -> None:
    result = flowcheck(*ids("wiring-healthy"))
    assert result.exit_code == 1, "both choices are proved, and one of them is wrong"
    assert "what the draft was trained on is open: one answer for each reading" in lines_of(result)
    choices = parsed(*ids("wiring-healthy"), schema="ids")["choices"]
    assert [(each["boundaries"], each["ids"]) for each in choices] == [([3, 5, 7], [2, 4, 6]), ([2, 4, 6], [1, 3, 5])]
    assert {each["verdict"] for each in choices} == {"proved"}
    assert flowcheck(*ids("wiring-healthy", *needing())).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "ids needs a pair"),
        ([DRAFT], "ids needs SOURCE, DRAFT and TARGET"),
        ([DRAFT, TARGET, "--pair", "kimi"], "--pair names the draft and the target"),
        ([DRAFT, TARGET, "--trained-boundaries", "x"], "expected numbers with commas"),
        ([DRAFT, TARGET], "no such file or folder: ./no-tree"),
        ([TARGET, DRAFT], "is a full model"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], said: str) -> None:
    refused(flowcheck("ids", "./no-tree", *arguments), said)


def test_a_draft_that_takes_no_states_has_no_ids(tmp_path: Path) -> None:
    plain = rewritten(tmp_path, eagle_config={"use_aux_hidden_state": False})
    refused(flowcheck(*ids("wiring-healthy", draft=plain)), "there are no ids to write")
