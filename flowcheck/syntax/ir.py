"""The intermediate representation that the interpreter walks.

Owns the node classes and nothing else: no parsing, no names, no values. The nodes are plain, small and picklable, so
that a definition can be cached by the digest of its bytes. They do not carry positions: most nodes are never shown to
anybody, and positions cost three times the parse. Each node carries ``nid``, its number in the slice that was lowered
with it (a module's top level, or one function's body); :meth:`flowcheck.syntax.ModuleSyntax.span` turns
``(owner, nid)`` into an exact position when a report needs one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

__all__ = [
    "AnnAssign", "Arg", "Assert", "Assign", "Attribute", "AugAssign", "Await", "BinOp", "BoolOp", "Break", "Call",
    "Case", "ClassDef", "Comp", "Compare", "Const", "Continue", "Delete", "DictExpr", "Expr", "ExprStmt", "FString",
    "For", "FunctionDef", "Generator", "Global", "Handler", "If", "IfExp", "Import", "ImportFrom", "Lambda", "ListExpr",
    "Match", "Name", "Node", "Nonlocal", "Opaque", "Param", "Params", "Pass", "Pattern", "Raise", "Return", "SetExpr",
    "Slice", "Span", "Star", "Stmt", "Subscript", "Try", "TupleExpr", "UnaryOp", "Walrus", "While", "With", "WithItem",
    "Yield",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text as an editor counts it: lines and columns from 1, columns in code points.

    ``end_column`` is the column after the last character, so that an empty range has ``column == end_column``.
    """

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(slots=True, eq=False)
class Node:
    """Any node. ``nid`` numbers it within its owner's slice, in the order of lowering (parents before children)."""

    nid: int


# ------------------------------------------------------------------------------------------------------ expressions
@dataclass(slots=True, eq=False)
class Const(Node):
    """A literal: None, bool, int, float, complex, str, bytes or Ellipsis."""

    value: Any


@dataclass(slots=True, eq=False)
class Name(Node):
    id: str


@dataclass(slots=True, eq=False)
class Attribute(Node):
    value: Expr
    attr: str


@dataclass(slots=True, eq=False)
class Arg(Node):
    """One argument of a call or base of a class: ``star`` is "", "*" or "**"; ``keyword`` is set for ``k=v``."""

    value: Expr
    keyword: str | None = None
    star: str = ""


@dataclass(slots=True, eq=False)
class Call(Node):
    func: Expr
    args: tuple[Arg, ...]


@dataclass(slots=True, eq=False)
class Slice(Node):
    lower: Expr | None
    upper: Expr | None
    step: Expr | None


@dataclass(slots=True, eq=False)
class Subscript(Node):
    """``value[index]``; several subscripts are one :class:`TupleExpr`, as in Python's own data model."""

    value: Expr
    index: Expr


@dataclass(slots=True, eq=False)
class Star(Node):
    """``*x`` inside a display or a target list."""

    value: Expr


@dataclass(slots=True, eq=False)
class TupleExpr(Node):
    items: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class ListExpr(Node):
    items: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class SetExpr(Node):
    items: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class DictExpr(Node):
    """Keys are None for ``**mapping``."""

    items: tuple[tuple[Expr | None, Expr], ...]


@dataclass(slots=True, eq=False)
class BinOp(Node):
    """``op`` is the operator's text: "+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>", "&", "|", "^"."""

    op: str
    left: Expr
    right: Expr


@dataclass(slots=True, eq=False)
class UnaryOp(Node):
    """``op`` is "-", "+", "~" or "not"."""

    op: str
    operand: Expr


@dataclass(slots=True, eq=False)
class BoolOp(Node):
    """``op`` is "and" or "or"; chains of the same operator are flattened into ``values``."""

    op: str
    values: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class Compare(Node):
    """``ops``: "==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"."""

    left: Expr
    ops: tuple[str, ...]
    comparators: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class IfExp(Node):
    test: Expr
    body: Expr
    orelse: Expr


@dataclass(slots=True, eq=False)
class Param(Node):
    """One parameter; ``kind`` is "pos" (positional only), "arg", "*", "kw" (keyword only) or "**"."""

    name: str
    kind: str
    default: Expr | None
    annotation: Expr | None


@dataclass(slots=True, eq=False)
class Params(Node):
    items: tuple[Param, ...]


@dataclass(slots=True, eq=False)
class Lambda(Node):
    params: Params
    body: Expr


@dataclass(slots=True, eq=False)
class Generator(Node):
    """One ``for target in iter if …`` of a comprehension."""

    target: Expr
    iter: Expr
    ifs: tuple[Expr, ...]
    is_async: bool = False


@dataclass(slots=True, eq=False)
class Comp(Node):
    """A comprehension; ``kind`` is "list", "set", "dict" or "generator". ``key`` is set for "dict" alone."""

    kind: str
    key: Expr | None
    element: Expr
    generators: tuple[Generator, ...]


@dataclass(slots=True, eq=False)
class FString(Node):
    """An f-string: strings and expressions in order. ``plain`` is False where a part has a format spec or conversion."""

    parts: tuple[Union[str, Expr], ...]
    plain: bool = True


@dataclass(slots=True, eq=False)
class Walrus(Node):
    target: Expr
    value: Expr


