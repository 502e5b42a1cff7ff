"""Facts of an earlier scan of the very same thing: a second scan of an unchanged tree evaluates nothing.

The key covers everything that facts depend on: each file of the package, the scenario, the vocabulary, flowcheck's own
code, and the versions of Python and libcst. An entry is plain data with a checksum; one that is damaged or of another
shape is removed and made anew. A folder that cannot be written is a store that never hits.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from flowcheck.data import rules_dir
from flowcheck.flow.facts import Facts, ScanStats
from flowcheck.flow.scenario import Scenario
from flowcheck.source import SourceWarning, Tree

__all__ = ["Kept", "KeptFacts", "question_of"]

_MAGIC = b"flowcheck.facts/2\n"
_DIGEST = 32

TABLES = ("vocabulary.toml", "kernels.toml", "witnesses.toml")
"""What is known of SGLang by name, and changes answers."""


T = TypeVar("T")


class Kept(Generic[T]):
    """One answer about one tree, in a folder that many scans share. ``question`` is all that it depends on beside the tree
    and the code; ``shape`` is the type of the answer."""

    def __init__(self, folder: Path, tree: Tree, question: object, shape: type[T]) -> None:
        key = hashlib.sha256(_MAGIC + _code() + tree.package_digest.encode())
        key.update(repr((question, sorted(tree.core_paths()))).encode())
        self.path = folder / f"{key.hexdigest()}.msgpack"
        self.shape = shape

    def load(self) -> T | None:
        """The answer, or None where none is kept; a damaged one is removed."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        body = data[start:]
        if data[:start] == _MAGIC + hashlib.sha256(body).digest():
            with suppress(msgspec.MsgspecError, ValueError, TypeError):
                return msgspec.msgpack.decode(body, type=self.shape)
        with suppress(OSError):
            self.path.unlink()
        return None

    def save(self, answer: T) -> None:
        """Keeps the answer for the next scan; in silence where that cannot be done."""
        try:
            body = msgspec.msgpack.encode(answer)
        except (ValueError, OverflowError):  # a file's name that is no UTF-8
            return
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(_MAGIC + hashlib.sha256(body).digest() + body)
            part.replace(self.path)
        except OSError:
            with suppress(OSError):
                part.unlink()


def question_of(scenario: Scenario) -> tuple[object, ...]:
    """A scenario as a part of a question."""
    return scenario.algorithm, sorted((k, type(v).__name__, repr(v)) for k, v in scenario.settings.items())


class KeptFacts:
    """The facts of one tree under one scenario, and what was said of broken files."""

    def __init__(self, folder: Path, tree: Tree, scenario: Scenario) -> None:
        self.kept = Kept(folder, tree, question_of(scenario), tuple[Facts, tuple[SourceWarning, ...]])

    def load(self) -> tuple[Facts, tuple[SourceWarning, ...]] | None:
        """The facts and what was said of broken files; the cost is this scan's: nothing was parsed or evaluated."""
        found = self.kept.load()
        if found is None:
            return None
        facts, warnings = found
        s = facts.stats
        return replace(facts, stats=ScanStats(s.files_indexed, s.definitions_indexed)), warnings

    def save(self, facts: Facts, warnings: tuple[SourceWarning, ...]) -> None:
        """Keeps the facts for the next scan."""
        self.kept.save((facts, warnings))


@lru_cache(maxsize=1)
def _code() -> bytes:
    """A digest of what evaluates: flowcheck's code and vocabulary, Python, libcst."""
    package = Path(__file__).resolve().parents[1]
    whole = hashlib.sha256(sys.version.encode())
    with suppress(PackageNotFoundError):
        whole.update(version("libcst").encode())
    for path in [*sorted(package.rglob("*.py")), *(rules_dir() / name for name in TABLES)]:
        whole.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.digest()
