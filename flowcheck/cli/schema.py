"""``flowcheck schema``: the JSON Schemas of the documents that commands write."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated

import typer

from flowcheck.cli.output import write

__all__ = ["schema"]


class Document(str, Enum):
    """Which document."""

    REPORT = "report"
    IDS = "ids"
    UPGRADE = "upgrade"


def schema(
    document: Annotated[
        Document, typer.Argument(help="report is what scan, probe, trace and check-pair write.", show_default=True)
    ] = Document.REPORT,
) -> None:
    """Print the JSON Schema of a document that --format json writes."""
    from flowcheck.report.documents import IdsDocument, UpgradeDocument, schema_of
    from flowcheck.report.model import json_schema

    if document is Document.REPORT:
        found = json_schema()
    else:
        found = schema_of(IdsDocument if document is Document.IDS else UpgradeDocument)
    write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
