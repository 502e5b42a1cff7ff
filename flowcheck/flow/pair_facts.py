"""What a tree makes of a pair: plain, immutable facts, one row for each way in which a forward of the target may run.

A *row* is a phase, a path and a condition. It says what the target was told, in the order of the calls, and what its own
forward then hands to the logits processor, named as boundaries of the residual stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Union

from flowcheck.flow.facts import Path, Phase, Place, Step
from flowcheck.flow.width import Intake, KeyUse, Loading

__all__ = [
    "ALL_ROWS",
    "CaptureRow",
    "IdAnswer",
    "Ids",
    "Left",
    "NoModel",
    "PairFacts",
    "Reach",
    "Repair",
    "State",
    "Told",
    "describe",
    "spoken",
]

Ids = Union[tuple[int, ...], None]


class Reach(str, Enum):
    """What each rank holds of a captured state."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    """A summand: the sum over the ranks is the state."""

    SCATTERED = "scattered"
    """Some of its rows."""


@dataclass(frozen=True, slots=True)
class Told:
    """One call of the target's setter. ``ids`` is None where none are passed; ``key`` is where the draft's configuration
    writes them, "" where they come from elsewhere. Where ``reason`` is set, the ids are not known."""

    method: str
    ids: Ids
    key: str
    reason: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Left:
    """What the setters left on the target's objects: ``text`` is ``layers_to_capture = [3, 31, 59]``."""

    text: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class State:
    """One captured state as it reaches the logits processor.

    ``boundary`` is None where it is none, or where that is not known (``certain`` tells these apart; ``reason`` says
    more). ``normed``: it is the norm of that boundary. ``overwritten``: where it was written after it was captured;
    then ``meant`` is the boundary that it was. ``rows`` and ``width`` as text ("all rows", "7168").
    """

    boundary: int | None
    reach: Reach
    normed: bool
    certain: bool
    reason: str
    rows: str
    width: str
    place: Place | None
    overwritten: Place | None = None
    meant: int | None = None

    @property
    def name(self) -> int | None:
        """The boundary that it is, None where it is only the norm of one, or nothing that has a name."""
        return None if self.normed else self.boundary


@dataclass(frozen=True, slots=True)
class CaptureRow:
    """What the target captures on one path, under one condition.

    ``runner`` is the class whose graphs are replayed, "" for eager forwards. ``condition`` is "" or what of the
    deployment the row holds for ("enable_flashinfer_allreduce_fusion is true"). ``raised``: an exception that certainly
    leaves the setter (``in_setter``) or the forward. ``question``: why nothing is known of it, where nothing is.
    ``batch``: for which numbers of rows it holds, "" for all ("<=2048 tok"), with the places that compare them (``limits``).
    ``cuts``: the numbers of rows among these from which on the code goes another way and captures the same.
    ``width``: that of what is handed on, as a number where it is known; ``concat``: where it is put together.
    """

    phase: Phase
    path: Path
    runner: str
    condition: str
    model_class: str
    told: tuple[Told, ...]
    left: tuple[Left, ...]
    states: tuple[State, ...]
    width: int | None
    rows: str
    concat: Place | None
    processor: Place | None
    raised: str
    raised_at: Place | None
    in_setter: bool
    question: str
    assumptions: tuple[str, ...] = ()
    batch: str = ""
    limits: tuple[Place, ...] = ()
    cuts: tuple[int, ...] = ()

    @property
    def worker(self) -> str:
        """What tells rows of one phase and path apart: the runner."""
        return self.runner

    @property
    def place(self) -> Place | None:
        """Where the states are put together, or where the target was told last."""
        told = [each.place for each in self.told if each.place is not None]
        return self.concat or self.processor or (told[-1] if told else None)

    @property
    def boundaries(self) -> tuple[int | None, ...]:
        """The names of the states, in their order."""
        return tuple(state.name for state in self.states)

    @property
    def is_known(self) -> bool:
        """Whether it is known which states arrive, and that each of them is a boundary or certainly is none."""
        return not self.question and not self.raised and all(state.certain for state in self.states)

    @property
    def is_asked(self) -> bool:
        """Whether an answer came back: states, or an exception that certainly is raised."""
        return not self.question

    @property
    def chain(self) -> tuple[Step, ...]:
        """From the ids to the draft, each step with its place."""
        steps = [
            Step(told.place, f"the target is told {_spelled(told)}{f', from {told.key}' if told.key else ''}")
            for told in self.told
            if told.place is not None
        ]
        steps += [Step(place, left.text) for left in self.left for place in left.places]
        steps += [Step(place, f"batches of {self.batch} go this way") for place in self.limits]
        steps += [Step(place, text) for place, text in self._captures()]
        if self.concat is not None:
            wide = f", {self.width} wide" if self.width is not None else ""
            steps.append(Step(self.concat, f"{_states(len(self.states))} put side by side{wide}"))
        return tuple(steps)

    def _captures(self) -> list[tuple[Place, str]]:
        """Where states are captured; those of one place in one line."""
        found: dict[Place, list[State]] = {}
        for state in self.states:
            if state.place is not None:
                found.setdefault(state.place, []).append(state)
        out = [(place, f"captures {', '.join(map(describe, states))}") for place, states in found.items()]
        written = {state.overwritten: state for state in self.states if state.overwritten is not None}
        return [*out, *((place, f"writes over boundary {state.meant}") for place, state in written.items() if place)]


