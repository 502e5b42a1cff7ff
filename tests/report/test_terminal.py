from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from flowcheck.checks.run import selection
from flowcheck.flow.facts import Facts, Flow, Mode, Open, Path, Phase, Place, Step
from flowcheck.report.model import Report
from flowcheck.report.terminal import page
from flowcheck.syntax.ir import Span
from tests.report.fakes import (
    GRAPH,
    LOGITS,
    RULES,
    SRT,
    WORKER,
    WORKER_V2,
    carried,
    facts,
    flow,
    healthy,
    mode,
    place,
    report,
)

DEEP = f"{SRT}/speculative/multi_layer_eagle_worker_v2.py"
BAD = facts(
    flow(asked=[carried("LAST", WORKER, 372, "EAGLEWorker.forward_target_extend")]),
    flow(Phase.VERIFY, Path.DECODE_GRAPH, reached=[mode("unknown", (GRAPH, 265, "max()"), reason="not known")]),
    flow(Phase.VERIFY),
    flow(Phase.IDLE, asked=[carried("NULL", WORKER, 700)]),
    flow(asked=[carried("NULL", WORKER, 710)], consumed=False, condition="a_feature is true"),
)


def many() -> Facts:
    """Several workers with long names, a condition, unicode, long symbols and an open question."""
    flows: list[Flow] = []
    for worker, file in (("EAGLEWorkerV2", WORKER_V2), ("MultiLayerEagleWorkerV2", DEEP), ("Größenwörker漢字", WORKER)):
        full = carried("FULL", file, 1555, "A" * 90)
        null = mode("NULL", (f"{SRT}/{'deep/' * 20}piecewise.py", 227, "starts with NULL " * 9), symbol="B" * 120)
        flows += [
            flow(Phase.EXTEND, Path.EAGER, worker, asked=[full], file=file),
            flow(Phase.EXTEND, Path.PREFILL_GRAPH, worker, asked=[full], reached=[null], condition="x " * 60),
            flow(Phase.VERIFY, Path.EAGER, worker, asked=[carried("LAST", file, 9)], file=file),
            flow(Phase.VERIFY, Path.DECODE_GRAPH, worker, asked=[full], file=file),
        ]
    left = Open("a question " * 12, "a reason " * 12, place(DEEP, 1001), "budget", Phase.VERIFY, None, "")
    return facts(*flows, left=[left], scenario=[("enable_dp_attention", "true"), ("path", "p" * 120)])


def shown(made: Report, width: int = 80, **options: bool) -> list[str]:
    return [line.plain for line in page(made, width, **options)]


def row_of(lines: list[str], *words: str) -> str:
    (row,) = [line for line in lines if all(word in line for word in words)]
    return row


def test_the_flows_come_first_and_name_phase_path_worker_site_mode_and_verdict() -> None:
    lines = shown(report(facts(*healthy())))
    head = next(number for number, line in enumerate(lines) if line.startswith("PHASE"))
    assert lines[head].split() == ["PHASE", "PATH", "SITE", "MODE", "VERDICT"]
    assert "EAGLEWorker" in lines[head:]
    assert row_of(lines, "extend", "speculative/eagle_worker.py:372", "FULL").endswith("proved")
    assert row_of(lines, "verify", "eager", "speculative/eagle_worker.py:610", "FULL").endswith("proved")
    assert row_of(lines, "verify", "decode graph", "speculative/eagle_worker.py:610").endswith("proved")


def test_columns_are_aligned() -> None:
    lines = shown(report(facts(*healthy())))
    head = row_of(lines, "PHASE")
    for line in lines:
        if line.startswith(("extend", "verify")):
            assert line.index("FULL") == head.index("MODE")
            assert line.index("proved") == head.index("VERDICT")


def test_where_there_is_room_the_worker_is_a_column() -> None:
    head = row_of(shown(report(facts(*healthy())), width=120), "PHASE")
    assert head.split() == ["PHASE", "PATH", "WORKER", "SITE", "MODE", "VERDICT"]
    row = row_of(shown(report(facts(*healthy())), width=120), "extend")
    assert "EAGLEWorker " in row


def test_the_header_says_what_was_read_and_what_it_cost() -> None:
    lines = shown(report(facts(*healthy(), scenario=[("dp_size", "2")])))
    assert lines[0].startswith("sglang==0.5.9  wheel")
    assert lines[0].endswith("2.1 s, cache cold")
    assert cell_len(lines[0]) == 80
    assert row_of(lines, "run  ").split() == ["run", "EAGLE3", "dp_size=2"]
    assert "version 0.5.9" in "".join(shown(report(facts(*healthy()), label="./fork")))


