"""Whether a target class hands on what it is told to capture, with no draft in mind: HS202, HS204, HS206–HS213, class by class.

A cell is the answer to one question about one class. What several classes share (the same place, the same words) is one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flowcheck.checks.findings import ClassSubject, Finding, Question, Verdict, merged
from flowcheck.checks.rules import RuleBook, Severity
from flowcheck.checks.run import ordered
from flowcheck.flow.class_facts import ClassFacts, ClassRun, Purpose
from flowcheck.flow.facts import Place
from flowcheck.flow.pair_facts import ALL_ROWS, Reach, describe, spoken

__all__ = ["CLASS_RULES", "Cell", "ClassEnd", "ClassSubject", "Question", "class_ends", "class_findings"]

UNPROVED = "HS219"
CLASS_RULES = frozenset(
    {"HS202", "HS204", "HS206", "HS207", "HS208", "HS209", "HS210", "HS211", "HS212", "HS213", UNPROVED}
)


@dataclass(frozen=True, slots=True)
class Cell:
    """An answer. ``rule`` spoke of it ("" for a proof); ``key`` and ``fields`` make its message; ``condition``: the deployment
    that it holds for."""

    question: Question
    verdict: Verdict
    rule: str = ""
    key: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    place: Place | None = None
    condition: str = ""


@dataclass(frozen=True, slots=True)
class ClassEnd:
    """All answers about one class, none where it cannot be told what to capture and has no part that can."""

    facts: ClassFacts
    cells: tuple[Cell, ...]

    def verdict(self, question: Question) -> Verdict | None:
        """The worst answer to a question; None where it was not asked."""
        found = [cell.verdict for cell in self.cells if cell.question is question]
        return max(found, key=lambda verdict: verdict.weight) if found else None

    @property
    def left(self) -> tuple[tuple[str, str], ...]:
        """The deployments that were not asked, and why: a class that cannot run so captures nothing wrong there."""
        return tuple(
            (run.deployment, run.unfit or f"the tree refuses it: {run.raised} is raised")
            for run in self.facts.runs
            if run.deployment and (run.unfit or run.deliberate)
        )


def class_ends(facts: Iterable[ClassFacts]) -> tuple[ClassEnd, ...]:
    """The answers about every class."""
    return tuple(ClassEnd(each, tuple(_cells(each))) for each in facts)


def class_findings(
    ends: Sequence[ClassEnd], rules: RuleBook, *, asked: frozenset[str] = frozenset()
) -> tuple[Finding, ...]:
    """All findings. They are notes, but for classes in ``asked``: a fork's own models fail a scan where somebody names them."""

    def found() -> Iterator[Finding]:
        for end in ends:
            for cell in end.cells:
                if cell.rule:
                    yield _finding(end.facts, cell, rules, end.facts.cls.name in asked)

    return ordered(merged(found()))


def _finding(facts: ClassFacts, cell: Cell, rules: RuleBook, asked: bool) -> Finding:
    rule = rules[cell.rule]
    fields = dict(cell.fields)
    return Finding(
        rule=rule.id,
        severity=rule.severity_of(cell.key) if asked else Severity.NOTE,
        verdict=cell.verdict,
        message=rule.message(cell.key, **fields),
        place=cell.place,
        phase=None,
        mode="",
        evidence=(),
        fix=rule.fix_of(cell.key, **fields),
        subjects=(ClassSubject(facts.cls.name, cell.question, cell.condition),),
    )


