"""What each target class of a tree captures under configurations that stand for all: plain, immutable facts, without a draft."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flowcheck.flow.facts import Place
from flowcheck.flow.pair_facts import Ids, State

__all__ = ["ClassFacts", "ClassRun", "Purpose", "TargetClass"]


class Purpose(str, Enum):
    """What a forward is run for."""

    INNER = "inner"
    """Every boundary between two layers is asked for, in one call of the setter."""

    AGAIN = "again"
    """The same, after the setter was called for other boundaries."""

    DEFAULT = "default"
    """The setter is called without ids."""

    FIRST = "first"
    """The embedding is asked for: boundary 0."""

    UNTOLD = "untold"
    """The setter is not called: whether the class can be run at all, where the first forward does not come to its end."""

    LAST = "last"
    """What the last layer gives is asked for: the boundary before the final norm."""


@dataclass(frozen=True, slots=True)
class ClassRun:
    """One forward of a class. ``told``: the calls of its setter before that.

    ``deployment``: the way in which ranks share the work, "" for plain tensor parallelism. ``kept``: how many tensors its code
    put into lists, wherever these went. ``raised``: an exception that its setter (``in_setter``) or its forward certainly raises;
    ``deliberate``: a statement of the tree raises it. ``question``: why it is not known what the forward captures. ``unfit``: why
    the class's own layers are not made for the deployment, whatever is captured; "" where they are, for all that is known.
    """

    purpose: Purpose
    deployment: str
    phase: str
    layers: int
    told: tuple[Ids, ...]
    states: tuple[State, ...]
    kept: int
    width: str | None
    concat: Place | None
    processor: Place | None
    raised: str = ""
    raised_at: Place | None = None
    in_setter: bool = False
    deliberate: bool = False
    question: str = ""
    unfit: str = ""
    unmodelled: tuple[str, ...] = ()

    @property
    def boundaries(self) -> tuple[int | None, ...]:
        """What is captured, by index; None where it is no boundary."""
        return tuple(None if state.normed else state.boundary for state in self.states)


@dataclass(frozen=True, slots=True)
class TargetClass:
    """A class that the tree registers for the architectures of its name. ``hook`` is the method by which it can be told what to
    capture, "" where it has none; ``inner`` are the parts of it that have one. ``unset``: the attributes by which it would
    capture though it has no such method, and that nothing sets. ``lacks``: methods that workers call on a target and that it
    has not; ``computed``: a method of the class answers for attributes that it has not. ``like``: the class whose code it
    shares whole."""

    name: str
    place: Place | None
    hook: str
    hook_at: Place | None
    inner: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    computed: bool = False
    like: str = ""


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """A target class, and every forward that was run of it. ``shift``: how far the boundary that is captured lies behind the id
    that asks for it, None where that is not known."""

    cls: TargetClass
    runs: tuple[ClassRun, ...] = ()
    shift: int | None = None
