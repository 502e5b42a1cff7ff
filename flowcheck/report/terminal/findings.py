"""Findings as code frames, with the chain of sites below."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from flowcheck.report.model import Evidence, Finding, Snippet
from flowcheck.report.terminal.text import SEVERITY_STYLE, VERDICT_STYLE, labelled, padded, spoken_path, wrapped

__all__ = ["chain_lines", "finding_lines"]

SHOWN_STEPS = 8
NOTE_ROOM = 24
"""A note stands beside its site where it has at least this many columns and no word of it is broken, else below."""


def finding_lines(finding: Finding, width: int, *, verbose: bool) -> list[Text]:
    """One finding: what is wrong, the code, how it came to that, what it affects, how to mend it."""
    style = VERDICT_STYLE["unproved"] if finding.verdict == "unproved" else SEVERITY_STYLE[finding.severity]
    head = Text.assemble((f"{finding.severity}[{finding.rule}]", style), " ", (finding.message, "bold"))
    lines = wrapped(head, width, first=Text(), indent=2)
    if finding.file is not None:
        where = Text(f"{finding.file}:{finding.line}:{finding.column}")
        if finding.symbol:
            where.append(f"  {finding.symbol}", "dim")
        lines += wrapped(where, width, indent=2)
    if finding.snippet is not None:
        lines += _frame(finding.snippet, width, style)
    lines += chain_lines(finding.evidence, width, indent=2, limit=None if verbose else SHOWN_STEPS)
    rows = [
        ("at", ", ".join(finding.keys)),
        ("affects", _affected(finding.affects)),
        ("when", finding.condition),
        ("fix", finding.fix),
    ]
    if verbose:
        rows.append(("fingerprint", finding.fingerprint))
    return lines + labelled(rows, width)


def chain_lines(chain: Sequence[Evidence], width: int, *, indent: int, limit: int | None = None) -> list[Text]:
    """``path:line  note`` from origin to use; the middle of a chain longer than ``limit`` is left out and counted."""
    left_out = 0
    before, after = list(chain), []
    if limit is not None and len(chain) > limit:
        keep = limit // 2
        left_out = len(chain) - 2 * keep
        before, after = list(chain[:keep]), list(chain[-keep:])
    shown = before + after
    column = indent + max((cell_len(_site(step)) for step in shown), default=0) + 2
    room = width - column
    lines: list[Text] = []
    for number, step in enumerate(shown):
        if left_out and number == len(before):
            lines.append(Text(" " * indent + f"... {left_out} more (--verbose)", style="dim"))
        if room >= max(NOTE_ROOM, *map(cell_len, step.note.split()), 0):
            first = Text(padded(" " * indent + _site(step), column))
            lines += wrapped(step.note, width, first=first, indent=column)
        else:
            lines += wrapped(_site(step), width, indent=indent)
            lines += wrapped(step.note, width, indent=indent + 4)
    return lines


def _site(step: Evidence) -> str:
    return f"{step.file}:{step.line}"


def _affected(labels: Sequence[str]) -> str:
    """The flows behind a finding; workers that share them are named together."""
    flows: dict[str, list[str]] = {}
    for label in labels:
        phase, path, worker = [*label.split("/", 2), "", ""][:3]
        flows.setdefault(worker, []).append(f"{phase} {spoken_path(path)}" if path else phase)
    workers: dict[str, list[str]] = {}
    for worker, named in flows.items():
        workers.setdefault(", ".join(named), []).append(worker)
    return "; ".join(f"{named} ({', '.join(of)})" if any(of) else named for named, of in workers.items())


# ------------------------------------------------------------------------------------------------------------- frame
def _frame(snippet: Snippet, width: int, style: str) -> list[Text]:
    dedent = min((len(text) - len(text.lstrip()) for text in snippet.lines if text.strip()), default=0)
    gutter = len(str(snippet.first_line + len(snippet.lines) - 1))
    room = width - gutter - 7
    marked = snippet.lines[snippet.line - snippet.first_line][dedent:]
    before = cell_len(marked[: max(snippet.column - 1 - dedent, 0)])
    mark = cell_len(marked[max(snippet.column - 1 - dedent, 0) : snippet.end_column - 1 - dedent])
    skip = max(0, min(before - 8, before + max(mark, 1) - room + 1)) if before + max(mark, 1) > room else 0
    lines = []
    for number, text in enumerate(snippet.lines, start=snippet.first_line):
        own = number == snippet.line
        lines.append(
            Text.assemble(
                (f"  {'>' if own else ' '} {number:>{gutter}} | ", "" if own else "dim"),
                (_window(text[dedent:], skip, room), "" if own else "dim"),
            )
        )
        lines[-1].rstrip()
        if own:
            start = before - skip
            carets = "^" * max(1, min(mark, room - start))
            lines.append(Text.assemble((f"    {'':>{gutter}} | ", "dim"), " " * start, (carets, style)))
    return lines


def _window(text: str, skip: int, room: int) -> str:
    """The cells of ``text`` from ``skip`` on that fit into ``room``; what is left out on either side is marked."""
    if skip:
        head = set_cell_size(text, skip + 1)
        text = "…" + text[len(head.rstrip()) if cell_len(text) <= skip + 1 else len(head) :]
    return text if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"
