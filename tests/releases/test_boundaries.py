"""Which boundaries released classes capture: the worked examples of the domain, out of the interpreter."""

from __future__ import annotations

import functools

import pytest

from flowcheck.flow.boundaries import Capture, Reach
from flowcheck.flow.capturing import capture
from flowcheck.flow.forwarding import Forwarding
from flowcheck.source import Tree, cache_root, open_source

pytestmark = pytest.mark.release

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "max_position_embeddings": 8192,
}
DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "vocab_size": 129280,
    "hidden_size": 7168,
    "num_hidden_layers": 8,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "max_position_embeddings": 163840,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "n_group": 8,
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "ep_size": 1,
}
"""Eight layers instead of 61: dense ones and ones with experts, and what every layer repeats."""


@functools.cache
def release(version: str) -> Tree:
    return open_source(f"sglang=={version}", cache_dir=cache_root())


def run(
    version: str, config: dict[str, object], ids: list[int] | None, phase: str = "extend", fusion: bool = False
) -> Capture:
    names = config["architectures"]
    assert isinstance(names, list)
    return capture(Forwarding(release(version), fusion=fusion), names[0], config, ids, (phase,))[0]


@pytest.mark.parametrize("phase", ["extend", "verify"])
@pytest.mark.parametrize(
    ("version", "ids", "expected"),
    [
        ("0.5.6", [1, 29, 57], (2, 30, 58)),
        ("0.5.6", [2, 30, 58], (3, 31, 59)),
        ("0.5.6", None, (2, 30, 58)),
        ("0.5.6", [3, 11, 60], (4, 12)),
        ("0.5.6", [57, 1, 29], (2, 30, 58)),
        ("0.5.6", [2, 2, 30], (3, 31)),
        ("0.5.23", [2, 30, 58], (3, 31, 59)),
        ("0.5.23", None, (2, 30, 58)),
    ],
)
def test_llama(version: str, ids: list[int] | None, expected: tuple[int, ...], phase: str) -> None:
    found = run(version, LLAMA, ids, phase)
    assert (found.question, found.raised, found.unmodelled) == (None, None, ())
    assert found.boundaries == expected
    assert all(s.boundary.reach is Reach.COMPLETE and s.overwritten is None for s in found.states)
    assert found.width == str(7168 * len(expected))
    assert found.rows == "all rows"


@pytest.mark.parametrize(
    ("ids", "error"),
    [pytest.param([-1, 2, 30], "TypeError", id="embedding"), pytest.param([], "ValueError", id="none")],
)
def test_llama_that_raises(ids: list[int], error: str) -> None:
    found = run("0.5.6", LLAMA, ids)
    assert found.raised is not None
    assert found.raised[0] == error
    assert found.raised[1] is not None
    assert found.raised[1].path == "sglang/srt/models/llama.py"


@pytest.mark.parametrize(
    ("version", "ids", "expected"),
    [("0.5.6", [2, 3, 5], (3, 4, 6)), ("0.5.23", [2, 3, 5], (2, 3, 5)), ("0.5.23", [1, 3, 4], (2, 4, 5))],
)
def test_the_meaning_of_ids_changed_for_deepseek(version: str, ids: list[int], expected: tuple[int, ...]) -> None:
    found = run(version, DEEPSEEK, ids)
    assert found.boundaries == expected
    assert all(s.boundary.reach is Reach.COMPLETE for s in found.states)


def test_fused_all_reduce_leaves_partial_sums() -> None:
    found = run("0.5.9", DEEPSEEK, [2, 3, 5], fusion=True)
    assert found.boundaries == (3, 4, 6)
    assert all(s.boundary.reach is Reach.PARTIAL for s in found.states)
