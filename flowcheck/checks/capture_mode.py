"""HS1xx, the capture mode: does every target extend and every target verify capture FULL?

:func:`diagnose` says everything that is wrong with one flow, or nothing, which is a proof. One function per rule takes
its share of that and words it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flowcheck.checks.findings import Finding, ModeSubject, Verdict, merged
from flowcheck.checks.rules import Rule, Severity
from flowcheck.flow.facts import Facts, Flow, Mode, Open, Path, Phase, Place, Step

__all__ = [
    "ORDER",
    "REQUIRED",
    "Blame",
    "asks",
    "diagnose",
    "extend_not_full",
    "graph_recorded_lower",
    "mode_lost",
    "mode_unproved",
    "verify_not_full",
]

ORDER = ("NULL", "LAST", "FULL")
"""The members of the enum that the facts name, lowest first."""
REQUIRED = ORDER[-1]

LOST = frozenset({"None", "unset"})
JUDGED = (Phase.EXTEND, Phase.VERIFY)


@dataclass(frozen=True, slots=True)
class Blame:
    """One thing that is wrong with a flow, and the mode that shows it.

    ``kind``: "low" (the batch asks for too little), "none" and "unset" (it asks for nothing), "lost" (what reaches the
    logits processor is not what the batch asks for), "recorded" (the graph has a lower mode than the batch asks for),
    and, as reasons why nothing can be proved, "unknown", "unlisted", "recorded-unknown".
    """

    kind: str
    mode: Mode


def asks(subject: ModeSubject) -> bool:
    """Whether the capture mode of this flow or open question is anybody's concern."""
    if isinstance(subject, Open):
        return subject.phase is None or subject.phase in JUDGED
    return subject.consumed and subject.phase in JUDGED


def diagnose(flow: Flow) -> tuple[Blame, ...]:
    """Everything that keeps a flow from being proved. Empty: the mode is FULL on every alternative."""
    return tuple(_eager(flow) if flow.path is Path.EAGER else _graph(flow))


def _eager(flow: Flow) -> Iterator[Blame]:
    if not flow.reached:
        yield Blame("unknown", Mode("unknown", reason="no mode reaches the logits processor"))
    open_request = not flow.asked or any(asked.member == "unknown" for asked in flow.asked)
    for reached in flow.reached:
        if reached.member == REQUIRED:
            continue
        if (doubt := _doubt(reached)) is not None:
            yield doubt
            continue
        sources = [asked for asked in flow.asked if asked.member == reached.member or asked.member in LOST]
        if sources:
            yield from (_request(asked) for asked in sources)
        else:
            yield _request(reached) if open_request else Blame("lost", reached)


def _graph(flow: Flow) -> Iterator[Blame]:
    if not flow.asked:
        yield Blame("unknown", Mode("unknown", reason="no mode of the replayed batch was found"))
    if not flow.reached:
        yield Blame("recorded-unknown", Mode("unknown", reason="no recording was found"))
    for asked in flow.asked:
        if asked.member != REQUIRED:
            yield _doubt(asked) or _request(asked)
    highest = max((_rank(asked) for asked in flow.asked), default=-1)
    for recorded in flow.reached:
        if _doubt(recorded) is not None:
            yield Blame("recorded-unknown" if recorded.member == "unknown" else "unlisted", recorded)
        elif _rank(recorded) < highest:
            yield Blame("recorded", recorded)


def _doubt(mode: Mode) -> Blame | None:
    if mode.member == "unknown":
        return Blame("unknown", mode)
    if mode.member not in ORDER and mode.member not in LOST:
        return Blame("unlisted", mode)
    return None


def _request(mode: Mode) -> Blame:
    return Blame({"None": "none", "unset": "unset"}.get(mode.member, "low"), mode)


def _rank(mode: Mode) -> int:
    return ORDER.index(mode.member) if mode.member in ORDER else -1


# ------------------------------------------------------------------------------------------------------------- rules
def extend_not_full(facts: Facts, rule: Rule) -> list[Finding]:
    """HS101: a target extend asks for less than FULL, or never reaches a forward that returns."""
    return merged(_not_full(facts, rule, Phase.EXTEND))


def verify_not_full(facts: Facts, rule: Rule) -> list[Finding]:
    """HS102: a target verify asks for less than FULL, or never reaches a forward that returns."""
    return merged(_not_full(facts, rule, Phase.VERIFY))


def mode_lost(facts: Facts, rule: Rule) -> list[Finding]:
    """HS103: the mode is lost or overwritten on the way to the logits processor, or it ends as None."""

    def found() -> Iterator[Finding]:
        for flow, blame in _blames(facts, "lost", "none", "unset"):
            place = _end(blame.mode, flow) if blame.kind == "lost" else _origin(blame.mode, flow)
            message = rule.message(
                blame.kind,
                phase=flow.phase.value,
                mode=blame.mode.member,
                asked=_members(flow.asked),
                required=REQUIRED,
            )
            yield _violation(rule, flow, message, place, blame.mode)

    return merged(found())


