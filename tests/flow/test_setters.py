"""Setters of every shape: lists, flags, delegation, filters, embedding flags, and what they leave on the model's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from flowcheck.flow.requested import Requested
from flowcheck.flow.setters import capture_requests
from tests.flow.models import DEEP, NESTED, WORDS, built, deep, interpreter_of, opened, tiny_tree

LIST = """
def set_eagle3_layers_to_capture(self, layer_ids=None):
    if not self.pp_group.is_last_rank:
        return
    self.capture_aux_hidden_states = True
    if layer_ids is None:
        num_layers = self.config.num_hidden_layers
        self.model.layers_to_capture = [2, num_layers // 2, num_layers - 3]
    else:
        self.model.layers_to_capture = [val + 1 for val in layer_ids]
"""
FLAGS = """
def set_eagle3_layers_to_capture(self, layer_ids=None):
    num_layers = self.config.num_hidden_layers
    given = [2, num_layers // 2, num_layers - 3] if layer_ids is None else [val + 1 for val in layer_ids]
    self.model.set_eagle3_layers_to_capture(given)
"""
INNER = """
def set_eagle3_layers_to_capture(self, layers_to_capture):
    self.layers_to_capture = layers_to_capture
    for layer_id in self.layers_to_capture:
        setattr(self.layers[layer_id], "_is_layer_to_capture", True)
"""
STORY = """
def set_eagle3_layers_to_capture(self, layer_ids=None):
    self.capture_aux_hidden_states = True
    if layer_ids is None:
        num_layers = self.config.num_hidden_layers
        self.model.layers_to_capture = [2, num_layers // 2, num_layers - 3]
        return
    if -1 in layer_ids:
        self.model.capture_embedding_for_eagle3 = True
    self.model.layers_to_capture = [val + 1 for val in layer_ids if val != -1]
"""
DELEGATE = """
def set_eagle3_layers_to_capture(self, layer_ids=None):
    if hasattr(self.language_model, "set_eagle3_layers_to_capture"):
        self.language_model.set_eagle3_layers_to_capture(layer_ids)
"""
STRICT = """
def set_eagle3_layers_to_capture(self, layer_ids=None):
    if not hasattr(self.language_model, "set_eagle3_layers_to_capture"):
        raise AttributeError("language_model does not support EAGLE3")
    self.language_model.set_eagle3_layers_to_capture(layer_ids)
"""


def asked(
    root: Path, calls: Sequence[Sequence[int] | None], raw: Mapping[str, Any] = DEEP, **methods: str
) -> Requested:
    return asked_of(tiny_tree(root, **methods), calls, raw)


def asked_of(root: Path, calls: Sequence[Sequence[int] | None], raw: Mapping[str, Any] = DEEP) -> Requested:
    def work() -> Requested:
        with opened(str(root)) as tree:
            it = interpreter_of(tree)
            return capture_requests(it, WORDS, built(it, raw), calls)

    return deep(work)


def rebased(root: Path, base: str, line: str, methods: str = "") -> Path:
    """The tree with one model family, whose class has other bases, imported by this line."""
    path = tiny_tree(root, methods) / "sglang/srt/models/tiny.py"
    text = path.read_text("utf-8").replace("class TinyForCausalLM(nn.Module)", f"class TinyForCausalLM({base})")
    path.write_text(f"{line}\n{text}", "utf-8")
    return root


def test_a_list_is_shifted_as_the_tree_shifts_it(tmp_path: Path) -> None:
    found = asked(tmp_path, [[2, 30, 58]], methods=LIST)
    assert found.positions == (3, 31, 59)
    assert found.is_exact
    assert [(s.owner, s.attribute, s.value) for s in found.settings] == [("", "capture_aux_hidden_states", True)]
    (place,) = found.lists[0].places
    assert place.path.endswith("models/tiny.py")
    assert place.symbol == "TinyForCausalLM.set_eagle3_layers_to_capture"


def test_without_ids_the_tree_takes_its_default(tmp_path: Path) -> None:
    assert asked(tmp_path, [None], methods=LIST).positions == (2, 30, 58)


def test_a_list_is_replaced_by_the_next_call(tmp_path: Path) -> None:
    assert asked(tmp_path, [None, [2, 30, 40]], methods=LIST).positions == (3, 31, 41)


def test_flags_of_two_calls_are_their_union_and_disagree_with_the_list(tmp_path: Path) -> None:
    found = asked(tmp_path, [None, [2, 30, 40]], methods=FLAGS, model_methods=INNER)
    assert [(f.owner, f.attribute, f.indices) for f in found.flags] == [
        ("model.layers", "_is_layer_to_capture", (2, 3, 30, 31, 41, 58))
    ]
    assert found.lists[0].values == (3, 31, 41)
    assert found.positions is None, "the model's forward decides which of the two it reads"


def test_a_flag_beyond_the_last_layer_raises_with_its_place(tmp_path: Path) -> None:
    found = asked(tmp_path, [[3, 11, 60]], methods=FLAGS, model_methods=INNER)
    assert not found.returns
    assert [(r.exception, r.certain) for r in found.raised] == [("IndexError", True)]
    place = found.raised[0].place
    assert place is not None
    assert place.symbol == "Model.set_eagle3_layers_to_capture"


def test_negative_ids_count_from_the_end_where_flags_are_set(tmp_path: Path) -> None:
    found = asked(tmp_path, [[-3]], methods=FLAGS, model_methods=INNER)
    assert found.flags[0].indices == (59,)


def test_the_setter_of_the_story_drops_minus_one_and_asks_for_the_embedding(tmp_path: Path) -> None:
    found = asked(tmp_path, [[-1, 2, 30]], methods=STORY)
    assert found.positions == (3, 31)
    assert ("model", "capture_embedding_for_eagle3", True) in {(s.owner, s.attribute, s.value) for s in found.settings}
    right = asked(tmp_path / "twin", [[2, 30, 58]], methods=STORY)
    assert right.positions == (3, 31, 59)
    assert {s.attribute for s in right.settings} == {"capture_aux_hidden_states"}


def test_a_wrapper_delegates(tmp_path: Path) -> None:
    found = asked(tmp_path, [[1, 5]], NESTED, methods=LIST, wrapper_methods=DELEGATE)
    assert [(p.owner, p.values) for p in found.lists] == [("language_model.model", (2, 6))]


def test_a_wrapper_that_finds_nothing_to_delegate_to_asks_nothing_or_raises(tmp_path: Path) -> None:
    silent = asked(tmp_path, [[1, 5]], NESTED, wrapper_methods=DELEGATE)
    assert silent.returns
    assert silent.asks_nothing
    loud = asked(tmp_path / "twin", [[1, 5]], NESTED, wrapper_methods=STRICT)
    assert not loud.returns
    assert [(r.exception, r.certain) for r in loud.raised] == [("AttributeError", True)]
    assert loud.missing is None


def test_a_wrapper_without_a_hook_says_which_part_has_one(tmp_path: Path) -> None:
    found = asked(tmp_path, [[1, 5]], NESTED, methods=LIST)
    assert found.missing is not None
    assert found.missing.model_class == "WrapperForConditionalGeneration"
    assert found.missing.inner == ("language_model",)
    assert not found.returns


def test_a_class_without_a_hook_has_none(tmp_path: Path) -> None:
    found = asked(tmp_path, [None])
    assert found.missing is not None
    assert found.missing.inner == ()


@pytest.mark.parametrize("base", ["PreTrainedModel", "nn.Module, GenerationMixin"])
def test_classes_of_other_packages_give_no_hook(tmp_path: Path, base: str) -> None:
    """What transformers publishes knows nothing of the methods by which a server tells its targets."""
    found = asked_of(rebased(tmp_path, base, "from transformers import GenerationMixin, PreTrainedModel"), [[1, 5]])
    assert found.missing is not None
    assert (found.missing.model_class, found.returns) == ("TinyForCausalLM", False)
    told = asked_of(
        rebased(tmp_path / "twin", base, "from transformers import GenerationMixin, PreTrainedModel", LIST), [[1, 5]]
    )
    assert told.positions == (2, 6)


def test_a_base_of_nobody_knows_whom_may_have_a_hook(tmp_path: Path) -> None:
    found = asked_of(rebased(tmp_path, "Framed", "from framework import Framed"), [[1, 5]])
    assert found.missing is None
    assert found.returns


def test_what_is_stored_on_something_unknown_is_unclear(tmp_path: Path) -> None:
    setter = (
        "def set_eagle3_layers_to_capture(self, layer_ids=None):\n    self.model.norm_of_nobody().captures = True\n"
    )
    found = asked(tmp_path, [[1]], methods=setter, model_methods="def norm_of_nobody(self):\n    return open('x')\n")
    assert not found.is_exact
    assert [(u.owner, u.attribute) for u in found.unclear] == [("?", "captures")]
