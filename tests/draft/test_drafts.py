"""A draft is recognised by what its configuration contains."""

from __future__ import annotations

import pytest

from flowcheck.draft import Algorithm, ConfigError, draft_from, pair
from flowcheck.draft.header import header_from
from tests.draft.samples import NESTED, draft, draft_json, header_json, nested, target


@pytest.mark.parametrize(
    ("raw", "algorithm", "producer"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"], **nested(1)}, "EAGLE3", "SpecForge or ModelOpt"),
        ({"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 9}, "EAGLE3", "SpecForge or NeMo Automodel"),
        ({"architectures": ["LlamaForCausalLM"], "draft_vocab_size": 9}, "EAGLE3", "SafeAILab EAGLE"),
        ({"architectures": ["LlamaForCausalLM"], "truncated_vocab_size": 9}, "EAGLE3", "nebius"),
        ({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1}, "EAGLE", "SafeAILab EAGLE or HASS"),
        ({"architectures": ["Eagle3LlamaForCausalLM"]}, "EAGLE3", "AngelSlim"),
        ({"aux_hidden_states_layer_ids": [1, 2, 3]}, "EAGLE3", "AngelSlim"),
        ({"architectures": ["LlamaEagle3DraftModel"], "num_aux_hidden_states": 3}, "EAGLE3", "NeMo Automodel"),
        ({"architectures": ["PEagleDraftModel"]}, "P-EAGLE", "SpecForge"),
        ({"speculators_model_type": "peagle"}, "P-EAGLE", "speculators"),
        ({"speculators_model_type": "dflash", "aux_hidden_state_layer_ids": [1]}, "DFLASH", "speculators"),
        ({"speculators_config": {"algorithm": "eagle3"}}, "EAGLE3", "speculators"),
        ({"architectures": ["Eagle3DeepseekV2ForCausalLM"], **nested(1)}, "EAGLE3", "TorchSpec or ModelOpt"),
        ({"architectures": ["LlamaForCausalLMEagle3"], **nested(1, use_mtp_layernorm=False)}, "EAGLE3", "ModelOpt"),
        ({"architectures": ["Qwen3Eagle3Model"], "target_layer_ids": [1, 2, 3, 4, 5]}, "EAGLE3", "DeepSpec"),
        ({"architectures": ["Qwen3DSparkModel"], "target_layer_ids": [1]}, "DSPARK", "DeepSpec or z-lab"),
        (
            {"dflash_config": {"projector_type": "dspark"}},
            "DSPARK",
            "z-lab or SpecForge or ModelOpt or TorchSpec or AngelSlim",
        ),
        ({"architectures": ["DominoDraftModel"]}, "DFLASH", "an unknown producer"),
        ({"architectures": ["DeepseekV3ForCausalLMNextN"]}, "MTP", "an unknown producer"),
        ({"model_type": "qwen3_next_mtp"}, "MTP", "an unknown producer"),
    ],
)
def test_algorithm_and_producer(raw: dict[str, object], algorithm: str, producer: str) -> None:
    recognition = draft_from(raw, "draft").recognition
    assert recognition.algorithm is Algorithm(algorithm)
    assert recognition.producer == producer
    assert recognition.evidence
    assert all(each.isprintable() for each in recognition.evidence)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32},
            "is a full model (LlamaForCausalLM of 32 layers)",
        ),
        ({"architectures": ["Eagle2_5_VLForConditionalGeneration"], "vision_config": {}}, "is a full model"),
        (
            {"architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 61, "num_nextn_predict_layers": 1},
            "its own 1 MTP layer take no states from inside the target",
        ),
        ({}, "describes no model: it has neither architectures nor num_hidden_layers"),
        ({"hello": "world"}, "describes no model"),
    ],
)
def test_what_is_no_draft_is_said(raw: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        draft_from(raw, "my model")
    assert said in str(caught.value)


def test_the_dimensions_of_speculators_are_nested() -> None:
    facts = draft("qwen3-32b.speculators-eagle3")
    assert (facts.nesting, facts.hidden_size, facts.layers, facts.vocab_size) == (
        "transformer_layer_config",
        5120,
        1,
        151936,
    )
    assert facts.is_speculators
    assert (facts.verifier, facts.verifier_architectures) == ("Qwen/Qwen3-32B", ("Qwen3ForCausalLM",))


def test_the_number_of_states_is_what_is_written_first() -> None:
    assert draft().states == 3
    assert draft(num_aux_hidden_states=5).states == 5
    assert draft(num_aux_layers=4).aux_count_key == "num_aux_layers"
    assert draft(**nested(1, 2, 3, 4)).states == 4
    assert draft(**nested(1, 2, 3, 4), num_aux_hidden_states=3).states == 3
    assert draft(**nested(use_aux_hidden_state=False)).states == 1
    assert draft("qwen3-8b.specforge-dflash").states == 5
    assert draft("qwen3.5-35b-a3b.specforge-dflash").states == 5  # not its 8 layers


def test_norms_are_found_in_both_places_with_their_keys() -> None:
    assert draft(**nested(1, norm_before_fc=True)).flags["norm_before_fc"].key == "eagle_config.norm_before_fc"
    assert draft(norm_before_fc=True).is_on("norm_before_fc")
    assert not draft(fc_norm=False).is_on("fc_norm")
    assert draft("qwen3-30b-a3b.specforge-eagle3.1").is_on("norm_output")


def test_null_is_written_and_is_no_value() -> None:
    facts = draft(target_hidden_size=None, draft_vocab_size=None)
    assert facts.target_hidden_size is None
    assert facts.writes("target_hidden_size")
    assert facts.writes("draft_vocab_size")
    assert not facts.writes("eagle_config.use_aux_hidden_state")
    assert draft(**nested(1)).writes(f"eagle_config.{NESTED}")


@pytest.mark.parametrize(
    ("names", "producers"),
    [
        (["midlayer.mlp.up_proj.weight"], ("SpecForge",)),
        (["layers.0.mlp.up_proj.weight"], ("ModelOpt",)),
        (["model.layers.0.mlp.up_proj.weight"], ()),
    ],
)
def test_a_header_tells_producers_apart(names: list[str], producers: tuple[str, ...]) -> None:
    header = header_from({"tensors": {name: {"dtype": "BF16", "shape": [1, 1]} for name in names}}, "x")
    found = pair(draft("deepseek-v3.specforge-eagle3"), target("deepseek-v3"), header=header).recognition
    assert found.producers == producers


def test_absent_ids_are_a_question_once_the_header_shows_that_no_defaulting_producer_wrote_it() -> None:
    header = header_from({"tensors": {"layers.0.mlp.up_proj.weight": {"dtype": "BF16", "shape": [1, 1]}}}, "x")
    assert pair(draft(), target()).trained.is_settled
    assert not pair(draft(), target(), header=header).trained.is_settled


def test_a_head_for_parallel_drafting_is_one_whatever_it_is_called() -> None:
    header = header_from(header_json("qwen3-8b.specforge-peagle"), "x")
    raw = draft_json("qwen3-8b.specforge-peagle", architectures=["LlamaForCausalLMEagle3"])
    assert pair(draft_from(raw, "draft"), target(), header=header).algorithm is Algorithm.PEAGLE
