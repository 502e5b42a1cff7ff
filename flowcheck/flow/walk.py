"""The walk: from the scheduler's dispatch of a batch to every forward of the target model, under one scenario.

It interprets the tree's own dispatching method on a batch of every kind that the scheduler may dispatch, and notes each
forward of a model that happens on the way. What those forwards mean is for :mod:`flowcheck.flow.modes` to say.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Hashable
from typing import Any

from flowcheck.flow.admission import Admissions
from flowcheck.flow.fetched import Fetched
from flowcheck.flow.forwards import Case, CaseResult, Forward
from flowcheck.flow.inputs import draft_inputs, left_behind
from flowcheck.flow.lasting import keep
from flowcheck.flow.lent import Lent
from flowcheck.flow.recordings import Recordings
from flowcheck.flow.relevance import Relevance
from flowcheck.flow.roles import Roles, UnknownAlgorithm, class_value, find_roles
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.interp import attributes, calls, classes, names
from flowcheck.interp.engine import Config, Interpreter
from flowcheck.interp.frames import Budget, CallCut, CallEvent, Dead, Frame, LazyCut
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.trails import Site
from flowcheck.interp.values import (
    FALSE,
    NONE,
    TRUE,
    BuiltinV,
    ClassV,
    FuncV,
    Known,
    Member,
    Ref,
    Unknown,
    Value,
    alternatives,
    union_of,
)
from flowcheck.program.corpus import methods_of
from flowcheck.program.modules import Program
from flowcheck.syntax import ir

__all__ = ["Case", "Forward", "Walk"]


OFTEN = frozenset({"__init__", "__call__", "forward", "get", "update", "append", "add", "copy_", "run"})
"""Names of methods that say nothing about who is called."""

MOST_ROUNDS = 3
"""Dispatches of every kind of batch, as long as one leaves a mode behind that the next one may find."""


class Walk:
    """One interpreter over one tree and scenario, and what its runs noted."""

    def __init__(
        self,
        program: Program,
        scenario: Scenario,
        words: Vocabulary,
        relevance: Relevance | None,
        progress: Callable[[str], None] | None = None,
        forced: dict[Any, Any] | None = None,
    ) -> None:
        self.program = program
        self.scenario = scenario
        self.words = words
        self.relevance = relevance
        self.effects = relevance.effects if relevance is not None else None
        self.progress = progress
        self.corpus = program.corpus
        self.forwards: list[Forward] = []
        self.results: list[CaseResult] = []
        self.case = Case("", "")
        self.tracked = frozenset(
            {words.mode.attribute, words.phase.attribute, words.phase.speculative_input, words.target.draft_flag}
        )
        self.admissions = Admissions(self)
        self.it = Interpreter(program, self._config())
        self.recordings = Recordings(self.it)
        self.fetched = Fetched(self)
        self.lent = Lent(self)
        self.it.forced_facts = dict(forced or {})
        self.unknown_replays: list[tuple[ClassV, Site]] = []
        self._replayers: dict[str, ClassV | None] = {}
        self._records_graphs: dict[int, bool] = {}
        self._recording_names: dict[str, bool] = {}
        self._worker_names: dict[int, str] = {}
        self._models: dict[int, Ref] = {}
        self.roles: Roles = find_roles(self.it, self.corpus, words)
        self._build()

    # ------------------------------------------------------------------------------------------------------ config
    def _config(self) -> Config:
        words = self.words
        functions: dict[str, Value] = dict.fromkeys(words.scenario.true_functions, TRUE)
        functions.update(dict.fromkeys(words.scenario.false_functions, FALSE))
        functions.update(dict.fromkeys(words.scenario.none_functions, NONE))
        functions.update({n: Unknown(f"{n}()") for n in words.scenario.unknown_functions})
        for name in self.relevance.bags if self.relevance is not None else words.scenario.bags:
            functions.setdefault(name, Unknown(f"{name}()", ("bag", name)))
        device = Known(words.scenario.device)
        config = Config(
            tracked=self.tracked,
            follow_raises=False,
            lasting=True,
            functions=functions,
            keyed={k: self._literal(v) for k, v in words.scenario.expressions.items()},
            skeletons=lambda c: False,
            eager=self.records_graphs,
            relevant=self.relevance.function if self.relevance is not None else None,
            dynamic=self.relevance.dynamic if self.relevance is not None else lambda f: False,
            fills=self.relevance.fills if self.relevance is not None else lambda f: False,
            sliced=self._slice if self.relevance is not None else None,
            observer=self._observe,
            on_store=self._stored,
            on_return=self.admissions.returned,
            apart=self._apart,
        )
        config.attributes[("*", words.target.model_attribute)] = self._model
        config.attributes[("*", words.entry.arguments_attribute)] = lambda it, b, obj: self.arguments
        for name in words.scenario.device_attributes:
            config.attributes[("*", name)] = device
        for name, v in words.scenario.attributes.items():
            config.attributes[("*", name)] = self._literal(v)
        return config

    def _literal(self, v: object) -> Value:
        """A value of the vocabulary: TOML has no None, so "none" is written for it."""
        if v == "$algorithm":
            return Known(self.scenario.algorithm)
        return NONE if v == "none" else Known(v)

    def records_graphs(self, c: ClassV) -> bool:
        """Whether instances record graphs: they carry a capture mode of their own, or replay what they recorded for a runner."""
        found = self._records_graphs.get(c.oid)
        if found is None:
            from flowcheck.interp import skeletons

            methods = {m for b in c.mro for m in methods_of(b.node)}
            found = not c.is_record and (
                (
                    any(skeletons.writes(self.it, b, self.words.mode.attribute) for b in c.mro)
                    and any(self._records(m) for m in methods if m != "__init__")
                )
                or (
                    not methods.isdisjoint(self.words.graph.replay_methods)
                    and any(skeletons.writes(self.it, b, a) for b in c.mro for a in self.words.target.runner_attributes)
                )
            )
            self._records_graphs[c.oid] = found
        return found

    def _slice(self, f: FuncV, effect_only: bool) -> tuple[ir.Stmt, ...] | None:
        assert self.relevance is not None
        return self.relevance.body(self.it, f, effect_only, self.it.eager_depth > 0)

    # ---------------------------------------------------------------------------------------------------- entities
    def _build(self) -> None:
        it, words = self.it, self.words
        self.program.patches.roots.update(c.module.name for c in self.roles.schedulers)
        names.apply_patches(it)
        if self.relevance is not None:
            self.relevance.always |= it.patched
        base = it.base_state
        self.frame = it.module_frame(self.roles.schedulers[0].module)
        arguments = Obj("free", self.roles.arguments)
        arguments.tag = words.entry.arguments_attribute
        arguments.attrs = {k: self._literal(v) for k, v in words.scenario.arguments.items()}
        arguments.attrs[words.entry.algorithm_argument] = Known(self.scenario.algorithm)
        arguments.attrs.update({k: Known(v) for k, v in self.scenario.settings.items()})
        it.config.settings = dict(arguments.attrs)
        self.arguments: Value = Ref(base.new(arguments))
        for name in words.scenario.arguments_functions:
            it.config.functions[name] = self.arguments
        self.algorithm = self._algorithm()
        self.schedulers = [self._scheduler(c) for c in self.roles.schedulers]

    def _algorithm(self) -> Value:
        """The tree's own object for the scenario's algorithm. Raises UnknownAlgorithm where the tree certainly raises."""
        it, entry = self.it, self.words.entry
        name = self.scenario.algorithm.upper()
        members = [member.name for member in classes.enum_members(it, self.roles.algorithm)]
        alias = entry.algorithm_aliases.get(name) if name not in members else None
        made = self._algorithm_named(self.scenario.algorithm) if alias is None or not members else None
        if made is None and alias is not None:
            made = self._algorithm_named(alias)
            if isinstance(self.arguments, Ref):
                it.base_state.write(self.arguments.oid).attrs[entry.algorithm_argument] = Known(alias)
        if made is not None:
            return made
        if it.forced_facts or name in map(str.upper, members):
            return NONE  # refused under an assumption of this walk, or by a tree that is broken: no fault of the name
        listed = f" (it knows {', '.join(dict.fromkeys(members))})" if members else ""
        raise UnknownAlgorithm(f"this tree knows no algorithm {self.scenario.algorithm}{listed}")

    def _algorithm_named(self, name: str) -> Value | None:
        it = self.it
        frame = it.module_frame(self.roles.algorithm.module)
        with it.outside():
            maker = attributes.get(it, self.roles.algorithm, self.words.entry.algorithm_from_name, frame, it.base_state)
            try:
                return calls.call(it, maker, [Known(name)], {}, it.base_state, None, frame)
            except Dead:
                return None

    def _scheduler(self, c: ClassV) -> Ref:
        it = self.it
        obj = Obj("skeleton", c)
        init = classes.class_attr(it, c, "__init__", it.base_state)
        ref = Ref(it.base_state.new(obj))
        obj.ctor = {}
        if isinstance(init, FuncV):
            for i, p in enumerate(init.node.params.items):
                if i == 0:
                    obj.ctor[p.name] = ref
                elif p.name == self.words.entry.arguments_attribute:
                    obj.ctor[p.name] = self.arguments
                else:
                    obj.ctor[p.name] = Unknown(f"{c.name}({p.name})", ("ctor", c.name, p.name))
        if self.words.entry.algorithm_attribute:
            obj.attrs[self.words.entry.algorithm_attribute] = self.algorithm
        return ref

    def _model(self, it: Interpreter, b: Value, obj: Obj) -> Value | None:
        """The model of a runner: an opaque thing whose calls are forwards."""
        if not isinstance(b, Ref) or obj.cls is None or not self._is_runner(obj.cls):
            return None
        ref = self._models.get(b.oid)
        if ref is None:
            leaf = Obj("leaf")
            leaf.tag = b
            ref = self._models[b.oid] = Ref(it.base_state.new(leaf))
        return ref

    def _is_runner(self, c: ClassV) -> bool:
        flag, model = self.words.target.draft_flag, self.words.target.model_attribute
        from flowcheck.interp import skeletons

        takes_flag = any(
            m.name == "__init__" and any(p.name == flag for p in m.params.items)
            for b in c.mro
            for m in b.node.body
            if isinstance(m, ir.FunctionDef)
        )
        return takes_flag and any(skeletons.writes(self.it, b, model) for b in c.mro)

    # --------------------------------------------------------------------------------------------------------- run
    def workers(self) -> list[tuple[Ref, ClassV]]:
        """Every worker that the algorithm's selector can return, over all schedulers."""
        out: list[tuple[Ref, ClassV]] = []
        for scheduler in self.schedulers:
            with self.it.outside():
                try:
                    v = attributes.get(
                        self.it, scheduler, self.words.entry.worker_attribute, self.frame, self.it.base_state
                    )
                except Dead:
                    continue
            for x in alternatives(v):
                if isinstance(x, Ref):
                    cls = self.it.base_state.obj(x.oid).cls
                    if cls is not None and (x, cls) not in out:
                        out.append((x, cls))
        return out

    def selector_keys(self) -> list[Any]:
        """What evaluating the worker's construction asked of free quantities."""
        before = dict(self.it.asked_keys)
        self.worker_list = self.workers()
        return [k for k, n in self.it.asked_keys.items() if n != before.get(k, 0)]

    def run(self) -> None:
        """Dispatches a batch of every kind."""
        self.worker_list = self.workers()
        for ref, cls in self.worker_list:
            self._worker_names[ref.oid] = cls.name
        inputs = draft_inputs(self.it, self.corpus, self.words, (c for _, c in self.worker_list))
        for _ in range(MOST_ROUNDS):
            self.lasting = False
            self._dispatch_all(inputs)
            if not self.lasting:
                break

    def _dispatch_all(self, inputs: list[ClassV]) -> None:
        """Extends first: what they leave behind for the next batch says which inputs a later batch may carry."""
        words = self.words.phase
        members = [m for m in classes.enum_members(self.it, self.roles.phase) if m.name in words.dispatched]
        members.sort(key=lambda m: (m.name not in words.extend, m.name in words.idle))
        for scheduler in self.schedulers:
            left: list[ClassV] = []
            for member in members:
                if member.name in words.extend:
                    left += [c for c in self._dispatch(scheduler, member, None) if c not in left]
                    continue
                carried = [c for c in inputs if c in left] or inputs
                for candidate in (*carried,) or (None,):
                    self._dispatch(scheduler, member, candidate)
                    if member.name in words.idle:
                        break

    def _dispatch(self, scheduler: Ref, member: Member, speculative: ClassV | None) -> list[ClassV]:
        """One dispatch; the classes of speculative input that it leaves behind."""
        it, words = self.it, self.words
        self.case = Case(member.name, speculative.name if speculative is not None else "None")
        if self.progress is not None:
            carried = f" with {speculative.name}" if speculative is not None else ""
            self.progress(f"following a batch of mode {self.case.mode}{carried}")
        st = State(it.base)
        info: Value = NONE
        if speculative is not None:
            obj = Obj("free", speculative)
            obj.tag = words.phase.speculative_input
            info = Ref(st.new(obj))
        batch = Obj("free", self.roles.batch)
        batch.tag = "batch"
        batch.attrs = {
            words.phase.attribute: member,
            words.phase.speculative_input: info,
            words.entry.algorithm_attribute: self.algorithm,
        }
        ref = Ref(st.new(batch))
        it.handlers = [[]]
        it.depth = 0
        start = it.steps
        it.step_limit = it.steps + it.config.max_steps
        result = CaseResult(self.case, False)
        try:
            method = attributes.get(it, scheduler, words.entry.dispatch, self.frame, st)
            calls.call(it, method, [ref], {}, st, None, self.frame)
            result.returned = True
            self.lasting = keep(st, words.mode.attribute, self.roles.mode) or self.lasting
        except Dead:
            pass
        except (Budget, CallCut, LazyCut) as error:
            result.stopped = str(error) or type(error).__name__
        except RecursionError:  # Python 3.12 bounds the recursion through C whatever limit is set
            result.stopped = "the code is nested too deeply for this Python"
        result.raised = it.handlers[0]
        result.steps = it.steps - start
        self.results.append(result)
        return left_behind(st, words) if result.returned else []

    # ------------------------------------------------------------------------------------------------------ events
    def _observe(self, it: Interpreter, event: CallEvent) -> Value | None:
        callee = event.callee
        if isinstance(callee, BuiltinV) and callee.name.startswith("leaf."):
            if callee.name[5:] in self.words.target.forward_methods:
                return self._model_call(event, callee.self_)
            return None
        if isinstance(callee, Ref):
            obj = event.state.get(callee.oid)
            if obj is not None and obj.kind == "leaf":
                return self._model_call(event, callee)
            return None
        if isinstance(callee, Unknown) and not it.in_base and self._batch_argument(event) is not None:
            replayer = self._replayer(event.name)
            if replayer is not None and event.node is not None:
                self.unknown_replays.append((replayer, event.frame.site(event.node)))
        if event.name in self.words.graph.replay_methods:
            return self._replay(event)
        return None

    def _replayer(self, name: str) -> ClassV | None:
        """A class that records graphs, and whose method of that name replays one; None where the tree has none."""
        if name not in self._replayers:
            replays = re.compile(rb"\.(?:" + "|".join(self.words.graph.replay_methods).encode() + rb")\(")
            found: ClassV | None = None
            for module, c in self.corpus.classes_with_methods(name) if name not in OFTEN else ():
                method = next(m for m in c.body if isinstance(m, ir.FunctionDef) and m.name == name)
                text = module.syntax.def_source(method).encode() if module.syntax is not None else b""
                v = class_value(self.it, module, c.name) if replays.search(text) else None
                found = v if v is not None and self.records_graphs(v) else found
            self._replayers[name] = found
        return self._replayers[name]

    def _stored(self, it: Interpreter, ref: Ref, name: str, old: Value | None, new: Value, st: State) -> None:
        """A runner that takes another mode: what it recorded before stays until it records anew."""
        if name != self.words.mode.attribute:
            return
        obj = st.get(ref.oid)
        same = old is not None and set(alternatives(old)) == set(alternatives(new))
        if obj is not None and not same:
            self.recordings.outlived(ref, new, st)

    def _apart(self, f: FuncV, args: list[Value], st: State, frame: Frame) -> list[tuple[State, Hashable]]:
        """A runner that records: what it records under each mode that it may have is told apart."""
        if not args or not isinstance(args[0], Ref) or not self._records(f.name) or f.name == "__init__":
            return []
        obj = st.get(args[0].oid)
        if obj is None or obj.cls is None or obj.cls.is_record or not self.records_graphs(obj.cls):
            return []
        if self._recorder(frame, args[0]) is None:
            self.recordings.begin(args[0], f.name, st)
        return self.recordings.apart(args[0], self.words.mode.attribute, st)

    def _recorder(self, frame: Frame, runner: Ref) -> Frame | None:
        """The outermost method that is running by which a runner records, its constructor aside."""
        found: Frame | None = None
        for fr in frame.chain():
            if fr.func is not None and fr.self_ is not None and runner in alternatives(fr.self_):
                found = fr if self._records(fr.func.name) and fr.func.name != "__init__" else found
        return found

    def _records(self, name: str) -> bool:
        found = self._recording_names.get(name)
        if found is None:
            found = name == "__init__" or any(fnmatch.fnmatch(name, p) for p in self.words.graph.record_methods)
            self._recording_names[name] = found
        return found

    def carries_mode(self, v: Value, st: State) -> Ref | None:
        """The forward batch among the alternatives: a record with a mode and a phase."""
        for x in alternatives(v):
            if isinstance(x, Ref):
                obj = st.get(x.oid)
                if obj is not None and obj.cls is not None and obj.cls.is_record:
                    fields = classes.record_fields(self.it, obj.cls)
                    if self.words.mode.attribute in fields and self.words.phase.attribute in fields:
                        return x
        return None

    def _batch_argument(self, event: CallEvent) -> Value | None:
        for v in [*event.args, *event.keywords.values()]:
            if self.carries_mode(v, event.state) is not None:
                return v
        return None

    def _graph_runner(self, frame: Frame, st: State) -> Ref | None:
        """The nearest object on the call stack that carries a mode of its own and is no batch."""
        for fr in frame.chain():
            for x in alternatives(fr.self_) if fr.self_ is not None else ():
                if isinstance(x, Ref):
                    obj = st.get(x.oid)
                    if (
                        obj is not None
                        and obj.cls is not None
                        and not obj.cls.is_record
                        and self.records_graphs(obj.cls)
                    ):
                        return x
        return None

    def _recording(self, frame: Frame, runner: Ref, batch: Value | None, st: State) -> bool:
        """Whether the call happens while the runner records its graphs, and not for a batch that the recording method was
        given: that one is forwarded, whatever the method is called."""
        for fr in frame.chain():
            if fr.func is not None and fr.func.name == "__init__" and runner in alternatives(fr.self_ or NONE):
                return True
        recorder = self._recorder(frame, runner)
        if recorder is None or recorder.func is None:
            return False
        env = st.get(recorder.env)
        given = {p.name for p in recorder.func.node.params.items}
        held = [v for name, v in env.attrs.items() if name in given] if env is not None else []
        return batch is None or not any(x in alternatives(v) for v in held for x in alternatives(batch))

    def _model_call(self, event: CallEvent, model: Value | None) -> Value | None:
        it, st = self.it, event.state
        batch = self._batch_argument(event)
        if batch is None:
            return None
        leaf = st.get(model.oid) if isinstance(model, Ref) else None
        owner = leaf.tag if leaf is not None else None
        asked = self.read(batch, self.words.mode.attribute, event)
        reached = self._logits_mode(batch, event)
        runner = self._graph_runner(event.frame, st)
        if runner is not None and self._recording(event.frame, runner, batch, st):
            own = self.read(runner, self.words.mode.attribute, event)
            recorder = self._recorder(event.frame, runner)
            method = recorder.func.name if recorder is not None and recorder.func is not None else ""
            self.recordings.add(runner, own, reached, method, st)
            self.note("record", event, owner, batch, asked, reached, runner)
            return self._output(event)
        if it.in_base:
            return None
        self.note("eager", event, owner, batch, asked, reached, runner)
        return self._output(event)

    def _output(self, event: CallEvent) -> Value:
        return Unknown("what the model returns", not_none=True)

    def read(self, v: Value, name: str, event: CallEvent) -> Value:
        """An attribute as the tree reads it where the event happens."""
        try:
            return attributes.get(self.it, v, name, event.frame, event.state)
        except Dead:
            return Unknown(f"{name} is not set")

    def _logits_mode(self, batch: Value, event: CallEvent) -> Value:
        """The mode in the metadata that the tree makes from this batch."""
        it, c = self.it, self.roles.metadata
        if c is None:
            return Unknown(f"no class with a method {self.words.metadata.factory} can be read in the tree")
        scratch = event.state.fork()
        with it.aside():
            try:
                maker = attributes.get(it, c, self.words.metadata.factory, event.frame, scratch)
                made = calls.call(it, maker, [batch], {}, scratch, event.node, event.frame)
                return attributes.get(it, made, self.words.mode.attribute, event.frame, scratch)
            except Dead:
                return Unknown("the logits processor's metadata cannot be made from this batch")

    def _replay(self, event: CallEvent) -> Value | None:
        st = event.state
        runner = self._graph_runner(event.frame, st)
        if runner is None or self.it.in_base:
            return None
        batch = self._batch_argument(event) or self._nearest_batch(event.frame, st)
        if batch is None or self._recording(event.frame, runner, batch, st):
            return None
        recorded = self.recordings.found(runner, self.read(runner, self.words.mode.attribute, event), st)
        if recorded is None:
            recorded = Unknown("no forward that records this graph was found")
        if why := self.lent.reason(event, runner):
            recorded = union_of([recorded, Unknown(why)])
        asked = self.read(batch, self.words.mode.attribute, event)
        owner = self.owner(runner, event)
        self.note("replay", event, owner, batch, asked, recorded, runner)
        return self._output(event)

    def owner(self, runner: Ref, event: CallEvent) -> Value:
        """The model runner that a graph runner serves: an attribute of it, or an object on the stack, that is one."""
        for name in self.words.target.runner_attributes:
            held = self.read(runner, name, event)
            if all(
                isinstance(x, Ref) and (o := event.state.get(x.oid)) is not None and o.cls is not None
                and self._is_runner(o.cls)
                for x in alternatives(held)
            ):  # fmt: skip
                return held
        for fr in event.frame.chain():
            for x in alternatives(fr.self_) if fr.self_ is not None else ():
                if isinstance(x, Ref):
                    obj = event.state.get(x.oid)
                    if obj is not None and obj.cls is not None and self._is_runner(obj.cls):
                        return x
        return Unknown("whose graph this is")

    def _nearest_batch(self, frame: Frame, st: State) -> Value | None:
        for fr in frame.chain():
            env = st.get(fr.env)
            if env is None or env.kind != "env":
                continue
            for v in env.attrs.values():
                if not isinstance(v, Ref):
                    continue
                if self.carries_mode(v, st) is not None:
                    return v
        return None

    def note(
        self,
        kind: str,
        event: CallEvent,
        owner: Value | None,
        batch: Value,
        asked: Value,
        reached: Value,
        runner: Ref | None,
        refused: bool = False,
    ) -> None:
        """Takes note of one forward."""
        st = event.state
        draft = self.read(owner, self.words.target.draft_flag, event) if owner is not None else Unknown("whose model")
        phase = self.read(batch, self.words.phase.attribute, event)
        worker = ""
        chain: list[tuple[str, Site | None]] = []
        consumed = self.fetched.consumed(event, runner, self._worker_names, kind == "replay")
        for fr in event.frame.chain():
            if fr.func is not None:
                chain.append((fr.func.qualname, fr.call))
            for x in alternatives(fr.self_) if fr.self_ is not None else ():
                if isinstance(x, Ref) and x.oid in self._worker_names:
                    worker = self._worker_names[x.oid]
        cls = st.obj(runner.oid).cls if runner is not None else None
        assert event.node is not None
        self.forwards.append(
            Forward(
                self.case,
                kind,
                draft,
                phase,
                asked,
                reached,
                worker,
                cls,
                event.frame.site(event.node),
                tuple(chain),
                consumed,
                refused,
            )
        )
