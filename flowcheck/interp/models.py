"""The shape of a model: what a builtin or something outside the tree does with its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flowcheck.interp.heap import State
from flowcheck.interp.values import Value
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["Args", "Keywords", "Model"]

Args = list[Value]
Keywords = dict[str, Value]
Model = Callable[["Interpreter", Args, Keywords, State, "ir.Node | None", "Frame"], Value]
