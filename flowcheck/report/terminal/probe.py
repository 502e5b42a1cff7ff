"""What running ranks showed, on one screen: one row for each path, what is wrong, what was not covered, and how ranks ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from flowcheck.report.model import Probe, ProbeBlock, ProbePath, ProbeRank, Report
from flowcheck.report.terminal.findings import finding_lines
from flowcheck.report.terminal.pair import LABEL_STYLES, pair_rows
from flowcheck.report.terminal.text import VERDICT_STYLE, counted, labelled, padded, spoken_path, wrapped

__all__ = ["probe_page"]

GAP = 2
HEADS = ("PHASE", "PATH", "ARRIVES", "WIDTH", "ROWS", "RANKS", "FC", "VERDICT")
MOST_STATES = 9
MOST_SHRUNK = 6
STYLES = {**VERDICT_STYLE, "inconclusive": VERDICT_STYLE["unproved"], "not covered": "dim"}
BACKENDS = {
    "fake": "simulated ranks, shapes and origins without numbers",
    "gloo": "processes on CPUs, real numbers",
    "nccl": "GPUs, real numbers",
}
SHOWN_WORDS = 6


def probe_page(report: Report, probe: Probe, width: int, *, quiet: bool = False, verbose: bool = False) -> list[Text]:
    """The lines of the page. ``quiet`` leaves the findings and the last line."""
    blocks: list[list[Text]] = []
    if not quiet:
        blocks += [_header(report, probe, width), _table(probe, width)]
    blocks += [finding_lines(each, width, verbose=verbose) for each in report.findings]
    bad = [each for each in probe.processes if each.end != "done" or each.exit_code]
    blocks += [_ended(bad, width)] if bad else []
    if not quiet:
        blocks += [_not_covered(probe, width), _confidence(probe, width)]
    blocks.append(_summary(probe, width))
    return [line for at, block in enumerate(filter(None, blocks)) for line in ([Text(), *block] if at else block)]


def _header(report: Report, probe: Probe, width: int) -> list[Text]:
    source = report.source
    title = Text.assemble((source.label, "bold"), f"  {source.kind}")
    cost = Text(f"{probe.wall_seconds:.1f} s", style="dim")
    gap = width - title.cell_len - cost.cell_len
    lines = [Text.assemble(title, " " * gap, cost)] if gap >= 2 else wrapped(title, width)
    depth = f", {counted(probe.layers, 'layer')}" if probe.layers is not None else ""
    rows = [
        *(pair_rows(report, report.pairing) if report.pairing is not None else ()),
        ("probe", f"{probe.backend}: {counted(probe.ranks, 'rank')}, {BACKENDS[probe.backend]}; PyTorch {probe.torch}"),
        ("ids", _ids(probe)),
        ("ran", f"{probe.model_class}{depth} x {probe.target_width}" if probe.model_class else "nothing of the target"),
        *_shrunk(probe),
        ("against", f"the scan in {probe.compared_with}" if probe.compared_with else ""),
    ]
    return lines + labelled(rows, width, indent=0, styles=LABEL_STYLES)


def _ids(probe: Probe) -> str:
    """What the tree's own code made of the draft's file."""
    if probe.ids is None:
        return ""
    calls = [" ".join(map(str, each)) if each is not None else "none" for each in probe.ids.told]
    return f"{', then '.join(calls) or 'the target is told nothing'}, read by {', '.join(probe.ids.where)}"


def _shrunk(probe: Probe) -> Iterator[tuple[str, str]]:
    target = [each for each in probe.reductions if each.model == "target"]
    shown = [f"{each.key.rpartition('.')[2]} {each.was} -> {each.now}" for each in target[:MOST_SHRUNK]]
    if len(target) > MOST_SHRUNK:
        shown.append(f"{len(target) - MOST_SHRUNK} more in the JSON report")
    if shown:
        yield "shrunk", f"{', '.join(shown)}; never the number of layers"
    if probe.left_out:
        yield "left out", ", ".join(probe.left_out)


# ------------------------------------------------------------------------------------------------------------- table
def _table(probe: Probe, width: int) -> list[Text]:
    if not probe.paths:
        return []
    conditions = dict.fromkeys(each.condition for each in probe.paths)
    rows = [(_cells(each), each) for each in sorted(probe.paths, key=lambda row: list(conditions).index(row.condition))]
    widths = [max(len(head), *(cell_len(cells[at]) for cells, _ in rows)) for at, head in enumerate(HEADS)]
    lines = [_line(HEADS, widths, "bold", "bold")]
    said = ""
    for cells, each in rows:
        if each.condition != said:
            said = each.condition
            lines += wrapped(Text(f"where {said}" if said else "in any case", "dim"), width)
        style = STYLES[each.verdict]
        if sum(widths) + GAP * (len(HEADS) - 1) <= width:
            lines.append(_line(cells, widths, "", style))
        else:  # the verdict moves to a line of its own
            lines.append(_line((*cells[:-1], ""), widths, "", ""))
            lines += wrapped(Text(cells[-1], style), width, indent=widths[0] + GAP)
    return [*lines, *_legend(probe, width), *_reasons(probe, width)]


def _cells(row: ProbePath) -> tuple[str, ...]:
    rows = (
        "-"
        if row.rows is None
        else str(row.rows)
        if row.rows == row.expected_rows
        else f"{row.rows}/{row.expected_rows}"
    )
    agree = {True: "alike", False: "differ", None: "-"}[row.ranks_agree]
    takes = {True: "fits", False: "no", None: "?" if row.draft_layer else "-"}[row.draft_accepts]
    return (
        row.phase,
        ", ".join(filter(None, (spoken_path(row.path), row.batch))),
        _arrives(row.blocks),
        str(row.width) if row.width is not None else "-",
        rows,
        agree,
        takes,
        _verdict(row),
    )


def _arrives(blocks: Sequence[ProbeBlock]) -> str:
    names = [_name(each) for each in blocks[:MOST_STATES]]
    return " ".join([*names, "…"] if len(blocks) > MOST_STATES else names) or "-"


def _name(block: ProbeBlock) -> str:
    if block.boundary is None or block.identity in ("other", "inconclusive"):
        return "?"
    name = "E" if block.boundary == 0 else str(block.boundary)
    return f"{name}~" if block.identity == "partial" else name


def _verdict(row: ProbePath) -> str:
    if row.verdict == "proved":
        return "proved live"
    if row.verdict == "not covered":
        return "not covered"
    first, *others = row.rules or [""]
    return f"{row.verdict.upper()} {','.join([first, *(rule.removeprefix('HS') for rule in others)])}".rstrip()


def _line(cells: Sequence[str], widths: Sequence[int], style: str, last: str) -> Text:
    line = Text()
    for at, cell in enumerate(cells):
        ending = at == len(cells) - 1
        line.append(cell if ending else padded(cell, widths[at]) + " " * GAP, last if ending else style)
    line.rstrip()
    return line


def _legend(probe: Probe, width: int) -> list[Text]:
    blocks = [block for path in probe.paths for block in path.blocks]
    meanings = ["n = the stream after n layers"] if blocks else []
    if any(block.boundary == 0 for block in blocks):
        meanings.insert(0, "E = output of the embedding (boundary 0)")
    if any(block.identity == "partial" for block in blocks):
        meanings.append("n~ = one rank's part of it")
    if any(block.identity in ("other", "inconclusive") for block in blocks):
        meanings.append("? = no boundary, or not told")
    if any(path.verdict == "not covered" and path.blocks for path in probe.paths):
        meanings.append("not covered: the row shows an eager forward after the same calls")
    return wrapped(Text("; ".join(meanings), "dim"), width) if meanings else []


def _reasons(probe: Probe, width: int) -> list[Text]:
    """Why paths are inconclusive; those that share a reason are named together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for path in probe.paths:
        if path.reason and path.verdict != "not covered":
            label = " ".join(filter(None, (path.phase, spoken_path(path.path), path.batch)))
            reasons.setdefault((path.verdict, path.reason), []).append(label)
    lines: list[Text] = []
    for (verdict, reason), labels in reasons.items():
        text = Text.assemble((verdict, STYLES[verdict]), f"  {', '.join(dict.fromkeys(labels))}: {reason}")
        lines += wrapped(text, width, first=Text(), indent=2)
    return lines


