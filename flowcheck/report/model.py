"""The report ``flowcheck.report/1``: what every writer writes, and nothing that it would have to look up elsewhere.

The JSON Schema of the report is generated from these classes. Paths are relative to SOURCE, with ``/``; lines and
columns count from 1, columns in code points.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from flowcheck.report.class_model import ClassAnswer, ClassCounts, TargetClass
from flowcheck.report.parts import Part as _Part
from flowcheck.report.parts import VerdictName

__all__ = [
    "Assumption",
    "CallEdge",
    "CallGraph",
    "CallNode",
    "CallSite",
    "Capture",
    "CapturedState",
    "ClassAnswer",
    "ClassCounts",
    "Evidence",
    "Finding",
    "FindingCounts",
    "Flow",
    "Header",
    "Ids",
    "Intake",
    "KeptState",
    "Location",
    "PairModel",
    "Pairing",
    "Probe",
    "ProbeBlock",
    "ProbeCoverage",
    "ProbePath",
    "ProbeRank",
    "ProbeReduction",
    "Projection",
    "Reading",
    "Report",
    "Scenario",
    "Snippet",
    "Source",
    "Stats",
    "Summary",
    "TargetClass",
    "ToldIds",
    "Tool",
    "Trained",
    "Unproved",
    "VerdictName",
    "Vocabulary",
    "json_schema",
]

SeverityName = Literal["error", "warning", "note"]
PhaseName = Literal["extend", "verify", "idle", "other"]
PathName = Literal["eager", "decode_graph", "prefill_graph"]


class Location(_Part):
    """A place in the scanned tree."""

    file: str
    line: int
    column: int
    symbol: str = ""


class Evidence(_Part):
    """One link of a chain, from the origin of a value to its use."""

    file: str
    line: int
    column: int
    note: str


class Tool(_Part):
    """What wrote the report."""

    name: str
    version: str


class Source(_Part):
    """The tree that was read. ``root`` is the package folder inside SOURCE ("" where SOURCE is that folder).

    Where a pair was checked without a tree, ``kind`` is "pair" and ``digest`` that of the pair.
    """

    kind: str
    root: str
    version: str | None
    digest: str
    label: str
    package: str
    warnings: list[str] = Field(default_factory=list)


class Scenario(_Part):
    """What the deployment fixes. Whatever is not named here is free. ``launch`` is the script that says it, and where."""

    algorithm: str
    settings: dict[str, str] = Field(default_factory=dict)
    launch: str | None = None


class PairModel(_Part):
    """The draft or the target: ``repository`` and ``revision`` on the hub, ``""`` for local files."""

    label: str
    repository: str
    revision: str
    architectures: list[str]
    layers: int | None
    hidden_size: int | None
    vocab_size: int | None
    positions: int | None


class Ids(_Part):
    """Layer ids as one key of the draft's configuration writes them, and what that key says about their meaning."""

    key: str
    ids: list[int]
    convention: Literal["output", "boundary", "postnorm"]
    firmness: Literal["firm", "stated", "presumed"]
    writers: str


class Reading(_Part):
    """One way to understand what the draft was trained on; ``post_norm``: the last state after the final norm, too."""

    boundaries: list[int]
    post_norm: bool
    basis: Literal["declared", "computed", "key", "range", "default", "shape"]
    convention: Literal["output", "boundary", "postnorm"] | None
    key: str
    reason: str


class Trained(_Part):
    """What the draft was trained on. ``boundaries`` is null while ``question`` is open; then ``readings`` are several."""

    boundaries: list[int] | None
    question: str | None
    doubt: str | None
    readings: list[Reading]
    set_aside: list[Reading]
    remarks: list[str]


class Projection(_Part):
    """The input of the draft's ``fc``: how wide the configuration makes it, and how wide it is in the checkpoint.

    ``states`` times ``state_width`` is ``wanted``. Heads of EAGLE-1 and MTP take one state beside an embedding
    (``with_embedding``). ``wanted`` is null where there is no ``fc``, or where nothing says how wide it is.
    """

    states: int
    with_embedding: bool
    state_width: int | None
    wanted: int | None
    found: int | None
    output: int | None


