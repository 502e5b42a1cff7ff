"""Which tensors of a checkpoint a draft's own loader takes: it is called with their names, and with tensors to tell apart.

What the parameters of the built draft are called, its modules say. A tensor is taken if it is put into a parameter, or if
anything else is made of it; one that the loader passes over leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowcheck.flow.contracts import Kernels
from flowcheck.flow.drafts import BIAS, Built, Draft
from flowcheck.flow.facts import Place
from flowcheck.flow.intake import draft_of
from flowcheck.flow.model_runs import ModelRun
from flowcheck.flow.modes import place_of
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.stack import with_deep_stack
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.flow.width import Loading, NoDraftClass, TensorUse
from flowcheck.interp import attributes, calls
from flowcheck.interp.contents import Rows, Storage, Width, leaves, named
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.frames import Budget, CallEvent, Dead
from flowcheck.interp.heap import State
from flowcheck.interp.tensors import content_of, deps_of, is_tensor, make, tensors_in
from flowcheck.interp.trails import Site
from flowcheck.interp.values import NONE, BuiltinV, ExternalV, Known, PartialV, Ref, TupleV, Value, alternatives
from flowcheck.program.modules import Program
from flowcheck.source import Tree
from flowcheck.syntax import ir

__all__ = ["loading"]

TENSOR = "tensor "
NOBODY = "a name that no tensor has"
LOADER = ExternalV("flowcheck.loader")
MATRIX, PARAMETERS = "weight", "named_parameters"
"""What PyTorch calls the matrix of a layer, and the method that lists a model's parameters."""


def loading(
    tree: Tree,
    program: Program,
    words: Vocabulary,
    scenario: Scenario,
    draft: Mapping[str, Any],
    tensors: Mapping[str, Sequence[int]],
    architectures: Sequence[str] = (),
    *,
    kernels: Kernels | None = None,
) -> Loading | NoDraftClass:
    """What the loader of the draft's class does with tensors of these names and shapes."""

    def work() -> Loading | NoDraftClass:
        found = draft_of(tree, program, words, scenario, draft, architectures, kernels)
        return found if isinstance(found, NoDraftClass) else _Loader(found, draft).answered(tensors)

    return with_deep_stack(work)


