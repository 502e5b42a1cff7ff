"""The report ``flowcheck.report/1``: what every writer writes, and nothing that it would have to look up elsewhere.

The JSON Schema of the report is generated from these classes. Paths are relative to SOURCE, with ``/``; lines and
columns count from 1, columns in code points.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Assumption",
    "CallEdge",
    "CallGraph",
    "CallNode",
    "CallSite",
    "Evidence",
    "Finding",
    "FindingCounts",
    "Flow",
    "Location",
    "Report",
    "Scenario",
    "Snippet",
    "Source",
    "Stats",
    "Summary",
    "Tool",
    "Unproved",
    "json_schema",
]

VerdictName = Literal["proved", "violated", "unproved"]
SeverityName = Literal["error", "warning", "note"]
PhaseName = Literal["extend", "verify", "idle", "other"]
PathName = Literal["eager", "decode_graph", "prefill_graph"]


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, json_schema_serialization_defaults_required=True
    )


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
    """The tree that was read. ``root`` is the package folder inside SOURCE ("" where SOURCE is that folder)."""

    kind: str
    root: str
    version: str | None
    digest: str
    label: str
    package: str
    warnings: list[str] = Field(default_factory=list)


class Scenario(_Part):
    """What the deployment fixes. Whatever is not named here is free."""

    algorithm: str
    settings: dict[str, str] = Field(default_factory=dict)


class FindingCounts(_Part):
    """The findings that are shown, by severity."""

    error: int = 0
    warning: int = 0
    note: int = 0


class Summary(_Part):
    """How many questions ended each way. ``hidden`` findings were left out by --select or --ignore."""

    proved: int
    violated: int
    unproved: int
    findings: FindingCounts
    hidden: int = 0


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
    """One root cause, with what it affects ("extend/eager/EAGLEWorker")."""

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


class Unproved(_Part):
    """A question that nobody could answer."""

    question: str
    reason: str
    file: str | None
    line: int | None
    phase: PhaseName | None
    path: PathName | None
    worker: str


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
    pairing: dict[str, Any] | None = None
    summary: Summary
    flows: list[Flow]
    capture: list[dict[str, Any]] = Field(default_factory=list)
    assumptions: list[Assumption]
    findings: list[Finding]
    unproved: list[Unproved]
    call_graph: CallGraph | None = None
    stats: Stats


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the report as it is written."""
    schema = Report.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
