"""A package in SGLang's layout with one small model, and edits of it: what each captures is known by reading it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CONFIG", "MODEL", "write_tree"]

CONFIG = {
    "architectures": ["TinyForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 6,
    "vocab_size": 256,
    "rms_norm_eps": 1e-6,
}

FORWARD_BATCH = """
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any, Optional


class ForwardMode(IntEnum):
    EXTEND = auto()
    DECODE = auto()
    IDLE = auto()
    TARGET_VERIFY = auto()

    def is_target_verify(self):
        return self == ForwardMode.TARGET_VERIFY


class CaptureHiddenMode(IntEnum):
    NULL = 0
    LAST = 1
    FULL = 2

    def is_full(self):
        return self == CaptureHiddenMode.FULL


@dataclass
class ForwardBatch:
    forward_mode: ForwardMode
    input_ids: Any
    capture_hidden_mode: CaptureHiddenMode = None
    positions: Any = None
    spec_info: Optional[Any] = None
"""

LAYERS = """
import torch
from torch import nn
from sgl_kernel import fused_add_rmsnorm, rmsnorm


def tensor_model_parallel_all_reduce(x):
    return torch.distributed.all_reduce(x)


class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x, residual=None):
        if residual is not None:
            fused_add_rmsnorm(x, residual, self.weight.data, self.eps)
            return x, residual
        return rmsnorm(x, self.weight.data, self.eps)


class UnquantizedLinearMethod:
    def apply(self, layer, x, bias=None):
        return torch.nn.functional.linear(x, layer.weight, bias)


class ColumnLinear(nn.Module):
    def __init__(self, input_size, output_size):
        super().__init__()
        self.input_size = self.input_size_per_partition = input_size
        self.output_size_per_partition = output_size // 8
        self.quant_method = UnquantizedLinearMethod()

    def forward(self, x):
        return self.quant_method.apply(self, x)


class RowLinear(nn.Module):
    def __init__(self, input_size, output_size, reduce_results=True):
        super().__init__()
        self.input_size = input_size
        self.input_size_per_partition = input_size // 8
        self.output_size = output_size
        self.reduce_results = reduce_results
        self.quant_method = UnquantizedLinearMethod()

    def forward(self, x):
        out = self.quant_method.apply(self, x)
        if self.reduce_results:
            out = tensor_model_parallel_all_reduce(out)
        return out


class VocabParallelEmbedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()
        self.embedding_dim = embedding_dim

    def forward(self, x):
        raise NotImplementedError
"""

LOGITS = """
import torch
from torch import nn


class LogitsProcessorOutput:
    def __init__(self, next_token_logits, hidden_states):
        self.next_token_logits = next_token_logits
        self.hidden_states = hidden_states


class LogitsProcessor(nn.Module):
    def forward(self, input_ids, hidden_states, lm_head, forward_batch, aux_hidden_states=None):
        stored = hidden_states
        if forward_batch.capture_hidden_mode.is_full() and aux_hidden_states is not None:
            stored = torch.cat(aux_hidden_states, dim=-1)
        return LogitsProcessorOutput(None, stored)
"""

MODEL = """
import torch
from torch import nn

from sglang.srt.layers.layers import (
    ColumnLinear,
    RMSNorm,
    RowLinear,
    VocabParallelEmbedding,
    tensor_model_parallel_all_reduce,
)
from sglang.srt.layers.logits_processor import LogitsProcessor


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up_proj = ColumnLinear(config.hidden_size, config.intermediate_size)
        self.down_proj = RowLinear(config.intermediate_size, config.hidden_size, reduce_results=True)

    def forward(self, x):
        return self.down_proj(self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        self.index = index
        self.attn = Mlp(config)
        self.mlp = Mlp(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, positions, hidden_states, forward_batch, residual):
        if residual is None:
            residual = hidden_states
            hidden_states = self.input_layernorm(hidden_states)
        else:
            hidden_states, residual = self.input_layernorm(hidden_states, residual)
        hidden_states = self.attn(hidden_states)
        hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)
        hidden_states = self.mlp(hidden_states)
        return hidden_states, residual


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers_to_capture = []

    def forward(self, input_ids, positions, forward_batch):
        hidden_states = self.embed_tokens(input_ids)
        residual = None
        captured = []
        for i, layer in enumerate(self.layers):
            if i in self.layers_to_capture:
                captured.append(hidden_states + residual)
            hidden_states, residual = layer(positions, hidden_states, forward_batch, residual)
        hidden_states, _ = self.norm(hidden_states, residual)
        if not captured:
            return hidden_states
        return hidden_states, captured


class TinyForCausalLM(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.config = config
        self.model = Model(config)
        self.lm_head = None
        self.logits_processor = LogitsProcessor()
        self.capture_aux_hidden_states = False

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.capture_aux_hidden_states = True
        if layer_ids is None:
            n = self.config.num_hidden_layers
            self.model.layers_to_capture = [2, n // 2, n - 3]
        else:
            self.model.layers_to_capture = [i + 1 for i in layer_ids]

    def forward(self, input_ids, positions, forward_batch):
        hidden_states = self.model(input_ids, positions, forward_batch)
        captured = None
        if self.capture_aux_hidden_states:
            hidden_states, captured = hidden_states
        return self.logits_processor(input_ids, hidden_states, self.lm_head, forward_batch, captured)


EntryClass = TinyForCausalLM
"""


def write_tree(folder: Path, edits: dict[str, str]) -> Path:
    """Writes the package with an edited model; every edit has to fit exactly once."""
    model = MODEL
    for old, new in edits.items():
        assert model.count(old) == 1, f"{model.count(old)} places for {old!r}"
        model = model.replace(old, new)
    files = {
        "sglang/__init__.py": "",
        "sglang/srt/model_executor/forward_batch_info.py": FORWARD_BATCH,
        "sglang/srt/layers/layers.py": LAYERS,
        "sglang/srt/layers/logits_processor.py": LOGITS,
        "sglang/srt/models/tiny.py": model,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
