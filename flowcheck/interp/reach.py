"""What code that is not followed may have done: the tracked attributes of what it could reach are unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.trails import Site
from flowcheck.interp.values import UNBOUND, BoundV, FuncV, PartialV, Ref, TupleV, Union, Unknown, Value, join

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["blurred", "forget_tracked", "reachable", "touched", "weakly"]

MOST_OBJECTS = 2_000


def reachable(values: Iterable[Value], st: State, depth: int) -> list[int]:
    """Addresses of the objects that ``values`` lead to in at most ``depth`` steps, nearest first."""
    seen: dict[int, None] = {}
    level: list[Value] = list(values)
    for _ in range(depth):
        following: list[Value] = []
        while level:
            v = level.pop()
            if isinstance(v, (TupleV, Union)):
                level.extend(v.items)
            elif isinstance(v, BoundV):
                level += [v.func, v.self_]
            elif isinstance(v, PartialV):
                level += [v.func, *v.args, *v.keywords.values()]
            elif isinstance(v, FuncV):
                following += _enclosed(v.env, st)
            elif isinstance(v, Ref) and v.oid not in seen and len(seen) < MOST_OBJECTS:
                obj = st.get(v.oid)
                if obj is not None:
                    seen[v.oid] = None
                    following += _held(obj)
        level = following
    return list(seen)


def _held(obj: Obj) -> list[Value]:
    out = list(obj.attrs.values())
    if obj.items is not None:
        out += [x for pair in obj.items.values() for x in pair] if obj.kind == "dict" else obj.items
    elif obj.elements is not None:
        out.append(obj.elements)
    return out


def _enclosed(env: int | None, st: State) -> list[Value]:
    """What a function closes over."""
    out: list[Value] = []
    obj = st.get(env) if env is not None else None
    while obj is not None and obj.kind == "env":
        out += obj.attrs.values()
        obj = st.get(obj.parent) if obj.parent is not None else None
    return out


def forget_tracked(
    it: Interpreter, values: Iterable[Value], st: State, site: Site | None, why: str, depth: int = 2
) -> None:
    """The tracked attributes of what ``values`` lead to may hold anything."""
    if not it.config.tracked:
        return
    for oid in reachable(values, st, depth):
        _blur(it, oid, st, site, why)


def _blur(it: Interpreter, oid: int, st: State, site: Site | None, why: str) -> None:
    obj = st.obj(oid)
    if obj.cls is None:
        return
    for name in it.config.tracked & obj.attrs.keys():
        st.write(oid).attrs[name] = join(obj.attrs[name], it.at(Unknown(why), site, why))


def frame_values(fr: Frame, st: State) -> list[Value]:
    """The locals of an activation and of those that it is nested in."""
    return _enclosed(fr.env, st)


def touched(before: State, after: State) -> list[int]:
    """Objects of ``before`` that ``after``, which was forked from it, has written."""
    seen: set[int] = set()
    layer = after.top
    while layer is not None and layer is not before.top.parent:
        seen.update(layer.objects)
        layer = layer.parent  # type: ignore[assignment]
    return [oid for oid in seen if (old := before.get(oid)) is not None and after.get(oid) is not old]


def weakly(it: Interpreter, st: State, work: Callable[[State], object]) -> bool:
    """``work`` may happen in ``st`` or not, and may raise where nobody sees it; False when it certainly raises."""
    from flowcheck.interp.heap import merge

    without = st.fork()
    inside = st.fork()
    ends = [without]
    returned = True
    it.handlers.append([])
    it.in_try += 1
    try:
        work(inside)
        ends.append(inside)
    except Dead:
        returned = False
    finally:
        raised = it.handlers.pop()
        it.in_try -= 1
    ends += [r.state for r in raised]
    st.become(merge(ends).fork())
    return returned


def blurred(it: Interpreter, st: State, run: Callable[[State], object], site: Site | None, why: str) -> None:
    """``run`` stands for code that has run in part: what it writes may hold what it writes, or anything else."""

    scratch = st.fork()
    it.handlers.append([])
    it.quiet += 1
    it.in_try += 1
    try:
        run(scratch)
    except Dead:
        pass
    finally:
        it.quiet -= 1
        it.in_try -= 1
        ends = [scratch, *(r.state for r in it.handlers.pop())]
    for end in ends:
        for oid in touched(st, end):
            now, then = st.obj(oid), end.obj(oid)
            if now.cls is None:
                if now.kind in ("list", "dict", "set", "queue"):
                    st.write(oid).open(())
                continue
            target = st.write(oid)
            for name in then.attrs:
                if name[0] not in "#@" and (name in it.config.tracked or then.attrs[name] is not now.attrs.get(name)):
                    target.attrs[name] = join(target.attrs.get(name, UNBOUND), it.at(Unknown(why), site, why))
