"""One draft with one target: the object that every other room asks, and the widths that follow from it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flowcheck.draft.config import DraftConfig
from flowcheck.draft.header import Header
from flowcheck.draft.producers import Algorithm, Recognition, seen_in
from flowcheck.draft.target import TargetConfig
from flowcheck.draft.training import Computed, Trained, TrainingTree, trained_boundaries

__all__ = ["Origin", "Pairing", "pair"]


@dataclass(frozen=True)
class Origin:
    """Where a model came from, without the paths of any machine. ``revision`` is the commit on the hub."""

    repository: str = ""
    revision: str = ""

    def __str__(self) -> str:
        at = f"@{self.revision}" if self.revision else ""
        return f"{self.repository}{at}" if self.repository else "local files"


LOCAL = Origin()


@dataclass(frozen=True)
class Pairing:
    """A draft, its target, the header of the draft's checkpoint, and what the draft was trained on.

    ``header`` is None where none could be read, and ``no_header`` says why. ``name`` is that of a frozen pair, or ``""``.
    """

    draft: DraftConfig
    target: TargetConfig
    trained: Trained
    header: Header | None = None
    no_header: str = ""
    draft_origin: Origin = LOCAL
    target_origin: Origin = LOCAL
    name: str = ""

    @property
    def recognition(self) -> Recognition:
        """What the draft is, by its configuration and its header together. What decides stands first in the evidence."""
        seen = seen_in(self.draft.recognition, self.header) if self.header else self.draft.recognition
        if self.is_eagle1_head and seen.algorithm is Algorithm.EAGLE3:
            why = "fc in the checkpoint takes an embedding and one state"
            return replace(seen, algorithm=Algorithm.EAGLE, evidence=(why, *seen.evidence))
        return seen

    @property
    def algorithm(self) -> Algorithm:
        """The drafting algorithm that the head is made for."""
        return self.recognition.algorithm

    @property
    def target_width(self) -> int:
        """How wide the draft believes the target's states to be."""
        return self.draft.target_hidden_size or self.draft.hidden_size or self.target.hidden_size

    @property
    def states(self) -> int:
        """How many of the target's states the draft's configuration makes ``fc`` take."""
        return self.draft.states

    @property
    def fc_in_features(self) -> int | None:
        """How wide the input of ``fc`` is: by the header if it can be read, else by the configuration.

        None where the draft has no projection.
        """
        fc = self.header.fc if self.header else None
        if fc is not None and not fc.is_packed:
            return fc.shape[1]
        if self.draft.algorithm in (Algorithm.EAGLE, Algorithm.MTP):
            return 2 * self.draft.hidden_size if self.draft.hidden_size else None
        return self.states * self.target_width if self.draft.takes_aux else None

    @property
    def is_eagle1_head(self) -> bool:
        """Whether the header is that of an EAGLE-1 head: its ``fc`` takes an embedding and one hidden state.

        An ``fc`` of that width takes two states of the target as well; what a decoder layer takes decides.
        """
        fc, width = (self.header.fc, self.draft.hidden_size) if self.header else (None, None)
        if self.header is None or fc is None or fc.is_packed or width is None or fc.shape[1] != 2 * width:
            return False
        first = self.header.layers.get(0, {})
        projection = first.get("self_attn.q_proj.weight") or first.get("self_attn.qkv_proj.weight")
        if projection is not None and len(projection.shape) == 2 and not projection.is_packed:
            return projection.shape[1] == width
        return "hidden_norm.weight" not in first and self.states != 2

    def named(self, name: str) -> Pairing:
        """The same pair under a name."""
        return replace(self, name=name)


def pair(
    draft: DraftConfig,
    target: TargetConfig,
    *,
    header: Header | str = "no checkpoint was given",
    declared: Sequence[int] | None = None,
    training: TrainingTree | Computed | None = None,
    draft_origin: Origin = LOCAL,
    target_origin: Origin = LOCAL,
) -> Pairing:
    """The pair of a draft and a target that were read already; ``header`` is one, or the reason why there is none.

    Raises:
        BoundariesError: declared or computed boundaries that the target does not have.
    """
    return Pairing(
        draft=draft,
        target=target,
        trained=trained_boundaries(
            draft,
            target,
            declared=declared,
            training=training,
            recognition=seen_in(draft.recognition, header) if isinstance(header, Header) else None,
        ),
        header=header if isinstance(header, Header) else None,
        no_header=header if isinstance(header, str) else "",
        draft_origin=draft_origin,
        target_origin=target_origin,
    )
