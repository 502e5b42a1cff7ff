"""``flowcheck schema``: the JSON Schema of the JSON report."""

from __future__ import annotations

import json

from flowcheck.cli.output import write

__all__ = ["schema"]


def schema() -> None:
    """Print the JSON Schema of the JSON report."""
    from flowcheck.report.model import json_schema

    write(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")