# ------------------------------------------------------------------------------------------------------------- cells
def _cells(facts: ClassFacts) -> Iterator[Cell]:
    cls = facts.cls
    if not cls.hook:
        if cls.inner:
            yield _violated(Question.HOOK, "HS206", "wrapper", cls.place, subject=cls.name, found=", ".join(cls.inner))
        elif cls.unset:
            yield _violated(Question.HOOK, "HS206", "unset", cls.place, subject=cls.name, found=", ".join(cls.unset))
        return
    if cls.lacks and cls.computed:
        yield _open(Question.HOOK, f"{', '.join(cls.lacks)} may be computed by the class", cls.place)
    elif cls.lacks:
        yield _violated(Question.HOOK, "HS206", "lacks", cls.place, keys=", ".join(cls.lacks))
    else:
        yield Cell(Question.HOOK, Verdict.PROVED)
    plain = [run for run in facts.runs if not run.deployment and run.purpose is Purpose.INNER]
    extend = [run for run in plain if run.phase == "extend"]
    untold = next((run for run in facts.runs if run.purpose is Purpose.UNTOLD), None)
    if not extend:
        return
    if untold is not None and (untold.raised or untold.question):
        reason = untold.question or f"{untold.raised} is raised whatever the class is told"
        yield _open(Question.VALUE, reason, untold.raised_at or cls.place)
        return
    trouble = next((cell for run in extend for cell in _trouble(run)), None)
    if trouble is not None:
        yield trouble
        return
    yield Cell(Question.READ, Verdict.PROVED)
    values = [cell for run in extend for cell in _values(run)]
    for question, cells in (
        (Question.VALUE, values),
        (Question.AUX, [cell for run in extend for cell in _concat(run)]),
        (Question.PATHS, [cell for run in plain if run.phase != "extend" for cell in _phase(run, extend[0])]),
        (Question.SAME, [] if values else list(_same(facts, extend[0]))),
        (Question.ENDS, [] if values else list(_ends(facts))),
        (Question.SUMS, list(_sums(facts.runs))),
        (Question.ROWS, list(_rows(facts.runs))),
    ):
        if not cells and not (values and question in (Question.SAME, Question.ENDS)):
            yield Cell(question, Verdict.PROVED)
        yield from _first_of_each(cells)
    again = next((run for run in facts.runs if run.purpose is Purpose.AGAIN), None)
    if again is not None and (again.question or _unknown(again)):
        yield _open(Question.READ, again.question or _unknown(again), again.processor)
    elif again is not None and again.boundaries != extend[0].boundaries:
        expected, found = spoken(extend[0].boundaries), again.raised or spoken(again.boundaries)
        yield _violated(Question.READ, "HS207", "again", _told_at(facts), expected=expected, found=found)


def _trouble(run: ClassRun) -> Iterator[Cell]:
    """Why nothing, or not all, is captured of what lies between layers."""
    ids = run.told[-1] or ()
    fields = {"keys": spoken(ids)}
    if run.question:
        yield _open(Question.VALUE, run.question, run.processor)
    elif run.raised and run.in_setter:
        yield _violated(Question.READ, "HS202", "setter", run.raised_at, found=run.raised, **fields)
    elif run.raised or not run.states:
        after = f", and {run.raised} is raised" if run.raised else ""
        rule, key = ("HS212", "dropped") if run.kept else ("HS207", "unread")
        question = Question.AUX if run.kept else Question.READ
        yield _violated(question, rule, key, run.raised_at or run.processor, reason=after, **fields)
    elif all(state.certain for state in run.states) and len(run.states) != len(ids):
        found = spoken(run.boundaries)
        yield _violated(Question.READ, "HS207", "some", _kept_at(run), found=found, **fields)


def _values(run: ClassRun) -> Iterator[Cell]:
    """Whether what is captured is the residual stream."""
    for state in run.states:
        if not state.certain:
            yield _open(Question.VALUE, state.reason, state.place)
            return
        if state.overwritten is not None and state.meant is not None and state.meant != state.name:
            fields = {"keys": str(state.meant), "reason": describe(state)}
            yield _violated(Question.VALUE, "HS208", "overwritten", state.place, **fields)
            return
        if state.name is None:
            yield _violated(Question.VALUE, "HS208", "odd", state.place, reason=describe(state))
            return


def _concat(run: ClassRun) -> Iterator[Cell]:
    """Whether the states come out of the logits processor side by side."""
    if run.width is None:
        yield _open(
            Question.AUX, "the width of what the logits processor hands on is not known", run.concat or run.processor
        )
        return
    widths = [state.width for state in run.states]
    if not all(each.isdecimal() for each in (*widths, run.width)):
        yield _open(Question.AUX, "how wide captured states are is not known", run.concat or run.processor)
    elif sum(map(int, widths)) != int(run.width):
        fields = {"expected": str(sum(map(int, widths))), "found": run.width}
        yield _violated(Question.AUX, "HS212", "width", run.concat or run.processor, **fields)


def _phase(run: ClassRun, extend: ClassRun) -> Iterator[Cell]:
    """Whether a verify captures what an extend captures."""
    if run.question or _unknown(run):
        yield _open(Question.PATHS, run.question or _unknown(run), run.processor)
    elif run.raised or run.boundaries != extend.boundaries:
        expected, found = spoken(extend.boundaries), run.raised or spoken(run.boundaries)
        place = run.raised_at or _kept_at(run) or run.processor
        yield _violated(Question.PATHS, "HS211", "phase", place, phase=run.phase, expected=expected, found=found)


