"""What a probe adds to the report of a scan: its section, its findings, and the questions that it left open. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flowcheck.checks.rules import RuleBook, Severity
from flowcheck.checks.run import Selection
from flowcheck.probe.plan import Plan
from flowcheck.probe.protocol import Block, Coverage, RankResult, Reduction
from flowcheck.probe.running import Ran, RankEnd
from flowcheck.probe.supervise import End
from flowcheck.probe.verdict import PROBE_RULES, Judged, LiveVerdict, PathVerdict, Problem
from flowcheck.report import model
from flowcheck.report.fingerprint import Fingerprints
from flowcheck.report.source_text import plain

__all__ = ["Circumstances", "with_probe", "without_probe"]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the report says of a probe beside what came of it."""

    torch: str
    wall_seconds: float
    compared_with: str = ""
    draft_reductions: tuple[Reduction, ...] = ()
    left_out: tuple[str, ...] = field(default=())


def with_probe(
    report: model.Report,
    plan: Plan,
    judged: Judged,
    ran: Ran,
    circumstances: Circumstances,
    rules: RuleBook,
    selected: Selection,
) -> model.Report:
    """The report of a scan with what running ranks showed. ``selected`` says which findings are shown, those of the scan too."""
    every = [*_findings(judged, rules), *report.findings]
    findings = [each for each in every if each.rule in selected.rules]
    severities = [each.severity for each in findings]
    summary = report.summary
    return report.model_copy(
        update={
            "probe": _section(plan, judged, ran, circumstances),
            "findings": findings,
            "unproved": [*_open(judged), *report.unproved],
            "summary": summary.model_copy(
                update={
                    "proved": summary.proved + judged.count(LiveVerdict.PROVED),
                    "violated": summary.violated + judged.count(LiveVerdict.VIOLATED),
                    "unproved": summary.unproved + judged.count(LiveVerdict.INCONCLUSIVE),
                    "findings": _counts(severities),
                    "hidden": summary.hidden + len(every) - len(findings),
                }
            ),
        }
    )


def without_probe(report: model.Report) -> model.Report:
    """The report of the scan alone: a report that a probe wrote serves another one, and that one's answers are not its own."""
    if report.probe is None:
        return report
    findings = [each for each in report.findings if each.rule not in PROBE_RULES]
    asked = {
        _question("/".join(filter(None, (each.phase, each.path, each.runner, each.batch))))
        for each in report.probe.paths
    }
    verdicts = [each.verdict for each in report.probe.paths]
    severities = [each.severity for each in findings]
    summary = report.summary
    return report.model_copy(
        update={
            "probe": None,
            "findings": findings,
            "unproved": [each for each in report.unproved if each.question not in asked],
            "summary": summary.model_copy(
                update={
                    "proved": summary.proved - verdicts.count(LiveVerdict.PROVED.value),
                    "violated": summary.violated - verdicts.count(LiveVerdict.VIOLATED.value),
                    "unproved": summary.unproved - verdicts.count(LiveVerdict.INCONCLUSIVE.value),
                    "findings": _counts(severities),
                }
            ),
        }
    )


def _counts(severities: Sequence[str]) -> model.FindingCounts:
    return model.FindingCounts(
        error=severities.count("error"), warning=severities.count("warning"), note=severities.count("note")
    )


# ----------------------------------------------------------------------------------------------------------- section
def _section(plan: Plan, judged: Judged, ran: Ran, circumstances: Circumstances) -> model.Probe:
    results = list(ran.results.values())
    first = ran.results.get(0) or next(iter(results), None)
    reductions = [*_reductions("target", plan.model.reductions), *_reductions("draft", circumstances.draft_reductions)]
    return model.Probe(
        backend=plan.backend,
        ranks=plan.ranks,
        model_class=plain(first.cls or "") if first is not None else "",
        layers=first.layers if first is not None else None,
        target_width=plan.model.target_width,
        torch=plain(first.bridges.get("torch", circumstances.torch)) if first is not None else circumstances.torch,
        trouble=plain(ran.trouble),
        paths=[_path(plan, each) for each in judged.paths],
        processes=[_process(end, ran.results) for end in ran.ends],
        reductions=reductions,
        left_out=[plain(each) for each in (*plan.model.left_out, *circumstances.left_out)],
        ids=_ids(ran),
        not_covered=_coverage([*_unread(ran), *(each for result in results for each in result.not_covered)]),
        launches=sorted({plain(each) for result in results for each in result.launches}),
        stand_ins=sorted({plain(each) for result in results for each in result.stubs}),
        compared_with=plain(circumstances.compared_with),
        wall_seconds=round(circumstances.wall_seconds, 3),
    )


def _path(plan: Plan, seen: PathVerdict) -> model.ProbePath:
    path, draft = seen.path, seen.draft
    return model.ProbePath(
        phase=path.phase,
        path=path.path,
        runner=path.runner,
        condition=path.condition,
        batch=path.batch,
        told=[list(each) if each is not None else None for each in path.told],
        expected_boundaries=list(path.expected) if path.expected is not None else None,
        needed_boundaries=list(plan.needed) if plan.needed is not None else None,
        blocks=[_block(each) for each in seen.blocks],
        rows=seen.rows,
        expected_rows=seen.expected_rows,
        width=seen.width,
        ranks_agree=seen.same,
        draft_layer=plain(f"{draft.cls}.{draft.layer}" if draft.layer else draft.cls) if draft is not None else "",
        draft_in_features=draft.in_features if draft is not None else None,
        draft_accepts=draft.accepted if draft is not None else None,
        verdict=seen.verdict.value,
        rules=sorted({each.rule for each in seen.problems}),
        reason=plain(seen.reason),
    )


