"""The configurations that stand for all: what a class takes out of its own decides what they write."""

from __future__ import annotations

import pytest

from flowcheck.data import rules_dir
from flowcheck.flow.vocabulary import load_vocabulary
from flowcheck.flow.witnesses import load_witnesses

WITNESSES = load_witnesses(rules_dir() / "witnesses.toml")
WORDS = load_vocabulary(rules_dir() / "vocabulary.toml")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"sparse = config.moe_layer_freq[layer_id] != 0", [0, 1, 0, 1]),
        (b"sparse = layer_id % config.moe_layer_freq == 0", 1),
    ],
)
def test_a_key_is_a_list_where_a_class_takes_an_element_out_of_it(source: bytes, expected: object) -> None:
    assert WITNESSES.configuration("Model", 4, [source], WORDS)["moe_layer_freq"] == expected


def test_the_part_for_text_writes_what_the_whole_does() -> None:
    whole = WITNESSES.configuration("Model", 4, [b"self.config = config.text_config"], WORDS)
    assert whole["architectures"] == ["Model"]
    assert {key: whole[key] for key in whole["text_config"]} == whole["text_config"]
