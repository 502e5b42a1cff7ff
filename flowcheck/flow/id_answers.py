"""Which ids to write into a draft's configuration for one tree, and what that tree makes of the draft with them.

The key is the one that the tree was seen to read. Ids are tried on the tree's own setter and forward; then the whole start
of a server is followed again with them in the draft's file, since a path may not be told what is written there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path as FilePath

from flowcheck.draft.config import DraftConfig
from flowcheck.draft.pairing import Pairing
from flowcheck.draft.rewriting import keyed, with_ids
from flowcheck.flow.facts import Path
from flowcheck.flow.kept import Kept, question_of
from flowcheck.flow.pair_facts import IdAnswer, PairFacts
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.serving import Serving, serving
from flowcheck.flow.stack import with_deep_stack
from flowcheck.source import Tree

__all__ = ["id_answers"]

Boundaries = tuple[int, ...]


def id_answers(
    tree: Tree,
    scenario: Scenario,
    pairing: Pairing,
    wanted: Sequence[Boundaries],
    *,
    tp: int | None = None,
    cache_dir: FilePath | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[IdAnswer, ...]:
    """One answer for each of ``wanted`` (ascending boundaries). A scenario whose algorithm captures nothing has none."""
    kept = None
    if cache_dir is not None:
        raw = json.dumps([dict(pairing.draft.raw), dict(pairing.target.raw)], sort_keys=True, default=repr)
        question = (question_of(scenario), tp, raw, tuple(wanted))
        kept = Kept(cache_dir / "ids", tree, question, tuple[IdAnswer, ...])
        known = kept.load()
        if known is not None:
            return known
    asked = serving(tree, scenario, pairing, tp=tp, progress=progress)
    answers = with_deep_stack(lambda: _answers(asked, wanted))
    if kept is not None:
        kept.save(answers)
    return answers


def _answers(asked: Serving, wanted: Sequence[Boundaries]) -> tuple[IdAnswer, ...]:
    told = asked.facts(forwards=False)
    if not told.asks:
        return ()
    if told.missing is None and not told.open and (not _key(told) or _is_stuck(told)):
        told = _with(asked, _probe(asked.pairing, _key(told))).facts(forwards=False)
    return tuple(_answer(asked, told, each) for each in wanted)


def _is_stuck(told: PairFacts) -> bool:
    """Whether the ids that are written keep the server from starting, so that they say nothing of others."""
    return any(row.question or row.raised for row in told.rows if row.path is Path.EAGER)


def _probe(pairing: Pairing, key: str) -> DraftConfig:
    """The draft with ids that every target has: under the key that the tree reads, or under all keys to find it."""
    states = max(pairing.states, 1)
    return with_ids(pairing.draft, {key: range(1, states + 1)} if key else keyed(states))


def _with(asked: Serving, draft: DraftConfig) -> Serving:
    """The same question about a draft that writes other ids; what forwards captured is known already."""
    return replace(asked, pairing=replace(asked.pairing, draft=draft))


def _key(told: PairFacts) -> str:
    """The key of the draft's configuration whose ids the target of eager forwards is told."""
    keys = [each.key for row in told.rows if row.path is Path.EAGER for each in row.told if each.key]
    return keys[-1] if keys else ""


def _answer(asked: Serving, told: PairFacts, wanted: Boundaries) -> IdAnswer:
    if told.missing is not None:
        return IdAnswer(wanted, reason=told.missing.reason, facts=told)
    key, rows = _key(told), [row for row in told.rows if row.path is Path.EAGER]
    if told.open or not rows:
        return IdAnswer(wanted, reason=told.open or "no eager forward was found", certain=False)
    if rows[0].question:
        return IdAnswer(wanted, key=key, reason=rows[0].question, certain=False)
    repair = asked.ids_for(told.architecture, rows[0], wanted)
    if not repair.ids:
        return IdAnswer(wanted, key=key, reason=repair.reason, certain=repair.certain)
    again = _with(asked, with_ids(asked.pairing.draft, {key: repair.ids}))
    return IdAnswer(wanted, repair.ids, key, facts=again.facts())
