"""The intermediate representation that the interpreter walks.

Owns the node classes and nothing else: no parsing, no names, no values. The nodes are msgspec structs compared by
identity: building one costs a third of a dataclass, the garbage collector does not visit them (a tree has no cycles:
keep it so), and a cached definition is decoded and type-checked in C without executing anything.

They do not carry positions: most nodes are never shown to anybody, and positions cost three times the parse. Each node
carries ``nid``, its number in the slice that was lowered with it (a module's top level, or one function's body);
:meth:`flowcheck.syntax.ModuleSyntax.span` turns ``(owner, nid)`` into an exact position when a report needs one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

import msgspec

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


class Node(msgspec.Struct, eq=False, gc=False, array_like=True, tag_field="$node"):
    """Any node. ``nid`` numbers it within its owner's slice, in the order of lowering (parents before children)."""

    nid: int


# ------------------------------------------------------------------------------------------------------ expressions
class Const(Node, tag=1):
    """A literal: None, bool, int, float, complex, str, bytes or Ellipsis."""

    value: Any


class Name(Node, tag=2):
    id: str


class Attribute(Node, tag=3):
    value: Expr
    attr: str


class Arg(Node, tag=4):
    """One argument of a call or base of a class: ``star`` is "", "*" or "**"; ``keyword`` is set for ``k=v``."""

    value: Expr
    keyword: str | None = None
    star: str = ""


class Call(Node, tag=5):
    func: Expr
    args: tuple[Arg, ...]


class Slice(Node, tag=6):
    lower: Expr | None
    upper: Expr | None
    step: Expr | None


class Subscript(Node, tag=7):
    """``value[index]``; several subscripts are one :class:`TupleExpr`, as in Python's own data model."""

    value: Expr
    index: Expr


class Star(Node, tag=8):
    """``*x`` inside a display or a target list."""

    value: Expr


class TupleExpr(Node, tag=9):
    items: tuple[Expr, ...]


class ListExpr(Node, tag=10):
    items: tuple[Expr, ...]


class SetExpr(Node, tag=11):
    items: tuple[Expr, ...]


class DictExpr(Node, tag=12):
    """Keys are None for ``**mapping``."""

    items: tuple[tuple[Expr | None, Expr], ...]


class BinOp(Node, tag=13):
    """``op`` is the operator's text: "+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>", "&", "|", "^"."""

    op: str
    left: Expr
    right: Expr


class UnaryOp(Node, tag=14):
    """``op`` is "-", "+", "~" or "not"."""

    op: str
    operand: Expr


class BoolOp(Node, tag=15):
    """``op`` is "and" or "or"; chains of the same operator are flattened into ``values``."""

    op: str
    values: tuple[Expr, ...]


class Compare(Node, tag=16):
    """``ops``: "==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"."""

    left: Expr
    ops: tuple[str, ...]
    comparators: tuple[Expr, ...]


class IfExp(Node, tag=17):
    test: Expr
    body: Expr
    orelse: Expr


class Param(Node, tag=18):
    """One parameter; ``kind`` is "pos" (positional only), "arg", "*", "kw" (keyword only) or "**"."""

    name: str
    kind: str
    default: Expr | None
    annotation: Expr | None


class Params(Node, tag=19):
    items: tuple[Param, ...]


class Lambda(Node, tag=20):
    params: Params
    body: Expr


class Generator(Node, tag=21):
    """One ``for target in iter if …`` of a comprehension."""

    target: Expr
    iter: Expr
    ifs: tuple[Expr, ...]
    is_async: bool = False


class Comp(Node, tag=22):
    """A comprehension; ``kind`` is "list", "set", "dict" or "generator". ``key`` is set for "dict" alone."""

    kind: str
    key: Expr | None
    element: Expr
    generators: tuple[Generator, ...]


class FString(Node, tag=23):
    """An f-string: strings and expressions in order. ``plain``: no part has a format spec or conversion."""

    parts: tuple[Union[str, Expr], ...]
    plain: bool = True


