"""What the draft classes of released trees take in, for the drafts of the fixtures and for edits of them."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from flowcheck.flow.capture_plan import plan_of
from flowcheck.flow.intake import intake
from flowcheck.flow.keys import key_uses
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.width import Factor, Fit, Intake, NoDraftClass, Projection, Use, fits
from flowcheck.program.modules import Program
from flowcheck.source import Tree, cache_root, open_source
from flowcheck.syntax import SyntaxCache, SyntaxStore
from tests.flow.models import CONFIGS, WORDS, deep, target_config
from tests.releases.scans import where

pytestmark = pytest.mark.release

NESTED, TOP = "eagle_config.eagle_aux_hidden_state_layer_ids", "eagle_aux_hidden_state_layer_ids"
LLAMA, DEEPSEEK, MLA = "llama-3.1-8b.specforge-eagle3", "deepseek-v3.specforge-eagle3", "kimi-k2.5.torchspec-eagle3-mla"
V3 = "gpt-oss-120b.nvidia-eagle3-v3"


def draft_config(name: str) -> dict[str, Any]:
    return json.loads((CONFIGS / "drafts" / f"{name}.json").read_text("utf-8"))  # type: ignore[no-any-return]


def eagle3_drafts() -> list[str]:
    metas = sorted((CONFIGS / "drafts").glob("*.meta.json"))
    return [
        p.name.removesuffix(".meta.json") for p in metas if json.loads(p.read_text("utf-8"))["algorithm"] == "EAGLE3"
    ]


def taken(version: str, name: str, **changes: Any) -> Intake | NoDraftClass:
    return _taken(version, name, json.dumps(changes, sort_keys=True))


@functools.cache
def _taken(version: str, name: str, changes: str) -> Intake | NoDraftClass:
    raw = {**draft_config(name), **json.loads(changes)}
    tree, program = read(version)
    return intake(tree, program, WORDS, Scenario(), raw)


@functools.lru_cache(maxsize=2)
def read(version: str) -> tuple[Tree, Program]:
    """A release, read once for all questions that come one after the other."""
    tree = open_source(f"sglang=={version}")
    return tree, Program(SyntaxStore(tree, SyntaxCache(cache_root() / "syntax")))


def known(version: str, name: str, **changes: Any) -> Intake:
    answer = taken(version, name, **changes)
    assert isinstance(answer, Intake)
    assert answer.open == ""
    return answer


def layer(answer: Intake) -> Projection:
    assert answer.projection is not None
    assert answer.projection.open == ""
    return answer.projection


def states_of(made: Projection) -> Factor:
    assert made.states is not None
    return made.states


def ids(n: int) -> dict[str, Any]:
    return {"eagle_aux_hidden_state_layer_ids": [1 + 7 * i for i in range(n)]}


@pytest.mark.parametrize(
    ("version", "made", "asked", "number"),
    [
        ("0.4.9.post3", 124, 148, 125),
        ("0.5.6", 135, 162, 136),
        ("0.5.9", 135, 162, 136),
        ("0.5.10", 138, 176, 139),
    ],
)
def test_three_states_whatever_the_draft_says(version: str, made: int, asked: int, number: int) -> None:
    for changes in ({}, {"eagle_config": ids(5)}, {"num_aux_hidden_states": 5}):
        answer = known(version, LLAMA, **changes)
        fc = layer(answer)
        states = states_of(fc)
        assert (states.value, states.key, fc.states_keys) == (3, "", ())
        assert [where(p) for p in states.places] == [f"models/llama_eagle3.py:{number}"]
        assert where(fc.place) == f"models/llama_eagle3.py:{made}"
        assert [where(p) for skip in answer.skips for p in skip.places] == [f"models/llama_eagle3.py:{asked}"]
        assert [fits(n * 4096, answer).fit for n in (1, 2, 3, 5)] == [Fit.SKIPPED, Fit.DIFFERS, Fit.FITS, Fit.DIFFERS]


@pytest.mark.parametrize(
    ("version", "default", "read"), [("0.5.12", 158, 157), ("0.5.17", 153, 152), ("0.5.23", 161, 160)]
)
def test_as_many_states_as_the_draft_says(version: str, default: int, read: int) -> None:
    plain, five = layer(known(version, LLAMA)), layer(known(version, LLAMA, eagle_config=ids(5)))
    assert (states_of(plain).value, states_of(plain).key) == (3, "")
    assert [where(p) for p in states_of(plain).places] == [f"models/llama_eagle3.py:{default}"]
    assert set(plain.states_keys) == {"num_aux_hidden_states", NESTED}
    assert (states_of(five).value, states_of(five).key, five.in_features) == (5, NESTED, 5 * 4096)
    assert [where(p) for p in states_of(five).places] == [f"models/llama_eagle3.py:{read}"]
    assert five.states_keys == ("num_aux_hidden_states",)


def test_the_number_goes_before_the_ids_and_ids_at_the_top_count_for_nothing() -> None:
    both = states_of(layer(known("0.5.12", LLAMA, eagle_config=ids(3), num_aux_hidden_states=5)))
    assert (both.value, both.key) == (5, "num_aux_hidden_states")
    assert states_of(layer(known("0.5.12", LLAMA, **ids(5)))).key == ""


@pytest.mark.parametrize("version", ["0.4.9.post3", "0.5.9", "0.5.12", "0.5.23"])
def test_the_width_of_the_target(version: str) -> None:
    fc = layer(known(version, LLAMA, target_hidden_size=5120))
    assert (fc.in_features, fc.out_features) == (3 * 5120, 4096)
    assert fc.width is not None
    assert (fc.width.key, fc.width.value) == ("target_hidden_size", 5120)
    answer = known(version, LLAMA, target_hidden_size=None)
    assert answer.raises is not None
    assert (answer.raises.exception, answer.projection) == ("TypeError", None)


@pytest.mark.parametrize("version", ["0.4.9.post3", "0.5.9"])
def test_no_class_for_latent_attention(version: str) -> None:
    assert taken(version, MLA) == NoDraftClass(("Eagle3DeepseekV2ForCausalLM",))


@pytest.mark.parametrize("version", ["0.5.12", "0.5.17", "0.5.23"])
def test_latent_attention(version: str) -> None:
    answer = known(version, MLA)
    fc = layer(answer)
    assert (answer.model_class, fc.path, fc.in_features, states_of(fc).key) == (
        "Eagle3DeepseekV2ForCausalLM", "model.fc", 3 * 7168, NESTED,
    )  # fmt: skip
    assert [skip.width for skip in answer.skips] == [7168]
    top = layer(known(version, MLA, eagle_config=None, num_aux_hidden_states=4, **ids(5)))
    assert (states_of(top).value, states_of(top).key) == (5, TOP)
    assert layer(known(version, MLA, target_hidden_size=None)).in_features == 3 * 7168


@pytest.mark.parametrize("name", eagle3_drafts())
@pytest.mark.parametrize("version", ["0.4.9.post3", "0.5.9"])
def test_every_draft_of_the_fixtures(version: str, name: str) -> None:
    """What is not registered is said to be so; of all else it is known what takes the states, if anything does."""
    raw, answer = draft_config(name), taken(version, name)
    if isinstance(answer, NoDraftClass):
        assert raw["architectures"][0] not in ("LlamaForCausalLMEagle3", "LlamaForCausalLM")
        return
    assert answer.open == ""
    if raw["architectures"] == ["LlamaForCausalLM"]:
        assert (answer.projection, answer.takes_states) == (None, False)
        return
    assert (layer(answer).in_features, layer(answer).out_features) == (3 * raw["hidden_size"], raw["hidden_size"])
    assert [skip.width for skip in answer.skips] == [raw["hidden_size"]]
    assert answer.layers is not None
    assert (answer.layers.built, answer.layers.path) == (1, "model.midlayer")
    assert (answer.raises is None) is ("draft_vocab_size" in raw)
    assert answer.lacking == (() if "draft_vocab_size" in raw else ("draft_vocab_size",))


@pytest.mark.parametrize(("version", "raises"), [("0.5.9", True), ("0.5.12", False)])
def test_several_layers(version: str, raises: bool) -> None:
    answer = known(version, LLAMA, num_hidden_layers=2)
    assert (answer.raises is not None) is raises
    assert raises or (answer.layers is not None and (answer.layers.built, answer.layers.said) == (2, 2))


@pytest.mark.parametrize(
    ("version", "use_aux", "norm_before_fc", "fc_norm"),
    [
        ("0.5.6", Use.IGNORED, Use.IGNORED, Use.IGNORED),
        ("0.5.9", Use.READ, Use.IGNORED, Use.IGNORED),
        ("0.5.12", Use.READ, Use.IGNORED, Use.READ),
        ("0.5.17", Use.READ, Use.READ, Use.READ),
    ],
)
def test_keys_that_came_later(version: str, use_aux: Use, norm_before_fc: Use, fc_norm: Use) -> None:
    raw = draft_config(V3)

    def work() -> dict[str, Use]:
        tree, program = read(version)
        plan = plan_of(tree, program, WORDS, Scenario(), target_config("gpt-oss-120b"), raw)
        answer = known(version, V3)
        keys = (
            "eagle_config.use_aux_hidden_state",
            "eagle_config.norm_before_fc",
            NESTED,
            "fc_norm",
            "norm_before_residual",
        )
        return {use.key: use.use for use in key_uses(program, WORDS, answer, plan.reads, keys)}

    assert deep(work) == {
        "eagle_config.use_aux_hidden_state": use_aux,
        "eagle_config.norm_before_fc": norm_before_fc,
        NESTED: Use.READ,
        "fc_norm": fc_norm,
        "norm_before_residual": Use.IGNORED,
    }
