"""Each thing that does not fit in a pair is one typed fact, and a pair that fits has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowcheck.draft import Header, Kind, Mismatch, Pairing, Tensor, Weight, mismatches_of, pair
from tests.draft.samples import NESTED, deepseek, draft, nested, target, with_header

H = 4096


def kinds(made: Pairing, algorithm: str | None = None) -> set[Kind]:
    return {each.kind for each in mismatches_of(made, algorithm=algorithm)}


def only(made: Pairing, algorithm: str | None = None) -> Mismatch:
    (found,) = mismatches_of(made, algorithm=algorithm)
    return found


def test_a_pair_that_fits_has_none() -> None:
    assert mismatches_of(with_header()) == ()
    assert mismatches_of(with_header(), algorithm="EAGLE3") == ()


HEADER = [
    ({"fc__weight": None}, {}, Kind.FC_MISSING),
    ({"fc__weight": [H, 5 * H]}, {}, Kind.FC_WIDTH),
    ({"fc__weight": [H, 3 * 5120]}, {}, Kind.FC_TARGET_WIDTH),
    ({"fc__weight": [H + 1, 3 * H]}, {}, Kind.FC_OUTPUT),
    ({}, {"num_aux_hidden_states": 5}, Kind.FC_WIDTH),
    ({"midlayer__self_attn__q_proj__weight": [H, H]}, {}, Kind.QKV_INPUT),
    ({"midlayer__self_attn__q_proj__weight": [28 * 128, 2 * H]}, {}, Kind.HEADS),
    ({"midlayer__self_attn__k_proj__weight": [99, 2 * H]}, {}, Kind.HEADS),
    ({"norm__weight": [H + 2]}, {}, Kind.NORM_WIDTH),
    ({}, {"num_hidden_layers": 40}, Kind.LAYER_COUNT),
    ({"layers__1__mlp__up_proj__weight": [1, 1]}, {}, Kind.LAYER_COUNT),
    ({"input_norm__weight": [3 * H]}, {}, Kind.INPUT_NORM),
    ({}, {"norm_before_fc": True}, Kind.INPUT_NORM),
    ({"input_norm__weight": [H]}, {"norm_before_fc": True}, Kind.INPUT_NORM),
    ({"fc_norm__0__weight": [H]}, {}, Kind.FC_NORM),
    ({}, {"fc_norm": True}, Kind.FC_NORM),
    ({"fc_norm__0__weight": [H], "fc_norm__1__weight": [H]}, {"fc_norm": True}, Kind.FC_NORM),
    ({"embed_tokens__weight": [7, H]}, {}, Kind.EMBEDDING_SHAPE),
    ({"midlayer__self_attn__q_proj__bias": [H]}, {}, Kind.BIAS),
    ({"verifier_norm__weight": [H]}, {}, Kind.TRAINING_NAMES),
    ({"mask_hidden": [1, 1, 3 * H]}, {}, Kind.PARALLEL_HEAD),
    ({"prefix_gru__weight": [1, 1]}, {}, Kind.DOMINO_HEAD),
    ({"lm_head__weight": [151936, H]}, {}, Kind.LM_HEAD_ROWS),
    ({"lm_head__weight": None}, {}, Kind.LM_HEAD_MISSING),
    ({"d2t": [1746]}, {}, Kind.D2T_LENGTH),
    ({"d2t": None}, {}, Kind.D2T_MISSING),
    ({"t2d": [1746]}, {}, Kind.T2D_LENGTH),
]


@pytest.mark.parametrize(("tensors", "config", "expected"), HEADER, ids=lambda each: getattr(each, "title", None))
def test_a_header_that_contradicts_its_configuration(
    tensors: dict[str, list[int] | None], config: dict[str, object], expected: Kind
) -> None:
    found = mismatches_of(with_header(tensors, **config))
    assert {each.kind for each in found if each.kind.weight is Weight.ERROR or each.kind is expected} == {expected}
    for each in found:
        assert each.where
        assert each.message.isprintable()


def test_a_second_layer_without_hidden_norm_is_warned_of() -> None:
    assert Kind.HIDDEN_NORM_MISSING in kinds(
        with_header({"layers__1__mlp__up_proj__weight": [1, 1]}, num_hidden_layers=2)
    )


def test_an_eagle_1_head_under_an_eagle_3_configuration() -> None:
    made = with_header(
        {
            "fc__weight": [H, 2 * H],
            "midlayer__self_attn__q_proj__weight": [H, H],
            "midlayer__self_attn__k_proj__weight": [1024, H],
            "midlayer__self_attn__v_proj__weight": [1024, H],
        }
    )
    assert kinds(made) == {Kind.EAGLE1_HEAD}
    assert made.algorithm.value == "EAGLE"
    assert kinds(made, "EAGLE3") == {Kind.EAGLE1_HEAD, Kind.ALGORITHM_FLAG}


def test_an_fc_of_two_states_is_no_eagle_1_head() -> None:
    made = with_header({"fc__weight": [H, 2 * H]}, **nested(1, 17))
    assert Kind.EAGLE1_HEAD not in kinds(made)
    assert Kind.FC_WIDTH not in kinds(made)


def test_one_state_as_wide_as_the_embedding_leaves_fc_unused() -> None:
    assert Kind.FC_UNUSED in kinds(with_header({"fc__weight": [H, H]}, **nested(17)))
    assert Kind.FC_UNUSED in kinds(with_header(**nested(use_aux_hidden_state=False)))


def test_a_head_without_fc_is_fine_if_it_takes_no_states_from_inside() -> None:
    assert kinds(with_header({"fc__weight": None}, **nested(use_aux_hidden_state=False))) == set()


def test_declared_boundaries_have_to_fill_fc() -> None:
    assert kinds(with_header(declared=(2, 18, 33))) == set()
    assert kinds(with_header(declared=(2, 9, 18, 33))) == {Kind.FC_BOUNDARIES, Kind.IDS_ABSENT}


def test_a_wider_target_needs_an_embedding_of_its_own() -> None:
    made = with_header(target_hidden_size=5120)
    assert {Kind.EMBEDDING_MISSING, Kind.TARGET_WIDTH} <= kinds(made)
    with_own = with_header({"embed_tokens__weight": [151936, H]}, target_hidden_size=5120)
    assert Kind.EMBEDDING_MISSING not in kinds(with_own)


def test_a_quantised_header_is_not_judged_by_its_shapes() -> None:
    made = with_header()
    assert made.header is not None
    packed = {name: Tensor(name, "U8", (1, 1)) for name in made.header.tensors if name.endswith("_proj.weight")}
    packed["fc.weight"] = Tensor("fc.weight", "I32", (1, 1))
    header = Header("x", {**made.header.tensors, **packed})
    assert kinds(replace(made, header=header)) == set()


CONFIG = [
    ({"vocab_size": 151552}, Kind.VOCABULARY_DIFFERS),
    ({"draft_vocab_size": 200000}, Kind.DRAFT_VOCABULARY_LARGER),
    ({**nested(1, 17, 32), "draft_vocab_size": ...}, Kind.DRAFT_VOCABULARY_ABSENT),
    ({"tie_word_embeddings": True}, Kind.TIED_REDUCED),
    ({"max_position_embeddings": 2048}, Kind.POSITIONS_SHORT),
    ({"hidden_size": 2048}, Kind.TARGET_WIDTH),
    ({"target_hidden_size": 2048}, Kind.TARGET_WIDTH),
    ({"target_hidden_size": None}, Kind.TARGET_WIDTH_NULL),
    ({"num_target_layers": 32}, Kind.TARGET_DEPTH),
    ({"num_hidden_layers": 36}, Kind.DEPTH_COPIED),
    ({"norm_before_fc": True, "fc_norm": True}, Kind.NORMS_EXCLUDE),
    ({"architectures": ["LlamaForCausalLM"]}, Kind.PLAIN_ARCHITECTURE),
    ({**nested(1, 17, 32), "num_aux_hidden_states": 5}, Kind.COUNTS_DISAGREE),
    ({"aux_hidden_states_layer_ids": [1, 17, 32]}, Kind.IDS_UNREAD),
    (nested(17, 1, 32), Kind.IDS_UNSORTED),
    (nested(2, 18, 33), Kind.CONVENTION_OPEN),
    (nested(24, 30, 36), Kind.KEY_OVERRULED),
]


@pytest.mark.parametrize(("config", "expected"), CONFIG, ids=lambda each: getattr(each, "title", None))
def test_configurations_that_contradict_each_other(config: dict[str, object], expected: Kind) -> None:
    found = only(pair(draft(**config), target()))
    assert found.kind is expected
    assert str(found) == f"{expected.title}: {found.message}"


def test_a_verifier_of_another_kind_is_said() -> None:
    other = {"verifier": {"architectures": ["LlamaForCausalLM"], "name_or_path": "meta/llama"}, "algorithm": "eagle3"}
    made = pair(draft("qwen3-32b.speculators-eagle3", speculators_config=other), target("qwen3-32b"))
    assert Kind.TARGET_OTHER in kinds(made)
    assert Kind.TARGET_OTHER not in kinds(pair(draft("qwen3-32b.speculators-eagle3"), target("qwen3-32b")))


class TestIds:
    def of(self, *ids: int) -> set[Kind]:
        return kinds(pair(deepseek(*ids), target("deepseek-v3")))

    def test_out_of_range(self) -> None:
        assert Kind.IDS_OUT_OF_RANGE in self.of(1, 29, 70)
        assert Kind.IDS_OUT_OF_RANGE not in self.of(1, 29, 60)
        assert Kind.IDS_OUT_OF_RANGE not in self.of(3, 29, 61)  # boundaries: nothing else is possible

    def test_ids_that_were_declared_to_be_boundaries_are_in_range(self) -> None:
        asked = pair(draft("gpt-oss-120b.nvidia-eagle3-v3"), target("gpt-oss-120b"), declared=(24, 30, 36))
        assert Kind.IDS_OUT_OF_RANGE not in kinds(asked)

    def test_dflash_of_a_deeper_target(self) -> None:
        made = pair(draft("qwen3-8b.specforge-dflash"), target("qwen3.5-4b", hidden_size=4096))
        assert Kind.IDS_OUT_OF_RANGE in kinds(made)
        assert Kind.TARGET_DEPTH in kinds(made)

    def test_the_number_of_layers_as_an_id_of_a_draft_for_a_deeper_target(self) -> None:
        made = pair(
            draft("qwen3-8b.specforge-dflash", num_target_layers=36),
            target("qwen3.5-4b", text_config={"num_hidden_layers": 33, "hidden_size": 4096}),
        )
        assert Kind.TARGET_DEPTH in kinds(made)
        assert Kind.KEY_OVERRULED not in kinds(made)

    def test_negative_and_huge(self) -> None:
        assert {Kind.IDS_NEGATIVE, Kind.CONVENTION_OPEN} <= self.of(-1, 2, 30)
        assert Kind.IDS_OUT_OF_RANGE in self.of(1, 2, 10**30)

    def test_repeated(self) -> None:
        assert Kind.IDS_REPEATED in self.of(2, 2, 30)

    def test_a_message_stays_short_whatever_the_ids_are(self) -> None:
        made = pair(deepseek(*range(10**30, 10**30 + 5000)), target("deepseek-v3"))
        assert all(len(each.message) < 1500 for each in mismatches_of(made))


@pytest.mark.parametrize(
    ("name", "goal", "asked", "fits"),
    [
        ("qwen3-8b.specforge-eagle3", "qwen3-8b", "EAGLE3", True),
        ("qwen3-8b.specforge-eagle3", "qwen3-8b", "eagle3", True),
        ("qwen3-8b.specforge-eagle3", "qwen3-8b", "EAGLE", False),
        ("qwen3-8b.specforge-eagle3", "qwen3-8b", "NEXTN", False),
        ("qwen3-8b.specforge-eagle3", "qwen3-8b", "DFLASH", False),
        ("qwen3-8b.specforge-eagle3", "qwen3-8b", "NGRAM", True),
        ("qwen3-8b.specforge-peagle", "qwen3-8b", "EAGLE", False),
        ("qwen3-8b.specforge-dflash", "qwen3-8b", "DFLASH", True),
        ("qwen3-8b.specforge-dflash", "qwen3-8b", "EAGLE3", False),
        ("qwen3.6-27b.specforge-dspark", "qwen3.6-27b", "DSPARK", True),
        ("qwen3.6-27b.specforge-dspark", "qwen3.6-27b", "DFLASH", False),
        ("llama-2-7b.hass-eagle1", "llama-2-7b-chat", "EAGLE", True),
        ("llama-2-7b.hass-eagle1", "llama-2-7b-chat", "EAGLE3", False),
    ],
)
def test_the_algorithm_of_a_launch_has_to_fit_the_head(name: str, goal: str, asked: str, fits: bool) -> None:
    made = pair(draft(name), target(goal))
    assert (Kind.ALGORITHM_FLAG not in kinds(made, asked)) is fits


def test_a_parallel_head_that_is_launched_as_eagle_3_is_warned_of() -> None:
    assert kinds(pair(draft("qwen3-8b.specforge-peagle"), target()), "EAGLE3") == {Kind.PARALLEL_HEAD}
    called = with_header(name="qwen3-8b.specforge-peagle", architectures=["LlamaForCausalLMEagle3"])
    found = [each for each in mismatches_of(called, algorithm="EAGLE3") if each.kind is Kind.PARALLEL_HEAD]
    assert [each.where for each in found] == [("mask_hidden",)]


def test_the_silent_skip_of_fc_is_explained() -> None:
    found = only(with_header(), "EAGLE")
    assert "fc is passed over without an error" in found.message
    assert (found.expected, found.found) == ("EAGLE3", "EAGLE")


def test_the_worst_comes_first() -> None:
    weights = [
        each.kind.weight for each in mismatches_of(with_header({"fc__weight": None}, max_position_embeddings=2048))
    ]
    assert weights == [Weight.ERROR, Weight.WARNING]


def test_kinds_have_names_of_their_own() -> None:
    titles = [each.title for each in Kind]
    assert len(set(titles)) == len(titles)


def test_two_keys_with_ids_are_told_by_their_names() -> None:
    made = pair(deepseek(2, 30, 58, **{NESTED: [2, 30, 58]}), target("deepseek-v3"))
    (found,) = [each for each in mismatches_of(made) if each.kind is Kind.CONVENTION_OPEN]
    assert set(found.where) == {NESTED, f"eagle_config.{NESTED}"}


@pytest.mark.parametrize(("ids", "fits"), [((2, 30, 58), True), ((3, 31, 59), True), ((-1, 2, 30), False)])
def test_declared_boundaries_have_to_be_the_ids_in_some_convention(ids: tuple[int, ...], fits: bool) -> None:
    made = pair(deepseek(*ids), target("deepseek-v3"), declared=(3, 31, 59))
    assert (Kind.IDS_NOT_TRAINED in kinds(made)) is not fits
    if not fits:
        (said,) = [each for each in mismatches_of(made) if each.kind is Kind.IDS_NOT_TRAINED]
        assert "[0, 3, 31] as outputs of layers and [-1, 2, 30] as inputs" in said.message
        assert (said.expected, said.found) == ("[3, 31, 59]", "[0, 3, 31]")
        assert Kind.KEY_OVERRULED not in kinds(made)


def test_a_training_on_other_layers_than_the_default_needs_ids() -> None:
    assert kinds(pair(draft(), target(), declared=(2, 18, 33))) == set()
    found = only(pair(draft(), target(), declared=(3, 18, 33)))
    assert found.kind is Kind.IDS_ABSENT
    assert "an engine takes its own default then, most often [2, 18, 33]" in found.message


def test_lists_of_ids_of_which_one_is_what_was_declared() -> None:
    both = {**nested(1, 17, 32), "aux_hidden_states_layer_ids": [5, 6, 7]}
    assert Kind.IDS_NOT_TRAINED not in kinds(pair(draft(**both), target(), declared=(2, 18, 33)))
    assert Kind.IDS_NOT_TRAINED in kinds(pair(draft(**both), target(), declared=(9, 18, 33)))
