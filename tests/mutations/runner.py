"""Scans mutants and says what became of each: killed, survived, quiet as it should be, or a false alarm."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from flowcheck.checks.rules import load_rules
from flowcheck.checks.run import run_checks, verdicts
from flowcheck.flow import Facts, Scenario, analyse
from flowcheck.flow.facts import Phase
from tests.mutations.overlay import Changes, Release

__all__ = ["RESULTS", "Expect", "Laboratory", "Mutant", "Outcome", "Result", "Running", "Scan", "table"]

Settings = tuple[tuple[str, bool], ...]


class Expect(str, Enum):
    """What a scan has to say of a mutant."""

    CAUGHT = "caught"
    QUIET = "quiet"
    EITHER = "either"
    """The edit costs speed, or its harm depends on what no scan can see: printed, never judged."""


@dataclass(frozen=True)
class Mutant:
    """One edit of a release."""

    operator: str
    expect: Expect
    path: str
    line: int
    snippet: str
    changes: Changes
    settings: Settings = ()

    @property
    def name(self) -> str:
        return f"{self.operator} @ {self.path}:{self.line}"


@dataclass(frozen=True)
class Finding:
    """What a finding says, without the place, which every edit moves."""

    rule: str
    verdict: str
    phase: str
    message: str
    path: str
    line: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.rule, self.verdict, self.phase, self.message


@dataclass(frozen=True)
class Scan:
    """What one scan said."""

    findings: tuple[Finding, ...]
    proved: int
    violated: int
    unproved: int
    rows: tuple[tuple[str, str], ...]
    """Phase and path of every judged flow, sorted; workers have other names in forks."""
    seconds: float
    error: str = ""

    def beyond(self, baseline: Scan) -> list[Finding]:
        """The findings that ``baseline`` lacks, the heaviest first."""
        spare = Counter(finding.key for finding in baseline.findings)
        out: list[Finding] = []
        for finding in self.findings:
            if spare[finding.key] > 0:
                spare[finding.key] -= 1
            else:
                out.append(finding)
        return out


class Outcome(str, Enum):
    KILLED = "killed"
    WEAK = "killed, unproved only"
    SURVIVED = "SURVIVED"
    QUIET = "quiet"
    ALARM = "FALSE ALARM"
    LESS = "FALSE ALARM (proves less)"
    NOTICED = "noticed"
    UNNOTICED = "unnoticed"
    CRASH = "CRASH"


@dataclass(frozen=True)
class Result:
    """A mutant and what the scan said of it."""

    version: str
    mutant: Mutant
    scan: Scan
    baseline: Scan

    @property
    def outcome(self) -> Outcome:
        if self.scan.error:
            return Outcome.CRASH
        found = self.scan.beyond(self.baseline)
        lost = Counter(self.baseline.rows) - Counter(self.scan.rows)
        if self.mutant.expect is Expect.CAUGHT:
            if any(finding.verdict == "violated" for finding in found):
                return Outcome.KILLED
            return Outcome.WEAK if found else Outcome.SURVIVED
        if self.mutant.expect is Expect.EITHER:
            return Outcome.NOTICED if found or lost else Outcome.UNNOTICED
        if found:
            return Outcome.ALARM
        return Outcome.LESS if self.scan.proved < self.baseline.proved or lost else Outcome.QUIET

    @property
    def failed(self) -> bool:
        return self.outcome in (Outcome.SURVIVED, Outcome.ALARM, Outcome.LESS, Outcome.CRASH)

    def said(self) -> str:
        """The findings that are new, or what is missing, in a few lines."""
        if self.scan.error:
            return self.scan.error
        found = self.scan.beyond(self.baseline)
        if found:
            return "\n".join(f"{f.rule} {f.verdict} {f.message} ({f.path}:{f.line})" for f in found[:3])
        counts = f"{self.scan.proved} proved, {self.scan.violated} violated, {self.scan.unproved} unproved"
        lost = Counter(self.baseline.rows) - Counter(self.scan.rows)
        gone = "; gone: " + ", ".join(f"{phase} {path}" for phase, path in lost) if lost else ""
        return f"nothing new: {counts} (unchanged: {self.baseline.proved} proved){gone}"


def scan(
    release: Release, changes: Changes, settings: Settings, cache: Path, joined: bool = False
) -> tuple[Scan, Facts | None]:
    """Scans the changed tree, as the command line does.

    ``joined``: leave out the walks that only tell under which settings a finding holds; they take most of the time.
    """
    started = time.perf_counter()
    try:
        scenario = Scenario(settings=dict(settings))
        facts = analyse(release.with_changes(changes), scenario, cache_dir=cache, explain=not joined)
        findings = run_checks(facts, load_rules())
        counts = verdicts(facts, findings)
    except Exception:  # noqa: BLE001 - whatever it is, it is a result
        text = traceback.format_exc(limit=-4)
        return Scan((), 0, 0, 0, (), time.perf_counter() - started, text), None
    rows = sorted(
        (flow.phase.value, flow.path.value)
        for flow in dict.fromkeys(facts.flows)
        if flow.consumed and flow.phase in (Phase.EXTEND, Phase.VERIFY)
    )
    said = tuple(
        Finding(
            finding.rule,
            finding.verdict.value,
            finding.phase.value if finding.phase else "",
            finding.message,
            finding.place.path if finding.place else "",
            finding.place.span.line if finding.place else 0,
        )
        for finding in findings
    )
    seconds = time.perf_counter() - started
    return Scan(said, counts.proved, counts.violated, counts.unproved, tuple(rows), seconds), facts


_releases: dict[str, Release] = {}


def _release(version: str) -> Release:
    if version not in _releases:
        _releases[version] = Release(version)
    return _releases[version]


def _scan_in_process(version: str, changes: Changes, settings: Settings, cache: str, joined: bool) -> Scan:
    return scan(_release(version), changes, settings, Path(cache), joined)[0]


RESULTS: list[Result] = []
"""What this process has seen, for the summary at the end."""


class Running:
    """A mutant under way."""

    def __init__(self, laboratory: Laboratory, mutant: Mutant, future: Future[Scan]) -> None:
        self._laboratory = laboratory
        self._mutant = mutant
        self.future = future

    def result(self) -> Result:
        """Waits for the scan."""
        return self._laboratory.judged(self._mutant, self.future.result())


class Laboratory:
    """Scans of the mutants of one release, in worker processes that share one syntax cache."""

    def __init__(
        self, version: str, cache: Path | None = None, jobs: int | None = None, settings: Settings = ()
    ) -> None:
        """``settings`` narrow every scan; a mutant narrows its own further."""
        self.version = version
        self.settings = settings
        self._temporary = tempfile.TemporaryDirectory(prefix="mutations-") if cache is None else None
        self.cache = Path(self._temporary.name) if self._temporary is not None else cache or Path()
        self._jobs = jobs if jobs is not None else min(2, os.cpu_count() or 1)
        self._pool: ProcessPoolExecutor | None = None
        self.release = _release(version)
        baseline, facts = scan(self.release, Changes(), settings, self.cache)
        if facts is None:
            raise RuntimeError(f"the unchanged release cannot be scanned: {baseline.error}")
        self.facts = facts
        self.baseline = baseline
        self._baselines: dict[Settings, Future[Scan]] = {}

    def start(self, mutants: Sequence[Mutant]) -> list[Running]:
        """Puts all to work, the unchanged release under the same settings first."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._jobs, mp_context=multiprocessing.get_context("spawn"))
        for mutant in mutants:
            settings = self._settings(mutant)
            if settings != self.settings and settings not in self._baselines:
                self._baselines[settings] = self._submit(Changes(), settings)
        return [
            Running(self, m, self._submit(m.changes, self._settings(m), m.expect is not Expect.QUIET)) for m in mutants
        ]

    def run(self, mutants: Sequence[Mutant]) -> Iterator[Result]:
        """Scans all, and gives each result when it is there."""
        running = {each.future: each for each in self.start(mutants)}
        for future in as_completed(running):
            yield running[future].result()

    def _submit(self, changes: Changes, settings: Settings, joined: bool = False) -> Future[Scan]:
        assert self._pool is not None
        return self._pool.submit(_scan_in_process, self.version, changes, settings, str(self.cache), joined)

    def _settings(self, mutant: Mutant) -> Settings:
        return tuple(sorted({**dict(mutant.settings), **dict(self.settings)}.items()))

    def judged(self, mutant: Mutant, found: Scan) -> Result:
        settings = self._settings(mutant)
        baseline = self.baseline if settings == self.settings else self._baselines[settings].result()
        result = Result(self.version, mutant, found, baseline)
        RESULTS.append(result)
        return result

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._temporary is not None:
            self._temporary.cleanup()


