"""What a draft takes in: plain facts of the class that a tree makes of a draft's configuration, and whether a width fits it.

The *projection* is the linear layer to which the draft's forward gives the states of the target. How wide it is, on which
keys of the draft's file that depends, and for which widths the forward leaves it out, the tree's own code says
(``flow/intake.py``); nothing here knows a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flowcheck.flow.facts import Phase, Place
from flowcheck.flow.requested import Raise

__all__ = [
    "Factor", "Fit", "Intake", "KeyRead", "KeyUse", "Layers", "Loading", "NoDraftClass", "Projection", "Skip", "TensorUse", "Use",
    "WidthFact", "fits",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeyRead:
    """A key of the draft's file that code of the tree asks for: the way to it (``"eagle_config.norm_before_fc"``), and where."""

    key: str
    places: tuple[Place, ...]


class Use(str, Enum):
    """Whether a tree reads a key of a draft's file."""

    READ = "read"
    """Code that was followed asks for it."""

    IGNORED = "ignored"
    """Whatever may see the draft's configuration and spells the name was followed, and asks for another key."""

    OPEN = "open"
    """Code that was not followed spells the name, and may read it or not."""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """What a tree does with one key. ``places``: where it is read. ``spelled``: file and line of code that was not followed
    and spells the name (for `Use.OPEN`)."""

    key: str
    use: Use
    places: tuple[Place, ...] = ()
    spelled: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Factor:
    """One number of the product that a width is.

    ``key``: the key of the draft's file that gives it, a list for how many elements it has; ``""`` for a number that the
    tree itself writes. ``places``: where the tree reads the key, or writes the number.
    """

    value: int
    key: str
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Projection:
    """The layer that takes the target's states. ``path`` leads to it from the model (``"model.fc"``), ``place`` is where it is
    made; sizes are None where they are not known.

    ``states`` is how many states it takes, ``width`` how wide each of them is: ``in_features`` is their product. Where that
    could not be told both are None, and ``open`` says why. ``states_keys``: keys that the draft's file does not write, and that
    would decide how many states it takes if it did. ``bias``: whether it has one, None where that is not known. ``beside``: how
    many columns of the input are something else than the states (an embedding).
    """

    path: str
    place: Place | None
    in_features: int | None
    out_features: int | None
    bias: bool | None
    beside: int = 0
    states: Factor | None = None
    width: Factor | None = None
    states_keys: tuple[str, ...] = ()
    open: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """A width of what arrives at which the forward leaves the projection out. ``places``: where it asks for the width.

    ``phase``: it does so for the states of this phase alone, None where it does for those of any.
    """

    width: int
    places: tuple[Place, ...]
    phase: Phase | None = None


@dataclass(frozen=True, slots=True)
class Layers:
    """How many decoder layers the draft's class makes, and how many the draft's file says (None: it says none). ``path`` leads
    to them (``"model.layers"``, ``"model.midlayer"``)."""

    built: int
    said: int | None
    path: str


@dataclass(frozen=True, slots=True)
class TensorUse:
    """What the draft's loader does with one tensor of a checkpoint.

    ``taken``: False where it certainly passes it over, True where it uses it in some way, None where that is not known
    (``reason``). ``parameters``: those that it goes into; a tensor may be used otherwise, as a table of ids is.
    """

    name: str
    taken: bool | None
    parameters: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Loading:
    """What the draft's loader makes of a checkpoint's names. ``place``: the loader. ``left``: parameters of the draft into which
    no tensor goes, so that they keep what was allocated (only where everything is known: ``open`` is ``""``)."""

    tensors: tuple[TensorUse, ...]
    left: tuple[str, ...]
    place: Place | None
    open: str = ""


