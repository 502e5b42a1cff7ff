"""Builds the report from facts and findings. Pure: whatever it needs to know is handed in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowcheck.checks import findings as found
from flowcheck.checks.capture_mode import ORDER, REQUIRED
from flowcheck.checks.findings import ClassSubject
from flowcheck.checks.rules import RuleBook, Severity
from flowcheck.checks.run import Selection, Verdicts, verdicts
from flowcheck.flow import facts as known
from flowcheck.flow.pair_facts import CaptureRow
from flowcheck.report import model
from flowcheck.report.fingerprint import Fingerprints
from flowcheck.report.source_text import Lines, ReadText, plain

if TYPE_CHECKING:
    from flowcheck.checks.capture_layers import RowEnd
    from flowcheck.checks.class_wiring import ClassEnd
    from flowcheck.draft import Pairing
    from flowcheck.flow.pair_facts import PairFacts

__all__ = ["SourceInfo", "Timing", "build_pair_report", "build_report", "scenario_part", "source_part"]


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """What the report says about the tree that was read."""

    kind: str
    label: str
    root: str
    package: str
    version: str | None
    digest: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """What the scan cost in time; ``cached`` is False where the cache was turned off."""

    wall_seconds: float
    cpu_seconds: float
    cached: bool = True


def build_report(
    facts: known.Facts,
    findings: Sequence[found.Finding],
    *,
    rules: RuleBook,
    selected: Selection,
    source: SourceInfo,
    algorithm: str,
    version: str,
    timing: Timing,
    read_text: ReadText,
    pairing: Pairing | None = None,
    served: PairFacts | None = None,
    launch: str | None = None,
    classes: Sequence[ClassEnd] | None = None,
) -> model.Report:
    """The report of one scan. ``findings`` are all that the checks found; ``selected`` says which of them are shown.

    ``pairing`` is the pair that the scan is about, ``served`` what the tree makes of it, ``launch`` the script that its
    scenario is from. ``classes`` are the answers about every target class, None where nobody asks.
    """
    lines = Lines(read_text)
    ends = verdicts(facts, findings)
    left = _left_of(pairing)
    rows = _row_ends(served, pairing, findings)
    row_verdicts = [row.verdict for row in rows]
    shown = [finding for finding in findings if selected.keeps(finding)]
    reported = _findings(shown, rules, lines, source.root)
    rows_of_classes = _class_rows(classes, rules)
    return model.Report(
        tool=model.Tool(name="flowcheck", version=version),
        source=source_part(source),
        scenario=scenario_part(algorithm, facts.scenario, launch),
        pairing=_pairing(pairing),
        summary=model.Summary(
            proved=ends.proved + row_verdicts.count(found.Verdict.PROVED),
            violated=ends.violated + row_verdicts.count(found.Verdict.VIOLATED),
            unproved=ends.unproved + len(left) + row_verdicts.count(found.Verdict.UNPROVED),
            findings=_counts(reported),
            hidden=len(findings) - len(shown),
            classes=_class_counts(rows_of_classes) if classes is not None else None,
        ),
        flows=_flows(facts, ends),
        capture=_capture(served, rows, pairing),
        intake=_intake(served),
        classes=rows_of_classes,
        assumptions=[*_assumptions(facts), *_assumed_for(served), *_assumed_of_classes(classes)],
        findings=reported,
        unproved=[*left, *_unproved(findings), *_open_rows(rows)],
        call_graph=_call_graph(facts),
        stats=_stats(facts, timing),
    )


def source_part(source: SourceInfo) -> model.Source:
    """The tree that was read, as a part of the report."""
    return model.Source(
        kind=source.kind,
        root=source.root,
        version=source.version,
        digest=source.digest,
        label=plain(source.label),
        package=source.package,
        warnings=[plain(warning) for warning in source.warnings],
    )


def scenario_part(algorithm: str, settings: Iterable[tuple[str, str]], launch: str | None) -> model.Scenario:
    """What the deployment fixes, as a part of the report."""
    return model.Scenario(
        algorithm=plain(algorithm),
        settings={plain(key): plain(value) for key, value in sorted(settings) if key != "algorithm"},
        launch=plain(launch) if launch else None,
    )


def build_pair_report(
    pairing: Pairing,
    findings: Sequence[found.Finding],
    *,
    rules: RuleBook,
    selected: Selection,
    algorithm: str,
    version: str,
    timing: Timing,
) -> model.Report:
    """The report of a pair that no tree was asked about."""
    from flowcheck.report.pairing import digest_of, left_without_tree, pairing_part

    shown = [finding for finding in findings if selected.keeps(finding)]
    reported = _findings(shown, rules, Lines(lambda _: None), "")
    left = left_without_tree(pairing, algorithm)
    ends = [finding.verdict for finding in findings if finding.severity is not Severity.NOTE]
    draft, target = plain(pairing.draft.label), plain(pairing.target.label)
    return model.Report(
        tool=model.Tool(name="flowcheck", version=version),
        source=model.Source(
            kind="pair", root="", version=None, digest=digest_of(pairing), label=f"{draft} with {target}", package=""
        ),
        scenario=model.Scenario(algorithm=plain(algorithm)),
        pairing=pairing_part(pairing),
        summary=model.Summary(
            proved=0,
            violated=ends.count(found.Verdict.VIOLATED),
            unproved=ends.count(found.Verdict.UNPROVED) + len(left),
            findings=_counts(reported),
            hidden=len(findings) - len(shown),
        ),
        flows=[],
        assumptions=[],
        findings=reported,
        unproved=[*left, *_unproved(findings)],
        stats=model.Stats(
            wall_seconds=round(timing.wall_seconds, 3), cpu_seconds=round(timing.cpu_seconds, 3), cache="off"
        ),
    )


def _pairing(pairing: Pairing | None) -> model.Pairing | None:
    if pairing is None:
        return None
    from flowcheck.report.pairing import pairing_part  # here: a scan without a pair needs nothing of it

    return pairing_part(pairing)


def _left_of(pairing: Pairing | None) -> list[model.Unproved]:
    if pairing is None:
        return []
    from flowcheck.report.pairing import left_without_tree

    return left_without_tree(pairing)


# These import what only a scan with a pair needs.
def _row_ends(
    served: PairFacts | None, pairing: Pairing | None, findings: Sequence[found.Finding]
) -> tuple[RowEnd, ...]:
    if served is None or pairing is None:
        return ()
    from flowcheck.checks.capture_layers import row_ends

    return row_ends(served, pairing, findings)


def _capture(served: PairFacts | None, rows: Sequence[RowEnd], pairing: Pairing | None) -> list[model.Capture]:
    if served is None or pairing is None:
        return []
    from flowcheck.report.capturing import capture_rows

    return capture_rows(served, rows, pairing, _evidence)


def _intake(served: PairFacts | None) -> model.Intake | None:
    if served is None:
        return None
    from flowcheck.report.capturing import intake_part

    return intake_part(served)


def _assumed_for(served: PairFacts | None) -> list[model.Assumption]:
    if served is None:
        return []
    from flowcheck.report.capturing import assumptions_of

    return assumptions_of(served)


def _open_rows(rows: Sequence[RowEnd]) -> list[model.Unproved]:
    if not rows:
        return []
    from flowcheck.report.capturing import open_rows

    return open_rows(rows)


# ------------------------------------------------------------------------------------------------------------- flows
def _flows(facts: known.Facts, ends: Verdicts) -> list[model.Flow]:
    rows = [
        _flow(flow, verdict, rules) for flow, verdict, rules in zip(facts.flows, ends.flows, ends.rules, strict=True)
    ]
    rows += [
        _open_row(open_, verdict, rules)
        for open_, verdict, rules in zip(facts.open, ends.open, ends.open_rules, strict=True)
        if open_.phase is not None
    ]
    return sorted(_distinct(rows), key=_row_order)


def _distinct(rows: Iterable[model.Flow]) -> list[model.Flow]:
    """Rows that say the same in every respect are one."""
    return list({row.model_dump_json(): row for row in rows}.values())


_PHASES = [phase.value for phase in known.Phase]
_PATHS = [None, *(path.value for path in known.Path)]


def _row_order(row: model.Flow) -> tuple[str, int, int, str, int, str]:
    return (row.worker, _PHASES.index(row.phase), _PATHS.index(row.path), row.file or "", row.line or 0, row.condition)


def _flow(flow: known.Flow, verdict: found.Verdict | None, rules: tuple[str, ...]) -> model.Flow:
    judged = _judged(flow)
    sites = _sites(flow)
    return model.Flow(
        phase=flow.phase.value,
        path=flow.path.value,
        worker=flow.worker,
        file=sites[0].file,
        line=sites[0].line,
        column=sites[0].column,
        symbol=sites[0].symbol,
        condition=plain(flow.condition),
        mode="|".join(_members(judged)) or "unknown",
        verdict=verdict.value if verdict else None,
        evidence=_evidence(_flow_chain(flow)),
        asked=_members(flow.asked),
        reached=_members(flow.reached),
        consumed=flow.consumed,
        rules=list(rules),
        sites=sites,
        call=_location(flow.call),
        assumptions=sorted(flow.assumptions),
    )


def _open_row(open_: known.Open, verdict: found.Verdict | None, rules: tuple[str, ...]) -> model.Flow:
    assert open_.phase is not None
    site = _location(open_.place) if open_.place else None
    return model.Flow(
        phase=open_.phase.value,
        path=open_.path.value if open_.path else None,
        worker=open_.worker,
        file=site.file if site else None,
        line=site.line if site else None,
        column=site.column if site else None,
        symbol=site.symbol if site else "",
        condition="",
        mode="raises" if open_.kind == "raises" else "unknown",
        verdict=verdict.value if verdict else None,
        evidence=[],
        asked=[],
        reached=[],
        consumed=True,
        rules=list(rules),
        sites=[site] if site else [],
        call=None,
        assumptions=[],
    )


def _judged(flow: known.Flow) -> tuple[known.Mode, ...]:
    """The modes that the verdict is about: what reached, or what a graph's batch asks where that is not FULL."""
    if flow.path is known.Path.EAGER or all(mode.member == REQUIRED for mode in flow.asked):
        return flow.reached
    return flow.asked


