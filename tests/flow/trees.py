"""Edited copies of the healthy fixture, what a scan says about them, and what CPython says when it runs them."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flowcheck.checks.findings import Finding
from flowcheck.checks.rules import load_rules
from flowcheck.checks.run import run_checks, verdicts
from flowcheck.flow import Facts, Scenario, analyse
from flowcheck.flow.facts import Flow
from flowcheck.source import open_source

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
HEALTHY = FIXTURES / "mode-healthy"

SRT = "sglang/srt"
EAGLE_WORKER = f"{SRT}/speculative/eagle_worker.py"
SPEC_INFO = f"{SRT}/speculative/spec_info.py"
SCHEDULER = f"{SRT}/managers/scheduler.py"
SCHEDULE_BATCH = f"{SRT}/managers/schedule_batch.py"
TP_WORKER = f"{SRT}/managers/tp_worker.py"
FORWARD_BATCH = f"{SRT}/model_executor/forward_batch_info.py"
MODEL_RUNNER = f"{SRT}/model_executor/model_runner.py"
GRAPH_RUNNER = f"{SRT}/model_executor/cuda_graph_runner.py"
LOGITS = f"{SRT}/layers/logits_processor.py"
SERVER_ARGS = f"{SRT}/server_args.py"

QUESTIONS = {("extend", "eager"), ("verify", "eager"), ("verify", "decode_graph")}
"""What a scan of a tree of this shape has to answer."""

Edit = tuple[str, str, str]
"""A file, a text that it holds exactly once, and what takes its place. An empty old text adds to the end of the file,
which may be a new one."""

MARK = re.compile(r"#((?: HS\d{3})+)\s*$")
Place = tuple[str, str, int]


def files_of(root: Path) -> dict[str, str]:
    """The texts of a tree's Python files, by their paths."""
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in sorted(root.rglob("*.py"))}


def edited(edits: Sequence[Edit]) -> dict[str, str]:
    """The healthy tree with some edits."""
    files = files_of(HEALTHY)
    for path, old, new in edits:
        text = files.get(path, "")
        if old:
            assert text.count(old) == 1, f"{path} holds {text.count(old)} times: {old}"
            files[path] = text.replace(old, new)
        else:
            files[path] = text + new
    return files


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Writes a tree below a folder, and gives the folder."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    return root


def marks(files: Mapping[str, str]) -> set[Place]:
    """The guilty lines: (rule, path, line) of every trailing comment that names rules."""
    return {
        (rule, path, number)
        for path, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        for found in MARK.finditer(line)
        for rule in found[1].split()
    }


@dataclass(frozen=True)
class Answer:
    """What a scan says."""

    facts: Facts
    findings: tuple[Finding, ...]
    proved: set[tuple[str, str]] = field(default_factory=set)
    """Questions (phase and path) of which every worker's flows are proved, and that are asked at all."""

    @property
    def rules(self) -> set[str]:
        return {finding.rule for finding in self.findings}

    @property
    def places(self) -> set[Place]:
        return {
            (each.rule, each.place.path, each.place.span.line) if each.place else (each.rule, "", 0)
            for each in self.findings
        }

    @property
    def conditions(self) -> set[str]:
        """The scenarios under which flows that are found guilty exist."""
        return {subject.condition for each in self.findings for subject in each.subjects if isinstance(subject, Flow)}

    def __str__(self) -> str:
        """One line a finding, for a test that fails."""
        lines = [f"proved {sorted(self.proved)}"]
        for rule, path, line in sorted(self.places):
            text = next(each.message for each in self.findings if each.rule == rule)
            lines.append(f"{rule} {path}:{line} {text}")
        return "\n".join(lines)


@functools.cache
def _cache() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="flowcheck-tests-")


def scan(root: Path, algorithm: str = "EAGLE3", settings: Mapping[str, bool | int | str] | None = None) -> Answer:
    """Facts and findings of a tree. Files that trees have in common are parsed once."""
    scenario = Scenario(algorithm=algorithm, settings=dict(settings or {}))
    with open_source(str(root)) as tree:
        facts = analyse(tree, scenario, cache_dir=Path(_cache().name))
    findings = run_checks(facts, load_rules())
    ends = verdicts(facts, findings)
    said: dict[tuple[str, str], set[str]] = {}
    for flow, verdict in zip(facts.flows, ends.flows, strict=True):
        if verdict is not None:
            said.setdefault((flow.phase.value, flow.path.value), set()).add(verdict.value)
    for open_, verdict in zip(facts.open, ends.open, strict=True):
        if verdict is not None and open_.phase is not None and open_.path is not None:
            said.setdefault((open_.phase.value, open_.path.value), set()).add(verdict.value)
    return Answer(facts, findings, {question for question, words in said.items() if words == {"proved"}})


@dataclass(frozen=True)
class Truth:
    """What CPython saw: the target's questions that were asked, and those that kept fewer rows than FULL."""

    asked: set[tuple[str, str]]
    broken: set[tuple[str, str]]
    raised: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return not self.broken and not self.raised


PHASES = {"EXTEND": "extend", "MIXED": "extend", "TARGET_VERIFY": "verify"}
PATHS = {"eager": "eager", "graph": "decode_graph"}
RUNS: tuple[dict[str, bool | int | str], ...] = ({}, {"disable_cuda_graph": True})
A_CHILD = 60
"""Trees that one child runs: its limit then leaves a busy machine much room."""


def truths(trees: Sequence[tuple[Path, Mapping[str, bool | int | str]]]) -> list[Truth]:
    """Runs each tree with the given server arguments, with graphs and without, in children that take some trees each."""
    return [truth for at in range(0, len(trees), A_CHILD) for truth in _truths(trees[at : at + A_CHILD])]


def _truths(trees: Sequence[tuple[Path, Mapping[str, bool | int | str]]]) -> list[Truth]:
    jobs = [(str(root), {**run, **extra}) for root, extra in trees for run in RUNS]
    child = subprocess.run(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("concrete.py"))],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    logs = json.loads(child.stdout)
    return [
        _truth([entry for log in logs[at : at + len(RUNS)] for entry in log]) for at in range(0, len(logs), len(RUNS))
    ]


def _truth(entries: Sequence[Sequence[str]]) -> Truth:
    target = [entry for entry in entries if entry[0] == "target"]
    asked = {(PHASES[phase], PATHS[path]): None for _, phase, path, _ in target if phase in PHASES}
    broken = {(PHASES[phase], PATHS[path]) for _, phase, path, kept in target if phase in PHASES and kept != "FULL"}
    raised = tuple(f"{path}: {text}" for _, phase, path, text in target if phase == "raises")
    return Truth(set(asked), broken, raised)
