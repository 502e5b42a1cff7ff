"""Whether a string that a function's text holds may leave the function, or names an attribute right there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flowcheck.program.parts import children, sub_expressions, target_names
from flowcheck.syntax import ir

__all__ = ["leaves"]

BY_NAME = frozenset({"setattr", "getattr", "hasattr", "delattr"})
OWN_BY_NAME = frozenset({"__setattr__", "__getattribute__", "__delattr__", "__getattr__"})
GIVES_AGAIN = frozenset({"items", "keys", "values", "copy", "get", "pop", "popitem"})
"""Methods of a container that give what it holds, and keep nothing of their arguments."""
PASSES_ON = frozenset(
    {"dict", "list", "tuple", "set", "frozenset", "sorted", "reversed", "zip", "enumerate", "iter", "next", "str"}
)
SAYS_NOTHING = frozenset({"len", "bool", "isinstance", "print", "any", "all"})
EVERYTHING = frozenset({"locals", "exec", "eval", "globals"})
KEYS, PAIRS, ANY = 1, 2, 3
"""What a value has of the text: as a key of the mapping that it is, as the first of the pairs that it gives, or anyhow."""


def leaves(body: tuple[ir.Stmt, ...], text: str) -> tuple[int, bool]:
    """How often the statements hold ``text`` as a literal, and whether it may get out of them: be returned, stored on
    an object, or handed to a call that does more than name an attribute by it."""
    found = _Flow(text)
    before: dict[str, int] | None = None
    while found.held != before and not found.out:  # names that hold it are known when no more are found
        before = dict(found.held)
        for s in body:
            found.statement(s)
    count = sum(isinstance(x, ir.Const) and x.value == text for s in body for x in sub_expressions(s))
    return count, found.out


def _is_namespace(e: ir.Expr) -> bool:
    """Whether an expression is written as the dict of an object's attributes."""
    if isinstance(e, ir.Attribute):
        return e.attr == "__dict__"
    return isinstance(e, ir.Call) and isinstance(e.func, ir.Name) and e.func.id == "vars" and len(e.args) == 1


