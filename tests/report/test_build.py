from __future__ import annotations

from dataclasses import replace

from flowcheck.checks.run import selection
from flowcheck.flow.facts import CallEdge, Definition, Open, Path, Phase
from flowcheck.syntax.ir import Span
from tests.report.fakes import (
    BATCH,
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
    tree_text,
)

LOST = mode("NULL", (LOGITS, 88, "default of the field"), (LOGITS, 118, "copied without the mode"))


def test_a_flow_names_the_line_where_its_mode_was_set() -> None:
    rows = report(facts(*healthy())).flows
    assert [(row.phase, row.path, row.file, row.line, row.mode, row.verdict) for row in rows] == [
        ("extend", "eager", WORKER, 372, "FULL", "proved"),
        ("verify", "eager", WORKER, 610, "FULL", "proved"),
        ("verify", "decode_graph", WORKER, 610, "FULL", "proved"),
    ]


def test_the_evidence_of_a_flow_runs_from_the_origin_to_the_use() -> None:
    row = report(facts(*healthy())).flows[0]
    assert [(step.file, step.line) for step in row.evidence] == [(WORKER, 372), (BATCH, 352), (LOGITS, 118)]


def test_the_evidence_of_a_graph_has_what_is_asked_and_what_was_recorded() -> None:
    row = report(facts(*healthy())).flows[2]
    first, last = row.evidence[0], row.evidence[-1]
    assert (first.file, first.line) == (WORKER, 610)
    assert (last.file, last.line) == (GRAPH, 265)


def test_a_flow_without_evidence_names_its_call() -> None:
    (row, *_) = report(facts(flow(asked=[mode("FULL")]), *healthy("Other"))).flows
    assert (row.file, row.line) == (WORKER, 380)


def test_of_several_alternatives_the_worst_one_gives_the_site() -> None:
    two = flow(asked=[carried("FULL", WORKER, 372), carried("LAST", WORKER, 401)])
    row = report(facts(two, *healthy("Other"))).flows[0]
    assert (row.line, row.mode, row.asked) == (401, "LAST|FULL", ["LAST", "FULL"])
    assert [site.line for site in row.sites] == [401, 372]


def test_a_graph_below_its_batch_shows_what_was_recorded() -> None:
    graph = flow(Phase.VERIFY, Path.DECODE_GRAPH, reached=[mode("LAST", (GRAPH, 265, "recorded"))])
    row = report(facts(graph, *healthy("Other"))).flows[0]
    assert (row.mode, row.asked, row.reached, row.rules) == ("LAST", ["FULL"], ["LAST"], ["HS104"])


def test_a_graph_whose_batch_asks_too_little_shows_what_is_asked() -> None:
    graph = flow(Phase.VERIFY, Path.DECODE_GRAPH, asked=[carried("LAST", WORKER, 610)])
    row = report(facts(graph, *healthy("Other"))).flows[0]
    assert (row.mode, row.verdict, row.rules) == ("LAST", "violated", ["HS102"])


def test_nobodys_concern_has_no_verdict() -> None:
    rows = report(facts(*healthy(), flow(Phase.IDLE, asked=[carried("NULL", WORKER, 1)]))).flows
    assert [(row.phase, row.verdict) for row in rows if row.phase == "idle"] == [("idle", None)]


def test_an_open_question_has_a_row_and_a_reason() -> None:
    left = Open(
        "the mode of verify", "the budget ran out", place(WORKER_V2, 9), "budget", Phase.VERIFY, Path.EAGER, "V2"
    )
    made = report(facts(*healthy(), left=[left]))
    (row,) = [row for row in made.flows if row.worker == "V2"]
    assert (row.verdict, row.mode, row.line, row.rules) == ("unproved", "unknown", 9, ["HS109"])
    (answer,) = made.unproved
    assert (answer.question, answer.reason, answer.line) == ("the mode of verify", "the budget ran out", 9)
    assert made.summary.unproved == 1


def test_a_finding_carries_place_chain_and_what_it_affects() -> None:
    made = report(facts(flow(Phase.VERIFY, reached=[LOST]), *healthy("Other")))
    (finding,) = made.findings
    assert (finding.rule, finding.name, finding.severity) == ("HS103", "mode-lost-on-the-way", "error")
    assert (finding.file, finding.line) == (LOGITS, 118)
    assert finding.affects == ["verify/eager/EAGLEWorker"]
    assert [step.note for step in finding.evidence] == ["default of the field", "copied without the mode"]
    assert finding.snippet is not None
    assert finding.snippet.first_line == 116
    assert [line.strip() for line in finding.snippet.lines][2] == "row_118 = 118"


def test_a_condition_holds_for_a_finding_only_if_it_holds_for_all_that_it_affects() -> None:
    cause = carried("LAST", WORKER, 372)
    some = flow(asked=[cause], condition="a is true")
    every = flow(asked=[cause], worker="Second")
    assert report(facts(some, *healthy("O"))).findings[0].condition == "a is true"
    assert report(facts(some, every, *healthy("O"))).findings[0].condition == ""


def low(line: int = 372, worker: str = "EAGLEWorker.forward", root: str = SRT) -> object:
    path = WORKER.replace(SRT, root)
    return flow(asked=[carried("LAST", path, line, worker)])


