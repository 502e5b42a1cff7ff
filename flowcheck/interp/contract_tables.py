"""Whose contract is asked for: functions, classes and what lies outside, by patterns over their names."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence

from flowcheck.interp.kernels import Contract
from flowcheck.interp.values import ClassV, FuncV

__all__ = ["Contracts"]


class Contracts:
    """``functions``, ``classes`` and ``externals`` map patterns to contracts, ``unknowns`` those of how something that is
    not known is reached. ``pure``: patterns of what lies outside and writes none of its arguments ("!": of what may).
    ``entered``: the addresses of classes whose contracts do not hold for now.
    """

    def __init__(
        self,
        functions: Mapping[str, Contract],
        classes: Mapping[str, Contract],
        externals: Mapping[str, Contract],
        unknowns: Mapping[str, Contract],
        pure: Sequence[str] = (),
    ) -> None:
        self.functions = dict(functions)
        self.classes = dict(classes)
        self.externals = dict(externals)
        self.unknowns = dict(unknowns)
        self.pure = tuple(pure)
        self.entered: set[int] = set()
        self._plain = [k for k in self.functions if "." not in k]
        self._of_function: dict[int, Contract | None] = {}
        self._of_method: dict[tuple[int, int], Contract | None] = {}
        self._of_class: dict[int, Contract | None] = {}

    def of_function(self, f: FuncV) -> Contract | None:
        """The contract of a function of the tree, by its name or by a class that its class descends from."""
        key = id(f.node)
        if f.cls is None and key in self._of_function:
            return self._of_function[key]
        found = self.functions.get(f.name) if f.cls is None else None
        if found is None and f.cls is None:
            found = next((self.functions[p] for p in self._plain if fnmatch.fnmatchcase(f.name, p)), None)
        if f.cls is None:
            self._of_function[key] = found
        return found

    def of_method(self, f: FuncV, c: ClassV) -> Contract | None:
        """The contract of a method that is called on an instance of ``c``; none while its own body is run."""
        if c.oid in self.entered:
            return None
        key = (id(f.node), c.oid)
        if key not in self._of_method:
            self._of_method[key] = self._find_method(f, c)
        return self._of_method[key]

    def _find_method(self, f: FuncV, c: ClassV) -> Contract | None:
        for b in c.mro:
            name = f"{b.name}.{f.name}"
            found = self.functions.get(name) or next(
                (k for p, k in self.functions.items() if "*" in p and "." in p and fnmatch.fnmatchcase(name, p)), None
            )
            if found is not None:
                return found
        if f.name not in ("forward", "__call__"):
            return None
        # A class that overrides its base's forward is not what the base's contract speaks of.
        return next((k for b in c.mro if f.cls in b.mro and (k := self._own(b)) is not None), None)

    def of_class(self, c: ClassV) -> Contract | None:
        """The contract that stands for a class; none while its own body is run."""
        if c.oid in self.entered:
            return None
        if c.oid not in self._of_class:
            self._of_class[c.oid] = next((k for b in c.mro if (k := self._own(b)) is not None), None)
        return self._of_class[c.oid]

    def _own(self, c: ClassV) -> Contract | None:
        return self.classes.get(c.name) or next(
            (k for p, k in self.classes.items() if "*" in p and fnmatch.fnmatchcase(c.name, p)), None
        )

    def is_pure(self, name: str) -> bool:
        """Whether something outside the tree writes none of its arguments; the first pattern that fits says so."""
        for pattern in self.pure:
            if fnmatch.fnmatchcase(name, pattern.lstrip("!")):
                return not pattern.startswith("!")
        return False

    def of_external(self, name: str) -> Contract | None:
        """The contract of something outside the tree."""
        found = self.externals.get(name)
        if found is None:
            found = next((k for p, k in self.externals.items() if "*" in p and fnmatch.fnmatchcase(name, p)), None)
        return found

    def of_unknown(self, how: str) -> Contract | None:
        """The contract of something that is not known, by how it is reached."""
        return next((k for p, k in self.unknowns.items() if fnmatch.fnmatchcase(how, p)), None)
