"""What small draft classes take in: every edit changes one thing, and the answer follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcheck.flow.intake import intake
from flowcheck.flow.keys import key_uses, keys_of
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.width import Fit, Intake, KeyUse, NoDraftClass, Projection, Use, fits
from flowcheck.program.modules import Program
from flowcheck.source import open_source
from flowcheck.syntax import SyntaxStore
from tests.flow.draft_models import CONFIG, MODEL, PATH, write_draft_tree
from tests.flow.models import WORDS

IDS = "eagle_config.layer_ids"
WIDTH = "        width = config.hidden_size\n"
MADE = 'nn.Linear(width * 3, config.hidden_size, bias=getattr(config, "bias", False))'
ASKED = "        if hidden_states.shape[-1] != embeds.shape[-1]:\n"
TAKEN = "            hidden_states = self.fc(hidden_states)\n"


def asked(
    folder: Path, edits: dict[str, str], config: dict[str, Any] | None = None, **more: Any
) -> Intake | NoDraftClass:
    tree = open_source(str(write_draft_tree(folder, edits)))
    program = Program(SyntaxStore(tree, None))
    return intake(
        tree, program, WORDS, Scenario(settings=more.pop("settings", {})), {**CONFIG, **(config or {}), **more}
    )


def found(folder: Path, edits: dict[str, str], config: dict[str, Any] | None = None, **more: Any) -> Intake:
    answer = asked(folder, edits, config, **more)
    assert isinstance(answer, Intake)
    return answer


def layer(answer: Intake) -> Projection:
    assert answer.projection is not None, answer
    return answer.projection


def line(text: str, model: str = MODEL) -> int:
    return model[: model.index(text)].count("\n") + 1


# ------------------------------------------------------------------------------------------------ which layer, how wide
def test_the_layer_that_takes_the_states(tmp_path: Path) -> None:
    answer = found(tmp_path, {})
    assert (answer.architecture, answer.model_class, answer.open, answer.raises) == ("TinyDraft", "TinyDraft", "", None)
    assert answer.place is not None
    assert (answer.place.path, answer.place.span.line) == (PATH, line("class TinyDraft"))
    made = layer(answer)
    assert (made.path, made.in_features, made.out_features, made.bias, made.beside) == ("model.fc", 192, 64, False, 0)
    assert made.place is not None
    assert made.place.span.line == line("nn.Linear(width * 3")
    assert made.place.symbol == "Model.__init__"
    assert answer.embedding == 64
    assert answer.takes_states
    assert answer.layers is not None
    assert (answer.layers.built, answer.layers.said, answer.layers.path) == (1, 1, "model.layers")


SAME = [
    pytest.param({"self.fc = ": "self.project = ", "self.fc(": "self.project("}, "model.project", id="another name"),
    pytest.param({MADE: "nn.Linear(in_features=3 * width, out_features=width, bias=False)"}, "model.fc", id="keywords"),
    pytest.param({MADE: "ColumnLinear(width * 3, config.hidden_size)"}, "model.fc", id="a layer of the tree"),
    pytest.param({ASKED: "        if hidden_states.size(-1) != embeds.size(-1):\n"}, "model.fc", id="size"),
    pytest.param(
        {ASKED: "        if hidden_states.shape[-1] == self.fc.in_features:\n"},
        "model.fc",
        id="compared with the layer",
    ),
    pytest.param({ASKED: "        if embeds.shape != hidden_states.shape:\n"}, "model.fc", id="shapes"),
    pytest.param({ASKED + TAKEN: "        hidden_states = self.fc(hidden_states)\n"}, "model.fc", id="always taken"),
]


def test_parts_that_are_put_together_again_may_be_in_another_order(tmp_path: Path) -> None:
    given = "            hidden_states = self.fc(torch.cat(hidden_states.chunk(3, dim=-1), dim=-1))\n"
    answer = found(tmp_path, {TAKEN: given})
    assert layer(answer).path == "model.fc"
    assert "put together" in answer.altered


@pytest.mark.parametrize(("edits", "path"), SAME)
def test_however_it_is_written(tmp_path: Path, edits: dict[str, str], path: str) -> None:
    answer = found(tmp_path, edits)
    made = layer(answer)
    assert (made.path, made.in_features, answer.open, made.open) == (path, 192, "", "")
    assert made.states is not None
    assert made.width is not None
    assert (made.states.value, made.states.key, made.width.value, made.width.key) == (3, "", 64, "hidden_size")
    assert fits(192, answer).fit is Fit.FITS
    assert fits(128, answer).fit is Fit.DIFFERS


TOLD = {
    "            hidden_states = self.fc(hidden_states)\n": "            raise ValueError(hidden_states.shape)\n",
    "    def load_weights(self, weights):\n": """    def project_target_hidden(self, target_hidden):
        if target_hidden.ndim != 2 or int(target_hidden.shape[-1]) != int(self.model.fc.in_features):
            raise ValueError(target_hidden.shape)
        return self.model.norm(self.model.fc(target_hidden))

    def load_weights(self, weights):