def test_the_last_line_sums_up() -> None:
    assert shown(report(facts(*healthy())))[-1] == "3 questions: 3 proved, 0 violated, 0 unproved; 2 assumptions"
    assert shown(report(BAD))[-1] == "3 questions: 1 proved, 1 violated, 1 unproved; 2 assumptions"


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("verbose", [False, True])
def test_nothing_is_wider_than_the_page(width: int, verbose: bool) -> None:
    for made in (report(many()), report(BAD), report(facts(*healthy())), report(facts())):
        assert [line for line in shown(made, width, verbose=verbose) if cell_len(line) > width] == []


def test_below_80_columns_only_the_table_may_be_wider_than_the_page() -> None:
    lines = shown(report(BAD), 50)
    wide = [line for line in lines if cell_len(line) > 50]
    assert all("eagle_worker.py:" in line or "VERDICT" in line or "HS" in line for line in wide)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_site_is_never_broken(width: int) -> None:
    lines = shown(report(many()), width)
    assert any("speculative/multi_layer_eagle_worker_v2.py:1555" in line for line in lines)
    assert any("speculative/eagle_worker_v2.py:1555" in line for line in lines)


def test_long_evidence_paths_wrap_and_are_not_cut() -> None:
    text = "".join(line.strip() for line in shown(report(many())))
    assert f"{SRT}/{'deep/' * 20}piecewise.py:227" in text
    assert "B" * 120 in text


def test_a_finding_is_a_code_frame_with_its_chain_and_its_fix() -> None:
    lines = shown(report(BAD))
    at = lines.index("error[HS101] target extend captures LAST, not FULL")
    frame = lines[at : at + 20]
    assert f"  {WORKER}:372:9" in frame
    code = next(line for line in frame if "> 372 |" in line)
    caret = frame[frame.index(code) + 1]
    assert code[caret.index("^") : caret.rindex("^") + 1] == "batch.capture_hidden_"
    assert len([line for line in frame if " | " in line]) == 6
    assert f"  {LOGITS}:118" in "\n".join(frame)
    assert any(line.startswith("  affects  extend eager (EAGLEWorker)") for line in frame)
    assert any(line.startswith("  fix      Set CaptureHiddenMode.FULL") for line in frame)


def test_a_frame_of_a_long_line_keeps_its_mark_in_sight() -> None:
    long = f"{'x = f(a) and ' * 20}LAST{' or g(b)' * 20}"
    spot = long.index("LAST") + 1
    at = place(WORKER, 3, spot, spot + 4)
    low = mode("LAST", (WORKER, 3, "set"))
    low = type(low)(low.member, (Step(at, "set"),))
    made = report(facts(flow(asked=[low]), *healthy("Other")), read_text=lambda _: f"\n\n{long}\n")
    lines = shown(made)
    code = next(line for line in lines if "> 3 |" in line)
    caret = lines[lines.index(code) + 1]
    assert code[caret.index("^") : caret.rindex("^") + 1] == "LAST"
    assert code.count("…") == 2
    assert cell_len(code) <= 80


def test_a_mark_behind_wide_characters_stands_under_its_code() -> None:
    text = '        name = "漢字漢字"; mode = LAST'
    spot = text.index("LAST") + 1
    low = type(mode("LAST"))("LAST", (Step(place(WORKER, 1, spot, spot + 4), "set"),))
    lines = shown(report(facts(flow(asked=[low]), *healthy("Other")), read_text=lambda _: text))
    code = next(line for line in lines if "> 1 |" in line)
    caret = lines[lines.index(code) + 1]
    assert cell_len(code[: code.index("LAST")]) == cell_len(caret[: caret.index("^")])


def test_a_long_chain_is_shortened_in_the_middle_and_whole_when_verbose() -> None:
    steps = tuple(Step(place(WORKER, number), f"step {number}") for number in range(1, 21))
    low = type(mode("LAST"))("LAST", steps)
    made = report(facts(flow(asked=[low]), *healthy("Other")))
    short, full = shown(made), shown(made, verbose=True)
    assert any("12 more (--verbose)" in line for line in short)
    assert not any("step 10" in line for line in short)
    assert any("step 1" in line for line in short)
    assert any("step 20" in line for line in short)
    assert any("step 10" in line for line in full)


def test_idle_and_unused_forwards_are_rows_of_the_verbose_page_alone() -> None:
    assert not any(line.startswith("idle") for line in shown(report(BAD)))
    verbose = shown(report(BAD), verbose=True)
    assert row_of(verbose, "idle", "eagle_worker.py:700", "NULL").endswith("-")
    assert row_of(verbose, "extend", "eagle_worker.py:710").endswith("not used")