def _block(block: Block) -> model.ProbeBlock:
    return model.ProbeBlock(
        index=block.index,
        identity=block.identity,
        boundary=block.boundary,
        explanation=plain(block.explanation),
        distance=block.distance,
        margin=block.margin,
    )


def _ids(ran: Ran) -> model.ProbeIds | None:
    if ran.ids is None:
        return None
    calls = [list(each) if each is not None else None for each in ran.ids.calls]
    return model.ProbeIds(told=calls, where=[plain(each) for each in ran.ids.where])


def _unread(ran: Ran) -> list[Coverage]:
    if not ran.ids_unread or not ran.results:
        return []
    why = f"the target is told what the scan says, not what the tree reads: {ran.ids_unread}"
    return [Coverage("ids of the draft", why)]


def _process(end: RankEnd, results: Mapping[int, RankResult]) -> model.ProbeRank:
    result = results.get(end.rank) if end.role == "rank" else None
    error = result.error if result is not None else None
    ended_badly = end.end is not End.DONE or end.code != 0
    return model.ProbeRank.model_validate(
        {
            "role": end.role,
            "run": end.variant,
            "rank": end.rank,
            "end": end.end.value,
            "exit_code": end.code,
            "stage": end.stage,
            "error": plain(f"{error.kind}: {error.message}") if error is not None else "",
            "seconds": round(sum(result.seconds.values()), 3) if result is not None else None,
            "peak_mib": result.peak_mib if result is not None else None,
            "words": [plain(each) for each in end.words] if ended_badly else [],
        }
    )


def _reductions(of: str, reductions: Iterable[Reduction]) -> list[model.ProbeReduction]:
    return [
        model.ProbeReduction.model_validate({"model": of, "key": plain(each.key), "was": each.was, "now": each.now})
        for each in reductions
    ]


def _coverage(some: Iterable[Coverage]) -> list[model.ProbeCoverage]:
    return [model.ProbeCoverage(what=plain(each.what), why=plain(each.why)) for each in dict.fromkeys(some)]


# ---------------------------------------------------------------------------------------------------------- findings
def _findings(judged: Judged, rules: RuleBook) -> list[model.Finding]:
    """One finding for each problem, with all the paths that have it; the heaviest first."""
    affected: dict[tuple[str, ...], list[tuple[Problem, PathVerdict]]] = {}
    for path in judged.paths:
        for problem in path.problems:
            affected.setdefault(_apart_from_sizes(problem), []).append((problem, path))
    fingerprints = Fingerprints()
    found = [_finding(each[0][0], [path for _, path in each], rules, fingerprints) for each in affected.values()]
    return sorted(found, key=lambda each: (-Severity(each.severity).weight, each.rule))


def _apart_from_sizes(problem: Problem) -> tuple[str, ...]:
    """What makes a problem another one: not how many rows a batch has, nor what numbers it computed."""
    kept = (problem.rule, problem.kind, problem.keys)
    if problem.rule in ("HS502", "HS504"):
        return kept
    if problem.rule in ("HS503", "HS505"):
        return (*kept, problem.found, problem.expected)
    return (*kept, problem.found, problem.expected, problem.reason)


def _finding(
    problem: Problem, paths: Sequence[PathVerdict], rules: RuleBook, fingerprints: Fingerprints
) -> model.Finding:
    rule = rules[problem.rule]
    fields = {"found": problem.found, "expected": problem.expected, "keys": problem.keys, "reason": problem.reason}
    labels = list(dict.fromkeys(_label(path) for path in paths))
    return model.Finding(
        rule=rule.id,
        name=rule.name,
        severity=rule.severity_of(problem.kind).value,
        verdict="unproved" if problem.rule == "HS507" else "violated",
        message=plain(rule.message(problem.kind, **fields)),
        file=None,
        line=None,
        column=None,
        symbol="",
        condition="",
        evidence=[],
        fix=plain(rule.fix_of(problem.kind, **fields)),
        fingerprint=fingerprints.of(
            rule=rule.id,
            file="",
            symbol="",
            phase=" ".join(labels),
            text=f"{problem.kind} {problem.found} {problem.expected}",
        ),
        affects=labels,
        snippet=None,
        kind=problem.kind,
        expected=plain(problem.expected),
        found=plain(problem.found),
    )


def _label(path: PathVerdict) -> str:
    planned = path.path
    return "/".join(part for part in (planned.phase, planned.path, planned.runner, planned.batch) if part)


def _question(label: str) -> str:
    return plain(f"what does {label} hand on when it runs")


def _open(judged: Judged) -> list[model.Unproved]:
    """The paths that stayed inconclusive."""
    return [
        model.Unproved(
            question=_question(_label(each)),
            reason=plain(each.reason),
            file=None,
            line=None,
            phase=each.path.phase,
            path=each.path.path,
            worker=each.path.runner,
            rule=each.problems[0].rule if each.problems else "",
        )
        for each in judged.paths
        if each.verdict is LiveVerdict.INCONCLUSIVE
    ]
