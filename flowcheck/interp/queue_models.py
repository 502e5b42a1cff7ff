"""Queues of the standard library: ``queue.Queue`` and its kin, and what ``collections.deque`` has beyond a list.

A queue is an object of kind "queue" whose tag says which end it gives from: "first" or "last".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp.heap import Obj, State
from flowcheck.interp.models import Args, Keywords
from flowcheck.interp.values import FALSE, NONE, Known, Ref, Unknown, Value
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["FIRST", "LAST", "make", "method", "of_deque"]

FIRST, LAST = "first", "last"
PUTS, GETS = ("put", "put_nowait"), ("get", "get_nowait")


def make(tag: str, it: Interpreter, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> Value:
    """A new queue, which is empty. One of limited size may refuse: ``default`` holds whether it never does."""
    site = fr.site(node) if node is not None else None
    obj = Obj("queue", items=[], site=site)
    obj.tag = tag
    size = a[0] if a else kw.get("maxsize", Known(0))
    obj.default = Known(isinstance(size, Known) and isinstance(size.value, int) and size.value <= 0)
    return it.alloc(st, obj, site)


def method(
    it: Interpreter, x: Ref, obj: Obj, name: str, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    """A method of a queue."""
    if name == "empty":
        return Unknown("whether a queue is empty") if obj.items is None else Known(not obj.items)
    if name == "qsize":
        return Unknown("the size of a queue") if obj.items is None else Known(len(obj.items))
    if name == "full" and obj.default == Known(True):
        return FALSE
    w = st.write(x.oid)
    if name in PUTS and (a or "item" in kw):
        if obj.default != Known(True):
            it.may_throw("Full", st, node, fr, certain=False)
            w = st.write(x.oid)
        put(w, [a[0] if a else kw["item"]], -1)
        return NONE
    if name in GETS:
        if w.items is not None and not w.items:
            it.throw("Empty", st, node, fr)  # without a timeout it never returns
        if w.items is None or not w.exact:
            it.may_throw("Empty", st, node, fr, certain=False)
            w = st.write(x.oid)
        return take(w, 0 if w.tag == FIRST else -1)
    if name in ("task_done", "join"):  # how many were taken is not counted
        return NONE
    it.may_raise(st, node, fr)
    w.open([Unknown("what is put into a queue")])
    return Unknown(f"queue.{name}(…)")


def put(w: Obj, values: list[Value], end: int) -> None:
    """Adds values at the last end (-1) or, one after the other, at the first (0)."""
    if w.items is None or not w.exact:
        w.open(values)
    elif end:
        w.items.extend(values)
    else:
        w.items = [*reversed(values), *w.items]


def take(w: Obj, end: int) -> Value:
    """Takes a value off an end; there is one."""
    if w.items is not None and w.exact:
        taken: Value = w.items.pop(end)
        return taken
    w.open(())
    return w.elements if w.elements is not None else Unknown("what is in a queue")


def of_deque(
    it: Interpreter, x: Ref, name: str, a: Args, rows: list[Value] | None, st: State, node: ir.Node | None, fr: Frame
) -> Value | None:
    """A method that only a deque has; ``rows`` are the elements of its argument. None for any other."""
    w = st.write(x.oid)
    if name == "appendleft" and a:
        put(w, a[:1], 0)
        return NONE
    if name == "extendleft" and a:
        if rows is None:
            w.open([Unknown("what is put into a deque")])
        else:
            put(w, rows, 0)
        return NONE
    if name == "popleft":
        if w.items is not None and not w.items:
            it.throw("IndexError", st, node, fr)
        if w.items is None or not w.exact:
            it.may_throw("IndexError", st, node, fr, certain=False)
            w = st.write(x.oid)
        return take(w, 0)
    if name == "rotate":
        n = a[0] if a else Known(1)
        if w.items is None or not w.exact or not (isinstance(n, Known) and isinstance(n.value, int)):
            w.open(())
        elif w.items:
            by = n.value % len(w.items)
            w.items = w.items[len(w.items) - by :] + w.items[: len(w.items) - by]
        return NONE
    return None
