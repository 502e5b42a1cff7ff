"""Parts of the tree's own methods, run without the rest of them: what an attribute is set to, what a call is given.

The methods that start a server do a hundred things that need a GPU, and a few that read a draft's configuration. Statements at
the top of a method's body are taken whole, with the conditions inside of them; the local names that they read bring in the
statements that bind these, and the attributes of ``self`` that nobody gave are set by the statements of the class that set
them, when they are read.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flowcheck.probe.rank.tree import Unbridged

__all__ = ["Method", "bare", "methods_of"]


class Method:
    """A method of the tree, in statements.

    Args:
        function: It.

    Raises:
        OSError, SyntaxError: its text cannot be read.
    """

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        lines, first = inspect.getsourcelines(function)
        parsed = ast.parse(textwrap.dedent("".join(lines))).body[0]
        if not isinstance(parsed, ast.FunctionDef):
            raise SyntaxError(f"{function.__qualname__} is no plain function")
        self.node = ast.increment_lineno(parsed, first - 1)
        arguments = parsed.args
        self.parameters = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

    def __repr__(self) -> str:
        return self.function.__qualname__

    @property
    def own(self) -> str:
        """What the method calls the object that it belongs to."""
        return self.parameters[0] if self.parameters else ""

    def where(self, statement: ast.stmt) -> str:
        """A statement's place: file, line and method."""
        return f"{self.function.__code__.co_filename}:{statement.lineno} {self.function.__name__}"

    def statements(self, wanted: Callable[[ast.AST], bool]) -> list[ast.stmt]:
        """The statements of the body in which a part is wanted."""
        return [each for each in self.node.body if any(wanted(part) for part in ast.walk(each))]

    def setting(self, attribute: str) -> list[ast.stmt]:
        """The statements that set an attribute of the object."""
        return self.statements(
            lambda part: (
                isinstance(part, ast.Attribute)
                and isinstance(part.ctx, ast.Store)
                and part.attr == attribute
                and isinstance(part.value, ast.Name)
                and part.value.id == self.own
            )
        )

    def run(self, statements: Sequence[ast.stmt], of: Any, given: Mapping[str, Any]) -> None:
        """Runs statements of the body, and those that bind the names which they read.

        Args:
            statements: Some of the body.
            of: The object.
            given: Values of the method's parameters; others have their defaults.
        """
        body = self._with_names(statements)
        arguments = copy.deepcopy(self.node.args)
        for each in ast.walk(arguments):
            if isinstance(each, ast.arg):
                each.annotation = None  # it may stand for what is imported for a type checker alone
        made = copy.copy(self.node)
        made.args, made.body, made.decorator_list, made.returns = arguments, body, [], None
        module = ast.fix_missing_locations(ast.Module([made], []))
        space: dict[str, Any] = {}
        code = compile(module, self.function.__code__.co_filename, "exec", dont_inherit=True)
        exec(code, self.function.__globals__, space)
        signature = inspect.signature(self.function)
        known = {name: given[name] for name in self.parameters[1:] if name in given}
        others = {
            name: _Unknown(name)
            for name, each in signature.parameters.items()
            if name != self.own
            and name not in known
            and each.default is inspect.Parameter.empty
            and each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        }
        space[self.node.name](of, **known, **others)

    def _with_names(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements in their order, with those that bind local names for them."""
        binding = {id(each): _bound(each) for each in self.node.body}
        taken = {id(each) for each in statements}
        while True:
            wanted = {name for each in self.node.body if id(each) in taken for name in _read(each)}
            more = {id(each) for each in self.node.body if binding[id(each)] & wanted} - taken
            if not more:
                return [each for each in self.node.body if id(each) in taken]
            taken |= more


class _Unknown:
    """The value of a parameter that nobody knows: it may be kept, and not looked at."""

    def __init__(self, name: str) -> None:
        vars(self)["_name"] = name

    def __getattr__(self, name: str) -> Any:
        raise Unbridged(f"it depends on {vars(self)['_name']}, which the probe does not know")

    def __eq__(self, other: object) -> bool:
        raise Unbridged(f"it depends on {vars(self)['_name']}, which the probe does not know")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise Unbridged(f"it depends on {vars(self)['_name']}, which the probe does not know")


def _bound(statement: ast.stmt) -> frozenset[str]:
    names = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    for part in ast.walk(statement):
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            names |= {(each.asname or each.name).partition(".")[0] for each in part.names}
        elif isinstance(part, (ast.FunctionDef, ast.ClassDef)):
            names.add(part.name)
    return frozenset(names)


def _read(statement: ast.stmt) -> Iterator[str]:
    return (part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load))


def methods_of(cls: type, package: str) -> list[Method]:
    """The methods of a class and of its bases in a package, its own first; those that cannot be read are left out."""
    found: dict[str, Method] = {}
    for base in cls.__mro__:
        if base.__module__.split(".")[0] != package:
            continue
        for name, value in vars(base).items():
            function = inspect.unwrap(value) if callable(value) else None
            if name in found or not isinstance(function, types.FunctionType):
                continue
            try:
                found[name] = Method(function)
            except (OSError, SyntaxError, TypeError):
                continue
    return list(found.values())


def bare(cls: type, methods: Sequence[Method], given: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    """An object of a class whose constructor did not run: its attributes are set when they are read.

    Args:
        cls: The class.
        methods: Those of :func:`methods_of`.
        given: Values of the parameters of the methods.
        known: Attributes that it has from the beginning.
    """
    pending: set[str] = set()

    def missing(self: Any, name: str) -> Any:
        if name in pending or name.startswith("__"):
            raise AttributeError(name)
        pending.add(name)
        try:
            _set(self, name)
        finally:
            pending.discard(name)
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"{cls.__name__} has no {name} that the probe could find") from None

    def _set(self: Any, name: str) -> None:
        setting = [(method, found) for method in methods if (found := method.setting(name))]
        first = [each for each in setting if each[0].function.__name__ == "__init__"]
        chosen = first or setting
        if len(chosen) > 1:
            raise Unbridged(f"{name} is set by {', '.join(repr(method) for method, _ in chosen)}")
        for method, statements in chosen:
            method.run(statements, self, given)

    made: Any = object.__new__(type(cls.__name__, (cls,), {"__getattr__": missing, "__module__": cls.__module__}))
    vars(made).update(known)
    return made
