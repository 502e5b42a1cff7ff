"""Each mismatch of a pair becomes one finding of the one rule whose business it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from flowcheck.checks.findings import Finding, Verdict
from flowcheck.checks.pairs import SPEAKS_OF, declarable, pair_findings
from flowcheck.checks.rules import RuleBook, Severity, load_rules
from flowcheck.draft import Kind, Pairing, mismatches_of, pair
from tests.draft.samples import NAMES, deepseek, draft, nested, sample, target, with_header

RULES = load_rules()
OF_A_TREE = {
    "factor",
    "ids",
    "ignored",
    "not-taken",
    "raises",
    "skipped",
    "unfilled",
    "unreachable",
    "unread",
    "unregistered",
}
"""Fixes of what a tree captures, which a rule may speak of as well."""
RULE_OF = {kind: rule_id for rule_id, kinds in SPEAKS_OF.items() for kind in kinds}


def found(made: Pairing, rules: RuleBook = RULES, **options: str) -> tuple[Finding, ...]:
    return pair_findings(made, rules, **options)


def test_every_kind_is_the_business_of_one_rule() -> None:
    assert Counter(kind for kinds in SPEAKS_OF.values() for kind in kinds) == Counter(Kind)


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.title)
def test_a_shipped_rule_weighs_a_kind_as_the_room_draft_does(kind: Kind) -> None:
    assert RULES[RULE_OF[kind]].severity_of(kind.title).value == kind.weight.value


@pytest.mark.parametrize("rule_id", SPEAKS_OF)
def test_fixes_and_weights_are_of_kinds_that_the_rule_speaks_of(rule_id: str) -> None:
    titles = {kind.title for kind in SPEAKS_OF[rule_id]}
    rule = RULES[rule_id]
    assert set(rule.fixes) - OF_A_TREE <= titles
    weighed = {f"{title.replace('-', '_')}_severity" for title in (*titles, *OF_A_TREE)}
    assert set(rule.parameters) - {"harmless", "neutral", "shared"} <= weighed


@pytest.mark.parametrize("name", NAMES)
def test_every_mismatch_is_one_finding_that_says_the_same(name: str) -> None:
    made = sample(name)
    expected = sorted((RULE_OF[each.kind], each.message) for each in mismatches_of(made, algorithm="EAGLE3"))
    assert sorted((each.rule, each.message) for each in found(made, algorithm="EAGLE3")) == expected
    for each in found(made, algorithm="EAGLE3"):
        assert each.place is None
        assert each.subjects == ()
        assert "{" not in each.fix
        assert each.fix.strip()


def test_an_ambiguous_training_is_unproved_and_says_what_would_settle_it() -> None:
    (finding,) = found(pair(deepseek(2, 30, 58), target("deepseek-v3")))
    assert (finding.rule, finding.severity, finding.verdict) == ("HS402", Severity.WARNING, Verdict.UNPROVED)
    assert "boundaries [3, 31, 59] or boundaries [2, 30, 58]" in finding.message
    assert "--trained-boundaries 3,31,59 or --trained-boundaries 2,30,58" in finding.fix


@pytest.mark.parametrize("declared", [(3, 31, 59), (2, 30, 58)])
def test_a_declaration_settles_it(declared: tuple[int, ...]) -> None:
    made = pair(deepseek(2, 30, 58), target("deepseek-v3"), declared=declared)
    assert {each.verdict for each in found(made)} <= {Verdict.VIOLATED}
    assert {each.severity for each in found(made)} <= {Severity.NOTE}


def test_only_boundaries_of_the_target_can_be_declared() -> None:
    assert declarable(pair(deepseek(-1, 2, 30), target("deepseek-v3"))) == "--trained-boundaries 0,3,31"
    assert declarable(pair(draft(**nested(1, 2, 10**30)), target())) == "--trained-boundaries with the boundaries"


def test_the_worst_comes_first() -> None:
    made = with_header({"d2t": None}, **nested(2, 18, 33), max_position_embeddings=2048)
    assert [each.rule for each in found(made)] == ["HS409", "HS407", "HS402"]


def test_the_algorithm_is_asked_only_where_it_is_known() -> None:
    made = with_header()
    assert found(made) == ()
    (finding,) = found(made, algorithm="EAGLE")
    assert (finding.rule, finding.severity) == ("HS408", Severity.ERROR)
    assert finding.fix == "Launch with the algorithm that the head was trained for: EAGLE3."


def test_a_team_changes_one_fix_or_all(tmp_path: Path) -> None:
    made = with_header({"fc__weight": None})
    file = tmp_path / "team.toml"
    file.write_text('id = "HS404"\n[fixes]\nfc-missing = "Ask {keys}."\n', "utf-8")
    assert [each.fix for each in found(made, load_rules(tmp_path))] == ["Ask fc.weight."]
    file.write_text('id = "HS404"\nfix = "Ask team X."\n', "utf-8")
    assert [each.fix for each in found(made, load_rules(tmp_path))] == ["Ask team X."]


def test_a_team_changes_the_weight_of_one_kind(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text('id = "HS202"\n[parameters]\nids_unsorted_severity = "error"\n', "utf-8")
    made = pair(draft(**nested(17, 1, 32)), target())
    assert [each.severity for each in found(made)] == [Severity.WARNING]
    assert [each.severity for each in found(made, load_rules(tmp_path))] == [Severity.ERROR]
