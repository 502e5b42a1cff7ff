"""Facts made by hand, shaped like those of real releases, and the tree that they point into."""

from __future__ import annotations

from collections.abc import Sequence

from flowcheck.checks.rules import RuleBook, load_rules
from flowcheck.checks.run import Selection, run_checks, selection
from flowcheck.flow.facts import Assumption, Facts, Flow, Mode, Open, Path, Phase, Place, ScanStats, Step
from flowcheck.report.build import SourceInfo, Timing, build_report
from flowcheck.report.model import Report
from flowcheck.syntax.ir import Span

SRT = "python/sglang/srt"
WORKER = f"{SRT}/speculative/eagle_worker.py"
WORKER_V2 = f"{SRT}/speculative/eagle_worker_v2.py"
BATCH = f"{SRT}/model_executor/forward_batch_info.py"
GRAPH = f"{SRT}/model_executor/cuda_graph_runner.py"
LOGITS = f"{SRT}/layers/logits_processor.py"


def place(path: str, line: int, column: int = 9, end: int = 30, symbol: str = "") -> Place:
    return Place(path, Span(line, column, line, end), symbol)


def mode(member: str, *steps: tuple[str, int, str], symbol: str = "EAGLEWorker.verify", reason: str = "") -> Mode:
    return Mode(member, tuple(Step(place(path, line, symbol=symbol), note) for path, line, note in steps), reason)


def carried(member: str, path: str, line: int, symbol: str = "EAGLEWorker.verify") -> Mode:
    """A mode that is set at one line and travels the usual way."""
    return mode(
        member,
        (path, line, f"CaptureHiddenMode.{member} set on the batch"),
        (BATCH, 352, "ForwardBatch.init_new copies it"),
        (LOGITS, 118, "LogitsMetadata.from_forward_batch copies it"),
        symbol=symbol,
    )


def flow(
    phase: Phase = Phase.EXTEND,
    path: Path = Path.EAGER,
    worker: str = "EAGLEWorker",
    *,
    asked: Sequence[Mode] | None = None,
    reached: Sequence[Mode] | None = None,
    line: int | None = None,
    file: str = WORKER,
    condition: str = "",
    consumed: bool = True,
    replay_guard: bool = False,
) -> Flow:
    default = carried("FULL", file, line or (372 if phase is Phase.EXTEND else 610))
    asked = (default,) if asked is None else tuple(asked)
    if reached is None:
        reached = asked if path is Path.EAGER else (mode("FULL", (GRAPH, 265, "the runner records FULL")),)
    return Flow(
        phase=phase,
        path=path,
        worker=worker,
        call=place(file, 380 if phase is Phase.EXTEND else 615, symbol=f"{worker}.forward"),
        asked=asked,
        reached=tuple(reached),
        condition=condition,
        consumed=consumed,
        chain=(Step(place(file, 300), "the worker handles a batch"),),
        assumptions=("logits-processor",),
        replay_guard=replay_guard,
    )


ASSUMPTIONS = (
    Assumption(
        "logits-processor",
        "model.forward hands its batch to the tree's LogitsProcessor",
        ("extend/eager/EAGLEWorker", "verify/eager/EAGLEWorker", "verify/decode_graph/EAGLEWorker"),
    ),
    Assumption("no-patching", "nobody replaces attributes of these classes at run time: no plugin, no monkey patch"),
)


def facts(*flows: Flow, left: Sequence[Open] = (), workers: Sequence[str] = (), scenario: object = ()) -> Facts:
    return Facts(
        flows=flows,
        open=tuple(left),
        assumptions=ASSUMPTIONS,
        workers=tuple(workers),
        scenario=tuple(scenario),  # type: ignore[call-overload]
        stats=ScanStats(
            files_indexed=900, definitions_indexed=14000, definitions_parsed=412, bytes_parsed=460_000, steps=250_000
        ),
    )


def healthy(worker: str = "EAGLEWorker", file: str = WORKER) -> tuple[Flow, ...]:
    return (
        flow(Phase.EXTEND, Path.EAGER, worker, file=file),
        flow(Phase.VERIFY, Path.EAGER, worker, file=file),
        flow(Phase.VERIFY, Path.DECODE_GRAPH, worker, file=file),
    )


def tree_text(path: str) -> str | None:
    """A made-up file in which every line says its number, and the wiring lines look like wiring."""
    if not path.endswith(".py"):
        return None
    lines = [f"        row_{number} = {number}" for number in range(1, 2001)]
    for number in (372, 610):
        lines[number - 1] = "        batch.capture_hidden_mode = CaptureHiddenMode.LAST  # wrong"
    return "\n".join(lines)


RULES: RuleBook = load_rules()


def report(
    known: Facts,
    *,
    label: str = "sglang==0.5.9",
    rules: RuleBook = RULES,
    selected: Selection | None = None,
    read_text: object = tree_text,
    root: str = "python/sglang",
    warnings: Sequence[str] = (),
) -> Report:
    return build_report(
        known,
        run_checks(known, rules),
        rules=rules,
        selected=selected or selection(rules),
        source=SourceInfo("wheel", label, root, "sglang", "0.5.9", "0" * 64, tuple(warnings)),
        algorithm="EAGLE3",
        version="0.1.0",
        timing=Timing(2.14, 2.01),
        read_text=read_text,  # type: ignore[arg-type]
    )
