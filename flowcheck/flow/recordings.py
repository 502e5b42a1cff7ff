"""What a graph runner has recorded: the modes of the forwards during which it did, kept on the runner itself.

Each is kept under the mode that the runner said of itself when it recorded. What a batch is replayed on is then told
apart even where a joined walk does not know which of two modes the runner has: a runner that admits a batch for its
mode has recorded under that mode.
"""

from __future__ import annotations

from collections.abc import Hashable

from flowcheck.interp.engine import Interpreter
from flowcheck.interp.heap import State
from flowcheck.interp.names import drop_unbound
from flowcheck.interp.values import UNBOUND, Member, Ref, Unknown, Value, alternatives, union_of

__all__ = ["Recordings"]

_PREFIX = "#recorded "
_ANY = _PREFIX + "*"
"""Recorded while the runner's own mode was not known to be one member, or was another than it is now."""

MOST_MODES = 4


def _slot(own: Value) -> str:
    return _PREFIX + own.name if isinstance(own, Member) else _ANY


class Recordings:
    """The recordings that one interpreter meets.

    ``seen``: the runners, each with the mode that it set out to record with, that recorded something then. ``whole``: by
    which method a runner first recorded: when that is called again, its graphs are recorded anew.
    """

    def __init__(self, it: Interpreter) -> None:
        self.it = it
        self.seen: set[Hashable] = set()
        self.whole: dict[int, str] = {}

    def apart(self, runner: Ref, attribute: str, st: State) -> list[tuple[State, Hashable]]:
        """A state for each mode that a runner which is about to record may have; none where that is no question."""
        obj = st.get(runner.oid)
        modes = alternatives(obj.attrs.get(attribute, UNBOUND)) if obj is not None else ()
        if not 2 <= len(modes) <= MOST_MODES or not all(isinstance(x, Member) for x in modes):
            return []
        out: list[tuple[State, Hashable]] = []
        for mode in modes:
            fork = st.fork()
            fork.write(runner.oid).attrs[attribute] = mode
            out.append((fork, (runner.oid, _slot(mode))))
        return out

    def add(self, runner: Ref, own: Value, reached: Value, method: str, st: State) -> None:
        """A forward during which ``runner`` records: ``own`` is its mode by its own account, ``reached`` what it keeps,
        ``method`` the outermost one by which it does."""
        self.whole.setdefault(runner.oid, method)
        obj, slot = st.write(runner.oid), _slot(own)
        old = drop_unbound(obj.attrs.get(slot, UNBOUND))
        obj.attrs[slot] = reached if old is None else union_of([old, reached])
        self.seen.update(self.it.arms)

    def begin(self, runner: Ref, method: str, st: State) -> None:
        """A recording method begins that no other one of this runner called: the one that recorded all records it anew."""
        if self.whole.get(runner.oid) == method:
            obj = st.obj(runner.oid)
            slots = [name for name in obj.attrs if name.startswith(_PREFIX)]
            if slots:
                obj = st.write(runner.oid)
                for slot in slots:
                    obj.attrs[slot] = UNBOUND

    def found(self, runner: Ref, own: Value, st: State) -> Value | None:
        """What the graphs hold of a runner whose own mode is ``own``; None where no forward recorded any.

        Of several modes that the runner may have, one with which it set out to record, and with which it then has no
        graph, is that of a runner without any size of a batch to record for: it has nothing to replay.
        """
        obj = st.obj(runner.oid)
        slots = [_slot(x) for x in alternatives(own)]
        if _ANY in slots:
            slots = [name for name in obj.attrs if name.startswith(_PREFIX)]
        kept: list[Value] = []
        known = False
        for slot in dict.fromkeys((*slots, _ANY)):
            held = drop_unbound(obj.attrs.get(slot, UNBOUND))
            if held is not None:
                kept.append(held)
                known = True
            elif slot != _ANY and (runner.oid, slot) not in self.seen:
                kept.append(Unknown("no forward that records this graph was found"))
        return union_of(kept) if known else None

    def outlived(self, runner: Ref, own: Value, st: State) -> None:
        """The runner takes the mode ``own``: what it has recorded under another stays, and may be replayed whatever it now
        says of itself."""
        obj = st.obj(runner.oid)
        stay = {_ANY, *map(_slot, alternatives(own))}
        gone = [name for name in obj.attrs if name.startswith(_PREFIX) and name not in stay]
        kept = [v for name in (_ANY, *gone) if (v := drop_unbound(obj.attrs.get(name, UNBOUND))) is not None]
        if gone and kept:
            obj = st.write(runner.oid)
            obj.attrs.update(dict.fromkeys(gone, UNBOUND))
            obj.attrs[_ANY] = union_of(kept)
