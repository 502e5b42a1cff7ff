"""What a process needs before the tree is imported: its environment, and PyTorch as the tree expects it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from flowcheck.probe.protocol import Job
from flowcheck.probe.rank.stubs import KERNEL_LANGUAGE, StubFinder, install

__all__ = ["place", "prepare"]


def prepare(job: Job, names: Mapping[str, Any], stubs: Sequence[str]) -> StubFinder:
    """Sets the environment and PyTorch's threads, and puts stand-ins in place. Before the first import of the tree."""
    os.environ.update(names["environment"]["always"])
    torch.set_num_threads(job.threads)
    if job.backend == "nccl":
        return install(stubs)
    os.environ.update(names["environment"]["cpu"])
    # The tree's kernels for these instructions are not here, whatever the processor can do.
    torch._C._cpu._is_amx_tile_supported = lambda: False
    torch.compile = _as_it_is
    if KERNEL_LANGUAGE in stubs:  # PyTorch must find it missing before a stand-in goes in
        importlib.import_module("torch._inductor.runtime.triton_compat")
        about = importlib.import_module("torch.utils._triton")
        about.has_triton_package()
        about.has_triton()
    return install(stubs)


def _as_it_is(model: Any = None, *args: Any, **kwargs: Any) -> Any:
    return model if model is not None else (lambda function: function)


def place(job: Job, rank: int) -> Any:
    """The device of a rank, made current.

    Raises:
        OSError: there are not as many GPUs as ranks on this machine.
    """
    if job.backend != "nccl":
        return torch.device("cpu")
    local = int(os.environ.get("LOCAL_RANK", rank))
    here = torch.cuda.device_count()
    needed = int(os.environ.get("LOCAL_WORLD_SIZE", job.ranks))
    if here < needed:
        raise OSError(f"{needed} GPUs needed, {here} found")
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