class Vocabulary(_Part):
    """How many tokens the draft predicts of those that the target knows."""

    draft: int | None
    target: int | None


class Header(_Part):
    """What was read of the draft's checkpoint: names and shapes, no weights."""

    tensors: int
    files: int
    layers: int
    layer_naming: str
    fc: bool


class Pairing(_Part):
    """The draft and the target that the report is about. ``name`` is that of a frozen pair, or ``""``."""

    name: str
    algorithm: str
    producers: list[str]
    evidence: list[str]
    draft: PairModel
    target: PairModel
    ids: list[Ids]
    trained: Trained
    fc: Projection
    vocabulary: Vocabulary
    header: Header | None
    no_header: str


class FindingCounts(_Part):
    """The findings that are shown, by severity."""

    error: int = 0
    warning: int = 0
    note: int = 0


class Summary(_Part):
    """How many questions ended each way. ``hidden`` findings were left out by --select or --ignore. ``classes`` is null where
    nobody asked about every target class."""

    proved: int
    violated: int
    unproved: int
    findings: FindingCounts
    hidden: int = 0
    classes: ClassCounts | None = None


class Flow(_Part):
    """One way in which a forward of the target runs.

    ``file`` and ``line`` say where its mode was set, ``sites`` all such places, ``call`` where the forward is called.
    ``mode`` is what the verdict is about; ``asked`` is what the batch carries, ``reached`` what the logits processor
    acts on (in a graph: what was recorded). ``verdict`` is null where the mode is nobody's concern: idle and other
    forwards, and those whose hidden states do not reach the draft (``consumed`` is false).
    """

    phase: PhaseName
    path: PathName | None
    worker: str
    file: str | None
    line: int | None
    column: int | None
    symbol: str
    condition: str
    mode: str
    verdict: VerdictName | None
    evidence: list[Evidence]
    asked: list[str]
    reached: list[str]
    consumed: bool
    rules: list[str]
    sites: list[Location]
    call: Location | None
    assumptions: list[str]


class CapturedState(_Part):
    """One state that reaches the logits processor: a boundary of the residual stream, its norm, or (``boundary`` is null)
    neither, for a ``reason``. ``file`` and ``line`` say where it is captured."""

    boundary: int | None
    normed: bool
    per_rank: Literal["complete", "partial", "scattered"]
    rows: str
    width: str
    reason: str
    file: str | None
    line: int | None


class ToldIds(_Part):
    """One call of the target's setter: the ids (null: none), where the draft writes them, and where the call stands.

    ``reason`` says why the ids are not known, where they are not.
    """

    method: str
    ids: list[int] | None
    key: str
    reason: str
    place: Location | None


class KeptState(_Part):
    """What the setters left on the target's objects ("model.layers_to_capture = [3, 31, 59]"), and where they wrote it."""

    text: str
    places: list[Location]


class Capture(_Part):
    """What the target captures for the pair on one path, under one condition.

    ``batch`` says for which numbers of tokens ("" for all), ``cuts`` from which numbers among these on the code goes another
    way and captures the same. ``told`` are the calls of its setter in their order, ``kept`` what they left; ``concat`` is where
    the states are put side by side. ``ids`` are those that the target was told last (null: it was told without any),
    ``ids_key`` where the draft writes them. ``needed_boundaries`` is null while it is open what the draft was trained on; then
    ``readings`` are several. ``fits`` says whether ``width`` is that of the draft's ``fc``; it is no proof that the states are
    right.
    """

    architecture: str
    model_class: str
    phase: PhaseName
    path: PathName
    runner: str
    condition: str
    batch: str
    ids: list[int] | None
    ids_key: str
    captured_boundaries: list[int | None]
    states: list[CapturedState]
    needed_boundaries: list[int] | None
    readings: list[list[int]]
    captures_embedding: bool
    per_rank: Literal["complete", "partial", "scattered"] | None
    rows: str
    width: int | None
    draft_fc_in_features: int | None
    fits: bool | None
    verdict: VerdictName
    rules: list[str]
    reason: str
    evidence: list[Evidence]
    told: list[ToldIds] = Field(default_factory=list)
    kept: list[KeptState] = Field(default_factory=list)
    concat: Location | None = None
    cuts: list[int] = Field(default_factory=list)


