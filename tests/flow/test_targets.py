"""Targets: which class the tree registers for a name, and what an instance of it knows of its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcheck.flow.targets import NoTarget
from flowcheck.interp import attributes, calls
from flowcheck.interp.values import NONE, Known, Unknown, Value
from tests.flow.models import DEEP, NESTED, built, deep, interpreter_of, obj_of, opened, read, tiny_tree


def test_layers_and_ranks_come_out_right(tmp_path: Path) -> None:
    def work() -> None:
        with opened(str(tiny_tree(tmp_path))) as tree:
            it = interpreter_of(tree)
            target = built(it, DEEP)
            assert target.cls.name == "TinyForCausalLM"
            assert read(it, target.instance, "config.num_hidden_layers") == Known(61)
            layers = obj_of(it, read(it, target.instance, "model.layers"))
            assert len(layers.items) == 61
            ids = [read(it, layer, "layer_id") for layer in layers.items]
            assert ids == [Known(i) for i in range(61)]
            assert read(it, target.instance, "pp_group.is_last_rank") == Known(True)

    deep(work)


def test_a_subclass_without_a_body_is_registered_too(tmp_path: Path) -> None:
    def work() -> None:
        with opened(str(tiny_tree(tmp_path))) as tree:
            it = interpreter_of(tree)
            target = built(it, {**DEEP, "architectures": ["Unheard", "OtherForCausalLM"]})
            assert target.architecture == "OtherForCausalLM"
            assert len(obj_of(it, read(it, target.instance, "model.layers")).items) == 61

    deep(work)


def test_a_wrapper_takes_its_text_part_and_leaves_the_tower_alone(tmp_path: Path) -> None:
    def work() -> None:
        with opened(str(tiny_tree(tmp_path))) as tree:
            it = interpreter_of(tree)
            target = built(it, NESTED)
            assert len(obj_of(it, read(it, target.instance, "language_model.model.layers")).items) == 12
            assert read(it, target.instance, "config.num_hidden_layers") == Known(12), "the tree copies it to the top"
            assert read(it, target.instance, "config.vision_config.num_hidden_layers") == Known(27)

    deep(work)


def test_what_a_file_does_not_write_is_unknown_and_what_a_module_does_not_store_is_absent(tmp_path: Path) -> None:
    def work() -> None:
        with opened(str(tiny_tree(tmp_path))) as tree:
            it = interpreter_of(tree)
            target = built(it, DEEP)
            value = read(it, target.instance, "config.rope_theta")
            assert isinstance(value, Unknown)
            assert "does not write rope_theta" in value.reason
            assert read(it, target.instance, "language_model") is None

    deep(work)


def test_a_class_that_is_not_registered_is_no_target(tmp_path: Path) -> None:
    def work() -> None:
        with opened(str(tiny_tree(tmp_path))) as tree:
            it = interpreter_of(tree)
            with pytest.raises(NoTarget, match="registers no model class for Model"):
                built(it, {**DEEP, "architectures": ["Model"]})

    deep(work)


@pytest.mark.parametrize("registered", [True, False])
def test_the_trees_own_class_of_a_configuration_gives_its_defaults(tmp_path: Path, registered: bool) -> None:
    """A class that nothing outside its module names is not how a whole file is read."""

    def work() -> None:
        root = tiny_tree(tmp_path)
        path = root / "sglang/srt/configs/tiny.py"
        path.parent.mkdir(parents=True)
        path.write_text(
            "from transformers import PretrainedConfig\n\n\n"
            "class TinyVisionConfig(PretrainedConfig):\n"
            '    model_type = "tiny"\n\n'
            "    def __init__(self, depth=7, **kwargs):\n        self.depth = depth\n\n\n"
            "class TinyConfig(PretrainedConfig):\n"
            '    model_type = "tiny"\n\n'
            "    def __init__(self, num_hidden_layers=24, interval=4, **kwargs):\n"
            "        self.num_hidden_layers = num_hidden_layers\n"
            "        self.interval = interval\n"
            "        super().__init__(**kwargs)\n\n"
            "    @property\n    def full(self):\n"
            "        return [i for i in range(self.num_hidden_layers) if (i + 1) % self.interval == 0]\n",
            "utf-8",
        )
        if registered:
            path.with_name("registry.py").write_text("from sglang.srt.configs.tiny import TinyConfig\n", "utf-8")
        with opened(str(root)) as tree:
            it = interpreter_of(tree)
            target = built(it, {**DEEP, "num_hidden_layers": 8})
            assert read(it, target.config, "num_hidden_layers") == Known(8)
            if not registered:
                assert isinstance(read(it, target.config, "interval"), Unknown)
                return
            assert read(it, target.config, "interval") == Known(4)
            assert obj_of(it, read(it, target.config, "full")).items == [Known(3), Known(7)]
            assert isinstance(read(it, target.config, "depth"), Unknown)

    deep(work)


def test_the_text_part_of_a_configuration_is_what_its_class_gives(tmp_path: Path) -> None:
    """A configuration without parts is its own text part; one with a part that is not the text's may have any."""

    def work() -> None:
        with opened(str(tiny_tree(tmp_path))) as tree:
            it = interpreter_of(tree)

            def given_by(raw: dict[str, Any]) -> tuple[Value, Value, Value]:
                config = read(it, built(it, raw).instance, "config")
                frame = it.module_frame(built(it, raw).cls.module)
                method = attributes.get(it, config, "get_text_config", frame, it.base_state)
                text = calls.call(it, method, [], {"decoder": Known(True)}, it.base_state, None, frame)
                part = attributes.get_or(it, config, "text_config", NONE, frame, it.base_state)
                return config, part, text

            config, _, text = given_by(DEEP)
            assert text == config
            config, part, text = given_by(NESTED)
            assert text == part
            assert text != config
            config, _, text = given_by({**DEEP, "vision_config": {"num_hidden_layers": 27}})
            assert isinstance(text, Unknown)

    deep(work)
