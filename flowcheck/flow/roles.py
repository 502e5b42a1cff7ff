"""Who plays which part in the scanned tree: classes found by what they hold, never by file or class name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.interp import names
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.values import ClassV, Value
from flowcheck.program.corpus import Corpus, methods_of
from flowcheck.program.modules import Module
from flowcheck.syntax import ir

__all__ = ["MissingRole", "Roles", "UnknownAlgorithm", "find_roles"]


class MissingRole(Exception):
    """The tree has nothing that plays a part which the walk needs; str is one line for people."""


class UnknownAlgorithm(Exception):
    """The tree refuses the name of the scenario's algorithm; str is one line for people."""


@dataclass
class Roles:
    """The parts. ``metadata`` is None where no class can be found that the logits processor acts on."""

    mode: ClassV
    phase: ClassV
    algorithm: ClassV
    arguments: ClassV
    schedulers: list[ClassV]
    batch: ClassV
    metadata: ClassV | None


def class_value(it: Interpreter, module: Module, name: str) -> ClassV | None:
    it.module_oid(module)
    v = names.global_value(it, module, name, it.base_state)
    return v if isinstance(v, ClassV) else None


def _values(it: Interpreter, found: list[tuple[Module, ir.ClassDef]]) -> list[ClassV]:
    out: list[ClassV] = []
    for module, c in found:
        v = class_value(it, module, c.name)
        if v is not None and v not in out:
            out.append(v)
    return out


def _one(what: str, found: list[ClassV]) -> ClassV:
    if not found:
        raise MissingRole(f"the tree has no {what}")
    return found[0]


def find_roles(it: Interpreter, corpus: Corpus, words: Vocabulary) -> Roles:
    """Looks every part up. Raises MissingRole for the first one that nothing plays."""
    mode = _one(
        f"enum with the members {', '.join(words.mode.members)}",
        [c for c in _values(it, corpus.classes_with_members(*words.mode.members)) if c.enum_kind],
    )
    phase = _one(
        f"enum with the members {', '.join(words.phase.members)}",
        [c for c in _values(it, corpus.classes_with_members(*words.phase.members)) if c.enum_kind],
    )
    algorithms = _values(it, corpus.classes_with_methods(*words.entry.algorithm_methods))
    made = [c for c in algorithms if _defines(c, words.entry.algorithm_from_name)]
    algorithm = _one(f"class with the methods {', '.join(words.entry.algorithm_methods)}", made or algorithms)
    schedulers = [
        c
        for c in _values(it, corpus.classes_with_methods(words.entry.dispatch))
        if _assigns(c, words.entry.worker_attribute)
    ]
    if not schedulers:
        raise MissingRole(
            f"the tree has no class with a method {words.entry.dispatch} that builds a {words.entry.worker_attribute}"
        )
    batch = _batch_class(it, schedulers[0], words)
    arguments = _arguments_class(it, schedulers[0], words) or _one(
        f"class with the methods {', '.join(words.entry.arguments_methods)}",
        _values(it, corpus.classes_with_methods(*words.entry.arguments_methods)),
    )
    factories = [
        c
        for c in _values(it, corpus.classes_with_methods(words.metadata.factory))
        if _assigns_field(c, words.mode.attribute)
    ]
    return Roles(mode, phase, algorithm, arguments, schedulers, batch, factories[0] if factories else None)


def _defines(c: ClassV, method: str) -> bool:
    return any(method in methods_of(b.node) for b in c.mro)


def _assigns(c: ClassV, attribute: str) -> bool:
    """Whether any method of the class or its bases assigns ``self.<attribute>``."""
    pattern = re.compile(rf"\bself\.{re.escape(attribute)}\s*(?::[^=\n]+)?=(?!=)")
    for b in c.mro:
        syntax = b.module.syntax
        if syntax is None:
            continue
        for s in b.node.body:
            if isinstance(s, ir.FunctionDef) and pattern.search(syntax.def_source(s)):
                return True
    return False


def _assigns_field(c: ClassV, name: str) -> bool:
    from flowcheck.program.corpus import members_of

    return any(name in members_of(b.node) for b in c.mro)


def _arguments_class(it: Interpreter, scheduler: ClassV, words: Vocabulary) -> ClassV | None:
    """The class that annotates the server arguments where the scheduler takes them."""
    for b in scheduler.mro:
        for s in b.node.body:
            if isinstance(s, ir.FunctionDef) and s.name == "__init__":
                for p in s.params.items:
                    if p.name == words.entry.arguments_attribute:
                        v = annotated_class(it, b.module, p.annotation)
                        if v is not None:
                            return v
    return None


def _batch_class(it: Interpreter, scheduler: ClassV, words: Vocabulary) -> ClassV:
    """The class that annotates the first parameter of the dispatching method."""
    for b in scheduler.mro:
        for s in b.node.body:
            if isinstance(s, ir.FunctionDef) and s.name == words.entry.dispatch and len(s.params.items) > 1:
                annotation = s.params.items[1].annotation
                v = annotated_class(it, b.module, annotation)
                if v is not None:
                    return v
    raise MissingRole(f"{scheduler.name}.{words.entry.dispatch} does not say the class of its batch")


def annotated_class(it: Interpreter, module: Module, annotation: ir.Expr | None) -> ClassV | None:
    """The class of the tree that an annotation names, quoted or not, imported for type checking or not."""
    if isinstance(annotation, ir.Const) and isinstance(annotation.value, str):
        name = annotation.value.strip().strip("'\"")
    elif isinstance(annotation, ir.Name):
        name = annotation.id
    elif isinstance(annotation, ir.Attribute):
        name = annotation.attr
    elif isinstance(annotation, ir.Subscript):
        return annotated_class(it, module, annotation.index)
    else:
        return None
    v: Value | None = class_value(it, module, name)
    if isinstance(v, ClassV):
        return v
    for statement in module.body:  # imported under ``if TYPE_CHECKING``, which the interpreter takes for false
        if isinstance(statement, ir.If):
            for s in statement.body:
                if isinstance(s, ir.ImportFrom):
                    for entry, alias in s.names:
                        if (alias or entry) == name:
                            source = it.program.module(it.program.resolve(module, s))
                            if source is not None:
                                return class_value(it, source, entry)
    return None