@dataclass(slots=True, eq=False)
class Await(Node):
    value: Expr


@dataclass(slots=True, eq=False)
class Yield(Node):
    value: Expr | None
    is_from: bool = False


@dataclass(slots=True, eq=False)
class Opaque(Node):
    """Syntax that the lowering does not model; the interpreter answers "unknown" with this reason."""

    reason: str


Expr = Union[
    Const, Name, Attribute, Call, Subscript, Slice, Star, TupleExpr, ListExpr, SetExpr, DictExpr, BinOp, UnaryOp,
    BoolOp, Compare, IfExp, Lambda, Comp, FString, Walrus, Await, Yield, Opaque,
]  # fmt: skip


# ------------------------------------------------------------------------------------------------------- statements
@dataclass(slots=True, eq=False)
class ExprStmt(Node):
    value: Expr


@dataclass(slots=True, eq=False)
class Assign(Node):
    """``a = b = value`` has two targets."""

    targets: tuple[Expr, ...]
    value: Expr


@dataclass(slots=True, eq=False)
class AnnAssign(Node):
    target: Expr
    annotation: Expr
    value: Expr | None


@dataclass(slots=True, eq=False)
class AugAssign(Node):
    """``op`` without the "=": "+" for "+="."""

    target: Expr
    op: str
    value: Expr


@dataclass(slots=True, eq=False)
class Return(Node):
    value: Expr | None


@dataclass(slots=True, eq=False)
class Pass(Node):
    pass


@dataclass(slots=True, eq=False)
class Break(Node):
    pass


@dataclass(slots=True, eq=False)
class Continue(Node):
    pass


@dataclass(slots=True, eq=False)
class If(Node):
    """``elif`` is an :class:`If` alone in ``orelse``."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(slots=True, eq=False)
class For(Node):
    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    is_async: bool = False


@dataclass(slots=True, eq=False)
class While(Node):
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(slots=True, eq=False)
class Handler(Node):
    type: Expr | None
    name: str | None
    body: tuple[Stmt, ...]


@dataclass(slots=True, eq=False)
class Try(Node):
    body: tuple[Stmt, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]
    is_star: bool = False


@dataclass(slots=True, eq=False)
class WithItem(Node):
    value: Expr
    target: Expr | None


@dataclass(slots=True, eq=False)
class With(Node):
    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]
    is_async: bool = False


@dataclass(slots=True, eq=False)
class Raise(Node):
    exc: Expr | None
    cause: Expr | None


@dataclass(slots=True, eq=False)
class Assert(Node):
    test: Expr
    message: Expr | None


@dataclass(slots=True, eq=False)
class Global(Node):
    names: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Nonlocal(Node):
    names: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Delete(Node):
    targets: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class Import(Node):
    """``import a.b as c`` is ("a.b", "c")."""

    names: tuple[tuple[str, str | None], ...]


@dataclass(slots=True, eq=False)
class ImportFrom(Node):
    """``from ..m import a as b``: module "m" ("" for ``from . import``), level 2, names (("a", "b"),); "*" is a name."""

    module: str
    level: int
    names: tuple[tuple[str, str | None], ...]


@dataclass(slots=True, eq=False)
class FunctionDef(Node):
    """A function or method.

    ``body`` is None when the definition was lowered with a module's top level: ask
    :meth:`flowcheck.syntax.ModuleSyntax.body` for it. A function nested in a function has its body at once, numbered
    with the enclosing slice. ``line``/``end_line`` (of the ``def``, without decorators) and ``qualname`` identify it.
    """

    name: str
    params: Params
    decorators: tuple[Expr, ...]
    returns: Expr | None
    body: tuple[Stmt, ...] | None
    is_async: bool
    is_generator: bool
    line: int
    end_line: int
    qualname: str


@dataclass(slots=True, eq=False)
class ClassDef(Node):
    """``bases`` holds positional bases and keywords (``metaclass=``, ``frozen=``) alike."""

    name: str
    bases: tuple[Arg, ...]
    decorators: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    line: int
    end_line: int
    qualname: str


@dataclass(slots=True, eq=False)
class Pattern(Node):
    """A ``match`` pattern.

    ``kind``: "value" (``expr``), "singleton" (``expr`` a Const), "capture" (``name``; None for ``_``), "sequence"
    (``children``; a starred one has kind "star" and ``name``), "mapping" (``keys`` and ``children``, rest in ``name``),
    "class" (``expr``, ``children``, ``keys`` naming the keyword ones, None for positional ones), "or" (``children``),
    "as" (``children`` one or none, ``name``).
    """

    kind: str
    expr: Expr | None = None
    name: str | None = None
    children: tuple[Pattern, ...] = ()
    keys: tuple[Any, ...] = ()


@dataclass(slots=True, eq=False)
class Case(Node):
    pattern: Pattern
    guard: Expr | None
    body: tuple[Stmt, ...]


@dataclass(slots=True, eq=False)
class Match(Node):
    subject: Expr
    cases: tuple[Case, ...] = field(default=())


Stmt = Union[
    ExprStmt, Assign, AnnAssign, AugAssign, Return, Pass, Break, Continue, If, For, While, Try, With, Raise, Assert,
    Global, Nonlocal, Delete, Import, ImportFrom, FunctionDef, ClassDef, Match, Opaque,
]  # fmt: skip
