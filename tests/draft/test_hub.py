"""Models on the hub: the cache first, headers without weights, and one clear line for whatever is in the way."""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flowcheck.draft import Access, ConfigError, Header, HeaderError, HubError, open_model, read_pairing
from flowcheck.draft.hub import HubName, fetch_header, hub_name
from tests.draft import fake_hub
from tests.draft.fake_hub import COMMIT, FakeHub, TensorInfo
from tests.draft.samples import PAIRS, draft_json

CONFIG = json.dumps(draft_json()).encode()
TARGET = str(PAIRS / "targets" / "qwen3-8b.json")
FC = {"fc.weight": TensorInfo("BF16", [4096, 12288])}
SPELLED = b'{"fc.weight":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}}'
CHECKPOINT = len(SPELLED).to_bytes(8, "little") + SPELLED + b"\0\0"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    made = FakeHub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    return made


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("org/name", HubName("org/name")),
        ("org/name@main", HubName("org/name", "main")),
        ("org/name@refs/pr/1", HubName("org/name", "refs/pr/1")),
        (f"lmsys/sglang-EAGLE3-x.y_z@{COMMIT}", HubName("lmsys/sglang-EAGLE3-x.y_z", COMMIT)),
        ("name", None),
        ("a/b/c", None),
        ("org/name@", None),
        ("org/name@a b", None),
        ("../name", None),
        ("org/..", None),
        ("drafts/config.json", None),
        ("org/näme", None),
        ("https://huggingface.co/org/name", None),
    ],
)
def test_names(spec: str, expected: HubName | None) -> None:
    assert hub_name(spec) == expected


