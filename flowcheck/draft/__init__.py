"""Drafts and targets as data: configurations of every producer, checkpoint headers, and what a draft was trained on.

From what a user names (a folder, a ``config.json``, a model on the hub, a frozen pair) to one `Pairing`, and what can be
said of it without a tree. Knows what producers write; knows nothing of what an engine's code makes of it.
"""

from __future__ import annotations

from flowcheck.draft.against_header import is_judged
from flowcheck.draft.config import DraftConfig, Flag, IdList, draft_from
from flowcheck.draft.contradictions import mismatches_of
from flowcheck.draft.conventions import Convention, default_boundaries, spread_boundaries
from flowcheck.draft.errors import (
    BoundariesError,
    ConfigError,
    DraftError,
    HeaderError,
    HubError,
    LaunchError,
    ManifestError,
)
from flowcheck.draft.header import Header, Tensor
from flowcheck.draft.hub import Access
from flowcheck.draft.mismatch import Kind, Mismatch, Subject, Weight
from flowcheck.draft.pairing import Origin, Pairing, pair
from flowcheck.draft.producers import Algorithm, Recognition
from flowcheck.draft.reading import Model, open_model, read_header, read_pairing
from flowcheck.draft.target import TargetConfig, target_from
from flowcheck.draft.training import (
    Basis,
    Computed,
    Question,
    QuestionKind,
    Reading,
    Trained,
    TrainingTree,
    boundaries_from_text,
    trained_boundaries,
)

__all__ = [
    "Access",
    "Algorithm",
    "Basis",
    "BoundariesError",
    "Computed",
    "ConfigError",
    "Convention",
    "DraftConfig",
    "DraftError",
    "Flag",
    "Header",
    "HeaderError",
    "HubError",
    "IdList",
    "Kind",
    "LaunchError",
    "ManifestError",
    "Mismatch",
    "Model",
    "Origin",
    "Pairing",
    "Question",
    "QuestionKind",
    "Reading",
    "Recognition",
    "Subject",
    "TargetConfig",
    "Tensor",
    "Trained",
    "TrainingTree",
    "Weight",
    "boundaries_from_text",
    "default_boundaries",
    "draft_from",
    "is_judged",
    "mismatches_of",
    "open_model",
    "pair",
    "read_header",
    "read_pairing",
    "spread_boundaries",
    "target_from",
    "trained_boundaries",
]
