"""What a target model is told to capture: plain facts of what a setter left on the model's objects, with their places.

A *position* is a number as the setter writes it; which boundary is captured there is for the model's forward to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from flowcheck.flow.facts import Place

__all__ = ["Flags", "NoHook", "Positions", "Raise", "Requested", "Setting", "Unclear"]


@dataclass(frozen=True, slots=True)
class Positions:
    """A list of numbers that was left on an object. ``owner`` leads there from the target: ``"language_model.model"``, or
    ``""`` for the target itself. ``values`` are in the order of the list, duplicates included."""

    owner: str
    attribute: str
    values: tuple[int, ...]
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Flags:
    """Elements of a list on which an attribute is true: ``owner`` leads to the list (``"model.layers"``)."""

    owner: str
    attribute: str
    indices: tuple[int, ...]
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """Any other plain value that was left on an object: mostly whether it captures at all, or the embedding too."""

    owner: str
    attribute: str
    value: bool | int | float | str | None
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Unclear:
    """An attribute that was stored, but not with a value that is known."""

    owner: str
    attribute: str
    reason: str
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Raise:
    """An exception that leaves a setter. ``certain``: nothing but the ids and the configuration decides about it."""

    exception: str
    certain: bool
    place: Place | None


@dataclass(frozen=True, slots=True)
class NoHook:
    """The target's class has no method to be told by. ``inner`` are the parts of it that have one, by their owners."""

    model_class: str
    method: str
    place: Place | None
    inner: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requested:
    """What a target holds after its setters have run.

    ``raised`` is what may leave the last call; ``returns`` says whether it may return at all. ``missing`` is set where there
    was nothing to call.
    """

    lists: tuple[Positions, ...] = ()
    flags: tuple[Flags, ...] = ()
    settings: tuple[Setting, ...] = ()
    unclear: tuple[Unclear, ...] = ()
    raised: tuple[Raise, ...] = ()
    returns: bool = True
    missing: NoHook | None = None

    @property
    def is_exact(self) -> bool:
        """Whether everything about it is known."""
        certain = all(each.certain for each in self.raised)
        return not self.unclear and certain and (not self.raised or not self.returns)

    @property
    def is_refused(self) -> bool:
        """Whether the last call certainly raises: nothing but the ids and the configuration decides about it."""
        return not self.returns and bool(self.raised) and all(each.certain for each in self.raised)

    @property
    def asks_nothing(self) -> bool:
        """Whether the model is left as it was made."""
        return not (self.lists or self.flags or self.settings or self.unclear)

    @property
    def positions(self) -> tuple[int, ...] | None:
        """The positions that are asked for, if lists and flags agree on them (the list keeps its order and duplicates); None
        where they do not: then the model's forward decides which of them it reads."""
        answers = {each.values for each in self.lists} or {each.indices for each in self.flags}
        sets = {frozenset(each.values) for each in self.lists} | {frozenset(each.indices) for each in self.flags}
        return next(iter(answers)) if len(answers) == 1 and len(sets) == 1 else None

    @property
    def places(self) -> tuple[Place, ...]:
        """Where all of it was stored, each place once."""
        parts: tuple[Positions | Flags | Setting | Unclear, ...]
        parts = (*self.lists, *self.flags, *self.settings, *self.unclear)
        return tuple(dict.fromkeys(place for part in parts for place in part.places))
