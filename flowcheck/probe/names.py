"""What a scanned tree calls the things that a rank needs: ``rules/probe.toml``, which goes into each job.

For the supervisor's side: a rank has the table in its job.
"""

from __future__ import annotations

import sys
from typing import Any

from flowcheck.data import rules_dir

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["probe_names"]


def probe_names() -> dict[str, Any]:
    """The table, for :attr:`flowcheck.probe.protocol.Job.names`."""
    return tomllib.loads((rules_dir() / "probe.toml").read_text("utf-8"))