class TestConfigurations:
    def test_come_from_the_cache_without_a_network(self, hub: FakeHub) -> None:
        hub.put("config.json", CONFIG)
        hub.error = fake_hub.ConnectError("no network")
        model = open_model("org/name", access=Access(offline=True))
        assert (model.label, model.origin.repository, model.origin.revision) == ("org/name", "org/name", COMMIT)
        assert hub.asked == []

    def test_are_fetched_once(self, hub: FakeHub) -> None:
        hub.remote["config.json"] = CONFIG
        said: list[str] = []
        assert open_model("org/name@main", access=Access(progress=said.append)).origin.revision == COMMIT
        open_model("org/name@main")
        assert hub.asked == ["config.json"]
        assert hub.revisions == ["main"]
        assert said == ["fetching the configuration of org/name@main from the hub"]

    def test_a_path_that_exists_wins(self, hub: FakeHub, tmp_path: Path) -> None:
        (tmp_path / "org" / "name").mkdir(parents=True)
        (tmp_path / "org" / "name" / "config.json").write_bytes(CONFIG)
        assert open_model("org/name").folder is not None
        assert hub.asked == []

    def test_that_are_damaged_are_named_with_their_model(self, hub: FakeHub) -> None:
        hub.remote["config.json"] = b"<html>"
        with pytest.raises(ConfigError, match=r"org/name/config\.json is not valid JSON"):
            open_model("org/name")

    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (fake_hub.GatedRepoError("x", 403), "org/name is gated: accept its terms on the hub and set HF_TOKEN"),
            (
                fake_hub.RepositoryNotFoundError("x", 401),
                "there is no org/name on the hub, or it is private (then set HF_TOKEN)",
            ),
            (fake_hub.RevisionNotFoundError("x", 404), "org/name has no revision v9"),
            (fake_hub.EntryNotFoundError("x"), "org/name@v9 has no config.json"),
            (fake_hub.HfHubHTTPError("x", 503), "the hub answers 503 for org/name@v9"),
            (fake_hub.HfHubHTTPError("x", 401), "the hub answers 401 for org/name@v9; set HF_TOKEN"),
            (fake_hub.LocalEntryNotFoundError("look at your\nconnection"), "cannot reach the hub for org/name@v9"),
            (fake_hub.ConnectError("name not known"), "which is not in its cache: name not known"),
            (ConnectionError("offline"), "cannot reach the hub"),
            (RuntimeError("Bearer hf_abcdefghijkl"), "Bearer hf_…"),
        ],
    )
    def test_that_do_not_come_are_said_in_one_line(self, hub: FakeHub, error: Exception, said: str) -> None:
        hub.error = error
        with pytest.raises(HubError) as caught:
            open_model("org/name@v9")
        assert said in str(caught.value)
        assert "hf_abc" not in str(caught.value)
        assert str(caught.value).isprintable()

    def test_are_not_fetched_offline(self, hub: FakeHub) -> None:
        with pytest.raises(HubError, match="is not in the hub's cache, and --offline forbids to fetch it"):
            open_model("org/name", access=Access(offline=True))
        assert hub.asked == []

    def test_need_the_package(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        known = builtins.__import__

        def without(name: str, *rest: Any, **more: Any) -> Any:
            if name == "huggingface_hub":
                raise ImportError(name)
            return known(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", without)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(HubError, match=r"org/name is no path that exists.*pip install 'flowcheck\[hub\]'"):
            open_model("org/name")

    def test_of_a_bad_name(self, hub: FakeHub) -> None:
        with pytest.raises(HubError, match="is no name of a repository"):
            open_model("org/na--me")


class TestHeaders:
    def header(self, access: Access | None = None) -> Header | str:
        return fetch_header(HubName("org/name"), COMMIT, access or Access())

    def test_come_by_range_requests_at_the_commit_of_the_configuration(self, hub: FakeHub) -> None:
        hub.remote["config.json"] = CONFIG
        hub.headers["model.safetensors"] = FC
        made = read_pairing("org/name", TARGET)
        assert made.header is not None
        assert made.fc_in_features == 12288
        assert hub.revisions == [None, COMMIT]
        assert str(made.draft_origin) == f"org/name@{COMMIT}"

    def test_are_kept_for_a_run_without_a_network(self, hub: FakeHub, tmp_path: Path) -> None:
        hub.headers["model.safetensors"] = FC
        access = Access(cache_dir=tmp_path / "cache")
        first = self.header(access)
        hub.error = fake_hub.ConnectError("no network")
        asked = len(hub.asked)
        again = self.header(Access(cache_dir=tmp_path / "cache", offline=True))
        assert isinstance(first, Header)
        assert isinstance(again, Header)
        assert again.tensors == first.tensors
        assert len(hub.asked) == asked

    def test_that_were_kept_and_damaged_are_fetched_anew(self, hub: FakeHub, tmp_path: Path) -> None:
        hub.headers["model.safetensors"] = FC
        access = Access(cache_dir=tmp_path)
        self.header(access)
        (kept,) = (tmp_path / "headers").rglob("*.json")
        kept.write_text("{")
        assert isinstance(self.header(access), Header)

    def test_come_from_weights_in_the_cache(self, hub: FakeHub) -> None:
        hub.put("model.safetensors", CHECKPOINT)
        assert isinstance(self.header(Access(offline=True)), Header)
        assert hub.asked == []

    def test_of_shards_are_joined(self, hub: FakeHub) -> None:
        table = {"fc.weight": "model-1.safetensors", "norm.weight": "model-2.safetensors"}
        hub.remote["model.safetensors.index.json"] = json.dumps({"weight_map": table}).encode()
        hub.headers = {"model-1.safetensors": FC, "model-2.safetensors": {"norm.weight": TensorInfo("BF16", [4096])}}
        found = self.header()
        assert isinstance(found, Header)
        assert set(found.tensors) == set(table)

    def test_of_a_cache_that_has_but_some_shards_come_from_the_hub(self, hub: FakeHub) -> None:
        table = {"fc.weight": "model-1.safetensors"}
        hub.put("model.safetensors.index.json", json.dumps({"weight_map": table}).encode())
        hub.remote["model.safetensors.index.json"] = json.dumps({"weight_map": table}).encode()
        hub.headers = {"model-1.safetensors": FC}
        assert isinstance(self.header(), Header)
        assert hub.asked == ["list", "metadata"]

    def test_of_files_with_other_names_are_read(self, hub: FakeHub) -> None:
        hub.headers = {"draft.safetensors": FC}
        assert isinstance(self.header(), Header)

    def test_that_lie_are_refused(self, hub: FakeHub) -> None:
        hub.headers = {"model.safetensors": {"fc.weight": TensorInfo("BANANA", [1])}}
        with pytest.raises(HeaderError, match="which is no type of safetensors"):
            self.header()
        hub.error = fake_hub.SafetensorsParsingError("header too large")
        with pytest.raises(HeaderError, match="the header of org/name is damaged: header too large"):
            self.header()

    def test_of_pickled_weights_there_are_none(self, hub: FakeHub) -> None:
        hub.remote["pytorch_model.bin"] = b""
        assert "pickled" in str(self.header())

    def test_are_not_worth_an_error_where_the_hub_cannot_be_reached(self, hub: FakeHub) -> None:
        hub.put("config.json", CONFIG)
        hub.error = fake_hub.ConnectError("no network")
        made = read_pairing("org/name", TARGET)
        assert made.header is None
        assert made.no_header.startswith("its header was not fetched: cannot reach the hub")
        offline = read_pairing("org/name", TARGET, access=Access(offline=True))
        assert "--offline" in offline.no_header
