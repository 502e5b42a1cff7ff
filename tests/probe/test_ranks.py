"""Ranks of small trees: two processes that compute, and simulated ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from flowcheck.probe.protocol import IdsRead, PhaseResult, RankResult, dumps, loads
from tests.probe.small_trees import ROOT, edited, job_of, probe, results, start

FUSED = {"enable_flashinfer_allreduce_fusion": True}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one rank computes: the same for every fixture, as they have one target and one kind of layer."""
    job = job_of("wiring-healthy", tmp_path_factory.mktemp("reference"))
    done, _ = start(job.as_reference(), "0")
    assert done.returncode == 0, done.stderr + job.as_reference().result_path(0).read_text("utf-8")
    return job.reference_path()


def seen(phase: PhaseResult) -> list[tuple[str, int | None]]:
    return [(block.identity, block.boundary) for block in phase.blocks]


def without_errors(ranks: list[RankResult]) -> list[RankResult]:
    assert [each.error for each in ranks] == [None] * len(ranks)
    return ranks


def is_(*boundaries: int) -> list[tuple[str, int]]:
    return [("boundary", each) for each in boundaries]


@pytest.mark.parametrize("settings", [{}, pytest.param(FUSED, marks=pytest.mark.long)], ids=["plain", "fused"])
def test_a_healthy_tree_is_seen_to_be_healthy(tmp_path: Path, reference: Path, settings: dict[str, Any]) -> None:
    ranks = without_errors(probe(job_of("wiring-healthy", tmp_path, settings=settings), reference))
    for rank in ranks:
        assert rank.stage == "done"
        assert [phase.phase for phase in rank.phases] == ["extend", "verify"]
        for phase in rank.phases:
            assert seen(phase) == is_(3, 5, 7)
            assert (phase.rows, phase.width) == (phase.expected_rows, 3 * 64)
        assert [each.accepted for each in rank.draft] == [True, True]
        assert {each.layer for each in rank.draft} == {"model.fc"}
    first, second = ranks
    assert [each.digest for each in first.phases] == [each.digest for each in second.phases]


def test_the_embedding_is_named(tmp_path: Path, reference: Path) -> None:
    for rank in without_errors(probe(job_of("wiring-embedding", tmp_path), reference)):
        assert [seen(phase) for phase in rank.phases] == [is_(0, 3, 5)] * 2
        assert rank.phases[0].blocks[0].explanation == "the embedding (boundary 0)"
        assert [each.accepted for each in rank.draft] == [True, True]


def test_parts_of_sums_are_named(tmp_path: Path, reference: Path) -> None:
    for rank in without_errors(probe(job_of("wiring-partial-sums", tmp_path, settings=FUSED), reference)):
        for phase in rank.phases:
            assert seen(phase) == [("partial", 3), ("partial", 5), ("partial", 7)]
            assert f"rank {rank.rank} holds one of 2 parts" in phase.blocks[0].explanation


@pytest.mark.long
def test_a_buffer_that_is_written_again_is_named_by_what_it_holds_in_the_end(tmp_path: Path, reference: Path) -> None:
    """Captured without a copy: every later norm adds to the residual in place."""
    job = job_of("wiring-healthy", tmp_path)
    edited(job, "layers/communicator.py", "append(residual.clone())", "append(residual)")
    for rank in without_errors(probe(job, reference)):
        assert [seen(phase) for phase in rank.phases] == [is_(8, 8, 8)] * 2


@pytest.mark.long
def test_a_state_from_the_middle_of_a_layer_is_named(tmp_path: Path, reference: Path) -> None:
    job = job_of("wiring-healthy", tmp_path)
    edited(job, "layers/communicator.py", "captured_last_layer_outputs.append(residual.clone())", "pass")
    mlp = "        hidden_states, residual = self.layer_communicator.prepare_mlp(hidden_states, residual)\n"
    late = "        if captured_last_layer_outputs is not None:\n"
    late += "            captured_last_layer_outputs.append(residual.clone())\n"
    edited(job, "models/llama.py", mlp, mlp + late)
    for rank in without_errors(probe(job, reference)):
        first = rank.phases[0].blocks[0]
        assert first.identity == "other"
        assert first.explanation == "the residual of boundary 4 without what the layer before it gave"


