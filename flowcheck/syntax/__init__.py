"""From bytes to a small typed tree: parsing, positions, the name index and their cache.

Owns everything that knows Python's syntax. It does not know what a name means.
"""

from flowcheck.syntax import ir
from flowcheck.syntax._cache import SyntaxCache
from flowcheck.syntax._model import DefSpan, SyntaxProblem
from flowcheck.syntax._source import Tree
from flowcheck.syntax.module import ModuleSyntax, SyntaxStats
from flowcheck.syntax.store import SyntaxStore

__all__ = ["DefSpan", "ModuleSyntax", "SyntaxCache", "SyntaxProblem", "SyntaxStats", "SyntaxStore", "Tree", "ir"]
