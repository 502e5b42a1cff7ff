"""Two sides of a branch that make the same thing: one object after the merge, not two alternatives.

An address is a name. Renaming a new object of one side to a new object of the other changes nothing that a program can see,
as long as every reference to it on that side is renamed with it, and the other side's object does not exist on this one.
Only objects that are equal down to what they hold are renamed: nothing is lost, and unions do not grow with every layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowcheck.interp.contents import Storage
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.tensors import View
from flowcheck.interp.values import BoundV, BuiltinV, PartialV, Ref, TupleV, Union, Value

__all__ = ["unified"]

KINDS = frozenset({"tensor", "object", "list", "dict", "plain object"})
DEEPEST = 6


class _Matcher:
    def __init__(self, a: dict[int, Obj], b: dict[int, Obj], below: State) -> None:
        self.a, self.b, self.below = a, b, below
        self.names: dict[int, int] = {}
        self.taken: set[int] = set()
        self.event = below.base.address()
        self.mixed: dict[int, Storage] = {}

    def fresh(self, oid: int, mine: dict[int, Obj], other: dict[int, Obj]) -> bool:
        return oid in mine and oid not in other and self.below.get(oid) is None

    def value(self, x: Value, y: Value, trial: dict[int, int], depth: int) -> bool:
        """Whether two values are equal under the renaming, extended by ``trial`` as far as that takes."""
        if isinstance(x, Ref) and isinstance(y, Ref):
            known = self.names.get(y.oid, trial.get(y.oid))
            if known is not None:
                return known == x.oid
            return x.oid == y.oid or self.object(x.oid, y.oid, trial, depth)
        if isinstance(x, TupleV) and isinstance(y, TupleV):
            return len(x.items) == len(y.items) and all(
                self.value(p, q, trial, depth) for p, q in zip(x.items, y.items, strict=True)
            )
        return x == y

    def object(self, p: int, q: int, trial: dict[int, int], depth: int) -> bool:
        """Whether a new object of one side is like one of the other."""
        if not depth or p in self.taken or p in trial.values():
            return False
        if not (self.fresh(p, self.a, self.b) and self.fresh(q, self.b, self.a)):
            return False
        x, y = self.a[p], self.b[q]
        if x.kind != y.kind or x.cls is not y.cls or x.kind not in KINDS or not (x.exact and y.exact):
            return False
        if x.attrs.keys() != y.attrs.keys() or x.default is not None or y.default is not None:
            return False
        trial[q] = p
        if not self.tags(x.tag, y.tag, trial) or not self.items(x.items, y.items, trial, depth):
            return False
        return all(self.value(v, y.attrs[k], trial, depth - 1) for k, v in x.attrs.items())

    def tags(self, s: Any, t: Any, trial: dict[int, int]) -> bool:
        if isinstance(s, View) and isinstance(t, View):
            if replace(s, storage=0) != replace(t, storage=0):
                return False
            if s.storage == t.storage or trial.get(t.storage, self.names.get(t.storage)) == s.storage:
                return True
            if not (self.fresh(s.storage, self.a, self.b) and self.fresh(t.storage, self.b, self.a)):
                return False
            if t.storage in trial or t.storage in self.names or s.storage in self.taken or s.storage in trial.values():
                return False
            held, other = self.a[s.storage].tag, self.b[t.storage].tag
            assert isinstance(held, Storage)
            assert isinstance(other, Storage)
            if held.segments != other.segments and held.either(self.event, other) is None:
                return False
            trial[t.storage] = s.storage
            return True
        return s is t or (isinstance(s, str) and s == t)

    def items(self, s: Any, t: Any, trial: dict[int, int], depth: int) -> bool:
        if s is None or t is None:
            return s is t
        if isinstance(s, list) and isinstance(t, list):
            return len(s) == len(t) and all(self.value(p, q, trial, depth - 1) for p, q in zip(s, t, strict=True))
        if isinstance(s, dict) and isinstance(t, dict):
            return list(s) == list(t) and all(self.value(s[k][1], t[k][1], trial, depth - 1) for k in s)
        return False

    def storages(self, s: Any, t: Any) -> None:
        """Takes note of what makes two storages one, that a tensor of before shows by now."""
        if isinstance(s, View) and isinstance(t, View) and s.storage != t.storage:
            trial: dict[int, int] = {}
            if self.tags(s, t, trial):
                self.names.update(trial)
                self.taken.update(trial.values())

    def pair(self, x: Value, y: Value) -> None:
        """Takes note of what makes two values equal, if something does."""
        if isinstance(x, TupleV) and isinstance(y, TupleV) and len(x.items) == len(y.items):
            for p, q in zip(x.items, y.items, strict=True):
                self.pair(p, q)
            return
        if not isinstance(x, Ref) or not isinstance(y, Ref) or x.oid == y.oid or y.oid in self.names:
            return
        trial: dict[int, int] = {}
        if self.object(x.oid, y.oid, trial, DEEPEST):
            self.names.update(trial)
            self.taken.update(trial.values())
            for there, here in trial.items():
                held, other = self.a[here].tag, self.b[there].tag
                if isinstance(held, Storage) and isinstance(other, Storage) and held.segments != other.segments:
                    made = held.either(self.event, other)
                    assert made is not None
                    self.mixed[here] = made


def unified(a: dict[int, Obj], b: dict[int, Obj], below: State) -> dict[int, Obj]:
    """What the second side changed, under names of the first. ``a``, ``b``: what each side changed; ``below``: before.

    In both, a storage that the sides have written otherwise holds what either has made of it.
    """
    match = _Matcher(a, b, below)
    if any(o.kind in (*KINDS, "storage") and oid not in a and below.get(oid) is None for oid, o in b.items()):
        _pair_all(match)
    for oid in sorted(a.keys() | b.keys()):
        _written(match, oid)
    for oid, held in match.mixed.items():
        made = match.mixed[oid] = held.renamed(match.names)  # its kin of the second side go by names of the first, too
        for side in (a, b):
            if oid in side:
                side[oid] = _with_tag(side[oid], made)
    if not match.names:
        return b
    renamed = {match.names.get(oid, oid): _renamed_object(o, match.names) for oid, o in b.items()}
    for oid in match.names.values():
        if oid in match.mixed:
            renamed[oid] = _with_tag(renamed[oid], match.mixed[oid])
    return renamed


def _pair_all(match: _Matcher) -> None:
    """Finds the new objects of the second side that are those of the first: both stand in the same place."""
    for oid, y in match.b.items():
        x = match.a.get(oid)
        if x is None:
            continue
        match.storages(x.tag, y.tag)
        for name, v in y.attrs.items():
            other = x.attrs.get(name)
            if other is not None and other is not v:
                match.pair(other, v)
        if isinstance(x.items, list) and isinstance(y.items, list) and len(x.items) == len(y.items):
            for p, q in zip(x.items, y.items, strict=True):
                match.pair(p, q)
    if match.names and any(
        o.tag is not None and not isinstance(o.tag, (View, Storage, str, Ref)) for o in match.b.values()
    ):  # a generator that is under way: what it holds is not renamed here
        match.names.clear()
        match.mixed.clear()


def _written(match: _Matcher, oid: int) -> None:
    """Takes note of a storage that is there on both sides and was written by one of them."""
    x, y = (side.get(oid) or match.below.get(oid) for side in (match.a, match.b))
    if x is None or y is None or x is y or not (x.exact and y.exact):
        return
    if isinstance(x.tag, Storage) and isinstance(y.tag, Storage) and x.tag.segments != y.tag.segments:
        made = x.tag.either(match.event, y.tag)
        if made is not None:
            match.mixed[oid] = made
            for side in (match.a, match.b):
                side.setdefault(oid, x)


def _with_tag(o: Obj, tag: Storage) -> Obj:
    new = o.copy()
    new.tag = tag
    return new


def _renamed_object(o: Obj, names: dict[int, int]) -> Obj:
    new = o.copy()
    new.attrs = {k: _renamed(v, names) for k, v in o.attrs.items()}
    if isinstance(o.items, list):
        new.items = [_renamed(v, names) for v in o.items]
    elif isinstance(o.items, dict):
        new.items = {_key(k, names): (_renamed(p, names), _renamed(v, names)) for k, (p, v) in o.items.items()}
    if o.elements is not None:
        new.elements = _renamed(o.elements, names)
    if o.default is not None:
        new.default = _renamed(o.default, names)
    if isinstance(o.tag, (View, Storage)):
        new.tag = o.tag.renamed(names)
    elif isinstance(o.tag, Ref):
        new.tag = _renamed(o.tag, names)
    new.unmade = o.unmade
    return new


def _key(key: Any, names: dict[int, int]) -> Any:
    return ("r", names.get(key[1], key[1])) if isinstance(key, tuple) and len(key) == 2 and key[0] == "r" else key


def _renamed(v: Value, names: dict[int, int]) -> Value:
    if isinstance(v, Ref):
        new = names.get(v.oid)
        return v if new is None else Ref(new)
    if isinstance(v, TupleV):
        return TupleV([_renamed(x, names) for x in v.items])
    if isinstance(v, Union):
        return Union(tuple(dict.fromkeys(_renamed(x, names) for x in v.items)))
    if isinstance(v, BoundV):
        return BoundV(_renamed(v.func, names), _renamed(v.self_, names))
    if isinstance(v, PartialV):
        keywords = {k: _renamed(x, names) for k, x in v.keywords.items()}
        return PartialV(_renamed(v.func, names), tuple(_renamed(x, names) for x in v.args), keywords)
    if isinstance(v, BuiltinV) and v.self_ is not None:
        return BuiltinV(v.name, _renamed(v.self_, names))
    return v
