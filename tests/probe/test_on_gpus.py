"""What a rank does for GPUs, as far as a machine without one shows it: another default device, stand-ins for the driver."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from flowcheck.probe.names import probe_names
from flowcheck.probe.protocol import Job, Phase
from flowcheck.probe.rank import batches, device, fusing
from flowcheck.probe.rank.bridges import dtype_name, local_rank
from flowcheck.probe.rank.identify import MOST_ROWS, rows_to_name
from flowcheck.probe.rank.output import Progress
from flowcheck.probe.rank.state import Rank, failure_of
from flowcheck.probe.rank.tree import Tree
from flowcheck.probe.rank.weights import logical


def job(ranks: int = 1, **changes: Any) -> Job:
    given = {"tree": "/tree", "package": "small", "target": "", "architecture": "", "phases": (), "work": "/work"}
    return Job(**{**given, "backend": "nccl", "ranks": ranks, "names": probe_names(), **changes})


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One GPU; the numbers of those that were made current."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return chosen


def test_one_rank_takes_the_one_gpu(gpus: list[int]) -> None:
    assert device.place(job(), 0) == torch.device("cuda", 0)
    assert gpus == [0]


def test_more_ranks_than_gpus_are_refused(gpus: list[int]) -> None:
    with pytest.raises(OSError, match="2 GPUs needed, 1 found"):
        device.place(job(2), 0)
    assert gpus == []


def test_under_torchrun_a_rank_takes_the_gpu_of_its_number_on_its_node(
    gpus: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    assert device.place(job(16), 11) == torch.device("cuda", 3)
    assert (gpus, local_rank(11)) == ([3], 3)


def test_gpus_compute_in_the_precision_of_their_kernels() -> None:
    assert [dtype_name(job(backend=each)) for each in ("nccl", "gloo", "fake")] == ["bfloat16", "float32", "bfloat16"]


def test_weights_are_drawn_where_they_are_wanted_and_not_on_the_default_device() -> None:
    usual = logical("a.weight", (3, 4), 7)
    with torch.device("meta"):
        drawn = logical("a.weight", (3, 4), 7, device=torch.device("cpu"))
    assert torch.equal(drawn, usual)


class Mode(enum.Enum):
    EXTEND = 1
    TARGET_VERIFY = 2
    FULL = 3


@dataclasses.dataclass
class Batch:
    input_ids: Any = None
    seq_lens: Any = None
    seq_lens_cpu: Any = None


class Small(Tree):
    """A tree that has a batch alone, and functions by their names."""

    def __init__(self, **found: Any) -> None:
        super().__init__("small", probe_names())
        batch = self.names["batch"]
        self.found = {batch["cls"]: Batch, batch["modes"]: Mode, batch["kept"]: Mode, **found}

    def find(self, module: str, *path: str) -> Any:
        return self.found.get(path[-1])


def test_what_a_batch_keeps_for_the_processor_is_there_whatever_the_default_device() -> None:
    with torch.device("meta"):
        made = batches.batch(Small(), Phase("extend", "extend", 2, 3), 64, "meta", 0, None)
    assert (made.seq_lens.device.type, made.input_ids.device.type) == ("meta", "meta")
    assert made.seq_lens_cpu.tolist() == [3, 3]


class OutOfMemoryError(RuntimeError):
    """As PyTorch calls it."""


@pytest.mark.parametrize(
    ("error", "about"),
    [
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "machine"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "machine"),
        (RuntimeError("shapes cannot be multiplied"), "tree"),
    ],
)
def test_a_gpu_that_has_no_room_is_no_defect_of_the_tree(error: Exception, about: str) -> None:
    namespace: dict[str, Any] = {"error": error}
    exec(compile("def forward():\n    raise error\n", "/tree/small/model.py", "exec"), namespace)
    with pytest.raises(type(error)) as raised:
        namespace["forward"]()
    with open("/dev/null", "w") as nothing:  # noqa: PTH123
        assert failure_of(raised.value, Rank(job(), 0, Progress(0, nothing))).about == about


@pytest.mark.parametrize("rows", [1, 8, MOST_ROWS, MOST_ROWS + 1, 2050])
def test_of_large_batches_some_rows_are_named_from_the_first_to_the_last(rows: int) -> None:
    chosen = rows_to_name(rows)
    if rows <= MOST_ROWS:
        assert chosen is None
        return
    assert chosen is not None
    assert len(set(chosen)) == MOST_ROWS
    assert (chosen[0], chosen[-1]) == (0, rows - 1)
    assert max(b - a for a, b in itertools.pairwise(chosen)) <= -(-rows // (MOST_ROWS - 1))


def test_a_fused_all_reduce_that_answers_with_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(__name__="small.comm")
    name = probe_names()["graphs"]["fused"][0][1]
    answers = iter([(None, None), ("norm", "sum"), None, "norm"])
    vars(module)[name] = lambda: next(answers)
    monkeypatch.setitem(__import__("sys").modules, "small.comm", module)
    fusions = fusing.Fusions(Small(**{name: vars(module)[name]}))
    seen = []
    for _ in range(4):
        vars(module)[name]()
        seen.append(fusions.count)
    assert seen == [0, 1, 1, 2]
