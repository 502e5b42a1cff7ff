"""Every target class of released trees, without any pair: the known defects of models are found, and what is right is proved."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from flowcheck.checks.class_wiring import ClassEnd, class_ends, class_findings
from flowcheck.checks.findings import ClassSubject, Finding, Question, Verdict
from flowcheck.checks.rules import load_rules
from flowcheck.flow.classes import class_facts
from flowcheck.flow.scenario import Scenario
from flowcheck.source import open_source

pytestmark = pytest.mark.release

A2A = "an a2a backend"
FUSION = "all-reduce fusion"

Expected = tuple[str, str, str, str]
"""The id of a case, its rule, a class that it is about, and the file."""

OLD: tuple[Expected, ...] = (
    ("E3-001", "HS202", "GptOssForCausalLM", "gpt_oss.py"),
    ("E3-008", "HS210", "DeepseekV3ForCausalLM", "deepseek_v2.py"),
    ("E3-010", "HS209", "DeepseekV3ForCausalLM", "deepseek_v2.py"),
    ("E3-012", "HS209", "Glm4MoeForCausalLM", "glm4_moe.py"),
    ("E3-040", "HS206", "Qwen3VLForConditionalGeneration", "qwen3_vl.py"),
    ("E3-040", "HS206", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe.py"),
    ("E3-048", "HS206", "Qwen2MoeForCausalLM", "qwen2_moe.py"),
    ("E3-049", "HS202", "Qwen3MoeForCausalLM", "qwen2_moe.py"),
    ("E3-055", "HS202", "LlamaForCausalLM", "llama.py"),
    ("E3-055", "HS202", "MiniMaxM2ForCausalLM", "minimax_m2.py"),
    ("E3-062", "HS210", "Glm4MoeForCausalLM", "glm4_moe.py"),
)
WHOLE = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Classes of 0.5.6 of which nothing is said but what becomes of the last boundary."""


def ends_of(version: str, *only: str) -> tuple[ClassEnd, ...]:
    return class_ends(class_facts(open_source(f"sglang=={version}"), Scenario(), only=only))


def found(findings: Iterable[Finding]) -> set[tuple[str, str, str]]:
    return {
        (each.rule, subject.model, each.place.path.rpartition("/")[2] if each.place is not None else "")
        for each in findings
        for subject in each.subjects
        if isinstance(subject, ClassSubject)
    }


@pytest.fixture(scope="module")
def old() -> tuple[ClassEnd, ...]:
    names = {name for _, _, name, _ in OLD} | set(WHOLE)
    return ends_of("0.5.6", *sorted(names))


@pytest.mark.parametrize("expected", OLD, ids=lambda each: f"{each[0]}-{each[2]}")
def test_a_known_defect_is_found_in_its_class(expected: Expected, old: tuple[ClassEnd, ...]) -> None:
    _, rule, name, file = expected
    assert (rule, name, file) in found(class_findings(old, load_rules()))


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