def fingerprint(text: str, line: int = 372, symbol: str = "EAGLEWorker.forward", root: str = "python/sglang") -> str:
    lines = [""] * 1000
    lines[line - 1] = text
    known = facts(low(line, symbol, f"{root}/srt" if root else "srt"), *healthy("Other"))  # type: ignore[arg-type]
    made = report(known, read_text=lambda _: "\n".join(lines), root=root)
    return made.findings[0].fingerprint


def test_a_fingerprint_survives_moved_lines_and_changed_blanks() -> None:
    assert fingerprint("  mode = LAST") == fingerprint("        mode  =  LAST", line=700)


def test_a_fingerprint_does_not_depend_on_where_the_package_lies() -> None:
    assert fingerprint("m = LAST") == fingerprint("m = LAST", root="sglang") == fingerprint("m = LAST", root="")


def test_a_fingerprint_changes_with_the_code_and_with_the_symbol() -> None:
    base = fingerprint("mode = LAST")
    assert base != fingerprint("mode = pick(LAST)")
    assert base != fingerprint("mode = LAST", symbol="Other.forward")


def test_findings_on_lines_that_read_alike_have_fingerprints_of_their_own() -> None:
    made = report(facts(low(10), low(20), *healthy("Other")), read_text=lambda _: "same\n" * 900)  # type: ignore[arg-type]
    assert len({finding.fingerprint for finding in made.findings}) == 2


def test_what_is_not_selected_is_hidden_and_counted_but_stays_a_verdict() -> None:
    known = facts(low(), *healthy("Other"))  # type: ignore[arg-type]
    made = report(known, selected=selection(RULES, ignore=["HS101"]))
    assert made.findings == []
    assert made.summary.hidden == 1
    assert made.summary.findings.error == 0
    assert made.summary.violated == 1


def test_flows_are_in_one_order_whatever_order_they_come_in() -> None:
    flows = [*healthy("B"), *healthy("A")]
    made = report(facts(*flows)).flows
    assert made == report(facts(*reversed(flows))).flows
    assert [row.worker for row in made] == ["A"] * 3 + ["B"] * 3


def test_a_repeated_step_and_a_repeated_flow_are_said_once() -> None:
    step = (WORKER, 372, "set")
    twice = flow(asked=[mode("FULL", step, step, (LOGITS, 1, "used"))])
    made = report(facts(twice, twice, *healthy("Other")))
    assert len([row for row in made.flows if row.worker == "EAGLEWorker"]) == 1
    assert len(made.flows[0].evidence) == 2


def test_no_text_of_the_tree_can_act_on_a_terminal() -> None:
    hostile = facts(flow(asked=[mode("LAST", (WORKER, 3, "note \x1b[31m\nred \u202e"))]), *healthy("Other"))
    made = report(hostile, read_text=lambda _: "a\nb\n\tx = '\x1b]0;title\x07' # \x9b31m\n\udcff\n")
    shown = made.model_dump_json()
    for character in "\x1b\x07\x9b\u202e\udcff":
        assert character not in shown
        assert f"\\u{ord(character):04x}" not in shown.lower()


def test_columns_of_a_snippet_count_tabs_as_they_are_shown() -> None:
    tabbed = flow(asked=[carried("LAST", WORKER, 3)])
    made = report(facts(tabbed, *healthy("Other")), read_text=lambda _: "\n\n\tmode = 1\n")
    snippet = made.findings[0].snippet
    assert snippet is not None
    assert (snippet.lines[2], snippet.column) == ("    mode = 1", 12)


def test_lines_are_those_of_an_editor() -> None:
    text = "one\x0cstill one\r\ntwo\rthree\nfour"
    for line, wanted in ((1, "one\ufffdstill one"), (2, "two"), (3, "three"), (4, "four")):
        known = facts(flow(asked=[carried("LAST", WORKER, line)]), *healthy("Other"))
        snippet = report(known, read_text=lambda _: text).findings[0].snippet
        assert snippet is not None
        assert snippet.lines[line - snippet.first_line] == wanted


def test_a_place_that_the_tree_does_not_have_gives_no_snippet() -> None:
    known = facts(flow(asked=[carried("LAST", "gone.txt", 3)]), *healthy("Other"))
    assert report(known, read_text=tree_text).findings[0].snippet is None


def test_the_call_graph_counts_into_its_nodes() -> None:
    worker = Definition(WORKER, "EAGLEWorker.verify", 600, "function")
    batch = Definition(BATCH, "ForwardBatch.capture_hidden_mode", 20, "attribute")
    edge = CallEdge(worker, batch, "writes", (Span(610, 9, 610, 30),))
    graph = report(replace(facts(*healthy()), calls=(edge,))).call_graph
    assert graph is not None
    assert [(node.file, node.symbol, node.line, node.kind) for node in graph.nodes] == [
        (BATCH, "ForwardBatch.capture_hidden_mode", 20, "attribute"),
        (WORKER, "EAGLEWorker.verify", 600, "function"),
    ]
    assert [(each.caller, each.callee, each.kind) for each in graph.edges] == [(1, 0, "writes")]
    assert [(site.line, site.column) for site in graph.edges[0].sites] == [(610, 9)]
    assert report(facts(*healthy())).call_graph is None
