"""What a module binds, and which module a name means. Static: nothing is evaluated here.

A module's top level is interpreted on demand, one name at a time, so this room says which of its statements bind a name
(:attr:`Module.bindings`) and whether it has effects that make order matter (:attr:`Module.ordered`).
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from flowcheck.program.parts import target_names
from flowcheck.program.patching import Patches
from flowcheck.program.placing import Places
from flowcheck.program.slicing import SliceCache
from flowcheck.program.spelling import leaves
from flowcheck.program.texts import Texts
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.program.corpus import Corpus
    from flowcheck.syntax import ModuleSyntax, SyntaxStore

__all__ = ["Module", "Program", "target_names"]


def _root(expr: ir.Expr) -> str | None:
    while isinstance(expr, (ir.Attribute, ir.Subscript, ir.Call)):
        expr = expr.func if isinstance(expr, ir.Call) else expr.value
    return expr.id if isinstance(expr, ir.Name) else None


def _is_module(e: ir.Expr) -> bool:
    """Whether an expression is written as an entry of ``sys.modules``."""
    return isinstance(e, ir.Subscript) and isinstance(e.value, ir.Attribute) and e.value.attr == "modules"


def _is_namespace(e: ir.Expr) -> bool:
    """Whether an expression is written as the dict of a module's variables."""
    if isinstance(e, ir.Attribute):
        return e.attr == "__dict__" and _is_module(e.value)
    return (
        isinstance(e, ir.Call)
        and isinstance(e.func, ir.Name)
        and e.func.id in ("globals", "vars", "locals")
        and not e.args
    )


_GLOBAL = re.compile(r"^[ \t]+global\s+([^\n]*)", re.M)
_STORED = re.compile(r"\.(\w+)[ \t]*(?::[^=\n]+)?=(?!=)")


