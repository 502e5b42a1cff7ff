"""What graph runners answer when they are asked whether they replay for a batch: who refuses one for its mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import calls, operators
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.frames import CallEvent, Dead, Frame
from flowcheck.interp.heap import State
from flowcheck.interp.values import (
    FuncV,
    Known,
    Member,
    Ref,
    Value,
    alternatives,
    union_of,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.flow.walk import Walk

__all__ = ["Admissions"]


class Admissions:
    """What the graph runners of one walk answered when they were asked whether they replay for a batch.

    ``answers``: by the runner's address, whether it may have said yes to any batch.
    """

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.answers: dict[int, bool] = {}

    def returned(self, it: Interpreter, f: FuncV, args: list[Value], v: Value, st: State, frame: Frame) -> None:
        """A graph runner that refuses a batch because it recorded a lower mode than the batch asks for."""
        walk = self.walk
        words = walk.words
        if f.name not in words.graph.admit_methods or it.in_base or not args or not isinstance(args[0], Ref):
            return
        runner = args[0]
        obj = st.get(runner.oid)
        if obj is None or obj.cls is None or obj.cls.is_record or not walk.records_graphs(obj.cls):
            return
        refused = all(isinstance(x, Known) and not x.value for x in alternatives(v))
        self.answers[runner.oid] = self.answers.get(runner.oid, False) or not refused
        batch = next((a for a in args[1:] if walk.carries_mode(a, st) is not None), None)
        if batch is None or not isinstance(f.node, ir.FunctionDef):
            return
        event = CallEvent(f, f.name, args, {}, st, f.node, frame)
        own = walk.read(runner, words.mode.attribute, event)
        asked = walk.read(batch, words.mode.attribute, event)
        order = {name: i for i, name in enumerate(words.mode.members)}
        wanted = [order.get(x.name, -1) for x in alternatives(asked) if isinstance(x, Member)]
        low: list[Value] = [
            x
            for x in alternatives(own)
            if isinstance(x, Member)
            and wanted
            and order.get(x.name, 99) < min(wanted)
            and (held := walk.recordings.found(runner, x, st)) is not None
            and x in alternatives(held)
        ]  # a runner without graphs refuses nothing
        if low and self._refuses(f, runner, batch, low, st, frame):
            walk.note("replay", event, walk.owner(runner, event), batch, asked, union_of(low), runner, refused=True)

    def _refuses(self, f: FuncV, runner: Ref, batch: Value, low: list[Value], st: State, frame: Frame) -> bool:
        """Whether it is for their mode that the runner never admits this batch: it would, had it recorded what is asked."""
        walk = self.walk
        asked = walk.read(batch, walk.words.mode.attribute, CallEvent(f, f.name, [], {}, st, f.node, frame))
        return all(self._admits(f, runner, batch, mode, st, frame) is False for mode in low) and any(
            self._admits(f, runner, batch, mode, st, frame) is not False for mode in alternatives(asked)
        )

    def _admits(self, f: FuncV, runner: Ref, batch: Value, mode: Value, st: State, frame: Frame) -> bool | None:
        """Whether the runner admits the batch when it has recorded ``mode``."""
        it = self.walk.it
        scratch = st.fork()
        scratch.write(runner.oid).attrs[self.walk.words.mode.attribute] = mode
        with it.aside():
            try:
                answer = calls.call(it, f, [runner, batch], {}, scratch, None, frame)
                return operators.truth(it, answer, scratch, frame)
            except Dead:
                return None
