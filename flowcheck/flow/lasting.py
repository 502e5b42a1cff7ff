"""What a dispatch leaves behind for the next one: modes on records, in class and module variables, and in containers."""

from __future__ import annotations

from flowcheck.interp.heap import Obj, State
from flowcheck.interp.values import UNBOUND, ClassV, Member, Value, alternatives, union_of

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


def _values(obj: Obj) -> list[Value]:
    if obj.items is None:
        return list(alternatives(obj.elements)) if obj.elements is not None else []
    return [v for _, v in obj.items.values()] if obj.kind == "dict" else list(obj.items)


def _holds(v: Value, mode: ClassV) -> bool:
    return any(isinstance(x, Member) and x.cls is mode for x in alternatives(v))
