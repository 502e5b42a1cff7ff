"""The question asked of a tree: which capture mode reaches the logits processor, on every path of every worker?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from flowcheck.data import rules_dir
from flowcheck.flow.calls import merged_calls
from flowcheck.flow.crew import Crew
from flowcheck.flow.facts import Assumption, CallEdge, Facts, Flow, Open, Path, Phase, Place, ScanStats
from flowcheck.flow.kept import KeptFacts
from flowcheck.flow.outcomes import Ground, Outcome, Question, is_proved
from flowcheck.flow.roles import MissingRole
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.splits import candidates, condition_of, worker_splits
from flowcheck.flow.stack import rarely_collected, with_deep_stack
from flowcheck.flow.vocabulary import Vocabulary, load_vocabulary
from flowcheck.interp.frames import Budget
from flowcheck.source import SourceWarning, Tree
from flowcheck.syntax import Checkup
from flowcheck.syntax.ir import Span

__all__ = ["analyse"]

Progress = Callable[[str], None]
Forced = dict[Any, Any]
DEEPEST_SPLIT = 2


def analyse(
    tree: Tree,
    scenario: Scenario,
    *,
    vocabulary: Vocabulary | None = None,
    cache_dir: FilePath | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    explain: bool = True,
) -> Facts:
    """Walks ``tree`` under ``scenario``. A tree without the parts that the walk needs gives an open question.

    Raises UnknownAlgorithm where the tree refuses the name of the scenario's algorithm.

    ``jobs``: how many processes may walk; the facts do not depend on it. More than one are spawned, so that a script
    which asks for them has to guard its own top level (``if __name__ == "__main__"``).
    ``explain``: repeat a walk that does not prove everything, to find the setting for whose values a finding holds.
    Without, findings are the same or more: a joined walk cannot tell that two tests of one setting agree.
    """
    keeps = vocabulary is None and explain
    kept = KeptFacts(cache_dir / "facts", tree, scenario) if cache_dir is not None and keeps else None
    known = kept.load() if kept is not None else None
    if known is not None:
        facts, broken = known
        tree.warnings += broken
        return facts
    words = vocabulary if vocabulary is not None else load_vocabulary(rules_dir() / "vocabulary.toml")
    question = Question(tree, replace(scenario, settings=dict(scenario.settings)), words, cache_dir)
    warned = len(tree.warnings)
    with Crew(question, jobs) as crew, rarely_collected():
        facts, broken = with_deep_stack(lambda: _analyse(question, crew, progress, explain))
    if kept is not None and len(tree.warnings) == warned:  # what cannot be read now may be read by the next scan
        kept.save(facts, broken)
    tree.warnings += broken
    return facts


def _analyse(
    question: Question, crew: Crew, progress: Progress | None, explain: bool
) -> tuple[Facts, tuple[SourceWarning, ...]]:
    ground = Ground(question, progress or (lambda text: None))
    tree, store = question.tree, ground.store
    with Checkup(store, tree.paths() if tree.include_all else tree.core_paths(), ground.cache) as checkup:
        facts = _walked(ground, crew, DEEPEST_SPLIT if explain else 0)
        problems = checkup.finish()
    store.save()
    return facts, tuple(SourceWarning(p.path, f"cannot be parsed: {p.reason}", p.line) for p in problems)


def _walked(ground: Ground, crew: Crew, depth: int) -> Facts:
    scenario, words = ground.question.scenario, ground.question.words
    store, program, say = ground.store, ground.program, ground.say
    settings = (("algorithm", scenario.algorithm), *((k, str(v)) for k, v in scenario.settings.items()))
    flows: list[Flow] = []
    opens: list[Open] = []
    lost: list[Open] = []
    edges: list[tuple[CallEdge, ...]] = []
    workers: list[str] = []
    steps = runs = 0
    try:
        say("looking for the workers")
        splits = worker_splits(ground.walk)
        for forced, joined in zip(splits, crew.outcomes(ground, splits), strict=False):
            outcomes = _split(crew, ground, forced, joined, depth)
            flows += _merged([o.flows for o in outcomes], condition_of(words, forced))
            for outcome in outcomes:
                runs += 1
                steps += outcome.steps
                opens += outcome.opens
                workers += [w for w in outcome.workers if w not in workers]
                lost += outcome.lost
                edges.append(outcome.calls)
        met = {(f.path, f.worker) for f in flows}
        opens += [o for o in lost if (o.path, o.worker) not in met]  # one walk may lose what another one meets
        if not workers:
            opens.append(Open(f"which worker runs {scenario.algorithm}", "the tree builds none for it", None, "entry"))
    except MissingRole as error:
        opens.append(Open("where batches are dispatched", str(error), None, "entry"))
    except Budget as error:
        opens.append(Open("the whole walk", str(error), None, "budget"))
    except RecursionError:
        reason = "the code is nested too deeply for this Python"
        opens.append(Open("the whole walk", reason, None, "budget"))
    finally:
        store.save()
    for path, reason in sorted(program.unreadable.items()):
        opens.append(
            Open(f"what {path} does", f"it cannot be parsed: {reason}", Place(path, Span(1, 1, 1, 1), ""), "unknown")
        )
    stats = ScanStats(
        files_indexed=ground.relevance.effects.files,
        definitions_indexed=ground.relevance.effects.counts()[0],
        definitions_parsed=store.stats.definitions_parsed,
        bytes_parsed=store.stats.bytes_parsed,
        steps=steps,
        runs=runs,
    )
    return Facts(
        flows=tuple(flows),
        open=tuple(dict.fromkeys(opens)),
        assumptions=_assumptions(words, flows),
        workers=tuple(workers),
        scenario=settings,
        stats=stats,
        calls=merged_calls(edges),
    )


def _split(crew: Crew, ground: Ground, forced: Forced, joined: Outcome, depth: int) -> list[Outcome]:
    """The outcome of one walk; where it proves less than everything, those of walks for each value of a setting that the
    answer depends on.

    A joined walk cannot tell that two tests of one setting agree, and does not say for which value a finding holds.
    """
    required = ground.question.words.mode.required
    trouble = joined.trouble(required)
    if not trouble or not depth:
        return [joined]
    bad = [f for f in joined.flows if not f.replay_guard and not is_proved(f, required)]
    modes = [m for f in bad for m in (*f.asked, *f.reached)]
    low = [m for m in modes if m.member != required and m.evidence] or modes
    near = {s.place.symbol for m in low for s in m.evidence}
    on_the_way = {step.note for f in bad for step in f.chain}
    best: tuple[int, Any, list[Outcome]] | None = None
    for key in candidates(joined.asked, near, on_the_way, forced):
        sides = list(crew.outcomes(ground, [{**forced, key: side} for side in (False, True)]))
        if all(side.trouble(required) >= trouble for side in sides):
            continue  # it makes no difference
        rows = [{(f.phase, f.path, f.worker) for f in side.flows} for side in sides]
        score = sum(len(side.trouble(required)) for side in sides)
        if rows[0] != rows[1] and score:
            continue  # it removes a way of running, which says nothing about the mode there
        if best is None or score < best[0]:
            best = (score, key, sides)
        if not score:
            break
    if best is None:
        return [joined]
    _, key, sides = best
    out: list[Outcome] = []
    for value, side in zip((False, True), sides, strict=False):
        out += _split(crew, ground, {**forced, key: value}, side, depth - 1)
    return out


def _merged(sides: list[list[Flow]], condition: str) -> list[Flow]:
    """The flows of several walks; one that all of them found does not depend on what told them apart."""
    if len(sides) == 1:
        return sides[0]
    out: list[Flow] = []
    bare = [{replace(f, condition="") for f in side} for side in sides]
    common = set.intersection(*bare)
    for side in sides:
        for f in side:
            plain = replace(f, condition="")
            if plain not in common:
                out.append(f)
            elif side is sides[0]:
                out.append(replace(f, condition=condition))
    return out


def _assumptions(words: Vocabulary, flows: list[Flow]) -> tuple[Assumption, ...]:
    users = tuple(
        dict.fromkeys(
            f"{f.phase.value}/{f.path.value}/{f.worker}" for f in flows if f.phase in (Phase.EXTEND, Phase.VERIFY)
        )
    )
    graphs = tuple(u for u in users if Path.EAGER.value not in u.split("/"))
    fixed = ", ".join(f"{k}={'none' if v == 'none' else str(v).lower()}" for k, v in words.scenario.arguments.items())
    texts = [
        (
            "logits-processor",
            "the model's forward hands its batch to the tree's logits processor unchanged",
            users,
        ),
        ("no-patching", "nothing outside the tree replaces its functions, and no plugin registers a worker", users),
        ("scenario", f"device {words.scenario.device}, unset environment, {fixed}", users),
        ("graph-replay", "replaying a recorded graph computes what was recorded, on the buffers of the batch", graphs),
    ]
    return tuple(Assumption(i, text, used) for i, text, used in texts if used)
