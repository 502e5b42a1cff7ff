"""Rewrites that keep the meaning for the target, and look-alikes of harmful edits: a scan has to stay quiet."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator

from tests.mutations.harmful import deciding, later, lower
from tests.mutations.operators import Made, Maker, at, changes_of, edit
from tests.mutations.overlay import Changes
from tests.mutations.routings import (
    ASSIGNMENTS,
    EXPRESSIONS,
    KEYWORDS,
    Spot,
    assignable,
    drop_keyword,
    field_default,
    made_class,
)
from tests.mutations.runner import Expect, Mutant
from tests.mutations.sites import ATTRIBUTE, REQUIRED, WORDS, Call, Code, Site, field_of
from tests.mutations.text import Draft, NoSuchEdit

__all__ = ["HARMLESS"]

HARMLESS: dict[str, Maker] = {}


def operator(name: str) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        HARMLESS[name] = maker
        return maker

    return register


def _same_value(name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for site in code.sites:
            with edit() as made:
                draft = Draft(code.release)
                EXPRESSIONS[name](Spot(code, draft, site.source, site.value), _self_contained(site, name))
                made.append(changes_of(draft))
            yield from (at(f"same value through: {name}", Expect.QUIET, site, c) for c in made)

    return make


_MOVES_AWAY = frozenset({
    "module constant", "constant of another module", "helper", "helper in another module", "helper's default", "method",
    "helper with two returns", "property", "static method", "class attribute", "dataclass default", "named tuple",
    "dictionary", "lru_cache",
})  # fmt: skip
"""Routings that evaluate the value somewhere else."""

_STORES_ELSEWHERE = frozenset({
    "helper", "helper in another module", "map", "thread", "generator", "recursion", "global name", "class variable",
    "callable object", "template method", "dispatch table", "steps in a loop", "exit stack", "coroutine", "exec",
})  # fmt: skip


def _self_contained(site: Site, name: str) -> str:
    """The value's text. Raises NoSuchEdit where it means something else at the place to which a routing moves it."""
    text = site.source.of(site.value)
    if site.kind != "origin" and not re.fullmatch(r"\w+\.[A-Z]+", text):
        if name in _MOVES_AWAY:
            raise NoSuchEdit("the value depends on names of its function")
        if "\n" in text:
            text = f"({text})"
    return text


for _name in EXPRESSIONS:
    if _name != "direct":
        HARMLESS[f"same value through: {_name}"] = _same_value(_name)


