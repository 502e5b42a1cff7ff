"""What a user names is found: a folder, a configuration, a checkpoint beside it or elsewhere."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from flowcheck.draft import ConfigError, DraftError, Header, HeaderError, open_model, read_header, read_pairing
from tests.draft.samples import PAIRS, draft_json, header_json, target_json

NAME = "qwen3-8b.specforge-eagle3"
DRAFT = str(PAIRS / "drafts" / f"{NAME}.json")
TARGET = str(PAIRS / "targets" / "qwen3-8b.json")


def folder(root: Path, name: str, config: object, header: object | None = None) -> Path:
    made = root / name
    made.mkdir()
    (made / "config.json").write_text(json.dumps(config), "utf-8")
    if header is not None:
        (made / "header.json").write_text(json.dumps(header), "utf-8")
    return made


def test_two_files_are_a_pair() -> None:
    made = read_pairing(DRAFT, TARGET)
    assert (made.draft.label, made.target.label) == (NAME, "qwen3-8b")
    assert made.header is None
    assert made.no_header == "the configuration was given as a file of its own"
    assert made.trained.boundaries == (2, 18, 33)


def test_a_header_may_lie_elsewhere() -> None:
    made = read_pairing(DRAFT, TARGET, header=str(PAIRS / "headers" / f"{NAME}.json"))
    assert made.header is not None
    assert made.fc_in_features == 12288


@pytest.mark.parametrize("spelling", ["{0}", "{0}/", "{0}/config.json"])
def test_a_folder_brings_its_header(tmp_path: Path, spelling: str) -> None:
    drafted = folder(tmp_path, "my-draft", draft_json(), header_json())
    made = read_pairing(spelling.format(drafted), str(folder(tmp_path, "target", target_json())))
    assert made.draft.label == "my-draft"
    assert made.header is not None
    assert made.header.label == "my-draft"


def test_the_folder_that_one_stands_in_has_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder(tmp_path, "here", draft_json()))
    assert open_model(".").label == "here"


def test_a_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder(tmp_path, "d", draft_json())
    assert open_model("~/d").label == "d"


def test_no_path_of_the_machine_is_kept_in_the_facts(tmp_path: Path) -> None:
    drafted = folder(tmp_path, "d", draft_json(), header_json())
    made = read_pairing(str(drafted), TARGET)
    assert str(tmp_path) not in repr(made)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "DRAFT is empty; give a folder, a config.json, or org/name[@revision] on the hub"),
        ("   ", "DRAFT is empty"),
        ("a\0b", "DRAFT holds a NUL character"),
        ("nothing.json", "no such file or folder: nothing.json (DRAFT is"),
        ("./org/name", "no such file or folder: ./org/name"),
        ("/no/such", "no such file or folder: /no/such"),
        ("~nobody-of-that-name/x", "no such file or folder"),
        ("a/b/c", "no such file or folder: a/b/c"),
        ("org/../name", "no such file or folder"),
        ("x" * 5000, "no such file or folder"),
    ],
)
def test_what_names_nothing_is_said(spec: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_model(spec, role="DRAFT")
    assert said in str(caught.value)


def test_a_folder_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder without a config.json$"):
        open_model(str(tmp_path))
    (tmp_path / "snapshots").mkdir()
    with pytest.raises(ConfigError, match="it is a folder of the hub's cache"):
        open_model(str(tmp_path))


def test_a_configuration_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    for spec in (tmp_path, tmp_path / "config.json"):
        with pytest.raises(ConfigError, match=r"config.json is a folder where a file is expected"):
            open_model(str(spec))


def test_a_configuration_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="no such file"):
        open_model(str(tmp_path))


def test_a_checkpoint_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError, match="is a checkpoint; name the folder"):
        open_model(str(tmp_path / "model.safetensors"))


def test_draft_and_target_the_wrong_way_round(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"qwen3-8b.json is a full model \(Qwen3ForCausalLM of 36 layers\)"):
        read_pairing(TARGET, DRAFT)


def test_a_draft_in_the_place_of_the_target() -> None:
    with pytest.raises(
        ConfigError, match=r"qwen3-8b.specforge-eagle3.json is a draft \(the architecture is Llama.*not a target"
    ):
        read_pairing(DRAFT, DRAFT)


def test_a_pair_can_be_hashed_and_sent_to_another_process() -> None:
    made = read_pairing(DRAFT, TARGET, header=str(PAIRS / "headers" / f"{NAME}.json"))
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    assert hash(again) == hash(made)


def test_a_damaged_checkpoint_says_whose_it_is(tmp_path: Path) -> None:
    drafted = folder(tmp_path, "d", draft_json())
    (drafted / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(HeaderError, match=r"the draft's checkpoint: .*model.safetensors is no safetensors file"):
        read_pairing(str(drafted), TARGET)


def test_declared_boundaries_are_passed_on() -> None:
    assert read_pairing(DRAFT, TARGET, declared=(3, 19, 34)).trained.boundaries == (3, 19, 34)
    with pytest.raises(DraftError, match="has boundaries 0 to 36"):
        read_pairing(DRAFT, TARGET, declared=(3, 19, 37))


def test_the_header_of_a_folder_may_be_asked_alone(tmp_path: Path) -> None:
    header = read_header(str(folder(tmp_path, "d", draft_json(), header_json())))
    assert isinstance(header, Header)
    assert header.label == "d"
