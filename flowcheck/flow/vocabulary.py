"""The names that the scanned tree uses, read from ``rules/vocabulary.toml``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Vocabulary", "load_vocabulary"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModeWords(_Table):
    """The capture-mode enum and the attribute that carries it."""

    members: tuple[str, ...]
    required: str
    attribute: str
    true_of_required: tuple[str, ...]
    false_of_required: tuple[str, ...]


class PhaseWords(_Table):
    members: tuple[str, ...]
    attribute: str
    extend: tuple[str, ...]
    verify: tuple[str, ...]
    idle: tuple[str, ...]
    dispatched: tuple[str, ...]
    speculative_input: str
    next_input: str
    verify_input_methods: tuple[str, ...]
    verify_input_fields: tuple[str, ...]


class EntryWords(_Table):
    dispatch: str
    algorithm_methods: tuple[str, ...]
    algorithm_from_name: str
    algorithm_aliases: Mapping[str, str]
    algorithm_attribute: str
    arguments_methods: tuple[str, ...]
    arguments_attribute: str
    algorithm_argument: str
    worker_attribute: str
    algorithms_without_states: tuple[str, ...]


class TargetWords(_Table):
    draft_flag: str
    model_attribute: str
    runner_attributes: tuple[str, ...]
    forward_methods: tuple[str, ...]
    states_attribute: str


class ModelWords(_Table):
    """How the tree registers its model classes, and how it reads their configurations."""

    entry: str
    config_argument: str
    arguments: dict[str, Any]
    uncalled: tuple[str, ...]
    called: tuple[str, ...]
    stored: dict[str, Any]


class CaptureWords(_Table):
    """How a target is told which layers to capture."""

    setters: dict[str, tuple[str, ...]]
    config_attributes: tuple[str, ...]
    text_config_attributes: tuple[str, ...]
    draft_argument: str
    empty: tuple[str, ...]
    drafting_argument: str
    startup_methods: tuple[str, ...]
    recording: str
    recording_methods: tuple[str, ...]
    arguments: dict[str, Any]

    @property
    def hooks(self) -> tuple[str, ...]:
        """The methods of all algorithms."""
        return tuple(dict.fromkeys(name for names in self.setters.values() for name in names))


class DraftWords(_Table):
    """How a draft's layers say how wide they are, and how a draft takes the tensors of a checkpoint."""

    in_features: tuple[str, ...]
    out_features: tuple[str, ...]
    takes: tuple[str, ...]
    attention: tuple[str, ...]
    load: str
    loader: str
    after_verify: tuple[str, ...]
    embeddings: tuple[str, ...]
    bare: tuple[str, ...]


class ConfigurationWords(_Table):
    """How configurations of models look in memory."""

    type_key: str
    object_keys: tuple[str, ...]
    inner_models: tuple[str, ...]
    text_parts: tuple[str, ...]
    text_method: str
    text_method_parts: tuple[str, ...]
    other_parts: tuple[str, ...]
    width_keys: tuple[str, ...]
    given: tuple[str, ...]
    defaults: dict[str, dict[str, Any]]


class MetadataWords(_Table):
    factory: str


class GraphWords(_Table):
    replay_methods: tuple[str, ...]
    admit_methods: tuple[str, ...]
    record_methods: tuple[str, ...]
    prefill_words: tuple[str, ...]


class ScenarioWords(_Table):
    device: str
    device_attributes: tuple[str, ...]
    true_functions: tuple[str, ...]
    false_functions: tuple[str, ...]
    none_functions: tuple[str, ...]
    unknown_functions: tuple[str, ...]
    arguments: dict[str, Any]
    arguments_functions: tuple[str, ...]
    arguments_dicts: tuple[str, ...]
    bags: tuple[str, ...]
    attributes: dict[str, Any]
    expressions: dict[str, Any]


class RelevanceWords(_Table):
    seeds: tuple[str, ...]
    beyond: str
    common_methods: tuple[str, ...]


class Vocabulary(_Table):
    """Every name of SGLang's that the walk uses."""

    mode: ModeWords
    phase: PhaseWords
    entry: EntryWords
    target: TargetWords
    models: ModelWords
    capture: CaptureWords
    draft: DraftWords
    configurations: ConfigurationWords
    metadata: MetadataWords
    graph: GraphWords
    scenario: ScenarioWords
    relevance: RelevanceWords


def load_vocabulary(path: Path) -> Vocabulary:
    """Reads one vocabulary file. Raises OSError, tomllib.TOMLDecodeError or pydantic.ValidationError."""
    return Vocabulary.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
