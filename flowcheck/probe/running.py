"""One probe from a job to what its ranks saw: what is missing is learned, the reference is run, then the ranks.

Everything of the tree runs in child processes, in an environment that is not this one's, without the network.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flowcheck.probe.environment import Environment
from flowcheck.probe.errors import ProbeError
from flowcheck.probe.leash import BYTECODE
from flowcheck.probe.protocol import Event, Job, RankResult, dumps, loads
from flowcheck.probe.supervise import End, RankEnd, Start, supervise

__all__ = ["Ran", "Where", "free_port", "launch_command", "run_job", "workplace"]

MODULE = "flowcheck.probe.rank"
LEASH = "flowcheck.probe.leash"
JOB_FILE = "job.json"
PORT_TRIES = 3

HEARD: Callable[[str, Event], None] = lambda *_: None  # noqa: E731


@dataclass(frozen=True, slots=True)
class Where:
    """The places of one probe.

    Attributes:
        work: for this probe alone; the job's own files lie in it.
        imports: a folder that holds flowcheck's own package and nothing else.
        cache: what outlives the probe: byte code, and what was learned about trees.
    """

    work: Path
    imports: Path
    cache: Path


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it.

    Attributes:
        results: by rank; of those that left one.
        ends: how each process ended, in the order in which they were begun; ``stage`` of each is "learn", "reference" or "rank".
        trouble: why nothing can be concluded from the results, "" if they count.
    """

    results: Mapping[int, RankResult]
    ends: tuple[tuple[str, RankEnd], ...]
    trouble: str = ""


@contextlib.contextmanager
def workplace(cache: Path, keep: Path | None = None) -> Iterator[Where]:
    """Folders for one probe; they are gone afterwards, unless ``keep`` names where they are to be.

    Raises:
        ProbeError: they cannot be made.
    """
    try:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        work = keep.absolute() if keep is not None else Path(tempfile.mkdtemp(prefix="flowcheck-probe-"))
        for name in ("imports", "tree", "target", "draft", "tmp"):
            shutil.rmtree(work / name, ignore_errors=True)
            (work / name).mkdir()
        (work / "imports" / "flowcheck").symlink_to(Path(__file__).resolve().parents[1])
    except OSError as error:
        raise ProbeError(f"cannot make a folder for the probe: {error}") from error
    try:
        yield Where(work, work / "imports", cache)
    finally:
        if keep is None:
            shutil.rmtree(work, ignore_errors=True)


