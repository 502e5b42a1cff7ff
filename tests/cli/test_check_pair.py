"""``flowcheck check-pair`` as a user meets it: the page, the document, exit codes, and bad input in one line."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from flowcheck.report.model import Report, json_schema
from tests.cli.pairs import (
    DRAFT,
    FIXTURES,
    IDS,
    TARGET,
    config,
    draft_with_ids,
    flowcheck,
    refused,
    safetensors,
    written,
)

DUMP = FIXTURES / "pair-healthy" / "draft" / "header.json"


def breaking(name: str) -> tuple[str, str]:
    return str(FIXTURES / name / "draft"), str(FIXTURES / name / "target")


# -------------------------------------------------------------------------------------------------------------- page
def test_a_healthy_pair_is_one_screen_and_a_last_line() -> None:
    result = flowcheck("check-pair", DRAFT, TARGET)
    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines[-1] == "no findings; no tree was asked (flowcheck scan does)"
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    labels = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert labels[:-1] == [
        "draft",
        "made",
        "target",
        "ids",
        "needs",
        "note",
        "fc",
        "depth",
        "tokens",
        "positions",
        "header",
    ]
    text = " ".join(result.stdout.split())
    for said in (
        "SpecForge, for EAGLE3 (the architecture is LlamaForCausalLMEagle3;",
        "target, 8 layers x 64, LlamaForCausalLM",
        f"eagle_config.{IDS} [1, 3, 4]: presumably, by the key, outputs of layers",
        f"boundaries 2 4 5: by the convention of eagle_config.{IDS}",
        "192 -> 64 in the checkpoint, 3 x 64 = 192 by the configuration",
        "1 layer; 1 layer in the checkpoint (midlayer)",
        "200 of the target's 1000",
        "512 of the target's 512",
        "15 tensors",
    ):
        assert said in text


def test_an_open_pair_shows_both_readings_and_how_to_settle_them() -> None:
    text = " ".join(flowcheck("check-pair", *breaking("pair-ids-ambiguous")).stdout.split())
    assert "needs open: one of these; --trained-boundaries says what it is boundaries 3 5 6: by the convention" in text
    assert "boundaries 2 4 5: the ids may mean that id k is the input of layer k" in text
    assert "warning[HS402]" in text
    assert "say --trained-boundaries 3,5,6 or --trained-boundaries 2,4,5." in text
    assert text.endswith("1 warning; no tree was asked (flowcheck scan does)")


def test_the_readme_shows_what_the_command_prints() -> None:
    said = flowcheck("check-pair", *breaking("pair-ids-ambiguous")).stdout
    block = "".join(f"    {line}\n" if line else "\n" for line in said.splitlines())
    assert block in (FIXTURES.parent / "README.md").read_text("utf-8")


def test_the_same_ids_with_two_trainings_are_two_answers() -> None:
    pair = breaking("pair-ids-ambiguous")
    for declared in ("3,5,6", "2,4,5"):
        result = flowcheck(
            "check-pair", *pair, "--trained-boundaries", declared, "--fail-on", "warning", "--format", "json"
        )
        document = json.loads(result.stdout)
        assert document["pairing"]["trained"]["boundaries"] == [int(each) for each in declared.split(",")]
        assert "convention-open" not in {each["kind"] for each in document["findings"]}
        assert result.exit_code == 0, "what was overruled is a note"


def test_a_pair_without_a_header_says_what_was_not_asked(tmp_path: Path) -> None:
    draft = written(tmp_path / "draft.json", config())
    text = " ".join(flowcheck("check-pair", draft, TARGET).stdout.split())
    assert "unproved the checkpoint was not looked at: the configuration was given as a file of its own" in text
    assert "fc 3 x 64 = 192 by the configuration" in text
    assert text.endswith("no findings, 1 open question; no tree was asked (flowcheck scan does)")
    document = json.loads(flowcheck("check-pair", draft, TARGET, "--format", "json").stdout)
    assert document["summary"]["unproved"] == 1
    assert document["pairing"]["header"] is None
    assert document["pairing"]["no_header"] == "the configuration was given as a file of its own"


def test_an_algorithm_that_nobody_knows_is_an_open_question() -> None:
    result = flowcheck("check-pair", DRAFT, TARGET, "--algorithm", "EAGEL3")
    assert result.exit_code == 0
    assert "unproved   it is not known which heads EAGEL3 runs" in result.stdout.splitlines()
    assert result.stdout.endswith("no findings, 1 open question; no tree was asked (flowcheck scan does)\n")


def test_the_quiet_page_has_findings_and_the_last_line() -> None:
    lines = flowcheck("check-pair", *breaking("pair-no-d2t"), "-q").stdout.splitlines()
    assert lines[0].startswith("error[HS409]")
    assert lines[-1] == "1 error; no tree was asked (flowcheck scan does)"
    assert not any(line.startswith("draft ") for line in lines)


def test_piped_text_has_no_colour_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    pair = breaking("pair-no-d2t")
    assert "\x1b" not in flowcheck("check-pair", *pair).stdout
    assert "\x1b[1;31merror[HS409]" in flowcheck("check-pair", *pair, "--color", "always").stdout


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("pair-*")))
def test_no_line_is_wider_than_80_columns(name: str) -> None:
    lines = flowcheck("check-pair", *breaking(name), "--verbose").stdout.splitlines()
    assert max(map(len, lines)) <= 80


# ---------------------------------------------------------------------------------------------------------- document
@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("pair-*")))
def test_the_document_is_valid_and_reads_back_as_itself(name: str) -> None:
    result = flowcheck("check-pair", *breaking(name), "--format", "json")
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    assert json.loads(Report.model_validate(document).model_dump_json(by_alias=True)) == document
    assert (document["schema"], document["source"]["kind"]) == ("flowcheck.report/1", "pair")
    assert (document["flows"], document["capture"], document["summary"]["proved"]) == ([], [], 0)


def test_the_document_of_a_pair_does_not_know_where_it_lay(tmp_path: Path) -> None:
    folder = tmp_path / "somewhere"
    for part in ("draft", "target"):
        for path in (FIXTURES / "pair-healthy" / part).iterdir():
            written(folder / part / path.name, path.read_text("utf-8"))
    documents = []
    for root in (FIXTURES / "pair-healthy", folder):
        document = json.loads(flowcheck("check-pair", root / "draft", root / "target", "--format", "json").stdout)
        del document["stats"]
        documents.append(document)
    assert documents[0] == documents[1]
    assert str(tmp_path) not in json.dumps(documents)


def test_fingerprints_do_not_depend_on_what_a_pair_is_called(tmp_path: Path) -> None:
    def prints(draft: Path) -> list[str]:
        document = json.loads(flowcheck("check-pair", draft, TARGET, "--header", DUMP, "--format", "json").stdout)
        return [each["fingerprint"] for each in document["findings"]]

    raw = config(hidden_size=32, vocab_size=999)
    assert prints(written(tmp_path / "a.json", raw)) == prints(written(tmp_path / "b.json", raw)) != []


def test_a_report_in_a_file_leaves_stdout_empty(tmp_path: Path) -> None:
    to = tmp_path / "report.json"
    result = flowcheck("check-pair", *breaking("pair-no-d2t"), "--format", "json", "-o", to)
    assert (result.exit_code, result.stdout) == (1, "")
    assert json.loads(to.read_text("utf-8"))["findings"][0]["rule"] == "HS409"


# -------------------------------------------------------------------------------------------------------- exit codes
@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("pair-no-d2t", [], 1),
        ("pair-no-d2t", ["--fail-on", "never"], 0),
        ("pair-no-d2t", ["--ignore", "HS4"], 0),
        ("pair-no-d2t", ["--select", "HS404"], 0),
        ("pair-positions-short", [], 0),
        ("pair-positions-short", ["--fail-on", "warning"], 1),
        ("pair-healthy", ["--algorithm", "EAGLE3", "--fail-on", "warning"], 0),
        ("pair-healthy", ["--algorithm", "eagle"], 1),
        ("pair-healthy", ["--algorithm", "DFLASH"], 1),
    ],
)
def test_the_exit_code_says_whether_there_are_findings(name: str, arguments: list[str], code: int) -> None:
    assert flowcheck("check-pair", *breaking(name), *arguments).exit_code == code


def test_a_team_decides_what_a_finding_weighs_and_how_to_mend_it(tmp_path: Path) -> None:
    written(tmp_path / "a.toml", 'id = "HS409"\nseverity = "warning"\nfix = "Ask team X."\n')
    written(tmp_path / "b.toml", 'id = "HS402"\n[parameters]\nkey_overruled_severity = "error"\n')
    result = flowcheck("check-pair", *breaking("pair-no-d2t"), "--rules", tmp_path)
    assert result.exit_code == 0
    assert "warning[HS409]" in result.stdout
    assert "Ask team X." in result.stdout


# --------------------------------------------------------------------------------------------------------- bad usage
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a pair needs DRAFT and TARGET, or --pair NAME"),
        ([DRAFT], "a pair needs DRAFT and TARGET"),
        ([DRAFT, TARGET, "more"], "nexpected extra argument"),
        ([DRAFT, TARGET, "--pair", "kimi"], "--pair names the draft and the target"),
        (["--pair", "kimi", "--header", "x"], "leave the other options out"),
        (["--pair", "kimi"], "there is no pair kimi"),
        (["--pair", "../../etc"], "is no name for a pair"),
        (["--pair", ""], "is no name for a pair"),
        ([DRAFT, TARGET, "--trained-boundaries", ""], "expected numbers with commas, as in 3,31,59"),
        ([DRAFT, TARGET, "--trained-boundaries", "2,4.5"], "expected numbers with commas"),
        ([DRAFT, TARGET, "--trained-boundaries", "2,4,9"], "boundary 9 is declared, and target has boundaries 0 to 8"),
        ([DRAFT, TARGET, "--trained-boundaries", "-1,2,4"], "boundary -1 is declared"),
        ([DRAFT, TARGET, "--trained-boundaries", "2,2,4"], "with one of them twice"),
        ([DRAFT, TARGET, "--algorithm", " "], "--algorithm is empty"),
        ([DRAFT, TARGET, "--select", "HS7"], "no rule is called 'HS7'"),
        ([DRAFT, TARGET, "--quiet", "--verbose"], "exclude each other"),
        ([DRAFT, TARGET, "-o", ""], "--output is empty"),
        ([DRAFT, TARGET, "-o", "/no/such/folder/report"], "cannot write"),
        ([DRAFT, TARGET, "--header", "/no/such/header"], "the draft's checkpoint: no such file: /no/such/header"),
        ([DRAFT, TARGET, "--header", ""], "--header is empty"),
        ([DRAFT, TARGET, "--header", TARGET], "there is no checkpoint beside the configuration"),
        (["", TARGET], "DRAFT is empty"),
        ([DRAFT, ""], "TARGET is empty"),
        ([DRAFT, "a\0b"], "NUL"),
        ([DRAFT, "/no/such/target"], "no such file or folder: /no/such/target"),
        ([TARGET, TARGET], "is a full model (LlamaForCausalLM of 8 layers)"),
        ([DRAFT, DRAFT], "is a draft"),
        (["a" * 5000, TARGET], "no such file or folder"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(flowcheck("check-pair", *arguments, "--offline"), said)


def test_a_name_on_the_hub_without_the_package_that_asks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    refused(flowcheck("check-pair", "nobody/no-such-draft", TARGET), "pip install 'flowcheck[hub]'")


# --------------------------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not valid JSON"),
        ("{", "is not valid JSON"),
        ("[]", "holds a list where a JSON object is expected"),
        ("null", "holds null"),
        ("{}", "describes no model"),
        ('{"hidden_size": 1, "hidden_size": 2}', "writes the key 'hidden_size' (a string) twice"),
        ("[" * 100_000, "nested deeper"),
        ("\ufeff{}", "byte order mark"),
    ],
)
def test_a_draft_that_is_no_configuration(tmp_path: Path, text: str, said: str) -> None:
    refused(flowcheck("check-pair", written(tmp_path / "config.json", text), TARGET), "config.json", said)


@pytest.mark.parametrize("ids", [["1", "3"], [1.5, 2], [True, 3], [[1, 3, 4]], "1,3,4", 3, {"a": 1}, [None], [1, {}]])
def test_ids_of_a_wrong_type(tmp_path: Path, ids: object) -> None:
    refused(flowcheck("check-pair", draft_with_ids(tmp_path, ids), TARGET), f"eagle_config.{IDS}")


@pytest.mark.parametrize(
    ("key", "value"),
    [("hidden_size", "64"), ("hidden_size", 1.5), ("hidden_size", True), ("hidden_size", -64), ("hidden_size", 10**40)],
)
def test_numbers_of_a_wrong_type(tmp_path: Path, key: str, value: object) -> None:
    draft = written(tmp_path / "d.json", config(**{key: value}))
    refused(flowcheck("check-pair", draft, TARGET), key)
    target = written(tmp_path / "t.json", config("target", **{key: value}))
    refused(flowcheck("check-pair", DRAFT, target), "t.json")


@pytest.mark.parametrize(
    ("ids", "rules"),
    [
        ([-1, 2, 30], {"HS202", "HS402"}),
        ([-7, 3, 4], {"HS202", "HS402"}),
        ([1, 3, 10**30], {"HS202", "HS402"}),
        ([1, 3, 9], {"HS202", "HS402"}),
        ([3, 3, 4], {"HS202", "HS402"}),
        ([], {"HS402"}),
    ],
)
def test_ids_that_can_be_read_and_are_wrong_are_findings(tmp_path: Path, ids: list[int], rules: set[str]) -> None:
    draft = draft_with_ids(tmp_path, ids)
    result = flowcheck("check-pair", draft, TARGET, "--header", DUMP, "--format", "json")
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    assert {each["rule"] for each in document["findings"]} == rules
    page = flowcheck("check-pair", draft, TARGET, "--header", DUMP).stdout
    assert max(map(len, page.splitlines())) <= 80


def test_a_target_without_layers(tmp_path: Path) -> None:
    refused(
        flowcheck("check-pair", DRAFT, written(tmp_path / "t.json", config("target", num_hidden_layers=...))), "layers"
    )
    refused(
        flowcheck("check-pair", DRAFT, written(tmp_path / "t.json", config("target", num_hidden_layers=0))), "layers"
    )


HEADERS = {
    "empty": (b"", None),
    "of 2^60 bytes": (b"{}", 1 << 60),
    "longer than its file": (b"{}", 1000),
    "no JSON": (b"{]", None),
    "a list": (b"[]", None),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_lies(tmp_path: Path, name: str) -> None:
    data, length = HEADERS[name]
    written(tmp_path / "draft" / "config.json", config())
    safetensors(tmp_path / "draft" / "model.safetensors", data, length=length)
    refused(flowcheck("check-pair", tmp_path / "draft", TARGET), "the draft's checkpoint: ", "model.safetensors")


def test_a_header_whose_tensors_are_not_in_its_file(tmp_path: Path) -> None:
    lie = {"fc.weight": {"dtype": "BF16", "shape": [64, 192], "data_offsets": [0, 24576]}}
    path = safetensors(tmp_path / "x.safetensors", lie, b"\0" * 10)
    refused(flowcheck("check-pair", DRAFT, TARGET, "--header", path), "the file has 10 bytes of data")


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ({"weight_map": {"fc.weight": "model-00001-of-00002.safetensors"}}, "which is not there"),
        ({"weight_map": {"fc.weight": "../../etc/passwd"}}, "no safetensors file beside it"),
        ({"weight_map": []}, "is no index of shards"),
    ],
)
def test_an_index_that_names_what_is_not_there(tmp_path: Path, index: object, said: str) -> None:
    written(tmp_path / "draft" / "config.json", config())
    written(tmp_path / "draft" / "model.safetensors.index.json", index)
    refused(flowcheck("check-pair", tmp_path / "draft", TARGET), said)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "config.json", config())
    opened = Path.open

    def denied(self: Path, *arguments: Any, **more: Any) -> Any:
        if self == path:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", denied)  # root may read whatever its mode is
    refused(flowcheck("check-pair", path, TARGET), "cannot read", "Permission denied")


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to(os.devnull)
    refused(flowcheck("check-pair", tmp_path / "config.json", TARGET), "is not a regular file")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([1, 3, 8, 64, 10**30]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
DRAFT_KEYS = [*config(), "target_hidden_size", "num_aux_hidden_states", IDS, "dflash_config", "speculators_config"]
DRAFT_KEYS += [
    "transformer_layer_config",
    "norm_before_fc",
    "fc_norm",
    "tie_word_embeddings",
    "aux_hidden_states_layer_ids",
]


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    of_draft=st.dictionaries(st.sampled_from(DRAFT_KEYS), JSON, max_size=3),
    ids=st.none() | st.lists(st.integers(-2, 10), max_size=5),
    of_target=st.dictionaries(st.sampled_from([*config("target"), "text_config"]), JSON, max_size=1),
    with_header=st.booleans(),
)
def test_whatever_a_configuration_holds_there_is_a_report_or_one_line(
    tmp_path: Path, of_draft: dict[str, Any], ids: list[int] | None, of_target: dict[str, Any], with_header: bool
) -> None:
    eagle = {} if ids is None else {"eagle_config": {IDS: ids}}
    draft = written(tmp_path / "draft.json", config(**{**eagle, **of_draft}))
    target = written(tmp_path / "target.json", config("target", **of_target))
    arguments = ["check-pair", draft, target, *(["--header", DUMP] if with_header else [])]
    result = flowcheck(*arguments)
    if result.exit_code == 2:
        refused(result)
        return
    assert result.exit_code in (0, 1), result.output
    assert max(map(cell_len, result.stdout.splitlines())) <= 80
    document = json.loads(flowcheck(*arguments, "--format", "json").stdout)
    jsonschema.Draft202012Validator(json_schema()).validate(document)


@pytest.mark.parametrize("ids", [[10**4000, 2, 3], list(range(100_000)), [2] * 5000])
def test_a_page_stays_a_page_whatever_the_ids_are(tmp_path: Path, ids: list[int]) -> None:
    result = flowcheck("check-pair", draft_with_ids(tmp_path, ids), TARGET)
    assert result.exit_code == 1
    assert len(result.stdout) < 6000


def test_control_characters_of_a_configuration_reach_no_terminal(tmp_path: Path) -> None:
    raw = config(architectures=["Eagle3\x1b[31m\u202eEvil"])
    result = flowcheck("check-pair", written(tmp_path / "d.json", raw), TARGET)
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
