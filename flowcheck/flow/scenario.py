"""What a deployment fixes. Everything that a scenario does not name stays free: it may be anything, and forks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["Scalar", "Scenario"]

Scalar = bool | int | float | str | None


@dataclass(frozen=True)
class Scenario:
    """A deployment, as far as it is known.

    ``algorithm``: the value of ``--speculative-algorithm``. ``settings``: server arguments by name ("topk",
    "disable_cuda_graph"), each a literal.
    """

    algorithm: str = "EAGLE3"
    settings: Mapping[str, Scalar] = field(default_factory=lambda: MappingProxyType({}))
