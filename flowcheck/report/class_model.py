"""What a report says of target classes: a part of :mod:`flowcheck.report.model`."""

from __future__ import annotations

from typing import Literal

from flowcheck.report.parts import Part, VerdictName

__all__ = ["ClassAnswer", "ClassCounts", "TargetClass"]


class ClassAnswer(Part):
    """The worst answer to one question about a target class. ``conditions``: the deployments that it holds for, where not for
    all; ``reason``: what the rules say."""

    question: Literal["hook", "read", "value", "sums", "rows", "paths", "ends", "aux", "same"]
    verdict: VerdictName
    rules: list[str]
    conditions: list[str]
    reason: str


class TargetClass(Part):
    """A class that the tree registers for target models. ``hook``: the method by which it can be told what to capture, "" for
    none; ``inner``: the parts of it that have one. ``like``: the class whose code it shares whole. ``shift``: how far the
    boundary that is captured lies behind the id that asks for it. ``verdict``: the worst answer, null where nothing was asked.
    ``left``: the deployments that were not asked, and why."""

    name: str
    file: str | None
    line: int | None
    hook: str
    inner: list[str]
    like: str
    shift: int | None
    verdict: VerdictName | None
    answers: list[ClassAnswer]
    left: list[str]


class ClassCounts(Part):
    """How many target classes ended each way; ``without`` can be told nothing."""

    proved: int
    violated: int
    unproved: int
    without: int
