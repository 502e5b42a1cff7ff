"""The story of a pair in a tree on one screen: from the ids in the draft's configuration to the input of its ``fc``.

Paths that run the same way are told once. A condition is named at the verdict that depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from flowcheck.report.model import Capture, CapturedState, Finding, Location, Pairing, Report
from flowcheck.report.terminal.pair import LABEL_STYLES, pair_rows
from flowcheck.report.terminal.text import (
    SEVERITY_STYLE,
    VERDICT_STYLE,
    counted,
    hanging,
    labelled,
    shorter,
    spoken_path,
    wrapped,
)

__all__ = ["trace_page"]

Row = tuple[str, str]

PER_RANK = {
    "complete": "complete on each rank",
    "partial": "each rank has its part of a sum",
    "scattered": "each rank has its share of the rows",
    None: "",
}
MOST_IDS = 12
LABEL = len("verdict")


def trace_page(report: Report, pair: Pairing, width: int) -> list[Text]:
    """The lines of the page."""
    blocks = [_header(report, pair, width)]
    groups = _groups(report.capture)
    for number, group in enumerate(groups):
        same = next((known for known in groups[:number] if _way(known[0]) == _way(group[0])), None)
        blocks.append(_path(group, report, pair, width, same))
    if not groups:
        blocks.append(_no_paths(report, width))
    blocks += [_finding(finding, width) for finding in report.findings]
    blocks.append(_summary(report, width))
    return [line for number, block in enumerate(blocks) for line in ([Text(), *block] if number and block else block)]


def _header(report: Report, pair: Pairing, width: int) -> list[Text]:
    source, scenario = report.source, report.scenario
    title = Text.assemble((source.label, "bold"), f"  {source.kind}")
    cost = Text(f"{report.stats.wall_seconds:.1f} s", style="dim")
    gap = width - title.cell_len - cost.cell_len
    lines = [Text.assemble(title, " " * gap, cost)] if gap >= 2 else wrapped(title, width)
    settings = "".join(f"  {key}={value}" for key, value in scenario.settings.items())
    launch = f"  ({scenario.launch})" if scenario.launch else ""
    rows = [
        *pair_rows(report, pair),
        ("package", source.root or "."),
        ("run", f"{scenario.algorithm}{settings}{launch}"),
        *_written(report, pair),
    ]
    return lines + labelled(rows, width, indent=0, styles=LABEL_STYLES)


def _written(report: Report, pair: Pairing) -> Iterator[Row]:
    """The ids of the draft's configuration, and whether this tree reads them."""
    read = {told.key for row in report.capture for told in row.told if told.key}
    for each in pair.ids:
        note = "" if each.key in read or not read else ", which this tree does not read"
        yield "config", f"{each.key} {_list(each.ids)}{note}"
    if not pair.ids:
        yield "config", "no ids are written"


# -------------------------------------------------------------------------------------------------------------- paths
def _groups(rows: Iterable[Capture]) -> list[list[Capture]]:
    """Rows that tell the same story, whatever each rank has of the states in the end."""
    groups: dict[str, list[Capture]] = {}
    for row in rows:
        told = row.model_dump_json(include={"told"})
        groups.setdefault(f"{told} {_way(row)}", []).append(row)
    return list(groups.values())


def _way(row: Capture) -> str:
    """What becomes of the ids once the target was told, as one text."""
    same = row.model_dump_json(include={"kept", "captured_boundaries", "concat", "width"})
    places = [(state.file, state.line, state.boundary, state.normed) for state in row.states]
    return f"{same} {places} {row.reason if not row.states else ''}"


