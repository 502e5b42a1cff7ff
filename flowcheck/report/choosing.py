"""The answers about ids as a part of a document. Imported only where there is a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flowcheck.checks.capture_layers import SPOKEN, layer_findings, row_ends
from flowcheck.checks.rules import RuleBook
from flowcheck.draft import Pairing, Reading, Trained
from flowcheck.draft.rewriting import snippet
from flowcheck.flow.pair_facts import CaptureRow, IdAnswer, spoken
from flowcheck.report.capturing import capture_rows
from flowcheck.report.documents import IdChoice
from flowcheck.report.model import Capture, VerdictName
from flowcheck.report.source_text import plain

__all__ = ["choice_of", "why_not"]


def choice_of(answer: IdAnswer, reading: Reading, pairing: Pairing, rules: RuleBook) -> IdChoice:
    """One answer, with what the tree captures on each path when the draft has these ids."""
    written = next((each.ids for each in pairing.draft.id_lists if each.key == answer.key), None)
    paths = _paths(answer, reading, pairing, rules)
    return IdChoice(
        boundaries=list(answer.boundaries),
        because=_because(reading),
        ids=list(answer.ids) if answer.ids else None,
        key=plain(answer.key),
        is_written=bool(answer.ids) and written == answer.ids,
        snippet=snippet(pairing.draft, answer.key, answer.ids) if answer.ids else None,
        verdict=_verdict(answer),
        reason=plain(answer.reason or why_not(answer.missed, answer)),
        paths=paths,
    )


def _because(reading: Reading) -> str:
    return reading.basis.value if reading.basis.value in ("declared", "computed") else plain(reading.reason)


def _verdict(answer: IdAnswer) -> VerdictName:
    if answer.is_right:
        return "proved"
    if not answer.certain or (answer.ids and not any(row.is_known for row in answer.missed)):
        return "unproved"
    return "violated"


def _paths(answer: IdAnswer, reading: Reading, pairing: Pairing, rules: RuleBook) -> list[Capture]:
    if answer.facts is None or not answer.ids:
        return []
    asked = replace(pairing, trained=Trained((reading,)))
    ends = row_ends(answer.facts, asked, layer_findings(answer.facts, asked, rules))
    return capture_rows(answer.facts, ends, asked, lambda _: [])


def why_not(missed: Sequence[CaptureRow], answer: IdAnswer) -> str:
    """Why ids that are right on some path are not on others."""
    said = []
    for row in missed:
        what = f"captures {spoken(row.boundaries)}"
        if row.question or row.raised:
            what = f"raises {row.raised}" if row.raised else f"is not known: {row.question}"
        elif answer.ids not in [told.ids for told in row.told]:
            place = row.told[-1].place if row.told else None
            at = f" ({plain(place.path)}:{place.span.line})" if place is not None else ""
            what = f"is not told these ids{at}, and {what}"
        batch = f" ({row.batch})" if row.batch else ""
        said.append(f"{row.phase.value} {SPOKEN[row.path].removeprefix('the ')}{batch} {what}")
    return "; ".join(dict.fromkeys(said))
