"""Ranks that run released model code: they see the boundaries that the scan computes, and the defects that releases have."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from flowcheck.source import cache_root
from tests.cli.pairs import flowcheck, written
from tests.releases.test_boundaries import release
from tests.releases.test_story import (
    COLLECTED,
    EMBEDDED,
    FORKED,
    MODELS,
    TARGET,
    TOLD,
    edited,
)
from tests.releases.witnesses import WITNESSES

pytestmark = [pytest.mark.release, pytest.mark.long]

VISION = {
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_hidden_layers": 1,
    "intermediate_size": 64,
    "vt_hidden_size": 64,
    "text_hidden_size": 7168,
}


def draft_for(target: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    text = target.get("text_config", target)
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": text["hidden_size"],
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "intermediate_size": 1024,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "vocab_size": text["vocab_size"],
        "draft_vocab_size": 1024,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids},
    }


def witness(name: str) -> dict[str, Any]:
    """A target's configuration; a tower is as small as it can be."""
    config = dict(WITNESSES[name])
    if "vision_config" in config:
        config["vision_config"] = {**config["vision_config"], **VISION}
    return config


def probed(
    source: object, target: dict[str, Any], ids: list[int], folder: Path, *options: object, **changes: object
) -> dict[str, Any]:
    """The probe's part of the report, on two ranks. ``changes``: to the draft's configuration; None takes a key out."""
    said = written(folder / "target" / "config.json", target)
    changed = {**draft_for(target, ids), **changes}
    draft = written(folder / "draft" / "config.json", {key: each for key, each in changed.items() if each is not None})
    command = [
        "probe",
        source,
        "--draft",
        draft.parent,
        "--target",
        said.parent,
        "--nproc",
        2,
        "--yes",
        "--format",
        "json",
    ]
    result = flowcheck(*command, *options)
    assert result.exit_code in (0, 1), result.output
    text = (
        Path(str(options[options.index("--output") + 1])).read_text("utf-8") if "--output" in options else result.stdout
    )
    probe: dict[str, Any] = json.loads(text)["probe"]
    assert probe["trouble"] == ""
    return probe


def covered(probe: dict[str, Any]) -> list[dict[str, Any]]:
    """The paths that a run without a GPU shows: some of each phase."""
    found = [path for path in probe["paths"] if path["verdict"] != "not covered"]
    assert {path["phase"] for path in found} == {"extend", "verify"}
    return found


def seen(path: dict[str, Any]) -> list[int | None]:
    assert {block["identity"] for block in path["blocks"]} == {"boundary"}, path
    return [block["boundary"] for block in path["blocks"]]


AGREE: dict[str, tuple[str, ...]] = {
    "llama": ("0.4.9.post3", "0.5.6", "0.5.10", "0.5.23"),
    "qwen3": ("0.4.9.post3", "0.5.6", "0.5.10", "0.5.23"),
    "qwen3-moe": ("0.4.9.post3", "0.5.6", "0.5.10", "0.5.23"),
    "deepseek-v3": ("0.5.6", "0.5.10", "0.5.14", "0.5.23"),
    "gpt-oss": ("0.5.6", "0.5.10", "0.5.14", "0.5.23"),
    "kimi-k2.5": ("0.5.10", "0.5.14", "0.5.17", "0.5.23"),
}
"""Kinds of targets, and releases of several eras that can capture them."""

IDS: dict[tuple[str, str], tuple[list[int], str]] = {
    ("deepseek-v3", "0.5.23"): ([2, 3, 4], "2,3,4"),
}
"""Ids of the draft and what it was trained on, where they are not those of ``USUAL``."""

USUAL = ([1, 3, 4], "2,4,5")


@pytest.mark.parametrize(
    ("version", "target"), [(version, target) for target, versions in AGREE.items() for version in versions]
)
def test_ranks_capture_what_the_scan_says(version: str, target: str, tmp_path: Path) -> None:
    """With numbers and without, on the paths that both cover; the second run is held against the report of the first."""
    ids, trained = IDS.get((target, version), USUAL)
    source, config, declared = f"sglang=={version}", witness(target), ("--trained-boundaries", trained)
    kept = tmp_path / "report.json"
    for options in (("--backend", "gloo", "--output", kept), ("--backend", "fake", "--report", kept)):
        probe = probed(source, config, ids, tmp_path, *options, *declared)
        for path in covered(probe):
            assert seen(path) == path["expected_boundaries"], path["phase"]
            assert (path["verdict"], path["rules"]) == ("proved", []), path["reason"]
            assert path["ranks_agree"]
            assert path["draft_accepts"]


# ------------------------------------------------------------------------------------------------------------ defects
def changed(version: str, folder: Path, *edits: tuple[str, str, str]) -> Path:
    """A release with other text in some files, as a checkout that says what it needs."""
    tree = folder / "tree"
    shutil.copytree(release(version).unpacked(cache_root() / "trees"), tree / "sglang")
    stated = json.dumps(release(version).requirements())  # a list of strings is the same in both languages
    (tree / "pyproject.toml").write_text(f'[project]\nname = "sglang"\ndependencies = {stated}\n', "utf-8")
    for name, old, new in edits:
        path = tree / name
        path.write_text(edited(path.read_text("utf-8"), old, new), "utf-8")
    return tree


def violated(probe: dict[str, Any], *rules: str) -> list[dict[str, Any]]:
    """The paths, all of which break these rules."""
    found = covered(probe)
    assert {(path["verdict"], *path["rules"]) for path in found} == {("violated", *rules)}, probe
    return found