def _path(group: list[Capture], report: Report, pair: Pairing, width: int, same: list[Capture] | None) -> list[Text]:
    """One way from the ids to the draft; where all but the ids is ``same`` as on other paths, those are named."""
    first, root = group[0], report.source.root
    names = [f"{name}{f' ({row.runner})' if row.runner else ''}" for name, row in _named(group).items()]
    rows = list(_told(first, root))
    if same is None:
        rows += [*_kept(first, root), *_states(first, root), *_joined(first, root), *_fc(first, report, pair)]
    else:
        rows.append(("then", f"as on {', '.join(_named(same))}"))
    lines = labelled(((label.ljust(LABEL), text) for label, text in rows), width)
    return [*wrapped(Text(", ".join(names), "bold"), width), *lines, *_ends(group, width)]


def _named(group: list[Capture]) -> dict[str, Capture]:
    """The rows of a group by their names."""
    return {f"{row.phase} {spoken_path(row.path)}": row for row in group}


def _told(row: Capture, root: str) -> Iterator[Row]:
    if not row.told:
        yield "ids", "the target is told nothing"
    for number, told in enumerate(row.told):
        if told.reason:
            said = f"not known: {told.reason}"
        elif told.ids is None:
            said = "none: the setter takes its default"
        else:
            said = f"{_list(told.ids)}{f', from {told.key}' if told.key and number == len(row.told) - 1 else ''}"
        yield ("ids" if not number else ""), _at(told.place, root, said)


def _kept(row: Capture, root: str) -> Iterator[Row]:
    symbols = dict.fromkeys(place.symbol for kept in row.kept for place in kept.places if place.symbol)
    methods = dict.fromkeys(told.method for told in row.told)
    names = list(symbols or methods)
    if names:
        yield "setter", ", ".join(names)
    for kept in row.kept:
        for place in kept.places:
            yield "", _at(place, root, kept.text)
    if row.told and not row.kept and not row.reason:
        yield "setter", "leaves the target as it was made"


def _states(row: Capture, root: str) -> Iterator[Row]:
    """Where each boundary is captured; those of one place together."""
    places: dict[tuple[str | None, int | None], list[CapturedState]] = {}
    for state in row.states:
        places.setdefault((state.file, state.line), []).append(state)
    for number, ((file, line), states) in enumerate(places.items()):
        said = " ".join(("boundaries" if len(states) > 1 else "boundary", *map(_name, states)))
        place = Location(file=file, line=line, column=1) if file is not None and line is not None else None
        yield ("states" if not number else ""), _at(place, root, said)
    if not row.states and row.verdict != "unproved":
        yield "states", "none"


def _joined(row: Capture, root: str) -> Iterator[Row]:
    if row.width is None and row.concat is None:
        return
    widths = list(dict.fromkeys(state.width for state in row.states))
    terms = f"{len(row.states)} x {widths[0]} = " if len(widths) == 1 and len(row.states) > 1 else ""
    yield (
        "concat",
        _at(row.concat, root, f"{terms}{row.width if row.width is not None else 'a width that is not known'}"),
    )


def _fc(row: Capture, report: Report, pair: Pairing) -> Iterator[Row]:
    """What takes the states in: the layer of the draft's class in this tree, else what the pair itself says."""
    took = report.intake
    if took is None or took.in_features is None:
        wide = pair.fc.found if pair.fc.found is not None else pair.fc.wanted
        if wide is not None:
            source = "the checkpoint" if pair.fc.found is not None else "the configuration"
            out = pair.fc.output if pair.fc.output is not None else "?"
            yield "fc", f"{wide} -> {out} by {source}{_fitting(row, wide)}"
        if took is not None and took.question:
            yield "", f"{took.model_class}: {took.question}"
        return
    place = Location(file=took.file, line=took.line, column=1) if took.file is not None and took.line else None
    shape = f"{took.in_features} -> {took.out_features if took.out_features is not None else '?'}"
    yield "fc", _at(place, report.source.root, f"{took.model_class}.{took.layer} {shape}{_fitting(row)}")
    if took.states is not None and took.state_width is not None:
        factors = (took.states, took.states_key), (took.state_width, took.state_width_key)
        yield "", " x ".join(f"{number} ({key or 'in the code'})" for number, key in factors)
    if row.width is not None and row.width in took.skipped_at:
        yield "", f"left out for states that are {row.width} wide"