def table(results: Iterable[Result]) -> list[str]:
    """One line per release and operator, and the kill rate."""
    lines: list[str] = []
    by_release: dict[str, list[Result]] = {}
    for result in results:
        by_release.setdefault(result.version, []).append(result)
    for version, found in by_release.items():
        lines.append(version)
        operators: dict[str, list[Result]] = {}
        for result in found:
            operators.setdefault(result.mutant.operator, []).append(result)
        for operator, group in sorted(operators.items()):
            counts = Counter(result.outcome for result in group)
            text = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items())
            lines.append(f"  {operator:<58} {text}")
        lines.append(f"  {rate(found)}")
    return lines


def rate(found: Sequence[Result]) -> str:
    """The counts of one release in one line."""
    counts = Counter(result.outcome for result in found)
    harmful = [result for result in found if result.mutant.expect is Expect.CAUGHT]
    killed = counts[Outcome.KILLED] + counts[Outcome.WEAK]
    alarms = counts[Outcome.ALARM] + counts[Outcome.LESS]
    either = counts[Outcome.NOTICED] + counts[Outcome.UNNOTICED]
    percent = 100 * killed / len(harmful) if harmful else 0.0
    seconds = sum(result.scan.seconds for result in found)
    return (
        f"kill rate {percent:.1f} % ({killed} of {len(harmful)}: {counts[Outcome.KILLED]} violated, "
        f"{counts[Outcome.WEAK]} unproved only, {counts[Outcome.SURVIVED]} survived); same meaning: "
        f"{counts[Outcome.QUIET]} quiet, {alarms} false alarms; {either} not judged; "
        f"{counts[Outcome.CRASH]} crashes; {seconds:.0f} s of scans"
    )
