"""A probe from its job to what its ranks left: whatever they do, it ends, and says what they came to."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowcheck.probe import running
from flowcheck.probe.environment import Environment
from flowcheck.probe.errors import ProbeError
from flowcheck.probe.protocol import Event, IdsRead, Job, Phase, RankResult, Through, dumps, loads
from flowcheck.probe.running import Ran, Where, collected, free_port, launch_command, run_job, workplace
from flowcheck.probe.supervise import End
from flowcheck.probe.verdict import LiveVerdict, judge
from tests.probe.recorded import FIXTURES, plan_of

HERE = Environment(Path(sys.executable))


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Where]:
    monkeypatch.setattr(running, "MODULE", "fake_rank")
    with workplace(tmp_path / "cache") as place:
        shutil.copy(Path(__file__).with_name("fake_rank.py"), place.imports)
        yield place


def job_in(where: Where, behaviour: str = "", **changes: Any) -> Job:
    job = Job(
        tree=str(where.work / "tree"),
        package="fork",
        backend="gloo",
        ranks=2,
        target="",
        architecture="",
        phases=plan_of().phases,
        names={},
        work=str(where.work),
        port=free_port(),
        settings={"behaviour": behaviour, "results": str(FIXTURES / "probe-healthy")},
    )
    return replace(job, **changes)


def run(where: Where, behaviour: str = "", **options: Any) -> Ran:
    job = options.pop("job", None) or job_in(where, behaviour)
    return run_job(job, HERE, where, **{"tree_digest": "a" * 64, "seconds": 60.0, **options})


def roles_run(where: Where) -> list[str]:
    return [
        path.name.split("-")[1] for path in sorted(where.work.glob("ran-*"), key=lambda each: each.name.split("-")[2])
    ]


def test_everything_is_run_in_its_order_and_heard(where: Where) -> None:
    heard: list[tuple[str, Event]] = []
    ran = run(where, heard=lambda role, event: heard.append((role, event)))
    assert roles_run(where) == ["learn", "reference", "rank"]
    assert (sorted(ran.results), ran.trouble) == ([0, 1], "")
    assert {(role, event.rank, event.stage) for role, event in heard} == {
        ("rank", rank, stage) for rank in (0, 1) for stage in ("forward", "done")
    }
    assert [(each.role, each.rank, each.end) for each in ran.ends] == [
        ("learn", 0, End.DONE), ("reference", 0, End.DONE), ("rank", 0, End.DONE), ("rank", 1, End.DONE),
    ]  # fmt: skip
    assert judge(plan_of(), ran.results).is_conclusive


def test_simulated_ranks_need_no_reference(where: Where) -> None:
    run(where, job=job_in(where, backend="fake"))
    assert roles_run(where) == ["learn", "rank"]


def test_on_gpus_each_rank_is_a_process_of_its_own(where: Where) -> None:
    ran = run(where, job=job_in(where, backend="nccl"))
    assert roles_run(where) == ["reference", "rank", "rank"]
    assert (sorted(ran.results), ran.trouble) == ([0, 1], "")


def test_on_gpus_what_the_environment_lacks_is_learned_from_ranks(where: Where) -> None:
    """It serves the tree: a run on simulated ranks would import what no GPU does."""
    ran = run(where, job=job_in(where, "lacks-until-stubbed", backend="nccl"))
    assert roles_run(where) == ["reference", "reference", "rank", "rank"]
    assert ran.trouble == ""
    run(where, job=job_in(where, "lacks-until-stubbed", backend="nccl"))
    assert roles_run(where)[4:] == ["reference", "rank", "rank"]


def test_what_only_the_trees_own_runner_lacks_is_learned_from_the_reference(where: Where) -> None:
    ran = run(where, job=job_in(where, "lacks-in-reference", through="model-runner"))
    assert roles_run(where) == ["learn", "reference", "reference", "rank"]
    assert [(each.role, each.code) for each in ran.ends] == [("learn", 0), ("reference", 0), ("rank", 0), ("rank", 0)]
    assert (sorted(ran.results), ran.trouble) == ([0, 1], "")
    run(where, job=job_in(where, "lacks-in-reference", through="model-runner"))
    assert roles_run(where)[4:] == ["reference", "rank"]


FURTHER = {"variant": "fused", "phases": (Phase("extend fused", "extend", 2, 5, ((2, 4, 6),)),)}


def test_a_further_run_comes_after_the_first_and_goes_with_it(where: Where) -> None:
    job = job_in(where)
    other = replace(job, settings={**job.settings, "rename": ["extend", "extend fused"]}, **FURTHER)
    ran = run(where, job=job, further=[other])
    assert roles_run(where) == ["learn", "reference", "rank", "rank"]
    assert [each.phase for each in ran.results[1].phases] == ["extend", "verify", "extend fused", "verify"]
    assert [(each.rank, each.variant) for each in ran.ends if each.role == "rank"] == [
        *((0, ""), (1, "")),
        *((0, "fused"), (1, "fused")),
    ]
    assert (ran.trouble, ran.troubles) == ("", {})
    reference = loads(Job, (where.work / "job-reference.json").read_bytes())
    assert [each.name for each in reference.phases] == ["extend", "verify", "extend fused"]
    assert collected(job, [other]).results == ran.results


def test_a_further_run_that_dies_leaves_the_first_as_it_was(where: Where) -> None:
    job = job_in(where)
    other = replace(job, settings={**job.settings, "behaviour": "dies"}, **FURTHER)
    third = replace(other, variant="third")
    ran = run(where, job=job, further=[other, third])
    assert ran.trouble == ""
    assert ran.troubles["fused"] == "rank 1 died with signal 9 in forward"
    assert ran.troubles["third"] == f"it was not run, as {ran.troubles['fused']}"
    assert judge(plan_of(), ran.results, trouble=ran.trouble, troubles=ran.troubles).is_conclusive


def test_after_a_run_that_died_there_is_no_further_one(where: Where) -> None:
    job = job_in(where, "dies")
    ran = run(where, job=job, further=[replace(job, **FURTHER)])
    assert roles_run(where) == ["learn", "reference", "rank"]
    assert ran.troubles == {"fused": "it was not run, as rank 1 died with signal 9 in forward"}


def test_what_a_tree_lacks_is_learned_once(where: Where) -> None:
    run(where)
    run(where)
    assert roles_run(where) == ["learn", "reference", "rank", "reference", "rank"]
    run(where, tree_digest="b" * 64)
    assert roles_run(where)[5:] == ["learn", "reference", "rank"]


def test_a_target_that_lacks_more_is_learned_anew(where: Where) -> None:
    run(where)
    for path in where.work.glob("ran-*"):
        path.unlink()
    ran = run(where, "lacks")
    assert roles_run(where) == ["reference", "rank", "learn", "reference", "rank"]
    assert (sorted(ran.results), ran.trouble) == ([0, 1], "")


def test_the_tree_reads_the_draft_before_anything_is_run(where: Where) -> None:
    ran = run(where, job=job_in(where, draft="draft"))
    assert roles_run(where) == ["learn", "ids", "reference", "rank"]
    assert (ran.ids, ran.ids_unread) == (IdsRead(((2, 4, 6),), ("runner.py:1 start",)), "")


def test_on_gpus_the_tree_reads_the_draft_too(where: Where) -> None:
    job = job_in(where, "lacks-until-stubbed", backend="nccl", draft="draft")
    ran = run(where, job=job, further=[replace(job, **FURTHER)])
    assert roles_run(where) == ["ids", "reference", "reference", *["rank"] * 4]
    assert (ran.ids, ran.ids_unread) == (IdsRead(((2, 4, 6),), ("runner.py:1 start",)), "")


def test_the_trees_own_runner_reads_the_draft_in_the_ranks(where: Where) -> None:
    ran = run(where, job=job_in(where, draft="draft", through="model-runner"))
    assert roles_run(where) == ["learn", "reference", "rank"]
    assert (ran.ids, ran.ids_unread) == (None, "")


@pytest.mark.parametrize(("through", "unread"), [("model", "no process did that"), ("model-runner", "")])
def test_what_the_tree_read_of_the_draft_is_collected(where: Where, through: Through, unread: str) -> None:
    job = job_in(where, through=through)
    assert (collected(job).ids, collected(job).ids_unread) == (None, unread)
    read = IdsRead(((2, 4, 6),), ("runner.py:1 start",))
    job.as_ids().result_path(0).write_text(dumps(RankResult(rank=0, stage="done", read=read)), "utf-8")
    assert (collected(job).ids, collected(job).ids_unread) == (read, "")


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("cannot-read", "its code did not come to them here: AttributeError in setter: the runner has no such thing"),
        ("dies-reading", "the ids run was killed by signal 9 (out of memory?) before it said anything"),
    ],
)
def test_a_draft_that_the_tree_cannot_read_here_ends_nothing(where: Where, behaviour: str, why: str) -> None:
    ran = run(where, job=job_in(where, behaviour, draft="draft"))
    assert (ran.ids, ran.ids_unread) == (None, why)
    assert (sorted(ran.results), ran.trouble) == ([0, 1], "")
    assert [each.role for each in ran.ends] == ["learn", "reference", "rank", "rank"]


@pytest.mark.parametrize(
    ("behaviour", "trouble"),
    [
        ("dies", "rank 1 died with signal 9 in forward"),
        ("hangs", "rank 1 hung until time was up in forward"),
        ("leaves-nothing", "rank 1 left no result before it said anything, and 1 more"),
        ("leaves-half", "rank 0 left no result in forward, and 1 more"),
        ("dies-in-reference", "the reference run was killed by signal 9 (out of memory?) before it said anything"),
        ("cannot-learn", "the target could not be built: KeyError in build: no such class"),
    ],
)
def test_whatever_goes_wrong_is_said_and_is_no_proof(where: Where, behaviour: str, trouble: str) -> None:
    ran = run(where, behaviour, seconds=10.0 if behaviour == "hangs" else 60.0)
    assert ran.trouble == trouble
    judged = judge(plan_of(), ran.results, trouble=ran.trouble)
    assert judged.count(LiveVerdict.PROVED) == 0
    assert not judged.is_conclusive


def test_last_words_are_kept(where: Where) -> None:
    ends = {each.rank: each for each in run(where, "dies").ends if each.role == "rank"}
    assert (ends[1].end, ends[1].words) == (End.DIED, ("the last words of rank 1",))
    assert ends[0].end is End.DONE


def test_a_port_that_was_taken_meanwhile_is_changed(where: Where) -> None:
    job = job_in(where, "port")
    ran = run(where, job=job)
    assert (sorted(ran.results), ran.trouble) == ([0, 1], "")
    assert ran.results[0].bridges["port"] != str(job.port)


def test_a_port_that_the_user_chose_is_not(where: Where) -> None:
    ran = run(where, "port", port_is_given=True)
    judged = judge(plan_of(), ran.results, trouble=ran.trouble)
    assert judged.paths[0].reason == ran.trouble == "rank 1 left no result before it said anything"


def test_a_chosen_port_that_is_taken_is_one_line() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            ProbeError, match=rf"--port {port}: Address already in use; leave it out to take a free one"
        ):
            free_port(wanted=port)


def test_folders_are_gone_unless_they_are_to_be_kept(tmp_path: Path) -> None:
    with workplace(tmp_path / "cache") as place:
        work = place.work
        assert [each.name for each in place.imports.iterdir()] == ["flowcheck"]
    assert not work.exists()
    with workplace(tmp_path / "cache", tmp_path / "kept"):
        pass
    assert (tmp_path / "kept" / "target").is_dir()
    with pytest.raises(ProbeError, match="cannot make a folder for the probe"), workplace(tmp_path, Path("/proc/no")):
        pass


def test_ranks_see_nothing_of_the_users_secrets_or_paths(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    for name in ("RANK", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"):  # of a launcher that flowcheck itself runs under
        monkeypatch.setenv(name, "3")
    seen = running._Running(job_in(where), HERE, where, 0.0, lambda *_: None).variables(job_in(where))
    assert "HF_TOKEN" not in seen
    assert not {"RANK", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"} & set(seen)
    assert seen["PYTHONPATH"] == str(where.imports)
    assert seen["CUDA_VISIBLE_DEVICES"] == ""


def test_what_to_run_on_several_nodes() -> None:
    command = launch_command("/shared/job.json", 16, 2, address="node0", port=29500)
    assert command == [
        "torchrun", "--nnodes=2", "--nproc-per-node=8", "--rdzv-backend=c10d", "--rdzv-endpoint=node0:29500",
        "-m", "flowcheck.probe.rank", "/shared/job.json",
    ]  # fmt: skip
    with pytest.raises(ProbeError, match="8 ranks cannot be divided among 3 nodes"):
        launch_command("job.json", 8, 3)
