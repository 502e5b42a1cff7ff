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
from flowcheck.probe.verdict import Judged, LiveVerdict, PathVerdict, Problem
from flowcheck.report import model
from flowcheck.report.fingerprint import Fingerprints
from flowcheck.report.source_text import plain

__all__ = ["Circumstances", "with_probe"]


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
    counts = model.FindingCounts(
        error=severities.count("error"), warning=severities.count("warning"), note=severities.count("note")
    )
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
                    "findings": counts,
                    "hidden": summary.hidden + len(every) - len(findings),
                }
            ),
        }
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
        torch=circumstances.torch,
        trouble=plain(ran.trouble),
        paths=[_path(plan, each) for each in judged.paths],
        processes=[_process(end, ran.results) for end in ran.ends],
        reductions=reductions,
        left_out=[plain(each) for each in (*plan.model.left_out, *circumstances.left_out)],
        not_covered=_coverage(each for result in results for each in result.not_covered),
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
    affected: dict[Problem, list[PathVerdict]] = {}
    for path in judged.paths:
        for problem in path.problems:
            affected.setdefault(problem, []).append(path)
    fingerprints = Fingerprints()
    found = [_finding(problem, paths, rules, fingerprints) for problem, paths in affected.items()]
    return sorted(found, key=lambda each: (-Severity(each.severity).weight, each.rule))


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


def _open(judged: Judged) -> list[model.Unproved]:
    """The paths that stayed inconclusive."""
    return [
        model.Unproved(
            question=plain(f"what does {_label(each)} hand on when it runs"),
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
