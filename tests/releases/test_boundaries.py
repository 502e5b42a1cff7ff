"""Which boundaries released classes capture: the worked examples of the domain, out of the interpreter."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest

from flowcheck.flow.boundaries import Capture, Reach
from flowcheck.flow.capturing import capture
from flowcheck.flow.forwarding import Forwarding
from flowcheck.source import Tree, cache_root, open_source
from tests.flow.models import target_config

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


def of_file(
    version: str, name: str, *told: Sequence[int] | None, tp: int = 2, layers: int = 0, phase: str = "extend"
) -> Capture:
    """What the class of a public configuration captures; ``layers`` of them, where they repeat each other."""
    config = target_config(name)
    for part in (config, config.get("text_config", {})):
        for key in ("num_hidden_layers", "num_layers"):
            if layers and key in part:
                part[key] = layers
    return capture(Forwarding(release(version), tp=tp), config["architectures"][0], config, (), (phase,), told=told)[0]


def is_exact(found: Capture, *expected: int) -> bool:
    """Whether every state is known, and is the boundary that is expected."""
    assert (found.question, found.raised) == (None, None)
    assert found.boundaries == expected
    return all(s.boundary.certain and s.boundary.reach is Reach.COMPLETE for s in found.states)


PARTIAL_FILES = [
    # A public file leaves out sizes, the number of dense layers, the number of experts: none of them decides a boundary.
    pytest.param("0.5.9", "llama-3.1-8b", (2, 16, 29), id="llama"),
    pytest.param("0.5.9", "kimi-k2", (2, 30, 58), id="dense layers or experts"),
    pytest.param("0.5.9", "minimax-m2.5", (2, 31, 59), id="experts"),
    pytest.param("0.5.9", "gpt-oss-20b", (2, 12, 21), id="layer types"),
    pytest.param("0.5.9", "phi-4", (2, 20, 37), id="another architecture's class"),
    pytest.param("0.5.6", "llama-3.1-8b", (2, 16, 29), id="an older release"),
    pytest.param("0.5.23", "qwen3-4b", (2, 18, 33), id="a newer release"),
]


@pytest.mark.parametrize(("version", "name", "expected"), PARTIAL_FILES)
def test_a_file_that_leaves_out_what_decides_nothing(version: str, name: str, expected: tuple[int, ...]) -> None:
    assert is_exact(of_file(version, name, None), *expected)


SHALLOW = [
    ("0.5.9", "deepseek-v3"), ("0.5.9", "glm-4.5"), ("0.5.9", "glm-5.2"), ("0.5.9", "llama-4-scout"),
    ("0.5.9", "longcat-flash"), ("0.5.9", "ling-flash-2.0"), ("0.5.9", "qwen2.5-vl-7b"), ("0.5.9", "qwen3-30b-a3b"),
    ("0.5.9", "qwen3-next-80b-a3b"), ("0.5.9", "qwen3-coder-30b-a3b"), ("0.5.23", "deepseek-v3"), ("0.5.23", "glm-4.5"),
    ("0.5.23", "glm-4.7-flash"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("version", "name"), SHALLOW)
def test_public_files_with_few_layers(version: str, name: str) -> None:
    assert is_exact(of_file(version, name, [1, 3, 4], layers=8), 2, 4, 5)


def test_several_calls_of_a_setter() -> None:
    """A list is replaced; where layers carry flags, those of the first call stay."""
    assert is_exact(of_file("0.5.9", "llama-3.1-8b", None, [2, 4], layers=8), 3, 5)
    assert is_exact(of_file("0.5.9", "qwen3-30b-a3b", [1], [3, 4], layers=8), 2, 4, 5)


def test_a_setter_that_raises_is_an_answer() -> None:
    found = of_file("0.5.9", "qwen3-30b-a3b", [1, 60], layers=8)
    assert found.question is None
    assert found.raised is not None
    assert found.raised[0] == "IndexError"
    assert found.raised[1] is not None
    assert found.raised[1].symbol.endswith("set_eagle3_layers_to_capture")


def test_a_forward_that_lacks_an_attribute_is_an_answer() -> None:
    """0.5.9's GLM-4.7-Flash model does not make an attribute that the capture in its base's forward asks for."""
    found = of_file("0.5.9", "glm-4.7-flash", None, layers=8)
    assert found.question is None
    assert found.raised is not None
    assert found.raised[0] == "AttributeError"
    assert found.raised[1] is not None
    assert found.raised[1].symbol == "DeepseekV2Model.forward"