def test_a_residual_that_a_release_forgets_is_missed(tmp_path: Path) -> None:
    probe = probed("sglang==0.5.23", witness("gemma3"), [1, 3, 4], tmp_path, "--backend", "gloo")
    for path in violated(probe, "HS503"):
        assert {block["identity"] for block in path["blocks"]} == {"other"}
        assert "without its residual" in path["blocks"][0]["explanation"]


def test_a_last_layer_that_a_release_never_captures_is_missed(tmp_path: Path) -> None:
    options = ("--backend", "gloo", "--trained-boundaries", "4,6,8")
    probe = probed("sglang==0.5.16", witness("gpt-oss"), [3, 5, 7], tmp_path, *options)
    for path in violated(probe, "HS501", "HS505"):
        assert (seen(path), path["needed_boundaries"]) == ([4, 6], [4, 6, 8])
        assert (path["draft_accepts"], path["ranks_agree"]) == (False, True)


def test_layers_that_an_earlier_call_chose_stay_chosen(tmp_path: Path) -> None:
    """The graph runner tells the target its default layers first, the draft's come later, and the flags of both stay: six states
    for a draft that takes three."""
    options = ("--backend", "gloo", "--trained-boundaries", "1,3,7")
    probe = probed("sglang==0.5.10", witness("qwen3-moe"), [0, 2, 6], tmp_path, *options)
    for path in violated(probe, "HS501", "HS505"):
        assert seen(path) == path["expected_boundaries"] == [1, 2, 3, 4, 5, 7]
        assert (path["draft_accepts"], path["ranks_agree"]) == (False, True)


@pytest.mark.parametrize(
    ("version", "trained", "found"),
    [
        ("0.5.12", [2, 3, 4], [3, 4, 5]),
        ("0.5.14", [2, 3, 4], [2, 3, 4]),
        ("0.5.14", [3, 4, 5], [2, 3, 4]),
    ],
)
def test_ids_that_an_upgrade_reads_otherwise_are_other_layers(
    version: str, trained: list[int], found: list[int], tmp_path: Path
) -> None:
    """One draft file, two releases: between them DeepSeek's rule for what an id means became another one."""
    options = ("--backend", "gloo", "--trained-boundaries", ",".join(map(str, trained)))
    for path in covered(probed(f"sglang=={version}", witness("deepseek-v3"), [2, 3, 4], tmp_path, *options)):
        assert (seen(path), path["draft_accepts"]) == (found, True)
        assert path["verdict"] == ("proved" if found == trained else "violated"), path["reason"]
        assert path["rules"] == ([] if found == trained else ["HS503"])


NARROW = {"hidden_size": 2048, "target_hidden_size": 4096}
"""A draft that is half as wide as its target, and says how wide that is."""


@pytest.mark.parametrize("backend", ["gloo", "fake"])
def test_a_draft_that_is_narrower_than_its_target_has_to_say_so(backend: str, tmp_path: Path) -> None:
    options = ("--backend", backend)
    for path in covered(probed("sglang==0.5.6", witness("llama"), [1, 3, 4], tmp_path, *options, **NARROW)):
        assert (path["verdict"], path["draft_accepts"]) == ("proved", True), path["reason"]
        assert path["draft_in_features"] == path["width"]
    silent = {**NARROW, "target_hidden_size": None}
    probe = probed("sglang==0.5.6", witness("llama"), [1, 3, 4], tmp_path, *options, **silent)
    for path in violated(probe, "HS505"):
        assert (seen(path), path["draft_in_features"] < path["width"]) == ([2, 4, 5], True)


def test_a_fourth_state_is_too_much_for_a_draft_that_has_three_by_heart(tmp_path: Path) -> None:
    probe = probed("sglang==0.5.6", witness("llama"), [1, 3, 4, 5], tmp_path, "--backend", "fake")
    for path in violated(probe, "HS505"):
        assert (seen(path), path["width"], path["draft_in_features"]) == ([2, 4, 5, 6], 4 * 4096, 3 * 4096)


LLAMA_FILE = "sglang/srt/models/llama.py"
GATHERED = "aux_hidden_states.append(hidden_states + residual)\n"
SCATTERED = (
    "aux_hidden_states.append((hidden_states + residual).tensor_split(get_tensor_model_parallel_world_size())"
    "[get_tensor_model_parallel_rank()])\n"
)


def test_rows_that_stay_where_they_were_computed_are_missed(tmp_path: Path) -> None:
    tree = changed("0.5.6", tmp_path, (LLAMA_FILE, GATHERED, SCATTERED))
    probe = probed(tree, witness("llama"), [1, 3, 4], tmp_path, "--backend", "gloo")
    paths = {path["phase"]: path for path in covered(probe)}
    # What the release does next with the rows of an extend needs all of them.
    assert (paths["extend"]["verdict"], "IndexError" in paths["extend"]["reason"]) == ("inconclusive", True)
    verify = paths["verify"]
    assert (verify["verdict"], verify["rules"]) == ("violated", ["HS502", "HS503", "HS504"])
    assert (verify["rows"] * 2, verify["ranks_agree"]) == (verify["expected_rows"], False)
    assert "holds its own part" in verify["blocks"][0]["explanation"]


def test_the_fork_of_the_story_is_named(tmp_path: Path) -> None:
    """Its ids put the embedding before the outputs of the layers 2 and 30, and nothing is too narrow."""
    tree = changed("0.5.9", tmp_path, (MODELS, TOLD, FORKED), (MODELS, COLLECTED, EMBEDDED))
    probe = probed(tree, TARGET, [-1, 2, 30], tmp_path, "--backend", "gloo", "--trained-boundaries", "3,31,59")
    for path in covered(probe):
        assert (path["path"], seen(path)) == ("eager", [0, 3, 31])
        assert path["blocks"][0]["explanation"] == "the embedding (boundary 0)"
        assert (path["verdict"], path["draft_accepts"]) == ("violated", True)