class Module:
    """One module of the tree: its statements, and which of them bind which name."""

    def __init__(self, name: str, path: str, is_package: bool, syntax: ModuleSyntax | None) -> None:
        self.name = name
        self.path = path
        self.is_package = is_package
        self.syntax = syntax
        self.body: tuple[ir.Stmt, ...] = syntax.body if syntax is not None else ()
        self.bindings: dict[str, list[ir.Stmt]] = {}
        self.stars: list[ir.ImportFrom] = []
        self.defined: set[str] = set()
        self.ordered = False
        self._functions: list[ir.FunctionDef] | None = None
        self._globals: dict[str, list[ir.FunctionDef]] | None = None
        self._spelled: dict[tuple[str, bool], bool] = {}
        self._stored: frozenset[str] | None = None
        effects: list[ir.Stmt] = []
        for statement in self.body:
            self._index(statement, statement, effects)
        hooked: set[str] = set()
        for statement in self.body:
            if isinstance(statement, ir.ClassDef):
                self._class_effects(statement, hooked)
            if isinstance(statement, (ir.FunctionDef, ir.ClassDef)) and any(
                _root(d) in self.defined for d in statement.decorators
            ):
                self.ordered = True  # a decorator of the module's own may note what it decorates
        for statement in effects:
            root = _root(statement.value) if isinstance(statement, ir.ExprStmt) else None
            if root is None or root in self.defined:
                self.ordered = True

    def __repr__(self) -> str:
        return f"Module({self.name})"

    def _class_effects(self, s: ir.ClassDef, hooked: set[str]) -> None:
        """A class whose metaclass or base is the module's own and has a hook does more than bind its name."""
        names = {_root(arg.value): arg.keyword for arg in s.bases}
        own = any(isinstance(x, ir.FunctionDef) and x.name == "__init_subclass__" for x in s.body)
        meta = {n for n, keyword in names.items() if keyword == "metaclass" and n in self.defined}
        if meta or hooked & names.keys():
            self.ordered = True
        if meta or own or hooked & names.keys():
            hooked.add(s.name)

    def _bind(self, name: str, top: ir.Stmt) -> None:
        statements = self.bindings.setdefault(name, [])
        if not statements or statements[-1] is not top:
            statements.append(top)

    def _index(self, s: ir.Stmt, top: ir.Stmt, effects: list[ir.Stmt]) -> None:
        if isinstance(s, (ir.FunctionDef, ir.ClassDef)):
            self._bind(s.name, top)
            self.defined.add(s.name)
        elif isinstance(s, ir.Import):
            for dotted, alias in s.names:
                self._bind(alias or dotted.split(".")[0], top)
        elif isinstance(s, ir.ImportFrom):
            for name, alias in s.names:
                if name == "*":
                    self.stars.append(s)
                else:
                    self._bind(alias or name, top)
        elif isinstance(s, (ir.Assign, ir.AnnAssign, ir.AugAssign)):
            for target in s.targets if isinstance(s, ir.Assign) else (s.target,):
                for name in target_names(target):
                    self._bind(name, top)
                if isinstance(target, (ir.Subscript, ir.Attribute)):
                    self._bind_by_name(target, top)
                    root = _root(target)
                    if root is not None:  # D[k] = v belongs to what D means; C.x = v too
                        self._bind(root, top)
                    if isinstance(target, ir.Attribute) and root is not None and root[:1].isupper():
                        self.ordered = True  # a class is changed: what is read of it before and after differs
        elif isinstance(s, ir.Delete):
            for target in s.targets:
                for name in target_names(target):
                    self._bind(name, top)
        elif isinstance(s, ir.ExprStmt):
            if isinstance(s.value, ir.Call):
                root = _root(s.value.func)
                self._bind_by_call(s.value, top)
                if root == "setattr" and s.value.args:  # setattr(C, "x", v) belongs to what C means
                    root = _root(s.value.args[0].value)
                    if root is not None:
                        self._bind(root, top)
                        self.ordered = self.ordered or root[:1].isupper()
                elif root is not None and isinstance(s.value.func, ir.Attribute):
                    self._bind(root, top)
                effects.append(s)
        elif isinstance(s, ir.If):
            for x in s.body + s.orelse:
                self._index(x, top, effects)
        elif isinstance(s, ir.Try):
            for x in s.body + s.orelse + s.final:
                self._index(x, top, effects)
            for handler in s.handlers:
                for x in handler.body:
                    self._index(x, top, effects)
        elif isinstance(s, (ir.For, ir.While, ir.With)):
            if isinstance(s, ir.For):
                for name in target_names(s.target):
                    self._bind(name, top)
            for x in s.body:
                self._index(x, top, effects)
        elif isinstance(s, ir.Match):
            for case in s.cases:
                for x in case.body:
                    self._index(x, top, effects)

    def _bind_by_name(self, target: ir.Subscript | ir.Attribute, top: ir.Stmt) -> None:
        """``globals()["x"] = …`` and ``sys.modules[…].x = …`` bind names of a module, this one as far as can be told."""
        if isinstance(target, ir.Attribute):
            if _is_module(target.value):
                self._bind(target.attr, top)
                self.ordered = True
        elif _is_namespace(target.value):
            self._bind_key(target.index, top)

    def _bind_by_call(self, c: ir.Call, top: ir.Stmt) -> None:
        """``setattr(sys.modules[…], "x", …)`` and ``globals().update(x=…)``."""
        f = c.func
        if isinstance(f, ir.Name) and f.id == "setattr" and len(c.args) == 3 and _is_module(c.args[0].value):
            self._bind_key(c.args[1].value, top)
        elif (
            isinstance(f, ir.Attribute) and f.attr in ("update", "setdefault", "__setitem__") and _is_namespace(f.value)
        ):
            self.ordered = True
            for a in c.args:
                if a.keyword is not None:
                    self._bind(a.keyword, top)
                elif isinstance(a.value, ir.DictExpr):
                    for k, _ in a.value.items:
                        self._bind_key(k, top)
                else:
                    self._bind_key(a.value, top)

    def _bind_key(self, key: ir.Expr | None, top: ir.Stmt) -> None:
        self.ordered = True  # it may bind what other statements do, or what nobody can tell from the text
        if isinstance(key, ir.Const) and isinstance(key.value, str):
            self._bind(key.value, top)

    def stores(self, name: str) -> bool:
        """Whether the module assigns an attribute of that name to some object."""
        if self._stored is None:
            text = self.syntax.text if self.syntax is not None else ""
            self._stored = frozenset(_STORED.findall(text))
        return name in self._stored

    def spells(self, name: str, out: bool = False) -> bool:
        """Whether the module's text holds the name as a string, other than to read an attribute by it. ``out``: as one
        that may leave the function which spells it."""
        found = self._spelled.get((name, out))
        if found is None:
            found = self._spelled[name, out] = self._find_spelled(name, out)
        return found

    def _find_spelled(self, name: str, out: bool) -> bool:
        text = self.syntax.text if self.syntax is not None else ""
        if self.syntax is None or (f"'{name}'" not in text and f'"{name}"' not in text):
            return False
        spelled: dict[int, int] = {}
        functions = self.functions()
        done = 0
        for m in re.finditer(rf"(['\"]){re.escape(name)}\1", text):
            reads = _READ_BY_NAME.search(text, max(done, m.start() - 400), m.start()) is not None
            done = m.end()
            line = text.count("\n", 0, m.end()) + 1
            inside = next((i for i, f in enumerate(functions) if f.line <= line <= f.end_line), None)
            if out and inside is not None:
                spelled[inside] = spelled.get(inside, 0) + 1
            elif not reads:
                return True
        for i, times in spelled.items():
            count, leaving = leaves(self.syntax.body_of(functions[i]), name)
            if leaving or count != times:  # a parameter's default, and text in text, are not looked at
                return True
        return False

    # ---------------------------------------------------------------------------------------------- functions
    def functions(self) -> list[ir.FunctionDef]:
        """Every function and method that the module's top level holds, in order."""
        if self._functions is None:
            found: list[ir.FunctionDef] = []
            stack: list[ir.Stmt] = list(reversed(self.body))
            while stack:
                s = stack.pop()
                if isinstance(s, ir.FunctionDef):
                    found.append(s)
                elif isinstance(s, ir.ClassDef):
                    stack.extend(reversed(s.body))
                elif isinstance(s, (ir.If, ir.For, ir.While)):
                    stack.extend(reversed(s.body + s.orelse))
                elif isinstance(s, ir.With):
                    stack.extend(reversed(s.body))
                elif isinstance(s, ir.Try):
                    stack.extend(s.body + s.orelse + s.final)
                    for handler in s.handlers:
                        stack.extend(handler.body)
            self._functions = found
        return self._functions

    def global_writers(self, name: str) -> list[ir.FunctionDef]:
        """The functions of this module that declare ``global name``."""
        if self._globals is None:
            self._globals = {}
            text = self.syntax.text if self.syntax is not None else ""
            for match in _GLOBAL.finditer(text) if "global " in text else ():
                line = text.count("\n", 0, match.start()) + 1
                for function in self.functions():
                    if function.line <= line <= function.end_line:
                        for declared in re.findall(r"\w+", match.group(1).partition("#")[0]):
                            writers = self._globals.setdefault(declared, [])
                            if function not in writers:
                                writers.append(function)
        return self._globals.get(name, [])


