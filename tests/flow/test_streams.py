"""Hyper-connections: a residual of several streams, and how wide what is captured of it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcheck.flow.capturing import capture
from flowcheck.flow.forwarding import Forwarding
from flowcheck.source import open_source
from tests.flow.tiny_models import CONFIG, MODEL, write_tree

KERNELS = """
def hc_expand(x, n):
    raise NotImplementedError


def hc_contract(x, n):
    raise NotImplementedError


def hc_pre(x, hc_mult):
    raise NotImplementedError


def hc_post(x, residual, h_post, h_res, hc_mult):
    raise NotImplementedError


"""
LAYER = """
        for stage, norm in ((self.attn, self.input_layernorm), (self.mlp, self.post_attention_layernorm)):
            x, pairs, factors, fused = hc_pre(hidden_states, 4)
            assert pairs.shape[1] == 16
            assert factors.shape[1] == 4
            if not fused:
                x = norm(x)
            hidden_states = hc_post(stage(x), hidden_states, factors, pairs, 4)
        return hidden_states, None
"""
AT = "class Mlp(nn.Module):"
EMBED = "        hidden_states = self.embed_tokens(input_ids)\n"
FORWARD = MODEL[
    MODEL.index("        if residual is None:\n            residual = hidden") : MODEL.index("\n\nclass Model(")
]
EDITS = {
    AT: KERNELS + AT,
    EMBED: EMBED + "        hidden_states = hc_expand(hidden_states, 4)\n",
    FORWARD: LAYER,
    "self.norm(hidden_states, residual)": "self.norm(hc_contract(hidden_states, 4)), None",
}
KEPT = "captured.append(hidden_states + residual)"


@pytest.mark.parametrize(
    ("kept", "width"),
    [
        pytest.param("captured.append(hidden_states)", 2 * 4 * 64, id="the streams"),
        pytest.param("captured.append(hc_contract(hidden_states, 4))", 2 * 64, id="what they are contracted to"),
    ],
)
def test_how_wide_captured_streams_are(tmp_path: Path, kept: str, width: int) -> None:
    tree = open_source(str(write_tree(tmp_path, {**EDITS, KEPT: kept})))
    found = capture(Forwarding(tree), "TinyForCausalLM", CONFIG, [1, 3], ("extend",))[0]
    assert (found.raised, found.question, found.unmodelled) == (None, None, ())
    assert found.width == str(width)
    assert [state.width for state in found.states] == [str(width // 2)] * 2
    assert not any(state.boundary.certain for state in found.states)  # which streams are mixed how is not followed
