"""Which boundaries a draft was trained on: as declared, as the training tree computes them, or as its own keys say.

Ids alone never decide. What contradicts is kept as several readings with the reason of each, for somebody who knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from flowcheck.draft.config import DraftConfig, IdList
from flowcheck.draft.conventions import Convention, Firmness, default_boundaries, spread_boundaries
from flowcheck.draft.errors import BoundariesError, counted, spelled
from flowcheck.draft.producers import Algorithm, Recognition
from flowcheck.draft.target import TargetConfig

__all__ = ["Basis", "Computed", "Question", "QuestionKind", "Reading", "Trained", "TrainingTree"]
__all__ += ["boundaries_from_text", "trained_boundaries"]


class Basis(str, Enum):
    """On what a reading rests."""

    DECLARED = "declared"
    """Somebody said so."""

    COMPUTED = "computed"
    """The setter of the tree that the draft was trained with said so."""

    KEY = "key"
    """The key under which the ids are written has a convention."""

    RANGE = "range"
    """The other convention is impossible for these ids on this target."""

    DEFAULT = "default"
    """No ids are written, and the producer takes its default then."""

    SHAPE = "shape"
    """The ids look like what another convention writes. This alone is never believed."""


@dataclass(frozen=True)
class Reading:
    """One way to understand what a draft was trained on.

    ``boundaries`` are ascending and without duplicates, as a forward captures them. ``post_norm`` says that the last
    state after the final norm is taken too, or, without boundaries, alone. ``key`` and ``ids`` are what is read.
    """

    boundaries: tuple[int, ...]
    convention: Convention | None
    basis: Basis
    reason: str
    key: str = ""
    ids: tuple[int, ...] | None = None
    post_norm: bool = False

    @property
    def answer(self) -> tuple[tuple[int, ...], bool]:
        """What has to be equal for two readings to ask for the same states."""
        return self.boundaries, self.post_norm

    def __str__(self) -> str:
        if not self.boundaries and self.post_norm:
            return "the last state after the final norm"
        return f"boundaries {spelled(self.boundaries)}{' and the state after the final norm' if self.post_norm else ''}"


class QuestionKind(str, Enum):
    """Why it stays open what a draft was trained on."""

    SHAPE = "shape-contradicts-key"
    """The ids look like the default of another convention than their key's."""

    NEITHER = "no-default-matches"
    """The key only presumes its convention, and the ids are no default that would confirm it."""

    NEGATIVE = "negative-id"
    """Producers disagree on what a negative id means."""

    LISTS = "lists-disagree"
    """Several places write ids, and their conventions give different boundaries."""

    EMPTY = "no-ids-in-list"
    """A list of ids is empty while the draft takes states from inside."""

    ABSENT = "ids-absent"
    """No ids are written, and no producer is known whose default would stand in."""

    RANGE = "ids-out-of-range"
    """No convention makes boundaries of this target of the ids."""


@dataclass(frozen=True)
class Question:
    """What is open, in words."""

    kind: QuestionKind
    text: str