class _Flow:
    """One text: the local names that may hold it, alone or in a container, and whether it got out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.held: dict[str, int] = {}
        self.out = False

    def statement(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.AugAssign):  # in place, perhaps
            self.lose(s.value)
            self.lose(s.target)
        elif isinstance(s, (ir.Assign, ir.AnnAssign)):
            carries = self.carries(s.value) if s.value is not None else 0
            for target in s.targets if isinstance(s, ir.Assign) else (s.target,):
                self.bind(target, carries)
        elif isinstance(s, ir.For):
            self.each(s.target, self.carries(s.iter))
            self.block(s.body + s.orelse)
        elif isinstance(s, ir.FunctionDef):
            for p in s.params.items:
                self.lose(p.default)
            for d in s.decorators:
                self.lose(d)
            self.block(s.body or ())
        elif isinstance(s, ir.ClassDef):
            self.out |= any(isinstance(x, ir.Const) and x.value == self.text for x in sub_expressions(s))
        elif isinstance(s, (ir.If, ir.While)):
            self.carries(s.test)
            self.block(s.body + s.orelse)
        elif isinstance(s, ir.Try):
            self.block(s.body + s.orelse + s.final)
            for handler in s.handlers:
                self.block(handler.body)
        elif isinstance(s, ir.With):
            for item in s.items:
                self.lose(item.value)
            self.block(s.body)
        elif isinstance(s, ir.Match):
            self.lose(s.subject)
            for case in s.cases:
                if case.guard is not None:
                    self.carries(case.guard)
                self.block(case.body)
        elif isinstance(s, (ir.Global, ir.Nonlocal)):
            self.out |= not self.held.keys().isdisjoint(s.names)
        elif isinstance(s, (ir.ExprStmt, ir.Assert)):  # what is looked at and dropped
            self.carries(s.value if isinstance(s, ir.ExprStmt) else s.test)
        elif isinstance(s, ir.Delete):
            for target in s.targets:
                self.carries(target)
        else:
            for x in children(s):
                if isinstance(x, ir.Node):
                    self.lose(x)  # type: ignore[arg-type]
            self.out |= isinstance(s, ir.Opaque)

    def block(self, body: tuple[ir.Stmt, ...]) -> None:
        for s in body:
            self.statement(s)

    def each(self, target: ir.Expr, carries: int) -> None:
        """A target takes one after the other of what a value gives."""
        if carries == PAIRS and isinstance(target, ir.TupleExpr) and len(target.items) == 2:
            self.bind(target.items[0], ANY)
            self.bind(target.items[1], 0)
        else:
            self.bind(target, ANY if carries else 0)

    def bind(self, target: ir.Expr, carries: int) -> None:
        """A target takes a value, which may carry the text; a key that does is kept by what it is stored into."""
        for x in sub_expressions(target):
            if isinstance(x, ir.Subscript):
                self.out |= bool(self.carries(x.index)) and not _is_namespace(x.value)
            self.out |= carries > 0 and isinstance(x, (ir.Attribute, ir.Subscript))
        for name in target_names(target) if carries else ():
            how = carries if isinstance(target, ir.Name) else ANY
            self.held[name] = how if self.held.get(name, how) == how else ANY

    def lose(self, e: ir.Expr | None) -> None:
        """The value goes where nobody looks after it."""
        if e is not None and self.carries(e):
            self.out = True

    def some(self, parts: Iterable[ir.Expr]) -> int:
        return ANY if max([self.carries(x) for x in parts], default=0) else 0

    def carries(self, e: ir.Expr) -> int:
        """Whether, and how, a value may be the text or hold it; what the expression does with it on the way is noted."""
        if isinstance(e, ir.Const):
            return ANY if e.value == self.text else 0
        if isinstance(e, ir.Name):
            return self.held.get(e.id, 0)
        if isinstance(e, ir.Call):
            return self.call(e)
        if isinstance(e, ir.Attribute):
            self.carries(e.value)
            return 0
        if isinstance(e, ir.Subscript):
            self.carries(e.index)
            return ANY if self.carries(e.value) > KEYS else 0
        if isinstance(e, ir.Compare):
            for x in (e.left, *e.comparators):
                self.carries(x)
            return 0
        if isinstance(e, ir.Lambda):
            for p in e.params.items:
                self.lose(p.default)
            self.lose(e.body)
            return 0
        if isinstance(e, ir.Comp):
            for g in e.generators:
                self.each(g.target, self.carries(g.iter))
                for test in g.ifs:
                    self.carries(test)
            return self.some(x for x in (e.key, e.element) if x is not None)
        if isinstance(e, ir.Walrus):
            carries = self.carries(e.value)
            self.bind(e.target, carries)
            return carries
        if isinstance(e, (ir.Yield, ir.Await)):
            self.lose(e.value)
            return 0
        if isinstance(e, ir.DictExpr):
            values = self.some(v for k, v in e.items if k is not None)
            rest = [self.carries(v) for k, v in e.items if k is None]
            keys = self.some(k for k, _ in e.items if k is not None)
            return ANY if values or max(rest, default=0) > KEYS else KEYS if keys or any(rest) else 0
        if isinstance(e, ir.FString):
            return self.some(x for x in e.parts if not isinstance(x, str))
        if isinstance(e, ir.Opaque):
            self.out = True
            return 0
        return self.some(_parts(e))

    def call(self, c: ir.Call) -> int:
        values = [a.value for a in c.args]
        f = c.func
        if isinstance(f, ir.Name):
            self.out |= f.id in EVERYTHING
            if f.id in BY_NAME and len(c.args) > 1 and not any(a.star for a in c.args):
                self.carries(values[1])
                for x in (values[0], *values[2:]):
                    self.lose(x)
                return 0
            if f.id in PASSES_ON or f.id in SAYS_NOTHING:
                given = [self.carries(x) for x in values]
                if f.id in SAYS_NOTHING or not any(given):
                    return 0
                as_it_is = {"dict": KEYS, "list": PAIRS, "tuple": PAIRS, "sorted": PAIRS, "iter": PAIRS}.get(f.id)
                return given[0] if len(given) == 1 and given[0] == as_it_is else ANY
        elif isinstance(f, ir.Attribute):
            if f.attr in OWN_BY_NAME and not any(a.star for a in c.args):
                self.carries(f.value)
                for x in values[:2]:
                    self.carries(x)
                if len(values) > 1:
                    self.lose(values[-1])
                return 0
            if _is_namespace(f.value):
                for x in values:
                    self.carries(x)
                return 0
            if f.attr in GIVES_AGAIN:
                held = self.carries(f.value)
                asked = self.some(values[:1])
                for x in values[1:]:
                    self.lose(x)
                self.out |= asked > 0 and not held and not isinstance(f.value, ir.Name)
                if held == KEYS:
                    return {"items": PAIRS, "copy": KEYS, "keys": ANY, "popitem": ANY}.get(f.attr, 0)
                return ANY if held else 0
        for x in values:
            self.lose(x)
        return ANY if self.carries(f if not isinstance(f, ir.Attribute) else f.value) else 0


def _parts(e: ir.Expr) -> Iterator[ir.Expr]:
    for x in children(e):
        for y in x if isinstance(x, tuple) else (x,):
            if isinstance(y, ir.Node):
                yield y  # type: ignore[misc]
