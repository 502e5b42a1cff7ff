"""The tree's own setters, called on an abstract target, and what they leave on its objects.

Nothing here knows what a setter does to the ids, or under which name it keeps them: whatever the model's objects hold
afterwards that they did not hold before is what the setter left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from flowcheck.flow.facts import Place
from flowcheck.flow.modes import place_of
from flowcheck.flow.requested import Flags, NoHook, Positions, Raise, Requested, Setting, Unclear
from flowcheck.flow.targets import Target
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.interp import attributes, calls, classes
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.frames import Budget, Dead, Frame, Raised
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.trails import Site
from flowcheck.interp.values import (
    NONE,
    UNBOUND,
    ClassV,
    FuncV,
    Known,
    Ref,
    TupleV,
    Unknown,
    Value,
    alternatives,
)
from flowcheck.syntax import ir
from flowcheck.syntax.ir import Span

__all__ = [
    "Ids", "Journal", "ask", "capture_request", "capture_requests", "class_place", "hook_of", "hooks_of", "left_on", "no_hook",
    "raise_of", "recorded",
]  # fmt: skip

Ids = Sequence[int] | None
DEEPEST_PART = 12


@dataclass
class Journal:
    """Where attributes were stored, in the order in which a run stored them."""

    entries: list[tuple[int, str, Site]] = field(default_factory=list)
    lost: list[tuple[str, Site]] = field(default_factory=list)
    """Stores on objects that are not known."""

    within: frozenset[str] | None = None
    """The functions whose stores on such objects count; None for all."""

    def note(self, it: Interpreter, ref: Ref | None, name: str, site: Site) -> None:
        """Takes note of a store; what is evaluated on demand is no part of the run."""
        if it.in_base:
            return
        if ref is None:
            if self.within is None or site.symbol.rpartition(".")[2] in self.within:
                self.lost.append((name, site))
        else:
            self.entries.append((ref.oid, name, site))

    def is_asked(self, oid: int, name: str) -> bool:
        """Whether what an attribute holds is the business of the functions whose stores count."""
        return self.within is None or any(
            o == oid and n == name and site.symbol.rpartition(".")[2] in self.within for o, n, site in self.entries
        )

    def places(self, oid: int, name: str, only_last: bool) -> tuple[Place, ...]:
        """Where an attribute of an object was stored."""
        found = list(dict.fromkeys(site for o, n, site in self.entries if o == oid and n == name))
        return tuple(place_of(site) for site in (found[-1:] if only_last else found))


@contextmanager
def recorded(it: Interpreter, within: frozenset[str] | None = None) -> Iterator[Journal]:
    """A journal of what is stored meanwhile; of stores on unknown objects, those of the functions ``within``."""
    journal = Journal(within=within)
    before, it.config.on_write = it.config.on_write, journal.note
    try:
        yield journal
    finally:
        it.config.on_write = before


def hooks_of(words: Vocabulary, algorithm: str) -> tuple[str, ...]:
    """The methods by which a target may be told, for an algorithm, in the order in which it is asked for them."""
    return words.capture.setters.get(algorithm.upper(), words.capture.setters["EAGLE3"])


def hook_of(it: Interpreter, words: Vocabulary, algorithm: str, model: Value, frame: Frame, st: State) -> str:
    """The method by which a target is told: the first that it has, in a tree that knows the algorithm's own. That one, if it
    has none."""
    own, *others = hooks_of(words, algorithm)
    known = it.program.corpus.files_with(own) if others else ()
    fits = (name for name in (own, *others) if attributes.get_or(it, model, name, NONE, frame, st) != NONE)
    return next(fits, own) if known or not others else own


def capture_request(
    it: Interpreter, words: Vocabulary, target: Target, ids: Ids, *, method: str | None = None
) -> Requested:
    """What the target holds when its setter was called once, with these ids or (None) without any."""
    return capture_requests(it, words, target, [ids], method=method)


def capture_requests(
    it: Interpreter, words: Vocabulary, target: Target, calls_: Sequence[Ids], *, method: str | None = None
) -> Requested:
    """What the target holds when its setter was called several times, one after the other; a call that certainly raises
    ends it."""
    st = State(it.base)
    raised: list[Raised] = []
    returns = True
    name = method or hooks_of(words, "EAGLE3")[0]
    missing: NoHook | None = None
    with recorded(it) as journal:
        for ids in calls_:
            raised, returns, missing = ask(it, words, target, ids, name, st)
            if missing is not None or not returns:
                break
    return left_on(it, target, st, journal, raised=raised, returns=returns, missing=missing)


def ask(
    it: Interpreter, words: Vocabulary, target: Target, ids: Ids, method: str, st: State
) -> tuple[list[Raised], bool, NoHook | None]:
    """Calls the setter in a state: what it may raise, whether it may return, and whether there is none."""
    frame = it.module_frame(target.cls.module)
    args = [] if ids is None else [it.new_list(st, [Known(i) for i in ids])]
    before, it.handlers = it.handlers, [[]]
    it.step_limit = it.steps + it.config.max_steps
    returns = True
    missing: NoHook | None = None
    try:
        hook: Value | None = None
        try:
            hook = attributes.get(it, target.instance, method, frame, st)
        except Dead:
            missing = no_hook(it, words, target, method)
            returns = False
        if hook is not None:
            calls.call(it, hook, list(args), {}, st, None, frame)
    except Dead:
        returns = False
    except Budget as error:
        it.handlers[0].append(Raised(it.gone, f"budget: {error}", None, NONE, None, certain=False))
    finally:
        raised, it.handlers = it.handlers[0], before
    return raised, returns, missing


def no_hook(it: Interpreter, words: Vocabulary, target: Target, method: str) -> NoHook:
    """What is known where a target has no such method: which of its parts has one."""
    inner = []
    frame = it.module_frame(target.cls.module)
    for name in words.configurations.inner_models:
        with it.outside():
            try:
                part = attributes.get(it, target.instance, name, frame, it.base_state)
            except Dead:
                continue
        for x in alternatives(part):
            cls = it.base_state.obj(x.oid).cls if isinstance(x, Ref) else None
            if cls is not None and isinstance(classes.class_attr(it, cls, method, it.base_state), FuncV):
                inner.append(name)
    return NoHook(target.cls.name, method, class_place(target.cls), tuple(dict.fromkeys(inner)))


def class_place(cls: ClassV) -> Place | None:
    """Where a class of the tree is defined."""
    node: ir.ClassDef = cls.node
    if cls.module.syntax is None:
        return None
    return place_of(Site(cls.module, cls.owner, node.nid, cls.qualname))


# ------------------------------------------------------------------------------------------------- reading the heap
def left_on(
    it: Interpreter,
    target: Target,
    st: State,
    journal: Journal,
    *,
    raised: Sequence[Raised] = (),
    returns: bool = True,
    missing: NoHook | None = None,
) -> Requested:
    """What a state holds on the target's objects that they did not hold when they were made."""
    parts = parts_of(it, target, st)
    lists: list[Positions] = []
    flags: dict[tuple[str, str], dict[int, list[tuple[int, bool | None]]]] = {}
    settings: list[Setting] = []
    unclear: list[Unclear] = []
    for oid, part in parts.items():
        obj = st.obj(oid)
        old = it.base.objects.get(oid)
        for name, value in obj.attrs.items():
            if name[0] in "#@" or obj is old or (old is not None and old.attrs.get(name) is value):
                continue
            if not journal.is_asked(oid, name):
                if _replaces_method(it, obj, name):
                    reason = "one of the class's methods is replaced"
                    unclear.append(Unclear(part.path, name, reason, journal.places(oid, name, only_last=True)))
                continue
            if part.index is not None and _truth(value) is not _NO_FLAG:
                flags.setdefault((part.owner, name), {}).setdefault(part.index, []).append((oid, _flag(value)))
                continue
            _note(st, journal, oid, part.path, name, value, lists, settings, unclear)
    for name, site in dict.fromkeys(journal.lost):
        unclear.append(Unclear("?", name, "it is stored on an object that is not known", (place_of(site),)))
    flagged = [_flags(journal, key, found, parts, unclear) for key, found in flags.items()]
    return Requested(
        lists=tuple(lists),
        flags=tuple(each for each in flagged if each is not None),
        settings=tuple(settings),
        unclear=tuple(unclear),
        raised=tuple(dict.fromkeys(raise_of(r) for r in raised)),
        returns=returns,
        missing=missing,
    )


