"""Which tensors of a checkpoint the draft classes of released trees take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowcheck.flow.loading import loading
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.width import Loading
from tests.flow.models import CONFIGS, WORDS
from tests.releases.scans import where
from tests.releases.test_width import LLAMA, MLA, draft_config, read

pytestmark = pytest.mark.release


def header(name: str) -> dict[str, list[int]]:
    raw = json.loads((CONFIGS / "headers" / f"{name}.json").read_text("utf-8"))
    return {key: tensor["shape"] for key, tensor in raw["tensors"].items()}


def loaded(version: str, name: str, tensors: dict[str, list[int]], **changes: Any) -> Loading:
    tree, program = read(version)
    answer = loading(tree, program, WORDS, Scenario(), {**draft_config(name), **changes}, tensors)
    assert isinstance(answer, Loading)
    return answer


def passed_over(answer: Loading) -> set[str]:
    assert answer.open == ""
    return {use.name for use in answer.tensors if not use.taken}


@pytest.mark.parametrize(
    ("version", "takes_layers", "line"), [("0.4.9.post3", False, 202), ("0.5.9", False, 229), ("0.5.12", True, 293)]
)
def test_names_of_layers(version: str, takes_layers: bool, line: int) -> None:
    """Up to 0.5.11 a decoder layer that is called layers.0 is passed over, and keeps what was allocated."""
    midlayer = header(LLAMA)
    answer = loaded(version, LLAMA, midlayer)
    assert passed_over(answer) == {"t2d"}
    assert answer.left == ("model.embed_tokens.weight",)
    assert where(answer.place) == f"models/llama_eagle3.py:{line}"
    layers = {key.replace("midlayer.", "layers.0."): shape for key, shape in midlayer.items()}
    answer = loaded(version, LLAMA, layers)
    of_layer = {key for key in layers if key.startswith("layers.0.")}
    assert passed_over(answer) == {"t2d", *(() if takes_layers else of_layer)}
    assert len(answer.left) == (1 if takes_layers else 8)


@pytest.mark.parametrize(
    ("version", "norm", "parts"), [("0.5.9", False, False), ("0.5.12", False, True), ("0.5.17", True, True)]
)
def test_norms_before_the_projection(version: str, norm: bool, parts: bool) -> None:
    more = {"input_norm.weight": [12288], **{f"fc_norm.{i}.weight": [4096] for i in range(3)}}
    answer = loaded(version, LLAMA, {**header(LLAMA), **more}, norm_before_fc=True, fc_norm=True)
    over = passed_over(answer)
    assert ("input_norm.weight" in over) is not norm
    assert ("fc_norm.2.weight" in over) is not parts


def test_a_tied_head_is_passed_over() -> None:
    assert "lm_head.weight" in passed_over(loaded("0.5.9", LLAMA, header(LLAMA), tie_word_embeddings=True))


def test_parameters_of_latent_attention_are_left_open() -> None:
    names = {"fc.weight": [7168, 21504], "layers.0.self_attn.kv_b_proj.weight": [16384, 512], "bogus": [1]}
    answer = loaded("0.5.12", MLA, names)
    assert [use.taken for use in answer.tensors] == [None, None, None]
    assert answer.open
    assert answer.left == ()