def _sites(flow: known.Flow) -> list[model.Location]:
    """Where the mode was set, the worst alternative first; the call where nobody says."""
    asked = sorted(flow.asked or flow.reached, key=_goodness)
    places = dict.fromkeys(mode.evidence[0].place for mode in asked if mode.evidence)
    return [_location(place) for place in places] or [_location(flow.call)]


def _flow_chain(flow: known.Flow) -> tuple[known.Step, ...]:
    """How the mode gets there: what reached; for a graph, what the batch asks and then what was recorded."""
    ways = (flow.reached,) if flow.path is known.Path.EAGER else (flow.asked, flow.reached)
    return tuple(step for modes in ways if modes for step in min(modes, key=_goodness).evidence) or flow.chain


def _goodness(mode: known.Mode) -> int:
    return ORDER.index(mode.member) if mode.member in ORDER else -1


def _members(modes: tuple[known.Mode, ...]) -> list[str]:
    return list(dict.fromkeys(mode.member for mode in sorted(modes, key=_goodness)))


def _location(place: known.Place) -> model.Location:
    return model.Location(
        file=plain(place.path), line=place.span.line, column=place.span.column, symbol=plain(place.symbol)
    )


def _evidence(steps: Iterable[known.Step]) -> list[model.Evidence]:
    chain = [
        model.Evidence(
            file=plain(step.place.path),
            line=step.place.span.line,
            column=step.place.span.column,
            note=plain(step.note),
        )
        for step in steps
    ]
    return [step for nth, step in enumerate(chain) if nth == 0 or step != chain[nth - 1]]


