"""Other algorithms: those whose drafts take the target's states are proved, those that take none raise nothing."""

from __future__ import annotations

import pytest

from flowcheck.flow.facts import Phase
from flowcheck.flow.roles import UnknownAlgorithm
from tests.releases.expected import CONSUMING, WITHOUT_STATES, Release
from tests.releases.scans import Scan, scan_release
from tests.releases.test_releases import PHASES, expected_rows, is_proved, misplaced

pytestmark = [pytest.mark.release, pytest.mark.long]


@pytest.fixture(scope="module", params=list(CONSUMING), ids=map("-".join, CONSUMING))
def case(request: pytest.FixtureRequest) -> tuple[Release, Scan]:
    algorithm, version = request.param
    return CONSUMING[algorithm, version], scan_release(version, algorithm)


def test_every_worker_is_listed(case: tuple[Release, Scan]) -> None:
    release, scan = case
    assert set(scan.facts.workers) == release.names


def test_every_question_is_asked(case: tuple[Release, Scan]) -> None:
    release, scan = case
    assert {(row.worker, row.phase, row.path) for row in scan.rows} >= set(expected_rows(release))


def test_everything_is_proved(case: tuple[Release, Scan]) -> None:
    _, scan = case
    assert scan.rows
    assert [row for row in scan.rows if not is_proved(row)] == []
    assert scan.findings == (), scan.said()
    assert (scan.violated, scan.unproved) == (0, 0)


def test_each_mode_is_set_at_the_line_that_the_tree_says(case: tuple[Release, Scan]) -> None:
    release, scan = case
    assert misplaced(release, scan) == []


def test_draft_and_idle_forwards_have_no_rows(case: tuple[Release, Scan]) -> None:
    _, scan = case
    assert {row.phase for row in scan.rows} == set(PHASES)
    assert {flow.phase for flow in scan.quiet if flow.consumed} <= {Phase.IDLE, Phase.OTHER}


@pytest.mark.parametrize(("algorithm", "version"), list(WITHOUT_STATES), ids=map("-".join, WITHOUT_STATES))
def test_a_draft_that_takes_no_states_raises_nothing(algorithm: str, version: str) -> None:
    scan = scan_release(version, algorithm)
    assert scan.facts.workers == (WITHOUT_STATES[algorithm, version],)
    assert scan.findings == (), scan.said()
    assert scan.rows == ()
    assert {flow.phase for flow in scan.quiet} >= {Phase.EXTEND, Phase.VERIFY}


def test_a_release_without_the_algorithm_says_so() -> None:
    with pytest.raises(UnknownAlgorithm, match="this tree knows no algorithm DFLASH"):
        scan_release("0.5.6", "DFLASH")
