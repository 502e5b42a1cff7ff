"""Which GPUs a process would see, asked of PyTorch in a child: importing it here would take seconds and memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Gpu", "visible_gpus"]

CODE = """
import json, torch
gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() and torch.version.cuda else ()
print(json.dumps([[p.name, p.total_memory] for p in map(torch.cuda.get_device_properties, gpus)]))
"""
SECONDS = 120


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its name, and its memory in bytes."""

    name: str
    memory: int


def visible_gpus(python: Path, *, devices: Path = Path("/dev")) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that PyTorch sees from ``python``; none where there is no driver, without asking."""
    if not (devices / "nvidiactl").exists() and shutil.which("nvidia-smi") is None:
        return ()
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(
            [str(python), "-c", CODE],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return tuple(Gpu(str(name), int(memory)) for name, memory in json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError, IndexError):
        return ()
