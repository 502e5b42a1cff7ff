"""Every target class of released trees, without any pair: the known defects of models are found, and what is right is proved."""

from __future__ import annotations

import pytest

from flowcheck.checks.class_wiring import ClassEnd, class_ends, class_findings
from flowcheck.checks.findings import Question, Verdict
from flowcheck.checks.rules import load_rules
from flowcheck.flow.classes import class_facts
from flowcheck.flow.scenario import Scenario
from flowcheck.source import open_source
from tests.releases.cases_table import Line, found
from tests.releases.known_classes import KNOWN, Known

pytestmark = pytest.mark.release

A2A = "an a2a backend"
FUSION = "all-reduce fusion"

OLD = tuple(each for each in KNOWN if each.is_in("0.5.6") and not each.missed)
WHOLE = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Classes of 0.5.6 of which nothing is said but what becomes of the last boundary."""


def ends_of(version: str, *only: str) -> tuple[ClassEnd, ...]:
    return class_ends(class_facts(open_source(f"sglang=={version}"), Scenario(), only=only))


@pytest.fixture(scope="module")
def old() -> tuple[ClassEnd, ...]:
    names = {each.cls for each in OLD} | set(WHOLE)
    return ends_of("0.5.6", *sorted(names))


@pytest.mark.parametrize("known", OLD, ids=lambda each: f"{each.case}-{each.cls}")
def test_a_known_defect_is_found_in_its_class(known: Known, old: tuple[ClassEnd, ...]) -> None:
    assert (known.rule, known.cls, known.file) in found(class_findings(old, load_rules()))


def test_a_defect_that_is_missed_says_why() -> None:
    """The table of ``make cases`` fails on one that is missed without a reason, or found where it is not."""
    (twobatch,) = (each for each in KNOWN if each.case == "E3-017")
    assert Line(twobatch, "0.5.6", bad=True, said=False).outcome == "MISSED: two-batch overlap is not asked"
    assert Line(twobatch, "0.4.8", bad=False, said=True).outcome == "FALSE ALARM"


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_class_does_right_is_proved(name: str, old: tuple[ClassEnd, ...]) -> None:
    (end,) = (end for end in old if end.facts.cls.name == name)
    answers = {question: end.verdict(question) for question in Question}
    assert answers.pop(Question.ENDS) is Verdict.VIOLATED
    assert set(answers.values()) == {Verdict.PROVED}


def test_what_needs_a_deployment_says_which(old: tuple[ClassEnd, ...]) -> None:
    (end,) = (end for end in old if end.facts.cls.name == "DeepseekV3ForCausalLM")
    conditions = {
        rule: {cell.condition for cell in end.cells if cell.rule == rule} for rule in ("HS209", "HS210", "HS202")
    }
    assert conditions["HS209"] == {FUSION}
    assert A2A in conditions["HS210"]
    assert conditions["HS202"] == {""}


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "rule", "name", "bad"),
    [
        ("0.5.9", "HS206", "KimiK25ForConditionalGeneration", True),
        ("0.5.10", "HS206", "KimiK25ForConditionalGeneration", False),
        ("0.5.10", "HS206", "Qwen3VLForConditionalGeneration", True),
        ("0.5.12", "HS206", "Qwen3VLForConditionalGeneration", False),
        ("0.5.9", "HS206", "Glm4vForConditionalGeneration", True),
        ("0.5.23", "HS206", "Glm4vForConditionalGeneration", True),
        ("0.5.14", "HS209", "DeepseekV3ForCausalLM", False),
        ("0.5.20", "HS209", "Glm4MoeForCausalLM", True),
        ("0.5.23", "HS209", "Glm4MoeForCausalLM", False),
        ("0.5.23", "HS210", "Glm4MoeForCausalLM", True),
        ("0.5.23", "HS208", "Gemma3ForCausalLM", True),
        ("0.5.20", "HS208", "Gemma4ForCausalLM", True),
        ("0.5.23", "HS208", "Gemma4ForCausalLM", False),
        ("0.5.17", "HS202", "GptOssForCausalLM", False),
        ("0.5.23", "HS202", "LlamaForCausalLM", True),
        ("0.5.23", "HS202", "DeepseekV3ForCausalLM", False),
        ("0.5.23", "HS208", "InternS2MobiusForConditionalGeneration", False),
        ("0.5.23", "HS209", "Qwen2ForCausalLM", False),
    ],
)
def test_a_defect_comes_and_goes_with_its_releases(version: str, rule: str, name: str, bad: bool) -> None:
    rules = {each.rule for each in class_findings(ends_of(version, name), load_rules())}
    assert (rule in rules) is bad
    assert "HS219" not in rules


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("BailingMoeV2ForCausalLM", "BailingMoEModel.forward"),
        ("Glm4MoeLiteForCausalLM", "Glm4MoeLiteModel.forward"),
    ],
)
def test_states_on_the_rows_of_the_layer_before_are_found_where_they_are_kept(name: str, symbol: str) -> None:
    """Their captures are of the rows that the layer before hands on, which an a2a backend leaves scattered."""
    findings = [f for f in class_findings(ends_of("0.5.23", name), load_rules()) if f.rule == "HS210"]
    assert [f.place.symbol for f in findings if f.place is not None] == [symbol]


@pytest.mark.long
def test_a_class_of_whose_attention_ranks_hold_too_little_is_not_asked_for_replicas() -> None:
    """0.5.23 splits Llama's heads over all ranks, and sums them over those of one replica."""
    (end,) = ends_of("0.5.23", "LlamaForCausalLM")
    assert {deployment for deployment, _ in end.left} == {"DP attention", "DP attention and an a2a backend"}
    assert end.verdict(Question.SUMS) is Verdict.PROVED
