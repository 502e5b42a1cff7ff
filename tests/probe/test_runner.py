"""The tree's own runner: what it was told, and whether it replayed a graph of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from flowcheck.probe.names import probe_names
from flowcheck.probe.protocol import Job, Phase
from flowcheck.probe.rank import graphs
from flowcheck.probe.rank.bridges import Shape, _speculating, records
from flowcheck.probe.rank.output import Progress
from flowcheck.probe.rank.runner import RunnerTarget
from flowcheck.probe.rank.state import Rank
from flowcheck.probe.rank.tree import Tree, Unbridged
from tests.probe.tapes import on_tape

GRAPH = Phase("verify graph", "verify", 2, 1, (), graph=True)
JOB = Job("/tree", "small", "nccl", 1, "", "", (GRAPH,), probe_names(), "/work", through="model-runner")


class Runner:
    """Has one layer, and a graph of it. ``replays``: whether it uses the graph; ``factor``: what else the graph does."""

    def __init__(self, target: RunnerTarget, *, replays: bool = True, factor: float = 1.0) -> None:
        self.graph_runner: Any = "some"
        self.replays = replays
        self.given = torch.arange(6.0).reshape(2, 3) + 1
        self.out = torch.zeros(2, 3)
        recording: list[bool] = []
        inside = target.inside = graphs.Inside(lambda: bool(recording))

        def forward() -> None:
            inside.entered(0, (self.given,))
            inside.left(0, (self.given * 2,))
            self.out.copy_(self.given * 2 * factor)

        forward()
        recording.append(True)
        self._replay = on_tape(forward)
        recording.clear()

    def forward(self, batch: Any) -> Any:
        out = self.given * 2
        if self.replays and self.graph_runner is not None:
            self._replay()
            out = self.out
        return SimpleNamespace(logits_output=SimpleNamespace(hidden_states=out))


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunnerTarget:
    with (tmp_path / "events").open("w") as events:
        me = Rank(JOB, 0, Progress(0, events))
    made = RunnerTarget(me, Tree("small", probe_names()), Shape(None, 1, 3, 8), torch.device("cpu"))
    monkeypatch.setattr(made, "batch", lambda phase: None)
    return made


def eager_of(target: RunnerTarget) -> Any:
    with target._eager():
        states, _ = target._states(target._answer(None))
    return states


def test_a_graph_that_the_runner_replays_is_seen_and_compared(target: RunnerTarget) -> None:
    target.runner = Runner(target)
    target.recorded_fused = 5
    states, replay, fused = target.replayed(GRAPH, eager_of(target), 1)
    assert (replay.done, replay.why, replay.apart, replay.shape, fused) == (True, "", 0.0, (2, 3), 5)
    assert states.tolist() == (target.runner.given * 2).tolist()
    assert [each[0].tolist() for each in target.streams.values()] == [
        target.runner.given.tolist(),
        (target.runner.given * 2).tolist(),
    ]


def test_a_graph_that_leaves_something_else_is_apart(target: RunnerTarget) -> None:
    target.runner = Runner(target, factor=2.0)
    _, replay, _ = target.replayed(GRAPH, eager_of(target), 0)
    assert (replay.done, replay.apart) == (True, pytest.approx(1.0))


def test_a_runner_that_does_not_use_its_graph_has_replayed_nothing(target: RunnerTarget) -> None:
    target.runner = Runner(target, replays=False)
    states, replay, _ = target.replayed(GRAPH, eager_of(target), 0)
    assert (replay.done, replay.why) == (False, "the runner replayed nothing: boundary 0 not written")
    assert states.tolist() == (target.runner.given * 2).tolist()


def test_a_runner_without_graphs_has_replayed_none(target: RunnerTarget) -> None:
    target.runner = Runner(target)
    target.inside = None
    assert target.replayed(GRAPH, torch.ones(2, 3), 0)[1].why == "the runner recorded no graphs"


def test_eager_forwards_go_past_the_runners_graphs(target: RunnerTarget) -> None:
    target.runner = Runner(target, factor=2.0)
    assert eager_of(target).tolist() == (target.runner.given * 2).tolist()
    assert target.runner.graph_runner == "some"


def test_what_the_tree_tells_its_target_is_noted(target: RunnerTarget) -> None:
    heard: list[Any] = []

    def setter(layer_ids: list[int] | None = None) -> None:
        heard.append(layer_ids)

    target.model = SimpleNamespace(**{probe_names()["models"]["setters"]["DFLASH"][0]: setter})
    target.tree.algorithm = "DFLASH"
    target.tree.tells(target.model)
    target._listen()
    told = getattr(target.model, target.tree.names["models"]["setter"])
    told()
    told(layer_ids=[2, 4])
    assert target.tell(GRAPH) == (None, (2, 4))
    assert heard == [None, [2, 4]]


@pytest.mark.parametrize("algorithm", ["EAGLE3", "DFLASH"])
def test_a_runner_speculates_by_the_algorithm_of_the_job(algorithm: str) -> None:
    @dataclass
    class Arguments:
        speculative_algorithm: str | None = None
        speculative_draft_model_path: str | None = None

    made = Arguments()
    job = replace(JOB, draft="/draft", algorithm=algorithm)
    _speculating(Tree("small", probe_names(), algorithm), job, made)
    assert made == Arguments(algorithm, "/draft")


def test_a_runner_that_lacks_what_is_asked_is_said(target: RunnerTarget) -> None:
    target.runner = SimpleNamespace()
    with pytest.raises(Unbridged, match="SimpleNamespace has no attn_backend"):
        target.runner_has("attention")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"backend": "gloo"}, False),
        ({"role": "reference"}, False),
        ({"through": "model"}, False),
        ({"phases": ()}, False),
    ],
)
def test_graphs_are_recorded_on_gpus_where_one_is_to_be_shown(changes: dict[str, Any], expected: bool) -> None:
    assert records(replace(JOB, **changes)) == expected
