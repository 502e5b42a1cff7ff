"""The wiring fixtures as trees that a probe can run: with kernels in PyTorch, on ranks that are processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowcheck.probe.names import probe_names
from flowcheck.probe.protocol import Event, Job, Phase, RankResult, dumps, loads

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"

KERNELS = """
import torch
import torch.distributed as dist

def normed(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

def rmsnorm(x, weight, eps):
    return normed(x, weight, eps)

def fused_add_rmsnorm(x, residual, weight, eps):
    residual += x
    x.copy_(normed(residual, weight, eps))

def trtllm_allreduce_fusion(allreduce_in, residual_in, residual_out, norm_out, rms_gamma, rms_eps):
    total = allreduce_in.clone()
    dist.all_reduce(total)
    residual_out.copy_(total + residual_in)
    norm_out.copy_(normed(residual_out, rms_gamma, rms_eps))
"""


def tree_of(fixture: str, folder: Path) -> Path:
    """A copy of a fixture's tree, with what it imports beside it."""
    tree = folder / "tree"
    shutil.copytree(FIXTURES / fixture / "tree", tree)
    (tree / "sgl_kernel.py").write_text(KERNELS, "utf-8")
    (tree / "flashinfer").mkdir()
    (tree / "flashinfer" / "__init__.py").write_text("", "utf-8")
    (tree / "flashinfer" / "comm.py").write_text("from sgl_kernel import trtllm_allreduce_fusion\n", "utf-8")
    return tree


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def job_of(fixture: str, folder: Path, **changes: Any) -> Job:
    """Two ranks that extend and verify as the fixture's draft says."""
    draft = json.loads((FIXTURES / fixture / "draft" / "config.json").read_text("utf-8"))
    ids = tuple(draft["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    work = folder / "work"
    work.mkdir()
    job = Job(
        tree=str(tree_of(fixture, folder)),
        package="sglang",
        backend="gloo",
        ranks=2,
        target=str(FIXTURES / fixture / "target"),
        architecture="LlamaForCausalLM",
        phases=(Phase("extend", "extend", 2, 3, (ids,)), Phase("verify", "verify", 2, 4)),
        names=probe_names(),
        work=str(work),
        draft=str(FIXTURES / fixture / "draft"),
        draft_architecture=draft["architectures"][0],
        port=free_port(),
    )
    return replace(job, **changes)


def edited(job: Job, path: str, old: str, new: str) -> None:
    """Changes one place of a tree."""
    file = Path(job.tree, "sglang/srt", path)
    text = file.read_text("utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), "utf-8")


def start(
    job: Job, ranks: str, module: str = "flowcheck.probe.rank"
) -> tuple[subprocess.CompletedProcess[str], list[Event]]:
    """Runs one process to its end, in an environment that knows flowcheck's source and no more of it."""
    path = Path(job.work, f"job-{job.role}.json")
    path.write_text(dumps(job), "utf-8")
    command = [sys.executable, "-m", module, str(path), ranks]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=job.work, env=environment, timeout=300)
    return done, [loads(Event, line) for line in done.stdout.splitlines()]


def results(job: Job, ranks: Sequence[int] | None = None) -> list[RankResult]:
    """What the ranks left."""
    return [loads(RankResult, job.result_path(rank).read_bytes()) for rank in ranks or range(job.ranks)]


def probe(job: Job, reference: Path | None = None) -> list[RankResult]:
    """The reference, unless one is given, then all ranks."""
    if job.backend != "fake":
        if reference is None:
            done, _ = start(job.as_reference(), "0")
            assert done.returncode == 0, done.stderr + job.as_reference().result_path(0).read_text("utf-8")
        else:
            shutil.copy(reference, job.reference_path())
    start(job, f"0-{job.ranks - 1}")
    return results(job)
