"""What becomes of a pair from one tree to another: the reports of both, held against each other.

A pair gets worse where a path loses its proof or gets its violation, where a path that comes to it is not right, where the
new tree cannot serve it, and where other states are captured while nobody can say which are right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from flowcheck.draft import Pairing
from flowcheck.flow.facts import Path
from flowcheck.flow.pair_facts import PairFacts
from flowcheck.report.documents import PairChange, PathChange, PathEnd, WantedIds
from flowcheck.report.model import Capture, Finding, Report
from flowcheck.report.source_text import plain

__all__ = ["change_of", "wanted_ids"]

Becomes = Literal["same", "better", "worse", "moved"]


def change_of(old: Report, new: Report, old_ids: WantedIds, new_ids: WantedIds) -> PairChange:
    """One pair in both trees; the reports are about the same pair under the same scenario."""
    assert new.pairing is not None
    paths = list(_paths(old.capture, new.capture))
    known, found = ({_identity(each): each for each in report.findings} for report in (old, new))
    came = [each for key, each in found.items() if key not in known]
    because = _why_worse(old, new, paths, came)
    return PairChange(
        pairing=new.pairing,
        algorithm=new.scenario.algorithm,
        paths=paths,
        old_ids=old_ids,
        new_ids=new_ids,
        gone=[each for key, each in known.items() if key not in found],
        came=came,
        worse=bool(because),
        because=because,
    )


def wanted_ids(facts: PairFacts | None, pairing: Pairing) -> WantedIds:
    """Which ids the draft needs for a tree, as far as the facts about it say."""
    wanted = pairing.trained.boundaries
    if facts is None or not facts.asks:
        return WantedIds(ids=None, is_written=True, reason="no states from inside the target are taken")
    if not wanted:
        return WantedIds(ids=None, is_written=False, reason="what the draft was trained on is open")
    eager = [row for row in facts.rows if row.path is Path.EAGER]
    if eager and all(row.is_known and row.boundaries == wanted for row in eager):
        told = next((each.ids for each in reversed(eager[0].told) if each.key), None)
        reason = "" if told is not None else "none have to be written: the tree's own default is right"
        return WantedIds(ids=list(told) if told is not None else None, is_written=True, reason=reason)
    repair = facts.repair
    if repair is not None:
        return WantedIds(ids=list(repair.ids) or None, is_written=False, reason=plain(repair.reason))
    reason = facts.missing.reason if facts.missing is not None else facts.open
    open_ = next(
        (row.question or row.raised for row in eager if row.question or row.raised), "what it captures is not known"
    )
    return WantedIds(ids=None, is_written=False, reason=plain(reason or open_))


def _paths(old: Sequence[Capture], new: Sequence[Capture]) -> Iterator[PathChange]:
    """Rows of one phase and path side by side: under each condition and for each batch that either tree tells apart."""
    for phase, path in dict.fromkeys((row.phase, row.path) for row in (*new, *old)):
        before, after = ([row for row in rows if (row.phase, row.path) == (phase, path)] for rows in (old, new))
        for condition, batch in _cases((*after, *before)):
            one, other = _of_case(before, condition, batch, best=True), _of_case(after, condition, batch)
            yield PathChange(
                phase=phase,
                path=path,
                condition=condition,
                batch=batch,
                old=_end(one),
                new=_end(other),
                becomes=_becomes(one, other, known=bool(old)),
            )


def _cases(rows: Sequence[Capture]) -> list[tuple[str, str]]:
    """The conditions and batches that are told apart; what holds for all of them is no case of its own beside them."""
    conditions = [each for each in dict.fromkeys(row.condition for row in rows) if each] or [""]
    cases = []
    for condition in conditions:
        fitting = [row for row in rows if row.condition in ("", condition)]
        batches = [each for each in dict.fromkeys(row.batch for row in fitting) if each] or [""]
        cases += [(condition, batch) for batch in batches]
    return cases


RANK = {"violated": 0, "unproved": 1, "proved": 2}


def _of_case(rows: Sequence[Capture], condition: str, batch: str, *, best: bool = False) -> Capture | None:
    """The row that holds in a case; of several (graphs of more than one runner) the one that ends worst.

    Where a tree divides batches elsewhere, any row may be meant: ``best`` takes the best of them.
    """
    fitting = [row for row in rows if row.condition in ("", condition)]
    exact = [row for row in fitting if row.batch in ("", batch)]
    choose = max if best and not exact else min
    return choose(exact or fitting, key=lambda row: RANK[row.verdict], default=None)


def _end(row: Capture | None) -> PathEnd | None:
    if row is None:
        return None
    return PathEnd(
        captured_boundaries=row.captured_boundaries,
        width=row.width,
        per_rank=row.per_rank,
        verdict=row.verdict,
        rules=row.rules,
        reason=row.reason,
    )


def _becomes(old: Capture | None, new: Capture | None, *, known: bool) -> Becomes:
    if new is None:
        return "same"
    if old is None:
        return "same" if new.verdict == "proved" or not known else "worse"
    if RANK[new.verdict] < RANK[old.verdict]:
        return "worse"
    if new.verdict == "proved":
        return "same" if old.verdict == "proved" else "better"
    moved = _facts(old) != _facts(new)
    return "moved" if moved and new.verdict == "unproved" and old.verdict == "unproved" else "same"


def _facts(row: Capture) -> tuple[object, ...]:
    return row.captured_boundaries, row.width, row.per_rank


def _why_worse(old: Report, new: Report, paths: Sequence[PathChange], came: Sequence[Finding]) -> str:
    if old.capture and not new.capture:
        said = next((each.message for each in new.findings if each.rule.startswith("HS2")), "")
        return f"the new tree captures nothing for the pair{f': {said}' if said else ''}"
    worse = [each for each in paths if each.becomes == "worse"]
    if worse:
        return (
            f"{_counted(worse)} right before and {'is' if len(worse) == 1 else 'are'} not any more"
            if all(each.old is not None and each.old.verdict == "proved" for each in worse)
            else f"{len(worse)} of {len(paths)} paths end worse"
        )
    apart = next((each for each in came if each.severity == "error" and not each.affects), None)
    if apart is not None:
        return f"{apart.rule} is new: {apart.message}"
    if any(each.becomes == "moved" for each in paths):
        return "other states are captured, and what the draft was trained on is not known"
    return ""


def _counted(paths: Sequence[PathChange]) -> str:
    return "1 path was" if len(paths) == 1 else f"{len(paths)} paths were"


def _identity(finding: Finding) -> tuple[object, ...]:
    """What makes two findings of two trees the same one: places and lines move."""
    return finding.rule, finding.kind, finding.message, *finding.keys
