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
from flowcheck.probe.protocol import Event, IdsRead, Job, Phase, RankResult, Role, dumps, loads
from flowcheck.probe.supervise import End, ProcessEnd, Start, last_words, supervise

__all__ = ["Ran", "RankEnd", "Where", "collected", "free_port", "job_path", "launch_command", "run_job", "workplace"]

MODULE = "flowcheck.probe.rank"
LEASH = "flowcheck.probe.leash"
KEPT_BYTES = 16 * 1024
PORT_TRIES = 3
IDS_SHARE = 0.4
"""How much of the time may go into reading the draft's configuration, which is no more than a check."""

LAUNCHERS = {
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"),
    *("ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
}
"""Variables by which a launcher tells a process which rank it is. Ranks that are started here are told otherwise."""

LAUNCHER = "TORCHELASTIC_"

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
class RankEnd:
    """How one rank ended: ``role`` is what it was for, ``variant`` in which further run ("" for the first), ``code`` its exit
    code where that is known, ``stage`` how far it came, ``words`` the last lines of its standard error, ``how`` what is
    known of its end where it left no exit code here."""

    role: Role
    rank: int
    end: End
    code: int | None = None
    stage: str = ""
    seconds: float | None = None
    words: tuple[str, ...] = ()
    how: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it.

    Attributes:
        results: by rank; of those that came to an end of their own, which may be an error. What a rank saw in further runs is
            put together with what it saw in the first.
        ends: how each rank ended, and what ran before them, in that order.
        trouble: why nothing can be concluded from the results, "" if they count.
        troubles: the same of further runs, by their names; those that are missing count.
        ids: what the tree's own code made of the draft's configuration, in a process of its own.
        ids_unread: why it made nothing of it, "" if it did, or if the tree's own runner read it in every rank.
    """

    results: Mapping[int, RankResult]
    ends: tuple[RankEnd, ...]
    trouble: str = ""
    troubles: Mapping[str, str] = field(default_factory=dict)
    ids: IdsRead | None = None
    ids_unread: str = ""


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
    heard: Callable[[str, Event], None]
    ends: list[RankEnd] = field(default_factory=list)
    referred: tuple[Phase, ...] = ()
    """All forwards of the probe: the reference has the boundaries of each."""
    lacking: set[str] = field(default_factory=set)
    """Packages that the last reference or its ranks lacked."""

    def run(self, job: Job, groups: Sequence[Sequence[int]], share: float = 1.0) -> tuple[dict[int, RankResult], str]:
        """Run processes of one role to their ends, one for each group of ranks: the results, and what went wrong with them.

        ``share``: how much of the time that is left they may take.
        """
        path = job_path(job)
        path.write_text(dumps(job), "utf-8")
        for rank in (rank for group in groups for rank in group):
            job.result_path(rank).unlink(missing_ok=True)
            job.words_path(rank).unlink(missing_ok=True)
        processes = supervise(
            [Start(tuple(group), self.command(path, group), self.variables(job)) for group in groups],
            seconds=max(1.0, share * (self.deadline - time.monotonic())),
            at_once=len(groups),
            together=True,
            on_event=lambda event: self.heard(job.role, event),
        )
        results: dict[int, RankResult] = {}
        ends = [_end_of(job, process, rank, results) for process in processes for rank in process.ranks]
        self.ends += ends
        return results, _trouble(job, ends)

    def command(self, path: Path, ranks: Sequence[int]) -> tuple[str, ...]:
        named = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"
        return (str(self.environment.python), "-m", LEASH, MODULE, str(path), named)

    def variables(self, job: Job) -> dict[str, str]:
        """The environment of a rank."""
        left_out = {"PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}
        kept = {
            key: value
            for key, value in os.environ.items()
            if key not in left_out | LAUNCHERS and not key.startswith(LAUNCHER)
        }
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
    port_is_given: bool = False,
    heard: Callable[[str, Event], None] = HEARD,
    further: Sequence[Job] = (),
) -> Ran:
    """Run a job on this machine, to its end or to the end of its time, and after it the further ones of the same probe.

    Args:
        job: what to run; its ``work`` is ``where.work``.
        environment: the interpreter of the ranks.
        where: see there.
        tree_digest: of the tree: what it lacks is learned once.
        seconds: time for everything.
        port_is_given: whether the user chose the port. Otherwise another one is tried where it was taken meanwhile.
        heard: called with the role of a process ("learn", "ids", "reference", "rank") and each event of it.
        further: the same job with other settings and forwards, and a name as its ``variant``.
    """
    running = _Running(job, environment, where, time.monotonic() + seconds, heard)
    running.referred = tuple(phase for each in (job, *further) for phase in each.phases)
    place = "-served" if job.backend == "nccl" else ""
    kept = where.cache / "stubs" / f"{_key(tree_digest, environment)}{place}.json"
    known = _known_stubs(kept)
    ran = (_on_gpus if place else _elsewhere)(running, kept, known, port_is_given)
    for each in further:
        ran = _with_further(running, ran, each, port_is_given)
    return replace(ran, ends=tuple(running.ends))


def _on_gpus(running: _Running, kept: Path, known: list[str] | None, port_is_given: bool) -> Ran:
    ids, unread = _ids_read(running, kept.with_suffix(".ids.json"))
    ran = _until_nothing_lacks(running, kept, known or [], port_is_given)
    return replace(ran, ids=ids, ids_unread=unread)


def _until_nothing_lacks(running: _Running, kept: Path, roots: list[str], port_is_given: bool) -> Ran:
    """Learns what is missing from the reference and the ranks themselves. On GPUs the environment is one in which the tree is
    served, and a run on simulated ranks would import what no GPU does; and such a run has no runner of the tree."""
    for _ in range(running.job.limits.stub_rounds):
        running.job.stubs_path().write_text(json.dumps(roots), "utf-8")
        ran = _reference_and_ranks(running, port_is_given)
        lacking = {each for each in running.lacking if each not in roots}
        if not lacking:
            break
        roots = sorted({*roots, *lacking})
        running.ends = [end for end in running.ends if end.role == "learn"]
    else:
        return replace(ran, trouble="too many packages are missing")
    if not ran.trouble:
        _keep_stubs(running.job, kept)
    return ran


def _elsewhere(running: _Running, kept: Path, known: list[str] | None, port_is_given: bool) -> Ran:
    job = running.job
    if known is not None:
        job.stubs_path().write_text(json.dumps(known), "utf-8")
    else:
        _, trouble = _learned(running, kept)
        if trouble:
            return Ran({}, tuple(running.ends), trouble)
    ids, unread = _ids_read(running, kept.with_suffix(".ids.json"))
    ran = _reference_and_ranks(running, port_is_given)
    if known is not None and running.lacking:
        kept.unlink(missing_ok=True)  # another target needs what nobody has met yet
        _, trouble = _learned(running, kept)
        if not trouble:
            ran = _reference_and_ranks(running, port_is_given)
    if job.through == "model-runner" and running.lacking:
        roots = sorted({*(_known_stubs(job.stubs_path()) or ()), *running.lacking})
        running.ends = [end for end in running.ends if end.role == "learn"]  # what only lacked a package is done again
        ran = _until_nothing_lacks(running, kept, roots, port_is_given)
    return replace(ran, ids=ids, ids_unread=unread)


def _ids_read(running: _Running, kept: Path) -> tuple[IdsRead | None, str]:
    """What the tree makes of the draft's configuration, or why that is not known. It is no end of the probe if it fails.

    Its own runner reads it in every rank: then there is nothing to be asked, and no reason for not knowing.
    """
    if running.job.through == "model-runner":
        return None, ""
    job, ends = running.job.as_ids(), list(running.ends)
    if job.draft is None:
        return None, "there is no draft"
    known = _known_stubs(kept) or _known_stubs(running.job.stubs_path()) or []
    job.stubs_path().write_text(json.dumps(known), "utf-8")
    results, trouble = running.run(job, [[0]], share=IDS_SHARE)
    running.ends[:] = ends
    result = results.get(0)
    if result is None or result.read is None:
        return None, trouble or f"its code did not come to them here: {_spoken(result and result.error)}"
    _keep_stubs(job, kept)
    return result.read, ""


def _with_further(running: _Running, ran: Ran, job: Job, port_is_given: bool) -> Ran:
    """What came of a further run, put together with what there is. A run that did not come to its end has none after it."""
    before = ran.trouble or next(iter(ran.troubles.values()), "")
    if before:
        return replace(ran, troubles={**ran.troubles, job.variant: f"it was not run, as {before}"})
    running.job = replace(job, port=job.port if port_is_given else free_port())
    results, trouble = _ranks(running, port_is_given)
    both = {rank: _together(ran.results.get(rank), results.get(rank)) for rank in {*ran.results, *results}}
    return replace(ran, results=both, troubles={**ran.troubles, job.variant: trouble} if trouble else ran.troubles)


def _together(first: RankResult | None, second: RankResult | None) -> RankResult:
    if first is None or second is None:
        one = first or second
        assert one is not None
        return one
    return replace(
        first,
        phases=(*first.phases, *second.phases),
        draft=(*first.draft, *second.draft),
        launches=tuple(sorted({*first.launches, *second.launches})),
        stubs=tuple(sorted({*first.stubs, *second.stubs})),
        not_covered=tuple(dict.fromkeys((*first.not_covered, *second.not_covered))),
        seconds={
            key: first.seconds.get(key, 0.0) + second.seconds.get(key, 0.0)
            for key in {**first.seconds, **second.seconds}
        },
        peak_mib=max(first.peak_mib or 0, second.peak_mib or 0) or None,
        error=first.error or second.error,
    )


def _keep_stubs(job: Job, kept: Path) -> None:
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(job.stubs_path(), kept)


def _learned(running: _Running, kept: Path) -> tuple[dict[int, RankResult], str]:
    results, trouble = running.run(running.job.as_learning(), [[0]])
    error = results[0].error if 0 in results else None
    if not trouble and error is None:
        _keep_stubs(running.job, kept)
    if not trouble and error is not None:
        trouble = f"the target could not be built: {_spoken(error)}"
    return results, trouble


def _reference_and_ranks(running: _Running, port_is_given: bool) -> Ran:
    job = running.job
    running.lacking = set()
    if job.backend != "fake":
        results, trouble = running.run(replace(job.as_reference(), phases=running.referred or job.phases), [[0]])
        error = results[0].error if 0 in results else None
        if trouble or error is not None:
            running.lacking = {error.missing} if error is not None and error.missing else set()
            return Ran({}, (), trouble or f"the reference on one rank ended early: {_spoken(error)}")
    results, trouble = _ranks(running, port_is_given)
    running.lacking = {each.error.missing for each in results.values() if each.error and each.error.missing}
    return Ran(results, (), trouble)


def _ranks(running: _Running, port_is_given: bool) -> tuple[dict[int, RankResult], str]:
    job = running.job
    alone = job.backend == "nccl"  # others are forks of one process, which imports the tree once
    groups = [[rank] for rank in range(job.ranks)] if alone else [list(range(job.ranks))]
    for _ in range(1 if port_is_given or job.backend == "fake" else PORT_TRIES):
        results, trouble = running.run(job, groups)
        if not _port_was_taken(results):
            break
        job = running.job = replace(job, port=free_port())
    return results, trouble


def _end_of(job: Job, process: ProcessEnd, rank: int, results: dict[int, RankResult]) -> RankEnd:
    """How one rank of a process ended; a result of its own is put among ``results``."""
    result = _result(job, rank) if process.end in (End.DONE, End.HUNG) else None
    last = process.last.get(rank)
    words = last_words(_tail(job.words_path(rank))) or process.words
    heard = RankEnd(
        role=job.role,
        rank=rank,
        end=process.end,
        code=process.code if len(process.ranks) == 1 else None,
        stage=last.stage if last is not None else "",
        seconds=last.seconds if last is not None else None,
        words=words,
        variant=job.variant,
    )
    if result is None:  # where the process says that it is done, it left nothing
        return replace(heard, end=End.DIED, how="left no result") if process.end is End.DONE else heard
    error = result.error
    if error is not None and error.kind in FORCED:  # by the process of which it was a fork
        return replace(heard, end=FORCED[error.kind], how=error.message.partition(";")[0])
    results[rank] = result
    return replace(heard, end=End.DONE, code=1 if error is not None else 0, stage=result.stage)


FORCED = {"Died": End.DIED, "Stopped": End.STOPPED}
"""What the failures of ranks are called that did not end by themselves."""


def _result(job: Job, rank: int) -> RankResult | None:
    """What a rank left, if it is whole."""
    try:
        result = loads(RankResult, job.result_path(rank).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return result if result.rank == rank or job.role != "rank" else None


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - KEPT_BYTES))
            return stream.read(KEPT_BYTES)
    except OSError:
        return b""


def job_path(job: Job) -> Path:
    """Where a job is written."""
    return Path(
        job.work, "-".join(filter(None, ("job", job.role if job.role != "rank" else "", job.variant))) + ".json"
    )


def collected(job: Job, further: Sequence[Job] = ()) -> Ran:
    """What ranks that somebody else started have left."""
    results: dict[int, RankResult] = {}
    for each in (job, *further):
        for rank in range(each.ranks):
            with contextlib.suppress(OSError, ValueError):
                found = loads(RankResult, each.result_path(rank).read_bytes())
                results[rank] = _together(results.get(rank), found)
    read = None
    with contextlib.suppress(OSError, ValueError):
        read = loads(RankResult, job.as_ids().result_path(0).read_bytes()).read
    unread = "" if read is not None or job.through == "model-runner" else "no process did that"
    return Ran(results, (), ids=read, ids_unread=unread)


def _trouble(job: Job, ends: Sequence[RankEnd]) -> str:
    """Why nothing can be concluded: a rank died, or time was up."""
    for how in (End.DIED, End.HUNG):
        bad = [end for end in ends if end.end is how]
        if bad:
            one = min(bad, key=lambda end: end.seconds or 0.0)  # the one that has been silent for longest
            who = f"rank {one.rank}" if job.role == "rank" else f"the {job.role} run"
            others = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
            at = f" in {one.stage}" if one.stage else " before it said anything"
            return f"{who} {_how(one)}{at}{others}"
    return ""


def _how(end: RankEnd) -> str:
    if end.end is End.HUNG:
        return "hung until time was up"
    if end.code is not None and end.code < 0:
        memory = " (out of memory?)" if end.code == -9 else ""
        return f"was killed by signal {-end.code}{memory}"
    return end.how or (f"died with exit code {end.code}" if end.code is not None else "died")


def _spoken(error: Any) -> str:
    if error is None:
        return "no reason was left"
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