def _same_store(name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for site in deciding(code, "store"):
            with edit() as made:
                draft = Draft(code.release)
                text = site.source.of(site.value)
                if name in _STORES_ELSEWHERE and not re.fullmatch(r"\w+\.[A-Z]+", text):
                    raise NoSuchEdit("the value depends on names of its function")
                target = assignable(code, draft, site.source, site.source.of(site.target.value))
                draft.instead(site.source, site.source.statement(site.node), ASSIGNMENTS[name](target, text))
                made.append(changes_of(draft))
            yield from (at(f"same store by: {name}", Expect.QUIET, site, c) for c in made)

    return make


for _name in ASSIGNMENTS:
    # Some make another batch, which the caller lacks; some hand the work to what no scan can follow.
    if _name not in ("plain", "dataclasses.replace", "copy.copy", "exec", "thread", "coroutine"):
        HARMLESS[f"same store by: {_name}"] = _same_store(_name)


def _same_keyword(name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for site in (s for s in code.sites if s.kind == "record"):
            with edit() as made:
                draft = Draft(code.release)
                KEYWORDS[name](code, draft, site, site.source.of(site.value))
                made.append(changes_of(draft))
            yield from (at(f"same keyword by: {name}", Expect.QUIET, site, c) for c in made)

    return make


for _name in KEYWORDS:
    HARMLESS[f"same keyword by: {_name}"] = _same_keyword(_name)


def _kept_on_the_way(name: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for call, batch, statement, after in later(code):
            with edit() as made:
                if name in _STORES_ELSEWHERE:
                    raise NoSuchEdit("the value depends on names of its function")
                if name in ("dataclasses.replace", "copy.copy"):
                    raise NoSuchEdit("makes another batch")
                draft = Draft(code.release)
                target = assignable(code, draft, call.source, batch)
                lines = ASSIGNMENTS[name](target, f"{batch}.{ATTRIBUTE}")
                (draft.after if after else draft.before)(call.source, statement, lines)
                made.append(changes_of(draft))
            yield from (_on(call, f"kept on the way by: {name}", statement.lineno, c) for c in made)

    return make


def _on(call: Call, name: str, line: int, made: Made) -> Mutant:
    return Mutant(name, Expect.QUIET, call.source.path, line, made[1], made[0], call.settings)


for _name in ASSIGNMENTS:
    if _name in ("exec", "thread", "coroutine"):
        continue
    HARMLESS[f"kept on the way by: {_name}"] = _kept_on_the_way(_name)

LOOK_ALIKES = {
    "lowered in a branch that is never taken": "if False:\n    {batch}.{attribute} = {x}",
    "lowered on another object": "import types\nother = types.SimpleNamespace()\nother.{attribute} = {x}",
    "lowered on a copy": "import copy\nother = copy.copy({batch})\nother.{attribute} = {x}",
    "lowered on a replaced batch that is dropped": (
        "import dataclasses\nother = dataclasses.replace({batch}, {attribute}={x})"
    ),
    "lowered and restored": "kept = {batch}.{attribute}\n{batch}.{attribute} = {x}\n{batch}.{attribute} = kept",
    "lowered and restored in finally": (
        "kept = {batch}.{attribute}\ntry:\n    {batch}.{attribute} = {x}\nfinally:\n    {batch}.{attribute} = kept"
    ),
    "lowered by a function that nobody calls": "def never():\n    {batch}.{attribute} = {x}\n",
    "lowered in a local of the same name": "{attribute} = {x}",
    "raised where it was lower": "if {batch}.{attribute} is None:\n    {batch}.{attribute} = {x}",
    "compared only": "if {batch}.{attribute} == {x}:\n    pass",
    "lowered for a plain decode": "if {batch}.forward_mode.is_decode():\n    {batch}.{attribute} = {x}",
    "lowered for an idle batch": "if {batch}.forward_mode.is_idle():\n    {batch}.{attribute} = {x}",
}  # fmt: skip


def _look_alike(name: str, lines: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for call, batch, statement, after in later(code):
            with edit() as made:
                draft = Draft(code.release)
                enum = code.enum[1].name
                if not call.source.imports(enum):
                    draft.at_top(call.source, code.enum_import)
                text = lines.format(batch=batch, attribute=ATTRIBUTE, x=f"{enum}.{WORDS.mode.members[1]}")
                (draft.after if after else draft.before)(call.source, statement, text)
                made.append(changes_of(draft))
            yield from (_on(call, f"look-alike: {name}", statement.lineno, c) for c in made)

    return make


for _name, _lines in LOOK_ALIKES.items():
    HARMLESS[f"look-alike: {_name}"] = _look_alike(_name, _lines)


@operator("look-alike: lowered for the draft only")
def draft_only(code: Code) -> Iterator[Mutant]:
    for call, batch, statement, after in later(code):
        with edit() as made:
            cls = call.source.class_of(call.function)
            if cls is None or f"self.{WORDS.target.draft_flag}" not in call.source.of(cls):
                raise NoSuchEdit("does not know whose it is")
            draft = Draft(code.release)
            enum = code.enum[1].name
            if not call.source.imports(enum):
                draft.at_top(call.source, code.enum_import)
            text = f"if self.{WORDS.target.draft_flag}:\n    {batch}.{ATTRIBUTE} = {enum}.{WORDS.mode.members[1]}"
            (draft.after if after else draft.before)(call.source, statement, text)
            made.append(changes_of(draft))
        yield from (_on(call, "look-alike: lowered for the draft only", statement.lineno, c) for c in made)


@operator("look-alike: an unrelated class has the attribute")
def unrelated_class(code: Code) -> Iterator[Mutant]:
    for path in dict.fromkeys(site.path for site in code.sites):
        with edit() as made:
            source = code.source(path)
            draft = Draft(code.release)
            x = lower(code, source)
            draft.at_end(
                source,
                f"class Unrelated:\n    {ATTRIBUTE} = {x}\n\n"
                f"    def __init__(self):\n        self.{ATTRIBUTE} = {x}\n\n"
                f"    def lower(self):\n        self.{ATTRIBUTE} = {x}",
            )
            made.append(changes_of(draft))
        for c in made:
            yield Mutant("look-alike: an unrelated class has the attribute", Expect.QUIET, path, 1, c[1], c[0])


@operator("keyword removed, field's default raised")
def default_raised(code: Code) -> Iterator[Mutant]:
    for site in deciding(code, "record"):
        with edit() as made:
            if not re.fullmatch(rf"\w+\.{REQUIRED}", site.source.of(site.value)):
                raise NoSuchEdit("the value is not the same for all")
            cls = made_class(code, site)
            source = code.source(code.carriers[site.made])
            declared = field_of(cls)
            if field_default(cls) is None or declared is None or declared.value is None:
                raise NoSuchEdit("the field has no default")
            draft = Draft(code.release)
            drop_keyword(draft, site)
            draft.replace(source, declared.value, lower(code, source, REQUIRED))
            made.append(changes_of(draft))
        yield from (at("keyword removed, field's default raised", Expect.QUIET, site, c) for c in made)


# ------------------------------------------------------------------------------------------------------ the statement
STATEMENTS = {
    "in a null context": "import contextlib\nwith contextlib.nullcontext():\n{inner}",
    "in a manager that suppresses": "import contextlib\nwith contextlib.suppress(KeyError):\n{inner}",
    "in try and raise again": "try:\n{inner}\nexcept Exception:\n    raise",
    "in try and finally": "try:\n{inner}\nfinally:\n    pass",
    "in if True": "if True:\n{inner}",
    "in a loop of one turn": "for _turn in range(1):\n{inner}",
    "with logging": 'import logging\nlogging.getLogger(__name__).info("capturing %s", "all")\n{same}',
    "with an assertion": "assert True\n{same}",
    "with comments": "# what the draft needs\n# (all rows)\n{same}",
}


def _wrapped(name: str, form: str) -> Maker:
    def make(code: Code) -> Iterator[Mutant]:
        for site in code.sites:
            with edit() as made:
                statement = site.source.statement(site.node)
                if (
                    not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr))
                    or site.source.function(statement) is None
                ):
                    raise NoSuchEdit("is no plain statement")
                same = textwrap.dedent(site.source.indent(statement) + site.source.of(statement))
                draft = Draft(code.release)
                text = form.format(inner=textwrap.indent(same, "    "), same=same)
                draft.instead(site.source, statement, text)
                made.append(changes_of(draft))
            yield from (at(f"statement {name}", Expect.QUIET, site, c) for c in made)

    return make


for _name, _form in STATEMENTS.items():
    HARMLESS[f"statement {_name}"] = _wrapped(_name, _form)


@operator("statement's target annotated")
def annotated(code: Code) -> Iterator[Mutant]:
    for site in code.sites:
        statement = site.source.statement(site.node)
        if (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and not isinstance(statement.targets[0], ast.Tuple)
        ):
            with edit() as made:
                draft = Draft(code.release)
                end = site.source.span(statement.targets[0])[1]
                draft.splice(site.source, end, end, ': "object"')
                made.append(changes_of(draft))
            yield from (at("statement's target annotated", Expect.QUIET, site, c) for c in made)


# ------------------------------------------------------------------------------------------------------- the function
@operator("function in a transparent decorator")
def decorated(code: Code) -> Iterator[Mutant]:
    for call in code.calls:
        with edit() as made:
            if call.function.decorator_list:
                raise NoSuchEdit("has decorators")
            draft = Draft(code.release)
            draft.at_top(
                call.source,
                "import functools\n\n\ndef transparent(method):\n    @functools.wraps(method)\n"
                "    def run(*args, **kwargs):\n        return method(*args, **kwargs)\n\n    return run",
            )
            draft.before(call.source, call.function, "@transparent")
            made.append(changes_of(draft))
        yield from (_on(call, "function in a transparent decorator", call.function.lineno, c) for c in made)


@operator("function in a decorator that times")
def timed(code: Code) -> Iterator[Mutant]:
    for call in code.calls:
        with edit() as made:
            if call.function.decorator_list:
                raise NoSuchEdit("has decorators")
            draft = Draft(code.release)
            draft.at_top(
                call.source,
                "import functools\nimport time\n\n\ndef timed(label):\n    def decorate(method):\n"
                "        @functools.wraps(method)\n        def run(self, *args, **kwargs):\n"
                "            started = time.perf_counter()\n            try:\n"
                "                return method(self, *args, **kwargs)\n            finally:\n"
                "                print(label, time.perf_counter() - started)\n\n"
                "        return run\n\n    return decorate",
            )
            draft.before(call.source, call.function, f'@timed("{call.function.name}")')
            made.append(changes_of(draft))
        yield from (_on(call, "function in a decorator that times", call.function.lineno, c) for c in made)


@operator("function split in two")
def split(code: Code) -> Iterator[Mutant]:
    """The body moves to another method, to which the old one hands everything."""
    for call in code.calls:
        with edit() as made:
            function, source = call.function, call.source
            arguments = function.args
            if (
                function.decorator_list
                or arguments.posonlyargs
                or not arguments.args
                or arguments.args[0].arg != "self"
            ):
                raise NoSuchEdit("is no plain method")
            if "super()" in source.of(function):
                raise NoSuchEdit("calls its super")
            draft = Draft(code.release)
            handed = [a.arg for a in arguments.args[1:]]
            if arguments.vararg:
                handed.append(f"*{arguments.vararg.arg}")
            handed += [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs]
            if arguments.kwarg:
                handed.append(f"**{arguments.kwarg.arg}")
            start = source.span(function)[0]
            first = source.line_start(function.body[0])
            header = source.text[source.line_start(function) : first].strip("\n")
            indent = source.indent(function)
            body = f"{indent}    return self._{function.name}_whole({', '.join(handed)})\n\n"
            draft.splice(source, start, start, f"{header.strip()}\n{body}{indent}")
            name = start + len("def ")
            draft.splice(source, name, name + len(function.name), f"_{function.name}_whole")
            made.append(changes_of(draft))
        yield from (_on(call, "function split in two", call.function.lineno, c) for c in made)


@operator("function's local renamed")
def renamed_local(code: Code) -> Iterator[Mutant]:
    for site in code.sites:
        function = site.source.function(site.node)
        if function is None:
            continue
        arguments = function.args
        parameters = {a.arg for a in (*arguments.args, *arguments.kwonlyargs)}
        statement = site.source.statement(site.node)
        names = {
            node.id
            for target in getattr(statement, "targets", ())
            for node in ast.walk(target)
            if isinstance(node, ast.Name)
        }
        for name in sorted(names - parameters - {"self", "cls"}):
            with edit() as made:
                draft = Draft(code.release)
                for node in ast.walk(function):
                    if isinstance(node, ast.Name) and node.id == name:
                        draft.replace(site.source, node, f"{name}_renamed")
                made.append(changes_of(draft))
            yield from (at("function's local renamed", Expect.QUIET, site, c) for c in made)


@operator("function logs its batch")
def logs(code: Code) -> Iterator[Mutant]:
    for call, batch, statement, after in later(code):
        with edit() as made:
            draft = Draft(code.release)
            line = f'import logging\nlogging.getLogger(__name__).debug("%s asks for %s", {batch}, {batch}.{ATTRIBUTE})'
            (draft.after if after else draft.before)(call.source, statement, line)
            made.append(changes_of(draft))
        yield from (_on(call, "function logs its batch", statement.lineno, c) for c in made)


# ----------------------------------------------------------------------------------------------------------- the file
@operator("file written anew from its syntax tree")
def unparsed(code: Code) -> Iterator[Mutant]:
    paths = [site.path for site in code.sites] + [call.source.path for call in code.calls]
    for path in dict.fromkeys(paths):
        text = ast.unparse(code.source(path).tree) + "\n"
        yield Mutant(
            "file written anew from its syntax tree", Expect.QUIET, path, 1, "", Changes({path: text.encode()})
        )


@operator("file with other line ends and a BOM")
def line_ends(code: Code) -> Iterator[Mutant]:
    for path in dict.fromkeys(site.path for site in code.sites):
        data = b"\xef\xbb\xbf" + code.release.read(path).replace(b"\n", b"\r\n")
        yield Mutant("file with other line ends and a BOM", Expect.QUIET, path, 1, "", Changes({path: data}))


@operator("file with a comment after each statement")
def comments(code: Code) -> Iterator[Mutant]:
    for path in dict.fromkeys(site.path for site in code.sites):
        source = code.source(path)
        draft = Draft(code.release)
        with edit() as made:
            for node in ast.walk(source.tree):
                if isinstance(node, (ast.FunctionDef,)):
                    draft.before(source, node.body[-1], "# note\n")
            made.append(changes_of(draft))
        for c in made:
            yield Mutant("file with a comment after each statement", Expect.QUIET, path, 1, "", c[0])


# ----------------------------------------------------------------------------------------------------------- the enum
@operator("enum written another way")
def enum_forms(code: Code) -> Iterator[Mutant]:
    source, cls = code.enum
    name = cls.name
    bodies = {
        "is_full": (f"return self is {name}.FULL", f"return self.value == {name}.FULL.value",
                    f"return self in ({name}.FULL,)",
                    f"return not (self != {name}.FULL)", 'return self.name == "FULL"', f"return self >= {name}.FULL",
                    f"if self == {name}.FULL:\n    return True\nreturn False", f"return {name}.FULL == self"),
        "need_capture": (f"return self > {name}.NULL", f"return self in ({name}.LAST, {name}.FULL)",
                         f"return self is not {name}.NULL", f"return not (self == {name}.NULL)",
                         "return bool(self.value)"),
    }  # fmt: skip
    for method, texts in bodies.items():
        function = next(s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == method)
        for text in texts:
            with edit() as made:
                draft = Draft(code.release)
                draft.instead(source, function.body[-1], text)
                made.append(changes_of(draft))
            for c in made:
                yield Mutant("enum written another way", Expect.QUIET, source.path, function.lineno, c[1], c[0])
    members = [s for s in cls.body if isinstance(s, ast.Assign)]
    for values in (("0", "10", "20"), ("int(0)", "int(1)", "int(2)"), ("0", "1 << 0", "1 << 1")):
        draft = Draft(code.release)
        for member, value in zip(members, values, strict=True):
            draft.replace(source, member.value, value)
        with edit() as made:
            made.append(changes_of(draft))
        for c in made:
            yield Mutant("enum written another way", Expect.QUIET, source.path, cls.lineno, c[1], c[0])
