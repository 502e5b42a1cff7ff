"""Where a tree changes what other modules define: stores into their classes and variables, at import or by functions.

Found in the bytes and in what modules do at their top level, for the interpreter to run: only that says what is stored,
and into what.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from flowcheck.program.slicing import root_of, sub_expressions
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.program.modules import Module, Program

__all__ = ["Patches"]

T = TypeVar("T")

_STORE = re.compile(rb"(?:^|:)[ \t]*([A-Za-z_]\w*)((?:\.\w+)*)\.(\w+)[ \t]*=(?!=)", re.M)
_BY_NAME = re.compile(
    rb"\b(?:setattr|__setattr__)\(\s*([A-Za-z_][\w.]*)[^,\n]*,\s*(?:[\"'](\w+)[\"'])?"
    rb"|\b([A-Za-z_][\w.]*)\.__dict__(?:\[(?:[\"'](\w+)[\"'])?|\.update\()"
    rb"|\bvars\(([A-Za-z_][\w.]*)\)(?:\[(?:[\"'](\w+)[\"'])?|\.update\()"
)
_OF_MODULES = re.compile(rb"\b(sys)\.modules\[[^\]\n]*\](?:\.\w+)*\.(\w+)[ \t]*=(?!=)")
_DEF = re.compile(rb"^([ \t]*)(?:async[ \t]+)?(def|class)[ \t]+(\w+)", re.M)
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
        self.roots: set[str] = set()
        """Modules that are imported though no other one does: to be named before anything is asked."""

    @cached_property
    @_listed
    def at_import(self) -> Iterator[tuple[Module, list[ir.Stmt]]]:
        """The modules that change others when they are imported, and their statements that may, with those before that take
        something of another module: it may be what is replaced. Modules that nothing imports are left out."""
        for path, data in self._program.corpus.files.items():
            if path not in self._direct and not self._calls(data):
                continue
            module = self._program.module_at(path)
            if module is None:
                continue
            found = [s for s in module.body if not _is_main(s) and self._changes(module, s)]
            if found and (self._program.is_imported(module) or module.name in self.roots):
                last = module.body.index(found[-1])
                yield module, [s for s in module.body[: last + 1] if s in found or self._keeps(module, s)]

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
            for path, data in self._program.corpus.files.items():
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
        for data in self._program.corpus.files.values():
            if name in data and (hits := [m.start() for m in called.finditer(data)]):
                defs = _definitions(data)
                starts = [d[0] for d in defs]
                if any(_around(data, defs, starts, data.find(name, at)) for at in hits):
                    return True
        return False

    # ------------------------------------------------------------------------------------------------ in the bytes
    @cached_property
    def _scanned(self) -> tuple[frozenset[str], dict[tuple[str, int], _Function]]:
        """The files that store at their top level, and the functions that store anywhere."""
        direct: set[str] = set()
        functions: dict[tuple[str, int], _Function] = {}
        for path, data in self._program.corpus.files.items():
            hits = [(m.start(1), m.group(1), m.group(2), m.group(3)) for m in _STORE.finditer(data)]
            if b"setattr" in data or b"__dict__" in data or b"vars(" in data:
                for m in _BY_NAME.finditer(data):
                    root, _, rest = (m.group(1) or m.group(3) or m.group(5)).partition(b".")
                    hits.append((m.start(), root, rest, m.group(2) or m.group(4) or m.group(6) or b""))
            if b"sys.modules[" in data:
                hits += [(m.start(), b"sys", b".modules", m.group(2)) for m in _OF_MODULES.finditer(data)]
            hits = [hit for hit in hits if hit[1] != b"self" and (not hit[3] or hit[3] in self._names)]
            if not hits:
                continue
            defs = _definitions(data)
            starts = [d[0] for d in defs]
            for at, root, rest, name in hits:
                around = _around(data, defs, starts, at)
                outer = next((i for i, d in enumerate(around) if d[2] == b"def"), None)
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
                line = data.count(b"\n", 0, d[0]) + 1
                f = functions.setdefault((path, line), _Function(d[3], path, line, around[0][3] if outer else ""))
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

    @cached_property
    def _names(self) -> frozenset[bytes]:
        """What a store may replace: the names of functions, and of what modules and classes bind."""
        found: set[bytes] = set()
        bound = re.compile(rb"^(?:[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)|(?:    )?(\w+)[ \t]*(?::[^=\n]+)?=)", re.M)
        for data in self._program.corpus.files.values():
            found.update(m.group(1) or m.group(2) for m in bound.finditer(data))
        return frozenset(found)

    @cached_property
    def _defined(self) -> frozenset[bytes]:
        """The names of functions."""
        pattern = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.M)
        return frozenset(n for data in self._program.corpus.files.values() for n in pattern.findall(data))

    @cached_property
    def _callers(self) -> frozenset[str]:
        """The names of functions that store, and of those at the top level of modules that call one by a plain name."""
        names = {f.name for f in self._functions.values() if not f.name.startswith("__")}
        names |= {f.holder for f in self._functions.values() if f.stored and f.holder}
        for _ in range(DEEPEST - 1):
            called = re.compile(
                rb"^(?:    |\t)[ \t]*(?:\w+[ \t]*=[ \t]*)?(?:\w+\.)?(?:"
                + b"|".join(sorted(n.encode() for n in names))
                + rb")\(",
                re.M,
            )
            more: set[str] = set()
            for data in self._program.corpus.files.values():
                hits = [m.start() for m in called.finditer(data)] if names else []
                if hits:
                    defs = _definitions(data)
                    starts = [d[0] for d in defs]
                    for at in hits:
                        around = _around(data, defs, starts, data.find(b"(", at))
                        if around and around[0][2] == b"def":
                            more.add(around[0][3])
            if more <= names:
                break
            names |= more
        return frozenset(names)

    def _calls(self, data: bytes) -> bool:
        """Whether the text calls, outside of functions, one that stores."""
        hits = [m.start() for m in _CALLED.finditer(data) if m.group(1) in self._callers_bytes]
        if not hits:
            return False
        defs = _definitions(data)
        starts = [d[0] for d in defs]
        return any(all(d[2] == b"class" for d in _around(data, defs, starts, data.find(b"(", at))) for at in hits)

    @cached_property
    def _callers_bytes(self) -> frozenset[bytes]:
        return frozenset(n.encode() for n in self._callers)

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


_CALLED = re.compile(rb"^(?:[ \t]{0,8})(?:@|\w+[ \t]*=[ \t]*)?(?:\w+\.)*(\w+)\(", re.M)


def _is_view(e: ir.Expr) -> bool:
    if isinstance(e, ir.Attribute):
        return e.attr == "__dict__"
    return isinstance(e, ir.Call) and isinstance(e.func, ir.Name) and e.func.id == "vars" and bool(e.args)


def _is_main(s: ir.Stmt) -> bool:
    """``if __name__ == "__main__":``, and ``if TYPE_CHECKING:``."""
    if not isinstance(s, ir.If):
        return False
    return any(isinstance(x, ir.Name) and x.id in ("__name__", "TYPE_CHECKING") for x in sub_expressions(s.test))


_Def = tuple[int, int, bytes, str]
"""Of a definition: where it starts, how far it is indented, "def" or "class", and its name."""


def _definitions(data: bytes) -> list[_Def]:
    return [(m.start(), len(m.group(1)), m.group(2), m.group(3).decode()) for m in _DEF.finditer(data)]


def _around(data: bytes, defs: list[_Def], starts: list[int], at: int) -> list[_Def]:
    """The definitions around a position, outermost first."""
    begin = data.rfind(b"\n", 0, at) + 1
    indent = len(data[begin:at]) - len(data[begin:at].lstrip())
    out: list[_Def] = []
    if not indent:
        return out
    for i in range(bisect_right(starts, begin) - 1, -1, -1):
        d = defs[i]
        if d[1] < indent:
            out.append(d)
            indent = d[1]
        if not indent:
            break
    out.reverse()
    for i, d in enumerate(out):
        if _ENDED[min(d[1], 8)].search(data, data.find(b"\n", d[0]), begin):
            return out[:i]
    return out


_ENDED = [re.compile(rb"^[ \t]{0,%d}[A-Za-z_@]" % n, re.M) for n in range(9)]
"""A line that is no deeper than a definition ends it; one of a text may look so."""
