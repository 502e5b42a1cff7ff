"""``flowcheck trace``: the way of the states, each step with its place, on trees whose truth CPython knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcheck.report.documents import UpgradeDocument
from flowcheck.report.model import Report
from flowcheck.report.terminal.trace import trace_page
from flowcheck.report.terminal.upgrade import upgrade_page
from tests.cli.pairs import flowcheck, refused, written
from tests.cli.wirings import KEY, draft_of, lines_of, needing, pair_of, parsed, tree_of, with_cache

__all__ = ["with_cache"]


def trace(name: str, *arguments: object) -> list[object]:
    return ["trace", tree_of(name), *pair_of("wiring-healthy"), *needing(), *arguments]


def section(lines: list[str], head: str) -> list[str]:
    """The lines of one path, without those above and below."""
    at = lines.index(head)
    return lines[at + 1 : lines.index("", at)]


def test_the_whole_way_of_a_healthy_pair_is_one_screen() -> None:
    result = flowcheck(*trace("wiring-healthy"))
    lines = lines_of(result)
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(lines) <= 30
    assert f"config   {KEY} [2, 4, 6]" in lines
    story = section(lines, "extend eager, verify eager")
    for step in (
        "  setter   LlamaForCausalLM.set_eagle3_layers_to_capture",
        "           model.layers_to_capture = [3, 5, 7]  srt/models/llama.py:140",
        "  states   boundaries 3 5 7  srt/layers/communicator.py:43",
        "  concat   3 x 64 = 192  srt/layers/logits_processor.py:55",
        "  verdict  proved: complete on each rank",
    ):
        assert step in story
    assert "LlamaForCausalLMEagle3.model.fc 192 -> 64, as wide" in "\n".join(story)
    assert lines[-1] == "3 paths: 3 proved, 0 violated, 0 unproved"


def test_every_place_is_a_line_of_the_tree() -> None:
    document = parsed(*trace("wiring-healthy"))
    root = Path(tree_of("wiring-healthy"))
    places = [each["place"] for row in document["capture"] for each in row["told"]]
    places += [place for row in document["capture"] for kept in row["kept"] for place in kept["places"]]
    places += [row["concat"] for row in document["capture"]]
    assert len(places) > 12
    for place in places:
        assert (root / place["file"]).read_text("utf-8").splitlines()[place["line"] - 1].strip()


def test_paths_that_differ_are_told_apart() -> None:
    result = flowcheck(*trace("wiring-graph-default"))
    lines = lines_of(result)
    assert result.exit_code == 1
    graph = section(lines, "verify decode graph (CudaGraphRunner)")
    assert graph[:2] == [
        "  ids      none: the setter takes its default",
        "           srt/model_executor/cuda_graph_runner.py:40",
    ]
    assert "  states   boundaries 2 4 5  srt/layers/communicator.py:43" in graph
    assert "  verdict  VIOLATED HS205: complete on each rank" in graph
    assert "  verdict  proved: complete on each rank" in section(lines, "extend eager, verify eager")


def test_what_is_alike_is_told_once_and_conditions_are_named() -> None:
    lines = lines_of(flowcheck(*trace("wiring-partial-sums")))
    graph = section(lines, "verify decode graph (CudaGraphRunner)")
    assert "  then     as on extend eager, verify eager" in graph
    told = " ".join(" ".join(graph).split())
    fused = "enable_flashinfer_allreduce_fusion is true"
    assert f"verdict proved where {fused.replace('true', 'false')} or {fused}, >2048 tok: complete on each rank" in told
    assert f"verdict VIOLATED HS209 where {fused}, <=2048 tok: each rank has its part of a sum" in told


def test_the_embedding_and_states_that_are_not_known_have_names() -> None:
    wrong = flowcheck("trace", tree_of("wiring-embedding"), *pair_of("wiring-embedding"), *needing()).stdout
    assert "boundary 0 (the embedding)  srt/models/llama.py:103" in wrong
    result = flowcheck(*trace("wiring-unknown"))
    assert (result.exit_code, "boundaries ? ? ?" in result.stdout) == (1, True)
    assert "3 paths: 0 proved, 0 violated, 3 unproved" in result.stdout


def test_a_target_without_a_hook_has_no_path() -> None:
    result = flowcheck(*trace("wiring-no-hook"))
    assert result.exit_code == 1
    assert "no path of this tree captures states for the pair" in result.stdout
    assert "error[HS204]" in result.stdout


def test_the_layer_that_the_states_enter() -> None:
    given = ["--draft", draft_of("wiring-hard-coded-states"), *pair_of("wiring-healthy")[2:]]
    wrong = flowcheck("trace", tree_of("wiring-hard-coded-states"), *given, *needing("3,7")).stdout
    assert "192 -> 64: 128 does not fit" in wrong
    assert "3 (in the code) x 64 (hidden_size)" in wrong


def test_an_algorithm_that_takes_no_states_has_nothing_to_follow() -> None:
    result = flowcheck(*trace("wiring-healthy", "--algorithm", "NGRAM"))
    assert result.exit_code == 0
    assert "NGRAM takes no states from inside the target: there is no way to follow" in lines_of(result)


def test_the_mode_is_not_asked_about() -> None:
    document = parsed(*trace("wiring-healthy"))
    assert (document["flows"], document["call_graph"]) == ([], None)
    assert not [each for each in document["findings"] if each["rule"].startswith("HS1")]


def test_graphs_that_are_switched_off_are_no_question() -> None:
    result = flowcheck(*trace("wiring-graph-default", "--set", "disable_cuda_graph=true"))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "2 paths: 2 proved, 0 violated, 0 unproved"


def test_a_launch_names_the_pair_and_the_ranks(tmp_path: Path) -> None:
    _, draft, _, target = pair_of("wiring-healthy")
    script = written(
        tmp_path / "serve.sh",
        f"python -m sglang.launch_server --model-path {target} --speculative-draft-model-path {draft} "
        "--speculative-algorithm EAGLE3 --tp 4\n",
    )
    document = parsed("trace", tree_of("wiring-healthy"), "--launch", script, *needing())
    assert {each["text"] for each in document["assumptions"]} >= {"a batch of 37 rows on rank 0 of 4"}
    said = "serve.sh:1 says 4"
    refused(flowcheck("trace", "./tree", "--launch", script, "--tp", "8"), "--tp 8: ", said)


@pytest.mark.parametrize("width", [40, 80, 140])
@pytest.mark.parametrize("name", ["wiring-graph-default", "wiring-partial-sums", "wiring-unknown", "wiring-no-hook"])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    report = Report.model_validate(parsed(*trace(name)))
    assert report.pairing is not None
    assert max(line.cell_len for line in trace_page(report, report.pairing, width)) <= width
    given = [tree_of("wiring-healthy"), tree_of(name), *pair_of("wiring-healthy"), *needing()]
    upgraded = UpgradeDocument.model_validate(parsed("upgrade", *given, schema="upgrade"))
    assert max(line.cell_len for line in upgrade_page(upgraded, width)) <= width


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "trace follows a pair: give --draft and --target"),
        (["--draft", "x"], "--draft without --target"),
        ([*pair_of("wiring-healthy"), "--tp", "0"], "--tp"),
        ([*pair_of("wiring-healthy"), "--tp", "2", "--set", "tp_size=4"], "--tp 2: --set tp_size=4 says 4"),
        ([*pair_of("wiring-healthy"), "--set", "tp_size=many"], "tp_size is 'many'"),
        ([*pair_of("wiring-healthy")], "no such file or folder: ./no-tree"),
        ([*pair_of("wiring-healthy"), *needing(), "--trained-with", "y"], "exclude each other"),
        ([*pair_of("wiring-healthy"), "--trained-with", ""], "--trained-with is empty"),
        ([*pair_of("wiring-healthy"), *needing("9,10,11")], "trained boundary 9 is declared"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], said: str) -> None:
    refused(flowcheck("trace", "./no-tree", *arguments), said)