@dataclass(frozen=True)
class Trained:
    """The answer: one reading, or several with the question that they leave open. The first is the most likely.

    ``set_aside`` are readings that a stronger one overruled. ``remarks`` is soft evidence for and against. ``doubt`` is
    a contradiction that is worth a warning although the reading stands.
    """

    readings: tuple[Reading, ...]
    question: Question | None = None
    doubt: Question | None = None
    set_aside: tuple[Reading, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether it is known what the draft was trained on."""
        return self.question is None and len({each.answer for each in self.readings}) == 1

    @property
    def reading(self) -> Reading | None:
        """The reading that stands, or None where it is open."""
        return self.readings[0] if self.is_settled else None

    @property
    def boundaries(self) -> tuple[int, ...] | None:
        """The boundaries that the draft was trained on, or None where it is open."""
        return self.readings[0].boundaries if self.is_settled else None


@dataclass(frozen=True)
class Computed:
    """What the setter of a training tree makes of a draft. ``by`` names the tree and the class for the report."""

    boundaries: tuple[int, ...]
    by: str
    post_norm: bool = False


TrainingTree = Callable[[DraftConfig, TargetConfig], Computed]
"""Runs a training tree's own reader and setter on a draft. May raise any `DraftError` of its own."""


def boundaries_from_text(text: str) -> tuple[int, ...]:
    """Boundaries as a user types them: ``3,31,59``, brackets and blanks allowed. Raises `BoundariesError`."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    parts = [each.strip() for each in inner.split(",")]
    if not all(re.fullmatch(r"[+-]?\d{1,9}", each, re.ASCII) for each in parts):
        raise BoundariesError(f"trained boundaries are {text!r}; expected numbers with commas, as in 3,31,59")
    return tuple(map(int, parts))


def trained_boundaries(
    draft: DraftConfig,
    target: TargetConfig,
    *,
    declared: Sequence[int] | None = None,
    training: TrainingTree | Computed | None = None,
    recognition: Recognition | None = None,
) -> Trained:
    """What the draft was trained on.

    Args:
        draft: the draft.
        target: the target that it is paired with.
        declared: boundaries that somebody who knows declares; they win over everything else.
        training: what the training tree makes of the draft, or a function that finds out; it wins over the draft's keys.
        recognition: who wrote the draft, where its header says more than its configuration.

    Raises:
        BoundariesError: declared or computed boundaries that the target does not have.
    """
    inferred = _inferred(draft, target, recognition or draft.recognition)
    overruled = inferred.readings
    if declared is not None:
        found = checked_boundaries(declared, target, "declared")
        reading = Reading(found, None, Basis.DECLARED, "they were declared")
        return Trained((reading,), set_aside=_other(overruled, reading), remarks=inferred.remarks)
    if training is not None:
        result = training if isinstance(training, Computed) else training(draft, target)
        found = checked_boundaries(result.boundaries, target, f"computed by {result.by}", allow_none=result.post_norm)
        reason = f"the setter of {result.by} makes them of this draft"
        reading = Reading(found, None, Basis.COMPUTED, reason, post_norm=result.post_norm)
        return Trained((reading,), set_aside=_other(overruled, reading), remarks=inferred.remarks)
    return inferred


def checked_boundaries(
    given: Sequence[int], target: TargetConfig, how: str, *, allow_none: bool = False
) -> tuple[int, ...]:
    """Boundaries of the target in ascending order; order means nothing, since a forward captures in layer order."""
    if not given and not allow_none:
        raise BoundariesError(f"no trained boundaries are {how}")
    outside = [each for each in given if not 0 <= each <= target.layers]
    if outside:
        raise BoundariesError(
            f"trained boundary {spelled(outside[:1])[1:-1]} is {how}, and {target.label} has boundaries 0 to {target.layers}"
        )
    if len(set(given)) != len(given):
        raise BoundariesError(f"trained boundaries {spelled(list(given))} are {how}, with one of them twice")
    return tuple(sorted(given))


def _other(readings: tuple[Reading, ...], chosen: Reading) -> tuple[Reading, ...]:
    return tuple(each for each in readings if each.answer != chosen.answer)


def _inferred(draft: DraftConfig, target: TargetConfig, recognition: Recognition) -> Trained:
    if not draft.takes_aux:
        return Trained((_last_state(draft),))
    lists = [each for each in draft.id_lists if each.ids]
    if not lists:
        return _without_ids(draft, target, recognition)
    answers = [_of_list(each, draft, target) for each in lists]
    if len(answers) == 1:
        return answers[0]
    return _of_several(lists, answers, target)


def _last_state(draft: DraftConfig) -> Reading:
    if draft.use_aux is False:
        reason = "use_aux_hidden_state is false"
    else:
        reason = f"{draft.algorithm.value} heads take nothing else"
    return Reading((), Convention.POSTNORM, Basis.KEY, reason, post_norm=True)


def _without_ids(draft: DraftConfig, target: TargetConfig, recognition: Recognition) -> Trained:
    empty = next((each for each in draft.id_lists if not each.ids), None)
    guesses = draft.algorithm.is_block and not draft.is_speculators
    if guesses:
        boundaries = spread_boundaries(target.layers, min(draft.states, target.layers))
        guess = f"{counted(draft.states, 'state')} spread evenly, as an engine guesses from the depth of the draft"
    else:
        boundaries = default_boundaries(target.layers)
        guess = "layers 2, L//2 and L-3, the default of every EAGLE-3 trainer"
    boundaries = tuple(sorted({min(max(each, 0), target.layers) for each in boundaries}))
    reading = Reading(boundaries, None, Basis.DEFAULT, guess)
    if empty is not None:
        text = f"{empty.key} is empty, and the draft takes states from inside the target"
        return Trained((reading,), Question(QuestionKind.EMPTY, text))
    if guesses:
        text = "no layer ids are written; an engine guesses them from the depth of the draft, which is often wrong"
        return Trained((reading,), Question(QuestionKind.ABSENT, text))
    if draft.states != 3 or not DEFAULTING & set(recognition.producers):
        who = recognition.producer
        text = f"no layer ids are written, and {who} is not known to mean the default by that"
        return Trained((reading,), Question(QuestionKind.ABSENT, text))
    reason = f"no layer ids are written, and {recognition.producer} takes {guess}"
    return Trained((replace(reading, reason=reason),), remarks=_doubts_of_absence(target, recognition))


def _doubts_of_absence(target: TargetConfig, recognition: Recognition) -> tuple[str, ...]:
    said = ["that ids are absent is no proof of the default: heads were published that were trained on others"]
    if "SpecForge" in recognition.producers:
        middle = target.layers // 2 + 1
        said.append(f"SpecForge took boundary {middle} for the middle one in online training before 2025-10-20")
    kinds = target.text.get("layer_types")
    if "full_attention_interval" in target.text or (isinstance(kinds, list) and "linear_attention" in kinds):
        said.append("some layers of the target are no attention, and trainers were patched that do not count them")
    return tuple(said)


DEFAULTING = frozenset({"SafeAILab EAGLE", "SpecForge", "NeMo Automodel", "AngelSlim", "TorchSpec", "speculators"})
"""Producers that write no ids where they trained on the default."""


def _read(ids: IdList, convention: Convention, basis: Basis, reason: str) -> Reading:
    boundaries = tuple(sorted({each + convention.offset for each in ids.ids}))
    return Reading(boundaries, convention, basis, reason, ids.key, ids.ids)


def _of_list(ids: IdList, draft: DraftConfig, target: TargetConfig) -> Trained:
    """What one list of ids says."""
    other = Convention.BOUNDARY if ids.convention is Convention.OUTPUT else Convention.OUTPUT
    says = "is presumed to mean" if ids.firmness is Firmness.PRESUMED else "means"
    by_key = _read(
        ids, ids.convention, Basis.KEY, f"{ids.key} {says} by its writers ({ids.writers}) that {ids.convention.meaning}"
    )
    against = _read(ids, other, Basis.SHAPE, f"the ids may mean that {other.meaning}")
    remarks = _remarks(ids, target)
    if min(ids.ids) < 0:
        return _negative(ids, by_key, draft, remarks)
    if max(ids.ids) > target.layers:
        text = f"{ids.key} names layer {spelled((max(ids.ids),))[1:-1]}, and {target.label} has {counted(target.layers, 'layer')}"
        return Trained((by_key, against), Question(QuestionKind.RANGE, text), remarks=remarks)
    if max(ids.ids) == target.layers and draft.target_layers not in (None, target.layers):
        text = (
            f"{ids.key} names layer {target.layers}, of which {target.label} has no output, and the draft is for a target "
            f"of {counted(draft.target_layers or 0, 'layer')}"
        )
        return Trained((by_key, against), Question(QuestionKind.RANGE, text), remarks=remarks)
    if max(ids.ids) == target.layers:
        return _at_the_end(ids, by_key, against, target, remarks)
    shape = _shape(ids, target)
    if shape is other:
        text = (
            f"{ids.key} {spelled(ids.ids)} is what a trainer writes by default if {other.meaning}, "
            f"but where it stands it {says} that {ids.convention.meaning}"
        )
        question = Question(QuestionKind.SHAPE, text)
        if ids.firmness is Firmness.FIRM:
            return Trained((by_key,), doubt=question, set_aside=(against,), remarks=remarks)
        return Trained((by_key, against), question, remarks=remarks)
    if ids.firmness is not Firmness.PRESUMED or shape is ids.convention:
        return Trained((by_key,), remarks=remarks)
    text = (
        f"{ids.key} {spelled(ids.ids)} is presumed to mean that {ids.convention.meaning}, and as it is the default of no "
        "convention nothing confirms it"
    )
    return Trained((by_key, replace(against, basis=Basis.SHAPE)), Question(QuestionKind.NEITHER, text), remarks=remarks)


def _negative(ids: IdList, by_key: Reading, draft: DraftConfig, remarks: tuple[str, ...]) -> Trained:
    if min(ids.ids) < -1:
        text = f"{ids.key} has the id {spelled((min(ids.ids),))[1:-1]}, which means nothing in any convention"
        return Trained((by_key,), Question(QuestionKind.RANGE, text), remarks=remarks)
    embedding = _read(ids, Convention.OUTPUT, Basis.KEY, "-1 is the embedding, one before the output of layer 0")
    if draft.algorithm is Algorithm.DSPARK and ids.convention is Convention.OUTPUT:
        return Trained((embedding,), remarks=remarks)
    rest = tuple(sorted({each + ids.convention.offset for each in ids.ids if each >= 0}))
    final = Reading(
        rest,
        ids.convention,
        Basis.SHAPE,
        "-1 is the state after the final norm, as TensorRT-LLM has it",
        ids.key,
        ids.ids,
        True,
    )
    text = f"{ids.key} has the id -1: the embedding to some, the state after the final norm to others"
    return Trained((embedding, final), Question(QuestionKind.NEGATIVE, text), remarks=remarks)


def _at_the_end(
    ids: IdList, by_key: Reading, against: Reading, target: TargetConfig, remarks: tuple[str, ...]
) -> Trained:
    """The largest id is L. There is no layer L, so it cannot be an output: the id is a boundary."""
    if ids.convention is Convention.BOUNDARY:
        return Trained((by_key,), remarks=remarks)
    reason = f"id {target.layers} is the end of the last of {target.layers} layers; there is no layer {target.layers} to put out"
    reading = replace(against, basis=Basis.RANGE, reason=reason)
    return Trained((reading,), set_aside=(by_key,), remarks=remarks)


def _shape(ids: IdList, target: TargetConfig) -> Convention | None:
    """Whose default the ids look like."""
    if ids.key.startswith("dflash") or ids.key in BLOCK_KEYS:
        boundaries = spread_boundaries(target.layers, len(ids.ids)) if target.layers > 4 else ()
    else:
        boundaries = default_boundaries(target.layers) if len(ids.ids) == 3 else ()
    written = tuple(sorted(ids.ids))
    for convention in (Convention.OUTPUT, Convention.BOUNDARY):
        if boundaries and written == tuple(each - convention.offset for each in boundaries):
            return convention
    return None


BLOCK_KEYS = frozenset({"target_layer_ids", "dspark_target_layer_ids", "aux_hidden_state_layer_ids"})


def _remarks(ids: IdList, target: TargetConfig) -> tuple[str, ...]:
    said = []
    shape = _shape(ids, target)
    if shape is not None:
        said.append(f"{spelled(ids.ids)} is the default of trainers for which {shape.meaning}")
    if min(ids.ids) == 0:
        said.append("id 0 speaks for outputs: as an input of layer 0 it would be the embedding")
    if not ids.is_read:
        said.append(f"no engine is known to read {ids.key}")
    return tuple(said)


def _of_several(lists: list[IdList], answers: list[Trained], target: TargetConfig) -> Trained:
    """What several lists say together: they settle each other where their own conventions agree."""
    first = answers[0]
    remarks = tuple(dict.fromkeys(remark for each in answers for remark in each.remarks))
    proper = [
        _read(each, each.convention, Basis.KEY, answer.readings[0].reason)
        for each, answer in zip(lists, answers, strict=True)
    ]
    inside = all(0 <= each <= target.layers for reading in proper for each in reading.boundaries)
    if inside and len({each.answer for each in proper}) == 1:
        keys = " and ".join(each.key for each in lists)
        reason = f"{keys} agree, each by its own convention"
        return Trained((replace(proper[0], reason=reason),), remarks=remarks)
    if all(each.is_settled and each.readings[0].answer == first.readings[0].answer for each in answers):
        return replace(first, remarks=remarks)
    readings: dict[tuple[tuple[int, ...], bool], Reading] = {}
    for each in answers:
        for reading in each.readings:
            readings.setdefault(reading.answer, reading)
    said = "; ".join(f"{each.key} {spelled(each.ids)}: {reading}" for each, reading in zip(lists, proper, strict=True))
    return Trained(
        tuple(readings.values()), Question(QuestionKind.LISTS, f"the lists of ids disagree: {said}"), remarks=remarks
    )
