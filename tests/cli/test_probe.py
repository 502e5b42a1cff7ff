"""``flowcheck probe``: the whole command on small trees whose model code really runs, and every way to refuse."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from flowcheck.cli.errors import Exit
from flowcheck.probe import torches
from flowcheck.probe.protocol import IdsRead, Job, Limits, RankResult, dumps, loads
from flowcheck.report.model import json_schema
from tests.cli.pairs import FIXTURES, flowcheck, refused
from tests.cli.wirings import lines_of, needing, pair_of, tree_of, with_cache
from tests.probe.small_trees import tree_of as runnable

__all__ = ["with_cache"]

ROOT = Path(__file__).resolve().parents[2]
HEALTHY = "wiring-healthy"
LAUNCH = (
    "launch    torchrun --nnodes={nodes} --nproc-per-node={each} --rdzv-backend=c10d --rdzv-endpoint=HOST:29500 "
    "-m flowcheck.probe.rank WORK/job.json"
)


@pytest.fixture
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowcheck.probe.devices.visible_gpus", lambda *_: ())


def said(*arguments: object, fixture: str = HEALTHY) -> list[object]:
    return ["probe", tree_of(fixture), *pair_of(fixture), *needing(), *arguments]


# ----------------------------------------------------------------------------------------------------------- refusals
def test_code_is_not_run_without_a_yes() -> None:
    refused(flowcheck(*said()), "probe EXECUTES code of", "--yes says that this is wanted")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--backend", "mpi"], "--backend mpi: it is one of fake, gloo, nccl"),
        (["--nnodes", "2"], "--nnodes 2 needs --backend nccl"),
        (["--nnodes", "2", "--backend", "nccl"], "--nnodes 2 needs --work DIR"),
        (["--collect"], "--collect needs --work DIR"),
        (["--port", "7", "--backend", "fake"], "--port: simulated ranks listen nowhere"),
        (["--through", "walls"], "--through walls: it is one of model, model-runner"),
        (["--through", "model-runner", "--backend", "fake"], "--through model-runner needs --backend gloo or nccl"),
        (["--through", "model-runner"], "--through model-runner needs --backend gloo or nccl"),
        (["--quiet", "--verbose"], "--quiet and --verbose exclude each other"),
    ],
)
def test_options_that_contradict_each_other(options: list[str], line: str) -> None:
    refused(flowcheck(*said("--yes", *options)), line)


def test_a_probe_is_about_a_pair() -> None:
    result = flowcheck("probe", tree_of(HEALTHY), "--dry-run")
    refused(result, "probe runs a pair: give --draft and --target, --pair, or a --launch that names both")


def test_without_torch_it_says_which_extra_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torches, "NAME", "no_such_torch")
    refused(flowcheck(*said("--dry-run")), "pip install 'flowcheck[probe]'")


@pytest.mark.usefixtures("no_gpus")
def test_gpus_that_are_not_there_are_refused() -> None:
    result = flowcheck(*said("--yes", "--backend", "nccl"))
    assert result.exit_code == Exit.USAGE
    assert result.stderr.splitlines()[-1] == "flowcheck: error: 8 GPUs needed, 0 found; use --backend fake"


@pytest.mark.usefixtures("no_gpus")
def test_a_dry_run_shows_every_run_that_gpus_would_make() -> None:
    """The limit of the fixture's communicator is 2048 tokens."""
    lines = flowcheck(*said("--dry-run", "--backend", "nccl")).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("then "))
    assert lines[at] == (
        "then      fused: the same ranks with enable_flashinfer_allreduce_fusion=true, flashinfer_allreduce_fusion_backend=auto"
    )
    plain, fused = lines[:at], lines[at:]
    for part, name in ((plain, ""), (fused, " fused")):
        phases = [line.split(", told")[0] for line in part if line.startswith("phase ")]
        assert f"phase     extend{name} 1: 2 requests x 5 tokens" in phases
        assert f"phase     extend{name} 2: 2 requests x 1025 tokens" in phases
        assert f"phase     verify graph{name}: 2 requests x 4 tokens, recorded as a graph and replayed" in phases


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from flowcheck.probe.devices import Gpu

    monkeypatch.setattr("flowcheck.probe.devices.visible_gpus", lambda *_: (Gpu("H200", 141 * 10**9),))


