"""What the evaluation of one activation is made of: frames, what is raised, and how an evaluation is cut short."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowcheck.interp.heap import State
from flowcheck.interp.trails import Site
from flowcheck.interp.values import ClassV, FuncV, Value

if TYPE_CHECKING:
    from flowcheck.program.modules import Module
    from flowcheck.syntax import ir

__all__ = ["Budget", "CallCut", "CallEvent", "Dead", "Frame", "LazyCut", "Outcome", "Raised"]


class Dead(Exception):
    """No state continues: the expression raises or cannot be reached on any path."""


class Budget(Exception):
    """A budget is exhausted; what was asked stays unproved."""


@dataclass(slots=True)
class Raised:
    """A state in which an exception is on its way. ``name`` is a builtin's name, "?" for one that nobody knows;
    ``cls`` is set for a class of the tree. ``certain`` is False when only an unmodelled operation may raise."""

    state: State
    name: str
    cls: ClassV | None
    value: Value
    site: Site | None
    certain: bool = True
    weight: int = 1  # how many states were joined into this one


Outcome = tuple[str, State, "Value | None"]
"""("n" falls through | "r" returns | "b" breaks | "c" continues, state, returned value)."""


class Frame:
    """One activation: where names are looked up, and who called."""

    __slots__ = (
        "call", "cls", "discarded", "env", "func", "global_names", "hook", "memo", "module", "nonlocal_names", "outer", "owner",
        "self_", "slice_of", "up", "want", "yields",
    )  # fmt: skip

    def __init__(
        self,
        func: FuncV | None,
        module: Module,
        env: int,
        owner: ir.FunctionDef | None,
        cls: ClassV | None = None,
        self_: Value | None = None,
        up: Frame | None = None,
        call: Site | None = None,
    ) -> None:
        self.func = func
        self.module = module
        self.env = env
        self.owner = owner
        self.cls = cls
        self.self_ = self_
        self.up = up
        self.call = call
        self.global_names: frozenset[str] = frozenset()
        self.nonlocal_names: frozenset[str] = frozenset()
        self.hook: Callable[[Value, State], Value] | None = None
        self.slice_of: tuple[ir.FunctionDef, set[str]] | None = None
        self.want: bool | None = None
        self.outer: Frame | None = None  # of a comprehension: the frame that it stands in
        self.yields: list[Value] | None = None
        self.memo: dict[str, Value] = {}
        self.discarded = False  # the caller does not use what this call returns

    @property
    def symbol(self) -> str:
        """The qualified name of the function that the frame runs."""
        if self.func is not None:
            return self.func.qualname
        if self.slice_of is not None:
            return self.slice_of[0].qualname
        return self.cls.qualname if self.cls is not None else ""

    def site(self, node: ir.Node) -> Site:
        """Where a node of this frame's function is."""
        return Site(self.module, self.owner, node.nid, self.symbol)

    def chain(self) -> Iterator[Frame]:
        """The frame and its callers, innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.up


@dataclass(slots=True)
class CallEvent:
    """A call of something that the interpreter does not enter, offered to the config's observer."""

    callee: Value
    name: str
    args: list[Value]
    keywords: dict[str, Value]
    state: State
    node: ir.Node | None
    frame: Frame


class CallCut(Exception):
    """A call that nothing needs has cost more than it may."""


class LazyCut(Exception):
    """Evaluating a skeleton's attribute has cost more than it may."""
