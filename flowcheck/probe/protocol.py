"""What the supervisor of a probe and its ranks say to each other: a job, a stream of events, and one result of each rank.

The supervisor writes one :class:`Job` as JSON and starts ``python -m flowcheck.probe.rank JOB.json RANK`` for each rank, or
``torchrun ... -m flowcheck.probe.rank JOB.json`` (the rank is then in the environment). A rank's standard output carries
:class:`Event` lines and nothing else (what the tree prints goes to standard error). It ends by writing a
:class:`RankResult` to :meth:`Job.result_path`, whole or not at all, and exits with 0 if that result has no error, 1 if it
has one. Any other exit, or no result, means that the rank died.

For backends that need no GPU, RANK may be a range: ``python -m flowcheck.probe.rank JOB.json 0-7`` imports the tree once and
forks the ranks, which saves most of the time and memory. Each then has its standard error in :meth:`Job.words_path`, the first
rank that fails ends the others, every rank has a result, and the process exits with 0 only if all results are without error.
Ranks of the fake backend take turns, as many at a time as ``Job.at_once`` says.

With real numbers (backends ``gloo`` and ``nccl``) blocks are identified against a run on one rank with the same logical
weights. The supervisor runs ``Job.as_reference()`` first, to its end: it leaves :meth:`Job.reference_path`, which the ranks
of the job itself read. The fake backend needs none. Rank 0 learns what must be stubbed and keeps it in
:meth:`Job.stubs_path`; :func:`Job.as_learning` does only that, and belongs before everything else.

Nothing here is imported but the standard library.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

__all__ = [
    "PROTOCOL",
    "Block",
    "Coverage",
    "DraftInput",
    "Event",
    "Failure",
    "IdsRead",
    "Job",
    "Limits",
    "Phase",
    "PhaseResult",
    "RankResult",
    "Reduction",
    "Replay",
    "dumps",
    "loads",
]

PROTOCOL = "flowcheck.probe/1"
"""Both sides refuse a document of another version."""

Backend = Literal["fake", "gloo", "nccl"]
"""fake: simulated ranks without memory; gloo: real processes on CPUs; nccl: real processes on GPUs."""

Through = Literal["model", "model-runner"]
"""model: the target's class is built and called by the probe; model-runner: the tree's own runner builds it, tells it what to
capture, records its graphs and runs it."""

Role = Literal["learn", "ids", "reference", "rank"]
"""learn: find what the tree imports and the environment lacks; ids: let the tree read the draft's configuration; reference: the
run on one rank; rank: one of the probe."""

PhaseKind = Literal["extend", "verify"]

Stage = Literal[
    "start",
    "imports",
    "arguments",
    "config",
    "ranks",
    "build",
    "weights",
    "setter",
    "forward",
    "identify",
    "draft",
    "done",
]
"""How far a rank came, in this order; a result names the last stage that was begun."""

Identity = Literal["boundary", "partial", "other", "inconclusive"]
"""boundary: one boundary of the reference; partial: adds up to one over the ranks; other: none, see the explanation;
inconclusive: boundaries too alike, or numbers that say nothing."""


@dataclass(frozen=True)
class Phase:
    """One forward of the target.

    Attributes:
        name: For the report, unique in the job.
        kind: extend (a prefill) or verify (of drafted tokens).
        requests: Number of requests in the batch, at least 1.
        tokens: Tokens of each request, at least 1.
        calls: How the target is told before this forward, in this order: the ids, or None for a call without ids. The
            state that earlier phases left stays. Empty: it is left as it is.
        graph: It is recorded as a graph of a GPU, which is replayed on the same tokens as an eager forward before it.
    """

    name: str
    kind: PhaseKind
    requests: int
    tokens: int
    calls: tuple[tuple[int, ...] | None, ...] = ()
    graph: bool = False


@dataclass(frozen=True)
class Reduction:
    """What of a configuration was changed so that the numbers fit a CPU. Never the number of layers.

    Attributes:
        key: The key of the target's configuration, with dots inside of parts.
        was: Its true value.
        now: The value in the folder that the job names.
    """

    key: str
    was: int
    now: int


@dataclass(frozen=True)
class Limits:
    """Where a rank gives up.

    Attributes:
        tolerance: Largest relative difference of a row (of its Euclidean norm) that counts as the same numbers.
        margin: How many times the tolerance two boundaries must be apart for an answer.
        collective_seconds: How long a collective may wait for the others.
        stub_rounds: How many missing packages may be stubbed.
    """

    tolerance: float = 2e-5
    margin: float = 1000.0
    collective_seconds: float = 120.0
    stub_rounds: int = 60

    @classmethod
    def of(cls, backend: Backend) -> Limits:
        """Limits that fit a backend's numbers.

        A GPU's kernels compute in half precision: sums of another order differ by some hundredths after sixty layers (measured on
        two ranks in bfloat16: 0.03 at boundary 31, 0.035 at 59), and neighbouring boundaries by about 1/10. There is no more to
        tell them apart by, but what a rank itself has (``rank.identify.coarsely``). Its kernels may be compiled when they are
        first met, while the other ranks wait.
        """
        return cls(tolerance=2e-2, margin=3.0, collective_seconds=600.0) if backend == "nccl" else cls()


@dataclass(frozen=True)
class Job:
    """Everything that a rank needs to know; the same document for all ranks of a probe.

    Attributes:
        tree: Folder that holds the package of the scanned tree; it is put on the rank's import path.
        package: Name of that package.
        backend: See :data:`Backend`.
        ranks: Number of ranks, all of them tensor parallel ones.
        target: Folder with the target's ``config.json``, as it is to be built (shrunk already, where it is).
        architecture: Name of the class to build, as the tree's registry knows it.
        phases: The forwards, in this order.
        names: The table ``rules/probe.toml``: what the tree calls the things that a rank needs.
        draft: Folder with the draft's ``config.json``, or None to leave the draft out.
        draft_architecture: Name of the draft's class, or None.
        draft_width: What the draft's first layer takes in by the scan (its ``in_features``), or None.
        reductions: What was shrunk, for the record: the rank does not shrink.
        seed: Of the weights and of the tokens.
        address: Where rank 0 listens.
        port: The port there; not used under torchrun.
        work: Folder for results, the reference and what was learned; it exists.
        limits: See :class:`Limits`.
        role: See :data:`Role`.
        threads: Threads of PyTorch in a rank.
        at_once: Ranks of the fake backend that run at a time, where they are forked.
        settings: Server arguments to give besides those that the rank needs itself.
        algorithm: The speculative algorithm, as the tree spells it: it decides how a target is told its layers.
        variant: Name of a further run of the same probe with other settings, "" for the first: its ranks leave files of their
            own.
        through: See :data:`Through`.
    """

    tree: str
    package: str
    backend: Backend
    ranks: int
    target: str
    architecture: str
    phases: tuple[Phase, ...]
    names: Mapping[str, Any]
    work: str
    draft: str | None = None
    draft_architecture: str | None = None
    draft_width: int | None = None
    reductions: tuple[Reduction, ...] = ()
    seed: int = 0
    address: str = "127.0.0.1"
    port: int = 29611
    limits: Limits = field(default_factory=Limits)
    role: Role = "rank"
    threads: int = 1
    at_once: int = 2
    settings: Mapping[str, Any] = field(default_factory=dict)
    algorithm: str = "EAGLE3"
    variant: str = ""
    through: Through = "model"
    protocol: str = PROTOCOL

    def as_reference(self) -> Job:
        """The run on one rank that the blocks of this job's ranks are identified against."""
        return dataclasses.replace(self, role="reference", ranks=1)

    def as_learning(self) -> Job:
        """The run that only finds out which packages must be stubbed: one process, on simulated ranks."""
        return dataclasses.replace(self, role="learn", backend="fake")

    def as_ids(self) -> Job:
        """The run in which the tree's own code reads the draft's configuration and says what it tells the target. It learns by
        itself what must be stubbed for that."""
        return dataclasses.replace(self, role="ids", backend="fake")

    def result_path(self, rank: int) -> Path:
        """Where that rank leaves its result."""
        if self.role != "rank":
            return Path(self.work, f"{self.role}.json")
        return Path(self.work, f"rank-{rank}{self._ending}.json")

    def words_path(self, rank: int) -> Path:
        """Where a forked rank leaves what it and the tree print, its last words among it."""
        return Path(self.work, f"rank-{rank}{self._ending}.err")

    @property
    def _ending(self) -> str:
        return f"-{self.variant}" if self.variant else ""

    def reference_path(self) -> Path:
        """Where the reference leaves its boundaries, and what the weights look like undivided (PyTorch's format)."""
        return Path(self.work, "reference.pt")

    def stubs_path(self) -> Path:
        """Where the names of the stubbed packages are kept: a JSON list. Good for the tree, whatever the target."""
        return Path(self.work, "stubs-ids.json" if self.role == "ids" else "stubs.json")


