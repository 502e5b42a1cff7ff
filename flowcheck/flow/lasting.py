"""What a dispatch leaves behind for the next one: modes on records, in class and module variables, and in containers;
what functions keep in the variables that they close over, and how far iterators have come."""

from __future__ import annotations

from flowcheck.interp.generators import Rest
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    ClassV,
    Member,
    Ref,
    Unknown,
    Value,
    alternatives,
    union_of,
)

__all__ = ["keep"]


def keep(st: State, attribute: str, mode: ClassV) -> bool:
    """Joins the modes that a dispatch has left in ``st`` into what the next one finds; whether that is anything new.

    ``attribute``: what records call their mode; ``mode``: the enum of modes.
    """
    changed = False
    for oid in list(st.base.overlaid):
        before, now = st.base.objects.get(oid), st.get(oid)
        if before is None or now is None or now is before:
            continue
        if before.kind in ("list", "dict", "set", "queue") and before.cls is None:
            changed = _keep_items(before, now, mode) or changed
            continue
        if before.kind == "iterator":
            changed = _keep_iterator(before, now) or changed
            continue
        if before.kind == "env":
            changed = _keep_cells(before, now) or changed
            continue
        on_record = before.cls is not None and before.cls.is_record
        if not on_record and before.kind not in ("class", "module"):
            continue  # what instances hold is evaluated from every store to it
        for name in (attribute,) if on_record else tuple(now.attrs):
            changed = _keep_attribute(before, now, name, mode, on_record) or changed
    return changed


def _keep_attribute(before: Obj, now: Obj, name: str, mode: ClassV, whatever: bool) -> bool:
    old, new = before.attrs.get(name), now.attrs.get(name, UNBOUND)
    if old is new or (whatever and old is None):
        return False
    if not whatever and not (_holds(new, mode) or (old is not None and _holds(old, mode))):
        return False
    joined = union_of([old if old is not None else UNBOUND, new])
    if old is not None and set(alternatives(joined)) == set(alternatives(old)):
        return False
    before.attrs[name] = joined
    return True


def _keep_items(before: Obj, now: Obj, mode: ClassV) -> bool:
    old, new = _values(before), _values(now)
    if not any(_holds(v, mode) for v in (*old, *new)):
        return False
    if before.items == now.items and before.elements == now.elements:
        return False
    known = set(old)
    if before.items is None and all(x in known for v in new for x in alternatives(v)):
        return False
    before.open(new)
    return True


def _keep_iterator(before: Obj, now: Obj) -> bool:
    """An iterator that was there before goes on where a dispatch has left it, or not at all begun."""
    if before.tag is now.tag and (before.items is None or before.items == now.items):
        return False
    if isinstance(before.tag, Rest) and before.items is None:
        return False
    before.tag = now.tag if isinstance(now.tag, Rest) else before.tag
    before.items, before.elements = None, None
    return True


def _keep_cells(before: Obj, now: Obj) -> bool:
    """Variables that a function which was made before closes over, and has changed. Counters go on counting."""
    changed = False
    for name, new in now.attrs.items():
        old = before.attrs.get(name)
        if old is None or old is new or name[0] in "@#":
            continue
        joined = union_of([old, new])
        if set(alternatives(joined)) == set(alternatives(old)):
            continue
        settles = all(isinstance(x, (Member, Ref)) or x in (NONE, TRUE, FALSE) for x in alternatives(joined))
        before.attrs[name] = joined if settles else Unknown("kept in a closure")
        changed = True
    return changed


def _values(obj: Obj) -> list[Value]:
    if obj.items is None:
        return list(alternatives(obj.elements)) if obj.elements is not None else []
    return [v for _, v in obj.items.values()] if obj.kind == "dict" else list(obj.items)


def _holds(v: Value, mode: ClassV) -> bool:
    return any(isinstance(x, Member) and x.cls is mode for x in alternatives(v))
