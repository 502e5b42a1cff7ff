"""The environment in which the tree's code runs: one of the probe's own, made once for each set of requirements, or one
that the user names.

It has the packages that the tree's model code needs to be imported, in the versions that the tree pins, and sees the
PyTorch of the interpreter that runs flowcheck.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flowcheck.probe.errors import ProbeError
from flowcheck.probe.requirements import Wanted
from flowcheck.probe.torches import Torch, lend
from flowcheck.source.pipcall import first_error, is_unreachable

__all__ = ["Environment", "Run", "environment_for", "named_environment"]

Say = Callable[[str], None]

FORMAT = "flowcheck.environment/1"
SEAL = "flowcheck-seal.json"
WAIT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter to run ranks with."""

    python: Path


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and all that it printed."""

    code: int
    text: str


Run = Callable[[Sequence[str]], Done]
"""Runs a command to its end."""


def environment_for(
    wanted: Wanted,
    torch: Torch,
    cache_dir: Path,
    *,
    offline: bool = False,
    announce: Say = lambda _: None,
    run: Run | None = None,
) -> Environment:
    """The probe's own environment for these requirements, made in ``cache_dir`` where it is not there yet.

    ``announce`` is called with one line before it is made. Another process that makes it is waited for; one that was
    interrupted while it was made is made anew.

    Raises:
        ProbeError: it cannot be made: no network, no such version, no ``venv``, an unwritable cache.
    """
    from filelock import FileLock, Timeout

    folder = cache_dir / _key(wanted, torch)
    if (ready := _ready(folder)) is not None:
        return ready
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(cache_dir / f"{folder.name}.lock", timeout=WAIT_SECONDS):
            if (ready := _ready(folder)) is not None:
                return ready
            if offline:
                raise ProbeError(
                    f"the probe's environment ({_named(wanted)}) is not there yet, and --offline forbids to make it; "
                    "--env DIR uses one that exists"
                )
            announce(f"making an environment for the probe with {_named(wanted)}, through pip, once: {folder}")
            shutil.rmtree(folder, ignore_errors=True)
            return _made(folder, wanted, torch, run or _run)
    except Timeout:
        raise ProbeError(f"another process holds {folder} for too long") from None
    except (OSError, NotImplementedError) as error:
        raise ProbeError(f"cannot write to the cache {cache_dir}: {error}") from error


def named_environment(place: Path, needed: Sequence[str], run: Run | None = None) -> Environment:
    """The environment that a user names: its folder, or its interpreter.

    Raises:
        ProbeError: there is no interpreter, it does not run, or a module of ``needed`` is not found by it.
    """
    python = place if place.is_file() else place / "bin" / "python"
    if not python.is_file():
        raise ProbeError(f"--env {place}: there is no bin/python in it")
    code = f"import importlib.util as u; print(*[n for n in {list(needed)!r} if u.find_spec(n) is None])"
    asked = (run or _run)([str(python), "-c", code])
    if asked.code:
        raise ProbeError(f"--env {place}: {python} does not run: {first_error(asked.text)}")
    missing = asked.text.split()
    if missing:
        raise ProbeError(f"--env {place}: it lacks {', '.join(missing)}")
    return Environment(python.absolute())


def _key(wanted: Wanted, torch: Torch) -> str:
    """A name that differs wherever what would be installed, or the PyTorch that is lent, does."""
    parts = [FORMAT, sys.implementation.cache_tag or "", platform.machine(), os.path.realpath(sys.executable)]
    parts += [torch.version, str(torch.site), *wanted.requirements]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _ready(folder: Path) -> Environment | None:
    """The environment in a folder, if it was finished and its interpreter is still there."""
    python = folder / "bin" / "python"
    try:
        sealed = json.loads((folder / SEAL).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return Environment(python) if sealed == {"format": FORMAT} and python.is_file() else None


def _made(folder: Path, wanted: Wanted, torch: Torch, run: Run) -> Environment:
    python = folder / "bin" / "python"
    _must(run([sys.executable, "-m", "venv", str(folder)]), "cannot make a virtual environment (is venv installed?)")
    options = ["--disable-pip-version-check", "--no-input", "--quiet", "--prefer-binary", "--progress-bar", "off"]
    done = run([str(python), "-m", "pip", "install", *options, *wanted.requirements])
    if done.code and is_unreachable(done.text):
        raise ProbeError(
            f"no network, or the package index does not answer: cannot install {_named(wanted)}; "
            "--env DIR uses an environment that exists"
        )
    _must(done, f"pip cannot install {_named(wanted)}")
    site = next(iter(folder.glob("lib/python3*/site-packages")), None)
    if site is None:
        raise ProbeError(f"cannot make a virtual environment: {folder} has no site-packages folder")
    # Read after the folder's own packages: of what PyTorch needs, the environment's own version wins.
    (site / "zz-flowcheck-torch.pth").write_text(f"{lend(torch, folder / 'torch')}\n", "utf-8")
    (folder / SEAL).write_text(json.dumps({"format": FORMAT}), "utf-8")
    return Environment(python)


def _must(done: Done, failure: str) -> None:
    if done.code:
        raise ProbeError(f"{failure}: {first_error(done.text)}")


def _named(wanted: Wanted) -> str:
    """The requirements in a few words, what is pinned first."""
    first = sorted(wanted.requirements, key=lambda each: "==" not in each)[:1]
    others = len(wanted.requirements) - len(first)
    return f"{', '.join(first)}{f' and {others} more packages' if others else ''}"


def _run(command: Sequence[str]) -> Done:
    left_out = {"PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV"}
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    try:
        done = subprocess.run(
            command,
            env={**environment, "PIP_USER": "0", "PYTHONIOENCODING": "utf-8", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        return Done(1, f"cannot run {command[0]}: {error.strerror or error}")
    return Done(done.returncode, done.stdout.decode("utf-8", "replace"))
