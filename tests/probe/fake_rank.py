"""Stands in for the code of a rank: leaves the results of a fixture, or misbehaves as the job's settings say."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from flowcheck.probe.protocol import Event, Failure, IdsRead, Job, RankResult, dumps, loads

job = loads(Job, Path(sys.argv[1]).read_bytes())
first, _, last = sys.argv[2].partition("-")
behaviour = str(job.settings.get("behaviour", ""))
Path(job.work, f"ran-{job.role}-{time.time_ns()}").touch()


def leave(result: RankResult) -> None:
    job.result_path(result.rank).write_text(dumps(result))


def failing(rank: int, kind: str, message: str, **fields: str) -> RankResult:
    failure = Failure(fields.get("stage", "build"), kind, message, about=fields.get("about", "tree"))  # type: ignore[arg-type]
    return RankResult(rank=rank, stage="build", error=replace(failure, missing=fields.get("missing")))


def tell(rank: int, stage: str) -> None:
    print(dumps(Event(rank, stage, "", 1.0)), flush=True)  # type: ignore[arg-type]


if job.role == "learn":
    job.stubs_path().write_text(json.dumps(["stubbed"]))
    if behaviour == "cannot-learn":
        leave(failing(0, "KeyError", "no such class"))
        sys.exit(1)
    leave(RankResult(rank=0, stage="done"))
    sys.exit(0)
if job.role == "ids":
    if behaviour == "cannot-read":
        leave(failing(0, "AttributeError", "the runner has no such thing", stage="setter"))
        sys.exit(1)
    if behaviour == "dies-reading":
        os.kill(os.getpid(), 9)
    leave(RankResult(rank=0, stage="done", read=IdsRead(((2, 4, 6),), ("runner.py:1 start",))))
    sys.exit(0)
if job.role == "reference":
    if behaviour == "dies-in-reference":
        print("no room", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 9)
    if behaviour.startswith("lacks-") and "x" not in json.loads(job.stubs_path().read_text()):
        leave(failing(0, "ModuleNotFoundError", "No module named 'x'", missing="x"))
        sys.exit(1)
    leave(RankResult(rank=0, stage="done"))
    sys.exit(0)

status = 0
for rank in range(int(first), int(last or first) + 1):
    tell(rank, "forward")
    recorded = Path(str(job.settings["results"]), f"rank-{rank}.json")
    if behaviour == "hangs" and rank == 1:
        print("waiting for nobody", file=sys.stderr, flush=True)
        time.sleep(600)
    elif behaviour == "dies" and rank == 1:
        job.words_path(rank).write_text("the last words of rank 1\n")
        leave(failing(rank, "Died", "died with signal 9; last words: none", about="machine"))
        status = 1
    elif behaviour == "leaves-nothing":
        sys.exit(0)
    elif behaviour == "leaves-half":
        job.result_path(rank).write_text('{"rank":')
    elif behaviour == "port" and not Path(job.work, "tried").exists():
        Path(job.work, "tried").touch()
        leave(failing(rank, "OSError", "[Errno 98] Address already in use", about="machine"))
        sys.exit(1)
    elif behaviour == "lacks" and len(list(Path(job.work).glob("ran-learn-*"))) == 0:
        leave(failing(rank, "ModuleNotFoundError", "No module named 'x'", missing="x"))
        status = 1
    else:
        result = loads(RankResult, recorded.read_bytes())
        old, new = job.settings.get("rename", ("", ""))
        phases = tuple(replace(each, phase=new) if each.phase == old else each for each in result.phases)
        leave(replace(result, phases=phases, not_covered=(), bridges={"port": str(job.port)}))
        tell(rank, "done")
sys.exit(status)