class Intake(_Part):
    """What the draft's class of this tree takes in. ``layer`` is the linear layer that the captured states enter, made at
    ``file`` and ``line``: ``states`` of ``state_width`` columns, from keys of the draft's configuration ("" for a number in the
    code). For states of a width in ``skipped_at`` the forward leaves it out. ``question``: why something is not known."""

    model_class: str
    layer: str
    file: str | None
    line: int | None
    in_features: int | None
    out_features: int | None
    bias: bool | None
    states: int | None
    states_key: str
    state_width: int | None
    state_width_key: str
    skipped_at: list[int]
    question: str


class Assumption(_Part):
    """Something that the proofs in ``used_by`` rest on."""

    id: str
    text: str
    used_by: list[str]


class Snippet(_Part):
    """Source lines around a finding: its own is number ``line``, marked from ``column`` to before ``end_column``."""

    first_line: int
    lines: list[str]
    line: int
    column: int
    end_column: int


class Finding(_Part):
    """One root cause, with what it affects ("extend/eager/EAGLEWorker").

    A finding about a pair has no place in the tree; ``kind`` is a stable name for what does not fit, ``keys`` are the keys
    and tensors that contradict each other, ``expected`` and ``found`` the two sides, where there are two.
    """

    rule: str
    name: str
    severity: SeverityName
    verdict: VerdictName
    message: str
    file: str | None
    line: int | None
    column: int | None
    symbol: str
    condition: str
    evidence: list[Evidence]
    fix: str
    fingerprint: str
    affects: list[str]
    snippet: Snippet | None
    kind: str = ""
    keys: list[str] = Field(default_factory=list)
    expected: str = ""
    found: str = ""


class Unproved(_Part):
    """A question that nobody could answer. ``about`` is "pair" where the pair poses it, "class" where a target class does;
    ``rule`` is that of its finding."""

    question: str
    reason: str
    file: str | None
    line: int | None
    phase: PhaseName | None
    path: PathName | None
    worker: str
    about: Literal["tree", "pair", "class"] = "tree"
    rule: str = ""


class CallNode(_Part):
    """A definition: ``symbol`` is "" for a module's top level; an attribute has the line of its class."""

    file: str
    symbol: str
    line: int
    kind: Literal["function", "class", "module", "attribute"]


class CallSite(_Part):
    """A place in the caller's file."""

    line: int
    column: int


class CallEdge(_Part):
    """What one definition does to another; ``caller`` and ``callee`` count into the nodes, from 0."""

    caller: int
    callee: int
    kind: Literal["calls", "constructs", "overrides", "reads", "writes"]
    sites: list[CallSite]


class CallGraph(_Part):
    """The calls between the dispatch of a batch and the target's forwards, and what sets the mode on the way."""

    nodes: list[CallNode]
    edges: list[CallEdge]


class ProbeBlock(_Part):
    """One state among those that a running rank handed on. ``identity``: a whole boundary of the target's residual stream, one
    rank's part of one, something else, or not told; ``explanation`` says it in words. ``distance`` is the largest relative
    difference of a row from what it is said to be, ``margin`` how many times the tolerance the nearest other boundary is away
    (both null where there are no numbers)."""

    index: int
    identity: Literal["boundary", "partial", "other", "inconclusive"]
    boundary: int | None
    explanation: str
    distance: float | None
    margin: float | None