def graph_recorded_lower(facts: Facts, rule: Rule) -> list[Finding]:
    """HS104: a graph was recorded with a lower mode than a batch that it replays asks for.

    Where the tree refuses such a replay, the hidden states are right and the graph is only unused.
    """
    refused_severity = Severity(rule.parameters["refused_severity"])

    def found() -> Iterator[Finding]:
        for flow, blame in _blames(facts, "recorded"):
            asked = max(flow.asked, key=_rank)
            message = rule.message(
                "refused" if flow.replay_guard else "replayed",
                phase=flow.phase.value,
                path=_spoken(flow.path),
                mode=blame.mode.member,
                asked=asked.member,
                required=REQUIRED,
            )
            request = Step(_origin(asked, flow), f"the replayed batch asks for {asked.member}")
            yield Finding(
                rule=rule.id,
                severity=refused_severity if flow.replay_guard else rule.severity,
                verdict=Verdict.VIOLATED,
                message=message,
                place=_origin(blame.mode, flow),
                phase=flow.phase,
                mode=blame.mode.member,
                evidence=(*blame.mode.evidence, request),
                fix=rule.fix,
                subjects=(flow,),
            )

    return merged(found())


def mode_unproved(facts: Facts, rule: Rule) -> list[Finding]:
    """HS109: a question that nobody answered, or that nobody asked because the forward was not found."""

    def found() -> Iterator[Finding]:
        for flow, blame in _blames(facts, "unknown", "unlisted", "recorded-unknown"):
            message = rule.message(
                blame.kind.removesuffix("-unknown"),
                phase=flow.phase.value,
                path=_spoken(flow.path),
                mode=blame.mode.member,
                reason=blame.mode.reason or "no reason was recorded",
                order=", ".join(ORDER),
                required=REQUIRED,
            )
            evidence = blame.mode.evidence or flow.chain
            yield _unproved(rule, message, _origin(blame.mode, flow), flow.phase, evidence, flow)
        for open_ in facts.open:
            if asks(open_) and not _is_violation(open_):
                message = rule.message("open", question=open_.question, reason=open_.reason)
                yield _unproved(rule, message, open_.place, open_.phase, (), open_)
        for subject, phase in _absent(facts):
            yield _unproved(rule, rule.message("absent", subject=subject), None, phase, (), None)

    return merged(found())


# ----------------------------------------------------------------------------------------------------------- helpers
def _not_full(facts: Facts, rule: Rule, phase: Phase) -> Iterator[Finding]:
    for flow, blame in _blames(facts, "low"):
        if flow.phase is phase:
            message = rule.message("low", phase=phase.value, mode=blame.mode.member, required=REQUIRED)
            yield _violation(rule, flow, message, _origin(blame.mode, flow), blame.mode)
    for open_ in facts.open:
        if open_.phase is phase and _is_violation(open_):
            yield Finding(
                rule=rule.id,
                severity=rule.severity,
                verdict=Verdict.VIOLATED,
                message=rule.message("raises", phase=phase.value, reason=open_.reason, question=open_.question),
                place=open_.place,
                phase=phase,
                mode="",
                evidence=(),
                fix=rule.fix,
                subjects=(open_,),
            )


def _blames(facts: Facts, *kinds: str) -> Iterator[tuple[Flow, Blame]]:
    for flow in facts.flows:
        if asks(flow):
            yield from ((flow, blame) for blame in diagnose(flow) if blame.kind in kinds)


def _is_violation(open_: Open) -> bool:
    return open_.kind == "raises" and open_.phase in JUDGED


def _absent(facts: Facts) -> Iterator[tuple[str, Phase | None]]:
    """What the facts are silent about. A flow that vanishes is never a pass."""
    subjects: tuple[ModeSubject, ...] = (*facts.flows, *facts.open)
    for phase in JUDGED:
        if not any(subject.phase in (phase, None) for subject in subjects):
            yield phase.value, phase
    for worker in facts.workers:
        if not any(subject.worker in (worker, "") for subject in subjects):
            yield worker, None


def _violation(rule: Rule, flow: Flow, message: str, place: Place, mode: Mode) -> Finding:
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        verdict=Verdict.VIOLATED,
        message=message,
        place=place,
        phase=flow.phase,
        mode=mode.member,
        evidence=mode.evidence or flow.chain,
        fix=rule.fix,
        subjects=(flow,),
    )


def _unproved(
    rule: Rule,
    message: str,
    place: Place | None,
    phase: Phase | None,
    evidence: tuple[Step, ...],
    subject: Flow | Open | None,
) -> Finding:
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        verdict=Verdict.UNPROVED,
        message=message,
        place=place,
        phase=phase,
        mode="unknown",
        evidence=evidence,
        fix=rule.fix,
        subjects=() if subject is None else (subject,),
    )


def _origin(mode: Mode, flow: Flow) -> Place:
    return mode.evidence[0].place if mode.evidence else flow.call


def _end(mode: Mode, flow: Flow) -> Place:
    return mode.evidence[-1].place if mode.evidence else flow.call


def _members(modes: tuple[Mode, ...]) -> str:
    return " or ".join(dict.fromkeys(mode.member for mode in modes))


def _spoken(path: Path) -> str:
    return {Path.DECODE_GRAPH: "the decode graph", Path.PREFILL_GRAPH: "the prefill graph"}.get(path, path.value)
