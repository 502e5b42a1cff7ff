"""Reaching into the scanned tree by name, and calling what may take other parameters in another release."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["Tree", "Unbridged", "call", "fields_of", "filled", "replaced"]


class Unbridged(Exception):
    """The tree has nothing of what this tool knows how to use here: the probe cannot run it."""


class Tree:
    """The scanned package, as it is imported here.

    Args:
        package: Its name.
        names: The table of what it calls things.
        algorithm: The speculative algorithm.
    """

    def __init__(self, package: str, names: Mapping[str, Any], algorithm: str = "EAGLE3") -> None:
        self.package = package
        self.names = names
        self.algorithm = algorithm

    def tells(self, cls: Any) -> None:
        """Finds how a target of this class is told its layers under the algorithm: ``names["models"]["setter"]``.

        Raises:
            Unbridged: nobody knows that for the algorithm.
        """
        known = self.names["models"]["setters"].get(self.algorithm.upper(), ())
        if not known:
            raise Unbridged(f"how a target is told its layers is not known for {self.algorithm}")
        setter = next((each for each in known if hasattr(cls, each)), known[0])
        self.names = {**self.names, "models": {**self.names["models"], "setter": setter}}

    def module(self, name: str) -> types.ModuleType | None:
        """A module by its name below the package, or None where the tree has none of that name."""
        whole = f"{self.package}.{name}"
        try:
            return importlib.import_module(whole)
        except ModuleNotFoundError as error:
            if error.name and (whole == error.name or whole.startswith(error.name + ".")):
                return None
            raise

    def find(self, module: str, *path: str) -> Any:
        """What stands in a module under a path of attributes, or None."""
        found: Any = self.module(module)
        for name in path:
            found = getattr(found, name, None)
        return found

    def need(self, module: str, *path: str) -> Any:
        """The same, for what there must be.

        Raises:
            Unbridged: it is not there.
        """
        found = self.find(module, *path)
        if found is None:
            raise Unbridged(f"{self.package}.{module} has no {'.'.join(path)}")
        return found

    def first(self, places: Sequence[Sequence[str]]) -> tuple[str, Any]:
        """The first of several places that the tree has, and what stands there.

        Raises:
            Unbridged: it has none.
        """
        for place in places:
            if (found := self.find(*place)) is not None:
                return ".".join(place), found
        raise Unbridged(f"{self.package} has none of {', '.join('.'.join(each) for each in places)}")


def call(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Calls with those of the arguments that it has parameters for."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return function(**given)
    return function(**{each.name: given[each.name] for each in parameters if each.name in given})


def filled(table: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A table with its ``$words`` replaced; what has no value yet is left out."""
    known = {"none": None, **values}
    out: dict[str, Any] = {}
    for key, value in table.items():
        if not isinstance(value, str) or not value.startswith("$"):
            out[key] = value
        elif value[1:] in known:
            out[key] = known[value[1:]]
    return out


def fields_of(cls: type) -> frozenset[str]:
    """The names that the constructor of a record takes: a dataclass, a struct, or any other class."""
    for attribute in ("__dataclass_fields__", "__struct_fields__"):
        if (found := getattr(cls, attribute, None)) is not None:
            return frozenset(found)
    return frozenset(inspect.signature(cls).parameters)


def replaced(package: str, name: str, old: Any, new: Any) -> int:
    """Puts another function in the place of one in all modules of a package that hold it under its name."""
    count = 0
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").split(".")[0] == package and vars(module).get(name) is old:
            setattr(module, name, new)
            count += 1
    return count
