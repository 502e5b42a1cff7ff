"""libcst expressions and patterns to the intermediate representation.

Owns what each expression node becomes. Dispatch is by the libcst class's name, so that this module can be imported
without importing libcst (0.3 s), which a scan that finds everything in its cache never needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowcheck.syntax import _literals, ir

if TYPE_CHECKING:
    import libcst as cst

__all__ = ["ExprLowerer", "snake"]

_BINARY = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "FloorDivide": "//", "Modulo": "%", "Power": "**",
    "MatrixMultiply": "@", "LeftShift": "<<", "RightShift": ">>", "BitAnd": "&", "BitOr": "|", "BitXor": "^",
}  # fmt: skip
_UNARY = {"Minus": "-", "Plus": "+", "BitInvert": "~", "Not": "not"}
_COMPARE = {
    "Equal": "==", "NotEqual": "!=", "LessThan": "<", "LessThanEqual": "<=", "GreaterThan": ">",
    "GreaterThanEqual": ">=", "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in",
}  # fmt: skip
_KEYWORD_CONSTANTS = {"None": None, "True": True, "False": False}


def snake(name: str) -> str:
    """``BinaryOperation`` as ``binary_operation``: the methods here are named after libcst's classes."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class ExprLowerer:
    """Lowers expressions; numbers every node it makes from 0, parents before children.

    ``nodes`` receives, when it is a list, the libcst node behind each number, for positions. ``calls`` tells, after the
    lowering, for which call a generator expression is the only argument.
    """

    def __init__(self, nodes: list[Any] | None = None) -> None:
        self._count = 0
        self._nodes = nodes
        self._yields = False
        self.calls: dict[Any, Any] = {}
        self._methods: dict[type, Callable[[Any], Any]] = {}

    def _nid(self, node: object) -> int:
        nid = self._count
        self._count = nid + 1
        if self._nodes is not None:
            self._nodes.append(node)
        return nid

    def expr(self, node: cst.CSTNode) -> ir.Expr:
        """The expression that ``node`` stands for; :class:`ir.Opaque` where it is not modelled."""
        kind = type(node)
        method = self._methods.get(kind)
        if method is None:
            method = self._methods[kind] = self._method("_expr_", kind)
        result: ir.Expr = method(node)
        return result

    def _method(self, prefix: str, kind: type) -> Callable[[Any], Any]:
        method: Callable[[Any], Any] = getattr(self, prefix + snake(kind.__name__), self._unmodelled)
        return method

    def _unmodelled(self, node: cst.CSTNode) -> ir.Opaque:
        return ir.Opaque(self._nid(node), f"syntax {type(node).__name__}")

    # -- atoms
    def _expr_name(self, node: cst.Name) -> ir.Expr:
        nid = self._nid(node)
        if node.value in _KEYWORD_CONSTANTS:
            return ir.Const(nid, _KEYWORD_CONSTANTS[node.value])
        return ir.Name(nid, node.value)

    def _expr_ellipsis(self, node: cst.Ellipsis) -> ir.Expr:
        return ir.Const(self._nid(node), ...)

    def _number(self, node: cst.Integer | cst.Float | cst.Imaginary) -> ir.Expr:
        nid = self._nid(node)
        try:
            return ir.Const(nid, _literals.number(node.value))
        except ValueError:
            return ir.Opaque(nid, f"number {node.value[:20]}")

    _expr_integer = _expr_float = _expr_imaginary = _number

    def _strings(self, node: cst.SimpleString | cst.FormattedString | cst.ConcatenatedString) -> ir.Expr:
        nid = self._nid(node)
        pieces: list[Any] = []
        pending: list[Any] = [node]
        while pending:  # a loop, since a concatenation of n strings nests n levels deep
            piece = pending.pop()
            if type(piece).__name__ == "ConcatenatedString":
                pending += (piece.right, piece.left)
            else:
                pieces.append(piece)
        try:
            return self._joined(nid, pieces)
        except ValueError as error:
            return ir.Opaque(nid, f"string literal: {error}")

    _expr_simple_string = _expr_formatted_string = _expr_concatenated_string = _strings

    def _joined(self, nid: int, pieces: list[Any]) -> ir.Expr:
        parts: list[str | ir.Expr] = []
        data: list[bytes] = []
        formatted, plain = False, True
        for piece in pieces:
            kind = type(piece).__name__
            if kind == "FormattedString":
                formatted = True
                plain &= self._format_parts(piece, parts)
            elif kind != "SimpleString":
                return ir.Opaque(nid, f"syntax {kind}")
            else:
                prefix, content = _literals.string_prefix(piece.value)
                if "b" in prefix:
                    data.append(content.encode("latin-1") if "r" in prefix else _literals.unescape_bytes(content))
                else:
                    _add_text(parts, content if "r" in prefix else _literals.unescape(content))
        if data:
            return ir.Const(nid, b"".join(data))
        if formatted:
            return ir.FString(nid, tuple(parts), plain)
        return ir.Const(nid, "".join(part for part in parts if isinstance(part, str)))

    def _format_parts(self, node: cst.FormattedString, parts: list[str | ir.Expr]) -> bool:
        """Append the parts of one f-string; False where one of them has a conversion or a format spec."""
        plain = True
        raw = "r" in node.start.lower()
        field: Any
        for field in node.parts:
            if type(field).__name__ == "FormattedStringText":
                text = field.value.replace("{{", "{").replace("}}", "}")
                _add_text(parts, text if raw else _literals.unescape(text))
                continue
            if field.equal is not None:
                _add_text(parts, self._debug_text(field))
            plain &= field.conversion is None and field.format_spec is None and field.equal is None
            parts.append(self.expr(field.expression))
        return plain

    @staticmethod
    def _debug_text(field: cst.FormattedStringExpression) -> str:
        """The text that ``{x = }`` puts before the value: the source between the brace and the value, spaces kept."""
        import libcst

        assert field.equal is not None
        code = libcst.Module(body=()).code_for_node
        return "".join(code(part) for part in (field.whitespace_before_expression, field.expression, field.equal))

    # -- access
    def _expr_attribute(self, node: cst.Attribute) -> ir.Expr:
        nid = self._nid(node)
        return ir.Attribute(nid, self.expr(node.value), node.attr.value)

    def args(self, nodes: Any) -> tuple[ir.Arg, ...]:
        """Arguments of a call, or bases and keywords of a class, in source order."""
        result = []
        for node in nodes:
            nid = self._nid(node)
            keyword = node.keyword.value if node.keyword is not None else None
            result.append(ir.Arg(nid, self.expr(node.value), keyword, node.star))
        return tuple(result)

    def _expr_call(self, node: cst.Call) -> ir.Expr:
        nid = self._nid(node)
        func = self.expr(node.func)
        if len(node.args) == 1 and type(node.args[0].value).__name__ == "GeneratorExp":
            self.calls[node.args[0].value] = node
        return ir.Call(nid, func, self.args(node.args))

    def _expr_subscript(self, node: cst.Subscript) -> ir.Expr:
        nid = self._nid(node)
        value = self.expr(node.value)
        elements = node.slice
        first: Any = elements[0]
        alone = len(elements) == 1 and type(first.comma).__name__ != "Comma" and not getattr(first.slice, "star", None)
        if alone:
            return ir.Subscript(nid, value, self._subscript_item(first))
        index = self._nid(node.slice)
        return ir.Subscript(nid, value, ir.TupleExpr(index, tuple(self._subscript_item(each) for each in elements)))

    def _subscript_item(self, element: cst.SubscriptElement) -> ir.Expr:
        item: Any = element.slice
        if type(item).__name__ == "Slice":
            nid = self._nid(item)
            return ir.Slice(nid, self.optional(item.lower), self.optional(item.upper), self.optional(item.step))
        if item.star:
            nid = self._nid(item)
            return ir.Star(nid, self.expr(item.value))
        return self.expr(item.value)

    def optional(self, node: cst.BaseExpression | None) -> ir.Expr | None:
        return None if node is None else self.expr(node)

    # -- displays
    def _elements(self, node: Any) -> tuple[ir.Expr, ...]:
        return tuple([self._element(element) for element in node.elements])

    def _element(self, element: Any) -> ir.Expr:
        if type(element).__name__ == "StarredElement":
            nid = self._nid(element)
            return ir.Star(nid, self.expr(element.value))
        return self.expr(element.value)

    _expr_starred_element = _element

    def _expr_tuple(self, node: cst.Tuple) -> ir.Expr:
        nid = self._nid(node)
        return ir.TupleExpr(nid, self._elements(node))

    def _expr_list(self, node: cst.List) -> ir.Expr:
        nid = self._nid(node)
        return ir.ListExpr(nid, self._elements(node))

    def _expr_set(self, node: cst.Set) -> ir.Expr:
        nid = self._nid(node)
        return ir.SetExpr(nid, self._elements(node))

    def _expr_dict(self, node: cst.Dict) -> ir.Expr:
        nid = self._nid(node)
        items: list[tuple[ir.Expr | None, ir.Expr]] = []
        for element in node.elements:
            entry: Any = element
            key = self.expr(entry.key) if type(entry).__name__ == "DictElement" else None
            items.append((key, self.expr(entry.value)))
        return ir.DictExpr(nid, tuple(items))

    def _comprehension(self, node: Any) -> ir.Expr:
        kind = {"ListComp": "list", "SetComp": "set", "DictComp": "dict", "GeneratorExp": "generator"}
        nid = self._nid(node)
        name = type(node).__name__
        if name == "DictComp":
            key: ir.Expr | None = self.expr(node.key)
            element = self.expr(node.value)
        else:
            key, element = None, self.expr(node.elt)
        generators = []
        clause: cst.CompFor | None = node.for_in
        while clause is not None:
            number = self._nid(clause)
            target, iterable = self.expr(clause.target), self.expr(clause.iter)
            ifs = tuple(self.expr(condition.test) for condition in clause.ifs)
            generators.append(ir.Generator(number, target, iterable, ifs, clause.asynchronous is not None))
            clause = clause.inner_for_in
        return ir.Comp(nid, kind[name], key, element, tuple(generators))

    _expr_list_comp = _expr_set_comp = _expr_dict_comp = _expr_generator_exp = _comprehension

    # -- operators
    def _expr_binary_operation(self, node: cst.BinaryOperation) -> ir.Expr:
        # A loop down the left spine, since ``a + b + … `` of n terms nests n levels deep.
        spine: list[tuple[int, str, Any]] = []
        left: Any = node
        while type(left).__name__ == "BinaryOperation":
            spine.append((self._nid(left), _BINARY.get(type(left.operator).__name__, "?"), left.right))
            left = left.left
        result = self.expr(left)
        for nid, operator, right in reversed(spine):
            result = ir.BinOp(nid, operator, result, self.expr(right))
        return result

    def _expr_unary_operation(self, node: cst.UnaryOperation) -> ir.Expr:
        nid = self._nid(node)
        return ir.UnaryOp(nid, _UNARY[type(node.operator).__name__], self.expr(node.expression))

    def _expr_boolean_operation(self, node: cst.BooleanOperation) -> ir.Expr:
        nid = self._nid(node)
        operator = type(node.operator)
        values: list[Any] = []
        pending: list[Any] = [node]
        while pending:
            value = pending.pop()
            chained = type(value).__name__ == "BooleanOperation" and type(value.operator) is operator
            if chained and (value is node or not value.lpar):
                pending += (value.right, value.left)
            else:
                values.append(value)
        return ir.BoolOp(nid, "and" if operator.__name__ == "And" else "or", tuple(self.expr(each) for each in values))

    def _expr_comparison(self, node: cst.Comparison) -> ir.Expr:
        nid = self._nid(node)
        left = self.expr(node.left)
        ops = tuple(_COMPARE[type(target.operator).__name__] for target in node.comparisons)
        return ir.Compare(nid, left, ops, tuple(self.expr(target.comparator) for target in node.comparisons))

    def _expr_if_exp(self, node: cst.IfExp) -> ir.Expr:
        nid = self._nid(node)
        return ir.IfExp(nid, self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def _expr_named_expr(self, node: cst.NamedExpr) -> ir.Expr:
        nid = self._nid(node)
        return ir.Walrus(nid, self.expr(node.target), self.expr(node.value))

    def _expr_await(self, node: cst.Await) -> ir.Expr:
        nid = self._nid(node)
        return ir.Await(nid, self.expr(node.expression))

    def _expr_yield(self, node: cst.Yield) -> ir.Expr:
        nid = self._nid(node)
        self._yields = True
        value: Any = node.value
        if type(value).__name__ == "From":
            return ir.Yield(nid, self.expr(value.item), True)
        return ir.Yield(nid, self.optional(value))

    def _expr_lambda(self, node: cst.Lambda) -> ir.Expr:
        nid = self._nid(node)
        params = self.params(node.params)
        outer = self._yields
        body = self.expr(node.body)
        self._yields = outer  # a yield in a lambda makes a generator of the lambda alone
        return ir.Lambda(nid, params, body)

    def params(self, node: cst.Parameters) -> ir.Params:
        """The parameters of a function or lambda in source order."""
        nid = self._nid(node)
        items: list[ir.Param] = []
        items += (self._param(each, "pos") for each in node.posonly_params)
        items += (self._param(each, "arg") for each in node.params)
        star: Any = node.star_arg
        if type(star).__name__ == "Param":
            items.append(self._param(star, "*"))
        items += (self._param(each, "kw") for each in node.kwonly_params)
        if node.star_kwarg is not None:
            items.append(self._param(node.star_kwarg, "**"))
        return ir.Params(nid, tuple(items))

    def _param(self, node: cst.Param, kind: str) -> ir.Param:
        nid = self._nid(node)
        annotation = self.expr(node.annotation.annotation) if node.annotation is not None else None
        return ir.Param(nid, node.name.value, kind, self.optional(node.default), annotation)


def _add_text(parts: list[str | ir.Expr], text: str) -> None:
    """Append literal text; adjacent texts are one part, as in Python's own tree."""
    if not text:
        return
    if parts and isinstance(parts[-1], str):
        parts[-1] += text
    else:
        parts.append(text)
