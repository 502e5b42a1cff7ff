"""The question asked of a tree: which capture mode reaches the logits processor, on every path of every worker?"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, TypeVar

from flowcheck.data import rules_dir
from flowcheck.flow import modes
from flowcheck.flow.calls import calls_of, merged_calls
from flowcheck.flow.facts import Assumption, CallEdge, Facts, Flow, Open, Path, Phase, Place, ScanStats
from flowcheck.flow.kept import KeptFacts
from flowcheck.flow.presence import lost_replays
from flowcheck.flow.relevance import Relevance, effects_of
from flowcheck.flow.roles import MissingRole
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.splits import candidates, describe_key, worker_splits
from flowcheck.flow.vocabulary import Vocabulary, load_vocabulary
from flowcheck.flow.walk import Walk
from flowcheck.interp import attributes, calls
from flowcheck.interp.engine import Budget, Dead
from flowcheck.interp.values import NONE, Known
from flowcheck.program.modules import Program
from flowcheck.source import SourceWarning, Tree
from flowcheck.syntax import SyntaxCache, SyntaxStore
from flowcheck.syntax.ir import Span

__all__ = ["analyse"]

Progress = Callable[[str], None]
STACK = 512 * 1024 * 1024
DEEPEST = 60_000
DEEPEST_SPLIT = 2
T = TypeVar("T")


def analyse(
    tree: Tree,
    scenario: Scenario,
    *,
    vocabulary: Vocabulary | None = None,
    cache_dir: FilePath | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Facts:
    """Walks ``tree`` under ``scenario``. A tree without the parts that the walk needs gives an open question."""
    kept = KeptFacts(cache_dir / "facts", tree, scenario) if cache_dir is not None and vocabulary is None else None
    facts = kept.load() if kept is not None else None
    if facts is not None:
        return facts
    words = vocabulary if vocabulary is not None else load_vocabulary(rules_dir() / "vocabulary.toml")
    cache = SyntaxCache(cache_dir / "syntax") if cache_dir is not None else None
    warned = len(tree.warnings)
    facts = _with_deep_stack(lambda: _analyse(tree, scenario, words, cache, progress))
    if kept is not None and len(tree.warnings) == warned:  # a warning belongs to the scan that meets it
        kept.save(facts)
    return facts


def _with_deep_stack(work: Callable[[], T]) -> T:
    """Runs ``work`` in a thread whose stack holds the interpreter's recursion."""
    box: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            box.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            errors.append(error)

    limit = sys.getrecursionlimit()
    size = threading.stack_size(STACK)
    try:
        sys.setrecursionlimit(max(limit, DEEPEST))
        thread = threading.Thread(target=run, name="flowcheck")
        thread.start()
    finally:
        threading.stack_size(size)
    try:
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return box[0]