class ProbePath(_Part):
    """What was seen on one path. ``told`` are the ids that the target was given, call by call (null: a call without).

    ``expected_boundaries`` is what the scan says (null: it does not know), ``needed_boundaries`` what the draft was trained on.
    ``blocks``, ``rows`` and ``width`` are those of rank 0, or of the first rank that is unlike it; ``ranks_agree`` is null where
    nothing was seen. ``draft_layer`` took them (``draft_accepts``), refused them (false), or was not found (null). For a path
    that is not covered they are those of an eager forward that was told the same.
    """

    phase: PhaseName
    path: PathName
    runner: str
    condition: str
    batch: str
    told: list[list[int] | None]
    expected_boundaries: list[int | None] | None
    needed_boundaries: list[int] | None
    blocks: list[ProbeBlock]
    rows: int | None
    expected_rows: int | None
    width: int | None
    ranks_agree: bool | None
    draft_layer: str
    draft_in_features: int | None
    draft_accepts: bool | None
    verdict: Literal["proved", "violated", "inconclusive", "not covered"]
    rules: list[str]
    reason: str


class ProbeRank(_Part):
    """How one process ended: ``role`` is what it was for, ``run`` in which further run with other settings ("" for the first),
    ``stage`` how far it came. ``words`` are the last lines of its standard error, where it did not end well."""

    role: Literal["learn", "ids", "reference", "rank"]
    rank: int
    end: Literal["done", "died", "hung", "stopped"]
    exit_code: int | None
    stage: str
    error: str
    seconds: float | None
    peak_mib: int | None
    words: list[str]
    run: str = ""


class ProbeIds(_Part):
    """What the tree's own code tells the target once it has read the draft's configuration: the calls of the setter (null: one
    without ids), and where it makes them."""

    told: list[list[int] | None]
    where: list[str]


class ProbeReduction(_Part):
    """What of a configuration was made smaller, so that the numbers fit. Never the number of layers."""

    model: Literal["target", "draft"]
    key: str
    was: int
    now: int


class ProbeCoverage(_Part):
    """Something that this probe does not show, and why."""

    what: str
    why: str


class Probe(_Part):
    """What the tree's own model code did on running ranks.

    ``backend``: simulated ranks (fake), processes on CPUs (gloo), GPUs (nccl). ``trouble`` is why nothing can be concluded, ""
    where all ranks came to an end. ``ids`` is null where the tree's code could not read the draft's file here.
    ``launches`` are stand-ins for kernels that were launched and did nothing: with any, confidence is reduced.
    ``compared_with``: the report that the plan was taken from, "" for a scan of its own.
    """

    backend: Literal["fake", "gloo", "nccl"]
    ranks: int
    model_class: str
    layers: int | None
    target_width: int
    torch: str
    trouble: str
    paths: list[ProbePath]
    processes: list[ProbeRank]
    reductions: list[ProbeReduction]
    left_out: list[str]
    ids: ProbeIds | None = None
    not_covered: list[ProbeCoverage]
    launches: list[str]
    stand_ins: list[str]
    compared_with: str
    wall_seconds: float


class Stats(_Part):
    """What the scan cost."""

    wall_seconds: float
    cpu_seconds: float
    cache: Literal["cold", "warm", "off"]
    files_indexed: int = 0
    definitions_indexed: int = 0
    definitions_parsed: int = 0
    bytes_parsed: int = 0
    steps: int = 0
    runs: int = 0


class Report(_Part):
    """The whole report."""

    model_config = ConfigDict(title="flowcheck report")

    schema_: Literal["flowcheck.report/1"] = Field(default="flowcheck.report/1", alias="schema")
    tool: Tool
    source: Source
    scenario: Scenario
    pairing: Pairing | None = None
    summary: Summary
    flows: list[Flow]
    capture: list[Capture] = Field(default_factory=list)
    intake: Intake | None = None
    probe: Probe | None = None
    classes: list[TargetClass] = Field(default_factory=list)
    assumptions: list[Assumption]
    findings: list[Finding]
    unproved: list[Unproved]
    call_graph: CallGraph | None = None
    stats: Stats


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the report as it is written."""
    schema = Report.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
