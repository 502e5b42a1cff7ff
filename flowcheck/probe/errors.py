"""What can keep a probe from running, in the user's words."""

from __future__ import annotations

__all__ = ["ProbeError"]


class ProbeError(Exception):
    """A probe that cannot be started; ``str(error)`` is one clear line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.split()))
