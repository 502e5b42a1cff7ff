"""The standard ``ast`` as an oracle: both trees of one text as nested tuples, each with the positions of its nodes.

A dump is ``(kind, fields…, position)``; position is (line, column, end line, end column) from 1 in code points, None
for nodes that ``ast`` gives no position or a wrong one (inside f-strings before Python 3.12).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import Any

from flowcheck.syntax import ModuleSyntax, ir

Position = "tuple[int, int, int, int] | None"

_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not", ast.And: "and", ast.Or: "or", ast.Eq: "==",
    ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not",
    ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


class AstDump:
    """Dumps the standard tree of ``text``, which has "\\n" line ends."""

    def __init__(self, text: str) -> None:
        self._lines = [line.encode("utf-8", "surrogatepass") for line in text.split("\n")]
        self._tree = ast.parse(text)
        self._in_fstring = 0

    def module(self) -> list[Any]:
        return self._all(self._tree.body, "")

    def _column(self, line: int, offset: int) -> int:
        return len(self._lines[line - 1][:offset].decode("utf-8", "surrogatepass")) + 1

    def _at(self, node: Any) -> Any:
        if self._in_fstring and sys.version_info < (3, 12):
            return None
        return (
            node.lineno, self._column(node.lineno, node.col_offset),
            node.end_lineno, self._column(node.end_lineno, node.end_col_offset),
        )  # fmt: skip

    def _all(self, nodes: list[Any], scope: str) -> list[Any]:
        return [self._stmt(node, scope) for node in nodes]

    def _maybe(self, node: Any) -> Any:
        return None if node is None else self._expr(node)

    def _exprs(self, nodes: list[Any]) -> list[Any]:
        return [self._expr(node) for node in nodes]

    def _args(self, args: list[Any], keywords: list[Any]) -> list[Any]:
        """Arguments as a bag: the standard tree does not keep the order of positional and keyword ones."""
        result = []
        for arg in args:
            starred = isinstance(arg, ast.Starred)
            result.append(("Arg", self._expr(arg.value if starred else arg), None, "*" if starred else ""))
        result += [("Arg", self._expr(each.value), each.arg, "" if each.arg else "**") for each in keywords]
        return sorted(result, key=repr)

    def _params(self, node: ast.arguments) -> list[Any]:
        plain = [("pos", arg) for arg in node.posonlyargs] + [("arg", arg) for arg in node.args]
        defaults: list[Any] = [None] * (len(plain) - len(node.defaults)) + list(node.defaults)
        items = [(kind, arg, default) for (kind, arg), default in zip(plain, defaults, strict=True)]
        items += [("*", node.vararg, None)] if node.vararg else []
        items += [("kw", arg, default) for arg, default in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
        items += [("**", node.kwarg, None)] if node.kwarg else []
        return [(arg.arg, kind, self._maybe(default), self._maybe(arg.annotation)) for kind, arg, default in items]

    def _expr(self, node: Any) -> Any:
        kind = type(node).__name__
        return (*getattr(self, f"_{kind}", self._unknown)(node), self._at(node))

    def _unknown(self, node: Any) -> Any:
        raise AssertionError(f"the oracle does not know {type(node).__name__}")

    def _Constant(self, node: Any) -> Any:
        return ("Const", repr(node.value))

    def _Name(self, node: Any) -> Any:
        return ("Name", node.id)

    def _Attribute(self, node: Any) -> Any:
        return ("Attribute", self._expr(node.value), node.attr)

    def _Call(self, node: Any) -> Any:
        return ("Call", self._expr(node.func), self._args(node.args, node.keywords))

    def _Subscript(self, node: Any) -> Any:
        index = self._expr(node.slice)
        # The span of a bare tuple in a subscript was none before Python 3.9 and is that of its items since.
        return ("Subscript", self._expr(node.value), index)

    def _Slice(self, node: Any) -> Any:
        return ("Slice", self._maybe(node.lower), self._maybe(node.upper), self._maybe(node.step))

    def _Starred(self, node: Any) -> Any:
        return ("Star", self._expr(node.value))

    def _Tuple(self, node: Any) -> Any:
        return ("TupleExpr", self._exprs(node.elts))

    def _List(self, node: Any) -> Any:
        return ("ListExpr", self._exprs(node.elts))

    def _Set(self, node: Any) -> Any:
        return ("SetExpr", self._exprs(node.elts))

    def _Dict(self, node: Any) -> Any:
        items = zip(node.keys, node.values, strict=True)
        return ("DictExpr", [(self._maybe(key), self._expr(value)) for key, value in items])

    def _BinOp(self, node: Any) -> Any:
        return ("BinOp", _OPERATORS[type(node.op)], self._expr(node.left), self._expr(node.right))

    def _UnaryOp(self, node: Any) -> Any:
        return ("UnaryOp", _OPERATORS[type(node.op)], self._expr(node.operand))

    def _BoolOp(self, node: Any) -> Any:
        return ("BoolOp", _OPERATORS[type(node.op)], self._exprs(node.values))

    def _Compare(self, node: Any) -> Any:
        ops = [_OPERATORS[type(op)] for op in node.ops]
        return ("Compare", self._expr(node.left), ops, self._exprs(node.comparators))

    def _IfExp(self, node: Any) -> Any:
        return ("IfExp", self._expr(node.test), self._expr(node.body), self._expr(node.orelse))

    def _Lambda(self, node: Any) -> Any:
        return ("Lambda", self._params(node.args), self._expr(node.body))

    def _comprehension(self, kind: str, key: Any, element: Any, generators: list[Any]) -> Any:
        clauses = [
            (self._expr(each.target), self._expr(each.iter), self._exprs(each.ifs), bool(each.is_async))
            for each in generators
        ]
        return ("Comp", kind, self._maybe(key), self._expr(element), clauses)

    def _ListComp(self, node: Any) -> Any:
        return self._comprehension("list", None, node.elt, node.generators)

    def _SetComp(self, node: Any) -> Any:
        return self._comprehension("set", None, node.elt, node.generators)

    def _GeneratorExp(self, node: Any) -> Any:
        return self._comprehension("generator", None, node.elt, node.generators)

    def _DictComp(self, node: Any) -> Any:
        return self._comprehension("dict", node.key, node.value, node.generators)

    def _JoinedStr(self, node: Any) -> Any:
        parts: list[Any] = []
        plain = True
        self._in_fstring += 1
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(part.value)
            else:
                plain &= part.conversion == -1 and part.format_spec is None
                parts.append(self._expr(part.value))
        self._in_fstring -= 1
        return ("FString", parts, plain)

    def _NamedExpr(self, node: Any) -> Any:
        return ("Walrus", self._expr(node.target), self._expr(node.value))

    def _Await(self, node: Any) -> Any:
        return ("Await", self._expr(node.value))

    def _Yield(self, node: Any) -> Any:
        return ("Yield", self._maybe(node.value), False)

    def _YieldFrom(self, node: Any) -> Any:
        return ("Yield", self._expr(node.value), True)

    def _stmt(self, node: Any, scope: str) -> Any:
        kind = type(node).__name__.replace("Async", "").replace("TryStar", "Try")
        return (*getattr(self, f"_stmt_{kind}", self._unknown_stmt)(node, scope), self._at(node))

    def _unknown_stmt(self, node: Any, scope: str) -> Any:
        raise AssertionError(f"the oracle does not know {type(node).__name__}")

    def _stmt_Expr(self, node: Any, scope: str) -> Any:
        return ("ExprStmt", self._expr(node.value))

    def _stmt_Assign(self, node: Any, scope: str) -> Any:
        return ("Assign", self._exprs(node.targets), self._expr(node.value))

    def _stmt_AnnAssign(self, node: Any, scope: str) -> Any:
        return ("AnnAssign", self._expr(node.target), self._expr(node.annotation), self._maybe(node.value))

    def _stmt_AugAssign(self, node: Any, scope: str) -> Any:
        return ("AugAssign", self._expr(node.target), _OPERATORS[type(node.op)], self._expr(node.value))

    def _stmt_Return(self, node: Any, scope: str) -> Any:
        return ("Return", self._maybe(node.value))

    def _stmt_Pass(self, node: Any, scope: str) -> Any:
        return ("Pass",)

    def _stmt_Break(self, node: Any, scope: str) -> Any:
        return ("Break",)

    def _stmt_Continue(self, node: Any, scope: str) -> Any:
        return ("Continue",)

    def _stmt_If(self, node: Any, scope: str) -> Any:
        return ("If", self._expr(node.test), self._all(node.body, scope), self._all(node.orelse, scope))

    def _stmt_For(self, node: Any, scope: str) -> Any:
        parts = self._expr(node.target), self._expr(node.iter), self._all(node.body, scope)
        return ("For", *parts, self._all(node.orelse, scope), isinstance(node, ast.AsyncFor))

    def _stmt_While(self, node: Any, scope: str) -> Any:
        return ("While", self._expr(node.test), self._all(node.body, scope), self._all(node.orelse, scope))

    def _stmt_Try(self, node: Any, scope: str) -> Any:
        handlers = [
            ("Handler", self._maybe(each.type), each.name, self._all(each.body, scope), self._at(each))
            for each in node.handlers
        ]
        blocks = self._all(node.orelse, scope), self._all(node.finalbody, scope)
        return ("Try", self._all(node.body, scope), handlers, *blocks, type(node).__name__ == "TryStar")

    def _stmt_With(self, node: Any, scope: str) -> Any:
        items = [(self._expr(each.context_expr), self._maybe(each.optional_vars)) for each in node.items]
        return ("With", items, self._all(node.body, scope), isinstance(node, ast.AsyncWith))

    def _stmt_Raise(self, node: Any, scope: str) -> Any:
        return ("Raise", self._maybe(node.exc), self._maybe(node.cause))

    def _stmt_Assert(self, node: Any, scope: str) -> Any:
        return ("Assert", self._expr(node.test), self._maybe(node.msg))

    def _stmt_Global(self, node: Any, scope: str) -> Any:
        return ("Global", node.names)

    def _stmt_Nonlocal(self, node: Any, scope: str) -> Any:
        return ("Nonlocal", node.names)

    def _stmt_Delete(self, node: Any, scope: str) -> Any:
        return ("Delete", self._exprs(node.targets))

    def _stmt_Import(self, node: Any, scope: str) -> Any:
        return ("Import", [(each.name, each.asname) for each in node.names])

    def _stmt_ImportFrom(self, node: Any, scope: str) -> Any:
        return ("ImportFrom", node.module or "", node.level, [(each.name, each.asname) for each in node.names])

    def _stmt_FunctionDef(self, node: Any, scope: str) -> Any:
        body = self._all(node.body, f"{scope}{node.name}.<locals>.")
        header = self._exprs(node.decorator_list), self._params(node.args), self._maybe(node.returns)
        flags = isinstance(node, ast.AsyncFunctionDef), _yields(node)
        return ("FunctionDef", node.name, *header, body, *flags, node.lineno, node.end_lineno, scope + node.name)

    def _stmt_ClassDef(self, node: Any, scope: str) -> Any:
        parts = self._exprs(node.decorator_list), self._args(node.bases, node.keywords)
        body = self._all(node.body, f"{scope}{node.name}.")
        return ("ClassDef", node.name, *parts, body, node.lineno, node.end_lineno, scope + node.name)

    def _stmt_Match(self, node: Any, scope: str) -> Any:
        cases = [
            (self._pattern(each.pattern), self._maybe(each.guard), self._all(each.body, scope)) for each in node.cases
        ]
        return ("Match", self._expr(node.subject), cases)

    def _pattern(self, node: Any) -> Any:
        def dump(kind: str, expr: Any = None, name: Any = None, children: Any = (), keys: Any = ()) -> Any:
            return ("Pattern", kind, expr, name, [self._pattern(child) for child in children], list(keys))

        kind = type(node).__name__
        if kind == "MatchValue":
            return dump("value", self._expr(node.value))
        if kind == "MatchSingleton":
            return dump("singleton", repr(node.value))
        if kind == "MatchSequence":
            return dump("sequence", children=node.patterns)
        if kind == "MatchStar":
            return dump("star", name=node.name)
        if kind == "MatchMapping":
            return dump("mapping", name=node.rest, children=node.patterns, keys=self._exprs(node.keys))
        if kind == "MatchClass":
            children = [*node.patterns, *node.kwd_patterns]
            return dump("class", self._expr(node.cls), None, children, [None] * len(node.patterns) + node.kwd_attrs)
        if kind == "MatchOr":
            return dump("or", children=node.patterns)
        if node.pattern is None:
            return dump("capture", name=node.name)
        return dump("as", name=node.name, children=[node.pattern])


def _yields(function: Any) -> bool:
    """Whether a function is a generator, by CPython's own rule: a yield in its body and in no scope inside."""
    pending = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            pending += [*node.decorator_list, *node.args.defaults, *(each for each in node.args.kw_defaults if each)]
        elif isinstance(node, ast.Lambda):
            pending += [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]
        else:
            pending += ast.iter_child_nodes(node)
    return False


