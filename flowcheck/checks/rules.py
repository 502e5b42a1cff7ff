"""The rules as data: one TOML file each, and a team's own on top of them.

Knows how a rule is written down. Knows neither facts nor what a rule's function does.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from flowcheck.data import rules_dir

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["FIELDS", "Rule", "RuleBook", "RuleError", "Severity", "load_rules"]

FIELDS = frozenset(
    {
        *("asked", "mode", "order", "path", "phase", "question", "reason", "required", "subject"),
        *("said", "expected", "found", "keys", "options"),
    }
)
"""What a template may name in braces."""

NOT_RULES = frozenset(
    {"environment.toml", "kernels.toml", "probe.toml", "shrinking.toml", "vocabulary.toml", "witnesses.toml"}
)
"""Other data that lies in the same folder."""


class RuleError(Exception):
    """A rule that cannot be used, said in one line."""


class Severity(str, Enum):
    """How much a finding weighs. It decides the exit code together with ``--fail-on``."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def weight(self) -> int:
        """A higher number for a heavier finding."""
        return {"note": 1, "warning": 2, "error": 3}[self.value]


def _known_fields(template: str) -> str:
    try:
        named = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise ValueError(f"is no template: {error}") from None
    if unknown := sorted(named - FIELDS):
        raise ValueError(f"names {{{unknown[0]}}}; known are {', '.join(sorted(FIELDS))}")
    return template


Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\n]*$")]
Prose = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Template = Annotated[Line, AfterValidator(_known_fields)]
Model = TypeVar("Model", bound=BaseModel)


class Rule(BaseModel):
    """One rule: what it is called, how much it weighs, what it says, and the fixtures that show it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, StringConstraints(pattern=r"^HS[1-9]\d\d$")]
    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")]
    title: Line
    family: Line
    severity: Severity
    why: Prose
    runtime_symptom: Prose
    fix: Line
    fixture_breaks: Line
    fixture_passes: Line
    messages: dict[str, Template] = Field(min_length=1)
    fixes: dict[str, Template] = Field(default_factory=dict)
    parameters: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _severities_among_parameters(self) -> Rule:
        for key, value in self.parameters.items():
            if key.endswith("severity") and value not in {severity.value for severity in Severity}:
                raise ValueError(f"parameters.{key} is none of error, warning, note")
        return self

    def message(self, key: str, **fields: str) -> str:
        """The text of one message."""
        return self.messages[key].format_map({**dict.fromkeys(FIELDS, ""), **fields})

    def fix_of(self, kind: str, **fields: str) -> str:
        """How to mend a finding of this kind: its own fix, or the rule's."""
        own = self.fixes.get(kind)
        return self.fix if own is None else own.format_map({**dict.fromkeys(FIELDS, ""), **fields})

    def severity_of(self, kind: str) -> Severity:
        """How much a finding of this kind weighs: ``parameters.KIND_severity``, or the rule's own severity."""
        own = self.parameters.get(f"{kind.replace('-', '_')}_severity")
        return self.severity if own is None else Severity(own)


class _Overlay(BaseModel):
    """What a team may change of a rule that ships."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: Line | None = None
    severity: Severity | None = None
    why: Prose | None = None
    runtime_symptom: Prose | None = None
    fix: Line | None = None
    messages: dict[str, Template] = Field(default_factory=dict)
    fixes: dict[str, Template] = Field(default_factory=dict)
    parameters: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules of a run, by id."""

    rules: Mapping[str, Rule]

    def __getitem__(self, rule_id: str) -> Rule:
        return self.rules[rule_id]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules.values())

    def matching(self, prefix: str) -> frozenset[str]:
        """The ids that are ``prefix`` or start with it, in any case. Raises :class:`RuleError` when there is none."""
        wanted = prefix.strip().upper()
        found = frozenset(rule_id for rule_id in self.rules if wanted and rule_id.startswith(wanted))
        if not found:
            raise RuleError(f"no rule is called {prefix.strip()!r}; known are {', '.join(self.rules)}")
        return found


def load_rules(overlay: Path | None = None, *, shipped: Path | None = None) -> RuleBook:
    """The rules that ship with flowcheck, changed by the TOML files of ``overlay`` where a team has its own."""
    folder = rules_dir() if shipped is None else shipped
    rules: dict[str, Rule] = {}
    for path in _rule_files(folder):
        rule = _validated(Rule, _parsed(path), path)
        if rule.id in rules:
            raise RuleError(f"{path}: {rule.id} is defined twice")
        rules[rule.id] = rule
    if not rules:
        raise RuleError(f"{folder}: no rules here; the installation is incomplete")
    if overlay is not None:
        _lay_over(rules, overlay)
    return RuleBook(dict(sorted(rules.items())))


def _lay_over(rules: dict[str, Rule], overlay: Path) -> None:
    if not overlay.is_dir():
        raise RuleError(f"{overlay}: no such folder of rules")
    seen: dict[str, Path] = {}
    for path in _rule_files(overlay):
        change = _validated(_Overlay, _parsed(path), path)
        if change.id not in rules:
            raise RuleError(f"{path}: no rule is called {change.id!r}; known are {', '.join(sorted(rules))}")
        if change.id in seen:
            raise RuleError(f"{path}: {change.id} is changed by {seen[change.id].name} already")
        seen[change.id] = path
        rules[change.id] = _changed(rules[change.id], change, path)


def _changed(rule: Rule, change: _Overlay, path: Path) -> Rule:
    _check_table("messages", rule, rule.messages, change.messages, path)
    _check_table("parameters", rule, rule.parameters, change.parameters, path)
    _check_table("fixes", rule, rule.fixes, change.fixes, path)
    texts = change.model_dump(exclude_none=True, exclude={"messages", "fixes", "parameters"})
    merged = rule.model_dump() | texts
    merged["messages"] = rule.messages | change.messages
    merged["fixes"] = change.fixes if change.fix else rule.fixes | change.fixes  # a team's one fix stands for all
    merged["parameters"] = rule.parameters | change.parameters
    return _validated(Rule, merged, path)


def _check_table(table: str, rule: Rule, old: Mapping[str, Any], new: Mapping[str, Any], path: Path) -> None:
    for key, value in new.items():
        if key not in old:
            known = ", ".join(sorted(old)) or "none"
            raise RuleError(f"{path}: {table}.{key} is unknown to {rule.id}; known are {known}")
        if type(value) is not type(old[key]):
            raise RuleError(f"{path}: {table}.{key} should be of type {type(old[key]).__name__}, like {old[key]!r}")


def _rule_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.toml") if path.name not in NOT_RULES)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():  # to open a pipe waits for ever
            raise RuleError(f"{path}: is not a regular file")
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "is not UTF-8"
        raise RuleError(f"{path}: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{path}: {error}") from None
    return data


def _validated(model: type[Model], data: dict[str, Any], path: Path) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        said = str(first["msg"]).removeprefix("Value error, ").splitlines()[0]
        if first["type"] == "extra_forbidden":
            said = "there is no such key, or it is not for a team to change"
        raise RuleError(f"{path}: {where + ': ' if where else ''}{said[0].lower()}{said[1:]}") from None
