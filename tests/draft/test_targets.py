"""The language model of a target is found, whatever it is nested in, and its layers are counted."""

from __future__ import annotations

import pytest

from flowcheck.draft import ConfigError, target_from
from tests.draft.samples import target


@pytest.mark.parametrize("nesting", ["text_config", "llm_config", "language_config", "thinker_config"])
def test_the_language_model_may_be_nested(nesting: str) -> None:
    raw = {
        "architectures": ["Some"],
        nesting: {"num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 9},
        "vision_config": {"num_hidden_layers": 27, "hidden_size": 1152},
    }
    facts = target_from(raw, "target")
    assert (facts.layers, facts.hidden_size, facts.vocab_size, facts.nesting) == (61, 7168, 9, nesting)
    assert facts.text == raw[nesting]


def test_it_may_be_nested_twice() -> None:
    raw = {
        "thinker_config": {
            "text_config": {"num_hidden_layers": 28, "hidden_size": 3584},
            "vision_config": {"num_hidden_layers": 32},
            "audio_config": {"num_hidden_layers": 32},
        },
        "talker_config": {"num_hidden_layers": 24, "hidden_size": 896},
    }
    assert target_from(raw, "omni").nesting == "thinker_config.text_config"


def test_a_nested_language_model_wins_over_numbers_beside_it() -> None:
    raw = {"num_hidden_layers": 99, "hidden_size": 1, "text_config": {"num_hidden_layers": 61, "hidden_size": 7168}}
    assert target_from(raw, "target").layers == 61


def test_a_nesting_of_an_unknown_name_is_found_if_it_is_the_only_one() -> None:
    raw = {"decoder_config": {"num_hidden_layers": 12, "hidden_size": 768}, "vision_tower": {"num_hidden_layers": 24}}
    assert target_from(raw, "target").layers == 12


def test_a_vision_tower_alone_is_no_target() -> None:
    with pytest.raises(ConfigError, match="has no number of layers"):
        target_from({"vision_config": {"num_hidden_layers": 27, "hidden_size": 1152}}, "target")


def test_the_vision_tower_of_kimi_is_not_counted() -> None:
    assert target("kimi-k2.5").layers == 61


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_layers", "n_layer", "n_layers"])
def test_layers_go_by_several_names(key: str) -> None:
    assert target_from({key: 28, "hidden_size": 64}, "target").layers == 28


@pytest.mark.parametrize("key", ["loop_num", "num_loops"])
def test_a_loop_model_runs_its_layers_several_times(key: str) -> None:
    facts = target_from({"num_hidden_layers": 20, "hidden_size": 64, key: 2}, "target")
    assert (facts.layers, facts.loops) == (40, 2)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({}, "has no number of layers"),
        ({"num_hidden_layers": 0, "hidden_size": 64}, "it has 0 layers"),
        ({"num_hidden_layers": -3, "hidden_size": 64}, "it has -3 layers"),
        ({"num_hidden_layers": None, "hidden_size": 64}, "has no number of layers"),
        ({"num_hidden_layers": 3}, "has no hidden_size"),
        ({"num_hidden_layers": "3", "hidden_size": 64}, "num_hidden_layers is '3' (a string)"),
        ({"text_config": 3}, "text_config is 3 (an integer); it has to be an object"),
        (
            {"a": {"num_hidden_layers": 1, "hidden_size": 1}, "b": {"num_hidden_layers": 2, "hidden_size": 1}},
            "several parts with layers (a, b)",
        ),
    ],
)
def test_what_is_no_target_is_said(raw: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        target_from(raw, "my target")
    assert said in str(caught.value)
    assert str(caught.value).startswith("my target")


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (None, 4096),
        ({"rope_type": "linear", "factor": 4.0}, 16384),
        ({"rope_type": "llama3", "factor": 8.0}, 4096),
        ({"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096}, 4096),
        ({"rope_type": "linear", "factor": float("nan")}, 4096),
        ({"rope_type": "linear", "factor": float("inf")}, 4096),
        ({"rope_type": "linear", "factor": "4"}, 4096),
    ],
)
def test_a_rotary_scaling_stretches_the_context_unless_it_names_its_start(scaling: object, expected: int) -> None:
    raw = {"num_hidden_layers": 1, "hidden_size": 1, "max_position_embeddings": 4096, "rope_scaling": scaling}
    assert target_from(raw, "target").positions == expected
