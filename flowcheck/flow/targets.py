"""The target model: the class that the tree registers for an architecture, and an instance of it under a configuration.

The instance is a skeleton: its parts (the text model, its layers, a vision tower) are made when something asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowcheck.flow.configurations import configuration
from flowcheck.flow.roles import annotated_class
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.interp import classes, names, operators
from flowcheck.interp.engine import Config, Interpreter
from flowcheck.interp.frames import Dead
from flowcheck.interp.values import FALSE, NONE, TRUE, ClassV, Known, Ref, Unknown, Value, alternatives
from flowcheck.program.modules import Module, Program
from flowcheck.syntax import ir

__all__ = ["NoTarget", "Target", "annotated", "entries", "model_interpreter", "registered", "target_of"]

MOST_LAYERS = 512
"""Loops over the layers of a model are followed one by one: no model has more."""

STEPS = 4_000_000


class NoTarget(Exception):
    """The tree registers no class for the architecture that a configuration makes; str is one line for people."""


@dataclass(frozen=True)
class Target:
    """An instance of a model class of the tree, in the base state of its interpreter."""

    architecture: str
    cls: ClassV
    instance: Ref
    config: Ref


def model_interpreter(program: Program, words: Vocabulary, scenario: Scenario) -> Interpreter:
    """An interpreter that follows everything that it meets: for models, not for the scheduler around them."""
    functions: dict[str, Value] = dict.fromkeys(words.scenario.true_functions, TRUE)
    functions.update(dict.fromkeys(words.scenario.false_functions, FALSE))
    functions.update(dict.fromkeys(words.scenario.none_functions, NONE))
    for name in bag_names(program, words):
        functions.setdefault(name, Unknown(f"{name}()", ("bag", name)))
    config = Config(
        functions=functions,
        keyed={k: literal(v, scenario) for k, v in words.scenario.expressions.items()},
        closed_modules=True,
        own_names=frozenset(words.capture.hooks),
        uncalled=frozenset(words.models.uncalled),
        max_steps=STEPS,
        max_unroll=MOST_LAYERS,
    )
    config.settings = {k: literal(v, scenario) for k, v in words.scenario.arguments.items()}
    config.settings[words.entry.algorithm_argument] = Known(scenario.algorithm)
    config.settings.update({k: Known(v) for k, v in scenario.settings.items()})
    arguments = Unknown("the server arguments", ("bag", words.entry.arguments_attribute))
    for name in words.scenario.arguments_functions:
        config.functions[name] = arguments
    return Interpreter(program, config)


def bag_names(program: Program, words: Vocabulary) -> list[str]:
    """The functions of the tree that return a bag of configuration."""
    patterns = [re.escape(p).replace(r"\*", r"\w*") for p in words.scenario.bags]
    defined = rb"^[ \t]*def[ \t]+((?:" + "|".join(patterns).encode() + rb"))[ \t]*\("
    return sorted(program.corpus.captures(b"(?m)" + defined))


def literal(v: object, scenario: Scenario) -> Value:
    """A value of the vocabulary: TOML has no None, so "none" is written for it."""
    if v == "$algorithm":
        return Known(scenario.algorithm)
    return NONE if v == "none" else Known(v)


def registered(it: Interpreter, words: Vocabulary, architecture: str) -> ClassV | None:
    """The class that the tree registers under this name; None where it registers none."""
    for module in _candidates(it, words, architecture):
        for cls in entries(it, words, module):
            if cls.name == architecture:
                return cls
    return None


def _candidates(it: Interpreter, words: Vocabulary, architecture: str) -> Iterator[Module]:
    """Files that register something and spell the name, those that define it first."""
    corpus = it.program.corpus
    defines = re.compile(rb"^[ \t]*class[ \t]+" + re.escape(architecture.encode()) + rb"\b", re.M)
    registers = re.compile(rb"^" + re.escape(words.models.entry.encode()) + rb"\b", re.M)
    paths = [p for p in corpus.files_with(words.models.entry, architecture) if registers.search(corpus.files[p])]
    for path in sorted(paths, key=lambda p: (defines.search(corpus.files[p]) is None, p)):
        module = it.program.module_at(path)
        if module is not None:
            yield module


def entries(it: Interpreter, words: Vocabulary, module: Module) -> Iterator[ClassV]:
    """The classes that one file registers."""
    it.module_oid(module)
    try:
        entry = names.global_value(it, module, words.models.entry, it.base_state)
    except Dead:
        return
    for x in alternatives(entry) if entry is not None else ():
        if isinstance(x, ClassV):
            yield x
            continue
        with it.outside():
            try:
                items = operators.iterate(it, x, it.module_frame(module), it.base_state, None)
            except Dead:
                continue
        for item in items or ():
            yield from (c for c in alternatives(item) if isinstance(c, ClassV))


def target_of(
    it: Interpreter, words: Vocabulary, architectures: Sequence[str], raw: Mapping[str, Any], label: str = "config"
) -> Target:
    """The target that a configuration describes: an instance of the first of its architectures that the tree registers.

    Raises NoTarget.
    """
    for architecture in architectures:
        cls = registered(it, words, architecture)
        if cls is not None:
            config = config_of(it, words, cls, raw, label)
            try:
                return Target(architecture, cls, instance_of(it, words, cls, config), config)
            except Dead:
                raise NoTarget(f"{architecture} of this tree cannot be made with a configuration") from None
    named = ", ".join(architectures) or "a configuration without architectures"
    raise NoTarget(f"this tree registers no model class for {named}")


def config_of(it: Interpreter, words: Vocabulary, cls: ClassV, raw: Mapping[str, Any], label: str = "config") -> Ref:
    """The configuration as a loader hands it to a model class."""
    told = annotated(it, words, cls)
    return configuration(it, words, {**words.models.stored, **raw}, label, raises=False, told=told)


def annotated(it: Interpreter, words: Vocabulary, cls: ClassV) -> ClassV | None:
    """The class of configuration that the model's constructor says it takes, if that is one of the tree."""
    for b in cls.mro:
        for s in b.node.body:
            if isinstance(s, ir.FunctionDef) and s.name == "__init__":
                for p in s.params.items:
                    if p.name == words.models.config_argument:
                        return annotated_class(it, b.module, p.annotation)
    return None


def instance_of(it: Interpreter, words: Vocabulary, cls: ClassV, config: Ref) -> Ref:
    """An instance of a model class as a loader makes it."""
    keywords: dict[str, Value] = {words.models.config_argument: config}
    keywords.update({k: NONE if v == "none" else Known(v) for k, v in words.models.arguments.items()})
    with it.outside():
        return classes.skeleton(it, cls, [], keywords, it.base_state, None, it.module_frame(cls.module), open_=False)