""",
}


def test_a_method_that_a_worker_gives_the_states(tmp_path: Path) -> None:
    """The forward of such a draft is not given them: it is not asked."""
    answer = found(tmp_path, TOLD)
    made = layer(answer)
    assert (made.path, made.in_features, answer.open, made.open, answer.skips) == ("model.fc", 192, "", "", ())
    assert fits(192, answer).fit is Fit.FITS
    assert fits(128, answer).fit is Fit.DIFFERS
    lost = {"self.model.norm(self.model.fc(target_hidden))": "self.model.norm(target_hidden)"}
    (tmp_path / "other").mkdir()
    assert found(tmp_path / "other", TOLD | lost).projection is None


def test_a_plain_model_does_not_take_states(tmp_path: Path) -> None:
    answer = found(tmp_path, {}, architectures=["PlainModel"])
    assert (answer.model_class, answer.projection, answer.takes_states, answer.open) == ("PlainModel", None, False, "")
    assert fits(192, answer).fit is Fit.NOT_TAKEN


def test_an_architecture_that_nobody_registers(tmp_path: Path) -> None:
    assert asked(tmp_path, {}, architectures=["Layer"]) == NoDraftClass(("Layer",))
    assert asked(tmp_path, {}, architectures=[]) == NoDraftClass(())


def test_the_first_architecture_that_is_registered(tmp_path: Path) -> None:
    assert found(tmp_path, {}, architectures=["Nobody", "TinyDraft"]).model_class == "TinyDraft"


@pytest.mark.parametrize(
    ("written", "bias"),
    [("", False), ("bias=True", True), ("bias=config.other", None)],
    ids=["file", "true", "unknown"],
)
def test_bias(tmp_path: Path, written: str, bias: bool | None) -> None:
    edits = {'bias=getattr(config, "bias", False)': written} if written else {}
    config = {"num_attention_heads": 4}
    if written == "bias=config.other":
        edits = {'bias=getattr(config, "bias", False)': "bias=config.attention_dropout"}
    assert layer(found(tmp_path, edits, config)).bias is bias
    assert layer(found(tmp_path / "twice", edits, {**config, "bias": True})).bias is (bias if written else True)


# ------------------------------------------------------------------------------------------------- on what it depends
DEPENDS = [
    pytest.param({}, {}, 3, "", "width * 3", "hidden_size", id="a number"),
    pytest.param({"width * 3": "width * STATES"}, {}, 3, "", "", "hidden_size", id="a number of the module"),
    pytest.param({"width * 3": "width * count(config)"}, {}, 3, "", "else 3", "hidden_size", id="a default"),
    pytest.param(
        {"width * 3": "width * count(config)"},
        {"eagle_config": {"layer_ids": [1, 4, 5, 9]}},
        4, IDS, 'get("layer_ids")', "hidden_size",
        id="ids",
    ),
    pytest.param(
        {"width * 3": "width * config.num_states"}, {"num_states": 5}, 5, "num_states", "config.num_states", "hidden_size",
        id="a key",
    ),
    pytest.param(
        {WIDTH: '        width = getattr(config, "target_hidden_size", None) or config.hidden_size\n'},
        {"target_hidden_size": 96},
        3, "", "width * 3", "target_hidden_size",
        id="the target's width",
    ),
    pytest.param(
        {WIDTH: '        width = getattr(config, "target_hidden_size", None) or config.hidden_size\n'},
        {"target_hidden_size": None},
        3, "", "width * 3", "hidden_size",
        id="no width of the target",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "config", "states", "key", "text", "width"), DEPENDS)
def test_on_what_the_width_depends(
    tmp_path: Path, edits: dict[str, str], config: dict[str, Any], states: int, key: str, text: str, width: str
) -> None:
    made = layer(found(tmp_path, edits, config))
    model = MODEL
    for old, new in edits.items():
        model = model.replace(old, new)
    assert made.open == ""
    assert made.states is not None
    assert made.width is not None
    assert (made.states.value, made.states.key, made.width.key) == (states, key, width)
    assert made.in_features == states * made.width.value
    assert {p.span.line for p in made.states.places} == ({line(text, model)} if text else set())
    assert made.width.places


def test_keys_that_would_decide(tmp_path: Path) -> None:
    edits = {"width * 3": 'width * (getattr(config, "num_states", None) or count(config))'}
    assert set(layer(found(tmp_path / "a", edits)).states_keys) == {"num_states", IDS}
    assert layer(found(tmp_path / "b", edits, num_states=2)).states_keys == ()
    assert layer(found(tmp_path / "c", edits, eagle_config={"layer_ids": [1, 2]})).states_keys == ("num_states",)
    assert layer(found(tmp_path / "d", {})).states_keys == ()


def test_a_width_that_is_no_product_is_left_open(tmp_path: Path) -> None:
    made = layer(found(tmp_path / "a", {"width * 3": "width * 2 + 64"}))
    assert (made.in_features, made.states, made.width) == (192, None, None)
    assert "hidden_size" in made.open
    made = layer(found(tmp_path / "b", {"width * 3": "config.fc_width"}, fc_width=192))
    assert (made.in_features, made.width) == (192, None)
    assert made.open


# ------------------------------------------------------------------------------------------------------ left out, or not
def test_the_width_at_which_it_is_left_out(tmp_path: Path) -> None:
    answer = found(tmp_path, {})
    (skip,) = answer.skips
    assert (skip.width, [p.span.line for p in skip.places]) == (64, [line("if hidden_states.shape")])
    fact = fits(64, answer, (64, 192))
    assert (fact.fit, fact.captured, fact.taken, fact.stored, fact.loads) == (Fit.SKIPPED, 64, 192, 192, True)
    assert fact.places == skip.places


@pytest.mark.parametrize(
    "edits",
    [
        {ASKED + TAKEN: "        hidden_states = self.fc(hidden_states)\n"},
        {ASKED: "        if hidden_states.shape[-1] != 1:\n"},
        {ASKED: "        if True:\n"},
    ],
    ids=["always", "another width", "no question"],
)
def test_nothing_is_left_out(tmp_path: Path, edits: dict[str, str]) -> None:
    answer = found(tmp_path, edits)
    assert 64 not in [skip.width for skip in answer.skips]
    assert fits(64, answer).fit is Fit.DIFFERS


def test_a_choice_of_widths(tmp_path: Path) -> None:
    answer = found(tmp_path, {ASKED: "        if hidden_states.shape[-1] not in (32, embeds.shape[-1]):\n"})
    assert fits(64, answer).fit is Fit.SKIPPED
    assert fits(192, answer).fit is Fit.FITS


def test_a_state_as_wide_as_the_embedding_is_left_out_even_where_one_is_wanted(tmp_path: Path) -> None:
    answer = found(tmp_path, {"width * 3": "width"})
    assert layer(answer).in_features == 64
    assert fits(64, answer).fit is Fit.SKIPPED


MAYBE = [
    pytest.param({ASKED: "        if forward_batch.something:\n"}, id="a switch that nobody knows"),
    pytest.param({ASKED: "        if hidden_states.sum() > 0:\n"}, id="what the states hold"),
    pytest.param(
        {TAKEN: "            hidden_states = sum(self.fc(x) for x in hidden_states.chunk(3, dim=-1))\n"},
        id="part by part",
    ),
    pytest.param({"residual = hidden_states": "residual = other(hidden_states)"}, id="what is not known"),
]


@pytest.mark.parametrize("edits", MAYBE)
def test_what_is_not_certain_is_a_question(tmp_path: Path, edits: dict[str, str]) -> None:
    answer = found(tmp_path, edits)
    assert answer.open
    assert {fits(width, answer).fit for width in (64, 192, 128)} == {Fit.UNKNOWN}


def test_columns_of_the_embedding(tmp_path: Path) -> None:
    edits = {
        ASKED + TAKEN: "        hidden_states = self.fc(torch.cat([embeds, hidden_states], dim=-1))\n",
        "width * 3": "width * 2",
    }
    answer = found(tmp_path, edits)
    assert (layer(answer).in_features, layer(answer).beside, answer.open) == (128, 64, "")
    assert fits(64, answer).fit is Fit.FITS
    assert fits(192, answer).fit is Fit.DIFFERS


# ------------------------------------------------------------------------------------------------- that is never built
def test_a_constructor_that_raises(tmp_path: Path) -> None:
    guard = '        if config.num_hidden_layers != 1:\n            raise ValueError("one layer")\n'
    answer = found(tmp_path, {WIDTH: guard + WIDTH}, num_hidden_layers=2)
    assert answer.raises is not None
    assert (answer.raises.exception, answer.raises.certain, answer.projection) == ("ValueError", True, None)
    assert answer.raises.place is not None
    assert answer.raises.place.symbol == "Model.__init__"
    assert fits(192, answer).fit is Fit.UNKNOWN
    assert found(tmp_path / "one", {WIDTH: guard + WIDTH}).raises is None


def test_a_width_that_is_null(tmp_path: Path) -> None:
    answer = found(tmp_path, {WIDTH: "        width = config.target_hidden_size\n"}, target_hidden_size=None)
    assert answer.raises is not None
    assert (answer.raises.exception, answer.lacking) == ("TypeError", ())


def test_a_key_that_the_file_lacks(tmp_path: Path) -> None:
    """The rest is said as if the file wrote null there."""
    config = {k: v for k, v in CONFIG.items() if k != "draft_vocab_size"}
    tree = open_source(str(write_draft_tree(tmp_path, {})))
    answer = intake(tree, Program(SyntaxStore(tree, None)), WORDS, Scenario(), config)
    assert isinstance(answer, Intake)
    assert answer.raises is not None
    assert (answer.raises.exception, answer.lacking) == ("AttributeError", ("draft_vocab_size",))
    assert layer(answer).in_features == 192


def test_ranks_are_those_of_the_scenario(tmp_path: Path) -> None:
    guard = "        assert config.heads % get_tensor_model_parallel_world_size() == 0\n"
    helper = "def get_tensor_model_parallel_world_size():\n    return GROUP.size\n\n\nclass Layer(nn.Module)"
    edits = {WIDTH: guard + WIDTH, "class Layer(nn.Module)": helper}
    assert found(tmp_path / "a", edits, heads=4).raises is None
    assert found(tmp_path / "b", edits, heads=4, settings={"tp_size": 8}).raises is not None
    assert found(tmp_path / "c", edits, heads=8, settings={"tp_size": 8}).raises is None


@pytest.mark.parametrize(("count", "built"), [(1, 1), (3, 3)])
def test_layers(tmp_path: Path, count: int, built: int) -> None:
    answer = found(tmp_path, {}, num_hidden_layers=count)
    assert answer.layers is not None
    assert (answer.layers.built, answer.layers.said) == (built, count)
    one = found(tmp_path / "one", {"range(config.num_hidden_layers)": "range(1)"}, num_hidden_layers=count).layers
    assert one is not None
    assert (one.built, one.said) == (1, count)


# ---------------------------------------------------------------------------------------------------------------- weights
@pytest.mark.parametrize(("stored", "loads"), [(None, None), ((64, 192), True), ((64, 320), False), ((32, 192), False)])
def test_what_the_checkpoint_holds(tmp_path: Path, stored: tuple[int, int] | None, loads: bool | None) -> None:
    answer = found(tmp_path, {})
    assert fits(192, answer, stored).loads is loads
    assert fits(None, answer, stored).fit is Fit.UNKNOWN


# ------------------------------------------------------------------------------------------------------------------- keys
def uses(
    folder: Path,
    edits: dict[str, str],
    config: dict[str, Any],
    keys: tuple[str, ...],
    files: dict[str, str] | None = None,
) -> dict[str, KeyUse]:
    tree = open_source(str(write_draft_tree(folder, edits, files)))
    program = Program(SyntaxStore(tree, None))
    answer = intake(tree, program, WORDS, Scenario(), {**CONFIG, **config})
    assert isinstance(answer, Intake)
    return {use.key: use for use in key_uses(program, WORDS, answer, (), keys)}


def test_keys_of_a_file() -> None:
    assert keys_of({"a": 1, "b": {"c": [1], "d": {"e": 2}}}) == ("a", "b", "b.c", "b.d", "b.d.e")


def test_keys_that_are_read(tmp_path: Path) -> None:
    edits = {"width * 3": "width * count(config)"}
    keys = ("norm_output", "bias", IDS, "hidden_size", "layer_ids", "norm_before_fc", "eagle_config.norm_output")
    found_ = uses(tmp_path, edits, {"eagle_config": {"layer_ids": [1, 2, 3]}}, keys)
    assert {key: use.use for key, use in found_.items()} == {
        "norm_output": Use.READ, "bias": Use.READ, IDS: Use.READ, "hidden_size": Use.READ,
        "layer_ids": Use.IGNORED, "norm_before_fc": Use.IGNORED, "eagle_config.norm_output": Use.IGNORED,
    }  # fmt: skip
    assert [(p.path, p.span.line) for p in found_[IDS].places] == [(PATH, line('get("layer_ids")'))]


READERS = [
    pytest.param("def f(c):\n    return c.norm_before_fc\n", True, id="an attribute"),
    pytest.param('def f(c):\n    return c["norm_before_fc"]\n', True, id="a string"),
    pytest.param("class Options:\n    norm_before_fc: bool = False\n", True, id="a field"),
    pytest.param("def f(*, norm_before_fc=False):\n    return norm_before_fc\n", True, id="a parameter"),
    pytest.param("def f(c):\n    return c.norm_before_fc_too\n", False, id="a longer name"),
    pytest.param(
        'def f(c):\n    """norm_before_fc"""\n    # c.norm_before_fc\n    return 1\n', True, id="a docstring alone"
    ),
    pytest.param('def f(c):\n    """Not norm_before_fc."""\n    # c.norm_before_fc\n    return 1\n', False, id="prose"),
    pytest.param("def f(c):\n    norm_before_fc = c.x\n    return g(norm_before_fc)\n", False, id="a local variable"),
    pytest.param("EntryClass = []\n\n\ndef f(c):\n    return c.norm_before_fc\n", False, id="another model"),
    pytest.param("def f(c:\n    norm_before_fc\n", True, id="a file that is broken"),
]


@pytest.mark.parametrize(("text", "may"), READERS)
def test_code_that_was_not_followed(tmp_path: Path, text: str, may: bool) -> None:
    files = {"sglang/srt/other.py": text}
    use = uses(tmp_path, {}, {"norm_before_fc": True}, ("norm_before_fc",), files)["norm_before_fc"]
    assert use.use is (Use.OPEN if may else Use.IGNORED)
    assert {path for path, _ in use.spelled} == ({"sglang/srt/other.py"} if may else set())


def test_a_model_file_that_the_draft_imports(tmp_path: Path) -> None:
    other = "EntryClass = []\n\n\ndef option(c):\n    return c.norm_before_fc\n"
    edits = {
        "STATES = 3\n": "STATES = 3\n\n\ndef late(c):\n    from sglang.srt.models.base import option\n\n    return option(c)\n"
    }
    files = {"sglang/srt/models/base.py": other}
    assert uses(tmp_path, edits, {}, ("norm_before_fc",), files)["norm_before_fc"].use is Use.OPEN


def test_a_method_of_the_draft_that_was_not_followed(tmp_path: Path) -> None:
    edits = {"    def forward(self, input_ids, positions, forward_batch):\n        hidden_states, captured": (
        "    def set_embed(self, embed):\n        return self.config.shared\n\n"
        "    def forward(self, input_ids, positions, forward_batch):\n        hidden_states, captured"
    )}  # fmt: skip
    assert uses(tmp_path, edits, {}, ("shared",))["shared"].use is Use.OPEN