def _analyse(
    tree: Tree, scenario: Scenario, words: Vocabulary, cache: SyntaxCache | None, progress: Progress | None
) -> Facts:
    store = SyntaxStore(tree, cache)
    program = Program(store)
    say = progress or (lambda text: None)
    say("indexing")
    relevance = Relevance(
        effects_of(tree, words),
        words,
        (words.mode.attribute, words.phase.attribute, words.phase.speculative_input, words.target.draft_flag),
    )

    def make(forced: dict[Any, Any]) -> Walk:
        return Walk(program, scenario, words, relevance, say, forced)

    settings = (("algorithm", scenario.algorithm), *((k, str(v)) for k, v in scenario.settings.items()))
    flows: list[Flow] = []
    opens: list[Open] = []
    lost: list[Open] = []
    edges: list[tuple[CallEdge, ...]] = []
    workers: list[str] = []
    steps = runs = 0
    try:
        say("looking for the workers")
        for forced in worker_splits(make):
            outcomes = _outcomes(make, words, forced)
            flows += _merged([o.flows for o in outcomes], _condition(forced))
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
    finally:
        store.save()
    for path, text in store.problems:
        tree.warnings.append(SourceWarning(path, f"cannot be parsed: {text}"))
    for path, reason in program.unreadable.items():
        opens.append(
            Open(f"what {path} does", f"it cannot be parsed: {reason}", Place(path, Span(1, 1, 1, 1), ""), "unknown")
        )
    stats = ScanStats(
        files_indexed=relevance.effects.files,
        definitions_indexed=relevance.effects.counts()[0],
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


@dataclass
class _Outcome:
    """What one walk found."""

    walk: Walk
    flows: list[Flow]
    opens: list[Open]
    lost: list[Open]
    calls: tuple[CallEdge, ...]
    workers: list[str]
    steps: int

    def trouble(self) -> frozenset[tuple[object, ...]]:
        """What is not proved, without its condition. A refused replay loses nothing: it needs no condition."""
        found: set[tuple[object, ...]] = {(o.question, o.kind) for o in self.opens}
        for f in self.flows:
            if not f.replay_guard and not _is_proved(f, self.walk.words.mode.required):
                members = tuple(sorted({m.member for m in (*f.asked, *f.reached)}))
                found.add((f.phase, f.path, f.worker, members, f.replay_guard))
        return frozenset(found)


def _is_proved(f: Flow, required: str) -> bool:
    if not f.consumed or f.phase not in (Phase.EXTEND, Phase.VERIFY):
        return True
    return all(m.member == required for m in (*f.asked, *f.reached))


def _outcome(make: Callable[[dict[Any, Any]], Walk], words: Vocabulary, forced: dict[Any, Any]) -> _Outcome:
    walk = make(forced)
    walk.run()
    found = modes.flows_of(walk, _condition(forced), _assumption_ids(words))
    required: tuple[Phase, ...] = (Phase.EXTEND, Phase.VERIFY)
    if not _feeds_states(walk):
        found = [_unconsumed(f) for f in found]
        required = ()
    opens = modes.opens_of(walk, found, required)
    lost = lost_replays(walk, found) if required else []
    workers = list(dict.fromkeys(c.name for _, c in walk.worker_list))
    return _Outcome(walk, found, opens, lost, calls_of(walk), workers, walk.it.steps)


def _outcomes(
    make: Callable[[dict[Any, Any]], Walk], words: Vocabulary, forced: dict[Any, Any], depth: int = DEEPEST_SPLIT
) -> list[_Outcome]:
    """One walk; where it proves less than everything, walks for each value of a setting that the answer depends on.

    A joined walk cannot tell that two tests of one setting agree, and does not say for which value a finding holds.
    """
    return _split(make, words, forced, _outcome(make, words, forced), depth)


def _split(
    make: Callable[[dict[Any, Any]], Walk], words: Vocabulary, forced: dict[Any, Any], joined: _Outcome, depth: int
) -> list[_Outcome]:
    trouble = joined.trouble()
    if not trouble or not depth:
        return [joined]
    bad = [f for f in joined.flows if not f.replay_guard and not _is_proved(f, words.mode.required)]
    near = {s.place.symbol for f in bad for m in (*f.asked, *f.reached) for s in m.evidence}
    on_the_way = {step.note for f in bad for step in f.chain}
    best: tuple[int, Any, list[_Outcome]] | None = None
    for key in candidates(joined.walk, near, on_the_way, forced):
        sides = [_outcome(make, words, {**forced, key: side}) for side in (False, True)]
        if all(side.trouble() >= trouble for side in sides):
            continue  # it makes no difference
        rows = [{(f.phase, f.path, f.worker) for f in side.flows} for side in sides]
        if rows[0] != rows[1]:
            continue  # it removes a way of running, which says nothing about the mode there
        score = sum(len(side.trouble()) for side in sides)
        if best is None or score < best[0]:
            best = (score, key, sides)
        if not score:
            break
    if best is None:
        return [joined]
    _, key, sides = best
    out: list[_Outcome] = []
    for value, side in zip((False, True), sides, strict=False):
        out += _split(make, words, {**forced, key: value}, side, depth - 1)
    return out


def _condition(forced: dict[Any, Any]) -> str:
    return " and ".join(describe_key(k, v) for k, v in forced.items())


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


def _unconsumed(f: Flow) -> Flow:
    return replace(f, consumed=False)


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


def _assumption_ids(words: Vocabulary) -> tuple[str, ...]:
    return ("logits-processor", "no-patching", "scenario")


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
