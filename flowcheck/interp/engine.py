"""The interpreter's state and its entry points. What each kind of node means is in the modules beside this one.

Everything is evaluated under a :class:`Config`: what is fixed, what stands for the outside world, which attributes must
never be lost track of. The interpreter knows Python; names of SGLang reach it through the config alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowcheck.interp import classes, recency
from flowcheck.interp.frames import Budget, CallCut, CallEvent, Dead, Frame, LazyCut, Outcome, Raised
from flowcheck.interp.heap import Base, BaseState, Obj, State, merge, merge_with
from flowcheck.interp.trails import Site, Trail, extend
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    ClassV,
    FuncV,
    Known,
    Member,
    ModuleV,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
    union_of,
)
from flowcheck.program.callgraph import Calls
from flowcheck.program.modules import Module, Program
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.tensor_model import TensorModel

__all__ = ["Budget", "CallEvent", "Config", "Dead", "Frame", "Interpreter", "Outcome", "Raised"]


ValueSource = Value | Callable[["Interpreter", Value, Obj], "Value | None"]
OnKey = Callable[["Interpreter", int, str, "Site | None"], None]
OnCompare = Callable[["Interpreter", str, Value, Value, "Site | None"], None]
OnCall = Callable[["Interpreter", FuncV, list[Value], dict[str, Value], State, "Site | None", Frame], "Value | None"]


@dataclass
class Config:
    """What an interpretation takes as given.

    ``tracked``: attribute names whose every store matters; code that may store one is never skipped.
    ``attributes``: ``(class name or "*", attribute)`` -> value, for skeletons and free objects.
    ``functions``: name or qualname of a function of the tree -> value it returns instead of being entered.
    ``externals``: dotted name outside the tree -> value. ``keyed``: dotted suffix of an unknown's key -> value.
    ``settings``: attribute -> value, wherever it is read from a bag of configuration (a key that starts with "bag").
    ``skeletons``: predicate: are instances of this class left to be evaluated on demand.
    ``constructed``: predicate: is the constructor of such a one run all the same where a run makes it, for its effects.
    ``relevant``: predicate on a function: may a call of it matter (None: every call matters).
    ``dynamic``: predicate on a function: may it store attributes that its text does not name.
    ``fills``: predicate on a function: does it change a container that it is given.
    ``max_unroll``: rounds of a loop over known items that are followed one by one, ``max_recorded`` those in a constructor
    that is run for its effects.
    ``observer``: sees every call that is not entered; a returned value is the call's result. ``on_store``: sees every
    store to a tracked attribute (object, name, old value, new value, state). ``on_write``: sees every store to an
    attribute that a statement makes (object, None if it is not known, name, site). ``on_call``: sees every call of a
    function of the tree before it is entered (function, arguments, keywords, state, site, caller); a returned value
    is the call's result. ``on_return``: sees what every function of the tree returns (function, arguments, value,
    state, frame). ``on_key``: sees every reading of a name of a document or of a key of a mapping, if it is there or not
    (address, name, site). ``on_compare``: sees the operands of every comparison (operator, left, right, site). ``apart``: the
    states in which a call is run one by one and not at once, each with
    what it is called in ``Interpreter.arms`` meanwhile (function, arguments, state, frame); none where that makes no difference.
    ``follow_raises``: whether an exception that nothing on the stack can catch is followed outwards through ``finally``
    and context managers; without, it is only noted. ``tensors``: what tensors do; without, they are unknown.
    ``closed_modules``: whether a module of torch has no attribute but those that code of the tree stores or that
    torch gives every module. ``own_names``: methods that only classes of the tree have, none of the packages from which they
    may derive. ``uncalled``: functions that never run, so that no module variable holds what they
    store.
    ``lasting``: a run is one of many on the same objects, between which any function of the tree may have run.
    """

    tracked: frozenset[str] = frozenset()
    attributes: dict[tuple[str, str], ValueSource] = field(default_factory=dict)
    functions: dict[str, Value] = field(default_factory=dict)
    externals: dict[str, Value] = field(default_factory=dict)
    keyed: dict[str, Value] = field(default_factory=dict)
    globals: dict[str, Value] = field(default_factory=dict)
    settings: dict[str, Value] = field(default_factory=dict)
    skeletons: Callable[[ClassV], bool] = lambda cls: False
    eager: Callable[[ClassV], bool] = lambda cls: False
    constructed: Callable[[ClassV, dict[str, Value]], bool] = lambda cls, arguments: False
    relevant: Callable[[FuncV], bool] | None = None
    dynamic: Callable[[FuncV], bool] = lambda func: False
    fills: Callable[[FuncV], bool] = lambda func: False
    sliced: Callable[[FuncV, bool], tuple[ir.Stmt, ...] | None] | None = None
    observer: Callable[[Interpreter, CallEvent], Value | None] | None = None
    on_store: Callable[[Interpreter, Ref, str, Value | None, Value, State], None] | None = None
    on_write: Callable[[Interpreter, Ref | None, str, Site], None] | None = None
    on_call: OnCall | None = None
    on_return: Callable[[Interpreter, FuncV, list[Value], Value, State, Frame], None] | None = None
    on_key: OnKey | None = None
    on_compare: OnCompare | None = None
    apart: Callable[[FuncV, list[Value], State, Frame], list[tuple[State, Hashable]]] | None = None
    follow_raises: bool = True
    lasting: bool = False
    closed_modules: bool = False
    own_names: frozenset[str] = frozenset()
    uncalled: frozenset[str] = frozenset()
    tensors: TensorModel | None = None
    max_steps: int = 4_000_000
    max_depth: int = 60
    call_budget: int = 2_000
    skeleton_depth: int = 12
    skeleton_budget: int = 100_000
    nested_budget: int = 6_000
    quiet_budget: int = 600
    worth_keeping: int = 200
    eager_budget: int = 300_000
    max_unroll: int = 64
    max_recorded: int = 8
    recursion: int = 3


class Interpreter:
    """Evaluates a :class:`~flowcheck.program.modules.Program` under a :class:`Config`."""

    def __init__(self, program: Program, config: Config) -> None:
        self.program = program
        self.config = config
        self.base = Base()
        self.base_state = BaseState(self.base)
        self.gone = State(self.base)  # in place of the state of an exception that ends the run
        self.steps = 0
        self.step_limit = config.max_steps
        self.depth = 0
        self.handlers: list[list[Raised]] = [[]]
        self.in_try = 0  # how many constructs around may go on after an exception
        self.making: list[ClassV] = []
        self._module_oids: dict[Module, int] = {}
        self.ran: set[int] = set()
        self.running: set[Module] = set()
        self.lazy: dict[Hashable, Value] = {}
        self.lazy_busy: set[Hashable] = set()
        self.lazy_so_far: dict[Hashable, Value] = {}
        self.lazy_depth = 0
        self.lazy_limit: int | None = None
        self.granted = 0  # steps of imports and recordings: no attribute that asked for them is charged with them
        self.in_base = 0
        self.quiet = 0
        self.opaque: set[int] = set()
        self.handed = 0
        self.patched: set[str] = set()  # what one module stores into another's classes and variables
        self.patching = False
        self.hooked_reads = False
        self.budgets: list[int] = []
        self.effect_statement: ir.Node | None = None
        self.answers: dict[tuple[int, int], dict[Value, bool | None]] = {}
        self.loop_sites: list[recency.Rounds] = []  # the loops of unknown length that run
        self.slices: dict[int, Frame] = {}
        self.placed: dict[Hashable, tuple[int, list[tuple[Value, ir.Expr | None, Frame]]]] = {}
        self.instances: dict[tuple[str, int], list[tuple[int, ClassV]]] = {}
        self.scanned = 0
        self.counts: dict[str, int] = {}
        self.called: dict[tuple[str, int], str] = {}
        self.graph = Calls()
        self.cuts: dict[str, int] = {}
        self.unknown_stores: list[tuple[str, Site, int | None]] = []
        self.followed: set[tuple[Site, int]] = set()
        self.forced_facts: dict[Hashable, Any] = {}
        self.asked_keys: dict[Hashable, int] = {}
        self.asked_in: dict[Hashable, set[str]] = {}
        self.active: str | None = None  # the qualified name of the function that runs
        self.deadline: float | None = None
        self.wanted: tuple[ir.Node, bool] | None = None
        self.eager_depth = 0
        self.arms: list[Hashable] = []
        self.dear: set[int] = set()
        self.skeleton_calls: dict[tuple[object, ...], Value] = {}
        self.intercept: tuple[ir.Call, Callable[[list[Value], dict[str, Value], bool], None]] | None = None
        from flowcheck.interp import expressions, statements  # the tables of node types, bound once

        self._eval = expressions.TABLE
        self._exec = statements.TABLE

    # ------------------------------------------------------------------------------------------------ counting
    def count(self, what: str, n: int = 1) -> None:
        """Counts an event for the statistics."""
        self.counts[what] = self.counts.get(what, 0) + n

    def tick(self) -> None:
        """One step of evaluation; raises Budget or a cut when too many were made."""
        self.steps += 1
        if self.steps > self.step_limit:
            raise Budget(f"more than {self.config.max_steps} steps")
        if self.budgets and self.steps > self.budgets[-1]:
            raise CallCut
        if self.lazy_limit is not None and self.steps - self.granted > self.lazy_limit:
            raise LazyCut
        if self.deadline is not None and not self.steps & 0xFFF and time.monotonic() > self.deadline:
            raise Budget("the time budget")

    @property
    def most_turns(self) -> int:
        """The most rounds of a loop that are followed one by one. A constructor that records has one for each size of a
        batch, and they differ in nothing that is asked."""
        return self.config.max_recorded if self.eager_depth else self.config.max_unroll

    @property
    def charged(self) -> int:
        """The steps that count against the budget of an attribute on demand."""
        return self.steps - self.granted

    @contextmanager
    def uncharged(self, budget: int | None) -> Iterator[None]:
        """What happens here has a budget of its own, and costs the attribute that asked for it nothing."""
        start, granted = self.steps, self.granted
        limit, self.lazy_limit = self.lazy_limit, None if budget is None else self.charged + budget
        try:
            yield
        finally:
            self.lazy_limit = limit
            self.granted = granted + self.steps - start

    # -------------------------------------------------------------------------------------------- entry points
    def eval(self, e: ir.Expr, frame: Frame, state: State) -> Value:
        """The value of an expression; raises Dead when no state continues after it."""
        self.tick()
        return self._eval[type(e)](self, e, frame, state)

    def evaluates(self, kind: type[ir.Expr], function: Callable[[Interpreter, Any, Frame, State], Value]) -> None:
        """From now on, expressions of this kind are what ``function`` says: for questions about what they decide."""
        self._eval = {**self._eval, kind: function}

    def exec_block(self, body: Sequence[ir.Stmt], frame: Frame, state: State) -> list[Outcome]:
        """Runs statements; the outcomes' states are all the ways in which the block ends without raising."""
        done: list[Outcome] = []
        current = state
        table = self._exec
        for s in body:
            self.tick()
            try:
                outcomes = table[type(s)](self, s, frame, current)
            except Dead:
                return done
            if outcomes is None:
                continue
            normal: State | None = None
            for outcome in outcomes:
                if outcome[0] == "n":
                    normal = outcome[1]
                else:
                    done.append(outcome)
            if normal is None:
                return done
            current = normal
        done.append(("n", current, None))
        return done

    # ---------------------------------------------------------------------------------------------------- heap
    def alloc(self, state: State, obj: Obj, site: Site | None = None) -> Ref:
        """A new object."""
        valued = obj.kind in ("list", "dict", "set") or (obj.cls is not None and self.custom_eq(obj.cls))
        if self.loop_sites and site is not None and not isinstance(state, BaseState):
            return Ref(recency.place(self, state, obj, site))
        oid = state.new(obj)
        if valued:
            self.base.keyless.add(oid)
        return Ref(oid)

    def new_list(self, state: State, items: list[Value] | None, site: Site | None = None, kind: str = "list") -> Ref:
        """A new list, set or deque; ``items`` of None are not known."""
        if kind == "set" and items is not None:
            unique: dict[Hashable, Value] = {}
            for item in items:
                key = self.key(item)
                if key is None:
                    obj = Obj("set", site=site)
                    obj.elements = union_of(items)
                    return self.alloc(state, obj, site)
                unique.setdefault(key, item)
            items = list(unique.values())
        return self.alloc(state, Obj(kind, items=items, site=site), site)

    def new_dict(
        self, state: State, items: dict[Hashable, tuple[Value, Value]] | None, site: Site | None = None
    ) -> Ref:
        """A new mapping; ``None`` instead of items means that they are not known."""
        return self.alloc(state, Obj("dict", items=items, site=site), site)

    def key(self, v: Value) -> Hashable | None:
        """A hashable that is equal for values that Python's dict takes for the same key; None when that is not known."""
        if isinstance(v, Known):
            try:
                hash(v.value)
            except TypeError:
                return None
            if v.value != v.value:
                return None
            return ("k", v.value)  # True == 1 == 1.0 in Python's dicts, and here
        if isinstance(v, Member):
            if v.cls.enum_kind in ("IntEnum", "IntFlag", "StrEnum") and isinstance(v.value, Known):
                return ("k", v.value.value)
            return ("m", id(v.cls), v.name)
        if isinstance(v, Ref):
            if v.oid in self.base.keyless:
                return None
            obj = self.base_state.get(v.oid)
            if obj is not None and obj.cls is not None and self.custom_eq(obj.cls):
                return None
            return ("r", v.oid)
        if isinstance(v, TupleV):
            parts = tuple(self.key(x) for x in v.items)
            return None if None in parts else ("t", *parts)
        if isinstance(v, ClassV):
            return ("c", id(v))
        if isinstance(v, FuncV):
            return ("f", id(v.node), v.env)
        if isinstance(v, (Union, Unknown)) or v is UNBOUND:
            return None
        return ("v", v)

    def custom_eq(self, cls: ClassV) -> bool:
        """Whether instances decide by code of the tree what they equal."""

        return classes.class_attr(self, cls, "__eq__", self.base_state) is not None or (
            cls.is_record and not self._identity_eq(cls)
        )

    @staticmethod
    def _identity_eq(c: ClassV) -> bool:
        eq = c.keywords.get("eq")
        return isinstance(eq, Known) and eq.value is False

    # -------------------------------------------------------------------------------------------------- trails
    def at(self, value: Value, site: Site | None, note: str) -> Value:
        """``value`` with one more link on its trail. Only scalars carry trails."""
        if site is None:
            return value
        if isinstance(value, Member):
            return value.at(extend(value.trail, site, note))
        if isinstance(value, Known) and value.value is None:
            return Known(None, extend(value.trail, site, note))
        if isinstance(value, Unknown):
            return Unknown(value.reason, value.key, value.truth, value.not_none, extend(value.trail, site, note))
        if isinstance(value, Union):
            return Union(tuple(self.at(x, site, note) for x in value.items))
        return value

    # -------------------------------------------------------------------------------------------------- frames
    def module_frame(self, module: Module) -> Frame:
        """A frame in which a module's own names are looked up."""
        return Frame(None, module, self.module_oid(module), None)

    def module_oid(self, module: Module) -> int:
        """The address of the object that stands for a module."""
        oid = self._module_oids.get(module)
        if oid is None:
            oid = self._module_oids[module] = self.base.address()
            self.base.objects[oid] = Obj("module", attrs={"__name__": Known(module.name)})
        return oid

    def module_value(self, name: str) -> Value:
        """The module of that dotted name as a value: of the tree, or external."""
        module = self.program.module(name)
        if module is not None:
            self.module_oid(module)
            return ModuleV(module)
        from flowcheck.interp.values import ExternalV

        if self.program.inside(name):
            return Unknown(f"module {name} is not in the tree")
        return ExternalV(name)

    # ------------------------------------------------------------------------------------------------- raising
    def throw(
        self,
        name: str,
        state: State,
        node: ir.Node | None,
        frame: Frame | None,
        cls: ClassV | None = None,
        value: Value = NONE,
        certain: bool = True,
    ) -> None:
        """The current path raises here; always raises :class:`Dead`."""
        self.may_throw(name, state, node, frame, cls, value, certain)
        raise Dead

    def may_throw(
        self,
        name: str,
        state: State,
        node: ir.Node | None,
        frame: Frame | None,
        cls: ClassV | None = None,
        value: Value = NONE,
        certain: bool = True,
    ) -> None:
        """Notes that an exception may be raised here; the run continues as well."""
        site = frame.site(node) if frame is not None and node is not None else None
        if self.in_try or self.config.follow_raises:
            self.handlers[-1].append(Raised(state.fork(), name, cls, value, site, certain))
        elif certain:
            self.handlers[-1].append(Raised(self.gone, name, cls, value, site, certain))

    def catchable(self, raised: list[Raised]) -> list[Raised]:
        """Those of ``raised`` that somebody may catch; the others go on outwards as they are."""
        if self.config.follow_raises:
            return raised
        self.handlers[-1].extend(r for r in raised if r.state is self.gone)
        return [r for r in raised if r.state is not self.gone]

    def may_raise(self, state: State, node: ir.Node | None, frame: Frame | None) -> None:
        """An operation on something unknown may raise anything; only a ``try`` around it can tell."""
        if self.in_try and not self.in_base:
            self.may_throw("?", state, node, frame, certain=False)
            self._fold(self.handlers[-1])

    def _fold(self, pending: list[Raised]) -> None:
        """Joins the states of unknown exceptions in pairs of equal weight, as a binary counter carries.

        Neighbours share most of what they hold, so that their join is cheap; few are left, and none is lost.
        """
        places = [i for i, r in enumerate(pending) if r.name == "?"]
        while len(places) > 1 and pending[places[-1]].weight == pending[places[-2]].weight:
            last, before = pending.pop(places.pop()), pending[places[-1]]
            before.state = merge([before.state, last.state])
            before.weight *= 2

    # ------------------------------------------------------------------------------------------------- forking
    def both(self, state: State, arms: Sequence[tuple[State, Callable[[State], Value]]]) -> Value:
        """Evaluates each arm in its own state, merges what continues into ``state``, joins the values."""
        values: list[Value] = []
        states: list[State] = []
        for arm_state, thunk in arms:
            try:
                value = thunk(arm_state)
            except Dead:
                continue
            values.append(value)
            states.append(arm_state)
        if not states:
            raise Dead
        self.count("merges")
        merged, result = merge_with(states, values)
        state.become(merged)
        return result

    def may_name(self, frame: Frame, name: str, here: bool = False) -> bool:
        """Whether code on the call stack can choose ``name`` at run time: a computed name has to be spelled somewhere, and
        to come from there. ``here``: what is spelled for nothing but a choice on the spot is one too."""
        return (here and frame.module.spells(name)) or any(fr.module.spells(name, out=True) for fr in frame.chain())

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A question beside the run: unobserved, its raises dropped, and not charged to whoever runs."""
        budgets, self.budgets = self.budgets, []
        start = self.steps
        in_try, self.in_try = self.in_try, 0
        self.quiet += 1
        self.handlers.append([])
        try:
            yield
        finally:
            self.handlers.pop()
            self.in_try = in_try
            self.quiet -= 1
            spent = self.steps - start
            self.budgets = [b + spent for b in budgets]

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Evaluation that is no part of the run: imports and skeletons. It writes to the base, its raises end there."""
        depth, self.depth = self.depth, 0
        budgets, self.budgets = self.budgets, []
        start = self.steps
        in_try, self.in_try = self.in_try, 0
        loops, self.loop_sites = self.loop_sites, []
        effect, self.effect_statement = self.effect_statement, None
        lowest = self.base.lowest
        self.in_base += 1
        self.handlers.append([])
        try:
            yield
        finally:
            self.handlers.pop()
            self.in_base -= 1
            spent = self.steps - start  # it is not charged to the run that asked for it
            self.budgets = [b + spent for b in budgets]
            self.depth, self.in_try, self.loop_sites = depth, in_try, loops
            self.effect_statement = effect
            self.base.lowest = lowest


def describe(value: Value) -> str:
    """A short text for reasons and notes."""
    text = " | ".join(repr(x) for x in alternatives(value))
    return text if len(text) <= 80 else text[:77] + "..."


def note_of(trail: Trail | None) -> str:
    return "" if trail is None else trail.note
