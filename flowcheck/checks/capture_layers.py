"""Which boundaries a tree captures for a pair, against those that the draft was trained on: HS2xx.

A row answers for itself what is wrong with it; what several rows share (the same place, the same words) is one finding.
Imported only where there is a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flowcheck.checks.findings import Finding, Verdict, merged
from flowcheck.checks.rules import Rule, RuleBook
from flowcheck.checks.run import ordered
from flowcheck.draft import Pairing, Reading, Trained
from flowcheck.flow.facts import Path, Place, Step
from flowcheck.flow.pair_facts import ALL_ROWS, CaptureRow, PairFacts, Reach, Repair, State, describe, spoken

__all__ = ["LAYER_CHECKS", "RowEnd", "layer_findings", "row_ends"]

EMBEDDING = 0


# -------------------------------------------------------------------------------------------------------- one row
def fits(row: CaptureRow, reading: Reading) -> bool:
    """Whether a row captures what a reading asks for, in its order."""
    if reading.post_norm:
        return not row.states and not reading.boundaries
    return row.boundaries == reading.boundaries


def _fitting(row: CaptureRow, trained: Trained) -> Reading | None:
    return next((reading for reading in trained.readings if fits(row, reading)), None)


def _trouble(row: CaptureRow, facts: PairFacts, trained: Trained) -> str:
    """The one rule whose business the boundaries of a row are, "" where they are right or nothing is known of them."""
    if row.question:
        return ""
    if row.raised:
        return "HS202" if row.in_setter else "HS201"
    if any(not state.certain for state in row.states):
        return ""
    fitting = _fitting(row, trained)
    if fitting is not None and trained.is_settled:
        return ""
    if _differs_from_eager(row, facts):
        return "HS205"
    if fitting is not None:
        return ""
    wanted = trained.readings[0]
    if (EMBEDDING in row.boundaries) != (EMBEDDING in wanted.boundaries):
        return "HS203"
    if _is_part(row.boundaries, wanted.boundaries):
        return "HS202"
    return "HS201"


def _differs_from_eager(row: CaptureRow, facts: PairFacts) -> bool:
    """Whether the eager forward of the same phase captures something else than this graph."""
    return _eager_unlike(row, facts) is not None


def _eager_unlike(row: CaptureRow, facts: PairFacts) -> CaptureRow | None:
    """An eager forward of the same phase and batches that is known to capture something else than a graph, or raises."""
    if row.path is Path.EAGER:
        return None
    same = [
        other
        for other in facts.rows
        if (other.phase, other.path) == (row.phase, Path.EAGER) and other.condition in ("", row.condition)
        if other.batch in ("", row.batch) or not row.batch
    ]
    return next((x for x in same if (x.is_known and x.boundaries != row.boundaries) or x.raised), None)


def _is_part(captured: Sequence[int | None], wanted: Sequence[int]) -> bool:
    """Whether all that is captured is wanted, and something is missing."""
    left = list(wanted)
    for each in captured:
        if each not in left:
            return False
        del left[: left.index(each) + 1]
    return len(captured) < len(wanted)


@dataclass(frozen=True, slots=True)
class RowEnd:
    """How a row ends, and the rules that spoke of it. ``reading`` is the one that it fits, where there is one."""

    row: CaptureRow
    verdict: Verdict
    rules: tuple[str, ...]
    reading: Reading | None
    reason: str = ""


def row_ends(facts: PairFacts, pairing: Pairing, findings: Iterable[Finding]) -> tuple[RowEnd, ...]:
    """The verdict of every row, from all findings (unselected)."""
    spoken_of: dict[int, set[str]] = {}
    worst: dict[int, Verdict] = {}
    for finding in findings:
        for subject in finding.subjects:
            spoken_of.setdefault(id(subject), set()).add(finding.rule)
            known = worst.get(id(subject), Verdict.PROVED)
            worst[id(subject)] = max(known, finding.verdict, key=lambda each: each.weight)
    trained = pairing.trained
    ends = []
    for row in facts.rows:
        reading = _fitting(row, trained) if row.is_known else None
        verdict, reason = Verdict.PROVED, ""
        if reason := _why_open(row, trained, reading) or _why_taken_open(facts):
            verdict = Verdict.UNPROVED
        if id(row) in worst:
            verdict = max(verdict, worst[id(row)], key=lambda each: each.weight)
        elif verdict is Verdict.PROVED and reading is None:
            verdict, reason = Verdict.UNPROVED, "nothing shows that it fits"
        ends.append(RowEnd(row, verdict, tuple(sorted(spoken_of.get(id(row), ()))), reading, reason))
    return tuple(ends)


def _why_open(row: CaptureRow, trained: Trained, reading: Reading | None) -> str:
    if row.question:
        return row.question
    for state in row.states:
        if not state.certain:
            return f"a captured state is not known: {state.reason}"
    if trained.question is not None and reading is not None:
        return f"it captures {spoken(row.boundaries)}, and what the draft was trained on is open"
    return ""


def _why_taken_open(facts: PairFacts) -> str:
    """Why nobody knows how the draft takes the states in, "" where that is known, or another rule speaks of the draft."""
    took = facts.intake
    if took is None or took.raises is not None or took.takes_states is False:
        return ""
    return took.altered or took.open


def _needed(trained: Trained) -> str:
    return " or ".join(dict.fromkeys(map(_said, trained.readings)))


def _said(reading: Reading) -> str:
    """What a reading asks for, beside the boundaries of a row."""
    if not reading.post_norm:
        return spoken(reading.boundaries)
    end = "the last state after the final norm"
    return f"{spoken(reading.boundaries)} and {end}" if reading.boundaries else end


def _takes_the_last_state(trained: Trained) -> bool:
    """Whether no boundaries are what the draft needs: its head takes the state after the final norm alone."""
    return all(each.post_norm and not each.boundaries for each in trained.readings)


# ------------------------------------------------------------------------------------------------------------- rules
Check = Callable[[PairFacts, Pairing, Rule], list[Finding]]


def boundaries_differ(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS201: the target captures other boundaries than those that the draft was trained on."""

    def found() -> Iterator[Finding]:
        for row in _troubled(facts, pairing, rule):
            if row.raised:
                message = rule.message("raises", found=row.raised)
                yield _finding(rule, row, message, row.raised_at, row.chain, _repair(facts, rule))
                continue
            lost = _overwritten(row)
            if lost is not None:
                message = rule.message("overwritten", keys=str(lost.meant), reason=describe(lost))
                yield _finding(rule, row, message, lost.place, row.chain, rule.fix_of("overwritten"))
                continue
            odd = [state for state in row.states if state.name is None]
            fields = {"found": spoken(row.boundaries), "expected": _needed(pairing.trained)}
            if odd:
                message = rule.message("odd", reason=describe(odd[0]), **fields)
                place = odd[0].place or odd[0].overwritten or _kept_at(row)
            else:
                message, place = rule.message("differ", **fields), _kept_at(row)
            fix = rule.fix_of("last") if _takes_the_last_state(pairing.trained) else _repair(facts, rule)
            yield _finding(rule, row, message, place, row.chain, fix)

    return merged(found())


