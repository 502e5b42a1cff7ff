"""Forwards that are recorded and replayed: what a replay leaves is kept, compared and named; what was not replayed is said."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from flowcheck.probe.names import probe_names
from flowcheck.probe.protocol import Job, Phase, RankResult
from flowcheck.probe.rank import graphs
from flowcheck.probe.rank.tree import Tree
from tests.probe.small_trees import edited, job_of, results, start
from tests.probe.tapes import on_tape

IDS = (2, 4, 6)
RECORDING = "__import__('sglang.srt.model_executor.cuda_graph_runner', fromlist=['x']).is_capture_mode"


# ------------------------------------------------------------------------------------------------------------- buffers
def taken() -> graphs.Taken:
    ones = torch.ones(2, 3)
    return graphs.Taken.like({0: (ones,), 1: (ones, ones)}, torch.ones(2, 6))


def test_buffers_hold_what_is_copied_into_them() -> None:
    kept = taken()
    kept.spoil()
    assert kept.unwritten() == "boundary 0"
    kept.entered(0, (torch.zeros(2, 3),))
    assert kept.unwritten() == "boundary 1"
    kept.left(0, (torch.full((2, 3), 2.0), torch.full((2, 3), 3.0)))
    assert kept.unwritten() == "the captured states"
    kept.gave(torch.arange(12.0).reshape(2, 6))
    assert kept.unwritten() == ""
    assert kept.streams[1][1].tolist() == [[3.0] * 3] * 2
    assert kept.states.tolist() == torch.arange(12.0).reshape(2, 6).tolist()


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (lambda kept: kept.entered(0, (torch.ones(1, 3),)), "what enters layer 0 has another shape"),
        (lambda kept: kept.entered(0, ()), "what enters layer 0 has another shape"),
        (lambda kept: kept.left(1, (torch.ones(2, 3),)), "what leaves the last layer has another shape"),
        (lambda kept: kept.gave(None), "what is captured has another shape"),
    ],
)
def test_what_does_not_fit_is_not_recorded(fill: Any, said: str) -> None:
    with pytest.raises(graphs.NotRecorded, match=said):
        fill(taken())


def test_a_row_that_was_not_written_is_seen() -> None:
    kept = graphs.Taken({}, torch.ones(3, 2))
    kept.spoil()
    kept.states[:2] = 1.0
    assert kept.unwritten() == "the captured states"


def test_graphs_of_several_sizes_keep_what_they_hold_in_the_same_buffers() -> None:
    """The largest comes first, and a replay of a smaller one writes its own rows alone."""
    recording: list[bool] = []
    inside = graphs.Inside(lambda: bool(recording))
    given = torch.ones(4, 3)

    def forward(rows: int) -> None:
        inside.entered(0, (given[:rows] * 2,))
        inside.left(0, (given[:rows] * 3, given[:rows] * 5))

    replays = {}
    for rows in (4, 2):
        forward(rows)
        recording.append(True)
        replays[rows] = on_tape(lambda rows=rows: forward(rows))
        recording.clear()
    given.fill_(7.0)
    inside.spoil()
    assert inside.written(2, torch.ones(2, 6)).unwritten() == "boundary 0"
    replays[2]()
    kept = inside.written(2, torch.ones(2, 6))
    assert kept.unwritten() == ""
    assert [each[0][0, 0].item() for each in kept.streams.values()] == [14.0, 21.0]
    assert inside.written(4, torch.ones(4, 6)).unwritten() == "boundary 0"
    replays[4]()
    assert inside.written(4, torch.ones(4, 6)).unwritten() == ""


def test_a_larger_graph_after_a_smaller_one_has_buffers_of_its_own() -> None:
    recording: list[bool] = []
    inside = graphs.Inside(lambda: bool(recording))
    replays = []
    for rows in (2, 4):
        inside.entered(0, (torch.ones(rows, 3),))
        recording.append(True)
        replays.append(on_tape(lambda rows=rows: inside.entered(0, (torch.ones(rows, 3),))))
        recording.clear()
    inside.spoil()
    replays[0]()  # into what was outgrown: nothing is said to be written
    assert inside.written(2, torch.ones(2, 6)).unwritten() == "boundary 0"
    replays[1]()
    assert inside.written(4, torch.ones(4, 6)).unwritten() == ""


# ----------------------------------------------------------------------------------------------------------- recording
class Manager:
    """What a tree puts around a recording: it does not put back what it set if an exception passes."""

    def __init__(self, log: list[str], stream: str = "") -> None:
        self.log, self.stream = log, stream

    def __enter__(self) -> Manager:
        self.log.append("in")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.log.append("out" if kind is None else "broken")


class Small(Tree):
    """A tree that has managers alone."""

    def __init__(self, **found: Any) -> None:
        super().__init__("small", probe_names())
        self.found = found

    def find(self, module: str, *path: str) -> Any:
        return self.found.get(path[-1])


def test_a_recording_is_announced_and_on_the_stream_of_the_groups() -> None:
    log: list[str] = []
    tree = Small(model_capture_mode=lambda: Manager(log), graph_capture=lambda: Manager(log, "theirs"))
    seen: list[Any] = []

    def recorder(run: Any, stream: Any) -> Any:
        seen.append((stream, list(log)))
        return run

    graphs.recorded(tree, lambda: None, recorder)
    assert seen == [("theirs", ["in", "in"])]
    assert log == ["in", "in", "out", "out"]


def test_a_recording_that_fails_leaves_the_managers_in_order() -> None:
    log: list[str] = []

    def recorder(run: Any, stream: Any) -> Any:
        assert stream is None
        raise ValueError("a\nstream")

    with pytest.raises(graphs.NotRecorded, match=r"^ValueError: a stream$"):
        graphs.recorded(Small(model_capture_mode=lambda: Manager(log)), lambda: None, recorder)
    assert log == ["in", "out"]


def test_a_tape_is_what_the_tests_take_it_for() -> None:
    """Python runs while it is recorded, and not in a replay; what is computed goes to where it was."""
    given, out, runs = torch.ones(3), torch.zeros(3), []

    def run() -> None:
        runs.append(1)
        view = (given * 2)[1:]
        view += 1
        out[1:].copy_(view)

    replay = on_tape(run)
    count = len(runs)
    given.fill_(5.0)
    out.fill_(float("nan"))
    replay()
    assert (out[1:].tolist(), bool(out[0].isnan()), len(runs)) == ([11.0, 11.0], True, count)


# --------------------------------------------------------------------------------------------------------------- ranks
def with_graph(folder: Path, fixture: str = "wiring-healthy", **changes: Any) -> Job:
    phases = (
        Phase("verify", "verify", 2, 4, (IDS,)),
        Phase("verify graph", "verify", 2, 4, (IDS,), graph=True),
        Phase("extend", "extend", 2, 3, (IDS,)),
    )
    return job_of(fixture, folder, **{"phases": phases, **changes})


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = with_graph(tmp_path_factory.mktemp("reference"))
    done, _ = start(job.as_reference(), "0")
    assert done.returncode == 0, done.stderr
    return job.reference_path()


def replayed(job: Job, reference: Path, module: str = "tests.probe.tapes") -> list[RankResult]:
    shutil.copy(reference, job.reference_path())
    done, _ = start(job, f"0-{job.ranks - 1}", module)
    found = results(job)
    assert [each.error for each in found] == [None] * job.ranks, done.stderr
    return found


def names(rank: RankResult, phase: int) -> list[tuple[str, int | None]]:
    return [(each.identity, each.boundary) for each in rank.phases[phase].blocks]


WHOLE = [("boundary", 3), ("boundary", 5), ("boundary", 7)]


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_replay_leaves_what_an_eager_forward_leaves(tmp_path: Path, reference: Path, fused: bool) -> None:
    job = with_graph(tmp_path, settings={"enable_flashinfer_allreduce_fusion": fused})
    for rank in replayed(job, reference):
        eager, graph, extend = rank.phases
        assert graph.replay is not None
        assert (graph.replay.done, graph.replay.why, graph.replay.apart) == (True, "", 0.0)
        assert graph.replay.shape == (graph.rows, graph.width) == (8, 3 * 64)
        assert graph.digest == eager.digest
        assert names(rank, 1) == WHOLE
        assert (eager.replay, extend.replay) == (None, None)
        assert graph.fused == eager.fused == extend.fused
        assert bool(graph.fused) == fused
        assert [each.accepted for each in rank.draft] == [True] * 3
        assert "recorded graphs" not in {each.what for each in rank.not_covered}


@pytest.mark.long
def test_a_graph_that_captured_something_else_is_unlike_the_eager_forward(tmp_path: Path, reference: Path) -> None:
    job = with_graph(tmp_path)
    new = f"append(residual.clone() * (2 if {RECORDING} else 1))"
    edited(job, "layers/communicator.py", "append(residual.clone())", new)
    for rank in replayed(job, reference):
        graph = rank.phases[1].replay
        assert graph is not None
        assert (graph.done, graph.apart) == (True, pytest.approx(1.0))
        assert rank.phases[1].blocks[0].explanation == "2 times boundary 3"
        assert (names(rank, 0), names(rank, 2)) == (WHOLE, WHOLE)


@pytest.mark.long
def test_what_cannot_be_recorded_is_said_and_shown_by_the_eager_forward(tmp_path: Path, reference: Path) -> None:
    job = with_graph(tmp_path)
    old = "        hidden_states = self.embed_tokens(input_ids)\n"
    edited(job, "models/llama.py", old, f"        if {RECORDING}: raise ValueError('no stream')\n{old}")
    for rank in replayed(job, reference):
        assert rank.phases[1].replay is not None
        assert (rank.phases[1].replay.done, rank.phases[1].replay.why) == (False, "ValueError: no stream")
        assert [names(rank, each) for each in range(3)] == [WHOLE] * 3  # the flag is down again
        assert "recorded graphs" in {each.what for each in rank.not_covered}


def test_without_a_gpu_no_graph_is_replayed(tmp_path: Path, reference: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    for rank in replayed(with_graph(tmp_path), reference, "flowcheck.probe.rank"):
        assert rank.phases[1].replay is not None
        assert not rank.phases[1].replay.done
        assert rank.phases[1].replay.why
        assert names(rank, 1) == WHOLE
