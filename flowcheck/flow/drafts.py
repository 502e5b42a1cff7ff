"""The draft's class of a tree, made by its own constructor under a configuration, and run on states of the target.

What happens meanwhile is written down: which keys of the configuration are asked for, which layers are made, which of them are
given the states, and with what the width of the states is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flowcheck.flow.configurations import configuration
from flowcheck.flow.facts import Phase
from flowcheck.flow.forwarding import Forwarding
from flowcheck.flow.model_runs import ModelRun
from flowcheck.flow.requested import Raise
from flowcheck.flow.setters import raise_of
from flowcheck.interp import attributes, calls, documents
from flowcheck.interp.classes import class_attr
from flowcheck.interp.contents import Named, Rows, Width, named
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.expressions import TABLE
from flowcheck.interp.frames import Budget, Dead, Frame
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.kernels import Call, Contract
from flowcheck.interp.tensor_model import TensorModel
from flowcheck.interp.tensors import deps_of, is_tensor, make, read, tensors_in, view_of
from flowcheck.interp.torch_modules import LAYERS, LINEAR
from flowcheck.interp.trails import Site
from flowcheck.interp.values import FALSE, NONE, TRUE, ClassV, FuncV, Known, Ref, TupleV, Unknown, Value, alternatives
from flowcheck.syntax import ir

__all__ = ["BIAS", "Built", "Draft", "Run", "Sizes", "Use"]

STATES, TOKENS = "the target's states", "the tokens"
LABEL = "the draft's config"
LINEAR_SIZES, BIAS = LAYERS[LINEAR][:2], LAYERS[LINEAR][2]
"""What PyTorch's own linear layer calls its sizes and its bias; layers of a tree have a bias of that name too."""


class _Made(Budget):
    """The layer that was waited for is there: nothing more is asked of this construction."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a layer says of itself; None for what is not known."""

    into: int | None
    out: int | None
    bias: bool | None


@dataclass
class Built:
    """One construction. ``model`` is None where it ended early: ``raised`` says by what certainly, ``open`` why nobody can say.

    ``lacking``: the key that was read there and that the file does not write. ``sizes`` are those of the layer that was waited
    for. ``keys``: what was asked of the configuration, and where. ``constants``: the numbers that ran code writes.
    """

    state: State
    model: Value | None = None
    raised: Raise | None = None
    lacking: str = ""
    open: str = ""
    sizes: Sizes | None = None
    keys: dict[str, list[Site]] = field(default_factory=dict)
    constants: dict[int, tuple[ir.Const, Site]] = field(default_factory=dict)


@dataclass(frozen=True)
class Use:
    """A module that was given something of which the states are a part, and how many columns that has (None: not known).

    ``changed``: why these are not the states as the target gave them, "" where nothing speaks for that.
    """

    module: int
    path: str
    is_linear: bool
    columns: int | None
    changed: str = ""


@dataclass
class Run:
    """One forward: who was given the states, with what their width was compared and where, how it ended (``""``: normally)."""

    uses: list[Use] = field(default_factory=list)
    compared: dict[int, list[Site]] = field(default_factory=dict)
    read: bool = False
    embedding: int | None = None
    ended: str = ""

    @property
    def first(self) -> Use | None:
        """The first linear layer that was given the states."""
        return next((use for use in self.uses if use.is_linear), None)

    @property
    def is_clean(self) -> bool:
        """Whether nothing behind that layer was given the states as well."""
        first = self.first
        return first is not None and all(use.module == first.module for use in self.uses[self.uses.index(first) :])


