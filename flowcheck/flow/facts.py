"""What the flow questions answer: plain, immutable, picklable facts. No values of the interpreter, no findings, no text
for people beyond the notes of an evidence chain.

A *flow* is one way in which a forward of the target model runs: its phase, its path, and the capture mode that reaches
the logits processor along it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from flowcheck.syntax.ir import Span

__all__ = [
    "Assumption", "CallEdge", "Definition", "Facts", "Flow", "Mode", "Open", "Path", "Phase", "Place", "ScanStats", "Step",
]  # fmt: skip


class Phase(str, Enum):
    """What a forward of the target is for."""

    EXTEND = "extend"
    VERIFY = "verify"
    IDLE = "idle"
    OTHER = "other"
    """A plain decode, or a mode that belongs to neither question (kept for the JSON report, no default row)."""


class Path(str, Enum):
    """How a forward of the target runs."""

    EAGER = "eager"
    DECODE_GRAPH = "decode_graph"
    PREFILL_GRAPH = "prefill_graph"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the scanned tree. ``path`` is relative to SOURCE, with ``/``; ``symbol`` is the enclosing qualified
    name ("EAGLEWorker.verify", "" at a module's top level)."""

    path: str
    span: Span
    symbol: str


@dataclass(frozen=True, slots=True)
class Step:
    """One link of an evidence chain, from the origin of a value to its use."""

    place: Place
    note: str


@dataclass(frozen=True, slots=True)
class Mode:
    """One alternative of a capture mode at some point of the tree.

    ``member`` is the enum's member name in the tree ("FULL", "LAST", "NULL"), "None" when the attribute ends as None,
    "unset" when it is never assigned (reading it raises), or "unknown" with a ``reason``. ``evidence`` starts where the
    value was made and ends where it is used.
    """

    member: str
    evidence: tuple[Step, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """One way of running the target's forward.

    ``asked`` is what the batch carries (``ForwardBatch.capture_hidden_mode``), all alternatives; ``reached`` is what the
    logits processor acts on: the eager metadata's mode, or the mode with which the replayed graph was recorded.
    ``replay_guard`` says for a graph whether the tree itself refuses to replay when ``asked`` exceeds the recorded mode.
    ``condition`` is "" or the scenario under which the flow exists ("enable_x is true"). ``consumed`` is False when the
    forward's hidden states provably do not reach the draft, which makes its mode nobody's concern.
    """

    phase: Phase
    path: Path
    worker: str
    call: Place
    asked: tuple[Mode, ...]
    reached: tuple[Mode, ...]
    condition: str = ""
    consumed: bool = True
    chain: tuple[Step, ...] = ()
    assumptions: tuple[str, ...] = ()
    replay_guard: bool = False


@dataclass(frozen=True, slots=True)
class Open:
    """A question that the walk could not answer: what was asked, why it stayed open, and where (None: nowhere).

    ``kind``: "raises" (the phase never reaches a forward that returns: a violation at the raise), "missing" (an
    expected flow was not found), "budget", "unknown" (a value that the interpreter cannot know), "entry" (the tree has
    no entry of the expected kind).
    """

    question: str
    reason: str
    place: Place | None
    kind: str
    phase: Phase | None = None
    path: Path | None = None
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something that every proof listed in ``used_by`` rests on ("extend/eager/EAGLEWorker", …)."""

    id: str
    text: str
    used_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Definition:
    """A definition of the scanned tree: ``kind`` is "function", "class", "module", or "attribute" (at its class)."""

    path: str
    symbol: str
    line: int
    kind: str


@dataclass(frozen=True, slots=True)
class CallEdge:
    """What one definition does to another: ``kind`` is "calls", "constructs", "overrides", "reads" or "writes".

    ``sites`` are places in the caller's file; an override has none.
    """

    caller: Definition
    callee: Definition
    kind: str
    sites: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanStats:
    """What the walk cost. Counts, not times: the caller measures wall and CPU seconds."""

    files_indexed: int = 0
    definitions_indexed: int = 0
    definitions_parsed: int = 0
    bytes_parsed: int = 0
    steps: int = 0
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything one scan of one tree under one scenario found out.

    ``calls`` is the part of the call graph between the dispatch of a batch and the target's forwards, with what sets
    the mode on the way; empty where it is too large to be of use.
    """

    flows: tuple[Flow, ...]
    open: tuple[Open, ...]
    assumptions: tuple[Assumption, ...]
    workers: tuple[str, ...]
    scenario: tuple[tuple[str, str], ...] = ()
    stats: ScanStats = field(default_factory=ScanStats)
    calls: tuple[CallEdge, ...] = ()