@dataclass(frozen=True)
class Block:
    """One state of the target's width among those that reached the draft.

    Attributes:
        index: Its place in the row, from 0.
        identity: See :data:`Identity`.
        boundary: The boundary that it is or adds up to, if any. 0 is the embedding, k what enters layer k.
        explanation: In words: what it is, or the nearest thing to it.
        distance: Largest relative difference of a row from what ``boundary`` or the explanation says; None under fake.
        margin: How many tolerances the nearest other boundary is away from this one; None under fake.
    """

    index: int
    identity: Identity
    boundary: int | None
    explanation: str
    distance: float | None = None
    margin: float | None = None


@dataclass(frozen=True)
class Replay:
    """What came of recording a phase as a graph.

    Attributes:
        done: Whether the graph was recorded, and its replay wrote every record of a boundary and the states anew.
        why: Why not, in words; "" where it is done.
        apart: Largest relative difference of a row between the states of the replay and those of the eager forward on the same
            tokens; None where nothing was replayed, or where their shapes differ.
        shape: Rows and columns of the eager forward's states.
    """

    done: bool
    why: str = ""
    apart: float | None = None
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class PhaseResult:
    """What one forward gave.

    Attributes:
        phase: Name of the phase.
        told: The calls of the setter that were made before it, as in :class:`Phase`.
        expected_rows: Rows that the batch has: requests times tokens.
        rows: Rows of the states, or None where there were none.
        width: Their width, or None.
        dtype: Of the states, in PyTorch's words.
        target_width: Hidden size of the target.
        blocks: One for each whole ``target_width`` in the width.
        digest: Of the shape and the bytes of the states, SHA-256; None under fake.
        spread: Largest relative difference of a row between this rank and rank 0; None under fake or where shapes differ.
        kept: Name of the class that gave the states to the caller, and of its attribute.
        error: Why there are no states.
        replay: For a phase that is a graph; where none was replayed, the states are those of the eager forward before it.
        fused: How many all-reduces were fused with the norm after them, by the tree's own kernels, in this forward.
    """

    phase: str
    told: tuple[tuple[int, ...] | None, ...]
    expected_rows: int
    target_width: int
    rows: int | None = None
    width: int | None = None
    dtype: str | None = None
    blocks: tuple[Block, ...] = ()
    digest: str | None = None
    spread: float | None = None
    kept: str | None = None
    error: Failure | None = None
    replay: Replay | None = None
    fused: int = 0