def _replaces_method(it: Interpreter, obj: Obj, name: str) -> bool:
    """Whether something was stored where the object's class has a method."""
    return obj.cls is not None and isinstance(classes.class_attr(it, obj.cls, name, it.base_state), FuncV)


def _note(
    st: State,
    journal: Journal,
    oid: int,
    owner: str,
    name: str,
    value: Value,
    lists: list[Positions],
    settings: list[Setting],
    unclear: list[Unclear],
) -> None:
    options = [x for x in alternatives(value) if x is not UNBOUND]
    places = journal.places(oid, name, only_last=len(options) == 1)
    answers = list(dict.fromkeys(_plain(st, x) for x in options))
    if len(answers) == 1 and len(options) == len(alternatives(value)):
        answer = answers[0]
        if isinstance(answer, tuple):
            lists.append(Positions(owner, name, answer, places))
            return
        if not isinstance(answer, _Reason):
            settings.append(Setting(owner, name, answer, places))
            return
    reasons = [a.text if isinstance(a, _Reason) else str(a) for a in answers]
    if len(options) != len(alternatives(value)):
        reasons.append("what it was made with")
    unclear.append(Unclear(owner, name, " or ".join(dict.fromkeys(reasons)), places))


def _flags(
    journal: Journal,
    key: tuple[str, str],
    found: dict[int, list[tuple[int, bool | None]]],
    parts: dict[int, _Part],
    unclear: list[Unclear],
) -> Flags | None:
    owner, name = key
    true: list[int] = []
    vague: list[int] = []
    places: list[Place] = []
    for index in sorted(found):
        said = [flag for _, flag in found[index]]
        twins = sum(p.owner == owner and p.index == index for p in parts.values())
        several = twins > 1  # the layer is of one of several classes: a store hit whichever it is
        if all(flag is True or (several and flag is None) for flag in said) and len(said) == twins:
            true.append(index)
        elif any(flag is not False for flag in said):
            vague.append(index)
        for oid, flag in found[index]:
            if flag is not False:
                places += journal.places(oid, name, only_last=True)
    if vague:
        unclear.append(Unclear(owner, name, f"elements {vague} may have it", tuple(dict.fromkeys(places))))
        return None
    return Flags(owner, name, tuple(true), tuple(dict.fromkeys(places))) if true else None


