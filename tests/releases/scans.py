"""One scan for each release and scenario, with the user's cache, and what it says as rows that tests can compare."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from flowcheck.checks.findings import Finding
from flowcheck.checks.rules import load_rules
from flowcheck.checks.run import run_checks, verdicts
from flowcheck.flow import Facts, Scalar, Scenario
from flowcheck.flow.analysis import analyse
from flowcheck.flow.facts import Flow, Place
from flowcheck.source import Tree, cache_root, open_source

__all__ = ["Row", "Scan", "scan_release", "scan_tree", "where"]

Settings = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, order=True)
class Row:
    """One flow that is judged: what it is, where its mode is set, and how it ends.

    ``place`` is the one that a report shows, ``others`` are further ones.
    """

    worker: str
    phase: str
    path: str
    place: str
    others: tuple[str, ...]
    asked: tuple[str, ...]
    reached: tuple[str, ...]
    verdict: str
    rules: tuple[str, ...]

    def renamed(self, name: Callable[[str], str]) -> Row:
        return replace(
            self, worker=name(self.worker), place=name(self.place), others=tuple(sorted(map(name, self.others)))
        )


@dataclass(frozen=True)
class Scan:
    """What one scan said."""

    facts: Facts
    findings: tuple[Finding, ...]
    rows: tuple[Row, ...]
    quiet: tuple[Flow, ...]
    """The flows that nobody asks about."""
    proved: int
    violated: int
    unproved: int

    def rows_of(self, worker: str, phase: str, path: str | None = None) -> list[Row]:
        return [r for r in self.rows if (r.worker, r.phase) == (worker, phase) and path in (None, r.path)]

    def said(self) -> str:
        """The findings, one a line."""
        return "\n".join(f"{f.rule} {f.verdict.value}: {f.message} ({where(f.place)})" for f in self.findings)


def where(place: Place | None) -> str:
    """A place as "file:line" below the package's ``srt`` folder."""
    if place is None:
        return "nowhere"
    return f"{place.path.rpartition('/srt/')[2]}:{place.span.line}"


@functools.cache
def scan_release(version: str, algorithm: str = "EAGLE3", settings: Settings = ()) -> Scan:
    """Scans a released tree, once in a run of the tests."""
    with open_source(f"sglang=={version}") as tree:
        return scan_tree(tree, algorithm, settings)


def scan_tree(tree: Tree, algorithm: str = "EAGLE3", settings: Settings = ()) -> Scan:
    """Scans any tree."""
    facts = analyse(tree, Scenario(algorithm=algorithm, settings=dict(settings)), cache_dir=cache_root())
    findings = run_checks(facts, load_rules())
    ends = verdicts(facts, findings)
    judged = list(zip(facts.flows, ends.flows, ends.rules, strict=True))
    rows = {_row(flow, verdict.value, rules) for flow, verdict, rules in judged if verdict is not None}
    return Scan(
        facts=facts,
        findings=findings,
        rows=tuple(sorted(rows)),
        quiet=tuple(flow for flow, verdict, _ in judged if verdict is None),
        proved=ends.proved,
        violated=ends.violated,
        unproved=ends.unproved,
    )


def _row(flow: Flow, verdict: str, rules: tuple[str, ...]) -> Row:
    places = [where(mode.evidence[0].place) for mode in flow.asked if mode.evidence] or [where(flow.call)]
    return Row(
        worker=flow.worker,
        phase=flow.phase.value,
        path=flow.path.value,
        place=places[0],
        others=tuple(sorted(set(places) - {places[0]})),
        asked=tuple(sorted({mode.member for mode in flow.asked})),
        reached=tuple(sorted({mode.member for mode in flow.reached})),
        verdict=verdict,
        rules=rules,
    )