@pytest.mark.long
def test_numbers_of_kernels_that_are_not_here_say_nothing(tmp_path: Path, reference: Path) -> None:
    job = job_of("wiring-embedding", tmp_path)
    add = "            aux_hidden_states.append(hidden_states.clone())\n"
    launched = (
        "            import kernels_of_no_one\n            kernels_of_no_one.scale(aux_hidden_states[0].mul_(3))\n"
    )
    edited(job, "models/llama.py", add, add + launched)
    job.stubs_path().write_text('["kernels_of_no_one"]', "utf-8")
    for rank in without_errors(probe(job, reference)):
        assert rank.launches == ("kernels_of_no_one.scale",)
        assert seen(rank.phases[0]) == [("inconclusive", None), ("boundary", 3), ("boundary", 5)]
        assert "kernels_of_no_one.scale" in rank.phases[0].blocks[0].explanation


@pytest.mark.long
def test_a_model_that_two_ranks_compute_otherwise_has_boundaries_of_its_own(tmp_path: Path, reference: Path) -> None:
    """The rows of one fused matrix are divided as if they were one part, and taken for two."""
    job = job_of("wiring-embedding", tmp_path)
    gate = "        gate, _ = self.gate_proj(x)\n"
    turned = "        gate = gate.flip(-1) if get_tensor_model_parallel_world_size() > 1 else gate\n"
    edited(job, "models/llama.py", gate, gate + turned)
    for rank in without_errors(probe(job, reference)):
        assert [seen(phase) for phase in rank.phases] == [is_(0, 3, 5)] * 2
        assert rank.phases[0].blocks[1].explanation == "boundary 3 as these ranks have it, otherwise than one rank"


@pytest.mark.long
def test_what_is_nothing_of_such_a_model_is_inconclusive(tmp_path: Path, reference: Path) -> None:
    job = job_of("wiring-embedding", tmp_path)
    gate = "        gate, _ = self.gate_proj(x)\n"
    turned = "        gate = gate.flip(-1) if get_tensor_model_parallel_world_size() > 1 else gate\n"
    edited(job, "models/llama.py", gate, gate + turned)
    edited(job, "layers/communicator.py", "append(residual.clone())", "append(residual.clone().exp())")
    for rank in without_errors(probe(job, reference)):
        assert seen(rank.phases[0]) == [("boundary", 0), ("inconclusive", None), ("inconclusive", None)]
        assert "from boundary 1 on" in rank.phases[0].blocks[1].explanation


@pytest.mark.long
def test_a_ranks_own_rows_are_named(tmp_path: Path, reference: Path) -> None:
    ranks = without_errors(probe(job_of("wiring-scattered-rows", tmp_path), reference))
    for rank in ranks:
        extend = rank.phases[0]
        assert (extend.rows, extend.expected_rows) == (3, 6)
        first = 3 * rank.rank
        assert extend.blocks[0].explanation.startswith(f"rows {first}-{first + 2} of 6 of boundary 3")
    assert ranks[0].phases[0].digest != ranks[1].phases[0].digest


@pytest.mark.long
def test_states_that_the_draft_refuses(tmp_path: Path, reference: Path) -> None:
    for rank in without_errors(probe(job_of("wiring-last-boundary", tmp_path), reference)):
        assert [seen(phase) for phase in rank.phases] == [is_(3, 5)] * 2
        for each in rank.draft:
            assert (each.accepted, each.in_features) == (False, 3 * 64)
            assert each.error is not None
            assert "128" in each.error


@pytest.mark.long
@pytest.mark.parametrize(
    ("fixture", "boundaries", "accepted"),
    [
        ("wiring-other-layers", (2, 4, 6), True),
        ("wiring-graph-default", (3, 5, 7), True),
        ("wiring-fc-width", (3, 5, 7), False),
        ("wiring-hard-coded-states", (3, 7), False),
    ],
)
def test_other_defects(
    fixture: str, boundaries: tuple[int, ...], accepted: bool, tmp_path: Path, reference: Path
) -> None:
    for rank in without_errors(probe(job_of(fixture, tmp_path), reference)):
        assert [seen(phase) for phase in rank.phases] == [is_(*boundaries)] * 2
        assert {each.accepted for each in rank.draft} == {accepted}


@pytest.mark.long
def test_a_target_without_a_hook(tmp_path: Path, reference: Path) -> None:
    for rank in without_errors(probe(job_of("wiring-no-hook", tmp_path), reference)):
        told, _ = rank.phases
        assert told.error is not None
        assert (told.error.stage, told.error.about) == ("setter", "tree")
        assert "set_eagle3_layers_to_capture" in told.error.message


