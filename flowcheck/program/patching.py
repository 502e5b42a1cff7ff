"""Where a tree changes what other modules define: stores into their classes and variables, at import or by functions.

Found in the bytes and in what modules do at their top level, for the interpreter to run: only that says what is stored,
and into what.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from flowcheck.program.parts import root_of, sub_expressions
from flowcheck.program.texts import Definition
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.program.modules import Module, Program

__all__ = ["Patches"]

T = TypeVar("T")

_STORE = re.compile(rb"\.(\w+)[ \t]*=(?!=)")
_STORED_INTO = re.compile(rb"(?:^|:)[ \t]*([A-Za-z_]\w*)((?:\.\w+)*)\Z")
_BOUND = re.compile(rb"\n(?:    )?(\w+)[ \t]*(?::[^=\n]+)?=")
_BY_NAME = re.compile(
    rb"\b(?:setattr|__setattr__)\(\s*([A-Za-z_][\w.]*)[^,\n]*,\s*(?:[\"'](\w+)[\"'])?"
    rb"|\b([A-Za-z_][\w.]*)\.__dict__(?:\[(?:[\"'](\w+)[\"'])?|\.update\()"
    rb"|\bvars\(([A-Za-z_][\w.]*)\)(?:\[(?:[\"'](\w+)[\"'])?|\.update\()"
)
_OF_MODULES = re.compile(rb"\b(sys)\.modules\[[^\]\n]*\](?:\.\w+)*\.(\w+)[ \t]*=(?!=)")
_INSIDE = re.compile(rb"(?:    |\t)[ \t]*(?:\w+[ \t]*=[ \t]*)?(?:\w+\.)?")
"""What stands before a call that a function makes."""
_OUTSIDE = re.compile(rb"[ \t]{0,8}(?:@|\w+[ \t]*=[ \t]*)?(?:\w+\.)*")
"""What stands before a call at the top level of a module or class, and before a decorator's."""
SETTERS = frozenset({"setattr", "__setattr__", "delattr"})
DEEPEST = 3
"""How many calls may lie between a module's top level and the function that stores."""


def _listed(find: Callable[[Patches], Iterator[T]]) -> Callable[[Patches], list[T]]:
    """All that a method finds, at once: every walk over a tree asks for the same."""
    return lambda self: list(find(self))


class _Function:
    """A function at a module's top level, or a method of a class there, that stores into what it does not make."""

    __slots__ = ("holder", "line", "name", "path", "receivers", "stored", "to_a_class")

    def __init__(self, name: str, path: str, line: int, holder: str) -> None:
        self.name = name
        self.path = path
        self.line = line
        self.holder = holder  # of a method, its class
        self.to_a_class = False
        self.receivers: set[str] = set()  # the names of what else it stores into
        self.stored: set[str] = set()  # the names of what it replaces in classes


