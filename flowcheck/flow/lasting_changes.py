"""What a forward leaves changed on the model: the next forward may capture something else then."""

from __future__ import annotations

from flowcheck.flow.model_runs import ModelRun
from flowcheck.interp.heap import State
from flowcheck.interp.values import Known, Ref, Value

__all__ = ["changed_by"]


def changed_by(run: ModelRun, before: State) -> str:
    """The attribute of a module that held a number, or numbers, and holds others after a forward; "" where there is none.

    Switches are left out: what is made once, at the first forward, is noted by one.
    """
    model = run.it.config.tensors
    for oid, path in sorted(model.paths.items()) if model is not None else ():
        old, new = before.get(oid), run.state.get(oid)
        if old is None or new is None or old.kind == "tensor":
            continue
        for name, value in old.attrs.items():
            numbers = _numbers(before, value)
            if numbers is not None and _numbers(run.state, new.attrs.get(name)) != numbers:
                return f"{path}.{name}".lstrip(".")
    return ""


def _numbers(st: State, v: Value | None) -> tuple[int, ...] | None:
    """The number or the numbers that a value is; None for all else."""
    items = [v]
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is None or obj.kind not in ("list", "set") or obj.items is None:
            return None
        items = list(obj.items)
    numbers = tuple(x.value for x in items if isinstance(x, Known) and type(x.value) is int)
    return numbers if len(numbers) == len(items) else None
