"""``make cases``: which of the known defects of target classes are found in which release, and what is said where they are not.

    python -m tests.releases.cases_table 0.5.6 0.5.9

Only the classes that a defect is about are asked: some seconds each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from flowcheck.checks.class_wiring import class_ends, class_findings
from flowcheck.checks.findings import ClassSubject, Finding
from flowcheck.checks.rules import load_rules
from flowcheck.flow.classes import class_facts
from flowcheck.flow.scenario import Scenario
from flowcheck.source import open_source
from tests.releases.known_classes import KNOWN, Known

__all__ = ["Line", "found", "lines", "main"]

Told = tuple[str, str, str]
"""Rule, class, and the name of the file."""


@dataclass(frozen=True)
class Line:
    """One defect in one release: ``bad``: whether the release has it; ``said``: whether that is what flowcheck says; ``open``:
    what it says instead of an answer, "" where it has one."""

    known: Known
    version: str
    bad: bool
    said: bool
    open: str = ""

    @property
    def outcome(self) -> str:
        """In words."""
        if self.said:
            return "found" if self.bad else "FALSE ALARM"
        if self.open:
            return f"unproved: {self.open}"
        return f"MISSED: {self.known.missed or 'nothing is said'}" if self.bad else "nothing said"


def found(findings: Iterable[Finding]) -> set[Told]:
    """What findings about classes are about."""
    return {
        (each.rule, subject.model, each.place.path.rpartition("/")[2] if each.place is not None else "")
        for each in findings
        for subject in each.subjects
        if isinstance(subject, ClassSubject)
    }


def lines(version: str, known: Sequence[Known] = KNOWN) -> list[Line]:
    """Every defect whose class a release has, on that release."""
    tree, rules = open_source(f"sglang=={version}"), load_rules()
    out: list[Line] = []
    by_class: dict[str, list[Known]] = {}
    for each in known:
        by_class.setdefault(each.cls, []).append(each)
    for name, defects in by_class.items():
        try:
            findings = class_findings(class_ends(class_facts(tree, Scenario(), only=[name])), rules)
        except LookupError:
            continue  # a class that this release does not register
        told = found(findings)
        unknown = next((each.message for each in findings if each.rule == "HS219"), "")
        for each in defects:
            said = (each.rule, each.cls, each.file) in told
            out.append(Line(each, version, each.is_in(version), said, "" if said else unknown))
    return out


def main(versions: Sequence[str]) -> int:
    """Print the table. Gives 1 where something is missed without a reason, or said of a release that is right."""
    console = Console()
    table = Table(box=None, pad_edge=False)
    for name in ("case", "kind", "release", "class", "rule", "outcome"):
        table.add_column(name, overflow="fold", no_wrap=name in ("case", "release", "rule"))
    every = [line for version in versions for line in lines(version)]
    for line in sorted(every, key=lambda each: (each.known.case, each.known.cls, versions.index(each.version))):
        known = line.known
        table.add_row(known.case, known.kind, line.version, known.cls, known.rule, line.outcome)
    console.print(table)
    bad, good = [each for each in every if each.bad], [each for each in every if not each.bad]
    hits, alarms = sum(each.said for each in bad), sum(each.said for each in good)
    console.print(f"\nfound {hits} of {len(bad)} that are there; {alarms} false alarms of {len(good)} that are not")
    return int(alarms > 0 or any(not each.said and not each.known.missed for each in bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["0.5.6"]))
