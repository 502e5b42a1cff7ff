"""Which boundaries released classes capture: the worked examples of the domain, out of the interpreter."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest

from flowcheck.flow.boundaries import Capture, Reach
from flowcheck.flow.capturing import capture
from flowcheck.flow.forwarding import Forwarding
from flowcheck.flow.row_ranges import RowRange, capture_by_rows
from flowcheck.source import Tree, cache_root, open_source
from tests.flow.models import target_config
from tests.releases.witnesses import WITNESSES

pytestmark = pytest.mark.release

LLAMA: dict[str, Any] = {
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
DEEPSEEK = WITNESSES["deepseek-v3"]


@functools.cache
def release(version: str) -> Tree:
    return open_source(f"sglang=={version}", cache_dir=cache_root())


def run(
    version: str, config: dict[str, Any], ids: list[int] | None, phase: str = "extend", fusion: bool = False
) -> Capture:
    return capture(Forwarding(release(version), fusion=fusion), config["architectures"][0], config, ids, (phase,))[0]


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
    ("0.5.23", "glm-4.7-flash"), ("0.5.23", "longcat-flash"), ("0.5.23", "gemma4-31b"), ("0.5.23", "qwen3.6-27b"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("version", "name"), SHALLOW)
def test_public_files_with_few_layers(version: str, name: str) -> None:
    assert is_exact(of_file(version, name, [1, 3, 4], layers=8), 2, 4, 5)


@pytest.mark.parametrize("phase", ["extend", "verify"])
def test_linear_attention_is_split_as_attention_is(phase: str) -> None:
    """0.5.23 asks a setting whether its heads are shared by the ranks of context parallelism, which is ruled out."""
    assert is_exact(of_file("0.5.23", "qwen3.5-35b-a3b", [1, 3, 4], layers=8, phase=phase), 2, 4, 5)


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


# ---------------------------------------------------------------------------------------------------- fused all-reduce
def by_rows(version: str, target: str, phase: str = "extend") -> tuple[RowRange, ...]:
    config = WITNESSES[target]
    forwarding = Forwarding(release(version), fusion=True)
    return capture_by_rows(forwarding, config["architectures"][0], config, [2, 3, 5], phase)


def check_fused(version: str, target: str, expected: tuple[int, ...], partial: bool, phase: str) -> None:
    """Up to the limit of the fused kernel the sums are partial where the tree is not right; beyond it nothing is fused."""
    ranges = by_rows(version, target, phase)
    assert [(r.low, r.high) for r in ranges] == ([(1, 2048), (2049, None)] if partial else [(1, None)])
    for r, reach in zip(ranges, (Reach.PARTIAL if partial else Reach.COMPLETE, Reach.COMPLETE), strict=False):
        found = r.capture
        assert (found.question, found.raised, found.unmodelled) == (None, None, ())
        assert found.boundaries == expected
        assert {s.boundary.reach for s in found.states} == {reach}
        assert all(s.boundary.certain for s in found.states)
        assert {limit.number for limit in r.limits} == ({2048} if partial else set())


OUTPUT = (3, 4, 6)
LITERAL = (2, 3, 5)
FUSED = {
    "llama": dict.fromkeys(
        ("0.5.6", "0.5.9", "0.5.10", "0.5.12", "0.5.14", "0.5.17", "0.5.20", "0.5.23"), (OUTPUT, False)
    ),
    "qwen3": dict.fromkeys(
        ("0.5.6", "0.5.9", "0.5.10", "0.5.12", "0.5.14", "0.5.17", "0.5.20", "0.5.23"), (OUTPUT, False)
    ),
    "qwen3-moe": dict.fromkeys(
        ("0.5.6", "0.5.9", "0.5.10", "0.5.12", "0.5.14", "0.5.17", "0.5.20", "0.5.23"), (OUTPUT, False)
    ),
    "deepseek-v3": {
        **dict.fromkeys(("0.5.6", "0.5.9", "0.5.10", "0.5.12"), (OUTPUT, True)),
        **dict.fromkeys(("0.5.14", "0.5.17", "0.5.20", "0.5.23"), (LITERAL, False)),
    },
    "kimi-k2.5": {
        **dict.fromkeys(("0.5.10", "0.5.12"), (OUTPUT, True)),
        **dict.fromkeys(("0.5.14", "0.5.17", "0.5.20", "0.5.23"), (LITERAL, False)),
    },
    "gpt-oss": {
        **dict.fromkeys(("0.5.6", "0.5.9", "0.5.10", "0.5.12", "0.5.14", "0.5.17", "0.5.20"), (OUTPUT, True)),
        "0.5.23": (OUTPUT, False),
    },
    "glm-4-moe": {
        **dict.fromkeys(("0.5.6", "0.5.9", "0.5.10", "0.5.12", "0.5.14", "0.5.17", "0.5.20"), (OUTPUT, True)),
        "0.5.23": (OUTPUT, False),
    },
    "gemma3": dict.fromkeys(("0.5.12", "0.5.14"), (OUTPUT, False)),
}
"""What reading the layer loops says, by target and release: the boundaries, and whether small batches hold partial sums."""
SHOWN = [
    ("deepseek-v3", "0.5.9"), ("kimi-k2.5", "0.5.12"), ("deepseek-v3", "0.5.14"), ("deepseek-v3", "0.5.23"),
    ("glm-4-moe", "0.5.20"), ("glm-4-moe", "0.5.23"), ("gpt-oss", "0.5.20"), ("qwen3-moe", "0.5.9"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "version"), SHOWN)
def test_fused_all_reduce(target: str, version: str) -> None:
    expected, partial = FUSED[target][version]
    check_fused(version, target, expected, partial, "extend")


@pytest.mark.long
@pytest.mark.parametrize("phase", ["extend", "verify"])
@pytest.mark.parametrize(("target", "version"), [(t, v) for t, rows in FUSED.items() for v in rows])
def test_fused_all_reduce_on_every_release(target: str, version: str, phase: str) -> None:
    expected, partial = FUSED[target][version]
    check_fused(version, target, expected, partial, phase)


@pytest.mark.parametrize("version", ["0.5.17", pytest.param("0.5.23", marks=pytest.mark.long)])
def test_gemma3_captures_a_norm(version: str) -> None:
    (only,) = by_rows(version, "gemma3")
    assert all(s.boundary.normed and s.at_capture.index is None for s in only.capture.states)
    assert only.capture.boundaries == (None, None, None)


# ------------------------------------------------------------------------------------------------- rows and their shares
def placed(version: str, target: str, phase: str, **deployment: object) -> Capture:
    config = WITNESSES[target]
    forwarding = Forwarding(release(version), rows=4096, **deployment)  # type: ignore[arg-type]
    return capture(forwarding, config["architectures"][0], config, [2, 3, 5], (phase,))[0]


@pytest.mark.parametrize("phase", ["extend", "verify"])
@pytest.mark.parametrize(
    ("version", "target", "expected"),
    [
        ("0.5.6", "deepseek-v3", (Reach.COMPLETE, Reach.SCATTERED, Reach.SCATTERED)),
        ("0.5.9", "deepseek-v3", (Reach.COMPLETE,) * 3),
        ("0.5.23", "deepseek-v3", (Reach.COMPLETE,) * 3),
        ("0.5.9", "glm-4-moe", (Reach.COMPLETE, Reach.SCATTERED, Reach.SCATTERED)),
        ("0.5.23", "glm-4-moe", (Reach.COMPLETE, Reach.SCATTERED, Reach.SCATTERED)),
        ("0.5.9", "qwen3-moe", (Reach.COMPLETE,) * 3),
        *(
            pytest.param(v, target, (Reach.COMPLETE, *[after] * 2), marks=pytest.mark.long)
            for v in ("0.5.10", "0.5.12", "0.5.14", "0.5.17", "0.5.20")
            for target, after in (("deepseek-v3", Reach.COMPLETE), ("glm-4-moe", Reach.SCATTERED))
        ),
    ],
)
def test_experts_that_tokens_are_sent_to(version: str, target: str, expected: tuple[Reach, ...], phase: str) -> None:
    """The input of the first layer with experts is that of a dense one; after it each rank has its share of the rows."""
    found = placed(version, target, phase, a2a="deepep")
    assert (found.question, found.raised, found.unmodelled) == (None, None, ())
    assert found.boundaries == FUSED[target][version][0]
    assert tuple(s.boundary.reach for s in found.states) == expected
    assert all(s.boundary.certain for s in found.states)
    assert (found.rows == "all rows") is (Reach.SCATTERED not in expected)


@pytest.mark.parametrize("phase", ["extend", "verify"])
@pytest.mark.parametrize("replicas", [2, 8])
@pytest.mark.parametrize(
    ("version", "target"),
    [("0.5.6", "deepseek-v3"), ("0.5.9", "deepseek-v3"), ("0.5.23", "deepseek-v3"), ("0.5.9", "qwen3-moe")],
)
def test_replicas_of_attention(version: str, target: str, replicas: int, phase: str) -> None:
    found = placed(version, target, phase, dp_attention=replicas)
    assert (found.question, found.raised, found.unmodelled) == (None, None, ())
    assert found.boundaries == FUSED[target][version][0]
    assert all(s.boundary.certain and s.boundary.reach is Reach.COMPLETE for s in found.states)
    assert found.rows == "all rows"


def test_replicas_whose_rows_are_gathered_with_those_of_others() -> None:
    """0.5.9 gathers over all ranks what is on the ranks of one replica: more rows than the batch has. 0.5.10 does not."""
    found = placed("0.5.10", "deepseek-v3", "extend", dp_attention=8, a2a="deepep")
    assert (found.rows, {s.rows for s in found.states}) == ("all rows", {"all rows"})
    found = placed("0.5.9", "deepseek-v3", "extend", dp_attention=8, a2a="deepep")
    assert [s.rows for s in found.states] == ["all rows", "rows of all ranks of tp", "rows of all ranks of tp"]
    assert found.rows != "all rows"


def test_a_model_without_replicas_is_not_said_to_be_complete() -> None:
    found = placed("0.5.9", "llama", "extend", dp_attention=8)
    assert not any(s.boundary.certain for s in found.states)
