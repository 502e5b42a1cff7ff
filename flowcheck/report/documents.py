"""What ``flowcheck ids`` and ``flowcheck upgrade`` write as JSON: documents of their own, made of the report's parts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from flowcheck.report.model import Capture, Finding, Pairing, Scenario, Source, Tool, VerdictName

__all__ = [
    "IdChoice",
    "IdsDocument",
    "PairChange",
    "PathChange",
    "PathEnd",
    "UpgradeDocument",
    "WantedIds",
    "schema_of",
]


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, json_schema_serialization_defaults_required=True
    )


class IdChoice(_Part):
    """Which ids make a tree capture ``boundaries``: one answer for each reading of what the draft was trained on.

    ``ids`` is null where no ids do (``verdict`` is "violated") or where nobody knows ("unproved"); ``reason`` says why.
    ``key`` is where the tree reads them, ``snippet`` what to put into the draft's configuration. ``paths``: what the tree
    captures with them. ``verdict`` is "proved" only if every path captures the boundaries then.
    """

    boundaries: list[int]
    because: str
    ids: list[int] | None
    key: str
    is_written: bool
    snippet: dict[str, Any] | None
    verdict: VerdictName
    reason: str
    paths: list[Capture]


class IdsDocument(_Part):
    """The document of ``flowcheck ids``."""

    model_config = ConfigDict(title="flowcheck ids")

    schema_: Literal["flowcheck.ids/1"] = Field(default="flowcheck.ids/1", alias="schema")
    tool: Tool
    source: Source
    scenario: Scenario
    pairing: Pairing
    choices: list[IdChoice]
    wall_seconds: float


class PathEnd(_Part):
    """What one path captures in one of the trees."""

    captured_boundaries: list[int | None]
    width: int | None
    per_rank: Literal["complete", "partial", "scattered"] | None
    verdict: VerdictName
    rules: list[str]
    reason: str


class PathChange(_Part):
    """One path in both trees; null where a tree does not have it. ``becomes``: how the new one compares with the old one.

    "moved": other states are captured, and nobody can say which are right.
    """

    phase: Literal["extend", "verify", "idle", "other"]
    path: Literal["eager", "decode_graph", "prefill_graph"]
    condition: str
    batch: str
    old: PathEnd | None
    new: PathEnd | None
    becomes: Literal["same", "better", "worse", "moved"]


class WantedIds(_Part):
    """Which ids the draft needs for one tree. ``ids`` is null where none are right, or where nobody knows (``reason``).

    ``is_written``: they are what the draft's configuration writes, or it needs to write none.
    """

    ids: list[int] | None
    is_written: bool
    reason: str


class PairChange(_Part):
    """What becomes of one pair. ``because`` says why it is worse, "" where it is not."""

    pairing: Pairing
    algorithm: str
    paths: list[PathChange]
    old_ids: WantedIds
    new_ids: WantedIds
    gone: list[Finding]
    came: list[Finding]
    worse: bool
    because: str


class UpgradeDocument(_Part):
    """The document of ``flowcheck upgrade``."""

    model_config = ConfigDict(title="flowcheck upgrade")

    schema_: Literal["flowcheck.upgrade/1"] = Field(default="flowcheck.upgrade/1", alias="schema")
    tool: Tool
    old: Source
    new: Source
    pairs: list[PairChange]
    wall_seconds: float


def schema_of(document: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a document as it is written."""
    schema = document.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