@pytest.mark.usefixtures("one_gpu")
@pytest.mark.parametrize("options", [["--backend", "nccl"], []], ids=["asked for", "by default"])
def test_one_gpu_is_enough_for_one_rank(options: list[str]) -> None:
    result = flowcheck(*said("--dry-run", "--nproc", 1, *options))
    lines = result.stdout.splitlines()
    assert (result.exit_code, lines[0]) == (0, "backend   nccl, 1 rank of tensor parallelism")
    assert LAUNCH.format(nodes=1, each=1) in lines
    assert not [line for line in lines if line.startswith("then ")]  # one rank has nothing to reduce


@pytest.mark.usefixtures("one_gpu")
def test_more_ranks_than_gpus_are_refused() -> None:
    last = flowcheck(*said("--yes", "--nproc", 2, "--backend", "nccl")).stderr.splitlines()[-1]
    assert last == "flowcheck: error: 2 GPUs needed, 1 found; use --backend fake"


@pytest.mark.usefixtures("no_gpus")
@pytest.mark.parametrize(("nodes", "ranks", "each"), [(1, 8, 8), (2, 16, 8)])
def test_a_dry_run_shows_the_launch_and_the_ranks(tmp_path: Path, nodes: int, ranks: int, each: int) -> None:
    options = ["--dry-run", "--backend", "nccl", "--nproc", ranks, "--nnodes", nodes, "--work", tmp_path / "work"]
    result = flowcheck(*said(*options))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert LAUNCH.format(nodes=nodes, each=each) in lines
    assert lines[0] == f"backend   nccl, {ranks} ranks of tensor parallelism"
    assert f"ranks     {each} on each of {nodes} node{'s' if nodes > 1 else ''}, rank r on GPU r % {each}" in lines
    assert not (tmp_path / "work").exists()


def test_a_model_that_gpus_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from flowcheck.probe.devices import Gpu

    monkeypatch.setattr("flowcheck.probe.devices.visible_gpus", lambda *_: (Gpu("H200", 141 * 10**9),) * 8)
    raw = json.loads((FIXTURES / HEALTHY / "target" / "config.json").read_text("utf-8"))
    raw |= {"hidden_size": 16384, "num_attention_heads": 128, "intermediate_size": 532480, "vocab_size": 128256}
    (tmp_path / "config.json").write_text(json.dumps(raw), "utf-8")
    draft = json.loads((FIXTURES / HEALTHY / "draft" / "config.json").read_text("utf-8"))
    (tmp_path / "draft.json").write_text(json.dumps({**draft, "target_hidden_size": 16384}), "utf-8")
    pair = ["--draft", tmp_path / "draft.json", "--target", tmp_path]
    result = flowcheck("probe", tree_of(HEALTHY), *pair, *needing(), "--yes", "--backend", "nccl")
    assert result.exit_code == Exit.USAGE, result.output
    last = result.stderr.splitlines()[-1]
    assert "in bf16, once on all ranks together and before that on one of them" in last
    assert "a GPU with 141 GB is too little: --shrink makes it narrower, --backend fake needs no GPU" in last


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("enable_dp_attention=true", "with enable_dp_attention = true ranks do not share one batch and all layers"),
        ("pp_size=2", "pp_size is 2, and forwards that run so are not followed"),
    ],
)
def test_ranks_that_do_not_share_a_batch_are_not_run(setting: str, why: str) -> None:
    """Anything that could not run is inconclusive, and nothing is started for it."""
    result = flowcheck(*said("--yes", "--set", "dp_size=2", "--set", setting))
    assert result.exit_code == Exit.INCONCLUSIVE, result.output
    assert why in result.stderr.splitlines()[-1]


