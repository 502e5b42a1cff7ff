from __future__ import annotations

import os
from pathlib import Path

import pytest

from flowcheck.checks.capture_layers import LAYER_CHECKS
from flowcheck.checks.class_wiring import CLASS_RULES
from flowcheck.checks.pairs import SPEAKS_OF
from flowcheck.checks.rules import RuleError, Severity, load_rules
from flowcheck.checks.run import CHECKS, run_checks, selection
from flowcheck.checks.widths import WIDTH_CHECKS
from flowcheck.data import rules_dir
from flowcheck.flow import facts as known
from flowcheck.probe.verdict import PROBE_RULES
from tests.report.fakes import GRAPH, facts, flow, healthy, mode


def overlay(folder: Path, text: str, name: str = "team.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_every_shipped_rule_has_its_function_and_every_function_its_rule() -> None:
    assert [rule.id for rule in load_rules()] == sorted(
        {*CHECKS, *LAYER_CHECKS, *SPEAKS_OF, *WIDTH_CHECKS, *PROBE_RULES, *CLASS_RULES}
    )


def test_every_rule_of_modes_says_that_last_keeps_fewer_rows_at_the_same_width() -> None:
    for rule in load_rules():
        if rule.id.startswith("HS1"):
            assert "fewer ROWS at the same WIDTH" in " ".join(rule.why.split()), rule.id


def test_every_rule_says_what_becomes_of_the_acceptance_rate() -> None:
    for rule in load_rules():
        assert "acceptance rate" in " ".join(rule.runtime_symptom.split()), rule.id


def test_names_are_unique() -> None:
    names = [rule.name for rule in load_rules()]
    assert len(names) == len(set(names))


def test_file_names_are_the_ids() -> None:
    assert {path.stem for path in rules_dir().glob("HS*.toml")} == {rule.id for rule in load_rules()}


def test_an_overlay_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    text = 'id = "HS104"\nseverity = "note"\nfix = "Ask team X."\n[messages]\nreplayed = "{path}: {mode} < {asked}"\n'
    changed, shipped = load_rules(overlay(tmp_path, text))["HS104"], load_rules()["HS104"]
    assert (changed.severity, changed.fix) == (Severity.NOTE, "Ask team X.")
    assert changed.messages["replayed"] == "{path}: {mode} < {asked}"
    assert changed.messages["refused"] == shipped.messages["refused"]
    assert changed.why == shipped.why


def test_an_overlay_decides_the_severity_of_a_finding(tmp_path: Path) -> None:
    rules = load_rules(overlay(tmp_path, 'id = "HS104"\n[parameters]\nrefused_severity = "error"\n'))
    graph = flow(path=known.Path.PREFILL_GRAPH, reached=[mode("NULL", (GRAPH, 1, "recorded"))], replay_guard=True)
    (finding,) = run_checks(facts(graph, *healthy()), rules)
    assert finding.severity is Severity.ERROR


def test_the_vocabulary_may_lie_in_the_same_folder(tmp_path: Path) -> None:
    overlay(tmp_path, "anything = 1\n", "vocabulary.toml")
    assert [rule.id for rule in load_rules(tmp_path)] == [rule.id for rule in load_rules()]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('id = "HS999"\n', "no rule is called 'HS999'"),
        ('severity = "note"\n', "id: field required"),
        ('id = "HS101"\nseverity = "fatal"\n', "severity:"),
        ('id = "HS101"\nseveritie = "note"\n', "severitie: there is no such key"),
        ('id = "HS101"\nname = "mine"\n', "name: there is no such key"),
        ('id = "HS104"\n[parameters]\nlimit = 3\n', "parameters.limit is unknown to HS104; known are refused_severity"),
        ('id = "HS104"\n[parameters]\nrefused_severity = 3\n', "parameters.refused_severity should be of type str"),
        ('id = "HS104"\n[parameters]\nrefused_severity = "loud"\n', "refused_severity is none of error, warning, note"),
        ('id = "HS101"\n[messages]\nhigh = "x"\n', "messages.high is unknown to HS101"),
        ('id = "HS101"\n[messages]\nlow = "{nope}"\n', "names {nope}"),
        ('id = "HS101"\n[messages]\nlow = "{"\n', "is no template"),
        ('id = "HS404"\n[fixes]\nfc = "x"\n', "fixes.fc is unknown to HS404"),
        ('id = "HS404"\n[parameters]\nhidden_norm_missing_severity = "loud"\n', "is none of error, warning, note"),
        ('id = "HS101\n', "team.toml:"),
    ],
)
def test_a_bad_overlay_is_said_in_one_line_that_names_the_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RuleError) as caught:
        load_rules(overlay(tmp_path, text))
    message = str(caught.value)
    assert said in message
    assert "team.toml" in message
    assert "\n" not in message


def test_two_files_about_one_rule_are_an_error(tmp_path: Path) -> None:
    overlay(tmp_path, 'id = "HS101"\n', "a.toml")
    with pytest.raises(RuleError, match=r"b\.toml: HS101 is changed by a\.toml already"):
        load_rules(overlay(tmp_path, 'id = "HS101"\n', "b.toml"))


def test_an_overlay_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no such folder"):
        load_rules(tmp_path / "nowhere")


def test_an_overlay_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.toml")
    with pytest.raises(RuleError, match=r"a\.toml: is not a regular file"):
        load_rules(tmp_path)


def test_an_overlay_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b'id = "\xff"\n')
    with pytest.raises(RuleError, match="is not UTF-8"):
        load_rules(tmp_path)


@pytest.mark.parametrize(
    ("select", "ignore", "left"),
    [
        ([], ["HS2,HS3", "HS4", "HS5"], {"HS101", "HS102", "HS103", "HS104", "HS109"}),
        (["HS101"], [], {"HS101"}),
        (["hs101,HS104", "HS109"], [], {"HS101", "HS104", "HS109"}),
        (["HS1"], ["HS10"], set()),
        (["HS1"], ["HS104, HS109"], {"HS101", "HS102", "HS103"}),
        (["HS40"], ["HS404"], {"HS401", "HS402", "HS403", "HS405", "HS406", "HS407", "HS408", "HS409"}),
    ],
)
def test_selection(select: list[str], ignore: list[str], left: set[str]) -> None:
    assert selection(load_rules(), select, ignore).rules == left


@pytest.mark.parametrize("word", ["HS7", "E501", "HS1011", "HS410"])
def test_selecting_an_unknown_rule_is_an_error(word: str) -> None:
    with pytest.raises(RuleError, match=f"no rule is called '{word}'"):
        selection(load_rules(), [word])
