"""Facts about a draft, from its configuration: whatever its producer calls them and wherever it writes them.

A value is only ever read from where it stands; what an engine makes of it is the engine's matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flowcheck.draft.conventions import ID_KEYS, Convention, Firmness, IdKey
from flowcheck.draft.documents import Document
from flowcheck.draft.errors import ConfigError, counted
from flowcheck.draft.positions import positions_of
from flowcheck.draft.producers import Algorithm, Recognition, recognise

__all__ = ["DraftConfig", "Flag", "IdList", "draft_from"]

CONTAINERS = ("eagle_config", "dflash_config")
FLAGS = ("norm_before_fc", "fc_norm", "use_aux_norm", "norm_output", "norm_before_residual", "return_hidden_post_norm")
COUNTS = ("num_aux_hidden_states", "num_aux_layers")
NESTED = "transformer_layer_config"


@dataclass(frozen=True)
class IdList:
    """Layer ids as one place of a configuration writes them, and what that place says about their meaning."""

    key: str
    ids: tuple[int, ...]
    convention: Convention
    firmness: Firmness
    writers: str
    is_read: bool = True


@dataclass(frozen=True)
class Flag:
    """A boolean that a configuration writes, and where."""

    key: str
    value: bool


@dataclass(frozen=True)
class DraftConfig:
    """A draft model.

    ``nesting`` is the key of the object that holds the dimensions, ``""`` where they stand at the top. A number is None
    where the configuration does not write it or writes null; `writes` tells these apart.
    """

    label: str
    architectures: tuple[str, ...]
    model_type: str
    nesting: str
    recognition: Recognition
    id_lists: tuple[IdList, ...]
    aux_count: int | None
    aux_count_key: str
    use_aux: bool | None
    flags: Mapping[str, Flag] = field(hash=False)
    hidden_size: int | None
    target_hidden_size: int | None
    vocab_size: int | None
    draft_vocab_size: int | None
    layers: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    intermediate_size: int | None
    attention_bias: bool
    fc_bias: bool
    ties_embeddings: bool
    positions: int | None
    target_layers: int | None
    verifier: str
    verifier_architectures: tuple[str, ...]
    raw: Mapping[str, Any] = field(repr=False, hash=False)

    @property
    def algorithm(self) -> Algorithm:
        """The drafting algorithm that the configuration speaks for."""
        return self.recognition.algorithm

    @property
    def takes_aux(self) -> bool:
        """Whether the draft takes states from inside the target; otherwise its last one after the final norm."""
        return self.algorithm.takes_aux and self.use_aux is not False

    @property
    def is_speculators(self) -> bool:
        """Whether the file is in the format of vLLM's speculators."""
        return any(key in self.raw for key in ("speculators_model_type", "speculators_config", NESTED))

    def writes(self, key: str) -> bool:
        """Whether the configuration writes ``key`` (dots lead into objects), be it as null."""
        part: Any = self.raw
        for each in key.split("."):
            if not isinstance(part, Mapping) or each not in part:
                return False
            part = part[each]
        return True

    def is_on(self, *names: str) -> bool:
        """Whether one of these flags is written and true."""
        return any(name in self.flags and self.flags[name].value for name in names)

    @property
    def states(self) -> int:
        """How many states of the target the configuration makes ``fc`` take."""
        if not self.takes_aux:
            return 1
        if self.aux_count is not None:
            return self.aux_count
        written = next((len(each.ids) for each in self.id_lists if each.ids), None)
        if written is not None:
            return written
        return self.layers or 1 if self.algorithm.is_block and not self.is_speculators else 3


