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

import msgspec

from flowcheck.data import rules_dir
from flowcheck.flow.facts import Facts, ScanStats
from flowcheck.flow.scenario import Scenario
from flowcheck.source import SourceWarning, Tree

__all__ = ["KeptFacts"]

_MAGIC = b"flowcheck.facts/2\n"
_DIGEST = 32


class KeptFacts:
    """The facts of one tree under one scenario, in a folder that many scans share."""

    def __init__(self, folder: Path, tree: Tree, scenario: Scenario) -> None:
        key = hashlib.sha256(_MAGIC + _code() + tree.package_digest.encode())
        settings = sorted((k, type(v).__name__, repr(v)) for k, v in scenario.settings.items())
        key.update(repr((scenario.algorithm, settings, sorted(tree.core_paths()))).encode())
        self.path = folder / f"{key.hexdigest()}.msgpack"

    def load(self) -> tuple[Facts, tuple[SourceWarning, ...]] | None:
        """The facts and what was said of broken files; the cost is this scan's: nothing was parsed or evaluated."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        body = data[start:]
        if data[:start] == _MAGIC + hashlib.sha256(body).digest():
            with suppress(msgspec.MsgspecError, ValueError, TypeError):
                facts, warnings = msgspec.msgpack.decode(body, type=tuple[Facts, tuple[SourceWarning, ...]])
                s = facts.stats
                return replace(facts, stats=ScanStats(s.files_indexed, s.definitions_indexed)), warnings
        with suppress(OSError):
            self.path.unlink()
        return None

    def save(self, facts: Facts, warnings: tuple[SourceWarning, ...]) -> None:
        """Keeps the facts for the next scan; in silence where that cannot be done."""
        try:
            body = msgspec.msgpack.encode((facts, warnings))
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


@lru_cache(maxsize=1)
def _code() -> bytes:
    """A digest of what evaluates: flowcheck's code and vocabulary, Python, libcst."""
    package = Path(__file__).resolve().parents[1]
    whole = hashlib.sha256(sys.version.encode())
    with suppress(PackageNotFoundError):
        whole.update(version("libcst").encode())
    for path in [*sorted(package.rglob("*.py")), rules_dir() / "vocabulary.toml"]:
        whole.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.digest()
