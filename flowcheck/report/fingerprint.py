"""Fingerprints of findings: they name the same defect before and after its lines move.

A fingerprint is made of the rule, the file inside the package, the enclosing symbol, the phase and the text of the line
without its blanks (the mode, where there is no text). Line numbers have no part in it.
"""

from __future__ import annotations

import hashlib
from collections import Counter

__all__ = ["Fingerprints"]


class Fingerprints:
    """Gives out fingerprints; findings that cannot be told apart are numbered in the order in which they come."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def of(self, *, rule: str, file: str, symbol: str, phase: str, text: str) -> str:
        """The fingerprint of one finding: 16 hexadecimal digits."""
        parts = "\0".join((rule, file, symbol, phase, "".join(text.split())))
        self._seen[parts] += 1
        nth = self._seen[parts]
        salted = parts if nth == 1 else f"{parts}\0{nth}"
        return hashlib.sha256(salted.encode("utf-8", "replace")).hexdigest()[:16]
