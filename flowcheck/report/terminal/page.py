"""The whole page, from top to bottom: source and scenario, flows, findings, assumptions, one line that sums up."""

from __future__ import annotations

from rich.text import Text

from flowcheck.report.model import Assumption, ClassCounts, Flow, Report, Stats
from flowcheck.report.terminal.capture import capture_lines, mode_line
from flowcheck.report.terminal.classes import class_lines, class_notes
from flowcheck.report.terminal.findings import chain_lines, finding_lines
from flowcheck.report.terminal.flows import flow_lines
from flowcheck.report.terminal.pair import LABEL_STYLES, pair_blocks, pair_rows
from flowcheck.report.terminal.text import VERDICT_STYLE, counted, labelled, spoken_path, wrapped

__all__ = ["page"]


def page(report: Report, width: int, *, quiet: bool = False, verbose: bool = False) -> list[Text]:
    """The lines of the page. ``quiet`` leaves the findings and the last line."""
    if report.pairing is not None and report.source.kind == "pair":
        return _joined(pair_blocks(report, report.pairing, width, quiet=quiet, verbose=verbose))
    blocks: list[list[Text]] = []
    if not quiet:
        blocks += [_header(report, width), *_tables(report, width, verbose=verbose)]
        if verbose:
            blocks += [_chain(flow, width) for flow in report.flows if flow.evidence]
    brief = [] if verbose else [each for each in report.findings if report.classes and each.severity == "note"]
    blocks += [finding_lines(finding, width, verbose=verbose) for finding in report.findings if finding not in brief]
    blocks.append(class_notes(brief, width))
    if not quiet:
        blocks.append(_assumptions(report.assumptions, width, verbose=verbose))
    blocks.append(_summary(report, width))
    return _joined(blocks)


def _tables(report: Report, width: int, *, verbose: bool) -> list[list[Text]]:
    """What the pair gets, first; then the flows, in one line where nothing more is to be said of them."""
    captures = capture_lines(report, width)
    said = mode_line(report, width) if captures and not verbose else []
    flows = said or (flow_lines(report, width, verbose=verbose) if report.flows or not report.classes else [])
    return [captures, flows, class_lines(report, width)]


def _joined(blocks: list[list[Text]]) -> list[Text]:
    lines: list[Text] = []
    for block in blocks:
        if lines and block:
            lines.append(Text())
        lines += block
    return lines


def _header(report: Report, width: int) -> list[Text]:
    source, scenario = report.source, report.scenario
    title = Text.assemble((source.label, "bold"), f"  {source.kind}")
    cost = Text(_cost(report.stats), style="dim")
    gap = width - title.cell_len - cost.cell_len
    lines = [Text.assemble(title, " " * gap, cost)] if gap >= 2 else [*wrapped(title, width), *wrapped(cost, width)]
    version = f"  version {source.version}" if source.version and source.version not in source.label else ""
    settings = "".join(f"  {key}={value}" for key, value in scenario.settings.items())
    launch = f"  ({scenario.launch})" if scenario.launch else ""
    rows = [
        *(pair_rows(report, report.pairing) if report.pairing is not None else ()),
        ("package", f"{source.root or '.'}{version}"),
        ("run", f"{scenario.algorithm}{settings}{launch}"),
    ]
    return lines + labelled(rows, width, indent=0, styles=LABEL_STYLES)


def _cost(stats: Stats) -> str:
    cache = {"cold": "cache cold", "warm": "cache warm", "off": "no cache"}[stats.cache]
    return f"{stats.wall_seconds:.1f} s, {cache}"


def _chain(flow: Flow, width: int) -> list[Text]:
    head = Text.assemble(
        (f"{flow.phase} {spoken_path(flow.path)}", "bold"),
        f"  {flow.worker}  {flow.mode}  ",
        (flow.verdict or "no question", VERDICT_STYLE[flow.verdict]),
    )
    return [*wrapped(head, width), *chain_lines(flow.evidence, width, indent=2)]


def _assumptions(assumptions: list[Assumption], width: int, *, verbose: bool) -> list[Text]:
    if not assumptions:
        return []
    lines = [Text("assumes", style="bold")]
    for each in assumptions:
        text = Text.assemble(each.text, (f"  [{each.id}]", "dim"))
        lines += wrapped(text, width, first=Text("  - "), indent=4)
        if verbose and each.used_by:
            lines += wrapped(Text(f"used by {', '.join(each.used_by)}", style="dim"), width, indent=4)
    return lines


def _summary(report: Report, width: int) -> list[Text]:
    summary = report.summary
    counts = {"proved": summary.proved, "violated": summary.violated, "unproved": summary.unproved}
    line = Text(f"{counted(sum(counts.values()), 'question')}: ")
    for number, (verdict, count) in enumerate(counts.items()):
        line.append(", " if number else "")
        line.append(f"{count} {verdict}", VERDICT_STYLE[verdict] if count else "")
    line.append(f"; {counted(len(report.assumptions), 'assumption')}")
    if summary.hidden:
        line.append(f"; {counted(summary.hidden, 'finding')} hidden by --select or --ignore")
    lines = wrapped(line, width) if sum(counts.values()) or summary.classes is None else []
    if summary.classes is not None:
        lines += wrapped(_class_summary(summary.classes), width)
    return lines


def _class_summary(counts: ClassCounts) -> Text:
    named = {"proved": counts.proved, "violated": counts.violated, "unproved": counts.unproved}
    line = Text(f"{counted(sum(named.values()), 'target class', 'target classes')}: ")
    for number, (verdict, count) in enumerate(named.items()):
        line.append(", " if number else "")
        line.append(f"{count} {verdict}", VERDICT_STYLE[verdict] if count else "")
    return line
