"""What a check answers: findings, and the verdicts of the questions that the facts pose.

Pure values. Knows facts; knows neither source text nor how a report looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Union

from flowcheck.checks.rules import Severity
from flowcheck.flow.facts import Flow, Open, Phase, Place, Step
from flowcheck.flow.pair_facts import CaptureRow

if TYPE_CHECKING:
    from flowcheck.draft import Mismatch

__all__ = ["ClassSubject", "Finding", "ModeSubject", "Question", "Subject", "Verdict", "merged"]

ModeSubject = Union[Flow, Open]
"""What a finding about the capture mode is about."""


class Question(str, Enum):
    """What is asked about a class, in the order of a report."""

    HOOK = "hook"
    READ = "read"
    VALUE = "value"
    SUMS = "sums"
    ROWS = "rows"
    PATHS = "paths"
    ENDS = "ends"
    AUX = "aux"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class ClassSubject:
    """The class that a finding is about, as other subjects look."""

    model: str
    question: Question
    condition: str
    phase: None = None
    path: None = None

    @property
    def worker(self) -> str:
        """What a report calls it."""
        return self.model


Subject = Union[Flow, Open, CaptureRow, ClassSubject]
"""What a finding is about: a flow of the facts, a question that stayed open, what a path captures for a pair, or a class."""


class Verdict(str, Enum):
    """How a question ends."""

    PROVED = "proved"
    VIOLATED = "violated"
    UNPROVED = "unproved"

    @property
    def weight(self) -> int:
        """A higher number for a worse verdict."""
        return {"proved": 0, "unproved": 1, "violated": 2}[self.value]


@dataclass(frozen=True, slots=True)
class Finding:
    """One root cause, with all flows and open questions that it affects.

    ``mismatch`` is what a finding about a pair says: such a finding has no place in the tree.
    """

    rule: str
    severity: Severity
    verdict: Verdict
    message: str
    place: Place | None
    phase: Phase | None
    mode: str
    evidence: tuple[Step, ...]
    fix: str
    subjects: tuple[Subject, ...]
    mismatch: Mismatch | None = None


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per root cause: those of one rule that say the same about the same place and phase become one."""
    by_cause: dict[tuple[str, Place | None, Phase | None, str], Finding] = {}
    for finding in findings:
        cause = (finding.rule, finding.place, finding.phase, finding.message)
        known = by_cause.get(cause)
        if known is None:
            by_cause[cause] = finding
        else:
            heavier = max(known.severity, finding.severity, key=lambda severity: severity.weight)
            by_cause[cause] = replace(known, subjects=known.subjects + finding.subjects, severity=heavier)
    return list(by_cause.values())
