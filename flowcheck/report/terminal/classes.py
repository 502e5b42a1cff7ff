"""The matrix of target classes: a row for each that can be told what to capture, a column for each question."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from flowcheck.report.model import ClassAnswer, Finding, Report, TargetClass
from flowcheck.report.terminal.text import VERDICT_STYLE, counted, wrapped

__all__ = ["class_lines", "class_notes"]

GLYPHS = {"proved": "ok", "violated": "NO", "unproved": "?"}
COLUMN = 6
COLUMNS = ("hook", "read", "value", "sums", "rows", "paths", "ends", "aux", "same")


def class_lines(report: Report, width: int) -> list[Text]:
    """The matrix, and what its words mean."""
    rows = [row for row in report.classes if row.answers and row.hook]
    if not report.classes:
        return []
    names = max(12, width - COLUMN * len(COLUMNS))
    lines: list[Text] = []
    if rows:
        lines.append(Text("CLASS".ljust(names) + "".join(each.ljust(COLUMN) for each in COLUMNS).rstrip(), "bold"))
    lines += [_line(row, names) for row in rows]
    return [*lines, *_remarks(report.classes, width, shown=bool(rows))]


def _line(row: TargetClass, names: int) -> Text:
    name = row.name if len(row.name) < names else f"{row.name[: names - 2]}…"
    line = Text(name.ljust(names))
    answers: dict[str, ClassAnswer] = {answer.question: answer for answer in row.answers}
    for at, column in enumerate(COLUMNS):
        answer = answers.get(column)
        word = GLYPHS[answer.verdict] if answer is not None else "-"
        style = VERDICT_STYLE[answer.verdict] if answer is not None else "dim"
        line.append(word if at == len(COLUMNS) - 1 else word.ljust(COLUMN), style)
    return line


def _remarks(rows: Sequence[TargetClass], width: int, *, shown: bool) -> list[Text]:
    lines: list[Text] = []
    if shown:
        meaning = "ok proved, NO violated, ? unproved, - not asked; ends: what becomes of ids for the first and the last boundary"
        lines += wrapped(Text(meaning, "dim"), width)
    left: dict[str, list[str]] = {}
    for row in rows:
        for each in row.left:
            left.setdefault(each, []).append(row.name)
    for each, names in left.items():
        lines += wrapped(Text(f"not asked with {each} ({', '.join(names)})"), width, indent=2)
    wrappers = [row for row in rows if not row.hook and row.inner]
    unset = [row for row in rows if not row.hook and not row.inner and row.answers]
    without = [row for row in rows if not (row.hook or row.inner or row.answers)]
    if wrappers:
        said = (
            f"{counted(len(wrappers), 'class', 'classes')} cannot be told what to capture, though a part of each can: "
        )
        lines += wrapped(Text(said + ", ".join(row.name for row in wrappers)), width, indent=2)
    if unset:
        said = f"{counted(len(unset), 'class', 'classes')} cannot be told what to capture, though code of each would: "
        lines += wrapped(Text(said + ", ".join(row.name for row in unset)), width, indent=2)
    if without:
        lines += wrapped(
            Text(f"{counted(len(without), 'other class', 'other classes')} cannot be told what to capture"), width
        )
    return lines


def class_notes(findings: Sequence[Finding], width: int) -> list[Text]:
    """Findings about classes that nobody named, a line or two each."""
    lines: list[Text] = []
    for finding in findings:
        where = f"{finding.file}:{finding.line}" if finding.file else ""
        condition = f"with {finding.condition}: " if finding.condition else ""
        lines += wrapped(Text.assemble((f"{finding.rule} ", "bold"), where), width)
        lines += wrapped(Text(f"{condition}{finding.message}"), width, first=Text("  "), indent=2)
        lines += wrapped(Text(", ".join(finding.affects), "dim"), width, first=Text("  "), indent=2)
    return lines
