"""Runs the checks over the facts, counts the verdicts, and picks what a user wants to see.

The table :data:`CHECKS` binds each rule's id to its function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flowcheck.checks import capture_mode
from flowcheck.checks.findings import Finding, ModeSubject, Verdict
from flowcheck.checks.rules import Rule, RuleBook, Severity
from flowcheck.flow.facts import Facts, Flow, Open

__all__ = ["CHECKS", "Selection", "Verdicts", "ordered", "run_checks", "selection", "verdicts"]

Check = Callable[[Facts, Rule], list[Finding]]

CHECKS: Mapping[str, Check] = {
    "HS101": capture_mode.extend_not_full,
    "HS102": capture_mode.verify_not_full,
    "HS103": capture_mode.mode_lost,
    "HS104": capture_mode.graph_recorded_lower,
    "HS109": capture_mode.mode_unproved,
}


def run_checks(facts: Facts, rules: RuleBook) -> tuple[Finding, ...]:
    """All findings, the heaviest first, then by rule and place."""
    return ordered(finding for rule_id, check in CHECKS.items() for finding in check(facts, rules[rule_id]))


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings of all kinds in the order in which a report shows them."""
    return tuple(sorted(findings, key=_order))


def _order(finding: Finding) -> tuple[int, int, str, str, int, int, str]:
    path, line, column = ("", 0, 0)
    if finding.place is not None:
        path, line, column = finding.place.path, finding.place.span.line, finding.place.span.column
    return (-finding.verdict.weight, -finding.severity.weight, finding.rule, path, line, column, finding.message)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How each flow and each open question ends (None: nobody asks), with the rules that spoke, and the counts.

    ``flows`` and ``open`` run beside the facts' own tuples. A question is one phase, path and worker, or one thing that
    stayed open; it ends as badly as the worst of what answers it.
    """

    flows: tuple[Verdict | None, ...]
    open: tuple[Verdict | None, ...]
    rules: tuple[tuple[str, ...], ...]
    open_rules: tuple[tuple[str, ...], ...]
    proved: int
    violated: int
    unproved: int


def verdicts(facts: Facts, findings: Sequence[Finding]) -> Verdicts:
    """The verdicts that all findings together (unselected) give."""
    spoken: dict[int, list[Finding]] = {}
    for finding in findings:
        for subject in finding.subjects:
            spoken.setdefault(id(subject), []).append(finding)

    def ends(subject: ModeSubject) -> Verdict | None:
        if not capture_mode.asks(subject):
            return None
        heard = [finding.verdict for finding in spoken.get(id(subject), ())]
        if heard:
            return max(heard, key=lambda verdict: verdict.weight)
        silent_proof = isinstance(subject, Flow) and not capture_mode.diagnose(subject)
        return Verdict.PROVED if silent_proof else Verdict.UNPROVED

    def named(subject: ModeSubject) -> tuple[str, ...]:
        return tuple(sorted({finding.rule for finding in spoken.get(id(subject), ())}))

    questions: dict[tuple[object, ...], Verdict] = {}

    def answer(question: tuple[object, ...], verdict: Verdict | None) -> None:
        if verdict is not None:
            known = questions.get(question, verdict)
            questions[question] = max(known, verdict, key=lambda each: each.weight)

    flows, open_ = tuple(map(ends, facts.flows)), tuple(map(ends, facts.open))
    subjects: tuple[ModeSubject, ...] = (*facts.flows, *facts.open)
    for subject, verdict in zip(subjects, (*flows, *open_), strict=True):
        answer(_question(subject), verdict)
    for finding in findings:
        if not finding.subjects and finding.severity is not Severity.NOTE:
            answer((finding.rule, finding.message), finding.verdict)
    count = list(questions.values()).count
    return Verdicts(
        flows=flows,
        open=open_,
        rules=tuple(map(named, facts.flows)),
        open_rules=tuple(map(named, facts.open)),
        proved=count(Verdict.PROVED),
        violated=count(Verdict.VIOLATED),
        unproved=count(Verdict.UNPROVED),
    )


def _question(subject: ModeSubject) -> tuple[object, ...]:
    if isinstance(subject, Open) and not (subject.phase and subject.path and subject.worker):
        return (subject.question, subject.worker, subject.phase, subject.path)
    return (subject.phase, subject.path, subject.worker)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rules whose findings are shown and decide the exit code."""

    rules: frozenset[str]

    def keeps(self, finding: Finding) -> bool:
        """Whether a finding is shown."""
        return finding.rule in self.rules


def selection(rules: RuleBook, select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Selection:
    """The rules that ``--select`` and ``--ignore`` leave: comma-separated ids or prefixes, repeated at will."""
    chosen = _ids(rules, select) or frozenset(rule.id for rule in rules)
    return Selection(chosen - _ids(rules, ignore))


def _ids(rules: RuleBook, given: Iterable[str]) -> frozenset[str]:
    words = [word for option in given for word in option.split(",") if word.strip()]
    return frozenset().union(*(rules.matching(word) for word in words))
