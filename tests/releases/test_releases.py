"""On released trees, a scan for EAGLE3 lists every worker with the lines that set its modes, and proves what is right.

What to expect was found by reading the trees (:mod:`tests.releases.expected`). Each release is scanned once.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.releases.expected import EAGLE3, Finding, Release
from tests.releases.scans import Row, Scan, scan_release, where

pytestmark = pytest.mark.release

PHASES = ("extend", "verify")
FULL = ("FULL",)


@pytest.fixture(scope="module", params=list(EAGLE3.values()), ids=list(EAGLE3))
def release(request: pytest.FixtureRequest) -> Release:
    found: Release = request.param
    return found


@pytest.fixture(scope="module")
def scan(release: Release) -> Scan:
    return scan_release(release.version)


def expected_rows(release: Release) -> Iterator[tuple[str, str, str]]:
    """The questions that a scan of a release has to answer: worker, phase and path."""
    for worker in release.workers:
        yield worker.name, "extend", "eager"
        yield worker.name, "verify", "eager"
        yield worker.name, "verify", "decode_graph"
        for phase in release.prefill_graphs:
            yield worker.name, phase, "prefill_graph"


def misplaced(release: Release, scan: Scan) -> list[Row]:
    """The rows that show another place than the release's, and workers without a row."""
    lines = {
        (w.name, phase): line for w in release.workers for phase, line in zip(PHASES, (w.extend, w.verify), strict=True)
    }
    assert {(row.worker, row.phase) for row in scan.rows} >= set(lines)
    return [row for row in scan.rows if row.place != lines.get((row.worker, row.phase))]


def is_proved(row: Row) -> bool:
    return row.verdict == "proved" and row.asked == FULL and row.reached == FULL


def allowed(row: Row, release: Release) -> list[Finding]:
    return [f for f in release.findings if (f.phase, f.path) == (row.phase, row.path) and f.rule in row.rules]


def test_every_worker_of_the_selector_is_listed(release: Release, scan: Scan) -> None:
    assert set(scan.facts.workers) == release.names
    assert {row.worker for row in scan.rows} == release.names


def test_every_question_is_asked(release: Release, scan: Scan) -> None:
    listed = {(row.worker, row.phase, row.path) for row in scan.rows}
    assert listed >= set(expected_rows(release))


def test_no_way_of_running_is_listed_that_the_tree_refuses(release: Release, scan: Scan) -> None:
    listed = {(row.worker, row.phase, row.path) for row in scan.rows}
    assert listed <= set(expected_rows(release))


def test_each_mode_is_set_at_the_line_that_the_tree_says(release: Release, scan: Scan) -> None:
    assert misplaced(release, scan) == []


def test_a_mode_that_is_set_elsewhere_too_is_one_for_users(release: Release, scan: Scan) -> None:
    assert {place for row in scan.rows for place in row.others} <= {release.for_users}


def test_everything_eager_and_every_decode_graph_is_proved(release: Release, scan: Scan) -> None:
    rows = [row for row in scan.rows if row.path != "prefill_graph"]
    assert rows
    assert [row for row in rows if not is_proved(row)] == []


def test_prefill_graphs_are_proved_or_violated_for_a_known_reason(release: Release, scan: Scan) -> None:
    rows = [row for row in scan.rows if row.path == "prefill_graph"]
    assert [row for row in rows if not is_proved(row) and not allowed(row, release)] == []


def test_nothing_is_unproved(release: Release, scan: Scan) -> None:
    assert scan.unproved == 0, scan.said()
    assert scan.facts.open == ()


def test_every_finding_is_one_that_was_argued(release: Release, scan: Scan) -> None:
    found = {(f.rule, f.severity.value, f.phase.value if f.phase else "", where(f.place)) for f in scan.findings}
    assert found == {(f.rule, f.severity, f.phase, f.place) for f in release.findings}, scan.said()


def test_idle_forwards_and_plain_decodes_are_no_questions(release: Release, scan: Scan) -> None:
    assert {row.phase for row in scan.rows} == set(PHASES)
    assert all(not flow.consumed or flow.phase.value not in PHASES for flow in scan.quiet)


def test_one_worker_of_one_release() -> None:
    """The quick one: without overlap scheduling, the registry of 0.5.6 gives the v1 worker."""
    found = scan_release("0.5.6", settings=(("disable_overlap_schedule", True),))
    (worker,) = [each for each in EAGLE3["0.5.6"].workers if each.name == "EAGLEWorker"]
    assert found.facts.workers == (worker.name,)
    assert all(is_proved(row) for row in found.rows)
    for phase, line in (("extend", worker.extend), ("verify", worker.verify)):
        assert {row.place for row in found.rows_of(worker.name, phase)} == {line}
    assert found.rows_of(worker.name, "verify", "decode_graph")
    assert not found.findings
