"""A draft that writes other ids, and nothing else that is other."""

from __future__ import annotations

import pytest

from flowcheck.draft import draft_from
from flowcheck.draft.rewriting import keyed, snippet, with_ids
from tests.cli.pairs import IDS, config

KEY = f"eagle_config.{IDS}"


def test_the_rest_of_a_configuration_stays() -> None:
    raw = config(eagle_config={IDS: [1, 2, 3], "use_aux_hidden_state": True})
    draft = draft_from(raw, "draft")
    found = with_ids(draft, {KEY: (4, 5, 6)})
    assert found.raw == {**raw, "eagle_config": {IDS: [4, 5, 6], "use_aux_hidden_state": True}}
    assert [each.ids for each in found.id_lists] == [(4, 5, 6)]
    assert (found.label, raw["eagle_config"][IDS]) == ("draft", [1, 2, 3])


@pytest.mark.parametrize("held", [..., None, {"other": 1}])
def test_a_key_that_is_not_there_is_made(held: object) -> None:
    found = with_ids(draft_from(config(eagle_config=held), "draft"), {KEY: (4, 5, 6), "target_layer_ids": (1,)})
    assert found.raw["eagle_config"][IDS] == [4, 5, 6]
    assert found.raw["target_layer_ids"] == [1]


def test_what_is_pasted_holds_the_whole_object() -> None:
    draft = draft_from(config(eagle_config={IDS: [1, 2, 3], "use_aux_hidden_state": True}), "draft")
    assert snippet(draft, KEY, (7,)) == {"eagle_config": {IDS: [7], "use_aux_hidden_state": True}}
    assert snippet(draft, IDS, (7,)) == {IDS: [7]}
    assert draft.raw["eagle_config"][IDS] == [1, 2, 3]


def test_no_two_keys_have_the_same_ids() -> None:
    for states in (1, 3, 5):
        lists = list(keyed(states).values())
        assert len(set(lists)) == len(lists) > 5
        assert {len(each) for each in lists} == {states}
        assert KEY in keyed(states)
