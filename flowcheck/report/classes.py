"""The target classes of a tree as rows of the report. Imported only where somebody asks about them."""

from __future__ import annotations

from collections.abc import Iterable

from flowcheck.checks.class_wiring import Cell, ClassEnd, Question
from flowcheck.checks.rules import RuleBook
from flowcheck.report import model
from flowcheck.report.source_text import plain

__all__ = ["class_counts", "class_rows"]


def class_rows(ends: Iterable[ClassEnd], rules: RuleBook) -> list[model.TargetClass]:
    """Every class that the tree registers, with the answers about those that can be told what to capture."""
    return [_row(end, rules) for end in ends]


def class_counts(rows: Iterable[model.TargetClass]) -> model.ClassCounts:
    """How many classes end each way: a class ends as badly as the worst answer about it."""
    worst = [row.verdict for row in rows]
    return model.ClassCounts(
        proved=worst.count("proved"),
        violated=worst.count("violated"),
        unproved=worst.count("unproved"),
        without=worst.count(None),
    )


def _row(end: ClassEnd, rules: RuleBook) -> model.TargetClass:
    cls = end.facts.cls
    answers = [_answer(end, question, rules) for question in Question if end.verdict(question) is not None]
    verdicts = [cell.verdict for cell in end.cells]
    worst = max(verdicts, key=lambda verdict: verdict.weight) if verdicts else None
    return model.TargetClass(
        name=plain(cls.name),
        file=plain(cls.place.path) if cls.place is not None else None,
        line=cls.place.span.line if cls.place is not None else None,
        hook=plain(cls.hook),
        inner=[plain(name) for name in cls.inner],
        like=plain(cls.like),
        shift=end.facts.shift,
        verdict=worst.value if worst is not None else None,
        answers=answers,
        left=[plain(f"{deployment}: {reason}") for deployment, reason in end.left],
    )


def _answer(end: ClassEnd, question: Question, rules: RuleBook) -> model.ClassAnswer:
    verdict = end.verdict(question)
    assert verdict is not None
    cells = [cell for cell in end.cells if cell.question is question and cell.verdict is verdict]
    return model.ClassAnswer(
        question=question.value,
        verdict=verdict.value,
        rules=list(dict.fromkeys(cell.rule for cell in cells if cell.rule)),
        conditions=list(dict.fromkeys(plain(cell.condition) for cell in cells if cell.condition)),
        reason=plain("; ".join(dict.fromkeys(_said(cell, rules) for cell in cells if cell.rule))),
    )


def _said(cell: Cell, rules: RuleBook) -> str:
    return rules[cell.rule].message(cell.key, **dict(cell.fields))
