"""Target classes without a setter around text models that would capture, if only somebody told them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flowcheck.checks.class_wiring import class_ends, class_findings
from flowcheck.checks.rules import load_rules
from flowcheck.flow.classes import class_facts
from flowcheck.flow.scenario import Scenario
from flowcheck.source import open_source
from tests.flow.trees import FIXTURES

MODELS = "sglang/srt/models"
NAME = "PicturedLlamaForConditionalGeneration"
WRAPPER = '''"""A text model behind a tower of pictures. Captured states go by `layers_to_capture` of the text model."""
from torch import nn
from sglang.srt.layers.logits_processor import LogitsProcessor
from sglang.srt.layers.vocab_parallel_embedding import ParallelLMHead
from sglang.srt.models.llama import LlamaModel


class PicturedLlamaForConditionalGeneration(nn.Module):
    def __init__(self, config, quant_config=None, prefix: str = ""):
        super().__init__()
        self.model = LlamaModel(config)
        self.lm_head = ParallelLMHead(config.vocab_size, config.hidden_size)
        self.logits_processor = LogitsProcessor(config)

    def forward(self, input_ids, positions, forward_batch):
        hidden_states = self.model(input_ids, positions, forward_batch)
        return self.logits_processor(input_ids, hidden_states, self.lm_head, forward_batch)
MORE

EntryClass = PicturedLlamaForConditionalGeneration
'''
LATENT = """
    def logits(self, hidden_states):
        if self.capture_aux_hidden_states:
            hidden_states, aux_hidden_states = hidden_states
        return hidden_states
"""


def answers(tmp_path: Path, wrapper: str, elsewhere: str = "") -> set[tuple[str, str]]:
    """The rules and messages about the wrapper, in a copy of the healthy tree."""
    root = tmp_path / "tree"
    shutil.copytree(FIXTURES / "classes-healthy", root)
    (root / MODELS / "pictured_llama.py").write_text(wrapper, "utf-8")
    if elsewhere:
        (root / "sglang/srt/model_executor/told.py").write_text(elsewhere, "utf-8")
    ends = class_ends(class_facts(open_source(str(root)), Scenario(), only=(NAME,)))
    return {(finding.rule, finding.message) for finding in class_findings(ends, load_rules())}


def test_a_text_model_that_nobody_tells_is_a_finding(tmp_path: Path) -> None:
    ((rule, message),) = answers(tmp_path, WRAPPER.replace("MORE", ""))
    assert rule == "HS206"
    assert "model.layers_to_capture" in message


def test_a_flag_of_the_class_itself_that_nobody_sets_is_a_finding(tmp_path: Path) -> None:
    made = "LogitsProcessor(config)\n        self.capture_aux_hidden_states = False"
    text = WRAPPER.replace("LogitsProcessor(config)", made).replace("MORE", LATENT)
    ((rule, message),) = answers(tmp_path, text)
    assert rule == "HS206"
    assert "capture_aux_hidden_states" in message


@pytest.mark.parametrize(
    "more",
    [
        "\n    def tell(self, ids):\n        self.model.layers_to_capture, self.model.capture_embedding_for_eagle3 = ids, True\n",
        "\n    def set_dflash_layers_to_capture(self, ids):\n        self.model.layers_to_capture = ids\n",
        "\n    def set_eagle3_layers_to_capture(self, ids=None):\n        self.model.layers_to_capture = ids\n",
    ],
    ids=["another-method", "another-algorithm", "a-setter"],
)
def test_what_something_sets_is_no_such_finding(tmp_path: Path, more: str) -> None:
    found = answers(tmp_path, WRAPPER.replace("MORE", more))
    assert not any("nothing sets" in message for _, message in found)


@pytest.mark.parametrize(
    "line",
    [
        "model.layers_to_capture = ids",
        "model.layers_to_capture.extend(ids)",
        'setattr(model, "layers_to_capture", ids)',
    ],
)
def test_what_a_runner_sets_is_no_such_finding(tmp_path: Path, line: str) -> None:
    rest = "    model.capture_embedding_for_eagle3 = True\n"
    assert answers(tmp_path, WRAPPER.replace("MORE", ""), f"def tell(model, ids):\n    {line}\n{rest}") == set()


def test_a_runner_that_only_looks_sets_nothing(tmp_path: Path) -> None:
    looks = 'def look(model):\n    return getattr(model, "layers_to_capture", None), hasattr(model.model, "layers_to_capture")\n'
    ((rule, message),) = answers(tmp_path, WRAPPER.replace("MORE", ""), looks)
    assert (rule, "model.layers_to_capture" in message) == ("HS206", True)


def test_a_forward_that_is_overridden_captures_nothing(tmp_path: Path) -> None:
    plain = "class Plain(LlamaModel):\n    def forward(self, input_ids, positions, forward_batch):\n"
    plain += "        return self.embed_tokens(input_ids)\n\n\nclass Pictured"
    text = WRAPPER.replace("MORE", "").replace("class Pictured", plain).replace("LlamaModel(config)", "Plain(config)")
    assert answers(tmp_path, text) == set()


def test_a_class_that_makes_no_logits_is_no_target(tmp_path: Path) -> None:
    text = WRAPPER.replace("MORE", "").replace("LogitsProcessor", "Pooler")
    text = text.replace("import Pooler", "import LogitsProcessor as Pooler")
    assert answers(tmp_path, text) == set()


def test_a_list_that_is_filled_when_the_class_is_made_is_no_such_finding(tmp_path: Path) -> None:
    filled = "LlamaModel(config)\n        self.model.layers_to_capture = [1]"
    filled += "\n        self.model.capture_embedding_for_eagle3 = True"
    assert answers(tmp_path, WRAPPER.replace("MORE", "").replace("LlamaModel(config)", filled)) == set()
