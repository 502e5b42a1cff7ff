"""Models that are made small enough for CPUs: narrower, never shallower, and still divisible among the ranks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck.data import rules_dir
from flowcheck.draft import target_from
from flowcheck.draft.target import LAYER_KEYS
from flowcheck.probe.memory import free_memory, parameters_of, spoken_size
from flowcheck.probe.shrinking import Shrinking, few_experts, shrunk, shrunk_draft

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TABLE = Shrinking(**tomllib.loads((rules_dir() / "shrinking.toml").read_text("utf-8")))
TARGETS = [*sorted((FIXTURES / "pairs" / "targets").glob("*.json")), FIXTURES / "kimi" / "target" / "config.json"]

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "pad_token_id": 128004,
    "quantization_config": {"quant_method": "fp8"},
}


DEEPSEEK: dict[str, Any] = {
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


def depths(raw: Any) -> list[object]:
    """All numbers of layers of a document, but for those of towers."""
    if not isinstance(raw, dict):
        return []
    own = [raw[key] for key in LAYER_KEYS if key in raw]
    return own + [
        each for key, value in raw.items() if "vision" not in key and "audio" not in key for each in depths(value)
    ]


def number_at(raw: Any, path: str) -> Any:
    for key in path.split("."):
        raw = raw[key]
    return raw


@pytest.mark.parametrize("path", TARGETS, ids=lambda path: path.parent.parent.name + path.stem)
@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_depth_is_never_changed_and_every_change_is_named(path: Path, ranks: int) -> None:
    raw = json.loads(path.read_text("utf-8"))
    target = target_from(raw, "target")
    small = shrunk(raw, target.nesting, ranks, TABLE)
    assert depths(small.raw) == depths(raw)
    assert target_from(small.raw, "target").layers == target.layers
    for each in small.reductions:
        assert number_at(raw, each.key) == each.was
        assert number_at(small.raw, each.key) == each.now < each.was
    again = shrunk(small.raw, target.nesting, ranks, TABLE)
    assert (again.reductions, again.raw) == ((), small.raw)


def test_a_llama_fits_eight_ranks() -> None:
    small = shrunk(LLAMA, "", 8, TABLE)
    raw = small.raw
    assert (raw["num_attention_heads"], raw["num_key_value_heads"], raw["hidden_size"]) == (16, 8, 256)
    assert raw["intermediate_size"] % 8 == 0
    assert raw["pad_token_id"] < raw["vocab_size"] == 512
    assert small.widths == {8192: 256}
    assert small.left_out == ("quantization_config",)
    assert LLAMA["hidden_size"] == 8192


@given(
    ranks=st.sampled_from([1, 2, 4, 8]),
    groups=st.integers(1, 8),
    kept=st.sampled_from([1, 2, 4, 8, 16, 64]),
    dim=st.sampled_from([None, 64, 128]),
)
def test_heads_stay_divisible(ranks: int, groups: int, kept: int, dim: int | None) -> None:
    heads = groups * kept
    raw = {**LLAMA, "num_attention_heads": heads, "num_key_value_heads": kept, "hidden_size": heads * 128}
    if dim is not None:
        raw["head_dim"] = dim
    small = shrunk(raw, "", ranks, TABLE).raw
    left, few = small["num_attention_heads"], small["num_key_value_heads"]
    assert left % few == 0 or heads % ranks
    if heads % ranks == 0:
        assert left % ranks == 0
        assert few % ranks == 0 or ranks % few == 0
    if "head_dim" not in small:
        assert small["hidden_size"] % left == 0


def test_heads_that_are_turned_by_lists_keep_their_width() -> None:
    raw = {**LLAMA, "rope_scaling": {"mrope_section": [16, 24, 24]}}
    small = shrunk(raw, "", 8, TABLE).raw
    assert small["hidden_size"] // small["num_attention_heads"] == 128


def test_experts_cover_their_groups_and_what_is_chosen() -> None:
    raw = {**LLAMA, "n_routed_experts": 256, "n_group": 8, "num_experts_per_tok": 8, "moe_intermediate_size": 2048}
    small = shrunk(raw, "", 8, TABLE).raw
    assert small["n_routed_experts"] % 8 == 0
    assert small["n_routed_experts"] >= 16
    assert small["num_experts_per_tok"] == 8


@pytest.mark.parametrize("nesting", ["", "text_config"])
def test_few_experts_change_nothing_else(nesting: str) -> None:
    """Groups and what a token chooses among them stay; one GPU holds what is left."""
    text = {**DEEPSEEK, "n_group": 8, "topk_group": 4, "num_experts_per_tok": 8}
    few = few_experts({"text_config": text} if nesting else text, nesting, 8, TABLE)
    left = few.raw[nesting] if nesting else few.raw
    assert {key for key in text if left[key] != text[key]} == {"n_routed_experts"}
    assert [(each.was, each.now) for each in few.reductions] == [(256, 16)]
    assert (few.widths, few.left_out) == ({}, ())
    size = parameters_of(left, 61, TABLE)
    assert size is not None
    assert 100e9 < 2 * size < 134e9


def test_a_model_without_experts_has_none_to_leave_out() -> None:
    assert few_experts(LLAMA, "", 8, TABLE).raw == LLAMA


def test_a_tower_gives_what_the_language_model_takes() -> None:
    vision = {"depth": 32, "hidden_size": 1280, "out_hidden_size": 8192}
    small = shrunk({"text_config": LLAMA, "vision_config": vision}, "text_config", 8, TABLE).raw
    vision = small["vision_config"]
    assert (vision["hidden_size"], vision["out_hidden_size"]) == (1280, small["text_config"]["hidden_size"])
    assert {vision[key] for key in TABLE.keys["tower_depths"]} == {1}


def test_a_draft_becomes_as_narrow_as_its_target() -> None:
    widths = shrunk(LLAMA, "", 8, TABLE).widths
    draft = {
        **LLAMA,
        "num_hidden_layers": 1,
        "draft_vocab_size": 32000,
        "target_hidden_size": 8192,
        "hidden_size": 4096,
    }
    small = shrunk_draft(draft, widths, 8, TABLE)
    assert small.raw["target_hidden_size"] == widths[8192]
    assert (small.raw["num_hidden_layers"], small.raw["vocab_size"]) == (1, 512)
    assert small.raw["draft_vocab_size"] <= small.raw["vocab_size"]


@pytest.mark.parametrize("heads", [8, 32, 64])
def test_a_draft_of_its_targets_width_keeps_it(heads: int) -> None:
    """However few heads it has: they do not narrow again what was narrowed with the target."""
    widths = shrunk(LLAMA, "", 2, TABLE).widths
    draft = {**LLAMA, "num_hidden_layers": 1, "num_attention_heads": heads, "num_key_value_heads": 8}
    assert shrunk_draft(draft, widths, 2, TABLE).raw["hidden_size"] == widths[8192]


# ------------------------------------------------------------------------------------------------------------ memory
def test_parameters_are_counted_as_published() -> None:
    found = parameters_of(DEEPSEEK, 61, TABLE)
    assert found is not None
    assert spoken_size(2 * found) == "1.34 TB"
    llama = parameters_of(LLAMA, 80, TABLE)
    assert llama is not None
    assert round(llama / 1e9, 1) == 70.6


@pytest.mark.parametrize("gone", ["hidden_size", "intermediate_size", "vocab_size", "num_attention_heads"])
def test_what_a_configuration_does_not_say_is_not_guessed(gone: str) -> None:
    assert parameters_of({key: value for key, value in LLAMA.items() if key != gone}, 80, TABLE) is None


def test_free_memory_is_the_least_that_anybody_allows(tmp_path: Path) -> None:
    assert free_memory(tmp_path, tmp_path) is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2000 kB\n")
    assert free_memory(tmp_path, tmp_path) == 2000 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5\n")
    assert free_memory(tmp_path, tmp_path) == 2000 * 1024
    (tmp_path / "memory.max").write_text("1000\n")
    assert free_memory(tmp_path, tmp_path) == 995


@pytest.mark.parametrize(("size", "text"), [(999, "999 bytes"), (5_500_000, "5.5 MB"), (22 * 10**9, "22 GB")])
def test_sizes_in_words(size: int, text: str) -> None:
    assert spoken_size(size) == text
