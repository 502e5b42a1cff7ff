"""Facts about a target model, from its configuration: which part of it is the language model, and how deep and wide.

A vision or audio tower has layers of its own; they are never counted. Knows nothing of drafts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flowcheck.draft.documents import Document
from flowcheck.draft.errors import ConfigError
from flowcheck.draft.positions import positions_of

__all__ = ["LAYER_KEYS", "TargetConfig", "target_from"]

LAYER_KEYS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_decoder_layers", "decoder_layers")
WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")
LOOP_KEYS = ("loop_num", "num_loops")

NESTINGS = ("thinker_config", "llm_config", "language_config", "text_config")
"""Where a multimodal configuration keeps its language model, in the order in which SGLang looks."""

TOWERS = ("vision", "visual", "image", "video", "audio", "speech", "talker", "vit", "projector", "draft", "quant")
"""What the name of a part says that is no language model."""


@dataclass(frozen=True)
class TargetConfig:
    """A target model.

    ``layers`` counts decoder layers as a forward runs them: a loop model's are counted once for every round.
    ``nesting`` is the key of the object that describes the language model, ``""`` if the document itself does.
    """

    label: str
    architectures: tuple[str, ...]
    model_type: str
    nesting: str
    layers: int
    loops: int
    hidden_size: int
    vocab_size: int | None
    positions: int | None
    nextn_layers: int | None
    raw: Mapping[str, Any] = field(repr=False, hash=False)

    @property
    def text(self) -> Mapping[str, Any]:
        """The object that describes the language model."""
        part: Any = self.raw
        for key in filter(None, self.nesting.split(".")):
            part = part[key]
        return part  # type: ignore[no-any-return]


def target_from(raw: Mapping[str, Any], label: str) -> TargetConfig:
    """The target that a configuration describes. Raises `ConfigError`: no layers, no width, values of the wrong type."""
    document = Document(label, raw)
    text = _language_model(document)
    layers = _number(text, LAYER_KEYS)
    if layers is None:
        raise ConfigError(f"{label} is no target model: it has no number of layers (num_hidden_layers)")
    if layers < 1:
        raise ConfigError(f"{label} is no target model: it has {layers} layers")
    width = _number(text, WIDTH_KEYS)
    if width is None or width < 1:
        raise ConfigError(f"{label} is no target model: it has no hidden_size")
    loops = next((found for key in LOOP_KEYS if (found := text.integer(key, least=0))), 1)
    vocabulary = text.integer("vocab_size", least=1)
    return TargetConfig(
        label=label,
        architectures=document.texts("architectures"),
        model_type=document.text("model_type") or text.text("model_type") or "",
        nesting=text.path,
        layers=layers * loops,
        loops=loops,
        hidden_size=width,
        vocab_size=vocabulary if vocabulary is not None else document.integer("vocab_size", least=1),
        positions=positions_of(text),
        nextn_layers=text.integer("num_nextn_predict_layers", least=0),
        raw=raw,
    )


def _number(document: Document, keys: tuple[str, ...]) -> int | None:
    return next((found for key in keys if (found := document.integer(key)) is not None), None)


def _language_model(document: Document) -> Document:
    """The part that describes the language model: one of the known nestings, the document itself, or a part of it."""
    for part in _nested(document):
        if _has_depth(part):
            return part
    if _has_depth(document):
        return document
    others = [part for part in _any_part(document) if _has_depth(part)]
    if len(others) > 1:
        names = ", ".join(part.path for part in others)
        raise ConfigError(
            f"{document.label} has several parts with layers ({names}), and none of them says it is the text's"
        )
    return others[0] if others else document


def _has_depth(document: Document) -> bool:
    return any(document.raw.get(key) is not None for key in LAYER_KEYS)


def _nested(document: Document, depth: int = 0) -> Iterator[Document]:
    for key in NESTINGS:
        part = document.inside(key)
        if part is not None:
            if depth < 3:
                yield from _nested(part, depth + 1)
            yield part


def _any_part(document: Document, depth: int = 0) -> Iterator[Document]:
    for key, part in document.objects():
        if not any(tower in key.lower() for tower in TOWERS):
            yield part
            if depth < 3:
                yield from _any_part(part, depth + 1)
