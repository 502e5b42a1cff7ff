"""libcst statements and ``match`` patterns to the intermediate representation.

Owns what each statement becomes, and which definitions keep their body: with a module's top level no function does,
with a function's slice every nested one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flowcheck.syntax import ir
from flowcheck.syntax._lower_expr import ExprLowerer
from flowcheck.syntax._model import DefSpan

if TYPE_CHECKING:
    import libcst as cst

__all__ = ["Lowerer", "StructureMismatchError"]

_AUGMENTED = {
    "AddAssign": "+", "SubtractAssign": "-", "MultiplyAssign": "*", "DivideAssign": "/", "FloorDivideAssign": "//",
    "ModuloAssign": "%", "PowerAssign": "**", "MatrixMultiplyAssign": "@", "LeftShiftAssign": "<<",
    "RightShiftAssign": ">>", "BitAndAssign": "&", "BitOrAssign": "|", "BitXorAssign": "^",
}  # fmt: skip


class StructureMismatchError(Exception):
    """The definitions that the scanner found are not the ones that libcst found."""


class Lowerer(ExprLowerer):
    """Lowers statements. ``defs`` are the slice's definitions in source order, as the scanner found them.

    ``is_generator`` answers for a definition whose body is not part of the slice; None means that every body is.
    ``spans`` tells, after the lowering, which of ``defs`` each of libcst's definitions is.
    """

    def __init__(
        self,
        defs: Iterable[DefSpan],
        is_generator: Callable[[DefSpan], bool] | None = None,
        nodes: list[Any] | None = None,
    ) -> None:
        super().__init__(nodes)
        self._defs: Iterator[DefSpan] = iter(defs)
        self._is_generator = is_generator
        self.spans: dict[Any, DefSpan] = {}
        self._statements: dict[type, Callable[[Any], Any]] = {}

    def module(self, node: cst.Module) -> tuple[ir.Stmt, ...]:
        """A module's statements."""
        return self._block(node.body)

    def function_body(self, node: cst.FunctionDef) -> tuple[tuple[ir.Stmt, ...], bool]:
        """The statements of one function, without its header, and whether they make a generator of it."""
        self._yields = False
        return self._suite(node.body), self._yields

    def _definition(self, node: Any) -> tuple[int, DefSpan]:
        name = node.name.value
        span = next(self._defs, None)
        if span is None or span.name != name:
            raise StructureMismatchError(f"{name!r} where the scanner found {span.name if span else 'nothing'!r}")
        self.spans[node] = span
        return self._nid(node), span

    def _suite(self, node: Any) -> tuple[ir.Stmt, ...]:
        return self._block(node.body) if type(node).__name__ == "IndentedBlock" else self._small(node.body)

    def _block(self, nodes: Iterable[Any]) -> tuple[ir.Stmt, ...]:
        result: list[ir.Stmt] = []
        for node in nodes:
            if type(node).__name__ == "SimpleStatementLine":
                result += self._small(node.body)
            else:
                result.append(self._stmt(node))
        return tuple(result)

    def _small(self, nodes: Iterable[Any]) -> tuple[ir.Stmt, ...]:
        return tuple([self._stmt(node) for node in nodes])

    def _stmt(self, node: Any) -> ir.Stmt:
        kind = type(node)
        method = self._statements.get(kind)
        if method is None:
            method = self._statements[kind] = self._method("_stmt_", kind)
        result: ir.Stmt = method(node)
        return result

    # -- simple statements
    def _stmt_expr(self, node: cst.Expr) -> ir.Stmt:
        nid = self._nid(node)
        return ir.ExprStmt(nid, self.expr(node.value))

    def _stmt_assign(self, node: cst.Assign) -> ir.Stmt:
        nid = self._nid(node)
        targets = tuple(self.expr(target.target) for target in node.targets)
        return ir.Assign(nid, targets, self.expr(node.value))

    def _stmt_ann_assign(self, node: cst.AnnAssign) -> ir.Stmt:
        nid = self._nid(node)
        target, annotation = self.expr(node.target), self.expr(node.annotation.annotation)
        return ir.AnnAssign(nid, target, annotation, self.optional(node.value))

    def _stmt_aug_assign(self, node: cst.AugAssign) -> ir.Stmt:
        nid = self._nid(node)
        return ir.AugAssign(
            nid, self.expr(node.target), _AUGMENTED[type(node.operator).__name__], self.expr(node.value)
        )

    def _stmt_type_alias(self, node: cst.TypeAlias) -> ir.Stmt:
        nid = self._nid(node)
        target = self.expr(node.name)
        # The value is evaluated when somebody asks for ``__value__``, which nobody does on the way of a tensor.
        return ir.Assign(nid, (target,), ir.Opaque(self._nid(node.value), "type alias"))

    def _stmt_return(self, node: cst.Return) -> ir.Stmt:
        nid = self._nid(node)
        return ir.Return(nid, self.optional(node.value))

    def _stmt_pass(self, node: cst.Pass) -> ir.Stmt:
        return ir.Pass(self._nid(node))

    def _stmt_break(self, node: cst.Break) -> ir.Stmt:
        return ir.Break(self._nid(node))

    def _stmt_continue(self, node: cst.Continue) -> ir.Stmt:
        return ir.Continue(self._nid(node))

    def _stmt_raise(self, node: cst.Raise) -> ir.Stmt:
        nid = self._nid(node)
        cause = node.cause.item if node.cause is not None else None
        return ir.Raise(nid, self.optional(node.exc), self.optional(cause))

    def _stmt_assert(self, node: cst.Assert) -> ir.Stmt:
        nid = self._nid(node)
        return ir.Assert(nid, self.expr(node.test), self.optional(node.msg))

    def _stmt_global(self, node: cst.Global) -> ir.Stmt:
        return ir.Global(self._nid(node), tuple(item.name.value for item in node.names))

    def _stmt_nonlocal(self, node: cst.Nonlocal) -> ir.Stmt:
        return ir.Nonlocal(self._nid(node), tuple(item.name.value for item in node.names))

    def _stmt_del(self, node: cst.Del) -> ir.Stmt:
        nid = self._nid(node)
        target: Any = node.target
        if type(target).__name__ == "Tuple" and not target.lpar:
            return ir.Delete(nid, self._elements(target))
        return ir.Delete(nid, (self.expr(target),))

    def _stmt_import(self, node: cst.Import) -> ir.Stmt:
        return ir.Import(self._nid(node), _aliases(node.names))

    def _stmt_import_from(self, node: cst.ImportFrom) -> ir.Stmt:
        names: Any = node.names
        module = _dotted(node.module) if node.module is not None else ""
        aliases = (("*", None),) if type(names).__name__ == "ImportStar" else _aliases(names)
        return ir.ImportFrom(self._nid(node), module, len(node.relative), aliases)

    # -- compound statements
    def _stmt_if(self, node: cst.If) -> ir.Stmt:
        # A loop over ``elif``, since a chain of n of them nests n levels deep.
        arms: list[tuple[int, ir.Expr, tuple[ir.Stmt, ...]]] = []
        orelse: tuple[ir.Stmt, ...] = ()
        arm: Any = node
        while arm is not None:
            if type(arm).__name__ == "Else":
                orelse = self._suite(arm.body)
                break
            nid = self._nid(arm)
            test = self.expr(arm.test)
            arms.append((nid, test, self._suite(arm.body)))
            arm = arm.orelse
        for nid, test, body in reversed(arms):
            orelse = (ir.If(nid, test, body, orelse),)
        result: ir.Stmt = orelse[0]
        return result

    def _otherwise(self, node: cst.Else | None) -> tuple[ir.Stmt, ...]:
        return () if node is None else self._suite(node.body)

    def _stmt_for(self, node: cst.For) -> ir.Stmt:
        nid = self._nid(node)
        target, iterable = self.expr(node.target), self.expr(node.iter)
        body, orelse = self._suite(node.body), self._otherwise(node.orelse)
        return ir.For(nid, target, iterable, body, orelse, node.asynchronous is not None)

    def _stmt_while(self, node: cst.While) -> ir.Stmt:
        nid = self._nid(node)
        return ir.While(nid, self.expr(node.test), self._suite(node.body), self._otherwise(node.orelse))

    def _stmt_try(self, node: Any) -> ir.Stmt:
        nid = self._nid(node)
        body = self._suite(node.body)
        handlers = []
        for handler in node.handlers:
            number = self._nid(handler)
            name = handler.name.name.value if handler.name is not None else None
            handlers.append(ir.Handler(number, self.optional(handler.type), name, self._suite(handler.body)))
        orelse = self._otherwise(node.orelse)
        final = self._suite(node.finalbody.body) if node.finalbody is not None else ()
        return ir.Try(nid, body, tuple(handlers), orelse, final, type(node).__name__ == "TryStar")

    _stmt_try_star = _stmt_try

    def _stmt_with(self, node: cst.With) -> ir.Stmt:
        nid = self._nid(node)
        items = []
        for item in node.items:
            number = self._nid(item)
            target = self.expr(item.asname.name) if item.asname is not None else None
            items.append(ir.WithItem(number, self.expr(item.item), target))
        return ir.With(nid, tuple(items), self._suite(node.body), node.asynchronous is not None)

    def _stmt_function_def(self, node: cst.FunctionDef) -> ir.Stmt:
        nid, span = self._definition(node)
        decorators = tuple(self.expr(decorator.decorator) for decorator in node.decorators)
        params = self.params(node.params)
        returns = self.expr(node.returns.annotation) if node.returns is not None else None
        body: tuple[ir.Stmt, ...] | None
        if self._is_generator is not None:
            body, generator = None, self._is_generator(span)
        else:
            outer, self._yields = self._yields, False
            body = self._suite(node.body)
            generator, self._yields = self._yields, outer
        return ir.FunctionDef(
            nid, node.name.value, params, decorators, returns, body, node.asynchronous is not None, generator,
            span.line, span.end_line, span.qualname,
        )  # fmt: skip

    def _stmt_class_def(self, node: cst.ClassDef) -> ir.Stmt:
        nid, span = self._definition(node)
        decorators = tuple(self.expr(decorator.decorator) for decorator in node.decorators)
        bases = self.args((*node.bases, *node.keywords))
        body = self._suite(node.body)
        return ir.ClassDef(nid, node.name.value, bases, decorators, body, span.line, span.end_line, span.qualname)

    # -- match
    def _stmt_match(self, node: cst.Match) -> ir.Stmt:
        nid = self._nid(node)
        subject = self.expr(node.subject)
        cases = []
        for case in node.cases:
            number = self._nid(case)
            pattern = self._pattern(case.pattern)
            cases.append(ir.Case(number, pattern, self.optional(case.guard), self._suite(case.body)))
        return ir.Match(nid, subject, tuple(cases))

    def _pattern(self, node: Any) -> ir.Pattern:
        nid = self._nid(node)
        kind = type(node).__name__
        if kind == "MatchValue":
            return ir.Pattern(nid, "value", self.expr(node.value))
        if kind == "MatchSingleton":
            return ir.Pattern(nid, "singleton", self.expr(node.value))
        if kind == "MatchSequenceElement":
            return self._pattern(node.value)
        if kind in ("MatchList", "MatchTuple"):
            return ir.Pattern(nid, "sequence", children=self._patterns(node.patterns))
        if kind == "MatchStar":
            return ir.Pattern(nid, "star", name=_optional_name(node.name))
        if kind == "MatchMapping":
            keys = tuple(self.expr(element.key) for element in node.elements)
            children = self._patterns(element.pattern for element in node.elements)
            return ir.Pattern(nid, "mapping", name=_optional_name(node.rest), children=children, keys=keys)
        if kind == "MatchClass":
            cls = self.expr(node.cls)
            names = (None,) * len(node.patterns) + tuple(element.key.value for element in node.kwds)
            children = self._patterns(node.patterns) + self._patterns(element.pattern for element in node.kwds)
            return ir.Pattern(nid, "class", cls, children=children, keys=names)
        if kind == "MatchOr":
            return ir.Pattern(nid, "or", children=self._patterns(element.pattern for element in node.patterns))
        if kind == "MatchAs":
            if node.pattern is None:
                return ir.Pattern(nid, "capture", name=_optional_name(node.name))
            return ir.Pattern(nid, "as", name=_optional_name(node.name), children=(self._pattern(node.pattern),))
        return ir.Pattern(nid, "value", ir.Opaque(self._nid(node), f"pattern {kind}"))

    def _patterns(self, nodes: Iterable[Any]) -> tuple[ir.Pattern, ...]:
        return tuple(
            [self._pattern(node.value if type(node).__name__ == "MatchSequenceElement" else node) for node in nodes]
        )


def _optional_name(node: cst.Name | None) -> str | None:
    return None if node is None else node.value


def _dotted(node: Any) -> str:
    names = []
    while type(node).__name__ == "Attribute":
        names.append(node.attr.value)
        node = node.value
    names.append(node.value)
    return ".".join(reversed(names))


def _aliases(nodes: Any) -> tuple[tuple[str, str | None], ...]:
    return tuple((_dotted(node.name), node.asname.name.value if node.asname is not None else None) for node in nodes)
