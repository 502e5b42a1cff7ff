"""Where the tree reads the draft's ids, and when it tells the target: the start of a server, interpreted in the tree's order.

The scheduler's constructor is followed through everything that may call a setter of the target, or make a graph runner
record; all else is evaluated when it is asked for. What the target holds when a runner records is what its graphs capture,
what it holds in the end is what eager forwards capture.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowcheck.flow.configurations import configuration
from flowcheck.flow.facts import Path, Place
from flowcheck.flow.modes import place_of
from flowcheck.flow.relevance import Relevance
from flowcheck.flow.requested import NoHook, Requested
from flowcheck.flow.roles import find_roles
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.setters import capture_requests, hook_of, left_on, no_hook, recorded
from flowcheck.flow.targets import Target, literal, model_interpreter, target_of
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.flow.width import KeyRead
from flowcheck.interp import attributes, calls, classes, documents
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.frames import Budget, Dead, Frame, Raised
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.trails import Site
from flowcheck.interp.values import (
    FALSE,
    NONE,
    TRUE,
    ClassV,
    FuncV,
    Known,
    Ref,
    Unknown,
    Value,
    alternatives,
    join,
)
from flowcheck.program.corpus import methods_of
from flowcheck.program.effects import Effects
from flowcheck.program.modules import Program
from flowcheck.source import Tree
from flowcheck.syntax import ir

__all__ = ["Recording", "SetterCall", "Startup", "startup"]

FANOUT = 6
"""Of the few functions that lead to a setter, names say more than of those that touch a batch."""


@dataclass(frozen=True, slots=True)
class SetterCall:
    """One call of a setter of the target. ``ids`` is None where none are passed; ``key`` is where the draft's file writes them,
    ``""`` where they come from elsewhere. ``chain`` leads to the call from the outermost caller."""

    method: str
    ids: tuple[int, ...] | None
    known: bool
    key: str
    reason: str
    place: Place | None
    chain: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """A graph runner that records, and what the target holds meanwhile. ``calls``: how many setter calls came before."""

    runner: str
    path: Path
    requested: Requested
    calls: int


@dataclass(frozen=True, slots=True)
class Startup:
    """What the start of a server tells the target: the calls in their order, what each runner recorded, what is left.

    ``missing`` is set where the target has nothing to be told by: a server that asks it stops there, as ``stopped`` says.
    ``final`` is refused (``Requested.is_refused``) where the server stops because the target cannot be told these ids.
    ``unmet``: file and line of calls of this scenario's setter that the tree spells and the walk did not come to. ``reads``: the
    keys of the draft's file that the start asks for.
    """

    calls: tuple[SetterCall, ...]
    recordings: tuple[Recording, ...]
    final: Requested
    unmet: tuple[tuple[str, int], ...] = ()
    missing: NoHook | None = None
    stopped: str = ""
    steps: int = 0
    reads: tuple[KeyRead, ...] = ()


def startup(
    tree: Tree,
    program: Program,
    words: Vocabulary,
    scenario: Scenario,
    target: Mapping[str, Any],
    draft: Mapping[str, Any],
    architectures: Sequence[str] = (),
) -> Startup:
    """Follows the start of a server with this target and this draft. Raises NoTarget and MissingRole."""
    return _Start(tree, program, words, scenario, target, draft, architectures).run()


@dataclass
class _Start:
    tree: Tree
    program: Program
    words: Vocabulary
    scenario: Scenario
    raw_target: Mapping[str, Any]
    raw_draft: Mapping[str, Any]
    architectures: Sequence[str]
    calls: list[SetterCall] = field(default_factory=list)
    recordings: dict[int, Recording] = field(default_factory=dict)
    reads: dict[str, dict[Site, None]] = field(default_factory=dict)

    def run(self) -> Startup:
        words = self.words
        it = self.it = model_interpreter(self.program, words, self.scenario)
        self._relevance()
        self.target: Target = target_of(
            it, words, self.architectures or self.raw_target.get("architectures", ()), self.raw_target
        )
        self.draft = configuration(it, words, self.raw_draft, "the draft's config", raises=True)
        self.keys = documents.paths_of(it.base.objects[self.draft.oid].attrs, it.base_state)
        self.roles = find_roles(it, it.program.corpus, words)
        self._arguments()
        self._configure(it)
        scheduler = self.roles.schedulers[0]
        st = State(it.base)
        obj = Obj("skeleton", scheduler)
        ref = Ref(it.base_state.new(obj))
        init = classes.class_attr(it, scheduler, "__init__", it.base_state)
        assert isinstance(init, FuncV)
        obj.ctor = {p.name: ref if i == 0 else self._parameter(p.name) for i, p in enumerate(init.node.params.items)}
        it.handlers = [[]]
        it.step_limit = it.steps + it.config.max_steps
        stopped, dead = "", False
        with recorded(it, frozenset(words.capture.hooks)) as self.journal:
            try:
                keywords = {k: v for i, (k, v) in enumerate(obj.ctor.items()) if i}
                calls.call(it, init, [ref], keywords, st, None, it.module_frame(scheduler.module))
            except Dead:
                stopped = "the scheduler cannot be constructed"
                dead = True
            except Budget as error:
                stopped = str(error)
            raised: list[Raised] = it.handlers[0]
            final = left_on(it, self.target, st, self.journal)
        self.asked = dict(it.asked_keys)
        if stopped and raised:
            site = raised[-1].site
            stopped += f": {raised[-1].name}"
            if site is not None:
                place = place_of(site)
                stopped += f" at {place.path}:{place.span.line}"
        if dead:
            final = self._refused() or final
        recordings = tuple(dict.fromkeys(self.recordings.values()))
        missing = self._missing()
        calls_ = tuple(dict.fromkeys(self.calls))
        reads = tuple(KeyRead(key, tuple(map(place_of, sites))) for key, sites in self.reads.items())
        return Startup(calls_, recordings, final, self._unmet(), missing, stopped, it.steps, reads)

    def _refused(self) -> Requested | None:
        """What the target holds when it is told all this again, if the last call certainly raises: None where it does not."""
        told = list(self.calls)
        if not told or not all(call.known for call in told):
            return None
        again = capture_requests(self.it, self.words, self.target, [call.ids for call in told], method=told[-1].method)
        self.calls = told
        return again if again.is_refused else None

    def _hook(self) -> str:
        """The method by which this target is told."""
        it, target = self.it, self.target
        with it.outside():
            frame = it.module_frame(target.cls.module)
            return hook_of(it, self.words, self.scenario.algorithm, target.instance, frame, it.base_state)

    def _missing(self) -> NoHook | None:
        it, method = self.it, self._hook()
        with it.outside():
            try:
                attributes.get(it, self.target.instance, method, it.module_frame(self.target.cls.module), it.base_state)
            except Dead:
                return no_hook(it, self.words, self.target, method)
        return None

    def _unmet(self) -> tuple[tuple[str, int], ...]:
        """Calls of the setter outside the models that no call of the walk was made from."""
        corpus, words = self.program.corpus, self.words
        method = self._hook()
        call = re.compile(rb"\." + method.encode() + rb"\(")
        beyond = re.compile(words.relevance.beyond.encode(), re.M)
        met = {(c.place.path, c.place.span.line) for c in self.calls if c.place is not None}
        found = []
        for path in corpus.files_with(method):
            data = corpus.files[path]
            if not beyond.search(data):
                found += [(path, data.count(b"\n", 0, m.start()) + 1) for m in call.finditer(data)]
        return tuple(each for each in found if each not in met)

    def _parameter(self, name: str) -> Value:
        if name == self.words.entry.arguments_attribute:
            return self.arguments
        return Unknown(f"the scheduler's {name}", ("ctor", "scheduler", name))

    def _relevance(self) -> None:
        words = self.words
        setters = "|".join(map(re.escape, words.capture.hooks))
        seeds = (rf"\.(?:{setters})\(".encode(), rf"\b{words.capture.recording}".encode())
        self.effects = Effects(
            self.it.program.texts,
            seeds,
            words.relevance.beyond.encode(),
            words.relevance.common_methods,
            constructs=True,
            fanout=FANOUT,
            followed=words.capture.startup_methods,
            values=False,
            ends=(*self.it.config.functions, *words.scenario.unknown_functions, *words.scenario.arguments_functions),
        )
        self.relevance = Relevance(self.effects, words, ())
        recording = frozenset(n for n in self.effects.all_names if self._is_recording(n))
        self.relevance.always = recording | frozenset(words.capture.hooks)

    def _arguments(self) -> None:
        it, words = self.it, self.words
        given = {**words.scenario.arguments, **words.capture.arguments}
        obj = Obj("free", self.roles.arguments)
        obj.tag = words.entry.arguments_attribute
        obj.attrs = {k: literal(v, self.scenario) for k, v in given.items()}
        obj.attrs[words.entry.algorithm_argument] = Known(self.scenario.algorithm)
        obj.attrs.update({k: Known(v) for k, v in self.scenario.settings.items()})
        it.config.settings = dict(obj.attrs)
        self.arguments: Value = Ref(it.base_state.new(obj))
        for name in words.scenario.arguments_functions:
            it.config.functions[name] = self.arguments

    def _configure(self, it: Interpreter) -> None:
        words, config = self.words, it.config
        config.functions.update({n: Unknown(f"{n}()") for n in words.scenario.unknown_functions})
        config.skeletons = lambda c: not c.is_record and c.enum_kind is None and not classes.is_exception(c)
        config.constructed = self._matters
        config.relevant = self._relevant
        config.sliced = self._sliced
        config.follow_raises = False
        config.on_call = self._called
        config.on_key = self._read
        config.attributes[("*", words.target.model_attribute)] = self._model
        for name in (*words.capture.config_attributes, *words.capture.text_config_attributes):
            config.attributes[("*", name)] = self._file
        config.globals.update({name: it.new_dict(it.base_state, {}) for name in words.capture.empty})
        device = Known(words.scenario.device)
        for name in words.scenario.device_attributes:
            config.attributes[("*", name)] = device
        for name, v in words.scenario.attributes.items():
            config.attributes[("*", name)] = literal(v, self.scenario)

    # ------------------------------------------------------------------------------------------------- what matters
    def _matters(self, c: ClassV, arguments: dict[str, Value]) -> bool:
        """Whether the constructor of a class is run: it, or what it inherits, may lead to a setter of the target. What is
        made for the draft tells the target nothing."""
        if self._drafts(arguments):
            return False
        init = classes.class_attr(self.it, c, "__init__", self.it.base_state)
        return isinstance(init, FuncV) and self._relevant(init)

    def _drafts(self, arguments: Mapping[str, Value]) -> bool:
        """Whether what is made with these arguments is there for the draft."""
        words = self.words
        return arguments.get(words.target.draft_flag) == TRUE or words.capture.drafting_argument in arguments

    def _relevant(self, f: FuncV) -> bool:
        if self.it.lazy_depth:
            return True
        if not isinstance(f.node, ir.FunctionDef) or f.node.body is not None:
            return True
        return f.name in self.words.capture.hooks or self.effects.relevant(f.module.path, f.node.line)

    def _sliced(self, f: FuncV, effect_only: bool) -> tuple[ir.Stmt, ...] | None:
        if f.name in self.words.capture.hooks:
            return None
        return self.relevance.body(self.it, f, effect_only or f.name == "__init__", f.name == "__init__")

    # ------------------------------------------------------------------------------------------------------- facts
    def _model(self, it: Interpreter, b: Value, obj: Obj) -> Value | None:
        """The model of a runner: the target, unless the runner was made for the draft."""
        flag = (obj.ctor or {}).get(self.words.target.draft_flag)
        if flag is None or not isinstance(b, Ref):
            return None
        if flag == FALSE:
            return self.target.instance
        if flag == TRUE:
            return Unknown("the draft's model", ("draft model", b.oid))
        return join(self.target.instance, Unknown("the draft's model", ("draft model", b.oid)))

    def _file(self, it: Interpreter, b: Value, obj: Obj) -> Value | None:
        """The configuration that a model configuration of the tree has read."""
        told = (obj.ctor or {}).get(self.words.capture.draft_argument)
        if told is None:
            return None
        if told == TRUE:
            return self.draft
        return self.target.config if told == FALSE else join(self.draft, self.target.config)

    # ------------------------------------------------------------------------------------------------------ events
    def _read(self, it: Interpreter, oid: int, name: str, site: Site | None) -> None:
        path = self.keys.get(oid) if oid != self.draft.oid else ""
        if path is not None and not name.startswith("__"):
            found = self.reads.setdefault(f"{path}.{name}" if path else name, {})
            if site is not None:
                found.setdefault(site)

    def _called(
        self,
        it: Interpreter,
        f: FuncV,
        args: list[Value],
        keywords: dict[str, Value],
        st: State,
        site: Site | None,
        frame: Frame,
    ) -> Value | None:
        if it.in_base or not args:
            return None
        made = st.get(args[0].oid) if isinstance(args[0], Ref) else None
        if made is not None and made.ctor is not None and f.name != "__init__" and self._drafts(made.ctor):
            return Unknown("what the draft's side does")
        if f.name in self.words.capture.hooks:
            inside = any(fr.func is not None and fr.func.name in self.words.capture.hooks for fr in frame.chain())
            if args[0] == self.target.instance and not inside:  # a method that calls another is one call
                self._told(f, args, keywords, st, site, frame)
        elif self._is_recording(f.name):
            self._records(args[0], st)
        return None

    def _told(
        self,
        f: FuncV,
        args: list[Value],
        keywords: dict[str, Value],
        st: State,
        site: Site | None,
        frame: Frame,
    ) -> None:
        given = args[1] if len(args) > 1 else next(iter(keywords.values()), NONE)
        chain = tuple(fr.func.qualname for fr in frame.chain() if fr.func is not None)[::-1]
        ids: tuple[int, ...] | None = None
        reason = ""
        key = ""
        options = alternatives(given)
        if given == NONE:
            pass
        elif len(options) == 1 and isinstance(given, Ref) and (obj := st.obj(given.oid)).items is not None:
            numbers = [x.value for x in obj.items if isinstance(x, Known) and type(x.value) is int]
            if obj.kind == "list" and len(numbers) == len(obj.items):
                ids = tuple(numbers)
            else:
                reason = "a list of more than integers"
            key = self.keys.get(given.oid, "") or self._same(ids)
        else:
            reason = given.reason if isinstance(given, Unknown) else repr(given)
            key = next((self.keys[x.oid] for x in options if isinstance(x, Ref) and x.oid in self.keys), "")
        place = place_of(site) if site is not None else None
        self.calls.append(SetterCall(f.name, ids, not reason, key, reason, place, chain))

    def _same(self, ids: tuple[int, ...] | None) -> str:
        """Where the draft's file writes a list that the tree hands on as a copy: the one place that holds these numbers."""
        if not ids:
            return ""
        base = self.it.base.objects
        found = [
            path
            for oid, path in self.keys.items()
            if base[oid].kind == "list" and base[oid].items == [Known(i) for i in ids]
        ]
        return found[0] if len(found) == 1 else ""

    def _records(self, runner: Value, st: State) -> None:
        """A runner records: what the target holds now is what its graphs capture. The last event before it is done counts."""
        obj = st.get(runner.oid) if isinstance(runner, Ref) else None
        if obj is None or obj.cls is None or not isinstance(runner, Ref) or not self._serves_target(runner, obj, st):
            return
        name = obj.cls.name
        path = Path.PREFILL_GRAPH if self._is_prefill(name) else Path.DECODE_GRAPH
        asked = left_on(self.it, self.target, st, self.journal)
        self.recordings[runner.oid] = Recording(name, path, asked, len(self.calls))

    def _is_recording(self, name: str) -> bool:
        return any(fnmatch.fnmatch(name, p) for p in self.words.capture.recording_methods)

    def _is_prefill(self, name: str) -> bool:
        return any(word in name.lower() for word in self.words.graph.prefill_words)

    def _serves_target(self, runner: Ref, obj: Obj, st: State) -> bool:
        """Whether it is a graph runner, and the runner that it serves holds the target."""
        assert obj.cls is not None
        methods = {m for b in obj.cls.mro for m in methods_of(b.node)}
        if methods.isdisjoint(self.words.graph.admit_methods):
            return False
        frame = self.it.module_frame(obj.cls.module)
        for name in self.words.target.runner_attributes:
            with self.it.aside():
                try:
                    served = attributes.get(self.it, runner, name, frame, st)
                    model = attributes.get(self.it, served, self.words.target.model_attribute, frame, st)
                except Dead:
                    continue
            if model == self.target.instance:
                return True
        return False
