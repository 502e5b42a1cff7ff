"""How a tree serves a pair: what it tells the target on each path, and which boundaries the target's forward captures then."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath

from flowcheck.data import rules_dir
from flowcheck.draft.pairing import Pairing
from flowcheck.flow.boundaries import Capture
from flowcheck.flow.capture_plan import CapturePlan, PathPlan, plan
from flowcheck.flow.captured_states import state_of
from flowcheck.flow.capturing import capture, is_refused
from flowcheck.flow.contracts import Deployment, Kernels, deployment_of, load_kernels
from flowcheck.flow.facts import Path, Phase
from flowcheck.flow.forwarding import Forwarding
from flowcheck.flow.id_search import find_ids
from flowcheck.flow.intake import intake
from flowcheck.flow.kept import Kept, question_of
from flowcheck.flow.keys import key_uses, keys_of
from flowcheck.flow.loading import loading
from flowcheck.flow.pair_facts import CaptureRow, Ids, Left, NoModel, PairFacts, Repair, Told
from flowcheck.flow.requested import NoHook, Requested
from flowcheck.flow.roles import MissingRole
from flowcheck.flow.row_ranges import RowRange, capture_by_rows
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.setters import hooks_of
from flowcheck.flow.stack import with_deep_stack
from flowcheck.flow.targets import NoTarget
from flowcheck.flow.undone import layers_stored, left_alone, stored_elsewhere, undone
from flowcheck.flow.vocabulary import Vocabulary, load_vocabulary
from flowcheck.flow.width import Intake, Loading, NoDraftClass
from flowcheck.interp.frames import Budget, Dead
from flowcheck.program.modules import Program
from flowcheck.source import Tree
from flowcheck.syntax import SyntaxStore

__all__ = ["Serving", "serve", "serving"]

Progress = Callable[[str], None]

USUAL_RANKS = (8, 4, 2, 1)
"""Over how many ranks a target is taken to be split where nobody says it: the first that its class allows."""


def serve(
    tree: Tree,
    scenario: Scenario,
    pairing: Pairing,
    *,
    tp: int | None = None,
    cache_dir: FilePath | None = None,
    progress: Progress | None = None,
) -> PairFacts:
    """What ``tree`` makes of ``pairing`` under ``scenario``, on ``tp`` ranks of tensor parallelism. Where nobody says how many
    (None): on eight, or as many of four, two and one as the target's class can be made on."""
    kept = None
    if cache_dir is not None:
        question = (question_of(scenario), tp, _asked_of(pairing))
        kept = Kept(cache_dir / "pairs", tree, question, PairFacts)
        known = kept.load()
        if known is not None:
            return known
    facts = with_deep_stack(serving(tree, scenario, pairing, tp=tp, progress=progress).facts)
    if kept is not None:
        kept.save(facts)
    return facts


def serving(
    tree: Tree, scenario: Scenario, pairing: Pairing, *, tp: int | None = None, progress: Progress | None = None
) -> Serving:
    """One pair in one tree, to be asked more than one question."""
    words = load_vocabulary(rules_dir() / "vocabulary.toml")
    kernels = load_kernels(rules_dir() / "kernels.toml")
    fewer = USUAL_RANKS[1:] if tp is None else ()
    ranks = USUAL_RANKS[0] if tp is None else tp
    return Serving(tree, scenario, pairing, ranks, words, kernels, progress or (lambda text: None), fewer)


def _asked_of(pairing: Pairing) -> str:
    """All of a pair that the answer depends on."""
    trained = pairing.trained.boundaries
    tensors = pairing.header.tensors.values() if pairing.header is not None else ()
    shapes = sorted((tensor.name, tensor.dtype, list(tensor.shape)) for tensor in tensors)
    whole = [dict(pairing.draft.raw), dict(pairing.target.raw), trained, shapes]
    return json.dumps(whole, sort_keys=True, default=repr)


