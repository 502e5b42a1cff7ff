"""The value of one local of a function that is not run: the slice of its body that gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import functions, operators
from flowcheck.interp.frames import Dead, Frame
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.values import (
    Known,
    Union,
    Unknown,
    Value,
    alternatives,
    join,
    union_of,
)
from flowcheck.program.modules import Module, target_names
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["Source", "local_stores", "local_value", "slice_value"]

Source = tuple["ir.Expr | None", "int | None"]
"""An expression that is stored, None for "something", and the element of its value that is meant."""


def local_stores(it: Interpreter, module: Module, function: ir.FunctionDef, name: str) -> tuple[Source, ...]:
    """Every expression that the function's body stores in a local (or ``global``) name; None for "something"."""
    cache = it.program.slice_cache.stores
    key = (id(function), name)
    known = cache.get(key)
    if known is None:
        known = cache[key] = (function, tuple(_local_stores(module, function, name)))
    return known[1]


def _local_stores(module: Module, function: ir.FunctionDef, name: str) -> list[Source]:
    body = function.body
    if body is None:
        assert module.syntax is not None
        body = module.syntax.body_of(function)
    out: list[Source] = []

    def target(t: ir.Expr, value: ir.Expr | None, index: int | None) -> None:
        if isinstance(t, ir.Name) and t.id == name:
            out.append((None if index == -1 else value, index if index != -1 else None))
        elif isinstance(t, (ir.TupleExpr, ir.ListExpr)):
            for i, e in enumerate(t.items):
                if isinstance(e, ir.Star):
                    target(e.value, None, None)
                elif isinstance(value, (ir.TupleExpr, ir.ListExpr)) and len(value.items) == len(t.items):
                    target(e, value.items[i], None)
                else:
                    target(e, value, i if index is None else -1)

    stack: list[ir.Stmt] = list(reversed(body))
    while stack:
        s = stack.pop()
        if isinstance(s, ir.Assign):
            for t in s.targets:
                target(t, s.value, None)
            _walrus(s.value, name, out)
        elif isinstance(s, ir.AnnAssign):
            if s.value is not None:
                target(s.target, s.value, None)
        elif isinstance(s, ir.AugAssign):
            if name in target_names(s.target):
                out.append((None, None))
        elif isinstance(s, ir.For):
            if name in target_names(s.target):
                out.append((None, None))
            stack.extend(reversed(s.body + s.orelse))
        elif isinstance(s, (ir.If, ir.While)):
            _walrus(s.test, name, out)
            stack.extend(reversed(s.body + s.orelse))
        elif isinstance(s, ir.With):
            for item in s.items:
                if item.target is not None and name in target_names(item.target):
                    out.append((None, None))
            stack.extend(reversed(s.body))
        elif isinstance(s, ir.Try):
            stack.extend(s.body + s.orelse + s.final)
            for h in s.handlers:
                stack.extend(h.body)
                if h.name == name:
                    out.append((None, None))
        elif isinstance(s, (ir.Import, ir.ImportFrom)):
            for entry, alias in s.names:
                if (alias or entry.split(".")[0]) == name:
                    out.append((ir.Opaque(s.nid, "#import"), None))
        elif isinstance(s, ir.FunctionDef) and s.name == name:
            out.append((ir.Opaque(s.nid, "#function"), None))
    return out


def _walrus(e: object, name: str, out: list[Source]) -> None:
    if isinstance(e, ir.Walrus):
        if isinstance(e.target, ir.Name) and e.target.id == name:
            out.append((e.value, None))
        _walrus(e.value, name, out)
    elif isinstance(e, ir.BoolOp):
        for v in e.values:
            _walrus(v, name, out)
    elif isinstance(e, ir.Compare):
        _walrus(e.left, name, out)
        for v in e.comparators:
            _walrus(v, name, out)
    elif isinstance(e, ir.UnaryOp):
        _walrus(e.operand, name, out)
    elif isinstance(e, ir.Call):
        for a in e.args:
            _walrus(a.value, name, out)


