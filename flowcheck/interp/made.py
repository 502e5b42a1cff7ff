"""What a call is given that the run itself has made, and of which it knows more than a function that is left out does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flowcheck.interp.heap import State
from flowcheck.interp.values import BuiltinV, PartialV, Ref, TupleV, Value, alternatives

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter

__all__ = ["any_made", "telling"]

CONTAINERS = frozenset({"list", "dict", "set", "queue", "deque"})
DEEPEST_CONTAINER = 3
MOST_HELD = 16
"""How deep containers are looked for in what a function is given, and in how long ones."""


def telling(it: Interpreter, given: Iterable[Value], st: State, depth: int = 0) -> list[Value]:
    """The containers in arguments that the run itself has made, and of which it knows what they hold."""
    found: list[Value] = []
    for v in given:
        for x in alternatives(v):
            if isinstance(x, Ref):
                obj = st.get(x.oid)
                if obj is None or x.oid in it.base.objects or obj.cls is not None or obj.kind not in CONTAINERS:
                    continue
                if obj.items is not None:
                    found.append(x)
                    if depth < DEEPEST_CONTAINER and obj.items and len(obj.items) <= MOST_HELD:
                        held = [y for _, y in obj.items.values()] if obj.kind == "dict" else list(obj.items)
                        found += telling(it, held, st, depth + 1)
            elif isinstance(x, TupleV):
                found += telling(it, x.items, st, depth + 1)
            elif isinstance(x, PartialV):
                found += telling(it, [*x.args, *x.keywords.values()], st, depth + 1)
            elif isinstance(x, BuiltinV) and x.self_ is not None and depth < DEEPEST_CONTAINER:
                found += telling(it, [x.self_], st, depth + 1)
    return found


def any_made(it: Interpreter, given: Iterable[Value], st: State) -> bool:
    """Whether there is an object among arguments that the run itself has made."""
    for v in given:
        for x in alternatives(v):
            if isinstance(x, Ref) and x.oid not in it.base.objects:
                obj = st.get(x.oid)
                if obj is not None and obj.cls is not None and obj.kind == "object":
                    return True
    return False
