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


def probed(source: object, target: dict[str, Any], ids: list[int], folder: Path, *options: object) -> dict[str, Any]:
    """The probe's part of the report, on two ranks."""
    said = written(folder / "target" / "config.json", target)
    draft = written(folder / "draft" / "config.json", draft_for(target, ids))
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
    probe: dict[str, Any] = json.loads(result.stdout)["probe"]
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


@pytest.mark.parametrize("backend", ["gloo", "fake"])
@pytest.mark.parametrize(
    ("version", "target", "ids"),
    [
        ("0.4.9.post3", "llama", [1, 3, 4]),
        ("0.4.9.post3", "qwen3-moe", [1, 3, 4]),
        ("0.5.6", "qwen3", [1, 3, 4]),
        ("0.5.6", "deepseek-v3", [1, 3, 4]),
        ("0.5.10", "kimi-k2.5", [1, 3, 4]),
        ("0.5.10", "qwen3-moe", [0, 2, 6]),
        ("0.5.23", "llama", [2, 3, 4]),
        ("0.5.23", "deepseek-v3", [2, 3, 4]),
        ("0.5.23", "gpt-oss", [1, 3, 4]),
    ],
)
def test_ranks_capture_what_the_scan_says(
    version: str, target: str, ids: list[int], backend: str, tmp_path: Path
) -> None:
    config = dict(WITNESSES[target])
    if "vision_config" in config:
        config["vision_config"] = {**config["vision_config"], **VISION}
    probe = probed(f"sglang=={version}", config, ids, tmp_path, "--backend", backend)
    for path in covered(probe):
        assert seen(path) == path["expected_boundaries"], path["phase"]
        assert path["ranks_agree"]
        assert path["draft_accepts"]


def test_a_residual_that_a_release_forgets_is_missed(tmp_path: Path) -> None:
    probe = probed("sglang==0.5.23", dict(WITNESSES["gemma3"]), [1, 3, 4], tmp_path, "--backend", "gloo")
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