# -------------------------------------------------------------------------------------------------------------- rest
def _ended(bad: Sequence[ProbeRank], width: int) -> list[Text]:
    """Processes that did not end well, with their last words."""
    lines: list[Text] = []
    for each in bad:
        who = f"rank {each.rank}{f' ({each.run})' if each.run else ''}" if each.role == "rank" else each.role
        said = f": {each.error}" if each.error else ""
        code = f", exit code {each.exit_code}" if each.exit_code is not None else ""
        at = f" in {each.stage}" if each.stage else ""
        how = "ended with an error" if each.end == "done" else each.end
        lines += wrapped(Text(f"{who}  {how}{at}{code}{said}"), width, first=Text(), indent=2)
        for word in each.words[:SHOWN_WORDS]:
            lines += wrapped(Text(word, "dim"), width, indent=4)
    return lines


def _not_covered(probe: Probe, width: int) -> list[Text]:
    paths: dict[str, list[str]] = {}
    for path in probe.paths:
        if path.verdict == "not covered":
            paths.setdefault(path.reason, []).append(
                " ".join(filter(None, (path.phase, spoken_path(path.path), path.batch)))
            )
    items = [f"{', '.join(dict.fromkeys(labels))}: {reason}" for reason, labels in paths.items()]
    items += [f"{each.what}: {each.why}" for each in probe.not_covered]
    lines = [Text("not covered", style="bold")] if items else []
    for item in items:
        lines += wrapped(Text(item), width, first=Text("  - "), indent=4)
    return lines


def _confidence(probe: Probe, width: int) -> list[Text]:
    if not probe.launches:
        return []
    text = f"reduced confidence: these kernels had stand-ins that did nothing: {', '.join(probe.launches)}"
    return wrapped(Text(text, STYLES["unproved"]), width, first=Text(), indent=2)


def _summary(probe: Probe, width: int) -> list[Text]:
    verdicts: list[str] = [path.verdict for path in probe.paths]
    line = Text(f"{counted(len(verdicts), 'path')}: ")
    for number, verdict in enumerate(("proved", "violated", "inconclusive", "not covered")):
        count = verdicts.count(verdict)
        line.append(", " if number else "")
        line.append(f"{count} {verdict}{' live' if verdict == 'proved' else ''}", STYLES[verdict] if count else "")
    if probe.trouble:
        line.append(f"; {probe.trouble}")
    return wrapped(line, width)
