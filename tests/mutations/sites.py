"""Where a mode is made, stored and handed on: the places that the evidence of the unchanged release names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from flowcheck.data import rules_dir
from flowcheck.flow import Facts
from flowcheck.flow.facts import Flow, Path, Phase, Step
from flowcheck.flow.vocabulary import load_vocabulary
from tests.mutations.overlay import Release
from tests.mutations.text import NoSuchEdit, Source

__all__ = ["Call", "Code", "Site"]

WORDS = load_vocabulary(rules_dir() / "vocabulary.toml")
ATTRIBUTE = WORDS.mode.attribute
REQUIRED = WORDS.mode.required
JUDGED = (Phase.EXTEND, Phase.VERIFY)


@dataclass(frozen=True)
class Site:
    """One place on the way of a mode.

    ``kind``: "origin" (an expression that names the member), "store" (a statement that assigns the attribute), "record"
    (a call that is given the attribute by keyword). ``decides`` says that an eager flow, which no graph's own mode can
    cover for, takes its mode through here. ``settings``: server arguments under which the flow exists.
    """

    kind: str
    source: Source = field(compare=False, hash=False)
    node: ast.AST = field(compare=False, hash=False)
    path: str
    line: int
    column: int
    symbol: str
    made: str
    decides: bool
    settings: tuple[tuple[str, bool], ...]
    only_graph: bool = False

    @property
    def value(self) -> ast.expr:
        """The expression whose value is the mode."""
        if self.kind == "origin":
            assert isinstance(self.node, ast.expr)
            return self.node
        if self.kind == "store":
            assert isinstance(self.node, (ast.Assign, ast.AnnAssign))
            assert self.node.value is not None
            return self.node.value
        return self.keyword.value

    @property
    def keyword(self) -> ast.keyword:
        assert isinstance(self.node, ast.Call)
        return next(keyword for keyword in self.node.keywords if keyword.arg == ATTRIBUTE)

    @property
    def target(self) -> ast.Attribute:
        """What a store assigns."""
        target = self.node.targets[0] if isinstance(self.node, ast.Assign) else getattr(self.node, "target", None)
        assert isinstance(target, ast.Attribute)
        return target


@dataclass(frozen=True)
class Call:
    """A function on the way from the dispatch to an eager forward of the target."""

    source: Source = field(compare=False, hash=False)
    function: ast.FunctionDef = field(compare=False, hash=False)
    qualname: str
    settings: tuple[tuple[str, bool], ...]
    depth: int
    left: int
    """How many calls lie between this one and the forward."""


class Code:
    """A release's text, as the operators look at it."""

    def __init__(self, release: Release, facts: Facts) -> None:
        self.release = release
        self.facts = facts
        self._sources: dict[str, Source] = {}

    def source(self, path: str) -> Source:
        source = self._sources.get(path)
        if source is None:
            source = self._sources[path] = Source(path, self.release.text(path))
        return source

    def grep(self, pattern: str) -> list[tuple[str, re.Match[str]]]:
        """Matches over the files of the core, by path."""
        compiled = re.compile(pattern, re.M)
        return [
            (path, match)
            for path in self.release.core
            if path.endswith(".py")
            for match in compiled.finditer(self.release.text(path))
        ]

    @cached_property
    def enum(self) -> tuple[Source, ast.ClassDef]:
        """The enum of the modes."""
        wanted = set(WORDS.mode.members)
        for path, match in self.grep(rf"^class (\w+)\(.*Enum\):(?=(?:.*\n){{1,12}}?\s+{REQUIRED}\b)"):
            source = self.source(path)
            for node in source.classes(match.group(1)):
                names = {
                    target.id
                    for s in node.body
                    if isinstance(s, ast.Assign)
                    for target in s.targets
                    if isinstance(target, ast.Name)
                }
                if wanted <= names:
                    return source, node
        raise NoSuchEdit("no enum of modes")

    def module(self, path: str) -> str:
        return self.release.tree.module_name(path)

    @cached_property
    def enum_import(self) -> str:
        source, node = self.enum
        return f"from {self.module(source.path)} import {node.name}"

    def flows(self) -> Iterator[tuple[Flow, tuple[tuple[str, bool], ...]]]:
        for flow in self.facts.flows:
            if flow.phase in JUDGED and flow.consumed:
                yield flow, settings_of(flow.condition)

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """All of them, the origins of the eager flows first."""
        found: dict[tuple[str, int, int], Site] = {}
        passes = [(False, True), (False, False), (True, False)]
        for graph, eager in passes:
            for flow, settings in self.flows():
                if (flow.path is Path.EAGER) != eager or (flow.path is not Path.EAGER and eager):
                    continue
                for mode in flow.reached if graph or eager else flow.asked:
                    if mode.member != REQUIRED:
                        continue
                    for step in mode.evidence:
                        site = self._site(step, eager, settings, graph)
                        if site is not None:
                            found.setdefault((site.path, site.line, site.column), site)
        rank = {"origin": 0, "store": 1, "record": 2}
        return tuple(sorted(found.values(), key=lambda s: (s.only_graph, rank[s.kind])))

    def _site(self, step: Step, eager: bool, settings: tuple[tuple[str, bool], ...], graph: bool) -> Site | None:
        place = step.place
        source = self.source(place.path)
        for node in source.at(place.span.line, place.span.column):
            if isinstance(node, ast.keyword) and node.arg == ATTRIBUTE:
                node = source.parents[node]
            kind = _kind(node)
            if kind:
                made = re.match(r"(\w+)\(", step.note)
                return Site(
                    kind, source, node, place.path, place.span.line, place.span.column, place.symbol,
                    made.group(1) if made else "", eager, settings, graph,
                )  # fmt: skip
        return None

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The functions between the worker and the eager forwards, each once."""
        found: dict[tuple[str, int], Call] = {}
        for flow, settings in self.flows():
            if flow.path is not Path.EAGER:
                continue
            for depth, step in enumerate(flow.chain):
                at = self.function(step.note)
                if at is not None:
                    source, function = at
                    call = Call(source, function, step.note, settings, depth, len(flow.chain) - depth - 1)
                    found.setdefault((source.path, function.lineno), call)
        return tuple(found.values())

    def function(self, qualname: str) -> tuple[Source, ast.FunctionDef] | None:
        """A method by its qualified name, where exactly one class of that name has it."""
        owner, _, name = qualname.rpartition(".")
        found: list[tuple[Source, ast.FunctionDef]] = []
        pattern = rf"^class {owner}\b" if owner else rf"^def {name}\("
        if not re.fullmatch(r"\w*", owner):
            return None
        for path in dict.fromkeys(path for path, _ in self.grep(pattern)):
            source = self.source(path)
            scopes: list[ast.AST] = list(source.classes(owner)) if owner else [source.tree]
            for scope in scopes:
                found += [
                    (source, node)
                    for node in ast.iter_child_nodes(scope)
                    if isinstance(node, ast.FunctionDef) and node.name == name
                ]
        return found[0] if len(found) == 1 else None

    @cached_property
    def carriers(self) -> Mapping[str, str]:
        """The classes that have the mode as a field, and the file of each."""
        out: dict[str, str] = {}
        for path in dict.fromkeys(path for path, _ in self.grep(rf"^    {ATTRIBUTE}\s*:")):
            for node in self.source(path).tree.body:
                if isinstance(node, ast.ClassDef) and field_of(node) is not None:
                    out[node.name] = path
        return out


def field_of(cls: ast.ClassDef) -> ast.AnnAssign | None:
    """The declaration of the mode in a class."""
    for s in cls.body:
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.target.id == ATTRIBUTE:
            return s
    return None


def _kind(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute) and node.attr == REQUIRED:
        return "origin"
    if isinstance(node, ast.Call) and any(keyword.arg == ATTRIBUTE for keyword in node.keywords):
        return "record"
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    if len(targets) == 1 and isinstance(targets[0], ast.Attribute) and targets[0].attr == ATTRIBUTE:
        return "store"
    return ""


def settings_of(condition: str) -> tuple[tuple[str, bool], ...]:
    """The server arguments that a flow's condition fixes."""
    return tuple((name, value == "true") for name, value in re.findall(r"\b([a-z_]+) is (true|false)\b", condition))
