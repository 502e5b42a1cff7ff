"""``python -m flowcheck.probe.rank JOB.json RANK``; under torchrun without the rank, which is in the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flowcheck.probe.protocol import Job, RankResult, dumps, loads


def main(arguments: list[str]) -> int:
    """Runs one rank.

    Returns:
        0 if it came to its end, 1 if its result has an error, 2 for arguments that are none.
    """
    if len(arguments) not in (1, 2) or (len(arguments) == 1 and "RANK" not in os.environ):
        sys.stderr.write("usage: python -m flowcheck.probe.rank JOB.json RANK\n")
        return 2
    try:
        job = loads(Job, Path(arguments[0]).read_bytes())
        rank = int(arguments[1] if len(arguments) == 2 else os.environ["RANK"])
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{arguments[0]}: {error}\n")
        return 2
    from flowcheck.probe.rank.learning import learn
    from flowcheck.probe.rank.output import Progress
    from flowcheck.probe.rank.run import kept_stubs, run

    progress = Progress.on_standard_output(rank)
    if job.role == "learn":
        result = learn(job, progress)
    else:
        result = run(job, rank, progress, kept_stubs(job))
    write(result, job.result_path(rank))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if result.error is not None else 0)  # threads and groups of the tree would keep the process


def write(result: RankResult, path: Path) -> None:
    """Puts a result in its place, whole."""
    draft = path.with_suffix(".writing")
    draft.write_text(dumps(result), "utf-8")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
