"""Attributes by which a class without a setter would capture states, and that nothing in the tree ever sets on it.

What says "capture" is read off the setters that other classes of the tree have: the attributes that they store. A class without
one that has, or whose text model has, such an attribute, made empty and read by its code, captures nothing, whoever asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from flowcheck.flow.targets import Target
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.interp import attributes
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.frames import Dead
from flowcheck.interp.values import ClassV, FuncV, Known, Ref, Value, alternatives
from flowcheck.program.modules import Module, Program
from flowcheck.program.parts import sub_expressions
from flowcheck.syntax import ir

__all__ = ["Unset", "stored_by"]

MAKER = "__init__"


def stored_by(setter: FuncV) -> Iterator[str]:
    """The attributes that a setter stores, on whatever object."""
    node, syntax = setter.node, setter.module.syntax
    if syntax is None or not isinstance(node, ir.FunctionDef):
        return
    for part in sub_expressions(syntax.body_of(node)):
        targets = (
            part.targets if isinstance(part, ir.Assign) else (part.target,) if isinstance(part, ir.AnnAssign) else ()
        )
        for target in targets:
            if isinstance(target, ir.Attribute):
                yield target.attr


@dataclass
class Unset:
    """The question for one tree. ``names``: what setters of its classes store; ``files``: those that register a class."""

    program: Program
    words: Vocabulary
    names: frozenset[str]
    files: frozenset[str]
    processors: tuple[str, ...]
    outside: dict[str, bool] = field(default_factory=dict)

    def may_be_asked(self, cls: ClassV) -> bool:
        """Whether a class without a setter is worth making: its files speak of such an attribute, and it makes logits."""
        files = self.program.corpus.files
        texts = [files[base.module.path] for base in cls.mro if base.module.path in files]
        bodies = [
            b"\n".join(files[base.module.path].splitlines()[base.node.line - 1 : base.node.end_line])
            for base in cls.mro
            if base.module.path in files
        ]
        return (
            not any(has_method(base, name) for base in cls.mro for name in self._setters)
            and any(_spells(text, name) for text in texts for name in self.names)
            and any(_spells(body, name) for body in bodies for name in self.processors)
        )

    def of(self, it: Interpreter, target: Target) -> tuple[str, ...]:
        """The attributes, by their paths from the class."""
        found: list[str] = []
        for path, value in self._holders(it, target):
            for x in alternatives(value):
                cls = it.base_state.obj(x.oid).cls if isinstance(x, Ref) else None
                if cls is None:
                    continue
                for name in sorted(self.names):
                    if self._is_unset(it, target, x, cls, name):
                        found.append(f"{path}{name}")
        return tuple(dict.fromkeys(found))

    @property
    def _setters(self) -> frozenset[str]:
        return frozenset(name for names in self.words.capture.setters.values() for name in names)

    def _holders(self, it: Interpreter, target: Target) -> Iterator[tuple[str, Value]]:
        """The target and its text model, by path."""
        yield "", target.instance
        for name in self.words.configurations.inner_models:
            value = self._attribute(it, target, target.instance, name)
            if value is not None:
                yield f"{name}.", value

    def _attribute(self, it: Interpreter, target: Target, of: Value, name: str) -> Value | None:
        with it.outside():
            try:
                return attributes.get(it, of, name, it.module_frame(target.cls.module), it.base_state)
            except Dead:
                return None

    def _is_unset(self, it: Interpreter, target: Target, x: Value, cls: ClassV, name: str) -> bool:
        if not _reads(cls, name, self._setters):
            return False
        if self._may_be_set(name, {*cls.mro, *target.cls.mro}):
            return False
        value = self._attribute(it, target, x, name)
        return value is not None and all(_is_empty(it, each) for each in alternatives(value))

    def _may_be_set(self, name: str, classes: Iterable[ClassV]) -> bool:
        """Whether code stores such an attribute that is neither a constructor nor a setter of another class."""
        if name not in self.outside:
            paths = set(self.program.corpus.files_with(name)) - self.files
            modules = [module for path in paths if (module := self.program.module_at(path)) is not None]
            known = {cls.module.path for cls in classes}
            texts = (self.program.corpus.files[module.path] for module in modules if module.path not in known)
            self.outside[name] = any(_stores_afar(text, name) for text in texts)
        return self.outside[name] or any(
            name in _stored_in(cls.module, method) for cls in classes for method in _methods(cls)
        )


def has_method(cls: ClassV, name: str) -> bool:
    """Whether the body of a class defines a method."""
    return any(method.name == name for method in _methods(cls))


def _methods(cls: ClassV) -> Iterator[ir.FunctionDef]:
    return (statement for statement in cls.node.body if isinstance(statement, ir.FunctionDef))


def _own(method: ir.FunctionDef) -> str:
    """The name by which a method calls the object."""
    return method.params.items[0].name if method.params.items else ""


def _body(module: Module, method: ir.FunctionDef) -> tuple[ir.Stmt, ...]:
    return module.syntax.body_of(method) if module.syntax is not None else ()


def _reads(cls: ClassV, name: str, setters: frozenset[str]) -> bool:
    """Whether a method of a class that neither makes nor tells it reads such an attribute of itself, none that is overridden."""
    seen = {MAKER, *setters}
    for base in cls.mro:
        own = [method for method in _methods(base) if method.name not in seen]
        for method in own:
            read = (
                x for x in sub_expressions(_body(base.module, method)) if isinstance(x, ir.Attribute) and x.attr == name
            )
            if any(isinstance(x.value, ir.Name) and x.value.id == _own(method) for x in read):
                return True
        seen.update(method.name for method in own)
    return False


CHANGES = frozenset({"append", "extend", "insert", "update", "add"})
READERS = frozenset({"getattr", "hasattr"})
"""They name an attribute, and change none."""


def _stored_in(module: Module, method: ir.FunctionDef) -> set[str]:
    """The names of attributes that a method may change: stored, filled, or named in words. What a constructor stores on the
    object itself is its first value, which is looked at."""
    found: set[str] = set()
    read: set[int] = set()
    own = _own(method) if method.name == MAKER else ""
    for part in sub_expressions(_body(module, method)):
        if isinstance(part, (ir.Assign, ir.AnnAssign, ir.AugAssign)):
            targets = part.targets if isinstance(part, ir.Assign) else (part.target,)
            stored = (x for target in targets for x in sub_expressions(target) if isinstance(x, ir.Attribute))
            found.update(x.attr for x in stored if not (isinstance(x.value, ir.Name) and x.value.id == own))
        elif isinstance(part, ir.Call) and isinstance(part.func, ir.Name) and part.func.id in READERS:
            read.update(id(arg.value) for arg in part.args)
        elif isinstance(part, ir.Attribute) and part.attr in CHANGES and isinstance(part.value, ir.Attribute):
            found.add(part.value.attr)
        elif isinstance(part, ir.Const) and isinstance(part.value, str) and id(part) not in read:
            found.add(part.value)
    return found


def _spells(text: bytes, name: str) -> bool:
    return re.search(rb"\b%s\b" % re.escape(name.encode()), text) is not None


def _stores_afar(text: bytes, name: str) -> bool:
    """Whether code outside of the files of models stores such an attribute on another object, or names it in words."""
    word = re.escape(name.encode())
    stores = rb"(?<!\bself)\.%s\s*(:[^=\n]+)?([-+|]?=(?!=)|\.(%s)\()" % (word, b"|".join(c.encode() for c in CHANGES))
    reads = rb"\b(%s)\([\w.\s]*,\s*[\"']%s[\"']" % (b"|".join(each.encode() for each in READERS), word)
    return re.search(stores + rb"|[\"']%s[\"']" % word, re.sub(reads, b"", text)) is not None


def _is_empty(it: Interpreter, value: Value) -> bool:
    """Whether a value is certainly None, False, or a container that holds nothing."""
    if isinstance(value, Known):
        return value.value is None or value.value is False
    obj = it.base_state.get(value.oid) if isinstance(value, Ref) else None
    return obj is not None and obj.kind in ("list", "set", "dict") and obj.items is not None and not len(obj.items)