class Patches:
    """What the modules of a program store into the classes and modules of others."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._texts = program.texts
        self.roots: set[str] = set()
        """Modules that are imported though no other one does: to be named before anything is asked."""

    @property
    def at_import(self) -> Iterator[tuple[Module, list[ir.Stmt]]]:
        """The modules that change others when they are imported, and their statements that may, with those before that take
        something of another module: it may be what is replaced. Modules that nothing imports are left out."""
        for module, found in self._at_import:
            if self._program.is_imported(module) or module.name in self.roots:
                yield module, found

    @cached_property
    def _at_import(self) -> list[tuple[Module, list[ir.Stmt]]]:
        calling = {path for path, at in self._calls_before(_OUTSIDE, self._callers) if self._is_outside(path, at)}
        out: list[tuple[Module, list[ir.Stmt]]] = []
        for path in self._texts.files:
            module = self._program.module_at(path) if path in self._direct or path in calling else None
            found = (
                [s for s in module.body if not _is_main(s) and self._changes(module, s)] if module is not None else []
            )
            if module is not None and found:
                before = module.body[: module.body.index(found[-1]) + 1]
                out.append((module, [s for s in before if s in found or self._keeps(module, s)]))
        self._texts.forget_calls()
        return out

    @cached_property
    @_listed
    def later(self) -> Iterator[tuple[Module, ir.FunctionDef]]:
        """The functions that replace functions of classes and modules, and that something may call after the imports."""
        for each in self._functions.values():
            if not each.to_a_class or each.name.startswith("__"):
                continue
            if not self.is_called_inside(each.name.encode()):
                continue
            module = self._program.module_at(each.path)
            f = next((f for f in module.functions() if f.line == each.line), None) if module is not None else None
            if module is not None and f is not None:
                yield module, f

    @cached_property
    @_listed
    def given_classes(self) -> Iterator[tuple[Module, ir.FunctionDef, Module, list[str]]]:
        """The functions that replace functions of a parameter, and that a function gives a class to: their modules and
        definitions, the module of the call, and the texts of its arguments."""
        for each in self._functions.values():
            if not each.receivers or each.name.startswith("__"):
                continue
            name = each.name.encode()
            called = re.compile(name + rb"\(([^()\n]*\b[A-Z]\w*[^()\n]*)\)")  # it starts with a literal: that is fast
            for path, data in self._texts.files.items():
                for m in called.finditer(data) if name in data else ():
                    line = data[data.rfind(b"\n", 0, m.start()) + 1 : m.start()]
                    if line[:1] not in (b" ", b"\t") or line.rstrip().endswith(b"def") or line[-1:].isalnum():
                        continue
                    given = [a.strip() for a in m.group(1).decode().split(",")]
                    if not any(self._program.places.is_class(a.rpartition(".")[2]) for a in given):
                        continue
                    module, caller = self._program.module_at(each.path), self._program.module_at(path)
                    f = next((f for f in module.functions() if f.line == each.line), None) if module else None
                    if module is not None and f is not None and caller is not None:
                        yield module, f, caller, given

    @cached_property
    @_listed
    def by_methods_of_python(self) -> Iterator[tuple[str, int, str]]:
        """Constructors, and other methods that Python calls, which replace functions of classes: where such a method is,
        and the name of what it replaces. Those of classes that no function makes are left out."""
        for each in self._functions.values():
            if not each.stored or not each.name.startswith("__"):
                continue
            if self._program.tree.module_name(each.path) in self.roots or self.is_called_inside(each.holder.encode()):
                for name in sorted(each.stored):
                    yield each.path, each.line, name

    def is_called_inside(self, name: bytes) -> bool:
        """Whether a function calls one of that name, or hands it on."""
        called = re.compile(rb"^[ \t]+(?!def |class |@|from |import )[^\n#]*(?<!def )\b" + name + rb"\b", re.M)
        for path, data in self._texts.files.items():
            hits = (data.find(name, m.start()) for m in called.finditer(data)) if name in data else ()
            if any(self._around(path, at) for at in hits):
                return True
        return False

    # ------------------------------------------------------------------------------------------------ in the bytes
    @cached_property
    def _scanned(self) -> tuple[frozenset[str], dict[tuple[str, int], _Function]]:
        """The files that store at their top level, and the functions that store anywhere."""
        direct: set[str] = set()
        functions: dict[tuple[str, int], _Function] = {}
        hits = {path: found for path, data in self._texts.files.items() if (found := list(_hits(data)))}
        names = self._bound({name for found in hits.values() for *_, name in found})
        for path, found in hits.items():
            data = self._texts.files[path]
            for at, root, rest, name in found:
                if name and name not in names:
                    continue
                around = self._around(path, at)
                outer = next((i for i, d in enumerate(around) if not d.is_class), None)
                if outer is None:
                    direct.add(path)
                    continue
                d = around[outer]
                if outer > 1:
                    continue
                last = rest.rpartition(b".")[2]
                named = next((n.decode() for n in (last, root) if n[:1].isupper()), "")
                to_a_class = bool(named) and self._program.places.is_class(named)
                if not to_a_class and (outer or (name and name not in self._defined)):
                    continue  # an attribute of some object
                line = data.count(b"\n", 0, d.line_start) + 1
                holder = around[0].name if outer else ""
                f = functions.setdefault((path, line), _Function(d.name, path, line, holder))
                if to_a_class and name in self._defined:
                    f.to_a_class = True
                    f.stored.add(name.decode())
                elif not outer and not rest:
                    f.receivers.add(root.decode())
        return frozenset(direct), functions

    @property
    def _direct(self) -> frozenset[str]:
        return self._scanned[0]

    @property
    def _functions(self) -> dict[tuple[str, int], _Function]:
        return self._scanned[1]

    def _bound(self, names: set[bytes]) -> set[bytes]:
        """Those of the names that a store may replace: of functions, and what modules and classes bind."""
        found = names & self._defined
        for data in self._texts.files.values():
            found |= names.intersection(_BOUND.findall(data))
            found |= names.intersection(_BOUND.findall(b"\n" + data.partition(b"\n")[0]))
        return found

    @cached_property
    def _defined(self) -> frozenset[bytes]:
        """The names of functions."""
        definitions = self._texts.definitions
        return frozenset(d.name.encode() for path in self._texts.files for d in definitions(path) if not d.is_class)

    @cached_property
    def _callers(self) -> frozenset[str]:
        """The names of functions that store, and of those at the top level of modules that call one by a plain name."""
        names = {f.name for f in self._functions.values() if not f.name.startswith("__")}
        names |= {f.holder for f in self._functions.values() if f.stored and f.holder}
        for _ in range(DEEPEST - 1):
            around = (self._around(path, at)[:1] for path, at in self._calls_before(_INSIDE, names))
            more = {d.name for first in around for d in first if not d.is_class}
            if more <= names:
                break
            names |= more
        return frozenset(names)

    def _calls_before(self, before: re.Pattern[bytes], names: Collection[str]) -> Iterator[tuple[str, int]]:
        """Where functions of these names are called first on a line, after what ``before`` says: file, and position."""
        texts = self._texts
        for path, data in texts.files.items() if names else ():
            calls = texts.calls(path)
            wanted = {number for number in set(calls.what) if texts.called[number][1] in names}
            for at, number in zip(calls.at, calls.what, strict=True) if wanted else ():
                if number in wanted and before.fullmatch(data, data.rfind(b"\n", 0, at) + 1, at):
                    yield path, at

    def _is_outside(self, path: str, at: int) -> bool:
        """Whether a position lies in no function."""
        return all(d.is_class for d in self._around(path, at))

    def _around(self, path: str, at: int) -> list[Definition]:
        """The definitions around a position, outermost first."""
        data, defs = self._texts.files[path], self._texts.definitions(path)
        begin = data.rfind(b"\n", 0, at) + 1
        indent = len(data[begin:at]) - len(data[begin:at].lstrip())
        out: list[Definition] = []
        if not indent:
            return out
        for i in range(bisect_right(defs, begin, key=_line_start) - 1, -1, -1):
            d = defs[i]
            if d.indent < indent:
                out.append(d)
                indent = d.indent
            if not indent:
                break
        out.reverse()
        for i, d in enumerate(out):
            if _ENDED[min(d.indent, 8)].search(data, data.find(b"\n", d.line_start), begin):
                return out[:i]
        return out

    # ------------------------------------------------------------------------------------------- at the top level
    def _changes(self, module: Module, s: ir.Stmt) -> bool:
        """Whether a statement of a module's top level may store into what another one defines."""
        for x in sub_expressions(s):
            if isinstance(x, (ir.Assign, ir.AnnAssign, ir.AugAssign)):
                for t in x.targets if isinstance(x, ir.Assign) else (x.target,):
                    for y in t.items if isinstance(t, (ir.TupleExpr, ir.ListExpr)) else (t,):
                        if isinstance(y, (ir.Attribute, ir.Subscript)) and self._is_anothers(module, y):
                            return True
            elif isinstance(x, ir.Call):
                f = x.func
                name = f.id if isinstance(f, ir.Name) else f.attr if isinstance(f, ir.Attribute) else ""
                if name in SETTERS or name in self._callers:
                    return True
                if name == "update" and isinstance(f, ir.Attribute) and _is_view(f.value):
                    return True
            elif isinstance(x, (ir.FunctionDef, ir.ClassDef)) and any(
                isinstance(d, ir.Name) and d.id in self._callers for d in x.decorators
            ):
                return True
        return False

    def _keeps(self, module: Module, s: ir.Stmt) -> bool:
        """Whether a statement of a module's top level reads an attribute of what it imports from the tree."""
        parts: object = s
        if isinstance(s, ir.FunctionDef):
            parts = (s.params, s.decorators)
        elif isinstance(s, (ir.Import, ir.ImportFrom)):
            return False
        for x in sub_expressions(parts):
            root: str | None = None
            if isinstance(x, ir.Attribute):
                root = root_of(x)
            elif isinstance(x, ir.Call) and isinstance(x.func, ir.Name) and x.func.id in ("getattr", "vars") and x.args:
                root = root_of(x.args[0].value)
            if root is not None and self._is_of_the_tree(module, root):
                return True
        return False

    def _is_of_the_tree(self, module: Module, name: str) -> bool:
        """Whether a module imports a name from the tree."""
        program = self._program
        return any(
            (isinstance(s, ir.ImportFrom) and program.inside(program.resolve(module, s)))
            or (isinstance(s, ir.Import) and any(program.inside(dotted) for dotted, _ in s.names))
            for s in module.bindings.get(name, ())
        )

    @staticmethod
    def _is_anothers(module: Module, target: ir.Attribute | ir.Subscript) -> bool:
        if isinstance(target, ir.Subscript) and not _is_view(target.value):
            return False
        root = root_of(target)
        return root is None or (root not in module.defined and (root in module.bindings or root in ("vars", "type")))


