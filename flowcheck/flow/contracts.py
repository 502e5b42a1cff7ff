"""The contracts of kernels and modules, and the facts of a forward, read from ``rules/kernels.toml``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from flowcheck.interp.kernels import KINDS, Contract
from flowcheck.interp.tensor_model import TensorModel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Deployment", "Kernels", "deployment_of", "load_kernels"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What decides which ranks share what: ``tp`` ranks, attention in ``replicas`` (1: no data-parallel attention), the
    backend that sends tokens to experts on other ranks ("none": every rank has a part of each expert), and whether the
    all-reduce may be fused into the next norm.

    Raises ValueError where the ranks cannot be shared out so.
    """

    tp: int = 8
    replicas: int = 1
    a2a: str = "none"
    fusion: bool = False

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.tp % self.replicas:
            raise ValueError(f"{self.tp} ranks cannot be {self.replicas} replicas")

    def sizes(self) -> dict[str, int]:
        """How many ranks a group has. Those of "experts" hold parts of one sum: where tokens are sent, it comes back whole."""
        sent = self.a2a != "none"
        return {
            "tp": self.tp,
            "attn_tp": self.tp // self.replicas,
            "attn_dp": self.replicas,
            "moe_tp": 1 if sent else self.tp,
            "ep": self.tp if sent else 1,
            "experts": 1 if sent else self.tp,
        }

    def groups(self) -> tuple[dict[str, str], dict[str, int]]:
        """What to call each group, so that the same ranks have one name, and how many ranks each has."""
        sizes = self.sizes()
        names = {g: "tp" if n == self.tp and g != "attn_dp" else g for g, n in sizes.items()}
        return names, {names[g]: n for g, n in sizes.items()}

    def __str__(self) -> str:
        ranks = "1 rank" if self.tp == 1 else f"{self.tp} ranks"
        attention = f"attention in {self.replicas} replicas" if self.replicas > 1 else "no data-parallel attention"
        experts = f"experts through {self.a2a}" if self.a2a != "none" else "a part of each expert on every rank"
        return f"{ranks} of tensor parallelism, {attention}, {experts}, no pipeline or context parallelism"

    def words(self) -> dict[str, object]:
        """What the facts may say."""
        switches = {"replicated": self.replicas > 1, "a2a": self.a2a, "A2A": self.a2a.upper()}
        return {**self.sizes(), **switches}


def deployment_of(
    facts: FactWords, fixed: Mapping[str, Any], settings: Mapping[str, Any], *, tp: int, fusion: bool
) -> Deployment:
    """The deployment that settings (server arguments, by name) describe; ``fixed`` are arguments that nobody models otherwise.

    Raises ValueError where they do not say what it is, where it cannot be, or where it is none that is modelled.
    """
    words = {
        name: literal[1:]
        for table in (facts.settings, facts.arguments)
        for name, literal in table.items()
        if isinstance(literal, str) and literal.startswith("$") and " " not in literal
    }
    said: dict[str, Any] = {word: settings[name] for name, word in words.items() if name in settings}
    for name, usual in fixed.items():
        if name in settings and settings[name] != usual and (settings[name] or usual):
            raise ValueError(f"{name} is {_spelled(settings[name])}, and forwards that run so are not followed")
    a2a = said.get("a2a") or next((b for name, b in facts.backends.items() if settings.get(name) is True), "none")
    replicas = 1
    if said.get("replicated"):
        if "attn_dp" not in said:
            names = [name for name, word in words.items() if word == "attn_dp"]
            raise ValueError(f"attention has replicas, and nothing says how many: set {names[0]}")
        replicas = said["attn_dp"]
        if isinstance(replicas, bool) or not isinstance(replicas, int):
            raise ValueError(f"{tp} ranks cannot be {_spelled(replicas)} replicas")
    return Deployment(tp, replicas, str(a2a), fusion)


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class ContractWords(_Table):
    """One contract and everybody who keeps it."""

    names: tuple[str, ...]
    kind: str
    inputs: tuple[int | str, ...] = (0,)
    width: str | float | None = None
    group: str | None = None
    complete: tuple[str, ...] = ()
    split: tuple[str, str] | None = None
    parts: str = ""
    part: str = ""
    value: Any = None
    returns: str = ""
    module: int | str | None = None
    overwrites: bool = False
    sums: str = ""

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"no such kind of contract (there are {', '.join(sorted(KINDS))})")
        return kind

    def contract(self, names: Mapping[str, str]) -> Contract:
        """The contract as the interpreter takes it; TOML has no None, so "none" is written for it.

        ``names``: what groups are called where several are the same ranks.
        """
        value = None if self.value == "none" else self.value
        groups = [names.get(g, g) for g in self.group.split("|")] if self.group is not None else None
        return Contract(
            self.kind,
            self.inputs,
            self.width,
            "|".join(dict.fromkeys(groups)) if groups is not None else None,
            self.complete,
            self.split,
            self.parts,
            self.part,
            value,
            self.returns,
            self.module,
            self.overwrites,
            self.sums,
        )


class BatchWords(_Table):
    """The batch that a forward is given. ``replicated``: what it has, by its kind, where attention has replicas."""

    class_name: str
    values: dict[str, Any]
    replicated: dict[str, dict[str, Any]]
    unknown: tuple[str, ...]


class ForwardWords(_Table):
    """How a target model is made, told what to capture, and run."""

    layers_keys: tuple[str, ...]
    config_parts: tuple[str, ...]
    processor_classes: tuple[str, ...]
    processor_method: str
    states_parameter: str
    captured_parameter: str
    result_attribute: str
    extend_member: str
    verify_member: str


class FactWords(_Table):
    """Facts of the deployment, beyond those of the vocabulary. What begins with "$" is a word of :class:`Deployment`.
    ``backends``: switches that choose where tokens are sent to experts."""

    functions: dict[str, Any]
    settings: dict[str, Any]
    arguments: dict[str, Any]
    expressions: dict[str, Any]
    attributes: dict[str, Any]
    config: dict[str, Any]
    resolved: dict[str, str]
    globals: dict[str, Any]
    instances: dict[str, str]
    fusion: dict[str, tuple[Any, Any]]
    backends: dict[str, str]


class Kernels(_Table):
    """Everything of ``kernels.toml``."""

    forward: ForwardWords
    batch: BatchWords
    facts: FactWords
    pure: tuple[str, ...]
    function: tuple[ContractWords, ...]
    cls: tuple[ContractWords, ...]
    external: tuple[ContractWords, ...]
    unknown: tuple[ContractWords, ...]

    def model(self, deployment: Deployment) -> TensorModel:
        """What the interpreter knows of tensors, for one deployment."""
        names, sizes = deployment.groups()
        functions, classes, externals, unknowns = (
            {name: entry.contract(names) for entry in words for name in entry.names}
            for words in (self.function, self.cls, self.external, self.unknown)
        )
        return TensorModel(functions, classes, externals, unknowns, self.pure, sizes)


def load_kernels(path: Path) -> Kernels:
    """Reads one file of contracts. Raises OSError, tomllib.TOMLDecodeError or pydantic.ValidationError."""
    return Kernels.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
