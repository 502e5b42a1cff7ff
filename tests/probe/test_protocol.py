"""The two sides of a probe read what the other wrote, and refuse what they would misread."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flowcheck.probe.names import probe_names
from flowcheck.probe.protocol import (
    Block,
    Coverage,
    DraftInput,
    Event,
    Failure,
    Job,
    Phase,
    PhaseResult,
    RankResult,
    Reduction,
    dumps,
    loads,
)

ROOT = Path(__file__).resolve().parents[2]

JOB = Job(
    tree="/tree",
    package="fork",
    backend="gloo",
    ranks=8,
    target="/target",
    architecture="SomeForCausalLM",
    phases=(Phase("extend", "extend", 2, 5, ((2, 30, 58), None)), Phase("verify", "verify", 2, 4)),
    names={"model": {"forward": "forward"}},
    work="/work",
    draft="/draft",
    draft_width=21504,
    reductions=(Reduction("hidden_size", 7168, 256),),
)
RESULT = RankResult(
    rank=3,
    stage="done",
    cls="fork.models.some.SomeForCausalLM",
    phases=(
        PhaseResult(
            "extend",
            ((2, 30, 58), None),
            10,
            256,
            rows=10,
            width=768,
            dtype="torch.float32",
            blocks=(Block(0, "boundary", 3, "boundary 3", 1e-7, 4e3), Block(1, "other", None, "zeros")),
        ),
        PhaseResult("verify", (), 8, 256, error=Failure("forward", "TypeError", "no", ("a.py:1",))),
    ),
    draft=(DraftInput("extend", "Draft", "model.fc", "Linear", 768, True, True),),
    not_covered=(Coverage("graphs", "no GPU"),),
    bridges={"arguments": "a dict"},
    seconds={"build": 1.5},
)


@pytest.mark.parametrize(
    "document", [JOB, RESULT, Event(1, "build", "61 layers", 2.0)], ids=lambda it: type(it).__name__
)
def test_what_is_written_is_read(document: Any) -> None:
    text = dumps(document)
    assert "\n" not in text
    assert loads(type(document), text) == document


def test_whole_seconds_are_read_as_seconds() -> None:
    assert loads(Event, '{"rank": 1, "stage": "build", "seconds": 2}').seconds == 2.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "flowcheck.probe/0"}, "protocol"),
        ({"backend": "mpi"}, "backend"),
        ({"ranks": "8"}, "ranks"),
        ({"later": 1}, "unknown later"),
        ({"phases": {}}, "not a list"),
        ({"phases": [{"name": "extend"}]}, "without kind, requests, tokens"),
    ],
    ids=str,
)
def test_what_would_be_misread_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loads(Job, json.dumps({**json.loads(dumps(JOB)), **change}))


def test_a_reference_is_the_same_job_on_one_rank() -> None:
    reference = JOB.as_reference()
    assert (reference.ranks, reference.seed, reference.phases) == (1, JOB.seed, JOB.phases)
    assert reference.reference_path() == JOB.reference_path()
    assert reference.result_path(0) != JOB.result_path(0)


def test_the_table_of_names_fits_into_a_job() -> None:
    assert json.loads(json.dumps(probe_names())) == probe_names()


RANK = sorted((ROOT / "flowcheck/probe/rank").glob("*.py"))
ALONE = [
    ROOT / "flowcheck/__init__.py",
    ROOT / "flowcheck/probe/__init__.py",
    ROOT / "flowcheck/probe/protocol.py",
    *RANK,
]


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_rank_imports_the_standard_library_and_pytorch(path: Path) -> None:
    """It runs where flowcheck's dependencies are not."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(node.module or "")
    own = {each for each in found if each.split(".")[0] == "flowcheck"}
    assert {each for each in own if not each.startswith("flowcheck.probe.rank")} <= {
        "flowcheck.probe.leash",
        "flowcheck.probe.protocol",
    }
    assert {each.split(".")[0] for each in found - own} <= {*sys.stdlib_module_names, "torch"}
