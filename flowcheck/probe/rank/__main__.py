"""``python -m flowcheck.probe.rank JOB.json RANK``; under torchrun without the rank, which is in the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flowcheck.probe.protocol import Job, RankResult, dumps, loads

USAGE = "usage: python -m flowcheck.probe.rank JOB.json RANK|FIRST-LAST"


def main(arguments: list[str]) -> int:
    """Runs one rank, or forks several.

    Returns:
        0 if all came to their end, 1 if a result has an error, 2 for arguments that are none.
    """
    if len(arguments) not in (1, 2) or (len(arguments) == 1 and "RANK" not in os.environ):
        return _misused(USAGE)
    try:
        job = loads(Job, Path(arguments[0]).read_bytes())
        first, last = _ranks(arguments[1] if len(arguments) == 2 else os.environ["RANK"])
    except (OSError, ValueError) as error:
        return _misused(f"{arguments[0]}: {error}")
    from flowcheck.probe.rank.forking import fork_ranks
    from flowcheck.probe.rank.learning import learn
    from flowcheck.probe.rank.output import Progress
    from flowcheck.probe.rank.run import imported, kept_stubs, run

    progress = Progress.on_standard_output(first)
    if job.role in ("learn", "ids"):
        result = learn(job, progress)
    elif last > first:
        sys.exit(fork_ranks(job, range(first, last + 1), progress, write))
    else:
        result = run(job, first, progress, lambda: imported(job, progress, kept_stubs(job)))
    write(result, job.result_path(first))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if result.error is not None else 0)  # threads and groups of the tree would keep the process


def _misused(said: str) -> int:
    sys.stderr.write(said + "\n")
    return 2


def _ranks(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not first.isdigit() or not (last if dash else "0").isdigit():
        raise ValueError(f"{text} is no rank and no range of ranks")
    return int(first), int(last if dash else first)


def write(result: RankResult, path: Path) -> None:
    """Puts a result in its place, whole."""
    draft = path.with_suffix(".writing")
    draft.write_text(dumps(result), "utf-8")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
