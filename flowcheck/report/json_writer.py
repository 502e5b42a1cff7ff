"""The report as one JSON document. Knows that it is a model, and nothing else of flowcheck."""

from __future__ import annotations

from pydantic import BaseModel

__all__ = ["to_json"]


def to_json(report: BaseModel) -> str:
    """The document, with a line end."""
    return report.model_dump_json(by_alias=True, indent=2) + "\n"
