"""What a graph runner has recorded: the modes of the forwards during which it did, kept on the runner itself.

Each is kept under the mode that the runner said of itself when it recorded. What a batch is replayed on is then told
apart even where a joined walk does not know which of two modes the runner has: a runner that admits a batch for its
mode has recorded under that mode.
"""

from __future__ import annotations

from flowcheck.interp.heap import Obj, State
from flowcheck.interp.names import drop_unbound
from flowcheck.interp.values import UNBOUND, Member, Ref, Value, alternatives, union_of

__all__ = ["add", "apart", "forget", "found", "recorded"]

_PREFIX = "#recorded "
_ANY = _PREFIX + "*"
"""Recorded while the runner's own mode was not known to be one member."""

MOST_MODES = 4


def _slot(own: Value) -> str:
    return _PREFIX + own.name if isinstance(own, Member) else _ANY


def add(obj: Obj, own: Value, reached: Value) -> None:
    """A forward during which ``obj`` records: ``own`` is its mode by its own account, ``reached`` what was recorded."""
    slot = _slot(own)
    old = drop_unbound(obj.attrs.get(slot, UNBOUND))
    obj.attrs[slot] = reached if old is None else union_of([old, reached])


def found(obj: Obj, own: Value) -> Value | None:
    """What the graphs hold of a runner whose own mode is ``own``; None where no forward recorded any.

    Of several modes that the runner may have, those under which nothing was recorded stand for a runner that recorded
    for no size of a batch: it has no graph that it could replay.
    """
    slots = [_slot(x) for x in alternatives(own)]
    if _ANY in slots:
        slots = [name for name in obj.attrs if name.startswith(_PREFIX)]
    held = [drop_unbound(obj.attrs.get(slot, UNBOUND)) for slot in dict.fromkeys((*slots, _ANY))]
    kept = [v for v in held if v is not None]
    return union_of(kept) if kept else None


def forget(obj: Obj) -> None:
    """The runner takes another mode, and records anew."""
    for slot in [name for name in obj.attrs if name.startswith(_PREFIX)]:
        obj.attrs[slot] = UNBOUND


def recorded(obj: Obj) -> bool:
    """Whether anything was recorded at all."""
    return any(name.startswith(_PREFIX) for name in obj.attrs)


def apart(runner: Ref, attribute: str, st: State) -> list[State]:
    """A state for each mode that a runner which is about to record may have; none where that is no question."""
    obj = st.get(runner.oid)
    modes = alternatives(obj.attrs.get(attribute, UNBOUND)) if obj is not None else ()
    if not 2 <= len(modes) <= MOST_MODES or not all(isinstance(x, Member) for x in modes):
        return []
    out: list[State] = []
    for mode in modes:
        fork = st.fork()
        fork.write(runner.oid).attrs[attribute] = mode
        out.append(fork)
    return out
