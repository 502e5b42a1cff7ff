"""Where the data that ships with flowcheck lies: ``rules/`` in a checkout, ``flowcheck/_rules`` in an installed wheel.

Knows paths and nothing of what the files say.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["rules_dir"]


def rules_dir() -> Path:
    """The folder of the shipped rules and vocabulary."""
    package = Path(__file__).resolve().parent
    installed = package / "_rules"
    return installed if installed.is_dir() else package.parent / "rules"
