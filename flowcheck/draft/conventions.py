"""What a layer id means: the conventions, the keys under which producers write ids, and the layers they take by default.

A boundary is a point of the target's residual stream: 0 is the embedding, ``k`` the output of the ``k``-th layer (counted
from 1) and the input of the next, ``L`` the output of the last layer before the final norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["ID_KEYS", "Convention", "Firmness", "IdKey", "default_boundaries", "spread_boundaries"]


class Convention(str, Enum):
    """How an id names a boundary."""

    OUTPUT = "output"
    """Id ``k`` is the output of layer ``k``, counted from 0: boundary ``k + 1``."""

    BOUNDARY = "boundary"
    """Id ``k`` is the input of layer ``k``: boundary ``k``."""

    POSTNORM = "postnorm"
    """No id at all: the last layer's output after the final norm, which is no boundary."""

    @property
    def offset(self) -> int:
        """What to add to an id to get its boundary."""
        return 1 if self is Convention.OUTPUT else 0

    @property
    def meaning(self) -> str:
        """The convention in words."""
        return {
            "output": "id k is the output of layer k",
            "boundary": "id k is the input of layer k",
            "postnorm": "the last hidden state after the final norm",
        }[self.value]


class Firmness(str, Enum):
    """How sure a place makes that an id means what its convention says."""

    FIRM = "firm"
    """Everybody who writes there means the same; ids that look otherwise are worth a doubt, and no more."""

    STATED = "stated"
    """Who writes there is known to mean it, but ids are also copied there from elsewhere."""

    PRESUMED = "presumed"
    """Drafts were published that mean something else there."""


@dataclass(frozen=True)
class IdKey:
    """A place where producers write layer ids. ``engines`` is false where nobody is known to read it."""

    path: str
    convention: Convention
    firmness: Firmness
    writers: str
    engines: bool = True


ID_KEYS = (
    IdKey("dflash_config.target_layer_ids", Convention.OUTPUT, Firmness.FIRM, "DFlash and DSpark trainers"),
    IdKey("target_layer_ids", Convention.OUTPUT, Firmness.FIRM, "DFlash and DSpark trainers"),
    IdKey("dspark_target_layer_ids", Convention.OUTPUT, Firmness.FIRM, "DSpark trainers"),
    IdKey("aux_hidden_state_layer_ids", Convention.BOUNDARY, Firmness.FIRM, "speculators"),
    IdKey("eagle_aux_hidden_state_layer_ids", Convention.BOUNDARY, Firmness.STATED, "speculators and drafts for vLLM"),
    IdKey(
        "eagle_config.eagle_aux_hidden_state_layer_ids",
        Convention.OUTPUT,
        Firmness.PRESUMED,
        "ModelOpt, SpecForge and TorchSpec",
    ),
    IdKey("eagle_config.layer_ids", Convention.BOUNDARY, Firmness.PRESUMED, "drafts for vLLM"),
    IdKey("dflash_config.layer_ids", Convention.BOUNDARY, Firmness.PRESUMED, "drafts for vLLM"),
    IdKey("aux_hidden_states_layer_ids", Convention.OUTPUT, Firmness.STATED, "AngelSlim", engines=False),
)
"""The places, those that settle most first."""


def default_boundaries(layers: int) -> tuple[int, ...]:
    """What an EAGLE-3 head of three states takes where nothing else is said: the input of layers 2, L//2 and L-3."""
    return tuple(sorted({each for each in (2, layers // 2, layers - 3) if 0 <= each <= layers}))


def spread_boundaries(layers: int, states: int) -> tuple[int, ...]:
    """What a DFlash draft takes where nothing else is said: ids spread evenly over 1 to L-3, as outputs."""
    if states == 1:
        return (layers // 2 + 1,)
    step = (layers - 4) / (states - 1) if states > 1 else 0.0
    return tuple(round(1 + index * step) + 1 for index in range(states))