@dataclass
class _Running:
    job: Job
    environment: Environment
    where: Where
    deadline: float
    at_once: int
    heard: Callable[[str, Event], None]
    ends: list[tuple[str, RankEnd]] = field(default_factory=list)

    def run(self, job: Job, ranks: Sequence[int], *, at_once: int, together: bool) -> tuple[dict[int, RankResult], str]:
        """Run processes of one role to their ends: their results, and what went wrong with them."""
        path = self.where.work / (JOB_FILE if job.role == "rank" else f"job-{job.role}.json")
        path.write_text(dumps(job), "utf-8")
        for rank in ranks:
            job.result_path(rank).unlink(missing_ok=True)
        ends = supervise(
            [Start(rank, self.command(path, rank), self.variables(job)) for rank in ranks],
            seconds=max(1.0, self.deadline - time.monotonic()),
            at_once=at_once,
            together=together,
            on_event=lambda event: self.heard(job.role, event),
        )
        results, counted = {}, []
        for end in ends:
            result = _result(job, end)
            if result is not None:
                results[end.rank] = result
            elif end.end is End.DONE:  # it says that it is done and left nothing
                end = replace(end, end=End.DIED)
            counted.append(end)
        self.ends += [(job.role, end) for end in counted]
        return results, _trouble(job, counted)

    def command(self, path: Path, rank: int) -> tuple[str, ...]:
        return (str(self.environment.python), "-m", LEASH, MODULE, str(path), str(rank))

    def variables(self, job: Job) -> dict[str, str]:
        """The environment of a rank."""
        left_out = {"PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}
        kept = {key: value for key, value in os.environ.items() if key not in left_out}
        fixed = {
            "PYTHONPATH": str(self.where.imports),
            "PYTHONNOUSERSITE": "1",
            "PYTHONUNBUFFERED": "1",
            BYTECODE: f"{job.tree}:{self.where.cache / 'bytecode' / _place(job)}",
            "TMPDIR": str(self.where.work / "tmp"),
            "OMP_NUM_THREADS": str(job.threads),
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        if job.backend != "nccl":
            fixed["CUDA_VISIBLE_DEVICES"] = ""
            if sys.platform == "linux":
                fixed["GLOO_SOCKET_IFNAME"] = "lo"
        return {**kept, **fixed}


def run_job(
    job: Job,
    environment: Environment,
    where: Where,
    *,
    tree_digest: str,
    seconds: float,
    at_once: int,
    port_is_given: bool = False,
    heard: Callable[[str, Event], None] = HEARD,
) -> Ran:
    """Run a job on this machine, to its end or to the end of its time.

    Args:
        job: what to run; its ``work`` is ``where.work``.
        environment: the interpreter of the ranks.
        where: see there.
        tree_digest: of the tree: what it lacks is learned once.
        seconds: time for everything.
        at_once: how many simulated ranks may run at the same time; real ones all do.
        port_is_given: whether the user chose the port. Otherwise another one is tried where it was taken meanwhile.
        heard: called with the role of a process ("learn", "reference", "rank") and each event of it.
    """
    running = _Running(job, environment, where, time.monotonic() + seconds, at_once, heard)
    kept = where.cache / "stubs" / f"{_key(tree_digest, environment)}.json"
    known = _known_stubs(kept)
    if known is not None:
        job.stubs_path().write_text(json.dumps(known), "utf-8")
    else:
        _, trouble = _learned(running, kept)
        if trouble:
            return Ran({}, tuple(running.ends), trouble)
    ran = _reference_and_ranks(running, port_is_given)
    if known is not None and any(result.error and result.error.missing for result in ran.results.values()):
        kept.unlink(missing_ok=True)  # another target needs what nobody has met yet
        _, trouble = _learned(running, kept)
        if not trouble:
            ran = _reference_and_ranks(running, port_is_given)
    return replace(ran, ends=tuple(running.ends))


def _learned(running: _Running, kept: Path) -> tuple[dict[int, RankResult], str]:
    results, trouble = running.run(running.job.as_learning(), [0], at_once=1, together=True)
    error = results[0].error if 0 in results else None
    if not trouble and error is None:
        with contextlib.suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(running.job.stubs_path(), kept)
    if not trouble and error is not None:
        trouble = f"the target could not be built: {_spoken(error)}"
    return results, trouble


def _reference_and_ranks(running: _Running, port_is_given: bool) -> Ran:
    job = running.job
    if job.backend != "fake":
        results, trouble = running.run(job.as_reference(), [0], at_once=1, together=True)
        error = results[0].error if 0 in results else None
        if trouble or error is not None:
            return Ran({}, (), trouble or f"the reference on one rank ended early: {_spoken(error)}")
    simulated = job.backend == "fake"
    for _ in range(1 if port_is_given or simulated else PORT_TRIES):
        at_once = running.at_once if simulated else job.ranks
        results, trouble = running.run(job, range(job.ranks), at_once=at_once, together=not simulated)
        if simulated or not _port_was_taken(results):
            break
        job = running.job = replace(job, port=free_port())
    return Ran(results, (), trouble)


def _result(job: Job, end: RankEnd) -> RankResult | None:
    """What a process left, if it is whole; one that was stopped or died may have left something from before."""
    if end.end is not End.DONE:
        return None
    try:
        result = loads(RankResult, job.result_path(end.rank).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return result if result.rank == end.rank or job.role != "rank" else None


def _trouble(job: Job, ends: Sequence[RankEnd]) -> str:
    """Why nothing can be concluded: a process died, or time was up."""
    for how in (End.DIED, End.HUNG):
        bad = [end for end in ends if end.end is how]
        if bad:
            one = min(bad, key=_progress)
            who = f"rank {one.rank}" if job.role == "rank" else f"the {job.role} run"
            others = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
            at = f" in {one.last.stage}" if one.last is not None else " before it said anything"
            return f"{who} {_how(one)}{at}{others}"
    return ""


def _progress(end: RankEnd) -> float:
    """How long ago a process last said something, the longest first."""
    return end.last.seconds if end.last is not None else -1.0


def _how(end: RankEnd) -> str:
    if end.end is End.HUNG:
        return "hung until time was up"
    if end.code is not None and end.code < 0:
        memory = " (out of memory?)" if end.code == -9 else ""
        return f"was killed by signal {-end.code}{memory}"
    return f"died with exit code {end.code}"


def _spoken(error: Any) -> str:
    where = f" ({error.where[-1]})" if error.where else ""
    return f"{error.kind} in {error.stage}: {error.message}{where}"


def _port_was_taken(results: Mapping[int, RankResult]) -> bool:
    errors = [result.error for result in results.values() if result.error is not None]
    return any(each.about == "machine" and "in use" in each.message for each in errors)


def _place(job: Job) -> str:
    """A name for where the tree really lies."""
    real = Path(job.tree, *job.package.split(".")).resolve()
    return hashlib.sha256(os.fsencode(real)).hexdigest()[:24]


def _key(tree_digest: str, environment: Environment) -> str:
    return hashlib.sha256(f"{tree_digest}\0{environment.python}".encode()).hexdigest()[:24]


def _known_stubs(path: Path) -> list[str] | None:
    try:
        names = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def free_port(address: str = "127.0.0.1", wanted: int | None = None) -> int:
    """A port where nobody listens: the one that is wanted, or any.

    Raises:
        ProbeError: the wanted one is taken.
    """
    with socket.socket() as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((address, wanted or 0))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ProbeError(f"--port {wanted}: {reason}; leave it out to take a free one") from None
        return int(place.getsockname()[1])


def launch_command(job_path: str, ranks: int, nodes: int, *, address: str = "HOST", port: int = 29500) -> list[str]:
    """What to run on each of several nodes: ``ranks`` in all, the same number on each.

    Raises:
        ProbeError: they cannot be divided so.
    """
    if ranks % nodes:
        raise ProbeError(f"{ranks} ranks cannot be divided among {nodes} nodes")
    return [
        "torchrun",
        f"--nnodes={nodes}",
        f"--nproc-per-node={ranks // nodes}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={address}:{port}",
        "-m",
        MODULE,
        job_path,
    ]