class _Loader:
    """The loader of one draft, built under one configuration."""

    def __init__(self, draft: Draft, raw: Mapping[str, Any]) -> None:
        self.draft = draft
        self.words = draft.words.draft
        self.built: Built = draft.build(raw)
        while self.built.lacking:
            raw = {**raw, self.built.lacking: None}
            self.built = draft.build(raw)
        self.parameters: dict[int, str] = {}
        self.opaque: str = ""
        self.loaded: dict[str, list[str]] = {}
        self.trace: frozenset[str] = frozenset()
        self.filled: set[str] = set()

    def answered(self, tensors: Mapping[str, Sequence[int]]) -> Loading:
        """The answer, one tensor after the other; each finds the draft as it was made."""
        built = self.built
        if not isinstance(built.model, Ref):
            return Loading((), (), None, built.open or "the draft cannot be made")
        state = built.state
        self.draft.forwarding.name_modules(ModelRun(self.draft.it, state, built.model, 0, self.draft.cls.name))
        self._walk(state, built.model, "", set())
        listed = self.draft.it.new_list(state, [TupleV([Known(n), Ref(oid)]) for oid, n in self.parameters.items()])
        state.write(built.model.oid).attrs[PARAMETERS] = PartialV(BuiltinV("list"), (listed,), {})
        self._load({NOBODY: (1,)})
        if self.loaded or self.trace:
            why = "the loader takes a tensor whatever it is called, as far as that can be followed"
            return Loading(tuple(TensorUse(name, None, (), why) for name in tensors), (), self._place(), why)
        ended = self._load(tensors)
        together, trace = self.loaded, self.trace
        uses = tuple(self._use(name, shape, together, trace, ended) for name, shape in tensors.items())
        unsure = [use for use in uses if use.taken is None]
        why = self.opaque or (f"{unsure[0].name}: {unsure[0].reason}" if unsure else "")
        left = () if why else tuple(name for name in self.parameters.values() if name not in self.filled)
        return Loading(uses, left, self._place(), why)

    def _walk(self, state: State, module: Value, path: str, seen: set[int]) -> None:
        """The modules below one, in the order in which PyTorch goes over them: what two names lead to has the first."""
        for x in alternatives(module):
            obj = state.get(x.oid) if isinstance(x, Ref) else None
            if obj is None or not isinstance(x, Ref) or x.oid in seen:
                continue
            inside: list[tuple[str, Value]] = []
            if obj.kind == "list" and path:
                inside = [(str(i), v) for i, v in enumerate(obj.items or ())]
            elif obj.kind == "dict" and path:
                inside = [(str(k.value), v) for k, v in (obj.items or {}).values() if isinstance(k, Known)]
            elif obj.kind == "torch module" or (obj.cls is not None and self.draft.model.is_module(obj.cls)):
                inside = [(name, v) for name, v in obj.attrs.items() if name[:1] != "#"]
                self._note(state, x.oid, path)
            else:
                continue
            seen.add(x.oid)
            for name, v in inside:
                self._walk(state, v, f"{path}.{name}" if path else name, seen)

    def _note(self, state: State, oid: int, path: str) -> None:
        """The parameters that a module has by itself."""
        obj = state.get(oid)
        if obj is None or obj.kind in ("list", "dict"):
            return
        it, words, prefix = self.draft.it, self.words, f"{path}." if path else ""
        if obj.kind == "torch module":
            if obj.tag == "Linear":
                has_bias = self.draft.sizes(obj).bias
                for name in (MATRIX, *((BIAS,) if has_bias else ())):
                    state.write(oid).attrs[name] = made = make(
                        it, state, named(prefix + name), None, Rows(), None, None
                    )
                    self._parameter(state, made, prefix + name)
            elif obj.tag not in words.bare:
                self.opaque = self.opaque or f"the parameters of {path} are not known"
            return
        if obj.cls is not None and self.draft.model.of_class(obj.cls) is not None:
            names = [c.name for c in obj.cls.mro]
            if any(n in words.embeddings for n in names):
                state.write(oid).attrs[MATRIX] = made = make(
                    it, state, named(prefix + MATRIX), None, Rows(), None, None
                )
                self._parameter(state, made, prefix + MATRIX)
            elif not any(n in words.bare for n in names):
                self.opaque = self.opaque or f"the parameters of {path} are not known"
            return
        for name, v in obj.attrs.items():
            for x in alternatives(v):
                if isinstance(x, Ref) and is_tensor(x, state):
                    self._parameter(state, x, prefix + name)

    def _parameter(self, state: State, ref: Ref, name: str) -> None:
        if ref.oid not in self.parameters:
            self.parameters[ref.oid] = name
            state.write(ref.oid).attrs[self.words.loader] = LOADER

    def _use(
        self, name: str, shape: Sequence[int], together: Mapping[str, list[str]], trace: frozenset[str], ended: str
    ) -> TensorUse:
        """What happens to one tensor: with all others, since a loader may wait for several, or by itself."""
        if name not in together and name not in trace:
            alone = self._load({name: shape})
            together, trace, ended = self.loaded, self.trace, ended or alone
        if name in together or name in trace:
            return TensorUse(name, True, tuple(dict.fromkeys(together.get(name, ()))))
        why = ended or self.opaque
        return TensorUse(name, None, (), why) if why else TensorUse(name, False)

    def _load(self, tensors: Mapping[str, Sequence[int]]) -> str:
        """Calls the loader with some tensors, on the draft as it was made; says how it ended if not well."""
        it, built = self.draft.it, self.built
        assert isinstance(built.model, Ref)
        state = built.state.fork()
        pairs: list[Value] = []
        own: set[int] = set()
        for name, shape in tensors.items():
            width = Width(shape[-1]) if shape else Width(1)
            tensor = make(it, state, named(f"{TENSOR}{name}"), width, Rows(), tuple(Known(n) for n in shape), None)
            own.add(state.obj(tensor.oid).tag.storage)
            pairs.append(TupleV([Known(name), tensor]))
        weights = it.new_list(state, pairs)
        self.loaded = {}
        observer, it.config.observer = it.config.observer, self._observed
        depth = it.depth
        it.handlers = [[]]
        it.step_limit = it.steps + it.config.max_steps
        ended = ""
        try:
            frame = it.module_frame(self.draft.cls.module)
            method = attributes.get(it, built.model, self.words.load, frame, state)
            calls.call(it, method, [weights], {}, state, None, frame)
        except Dead:
            last = it.handlers[0][-1:]
            ended = f"the loader raises {last[0].name}" if last else "the loader never returns"
        except Budget as error:
            ended = str(error)
        finally:
            it.config.observer = observer
            it.depth = depth
        self.trace = _traces(state, own)
        for oid, name in self.parameters.items():
            held = content_of(state, Ref(oid))
            if held != content_of(built.state, Ref(oid)):
                self.filled.add(name)
                for tensor_name in _names(leaves((held,))):
                    self.loaded.setdefault(tensor_name, []).append(name)
        return ended

    def _observed(self, it: Interpreter, event: CallEvent) -> Value | None:
        if event.callee != LOADER:
            return self.draft.model.observed(it, event)
        given = tensors_in([*event.args, *event.keywords.values()], event.state)
        into = [self.parameters[ref.oid] for ref in given if ref.oid in self.parameters]
        for name in _names(deps_of(event.state, [ref for ref in given if ref.oid not in self.parameters])):
            self.loaded.setdefault(name, []).extend(into)
        self.filled.update(into)
        return NONE

    def _place(self) -> Place | None:
        """Where the loader is defined."""
        for cls in self.draft.cls.mro:
            for s in cls.node.body:
                if isinstance(s, ir.FunctionDef) and s.name == self.words.load:
                    return place_of(Site(cls.module, cls.owner, s.nid, s.qualname))
        return None


def _traces(state: State, own: set[int]) -> frozenset[str]:
    """The tensors of which something was made, or that an object holds."""
    found: set[str] = set()
    for obj in state.changed_objects():
        if obj.kind == "object":
            found |= _names(deps_of(state, obj.attrs.values()))
    kept = [state.get(oid) for oid in own]
    for obj in state.changed_objects():
        if isinstance(obj.tag, Storage) and not any(obj is each for each in kept):
            found |= _names(leaves(s.content for s in obj.tag.segments))
    return frozenset(found)


def _names(of: frozenset[str]) -> set[str]:
    return {name.removeprefix(TENSOR) for name in of if name.startswith(TENSOR)}
