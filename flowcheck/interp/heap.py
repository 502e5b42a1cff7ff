"""The abstract heap: objects at addresses, and states that share what they have in common.

A :class:`State` is a stack of layers. Forking freezes the top layer and gives each side a new one, so that a fork costs
nothing and a merge looks only at what the two sides changed since they parted. Addresses below every layer belong to the
*base*: modules, classes, and the skeletons that are evaluated on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

from flowcheck.interp.values import UNBOUND, Unknown, Value, join, union_of

if TYPE_CHECKING:
    from flowcheck.interp.trails import Site
    from flowcheck.interp.values import ClassV

__all__ = ["Base", "Obj", "State", "join_objects", "merge", "merge_with"]

NEVER = 1 << 62
DEEPEST_STACK = 24
"""Layers are squashed past this depth: look-ups walk them."""


class Obj:
    """One abstract object.

    ``kind``: "object", "skeleton" (attributes evaluated on demand), "free" (attributes unknown, but the class is
    known), "list", "dict", "set", "env", "class", "module", "iterator". ``items`` holds a list's values, a set's
    values, or a dict's ``{key: (key value, value)}``; None when the contents are not known. ``exact`` is False when
    the address stands for several concrete objects: stores to it are weak.
    """

    __slots__ = (
        "attrs", "cls", "ctor", "default", "elements", "exact", "items", "kind", "parent", "site", "tag", "unmade",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        cls: ClassV | None = None,
        attrs: dict[str, Value] | None = None,
        items: Any = None,
        site: Site | None = None,
        parent: int | None = None,
    ) -> None:
        self.kind = kind
        self.cls = cls
        self.attrs = attrs if attrs is not None else {}
        self.items = items
        self.site = site
        self.parent = parent
        self.ctor: dict[str, Value] | None = None
        self.default: Value | None = None
        self.elements: Value | None = None  # what a container of unknown contents may hold, if that much is known
        self.exact = True
        self.tag: Any = None
        self.unmade = False  # a state that has not changed it has not constructed it either

    def open(self, more: Iterable[Value]) -> None:
        """From here on the container may hold any number of the values that it holds or is given."""
        known: list[Value]
        if self.items is None:
            known = [self.elements if self.elements is not None else Unknown("an element")]
        elif self.kind == "dict":
            known = [v for _, v in self.items.values()]
        else:
            known = list(self.items)
        known.extend(more)
        self.items = None
        self.elements = union_of(known) if known else None
        if self.kind == "dict":
            self.attrs.clear()  # what was known of single entries

    def copy(self) -> Obj:
        """A copy that shares no mapping with the original."""
        new = Obj.__new__(Obj)
        new.kind = self.kind
        new.cls = self.cls
        new.attrs = self.attrs.copy()
        new.items = self.items.copy() if self.items is not None else None
        new.site = self.site
        new.parent = self.parent
        new.ctor = self.ctor
        new.default = self.default
        new.elements = self.elements
        new.exact = self.exact
        new.tag = self.tag
        new.unmade = False
        return new


class Base:
    """Addresses and objects that all states of one interpreter share.

    ``lowest`` is the lowest address written since somebody set it: whether an evaluation changed what was there before
    it. ``epoch`` numbers the writes that are no locals of one activation (see :attr:`State.epoch`).
    """

    __slots__ = ("epoch", "keyless", "lowest", "next", "objects", "overlaid", "unify")

    def __init__(self) -> None:
        self.objects: dict[int, Obj] = {}
        self.overlaid: set[int] = set()  # addresses of base objects of which some state has a version of its own
        self.next = 1
        self.lowest = NEVER
        self.epoch = 0
        self.unify: Callable[[dict[int, Obj], dict[int, Obj], State], dict[int, Obj]] | None = None
        self.keyless: set[int] = set()  # addresses whose objects are no keys that identity could tell apart

    def address(self) -> int:
        """An address that no object has yet."""
        self.next += 1
        return self.next


class Layer:
    __slots__ = ("depth", "objects", "parent")

    def __init__(self, parent: Layer | None) -> None:
        self.objects: dict[int, Obj] = {}
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1


class State:
    """One abstract state: the heap above the base, and what tests have established about keyed unknowns.

    Two states of one path with the same ``epoch`` differ in nothing but the locals of activations.
    """

    __slots__ = ("base", "epoch", "facts", "top")

    def __init__(self, base: Base) -> None:
        self.base = base
        self.top = Layer(None)
        self.epoch = 0
        self.facts: dict[Hashable, Any] = {}

    # -------------------------------------------------------------------------------------------------- reading
    def get(self, oid: int) -> Obj | None:
        """The object at an address, to be read; None when there is none."""
        base = self.base
        shared = base.objects.get(oid)
        if shared is not None and oid not in base.overlaid:
            return shared
        layer: Layer | None = self.top
        while layer is not None:
            found = layer.objects.get(oid)
            if found is not None:
                return found
            layer = layer.parent
        return shared

    def obj(self, oid: int) -> Obj:
        """The object at an address, to be read."""
        found = self.get(oid)
        if found is None:
            raise KeyError(f"no object at {oid}")
        return found

    # -------------------------------------------------------------------------------------------------- writing
    def write(self, oid: int) -> Obj:
        """The object at ``oid``, safe to change in this state alone."""
        found = self.top.objects.get(oid)
        if found is None:
            found = self.obj(oid).copy()
            self.top.objects[oid] = found
            if oid in self.base.objects:
                self.base.overlaid.add(oid)
        if found.kind != "env":
            self.touch()
        if oid < self.base.lowest:
            self.base.lowest = oid
        return found

    def touch(self) -> None:
        """Something has changed that is no local of an activation."""
        self.base.epoch = self.epoch = self.base.epoch + 1

    def new(self, obj: Obj) -> int:
        """Places a new object and returns its address."""
        oid = self.base.address()
        self.top.objects[oid] = obj
        return oid

    def put(self, oid: int, obj: Obj) -> None:
        """Places an object at a known address."""
        self.top.objects[oid] = obj
        if oid in self.base.objects:
            self.base.overlaid.add(oid)
        self.touch()
        if oid < self.base.lowest:
            self.base.lowest = oid

    def changed_objects(self) -> list[Obj]:
        """The newest version of everything above the base."""
        return [obj for _, obj in self.changed()]

    def changed(self) -> list[tuple[int, Obj]]:
        """The newest version of everything above the base, with its address."""
        seen: dict[int, Obj] = {}
        layer: Layer | None = self.top
        while layer is not None:
            for oid, obj in layer.objects.items():
                seen.setdefault(oid, obj)
            layer = layer.parent
        return list(seen.items())

    # -------------------------------------------------------------------------------------------------- forking
    def fork(self) -> State:
        """A state that starts equal to this one; both can be written from now on without touching the other."""
        if self.top.objects:
            self._freeze()
        other = State.__new__(State)
        other.base = self.base
        other.epoch = self.epoch
        other.top = Layer(self.top.parent)
        other.facts = self.facts.copy()
        return other

    def _freeze(self) -> None:
        top = self.top
        if top.depth > DEEPEST_STACK:
            flat: dict[int, Obj] = {}
            layers: list[Layer] = []
            layer: Layer | None = top
            while layer is not None:
                layers.append(layer)
                layer = layer.parent
            for layer in reversed(layers):
                flat.update(layer.objects)
            bottom = Layer(None)
            bottom.objects = flat
            top = bottom
        self.top = Layer(top)

    def become(self, other: State) -> None:
        """Takes over what another state holds."""
        self.top = other.top
        self.facts = other.facts
        self.epoch = other.epoch

    def mark(self) -> Layer | None:
        """A point to which changes can be related later (see :meth:`changed_since`)."""
        self._freeze()
        return self.top.parent


class BaseState(State):
    """Writes go straight to the base: modules being imported, skeletons being evaluated."""

    __slots__ = ()

    def get(self, oid: int) -> Obj | None:
        """The object at an address, to be read; None when there is none."""
        return self.base.objects.get(oid)

    def write(self, oid: int) -> Obj:
        if oid < self.base.lowest:
            self.base.lowest = oid
        return self.base.objects[oid]

    def new(self, obj: Obj) -> int:
        """Places a new object and returns its address."""
        oid = self.base.address()
        self.base.objects[oid] = obj
        return oid

    def put(self, oid: int, obj: Obj) -> None:
        """Places an object at a known address."""
        self.base.objects[oid] = obj

    def fork(self) -> State:
        return State(self.base)

    def become(self, other: State) -> None:
        """Takes over what another state holds."""
        self.become_without(other, 0)

    def become_without(self, other: State, leave: int) -> None:
        """Takes over everything of ``other`` but the object at one address."""
        layers: list[Layer] = []
        layer: Layer | None = other.top
        while layer is not None:
            layers.append(layer)
            layer = layer.parent
        kept = self.base.objects.get(leave)
        for layer in reversed(layers):
            self.base.objects.update(layer.objects)
            for oid, obj in layer.objects.items():
                if obj.kind == "dict" and obj.attrs:  # what one path knows of its entries others may not
                    self.base.objects[oid] = shared = obj.copy()
                    shared.attrs.clear()
        if kept is not None:
            self.base.objects[leave] = kept


def join_objects(a: Obj, b: Obj) -> Obj:
    """The object that stands for ``a`` or ``b``, two versions of what is at one address."""
    if a is b:
        return a
    new = a.copy()
    for name in a.attrs.keys() | b.attrs.keys():
        va, vb = a.attrs.get(name), b.attrs.get(name)
        if va is vb:
            continue
        new.attrs[name] = join(UNBOUND if va is None else va, UNBOUND if vb is None else vb)
    if a.items is not None or b.items is not None:
        new.items = _join_items(a, b)
        if new.items is None:
            new.elements = _elements_of(a, b)
    elif a.elements is not None or b.elements is not None:
        new.elements = None if a.elements is None or b.elements is None else join(a.elements, b.elements)
    new.exact = a.exact and b.exact
    if a.tag is not b.tag and a.kind in ("tensor", "storage") and a.tag != b.tag:
        new.tag = a.tag.joined(b.tag)
    return new


def _elements_of(a: Obj, b: Obj) -> Value | None:
    result: Value | None = None
    for side in (a, b):
        if side.items is None:
            if side.elements is None:
                return None
            values = [side.elements]
        elif side.kind == "dict":
            values = [v for _, v in side.items.values()]
        else:
            values = list(side.items)
        for value in values:
            result = value if result is None else join(result, value)
    return result


def _join_items(a: Obj, b: Obj) -> Any:
    x, y = a.items, b.items
    if x is None or y is None:
        return None
    if a.kind in ("list", "iterator", "queue"):
        return [join(p, q) for p, q in zip(x, y, strict=False)] if len(x) == len(y) else None
    if a.kind == "dict":
        if list(x) != list(y):
            return None
        return {k: (x[k][0], join(x[k][1], y[k][1])) for k in x}
    return x if x == y else None


def merge(states: list[State], hook: Callable[[State], None] | None = None) -> State:
    """One state that stands for all of ``states``; it may be one of them when there is nothing to join."""
    result = states[0]
    for other in states[1:]:
        if other is not result:
            result = _merge2(result, other)
    return result


def _merge2(a: State, b: State) -> State:
    la: Layer | None = a.top
    lb: Layer | None = b.top
    changed_a: dict[int, Obj] = {}
    changed_b: dict[int, Obj] = {}
    # Walk both stacks down to the layer that they share, collecting the newest version of everything above it.
    while la is not lb:
        if lb is None or (la is not None and la.depth >= lb.depth):
            assert la is not None
            for oid, obj in la.objects.items():
                changed_a.setdefault(oid, obj)
            la = la.parent
        else:
            for oid, obj in lb.objects.items():
                changed_b.setdefault(oid, obj)
            lb = lb.parent
    if la is None:  # one of them was flattened since they parted: what both still have is what lies below them
        la = Layer(None)
        la.objects = {oid: obj for oid, obj in changed_a.items() if changed_b.get(oid) is obj}
        for oid in la.objects:
            del changed_a[oid], changed_b[oid]
    result = State.__new__(State)
    result.base = a.base
    result.epoch = a.epoch
    if a.epoch != b.epoch:
        result.touch()
    result.top = Layer(la)
    objects = result.top.objects
    below = State.__new__(State)
    below.base = a.base
    below.top = la
    if a.base.unify is not None:
        changed_b = a.base.unify(changed_a, changed_b, below)
    for oid, obj in changed_a.items():
        other = changed_b.get(oid)
        if other is obj:
            objects[oid] = obj
        elif other is None:
            before = below.get(oid)
            objects[oid] = obj if before is None or before.unmade else join_objects(obj, before)
        else:
            objects[oid] = join_objects(obj, other)
    for oid, obj in changed_b.items():
        if oid not in changed_a:
            before = below.get(oid)
            objects[oid] = obj if before is None or before.unmade else join_objects(before, obj)
    if a.facts == b.facts:
        result.facts = a.facts.copy()
    else:
        result.facts = {k: v for k, v in a.facts.items() if b.facts.get(k, _MISSING) == v}
    return result


def merge_with(states: list[State], values: list[Value]) -> tuple[State, Value]:
    """One state for all of ``states``, and one value for what each of them comes with."""
    if len(states) == 1 or states[0].base.unify is None:
        return merge(states), _joined(values)
    slot = states[0].base.address()  # the values travel in the states: what is renamed there is renamed in them
    for state, value in zip(states, values, strict=True):
        state.top.objects[slot] = Obj("env", attrs={"value": value})
    merged = merge(states)
    return merged, merged.top.objects.pop(slot).attrs["value"]


def _joined(values: list[Value]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result


_MISSING = Unknown("no such fact")
