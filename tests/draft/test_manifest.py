"""A pair is frozen into a small file without secrets and paths, and read back as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck.draft import Computed, DraftError, ManifestError, Origin, Pairing, mismatches_of, pair
from flowcheck.draft.manifest import SCHEMA, check_name, freeze, pair_path, read_pair, thaw, write_pair
from tests.draft.samples import NAMES, deepseek, draft, one_clear_line, sample, target


def story(**changes: object) -> Pairing:
    return pair(deepseek(2, 30, 58, **changes), target("kimi-k2.5"), declared=(3, 31, 59))


def document(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_comes_back_as_it_went(name: str, tmp_path: Path) -> None:
    before = sample(name)
    path = write_pair(before, "kimi", tmp_path)
    after = read_pair("kimi", tmp_path)
    assert path == tmp_path / ".flowcheck" / "pairs" / "kimi.json"
    assert after.name == "kimi"
    assert after.draft == before.draft
    assert after.target == before.target
    assert after.trained == before.trained
    assert (after.header is None) == (before.header is None)
    if after.header is not None and before.header is not None:
        assert after.header.tensors == before.header.tensors
    assert mismatches_of(after) == mismatches_of(before)


def test_declared_and_computed_boundaries_are_kept(tmp_path: Path) -> None:
    write_pair(story(), "declared", tmp_path)
    computed = pair(deepseek(2, 30, 58), target("kimi-k2.5"), training=Computed((2, 30, 58), "/home/me/trees/sglang"))
    path = write_pair(computed, "computed", tmp_path)
    assert read_pair("declared", tmp_path).trained.boundaries == (3, 31, 59)
    assert read_pair("computed", tmp_path).trained.boundaries == (2, 30, 58)
    assert "/home" not in path.read_text("utf-8")


def test_what_is_open_stays_open(tmp_path: Path) -> None:
    before = pair(deepseek(2, 30, 58), target("kimi-k2.5"))
    write_pair(before, "open", tmp_path)
    after = read_pair("open", tmp_path).trained
    assert after.boundaries is None
    assert after == before.trained


def test_the_commits_of_the_hub_are_kept(tmp_path: Path) -> None:
    made = replace(story(), draft_origin=Origin("me/kimi-eagle3", "a" * 40))
    write_pair(made, "kimi", tmp_path)
    assert str(read_pair("kimi", tmp_path).draft_origin) == f"me/kimi-eagle3@{'a' * 40}"


def test_the_same_pair_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_pair(story(), "kimi", tmp_path).read_bytes()
    assert write_pair(story(), "kimi", tmp_path).read_bytes() == first
    assert first.endswith(b"\n")
    assert [each.name for each in (tmp_path / ".flowcheck" / "pairs").iterdir()] == ["kimi.json"]


def test_no_secret_and_no_path_is_written(tmp_path: Path) -> None:
    made = story(
        _name_or_path="/home/me/checkpoints/kimi-eagle3",
        hf_token="hf_abcdefghijklmnop",
        token="x",
        note="see hf_abcdefghijklmnop",
        api_key="k",
        url="https://me:secret@example.com/x",
        trained_on=["C:\\Users\\me\\data", "~/data", "file:///srv/data", "from /srv/me/data in May"],
        bos_token="<s>",
        verifier={"name_or_path": "moonshotai/Kimi-K2.5"},
    )
    text = write_pair(made, "kimi", tmp_path).read_text("utf-8")
    for secret in ("hf_abc", "/home", "/srv", "Users", "~", "secret@", '"token"', "api_key"):
        assert secret not in text
    config = json.loads(text)["draft"]["config"]
    assert config["_name_or_path"] == "kimi-eagle3"
    assert config["trained_on"] == ["data", "data", "data", "from data in May"]
    assert config["bos_token"] == "<s>"
    assert config["verifier"]["name_or_path"] == "moonshotai/Kimi-K2.5"


def test_numbers_beyond_json_survive(tmp_path: Path) -> None:
    write_pair(story(time_step_limit=[0.0, float("inf")], eos=10**25), "kimi", tmp_path)
    raw = read_pair("kimi", tmp_path).draft.raw
    assert raw["time_step_limit"] == [0.0, float("inf")]
    assert raw["eos"] == 10**25


def test_ids_beyond_all_reason_can_be_frozen(tmp_path: Path) -> None:
    write_pair(pair(deepseek(1, 2, 10**30), target("kimi-k2.5")), "huge", tmp_path)
    assert read_pair("huge", tmp_path).draft.id_lists[0].ids[-1] == 10**30


def test_text_that_is_no_unicode_is_refused_in_one_line(tmp_path: Path) -> None:
    made = replace(story(), no_header="\ud800")
    with pytest.raises(ManifestError, match="cannot be frozen"):
        write_pair(made, "kimi", tmp_path)


@pytest.mark.parametrize("name", ["kimi", "Kimi-K2.5", "a", "a_b.c-d", "9", "x" * 64])
def test_names_that_can_be_file_names(name: str) -> None:
    assert check_name(name) == name
    assert pair_path(name).as_posix() == f".flowcheck/pairs/{name}.json"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        ".hidden",
        "-x",
        "a b",
        "a.",
        "a..b",
        "nul",
        "CON",
        "com1.x",
        "x" * 65,
        "ä",
        "a\n",
    ],
)
def test_names_that_cannot(name: str) -> None:
    with pytest.raises(ManifestError, match="is no name for a pair"):
        pair_path(name)


def test_a_pair_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"there is no pair kimi \(.*kimi.json does not exist\)$"):
        read_pair("kimi", tmp_path)
    write_pair(story(), "other", tmp_path)
    with pytest.raises(ManifestError, match=r"; there are other$"):
        read_pair("kimi", tmp_path)


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / ".flowcheck").write_text("a file")
    with pytest.raises(ManifestError, match="cannot write"):
        write_pair(story(), "kimi", tmp_path)


DAMAGE: list[tuple[Any, str]] = [
    (lambda each: each.update(schema="flowcheck.pair/2"), "is of the format 'flowcheck.pair/2'; this flowcheck reads"),
    (lambda each: each.update(schema="something"), "is no frozen pair: its schema is 'something'"),
    (lambda each: each.pop("schema"), "is no frozen pair: its schema is None (null)"),
    (lambda each: each.pop("draft"), "is damaged: draft: Field required"),
    (lambda each: each.update(extra=1), "is damaged: extra: Extra inputs are not permitted"),
    (lambda each: each.update(name="other"), "holds the pair 'other'"),
    (lambda each: each["trained"].update(readings=[]), "is damaged: trained.readings"),
    (lambda each: each["trained"]["readings"][0].update(boundaries=["3"]), "trained.readings.0.boundaries.0"),
    (
        lambda each: each["trained"]["readings"][0].update(boundaries=[3, 31, 99]),
        "cannot be those of a target of 61 layers",
    ),
    (lambda each: each["trained"]["readings"][0].update(boundaries=[31, 3]), "cannot be those"),
    (lambda each: each["trained"]["readings"][0].update(basis="magic"), "trained.readings.0.basis"),
    (lambda each: each["draft"]["config"].update(hidden_size="7168"), "hidden_size is '7168' (a string)"),
    (lambda each: each["target"].update(config={}), "has no number of layers"),
    (lambda each: each.update(header={"fc": ["BF16", [2, -1]]}), "the shape of 'fc'"),
    (lambda each: each.update(header={"fc": "BF16"}), "is damaged: header.fc"),
    (lambda each: each.update(header={}), "names no tensor"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGE)
def test_a_file_that_was_damaged_is_refused_in_one_line(tmp_path: Path, damage: Any, said: str) -> None:
    path = write_pair(story(), "kimi", tmp_path)
    content = document(path)
    damage(content)
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(ManifestError) as caught:
        read_pair("kimi", tmp_path)
    assert said in str(caught.value)
    assert "kimi.json" in str(caught.value)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = write_pair(story(), "kimi", tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ManifestError, match="is not valid JSON"):
        read_pair("kimi", tmp_path)


@settings(max_examples=40)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=4), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    ),
    st.data(),
)
def test_no_content_makes_the_reader_fall_over(
    tmp_path_factory: pytest.TempPathFactory, value: object, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("pairs")
    path = write_pair(story(), "kimi", root)
    content = document(path)
    place: Any = content
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
        if isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
            place = place[key]
        else:
            place[key] = value
            break
    path.write_text(json.dumps(content), "utf-8")
    try:
        read_pair("kimi", root)
    except DraftError as problem:
        one_clear_line(problem)


def test_the_schema_is_in_the_file(tmp_path: Path) -> None:
    assert document(write_pair(story(), "kimi", tmp_path))["schema"] == SCHEMA
    assert thaw(freeze(story(), "kimi")).trained.boundaries == (3, 31, 59)


def test_no_weights_make_a_small_file(tmp_path: Path) -> None:
    assert write_pair(sample("qwen3-8b.specforge-peagle"), "p", tmp_path).stat().st_size < 20_000
    assert draft().label == "draft"
