"""Who wrote a draft's configuration, and for which algorithm: by what it contains, with the evidence named.

A configuration that several producers write alike is said to be by one of them; nothing is guessed from file names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flowcheck.draft.documents import Document
from flowcheck.draft.header import Header

__all__ = ["Algorithm", "Recognition", "is_draft_name", "recognise", "seen_in"]


class Algorithm(str, Enum):
    """A family of drafts, by what they take from the target."""

    EAGLE3 = "EAGLE3"
    PEAGLE = "P-EAGLE"
    DFLASH = "DFLASH"
    DSPARK = "DSPARK"
    EAGLE = "EAGLE"
    MTP = "MTP"
    UNKNOWN = "unknown"

    @property
    def takes_aux(self) -> bool:
        """Whether such drafts take states from inside the target."""
        return self in (Algorithm.EAGLE3, Algorithm.PEAGLE, Algorithm.DFLASH, Algorithm.DSPARK)

    @property
    def is_block(self) -> bool:
        """Whether such drafts write a block of tokens at once from the target's states."""
        return self in (Algorithm.DFLASH, Algorithm.DSPARK)


@dataclass(frozen=True)
class Recognition:
    """What a configuration was recognised as. ``producers`` are all who write like this; ``evidence`` says why."""

    algorithm: Algorithm
    producers: tuple[str, ...]
    evidence: tuple[str, ...]

    @property
    def producer(self) -> str:
        """The producer in words."""
        return " or ".join(self.producers) if self.producers else "an unknown producer"


SPECULATORS = ("speculators_model_type", "speculators_config", "speculators_version", "transformer_layer_config")

_NAMES = (
    ("dspark", Algorithm.DSPARK),
    ("dflash", Algorithm.DFLASH),
    ("domino", Algorithm.DFLASH),
    ("peagle", Algorithm.PEAGLE),
    ("eagle3", Algorithm.EAGLE3),
    ("nextn", Algorithm.MTP),
    ("mtp", Algorithm.MTP),
    ("eagle", Algorithm.EAGLE),
)
"""What the name of an architecture contains, in lower case and without punctuation, and what it means; first match wins."""


def recognise(document: Document) -> Recognition:
    """The algorithm and the producer that a configuration speaks for. Raises `ConfigError` for values of a wrong type."""
    architectures = document.texts("architectures")
    algorithm, reason = _algorithm(document, architectures)
    evidence = [reason] if reason else []
    producers, reason = _producers(document, architectures, algorithm)
    if reason and reason not in evidence:
        evidence.append(reason)
    return Recognition(algorithm, producers, tuple(evidence))


def _algorithm(document: Document, architectures: tuple[str, ...]) -> tuple[Algorithm, str]:
    """By the strongest evidence: what a format declares, then the architecture, then keys that only drafts have."""
    speculators = document.inside("speculators_config")
    declared = {
        "speculators_config.algorithm": speculators.text("algorithm") if speculators else None,
        "speculators_model_type": document.text("speculators_model_type"),
    }
    for key, name in declared.items():
        found = _named(name or "")
        if found is not None:
            return found, f"{key} is {name}"
    dflash = document.inside("dflash_config")
    projector = (dflash.text("projector_type") if dflash else None) or document.text("projector_type")
    if projector is not None and "dspark" in projector.lower():
        return Algorithm.DSPARK, f"projector_type is {projector}"
    for name in () if document.has("vision_config") else architectures:  # a model that sees may be called Eagle
        found = _named(name)
        if found is not None:
            return found, f"the architecture is {name}"
    if document.has("dspark_target_layer_ids"):
        return Algorithm.DSPARK, "it has dspark_target_layer_ids"
    for key, found in (("dflash_config", Algorithm.DFLASH), ("target_layer_ids", Algorithm.DFLASH)):
        if document.raw.get(key) is not None:
            return found, f"it has {key}"
    return _by_keys(document, architectures)


def _by_keys(document: Document, architectures: tuple[str, ...]) -> tuple[Algorithm, str]:
    keys = (
        "eagle_config",
        "eagle_aux_hidden_state_layer_ids",
        "aux_hidden_states_layer_ids",
        "aux_hidden_state_layer_ids",
        "num_aux_hidden_states",
        "draft_vocab_size",
        "truncated_vocab_size",
        "target_hidden_size",
    )
    for key in keys:
        if document.has(key):
            return Algorithm.EAGLE3, f"it has {key}"
    kind = document.text("model_type") or ""
    named = None if document.has("vision_config") else _named(kind)
    if named is not None:
        return named, f"the model_type is {kind}"
    if document.integer("num_hidden_layers") == 1:
        plain = ", ".join(architectures) or kind or "no architecture"
        return Algorithm.EAGLE, f"it is a plain {plain} of one layer without a vocabulary of its own"
    return Algorithm.UNKNOWN, ""


def is_draft_name(name: str) -> bool:
    """Whether an architecture of that name is a draft's."""
    return _named(name) is not None


