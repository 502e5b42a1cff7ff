"""The configurations and deployments that stand for all, where nobody names a model: read from ``rules/witnesses.toml``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flowcheck.flow.vocabulary import Vocabulary

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DeploymentWords", "Witnesses", "load_witnesses"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DeploymentWords(_Table):
    """One way in which ranks share the work. ``name`` is "" for the plain one; a tree that can run so spells ``argument``."""

    name: str
    argument: str = ""
    fusion: bool = False
    replicas: int = Field(default=1, ge=1)
    a2a: str = "none"


class Witnesses(_Table):
    """Numbers of layers, the keys that every configuration writes, and the deployments."""

    layers: tuple[int, ...] = Field(min_length=1)
    layers_key: str
    keys: dict[str, Any]
    subscripted: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    per_layer: dict[str, tuple[str, ...]]
    deployments: tuple[DeploymentWords, ...]

    def configuration(
        self, name: str, layers: int, sources: Iterable[bytes], words: Vocabulary, kind: str = ""
    ) -> dict[str, Any]:
        """A configuration for a class whose code is in ``sources``. A wrapper that reads a part of its configuration for its
        text model is given that part. ``kind``: the type that the class says its configuration has."""
        texts = tuple(sources)
        keys: dict[str, Any] = {k: None if v == "none" else v for k, v in self.keys.items()}
        keys[self.layers_key] = layers
        written = {words.configurations.type_key: kind} if kind else {}
        for key, numbers in self.subscripted.items():
            if any(re.search(rb"\b%s\[" % re.escape(key.encode()), text) for text in texts):
                keys[key] = [numbers[i % len(numbers)] for i in range(layers)]
        for key, kinds in self.per_layer.items():
            spelled = [kind for kind in kinds if any(kind.encode() in text for text in texts)]
            keys.update({key: [spelled[i % len(spelled)] for i in range(layers)]} if spelled else {})
        for path in words.configurations.text_parts:
            parts = path.split(".")
            if all(any(re.search(rb"\.%s\b" % part.encode(), text) for text in texts) for part in parts):
                whole: dict[str, Any] = {"architectures": [name], **written, **keys}
                inner = whole
                for part in parts:
                    inner = inner.setdefault(part, {})
                inner.update(keys)
                return whole
        return {"architectures": [name], **written, **keys}


def load_witnesses(path: Path) -> Witnesses:
    """Reads one file of witnesses. Raises OSError, tomllib.TOMLDecodeError or pydantic.ValidationError."""
    return Witnesses.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