class Draft:
    """The draft's class ``cls`` of a tree, registered for ``architecture``, under one deployment.

    Every construction is on a state of its own. ``entered``: file and line of every function that was entered.
    """

    def __init__(self, forwarding: Forwarding, it: Interpreter, cls: ClassV, architecture: str) -> None:
        self.forwarding = forwarding
        self.it = it
        self.cls = cls
        self.architecture = architecture
        self.words = forwarding.words
        assert isinstance(it.config.tensors, TensorModel)
        self.model: TensorModel = it.config.tensors
        self.sites: dict[int, Site | None] = {}
        self.entered: set[tuple[str, int]] = set()
        self._paths: dict[int, str] = {}
        self._built: Built | None = None
        self._wanted: Site | None = None
        self._constant: tuple[int, int] | None = None
        self._run: Run | None = None
        self._width = 0
        self.model.on_layer = self._layer
        self.model.on_contract = self._contract
        it.config.on_key = self._key
        it.config.on_compare = self._compare
        it.config.on_return = self._return
        it.config.on_call = self._call
        it.evaluates(ir.Const, self._const)

    # ------------------------------------------------------------------------------------------------------ building
    def build(
        self, raw: Mapping[str, Any], until: Site | None = None, constant: tuple[int, int] | None = None
    ) -> Built:
        """Makes the draft under a configuration.

        ``until``: where the layer is made of which only the sizes are asked. ``constant``: a literal's node, by its identity,
        and the number that it is taken for.
        """
        it, words = self.it, self.words
        built = Built(State(it.base))
        given = {**self.forwarding.kernels.facts.config, **words.models.stored, **raw}
        config = configuration(it, words, given, LABEL, raises=True)
        self.forwarding.furnish(it, built.state, config)
        self._paths = {config.oid: "", **documents.paths_of(it.base.objects[config.oid].attrs, it.base_state)}
        self._built, self._wanted, self._constant = built, until, constant
        self.model.unmodelled.clear()
        keywords: dict[str, Value] = {words.models.config_argument: config}
        keywords.update({k: NONE if v == "none" else Known(v) for k, v in words.models.arguments.items()})
        it.handlers = [[]]
        it.step_limit = it.steps + it.config.max_steps
        depth = it.depth
        try:
            built.model = calls.call(it, self.cls, [], keywords, built.state, None, it.module_frame(self.cls.module))
        except _Made:
            pass
        except Dead:
            self._ended(built, given)
        except Budget as error:
            built.open = str(error)
        finally:
            it.depth = depth
            self._wanted = self._constant = None
        return built

    def _ended(self, built: Built, given: Mapping[str, Any]) -> None:
        last = self.it.handlers[0][-1] if self.it.handlers[0] else None
        if last is None:
            built.open = "the draft's constructor never returns"
        elif not last.certain or self.model.unmodelled:
            built.open = f"the draft's constructor may raise {last.name}"
        else:
            built.raised = raise_of(last)
            asked = [key for key, sites in built.keys.items() if last.site in sites]
            built.lacking = next((key for key in asked if "." not in key and key not in given), "")

    def _key(self, it: Interpreter, oid: int, name: str, site: Site | None) -> None:
        path = self._paths.get(oid)
        if path is None or self._built is None or name.startswith("__"):
            return
        found = self._built.keys.setdefault(f"{path}.{name}" if path else name, [])
        if site is not None and site not in found:
            found.append(site)

    def _const(self, it: Interpreter, e: ir.Const, fr: Frame, st: State) -> Value:
        if type(e.value) is int and self._built is not None and self._run is None:
            self._built.constants.setdefault(id(e), (e, fr.site(e)))
            if self._constant is not None and self._constant[0] == id(e):
                return Known(self._constant[1])
        return TABLE[ir.Const](it, e, fr, st)

    def _call(
        self,
        it: Interpreter,
        f: FuncV,
        args: list[Value],
        keywords: dict[str, Value],
        st: State,
        site: Site | None,
        frame: Frame,
    ) -> Value | None:
        if isinstance(f.node, ir.FunctionDef):
            self.entered.add((f.module.path, f.node.line))
        return None

    def _layer(self, ref: Ref, obj: Obj, site: Site | None) -> None:
        self.sites[ref.oid] = site
        if site is not None and site == self._wanted and self._built is not None:
            self._built.sizes = self.sizes(obj)
            raise _Made

    def _return(self, it: Interpreter, f: FuncV, args: list[Value], value: Value, st: State, frame: Frame) -> None:
        if self._wanted is None or f.name != "__init__" or not args or not isinstance(args[0], Ref):
            return
        obj = st.get(args[0].oid)
        if obj is not None and obj.site == self._wanted and self._built is not None and f.cls is obj.cls:
            self._built.sizes = self.sizes(obj)
            raise _Made

    # -------------------------------------------------------------------------------------------------------- layers
    def modules(self, built: Built) -> list[tuple[str, str]]:
        """The modules of a built draft after it ran: the paths that lead to them, and the names of their classes."""
        found = []
        for oid, path in self.model.paths.items():
            obj = built.state.get(oid)
            if obj is not None and obj.kind != "list" and path:
                found.append((path, obj.cls.name if obj.cls is not None else str(obj.tag)))
        return found

    def site_of(self, built: Built, oid: int) -> Site | None:
        """Where a layer was made."""
        obj = built.state.get(oid)
        return self.sites.get(oid) or (obj.site if obj is not None else None)

    def sizes(self, obj: Obj) -> Sizes:
        """What a layer's own attributes say."""
        words = self.words.draft
        into = _number(obj.attrs, (LINEAR_SIZES[0], *words.in_features))
        out = _number(obj.attrs, (LINEAR_SIZES[1], *words.out_features))
        return Sizes(into, out, self._has_bias(obj.attrs.get(BIAS)))

    def _has_bias(self, v: Value | None) -> bool | None:
        if v is None:
            return None
        said = {self._is_bias(x) for x in alternatives(v)}
        return said.pop() if len(said) == 1 else None

    def _is_bias(self, v: Value) -> bool | None:
        if v in (NONE, FALSE):
            return False
        return True if v == TRUE or isinstance(v, Ref) or (isinstance(v, Unknown) and v.not_none) else None

    # ------------------------------------------------------------------------------------------------------- running
    def members(self) -> tuple[tuple[Phase, str], ...]:
        """Under which members of its phase a forward of the draft is given states of the target, and of which phase: those that
        the tree has."""
        after = [n for n in self.words.draft.after_verify if self.forwarding.has_member(self.it, n)]
        return (
            (Phase.EXTEND, self.forwarding.kernels.forward.extend_member),
            *((Phase.VERIFY, name) for name in after),
        )

    def run(self, built: Built, width: int, member: str = "") -> Run:
        """Runs the forward of a built draft on states that are so wide, under a member of its phase (by default that of an
        extend). The states are what the batch's speculative input holds; each run is on a copy of the state. A draft that has
        a method for it is given the states by that one instead."""
        assert built.model is not None
        it, words, kernels = self.it, self.words, self.forwarding.kernels
        state = built.state.fork()
        model = ModelRun(it, state, built.model, 0, self.cls.name)
        self.forwarding.name_modules(model)
        rows = Unknown("the number of rows", ("rows",))
        ids = make(it, state, named(TOKENS), Width(1), Rows(), (rows,), None)
        states = make(it, state, named(STATES), Width(width), Rows(), (rows, Known(width)), None)
        batch = self.forwarding.batch(model, member or kernels.forward.extend_member)
        assert isinstance(batch, Ref)
        told = Obj("plain object", attrs={words.target.states_attribute: states})
        state.write(batch.oid).attrs.update(
            {"input_ids": ids, "positions": ids, words.phase.speculative_input: Ref(state.new(told))}
        )
        run = self._run = Run()
        self._built, self._width = built, width
        it.handlers = [[]]
        it.step_limit = it.steps + it.config.max_steps
        depth = it.depth
        frame = it.module_frame(self.cls.module)
        taking = next((n for n in words.draft.takes if class_attr(it, self.cls, n, state) is not None), None)
        try:
            method = attributes.get(it, built.model, taking or "forward", frame, state)
            calls.call(it, method, [states] if taking else [ids, ids, batch], {}, state, None, frame)
        except Dead:
            raised = it.handlers[0][-1:]
            what = f"its {taking or 'forward'}"
            run.ended = f"{what} raises {raised[0].name}" if raised else f"{what} never returns"
        except Budget as error:
            run.ended = str(error)
        finally:
            it.depth = depth
            self._run = None
        return run

    def _contract(self, contract: Contract, call: Call, made: Value | None) -> None:
        run = self._run
        if run is None:
            return
        leaves = deps_of(call.st, call.everything())
        is_module = contract.kind == "module" and isinstance(call.module, Ref)
        if run.embedding is None and is_module and leaves == {TOKENS} and made is not None:
            view = view_of(made, call.st) if is_tensor(made, call.st) else None
            run.embedding = view.width.number if view is not None and view.width is not None else None
        if STATES in leaves:
            oid = call.module.oid if isinstance(call.module, Ref) else 0
            obj = call.st.get(oid) if is_module else None
            linear = obj is not None and self.sizes(obj).into is not None
            run.uses.append(Use(oid, self.model.paths.get(oid, call.path), linear, _columns(call), _changed(call)))

    def _compare(self, it: Interpreter, op: str, a: Value, b: Value, site: Site | None) -> None:
        run = self._run
        if run is None:
            return
        for x, y in ((a, b), (b, a)):
            other = _last(y)
            if site is not None and other is not None and _last(x) == self._width:
                found = run.compared.setdefault(other, [])
                if site not in found:
                    found.append(site)


