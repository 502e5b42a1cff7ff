"""Facts made by hand, shaped like those of real releases, and the tree that they point into."""

from __future__ import annotations

from collections.abc import Sequence

from flowcheck.checks.rules import RuleBook, load_rules
from flowcheck.checks.run import Selection, run_checks, selection
from flowcheck.draft import Pairing
from flowcheck.flow.facts import Assumption, Facts, Flow, Mode, Open, Path, Phase, Place, ScanStats, Step
from flowcheck.flow.pair_facts import CaptureRow, Left, PairFacts, Reach, State, Told
from flowcheck.report.build import SourceInfo, Timing, build_report
from flowcheck.report.model import Report
from flowcheck.syntax.ir import Span

SRT = "python/sglang/srt"
WORKER = f"{SRT}/speculative/eagle_worker.py"
WORKER_V2 = f"{SRT}/speculative/eagle_worker_v2.py"
BATCH = f"{SRT}/model_executor/forward_batch_info.py"
GRAPH = f"{SRT}/model_executor/cuda_graph_runner.py"
LOGITS = f"{SRT}/layers/logits_processor.py"
MODEL = f"{SRT}/models/llama.py"
RUNNER = f"{SRT}/model_executor/model_runner.py"


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


def row(
    phase: Phase = Phase.EXTEND,
    path: Path = Path.EAGER,
    *boundaries: int | None,
    ids: tuple[int, ...] | None = None,
    condition: str = "",
    reach: Reach = Reach.COMPLETE,
    reason: str = "",
    raised: str = "",
    in_setter: bool = False,
    question: str = "",
    told_at: int = 622,
    more: tuple[Told, ...] = (),
) -> CaptureRow:
    """What a path captures: boundaries that a loop of the model appends (None: what has no name, for a reason)."""
    told = Told("set_layers", ids, "ids" if ids is not None else "", "", place(RUNNER, told_at))
    states = tuple(
        State(
            each,
            reach,
            False,
            each is not None or not reason.startswith("?"),
            reason,
            "all rows",
            "64",
            place(MODEL, 88),
        )
        for each in boundaries
    )
    if question or raised:
        states = ()
    return CaptureRow(
        phase=phase,
        path=path,
        runner="" if path is Path.EAGER else "CudaGraphRunner",
        condition=condition,
        model_class="LlamaForCausalLM",
        told=(told, *more),
        left=(Left(f"layers = {list(boundaries)}", (place(MODEL, 140, symbol="LlamaForCausalLM.set_layers"),)),),
        states=states,
        width=64 * len(states) or None,
        rows="all rows" if states else "",
        concat=place(LOGITS, 200),
        processor=place(MODEL, 99),
        raised=raised,
        raised_at=place(MODEL, 141) if raised else None,
        in_setter=in_setter,
        question=question,
        assumptions=("a batch of 37 rows",),
    )


def served(pairing: Pairing) -> PairFacts:
    """A tree that captures on every path what a pair needs, or the first of its readings."""
    wanted = pairing.trained.readings[0].boundaries
    ways = ((Phase.EXTEND, Path.EAGER), (Phase.VERIFY, Path.EAGER), (Phase.VERIFY, Path.DECODE_GRAPH))
    ids = next((each.ids for each in pairing.draft.id_lists), None)
    return PairFacts("LlamaForCausalLM", True, tuple(row(phase, path, *wanted, ids=ids) for phase, path in ways))


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
