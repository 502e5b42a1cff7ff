"""The two small types that every module here speaks: where a definition stands, and what went wrong."""

from __future__ import annotations

import msgspec

__all__ = ["DefSpan", "SyntaxProblem"]


class SyntaxProblem(Exception):
    """A file or definition that cannot be parsed. ``str()`` is one line that starts with ``path:line``.

    ``path`` is relative to the tree, ``line`` counts from 1 (0 where no line is to blame), ``reason`` is a phrase.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        place = f"{path}:{line}" if line else path
        super().__init__(f"{place}: {' '.join(reason.split())}")


class DefSpan(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where one definition stands in its file.

    ``kind`` is "def" or "class". Lines count from 1; ``line`` is that of the ``def``, ``async`` or ``class`` keyword,
    ``start_line`` that of the first decorator. ``indent`` is the number of characters before the keyword. ``start``
    (at the keyword), ``header_end`` (after the header's colon) and ``end`` (after the last token) are offsets in code
    points into :attr:`flowcheck.syntax.ModuleSyntax.text`. ``parent`` is the index of the definition that holds this
    one in the file's spans, -1 at top level. ``local`` tells that a function is among the holders.
    """

    kind: str
    name: str
    qualname: str
    line: int
    start_line: int
    end_line: int
    indent: int
    start: int
    header_end: int
    end: int
    parent: int
    local: bool
