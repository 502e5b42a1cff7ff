"""Commands about a pair, on releases: which ids they take for the same boundaries, and what an upgrade makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.pairs import flowcheck, written
from tests.releases.test_boundaries import DEEPSEEK

pytestmark = pytest.mark.release

LAYERS = 61
KEY = "eagle_aux_hidden_state_layer_ids"


def models(folder: Path, *ids: int) -> tuple[Path, Path]:
    """A draft that writes these ids, and DeepSeek-V3 in its full depth."""
    draft = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "eagle_config": {KEY: list(ids)},
        "num_hidden_layers": 1,
        "hidden_size": 7168,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 112,
        "intermediate_size": 14336,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "vocab_size": 129280,
        "draft_vocab_size": 32000,
        "max_position_embeddings": 163840,
    }
    target = {**DEEPSEEK, "num_hidden_layers": LAYERS}
    return written(folder / "draft.json", draft), written(folder / "target.json", target)


def document(*arguments: object) -> dict[str, Any]:
    result = flowcheck(*arguments, "--trained-boundaries", "3,31,59", "--format", "json")
    assert result.exit_code in (0, 1), result.output
    read: dict[str, Any] = json.loads(result.stdout)
    return read


@pytest.mark.parametrize(("version", "expected"), [("0.5.12", [2, 30, 58]), ("0.5.14", [3, 31, 59])])
def test_the_ids_of_deepseek(version: str, expected: list[int], tmp_path: Path) -> None:
    (choice,) = document("ids", f"sglang=={version}", *models(tmp_path, 2, 30, 58))["choices"]
    assert (choice["ids"], choice["verdict"]) == (expected, "proved")
    assert choice["key"] == f"eagle_config.{KEY}"


def test_graphs_that_ignore_the_ids(tmp_path: Path) -> None:
    (choice,) = document("ids", "sglang==0.5.9", *models(tmp_path, 2, 30, 58))["choices"]
    assert (choice["ids"], choice["verdict"]) == ([2, 30, 58], "violated")
    assert "decode graph is not told these ids" in choice["reason"]
    assert "cuda_graph_runner.py:365" in choice["reason"]
    eager = {tuple(row["captured_boundaries"]) for row in choice["paths"] if row["path"] == "eager"}
    graph = {tuple(row["captured_boundaries"]) for row in choice["paths"] if row["path"] == "decode_graph"}
    assert (eager, graph) == ({(3, 31, 59)}, {(2, 30, 58)})


def test_an_upgrade_that_breaks_a_pair_in_silence(tmp_path: Path) -> None:
    draft, target = models(tmp_path, 2, 30, 58)
    given = ["upgrade", "sglang==0.5.12", "sglang==0.5.14", "--draft", draft, "--target", target]
    (change,) = document(*given)["pairs"]
    assert change["worse"]
    assert (change["old_ids"]["ids"], change["new_ids"]["ids"]) == ([2, 30, 58], [3, 31, 59])
    assert "HS201" in {each["rule"] for each in change["came"]}