class Walrus(Node, tag=24):
    target: Expr
    value: Expr


class Await(Node, tag=25):
    value: Expr


class Yield(Node, tag=26):
    value: Expr | None
    is_from: bool = False


class Opaque(Node, tag=27):
    """Syntax that the lowering does not model; the interpreter answers "unknown" with this reason."""

    reason: str


Expr = Union[
    Const, Name, Attribute, Call, Subscript, Slice, Star, TupleExpr, ListExpr, SetExpr, DictExpr, BinOp, UnaryOp,
    BoolOp, Compare, IfExp, Lambda, Comp, FString, Walrus, Await, Yield, Opaque,
]  # fmt: skip


# ------------------------------------------------------------------------------------------------------- statements
class ExprStmt(Node, tag=28):
    value: Expr


class Assign(Node, tag=29):
    """``a = b = value`` has two targets."""

    targets: tuple[Expr, ...]
    value: Expr


class AnnAssign(Node, tag=30):
    target: Expr
    annotation: Expr
    value: Expr | None


class AugAssign(Node, tag=31):
    """``op`` without the "=": "+" for "+="."""

    target: Expr
    op: str
    value: Expr


class Return(Node, tag=32):
    value: Expr | None


class Pass(Node, tag=33):
    pass


class Break(Node, tag=34):
    pass


class Continue(Node, tag=35):
    pass


class If(Node, tag=36):
    """``elif`` is an :class:`If` alone in ``orelse``."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


class For(Node, tag=37):
    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    is_async: bool = False


class While(Node, tag=38):
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


class Handler(Node, tag=39):
    type: Expr | None
    name: str | None
    body: tuple[Stmt, ...]


class Try(Node, tag=40):
    body: tuple[Stmt, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]
    is_star: bool = False


class WithItem(Node, tag=41):
    value: Expr
    target: Expr | None


class With(Node, tag=42):
    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]
    is_async: bool = False


class Raise(Node, tag=43):
    exc: Expr | None
    cause: Expr | None


class Assert(Node, tag=44):
    test: Expr
    message: Expr | None


class Global(Node, tag=45):
    names: tuple[str, ...]


class Nonlocal(Node, tag=46):
    names: tuple[str, ...]


class Delete(Node, tag=47):
    targets: tuple[Expr, ...]


class Import(Node, tag=48):
    """``import a.b as c`` is ("a.b", "c")."""

    names: tuple[tuple[str, str | None], ...]


class ImportFrom(Node, tag=49):
    """``from ..m import a as b``: module "m" ("" for ``from . import``), level 2, names (("a", "b"),); "*" too."""

    module: str
    level: int
    names: tuple[tuple[str, str | None], ...]


class FunctionDef(Node, tag=50):
    """A function or method.

    ``body`` is None when the definition was lowered with a module's top level: ask
    :meth:`flowcheck.syntax.ModuleSyntax.body_of` for it. A function nested in a function has its body at once, numbered
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


class ClassDef(Node, tag=51):
    """``bases`` holds positional bases and keywords (``metaclass=``, ``frozen=``) alike."""

    name: str
    bases: tuple[Arg, ...]
    decorators: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    line: int
    end_line: int
    qualname: str


class Pattern(Node, tag=52):
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
    keys: tuple[Union[str, Expr, None], ...] = ()


class Case(Node, tag=53):
    pattern: Pattern
    guard: Expr | None
    body: tuple[Stmt, ...]


class Match(Node, tag=54):
    subject: Expr
    cases: tuple[Case, ...] = ()


Stmt = Union[
    ExprStmt, Assign, AnnAssign, AugAssign, Return, Pass, Break, Continue, If, For, While, Try, With, Raise, Assert,
    Global, Nonlocal, Delete, Import, ImportFrom, FunctionDef, ClassDef, Match, Opaque,
]  # fmt: skip