def slice_value(it: Interpreter, module: Module, function: ir.FunctionDef, source: Source, name: str) -> Value | None:
    """What a function that declares ``global name`` stores there; None when it never does."""

    expr, index = source
    if expr is None:
        return Unknown(f"{function.qualname} writes {name}")
    with it.outside():
        attrs: dict[str, Value] = {p.name: Unknown(f"{function.qualname}({p.name})") for p in function.params.items}
        oid = it.base_state.new(Obj("env", attrs=attrs, parent=it.module_oid(module)))
        fr = Frame(None, module, oid, function if function.body is None else None)
        fr.slice_of = (function, {name})
        it.slices[oid] = fr
        it.lazy_depth += 1
        try:
            v = it.eval(expr, fr, it.base_state)
        except Dead:
            return Unknown(f"{function.qualname} writes {name}")
        finally:
            it.lazy_depth -= 1
        if index is not None:
            items = operators.iterate(it, v, fr, it.base_state, None) if not isinstance(v, Union) else None
            return items[index] if items is not None and index < len(items) else Unknown(f"{name}, unpacked")
        return v


def local_value(it: Interpreter, name: str, fr: Frame, st: State) -> Value | None:
    """A local of a sliced function: the join of everything that the function stores in it; None when it is no local."""

    assert fr.slice_of is not None
    function, busy = fr.slice_of
    if name in busy:
        return (
            None
            if name in busy and not _is_param(function, name) and _is_global(it, fr, function, name)
            else Unknown(f"{name} depends on itself")
        )
    found = local_stores(it, fr.module, function, name)
    if not found:
        return None
    busy.add(name)
    result: Value | None = None
    try:
        for expr, index in found:
            if isinstance(expr, ir.Opaque) and expr.reason in ("#import", "#function"):
                v = _local_definition(it, fr, function, name, expr.reason)
            elif expr is None:
                v = Unknown(f"{function.qualname}: {name}")
            else:
                try:
                    v = it.eval(expr, fr, st)
                except Dead:
                    continue
                if index is not None:
                    part = _unpacked(it, v, index, name, fr, st)
                    if part is None:
                        continue
                    v = part
            result = v if result is None else join(result, v)
    finally:
        busy.discard(name)
    return result if result is not None else Unknown(f"{function.qualname}: {name}")


def _unpacked(it: Interpreter, v: Value, index: int, name: str, fr: Frame, st: State) -> Value | None:
    """The element of an unpacked value that a name is bound to; None when unpacking raises."""
    parts: list[Value] = []
    for x in alternatives(v):
        if isinstance(x, Known) and not isinstance(x.value, (str, bytes)):
            continue
        items = operators.iterate(it, x, fr, st, None)
        parts.append(items[index] if items is not None and index < len(items) else Unknown(f"{name}, unpacked"))
    return union_of(parts) if parts else None


def _is_param(function: ir.FunctionDef, name: str) -> bool:
    return any(p.name == name for p in function.params.items)


def _is_global(it: Interpreter, fr: Frame, function: ir.FunctionDef, name: str) -> bool:
    return function in fr.module.global_writers(name)


def _local_definition(it: Interpreter, fr: Frame, function: ir.FunctionDef, name: str, what: str) -> Value:
    body = function.body
    if body is None:
        assert fr.module.syntax is not None
        body = fr.module.syntax.body_of(function)
    stack: list[ir.Stmt] = list(body)
    while stack:
        s = stack.pop()
        if what == "#import" and isinstance(s, (ir.Import, ir.ImportFrom)):
            if any((alias or entry.split(".")[0]) == name for entry, alias in s.names):
                it.exec_block((s,), fr, it.base_state)
                return it.base_state.obj(fr.env).attrs.get(name, Unknown(f"import {name}"))
        elif what == "#function" and isinstance(s, ir.FunctionDef) and s.name == name:
            return functions.make_function(it, s, fr, it.base_state)
        elif isinstance(s, (ir.If, ir.For, ir.While)):
            stack.extend(s.body + s.orelse)
        elif isinstance(s, ir.With):
            stack.extend(s.body)
        elif isinstance(s, ir.Try):
            stack.extend(s.body + s.orelse + s.final)
            for h in s.handlers:
                stack.extend(h.body)
    return Unknown(f"{function.qualname}: {name}")