ALL_ROWS = "all rows"
"""How a state that has all rows of the batch says so."""


def spoken(boundaries: Iterable[int | None]) -> str:
    """Boundaries as text: "3, 31, 59"; "?" is a state that is no boundary."""
    return ", ".join("?" if each is None else str(each) for each in boundaries) or "nothing"


def describe(state: State) -> str:
    """A state in words: "boundary 3", "a partial sum of boundary 3"."""
    if state.boundary is None:
        return state.reason if state.reason else "what is not known"
    what = f"boundary {state.boundary}"
    if state.normed:
        what = f"the norm of {what}"
    if state.reach is Reach.PARTIAL:
        return f"one rank's part of {what}"
    return f"one rank's rows of {what}" if state.reach is Reach.SCATTERED else what


def _states(number: int) -> str:
    return "1 state is" if number == 1 else f"{number} states are"


def _spelled(told: Told) -> str:
    if told.reason:
        return f"ids that are not known ({told.reason})"
    return "to capture without ids" if told.ids is None else f"[{', '.join(map(str, told.ids))}]"


@dataclass(frozen=True, slots=True)
class NoModel:
    """Why a tree cannot serve the target: its class has no hook, or (``model_class`` is "") nobody knows whether it has one,
    as no class is registered, or no class of the tree has a hook of that name.

    ``inner``: the parts of the target that do have the hook, by their owners.
    """

    architecture: str
    model_class: str
    method: str
    reason: str
    place: Place | None
    inner: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """Which ids make this tree capture ``boundaries`` on its eager paths; none where no ids do (``reason`` says why).

    ``certain`` is False where nobody knows: what some of the ids do stayed open.
    """

    boundaries: tuple[int, ...]
    ids: tuple[int, ...] = ()
    reason: str = ""
    certain: bool = True


@dataclass(frozen=True, slots=True)
class PairFacts:
    """Everything that one tree makes of one pair. ``asks``: whether the algorithm captures states from inside the target
    at all. ``open`` is why there are no rows, where nothing could be asked. ``repair``: ids that would be right, looked
    for where the ones that are written are not. ``intake`` is what the draft's class of this tree takes in, None where it
    registers none (``no_draft`` names the architectures, unless nobody asked). ``uses``: what the tree does with keys of
    the draft's configuration; ``loading``: what its loader does with the tensors of the draft's checkpoint. ``deployment``: who
    shares what, in words.
    """

    architecture: str
    asks: bool
    rows: tuple[CaptureRow, ...] = ()
    missing: NoModel | None = None
    open: str = ""
    tp: int = 8
    repair: Repair | None = None
    intake: Intake | None = None
    no_draft: tuple[str, ...] = ()
    uses: tuple[KeyUse, ...] = ()
    loading: Loading | None = None
    deployment: str = ""


@dataclass(frozen=True, slots=True)
class IdAnswer:
    """The answer for some boundaries. ``ids`` is empty where no ids give them, or where that is not known (``certain`` is
    False); ``reason`` says why. ``key``: where this tree reads them. ``facts``: what it makes of the draft with them."""

    boundaries: tuple[int, ...]
    ids: tuple[int, ...] = ()
    key: str = ""
    reason: str = ""
    certain: bool = True
    facts: PairFacts | None = None

    @property
    def missed(self) -> tuple[CaptureRow, ...]:
        """The paths that are not shown to capture the boundaries, with these ids."""
        rows = self.facts.rows if self.facts is not None else ()
        return tuple(row for row in rows if not row.is_known or row.boundaries != self.boundaries)

    @property
    def is_right(self) -> bool:
        """Whether every path is shown to capture the boundaries, with these ids."""
        return bool(self.ids and self.facts is not None and self.facts.rows and not self.missed)