def draft_from(raw: Mapping[str, Any], label: str) -> DraftConfig:
    """The draft that a configuration describes.

    Raises `ConfigError`: values of the wrong type, or a document that describes no draft at all.
    """
    document = Document(label, raw)
    recognition = recognise(document)
    shape = document.inside(NESTED) or document
    containers = [each for key in CONTAINERS if (each := document.inside(key)) is not None]
    layers = _first(shape, document, "num_hidden_layers", least=0)
    _check_is_draft(document, recognition, layers)
    counts = [
        (each.key(key), found)
        for each in (document, *containers)
        for key in COUNTS
        if (found := each.integer(key, least=0))
    ]
    width = _first(shape, document, "hidden_size", least=1)
    heads = _first(shape, document, "num_attention_heads", least=1)
    verifier = _verifier(document)
    return DraftConfig(
        label=label,
        architectures=document.texts("architectures"),
        model_type=document.text("model_type") or shape.text("model_type") or "",
        nesting=shape.path,
        recognition=recognition,
        id_lists=tuple(_id_lists(document)),
        aux_count=counts[0][1] if counts else None,
        aux_count_key=counts[0][0] if counts else "",
        use_aux=_use_aux([*containers, document]),
        flags=_flags([document, *containers]),
        hidden_size=width,
        target_hidden_size=document.integer("target_hidden_size", least=1),
        vocab_size=_first(shape, document, "vocab_size", least=1),
        draft_vocab_size=document.integer("draft_vocab_size", least=1),
        layers=layers,
        heads=heads,
        kv_heads=_first(shape, document, "num_key_value_heads", least=1),
        head_dim=_first(shape, document, "head_dim", least=1),
        intermediate_size=_first(shape, document, "intermediate_size", least=1),
        attention_bias=bool(shape.flag("attention_bias")),
        fc_bias=bool(document.flag("bias")),
        ties_embeddings=bool(document.flag("tie_word_embeddings")),
        positions=positions_of(shape),
        target_layers=_target_layers(document),
        verifier=verifier.text("name_or_path") or "" if verifier else "",
        verifier_architectures=verifier.texts("architectures") if verifier else (),
        raw=raw,
    )


def _check_is_draft(document: Document, recognition: Recognition, layers: int | None) -> None:
    if recognition.algorithm is not Algorithm.UNKNOWN:
        return
    names = ", ".join(document.texts("architectures")) or document.text("model_type") or "no architecture"
    nested = any(document.has(key) for key in ("text_config", "llm_config", "thinker_config", "language_config"))
    if layers is None and not nested and not document.texts("architectures"):
        raise ConfigError(f"{document.label} describes no model: it has neither architectures nor num_hidden_layers")
    depth = f" of {counted(layers, 'layer')}" if layers else ""
    own = document.integer("num_nextn_predict_layers")
    hint = f"; its own {counted(own, 'MTP layer')} take no states from inside the target" if own else ""
    raise ConfigError(f"{document.label} is a full model ({names}{depth}): nothing in it speaks of a draft{hint}")


def _first(shape: Document, document: Document, key: str, *, least: int) -> int | None:
    found = shape.integer(key, least=least)
    return found if found is not None else document.integer(key, least=least)


def _use_aux(places: list[Document]) -> bool | None:
    found = [value for each in places if (value := each.flag("use_aux_hidden_state")) is not None]
    return found[0] if found else None


def _flags(places: list[Document]) -> dict[str, Flag]:
    result: dict[str, Flag] = {}
    for place in places:
        for name in FLAGS:
            value = place.flag(name)
            if value is not None and name not in result:
                result[name] = Flag(place.key(name), value)
    return result


def _id_lists(document: Document) -> list[IdList]:
    found = []
    for known in ID_KEYS:
        container, _, key = known.path.rpartition(".")
        place = document.inside(container) if container else document
        ids = place.ids(key) if place is not None else None
        if ids is not None:
            found.append(_id_list(known, ids, document))
    return found


def _id_list(known: IdKey, ids: tuple[int, ...], document: Document) -> IdList:
    convention, firmness, writers = known.convention, known.firmness, known.writers
    if known.convention is Convention.BOUNDARY and document.has("speculators_model_type"):
        firmness, writers = Firmness.FIRM, "speculators"
    if known.path == "dspark_target_layer_ids" and document.text("model_type") == "deepseek_v41":
        convention, writers = Convention.BOUNDARY, "DSpark of DeepSeek-V4.1"
    return IdList(known.path, ids, convention, firmness, writers, known.engines)


def _target_layers(document: Document) -> int | None:
    inside = document.inside("dflash_config")
    found = inside.integer("num_target_layers", least=1) if inside else None
    return found if found is not None else document.integer("num_target_layers", least=1)


def _verifier(document: Document) -> Document | None:
    outer = document.inside("speculators_config")
    return outer.inside("verifier") if outer else None
