"""Static slices of function bodies: the statements that what is asked about can depend on.

A slice is a body with statements left out. It is flow-insensitive about names (every assignment to a needed local is
kept) and keeps the order and the nesting of what stays. Leaving a statement out never removes a path to what is kept,
so a slice shows at least the behaviours of the function; it may show more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from flowcheck.program.parts import names_in, root_of, sub_expressions, target_names
from flowcheck.program.raising import LEFT_OUT, may_raise, replace_case
from flowcheck.syntax import ir

__all__ = ["Criterion", "SliceCache", "slice_body"]

MUTATORS = frozenset(
    {
        "append", "add", "update", "extend", "insert", "pop", "remove", "discard", "clear", "setdefault", "popleft",
        "appendleft", "popitem", "sort", "reverse", "rotate", "extendleft", "move_to_end", "difference_update",
        "intersection_update", "symmetric_difference_update", "__setitem__", "__delitem__", "put", "put_nowait", "get",
        "get_nowait",
    }
)  # fmt: skip


ITEM_SETTERS = frozenset(
    {
        "setitem", "delitem", "__setitem__", "__delitem__", "iadd", "ior", "iand", "isub", "ixor", "iconcat", "heappush",
        "heappop", "heapify", "heapreplace", "heappushpop", "insort", "insort_left", "insort_right", "shuffle",
    }
)  # fmt: skip
"""Functions and unbound methods that change the container that is their first argument."""

UNEVALUATED = "a value that was not evaluated"


TAKES_OUT = frozenset({"get", "setdefault", "pop", "popleft", "popitem", "values", "items", "__getitem__"})
"""Methods of a container that give what it holds."""


def _aliases(body: tuple[ir.Stmt, ...]) -> dict[str, set[str]]:
    changed: set[str | None] = set()
    bound: list[tuple[ir.Expr, ir.Expr]] = []
    for x in sub_expressions(body):
        if isinstance(x, ir.Call):
            f = x.func
            if isinstance(f, ir.Attribute) and f.attr in MUTATORS and f.attr != "get":
                changed.add(root_of(f.value))
            elif x.args and _name_of(f) in ITEM_SETTERS:
                changed.add(root_of(x.args[0].value))
        elif isinstance(x, (ir.Assign, ir.AnnAssign, ir.AugAssign, ir.Delete)):
            targets = x.targets if isinstance(x, (ir.Assign, ir.Delete)) else (x.target,)
            changed |= {root_of(t) for t in targets if isinstance(t, ir.Subscript) or isinstance(x, ir.AugAssign)}
            if isinstance(x, (ir.Assign, ir.AnnAssign)) and x.value is not None:
                bound += [(t, x.value) for t in targets]
        elif isinstance(x, ir.For):
            bound.append((x.target, x.iter))
        elif isinstance(x, ir.Walrus):
            bound.append((x.target, x.value))
    pairs = [(y, n) for target, value in bound for n in _taken_from(value) for y in target_names(target) if n != y]
    out: dict[str, set[str]] = {}
    before = -1
    while len(changed) != before:  # what changes under one name changes under the one that it is taken from
        before = len(changed)
        for y, n in pairs:
            if y in changed:
                out.setdefault(n, set()).add(y)
                changed.add(n)
    return out


def _taken_from(e: ir.Expr) -> Iterator[str]:
    """The locals that a value is, or that hold it."""
    if isinstance(e, ir.Name):
        yield e.id
    elif isinstance(e, (ir.Subscript, ir.Star)):
        yield from _taken_from(e.value)
    elif isinstance(e, ir.Call) and isinstance(e.func, ir.Attribute) and e.func.attr in TAKES_OUT:
        yield from _taken_from(e.func.value)
    elif isinstance(e, (ir.BoolOp, ir.IfExp)):
        for x in e.values if isinstance(e, ir.BoolOp) else (e.body, e.orelse):
            yield from _taken_from(x)


_MAKERS = frozenset(
    {"list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter", "bytearray", "Queue", "SimpleQueue"}
)


def _containers(body: tuple[ir.Stmt, ...]) -> dict[str, bool]:
    """The locals that a body binds to a container which it makes there (True), or to an instance of a class (False)."""
    found: dict[str, bool] = {}
    for x in sub_expressions(body):
        pairs: list[tuple[ir.Expr, ir.Expr]] = []
        if isinstance(x, (ir.Assign, ir.AnnAssign)) and x.value is not None:
            for t in x.targets if isinstance(x, ir.Assign) else (x.target,):
                if isinstance(t, ir.TupleExpr) and isinstance(x.value, ir.TupleExpr):
                    pairs += zip(t.items, x.value.items, strict=False)
                else:
                    pairs.append((t, x.value))
        elif isinstance(x, ir.Walrus):
            pairs.append((x.target, x.value))
        for target, v in pairs:
            if isinstance(target, ir.Name):
                if _makes_container(v):
                    found[target.id] = True
                elif isinstance(v, ir.Call) and _name_of(v.func)[:1].isupper():
                    found.setdefault(target.id, False)
    return found


def _makes_container(e: ir.Expr) -> bool:
    if isinstance(e, (ir.ListExpr, ir.DictExpr, ir.SetExpr, ir.Comp)):
        return True
    if isinstance(e, (ir.IfExp, ir.BoolOp)):
        return any(_makes_container(x) for x in (e.values if isinstance(e, ir.BoolOp) else (e.body, e.orelse)))
    if isinstance(e, ir.BinOp):
        return _makes_container(e.left) or _makes_container(e.right)
    if isinstance(e, ir.Call):
        return _name_of(e.func) in _MAKERS or (isinstance(e.func, ir.Attribute) and _makes_container(e.func.value))
    return False


def _given(e: ir.Expr) -> Iterator[str]:
    """The locals whose containers an argument hands over: as they are, inside others, or by a method that changes them."""
    if isinstance(e, ir.Name):
        yield e.id
    elif isinstance(e, (ir.Subscript, ir.Star)) or (isinstance(e, ir.Attribute) and e.attr in MUTATORS):
        yield from _given(e.value)
    elif isinstance(e, (ir.TupleExpr, ir.ListExpr)):
        for x in e.items:
            yield from _given(x)
    elif isinstance(e, ir.DictExpr):
        for _, x in e.items:
            yield from _given(x)
    elif isinstance(e, (ir.BoolOp, ir.IfExp)):
        for x in e.values if isinstance(e, ir.BoolOp) else (e.body, e.orelse):
            yield from _given(x)


class SliceCache:
    """What slices of one program's nodes have in common: the parts of an expression, and finished slices.

    Keyed by identity; an entry keeps its node, so that no other can take its place.
    """

    def __init__(self) -> None:
        self._parts: dict[int, tuple[object, tuple[ir.Node, ...]]] = {}
        self._names: dict[int, tuple[object, frozenset[str]]] = {}
        self._aliases: dict[int, tuple[object, dict[str, set[str]]]] = {}
        self._containers: dict[int, tuple[object, dict[str, bool]]] = {}
        self.slices: dict[tuple[object, ...], tuple[ir.Stmt, ...]] = {}
        self.paths: dict[int, tuple[object, tuple[ir.Expr, ...]]] = {}
        """The names and attribute chains of expressions, as tests of them ask for them."""
        self.stores: dict[tuple[int, str], tuple[object, tuple[tuple[ir.Expr | None, int | None], ...]]] = {}
        """What functions store in a local name."""

    def aliases(self, body: tuple[ir.Stmt, ...]) -> dict[str, set[str]]:
        """By local: others that are it, or are taken out of it, and through which a container changes."""
        found = self._aliases.get(id(body))
        if found is None:
            found = self._aliases[id(body)] = (body, _aliases(body))
        return found[1]

    def containers(self, body: tuple[ir.Stmt, ...]) -> dict[str, bool]:
        """The locals that hold a container, or an object (False), which the body makes."""
        found = self._containers.get(id(body))
        if found is None:
            found = self._containers[id(body)] = (body, _containers(body))
        return found[1]

    def parts(self, node: ir.Node) -> tuple[ir.Node, ...]:
        """Every node below one, itself first."""
        found = self._parts.get(id(node))
        if found is None:
            found = self._parts[id(node)] = (node, tuple(sub_expressions(node)))
        return found[1]

    def names(self, node: object) -> frozenset[str]:
        """The names that a node reads."""
        if not isinstance(node, ir.Node):
            return frozenset(names_in(node))
        found = self._names.get(id(node))
        if found is None:
            found = self._names[id(node)] = (node, frozenset(x.id for x in self.parts(node) if isinstance(x, ir.Name)))
        return found[1]


@dataclass
class Criterion:
    """What a slice is for.

    ``statement``: a statement that must stay for its own sake. ``call``: a call that must stay. ``wants_value``: the
    returned value is used. ``stores``: what to do with a store to an attribute of something that is not a needed local:
    "drop" it, or "keep" it with a value that is not evaluated unless it is cheap. ``managers``: keep every with-item.
    ``outer``: whether a name is bound outside the function: a container that it holds outlives the call. ``swallows``:
    whether what is called by a name makes a context manager that may go on after an exception. ``fills``: whether what is
    called by a name may change a container that it is given. ``follows``: whether a call may be one of a function of the tree.
    """

    statement: Callable[[ir.Stmt], bool]
    call: Callable[[ir.Call], bool]
    wants_value: bool
    keep_stores: bool
    mentions: Callable[[ir.Node], bool] = lambda node: False
    outer: Callable[[str], bool] = lambda name: False
    swallows: Callable[[str], bool] = lambda name: name == "suppress"
    fills: Callable[[str], bool] = lambda name: False
    follows: Callable[[ir.Call], bool] = lambda call: False


class _Slicer:
    def __init__(self, c: Criterion, params: frozenset[str], cache: SliceCache, body: tuple[ir.Stmt, ...]) -> None:
        self.c = c
        self.aliases = cache.aliases(body)
        self.containers = cache.containers(body)
        self.cache = cache
        self.params = params
        self.needed: set[str] = set()
        self.grew = True
        self.any_kept = False
        self._holds: dict[int, bool] = {}

    def need(self, node: object) -> None:
        new: set[str] = set(self.cache.names(node) - self.needed)
        while new:
            self.needed |= new
            self.grew = True
            new = {y for x in new for y in self.aliases.get(x, ())} - self.needed

    def holds_call(self, node: ir.Node | None) -> bool:
        """Whether an expression holds a call that must stay, or a yield."""
        if node is None:
            return False
        found = self._holds.get(id(node))
        if found is None:
            found = any(
                isinstance(x, (ir.Yield, ir.Await)) or (isinstance(x, ir.Call) and self.c.call(x))
                for x in self.cache.parts(node)
            )
            self._holds[id(node)] = found
        return found

    def binds_needed(self, node: ir.Node | None) -> bool:
        """Whether evaluating it binds a needed local, or changes the container that one holds."""
        if node is None:
            return False
        return any(
            (isinstance(x, ir.Walrus) and isinstance(x.target, ir.Name) and x.target.id in self.needed)
            or (isinstance(x, ir.Call) and (self._changes_needed(x) or self._hands_over_needed(x)))
            for x in self.cache.parts(node)
        )

    def _hands_over_needed(self, c: ir.Call) -> bool:
        """Whether a function that may be one of the tree is given a container that a needed local holds."""
        if not c.args or self.needed.isdisjoint(self.containers):
            return False
        given = {name for a in c.args for name in _given(a.value)} & self.needed & self.containers.keys()
        return any(self.containers[n] for n in given) and self.c.follows(c)

    def _changes_needed(self, c: ir.Call) -> bool:
        f = c.func
        if not isinstance(f, ir.Attribute) or f.attr not in MUTATORS or not isinstance(f.value, ir.Name):
            return False
        if f.attr == "get" and any(a.keyword is None for a in c.args):
            return False  # of a dict, not of a queue
        return f.value.id in self.needed

    # ------------------------------------------------------------------------------------------------------ blocks
    def block(
        self, body: tuple[ir.Stmt, ...], after: bool, in_loop: bool, guarded: bool = False
    ) -> tuple[ir.Stmt, ...]:
        """The kept statements of a block. ``after``: something that is kept runs after the block. ``guarded``: what its
        statements raise is caught, so that those that are left out still may raise."""
        out: list[ir.Stmt] = []
        for s in reversed(body):
            kept = self.statement(s, after or bool(out), in_loop)
            if kept is not None:
                out.append(kept)
            elif guarded and may_raise(s) and not (out and isinstance(out[-1], ir.Opaque)):
                out.append(ir.Opaque(s.nid, LEFT_OUT))
        out.reverse()
        return tuple(out)

    def _calls(self, e: ir.Expr) -> bool:
        return any(isinstance(x, ir.Call) for x in self.cache.parts(e))

    def statement(self, s: ir.Stmt, after: bool, in_loop: bool) -> ir.Stmt | None:
        if self.c.statement(s) and not isinstance(s, (ir.If, ir.For, ir.While, ir.With, ir.Try, ir.Match)):
            self.need(s)
            self.any_kept = True
            return s
        if isinstance(s, ir.ExprStmt):
            return self.expression(s)
        if isinstance(s, (ir.Assign, ir.AnnAssign, ir.AugAssign)):
            return self.assignment(s)
        if isinstance(s, ir.Return):
            if self.c.wants_value or self.holds_call(s.value):
                self.need(s.value)
                self.any_kept = self.any_kept or self.holds_call(s.value)
                return s
            return ir.Return(s.nid, None) if after or in_loop else None
        if isinstance(s, (ir.Break, ir.Continue)):
            return s if in_loop else None
        if isinstance(s, ir.Raise):
            return s if after or self.c.wants_value or in_loop else None
        if isinstance(s, ir.Assert):
            if self.c.mentions(s.test) or self.holds_call(s.test):
                self.need(s.test)
                return s
            return None
        if isinstance(s, ir.If):
            return self.conditional(s, after, in_loop)
        if isinstance(s, (ir.For, ir.While)):
            return self.loop(s, after, in_loop)
        if isinstance(s, ir.With):
            return self.with_(s, after, in_loop)
        if isinstance(s, ir.Try):
            return self.try_(s, after, in_loop)
        if isinstance(s, ir.Match):
            cases = tuple(replace_case(k, self.block(k.body, after, in_loop)) for k in s.cases)
            if any(k.body for k in cases) or self.holds_call(s.subject):
                self.need(s.subject)
                self.need(tuple((k.pattern, k.guard) for k in s.cases))
                return replace(s, cases=tuple(k if k.body else replace_case(k, (ir.Pass(s.nid),)) for k in cases))
            return None
        if isinstance(s, (ir.Global, ir.Nonlocal)):
            return s
        if isinstance(s, ir.Import):
            names = [alias or dotted.split(".")[0] for dotted, alias in s.names]
            return s if any(n in self.needed for n in names) else None
        if isinstance(s, ir.ImportFrom):
            return s if any((alias or name) in self.needed for name, alias in s.names) else None
        if isinstance(s, (ir.FunctionDef, ir.ClassDef)):
            if s.name in self.needed:
                self.need(s)
                return s
            return None
        if isinstance(s, ir.Delete):
            kept = any(root_of(t) in self.needed for t in s.targets)
            if not kept and self.c.keep_stores:
                kept = any(isinstance(t, ir.Subscript) and self.outlives(t.value) for t in s.targets)
            if kept:
                self.need(s)
            return s if kept else None
        return None

    def expression(self, s: ir.ExprStmt) -> ir.Stmt | None:
        v = s.value
        if isinstance(v, ir.Const):
            return None
        keep = self.holds_call(v) or self.binds_needed(v)
        if keep:
            self.any_kept = True
        if not keep and isinstance(v, ir.Call) and isinstance(v.func, ir.Attribute) and v.func.attr in MUTATORS:
            holder = v.func.value
            if isinstance(holder, ir.Name) and holder.id in self.needed:
                keep = True
            elif self.c.keep_stores and self.outlives(holder):
                self.need(v.func.value)
                blank = tuple(ir.Arg(a.nid, ir.Opaque(a.nid, UNEVALUATED), a.keyword, a.star) for a in v.args)
                return ir.ExprStmt(s.nid, ir.Call(v.nid, v.func, blank))
        if not keep and isinstance(v, ir.Call) and v.args and _name_of(v.func) in ITEM_SETTERS:
            keep = root_of(v.args[0].value) in self.needed or (self.c.keep_stores and self.outlives(v.args[0].value))
        if keep:
            self.need(s)
            return s
        if isinstance(v, ir.Call) and self.c.fills(_name_of(v.func)):
            given = tuple(a for a in v.args if isinstance(a.value, ir.Name) and a.value.id in self.needed)
            if given:
                self.need(v.func)
                blank = tuple(
                    a if a in given else ir.Arg(a.nid, ir.Opaque(a.nid, UNEVALUATED), a.keyword, a.star) for a in v.args
                )
                return ir.ExprStmt(s.nid, ir.Call(v.nid, v.func, blank))
        return None

    def assignment(self, s: ir.Assign | ir.AnnAssign | ir.AugAssign) -> ir.Stmt | None:
        targets = s.targets if isinstance(s, ir.Assign) else (s.target,)
        value = s.value
        if value is None:
            return None
        calls = self.holds_call(value)
        if calls:
            self.any_kept = True
        wanted = calls or self.binds_needed(value)
        for t in targets:
            if any(n in self.needed for n in target_names(t)):
                wanted = True
            for x in t.items if isinstance(t, (ir.TupleExpr, ir.ListExpr)) else (t,):
                if isinstance(x, ir.Subscript) and root_of(x) in self.needed and isinstance(x.value, ir.Name):
                    wanted = True
        if wanted:
            self.need(s)
            return s
        if not self.c.keep_stores:
            return None
        stores = [
            x
            for t in targets
            for x in (t.items if isinstance(t, (ir.TupleExpr, ir.ListExpr)) else (t,))
            if isinstance(x, ir.Attribute) or (isinstance(x, ir.Subscript) and self.outlives(x.value))
        ]
        if not stores:
            return None
        for x in stores:
            self.need(x.value)
            if isinstance(x, ir.Subscript):
                self.need(x.index)
        if isinstance(s, ir.Assign) and len(targets) == 1 and targets[0] is stores[0] and self.cheap(value):
            self.need(value)
            return s
        return ir.Assign(s.nid, tuple(stores), ir.Opaque(s.nid, UNEVALUATED))

    def outlives(self, e: ir.Expr) -> bool:
        """Whether an expression names something that is there after the call: an attribute, or an outer name."""
        if not isinstance(e, ir.Name):
            return isinstance(e, ir.Attribute)
        return self.c.outer(e.id) or any(e.id in names and self.c.outer(n) for n, names in self.aliases.items())

    def cheap(self, e: ir.Expr) -> bool:
        """No call, and no local that would have to be computed for it."""
        for x in self.cache.parts(e):
            if isinstance(x, (ir.Call, ir.Comp, ir.Lambda, ir.Await, ir.Yield, ir.BinOp, ir.Subscript)):
                return False
            if isinstance(x, ir.Name) and x.id not in self.params and x.id not in self.needed and x.id[:1].islower():
                return False
        return True

    def conditional(self, s: ir.If, after: bool, in_loop: bool) -> ir.Stmt | None:
        before = self.any_kept
        self.any_kept = False
        body = self.block(s.body, after, in_loop)
        orelse = self.block(s.orelse, after, in_loop)
        real = self.any_kept
        self.any_kept = before or real
        calls = self.holds_call(s.test) or self.binds_needed(s.test)
        if not body and not orelse and not calls:
            return None
        only_a_check = not real and not calls and _only_raises(body) and _only_raises(orelse)
        if only_a_check and not self.c.mentions(s.test) and self._calls(s.test):
            return None  # a check whose outcome would cost more than the path that it cuts off
        if not real and not calls and not self.c.wants_value and _only_stores(body) and _only_stores(orelse):
            # Only stores of untracked attributes: both may or may not happen.
            pass
        self.need(s.test)
        return replace(s, body=body or (ir.Pass(s.nid),), orelse=orelse)

    def loop(self, s: ir.For | ir.While, after: bool, in_loop: bool) -> ir.Stmt | None:
        before = self.any_kept
        self.any_kept = False
        orelse = self.block(s.orelse, after, in_loop)
        body = self.block(s.body, after, False)
        kept = self.any_kept or bool(orelse) or any(not isinstance(x, (ir.Global, ir.Nonlocal)) for x in body)
        if kept:
            body = self.block(s.body, after, True)
        self.any_kept = before or self.any_kept
        head = s.iter if isinstance(s, ir.For) else s.test
        if isinstance(s, ir.For) and any(n in self.needed for n in target_names(s.target)):
            kept = True
        if not kept and not orelse and not self.holds_call(head) and not self.binds_needed(head):
            return None
        self.need(head)
        if isinstance(s, ir.For):
            self.need(s.target)
        return replace(s, body=body or (ir.Pass(s.nid),), orelse=orelse)

    def suppresses(self, e: ir.Expr) -> bool:
        """Whether a with-item is made by what may swallow an exception."""
        return isinstance(e, ir.Call) and self.c.swallows(_name_of(e.func))

    def with_(self, s: ir.With, after: bool, in_loop: bool) -> ir.Stmt | None:
        items: list[ir.WithItem] = []
        for item in s.items:
            names = list(target_names(item.target)) if item.target is not None else []
            wanted = self.holds_call(item.value) or self.binds_needed(item.value) or self.suppresses(item.value)
            if wanted or any(n in self.needed for n in names):
                items.append(item)
                self.any_kept = self.any_kept or self.holds_call(item.value)
        body = self.block(s.body, after, in_loop, guarded=any(self.suppresses(item.value) for item in s.items))
        if _nothing(body) and not any(self.holds_call(item.value) for item in items):
            body = ()
        if not items:
            if not body:
                return None
            return ir.If(s.nid, ir.Const(s.nid, True), body, ())
        self.need(tuple(items))
        return replace(s, items=tuple(items), body=body or (ir.Pass(s.nid),))

    def try_(self, s: ir.Try, after: bool, in_loop: bool) -> ir.Stmt | None:
        final = self.block(s.final, after, in_loop)
        orelse = self.block(s.orelse, after or bool(final), in_loop)
        handlers = tuple(
            ir.Handler(h.nid, h.type, h.name, self.block(h.body, after or bool(final), in_loop)) for h in s.handlers
        )
        body = self.block(s.body, after or bool(orelse) or bool(final), in_loop, guarded=bool(s.handlers))
        if _nothing(body) and not orelse and not final and not any(h.body for h in handlers):
            return None
        for h in s.handlers:
            self.need(h.type)
        handlers = tuple(h if h.body else ir.Handler(h.nid, h.type, h.name, (ir.Pass(h.nid),)) for h in handlers)
        return replace(s, body=body or (ir.Pass(s.nid),), handlers=handlers, orelse=orelse, final=final)


def _nothing(body: tuple[ir.Stmt, ...]) -> bool:
    return all(isinstance(s, ir.Opaque) and s.reason == LEFT_OUT for s in body)


def _name_of(f: ir.Expr | None) -> str:
    """The last name of a dotted one."""
    return f.attr if isinstance(f, ir.Attribute) else f.id if isinstance(f, ir.Name) else ""


def _only_raises(body: tuple[ir.Stmt, ...]) -> bool:
    return all(isinstance(s, (ir.Raise, ir.Pass)) for s in body)


def _only_stores(body: tuple[ir.Stmt, ...]) -> bool:
    return all(isinstance(s, ir.Assign) for s in body)


def _declared(body: tuple[ir.Stmt, ...]) -> set[str]:
    """The names that a body declares ``global`` or ``nonlocal``: what it stores there outlives the call."""
    return {name for s in sub_expressions(body) if isinstance(s, (ir.Global, ir.Nonlocal)) for name in s.names}


def slice_body(
    body: tuple[ir.Stmt, ...], criterion: Criterion, params: frozenset[str], cache: SliceCache
) -> tuple[ir.Stmt, ...]:
    """The statements of ``body`` that ``criterion`` needs."""
    slicer = _Slicer(criterion, params, cache, body)
    if criterion.keep_stores:
        slicer.needed |= _declared(body)
    result: tuple[ir.Stmt, ...] = ()
    rounds = 0
    while slicer.grew and rounds < 12:
        slicer.grew = False
        rounds += 1
        slicer.any_kept = False
        result = slicer.block(body, False, False)
    if slicer.grew:
        return body
    return result
