"""Which tensors the loaders of small draft classes take: every edit changes one thing, and the answer follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcheck.flow.loading import loading
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.width import Loading, NoDraftClass
from flowcheck.program.modules import Program
from flowcheck.source import open_source
from flowcheck.syntax import SyntaxStore
from tests.flow.draft_models import CONFIG, MODEL, PATH, write_draft_tree
from tests.flow.models import WORDS

NAMES = {
    "fc.weight": (64, 192),
    "midlayer.hidden_norm.weight": (64,),
    "norm.weight": (64,),
    "embed_tokens.weight": (256, 64),
}
TAKE = "                loader(parameter, loaded)\n"


def loaded(folder: Path, edits: dict[str, str], *more: str, **config: Any) -> Loading:
    tree = open_source(str(write_draft_tree(folder, edits)))
    tensors = {**NAMES, **dict.fromkeys(more, (8, 64))}
    answer = loading(tree, Program(SyntaxStore(tree, None)), WORDS, Scenario(), {**CONFIG, **config}, tensors)
    assert isinstance(answer, Loading)
    return answer


def taken(answer: Loading) -> dict[str, bool | None]:
    return {use.name: use.taken for use in answer.tensors}


def test_every_tensor_goes_into_its_parameter(tmp_path: Path) -> None:
    answer = loaded(tmp_path, {}, "d2t", "t3d", "midlayer.other.weight", "model.fc.weight")
    assert {use.name: use.parameters for use in answer.tensors if use.taken} == {
        "fc.weight": ("model.fc.weight",),
        "model.fc.weight": ("model.fc.weight",),
        "midlayer.hidden_norm.weight": ("model.layers.0.hidden_norm.weight",),
        "norm.weight": ("model.norm.weight",),
        "embed_tokens.weight": ("model.embed_tokens.weight",),
        "d2t": (),
    }
    assert [use.name for use in answer.tensors if use.taken is False] == ["t3d", "midlayer.other.weight"]
    assert (answer.left, answer.open) == ((), "")
    assert answer.place is not None
    line = MODEL[: MODEL.index("def load_weights")].count("\n") + 1
    assert (answer.place.path, answer.place.span.line) == (PATH, line)


def test_names_that_the_loader_does_not_know(tmp_path: Path) -> None:
    answer = loaded(tmp_path, {'name.replace("midlayer", "layers.0")': "name"})
    assert taken(answer) == {**dict.fromkeys(NAMES, True), "midlayer.hidden_norm.weight": False}
    assert answer.left == ("model.layers.0.hidden_norm.weight",)


def test_parameters_without_a_tensor(tmp_path: Path) -> None:
    answer = loaded(tmp_path, {}, num_hidden_layers=2, bias=True)
    assert set(answer.left) == {"model.layers.1.hidden_norm.weight", "model.fc.bias"}


def test_what_two_names_lead_to_has_the_first(tmp_path: Path) -> None:
    edits = {"        self.rows = config.draft_vocab_size\n": "        self.lm_head = self.model.embed_tokens\n"}
    answer = loaded(tmp_path, edits, "lm_head.weight")
    assert taken(answer) == {**dict.fromkeys(NAMES, True), "lm_head.weight": False}
    assert answer.left == ()


WAYS = [
    pytest.param({TAKE: "                default_weight_loader(parameter, loaded)\n"}, True, id="a loader of the tree"),
    pytest.param({TAKE: "                parameter.data.copy_(loaded)\n"}, True, id="a copy"),
    pytest.param({TAKE: "                self.kept = loaded\n"}, True, id="an attribute"),
    pytest.param({TAKE: "                self.kept = {name: loaded}\n"}, True, id="a dictionary that is kept"),
    pytest.param({TAKE: "                kept = {name: loaded}\n"}, False, id="a dictionary that is dropped"),
    pytest.param({TAKE: "                pass\n"}, False, id="nothing"),
    pytest.param({TAKE: "                unknown(parameter, loaded)\n"}, None, id="a loader that nobody knows"),
    pytest.param({TAKE: "                raise ValueError(name)\n"}, None, id="a loader that raises"),
]


@pytest.mark.parametrize(("edits", "answer"), WAYS)
def test_how_a_tensor_is_taken(tmp_path: Path, edits: dict[str, str], answer: bool | None) -> None:
    found = loaded(tmp_path, edits)
    said = taken(found)["fc.weight"]
    assert said is answer or (answer is None and said is not False)
    assert ("model.fc.weight" in found.left) is ("kept" in str(edits) or "pass" in str(edits))


def test_tensors_that_the_loader_waits_for(tmp_path: Path) -> None:
    edits = {
        "        parameters = dict(self.named_parameters())\n": "        parameters, parts = dict(self.named_parameters()), {}\n",
        "            name = name.replace(": (
            '            if name in ("a", "b"):\n                parts[name] = loaded\n                if len(parts) == 2:\n'
            '                    both = torch.cat([parts["a"], parts["b"]], dim=0)\n'
            '                    parameter = parameters["model.fc.weight"]\n'
            "                    parameter.weight_loader(parameter, both)\n                continue\n"
            "            name = name.replace("
        ),
    }
    answer = loaded(tmp_path / "a", edits, "a", "b")
    assert [use.parameters for use in answer.tensors if use.name in ("a", "b")] == [("model.fc.weight",)] * 2
    assert taken(loaded(tmp_path / "b", edits, "a"))["a"] is False


def test_a_loader_that_takes_whatever_there_is(tmp_path: Path) -> None:
    answer = loaded(tmp_path, {"            if name in parameters:\n": "            if other(name):\n"})
    assert set(taken(answer).values()) == {None}
    assert (answer.left, bool(answer.open)) == ((), True)


def test_a_draft_that_is_not_made(tmp_path: Path) -> None:
    answer = loaded(tmp_path, {"        width = config.hidden_size\n": "        raise ValueError\n"})
    assert (answer.tensors, bool(answer.open)) == ((), True)
    tree = open_source(str(write_draft_tree(tmp_path, {})))
    config = {**CONFIG, "architectures": ["Nobody"]}
    program = Program(SyntaxStore(tree, None))
    assert loading(tree, program, WORDS, Scenario(), config, NAMES) == NoDraftClass(("Nobody",))
