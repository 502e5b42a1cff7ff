"""The page of ``flowcheck ids``: for each reading the ids, what each path captures with them, and what to write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from flowcheck.report.documents import IdChoice, IdsDocument
from flowcheck.report.model import Capture
from flowcheck.report.terminal.text import VERDICT_STYLE, counted, hanging, labelled, padded, spoken_path, wrapped

__all__ = ["choices_page", "snippets"]

NONE = {"proved": "none", "violated": "unreachable", "unproved": "not known"}


def choices_page(document: IdsDocument, width: int) -> list[Text]:
    """The lines of the page."""
    source, scenario, pair = document.source, document.scenario, document.pairing
    title = Text.assemble((source.label, "bold"), f"  {source.kind}")
    cost = Text(f"{document.wall_seconds:.1f} s", style="dim")
    gap = width - title.cell_len - cost.cell_len
    lines = [Text.assemble(title, " " * gap, cost)] if gap >= 2 else wrapped(title, width)
    settings = "".join(f"  {key}={value}" for key, value in scenario.settings.items())
    target = f"{pair.target.label}, {counted(pair.target.layers or 0, 'layer')} x {pair.target.hidden_size}"
    rows = [
        ("pair", pair.name),
        ("draft", f"{pair.draft.label}, {pair.algorithm}"),
        ("target", target),
        ("run", f"{scenario.algorithm}{settings}{f'  ({scenario.launch})' if scenario.launch else ''}"),
    ]
    lines += labelled(rows, width, indent=0)
    if pair.trained.question is not None:
        lines += wrapped(
            Text("what the draft was trained on is open: one answer for each reading", VERDICT_STYLE["unproved"]), width
        )
    for choice in document.choices:
        lines += [Text(), *_choice(choice, width)]
    return lines


def snippets(document: IdsDocument) -> list[Text]:
    """What to write and nothing else, one snippet for each reading that has one."""
    return [line for choice in document.choices for line in _snippet(choice.snippet or {}, 0)]


def _choice(choice: IdChoice, width: int) -> list[Text]:
    head = Text.assemble((f"boundaries {_numbers(choice.boundaries)}", "bold"), f"  ({choice.because})")
    lines = hanging(head, width, 2)
    if choice.ids is None:
        said = Text.assemble("  ", (NONE[choice.verdict], VERDICT_STYLE[choice.verdict]), f": {choice.reason}")
        return [*lines, *hanging(said, width, 4)]
    written = ", as the draft writes them" if choice.is_written else ""
    lines += labelled([("ids", f"[{', '.join(map(str, choice.ids))}] in {choice.key}{written}")], width)
    lines += _paths(choice.paths, width)
    if choice.verdict != "proved":
        said = Text.assemble(
            (choice.verdict.upper(), VERDICT_STYLE[choice.verdict]), f" with these ids: {choice.reason}"
        )
        lines += wrapped(said, width, first=Text("  "), indent=4)
    elif left := _left(choice):
        lines += wrapped(left, width, indent=2)
    if not choice.is_written:
        lines += [Text("  in the draft's configuration:", "dim"), *_snippet(choice.snippet or {}, 2)]
    return lines


def _paths(paths: list[Capture], width: int) -> list[Text]:
    conditions = list(dict.fromkeys(row.condition for row in paths))
    rows = sorted(paths, key=lambda row: conditions.index(row.condition))
    names = [", ".join(filter(None, (f"{row.phase} {spoken_path(row.path)}", row.batch))) for row in rows]
    captures = [_numbers([state.boundary for state in row.states]) or "-" for row in rows]
    column = max(map(len, names), default=0) + 2
    second = max(map(len, captures), default=0) + 2
    lines: list[Text] = []
    said = ""
    for row, name, captured in zip(rows, names, captures, strict=True):
        if row.condition != said:
            said = row.condition
            lines += wrapped(Text(f"where {said}" if said else "in any case", "dim"), width, indent=2)
        line = Text(f"  {padded(name, column)}{padded(captured, second)}")
        verdict = "proved" if row.verdict == "proved" else f"{row.verdict.upper()} {', '.join(row.rules)}".rstrip()
        line.append(verdict, VERDICT_STYLE[row.verdict])
        lines += hanging(line, width, 4 + column)
    return lines


def _left(choice: IdChoice) -> str:
    """What remains to be mended where the ids are right."""
    rules = dict.fromkeys(rule for row in choice.paths for rule in row.rules)
    return (
        f"the ids are right; {', '.join(rules)} {'remains' if len(rules) == 1 else 'remain'} (flowcheck trace)"
        if rules
        else ""
    )


def _numbers(boundaries: list[int] | list[int | None]) -> str:
    return " ".join("?" if each is None else str(each) for each in boundaries)


def _snippet(snippet: dict[str, Any], indent: int) -> list[Text]:
    """JSON with objects over several lines and everything else on one."""
    return [Text(" " * indent + line) for line in _json(snippet, "")]


def _json(value: dict[str, Any], before: str) -> Iterator[str]:
    yield f"{before}{{"
    for number, (key, each) in enumerate(value.items()):
        comma = "," if number < len(value) - 1 else ""
        start = f"{json.dumps(key)}: "
        lines = list(_json(each, start)) if isinstance(each, dict) and each else [f"{start}{json.dumps(each)}"]
        yield from (f"  {line}" for line in [*lines[:-1], f"{lines[-1]}{comma}"])
    yield "}"