def _overwritten(row: CaptureRow) -> State | None:
    """The first state that was a boundary when it was captured and is another one, or none, when it is handed on."""
    lost = (state for state in row.states if state.overwritten is not None and state.meant is not None)
    return next((state for state in lost if state.meant != state.name), None)


def never_captured(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS202: a boundary that the draft needs is never captured, or asking for it raises."""

    def found() -> Iterator[Finding]:
        for row in _troubled(facts, pairing, rule):
            needed = _needed(pairing.trained)
            if row.raised:
                message = rule.message("raises", found=row.raised, expected=needed)
                yield _finding(rule, row, message, row.raised_at or _kept_at(row), row.chain, _repair(facts, rule))
                continue
            left = [each for each in pairing.trained.readings[0].boundaries if each not in row.boundaries]
            message = rule.message("missing", keys=spoken(left), found=spoken(row.boundaries), expected=needed)
            yield _finding(rule, row, message, _kept_at(row), row.chain, _repair(facts, rule))

    return merged(found())


def embedding_captured(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS203: the embedding is captured and the draft was not trained on it, or the other way round."""

    def found() -> Iterator[Finding]:
        for row in _troubled(facts, pairing, rule):
            fields = {"found": spoken(row.boundaries), "expected": _needed(pairing.trained)}
            taken = EMBEDDING in row.boundaries
            lost = [each for each in pairing.trained.readings[0].boundaries if each not in row.boundaries]
            key = ("filled" if lost else "added") if taken else "missing"
            message = rule.message(key, keys=spoken(lost), **fields)
            yield _finding(rule, row, message, _kept_at(row), row.chain, _repair(facts, rule))

    return merged(found())


def no_hook(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS204: the target's class cannot be told what to capture."""
    missing = facts.missing
    if missing is None:
        return []
    key = "unregistered" if not missing.model_class else "wrapper" if missing.inner else "missing"
    message = rule.message(
        key,
        subject=missing.model_class or missing.architecture,
        keys=missing.method,
        found=", ".join(missing.inner),
        reason=missing.reason,
    )
    return [
        Finding(
            rule=rule.id,
            severity=rule.severity_of(key),
            verdict=Verdict.UNPROVED if key == "unregistered" else Verdict.VIOLATED,
            message=message,
            place=missing.place,
            phase=None,
            mode="",
            evidence=(),
            fix=rule.fix_of(key, subject=missing.model_class, keys=missing.method, found=", ".join(missing.inner)),
            subjects=(),
        )
    ]


def paths_disagree(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS205: a graph replays other layers than the eager forward of its phase captures, or verify others than extend."""

    def found() -> Iterator[Finding]:
        for row in _troubled(facts, pairing, rule):
            eager = _eager_unlike(row, facts)
            if eager is None:
                continue
            fields = {
                "path": SPOKEN[row.path],
                "found": spoken(row.boundaries),
                "expected": f"nothing, as {eager.raised} is raised" if eager.raised else spoken(eager.boundaries),
                "subject": row.runner,
            }
            last = row.told[-1] if row.told else None
            later = [told for told in eager.told[len(row.told) :] if told.place is not None]
            key = "earlier" if later else "differ"
            after = tuple(Step(told.place, "what comes after it is told later") for told in later if told.place)
            place = last.place if last is not None else _kept_at(row)
            yield _finding(rule, row, rule.message(key, **fields), place, (*row.chain, *after), rule.fix)
        yield from _phases(facts, pairing, rule)

    return merged(found())


def _phases(facts: PairFacts, pairing: Pairing, rule: Rule) -> Iterator[Finding]:
    """Eager forwards of two phases that capture different boundaries."""
    eager = [row for row in facts.rows if row.path is Path.EAGER and row.is_known]
    for row in eager:
        others = [other for other in eager if other.phase is not row.phase and other.condition == row.condition]
        for other in others:
            settled = pairing.trained.reading
            if other.boundaries == row.boundaries or (settled is not None and fits(row, settled)):
                continue
            fields = {"phase": row.phase.value, "found": spoken(row.boundaries), "expected": spoken(other.boundaries)}
            message = rule.message("phases", path=other.phase.value, **fields)
            yield _finding(rule, row, message, _kept_at(row), row.chain, rule.fix)


def partial_sums(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS209: what is captured is one rank's part of a sum."""
    return merged(_reaching(facts, rule, Reach.PARTIAL))


def rows_lost(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS210: what is captured has not the rows of the batch: one rank's alone, some of them, or those of all replicas."""

    def found() -> Iterator[Finding]:
        yield from _reaching(facts, rule, Reach.SCATTERED)
        for row in facts.rows:
            for state in row.states:
                if state.reach is not Reach.SCATTERED and state.rows != ALL_ROWS and state.certain:
                    message = rule.message("others", found=state.rows)
                    yield _finding(rule, row, message, state.place, row.chain, rule.fix)
                    break

    return merged(found())


def _reaching(facts: PairFacts, rule: Rule, reach: Reach) -> Iterator[Finding]:
    for row in facts.rows:
        bad = [state for state in row.states if state.reach is reach and (state.certain or state.boundary is not None)]
        for state in bad[:1]:
            message = rule.message("all" if len(bad) == len(row.states) else "some", found=describe(state))
            yield _finding(rule, row, message, state.place, row.chain, rule.fix)


def capture_unproved(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS219: what a path captures is not known, or how the draft takes it in."""

    def found() -> Iterator[Finding]:
        if facts.open:
            yield _unproved(rule, rule.message("open", reason=facts.open), None, (), ())
        for row in facts.rows:
            unsure = next((state for state in row.states if not state.certain), None)
            if row.question:
                message = rule.message("unknown", reason=row.question)
                yield _unproved(rule, message, row.processor or _kept_at(row), row.chain, (row,))
            elif unsure is not None and not row.raised:
                message = rule.message("state", reason=unsure.reason)
                yield _unproved(rule, message, unsure.place, row.chain, (row,))
            elif (why := _why_taken_open(facts)) and not row.raised and facts.intake is not None:
                message = rule.message("draft", subject=facts.intake.model_class, reason=why)
                layer = facts.intake.projection
                place = layer.place if layer is not None else facts.intake.place
                yield _unproved(rule, message, place, row.chain, (row,))

    return merged(found())


LAYER_CHECKS: Mapping[str, Check] = {
    "HS201": boundaries_differ,
    "HS202": never_captured,
    "HS203": embedding_captured,
    "HS204": no_hook,
    "HS205": paths_disagree,
    "HS209": partial_sums,
    "HS210": rows_lost,
    "HS219": capture_unproved,
}


def layer_findings(facts: PairFacts, pairing: Pairing, rules: RuleBook) -> tuple[Finding, ...]:
    """All findings about the boundaries that a tree captures for a pair."""
    return ordered(each for rule_id, check in LAYER_CHECKS.items() for each in check(facts, pairing, rules[rule_id]))


# ----------------------------------------------------------------------------------------------------------- helpers
SPOKEN = {
    Path.EAGER: "the eager forward",
    Path.DECODE_GRAPH: "the decode graph",
    Path.PREFILL_GRAPH: "the prefill graph",
}


def _troubled(facts: PairFacts, pairing: Pairing, rule: Rule) -> Iterator[CaptureRow]:
    return (row for row in facts.rows if _trouble(row, facts, pairing.trained) == rule.id)


def _kept_at(row: CaptureRow) -> Place | None:
    """Where the answer to the ids was stored; where the target was told, if nothing was."""
    places = [place for left in row.left[:1] for place in left.places]
    told = [each.place for each in row.told if each.place is not None]
    captured = [state.place for state in row.states if state.place is not None]
    return next(iter((*places[-1:], *told[-1:], *captured[:1])), None)


def _repair(facts: PairFacts, rule: Rule) -> str:
    repair: Repair | None = facts.repair
    if repair is None or not (repair.ids or repair.certain):
        return rule.fix
    if not repair.ids:
        return rule.fix_of("unreachable", reason=repair.reason, expected=spoken(repair.boundaries))
    ids = f"[{', '.join(map(str, repair.ids))}]"
    return rule.fix_of("ids", found=ids, expected=spoken(repair.boundaries))


def _finding(
    rule: Rule, row: CaptureRow, message: str, place: Place | None, evidence: tuple[Step, ...], fix: str
) -> Finding:
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        verdict=Verdict.VIOLATED,
        message=message,
        place=place,
        phase=None,
        mode="",
        evidence=evidence,
        fix=fix,
        subjects=(row,),
    )


def _unproved(
    rule: Rule, message: str, place: Place | None, evidence: tuple[Step, ...], subjects: tuple[CaptureRow, ...]
) -> Finding:
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        verdict=Verdict.UNPROVED,
        message=message,
        place=place,
        phase=None,
        mode="unknown",
        evidence=evidence,
        fix=rule.fix,
        subjects=subjects,
    )
