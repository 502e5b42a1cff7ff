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

IDS: dict[tuple[str, str], list[int]] = {("deepseek-v3", "0.5.23"): [2, 3, 4], ("qwen3-moe", "0.5.10"): [0, 2, 6]}
"""Ids of the draft, where they are not ``[1, 3, 4]``."""


@pytest.mark.parametrize(
    ("version", "target"), [(version, target) for target, versions in AGREE.items() for version in versions]
)
def test_ranks_capture_what_the_scan_says(version: str, target: str, tmp_path: Path) -> None:
    """With numbers and without, on the paths that both cover; the second run is held against the report of the first."""
    ids = IDS.get((target, version), [1, 3, 4])
    source, config = f"sglang=={version}", witness(target)
    kept = tmp_path / "report.json"
    for options in (("--backend", "gloo", "--output", kept), ("--backend", "fake", "--report", kept)):
        probe = probed(source, config, ids, tmp_path, *options)
        for path in covered(probe):
            assert seen(path) == path["expected_boundaries"], path["phase"]
            assert (path["verdict"], path["rules"]) == ("proved", []), path["reason"]
            assert path["ranks_agree"]
            assert path["draft_accepts"]


def test_a_residual_that_a_release_forgets_is_missed(tmp_path: Path) -> None:
    probe = probed("sglang==0.5.23", witness("gemma3"), [1, 3, 4], tmp_path, "--backend", "gloo")
    for path in covered(probe):
        assert {block["identity"] for block in path["blocks"]} == {"other"}
        assert "without its residual" in path["blocks"][0]["explanation"]


def test_the_fork_of_the_story_is_named(tmp_path: Path) -> None:
    """Its ids put the embedding before the outputs of the layers 2 and 30, and nothing is too narrow."""
    tree = tmp_path / "fork"
    shutil.copytree(release("0.5.9").unpacked(cache_root() / "trees"), tree / "sglang")
    stated = json.dumps(release("0.5.9").requirements())  # a list of strings is the same in both languages
    (tree / "pyproject.toml").write_text(f'[project]\nname = "sglang"\ndependencies = {stated}\n', "utf-8")
    models = tree / MODELS
    models.write_text(edited(edited(models.read_text("utf-8"), TOLD, FORKED), COLLECTED, EMBEDDED), "utf-8")
    probe = probed(tree, TARGET, [-1, 2, 30], tmp_path, "--backend", "gloo", "--trained-boundaries", "3,31,59")
    for path in covered(probe):
        assert (path["path"], seen(path)) == ("eager", [0, 3, 31])
        assert path["blocks"][0]["explanation"] == "the embedding (boundary 0)"
        assert (path["verdict"], path["draft_accepts"]) == ("violated", True)
