"""Whether a target holds what its setter alone would have left, or something else that the start of the server stored after."""

from __future__ import annotations

from collections.abc import Sequence

from flowcheck.draft.pairing import Pairing
from flowcheck.flow.requested import Requested
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.setters import Ids, capture_requests, hook_of
from flowcheck.flow.targets import NoTarget, model_interpreter, target_of
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.program.modules import Program

__all__ = ["left_alone", "undone"]


def left_alone(
    program: Program, words: Vocabulary, scenario: Scenario, pairing: Pairing, told: Sequence[Ids]
) -> Requested | None:
    """What these calls of the setter leave on a target that nothing else touches; None where it cannot be made."""
    it = model_interpreter(program, words, scenario)
    try:
        target = target_of(it, words, pairing.target.architectures, pairing.target.raw)
    except NoTarget:
        return None
    return capture_requests(it, words, target, told, method=hook_of(words, scenario.algorithm))


def undone(held: Requested, alone: Requested) -> str:
    """The attribute that holds something else than the setter left there, as a reason; "" where there is none.

    A forward is run with the calls of the setter alone: it says nothing of a target that was changed afterwards.
    """
    left = _values(alone)
    for where, value in _values(held).items():
        if where in left and left[where] != value:
            return f"{where} is {value!r} when the server runs, and its setter alone leaves {left[where]!r}"
    return ""


def _values(requested: Requested) -> dict[str, object]:
    found: dict[str, object] = {f"{x.owner}.{x.attribute}".lstrip("."): x.values for x in requested.lists}
    found |= {f"{x.owner}.{x.attribute}".lstrip("."): x.value for x in requested.settings}
    return found | {f"{x.owner}[].{x.attribute}": x.indices for x in requested.flags}
