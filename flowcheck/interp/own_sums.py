"""Whether a module that is not entered sums its result over the ranks: its own body is run beside the run, and asked.

A contract says what a module adds to the stream. That each rank has the sum, and not its own part of it, is no matter of
kernels: the tree's own ``forward`` has to say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flowcheck.interp.contents import Content, Either, Normed, Opaque, Term, leaves
from flowcheck.interp.frames import Budget, CallCut, Dead
from flowcheck.interp.heap import State
from flowcheck.interp.kernels import Call, Contract
from flowcheck.interp.tensors import is_tensor, read, tensors_in, write
from flowcheck.interp.values import ClassV, FuncV, Known, Ref, Value, alternatives

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.tensor_model import TensorModel

__all__ = ["owed"]

SUMMED = "summed over the ranks"
REDUCING = {"all-reduce": "given back", "reduce-scatter": "written"}
MOST_STEPS = 200_000


def owed(model: TensorModel, contract: Contract, call: Call) -> str | bool | None:
    """The group over which a module leaves its result partial though it should not, by its own body; False where it owes no
    sum, None where nobody can say."""
    groups = {name: size for name, size in model.ranks.items() if size > 1}
    obj = call.st.get(call.module.oid) if isinstance(call.module, Ref) else None
    if not groups or obj is None or obj.cls is None:
        return False
    given = {name: v for name, v in obj.attrs.items() if name[0] not in "#@"}
    key = (obj.cls.oid, repr(sorted(given.items(), key=lambda item: item[0])))
    if key not in model.sums:
        model.sums[key] = None  # while its own body is asked, nothing asks again
        model.sums[key] = _asked(model, contract, call, obj.cls, given, groups)
    return model.sums[key]


def _asked(
    model: TensorModel, contract: Contract, call: Call, cls: ClassV, given: dict[str, Value], groups: dict[str, int]
) -> str | bool | None:
    it, st = call.it, call.st.fork()
    from flowcheck.interp import attributes, calls, classes

    init = classes.class_attr(it, cls, "__init__", st)
    kinds = {p.name: p.kind for p in init.node.params.items} if isinstance(init, FuncV) else {}
    keywords = {name: v for name, v in given.items() if kinds.get(name) in ("pos", "arg", "kw")}
    with _beside(model, it, cls):
        try:
            frame = it.module_frame(cls.module)
            made = calls.call(it, cls, [], keywords, st, None, frame)
            parts = _parts(st, made, contract.sums)
            if parts == 1:
                return False
            forward = attributes.get(it, made, "forward", frame, st)
            result = calls.call(it, forward, list(call.args), dict(call.keywords), st, None, frame)
        except Dead:
            return False  # a body that never returns is a stub: no forward gets that far
        except (Budget, CallCut):
            return None
        summed = _is_summed(st, result)
        if summed or summed is None or model.unmodelled or parts is None:
            return False if summed else None
    return next((name for name, size in groups.items() if size == parts), None)


@contextmanager
def _beside(model: TensorModel, it: Interpreter, cls: ClassV) -> Iterator[None]:
    """A run of a class's own body of which the run around it notes nothing."""
    notes = model.unmodelled, model.absent, model.limits, model.keeps, model.paths
    hooks = model.on_function, model.on_contract, model.on_layer
    model.unmodelled, model.absent, model.limits, model.keeps, model.paths = {}, {}, {}, [], {}
    model.on_function, model.on_contract, model.on_layer = None, _mark, None
    start = it.steps
    budgets, it.budgets = it.budgets, [start + MOST_STEPS]
    in_try, it.in_try = it.in_try, 0
    depth, on_return = it.depth, it.config.on_return
    it.config.on_return = None
    it.handlers.append([])
    model.entered.add(cls.oid)
    try:
        yield
    finally:
        model.entered.discard(cls.oid)
        it.handlers.pop()
        it.config.on_return = on_return
        it.budgets = [b + it.steps - start for b in budgets]  # it is not charged to the run that asks
        it.in_try, it.depth = in_try, depth
        model.on_function, model.on_contract, model.on_layer = hooks
        model.unmodelled, model.absent, model.limits, model.keeps, model.paths = notes


def _mark(contract: Contract, call: Call, made: Value | None) -> None:
    """What is a sum over several ranks says so from now on, whatever is made of it."""
    if contract.kind not in REDUCING or contract.group is None or call.sizes.get(contract.group) == 1:
        return
    out = made if REDUCING[contract.kind] == "given back" else call.tensor(contract.inputs[0])
    if isinstance(out, Ref) and is_tensor(out, call.st):
        deps = leaves(s.content for s in read(call.st, out)) | {SUMMED}
        write(call.it, call.st, out, Content(frozenset((Term(Opaque("sum", "", deps)),))), None)


def _is_summed(st: State, result: Value) -> bool | None:
    """Whether what a body gives is a sum over the ranks on all paths; None where that is not known."""
    found: list[bool | None] = []
    for x in alternatives(result):
        tensors = tensors_in([x], st)
        if not tensors:
            return None
        found += [_in_content(s.content) for ref in tensors[:1] for s in read(st, ref)]
    if found and all(found):
        return True
    return False if found and all(each is False for each in found) else None


def _in_content(content: Content) -> bool | None:
    found: set[bool | None] = set()
    for term in content.terms:
        if isinstance(term.source, Either):
            arms = {_in_content(term.source.first), _in_content(term.source.second)}
            found.add(arms.pop() if len(arms) == 1 else None)
        elif isinstance(term.source, Opaque):
            found.add(SUMMED in term.source.deps)
        else:
            found.add(_in_content(term.source.of) if isinstance(term.source, Normed) else False)
    if True in found:
        return True
    return None if content.lost is not None or None in found else False


def _parts(st: State, made: Value, attribute: str) -> int | None:
    """Of how many ranks' parts the result is a sum, by the attribute of an instance that says so."""
    obj = st.get(made.oid) if isinstance(made, Ref) else None
    v = obj.attrs.get(attribute) if obj is not None else None
    return v.value if isinstance(v, Known) and type(v.value) is int else None