class _Reason:
    """Why a value is no plain one."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reason) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


Plain = tuple[int, ...] | bool | int | float | str | None | _Reason
_NO_FLAG = object()


def _plain(st: State, v: Value) -> Plain:
    if isinstance(v, Known):
        plain = v.value
        return plain if plain is None or isinstance(plain, (bool, int, float, str)) else _Reason(repr(plain))
    items: Sequence[Value] | None = None
    if isinstance(v, TupleV):
        items = v.items
    elif isinstance(v, Ref):
        obj = st.obj(v.oid)
        if obj.kind not in ("list", "set"):
            return _Reason(f"an instance of {obj.cls.name}" if obj.cls is not None else f"a {obj.kind}")
        items = obj.items
    if items is None:
        return _Reason(v.reason if isinstance(v, Unknown) else "a list that is not known" if v else repr(v))
    numbers = [x.value for x in items if isinstance(x, Known) and isinstance(x.value, int)]
    if isinstance(v, Ref) and st.obj(v.oid).kind == "set":
        numbers.sort()
    return tuple(numbers) if len(numbers) == len(items) else _Reason("a list of more than numbers")


def _truth(v: Value) -> object:
    """A flag is stored as a truth value, maybe with others beside it."""
    options = [x for x in alternatives(v) if x is not UNBOUND]
    return None if all(isinstance(x, Known) and isinstance(x.value, bool) for x in options) else _NO_FLAG


def _flag(v: Value) -> bool | None:
    options = alternatives(v)
    return options[0].value if len(options) == 1 and isinstance(options[0], Known) else None


def raise_of(r: Raised) -> Raise:
    """An exception as a fact."""
    name = r.cls.name if r.cls is not None else r.name
    try:
        place = place_of(r.site) if r.site is not None else None
    except (KeyError, IndexError):
        place = Place(r.site.module.path, Span(1, 1, 1, 1), r.site.symbol) if r.site is not None else None
    return Raise("an exception that is not known" if name == "?" else name, r.certain and name != "?", place)


@dataclass(frozen=True, slots=True)
class _Part:
    """How an object is reached from the target: ``owner`` and ``index`` for an element of a list."""

    path: str
    owner: str
    index: int | None


def parts_of(it: Interpreter, target: Target, st: State) -> dict[int, _Part]:
    """The objects that the target consists of, as far as anything has asked for them, by their addresses."""
    known: dict[int, list[tuple[str, Value]]] = {}
    for key, value in it.lazy.items():
        if isinstance(key, tuple) and len(key) == 3 and key[0] == "attribute" and value is not None:
            known.setdefault(key[1], []).append((key[2], value))
    found: dict[int, _Part] = {}
    todo: list[tuple[Value, _Part, int]] = [(target.instance, _Part("", "", None), 0)]
    for value, part, depth in todo:
        for x in alternatives(value):
            obj = st.get(x.oid) if isinstance(x, Ref) else None
            if obj is None or not isinstance(x, Ref) or x.oid in found or depth > DEEPEST_PART:
                continue
            if obj.cls is None and obj.kind == "list":
                for i, item in enumerate(obj.items or ()):
                    todo.append((item, _Part(f"{part.path}[{i}]", part.path, i), depth + 1))
                continue
            if obj.cls is None or x == target.config:
                continue
            found[x.oid] = part
            todo += [
                (held, _Part(f"{part.path}.{name}" if part.path else name, part.path, None), depth + 1)
                for name, held in (*known.get(x.oid, ()), *_held(obj))
            ]
    return found


def _held(obj: Obj) -> Iterator[tuple[str, Value]]:
    yield from ((name, v) for name, v in obj.attrs.items() if name[0] not in "#@")