@dataclass
class Serving:
    """One pair in one tree under one scenario. ``fewer``: numbers of ranks to go on with where the target cannot be made on
    ``tp``, because nobody asked for that many."""

    tree: Tree
    scenario: Scenario
    pairing: Pairing
    tp: int
    words: Vocabulary
    kernels: Kernels
    say: Progress
    fewer: tuple[int, ...] = ()
    known: dict[tuple[object, ...], tuple[RowRange, ...]] = field(default_factory=dict)
    alone: dict[tuple[Ids, ...], Requested | None] = field(default_factory=dict)
    held: tuple[Requested, ...] = ()
    forwardings: dict[bool, Forwarding] = field(default_factory=dict)

    @functools.cached_property
    def program(self) -> Program:
        """The tree's program, parsed once for all that is asked."""
        return Program(SyntaxStore(self.tree, None))

    def facts(self, *, forwards: bool = True) -> PairFacts:
        """All rows. Without ``forwards``, only what the target is told on each path: no row has states then."""
        architectures = self.pairing.target.architectures
        architecture = architectures[0] if architectures else ""
        if self.scenario.algorithm.upper() not in self.words.capture.setters:
            return PairFacts(architecture, False, tp=self.tp)
        self.say("following the start of the server")
        program = self.program
        try:
            found = plan(self.tree, program, self.words, self.scenario, self.pairing)
        except NoTarget as error:
            missing = NoModel(architecture, "", self._hook, str(error), None)
            return PairFacts(architecture, True, missing=missing, tp=self.tp)
        except (MissingRole, Budget) as error:
            return PairFacts(architecture, True, open=str(error), tp=self.tp)
        except Dead:
            return PairFacts(architecture, True, open="the start of the server always raises", tp=self.tp)
        except RecursionError:
            reason = "the code is nested too deeply for this Python"
            return PairFacts(architecture, True, open=reason, tp=self.tp)
        try:
            facts = PairFacts(architecture, True, tp=self.tp, deployment=str(self._deployment(fusion=False)))
        except ValueError as error:
            return PairFacts(architecture, True, open=str(error), tp=self.tp)
        self.held = tuple(each.requested for each in found.paths)
        if forwards:
            facts = self._taken(program, found, facts)
        if found.missing is not None:
            return replace(facts, missing=self._no_hook(architecture, found.missing))
        if not forwards:
            return replace(facts, rows=tuple(self._told(architecture, path, "") for path in found.paths))
        self._split(architecture)
        rows = self._rows(architecture, found)
        deployment = str(self._deployment(fusion=False))
        return replace(facts, rows=rows, repair=self._repair(architecture, rows), tp=self.tp, deployment=deployment)

    def _taken(self, program: Program, found: CapturePlan, facts: PairFacts) -> PairFacts:
        """The facts with what the draft's class takes in, and what becomes of the keys of its configuration."""
        self.say("making the draft")
        raw = self.pairing.draft.raw
        took = intake(self.tree, program, self.words, self.scenario, raw, kernels=self.kernels)
        if isinstance(took, NoDraftClass):
            return replace(facts, no_draft=took.architectures or ("",))
        uses = key_uses(program, self.words, took, found.reads, keys_of(raw))
        return replace(facts, intake=took, uses=uses, loading=self._loading(program, took))

    def _loading(self, program: Program, took: Intake) -> Loading | None:
        """What the draft's loader does with the checkpoint, where its header is known and the draft can be made."""
        header = self.pairing.header
        if header is None or (took.raises is not None and took.raises.certain):
            return None
        shapes = {tensor.name: tensor.shape for tensor in header.tensors.values()}
        found = loading(
            self.tree, program, self.words, self.scenario, self.pairing.draft.raw, shapes, kernels=self.kernels
        )
        return None if isinstance(found, NoDraftClass) else found

    @property
    def _hook(self) -> str:
        return hooks_of(self.words, self.scenario.algorithm)[0]

    def _no_hook(self, architecture: str, missing: NoHook) -> NoModel:
        if not any(missing.method.encode() in self.tree.read(path) for path in self.tree.core_paths()):
            reason = f"no code of it spells {missing.method}, by which a target is told what to capture"
            return NoModel(architecture, "", missing.method, reason, missing.place)
        reason = f"{missing.model_class} has no {missing.method}"
        return NoModel(architecture, missing.model_class, missing.method, reason, missing.place, missing.inner)

    # -------------------------------------------------------------------------------------------------------- rows
    def _rows(self, architecture: str, found: CapturePlan) -> tuple[CaptureRow, ...]:
        switches = self._switches()
        out: list[CaptureRow] = []
        for path in found.paths:
            self.say(f"following the target's forward: {path.phase.value}, {path.path.value}")
            sides = [self._of_path(architecture, path, condition, fusion) for condition, fusion in switches]
            if len(sides) > 1 and all(_same(side, sides[0]) for side in sides[1:]):
                sides = [[_of_both(rows) for rows in zip(*sides, strict=True)]]
            out += [row for side in sides for row in side]
        return tuple(dict.fromkeys(out))

    def _switches(self) -> list[tuple[str, bool]]:
        """The deployments to ask about: with all-reduce fusion and without, unless a setting or the tree decides."""
        fusion = self.kernels.facts.fusion
        names = [name for name, (off, on) in fusion.items() if isinstance(on, bool) and on != off]
        for name in names:
            if name in self.scenario.settings:
                return [("", bool(self.scenario.settings[name]))]
        spelled = [name for name in names if self._is_spelled(name)]
        if not spelled:
            return [("", False)]
        return [(f"{spelled[0]} is false", False), (f"{spelled[0]} is true", True)]

    def _is_spelled(self, name: str) -> bool:
        word = name.encode()
        return any(word in self.tree.read(path) for path in self.tree.core_paths())

    def _of_path(self, architecture: str, path: PathPlan, condition: str, fusion: bool) -> list[CaptureRow]:
        """The rows of a path under one condition: one for each range of batch sizes that have one answer."""
        row = self._told(architecture, path, condition)
        if row.question or row.raised:
            return [row]
        ranges = self._captures(architecture, [each.ids for each in row.told], path.phase, fusion)
        return [_captured(replace(row, batch=_spelled(each)), each) for each in ranges]

    def _captures(self, architecture: str, told: Sequence[Ids], phase: Phase, fusion: bool) -> tuple[RowRange, ...]:
        key = (tuple(told), phase, fusion)
        if key not in self.known:
            forwarding = self._forwarding(fusion)
            self.known[key] = capture_by_rows(
                forwarding, architecture, self.pairing.target.raw, None, phase.value, tuple(told)
            )
        return self.known[key]

    def _told(self, architecture: str, path: PathPlan, condition: str) -> CaptureRow:
        """A row that says what the target is told, and nothing yet of what it captures."""
        told = tuple(Told(c.method, c.ids, c.key, c.reason, c.place) for c in path.sources)
        open_ = path.open or next((f"what the target is told is not known: {t.reason}" for t in told if t.reason), "")
        open_ = open_ or self._undone(path) or self._layers_stored
        raised = path.requested.raised[0] if path.requested.is_refused else None
        return CaptureRow(
            phase=path.phase,
            path=path.path,
            runner=path.runner,
            condition=condition,
            model_class=architecture,
            told=told,
            left=_left(path.requested),
            states=(),
            width=None,
            rows="",
            concat=None,
            processor=None,
            raised=raised.exception if raised is not None else "",
            raised_at=raised.place if raised is not None else None,
            in_setter=raised is not None,
            question=open_,
        )

    def _undone(self, path: PathPlan) -> str:
        """Why the calls of the setter alone do not say what a path captures, where they do not."""
        told = tuple(tuple(call.ids) if call.ids is not None else None for call in path.sources)
        if not told or path.requested.raised:
            return ""
        if told not in self.alone:
            self.alone[told] = left_alone(self.program, self.words, self.scenario, self.pairing, told)
        alone = self.alone[told]
        if alone is None:
            return ""
        architecture = self.pairing.target.architectures[0]
        return undone(path.requested, alone) or stored_elsewhere(
            self.program, self.words, architecture, self.held, alone
        )

    @functools.cached_property
    def _layers_stored(self) -> str:
        """What may have changed the list of the target's layers, "" where nothing does."""
        architecture = self.pairing.target.architectures[0]
        forwarding = self._forwarding(self._switches()[0][1])
        try:
            run = with_deep_stack(lambda: forwarding.fresh(architecture, self.pairing.target.raw))
        except (LookupError, Dead, Budget):
            return ""  # its forwards will say so
        forwarding.keep()
        return layers_stored(self.program, self.words, architecture, run.stack) if run.stack else ""

    def _repair(self, architecture: str, rows: Sequence[CaptureRow]) -> Repair | None:
        """Ids that would be right, where those that are written are known not to be."""
        wanted = self.pairing.trained.boundaries
        asked = (row for row in rows if row.path is Path.EAGER and row.is_asked)
        # What is not known to be captured is not known to be wrong.
        wrong = next((row for row in asked if row.boundaries != wanted and all(x.certain for x in row.states)), None)
        if wrong is None or not wanted or (wrong.raised and not any(told.key for told in wrong.told)):
            return None  # what raises without having been told any ids does so whatever they are
        written = next((told.ids for told in reversed(wrong.told) if told.key), None)
        return self.ids_for(architecture, wrong, wanted, written if not wrong.condition else None)

    def ids_for(self, architecture: str, row: CaptureRow, wanted: Sequence[int], wrong: Ids = None) -> Repair:
        """Which ids make the tree capture these boundaries on the path of a row; ``wrong`` are known not to."""
        keyed = [number for number, told in enumerate(row.told) if told.key]
        if not keyed:
            return Repair(tuple(wanted), (), "this tree tells the target no ids of the draft's configuration")
        self._split(architecture)
        self.say("looking for ids that this tree takes for the trained boundaries")

        def told_with(ids: tuple[int, ...]) -> Capture:
            told = [ids if number in keyed else each.ids for number, each in enumerate(row.told)]
            forwarding = self._forwarding(self._switches()[0][1])
            (found,) = capture(forwarding, architecture, self.pairing.target.raw, None, (row.phase.value,), told)
            return found

        return find_ids(told_with, wanted, self.pairing.target.layers, wrong)

    def _split(self, architecture: str) -> None:
        """Finds over how many ranks the target can be split, where nobody says over how many it is."""
        usual, fewer, self.fewer = self.tp, self.fewer, ()
        for ranks in (usual, *fewer) if fewer else ():
            self.tp, self.forwardings = ranks, {}
            try:
                if not is_refused(self._forwarding(self._switches()[0][1]), architecture, self.pairing.target.raw):
                    return
            except ValueError:
                break  # so many ranks cannot be so many replicas
        self.tp, self.forwardings = usual, {}

    def _forwarding(self, fusion: bool) -> Forwarding:
        """What runs the target under a switch: one for all questions, so that the model is built once."""
        if fusion not in self.forwardings:
            deployed = self._deployment(fusion)
            self.forwardings[fusion] = Forwarding(
                self.tree,
                tp=deployed.tp,
                fusion=fusion,
                dp_attention=deployed.replicas,
                a2a=deployed.a2a,
                words=self.words,
                kernels=self.kernels,
                settings={self.words.entry.algorithm_argument: self.scenario.algorithm, **self.scenario.settings},
                program=self.program,
            )
        return self.forwardings[fusion]

    def _deployment(self, fusion: bool) -> Deployment:
        """Which ranks share what. Raises ValueError where the settings describe nothing that is modelled."""
        settings, fixed = self.scenario.settings, self.words.scenario.arguments
        return deployment_of(self.kernels.facts, fixed, settings, tp=self.tp, fusion=fusion)


