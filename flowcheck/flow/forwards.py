"""What a walk notes: the batches that it dispatches, and the forwards of a model that it meets."""

from __future__ import annotations

from dataclasses import dataclass, field

from flowcheck.interp.frames import Raised
from flowcheck.interp.trails import Site
from flowcheck.interp.values import ClassV, Value

__all__ = ["Case", "CaseResult", "Forward"]


@dataclass(frozen=True)
class Case:
    """One kind of batch that is dispatched: its mode, and the speculative input that it carries."""

    mode: str
    speculative: str


@dataclass
class Forward:
    """One forward of a model, as the walk met it."""

    case: Case
    kind: str  # "eager" | "replay" | "record"
    draft: Value
    phase: Value
    asked: Value
    reached: Value
    worker: str
    runner: ClassV | None
    site: Site
    chain: tuple[tuple[str, Site | None], ...]
    consumed: bool
    refused: bool = False


@dataclass
class CaseResult:
    """How one dispatch ended."""

    case: Case
    returned: bool
    raised: list[Raised] = field(default_factory=list)
    stopped: str = ""
    steps: int = 0