def _same(facts: ClassFacts, explicit: ClassRun) -> Iterator[Cell]:
    """Whether ids that the class chooses by itself are captured as those that it is given."""
    run = next((run for run in facts.runs if run.purpose is Purpose.DEFAULT), None)
    if run is None:
        return
    if run.question:
        yield _open(Question.SAME, run.question, run.processor)
    elif run.raised or not run.states:
        found = run.raised or "nothing"
        yield _violated(Question.SAME, "HS213", "default", run.raised_at or run.processor, found=found)
    elif any(not state.certain for state in run.states):
        unsure = next(state for state in run.states if not state.certain)
        yield _open(Question.SAME, unsure.reason, unsure.place)
    elif not set(run.boundaries) <= {*explicit.boundaries, 0, run.layers, *range(run.layers)} or None in run.boundaries:
        yield _violated(Question.SAME, "HS213", "default", _kept_at(run), found=spoken(run.boundaries))


def _ends(facts: ClassFacts) -> Iterator[Cell]:
    """What becomes of ids for the embedding and for the last layer: captured, refused in words, or lost."""
    for run in facts.runs:
        if run.purpose not in (Purpose.FIRST, Purpose.LAST):
            continue
        ids = run.told[-1] or ()
        wanted = 0 if run.purpose is Purpose.FIRST else run.layers
        asked = ids[0] if run.purpose is Purpose.FIRST else ids[-1]
        if asked < 0 or run.deliberate:
            continue  # no draft writes such an id; and what is refused in words is not lost
        fields = {"keys": str(asked), "subject": str(wanted)}
        if run.question:
            yield _open(Question.ENDS, run.question, run.processor)
        elif run.raised:
            yield _violated(Question.ENDS, "HS202", "end-raises", run.raised_at, found=run.raised, **fields)
        elif _unknown(run):
            yield _open(Question.ENDS, _unknown(run), run.processor)
        elif wanted not in run.boundaries:
            found = spoken(run.boundaries)
            yield _violated(
                Question.ENDS, "HS202", "end-dropped", _kept_at(run) or facts.cls.hook_at, found=found, **fields
            )


def _sums(runs: Sequence[ClassRun]) -> Iterator[Cell]:
    for run in _shared(runs):
        bad = [s for s in run.states if s.reach is Reach.PARTIAL and s.boundary is not None]
        if bad:
            key = "all" if len(bad) == len(run.states) else "some"
            yield _violated(Question.SUMS, "HS209", key, bad[0].place, run.deployment, found=describe(bad[0]))
        else:
            yield from _unsure(run, Question.SUMS)


def _rows(runs: Sequence[ClassRun]) -> Iterator[Cell]:
    for run in _shared(runs):
        scattered = [s for s in run.states if s.reach is Reach.SCATTERED and (s.certain or s.boundary is not None)]
        others = [s for s in run.states if s.certain and s.reach is not Reach.SCATTERED and s.rows != ALL_ROWS]
        if scattered:
            key = "all" if len(scattered) == len(run.states) else "some"
            yield _violated(
                Question.ROWS, "HS210", key, scattered[0].place, run.deployment, found=describe(scattered[0])
            )
        elif others:
            place, found = others[0].place, others[0].rows
            yield _violated(Question.ROWS, "HS210", "others", place, run.deployment, found=found)
        else:
            yield from _unsure(run, Question.ROWS)


def _shared(runs: Sequence[ClassRun]) -> Iterator[ClassRun]:
    """The runs on ranks that share the work otherwise, but for those that the class refuses or is not made for."""
    for run in runs:
        if run.purpose is Purpose.INNER and run.phase == "extend" and not (run.deliberate or run.unfit):
            yield run


def _unsure(run: ClassRun, question: Question) -> Iterator[Cell]:
    """Why a run says nothing, where it does not."""
    reason = run.question or (f"{run.raised} is raised" if run.raised else "") or _unknown(run)
    if not reason and not run.states:
        reason = "nothing is captured"
    if reason:
        place = next((state.place for state in run.states if not state.certain), None)
        yield _open(question, reason, run.raised_at or place or run.processor, run.deployment)


def _unknown(run: ClassRun) -> str:
    """Why a captured state is not known, "" where all are."""
    return next((state.reason or "a captured state is not known" for state in run.states if not state.certain), "")


def _first_of_each(cells: Iterable[Cell]) -> Iterator[Cell]:
    """The cells, one of those that say the same of the same place under the same condition."""
    yield from dict.fromkeys(cells)


def _violated(question: Question, rule: str, key: str, place: Place | None, condition: str = "", **fields: str) -> Cell:
    return Cell(question, Verdict.VIOLATED, rule, key, tuple(sorted(fields.items())), place, condition)


def _open(question: Question, reason: str, place: Place | None, condition: str = "") -> Cell:
    return Cell(question, Verdict.UNPROVED, UNPROVED, "unknown", (("reason", reason),), place, condition)


def _kept_at(run: ClassRun) -> Place | None:
    return next((state.place for state in run.states if state.place is not None), None)


def _told_at(facts: ClassFacts) -> Place | None:
    return facts.cls.hook_at or facts.cls.place
