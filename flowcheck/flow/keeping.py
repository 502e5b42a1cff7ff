"""What the tree's logits processor keeps for a mode: its forward is interpreted on a batch that asks for that mode.

The tensors are not known, so that no more can be said than whether it gives any states at all. A processor that gives
none for the required mode has turned a test around, or drops them.
"""

from __future__ import annotations

from flowcheck.flow.walk import Walk
from flowcheck.interp import attributes, calls, classes, names
from flowcheck.interp.frames import Budget, CallCut, Dead, LazyCut
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.trails import Site
from flowcheck.interp.values import (
    BoundV,
    ClassV,
    FuncV,
    Known,
    Member,
    Ref,
    Unknown,
    Value,
    alternatives,
)
from flowcheck.program.corpus import classes_of
from flowcheck.program.parts import names_in, sub_expressions
from flowcheck.syntax import ir

__all__ = ["keeps_nothing"]

MOST_STEPS = 60_000


def keeps_nothing(walk: Walk, member: Member) -> Site | None:
    """Where the logits processor decides, if it certainly gives no states for ``member``; None otherwise."""
    metadata = walk.roles.metadata
    if metadata is None:
        return None
    for c in classes_of(metadata.module):
        v = names.global_value(walk.it, metadata.module, c.name, walk.it.base_state)
        if not isinstance(v, ClassV) or v is metadata:
            continue
        for name in walk.words.target.forward_methods:
            f = classes.class_attr(walk.it, v, name, walk.it.base_state)
            if isinstance(f, FuncV) and isinstance(f.node, ir.FunctionDef) and f.module is metadata.module:
                states = _states(walk, v, f, metadata, member)
                if states is not None and all(isinstance(x, Known) and x.value is None for x in alternatives(states)):
                    return _deciding(walk, v) or Site(f.module, None, f.node.nid, f.qualname)
    return None


def _deciding(walk: Walk, c: ClassV) -> Site | None:
    """The first test of a mode in the methods of the processor."""
    syntax = c.module.syntax
    for method in c.node.body:
        if isinstance(method, ir.FunctionDef) and syntax is not None:
            body = method.body if method.body is not None else syntax.body_of(method)
            for s in sub_expressions(body):
                if isinstance(s, ir.If) and any(
                    isinstance(x, ir.Attribute) and x.attr == walk.words.mode.attribute for x in sub_expressions(s.test)
                ):
                    return Site(c.module, method if method.body is None else None, s.test.nid, method.qualname)
    return None


def _states(walk: Walk, c: ClassV, f: FuncV, metadata: ClassV, member: Member) -> Value | None:
    """The states that ``f`` gives for a batch that asks for ``member``; None where that cannot be said."""
    it, words = walk.it, walk.words
    st = State(it.base)
    processor = Obj("free", c)
    processor.tag = c.name
    asked = Obj("free", metadata)
    asked.tag = metadata.name
    asked.attrs = {words.mode.attribute: member}
    made, batch = Ref(st.new(processor)), Ref(st.new(asked))
    given: dict[str, Value] = {}
    for p in f.node.params.items[1:]:
        if p.kind in ("pos", "arg", "kw"):
            given[p.name] = batch if metadata.name in _names(p.annotation) else Unknown(f"{f.qualname}({p.name})")
    if batch not in given.values():
        return None
    limit, it.step_limit = it.step_limit, it.steps + MOST_STEPS
    depth, it.depth = it.depth, 0
    try:
        with it.aside():
            frame = it.module_frame(f.module)
            out = calls.call(it, BoundV(f, made), [], given, st, None, frame)
            if not all(isinstance(x, Ref) for x in alternatives(out)):
                return None
            return attributes.get(it, out, words.target.states_attribute, frame, st)
    except (Dead, Budget, CallCut, LazyCut):
        return None
    finally:
        it.step_limit, it.depth = limit, depth


def _names(annotation: ir.Expr | None) -> set[str]:
    """The names that an annotation spells, as text or not."""
    if annotation is None:
        return set()
    texts = [x.value for x in sub_expressions(annotation) if isinstance(x, ir.Const) and isinstance(x.value, str)]
    return names_in(annotation).union(*(t.replace("[", " ").replace("]", " ").replace(",", " ").split() for t in texts))
