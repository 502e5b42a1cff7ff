"""The page of ``flowcheck upgrade``: each pair, path by path, in the old tree and in the new one."""

from __future__ import annotations

from rich.text import Text

from flowcheck.report.documents import PairChange, PathChange, PathEnd, UpgradeDocument, WantedIds
from flowcheck.report.model import Finding
from flowcheck.report.terminal.pair import needs_rows
from flowcheck.report.terminal.text import VERDICT_STYLE, counted, hanging, labelled, padded, spoken_path, wrapped

__all__ = ["upgrade_page"]

STYLE = {"same": "", "better": "green", "worse": "bold red", "moved": "bold red"}
MOST_STATES = 9


def upgrade_page(document: UpgradeDocument, width: int) -> list[Text]:
    """The lines of the page."""
    title = Text.assemble((document.old.label, "bold"), " -> ", (document.new.label, "bold"))
    cost = Text(f"{document.wall_seconds:.1f} s", style="dim")
    gap = width - title.cell_len - cost.cell_len
    lines = [Text.assemble(title, " " * gap, cost)] if gap >= 2 else wrapped(title, width)
    for change in document.pairs:
        lines += [Text(), *_pair(change, width)]
    worse = sum(change.worse for change in document.pairs)
    last = Text(f"{counted(len(document.pairs), 'pair')}: ")
    last.append(f"{worse} worse" if worse else "none worse", "bold red" if worse else "green")
    return [*lines, Text(), last]


def _pair(change: PairChange, width: int) -> list[Text]:
    pair = change.pairing
    target = f"{pair.target.label}, {counted(pair.target.layers or 0, 'layer')} x {pair.target.hidden_size}"
    rows = [
        ("pair", pair.name),
        ("draft", f"{pair.draft.label}, {change.algorithm}"),
        ("target", target),
        *needs_rows(pair),
        *_ids(change),
    ]
    lines = [*labelled(rows, width, indent=0), Text()]
    lines += _paths(change.paths, width)
    for label, findings in (("gone", change.gone), ("new", change.came)):
        lines += [line for finding in findings for line in _finding(label, finding, width)]
    if change.because:
        lines += wrapped(Text.assemble(("worse", "bold red"), f": {change.because}"), width)
    return lines


def _ids(change: PairChange) -> list[tuple[str, str]]:
    """The ids that the draft needs: said once where both trees need the same."""
    old, new = change.old_ids, change.new_ids
    if (old.ids, old.reason) == (new.ids, new.reason):
        return [("ids", f"{_needed(new)}{' in both' if new.ids is not None else ''}{_written(new)}")]
    return [("ids", f"old: {_needed(old)}{_written(old)}"), ("", f"new: {_needed(new)}{_written(new)}")]


def _needed(ids: WantedIds) -> str:
    if ids.ids is not None:
        return f"[{', '.join(map(str, ids.ids))}]"
    return ids.reason if ids.is_written else f"not found: {ids.reason}"


def _written(ids: WantedIds) -> str:
    if ids.ids is None:
        return ""
    return ", as the draft writes them" if ids.is_written else ", which the draft does not write"


def _paths(paths: list[PathChange], width: int) -> list[Text]:
    if not paths:
        return wrapped(Text("no path captures states for the pair in either tree"), width)
    conditions = list(dict.fromkeys(path.condition for path in paths))
    paths = sorted(paths, key=lambda path: conditions.index(path.condition))
    names = [", ".join(filter(None, (f"{path.phase} {spoken_path(path.path)}", path.batch))) for path in paths]
    column = max(map(len, names)) + 2
    ends = [end for path in paths for end in (path.old, path.new)]
    widths = [max(len(_cells(end)[at]) for end in ends) for at in range(3)]
    lines: list[Text] = []
    said = ""
    for name, path in zip(names, paths, strict=True):
        if path.condition != said:
            said = path.condition
            lines += wrapped(Text(f"where {said}" if said else "in any case", "dim"), width)
        if path.old is not None and path.old == path.new:
            lines += _line(name, column, "both", path.new, widths, width)
            continue
        lines += _line(name, column, "old", path.old, widths, width)
        lines += _line("", column, "new", path.new, widths, width, path.becomes)
    return lines


def _line(
    name: str, column: int, which: str, end: PathEnd | None, widths: list[int], width: int, becomes: str = "same"
) -> list[Text]:
    line = Text(padded(name, column) + padded(which, 6))
    for cell, room in zip(_cells(end), widths, strict=True):
        line.append(padded(cell, room) + "  ")
    if end is None:
        line.append("no such path", "dim")
    else:
        said = "proved" if end.verdict == "proved" else f"{end.verdict.upper()} {', '.join(end.rules)}".rstrip()
        line.append(said, VERDICT_STYLE[end.verdict])
        line.append(f"  {becomes}" if becomes in ("better", "moved") else "", STYLE[becomes])
    return hanging(line, width, column + 6)


def _cells(end: PathEnd | None) -> tuple[str, str, str]:
    if end is None:
        return "-", "-", "-"
    names = ["?" if each is None else "E" if each == 0 else str(each) for each in end.captured_boundaries]
    captured = " ".join([*names[:MOST_STATES], "…"] if len(names) > MOST_STATES else names)
    return captured or "-", str(end.width) if end.width is not None else "-", end.per_rank or "-"


def _finding(label: str, finding: Finding, width: int) -> list[Text]:
    where = f"  {finding.file}:{finding.line}" if finding.file is not None else ""
    head = Text(f"{padded(label, 6)}{finding.severity}[{finding.rule}] {finding.message}{where}")
    return hanging(head, width, 6)