def _left(requested: Requested) -> tuple[Left, ...]:
    def at(owner: str, attribute: str) -> str:
        return f"{owner}.{attribute}" if owner else attribute

    left = [Left(f"{at(x.owner, x.attribute)} = {list(x.values)}", x.places) for x in requested.lists]
    left += [
        Left(f"{x.attribute} is true on {x.owner}[{', '.join(map(str, x.indices))}]", x.places) for x in requested.flags
    ]
    left += [Left(f"{at(x.owner, x.attribute)} = {x.value!r}", x.places) for x in requested.settings]
    return tuple(left)


def _spelled(each: RowRange) -> str:
    """Which batches a range holds for, "" for all: "<=2048 tok"."""
    if each.high is None:
        return "" if each.low <= 1 else f">{each.low - 1} tok"
    return f"<={each.high} tok" if each.low <= 1 else f"{each.low} to {each.high} tok"


def _captured(row: CaptureRow, each: RowRange) -> CaptureRow:
    found = each.capture
    raised, raised_at = found.raised if found.raised is not None else ("", None)
    partly = "" if each.whole else "it was not asked for every number of rows"
    return replace(
        row,
        states=tuple(map(state_of, found.states)),
        width=int(found.width) if found.width is not None and found.width.isdecimal() else None,
        rows=found.rows or "",
        concat=found.concat,
        processor=found.processor,
        raised=raised,
        raised_at=raised_at,
        question=found.question or partly,
        limits=tuple(dict.fromkeys(limit.place for limit in each.limits)) if row.batch else (),
        assumptions=found.assumptions,
        cuts=each.cuts,
    )


def _of_both(rows: Sequence[CaptureRow]) -> CaptureRow:
    """One row for what is the same under every condition."""
    cuts = {cut for row in rows for cut in row.cuts}
    return replace(rows[0], condition="", cuts=tuple(sorted(cuts)))


def _same(side: Sequence[CaptureRow], other: Sequence[CaptureRow]) -> bool:
    """Whether two conditions have the same rows, but for what tells the runs apart."""

    def bare(rows: Sequence[CaptureRow]) -> list[CaptureRow]:
        return [replace(row, condition="", assumptions=(), cuts=()) for row in rows]

    return bare(side) == bare(other)
