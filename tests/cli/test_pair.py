"""``flowcheck pair``: a pair is frozen once and then read offline, by its name, wherever the folder is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.pairs import DRAFT, FIXTURES, TARGET, config, flowcheck, refused, written
from tests.draft.fake_hub import COMMIT, FakeHub, TensorInfo

OPEN = [str(FIXTURES / "pair-ids-ambiguous" / part) for part in ("draft", "target")]


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def manifest(root: Path, name: str = "kimi") -> Path:
    return root / ".flowcheck" / "pairs" / f"{name}.json"


def test_a_pair_is_frozen_below_the_working_directory(inside: Path) -> None:
    result = flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kimi", "--trained-boundaries", "2,4,5")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "froze kimi in .flowcheck/pairs/kimi.json",
        "  draft with target: boundaries [2, 4, 5]",
    ]
    held = json.loads(manifest(inside).read_text("utf-8"))
    assert held["trained"]["readings"][0]["basis"] == "declared"
    assert str(FIXTURES) not in manifest(inside).read_text("utf-8")


def test_freezing_again_replaces_and_gives_the_same_bytes(inside: Path) -> None:
    flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kimi")
    before = manifest(inside).read_bytes()
    assert flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kimi").stdout.startswith("replaced kimi in ")
    assert manifest(inside).read_bytes() == before


def test_what_stays_open_is_said_when_a_pair_is_frozen(inside: Path) -> None:
    draft = written(inside / "draft.json", json.loads((Path(OPEN[0]) / "config.json").read_text("utf-8")))
    said = flowcheck("pair", "freeze", draft, TARGET, "--name", "open").stdout.splitlines()
    assert said[1] == "  draft with target: what it needs is open"
    assert said[2].startswith("  what it was trained on is open: freeze it with --trained-boundaries")
    assert said[3] == "  without a header: the configuration was given as a file of its own"


def test_pairs_are_listed_by_name(inside: Path) -> None:
    for name in ("z", "kimi-k2"):
        flowcheck("pair", "freeze", DRAFT, TARGET, "--name", name)
    assert flowcheck("pair", "list").stdout.splitlines() == [
        "kimi-k2  draft with target: boundaries [2, 4, 5]",
        "z        draft with target: boundaries [2, 4, 5]",
    ]


def test_a_folder_without_pairs_says_how_to_keep_one() -> None:
    result = flowcheck("pair", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "flowcheck pair freeze DRAFT TARGET --name NAME" in result.stderr


def test_a_damaged_pair_does_not_hide_the_others(inside: Path) -> None:
    flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "good")
    written(manifest(inside, "bad"), "{")
    result = flowcheck("pair", "list")
    assert result.exit_code == 2
    assert result.stdout.startswith("good  ")
    assert result.stderr.startswith("flowcheck: error: .flowcheck/pairs/bad.json is not valid JSON")
    assert result.stderr.count("\n") == 1


def test_a_pair_is_shown_as_it_would_be_checked() -> None:
    flowcheck("pair", "freeze", *OPEN, "--name", "open")
    shown = flowcheck("pair", "show", "open")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == "pair       open"
    assert "warning[HS402]" in shown.stdout
    assert json.loads(flowcheck("pair", "show", "open", "--format", "json").stdout)["pairing"]["name"] == "open"


@pytest.mark.parametrize("name", ["pair-healthy", "pair-ids-ambiguous", "pair-no-d2t", "pair-eagle1-head"])
def test_a_frozen_pair_is_checked_like_the_files_it_was_made_of(name: str) -> None:
    folder = FIXTURES / name
    flowcheck("pair", "freeze", folder / "draft", folder / "target", "--name", "kept")
    fresh = flowcheck("check-pair", folder / "draft", folder / "target", "--format", "json")
    kept = flowcheck("check-pair", "--pair", "kept", "--format", "json")
    assert kept.exit_code == fresh.exit_code
    of_fresh, of_kept = json.loads(fresh.stdout), json.loads(kept.stdout)
    assert of_kept["pairing"].pop("name") == "kept"
    del of_fresh["pairing"]["name"], of_fresh["stats"], of_kept["stats"]
    assert of_kept == of_fresh


def test_another_root(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = inside / "repo"
    root.mkdir()
    flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kimi", "--root", root)
    assert manifest(root).is_file()
    assert not manifest(inside).exists()
    assert flowcheck("pair", "list", "--root", root).stdout.startswith("kimi  ")
    assert flowcheck("pair", "show", "kimi", "--root", root).exit_code == 0
    refused(flowcheck("pair", "show", "kimi"), "there is no pair kimi")


def test_a_declaration_that_contradicts_the_frozen_one_is_refused() -> None:
    flowcheck("pair", "freeze", *OPEN, "--name", "said", "--trained-boundaries", "3,5,6")
    refused(
        flowcheck("check-pair", "--pair", "said", "--trained-boundaries", "2,4,5"),
        "--trained-boundaries 2,4,5: pair said was frozen with boundaries [3, 5, 6], declared",
    )
    assert flowcheck("check-pair", "--pair", "said", "--trained-boundaries", "3,5,6").exit_code == 0


def test_a_declaration_settles_a_pair_that_was_frozen_open() -> None:
    flowcheck("pair", "freeze", *OPEN, "--name", "open")
    result = flowcheck("check-pair", "--pair", "open", "--trained-boundaries", "2,4,5", "--format", "json")
    assert json.loads(result.stdout)["pairing"]["trained"]["boundaries"] == [2, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["freeze", DRAFT, TARGET], "issing option '--name'"),
        (["freeze", DRAFT, TARGET, "--name", "a/b"], "is no name for a pair"),
        (["freeze", DRAFT, TARGET, "--name", "con"], "is no name for a pair"),
        (["freeze", DRAFT, TARGET, "--name", ""], "is no name for a pair"),
        (["freeze", DRAFT, TARGET, "--name", "x", "--root", "/no/such/root"], "--root /no/such/root: no such folder"),
        (["freeze", "/no/such", TARGET, "--name", "x"], "no such file or folder: /no/such"),
        (["list", "--root", "/no/such/root"], "no such folder"),
        (["show", "nobody"], "there is no pair nobody (.flowcheck/pairs/nobody.json does not exist)"),
        (["show", ".."], "is no name for a pair"),
        (["show"], "issing argument 'NAME'"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], said: str) -> None:
    refused(flowcheck("pair", *arguments), said)


def test_an_unknown_pair_is_answered_with_those_there_are() -> None:
    flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kimi")
    refused(flowcheck("check-pair", "--pair", "kimmi"), "; there are kimi")


def test_a_manifest_of_a_newer_format(inside: Path) -> None:
    flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kimi")
    held = json.loads(manifest(inside).read_text("utf-8"))
    written(manifest(inside), {**held, "schema": "flowcheck.pair/2"})
    said = "this flowcheck reads flowcheck.pair/1: update it, or freeze the pair anew"
    refused(flowcheck("check-pair", "--pair", "kimi"), "flowcheck.pair/2", said)
    assert said in flowcheck("pair", "list").stderr


def test_a_folder_that_cannot_be_written(inside: Path) -> None:
    written(inside / ".flowcheck", "a file")
    refused(flowcheck("pair", "freeze", DRAFT, TARGET, "--name", "kimi"), "cannot write .flowcheck/pairs/kimi.json")


def test_a_token_in_a_configuration_is_not_kept(inside: Path) -> None:
    draft = written(inside / "draft.json", config(hf_token="hf_abcdefghijkl"))
    flowcheck("pair", "freeze", draft, TARGET, "--name", "kimi")
    assert "hf_abcdefghijkl" not in manifest(inside).read_text("utf-8")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    made = FakeHub(tmp_path / "hub")
    made.remote["config.json"] = json.dumps(config()).encode()
    tensors = json.loads((Path(DRAFT) / "header.json").read_text("utf-8"))["tensors"]
    made.headers["model.safetensors"] = {
        name: TensorInfo(each["dtype"], each["shape"]) for name, each in tensors.items()
    }
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)  # type: ignore[arg-type]
    monkeypatch.setenv("FLOWCHECK_CACHE_DIR", str(tmp_path / "cache"))
    return made


def test_a_draft_of_the_hub_is_frozen_at_its_commit_and_needs_no_hub_after(
    hub: FakeHub, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = flowcheck("check-pair", "org/name", TARGET)
    assert fresh.stdout.startswith(f"draft      org/name@{COMMIT[:12]}, LlamaForCausalLMEagle3\n")
    assert flowcheck("pair", "freeze", "org/name", TARGET, "--name", "kimi").exit_code == 0
    assert json.loads(manifest(inside).read_text("utf-8"))["draft"]["revision"] == COMMIT
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    kept = flowcheck("check-pair", "--pair", "kimi")
    assert kept.stdout == "pair       kimi\n" + fresh.stdout
    assert flowcheck("pair", "list").stdout == "kimi  org/name with target: boundaries [2, 4, 5]\n"


def test_a_hub_that_cannot_be_reached_is_one_line(hub: FakeHub) -> None:
    hub.error = ConnectionError("no network here")
    refused(flowcheck("check-pair", "org/name", TARGET), "cannot reach the hub for org/name", "no network here")
    refused(flowcheck("check-pair", "org/name", TARGET, "--offline"), "--offline forbids to fetch it")
