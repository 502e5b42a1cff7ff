"""Small SGLang-shaped trees of model classes, and instances of what they register."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from flowcheck.data import rules_dir
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.stack import with_deep_stack
from flowcheck.flow.targets import Target, model_interpreter, target_of
from flowcheck.flow.vocabulary import load_vocabulary
from flowcheck.interp import attributes
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.values import Known, Ref, Value
from flowcheck.program.modules import Program
from flowcheck.source import Tree, cache_root, open_source
from flowcheck.syntax import SyntaxCache, SyntaxStore

WORDS = load_vocabulary(rules_dir() / "vocabulary.toml")
CONFIGS = Path(__file__).resolve().parents[2] / "fixtures" / "pairs"
T = TypeVar("T")

SUPPORT = {
    "sglang/__init__.py": "",
    "sglang/srt/managers/schedule_batch.py": "import enum\n",
    "sglang/srt/distributed.py": "def get_pp_group():\n    return _PP\n\n\n_PP = None\n",
    "sglang/srt/utils.py": """\
import torch

from sglang.srt.distributed import get_pp_group


class PPMissingLayer(torch.nn.Identity):
    pass


def add_prefix(name, prefix):
    return f"{prefix}.{name}" if prefix else str(name)


def make_layers(num_hidden_layers, layer_fn, pp_rank=None, pp_size=None, prefix=""):
    start, end = 0, num_hidden_layers
    layers = torch.nn.ModuleList(
        [PPMissingLayer() for _ in range(start)]
        + list(layer_fn(idx=i, prefix=add_prefix(i, prefix)) for i in range(start, end))
        + [PPMissingLayer() for _ in range(end, num_hidden_layers)]
    )
    return layers, start, end
""",
    "sglang/srt/model_executor/forward_batch_info.py": """\
from enum import IntEnum, auto


class CaptureHiddenMode(IntEnum):
    NULL = auto()
    LAST = auto()
    FULL = auto()


class ForwardMode(IntEnum):
    EXTEND = auto()
    DECODE = auto()
    IDLE = auto()
    TARGET_VERIFY = auto()
""",
}

MODEL = """\
from torch import nn

from sglang.srt.distributed import get_pp_group
from sglang.srt.utils import add_prefix, make_layers


class Layer(nn.Module):
    def __init__(self, config, layer_id, prefix=""):
        super().__init__()
        self.layer_id = layer_id
        self._is_layer_to_capture = False


class Model(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.config = config
        self.pp_group = get_pp_group()
        self.layers, self.start_layer, self.end_layer = make_layers(
            config.num_hidden_layers,
            lambda idx, prefix: Layer(config, layer_id=idx, prefix=prefix),
            pp_rank=self.pp_group.rank_in_group,
            pp_size=self.pp_group.world_size,
            prefix=add_prefix("layers", prefix),
        )
        self.layers_to_capture = []
{model_methods}

class TinyForCausalLM(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.config = config
        self.pp_group = get_pp_group()
        self.model = Model(config, quant_config, prefix=add_prefix("model", prefix))
        self.capture_aux_hidden_states = False
{methods}

class OtherForCausalLM(TinyForCausalLM):
    pass


class Vision(nn.Module):
    def __init__(self, config):
        raise RuntimeError("nobody asks for a vision tower")


class WrapperForConditionalGeneration(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.config = config
        self.vision_tower = Vision(config.vision_config)
        self.language_model = TinyForCausalLM(config.text_config, quant_config)
{wrapper_methods}

EntryClass = [TinyForCausalLM, OtherForCausalLM, WrapperForConditionalGeneration]
"""

DEEP = {"architectures": ["TinyForCausalLM"], "model_type": "tiny", "num_hidden_layers": 61, "hidden_size": 64}
NESTED = {
    "architectures": ["WrapperForConditionalGeneration"],
    "text_config": {"num_hidden_layers": 12, "hidden_size": 64},
    "vision_config": {"num_hidden_layers": 27},
}


def indented(text: str, depth: int = 4) -> str:
    return "".join(f"{' ' * depth}{line}\n" if line.strip() else "\n" for line in text.splitlines())


def tiny_tree(root: Path, methods: str = "", model_methods: str = "", wrapper_methods: str = "") -> Path:
    """A tree with one model family; the methods go into its classes."""
    text = MODEL.format(
        methods=indented(methods), model_methods=indented(model_methods), wrapper_methods=indented(wrapper_methods)
    )
    for path, content in {**SUPPORT, "sglang/srt/models/tiny.py": text}.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, "utf-8")
    return root


@contextmanager
def opened(source: str) -> Iterator[Tree]:
    with open_source(source) as tree:
        yield tree


def interpreter_of(tree: Tree, cached: bool = False) -> Interpreter:
    cache = SyntaxCache(cache_root() / "syntax") if cached else None
    return model_interpreter(Program(SyntaxStore(tree, cache)), WORDS, Scenario())


def built(it: Interpreter, raw: Mapping[str, Any]) -> Target:
    return target_of(it, WORDS, raw["architectures"], raw)


def deep(work: Callable[[], T]) -> T:
    return with_deep_stack(work)


def read(it: Interpreter, v: Value, path: str, st: State | None = None) -> Value | None:
    """``v.path`` (dots lead on); None where reading raises."""
    frame = it.module_frame(next(iter(it.program.corpus.modules_with("torch"))))
    with it.outside():
        for name in path.split("."):
            try:
                v = attributes.get(it, v, name, frame, st or it.base_state)
            except Dead:
                return None
    return v


def obj_of(it: Interpreter, v: Value | None) -> Obj:
    assert isinstance(v, Ref)
    return it.base_state.obj(v.oid)


def numbers(values: Sequence[Value]) -> list[Any]:
    return [v.value if isinstance(v, Known) else repr(v) for v in values]


def target_config(name: str) -> dict[str, Any]:
    return json.loads((CONFIGS / "targets" / f"{name}.json").read_text("utf-8"))  # type: ignore[no-any-return]