@pytest.mark.parametrize(
    ("fixture", "boundaries"),
    [pytest.param("wiring-healthy", (3, 5, 7), marks=pytest.mark.long), ("wiring-embedding", (0, 3, 5))],
)
def test_simulated_ranks_know_where_a_state_comes_from(
    fixture: str, boundaries: tuple[int, ...], tmp_path: Path
) -> None:
    ranks = without_errors(probe(job_of(fixture, tmp_path, backend="fake", ranks=4)))
    assert len(ranks) == 4
    for rank in ranks:
        assert [seen(phase) for phase in rank.phases] == [is_(*boundaries)] * 2
        assert [phase.digest for phase in rank.phases] == [None, None]
        assert [each.accepted for each in rank.draft] == [True, True]
        assert "what ranks say to each other" in {each.what for each in rank.not_covered}


@pytest.mark.long
def test_simulated_ranks_know_a_part_of_a_sum(tmp_path: Path) -> None:
    job = job_of("wiring-partial-sums", tmp_path, backend="fake", settings=FUSED)
    for rank in without_errors(probe(job)):
        for phase in rank.phases:
            assert [identity for identity, _ in seen(phase)] == ["partial"] * 3


@pytest.mark.long
def test_other_calls_before_a_phase(tmp_path: Path, reference: Path) -> None:
    """As a graph runner makes them: the second call, without ids, is what counts."""
    job = job_of("wiring-healthy", tmp_path)
    extend, verify = job.phases
    changed = replace(job, phases=(extend, replace(verify, calls=((2, 4, 6), None))))
    for rank in without_errors(probe(changed, reference)):
        assert [seen(phase) for phase in rank.phases] == [is_(3, 5, 7), is_(2, 4, 5)]
        assert rank.phases[1].told == ((2, 4, 6), None)


@pytest.mark.long
def test_a_fork_under_another_name(tmp_path: Path, reference: Path) -> None:
    job = job_of("wiring-healthy", tmp_path)
    package = Path(job.tree, "sglang").rename(Path(job.tree, "forked"))
    for path in package.rglob("*.py"):
        path.write_text(path.read_text("utf-8").replace("sglang.srt", "forked.srt"), "utf-8")
    for rank in without_errors(probe(replace(job, package="forked"), reference)):
        assert [seen(phase) for phase in rank.phases] == [is_(3, 5, 7)] * 2
        assert rank.cls == "forked.srt.models.llama.LlamaForCausalLM"


