"""A fork that renamed files, classes and the package proves the same as the release, and a lowered mode is caught."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest

from tests.mutations.overlay import Changes, Release, Rename
from tests.releases.expected import EAGLE3
from tests.releases.scans import Scan, Settings, scan_release, scan_tree

pytestmark = [pytest.mark.release, pytest.mark.long]

CLASSES = {
    "ModelRunner": "DeviceModel",
    "ForwardBatch": "StepInputs",
    "ScheduleBatch": "RequestGroup",
    "Scheduler": "BatchLoop",
    "CaptureHiddenMode": "RowsKept",
    "LogitsMetadata": "HeadInputs",
    "ServerArgs": "Options",
    "TpModelWorker": "RankWorker",
    "EAGLEWorkerV2": "SpecEngineV2",
    "MultiLayerEagleWorkerV2": "LayeredEngineV2",
}
FILES = {
    "eagle_worker_v2": "spec_engine_v2",
    "multi_layer_eagle_worker_v2": "layered_engine_v2",
    "eagle_utils": "spec_helpers",
    "forward_batch_info": "step_inputs",
    "schedule_batch": "request_group",
    "tp_worker": "rank_worker",
    "model_runner": "device_model",
    "logits_processor": "head",
}
PACKAGE = "mysgl"


@dataclass(frozen=True)
class Fork:
    """A release, and what its fork renames. ``lowered``: the settings and the worker of the scans of lowered forks."""

    version: str
    classes: dict[str, str]
    files: dict[str, str]
    settings: Settings
    worker: str

    @property
    def renames(self) -> tuple[Rename, ...]:
        return (
            *(Rename("name", old, new) for old, new in (CLASSES | self.classes).items()),
            *(Rename("file", old, new) for old, new in (FILES | self.files).items()),
            Rename("package", "sglang", PACKAGE),
        )

    def original(self, name: str) -> str:
        """What a class or a place of the fork is called in the release."""
        back = {new: old for old, new in (CLASSES | self.classes | FILES | self.files).items()}
        folder, slash, rest = name.rpartition("/")
        stem, dot, line = rest.partition(".py")
        return f"{folder}{slash}{back.get(stem, stem)}{dot}{line}"


FORKS = {
    "0.5.6": Fork(
        "0.5.6",
        {"EAGLEWorker": "SpecEngine", "CudaGraphRunner": "StepRecorder"},
        {"eagle_worker": "spec_engine", "cuda_graph_runner": "step_recorder", "eagle_info_v2": "spec_inputs_v2"},
        (("disable_overlap_schedule", True),),
        "EAGLEWorker",
    ),
    "0.5.14": Fork(
        "0.5.14",
        {"DecodeCudaGraphRunner": "StepRecorder"},
        {"decode_cuda_graph_runner": "step_recorder"},
        (("enable_multi_layer_eagle", False),),
        "EAGLEWorkerV2",
    ),
}


@functools.lru_cache(maxsize=1)
def bytes_of(version: str) -> Release:
    return Release(version)


@pytest.fixture(scope="module", params=list(FORKS.values()), ids=list(FORKS))
def fork(request: pytest.FixtureRequest) -> Fork:
    found: Fork = request.param
    return found


def scan_fork(fork: Fork, files: dict[str, bytes], settings: Settings = ()) -> Scan:
    tree = bytes_of(fork.version).with_changes(Changes(files, fork.renames))
    assert (tree.root, tree.package) == (PACKAGE, PACKAGE)
    return scan_tree(tree, settings=settings)


def test_a_fork_proves_the_same(fork: Fork) -> None:
    ours, theirs = scan_fork(fork, {}), scan_release(fork.version)
    assert set(map(fork.original, ours.facts.workers)) == EAGLE3[fork.version].names
    assert sorted(row.renamed(fork.original) for row in ours.rows) == list(theirs.rows)
    assert ours.findings == ()
    assert (ours.proved, ours.violated, ours.unproved) == (theirs.proved, 0, 0)


@pytest.mark.parametrize(("phase", "rule"), [("extend", "HS101"), ("verify", "HS102")])
def test_a_fork_that_lowers_a_mode_is_caught(fork: Fork, phase: str, rule: str) -> None:
    (worker,) = [each for each in EAGLE3[fork.version].workers if each.name == fork.worker]
    file, _, line = getattr(worker, phase).rpartition(":")
    scan = scan_fork(fork, lowered(fork.version, f"sglang/srt/{file}", int(line)), fork.settings)
    found = [finding for finding in scan.findings if finding.rule == rule]
    assert found, scan.said()
    places = {f"{f.place.path}:{f.place.span.line}" for f in found if f.place}
    assert set(map(fork.original, places)) == {f"{PACKAGE}/srt/{file}:{line}"}
    rows = [row for row in scan.rows if row.phase == phase]
    assert rows
    assert {row.verdict for row in rows} == {"violated"}
    assert scan.unproved == 0, scan.said()


def lowered(version: str, path: str, line: int) -> dict[str, bytes]:
    """A file of the release whose line asks for LAST instead of FULL."""
    lines = bytes_of(version).read(path).splitlines(keepends=True)
    before = lines[line - 1]
    lines[line - 1] = before.replace(b"CaptureHiddenMode.FULL", b"CaptureHiddenMode.LAST")
    assert lines[line - 1] != before
    return {path: b"".join(lines)}