EXPERTS = {"n_routed_experts": 256, "moe_intermediate_size": 2048, "num_experts_per_tok": 8}


def test_a_model_whose_experts_are_too_many_is_told_how_to_have_fewer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from flowcheck.probe.devices import Gpu

    monkeypatch.setattr("flowcheck.probe.devices.visible_gpus", lambda *_: (Gpu("small", 10**9),) * 8)
    raw = json.loads((FIXTURES / HEALTHY / "target" / "config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**raw, **EXPERTS}), "utf-8")
    pair = ["--draft", FIXTURES / HEALTHY / "draft", "--target", tmp_path]
    options = ["probe", tree_of(HEALTHY), *pair, *needing(), "--yes", "--backend", "nccl"]
    last = flowcheck(*options).stderr.splitlines()[-1]
    assert "--few-experts leaves" in last
    with_few = flowcheck(*options[:-3], "--dry-run", "--backend", "nccl", "--few-experts")
    assert with_few.exit_code == 0, with_few.output
    assert "n_routed_experts 256 -> 16" in " ".join(with_few.stdout.split())


@pytest.mark.parametrize(
    ("more", "said_of_it"),
    [(["--shrink"], "exclude each other"), (["--backend", "gloo"], "gloo makes the whole model smaller")],
)
def test_few_experts_are_for_a_model_that_stays_as_it_is(more: list[str], said_of_it: str) -> None:
    result = flowcheck(*said("--yes", "--few-experts", *more))
    assert result.exit_code == Exit.USAGE
    assert said_of_it in result.stderr.splitlines()[-1]


def test_too_little_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowcheck.probe.memory.free_memory", lambda: 10**9)
    last = flowcheck(*said("--yes", "--backend", "gloo")).stderr.splitlines()[-1]
    assert last.startswith("flowcheck: error: gloo needs about 3.")
    assert last.endswith("of memory, 1.0 GB are free; --backend fake needs little")


def test_a_tree_that_captures_nothing_is_inconclusive() -> None:
    result = flowcheck(*said("--yes", "--backend", "fake", fixture="wiring-no-hook"))
    assert (result.exit_code, result.stdout) == (Exit.INCONCLUSIVE, "")
    assert result.stderr.splitlines()[-1].startswith(
        "flowcheck: inconclusive: this tree captures nothing for this pair"
    )


@pytest.mark.parametrize(("text", "line"), [("{}", "this is no flowcheck.report/1"), (None, "No such file")])
def test_a_report_that_is_none(tmp_path: Path, text: str | None, line: str) -> None:
    path = tmp_path / "scan.json"
    if text is not None:
        path.write_text(text)
    refused(flowcheck(*said("--dry-run", "--report", path)), f"--report {path}: {line}")


def test_on_a_terminal_it_asks() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "flowcheck", *map(str, said())]
    process = subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    heard = b""
    while b"[y/N]" not in heard:
        heard += os.read(ours, 1024)
    os.write(ours, b"n\n")
    assert process.stdout is not None
    assert process.stdout.read() == b""
    assert process.wait(60) == Exit.USAGE
    os.close(ours)
    assert b"EXECUTES code of" in heard


# ----------------------------------------------------------------------------------------------------------- real runs
class Runs:
    """Runs the command on copies of fixtures whose kernels are in PyTorch, in an environment that has them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0

    def __call__(self, fixture: str, *options: object) -> Any:
        return flowcheck(*self.line(fixture, *options))

    def line(self, fixture: str, *options: object) -> list[object]:
        """The arguments."""
        self.number += 1
        inside = self.folder / str(self.number)
        inside.mkdir()
        tree = runnable(fixture, inside)
        env = inside / "python"
        env.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{self.kernels(tree)}" exec {sys.executable} "$@"\n')
        env.chmod(0o755)
        return ["probe", tree, *pair_of(fixture), *needing(), "--yes", "--env", env, "--nproc", 2, *options]

    def kernels(self, tree: Path) -> Path:
        """What the tree imports beside its package, in a folder of its own."""
        beside = tree.parent / "beside"
        beside.mkdir()
        for name in ("sgl_kernel.py", "flashinfer"):
            (tree / name).rename(beside / name)
        return beside


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    return Runs(tmp_path)


def document(result: Any, code: int) -> dict[str, Any]:
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    jsonschema.Draft202012Validator(json_schema()).validate(found)
    return found


@pytest.mark.parametrize("backend", ["fake", "gloo"])
def test_a_healthy_tree_is_proved_live_and_agrees_with_the_scan(runs: Runs, backend: str) -> None:
    probe = document(runs(HEALTHY, "--backend", backend, "--format", "json"), 0)["probe"]
    seen = {(each["phase"], each["path"], each["condition"]): each for each in probe["paths"]}
    plain = "enable_flashinfer_allreduce_fusion is false"
    for phase in ("extend", "verify"):
        row = next(each for key, each in seen.items() if key[:2] == (phase, "eager") and key[2] in ("", plain))
        assert row["verdict"] == "proved", row
        assert [each["boundary"] for each in row["blocks"]] == row["expected_boundaries"] == [3, 5, 7]
        assert (row["rows"], row["ranks_agree"], row["draft_accepts"]) == (row["expected_rows"], True, True)
    graphs = [each for each in probe["paths"] if each["path"] == "decode_graph"]
    assert {each["verdict"] for each in graphs} == {"not covered"}
    assert [each["end"] for each in probe["processes"]] == ["done"] * len(probe["processes"])


@pytest.mark.long
def test_a_tree_whose_runner_does_not_run_here_is_inconclusive(runs: Runs) -> None:
    """The fixture's runner is there to be read: it needs a GPU."""
    result = runs(HEALTHY, "--backend", "gloo", "--through", "model-runner", "--format", "json")
    probe = document(result, Exit.INCONCLUSIVE)["probe"]
    assert probe["trouble"].startswith("the reference on one rank ended early: ")
    assert {each["verdict"] for each in probe["paths"]} <= {"inconclusive", "not covered"}


def test_the_page_fits_a_terminal(runs: Runs) -> None:
    result = runs(HEALTHY, "--backend", "fake")
    lines = lines_of(result)
    assert result.exit_code == 0
    assert lines[-1].endswith("not covered")
    assert any(line.split()[-2:] == ["proved", "live"] for line in lines)
    assert any(line.split()[:4] == ["probe", "fake:", "2", "ranks,"] for line in lines)
    assert "EXECUTES code of" in result.stderr


def test_the_embedding_is_named(runs: Runs) -> None:
    found = document(runs("wiring-embedding", "--backend", "gloo", "--format", "json"), 1)
    messages = [each["message"] for each in found["findings"] if each["rule"] == "HS503"]
    assert messages == ["the embedding, 3, 5 arrive, and the draft was trained on 3, 5, 7"]


def test_an_earlier_report_is_held_against_the_ranks(runs: Runs, tmp_path: Path) -> None:
    scan = tmp_path / "scan.json"
    command = ["scan", tree_of("wiring-other-layers"), *pair_of("wiring-other-layers"), *needing(), "-o", scan]
    assert flowcheck(*command, "--format", "json").exit_code == 1
    result = runs(HEALTHY, "--backend", "fake", "--report", scan, "--format", "json")
    assert "it is about another tree" in result.stderr
    found = document(result, 1)
    assert found["probe"]["compared_with"] == "scan.json"
    assert {each["rule"] for each in found["findings"]} == {"HS507"}


def test_ranks_that_others_started_are_judged(tmp_path: Path) -> None:
    work = tmp_path / "work"
    collect = said("--backend", "gloo", "--nproc", 2, "--work", work, "--collect", "--format", "json")
    empty = document(flowcheck(*collect), Exit.INCONCLUSIVE)["probe"]
    assert {each["reason"] for each in empty["paths"] if each["path"] == "eager"} == {"every rank left no result"}
    shutil.rmtree(work)
    probe = document(flowcheck(*left_in(work, "probe-healthy"), "--format", "json"), 0)["probe"]
    assert [each["verdict"] for each in probe["paths"] if each["path"] == "eager"].count("proved") == 2


def left_in(work: Path, fixture: str) -> list[object]:
    """A command that judges what the ranks of a fixture left."""
    work.mkdir()
    for path in (FIXTURES / fixture).glob("rank-*.json"):
        text = path.read_text("utf-8").replace('"verify"', '"verify 2"')  # the first is what the graph was told
        (work / path.name).write_text(text, "utf-8")
    return said("--backend", "gloo", "--nproc", 2, "--work", work, "--collect")


def test_one_thing_that_is_wrong_on_several_paths_is_said_once(tmp_path: Path) -> None:
    """Batches have other numbers of rows, and that makes no other finding."""
    collect = left_in(tmp_path / "work", "probe-rows-differ")
    for path in (tmp_path / "work").glob("rank-*.json"):
        result = json.loads(path.read_text("utf-8"))
        for phase in result["phases"]:
            phase["rows"] = phase["expected_rows"] // 2
        path.write_text(json.dumps(result), "utf-8")
    found = document(flowcheck(*collect, "--format", "json"), 1)["findings"]
    assert [(each["rule"], each["affects"]) for each in found] == [("HS502", ["extend/eager", "verify/eager"])]


@pytest.mark.parametrize("fixture", ["probe-rows-differ", "probe-ranks-differ"])
def test_the_report_of_a_probe_serves_the_next_one_as_a_scans_would(tmp_path: Path, fixture: str) -> None:
    collect = [*left_in(tmp_path / "work", fixture), "--format", "json"]
    first = document(flowcheck(*collect), 1)
    earlier = tmp_path / "first.json"
    earlier.write_text(json.dumps(first), "utf-8")
    second = document(flowcheck(*collect, "--report", earlier), 1)
    for part in ("findings", "unproved", "summary"):
        assert second[part] == first[part], part


def test_the_page_says_once_what_was_not_covered(tmp_path: Path) -> None:
    lines = lines_of(flowcheck(*left_in(tmp_path / "work", "probe-healthy")))
    assert lines.count("not covered") == 1
    block = " ".join(" ".join(lines[lines.index("not covered") :]).split())
    assert "- verify decode graph: graphs are recorded on a GPU" in block
    assert "- recorded graphs: there are none on a CPU" in block
    assert "- ids of the draft: the target is told what the scan says, not what the tree reads: no process did" in block


@pytest.mark.parametrize(("told", "code"), [([2, 4, 6], 0), ([1, 3, 5], 1)], ids=["as-the-scan-says", "otherwise"])
def test_ids_that_the_tree_read_are_held_against_the_scans(tmp_path: Path, told: list[int], code: int) -> None:
    collect = left_in(tmp_path / "work", "probe-healthy")
    read = RankResult(rank=0, stage="done", read=IdsRead((tuple(told),), ("model_runner.py:55 initialize",)))
    (tmp_path / "work" / "ids.json").write_text(dumps(read), "utf-8")
    found = document(flowcheck(*collect, "--format", "json"), code)
    assert found["probe"]["ids"] == {"told": [told], "where": ["model_runner.py:55 initialize"]}
    assert [each["rule"] for each in found["findings"]] == ["HS507"] * code
    verdicts = {each["verdict"] for each in found["probe"]["paths"] if each["path"] == "eager"}
    assert verdicts == {"inconclusive" if code else "proved"}
    page = flowcheck(*collect).output
    assert f"ids     {' '.join(map(str, told))}, read by model_runner.py:55 initialize" in page


@pytest.mark.parametrize(
    ("through", "first"),
    [("model", ["learn", "ids", "reference"]), ("model-runner", ["learn", "reference"])],
)
def test_on_several_nodes_the_job_is_written_and_the_commands_are_shown(
    runs: Runs, tmp_path: Path, through: str, first: list[str]
) -> None:
    work = tmp_path / "shared"
    result = runs(HEALTHY, "--backend", "nccl", "--nnodes", 2, "--work", work, "--through", through)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    starts = [
        line for line in lines if "torch.distributed.run --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d" in line
    ]
    assert [line.rpartition("/")[2] for line in starts] == ["job.json", "job-fused.json"]
    before = [line for line in lines if " -m flowcheck.probe.rank " in line and line not in starts]
    assert [line.rpartition(" -m ")[2] for line in before] == [
        f"flowcheck.probe.rank {work}/job-{role}.json 0" for role in first
    ]
    assert [loads(Job, (work / f"job-{role}.json").read_bytes()).role for role in first] == first
    further = loads(Job, (work / "job-fused.json").read_bytes())
    assert (further.variant, further.settings["enable_flashinfer_allreduce_fusion"]) == ("fused", True)
    reference = loads(Job, (work / "job-reference.json").read_bytes())
    assert {each.name for each in further.phases} < {each.name for each in reference.phases}
    assert lines[-1] == "and then this command again, with --collect"
    job = loads(Job, (work / "job.json").read_bytes())
    assert (job.ranks, job.backend, job.role) == (2, "nccl", "rank")
    assert job.limits == Limits.of("nccl") != Limits.of("gloo")
    assert (work / "tree" / "sglang" / "srt").is_dir()


def test_time_that_is_up_is_inconclusive(runs: Runs) -> None:
    result = runs(HEALTHY, "--backend", "gloo", "--timeout", "1", "--format", "json")
    probe = document(result, Exit.INCONCLUSIVE)["probe"]
    assert "hung until time was up" in probe["trouble"]
    assert "proved" not in {each["verdict"] for each in probe["paths"]}


def alive(mark: bytes) -> list[str]:
    """The processes that have this among their variables."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in place.read_bytes():
                found.append(place.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system does not show processes")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing_behind(runs: Runs, tmp_path: Path, number: int, code: int) -> None:
    def sabotage(tree: Path) -> Path:
        text = f"\nimport pathlib, time\npathlib.Path({str(tmp_path / 'here')!r}).touch()\ntime.sleep(600)\n"
        with (tree / "sglang" / "srt" / "models" / "llama.py").open("a") as module:
            module.write(text)
        return Runs.kernels(runs, tree)

    runs.kernels = sabotage  # type: ignore[method-assign]
    line = runs.line(HEALTHY, "--backend", "gloo")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary), "FLOWCHECK_CACHE_DIR": str(tmp_path / "cache")}
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *map(str, line)], cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "here").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert alive(f"TMPDIR={temporary}".encode()) == []
    assert list(temporary.iterdir()) == []


INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from flowcheck.cli import main; main()"
)


def test_an_import_that_ends_the_process_is_inconclusive(runs: Runs) -> None:
    def sabotage(tree: Path) -> Path:
        with (tree / "sglang" / "srt" / "models" / "llama.py").open("a") as module:
            module.write("\nimport os\nos._exit(7)\n")
        return Runs.kernels(runs, tree)

    runs.kernels = sabotage  # type: ignore[method-assign]
    probe = document(runs(HEALTHY, "--backend", "fake", "--format", "json"), Exit.INCONCLUSIVE)["probe"]
    assert probe["trouble"]
    assert "proved" not in {each["verdict"] for each in probe["paths"]}
