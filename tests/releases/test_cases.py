"""Defects of released trees, each shown by a pair that it hurts: where they stand, where they begin, and where they are gone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.releases.wired import IDS, Wired, wired

pytestmark = pytest.mark.release

CAUSAL = "set_eagle3_layers_to_capture"
GRAPHS = ("model_executor/cuda_graph_runner.py", "CudaGraphRunner.__init__")
QUICK = {
    *(("0.4.6.post5", rule) for rule in ("HS202", "HS401", "HS403")),
    *(("0.4.9.post3", rule) for rule in ("HS201", "HS202", "HS205", "HS401")),
    *(("0.5.6", rule) for rule in ("HS202", "HS210")),
    *(("0.5.9", rule) for rule in ("HS201", "HS204")),
}
"""By release and rule: what takes some seconds."""


@dataclass(frozen=True)
class Case:
    """A defect: the pair, the rule that speaks and where (file and symbol), the releases in which it does, and the first
    one in which it does not. ``proved``: there everything about the pair is right."""

    name: str
    pair: Wired
    rule: str
    file: str
    symbol: str
    bad: tuple[str, ...]
    good: str = ""
    proved: bool = True


def at_end(target: str) -> Wired:
    """A draft that asks for the output of the last layer."""
    return Wired(target, (1, 3, 7), (2, 4, 8))


LLAMA, MOE, DEEPSEEK, KIMI, GLM, GEMMA = "llama", "qwen3-moe", "deepseek-v3", "kimi-k2.5", "glm-4-moe", "gemma3"
USUAL = (1, 3, 4), (2, 4, 5)
"""The ids that are the default of eight layers, and what they mean."""

FIVE = Wired(LLAMA, (1, 2, 3, 4, 5), (2, 3, 4, 5, 6), eagle=(("norm_before_fc", True),))
SENT = (("moe_a2a_backend", "deepep"),)

CASES = [
    Case(
        "gpt-oss adds one to ids that are boundaries, and its loop ends before the last of them",
        Wired("gpt-oss", (2, 5, 8), (2, 5, 8)),
        "HS201", "models/gpt_oss.py", f"GptOssForCausalLM.{CAUSAL}", ("0.5.2", "0.5.16"), "0.5.17",
    ),
    Case(
        "flags: the id of the last layer is an index beyond the end",
        at_end(MOE), "HS202", "models/qwen2_moe.py", f"Qwen2MoeModel.{CAUSAL}", ("0.5.6", "0.5.9", "0.5.23"),
    ),
    Case(
        "the loop of Llama never comes to the boundary after its last layer",
        at_end(LLAMA), "HS202", "models/llama.py", f"LlamaForCausalLM.{CAUSAL}", ("0.4.9.post3", "0.5.23"),
    ),
    Case(
        "graphs are recorded before the draft's ids arrive",
        Wired(LLAMA, (1, 2, 5), (2, 3, 6)), "HS205", *GRAPHS, ("0.4.9.post3", "0.5.10"), "0.5.11",
    ),
    Case(
        "the draft's ids are not read",
        FIVE, "HS401", *GRAPHS, ("0.4.6.post5",), "0.4.9.post3", proved=False,
    ),
    Case(
        "nothing but the default layers",
        FIVE, "HS202", "models/llama.py", f"LlamaForCausalLM.{CAUSAL}", ("0.4.6.post5",),
    ),
    Case(
        "ids at the top of the draft's configuration are not read",
        Wired(LLAMA, None, (2, 4, 6), top=((IDS, (2, 4, 6)),)), "HS401", *GRAPHS, ("0.4.9.post3", "0.5.9"),
    ),
    Case(
        "ids at the top of the draft's configuration are not read, by the last of the releases",
        Wired(LLAMA, None, (2, 4, 6), top=((IDS, (2, 4, 6)),)),
        "HS401", "model_executor/model_runner_components/attention_backend_setup.py", "configure_aux_hidden_state_capture",
        ("0.5.23",),
    ),
    Case(
        "DeepSeek adds one to ids that are boundaries",
        Wired(DEEPSEEK, (2, 4, 6), (2, 4, 6)),
        "HS201", "models/deepseek_v2.py", f"DeepseekV2ForCausalLM.{CAUSAL}", ("0.5.6", "0.5.12"), "0.5.13",
    ),
    Case(
        "the norm before fc is not made",
        FIVE, "HS403", "models/llama_eagle3.py", "LlamaForCausalLMEagle3", ("0.4.6.post5", "0.5.16"), "0.5.17",
    ),
    Case(
        "a draft that takes no states is given three",
        Wired(LLAMA, USUAL[0], None, eagle=(("use_aux_hidden_state", False),)),
        "HS201", "models/llama.py", f"LlamaForCausalLM.{CAUSAL}", ("0.4.9.post3", "0.5.6"), "0.5.9",
    ),
    Case(
        "fc takes three states whatever the draft says",
        FIVE, "HS302", "models/llama_eagle3.py", "LlamaModel.__init__", ("0.5.9", "0.5.11"), "0.5.12", proved=False,
    ),
    Case(
        "the wrapper of Kimi-K2.5 does not hand the request on",
        Wired(KIMI, *USUAL), "HS204", "models/kimi_k25.py", "KimiK25ForConditionalGeneration", ("0.5.9",), "0.5.10",
    ),
    Case(
        "the wrapper of Qwen3-VL does not hand the request on",
        Wired("qwen3-vl-8b", *USUAL), "HS204", "models/qwen3_vl.py", "Qwen3VLForConditionalGeneration",
        ("0.5.6", "0.5.10"), "0.5.11", proved=False,
    ),
    Case(
        "sums of DeepSeek that are reduced after they are captured",
        Wired(DEEPSEEK, *USUAL, fusion=True),
        "HS209", "models/deepseek_v2.py", "DeepseekV2Model.forward", ("0.5.6", "0.5.13"), "0.5.14",
    ),
    Case(
        "sums of GLM-4-MoE that are reduced after they are captured",
        Wired(GLM, *USUAL, fusion=True),
        "HS209", "models/glm4_moe.py", "Glm4MoeModel.forward", ("0.5.6", "0.5.20"), "0.5.23",
    ),
    Case(
        "rows of DeepSeek that other ranks have",
        Wired(DEEPSEEK, *USUAL, settings=SENT),
        "HS210", "models/deepseek_v2.py", "DeepseekV2Model.forward", ("0.5.6",), "0.5.7",
    ),
    Case(
        "rows of DeepSeek that are gathered over more ranks than share them",
        Wired(DEEPSEEK, *USUAL, settings=(("enable_dp_attention", True), ("dp_size", 8), *SENT)),
        "HS210", "models/deepseek_v2.py", "DeepseekV2Model.forward", ("0.5.9",), "0.5.10",
    ),
    Case(
        "rows of Qwen3-MoE that other ranks have",
        Wired(MOE, *USUAL, settings=SENT), "HS210", "models/qwen2_moe.py", "Qwen2MoeModel.forward", ("0.5.2",), "0.5.6",
    ),
    Case(
        "rows of GLM-4-MoE that other ranks have",
        Wired(GLM, *USUAL, settings=SENT),
        "HS210", "models/glm4_moe.py", "Glm4MoeModel.forward", ("0.5.6", "0.5.20"),
    ),
    Case(
        "rows of GLM-4-MoE that other ranks have, by the last of the releases",
        Wired(GLM, *USUAL, settings=SENT),
        "HS210", "models/glm4_moe.py", "Glm4MoeModel.forward", ("0.5.23",),
    ),
    Case(
        "Gemma3 captures what its own norm writes over",
        Wired(GEMMA, *USUAL), "HS201", "models/gemma3_causal.py", "Gemma3TextModel.forward", ("0.5.17", "0.5.23"),
    ),
    Case(
        "the streams of hyper-connections are captured beside each other",
        Wired("glm-5-next with hyper-connections", *USUAL),
        "HS301", "models/llama_eagle3.py", "LlamaModel.__init__", ("0.5.20", "0.5.23"),
    ),
]  # fmt: skip


def runs(good: bool) -> list[object]:
    found = []
    for case in CASES:
        for version in (case.good,) * bool(case.good) if good else case.bad:
            marks = () if (version, case.rule) in QUICK else (pytest.mark.long,)
            found.append(pytest.param(case, version, id=f"{version}: {case.name}", marks=marks))
    return found


@pytest.mark.parametrize(("case", "version"), runs(good=False))
def test_what_is_wrong_is_said_where_it_is(case: Case, version: str) -> None:
    answer = wired(version, case.pair)
    assert case.rule in answer.rules, answer.said()
    assert (case.file, case.symbol) in answer.at(case.rule), answer.said()
    assert not answer.is_proved


@pytest.mark.parametrize(("case", "version"), runs(good=True))
def test_what_was_mended_is_not_spoken_of(case: Case, version: str) -> None:
    answer = wired(version, case.pair)
    assert case.rule not in answer.rules, answer.said()
    assert answer.is_proved or not case.proved, answer.said()


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.5.20", "0.5.23"])
def test_without_hyper_connections_the_same_target_fits(version: str) -> None:
    answer = wired(version, Wired("glm-5-next", *USUAL))
    assert not answer.rules, answer.said()
    assert answer.is_proved, answer.said()