@dataclass(frozen=True, slots=True)
class NoDraftClass:
    """The tree registers no model class for any of the draft's architectures."""

    architectures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Intake:
    """What the draft's class takes in under the draft's configuration.

    ``projection`` is None where no layer takes the target's states; ``takes_states`` then says whether the forward looks at
    them at all (None: not known). ``embedding``: how wide the draft's embedding is. ``raises``: what certainly ends the
    construction of the draft. Then nothing else is known, unless it is a key that the file does not write: for those in
    ``lacking`` the rest says what would be if the file wrote null. ``reads``: what making and running the draft asks for.
    ``followed``: file and line of the functions of model files that making and running it went through. ``open``: why something
    could not be told, ``""`` where all of it was; nothing may be concluded from what is missing then.
    """

    architecture: str
    model_class: str
    place: Place | None
    projection: Projection | None = None
    takes_states: bool | None = None
    altered: str = ""
    """How the projection is given something else than the states as they are, "" where nothing speaks for that."""

    embedding: int | None = None
    skips: tuple[Skip, ...] = ()
    raises: Raise | None = None
    lacking: tuple[str, ...] = ()
    layers: Layers | None = None
    reads: tuple[KeyRead, ...] = ()
    followed: frozenset[tuple[str, int]] = frozenset()
    open: str = ""


class Fit(str, Enum):
    """How a captured width fits what a draft takes in."""

    FITS = "fits"
    """The projection takes exactly what was captured."""

    SKIPPED = "skipped"
    """The forward leaves the projection out at this width: the draft runs without it, and nobody notices."""

    DIFFERS = "differs"
    """The projection takes another width: the forward raises."""

    NOT_TAKEN = "not taken"
    """The draft's class does not look at the target's states at all."""

    UNKNOWN = "unknown"
    """One of the two widths is not known."""


@dataclass(frozen=True, slots=True)
class WidthFact:
    """One comparison. ``captured``: the width that arrives. ``taken``: the one that the tree's layer takes. ``stored``: the one
    that the checkpoint's weight has, None where no header says; ``loads`` is False where it is another than the tree's, so
    that loading raises."""

    fit: Fit
    captured: int | None
    taken: int | None
    stored: int | None
    loads: bool | None
    places: tuple[Place, ...] = ()
    reason: str = ""


def fits(
    captured: int | None, intake: Intake, stored: tuple[int, ...] | None = None, phase: Phase | None = None
) -> WidthFact:
    """How ``captured`` columns fit the draft; ``stored`` is the shape of the projection's weight in the checkpoint (None: not
    known, or packed), ``phase`` that of the target's forward (None: what does not depend on it)."""
    layer = intake.projection
    taken = layer.in_features if layer is not None else None
    loads = None
    if stored is not None and layer is not None and None not in (taken, layer.out_features):
        loads = stored == (layer.out_features, taken)
    fit, places, reason = _fit(captured, intake, phase)
    return WidthFact(fit, captured, taken, stored[-1] if stored else None, loads, places, reason)


def _fit(captured: int | None, intake: Intake, phase: Phase | None) -> tuple[Fit, tuple[Place, ...], str]:
    layer = intake.projection
    here = (layer.place,) if layer is not None and layer.place is not None else ()
    if intake.open:
        return Fit.UNKNOWN, here, intake.open
    if layer is None:
        if intake.takes_states is False:
            return Fit.NOT_TAKEN, (), f"{intake.model_class} does not look at the target's states"
        return Fit.UNKNOWN, (), f"no layer of {intake.model_class} is known to take the target's states"
    if captured is None:
        return Fit.UNKNOWN, here, "how much is captured is not known"
    skip = next((each for each in intake.skips if each.width == captured and each.phase in (None, phase)), None)
    if skip is not None:
        whose = f" of {skip.phase.value}" if skip.phase is not None else ""
        return Fit.SKIPPED, skip.places, f"{layer.path} is left out for states{whose} of width {captured}"
    taken = layer.in_features - layer.beside if layer.in_features is not None else None
    if taken is None:
        return Fit.UNKNOWN, here, f"how wide the input of {layer.path} is, is not known"
    if captured == taken:
        return Fit.FITS, here, ""
    return Fit.DIFFERS, here, f"{layer.path} takes {taken} columns, and {captured} arrive"