_line_start = attrgetter("line_start")


def _stores(data: bytes) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    """The stores ``a.b.c = …`` that begin a line or follow a colon: position, ``a``, ``.b``, and ``c``. Those below
    ``self`` are left out."""
    for m in _STORE.finditer(data):
        at = m.start()
        if data[at - 5 : at] != b" self":
            begin = data.rfind(b"\n", 0, at) + 1
            into = _STORED_INTO.search(data[begin:at])
            if into is not None and into.group(1) != b"self":
                yield begin + into.start(1), into.group(1), into.group(2), m.group(1)


def _hits(data: bytes) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    """The stores of a file into anything but ``self``: position, the name that the object is reached from, the way from
    there, and what is stored (empty where the text does not say)."""
    yield from _stores(data)
    if b"setattr" in data or b"__dict__" in data or b"vars(" in data:
        for m in _BY_NAME.finditer(data):
            root, _, rest = (m.group(1) or m.group(3) or m.group(5)).partition(b".")
            if root != b"self":
                yield m.start(), root, rest, m.group(2) or m.group(4) or m.group(6) or b""
    if b"sys.modules[" in data:
        yield from ((m.start(), b"sys", b".modules", m.group(2)) for m in _OF_MODULES.finditer(data))


def _is_view(e: ir.Expr) -> bool:
    if isinstance(e, ir.Attribute):
        return e.attr == "__dict__"
    return isinstance(e, ir.Call) and isinstance(e.func, ir.Name) and e.func.id == "vars" and bool(e.args)


def _is_main(s: ir.Stmt) -> bool:
    """``if __name__ == "__main__":``, and ``if TYPE_CHECKING:``."""
    if not isinstance(s, ir.If):
        return False
    return any(isinstance(x, ir.Name) and x.id in ("__name__", "TYPE_CHECKING") for x in sub_expressions(s.test))


_ENDED = [re.compile(rb"\n[ \t]{0,%d}[A-Za-z_@]" % n) for n in range(9)]
"""A line that is no deeper than a definition ends it; one of a text may look so."""
