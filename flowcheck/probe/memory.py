"""How much memory a probe takes, estimated from the target's configuration before anything is started, and how much is free."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flowcheck.probe.shrinking import Shrinking

__all__ = ["free_memory", "parameters_of", "spoken_size"]


def parameters_of(text: Mapping[str, Any], layers: int, table: Shrinking) -> int | None:
    """How many parameters the language model has that ``text`` describes; None where it does not say enough.

    Small tensors (norms, biases, routers) are left out, and so are towers of other modalities.
    """

    def number(*keys: str) -> int | None:
        found = (text.get(key) for key in keys)
        return next((each for each in found if isinstance(each, int) and not isinstance(each, bool) and each > 0), None)

    keys = table.keys
    width, heads = number(*keys["widths"]), number(*keys["heads"])
    inner, vocabulary = number("intermediate_size", "ffn_hidden_size", "n_inner"), number("vocab_size")
    if width is None or heads is None or vocabulary is None:
        return None
    experts, thin = number(*keys["experts"]), number("moe_intermediate_size", "expert_ffn_hidden_size")
    dense_layers, per_moe = layers, 0
    if experts is not None:
        each = 3 * width * (thin or inner or 0)
        shared = number("n_shared_experts", "num_shared_experts") or 0
        beside = 3 * width * (number("shared_expert_intermediate_size") or 0)
        dense_layers = min(layers, number("first_k_dense_replace") or 0)
        per_moe = (experts + shared) * each + beside
        if not each:
            return None
    if dense_layers and inner is None:
        return None
    attention = _attention(number, width, heads, keys)
    embeddings = width * vocabulary * (1 if text.get("tie_word_embeddings") else 2)
    return embeddings + layers * attention + dense_layers * 3 * width * (inner or 0) + (layers - dense_layers) * per_moe


def _attention(number: Any, width: int, heads: int, keys: Mapping[str, Sequence[str]]) -> int:
    latent = number("kv_lora_rank")
    if latent is not None:
        plain, turned = number("qk_nope_head_dim") or 128, number("qk_rope_head_dim") or 64
        value, down = number("v_head_dim") or 128, number("q_lora_rank")
        query = heads * (plain + turned)
        queries = width * down + down * query if down is not None else width * query
        return int(queries + width * (latent + turned) + latent * heads * (plain + value) + heads * value * width)
    dim = number(*keys["head_dim"]) or width // heads
    kept = number(*keys["kv_heads"]) or heads
    return int(2 * width * heads * dim + 2 * width * kept * dim)


def free_memory(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The bytes of memory that new processes may take: what the system has left, and what the control group allows.

    None where neither says it.
    """
    found = []
    if match := re.search(r"^MemAvailable:\s*(\d+) kB", _text(proc / "meminfo"), re.M):
        found.append(int(match[1]) * 1024)
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        bound, taken = _text(cgroup / limit).strip(), _text(cgroup / used).strip()
        if bound.isdecimal() and taken.isdecimal():
            found.append(max(0, int(bound) - int(taken)))
    return min(found, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def spoken_size(size: int) -> str:
    """Bytes in words: "1.34 TB", "512 MB"."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            value = size / factor
            return (
                f"{value:.2f} {unit}"
                if unit == "TB"
                else f"{value:.0f} {unit}"
                if value >= 10
                else f"{value:.1f} {unit}"
            )
    return f"{size} bytes"
