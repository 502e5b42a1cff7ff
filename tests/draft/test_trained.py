"""What a draft was trained on: declared, computed, or inferred by where its ids stand; never by their shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck.draft import (
    Basis,
    BoundariesError,
    Computed,
    Convention,
    DraftConfig,
    QuestionKind,
    TargetConfig,
    Trained,
    boundaries_from_text,
    default_boundaries,
    spread_boundaries,
    trained_boundaries,
)
from tests.draft.samples import NESTED, deepseek, draft, nested, target

KIMI = target("kimi-k2.5")  # 61 layers


def read(*ids: int, **changes: object) -> Trained:
    return trained_boundaries(deepseek(*ids, **changes), KIMI)


def answers(trained: Trained) -> list[tuple[int, ...]]:
    return [each.boundaries for each in trained.readings]


def kind(trained: Trained) -> QuestionKind | None:
    return trained.question.kind if trained.question else None


class TestTheSameIdsWithTwoTrainings:
    def test_stay_open_by_themselves(self) -> None:
        trained = read(2, 30, 58)
        assert trained.boundaries is None
        assert kind(trained) is QuestionKind.SHAPE
        assert answers(trained) == [(3, 31, 59), (2, 30, 58)]
        assert [each.convention for each in trained.readings] == [Convention.OUTPUT, Convention.BOUNDARY]
        assert [each.basis for each in trained.readings] == [Basis.KEY, Basis.SHAPE]

    @pytest.mark.parametrize("declared", [(2, 30, 58), (3, 31, 59)])
    def test_are_what_is_declared(self, declared: tuple[int, ...]) -> None:
        trained = trained_boundaries(deepseek(2, 30, 58), KIMI, declared=declared)
        assert trained.boundaries == declared
        assert trained.readings[0].basis is Basis.DECLARED
        assert [each.boundaries for each in trained.set_aside] == [({(2, 30, 58), (3, 31, 59)} - {declared}).pop()]

    def test_are_what_the_training_tree_makes_of_them(self) -> None:
        def after(draft: DraftConfig, target: TargetConfig) -> Computed:
            return Computed(tuple(each + 1 for each in draft.id_lists[0].ids), "sglang 0.5.12")

        def before(draft: DraftConfig, target: TargetConfig) -> Computed:
            return Computed(draft.id_lists[0].ids, "sglang 0.5.13")

        one = trained_boundaries(deepseek(2, 30, 58), KIMI, training=after)
        other = trained_boundaries(deepseek(2, 30, 58), KIMI, training=before)
        assert (one.boundaries, other.boundaries) == ((3, 31, 59), (2, 30, 58))
        assert "sglang 0.5.12" in one.readings[0].reason
        assert one.readings[0].basis is Basis.COMPUTED

    def test_a_declaration_wins_over_the_training_tree(self) -> None:
        training = Computed((2, 30, 58), "sglang 0.5.13")
        assert trained_boundaries(deepseek(2, 30, 58), KIMI, declared=(3, 31, 59), training=training).boundaries == (
            3,
            31,
            59,
        )


class TestIdsInEagleConfig:
    def test_are_outputs_where_they_are_the_default_of_outputs(self) -> None:
        trained = read(1, 29, 57)
        assert trained.boundaries == (2, 30, 58)
        assert trained.readings[0].convention is Convention.OUTPUT

    def test_are_boundaries_where_the_largest_is_the_number_of_layers(self) -> None:
        trained = read(3, 11, 61)
        assert trained.boundaries == (3, 11, 61)
        assert trained.readings[0].basis is Basis.RANGE
        assert answers(Trained(trained.set_aside)) == [(4, 12, 62)]

    def test_name_the_last_layer_by_its_output(self) -> None:
        assert answers(read(3, 11, 60))[0] == (4, 12, 61)

    @pytest.mark.parametrize("ids", [(1, 21, 40), (5, 9, 13), (0, 29, 57)])
    def test_stay_open_where_they_are_no_default(self, ids: tuple[int, ...]) -> None:
        trained = read(*ids)
        assert kind(trained) is QuestionKind.NEITHER
        assert answers(trained) == [tuple(each + 1 for each in ids), ids]

    def test_a_first_id_of_zero_is_remarked_upon_and_settles_nothing(self) -> None:
        assert any("id 0" in each for each in read(0, 29, 57).remarks)
        assert read(0, 29, 57).boundaries is None

    def test_of_a_layer_that_is_not_there_are_a_question(self) -> None:
        assert kind(read(1, 29, 70)) is QuestionKind.RANGE

    def test_beyond_all_reason_are_a_question(self) -> None:
        assert kind(read(1, 29, 10**30)) is QuestionKind.RANGE
        assert kind(read(1, 29, -(10**30))) is QuestionKind.RANGE

    def test_that_count_minus_one_are_a_question_with_both_meanings(self) -> None:
        trained = read(-1, 2, 30)
        assert kind(trained) is QuestionKind.NEGATIVE
        assert [(each.boundaries, each.post_norm) for each in trained.readings] == [
            ((0, 3, 31), False),
            ((3, 31), True),
        ]

    def test_below_minus_one_mean_nothing(self) -> None:
        assert kind(read(-2, 2, 30)) is QuestionKind.RANGE

    def test_none_at_all_are_a_question(self) -> None:
        assert kind(read()) is QuestionKind.EMPTY

    def test_null_is_the_default(self) -> None:
        trained = trained_boundaries(deepseek(eagle_config={NESTED: None}), KIMI)
        assert kind(trained) in (None, QuestionKind.ABSENT)

    def test_are_nothing_where_no_states_from_inside_are_taken(self) -> None:
        trained = trained_boundaries(deepseek(**nested(use_aux_hidden_state=False)), KIMI)  # type: ignore[arg-type]
        assert trained.is_settled
        assert trained.readings[0].post_norm
        assert trained.boundaries == ()

    def test_their_order_means_nothing(self) -> None:
        assert answers(read(57, 1, 29)) == answers(read(1, 29, 57))

    def test_that_repeat_are_captured_once(self) -> None:
        assert answers(read(2, 2, 30))[0] == (3, 31)


class TestOtherKeys:
    def one(self, key: str, *ids: int, goal: TargetConfig = KIMI, **more: object) -> Trained:
        return trained_boundaries(
            draft("deepseek-v3.specforge-eagle3", eagle_config=..., **{key: list(ids)}, **more), goal
        )

    def test_at_the_top_are_boundaries(self) -> None:
        trained = self.one(NESTED, 2, 30, 58)
        assert trained.boundaries == (2, 30, 58)
        assert trained.readings[0].convention is Convention.BOUNDARY

    def test_at_the_top_in_the_shape_of_outputs_are_a_conflict(self) -> None:
        trained = self.one(NESTED, 1, 29, 57)
        assert kind(trained) is QuestionKind.SHAPE
        assert answers(trained) == [(1, 29, 57), (2, 30, 58)]

    def test_at_the_top_that_are_no_default_are_what_the_key_says(self) -> None:
        assert self.one(NESTED, 5, 9, 13).boundaries == (5, 9, 13)

    def test_of_speculators_are_boundaries_and_their_shape_is_a_doubt(self) -> None:
        trained = self.one(NESTED, 1, 29, 57, speculators_model_type="eagle3")
        assert trained.boundaries == (1, 29, 57)
        assert trained.doubt is not None
        assert trained.doubt.kind is QuestionKind.SHAPE

    def test_of_angelslim_are_outputs_that_nobody_reads(self) -> None:
        trained = self.one("aux_hidden_states_layer_ids", 1, 29, 57)
        assert trained.boundaries == (2, 30, 58)
        assert any("no engine" in each for each in trained.remarks)

    def test_of_dflash_are_outputs_whatever_they_look_like(self) -> None:
        trained = trained_boundaries(draft("qwen3.6-27b.specforge-dspark"), target("qwen3.6-27b"))
        assert trained.boundaries == (3, 18, 33, 48, 63)
        assert trained.doubt is not None
        assert trained.doubt.kind is QuestionKind.SHAPE

    def test_minus_one_of_dspark_is_the_embedding(self) -> None:
        made = draft("qwen3.6-27b.specforge-dspark", dflash_config={"target_layer_ids": [-1, 17, 32]})
        assert trained_boundaries(made, target("qwen3.6-27b")).boundaries == (0, 18, 33)

    def test_of_dspark_for_deepseek_v4_1_are_inputs(self) -> None:
        made = draft(
            "qwen3.6-27b.specforge-dspark", dflash_config=..., dspark_target_layer_ids=[5, 9], model_type="deepseek_v41"
        )
        assert trained_boundaries(made, KIMI).boundaries == (5, 9)

    def test_dflash_of_speculators_without_ids_is_its_own_default(self) -> None:
        made = draft("qwen3-8b.specforge-dflash", dflash_config=..., speculators_model_type="dflash")
        assert trained_boundaries(made, target()).boundaries == (2, 18, 33)
        assert made.states == 3

    def test_dflash_without_ids_is_a_question_with_the_guess_that_engines_make(self) -> None:
        made = draft("qwen3-8b.specforge-dflash", dflash_config={"mask_token_id": 1})
        trained = trained_boundaries(made, target())
        assert kind(trained) is QuestionKind.ABSENT
        assert answers(trained) == [(2, 10, 18, 26, 34)]


class TestAbsentIds:
    def test_are_the_default_of_a_producer_that_means_it_by_that(self) -> None:
        trained = trained_boundaries(draft(), target())
        assert trained.boundaries == (2, 18, 33)
        assert trained.readings[0].basis is Basis.DEFAULT
        assert "SpecForge or NeMo Automodel takes layers 2, L//2 and L-3" in trained.readings[0].reason

    def test_are_no_proof(self) -> None:
        remarks = trained_boundaries(draft(), target(full_attention_interval=4)).remarks
        assert [each.split()[0] for each in remarks] == ["that", "SpecForge", "some"]
        assert "boundary 19" in remarks[1]

    def test_of_another_number_of_states_are_a_question(self) -> None:
        assert kind(trained_boundaries(draft(num_aux_hidden_states=5), target())) is QuestionKind.ABSENT


class TestSeveralLists:
    def both(self, top: list[int], inner: list[int]) -> Trained:
        return trained_boundaries(deepseek(*inner, **{NESTED: top}), KIMI)

    def test_that_agree_by_their_own_conventions_settle_it(self) -> None:
        assert self.both([2, 30, 58], [1, 29, 57]).boundaries == (2, 30, 58)
        assert self.both([6, 10, 14], [5, 9, 13]).boundaries == (6, 10, 14)
        assert self.both([3, 31, 59], [2, 30, 58]).boundaries == (3, 31, 59)

    def test_that_are_the_same_disagree(self) -> None:
        trained = self.both([2, 30, 58], [2, 30, 58])
        assert kind(trained) is QuestionKind.LISTS
        assert set(answers(trained)) == {(2, 30, 58), (3, 31, 59)}

    def test_of_nemotron_agree(self) -> None:
        made = draft(
            "qwen3-8b.specforge-dflash",
            dflash_config={"target_layer_ids": [3, 12, 20]},
            aux_hidden_state_layer_ids=[4, 13, 21],
        )
        assert trained_boundaries(made, target()).boundaries == (4, 13, 21)


class TestDeclared:
    @pytest.mark.parametrize(
        ("text", "expected"), [("3,31,59", (3, 31, 59)), (" [3, 31, 59] ", (3, 31, 59)), ("0", (0,))]
    )
    def test_as_people_type_them(self, text: str, expected: tuple[int, ...]) -> None:
        assert boundaries_from_text(text) == expected

    @pytest.mark.parametrize("text", ["", "3,", "3;31", "a", "3.0,4", "٣", "1_0", "9" * 50, "3,,4"])
    def test_not_as_anything_else(self, text: str) -> None:
        with pytest.raises(BoundariesError, match="expected numbers with commas"):
            boundaries_from_text(text)

    @pytest.mark.parametrize(
        ("declared", "said"),
        [((3, 31, 62), "62"), ((-1, 3), "-1"), ((3, 3), "twice"), ((), "no trained boundaries")],
    )
    def test_have_to_be_boundaries_of_the_target(self, declared: tuple[int, ...], said: str) -> None:
        with pytest.raises(BoundariesError, match=said):
            trained_boundaries(deepseek(1, 29, 57), KIMI, declared=declared)

    def test_are_put_in_order(self) -> None:
        assert trained_boundaries(deepseek(1), KIMI, declared=(59, 3, 31)).boundaries == (3, 31, 59)

    def test_the_embedding_and_the_end_are_boundaries(self) -> None:
        assert trained_boundaries(deepseek(1), KIMI, declared=(0, 61)).boundaries == (0, 61)

    def test_computed_ones_are_checked_too(self) -> None:
        with pytest.raises(BoundariesError, match="sglang x"):
            trained_boundaries(deepseek(1), KIMI, training=Computed((99,), "sglang x"))


@pytest.mark.parametrize(("layers", "expected"), [(61, (2, 30, 58)), (36, (2, 18, 33)), (26, (2, 13, 23)), (1, (0,))])
def test_the_default_of_eagle_3(layers: int, expected: tuple[int, ...]) -> None:
    assert default_boundaries(layers) == expected


@pytest.mark.parametrize(
    ("layers", "states", "expected"),
    [
        (36, 5, (2, 10, 18, 26, 34)),
        (28, 5, (2, 8, 14, 20, 26)),
        (40, 5, (2, 11, 20, 29, 38)),
        (36, 1, (19,)),
        (36, 0, ()),
    ],
)
def test_the_default_of_dflash(layers: int, states: int, expected: tuple[int, ...]) -> None:
    assert spread_boundaries(layers, states) == expected


@given(
    st.lists(st.integers(-3, 70), max_size=6), st.booleans(), st.sampled_from(["top", "nested", "dflash", "angelslim"])
)
def test_every_list_has_an_answer_that_keeps_its_promises(ids: list[int], speculators: bool, where: str) -> None:
    changes: dict[str, object] = {"eagle_config": ...}
    if where == "top":
        changes[NESTED] = ids
    elif where == "nested":
        changes = nested(*ids)
    elif where == "dflash":
        changes["dflash_config"] = {"target_layer_ids": ids}
    else:
        changes["aux_hidden_states_layer_ids"] = ids
    if speculators:
        changes["speculators_model_type"] = "eagle3"
    made = draft("deepseek-v3.specforge-eagle3", **changes)
    trained = trained_boundaries(made, KIMI)
    assert trained.readings
    assert trained.is_settled == (trained.boundaries is not None)
    assert trained.is_settled or trained.question is not None
    for reading in trained.readings:
        assert list(reading.boundaries) == sorted(set(reading.boundaries))
    if trained.boundaries is not None:
        assert all(0 <= each <= KIMI.layers for each in trained.boundaries)
    declared = trained_boundaries(made, KIMI, declared=(3, 31, 59))
    assert declared.boundaries == (3, 31, 59)


@given(st.permutations([1, 29, 57]))
def test_no_order_changes_the_answer(ids: list[int]) -> None:
    assert read(*ids).boundaries == (2, 30, 58)