# ---------------------------------------------------------------------------------------------------------- findings
def _findings(shown: Sequence[found.Finding], rules: RuleBook, lines: Lines, root: str) -> list[model.Finding]:
    fingerprints = Fingerprints()
    return [_finding(finding, rules, lines, root, fingerprints) for finding in shown]


def _finding(
    finding: found.Finding, rules: RuleBook, lines: Lines, root: str, fingerprints: Fingerprints
) -> model.Finding:
    place = finding.place
    span = place.span if place else None
    symbol = place.symbol if place else ""
    text = lines.line(place.path, place.span.line) if place else ""
    mismatch = finding.mismatch
    return model.Finding(
        rule=finding.rule,
        name=rules[finding.rule].name,
        severity=finding.severity.value,
        verdict=finding.verdict.value,
        message=plain(finding.message),
        file=plain(place.path) if place else None,
        line=span.line if span else None,
        column=span.column if span else None,
        symbol=plain(symbol),
        condition=_condition(finding.subjects),
        evidence=_evidence(finding.evidence),
        fix=plain(finding.fix),
        fingerprint=fingerprints.of(
            rule=finding.rule,
            file=place.path.removeprefix(f"{root}/") if place and root else place.path if place else "",
            symbol=symbol,
            phase=finding.phase.value if finding.phase else "",
            text=text.strip() or finding.mode or _identity(finding),
        ),
        affects=list(dict.fromkeys(filter(None, map(_label, finding.subjects)))),
        snippet=_snippet(place, lines),
        kind=mismatch.kind.title if mismatch else "",
        keys=[plain(key) for key in mismatch.where] if mismatch else [],
        expected=plain(mismatch.expected) if mismatch else "",
        found=plain(mismatch.found) if mismatch else "",
    )