@dataclass(frozen=True)
class DraftInput:
    """Whether the states entered the draft's own first layer.

    Attributes:
        phase: Name of the phase whose states were given.
        cls: Class of the draft that was built.
        layer: Path of the layer that took them, from the draft.
        layer_cls: Its class.
        in_features: What it takes.
        accepted: True if it took them, False if it refused them, None if no layer was found that takes them.
        through_forward: Whether the draft's own forward gave them to it (else the layer was called directly).
        error: The text of the refusal.
    """

    phase: str
    cls: str
    layer: str | None = None
    layer_cls: str | None = None
    in_features: int | None = None
    accepted: bool | None = None
    through_forward: bool = False
    error: str | None = None


@dataclass(frozen=True)
class Coverage:
    """Something that this run does not show, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class Failure:
    """Why a rank or a phase ended early.

    Attributes:
        stage: During which stage.
        kind: Name of the exception's class.
        message: Its text, one line.
        where: Files and lines of the tree, the innermost last.
        missing: The package that the environment lacks, where that is the reason.
        about: tree: the scanned code raised; probe: this tool cannot run it; machine: a port, memory, a device; other: it was
            ended because another rank had failed.
    """

    stage: Stage
    kind: str
    message: str
    where: tuple[str, ...] = ()
    missing: str | None = None
    about: Literal["tree", "probe", "machine", "other"] = "tree"


@dataclass(frozen=True)
class IdsRead:
    """What the tree tells its target once its own code has read the draft's configuration.

    Attributes:
        calls: The calls of the setter: the ids, or None for a call without any. Empty: it tells nothing.
        where: Files, lines and methods of the statements that make them.
    """

    calls: tuple[tuple[int, ...] | None, ...]
    where: tuple[str, ...]


@dataclass(frozen=True)
class RankResult:
    """What one rank saw.

    Attributes:
        rank: Its number.
        stage: The last stage that it began.
        cls: Module and name of the target's class.
        layers: Number of decoder layers that were built.
        parameters: Elements of the parameters of this rank.
        phases: In the order of the job; those not reached are missing.
        draft: One for each phase that gave states, if the job has a draft.
        launches: Names of stubbed kernels that were launched: each made nothing of its arguments.
        stubs: Packages that were stubbed.
        bridges: What this tree had, by what was needed: how server arguments are published, and so on.
        not_covered: What this run does not show.
        seconds: Duration of each stage.
        peak_mib: Largest resident memory of the process.
        error: Why it ended early; None for a rank that came to ``done``.
        read: Of the role ``ids``, what it was for.
    """

    rank: int
    stage: Stage
    cls: str | None = None
    layers: int | None = None
    parameters: int | None = None
    phases: tuple[PhaseResult, ...] = ()
    draft: tuple[DraftInput, ...] = ()
    launches: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()
    bridges: Mapping[str, str] = field(default_factory=dict)
    not_covered: tuple[Coverage, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    peak_mib: int | None = None
    error: Failure | None = None
    read: IdsRead | None = None
    protocol: str = PROTOCOL


@dataclass(frozen=True)
class Event:
    """One line of a rank's standard output.

    Attributes:
        rank: Whose.
        stage: What begins, or ``done``.
        detail: For a person: the phase, the package being stubbed.
        seconds: Since the rank started.
    """

    rank: int
    stage: Stage
    detail: str = ""
    seconds: float = 0.0


Document = TypeVar("Document", Job, RankResult, Event)


def dumps(document: Job | RankResult | Event) -> str:
    """One line of JSON."""
    return json.dumps(dataclasses.asdict(document), separators=(",", ":"), allow_nan=False, default=str)


def loads(kind: type[Document], text: str | bytes) -> Document:
    """The document that :func:`dumps` wrote.

    Raises:
        ValueError: not JSON, another version, a key that is missing or of the wrong kind.
    """
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError(f"{kind.__name__}: not an object")
    if "protocol" in {each.name for each in dataclasses.fields(kind)} and data.get("protocol") != PROTOCOL:
        raise ValueError(f"{kind.__name__}: protocol {data.get('protocol')!r}, not {PROTOCOL!r}")
    return typing.cast(Document, _read(kind, data, kind.__name__))


def _read(kind: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _read_object(kind, value, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = (each for each in arguments if each is not type(None))
        return _read(inner, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{where}: not a list")
        return tuple(_read(arguments[0], each, f"{where}[{index}]") for index, each in enumerate(value))
    if origin is Literal:
        if value not in arguments:
            raise ValueError(f"{where}: {value!r} is none of {', '.join(map(str, arguments))}")
        return value
    if origin is not None or kind is Any:  # a mapping: JSON has its keys as strings already
        return value
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{where}: {value!r} is no {kind.__name__}")
    return value


def _read_object(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: not an object")
    hints = typing.get_type_hints(kind)
    given = {each.name: each for each in dataclasses.fields(kind)}
    if unknown := sorted(set(value) - set(given)):
        raise ValueError(f"{where}: unknown {', '.join(unknown)}")
    needed = {name for name, each in given.items() if each.default is each.default_factory is dataclasses.MISSING}
    if missing := sorted(needed - set(value)):
        raise ValueError(f"{where}: without {', '.join(missing)}")
    return kind(**{name: _read(hints[name], each, f"{where}.{name}") for name, each in value.items()})
