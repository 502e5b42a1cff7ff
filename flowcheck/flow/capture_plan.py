"""Which positions of the target a tree asks for, for one pair, on each path that a forward may take.

An eager forward captures what the target holds when the server runs; a graph captures what it held while it was recorded.
What is captured at a position is not said here: that is for the target's own forward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flowcheck.draft.pairing import Pairing
from flowcheck.flow.facts import Path, Phase
from flowcheck.flow.idsource import Recording, SetterCall, Startup, startup
from flowcheck.flow.requested import NoHook, Requested
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.flow.width import KeyRead
from flowcheck.program.modules import Program
from flowcheck.source import Tree

__all__ = ["CapturePlan", "PathPlan", "plan", "plan_of"]


@dataclass(frozen=True, slots=True)
class PathPlan:
    """What one path captures. ``sources`` are the setter calls that it rests on, in their order; ``runner`` is the class whose
    graphs it replays, ``""`` for eager forwards. ``open`` says why nothing certain can be said, ``""`` where it can."""

    phase: Phase
    path: Path
    requested: Requested
    sources: tuple[SetterCall, ...]
    runner: str = ""
    open: str = ""


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """The answer for one pair in one tree. ``missing`` is set where the target has nothing to be told by. ``reads``: the keys of
    the draft's file that the start of a server asks for."""

    paths: tuple[PathPlan, ...]
    calls: tuple[SetterCall, ...]
    missing: NoHook | None = None
    stopped: str = ""
    unmet: tuple[tuple[str, int], ...] = ()
    reads: tuple[KeyRead, ...] = ()

    def of(self, phase: Phase, path: Path) -> tuple[PathPlan, ...]:
        """The rows of one phase and path."""
        return tuple(each for each in self.paths if (each.phase, each.path) == (phase, path))


def plan(tree: Tree, program: Program, words: Vocabulary, scenario: Scenario, pairing: Pairing) -> CapturePlan:
    """The plan for a pair. Raises NoTarget and MissingRole."""
    return plan_of(tree, program, words, scenario, pairing.target.raw, pairing.draft.raw)


def plan_of(
    tree: Tree,
    program: Program,
    words: Vocabulary,
    scenario: Scenario,
    target: Mapping[str, Any],
    draft: Mapping[str, Any],
) -> CapturePlan:
    """The plan for two configurations. Raises NoTarget and MissingRole."""
    found = startup(tree, program, words, scenario, target, draft)
    usual = _usual(tree, program, words, scenario, target, draft, found.reads) if _is_short(found) else None
    if usual is not None:
        met = {(call.place.path, call.place.span.line) for call in usual.calls if call.place is not None}
        found = replace(found, unmet=tuple(each for each in found.unmet if each not in met))
    rows = [
        PathPlan(phase, Path.EAGER, found.final, found.calls, "", _open(found))
        for phase in (Phase.EXTEND, Phase.VERIFY)
    ]
    for recording in found.recordings:
        phase = Phase.VERIFY if recording.path is Path.DECODE_GRAPH else Phase.EXTEND
        rows.append(_recorded(found, phase, recording))
    excluded = usual is not None and any(each.path is Path.DECODE_GRAPH for each in usual.recordings)
    if not any(row.path is Path.DECODE_GRAPH for row in rows) and not excluded:
        if found.final.is_refused:  # the server stops before it records: the graph would hold what eager forwards do
            rows.append(PathPlan(Phase.VERIFY, Path.DECODE_GRAPH, found.final, found.calls))
        else:
            reason = found.stopped or "the walk met no runner that records graphs for the target"
            rows.append(PathPlan(Phase.VERIFY, Path.DECODE_GRAPH, Requested(), (), "", reason))
    return CapturePlan(tuple(dict.fromkeys(rows)), found.calls, found.missing, found.stopped, found.unmet, found.reads)


def _is_short(found: Startup) -> bool:
    """Whether a start came to its end and did not meet all that could be met."""
    records = any(each.path is Path.DECODE_GRAPH for each in found.recordings)
    return not found.stopped and found.missing is None and (bool(found.unmet) or not records)


def _usual(
    tree: Tree,
    program: Program,
    words: Vocabulary,
    scenario: Scenario,
    target: Mapping[str, Any],
    draft: Mapping[str, Any],
    reads: Sequence[KeyRead],
) -> Startup | None:
    """The start without the settings that a deployment has against what is usual, and with the draft's switches the other way;
    None where it would be the same.

    What that start comes to, and the pair's does not, its settings or its draft exclude: that is no hole of the walk.
    """
    usual = words.capture.arguments
    kept = {name: value for name, value in scenario.settings.items() if usual.get(name, value) == value}
    switched = _switched(draft, [read.key for read in reads])
    if len(kept) == len(scenario.settings) and switched is None:
        return None
    return startup(tree, program, words, replace(scenario, settings=kept), target, switched or draft)


def _switched(draft: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any] | None:
    """The draft's file with every switch among these keys turned; None where none of them is a switch."""
    out = dict(draft)
    turned = False
    for key in dict.fromkeys(keys):
        parts = key.split(".")
        held = out
        for part in parts[:-1]:
            inner = held.get(part)
            copy = dict(inner) if isinstance(inner, Mapping) else {}
            if copy:
                held[part] = copy
            held = copy
        if isinstance(held.get(parts[-1]), bool):
            held[parts[-1]] = not held[parts[-1]]
            turned = True
    return out if turned else None


def _recorded(found: Startup, phase: Phase, recording: Recording) -> PathPlan:
    before = found.calls[: recording.calls]
    return PathPlan(phase, recording.path, recording.requested, before, recording.runner, _why(recording.requested))


def _open(found: Startup) -> str:
    if found.final.is_refused:
        return ""
    if found.stopped:
        return found.stopped
    if found.unmet:
        path, line = found.unmet[0]
        return f"the walk did not come to the setter call at {path}:{line}"
    return _why(found.final)


def _why(requested: Requested) -> str:
    return "; ".join(f"{u.owner}.{u.attribute}: {u.reason}" for u in requested.unclear)
