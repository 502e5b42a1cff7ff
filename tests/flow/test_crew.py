"""Walks in several processes: the facts are those of one, helpers that fail are not missed, and none is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from flowcheck.data import rules_dir
from flowcheck.flow import Facts, Scenario, analyse, crew
from flowcheck.flow.crew import Crew
from flowcheck.flow.outcomes import Ground, Outcome, Question
from flowcheck.flow.stack import with_deep_stack
from flowcheck.flow.vocabulary import load_vocabulary
from flowcheck.source import Tree, open_source
from tests.flow.broken import BROKEN
from tests.flow.trees import EAGLE_WORKER, HEALTHY, write

CONDITIONAL = next(case for case in BROKEN if case.condition == "enable_lean_extend")
KEY = ("free", "server_args", "enable_lean_extend")
WALKS: list[dict[Any, Any]] = [{}, {KEY: False}, {KEY: True}]
WORDS = load_vocabulary(rules_dir() / "vocabulary.toml")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "tree", CONDITIONAL.files)


def question(tree: Tree) -> Question:
    return Question(tree, Scenario(settings={}), WORDS, None)


def facts(root: Path, jobs: int, cache: Path | None = None) -> Facts:
    with open_source(str(root)) as tree:
        return analyse(tree, Scenario(), jobs=jobs, cache_dir=cache)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether what a helper found was taken, for each walk of one; this process leaves them time to take some."""
    taken: list[bool] = []
    plain, tried = Crew._received, crew._tried

    def noted(ground: Ground, future: Any) -> Outcome | None:
        outcome = plain(ground, future)
        taken.append(outcome is not None)
        return outcome

    def slowly(ground: Ground, forced: dict[Any, Any]) -> Outcome | Exception:
        time.sleep(0 if forced else 1)
        return tried(ground, forced)

    monkeypatch.setattr(Crew, "_received", staticmethod(noted))
    monkeypatch.setattr(crew, "_tried", slowly)
    return taken


def outcomes(ground: Ground, helpers: Crew) -> list[Outcome]:
    assert helpers._prepared is not None
    wait([helpers._prepared])
    return with_deep_stack(lambda: list(helpers.outcomes(ground, WALKS)))


def alone(root: Path) -> list[Outcome]:
    with open_source(str(root)) as tree, Crew(question(tree), 1) as nobody:
        ground = Ground(question(tree))
        return with_deep_stack(lambda: list(nobody.outcomes(ground, WALKS)))


@pytest.mark.parametrize("jobs", [2, 4])
def test_facts_do_not_depend_on_the_number_of_processes(root: Path, jobs: int, tmp_path: Path) -> None:
    plain = facts(root, 1)
    assert any(CONDITIONAL.condition in flow.condition for flow in plain.flows)
    assert facts(root, jobs) == plain
    assert facts(root, jobs, tmp_path / "cache") == plain
    assert not multiprocessing.active_children()


def test_helpers_find_what_this_process_finds(root: Path, received: list[bool]) -> None:
    with open_source(str(root)) as tree, Crew(question(tree), 2) as helpers:
        ground = Ground(question(tree))
        assert outcomes(ground, helpers) == alone(root)
        assert True in received
        with open_source(str(root)) as other:
            lone = Ground(question(other))
            with_deep_stack(lambda: [lone.outcome(forced) for forced in WALKS])
        assert ground.store.stats.slices == lone.store.stats.slices


def test_a_helper_that_dies_is_not_missed(root: Path, received: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    with open_source(str(root)) as tree, Crew(question(tree), 2) as helpers:
        submit = helpers._submit

        def killed(work: Any, *arguments: Any) -> Any:
            future = submit(work, *arguments)
            for child in multiprocessing.active_children():
                child.kill()
            return future

        monkeypatch.setattr(helpers, "_submit", killed)
        assert outcomes(Ground(question(tree)), helpers) == alone(root)
        assert True not in received


def test_a_helper_that_read_other_bytes_is_not_believed(root: Path, received: list[bool]) -> None:
    before = alone(root)
    with open_source(str(root)) as tree:
        ground = Ground(question(tree))
        path = root / EAGLE_WORKER
        path.write_text(path.read_text("utf-8").replace("CaptureHiddenMode.FULL", "CaptureHiddenMode.LAST"), "utf-8")
        for name in tree.core_paths():
            ground.program.module_at(name)
        with Crew(question(tree), 2) as helpers:
            path.write_text(path.read_text("utf-8") + "\n", "utf-8")
            outcomes(ground, helpers)
    assert before
    assert received
    assert True not in received


def test_what_only_this_process_can_say_stays_here(root: Path, received: list[bool]) -> None:
    local: list[dict[Any, Any]] = [{}, {("attr", object(), "x"): True}]
    with open_source(str(root)) as tree, Crew(question(tree), 2) as helpers:
        ground = Ground(question(tree))
        assert len(with_deep_stack(lambda: list(helpers.outcomes(ground, local)))) == 2
    assert received == []


def test_an_error_ends_the_helpers(root: Path) -> None:
    with open_source(str(root)) as tree, pytest.raises(ZeroDivisionError), Crew(question(tree), 3):
        raise ZeroDivisionError
    assert not multiprocessing.active_children()


# --------------------------------------------------------------------------------------------------------- interrupts
SCRIPT = """
import multiprocessing, signal, sys, time
from concurrent.futures import wait
from flowcheck.flow import Scenario
from flowcheck.flow.crew import Crew
from flowcheck.flow.stack import with_deep_stack
from tests.flow.test_crew import question
from flowcheck.source import open_source

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes what runs in the background deaf to it
    with open_source(sys.argv[1]) as tree, Crew(question(tree), 2) as helpers:
        wait([helpers._prepared])
        busy = helpers._submit(time.sleep, 600)
        print(*[child.pid for child in multiprocessing.active_children()], flush=True)
        with_deep_stack(lambda: time.sleep(600))
"""


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/stat")  # a zombie that nobody has waited for yet is gone, too
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_behind(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, "utf-8")
    root = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen(
        [sys.executable, str(script), str(HEALTHY)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
        start_new_session=True,
    )
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert children
    if how is signal.SIGINT:
        os.killpg(parent.pid, how)  # as a terminal does: to everybody
    else:
        parent.send_signal(how)
    _, said = parent.communicate(timeout=120)
    for _ in range(600):  # a loaded machine takes its time
        if all(map(gone, children)):
            break
        time.sleep(0.1)
    assert all(map(gone, children))
    assert said.count("Traceback") <= 1
    assert ("KeyboardInterrupt" in said) == (how is signal.SIGINT)