@pytest.mark.long
def test_under_torchrun_the_rank_is_in_the_environment(tmp_path: Path, reference: Path) -> None:
    job = job_of("wiring-embedding", tmp_path)
    shutil.copy(reference, job.reference_path())
    path = Path(job.work, "job.json")
    path.write_text(dumps(job), "utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "flowcheck.probe.rank", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    for rank in without_errors(results(job)):
        assert [seen(phase) for phase in rank.phases] == [is_(0, 3, 5)] * 2


@pytest.mark.long
def test_a_rank_that_raises_is_the_result_of_all(tmp_path: Path, reference: Path) -> None:
    job = job_of("wiring-healthy", tmp_path)
    edited(job, "models/llama.py", "        self.lm_head =", "        raise OSError('no')\n        self.lm_head =")
    for rank in probe(job, reference):
        assert rank.error is not None
        assert (rank.error.stage, rank.error.kind, rank.error.message) == ("build", "OSError", "no")
        assert rank.error.where[-1].startswith("sglang/srt/models/llama.py:")


def test_a_rank_that_dies_ends_the_others(tmp_path: Path, reference: Path) -> None:
    job = job_of("wiring-healthy", tmp_path)
    death = "        import os, sys\n"
    death += "        if get_tensor_model_parallel_world_size() > 1 and torch.distributed.get_rank() == 1:\n"
    death += "            print('the last words', file=sys.stderr, flush=True)\n            os.kill(os.getpid(), 9)\n"
    edited(job, "models/llama.py", "        self.lm_head =", f"{death}        self.lm_head =")
    first, second = probe(job, reference)
    assert second.error is not None
    assert "signal 9" in second.error.message
    assert "the last words" in second.error.message
    assert first.error is not None


@pytest.mark.long
def test_a_forward_that_fails_on_one_rank_alone_ends_all(tmp_path: Path, reference: Path) -> None:
    job = job_of("wiring-healthy", tmp_path)
    old = "        hidden_states = self.embed_tokens(input_ids)\n"
    alone = "torch.distributed.get_world_size() > 1 and torch.distributed.get_rank() == 1"
    new = f"{old}        if {alone}: raise ValueError('alone')\n"
    edited(job, "models/llama.py", old, new)
    first, second = probe(job, reference)
    assert first.error is not None
    assert second.error is not None
    assert second.phases[0].error is not None
    assert second.phases[0].error.message == "alone"


@pytest.mark.long
def test_a_forward_that_fails_on_every_rank_does_not_end_the_probe(tmp_path: Path, reference: Path) -> None:
    job = job_of("wiring-healthy", tmp_path)
    old = "        hidden_states = self.embed_tokens(input_ids)\n"
    new = f"{old}        if len(input_ids) == 6 and self.layers_to_capture: raise ValueError('all')\n"
    edited(job, "models/llama.py", old, new)
    for rank in without_errors(probe(job, reference)):
        extend, verify = rank.phases
        assert extend.error is not None
        assert extend.error.message == "all"
        assert seen(verify) == is_(3, 5, 7)


def test_events_are_all_that_standard_output_has(tmp_path: Path) -> None:
    job = job_of("wiring-healthy", tmp_path, backend="fake")
    model = Path(job.tree, "sglang/srt/models/llama.py")
    model.write_text(model.read_text("utf-8") + "\nprint('the tree speaks')\n")
    done, events = start(job, "0")
    assert done.returncode == 0
    assert "the tree speaks" in done.stderr
    assert (events[0].stage, events[-1].stage) == ("imports", "done")


def test_gpus_that_are_not_there_are_asked_for_in_words(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    job = job_of("wiring-healthy", tmp_path, backend="nccl", ranks=8)
    done, _ = start(job, "0")
    assert done.returncode == 1
    (rank,) = results(job, [0])
    assert rank.error is not None
    assert (rank.error.about, rank.error.message) == ("machine", "8 GPUs needed, 0 found")


def test_the_tree_reads_the_draft_itself(tmp_path: Path) -> None:
    job = job_of("wiring-healthy", tmp_path).as_ids()
    done, _ = start(job, "0")
    (result,) = (loads(RankResult, job.result_path(0).read_bytes()),)
    assert (done.returncode, result.error) == (0, None)
    assert result.read == IdsRead(((2, 4, 6),), ("sglang/srt/model_executor/model_runner.py:55 initialize",))


@pytest.mark.parametrize(
    ("old", "new", "calls"),
    [
        ('get("eagle_aux_hidden_state_layer_ids")', 'get("layers")', (None,)),
        ('get("use_aux_hidden_state", True)', 'get("use_aux_hidden_state", False)', ()),
    ],
    ids=["another-key", "switched-off"],
)
def test_what_the_tree_makes_of_the_draft_is_its_own(
    tmp_path: Path, old: str, new: str, calls: tuple[object, ...]
) -> None:
    job = job_of("wiring-healthy", tmp_path).as_ids()
    runner = Path(job.tree, "sglang/srt/model_executor/model_runner.py")
    text = runner.read_text("utf-8")
    assert text.count(old) == 1
    runner.write_text(text.replace(old, new), "utf-8")
    start(job, "0")
    read = loads(RankResult, job.result_path(0).read_bytes()).read
    assert read is not None
    assert read.calls == calls


def test_a_runner_that_is_not_there_is_said(tmp_path: Path) -> None:
    job = job_of("wiring-healthy", tmp_path)
    names = {**job.names, "ids": {**job.names["ids"], "cls": "Other"}}
    asked = replace(job, names=names).as_ids()
    done, _ = start(asked, "0")
    error = loads(RankResult, asked.result_path(0).read_bytes()).error
    assert done.returncode == 1
    assert error is not None
    assert (error.kind, error.about) == ("Unbridged", "probe")
    assert "model_runner has no Other" in error.message


def test_a_target_is_told_its_layers_as_the_algorithm_has_it(tmp_path: Path, reference: Path) -> None:
    """Another algorithm has another setter, whose ids mean something else; its runner reads them from elsewhere."""
    job = job_of("wiring-healthy", tmp_path, algorithm="DFLASH")
    algorithms = Path(job.tree, "sglang/srt/speculative/spec_info.py")
    algorithms.write_text(
        algorithms.read_text("utf-8").replace("    EAGLE3 = ", "    DFLASH = auto()\n    EAGLE3 = "), "utf-8"
    )
    model = Path(job.tree, "sglang/srt/models/llama.py")
    text = model.read_text("utf-8")
    mark = "    def set_eagle3_layers_to_capture("
    assert text.count(mark) == 1
    setter = (
        "    def set_dflash_layers_to_capture(self, layer_ids):\n"
        "        self.capture_aux_hidden_states = True\n"
        "        self.model.capture_embedding_for_eagle3 = False\n"
        "        self.model.layers_to_capture = list(layer_ids)\n\n"
    )
    model.write_text(text.replace(mark, setter + mark), "utf-8")
    for rank in without_errors(probe(job, reference)):
        assert [seen(phase) for phase in rank.phases] == [is_(2, 4, 6)] * 2