def _fitting(row: Capture, wide: int | None = None) -> str:
    taken = row.draft_fc_in_features if row.draft_fc_in_features is not None else wide
    if row.width is None or taken is None:
        return ""
    return ", as wide" if row.width == taken else f": {row.width} does not fit"


def _ends(group: list[Capture], width: int) -> list[Text]:
    """What becomes of it: a verdict for each condition, one where it depends on none."""
    lines: list[Text] = []
    ends: dict[tuple[str, ...], tuple[Capture, list[Capture]]] = {}
    for row in group:
        key = (row.verdict, *row.rules, row.per_rank or "", row.reason)
        ends.setdefault(key, (row, []))[1].append(row)
    for row, rows in ends.values():
        verdict = Text("  verdict  ")
        verdict.append(_verdict(row), VERDICT_STYLE[row.verdict])
        conditions = dict.fromkeys(", ".join(filter(None, (each.condition, each.batch))) for each in rows)
        where = "" if "" in conditions or len(ends) == 1 else f" where {' or '.join(conditions)}"
        names = dict.fromkeys(f"{each.phase} {spoken_path(each.path)}" for each in rows)
        if len(ends) > 1 and len(rows) < len(group) and not where:
            where = f" on {', '.join(names)}"
        said = "; ".join(filter(None, (PER_RANK[row.per_rank], row.reason)))
        verdict.append(f"{where}{f': {said}' if said else ''}")
        lines += hanging(verdict, width, 11)
    return lines


def _verdict(row: Capture) -> str:
    if row.verdict == "proved":
        return "proved"
    return f"{row.verdict.upper()} {', '.join(row.rules)}".rstrip()


def _no_paths(report: Report, width: int) -> list[Text]:
    if any(finding.rule.startswith("HS2") and not finding.kind for finding in report.findings):
        return wrapped(Text("no path of this tree captures states for the pair", VERDICT_STYLE["violated"]), width)
    return wrapped(
        f"{report.scenario.algorithm} takes no states from inside the target: there is no way to follow", width
    )


# ----------------------------------------------------------------------------------------------------------- findings
def _finding(finding: Finding, width: int) -> list[Text]:
    style = VERDICT_STYLE["unproved"] if finding.verdict == "unproved" else SEVERITY_STYLE[finding.severity]
    head = Text.assemble((f"{finding.severity}[{finding.rule}]", style), " ", (finding.message, "bold"))
    lines = hanging(head, width, 2)
    where = f"{finding.file}:{finding.line}" if finding.file is not None else ""
    rows = [("at", where or ", ".join(finding.keys)), ("when", finding.condition), ("fix", finding.fix)]
    return lines + labelled(rows, width)


def _summary(report: Report, width: int) -> list[Text]:
    line = Text(f"{counted(len(report.capture), 'path')}: ")
    for number, verdict in enumerate(("proved", "violated", "unproved")):
        count = sum(row.verdict == verdict for row in report.capture)
        line.append(", " if number else "")
        line.append(f"{count} {verdict}", VERDICT_STYLE[verdict] if count else "")
    if report.summary.hidden:
        line.append(f"; {counted(report.summary.hidden, 'finding')} about other things (flowcheck scan)")
    return wrapped(line, width)


# ------------------------------------------------------------------------------------------------------------- pieces
def _at(place: Location | None, root: str, said: str) -> str:
    return f"{said}  {shorter(place.file, 1, root)}:{place.line}" if place is not None else said


def _name(state: CapturedState) -> str:
    if state.boundary is None:
        return "?"
    return f"{state.boundary}{' (the embedding)' if state.boundary == 0 else ''}{' (its norm)' if state.normed else ''}"


def _list(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:MOST_IDS]))
    return f"[{shown}{', …' if len(ids) > MOST_IDS else ''}]"
