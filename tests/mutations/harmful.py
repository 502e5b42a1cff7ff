"""Edits after which the target captures too little, on some path of some deployment."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from tests.mutations.operators import Maker, at, changes_of, edit
from tests.mutations.routings import (
    ASSIGNMENTS,
    EXPRESSIONS,
    KEYWORDS,
    Spot,
    assignable,
    drop_keyword,
    enum_name,
    field_default,
    free_condition,
    made_class,
)
from tests.mutations.runner import Expect, Mutant
from tests.mutations.sites import ATTRIBUTE, REQUIRED, WORDS, Call, Code, Site, field_of
from tests.mutations.text import Draft, NoSuchEdit, Source

__all__ = ["HARMFUL"]

LOWEST, LOWER = WORDS.mode.members[:2]
HARMFUL: dict[str, Maker] = {}


def operator(name: str) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        HARMFUL[name] = maker
        return maker

    return register


def lower(code: Code, source: Source, member: str = LOWER) -> str:
    return f"{enum_name(code, source)}.{member}"


def deciding(code: Code, kind: str = "") -> list[Site]:
    """The places through which the mode of an eager flow comes: what is lower there is lower at the end."""
    return [site for site in code.sites if site.decides and (not kind or site.kind == kind)]


# ---------------------------------------------------------------------------------------------- the value at its site
def _value(text: Callable[[Code, Site], str], name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for site in deciding(code):
            with edit() as made:
                draft = Draft(code.release)
                draft.replace(site.source, site.value, text(code, site))
                made.append(changes_of(draft))
            yield from (at(name, Expect.CAUGHT, site, c) for c in made)

    return make


for _name, _text in {
    f"value: {LOWER}": lambda code, site: lower(code, site.source),
    f"value: {LOWEST}": lambda code, site: lower(code, site.source, LOWEST),
    "value: None": lambda code, site: "None",
    "value: lower of two": lambda code, site: f"min({site.source.of(site.value)}, {lower(code, site.source)})",
    "value: and": lambda code, site: f"({site.source.of(site.value)} and {lower(code, site.source)})",
    "value: a step down": lambda code, site: f"{enum_name(code, site.source)}({site.source.of(site.value)}.value - 1)",
    "value: lower if a condition holds": lambda code, site: (
        f"({lower(code, site.source)} if {free_condition(site.source, site.node)} else {site.source.of(site.value)})"
    ),
    "value: lower unless a condition holds": lambda code, site: (
        f"({site.source.of(site.value)} if {free_condition(site.source, site.node)} else {lower(code, site.source)})"
    ),
}.items():
    HARMFUL[_name] = _value(_text, _name)


def _routed(name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for site in deciding(code):
            with edit() as made:
                draft = Draft(code.release)
                EXPRESSIONS[name](Spot(code, draft, site.source, site.value), lower(code, site.source))
                made.append(changes_of(draft))
            yield from (at(f"lower through: {name}", Expect.CAUGHT, site, c) for c in made)

    return make


for _name in EXPRESSIONS:
    if _name != "direct":
        HARMFUL[f"lower through: {_name}"] = _routed(_name)


# -------------------------------------------------------------------------------------------------------- assignments
def _stored(name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for site in deciding(code, "store"):
            with edit() as made:
                draft = Draft(code.release)
                target = assignable(code, draft, site.source, site.source.of(site.target.value))
                lines = ASSIGNMENTS[name](target, lower(code, site.source))
                draft.instead(site.source, site.source.statement(site.node), lines)
                made.append(changes_of(draft))
            yield from (at(f"stored by: {name}", Expect.CAUGHT, site, c) for c in made)

    return make


def _lowered_after(name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for site in deciding(code, "store"):
            with edit() as made:
                draft = Draft(code.release)
                target = assignable(code, draft, site.source, site.source.of(site.target.value))
                lines = ASSIGNMENTS[name](target, lower(code, site.source))
                draft.after(site.source, site.source.statement(site.node), lines)
                made.append(changes_of(draft))
            yield from (at(f"lowered after the store by: {name}", Expect.CAUGHT, site, c) for c in made)

    return make


for _name in ASSIGNMENTS:
    if _name != "plain":
        HARMFUL[f"stored by: {_name}"] = _stored(_name)
    HARMFUL[f"lowered after the store by: {_name}"] = _lowered_after(_name)


@operator("store removed")
def store_removed(code: Code) -> Iterator[Mutant]:
    for site in deciding(code, "store"):
        with edit() as made:
            draft = Draft(code.release)
            draft.instead(site.source, site.source.statement(site.node), "pass")
            made.append(changes_of(draft))
        yield from (at("store removed", Expect.CAUGHT, site, c) for c in made)


@operator("store under a condition")
def store_under_condition(code: Code) -> Iterator[Mutant]:
    for site in deciding(code, "store"):
        with edit() as made:
            draft = Draft(code.release)
            condition = free_condition(site.source, site.node)
            target, value = site.source.of(site.target), site.source.of(site.value)
            lines = f"if {condition}:\n    {target} = {lower(code, site.source)}\nelse:\n    {target} = {value}"
            draft.instead(site.source, site.source.statement(site.node), lines)
            made.append(changes_of(draft))
        yield from (at("store under a condition", Expect.CAUGHT, site, c) for c in made)


@operator("lowered after the store if a condition holds")
def lowered_if(code: Code) -> Iterator[Mutant]:
    for site in deciding(code, "store"):
        with edit() as made:
            draft = Draft(code.release)
            condition = free_condition(site.source, site.node)
            lines = f"if {condition}:\n    {site.source.of(site.target)} = {lower(code, site.source)}"
            draft.after(site.source, site.source.statement(site.node), lines)
            made.append(changes_of(draft))
        yield from (at("lowered after the store if a condition holds", Expect.CAUGHT, site, c) for c in made)


# ----------------------------------------------------------------------------------------------------------- keywords
@operator("keyword removed")
def keyword_removed(code: Code) -> Iterator[Mutant]:
    for site in deciding(code, "record"):
        with edit() as made:
            if site.made in code.carriers:
                default = field_default(made_class(code, site))
                if default is not None and REQUIRED in ast.dump(default):
                    raise NoSuchEdit("the default is what is wanted")
            else:
                raise NoSuchEdit("what is made is not known")
            draft = Draft(code.release)
            drop_keyword(draft, site)
            made.append(changes_of(draft))
        yield from (at("keyword removed", Expect.CAUGHT, site, c) for c in made)


@operator("graph records lower")
def graph_records_lower(code: Code) -> Iterator[Mutant]:
    """What the runner says of itself stays as it is: only the forwards that it records ask for less."""
    for site in code.sites:
        if site.kind != "record" or not site.only_graph or not isinstance(site.value, ast.Attribute):
            continue
        with edit() as made:
            draft = Draft(code.release)
            draft.replace(site.source, site.value, lower(code, site.source))
            made.append(changes_of(draft))
        yield from (at("graph records lower", Expect.CAUGHT, site, c) for c in made)


def _given(name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for site in deciding(code, "record"):
            with edit() as made:
                if name == "keyword moved":
                    raise NoSuchEdit("the value is what matters")
                draft = Draft(code.release)
                KEYWORDS[name](code, draft, site, lower(code, site.source))
                made.append(changes_of(draft))
            yield from (at(f"keyword given by: {name}", Expect.CAUGHT, site, c) for c in made)

    return make


for _name in KEYWORDS:
    if _name != "keyword moved":
        HARMFUL[f"keyword given by: {_name}"] = _given(_name)


@operator("keyword removed, field's default lowered")
def default_lowered(code: Code) -> Iterator[Mutant]:
    for site in deciding(code, "record"):
        with edit() as made:
            cls = made_class(code, site)
            source = code.source(code.carriers[site.made])
            declared = field_of(cls)
            if declared is None or declared.value is None:
                raise NoSuchEdit("the field has no default")
            draft = Draft(code.release)
            drop_keyword(draft, site)
            draft.replace(source, declared.value, lower(code, source))
            made.append(changes_of(draft))
        yield from (at("keyword removed, field's default lowered", Expect.CAUGHT, site, c) for c in made)


@operator("another attribute copied")
def another_attribute(code: Code) -> Iterator[Mutant]:
    for site in deciding(code):
        value = site.value
        if not (isinstance(value, ast.Attribute) and value.attr == ATTRIBUTE):
            continue
        owner = site.source.of(value.value)
        for other in (f'getattr({owner}, "hidden_mode", None)', f"{owner}.{WORDS.phase.attribute}"):
            with edit() as made:
                draft = Draft(code.release)
                draft.replace(site.source, value, other)
                made.append(changes_of(draft))
            yield from (at("another attribute copied", Expect.CAUGHT, site, c) for c in made)


@operator("lowered in __post_init__")
def post_init(code: Code) -> Iterator[Mutant]:
    for site in deciding(code, "record"):
        with edit() as made:
            cls = made_class(code, site)
            source = code.source(code.carriers[site.made])
            if any(isinstance(s, ast.FunctionDef) and s.name == "__post_init__" for s in cls.body):
                raise NoSuchEdit("has one")
            methods = [s for s in cls.body if isinstance(s, ast.FunctionDef)]
            if not methods:
                raise NoSuchEdit("has no method")
            draft = Draft(code.release)
            x = lower(code, source)
            draft.before(source, methods[0], f"def __post_init__(self):\n    self.{ATTRIBUTE} = {x}\n\n")
            made.append(changes_of(draft))
        yield from (at("lowered in __post_init__", Expect.CAUGHT, site, c) for c in made)


# -------------------------------------------------------------------------------------------------------- later on
def later(code: Code) -> Iterator[tuple[Call, str, ast.stmt, bool]]:
    """Places on the way where the forward's batch is at hand by a name: (call, name, statement, after it)."""
    carriers = [name for name, path in code.carriers.items() if _has_factory(code, name, path)]
    for call in code.calls:
        for parameter in (*call.function.args.args, *call.function.args.kwonlyargs):
            annotation = call.source.of(parameter.annotation) if parameter.annotation is not None else ""
            if annotation.strip("\"'") in carriers:
                yield call, parameter.arg, call.source.body_start(call.function), False
        for node in ast.walk(call.function):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
                and node.value.func.attr == "init_new"
                and isinstance(node.targets[0], ast.Name)
            ):
                yield call, node.targets[0].id, node, True


