"""The wiring fixtures as a command line names them, and a cache that the tests of a run share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import Result

from tests.cli.pairs import FIXTURES, IDS, flowcheck, written

__all__ = [
    "KEY",
    "NEEDED",
    "draft_of",
    "lines_of",
    "needing",
    "pair_of",
    "parsed",
    "rewritten",
    "tree_of",
    "with_cache",
]

NEEDED = "3,5,7"
KEY = f"eagle_config.{IDS}"


@pytest.fixture(scope="module", autouse=True)
def with_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOWCHECK_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


def tree_of(name: str) -> str:
    """The tree of a fixture; that of the healthy one where only its draft is broken."""
    tree = FIXTURES / name / "tree"
    return str(tree if tree.is_dir() else FIXTURES / "wiring-healthy" / "tree")


def draft_of(name: str) -> str:
    return str(FIXTURES / name / "draft")


def pair_of(name: str) -> list[str]:
    return ["--draft", draft_of(name), "--target", str(FIXTURES / name / "target")]


def needing(boundaries: str = NEEDED) -> list[str]:
    return ["--trained-boundaries", boundaries]


def rewritten(folder: Path, **changes: object) -> str:
    """The healthy draft with keys that are others, or, for ``...``, gone."""
    raw = json.loads((FIXTURES / "wiring-healthy" / "draft" / "config.json").read_text("utf-8"))
    return str(written(folder / "draft.json", {k: v for k, v in {**raw, **changes}.items() if v is not ...}))


def parsed(*arguments: object, schema: str = "report") -> dict[str, Any]:
    """The document of a command, which has to be as its schema says."""
    result = flowcheck(*arguments, "--format", "json")
    assert result.exit_code in (0, 1), result.output
    document: dict[str, Any] = json.loads(result.stdout)
    jsonschema.Draft202012Validator(json.loads(flowcheck("schema", schema).stdout)).validate(document)
    return document


def lines_of(result: Result) -> list[str]:
    """The lines of a page, none of which may be wider than a terminal."""
    lines: list[str] = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    return lines
