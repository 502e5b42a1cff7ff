"""A package in SGLang's layout with one small draft class, and edits of it: what it takes in is known by reading it."""

from __future__ import annotations

from pathlib import Path

from tests.flow.tiny_models import write_tree

__all__ = ["CONFIG", "MODEL", "PATH", "write_draft_tree"]

PATH = "sglang/srt/models/tiny_draft.py"
CONFIG = {
    "architectures": ["TinyDraft"],
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "vocab_size": 256,
    "draft_vocab_size": 32,
    "rms_norm_eps": 1e-6,
}

ATTENTION = """
from torch import nn


class RadixAttention(nn.Module):
    def forward(self, x):
        raise NotImplementedError
"""

MODEL = """
import torch
from torch import nn

from sglang.srt.layers.attention import RadixAttention
from sglang.srt.layers.layers import ColumnLinear, RMSNorm, RowLinear, VocabParallelEmbedding
from sglang.srt.layers.logits_processor import LogitsProcessor

STATES = 3


def default_weight_loader(parameter, loaded):
    assert parameter.size() == loaded.size()
    parameter.data.copy_(loaded)


class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.qkv_proj = ColumnLinear(2 * config.hidden_size, config.hidden_size)
        self.attn = RadixAttention()
        self.o_proj = RowLinear(config.hidden_size, config.hidden_size)

    def forward(self, embeds, hidden_states):
        residual = hidden_states
        hidden_states = torch.cat([embeds, self.hidden_norm(hidden_states)], dim=-1)
        return self.o_proj(self.attn(self.qkv_proj(hidden_states))), residual


def count(config):
    eagle_config = getattr(config, "eagle_config", None) or {}
    ids = eagle_config.get("layer_ids")
    return len(ids) if ids else 3


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        width = config.hidden_size
        self.fc = nn.Linear(width * 3, config.hidden_size, bias=getattr(config, "bias", False))
        self.norm_output = getattr(config, "norm_output", False)
        self.layers = nn.ModuleList([Layer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids, positions, forward_batch):
        embeds = self.embed_tokens(input_ids)
        hidden_states = forward_batch.spec_info.hidden_states
        if hidden_states.shape[-1] != embeds.shape[-1]:
            hidden_states = self.fc(hidden_states)
        for layer in self.layers:
            hidden_states, residual = layer(embeds, hidden_states)
        return self.norm(hidden_states, residual)


class TinyDraft(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.config = config
        self.model = Model(config)
        self.rows = config.draft_vocab_size
        self.logits_processor = LogitsProcessor()

    def forward(self, input_ids, positions, forward_batch):
        hidden_states, captured = self.model(input_ids, positions, forward_batch)
        return self.logits_processor(input_ids, hidden_states, None, forward_batch, [captured])


    def load_weights(self, weights):
        parameters = dict(self.named_parameters())
        for name, loaded in weights:
            if "d2t" in name:
                self.ids = loaded + torch.arange(loaded.shape[0])
                continue
            name = name.replace("midlayer", "layers.0")
            if name not in parameters:
                name = f"model.{name}"
            if name in parameters:
                parameter = parameters[name]
                loader = getattr(parameter, "weight_loader", default_weight_loader)
                loader(parameter, loaded)


class PlainModel(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        self.up_proj = ColumnLinear(config.hidden_size, config.hidden_size)

    def forward(self, input_ids, positions, forward_batch):
        return self.up_proj(self.embed_tokens(input_ids))


EntryClass = [TinyDraft, PlainModel]
"""


def write_draft_tree(folder: Path, edits: dict[str, str], more: dict[str, str] | None = None) -> Path:
    """Writes the package with an edited draft class; every edit has to fit exactly once. ``more``: further files."""
    model = MODEL
    for old, new in edits.items():
        assert model.count(old) == 1, f"{model.count(old)} places for {old!r}"
        model = model.replace(old, new)
    write_tree(folder, {})
    for name, text in {PATH: model, "sglang/srt/layers/attention.py": ATTENTION, **(more or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