def _identity(finding: found.Finding) -> str:
    """What tells a finding without a place from others: a pair may be called otherwise tomorrow, its keys are not."""
    mismatch = finding.mismatch
    if mismatch is None:
        return finding.message
    return " ".join((mismatch.kind.title, *mismatch.where, mismatch.expected, mismatch.found))


def _snippet(place: known.Place | None, lines: Lines) -> model.Snippet | None:
    if place is None:
        return None
    span = place.span
    return lines.snippet(place.path, span.line, span.column, span.end_line, span.end_column)


def _condition(subjects: Sequence[found.Subject]) -> str:
    """Under which scenarios the finding holds: "" as soon as one of its subjects holds under every one."""
    conditions = ["" if isinstance(subject, known.Open) else subject.condition for subject in subjects]
    named = list(dict.fromkeys(conditions))
    either = {each.removesuffix(end) for each in named for end in (" is true", " is false") if each.endswith(end)}
    if "" in named or any({f"{switch} is true", f"{switch} is false"} <= set(named) for switch in either):
        return ""
    return plain(" or ".join(named))


def _label(subject: found.Subject) -> str:
    parts = (subject.phase and subject.phase.value, subject.path and subject.path.value, subject.worker)
    return "/".join(part for part in parts if part)


def _counts(reported: Sequence[model.Finding]) -> model.FindingCounts:
    severities = [finding.severity for finding in reported]
    return model.FindingCounts(
        error=severities.count("error"), warning=severities.count("warning"), note=severities.count("note")
    )


# ----------------------------------------------------------------------------------------------------------- classes
def _class_rows(classes: Sequence[ClassEnd] | None, rules: RuleBook) -> list[model.TargetClass]:
    if classes is None:
        return []
    from flowcheck.report.classes import class_rows  # here: most scans need nothing of it

    return class_rows(classes, rules)


