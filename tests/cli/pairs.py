"""Pairs in a folder of a test: the healthy one of the fixtures, with edits."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from flowcheck.cli import app

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
DRAFT, TARGET = (str(FIXTURES / "pair-healthy" / part) for part in ("draft", "target"))
IDS = "eagle_aux_hidden_state_layer_ids"


def flowcheck(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], prog_name="flowcheck")


def refused(result: Result, *said: str) -> str:
    """The one line on stderr of a command that was refused."""
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.startswith("flowcheck: error: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.rstrip("\n").isprintable()
    for each in said:
        assert each in result.stderr
    return result.stderr


def config(part: str = "draft", **changes: object) -> dict[str, Any]:
    """A configuration of the healthy pair with keys that are others, or, for ``...``, gone."""
    raw = json.loads((FIXTURES / "pair-healthy" / part / "config.json").read_text("utf-8"))
    return {key: value for key, value in {**raw, **changes}.items() if value is not ...}


def written(path: Path, raw: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(raw if isinstance(raw, str) else json.dumps(raw), "utf-8")
    return path


def draft_with_ids(folder: Path, ids: object) -> Path:
    return written(folder / "draft.json", config(eagle_config={IDS: ids}))


def safetensors(path: Path, header: object, data: bytes = b"", *, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path
