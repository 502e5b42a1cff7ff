"""The call graph that facts carry, and the question that it leaves where graphs are recorded and never replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcheck.flow import calls
from flowcheck.flow.facts import CallEdge
from tests.flow.trees import GRAPH_RUNNER, HEALTHY, MODEL_RUNNER, Answer, Edit, edited, files_of, scan, write

REPLAY = "        self.graphs[bs].replay()\n"
ADMIT = "        return forward_batch.batch_size <= self.capture_bs[-1]\n"


@pytest.fixture(scope="module")
def found() -> tuple[CallEdge, ...]:
    return scan(HEALTHY).facts.calls


def test_the_ways_from_the_dispatch_to_the_forwards_are_there(found: tuple[CallEdge, ...]) -> None:
    named = {(edge.caller.symbol, edge.kind, edge.callee.symbol) for edge in found}
    assert {
        ("Scheduler.run_batch", "calls", "EAGLEWorker.forward_batch_generation"),
        ("ModelRunner.forward", "calls", "CudaGraphRunner.replay"),
        ("ModelRunner.forward", "calls", "ModelRunner.forward_extend"),
    } <= named
    assert any(kind == "writes" and callee.endswith(".capture_hidden_mode") for _, kind, callee in named)
    assert not any(callee.endswith(".forward_mode") for _, _, callee in named)


def test_the_sites_of_calls_stand_where_the_text_calls(found: tuple[CallEdge, ...]) -> None:
    files = {path: text.split("\n") for path, text in files_of(HEALTHY).items()}
    checked = 0
    for edge in found:
        assert edge.sites or edge.kind == "overrides"
        for span in edge.sites:
            text = "\n".join(files[edge.caller.path][span.line - 1 : span.end_line])
            name = edge.callee.symbol.rpartition(".")[2]
            if edge.kind == "calls" and not name.startswith("__"):
                assert name in text
                checked += 1
    assert checked > 5
    assert list(found) == sorted(found, key=lambda e: (e.caller, e.callee, e.kind))


def test_a_graph_that_is_too_large_is_left_out(found: tuple[CallEdge, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    assert calls.merged_calls([found, found]) == found
    monkeypatch.setattr(calls, "MOST_EDGES", len(found) - 1)
    assert calls.merged_calls([found]) == ()


# ---------------------------------------------------------------------------------------------------------- presence
def answer(tmp_path: Path, *edits: Edit, **settings: bool) -> Answer:
    return scan(write(tmp_path, edited(edits)), settings=settings)


def test_graphs_that_are_recorded_and_never_replayed_leave_a_question(tmp_path: Path) -> None:
    said = answer(tmp_path, (GRAPH_RUNNER, REPLAY, "        self.graphs[bs].launch()\n"))
    assert said.rules == {"HS109"}
    (lost,) = [each for each in said.facts.open if each.kind == "missing"]
    assert (lost.phase, lost.path, lost.worker) == ("verify", "decode_graph", "EAGLEWorker")
    assert lost.place is not None
    assert (lost.place.path, lost.place.symbol) == (GRAPH_RUNNER, "CudaGraphRunner")
    assert said.proved == {("extend", "eager"), ("verify", "eager")}


def test_graphs_that_nobody_asks_about_leave_the_question_too(tmp_path: Path) -> None:
    ask = "            and self.graph_runner.can_run(forward_batch)\n"
    said = answer(tmp_path, (MODEL_RUNNER, ask, "            and False\n"))
    assert said.rules == {"HS109"}
    assert {each.path for each in said.facts.open} == {"decode_graph"}


@pytest.mark.parametrize(
    ("edits", "settings"),
    [
        ((), {}),
        ((), {"disable_cuda_graph": True}),
        (((GRAPH_RUNNER, ADMIT, "        return False\n"),), {}),
        (((GRAPH_RUNNER, ADMIT, "        return forward_batch.forward_mode.is_extend()\n"),), {}),
    ],
)
def test_graphs_that_are_replayed_refused_or_not_there_leave_none(
    tmp_path: Path, edits: tuple[Edit, ...], settings: dict[str, bool]
) -> None:
    said = answer(tmp_path, *edits, **settings)
    assert said.findings == (), str(said)


def test_an_algorithm_without_states_is_asked_nothing(tmp_path: Path) -> None:
    tree = write(tmp_path, edited(((GRAPH_RUNNER, REPLAY, "        self.graphs[bs].launch()\n"),)))
    assert not [each for each in scan(tree, algorithm="STANDALONE").facts.open if each.path is not None]
