"""Whether the graphs that a runner replays may be another runner's: lent to it, or kept where several runners keep theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flowcheck.interp.bodies import body_of
from flowcheck.interp.frames import CallEvent, Frame
from flowcheck.interp.values import ClassV, FuncV, Ref, alternatives
from flowcheck.program.parts import bindings, names_in, root_of, sub_expressions
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.flow.walk import Walk

__all__ = ["Lent"]

_OF_OTHERS = rb"(?:(?<!\bself)\.%s(?!\w)|[\"']%s[\"']|self\.%s[ \t]*=[ \t]*\w+[ \t]*(?:if |or |$))"
"""An attribute of another object than ``self``, its name as a text, or one of ``self`` that takes what a name holds."""
_STORED = (
    rb"\.%s(?!\w)(?:[ \t]*(?:\[[^\]\n]*\])?[ \t]*(?::[^=\n]*)?[|+]?=(?!=)"
    rb"|\.(?:update|setdefault|append|extend|insert|__setitem__)\()|setattr\("
)


class Lent:
    """What one walk has asked about where graphs are kept."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self._given: dict[str, str] = {}

    def reason(self, event: CallEvent, runner: Ref) -> str:
        """Why what is replayed may not be what the runner has recorded; "" where nothing speaks for that."""
        cls = event.state.obj(runner.oid).cls
        for frame, call in _calls_from(event, runner):
            for kept in _holders(self.walk, frame, call):
                if isinstance(kept, ir.Attribute) and kept.attr not in self._given:
                    self._given[kept.attr] = self._giver(kept.attr)
                if isinstance(kept, ir.Attribute) and self._given[kept.attr]:
                    return self._given[kept.attr]
                shared = self._shared(frame, kept)
                if shared and cls is not None and self._several(cls):
                    return shared
        return ""

    def _giver(self, name: str) -> str:
        """The function by which what one object holds under ``name`` may come to another, as a reason; "" for none."""
        word = re.escape(name.encode())
        of_others = re.compile(_OF_OTHERS % (word, word, word), re.M)
        stored = re.compile(_STORED % word)
        for path, data in self.walk.corpus.files.items():
            if name.encode() not in data or stored.search(data) is None:
                continue
            lines = {data.count(b"\n", 0, m.start()) + 1 for m in of_others.finditer(data)}
            for f, body in self._functions(path, lines, stored):
                if _gives(f, body, name):
                    return f"{f.qualname} at {path}:{f.line} may store another object's {name} there"
        return ""

    def _functions(
        self, path: str, lines: set[int], stored: re.Pattern[bytes]
    ) -> Iterator[tuple[ir.FunctionDef, tuple[ir.Stmt, ...]]]:
        """The functions of a file that stand around some lines and hold a store."""
        module = self.walk.program.module_at(path) if lines else None
        syntax = module.syntax if module is not None else None
        for x in sub_expressions(syntax.body) if syntax is not None else ():
            if isinstance(x, ir.FunctionDef) and any(x.line <= line <= x.end_line for line in lines):
                assert syntax is not None
                if x.body is not None or stored.search(syntax.def_source(x).encode()) is not None:
                    yield x, syntax.body_of(x)

    def _shared(self, frame: Frame, kept: ir.Expr) -> str:
        """Why several runners may keep their graphs in what holds them here; "" where each has its own."""
        if isinstance(kept, ir.Name):
            return f"graphs are kept in {kept.id} of the module"
        assert isinstance(kept, ir.Attribute)
        for x in alternatives(frame.self_) if frame.self_ is not None else ():
            obj = self.walk.it.base.objects.get(x.oid) if isinstance(x, Ref) else None
            classes = obj.cls.mro if obj is not None and obj.cls is not None else x.mro if isinstance(x, ClassV) else ()
            in_class = any(_assigns(c.node, kept.attr) for c in classes)
            if in_class and not any(_stores(self.walk, c, kept.attr) for c in classes):
                return f"graphs are kept in {kept.attr} of the class"
        return ""

    def _several(self, cls: ClassV) -> bool:
        """Whether there may be several runners of a class, or of one that has something in common with it."""
        family = {cls.name, *(c.name for c in cls.mro if c.name != "object")}
        files = self.walk.corpus.files.values()
        known = [o for o in self.walk.it.base.objects.values() if o.cls is not None and o.cls.name in family]
        if len([o for o in known if o.kind != "class"]) > 1:
            return True
        names = b"|".join(re.escape(name.encode()) for name in sorted(family))
        heirs = re.compile(rb"class[ \t]+(\w+)\([^)]*\b(?:%s)\b" % names)
        for data in files:
            family |= {m.group(1).decode() for m in heirs.finditer(data)}
        made = re.compile(rb"(?<!class )\b(?:%s)\(" % b"|".join(re.escape(n.encode()) for n in sorted(family)))
        return sum(len(made.findall(data)) for data in files) > 1


def _calls_from(event: CallEvent, runner: Ref) -> Iterator[tuple[Frame, ir.Call]]:
    """The calls that lead from a method of the runner to the replay, each with the frame that makes it."""
    nid = event.node.nid if event.node is not None else None
    for frame in event.frame.chain():
        if frame.func is None or not isinstance(frame.func.node, ir.FunctionDef):
            return
        call = next((x for x in sub_expressions(_body(frame.func)) if isinstance(x, ir.Call) and x.nid == nid), None)
        if call is not None:
            yield frame, call
        if frame.self_ is not None and runner in alternatives(frame.self_):
            return
        nid = frame.call.nid if frame.call is not None else None


