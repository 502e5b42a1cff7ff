"""Every public pair of the fixtures is read as its meta file says."""

from __future__ import annotations

import pytest

from flowcheck.draft import Basis, ConfigError, Kind, QuestionKind, Weight, draft_from, mismatches_of
from tests.draft.samples import NAMES, PAIRS, TARGETS, meta, sample, target, target_json

NO_DEFAULT = {"gpt-oss-120b.specforge-eagle3", "gpt-oss-20b.specforge-eagle3"}
"""Disagreements, on purpose. Their meta files say that SpecForge's ids are outputs, and so does the key, presumably. But
[1, 17, 33] of 36 and [1, 11, 21] of 24 layers are no default of any convention, ModelOpt writes the same key with both
meanings, and what SpecForge trains on is what the SGLang of that day makes of the ids. DOMAIN.md (2.3, step 3) leaves that
open: both readings, that of the meta file first. Naming the training tree or the boundaries settles it."""

UNKNOWN_TRAINING = {"gpt-oss-20b.nebius-eagle3", "llama-3.3-70b.nvidia-eagle3"}
"""No ids, and a producer for whom that does not mean the default: the guess is shown, and is no answer."""

LAST_STATE = {"llama-2-7b.hass-eagle1"}
"""An EAGLE-1 head has no trained boundaries: its answer is the state after the final norm."""

ALGORITHMS = {"EAGLE1/HASS": "EAGLE"}


def test_there_are_pairs_to_look_at() -> None:
    assert len(NAMES) == 32
    assert len(TARGETS) == 39
    assert {*NO_DEFAULT, *UNKNOWN_TRAINING, *LAST_STATE} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_pair_is_what_its_meta_file_says(name: str) -> None:
    facts, pair = meta(name), sample(name)
    assert pair.algorithm.value == ALGORITHMS.get(facts["algorithm"], facts["algorithm"])
    assert pair.target.layers == facts["target_num_layers"]
    assert pair.target.hidden_size == facts["target_hidden_size"]
    assert pair.target.architectures[0] == facts["target_architecture"]
    assert pair.draft.hidden_size == facts["draft_hidden_size"]
    assert pair.draft.layers == facts["draft_layers"]
    assert pair.draft.draft_vocab_size == facts["draft_vocab_size"]
    assert pair.fc_in_features == facts["expected_fc_in_features"]


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_found_where_the_meta_file_says(name: str) -> None:
    facts, lists = meta(name), sample(name).draft.id_lists
    key = (facts["aux_ids_key"] or "").removesuffix(" (top level)")
    assert [(each.key, list(each.ids)) for each in lists] == ([(key, facts["aux_ids_raw"])] if key else [])


@pytest.mark.parametrize("name", NAMES)
def test_the_producer_is_among_those_that_write_like_this(name: str) -> None:
    producers = sample(name).recognition.producers
    if name == "llama-3.3-70b.nvidia-eagle3":  # four keys are known of it, which anybody may have written
        assert producers == ()
    else:
        assert meta(name)["producer"] in producers


@pytest.mark.parametrize("name", sorted({*NAMES} - NO_DEFAULT - UNKNOWN_TRAINING - LAST_STATE))
def test_the_trained_boundaries_are_inferred(name: str) -> None:
    pair = sample(name)
    assert pair.trained.is_settled
    assert list(pair.trained.boundaries or ()) == meta(name)["trained_boundaries"]


@pytest.mark.parametrize("name", sorted(NO_DEFAULT))
def test_ids_that_are_no_default_stay_open_with_the_keys_reading_first(name: str) -> None:
    trained = sample(name).trained
    assert trained.boundaries is None
    assert trained.question is not None
    assert trained.question.kind is QuestionKind.NEITHER
    assert list(trained.readings[0].boundaries) == meta(name)["trained_boundaries"]
    assert list(trained.readings[1].boundaries) == meta(name)["aux_ids_raw"]


@pytest.mark.parametrize("name", sorted(UNKNOWN_TRAINING))
def test_absent_ids_of_an_unknown_producer_are_a_question_with_the_default_as_a_guess(name: str) -> None:
    trained = sample(name).trained
    assert meta(name)["trained_boundaries"] is None
    assert trained.boundaries is None
    assert trained.question is not None
    assert trained.question.kind is QuestionKind.ABSENT
    (reading,) = trained.readings
    assert reading.basis is Basis.DEFAULT


def test_an_eagle_1_head_was_trained_on_the_last_state() -> None:
    reading = sample("llama-2-7b.hass-eagle1").trained.reading
    assert reading is not None
    assert reading.boundaries == ()
    assert reading.post_norm


@pytest.mark.parametrize("name", sorted(path.stem for path in PAIRS.glob("headers/*.json")))
def test_headers_that_were_computed_from_the_configurations_contradict_nothing(name: str) -> None:
    errors = [each for each in mismatches_of(sample(name)) if each.kind.weight is Weight.ERROR]
    assert errors == []
    assert sample(name).header is not None
    assert sample(name).header.fc is not None  # type: ignore[union-attr]
    assert list(sample(name).header.fc.shape) == meta(name)["expected_fc_weight_shape"]  # type: ignore[union-attr]


EXPECTED = {
    "gemma4-31b.redhatai-speculators-eagle3": {Kind.NESTED_DIMENSIONS, Kind.TARGET_WIDTH_NULL},
    "gpt-oss-120b.nvidia-eagle3-v3": {Kind.KEY_OVERRULED, Kind.DRAFT_VOCABULARY_ABSENT},
    "gpt-oss-20b.nebius-eagle3": {Kind.PLAIN_ARCHITECTURE, Kind.CONVENTION_OPEN},
    "llama-3.1-8b.eagle-reference-eagle3": {Kind.PLAIN_ARCHITECTURE, Kind.POSITIONS_SHORT},
    "llama-3.1-8b.specforge-eagle3": {Kind.POSITIONS_SHORT},
    "llama-3.3-70b.nvidia-eagle3": {Kind.CONVENTION_OPEN, Kind.DRAFT_VOCABULARY_ABSENT},
    "llama-3.3-70b.specforge-eagle3": {Kind.POSITIONS_SHORT},
    "qwen3-32b.speculators-eagle3": {Kind.NESTED_DIMENSIONS, Kind.TARGET_WIDTH_NULL},
    "qwen3-8b.specforge-peagle": {Kind.HIDDEN_NORM_MISSING},
    "qwen3.6-27b.specforge-dspark": {Kind.CONVENTION_DOUBTED, Kind.TARGET_WIDTH_NULL},
    "gpt-oss-120b.nvidia-eagle3-long-context": {Kind.DRAFT_VOCABULARY_ABSENT},
    **{name: {Kind.CONVENTION_OPEN} for name in NO_DEFAULT},
}


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_fit_is_what_the_meta_file_warns_of(name: str) -> None:
    assert {each.kind for each in mismatches_of(sample(name))} == EXPECTED.get(name, set())


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_a_depth_and_a_width(name: str) -> None:
    facts = target(name)
    assert 1 < facts.layers < 100
    assert facts.hidden_size % 64 == 0


@pytest.mark.parametrize("name", TARGETS)
def test_no_target_passes_for_a_draft(name: str) -> None:
    with pytest.raises(ConfigError, match="full model"):
        draft_from(target_json(name), name)
