"""What every part of the report is."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

__all__ = ["Part", "VerdictName"]

VerdictName = Literal["proved", "violated", "unproved"]


class Part(BaseModel):
    """A part of the report: it has the fields that it names and no others, and nobody changes it."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, json_schema_serialization_defaults_required=True
    )
