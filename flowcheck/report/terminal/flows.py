"""The table of flows: one row per phase, path, worker and site.

Where six columns do not fit, the workers become headings, with the condition that all their rows share. A site is
shortened from the left as far as its last two parts; when even those do not fit, mode and verdict move to a line of
their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from flowcheck.report.model import Flow, Report
from flowcheck.report.terminal.text import VERDICT_STYLE, padded, shorter, spoken_path, wrapped

__all__ = ["flow_lines"]

GAP = 2
HEADS = ("PHASE", "PATH", "WORKER", "SITE", "MODE", "VERDICT")
WORKER, SITE, MODE = 2, 3, 4
MAX_SITES = 4


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[str, ...]
    verdict: str | None
    more_sites: tuple[str, ...]
    conditions: tuple[str, ...]


def flow_lines(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """The table. Idle forwards and those that do not feed the draft appear in the verbose one alone."""
    flows = [flow for flow in report.flows if verbose or flow.verdict is not None]
    if not flows:
        quiet = "no forward of the target feeds a draft with hidden states (--verbose lists them)"
        return [Text(quiet if report.flows else "no forward of the target was found", style="bold")]
    for level in (0, 1, 2):
        rows = _rows(flows, level, report.source.root)
        if _total(widths := _widths(rows)) <= width:
            return _flat(rows, widths, width)
    for level in (0, 1, 2):
        rows = _rows(flows, level, report.source.root)
        widths = _widths(rows)
        widths[WORKER] = -GAP
        if _total(widths) <= width:
            break
    widths[SITE] = max(widths[SITE] - max(_total(widths) - width, 0), len("SITE"))
    return _grouped(rows, widths, width)


def _rows(flows: Sequence[Flow], level: int, root: str) -> list[_Row]:
    merged: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Flow]] = {}
    for flow in flows:
        sites = list(dict.fromkeys(f"{shorter(site.file, level, root)}:{site.line}" for site in flow.sites))
        cells = (
            flow.phase,
            spoken_path(flow.path),
            flow.worker or "-",
            sites[0] if sites else "-",
            flow.mode,
            _verdict(flow),
        )
        merged.setdefault((cells, tuple(sites[1:])), []).append(flow)
    return [
        _Row(
            cells=cells,
            verdict=alike[0].verdict,
            more_sites=_some(more),
            conditions=() if any(not flow.condition for flow in alike) else tuple(flow.condition for flow in alike),
        )
        for (cells, more), alike in merged.items()
    ]


def _some(sites: tuple[str, ...]) -> tuple[str, ...]:
    return sites if len(sites) < MAX_SITES else (*sites[: MAX_SITES - 2], f"and {len(sites) - MAX_SITES + 2} more")


def _verdict(flow: Flow) -> str:
    if flow.verdict is None:
        return "-" if flow.consumed else "not used"
    if flow.verdict == "proved":
        return "proved"
    first, *others = flow.rules or [""]
    return f"{flow.verdict.upper()} {','.join([first, *(rule.removeprefix('HS') for rule in others)])}".rstrip()


def _widths(rows: Sequence[_Row]) -> list[int]:
    return [max(len(head), *(cell_len(row.cells[at]) for row in rows)) for at, head in enumerate(HEADS)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _flat(rows: Sequence[_Row], widths: Sequence[int], width: int) -> list[Text]:
    lines = [_line(HEADS, widths, range(len(HEADS)), "bold")]
    for row in rows:
        lines += _row(row, widths, range(len(HEADS)), width)
    return lines


def _grouped(rows: Sequence[_Row], widths: Sequence[int], width: int) -> list[Text]:
    columns = [at for at in range(len(HEADS)) if at != WORKER]
    lines = [_line(HEADS, widths, columns, "bold")]
    for worker, group in groupby(rows, key=lambda row: row.cells[WORKER]):
        lines += [Text(), Text(worker, style="bold")]
        of_worker = list(group)
        shared = of_worker[0].conditions
        if len(of_worker) > 1 and all(row.conditions == shared for row in of_worker):
            lines += _conditions(shared, 2, width)
            of_worker = [replace(row, conditions=()) for row in of_worker]
        for row in of_worker:
            lines += _row(row, widths, columns, width)
    return lines


def _row(row: _Row, widths: Sequence[int], columns: Sequence[int], width: int) -> list[Text]:
    style = VERDICT_STYLE[row.verdict]
    at_site = sum(widths[at] + GAP for at in columns if at < SITE)
    if cell_len(row.cells[SITE]) <= widths[SITE]:
        lines = [_line(row.cells, widths, columns, "", style)]
    else:
        head = [at for at in columns if at <= SITE]
        blank = tuple(cell if at >= MODE else "" for at, cell in enumerate(row.cells))
        lines = [_line(row.cells, widths, head, ""), _line(blank, widths, columns, "", style)]
    lines += [Text(" " * at_site + site) for site in row.more_sites]
    return lines + _conditions(row.conditions, at_site, width)


def _conditions(conditions: Sequence[str], indent: int, width: int) -> list[Text]:
    lines: list[Text] = []
    for condition in conditions:
        lines += wrapped(Text(condition, style="dim"), width, first=Text(" " * indent + "if "), indent=indent + 3)
    return lines


def _line(
    cells: Sequence[str], widths: Sequence[int], columns: Sequence[int], style: str, last: str | None = None
) -> Text:
    line = Text()
    for at in columns:
        ending = at == columns[-1]
        line.append(
            cells[at] if ending else padded(cells[at], widths[at]) + " " * GAP, last if ending and last else style
        )
    line.rstrip()
    return line
