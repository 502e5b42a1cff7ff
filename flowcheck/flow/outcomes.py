"""One walk and what it found: plain data that outlives the walk, and that another process can hand over."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flowcheck.flow import modes
from flowcheck.flow.calls import calls_of
from flowcheck.flow.facts import CallEdge, Flow, Open, Phase
from flowcheck.flow.presence import lost_replays
from flowcheck.flow.relevance import Relevance, effects_of
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.splits import Asked, condition_of, settings_asked
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.flow.walk import Walk
from flowcheck.interp import attributes, calls
from flowcheck.interp.frames import Dead
from flowcheck.interp.values import NONE, Known
from flowcheck.program.modules import Program
from flowcheck.source import SourceWarning, Tree
from flowcheck.syntax import SyntaxCache, SyntaxProblem, SyntaxStore

__all__ = ["ASSUMED", "Ground", "Learned", "Outcome", "Question", "is_proved"]

ASSUMED = ("logits-processor", "no-patching", "scenario")
"""What every flow rests on."""
MUCH_LEFT = 200_000
"""Steps of a walk that leaves so much behind that it is worth a look for garbage before the next one."""


@dataclass(frozen=True)
class Question:
    """What is asked of a tree. It can be pickled where the tree can."""

    tree: Tree
    scenario: Scenario
    words: Vocabulary
    cache_dir: Path | None


@dataclass
class Outcome:
    """What one walk found. ``lost``: replays that it did not meet; another walk may have met them."""

    flows: list[Flow]
    opens: list[Open]
    lost: list[Open]
    calls: tuple[CallEdge, ...]
    workers: list[str]
    steps: int
    asked: Asked

    def trouble(self, required: str) -> frozenset[tuple[object, ...]]:
        """What is not proved, without its condition. A refused replay loses nothing: it needs no condition."""
        found: set[tuple[object, ...]] = {(o.question, o.kind) for o in self.opens}
        for f in self.flows:
            if not f.replay_guard and not is_proved(f, required):
                members = tuple(sorted({m.member for m in (*f.asked, *f.reached)}))
                found.add((f.phase, f.path, f.worker, members, f.replay_guard))
        return frozenset(found)


@dataclass
class Learned:
    """What a process learned of the tree beside the outcome. ``digests``: the bytes that it saw, by file."""

    slices: dict[tuple[str, int], int] = field(default_factory=dict)
    problems: list[tuple[str, int, str]] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    warnings: list[SourceWarning] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)


class Ground:
    """What all walks over one tree have in common: the program, and what may be left out of it."""

    def __init__(self, question: Question, say: Callable[[str], None] = lambda text: None) -> None:
        self.question = question
        self.say = say
        tree, words = question.tree, question.words
        self.cache = SyntaxCache(question.cache_dir / "syntax") if question.cache_dir is not None else None
        self.store = SyntaxStore(tree, self.cache)
        self.program = Program(self.store)
        say("indexing")
        tracked = (words.mode.attribute, words.phase.attribute, words.phase.speculative_input, words.target.draft_flag)
        self.relevance = Relevance(effects_of(self.program.texts, words), words, tracked)

    def walk(self, forced: dict[Any, Any]) -> Walk:
        """A walk that has yet to run. Raises MissingRole, and Budget."""
        question = self.question
        return Walk(self.program, question.scenario, question.words, self.relevance, self.say, forced)

    def outcome(self, forced: dict[Any, Any]) -> Outcome:
        """Runs one walk. Raises Budget."""
        walk = self.walk(forced)
        walk.run()
        found = modes.flows_of(walk, condition_of(self.question.words, forced), ASSUMED)
        required: tuple[Phase, ...] = (Phase.EXTEND, Phase.VERIFY)
        if not _feeds_states(walk):
            found = [replace(f, consumed=False) for f in found]
            required = ()
        else:
            found = _fetched(found)
        outcome = Outcome(
            flows=found,
            opens=modes.opens_of(walk, found, required),
            lost=lost_replays(walk, found) if required else [],
            calls=calls_of(walk),
            workers=list(dict.fromkeys(c.name for _, c in walk.worker_list)),
            steps=walk.it.steps,
            asked=settings_asked(walk),
        )
        if outcome.steps > MUCH_LEFT:
            del walk
            gc.collect()
        return outcome

    def learned(self) -> Learned:
        """What is known of the tree by now."""
        tree, store = self.question.tree, self.store
        return Learned(
            dict(store.stats.slices),
            [(p.path, p.line, p.reason) for p in store.problems],
            dict(self.program.unreadable),
            list(tree.warnings),
            tree.digests,
        )

    def learn(self, other: Learned) -> None:
        """Adds what another process learned, which saw the same bytes."""
        tree, store = self.question.tree, self.store
        store.stats.slices.update(other.slices)
        for path, line, reason in other.problems:
            store.report(SyntaxProblem(path, line, reason))
        tree.warnings += [each for each in other.warnings if each not in tree.warnings]
        for path, reason in other.unreadable.items():
            self.program.unreadable.setdefault(path, reason)


def is_proved(f: Flow, required: str) -> bool:
    """Whether nothing is left to ask about a flow."""
    if not f.consumed or f.phase not in (Phase.EXTEND, Phase.VERIFY):
        return True
    return all(m.member == required for m in (*f.asked, *f.reached))


def _fetched(flows: list[Flow]) -> list[Flow]:
    """The same flows; where a worker has but forwards whose results are discarded, these are the ones that it uses.

    Where a result is discarded, it may be fetched later from where the forward left it. Warm-ups and replays whose result
    nobody takes come beside a forward of the same phase and path that is taken.
    """
    taken = {(f.worker, f.phase, f.path) for f in flows if f.consumed}
    return [f if (f.worker, f.phase, f.path) in taken else replace(f, consumed=True) for f in flows]


def _feeds_states(walk: Walk) -> bool:
    """Whether the algorithm's draft takes the target's hidden states, as the tree's own predicates say."""
    it = walk.it
    frame = it.module_frame(walk.roles.algorithm.module)
    for name in walk.words.entry.algorithms_without_states:
        with it.outside():
            try:
                method = attributes.get(it, walk.algorithm, name, frame, it.base_state, default=NONE)
                if method is NONE:
                    continue
                v = calls.call(it, method, [], {}, it.base_state, None, frame)
            except Dead:
                continue
        if isinstance(v, Known) and v.value is True:
            return False
    return True
