"""What a draft was trained on, by the tree that it was trained with: the boundaries that its eager extend captures for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path as FilePath

from flowcheck.draft.config import DraftConfig
from flowcheck.draft.errors import BoundariesError
from flowcheck.draft.pairing import pair
from flowcheck.draft.target import TargetConfig
from flowcheck.draft.training import Computed
from flowcheck.flow.facts import Path, Phase
from flowcheck.flow.pair_facts import CaptureRow, PairFacts, Reach, describe
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.serving import serve
from flowcheck.source import Tree

__all__ = ["trained_with"]


def trained_with(
    tree: Tree,
    scenario: Scenario,
    draft: DraftConfig,
    target: TargetConfig,
    *,
    tp: int | None = None,
    cache_dir: FilePath | None = None,
    progress: Callable[[str], None] | None = None,
) -> Computed:
    """What the training tree makes of a draft, for `flowcheck.draft.trained_boundaries`.

    A trainer runs its target once over a whole text and records no graphs: the eager extend is what counts.

    Raises:
        BoundariesError: it captures nothing that could be trained on, or what it captures is not known.
    """
    facts = serve(tree, scenario, pair(draft, target), tp=tp, cache_dir=cache_dir, progress=progress)

    def refused(why: str) -> BoundariesError:
        return BoundariesError(f"what the draft was trained on cannot be computed with {tree.label}: {why}")

    if not facts.asks:
        raise refused(f"{scenario.algorithm} takes no states from inside the target")
    if facts.missing is not None or facts.open:
        raise refused(facts.missing.reason if facts.missing is not None else facts.open)
    rows = [row for row in facts.rows if (row.phase, row.path) == (Phase.EXTEND, Path.EAGER)]
    if not rows:
        raise refused("no eager extend of the target was found")
    whole = [row for row in rows if row.is_known and all(state.reach is Reach.COMPLETE for state in row.states)]
    answers = {row.boundaries for row in whole or rows}
    why = _why_not((whole or rows)[0])
    if why:
        raise refused(why)
    if len(answers) > 1:
        raise refused("it captures other boundaries under other settings")
    (found,) = answers
    return Computed(tuple(each for each in found if each is not None), _called(tree, facts))


def _why_not(row: CaptureRow) -> str:
    """Why a row is nothing to train on, "" where it is."""
    if row.question or row.raised:
        return row.question or f"{row.raised} is raised"
    for state in row.states:
        if not state.certain:
            return f"a captured state is not known: {state.reason}"
        if state.name is None or state.reach is not Reach.COMPLETE:
            return f"it captures {describe(state)}"
    return "" if row.states else "it captures nothing"


def _called(tree: Tree, facts: PairFacts) -> str:
    return f"{facts.rows[0].model_class} in {tree.label}"
