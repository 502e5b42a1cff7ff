"""Every target class of a tree, with no draft in mind: which can be told what to capture, and what each then captures.

A class is made with a configuration that stands for all, told by its own setter, and its own forward is run, under each way in
which ranks may share the work.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

from flowcheck.data import rules_dir
from flowcheck.flow import targets
from flowcheck.flow.boundaries import Capture
from flowcheck.flow.captured_states import state_of
from flowcheck.flow.capturing import capture
from flowcheck.flow.class_facts import ClassFacts, ClassRun, Purpose, TargetClass
from flowcheck.flow.contracts import Kernels, load_kernels
from flowcheck.flow.facts import Place
from flowcheck.flow.forwarding import Forwarding
from flowcheck.flow.kept import Kept, question_of
from flowcheck.flow.modes import place_of
from flowcheck.flow.pair_facts import Ids
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.setters import class_place, hooks_of, no_hook
from flowcheck.flow.stack import with_deep_stack
from flowcheck.flow.unset import Unset, stored_by
from flowcheck.flow.vocabulary import Vocabulary, load_vocabulary
from flowcheck.flow.witnesses import DeploymentWords, Witnesses, load_witnesses
from flowcheck.interp import classes
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.frames import Budget, Dead
from flowcheck.interp.kernels import MIXED
from flowcheck.interp.trails import Site
from flowcheck.interp.values import ClassV, FuncV, Known
from flowcheck.program.modules import Module, Program
from flowcheck.source import Tree
from flowcheck.syntax import SyntaxStore, ir

__all__ = ["class_facts"]

STEPS = 1_500_000
"""A forward that takes more is given up: that of a class takes a tenth of it, where the kinds of its layers are known."""

Progress = Callable[[str], None]


def class_facts(
    tree: Tree,
    scenario: Scenario,
    *,
    only: Sequence[str] = (),
    cache_dir: FilePath | None = None,
    progress: Progress | None = None,
) -> tuple[ClassFacts, ...]:
    """What every target class of ``tree`` captures for the scenario's algorithm; of the classes ``only`` where some are named.

    Raises LookupError where the tree registers no class of such a name, or targets are told nothing for the algorithm.
    """
    told = load_vocabulary(rules_dir() / "vocabulary.toml").capture.setters
    if scenario.algorithm.upper() not in told:
        raise LookupError(f"{scenario.algorithm} takes no states from inside the target; {', '.join(told)} do")
    kept = None
    if cache_dir is not None:
        question = (question_of(scenario), tuple(sorted(only)))
        kept = Kept(cache_dir / "classes", tree, question, tuple[ClassFacts, ...])
        known = kept.load()
        if known is not None:
            return known
    asking = Asking(tree, scenario, progress or (lambda text: None))
    facts = with_deep_stack(lambda: tuple(asking.facts(only)))
    if kept is not None:
        kept.save(facts)
    return facts


@dataclass
class Asking:
    """One tree under one scenario."""

    tree: Tree
    scenario: Scenario
    say: Progress
    words: Vocabulary = field(default_factory=lambda: load_vocabulary(rules_dir() / "vocabulary.toml"))
    kernels: Kernels = field(default_factory=lambda: load_kernels(rules_dir() / "kernels.toml"))
    witnesses: Witnesses = field(default_factory=lambda: load_witnesses(rules_dir() / "witnesses.toml"))
    forwardings: dict[str, Forwarding] = field(default_factory=dict)
    hooked: tuple[str, ...] = ()
    untyped: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.program = Program(SyntaxStore(self.tree, None))

    @functools.cached_property
    def _plain(self) -> Interpreter:
        """An interpreter that knows classes, and runs no forward."""
        return self._forwarding(self.witnesses.deployments[0]).interpreter()

    @functools.cached_property
    def _unset(self) -> Unset:
        """What is asked of classes without a hook, once all that have one are known."""
        processors = self.kernels.forward.processor_classes
        return Unset(self.program, self.words, frozenset(self.stored), frozenset(self.files), processors)

    def facts(self, only: Sequence[str]) -> Iterator[ClassFacts]:
        """Every class, or those of these names. Raises LookupError."""
        known = list(self.registered())
        self.hooked = tuple(target.name for target, _ in known if target.hook)
        names = {target.name for target, _ in known}
        if unknown := [name for name in only if name not in names]:
            raise LookupError(f"this tree registers no model class {unknown[0]}")
        done: dict[str, ClassFacts] = {}
        for target, cls in known:
            if only and target.name not in only:
                continue
            if target.like in done:
                facts = replace(done[target.like], cls=target)
            else:
                self.say(f"following {target.name}")
                facts = self.asked(target, cls)
            done[target.name] = facts
            yield facts

    # ---------------------------------------------------------------------------------------------------- classes
    def registered(self) -> Iterator[tuple[TargetClass, ClassV]]:
        """The classes that the tree registers, by name: the first of those that have one name."""
        it = self._plain
        found: dict[str, ClassV] = {}
        for module in sorted(self._modules(it), key=lambda module: module.path):
            for cls in targets.entries(it, self.words, module):
                if not self._is_draft(cls):
                    found.setdefault(cls.name, cls)
            self.files.add(module.path)
        for name in sorted(found):
            yield self._described(it, found[name], found), found[name]

    def _modules(self, it: Interpreter) -> Iterator[Module]:
        entry = self.words.models.entry
        corpus = self.program.corpus
        registers = re.compile(rb"^" + re.escape(entry.encode()) + rb"\b", re.M)
        for path in corpus.files_with(entry):
            module = self.program.module_at(path) if registers.search(corpus.files[path]) else None
            if module is not None:
                yield module

    def _is_draft(self, cls: ClassV) -> bool:
        """Whether the file of a class, or of a base, takes in states that a speculative input carries: it is a draft's then."""
        taken = f".{self.words.phase.speculative_input}.{self.words.target.states_attribute}".encode()
        return any(taken in text for text in self._sources(cls))

    def _described(self, it: Interpreter, cls: ClassV, others: dict[str, ClassV]) -> TargetClass:
        hook, hook_at = "", None
        for name in hooks_of(self.words, self.scenario.algorithm):
            method = classes.class_attr(it, cls, name, it.base_state)
            if method is not None:
                hook = name
                hook_at = _function_place(method) if isinstance(method, FuncV) else None
                self.stored.update(stored_by(method) if isinstance(method, FuncV) else ())
                break
        called = [name for name in self.words.models.called if self.program.corpus.files_with(name)]
        lacks = [name for name in called if classes.class_attr(it, cls, name, it.base_state) is None] if hook else []
        computed = classes.class_attr(it, cls, "__getattr__", it.base_state) is not None
        like = next((b.name for b in cls.mro[1:] if others.get(b.name) is b), "") if _adds_nothing(cls) else ""
        return TargetClass(cls.name, class_place(cls), hook, hook_at, lacks=tuple(lacks), computed=computed, like=like)

    # ------------------------------------------------------------------------------------------------------- runs
    def asked(self, target: TargetClass, cls: ClassV) -> ClassFacts:
        """All runs of one class; none, where it cannot be told what to capture."""
        if not target.hook:
            parts, unset = self._untold(target, cls)
            return ClassFacts(replace(target, inner=parts, unset=unset))
        plain, *shared = self.witnesses.deployments
        first, *others = self.witnesses.layers
        inner = self._run(cls, Purpose.INNER, plain, first, (_between(first),))
        if inner.raised or inner.question or not inner.states:
            untold = self._run(cls, Purpose.UNTOLD, plain, first, ())
            if not (untold.raised or untold.question) or cls.name in self.untyped:
                return ClassFacts(target, (inner, untold))
            self.untyped.add(cls.name)  # the class of its configuration may ask for what no witness writes
            return self.asked(target, cls)
        runs = [inner, self._run(cls, Purpose.INNER, plain, first, (_between(first),), "verify")]
        runs.append(self._run(cls, Purpose.AGAIN, plain, first, (_between(first)[:1], _between(first))))
        runs.append(self._run(cls, Purpose.DEFAULT, plain, first, (None,)))
        shift = _shift(inner)
        if shift is not None:
            runs.append(self._run(cls, Purpose.FIRST, plain, first, ((-shift, *_between(first)[:1]),)))
            runs.append(self._run(cls, Purpose.LAST, plain, first, ((*_between(first)[:1], first - shift),)))
        # Another number of layers is another model, and only the last one that was made is kept.
        runs += [self._run(cls, Purpose.INNER, plain, layers, (_between(layers),)) for layers in others]
        for words in shared:
            if self._is_possible(words):
                runs.append(self._run(cls, Purpose.INNER, words, first, (_between(first),)))
        return ClassFacts(target, tuple(runs), shift)

    def _untold(self, target: TargetClass, cls: ClassV) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The parts of a class without a hook that have one; where none has, the attributes by which it would capture and that
        nothing sets. Only a class whose code speaks of either is made for that."""
        sources = self._sources(cls)
        named = any(re.search(rb"\b%s\b" % re.escape(name.encode()), text) for name in self.hooked for text in sources)
        asked = self._unset.may_be_asked(cls)
        if not (named or asked):
            return (), ()
        it = targets.model_interpreter(self.program, self.words, self.scenario)
        config = self._configuration(cls, self.witnesses.layers[0])
        inner: tuple[str, ...] = ()
        try:
            made = targets.target_of(it, self.words, [target.name], config)
            inner = no_hook(it, self.words, made, hooks_of(self.words, self.scenario.algorithm)[0]).inner
            return inner, self._unset.of(it, made) if asked and not inner else ()
        except (targets.NoTarget, Dead, Budget):
            return inner, ()

    def _configuration(self, cls: ClassV, layers: int) -> dict[str, Any]:
        """A configuration for a class, of the type that its constructor is annotated with, where that is a class of the tree."""
        it = self._plain
        told = targets.annotated(it, self.words, cls)
        written = (
            classes.class_attr(it, told, self.words.configurations.type_key, it.base_state)
            if told is not None
            else None
        )
        known = isinstance(written, Known) and isinstance(written.value, str) and cls.name not in self.untyped
        kind = str(written.value) if known and isinstance(written, Known) else ""
        return self.witnesses.configuration(cls.name, layers, self._sources(cls), self.words, kind)

    def _sources(self, cls: ClassV) -> list[bytes]:
        """The files in which a class and its bases are defined."""
        files = self.program.corpus.files
        return [files[path] for path in dict.fromkeys(b.module.path for b in cls.mro) if path in files]

    def _is_possible(self, words: DeploymentWords) -> bool:
        """Whether the tree spells what switches a deployment on."""
        switches = self.kernels.facts.fusion if words.fusion else ()
        names = [name for name in switches if isinstance(self.kernels.facts.fusion[name][1], bool)] or [words.argument]
        return any(bool(self.program.corpus.files_with(name)) for name in names if name)

    def _run(
        self,
        cls: ClassV,
        purpose: Purpose,
        words: DeploymentWords,
        layers: int,
        told: tuple[Ids, ...],
        phase: str = "extend",
    ) -> ClassRun:
        forwarding = self._forwarding(words)
        config = self._configuration(cls, layers)
        (found,) = capture(forwarding, cls.name, config, None, (phase,), told)
        model = forwarding.it.config.tensors if forwarding.it is not None else None
        raised, raised_at = found.raised if found.raised is not None else ("", None)
        hooks = hooks_of(self.words, self.scenario.algorithm)
        return ClassRun(
            purpose=purpose,
            deployment=words.name,
            phase=phase,
            layers=layers,
            told=told,
            states=tuple(map(state_of, found.states)),
            kept=len({kept.tensor for kept in model.keeps}) if model is not None else 0,
            width=found.width,
            concat=found.concat,
            processor=found.processor,
            raised=raised,
            raised_at=raised_at,
            in_setter=raised_at is not None and raised_at.symbol.rpartition(".")[2] in hooks,
            deliberate=raised_at is not None and self._raises_at(raised_at.path, raised_at.span.line),
            question=found.question or "",
            unfit=_unfit(found, words),
            unmodelled=found.unmodelled,
        )

    def _raises_at(self, path: str, line: int) -> bool:
        """Whether a statement of the tree that raises an exception stands at a line."""
        lines = self.tree.read(path).splitlines()
        return 0 < line <= len(lines) and re.match(rb"\s*(raise|assert)\b", lines[line - 1]) is not None

    def _forwarding(self, words: DeploymentWords) -> Forwarding:
        """The interpretations under one deployment: a class is made once for all its runs there."""
        if words.name not in self.forwardings:
            self.forwardings[words.name] = Forwarding(
                self.tree,
                fusion=words.fusion,
                dp_attention=words.replicas,
                a2a=words.a2a,
                words=self.words,
                kernels=self.kernels,
                settings={self.words.entry.algorithm_argument: self.scenario.algorithm, **self.scenario.settings},
                program=self.program,
                steps=STEPS,
            )
        return self.forwardings[words.name]


def _unfit(found: Capture, words: DeploymentWords) -> str:
    """Why the layers of a class are not made for a deployment; what it gives is wrong there, captured or not."""
    if found.states and all(MIXED in state.boundary.reason for state in found.states):
        return "its layers add rows that different replicas have"
    if (words.replicas > 1 or words.a2a != "none") and found.unfinished:
        return "its layers never complete the sums of what is split over all ranks"
    return ""


def _between(layers: int) -> tuple[int, ...]:
    """The ids that no tree takes for the ends of so many layers, whether it adds one or not."""
    return tuple(range(1, layers - 1))


def _shift(run: ClassRun) -> int | None:
    """How far each boundary of a run lies behind the id that asked for it, where all lie equally far."""
    ids = run.told[-1] or ()
    found = run.boundaries
    if not found or len(found) != len(ids):
        return None
    shifts = {boundary - each if boundary is not None else None for boundary, each in zip(found, ids, strict=True)}
    return shifts.pop() if len(shifts) == 1 else None


def _adds_nothing(cls: ClassV) -> bool:
    """Whether the body of a class defines no function of its own."""
    return len(cls.mro) > 1 and not any(isinstance(s, (ir.FunctionDef, ir.ClassDef)) for s in cls.node.body)


def _function_place(f: FuncV) -> Place | None:
    return place_of(Site(f.module, f.owner, f.node.nid, f.qualname)) if f.module.syntax is not None else None