def _columns(call: Call) -> int | None:
    """How wide the one tensor is that a call was given and that the states are a part of."""
    given = [ref for ref in tensors_in(call.everything(), call.st) if STATES in deps_of(call.st, [ref])]
    view = view_of(given[0], call.st) if len(given) == 1 else None
    return view.width.number if view is not None and view.width is not None else None


def _changed(call: Call) -> str:
    """Whether the columns of the states that a call was given were put together anew, or scaled: what a norm makes of
    them is not asked here."""
    given = [ref for ref in tensors_in(call.everything(), call.st) if STATES in deps_of(call.st, [ref])]
    plain = [t for ref in given for s in read(call.st, ref) for t in s.content.terms if t.source == Named(STATES)]
    if len(plain) > 1:
        return "the states were taken apart and put together"
    views = [view for ref in given if (view := view_of(ref, call.st)) is not None]
    if any(view.turned for view in views):
        return "the axes of the states are exchanged"
    return "the states are scaled" if any(t.number != 1 or t.tokens for t in plain) else ""


def _last(v: Value) -> int | None:
    """A width, or that of a shape."""
    if isinstance(v, TupleV) and v.items:
        v = v.items[-1]
    return v.value if isinstance(v, Known) and type(v.value) is int else None


def _number(attrs: Mapping[str, Value], names: tuple[str, ...]) -> int | None:
    for name in names:
        v = attrs.get(name)
        if isinstance(v, Known) and type(v.value) is int:
            return v.value
    return None