def _body(f: FuncV) -> tuple[ir.Stmt, ...]:
    assert isinstance(f.node, ir.FunctionDef)
    if f.node.body is not None:
        return f.node.body
    return f.module.syntax.body_of(f.node) if f.module.syntax is not None else ()


def _holders(walk: Walk, frame: Frame, call: ir.Call) -> list[ir.Expr]:
    """The attributes and the variables of a module out of which the object comes whose method is called."""
    assert frame.func is not None
    assert isinstance(frame.func.node, ir.FunctionDef)
    body = body_of(walk.it, frame.func)
    given = {p.name for p in frame.func.node.params.items}
    todo: list[ir.Expr] = [call.func.value] if isinstance(call.func, ir.Attribute) else []
    out: list[ir.Expr] = []
    seen: set[str] = set()
    while todo:
        e = _without_items(todo.pop())
        if isinstance(e, ir.Attribute):
            out.append(e)
        elif isinstance(e, ir.Name) and e.id not in seen:
            seen.add(e.id)
            values = [v for target, v in bindings(body) if e.id in names_in(target) and v is not None]
            todo += values
            if not values and e.id not in given:
                out.append(e)
    return out


def _without_items(e: ir.Expr) -> ir.Expr:
    """The attribute or name of what an expression takes items of, or calls."""
    while True:
        if isinstance(e, ir.Subscript):
            e = e.value
        elif isinstance(e, ir.Call):
            e = e.func.value if isinstance(e.func, ir.Attribute) else e.func
        elif isinstance(e, ir.Attribute) and isinstance(e.value, (ir.Subscript, ir.Call)):
            e = e.value
        else:
            return e


def _gives(f: ir.FunctionDef, body: tuple[ir.Stmt, ...], name: str) -> bool:
    """Whether a function stores what one object holds under ``name`` into what another one holds there."""
    if any(isinstance(x, ir.Call) and _moves(x, name) for x in sub_expressions(body)):
        return True
    held: dict[str, set[str]] = {}  # by local name: the objects of which it has what they hold under ``name``
    params = {p.name for p in f.params.items}

    def sources(e: object) -> set[str]:
        out: set[str] = set()
        for x in sub_expressions(e):
            if isinstance(x, ir.Attribute) and x.attr == name:
                out.add(_spelled(x.value))
            elif isinstance(x, ir.Name):
                out |= held.get(x.id, set())
        return out

    for _ in range(3):
        for target, value in bindings(body):
            if value is None:
                continue
            found = sources(value)
            stored = _holder_in(target, name)
            if stored is not None and (
                found - {_spelled(stored.value)} or (target is stored and _is_given(value, params))
            ):
                return True
            for n in names_in(target) if stored is None and isinstance(target, (ir.Name, ir.TupleExpr)) else ():
                held.setdefault(n, set()).update(found)
        for x in sub_expressions(body):
            if isinstance(x, ir.Call) and isinstance(x.func, ir.Attribute):
                stored = _holder_in(x.func.value, name)
                given = set().union(*(sources(a.value) for a in x.args)) if stored is not None else set()
                if stored is not None and given - {_spelled(stored.value)}:
                    return True
    return False


def _moves(call: ir.Call, name: str) -> bool:
    """``setattr(x, "name", …)``, where that takes what an attribute of the same name holds or a computed value."""
    if not isinstance(call.func, ir.Name) or call.func.id != "setattr" or len(call.args) != 3:
        return False
    key, value = call.args[1].value, call.args[2].value
    spelled = isinstance(key, ir.Const) and key.value == name
    return spelled and any(
        (isinstance(x, ir.Attribute) and x.attr == name) or (isinstance(x, ir.Const) and x.value == name)
        for x in sub_expressions(value)
    )


def _is_given(value: ir.Expr, params: set[str]) -> bool:
    """Whether a value is a parameter itself, or one of two ways is."""
    if isinstance(value, ir.IfExp):
        return _is_given(value.body, params) or _is_given(value.orelse, params)
    if isinstance(value, ir.BoolOp):
        return any(_is_given(v, params) for v in value.values)
    return isinstance(value, ir.Name) and value.id in params


def _holder_in(target: ir.Expr, name: str) -> ir.Attribute | None:
    """The attribute of that name into which a target stores, or whose items it stores."""
    while isinstance(target, ir.Subscript):
        target = target.value
    return target if isinstance(target, ir.Attribute) and target.attr == name else None


def _spelled(e: ir.Expr) -> str:
    """A chain of attributes as it is spelled; what is no chain is like nothing else."""
    if isinstance(e, ir.Attribute):
        return f"{_spelled(e.value)}.{e.attr}"
    return e.id if isinstance(e, ir.Name) else f"{root_of(e)}?{id(e)}"


def _assigns(c: ir.ClassDef, name: str) -> bool:
    return any(name in names_in(target) for s in c.body for target, value in bindings((s,)) if value is not None)


def _stores(walk: Walk, c: ClassV, name: str) -> bool:
    """Whether a method of a class stores into an attribute of its instances."""
    from flowcheck.interp import skeletons

    return bool(skeletons.writes(walk.it, c, name))
