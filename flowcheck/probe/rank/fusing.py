"""How often the tree's own fused all-reduce answered: that a setting turns it on does not say that it ran."""

from __future__ import annotations

import functools
from typing import Any

from flowcheck.probe.rank.tree import Tree, replaced

__all__ = ["Fusions"]


class Fusions:
    """Counts from when it is made. A function that answers with nothing has left the work to others, and does not count.

    Attributes:
        count: Answers so far. A replay calls no function: what a graph holds was counted while it was recorded.
    """

    def __init__(self, tree: Tree) -> None:
        self.count = 0
        for module, name in tree.names["graphs"]["fused"]:
            if (real := tree.find(module, name)) is not None:
                replaced(tree.package, name, real, self._counted(real))

    def _counted(self, real: Any) -> Any:
        @functools.wraps(real)
        def function(*args: Any, **kwargs: Any) -> Any:
            out = real(*args, **kwargs)
            first = out[0] if isinstance(out, (tuple, list)) and out else out
            self.count += first is not None
            return out

        return function