def _named(name: str) -> Algorithm | None:
    flat = "".join(each for each in name.lower() if each.isalnum())
    return next((algorithm for part, algorithm in _NAMES if part in flat), None)


def _producers(document: Document, architectures: tuple[str, ...], algorithm: Algorithm) -> tuple[tuple[str, ...], str]:
    for key in SPECULATORS:
        if document.has(key):
            return ("speculators",), f"{key} is a key of speculators"
    if document.has("aux_hidden_states_layer_ids"):
        return ("AngelSlim",), "aux_hidden_states_layer_ids is a key of AngelSlim"
    for name, producer in (
        ("Eagle3LlamaForCausalLM", "AngelSlim"),
        ("LlamaEagle3DraftModel", "NeMo Automodel"),
        ("PEagleDraftModel", "SpecForge"),
    ):
        if name in architectures:
            return (producer,), f"{name} is the name that {producer} gives it"
    if document.has("truncated_vocab_size"):
        return ("nebius",), "truncated_vocab_size is a key of nebius"
    if algorithm.is_block:
        return _block_producers(document)
    if algorithm is Algorithm.EAGLE:
        return ("SafeAILab EAGLE", "HASS"), ""
    if algorithm in (Algorithm.MTP, Algorithm.UNKNOWN):
        return (), ""
    return _eagle3_producers(document, architectures)


def _block_producers(document: Document) -> tuple[tuple[str, ...], str]:
    if document.inside("dflash_config") is not None:
        return ("z-lab", "SpecForge", "ModelOpt", "TorchSpec", "AngelSlim"), "dflash_config is written by several"
    if document.has("target_layer_ids"):
        return ("DeepSpec", "z-lab"), "target_layer_ids stands at the top"
    return (), ""


def _eagle3_producers(document: Document, architectures: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    eagle = document.inside("eagle_config")
    if document.has("target_layer_ids"):
        return ("DeepSpec",), "target_layer_ids stands at the top of an EAGLE-3 draft"
    if eagle is not None:
        if "Eagle3DeepseekV2ForCausalLM" in architectures:
            return ("TorchSpec", "ModelOpt"), "eagle_config and an MLA architecture are written by both"
        if any(
            eagle.has(key)
            for key in ("use_last_layernorm", "use_mtp_layernorm", "eagle_decoder_type", "norm_before_fc")
        ):
            return ("ModelOpt",), "eagle_config has switches of ModelOpt"
        return ("SpecForge", "ModelOpt"), "eagle_config is written by both"
    if "LlamaForCausalLM" in architectures:
        return ("SafeAILab EAGLE",), "a plain LlamaForCausalLM with draft_vocab_size is how EAGLE's own code saves it"
    if "LlamaForCausalLMEagle3" in architectures:
        if document.has("num_aux_hidden_states"):
            return ("NeMo Automodel", "SpecForge"), "num_aux_hidden_states and no eagle_config"
        if document.has("draft_vocab_size"):
            return ("SpecForge", "NeMo Automodel"), "LlamaForCausalLMEagle3 with draft_vocab_size and no eagle_config"
    return (), ""


MIDLAYER = frozenset({"SafeAILab EAGLE", "SpecForge", "AngelSlim", "TorchSpec", "nebius", "DeepSpec"})
LAYERS = frozenset({"ModelOpt", "speculators", "TorchSpec"})
PREFIXED = frozenset({"NeMo Automodel"})
"""Who calls the layer of an EAGLE-3 head ``midlayer``, who ``layers.0``, and who ``model.layers.0``."""


def seen_in(recognition: Recognition, header: Header) -> Recognition:
    """What a header adds: the head that really lies there, whatever its configuration calls it, and who names it so."""
    algorithm, evidence = recognition.algorithm, list(recognition.evidence)
    producers = recognition.producers
    if algorithm is Algorithm.EAGLE3 and header.layers:
        prefixed = any(name.startswith("model.layers.") for name in header.tensors)
        callers = MIDLAYER if header.layer_naming == "midlayer" else PREFIXED if prefixed else LAYERS
        left = tuple(each for each in producers if each in callers)
        if left != producers:
            producers = left
            name = "midlayer" if callers is MIDLAYER else "model.layers.0" if prefixed else "layers.0"
            evidence.append(f"the checkpoint calls its layer {name}")
    if header.find("mask_hidden") is not None and algorithm is Algorithm.EAGLE3:
        algorithm = Algorithm.PEAGLE
        evidence.insert(0, "the checkpoint has mask_hidden, which only a parallel head has")
    nested = {name for layer in header.layers.values() for name in layer}
    mtp = header.find("eh_proj.weight") or header.find("mtp.fc.weight")
    if (mtp is not None or "eh_proj.weight" in nested) and algorithm in (Algorithm.EAGLE, Algorithm.UNKNOWN):
        algorithm = Algorithm.MTP
        evidence.insert(0, "the checkpoint has the projection of an MTP layer")
    return Recognition(algorithm, producers, tuple(evidence))
