"""``flowcheck scan`` with a pair: it leads the report, its findings join the scan's, and what nobody checks is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import Result

from flowcheck.report.model import json_schema
from tests.cli import fake_engine
from tests.cli.pairs import DRAFT, FIXTURES, TARGET, config, flowcheck, refused, written

PAIR = ["--draft", DRAFT, "--target", TARGET]


@pytest.fixture(autouse=True)
def requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    monkeypatch.chdir(tmp_path)
    return fake_engine.install("clean", monkeypatch.setattr)


def scan(*arguments: object) -> Result:
    return flowcheck("scan", "./tree", *arguments)


def document(*arguments: object) -> dict[str, Any]:
    result = scan(*arguments, "--format", "json")
    read: dict[str, Any] = json.loads(result.stdout)
    jsonschema.Draft202012Validator(json_schema()).validate(read)
    return read


def breaking(name: str) -> list[str]:
    return ["--draft", str(FIXTURES / name / "draft"), "--target", str(FIXTURES / name / "target")]


def test_the_page_leads_with_the_pair() -> None:
    lines = scan(*PAIR).stdout.splitlines()
    assert lines[0].startswith("./tree  package")
    assert lines[1:7] == [
        "draft    draft, EAGLE3, fc 192 -> 64 (header)",
        "target   target, 8 layers x 64",
        "needs    boundaries 2 4 5 (by eagle_config.eagle_aux_hidden_state_layer_ids)",
        "package  python/sglang  version 0.5.9",
        "run      EAGLE3",
        "",
    ]
    assert lines[7:14] == [
        "PHASE   PATH          CAPTURES  WIDTH  PER RANK  VERDICT",
        "extend  eager         2 4 5     192    complete  proved",
        "verify  eager         2 4 5     192    complete  proved",
        "verify  decode graph  2 4 5     192    complete  proved",
        "width: 192 = fc 192 fits, which says nothing about which states they are",
        "n = the stream after n layers",
        "",
    ]
    assert lines[14].startswith("mode: FULL proved on 3/3 flows (speculative/eagle_worker.py:372,")
    assert lines[-1] == "6 questions: 6 proved, 0 violated, 0 unproved; 5 assumptions"
    assert any(line.endswith("[handed-over]") for line in lines)


def test_what_the_tree_captures_is_in_the_document() -> None:
    read = document(*PAIR)
    assert [(each["phase"], each["path"], each["verdict"]) for each in read["capture"]] == [
        ("extend", "eager", "proved"),
        ("verify", "eager", "proved"),
        ("verify", "decode_graph", "proved"),
    ]
    for each in read["capture"]:
        assert each["captured_boundaries"] == each["needed_boundaries"] == [2, 4, 5]
        assert (each["width"], each["draft_fc_in_features"], each["fits"], each["per_rank"]) == (
            192,
            192,
            True,
            "complete",
        )
        assert each["evidence"]


def test_rows_of_an_open_pair_are_unproved_and_no_failure() -> None:
    given = breaking("pair-ids-ambiguous")
    assert scan(*given).exit_code == 0
    read = document(*given)
    assert {each["verdict"] for each in read["capture"]} == {"unproved"}
    assert {each["needed_boundaries"] is None for each in read["capture"]} == {True}
    assert {tuple(map(tuple, each["readings"])) for each in read["capture"]} == {((3, 5, 6), (2, 4, 5))}
    assert {each["rule"] for each in read["unproved"]} == {"HS402"}
    assert read["summary"]["unproved"] == len(read["capture"]) + 1


def test_what_nobody_checks_is_a_question_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text((Path(DRAFT) / "config.json").read_text("utf-8"), "utf-8")
    given = ["--draft", "bare", "--target", TARGET]
    assert scan(*given, "--fail-on", "warning").exit_code == 0
    read = document(*given)
    (open_,) = read["unproved"]
    assert (open_["about"], open_["rule"]) == ("pair", "")
    assert open_["reason"].startswith("the checkpoint was not looked at")
    assert (read["findings"], read["summary"]["unproved"]) == ([], 1)


def test_a_scan_without_a_pair_says_nothing_of_pairs() -> None:
    read = document()
    assert (read["pairing"], read["unproved"], read["scenario"]["launch"]) == (None, [], None)
    assert "unproved  " not in scan().stdout
    assert scan().stdout.splitlines()[-1].startswith("3 questions")


def test_findings_of_the_pair_join_those_of_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_engine.install("error", monkeypatch.setattr)
    read = document(*breaking("pair-no-d2t"))
    assert [(each["rule"], each["severity"]) for each in read["findings"]] == [("HS101", "error"), ("HS409", "error")]
    assert read["summary"]["violated"] == 2


@pytest.mark.parametrize(("name", "code"), [("pair-no-d2t", 1), ("pair-ids-ambiguous", 0), ("pair-healthy", 0)])
def test_errors_of_the_pair_fail_the_scan_and_open_questions_do_not(name: str, code: int) -> None:
    assert scan(*breaking(name)).exit_code == code


def test_rules_of_pairs_are_selected_like_others() -> None:
    assert scan(*breaking("pair-no-d2t"), "--ignore", "HS4").exit_code == 0
    assert scan(*breaking("pair-no-d2t"), "--select", "HS1").exit_code == 0


def test_the_document_holds_the_pair() -> None:
    pairing = document(*PAIR)["pairing"]
    assert (pairing["algorithm"], pairing["producers"]) == ("EAGLE3", ["SpecForge"])
    assert pairing["trained"]["boundaries"] == [2, 4, 5]
    assert pairing["fc"] == {
        "states": 3,
        "with_embedding": False,
        "state_width": 64,
        "wanted": 192,
        "found": 192,
        "output": 64,
    }
    assert pairing["ids"][0]["ids"] == [1, 3, 4]
    assert pairing["vocabulary"] == {"draft": 200, "target": 1000}


def test_a_frozen_pair_by_its_name() -> None:
    flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kimi")
    result = scan("--pair", "kimi")
    assert result.stdout.splitlines()[1] == "pair     kimi"
    assert document("--pair", "kimi")["pairing"]["name"] == "kimi"


def test_declared_boundaries_are_what_the_draft_needs() -> None:
    lines = scan(*breaking("pair-ids-ambiguous"), "--trained-boundaries", "2,4,5").stdout.splitlines()
    assert "needs    boundaries 2 4 5 (declared)" in lines


def test_an_open_pair_shows_every_reading() -> None:
    lines = scan(*breaking("pair-ids-ambiguous")).stdout.splitlines()
    at = lines.index("needs    open: one of these; --trained-boundaries says what it is")
    assert lines[at + 1 : at + 3] == ["         boundaries 3 5 6", "         boundaries 2 4 5"]


# --------------------------------------------------------------------------------------------------------- algorithm
@pytest.mark.parametrize(
    ("name", "target", "algorithm"),
    [
        ("qwen3-8b.specforge-eagle3", "qwen3-8b", "EAGLE3"),
        ("qwen3-8b.specforge-dflash", "qwen3-8b", "DFLASH"),
        ("qwen3.6-27b.specforge-dspark", "qwen3.6-27b", "DSPARK"),
        ("llama-2-7b.hass-eagle1", "llama-2-7b-chat", "EAGLE"),
    ],
)
def test_a_draft_says_for_which_algorithm_to_scan(name: str, target: str, algorithm: str, requests: list[Any]) -> None:
    pairs = FIXTURES / "pairs"
    given = ["--draft", pairs / "drafts" / f"{name}.json", "--target", pairs / "targets" / f"{target}.json"]
    assert scan(*given).exit_code == 0
    assert requests[-1].algorithm == algorithm
    wrong = document(*given, "--algorithm", "EAGLE" if algorithm != "EAGLE" else "EAGLE3")
    assert "HS408" in {each["rule"] for each in wrong["findings"]}


# ------------------------------------------------------------------------------------------------------------ launch
SCRIPT = """#!/bin/bash
# serves
python -m sglang.launch_server --model-path {target} --speculative-draft-model-path {draft} \\
  --speculative-algorithm EAGLE3 --speculative-num-steps 3 --tp 8 --port $PORT --host 0.0.0.0 {more}