def test_the_quiet_page_has_findings_and_the_last_line() -> None:
    lines = shown(report(BAD), quiet=True)
    assert lines[0].startswith("error[HS101]")
    assert not any(line.startswith(("PHASE", "assumes")) for line in lines)
    assert lines[-1].startswith("3 questions")
    assert shown(report(facts(*healthy())), quiet=True) == [
        "3 questions: 3 proved, 0 violated, 0 unproved; 2 assumptions"
    ]


def test_a_condition_stands_below_its_row() -> None:
    made = report(facts(*healthy("Other"), flow(condition="enable_x is true", worker="SomeWorkerOfAFork")))
    lines = shown(made)
    row = next(number for number, line in enumerate(lines) if line == "SomeWorkerOfAFork") + 1
    assert lines[row + 1].strip() == "if enable_x is true"


def test_a_condition_that_all_rows_of_a_worker_share_is_said_once() -> None:
    always = flow(worker="SomeWorkerOfAFork", condition="enable_x is true")
    made = report(facts(*healthy("Other"), always, replace(always, phase=Phase.VERIFY)))
    lines = shown(made)
    heading = next(number for number, line in enumerate(lines) if line == "SomeWorkerOfAFork")
    assert lines[heading + 1] == "  if enable_x is true"
    assert [line.strip() for line in lines].count("if enable_x is true") == 1
    assert [line.split()[0] for line in lines[heading + 2 : heading + 4]] == ["extend", "verify"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_word_of_a_note_is_broken_only_where_no_line_holds_it(width: int) -> None:
    note = "ForwardBatch(capture_hidden_mode=…)"
    step = Step(Place("sglang/srt/model_executor/forward_batch_info.py", Span(69, 1, 69, 2), ""), note)
    last = Mode("LAST", (step,))
    lines = shown(report(facts(flow(asked=[last], reached=[last]))), width=width)
    named = [line for line in lines if "ForwardBatch(" in line]
    assert named
    assert all(note in line for line in named)
    assert max(map(cell_len, lines)) <= width


def test_what_the_run_fixes_is_said_once() -> None:
    made = report(facts(*healthy(), scenario=(("algorithm", "EAGLE3"), ("topk", "4"))))
    assert made.scenario.settings == {"topk": "4"}
    assert "run      EAGLE3  topk=4" in shown(made)


def test_every_site_of_a_mode_is_named() -> None:
    full = [carried("FULL", WORKER, line) for line in (372, 380)]
    lines = shown(report(facts(flow(asked=full, worker="SomeWorkerOfAFork"), *healthy("Other"))))
    row = next(number for number, line in enumerate(lines) if line == "SomeWorkerOfAFork") + 1
    assert "eagle_worker.py:372" in lines[row]
    assert lines[row + 1].strip().endswith("eagle_worker.py:380")


def test_hidden_findings_are_said() -> None:
    made = report(BAD, selected=selection(RULES, ignore=["HS1"]))
    assert " ".join(shown(made)[-2:]).endswith("2 findings hidden by --select or --ignore")


def test_a_tree_without_any_flow_says_so() -> None:
    lines = shown(report(facts()))
    assert "no forward of the target was found" in lines
    assert lines[-1].startswith("2 questions: 0 proved, 0 violated, 2 unproved")


def test_forwards_that_feed_no_draft_are_not_called_missing() -> None:
    quiet = [replace(each, consumed=False) for each in healthy("StandaloneWorker")]
    lines = shown(report(facts(*quiet)))
    assert any("feeds a draft with hidden states" in line for line in lines)
    assert "no forward of the target was found" not in lines


def test_brackets_in_the_tree_are_no_markup() -> None:
    tricky = mode("LAST", (WORKER, 3, "[red]x[/red] [link=y]"))
    made = report(facts(flow(asked=[tricky]), *healthy("Other")), read_text=lambda _: "\n\na = b[bold]\n")
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    for line in page(made, 80):
        console.print(line, soft_wrap=True, highlight=False)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[red]x[/red] [link=y]" in printed
    assert "b[bold]" in printed


def test_colour_is_for_verdicts_and_severities() -> None:
    colored = {
        line.plain[span.start : span.end]
        for line in page(report(BAD), 80, verbose=True)
        for span in line.spans
        if any(color in str(span.style) for color in ("red", "green", "yellow"))
    }
    assert {text.strip("^ ") for text in colored} <= {
        "", "proved", "violated", "unproved", "VIOLATED HS101", "UNPROVED HS109", "error[HS101]", "error[HS109]",
        "1 proved", "1 violated", "1 unproved",
    }  # fmt: skip
