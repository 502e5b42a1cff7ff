"""What a loop of unknown length makes: the objects of the round that runs are told apart, those of earlier rounds are not.

While a round runs, each object that it makes has an address of its own: stores to it are strong. When the round ends, what
it has made goes over, per place, into the one object that stands for those of all rounds, and whatever names it names that
one from then on. A round that leaves the loop keeps its last object of a place apart, under one address for all rounds
that may be the last. Values that the interpreter itself holds while a round ends were there before the round, or belong to
a state of their own: only the round's state is renamed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from flowcheck.interp.contents import Storage
from flowcheck.interp.generators import Lazy, Rest
from flowcheck.interp.heap import Obj, State, join_objects
from flowcheck.interp.tensors import View
from flowcheck.interp.values import (
    BoundV,
    BuiltinV,
    FieldSpec,
    FuncV,
    GeneratorV,
    PartialV,
    Ref,
    SuperV,
    TupleV,
    Union,
    Value,
    union_of,
)

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Outcome
    from flowcheck.interp.trails import Site

__all__ = ["Rounds", "changed", "place"]

MOST_APART = 8
"""Objects that one place makes in one round and that are told apart; further ones join those of earlier rounds at once."""


class Rounds:
    """One run of a loop: what its present round has made. ``lasting`` holds, for it and the loops inside it, the object
    of each place that stands for all of earlier rounds, ``last`` the one of a round that has left it. ``gone``: what loops
    inside it have renamed."""

    __slots__ = ("_before", "gone", "last", "lasting", "made")

    def __init__(self, it: Interpreter) -> None:
        self.lasting: dict[Hashable, int] = it.loop_sites[-1].lasting if it.loop_sites else {}
        self.made: dict[int, Hashable] = {}
        self.last: dict[Hashable, int] = {}
        self.gone: set[int] = set()
        self._before = 0

    def begin(self, it: Interpreter) -> None:
        """A round begins."""
        self.made = {}
        self.gone = set()
        self._before = it.base.next

    def end(self, it: Interpreter, head: State, state: State) -> None:
        """The round has run from ``head`` to ``state``, and another may follow."""
        if self.made:
            for key in self.made.values():
                if key not in self.lasting:
                    self.lasting[key] = _address(it)
            self._rename(it, head, state, {oid: self.lasting[key] for oid, key in self.made.items()}, False)

    def leave(self, it: Interpreter, head: State, breaks: list[State], done: list[Outcome]) -> None:
        """The round has left the loop in these states, the ``done`` ones with what they return."""
        if not self.made:
            return
        for i, (kind, state, value) in enumerate([*(("b", s, None) for s in breaks), *done]):
            one: dict[Hashable, int] = {}
            several: set[Hashable] = set()
            for oid, key in self.made.items():
                if oid not in self.gone and state.get(oid) is not None:
                    several |= {key} & one.keys()
                    one[key] = oid
            names: dict[int, int] = {}
            for key, oid in one.items():
                if key not in several:
                    if key not in self.last:
                        self.last[key] = new = _address(it)
                        for outer in it.loop_sites[:-1]:
                            outer.made[new] = key
                    names[oid] = self.last[key]
            names = self._rename(it, head, state, names, True)
            if names and value is not None:
                done[i - len(breaks)] = (kind, state, _Renaming(names).value(value))

    def _rename(self, it: Interpreter, head: State, state: State, names: dict[int, int], apart: bool) -> dict[int, int]:
        """Makes what has the addresses ``names`` go by other ones in ``state``; gives those that could."""
        holders = [(oid, obj) for oid in changed(head, state) if (obj := state.get(oid)) is not None]
        names = {oid: to for oid, to in names.items() if state.get(oid) is not None}
        targets: dict[int, Obj] = {}
        for oid, to in list(names.items()):
            obj = state.obj(oid)
            other = targets.get(to) or state.get(to)
            if other is None or _alike(obj, other):
                targets.setdefault(to, obj)
            else:
                del names[oid]
        look = _Renaming(names)
        for _, obj in holders:
            look.content(obj)
        if it.in_base:  # what was evaluated on demand meanwhile keeps what it was given
            for oid in range(self._before + 1, it.base.next + 1):
                shared = it.base.objects.get(oid)
                if shared is not None:
                    look.fixed(shared.attrs.values())
                    look.fixed((shared.ctor or {}).values())
                    look.fixed(_contents(shared))
                    look.tag(shared.tag, shared=True)
        names = {oid: to for oid, to in names.items() if oid not in look.stuck}
        if not names:
            return names
        work = _Renaming(names)
        for oid, obj in holders:
            new = work.content(obj)
            if new is not None:
                state.put(oid, new)
        for oid, to in names.items():
            obj, other = state.obj(oid), state.get(to)
            merged = obj.copy() if other is None else join_objects(other, obj)
            merged.exact = apart and obj.exact
            state.put(to, merged)
            state.top.objects.pop(oid, None)
            for outer in it.loop_sites[:-1]:
                outer.gone.add(oid)
        state.touch()
        return names


def place(it: Interpreter, state: State, obj: Obj, site: Site) -> int:
    """The address of an object that a loop of unknown length makes."""
    rounds = it.loop_sites[-1]
    key = (site.module.name, id(site.owner), site.nid, it.depth, obj.kind, id(obj.cls))
    if sum(made == key for made in rounds.made.values()) < MOST_APART:
        oid = state.new(obj)
        it.base.keyless.add(oid)
        for each in it.loop_sites:
            each.made[oid] = key
        return oid
    oid = rounds.lasting.get(key, 0) or _address(it)
    rounds.lasting[key] = oid
    before = state.get(oid)
    merged = obj if before is None else join_objects(before, obj)
    merged.exact = False
    state.put(oid, merged)
    return oid


def _address(it: Interpreter) -> int:
    oid = it.base.address()
    it.base.keyless.add(oid)
    return oid


def changed(head: State, merged: State) -> list[int]:
    """Addresses whose object differs between the two; ``merged`` was forked from ``head``."""
    seen: set[int] = set()
    out: list[int] = []
    layer: Any = merged.top
    stop: Any = head.top.parent if not head.top.objects else None
    while layer is not None and layer is not stop:
        for oid in layer.objects:
            if oid not in seen:
                seen.add(oid)
                a, b = head.get(oid), merged.get(oid)
                if a is not b:
                    out.append(oid)
        layer = layer.parent
    return out


def _alike(a: Obj, b: Obj) -> bool:
    """Whether two objects of one place may be joined: they differ in their contents alone."""
    if a.kind != b.kind or a.cls is not b.cls or a.default != b.default or a.parent != b.parent:
        return False
    return a.tag == b.tag or a.kind in ("tensor", "storage")  # whose tags know how to be joined


def _contents(obj: Obj) -> list[Value]:
    out: list[Value] = []
    if obj.items is not None:
        out += [x for pair in obj.items.values() for x in pair] if obj.kind == "dict" else obj.items
    return [*out, *(x for x in (obj.elements, obj.default) if x is not None)]


class _Renaming:
    """Values and objects under other addresses. ``stuck``: addresses that something names which cannot be rewritten."""

    def __init__(self, names: dict[int, int]) -> None:
        self.names = names
        self.stuck: set[int] = set()

    def content(self, obj: Obj) -> Obj | None:
        """The object with what it holds renamed; None where nothing is."""
        attrs = {k: v if k[0] == "@" else self.value(v) for k, v in obj.attrs.items()}
        items, elements = obj.items, obj.elements
        if items is not None and obj.kind == "dict":
            for key in items:
                self._key(key)
            items = {k: (self.value(x), self.value(y)) for k, (x, y) in items.items()}
        elif items is not None:
            items = [self.value(x) for x in items]
        if elements is not None:
            elements = self.value(elements)
        self.fixed((obj.ctor or {}).values())
        if obj.default is not None:
            self.fixed((obj.default,))
        tag = self.tag(obj.tag)
        same = tag is obj.tag and all(attrs[k] is v for k, v in obj.attrs.items()) and elements is obj.elements
        if same and items is not None:
            old = [x for p in obj.items.values() for x in p] if obj.kind == "dict" else obj.items
            new = [x for p in items.values() for x in p] if obj.kind == "dict" else items
            same = all(x is y for x, y in zip(old, new, strict=True))
        if same:
            return None
        renamed = obj.copy()
        # What locals were computed from names addresses too.
        renamed.attrs = {k: v for k, v in attrs.items() if k[0] != "@"}
        renamed.items, renamed.elements, renamed.tag = items, elements, tag
        return renamed

    def value(self, v: Value) -> Value:
        """The value renamed; the same one where nothing is."""
        if isinstance(v, Ref):
            to = self.names.get(v.oid)
            return v if to is None else Ref(to)
        if isinstance(v, Union):
            items = [self.value(x) for x in v.items]
            return v if all(x is y for x, y in zip(items, v.items, strict=True)) else union_of(items)
        if isinstance(v, TupleV):
            items = [self.value(x) for x in v.items]
            return v if all(x is y for x, y in zip(items, v.items, strict=True)) else TupleV(items)
        if isinstance(v, BoundV):
            func, self_ = self.value(v.func), self.value(v.self_)
            return v if func is v.func and self_ is v.self_ else BoundV(func, self_)
        if isinstance(v, BuiltinV) and v.self_ is not None:
            self_ = self.value(v.self_)
            return v if self_ is v.self_ else BuiltinV(v.name, self_)
        if isinstance(v, SuperV):
            self_ = self.value(v.self_)
            return v if self_ is v.self_ else SuperV(v.cls, self_)
        if isinstance(v, PartialV):
            func, args = self.value(v.func), tuple(self.value(x) for x in v.args)
            keywords = {k: self.value(x) for k, x in v.keywords.items()}
            kept = func is v.func and all(x is y for x, y in zip(args, v.args, strict=True))
            if kept and all(keywords[k] is x for k, x in v.keywords.items()):
                return v
            return PartialV(func, args, keywords)
        if isinstance(v, GeneratorV):
            self._call(v.func, v.args, v.keywords)
        elif isinstance(v, FuncV):
            if v.defaults or v.around:
                self.fixed((*v.defaults.values(), *v.around))
        elif isinstance(v, FieldSpec):
            self.fixed(x for x in (v.default, v.factory) if x is not None)
        return v

    def fixed(self, values: Iterable[Value]) -> None:
        """What these name cannot be renamed."""
        for v in values:
            self._mention(v)

    def _mention(self, v: object) -> None:
        if isinstance(v, Ref):
            if v.oid in self.names:
                self.stuck.add(v.oid)
        elif isinstance(v, (Union, TupleV)):
            self.fixed(v.items)
        elif isinstance(v, BoundV):
            self.fixed((v.func, v.self_))
        elif isinstance(v, (BuiltinV, SuperV)):
            self._mention(v.self_)
        elif isinstance(v, PartialV):
            self.fixed((v.func, *v.args, *v.keywords.values()))
        elif isinstance(v, GeneratorV):
            self._call(v.func, v.args, v.keywords)
        elif isinstance(v, Value):
            self.value(v)  # a function or a field, which says itself what it holds

    def _call(self, func: FuncV | None, args: Iterable[Value], keywords: dict[str, Value]) -> None:
        if func is not None:
            self._mention(func)
        self.fixed((*args, *keywords.values()))

    def tag(self, tag: object, shared: bool = False) -> object:
        """The tag renamed, if it is data that says what a tensor is and is not ``shared``; what others name cannot be."""
        if isinstance(tag, (View, Storage)):
            if not shared:
                return tag.renamed(self.names)
            self.stuck |= tag.addresses & self.names.keys()
            return tag
        lazy = tag.lazy if isinstance(tag, Rest) else tag
        if isinstance(lazy, Lazy):
            self._call(lazy.func, lazy.args, lazy.keywords)
            self._mention(lazy.source)
            for fr in lazy.frame.chain() if lazy.frame is not None else ():
                self._mention(fr.self_)
        else:
            self._mention(lazy)
        return tag

    def _key(self, key: object) -> None:
        if isinstance(key, tuple):
            if len(key) == 2 and key[0] == "r" and key[1] in self.names:
                self.stuck.add(key[1])
            for part in key[1:]:
                self._key(part)
        else:
            self._mention(key)
