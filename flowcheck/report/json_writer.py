"""The report as one JSON document. Imports the report's model and nothing else of flowcheck."""

from __future__ import annotations

from flowcheck.report.model import Report

__all__ = ["to_json"]


def to_json(report: Report) -> str:
    """The document, with a line end."""
    return report.model_dump_json(by_alias=True, indent=2) + "\n"