_READ_BY_NAME = re.compile(r"(?:getattr|hasattr)\(\s*[^()\n]*,\s*\Z")
_MUTATING = (
    rb"(?:\.(?:update|append|appendleft|add|extend|extendleft|insert|pop|put|put_nowait|remove|clear|setdefault|discard)\("
    rb"|\[(?:[^\]\n]*\][ \t]*(?:\|)?=(?!=))?)"
)
_BEFORE_MUTATED = re.compile(rb"[ \t]+(?:[\w.]+\.)?")
_BEFORE_DELETED = re.compile(rb"[ \t]+del[ \t]+")


def _is_statement(data: bytes, m: re.Match[bytes]) -> bool:
    """Whether a statement of a function begins with what was found: a change of a container, or of what is in it."""
    begin = data.rfind(b"\n", 0, m.start()) + 1
    if not m.group().endswith(b"[") and _BEFORE_MUTATED.fullmatch(data, begin, m.start()):
        return True
    return b"[" in m.group() and _BEFORE_DELETED.fullmatch(data, begin, m.start()) is not None


class Program:
    """The modules of one tree, by dotted name."""

    def __init__(self, store: SyntaxStore) -> None:
        self.store = store
        self.tree = store.tree
        self._modules: dict[str, Module | None] = {}
        self.unreadable: dict[str, str] = {}
        self.slice_cache = SliceCache()
        self._mutated: dict[tuple[str, str], tuple[bool, bool]] = {}
        self._imported: dict[str, bool] = {}
        self.package: str = self.tree.package
        self._prefix = self.package + "."

    def inside(self, name: str) -> bool:
        """Whether a dotted name belongs to the tree's package at all."""
        return name == self.package or name.startswith(self._prefix)

    def module(self, name: str) -> Module | None:
        """The module of that dotted name; None when the tree has none, or when it cannot be parsed."""
        if name in self._modules:
            return self._modules[name]
        found: Module | None = None
        if self.inside(name):
            path = self.tree.path_of(name)
            if path is not None:
                syntax = self.store.try_module(path)
                if syntax is not None:
                    found = Module(name, path, syntax.is_package, syntax)
                else:
                    self.unreadable[path] = next((str(p) for p in self.store.problems if p.path == path), path)
            elif self.tree.is_namespace(name):
                found = Module(name, "", True, None)
        self._modules[name] = found
        return found

    @cached_property
    def texts(self) -> Texts:
        """The definitions and calls of the tree's core, by their looks."""
        return Texts(self.tree)

    @cached_property
    def corpus(self) -> Corpus:
        """The bytes of the tree's core."""
        from flowcheck.program.corpus import Corpus

        return Corpus(self)

    @cached_property
    def places(self) -> Places:
        """Where the tree's core stores into attributes."""
        return Places(self.texts)

    def mutated(self, module: Module, name: str) -> tuple[bool, bool]:
        """Whether code outside any module's top level changes the container that a module binds to ``name``: in its own
        module, in another one. By text: a name of the same spelling elsewhere counts too, unless it is a local."""
        key = (module.name, name)
        found = self._mutated.get(key)
        if found is None:
            n = re.escape(name.encode())
            pattern = re.compile(n + _MUTATING, re.M)
            own = other = False
            for path, data in self.corpus.files.items():
                if name.encode() in data and any(_is_statement(data, m) for m in pattern.finditer(data)):
                    if path == module.path:
                        own = True
                    elif re.search(rb"import[^\n]*(?:\([^)]*)?\b" + n + rb"\b", data):
                        other = True
            found = self._mutated[key] = (own, other)
        return found

    @cached_property
    def patches(self) -> Patches:
        """What modules of the tree store into what others define."""
        return Patches(self)

    def is_imported(self, module: Module) -> bool:
        """Whether an import anywhere spells the module's last name."""
        found = self._imported.get(module.name)
        if found is None:
            found = self._imported[module.name] = self._find_imported(module)
        return found

    def _find_imported(self, module: Module) -> bool:
        last = module.name.rsplit(".", 1)[-1].encode()
        pattern = re.compile(rb"^[ \t]*(?:from|import)\b[^\n]*\b" + last + rb"\b|^[ \t]+" + last + rb"\b[ \t]*,", re.M)
        return any(last in data and pattern.search(data) for p, data in self.corpus.files.items() if p != module.path)

    def module_at(self, path: str) -> Module | None:
        """The module of that path; None when it cannot be parsed."""
        return self.module(self.tree.module_name(path))

    @staticmethod
    def resolve(module: Module, statement: ir.ImportFrom) -> str:
        """The absolute name of the module that ``from … import`` means."""
        if not statement.level:
            return statement.module
        parts = module.name.split(".")
        if not module.is_package:
            parts = parts[:-1]
        parts = parts[: len(parts) - (statement.level - 1)]
        if statement.module:
            parts.append(statement.module)
        return ".".join(parts)
