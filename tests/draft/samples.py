"""Pairs to test with: those of ``fixtures/pairs``, and small ones made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flowcheck.draft import DraftConfig, Header, Pairing, TargetConfig, draft_from, pair, target_from
from flowcheck.draft.header import header_from

PAIRS = Path(__file__).resolve().parents[2] / "fixtures" / "pairs"
NAMES = sorted(path.name.removesuffix(".meta.json") for path in PAIRS.glob("drafts/*.meta.json"))
TARGETS = sorted(path.stem for path in PAIRS.glob("targets/*.json"))

NESTED = "eagle_aux_hidden_state_layer_ids"


def meta(name: str) -> dict[str, Any]:
    return json.loads((PAIRS / "drafts" / f"{name}.meta.json").read_text("utf-8"))  # type: ignore[no-any-return]


def draft_json(name: str = "qwen3-8b.specforge-eagle3", **changes: object) -> dict[str, Any]:
    return _changed(json.loads((PAIRS / "drafts" / f"{name}.json").read_text("utf-8")), changes)


def target_json(name: str = "qwen3-8b", **changes: object) -> dict[str, Any]:
    return _changed(json.loads((PAIRS / "targets" / f"{name}.json").read_text("utf-8")), changes)


def header_json(name: str = "qwen3-8b.specforge-eagle3", **changes: list[int] | None) -> dict[str, Any]:
    """A header in which tensors have other shapes, or are gone; dots in names are written as double underscores."""
    tensors = json.loads((PAIRS / "headers" / f"{name}.json").read_text("utf-8"))["tensors"]
    for key, shape in changes.items():
        tensor = key.replace("__", ".")
        tensors.pop(tensor, None)
        if shape is not None:
            tensors[tensor] = {"dtype": "BF16", "shape": shape}
    return {"tensors": tensors}


def _changed(raw: dict[str, Any], changes: dict[str, object]) -> dict[str, Any]:
    for key, value in changes.items():
        if value is ...:
            raw.pop(key, None)
        else:
            raw[key] = value
    return raw


def one_clear_line(problem: Exception) -> None:
    text = str(problem)
    assert text.isprintable(), text  # so it has no line end either
    assert 5 < len(text) < 800, text


def draft(name: str = "qwen3-8b.specforge-eagle3", **changes: object) -> DraftConfig:
    return draft_from(draft_json(name, **changes), "draft")


def target(name: str = "qwen3-8b", **changes: object) -> TargetConfig:
    return target_from(target_json(name, **changes), "target")


def nested(*ids: int, **more: object) -> dict[str, object]:
    return {"eagle_config": {NESTED: list(ids), **more}}


def deepseek(*ids: int, **changes: object) -> DraftConfig:
    """A draft for a target of 61 layers, with ids where ModelOpt and SpecForge write them."""
    return draft("deepseek-v3.specforge-eagle3", **{**nested(*ids), **changes})


def sample(name: str) -> Pairing:
    """A pair of the fixtures, with its header if there is one."""
    facts = meta(name)
    path = PAIRS / "headers" / f"{name}.json"
    header: Header | str = header_from(header_json(name), name) if path.exists() else "none"
    goal = target(Path(facts["target_config"]).stem)
    return pair(draft(name), goal, header=header)


def with_header(
    changes: dict[str, list[int] | None] | None = None,
    *,
    name: str = "qwen3-8b.specforge-eagle3",
    goal: str = "qwen3-8b",
    declared: tuple[int, ...] | None = None,
    **config: object,
) -> Pairing:
    """A pair of the fixtures in which tensors and keys are others."""
    header = header_from(header_json(name, **(changes or {})), "checkpoint")
    return pair(draft(name, **config), target(goal), header=header, declared=declared)
