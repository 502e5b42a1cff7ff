"""The table of what a tree captures for a pair: one row per path and condition, facts as facts, verdicts as verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from flowcheck.report.model import Capture, Flow, Report
from flowcheck.report.terminal.text import VERDICT_STYLE, padded, shorter, spoken_path, wrapped

__all__ = ["capture_lines", "mode_line"]

GAP = 2
HEADS = ("PHASE", "PATH", "CAPTURES", "WIDTH", "PER RANK", "VERDICT")
CAPTURES = 2
MOST_STATES = 9


def capture_lines(report: Report, width: int) -> list[Text]:
    """The rows, what their letters mean, and whether the width fits."""
    if not report.capture:
        return []
    conditions = dict.fromkeys(each.condition for each in report.capture)
    rows = [
        (_cells(each), each) for each in sorted(report.capture, key=lambda row: list(conditions).index(row.condition))
    ]
    widths = [max(len(head), *(cell_len(cells[at]) for cells, _ in rows)) for at, head in enumerate(HEADS)]
    lines = [_line(HEADS, widths, "bold", "bold")]
    said = ""
    for cells, each in rows:
        if each.condition != said:
            said = each.condition
            lines += wrapped(Text(f"where {said}" if said else "in any case", "dim"), width)
        style = VERDICT_STYLE[each.verdict]
        if sum(widths) + GAP * (len(HEADS) - 1) <= width:
            lines.append(_line(cells, widths, "", style))
        else:  # the verdict moves to a line of its own
            lines.append(_line((*cells[:-1], ""), widths, "", ""))
            lines += wrapped(Text(cells[-1], style), width, indent=widths[0] + GAP)
    return [*lines, *_remarks(report.capture, width)]


def _cells(row: Capture) -> tuple[str, ...]:
    return (
        row.phase,
        ", ".join(filter(None, (spoken_path(row.path), row.batch))),
        _captures(row),
        str(row.width) if row.width is not None else "-",
        row.per_rank or "-",
        _verdict(row),
    )


def _captures(row: Capture) -> str:
    if not row.states:
        return "-" if row.verdict != "proved" else "last state"
    names = [_name(each.boundary, normed=each.normed) for each in row.states[:MOST_STATES]]
    return " ".join([*names, "…"] if len(row.states) > MOST_STATES else names)


def _name(boundary: int | None, *, normed: bool) -> str:
    if boundary is None:
        return "?"
    return f"{'E' if boundary == 0 else boundary}{'n' if normed else ''}"


def _verdict(row: Capture) -> str:
    if row.verdict == "proved":
        return "proved"
    first, *others = row.rules or [""]
    return f"{row.verdict.upper()} {','.join([first, *(rule.removeprefix('HS') for rule in others)])}".rstrip()


def _line(cells: Sequence[str], widths: Sequence[int], style: str, last: str) -> Text:
    line = Text()
    for at, cell in enumerate(cells):
        ending = at == len(cells) - 1
        line.append(cell if ending else padded(cell, widths[at]) + " " * GAP, last if ending else style)
    line.rstrip()
    return line


def _remarks(rows: Sequence[Capture], width: int) -> list[Text]:
    lines: list[Text] = []
    needs = rows[0].draft_fc_in_features
    wide = {row.width for row in rows if row.width is not None}
    if needs is not None and wide:
        if wide == {needs}:
            text = f"width: {needs} = fc {needs} fits, which says nothing about which states they are"
        else:
            others = ", ".join(str(each) for each in sorted(wide - {needs}))
            text = f"width: {others} does not fit fc {needs}"
        lines += wrapped(Text(text), width, indent=0)
    states = [state for row in rows for state in row.states]
    meanings = ["n = the stream after n layers"] if states else []
    if any(state.boundary == 0 for state in states):
        meanings.insert(0, "E = output of the embedding (boundary 0)")
    if any(state.normed for state in states):
        meanings.append("3n = its norm")
    if any(state.boundary is None for state in states):
        meanings.append("? = no boundary, or not known")
    return [*lines, *wrapped(Text("; ".join(meanings), "dim"), width)] if meanings else lines


def mode_line(report: Report, width: int) -> list[Text]:
    """One line for all flows, where every one of them is proved: their table says the same many times."""
    flows = [flow for flow in report.flows if flow.verdict is not None]
    if not flows or any(flow.verdict != "proved" for flow in flows):
        return []
    sites = dict.fromkeys(site for flow in flows for site in _sites(flow, report.source.root))
    mode = " or ".join(dict.fromkeys(flow.mode for flow in flows))
    said = Text(f"mode: {mode} ")
    said.append("proved", VERDICT_STYLE["proved"])
    said.append(f" on {len(flows)}/{len(flows)} flows ({', '.join(sites)})")
    return wrapped(said, width)


def _sites(flow: Flow, root: str) -> list[str]:
    return [f"{shorter(site.file, 2, root)}:{site.line}" for site in flow.sites]
