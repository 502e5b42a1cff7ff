"""The contracts of kernels and modules, and the facts of a forward, read from ``rules/kernels.toml``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from flowcheck.interp.kernels import KINDS, Contract
from flowcheck.interp.tensor_model import TensorModel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Kernels", "load_kernels"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ContractWords(_Table):
    """One contract and everybody who keeps it."""

    names: tuple[str, ...]
    kind: str
    inputs: tuple[int | str, ...] = (0,)
    width: str | float | None = None
    group: str | None = None
    complete: tuple[str, ...] = ()
    split: tuple[str, str] | None = None
    part: str = ""
    value: Any = None
    returns: str = ""
    module: int | str | None = None
    overwrites: bool = False

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"no such kind of contract (there are {', '.join(sorted(KINDS))})")
        return kind

    def contract(self) -> Contract:
        """The contract as the interpreter takes it; TOML has no None, so "none" is written for it."""
        value = None if self.value == "none" else self.value
        return Contract(
            self.kind,
            self.inputs,
            self.width,
            self.group,
            self.complete,
            self.split,
            self.part,
            value,
            self.returns,
            self.module,
            self.overwrites,
        )


class BatchWords(_Table):
    """The batch that a forward is given."""

    class_name: str
    values: dict[str, Any]
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
    """Facts of the deployment, beyond those of the vocabulary. "$tp" is the number of ranks."""

    functions: dict[str, Any]
    settings: dict[str, Any]
    arguments: dict[str, Any]
    expressions: dict[str, Any]
    attributes: dict[str, Any]
    resolved: dict[str, str]
    globals: dict[str, Any]
    groups: tuple[str, ...]
    instances: dict[str, str]
    fusion: dict[str, tuple[Any, Any]]


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

    def model(self, tp: int) -> TensorModel:
        """What the interpreter knows of tensors, for so many ranks."""
        functions, classes, externals, unknowns = (
            {name: entry.contract() for entry in words for name in entry.names}
            for words in (self.function, self.cls, self.external, self.unknown)
        )
        ranks = dict.fromkeys(self.facts.groups, tp)
        return TensorModel(functions, classes, externals, unknowns, self.pure, ranks)


def load_kernels(path: Path) -> Kernels:
    """Reads one file of contracts. Raises OSError, tomllib.TOMLDecodeError or pydantic.ValidationError."""
    return Kernels.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