"""


def launch(folder: Path, more: str = "", *, draft: str = DRAFT, target: str = TARGET, before: str = "") -> Path:
    text = SCRIPT.format(target=target, draft=draft, more=more)
    return written(folder / "serve.sh", text.replace("# serves", before or "# serves"))


def test_a_launch_names_the_pair_and_sets_the_scenario(tmp_path: Path, requests: list[Any]) -> None:
    launch(tmp_path, "--disable-cuda-graph")
    result = scan("--launch", "serve.sh")
    assert (result.exit_code, result.stderr) == (0, "")
    (request,) = requests
    assert request.algorithm == "EAGLE3"
    assert request.settings == {"speculative_num_steps": 3, "tp_size": 8, "disable_cuda_graph": True}
    assert request.pairing.draft.label == "draft"
    assert request.launched == frozenset(request.settings)
    assert "draft    draft, EAGLE3, fc 192 -> 64 (header)" in result.stdout.splitlines()
    assert document("--launch", tmp_path / "serve.sh")["scenario"]["launch"] == "serve.sh:3"


def test_settings_add_to_a_launch_and_may_not_contradict_it(tmp_path: Path, requests: list[Any]) -> None:
    launch(tmp_path)
    assert scan("--launch", "serve.sh", "--set", "tp-size=8", "--set", "topk=4").exit_code == 0
    assert requests[-1].settings == {"speculative_num_steps": 3, "tp_size": 8, "topk": 4}
    assert requests[-1].launched == {"speculative_num_steps"}
    refused(scan("--launch", "serve.sh", "--set", "tp-size=4"), "--set tp_size=4: serve.sh:3 sets tp_size to 8")
    refused(scan("--launch", "serve.sh", "--algorithm", "EAGLE"), "--algorithm EAGLE: serve.sh:3 launches EAGLE3")
    assert scan("--launch", "serve.sh", "--algorithm", "eagle3").exit_code == 0


def test_the_pair_of_the_command_line_wins_over_that_of_the_launch(tmp_path: Path, requests: list[Any]) -> None:
    launch(tmp_path, draft="/models/draft", target="/models/target")
    assert scan("--launch", "serve.sh", *PAIR).exit_code == 0
    flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kimi")
    assert scan("--launch", "serve.sh", "--pair", "kimi").exit_code == 0
    assert [each.pairing.name for each in requests] == ["", "kimi"]
    assert requests[-1].settings["tp_size"] == 8


def test_a_model_of_the_launch_that_is_not_here_is_refused(tmp_path: Path) -> None:
    launch(tmp_path, draft="/models/draft")
    said = "; serve.sh:3 names it, and --draft, --target or --pair may name another"
    refused(scan("--launch", "serve.sh"), "no such file or folder: /models/draft", said)


def test_what_only_the_shell_knows_is_said(tmp_path: Path, requests: list[Any]) -> None:
    launch(tmp_path, "--ep $EP $EXTRA", before="export SGLANG_ENABLE_SPEC_V2=1 HOME=/x")
    result = scan("--launch", "serve.sh")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "flowcheck: warning: serve.sh, line 3: ep_size: $EP is only known to the shell; it is left free",
        "flowcheck: warning: serve.sh, line 3: $EXTRA may stand for any arguments; it is left free",
        "flowcheck: warning: serve.sh:3 sets SGLANG_ENABLE_SPEC_V2: the report assumes an environment without it",
    ]
    assert "ep_size" not in requests[-1].settings
    assert "ep_size" not in scan("--launch", "serve.sh", "--set", "ep-size=1").stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("EAGLE3", "$ALGORITHM", "$ALGORITHM is only known to the shell: give --algorithm"),
        (DRAFT, "$DRAFT", "$DRAFT is only known to the shell: give --draft"),
        (TARGET, "${TARGET:-x}", "is only known to the shell: give --target"),
        ("--tp 8", "--json-model-override-args '[1]'", "holds a list where a JSON object is expected"),
        ("sglang.launch_server", "vllm.serve", "holds no launch of SGLang"),
    ],
)
def test_a_launch_that_does_not_say_enough_is_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = launch(tmp_path)
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    refused(scan("--launch", "serve.sh"), said)


def test_control_characters_of_a_script_reach_no_terminal(tmp_path: Path) -> None:
    path = launch(tmp_path, "--attention-backend 'a\x1b[31mb' --x$\x1b[2J 1 --tp $\x9b")
    result = scan("--launch", "serve.sh", "--color", "never")
    assert "\x1b" not in result.output
    path.write_text(path.read_text("utf-8").replace(DRAFT, "$D\x1b[31m"), "utf-8")
    refused(scan("--launch", "serve.sh"), "give --draft")


def test_a_launch_without_a_draft_sets_the_scenario_alone(tmp_path: Path, requests: list[Any]) -> None:
    written(tmp_path / "serve.sh", "python -m sglang.launch_server --model-path x --tp 2")
    result = scan("--launch", "serve.sh")
    assert result.exit_code == 0
    assert requests[-1].pairing is None
    assert "serve.sh:1 names no draft, so that nothing is said about a pair" in result.stderr
    assert "serve.sh:1 names no speculative algorithm" in result.stderr
    refused(scan("--launch", "serve.sh", "--target", TARGET), "serve.sh:1 names no draft: give --draft")
    refused(scan("--launch", "serve.sh", "--draft", "", "--target", TARGET), "DRAFT is empty")


def test_what_a_launch_lays_over_the_target_counts(tmp_path: Path, requests: list[Any]) -> None:
    launch(tmp_path, """--json-model-override-args '{"num_hidden_layers": 12}'""")
    scan("--launch", "serve.sh")
    assert requests[-1].pairing.target.layers == 12


# --------------------------------------------------------------------------------------------------------- bad usage
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--draft", DRAFT], "--draft without --target"),
        (["--target", TARGET], "--target without --draft"),
        (["--draft", "", "--target", ""], "DRAFT is empty"),
        (["--pair", "kimi", *PAIR], "--pair names the draft, the target and the header"),
        (["--pair", "kimi"], "there is no pair kimi"),
        (["--header", "x"], "--header belongs to a pair"),
        (["--trained-boundaries", "1,2,x"], "expected numbers with commas"),
        (["--trained-boundaries", "1,2,3"], "--trained-boundaries belongs to a pair"),
        ([*PAIR, "--trained-boundaries", "x"], "expected numbers with commas"),
        ([*PAIR, "--algorithm", ""], "--algorithm is empty"),
        ([*PAIR, "--set", "speculative_algorithm=EAGLE"], "use --algorithm"),
        (["--launch", ""], "--launch is empty"),
        (["--launch", "/no/such/script"], "no such file: /no/such/script"),
        (["--launch", "."], ". is a folder where a file is expected"),
        ([*PAIR[:2], "--target", DRAFT], "is a draft"),
        (["--draft", TARGET, "--target", TARGET], "is a full model"),
    ],
)
def test_bad_usage_is_one_line_before_any_tree_is_read(arguments: list[str], said: str, requests: list[Any]) -> None:
    refused(scan(*arguments), said)
    assert requests == []


@pytest.mark.parametrize("ids", [["1"], [1.5], [True], [[1]], "1"])
def test_ids_of_a_wrong_type_are_one_line(tmp_path: Path, ids: object) -> None:
    draft = written(tmp_path / "d.json", config(eagle_config={"eagle_aux_hidden_state_layer_ids": ids}))
    refused(scan("--draft", draft, "--target", TARGET), "eagle_config.eagle_aux_hidden_state_layer_ids")
