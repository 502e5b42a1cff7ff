"""From bytes to a small typed tree: parsing, positions, the name index and their cache.

Owns everything that knows Python's syntax. It does not know what a name means.
"""

from flowcheck.syntax import ir
from flowcheck.syntax._cache import SyntaxCache
from flowcheck.syntax._model import DefSpan, SyntaxProblem
from flowcheck.syntax._source import Tree
from flowcheck.syntax.checkup import Checkup
from flowcheck.syntax.index import DefRef, NameIndex, Use
from flowcheck.syntax.module import ModuleSyntax, SyntaxStats
from flowcheck.syntax.store import SyntaxStore

__all__ = [
    "Checkup", "DefRef", "DefSpan", "ModuleSyntax", "NameIndex", "SyntaxCache", "SyntaxProblem", "SyntaxStats", "SyntaxStore",
    "Tree", "Use", "ir",
]  # fmt: skip