def _has_factory(code: Code, name: str, path: str) -> bool:
    cls = code.source(path).classes(name)[0]
    return any(isinstance(s, ast.FunctionDef) and s.name == "init_new" for s in cls.body)


def _lowered_later(name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for call, batch, statement, after in later(code):
            with edit() as made:
                draft = Draft(code.release)
                target = assignable(code, draft, call.source, batch)
                lines = ASSIGNMENTS[name](target, _somehow(code, call.source, statement, draft))
                (draft.after if after else draft.before)(call.source, statement, lines)
                made.append(changes_of(draft))
            for c in made:
                yield Mutant(
                    f"lowered on the way by: {name}", Expect.CAUGHT, call.source.path, statement.lineno,
                    c[1], c[0], call.settings,
                )  # fmt: skip

    return make


def _somehow(code: Code, source: Source, statement: ast.stmt, draft: Draft) -> str:
    """The lower member in a module that may not know the enum."""
    name = code.enum[1].name
    if not source.imports(name):
        draft.at_top(source, code.enum_import)
    return f"{name}.{LOWER}"


for _name in ASSIGNMENTS:
    HARMFUL[f"lowered on the way by: {_name}"] = _lowered_later(_name)


@operator("lowered on the way if a condition holds")
def lowered_later_if(code: Code) -> Iterator[Mutant]:
    for call, batch, statement, after in later(code):
        for condition in (f"len({batch}.seq_lens) > 64", f"{batch}.forward_mode.is_extend()"):
            with edit() as made:
                draft = Draft(code.release)
                x = _somehow(code, call.source, statement, draft)
                lines = f"if {condition}:\n    {batch}.{ATTRIBUTE} = {x}"
                (draft.after if after else draft.before)(call.source, statement, lines)
                made.append(changes_of(draft))
            for c in made:
                yield Mutant(
                    "lowered on the way if a condition holds", Expect.CAUGHT, call.source.path, statement.lineno,
                    c[1], c[0], call.settings,
                )  # fmt: skip


@operator("lowered on the way: clamped")
def clamped(code: Code) -> Iterator[Mutant]:
    for call, batch, statement, after in later(code):
        with edit() as made:
            draft = Draft(code.release)
            x = _somehow(code, call.source, statement, draft)
            lines = f"if {batch}.{ATTRIBUTE} > {x}:\n    {batch}.{ATTRIBUTE} = {x}"
            (draft.after if after else draft.before)(call.source, statement, lines)
            made.append(changes_of(draft))
        for c in made:
            yield Mutant(
                "lowered on the way: clamped", Expect.CAUGHT, call.source.path, statement.lineno,
                c[1], c[0], call.settings,
            )  # fmt: skip


@operator("lowered on the way: in an added method")
def added_method(code: Code) -> Iterator[Mutant]:
    for call, batch, statement, after in later(code):
        with edit() as made:
            if call.source.class_of(call.function) is None or call.function.args.args[0].arg != "self":
                raise NoSuchEdit("is no method")
            draft = Draft(code.release)
            x = _somehow(code, call.source, statement, draft)
            method = f"def trim_capture(self, batch):\n    batch.{ATTRIBUTE} = {x}\n\n"
            draft.before(call.source, call.function, method)
            (draft.after if after else draft.before)(call.source, statement, f"self.trim_capture({batch})")
            made.append(changes_of(draft))
        for c in made:
            yield Mutant(
                "lowered on the way: in an added method", Expect.CAUGHT, call.source.path, statement.lineno,
                c[1], c[0], call.settings,
            )  # fmt: skip


@operator("lowered on the way: in a wrapper of the method")
def wrapper(code: Code) -> Iterator[Mutant]:
    for call, batch, _, after in later(code):
        with edit() as made:
            function = call.function
            if after or function.decorator_list or call.source.class_of(function) is None:
                raise NoSuchEdit("cannot be wrapped")
            draft = Draft(code.release)
            x = _somehow(code, call.source, function, draft)
            names = [a.arg for a in function.args.args]
            if batch not in names:
                raise NoSuchEdit("the batch is no positional parameter")
            position = names.index(batch)
            draft.at_top(
                call.source,
                "import functools\n\n\ndef trimmed(method):\n    @functools.wraps(method)\n"
                "    def run(*args, **kwargs):\n"
                f'        batch = kwargs["{batch}"] if "{batch}" in kwargs else args[{position}]\n'
                f"        batch.{ATTRIBUTE} = {x}\n        return method(*args, **kwargs)\n\n    return run",
            )
            draft.before(call.source, function, "@trimmed")
            made.append(changes_of(draft))
        for c in made:
            yield Mutant(
                "lowered on the way: in a decorator", Expect.CAUGHT, call.source.path, function.lineno,
                c[1], c[0], call.settings,
            )  # fmt: skip


@operator("lowered on the way: in the factory")
def in_factory(code: Code) -> Iterator[Mutant]:
    for name, path in code.carriers.items():
        if not _has_factory(code, name, path):
            continue
        source = code.source(path)
        cls = source.classes(name)[0]
        function = next(s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "init_new")
        returns = [s for s in ast.walk(function) if isinstance(s, ast.Return) and isinstance(s.value, ast.Name)]
        for form, lines in {
            "plain": "{batch}.{attribute} = {x}",
            "loop": "for name in ('{attribute}',):\n    setattr({batch}, name, {x})",
            "closure": "def finish():\n    {batch}.{attribute} = {x}\n\nfinish()",
        }.items():
            with edit() as made:
                draft = Draft(code.release)
                for statement in returns:
                    assert isinstance(statement.value, ast.Name)
                    text = lines.format(batch=statement.value.id, attribute=ATTRIBUTE, x=lower(code, source))
                    draft.before(source, statement, text)
                if not returns:
                    raise NoSuchEdit("returns no name")
                made.append(changes_of(draft))
            for c in made:
                yield Mutant(
                    f"lowered on the way: in the factory ({form})", Expect.CAUGHT, path, returns[0].lineno, c[1], c[0]
                )


# ----------------------------------------------------------------------------------------------------------- the enum
def _predicate(code: Code, name: str) -> tuple[Source, ast.FunctionDef]:
    source, cls = code.enum
    for s in cls.body:
        if isinstance(s, ast.FunctionDef) and s.name == name:
            return source, s
    raise NoSuchEdit(f"no {name}")


@operator("enum: predicates turned around")
def predicates(code: Code) -> Iterator[Mutant]:
    bodies = {
        "is_full": ("return self == {enum}.LAST", "return self != {enum}.FULL", "return False",
                    "return not (self == {enum}.FULL)", "return self < {enum}.FULL"),
        "need_capture": ("return self == {enum}.NULL", "return False", "return self == {enum}.LAST",
                         "return self != {enum}.FULL"),
    }  # fmt: skip
    for name, texts in bodies.items():
        for text in texts:
            with edit() as made:
                source, function = _predicate(code, name)
                draft = Draft(code.release)
                draft.instead(source, function.body[-1], text.format(enum=code.enum[1].name))
                made.append(changes_of(draft))
            for c in made:
                yield Mutant(f"enum: {name} turned around", Expect.CAUGHT, source.path, function.lineno, c[1], c[0])


@operator("enum: FULL is NULL's value")
def values(code: Code) -> Iterator[Mutant]:
    source, cls = code.enum
    member = next(s for s in cls.body if isinstance(s, ast.Assign) and getattr(s.targets[0], "id", "") == REQUIRED)
    draft = Draft(code.release)
    draft.replace(source, member.value, "0")
    changes, snippet = changes_of(draft)
    yield Mutant("enum: FULL is NULL's value", Expect.CAUGHT, source.path, member.lineno, snippet, changes)


# ----------------------------------------------------------------------------------------------------------- metadata
@operator("metadata: mode lowered after it was copied")
def metadata_after(code: Code) -> Iterator[Mutant]:
    """In the class that the logits processor acts on."""
    for path, match in code.grep(rf"^class (\w+).*:(?=\n(?:.*\n)*?\s+def {WORDS.metadata.factory}\()"):
        source = code.source(path)
        for cls in source.classes(match.group(1)):
            if field_of(cls) is None:
                continue
            function = next(
                (s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == WORDS.metadata.factory), None
            )
            if function is None:
                continue
            batch = function.args.args[-1].arg
            with edit() as made:
                draft = Draft(code.release)
                line = f"{batch}.{ATTRIBUTE} = {lower(code, source)}"
                draft.before(source, source.body_start(function), line)
                made.append(changes_of(draft))
            for c in made:
                yield Mutant("metadata: lowered before it is copied", Expect.CAUGHT, path, function.lineno, c[1], c[0])


# ------------------------------------------------------------------------------------------------ classes and modules
@operator("patched: a property of the batch's class")
def patched_property(code: Code) -> Iterator[Mutant]:
    for name, path in code.carriers.items():
        if not _has_factory(code, name, path):
            continue
        source = code.source(path)
        x = lower(code, source)
        forms = {
            "constant": f"{name}.{ATTRIBUTE} = property(lambda self: {x}, lambda self, mode: None)",
            "clamp": (
                f"def _clamped(self, mode):\n    self.__dict__['_mode'] = {x} if mode is not None else mode\n\n\n"
                f"{name}.{ATTRIBUTE} = property(lambda self: self.__dict__['_mode'], _clamped)"
            ),
        }
        for form, lines in forms.items():
            with edit() as made:
                draft = Draft(code.release)
                draft.at_end(source, lines)
                made.append(changes_of(draft))
            for c in made:
                yield Mutant(f"patched: a property of the batch's class ({form})", Expect.CAUGHT, path, 1, c[1], c[0])


@operator("patched: the batch's factory")
def patched_factory(code: Code) -> Iterator[Mutant]:
    for name, path in code.carriers.items():
        if not _has_factory(code, name, path):
            continue
        source = code.source(path)
        x = lower(code, source)
        forms = {
            "a subclass of the same name": (
                f"_Whole = {name}\n\n\nclass {name}(_Whole):\n    @classmethod\n"
                "    def init_new(cls, *args, **kwargs):\n        made = super().init_new(*args, **kwargs)\n"
                f"        made.{ATTRIBUTE} = {x}\n        return made"
            ),
            "assigned": (
                f"_init_new = {name}.init_new\n\n\ndef _trimmed(*args, **kwargs):\n"
                f"    made = _init_new(*args, **kwargs)\n    made.{ATTRIBUTE} = {x}\n    return made\n\n\n"
                f"{name}.init_new = staticmethod(_trimmed)"
            ),
        }
        for form, lines in forms.items():
            with edit() as made:
                draft = Draft(code.release)
                draft.at_end(source, lines)
                made.append(changes_of(draft))
            for c in made:
                yield Mutant(f"patched: the batch's factory, {form}", Expect.CAUGHT, path, 1, c[1], c[0])


@operator("patched: a method on the way")
def patched_method(code: Code) -> Iterator[Mutant]:
    """From another module that is imported by the worker's."""
    workers = [call.source for call in code.calls if call.depth == 0]
    for call, batch, _, after in later(code):
        owner = call.source.class_of(call.function)
        names = [a.arg for a in call.function.args.args]
        if after or owner is None or batch not in names or not workers:
            continue
        with edit() as made:
            draft = Draft(code.release)
            module = code.module(call.source.path)
            name = call.function.name
            lines = (
                f"from {module} import {owner.name} as _Patched\n{code.enum_import} as _Modes\n\n"
                f"_whole = _Patched.{name}\n\n\ndef _trimmed(*args, **kwargs):\n"
                f"    batch = kwargs['{batch}'] if '{batch}' in kwargs else args[{names.index(batch)}]\n"
                f"    batch.{ATTRIBUTE} = _Modes.{LOWER}\n    return _whole(*args, **kwargs)\n\n\n"
                f"_Patched.{name} = _trimmed"
            )
            draft.at_end(workers[0], lines)
            made.append(changes_of(draft))
        for c in made:
            line = call.function.lineno
            yield Mutant("patched: a method on the way", Expect.CAUGHT, call.source.path, line, c[1], c[0])


@operator("patched: a subclass of the same name")
def patched_subclass(code: Code) -> Iterator[Mutant]:
    for call, batch, _, after in later(code):
        owner = call.source.class_of(call.function)
        if after or owner is None or batch not in [a.arg for a in call.function.args.args]:
            continue
        with edit() as made:
            draft = Draft(code.release)
            x = _somehow(code, call.source, call.function, draft)
            names = [a.arg for a in call.function.args.args]
            name, position = call.function.name, names.index(batch) - 1
            draft.at_end(
                call.source,
                f"_Whole{owner.name} = {owner.name}\n\n\nclass {owner.name}(_Whole{owner.name}):\n"
                f"    def {name}(self, *args, **kwargs):\n"
                f"        batch = kwargs['{batch}'] if '{batch}' in kwargs else args[{position}]\n"
                f"        batch.{ATTRIBUTE} = {x}\n        return super().{name}(*args, **kwargs)",
            )
            made.append(changes_of(draft))
        for c in made:
            line = call.function.lineno
            yield Mutant("patched: a subclass of the same name", Expect.CAUGHT, call.source.path, line, c[1], c[0])


@operator("patched: a method of the instance")
def patched_instance(code: Code) -> Iterator[Mutant]:
    for call, batch, _, after in later(code):
        owner = call.source.class_of(call.function)
        if after or owner is None or batch not in [a.arg for a in call.function.args.args]:
            continue
        constructor = next((s for s in owner.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
        if constructor is None:
            continue
        with edit() as made:
            draft = Draft(code.release)
            x = _somehow(code, call.source, call.function, draft)
            names = [a.arg for a in call.function.args.args]
            name, position = call.function.name, names.index(batch) - 1
            draft.before(
                call.source,
                call.source.body_start(constructor),
                f"whole = self.{name}\n\ndef trimmed(*args, **kwargs):\n"
                f"    batch = kwargs['{batch}'] if '{batch}' in kwargs else args[{position}]\n"
                f"    batch.{ATTRIBUTE} = {x}\n    return whole(*args, **kwargs)\n\nself.{name} = trimmed",
            )
            made.append(changes_of(draft))
        for c in made:
            line = call.function.lineno
            yield Mutant("patched: a method of the instance", Expect.CAUGHT, call.source.path, line, c[1], c[0])


@operator("class: attribute access lowers")
def attribute_access(code: Code) -> Iterator[Mutant]:
    for name, path in code.carriers.items():
        if not _has_factory(code, name, path):
            continue
        source = code.source(path)
        x = lower(code, source)
        methods = [s for s in source.classes(name)[0].body if isinstance(s, ast.FunctionDef)]
        forms = {
            "__setattr__": (
                "def __setattr__(self, name, value):\n"
                f'    object.__setattr__(self, name, {x} if name == "{ATTRIBUTE}" else value)\n\n'
            ),
            "__getattribute__": (
                "def __getattribute__(self, name):\n"
                f'    return {x} if name == "{ATTRIBUTE}" else object.__getattribute__(self, name)\n\n'
            ),
        }
        for form, lines in forms.items():
            with edit() as made:
                draft = Draft(code.release)
                draft.before(source, methods[0], lines)
                made.append(changes_of(draft))
            for c in made:
                line = methods[0].lineno
                yield Mutant(f"class: attribute access lowers ({form})", Expect.CAUGHT, path, line, c[1], c[0])


@operator("enum: equality says no")
def equality(code: Code) -> Iterator[Mutant]:
    source, cls = code.enum
    methods = [s for s in cls.body if isinstance(s, ast.FunctionDef)]
    draft = Draft(code.release)
    lines = "def __eq__(self, other):\n    return False\n\ndef __hash__(self):\n    return hash(self.value)\n\n"
    draft.before(source, methods[0], lines)
    changes, snippet = changes_of(draft)
    yield Mutant("enum: equality says no", Expect.CAUGHT, source.path, cls.lineno, snippet, changes)


@operator("lowered on the way: deleted")
def deleted(code: Code) -> Iterator[Mutant]:
    for call, batch, statement, after in later(code):
        forms = (f"del {batch}.{ATTRIBUTE}", f'delattr({batch}, "{ATTRIBUTE}")', f"{batch}.{ATTRIBUTE} = None")
        for form in forms:
            with edit() as made:
                draft = Draft(code.release)
                (draft.after if after else draft.before)(call.source, statement, form)
                made.append(changes_of(draft))
            for c in made:
                yield Mutant(
                    "lowered on the way: deleted", Expect.CAUGHT, call.source.path, statement.lineno,
                    c[1], c[0], call.settings,
                )  # fmt: skip


@operator("lowered on the way: made anew")
def made_anew(code: Code) -> Iterator[Mutant]:
    for call, batch, statement, after in later(code):
        with edit() as made:
            draft = Draft(code.release)
            x = _somehow(code, call.source, statement, draft)
            lines = f'{batch} = type({batch})(**{{**vars({batch}), "{ATTRIBUTE}": {x}}})'
            (draft.after if after else draft.before)(call.source, statement, lines)
            made.append(changes_of(draft))
        for c in made:
            yield Mutant(
                "lowered on the way: made anew", Expect.CAUGHT, call.source.path, statement.lineno,
                c[1], c[0], call.settings,
            )  # fmt: skip


@operator("patched: the enum's predicate")
def patched_predicate(code: Code) -> Iterator[Mutant]:
    source, cls = code.enum
    for name in ("is_full", "need_capture"):
        draft = Draft(code.release)
        draft.at_end(source, f"{cls.name}.{name} = lambda self: False")
        changes, snippet = changes_of(draft)
        yield Mutant("patched: the enum's predicate", Expect.CAUGHT, source.path, cls.lineno, snippet, changes)


@operator("shadowed: the enum's name")
def shadowed(code: Code) -> Iterator[Mutant]:
    """The site stays as it is; the name in its module means something else."""
    for site in deciding(code, "origin"):
        with edit() as made:
            name = enum_name(code, site.source)
            if site.source is code.enum[0]:
                raise NoSuchEdit("is the enum's own module")
            draft = Draft(code.release)
            draft.at_top(
                site.source,
                f"_Modes = {name}\n\n\nclass {name}:\n    NULL = _Modes.NULL\n    LAST = _Modes.LAST\n"
                "    FULL = _Modes.LAST",
            )
            made.append(changes_of(draft))
        yield from (at("shadowed: the enum's name", Expect.CAUGHT, site, c) for c in made)


@operator("logits processor: asks the other way round")
def processor(code: Code) -> Iterator[Mutant]:
    """Beyond the question which mode reaches it."""
    for path, match in code.grep(rf"\b\w+\.{ATTRIBUTE}\.(?:need_capture|is_full)\(\)"):
        source = code.source(path)
        if WORDS.metadata.factory not in source.text:
            continue
        line = source.text.count("\n", 0, match.start()) + 1
        with edit() as made:
            draft = Draft(code.release)
            draft.splice(source, match.start(), match.end(), f"(not {match.group()})")
            made.append(changes_of(draft))
        for c in made:
            yield Mutant("logits processor: asks the other way round", Expect.EITHER, path, line, c[1], c[0])


# ------------------------------------------------------------------------------------------------------------- phases
@operator("phase: verify asks for a decode")
def verify_as_decode(code: Code) -> Iterator[Mutant]:
    """Where the worker's own verify makes its batch a verify."""
    (verify,) = WORDS.phase.verify
    seen: set[tuple[str, int]] = set()
    for call in code.calls:
        for node in ast.walk(call.function):
            if isinstance(node, ast.Attribute) and node.attr == verify and (call.source.path, node.lineno) not in seen:
                statement = call.source.statement(node)
                if not (
                    isinstance(statement, ast.Assign) and WORDS.phase.attribute in call.source.of(statement.targets[0])
                ):
                    continue
                seen.add((call.source.path, node.lineno))
                with edit() as made:
                    draft = Draft(code.release)
                    draft.replace(call.source, node, call.source.of(node.value) + ".DECODE")
                    made.append(changes_of(draft))
                for c in made:
                    yield Mutant(
                        "phase: verify asks for a decode", Expect.CAUGHT, call.source.path, node.lineno,
                        c[1], c[0], call.settings,
                    )  # fmt: skip


def _cut(name: str, line: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for call in code.calls:
            if call.depth > 2:
                continue
            with edit() as made:
                draft = Draft(code.release)
                draft.before(call.source, call.source.body_start(call.function), line)
                made.append(changes_of(draft))
            for c in made:
                yield Mutant(name, Expect.CAUGHT, call.source.path, call.function.lineno, c[1], c[0], call.settings)

    return make


HARMFUL["phase: returns before the forward"] = _cut("phase: returns before the forward", "return None")
HARMFUL["phase: raises before the forward"] = _cut(
    "phase: raises before the forward", 'raise NotImplementedError("not here")'
)


@operator("modes of target and draft swapped")
def swapped(code: Code) -> Iterator[Mutant]:
    for site in deciding(code, "origin"):
        source = site.source
        enum = source.of(site.value).rpartition(".")[0]
        others = [
            node
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Attribute) and node.attr == LOWER and source.of(node.value) == enum
        ]
        if not others:
            continue
        with edit() as made:
            draft = Draft(code.release)
            draft.replace(source, site.value, source.of(site.value).replace(REQUIRED, LOWER))
            draft.replace(source, others[0], source.of(others[0]).replace(LOWER, REQUIRED))
            made.append(changes_of(draft))
        yield from (at("modes of target and draft swapped", Expect.CAUGHT, site, c) for c in made)


# ------------------------------------------------------------------------------------------------------------- graphs
@operator("graph: recorded lower than it says")
def recorded_lower(code: Code) -> Iterator[Mutant]:
    """The batch on which a runner records gets a lower mode than the runner's own attribute, by which it replays."""
    for site in code.sites:
        if site.only_graph and site.kind == "record" and site.source.of(site.value) == f"self.{ATTRIBUTE}":
            for member in (LOWER, LOWEST):
                with edit() as made:
                    draft = Draft(code.release)
                    draft.replace(site.source, site.value, lower(code, site.source, member))
                    made.append(changes_of(draft))
                yield from (at("graph: recorded lower than it says", Expect.CAUGHT, site, c) for c in made)


@operator("graph: mode lowered while recording")
def runner_mode(code: Code) -> Iterator[Mutant]:
    """Whatever a graph's mode is made of: some trees record anew or run eagerly then."""
    for site in code.sites:
        if site.only_graph and not (site.kind == "record" and site.source.of(site.value) == f"self.{ATTRIBUTE}"):
            for member in (LOWER, LOWEST):
                with edit() as made:
                    draft = Draft(code.release)
                    draft.replace(site.source, site.value, lower(code, site.source, member))
                    made.append(changes_of(draft))
                yield from (at("graph: mode lowered while recording", Expect.EITHER, site, c) for c in made)


@operator("graph: max turned into min")
def max_to_min(code: Code) -> Iterator[Mutant]:
    """Where modes are combined: harmful only where the lower one is what a graph is recorded with."""
    for path, match in code.grep(r"\bmax\((?=[^()]*" + ATTRIBUTE + ")"):
        with edit() as made:
            source = code.source(path)
            draft = Draft(code.release)
            draft.splice(source, match.start(), match.start() + 3, "min")
            made.append(changes_of(draft))
        line = source.text.count("\n", 0, match.start()) + 1
        for c in made:
            yield Mutant("graph: max turned into min", Expect.EITHER, path, line, c[1], c[0])


@operator("graph: replays without comparing modes")
def never_compares(code: Code) -> Iterator[Mutant]:
    """Harmless alone where all modes are equal; the recorded batch is lowered too."""
    for site in code.sites:
        if not (site.only_graph and site.kind == "record" and site.source.of(site.value) == f"self.{ATTRIBUTE}"):
            continue
        source = site.source
        with edit() as made:
            draft = Draft(code.release)
            draft.replace(source, site.value, lower(code, source))
            done = 0
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Compare) and re.search(rf"self\.{ATTRIBUTE}\b", source.of(node)):
                    parent = source.parents[node]
                    if isinstance(parent, (ast.BoolOp, ast.Assign)):
                        draft.replace(source, node, "True")
                        done += 1
            if not done:
                raise NoSuchEdit("compares nothing")
            made.append(changes_of(draft))
        yield from (at("graph: recorded lower, modes not compared", Expect.CAUGHT, site, c) for c in made)
