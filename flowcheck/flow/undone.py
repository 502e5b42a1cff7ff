"""Whether a target holds what its setter alone would have left, or something else that the start of the server stored after."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flowcheck.draft.pairing import Pairing
from flowcheck.flow.requested import Requested
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.setters import Ids, capture_requests, hook_of
from flowcheck.flow.targets import NoTarget, model_interpreter, target_of
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.program.modules import Program

__all__ = ["layers_stored", "left_alone", "stored_elsewhere", "undone"]


def left_alone(
    program: Program, words: Vocabulary, scenario: Scenario, pairing: Pairing, told: Sequence[Ids]
) -> Requested | None:
    """What these calls of the setter leave on a target that nothing else touches; None where it cannot be made."""
    it = model_interpreter(program, words, scenario)
    try:
        target = target_of(it, words, pairing.target.architectures, pairing.target.raw)
    except NoTarget:
        return None
    with it.outside():
        frame = it.module_frame(target.cls.module)
        method = hook_of(it, words, scenario.algorithm, target.instance, frame, it.base_state)
    return capture_requests(it, words, target, told, method=method)


def undone(held: Requested, alone: Requested) -> str:
    """The attribute that holds something else than the setter left there, as a reason; "" where there is none.

    A forward is run with the calls of the setter alone: it says nothing of a target that was changed afterwards.
    """
    left = _values(alone)
    for where, value in _values(held).items():
        if where in left and left[where] != value:
            return f"{where} is {value!r} when the server runs, and its setter alone leaves {left[where]!r}"
    return ""


def stored_elsewhere(
    program: Program, words: Vocabulary, architecture: str, held: Sequence[Requested], alone: Requested
) -> str:
    """A store into what the setter leaves, by a function that neither it nor the start of the server came to, as a reason;
    "" where the text has none. ``held``: what the target holds on each path.

    Constructors of models and other setters may: they run before, or not at all. So may an object that keeps something
    of the same name for itself in a file that is none of the target's.
    """
    files = program.corpus.files
    met = [(place.path, place.span.line) for each in (*held, alone) for place in each.places]
    own = {path for path, _ in met} | {
        p for p in files if re.search(rb"^class %s\b" % architecture.encode(), files[p], re.M)
    }
    beyond = re.compile(words.relevance.beyond.encode(), re.M)
    for name in _attributes(alone):
        for place in program.places.of(name):
            data = files[place.path]
            first, last = (data.count(b"\n", 0, at) + 1 for at in place.span)
            if not place.line or any(path == place.path and first <= line <= last for path, line in met):
                continue
            is_model = place.path in own or beyond.search(data) is not None
            if is_model and place.path not in own:
                continue
            found = DEFINED.match(data, place.span[0])
            function = found.group(1).decode() if found is not None else ""
            if function in words.capture.hooks or (is_model and function == "__init__"):
                continue
            if place.own == "self" and not is_model:
                continue
            return f"{function or 'a function'} at {place.path}:{place.line} may store into {name}"
    return ""


def layers_stored(program: Program, words: Vocabulary, architecture: str, stack: str) -> str:
    """A store into the list of the target's layers as a reason; "" where the text has none.

    ``stack``: how the list is reached from the target ("model.layers"). Models make their own lists in their constructors;
    what anything else puts there, a forward of the model as it was made says nothing of.
    """
    files, name = program.corpus.files, stack.rpartition(".")[2]
    own = {p for p in files if re.search(rb"^class %s\b" % architecture.encode(), files[p], re.M)}
    beyond = re.compile(words.relevance.beyond.encode(), re.M)

    def is_asked(path: str) -> bool:
        return path in own or beyond.search(files[path]) is None

    for place in program.places.of(name):
        found = DEFINED.match(files[place.path], place.span[0])
        where = (found.group(1).decode() if found is not None else "") or "a module"
        if is_asked(place.path) and (place.own != "self" or (place.path in own and where != "__init__")):
            return f"{where} at {place.path}:{place.line} may store into {name}"
    order = re.compile(ORDER % ((name.encode(),) * 2))
    for path in filter(is_asked, program.corpus.files_with(name)):
        changes = order.search(files[path])
        if changes is not None:
            line = files[path].count(b"\n", 0, changes.start()) + 1
            return f"the order of {name} may change at {path}:{line}"
    return ""


ORDER = rb"""\.%s\.(?:reverse|sort)\(|\b_modules\[["']%s["']\][ \t]*=(?!=)"""
"""Other ways to change a list of modules than a store."""

DEFINED = re.compile(rb"\s*(?:async\s+)?def\s+(\w+)")


def _attributes(requested: Requested) -> tuple[str, ...]:
    names = [each.attribute for each in requested.lists]
    names += [each.attribute for each in requested.flags]
    names += [each.attribute for each in requested.settings]
    return tuple(dict.fromkeys(names))


def _values(requested: Requested) -> dict[str, object]:
    found: dict[str, object] = {f"{x.owner}.{x.attribute}".lstrip("."): x.values for x in requested.lists}
    found |= {f"{x.owner}.{x.attribute}".lstrip("."): x.value for x in requested.settings}
    return found | {f"{x.owner}[].{x.attribute}": x.indices for x in requested.flags}