class IrDump:
    """Dumps the IR of a whole module, every function's body included, in the oracle's shape."""

    def __init__(self, module: ModuleSyntax, fields_positions: bool = sys.version_info >= (3, 12)) -> None:
        self._module = module
        self._owner: ir.FunctionDef | None = None
        self._in_fstring = 0
        self._field_positions = fields_positions

    def module(self) -> list[Any]:
        return self._all(self._module.body)

    def _at(self, node: ir.Node) -> Any:
        if self._in_fstring and not self._field_positions:
            return None
        span = self._module.span(self._owner, node.nid)
        return (span.line, span.column, span.end_line, span.end_column)

    def _all(self, nodes: Any) -> list[Any]:
        return [self._node(node) for node in nodes]

    def _node(self, node: Any) -> Any:
        if node is None:
            return None
        kind = type(node).__name__
        special: Callable[[Any], Any] | None = getattr(self, f"_{kind}", None)
        fields = special(node) if special is not None else self._fields(node)
        return (kind, *fields, self._at(node))

    def _fields(self, node: Any) -> list[Any]:
        return [self._value(getattr(node, name)) for name in node.__struct_fields__ if name != "nid"]

    def _value(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return [self._value(each) for each in value]
        return self._node(value) if isinstance(value, ir.Node) else value

    def _bag(self, args: Any) -> list[Any]:
        return sorted([("Arg", self._node(arg.value), arg.keyword, arg.star) for arg in args], key=repr)

    def _Const(self, node: ir.Const) -> Any:
        return [repr(node.value)]

    def _Call(self, node: ir.Call) -> Any:
        return [self._node(node.func), self._bag(node.args)]

    def _Lambda(self, node: ir.Lambda) -> Any:
        return [self._params(node.params), self._node(node.body)]

    def _params(self, node: ir.Params) -> list[Any]:
        return [(each.name, each.kind, self._node(each.default), self._node(each.annotation)) for each in node.items]

    def _DictExpr(self, node: ir.DictExpr) -> Any:
        return [[(self._node(key), self._node(value)) for key, value in node.items]]

    def _Comp(self, node: ir.Comp) -> Any:
        clauses = [
            (self._node(each.target), self._node(each.iter), self._all(each.ifs), each.is_async)
            for each in node.generators
        ]
        return [node.kind, self._node(node.key), self._node(node.element), clauses]

    def _FString(self, node: ir.FString) -> Any:
        self._in_fstring += 1
        parts = [part if isinstance(part, str) else self._node(part) for part in node.parts]
        self._in_fstring -= 1
        return [parts, node.plain]

    def _With(self, node: ir.With) -> Any:
        items = [(self._node(each.value), self._node(each.target)) for each in node.items]
        return [items, self._all(node.body), node.is_async]

    def _Import(self, node: ir.Import) -> Any:
        return [list(node.names)]

    def _ImportFrom(self, node: ir.ImportFrom) -> Any:
        return [node.module, node.level, list(node.names)]

    def _FunctionDef(self, node: ir.FunctionDef) -> Any:
        header = self._all(node.decorators), self._params(node.params), self._node(node.returns)
        if node.body is None:
            assert self._owner is None
            self._owner = node
            body = self._all(self._module.body_of(node))
            self._owner = None
        else:
            body = self._all(node.body)
        return [node.name, *header, body, node.is_async, node.is_generator, node.line, node.end_line, node.qualname]

    def _ClassDef(self, node: ir.ClassDef) -> Any:
        parts = self._all(node.decorators), self._bag(node.bases), self._all(node.body)
        return [node.name, *parts, node.line, node.end_line, node.qualname]

    def _Match(self, node: ir.Match) -> Any:
        cases = [(self._pattern(each.pattern), self._node(each.guard), self._all(each.body)) for each in node.cases]
        return [self._node(node.subject), cases]

    def _pattern(self, node: ir.Pattern) -> Any:
        singleton = node.kind == "singleton" and isinstance(node.expr, ir.Const)
        expr = repr(node.expr.value) if singleton else self._node(node.expr)  # type: ignore[union-attr]
        keys = [self._value(key) for key in node.keys]
        return ("Pattern", node.kind, expr, node.name, [self._pattern(child) for child in node.children], keys)


def difference(expected: Any, actual: Any, path: str = "") -> str | None:
    """The first place where two dumps differ, as one line; None where they agree."""
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        head = f"{path}/{expected[0]}" if expected and isinstance(expected[0], str) else path
        if len(expected) != len(actual) and not (isinstance(expected, tuple) and isinstance(actual, tuple)):
            return f"{head}: {len(expected)} items expected, {len(actual)} found"
        for index, (left, right) in enumerate(zip(expected, actual)):  # noqa: B905 - a shorter one differs earlier
            found = difference(left, right, f"{head}[{index}]")
            if found is not None:
                return found
        return None if len(expected) == len(actual) else f"{head}: {expected!r:.200} expected, {actual!r:.200} found"
    return None if expected == actual else f"{path}: {expected!r:.200} expected, {actual!r:.200} found"