def _class_counts(rows: Sequence[model.TargetClass]) -> model.ClassCounts:
    from flowcheck.report.classes import class_counts

    return class_counts(rows)


def _assumed_of_classes(classes: Sequence[ClassEnd] | None) -> list[model.Assumption]:
    layers = sorted({run.layers for end in classes or () for run in end.facts.runs})
    if not layers:
        return []
    text = (
        f"target classes have a configuration that stands for all (rules/witnesses.toml), with {_either(layers)} layers"
    )
    return [model.Assumption(id="witness", text=text, used_by=["classes"])]


def _either(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


# -------------------------------------------------------------------------------------------------------------- rest
def _unproved(findings: Sequence[found.Finding]) -> list[model.Unproved]:
    """Every question that stayed open, whether or not its finding is shown."""
    answers = []
    for finding in findings:
        if finding.verdict is not found.Verdict.UNPROVED:
            continue
        if finding.mismatch is not None:
            from flowcheck.report.pairing import asked  # here: a scan without a pair needs nothing of it

            answers.append(asked("what was the draft trained on", finding.message, finding.rule))
            continue
        for subject in finding.subjects or (None,):
            place = subject.place if isinstance(subject, known.Open) else finding.place
            answers.append(
                model.Unproved(
                    question=plain(subject.question if isinstance(subject, known.Open) else _asked_about(subject)),
                    reason=plain(subject.reason if isinstance(subject, known.Open) else finding.message),
                    file=plain(place.path) if place else None,
                    line=place.span.line if place else None,
                    phase=subject.phase.value if subject and subject.phase else None,
                    path=subject.path.value if subject and subject.path else None,
                    worker=subject.worker if subject else "",
                    about="class" if isinstance(subject, ClassSubject) else "tree",
                    rule=finding.rule,
                )
            )
    return list({answer.model_dump_json(): answer for answer in answers}.values())


def _asked_about(flow: known.Flow | CaptureRow | ClassSubject | None) -> str:
    if isinstance(flow, ClassSubject):
        return f"what {flow.model} captures ({flow.question.value})"
    if isinstance(flow, CaptureRow):
        return f"which hidden states does {_label(flow)} capture for this pair"
    return f"which mode does {_label(flow)} capture" if flow else "which forwards of the target are there"


def _assumptions(facts: known.Facts) -> list[model.Assumption]:
    return [
        model.Assumption(id=each.id, text=plain(each.text), used_by=sorted(each.used_by))
        for each in sorted(facts.assumptions, key=lambda each: each.id)
    ]


def _call_graph(facts: known.Facts) -> model.CallGraph | None:
    if not facts.calls:
        return None
    nodes = sorted({each for edge in facts.calls for each in (edge.caller, edge.callee)})
    number = {node: i for i, node in enumerate(nodes)}
    return model.CallGraph(
        nodes=[
            model.CallNode.model_validate(
                {"file": plain(node.path), "symbol": plain(node.symbol), "line": node.line, "kind": node.kind}
            )
            for node in nodes
        ],
        edges=[
            model.CallEdge.model_validate(
                {
                    "caller": number[edge.caller],
                    "callee": number[edge.callee],
                    "kind": edge.kind,
                    "sites": [{"line": site.line, "column": site.column} for site in edge.sites],
                }
            )
            for edge in facts.calls
        ],
    )


def _stats(facts: known.Facts, timing: Timing) -> model.Stats:
    stats = facts.stats
    return model.Stats(
        wall_seconds=round(timing.wall_seconds, 3),
        cpu_seconds=round(timing.cpu_seconds, 3),
        cache="off" if not timing.cached else "cold" if stats.definitions_parsed else "warm",
        files_indexed=stats.files_indexed,
        definitions_indexed=stats.definitions_indexed,
        definitions_parsed=stats.definitions_parsed,
        bytes_parsed=stats.bytes_parsed,
        steps=stats.steps,
        runs=stats.runs,
    )
