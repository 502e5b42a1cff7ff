"""How cases are written: edits of the healthy fixture, and what is expected of the tree that they give.

A trailing comment that names rules marks the line that a finding has to show.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.flow.trees import (
    EAGLE_WORKER,
    GRAPH_RUNNER,
    MODEL_RUNNER,
    SCHEDULER,
    SERVER_ARGS,
    SPEC_INFO,
    SRT,
    Edit,
    edited,
)

Settings = Mapping[str, "bool | int | str"]


@dataclass(frozen=True)
class Case:
    """A tree, and what is expected of it. Without ``rules``, the marks in its text say everything."""

    name: str
    files: Mapping[str, str]
    rules: frozenset[str] = frozenset()
    settings: Settings = field(default_factory=dict)
    """Server arguments under which CPython shows the defect."""
    also: frozenset[str] = frozenset()
    """Rules that may speak as well."""
    condition: str = ""
    """What a finding has to say about when it holds, if the facts carry it."""
    workers: tuple[str, ...] = ("EAGLEWorker",)
    runs: bool = True
    """Whether the runner of concrete trees knows its names."""


MODE = "CaptureHiddenMode"
LAST = "CaptureHiddenMode.LAST"
UTILS = f"{SRT}/utils.py"
EXTEND = "        model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL\n"
EXTEND_FORWARD = "        result = self.target_worker.forward_batch_generation(model_worker_batch)\n"
INPUT = """        return EagleVerifyInput(
            draft_token=[0] * (batch.batch_size() * self.num_draft_tokens),
            draft_token_num=self.num_draft_tokens,
            capture_hidden_mode=CaptureHiddenMode.FULL,
        )
"""
ASKED = "capture_hidden_mode=CaptureHiddenMode.FULL,\n"


def lines(text: str, indent: int) -> str:
    return textwrap.indent(textwrap.dedent(text).strip("\n") + "\n", " " * indent)


def extend(text: str) -> Edit:
    """What stands in place of the line that sets the mode of the target's extend."""
    return (EAGLE_WORKER, EXTEND, lines(text, 8))


def after(text: str) -> Edit:
    """What follows the line that sets the mode of the target's extend."""
    return (EAGLE_WORKER, EXTEND, EXTEND + lines(text, 8))


def verify_input(text: str) -> Edit:
    """What stands in place of the verify input's construction."""
    return (EAGLE_WORKER, INPUT, lines(text, 8))


def imports(text: str, path: str = EAGLE_WORKER) -> Edit:
    return (path, "from __future__ import annotations\n", f"from __future__ import annotations\n\n{text}\n")


def top(text: str, path: str = EAGLE_WORKER, before: str = "class EAGLEWorker") -> Edit:
    """More statements of a module, in front of a class."""
    return (path, before, lines(text, 0) + "\n\n" + before)


def method(text: str, path: str = EAGLE_WORKER, before: str = "    def draft(self") -> Edit:
    """One more method of a class, in front of another one."""
    return (path, before, lines(text, 4) + "\n" + before)


def case(
    name: str, *edits: Edit, rules: str = "", also: str = "", settings: Settings | None = None, condition: str = ""
) -> Case:
    files = edited(edits)
    return Case(name, files, frozenset(rules.split()), settings or {}, frozenset(also.split()), condition)


def argument(name: str) -> Edit:
    """One more server argument, which nobody fixes."""
    return (SERVER_ARGS, "    device: str", f"    {name}: bool = False\n    device: str")


# ------------------------------------------------------------------------------------------- a renamed tree and others
CLASSES = {
    "EAGLEWorker": "FeatureSpeculator",
    "TpModelWorker": "ShardRunner",
    "CudaGraphRunner": "GraphPlayer",
    "ModelRunner": "Executor",
    "Scheduler": "Dispatcher",
    "ScheduleBatch": "Flock",
    "ModelWorkerBatch": "ShardBatch",
    "ForwardBatch": "DeviceBatch",
    "CaptureHiddenMode": "RowsKept",
    "ForwardMode": "PassKind",
    "SpeculativeAlgorithm": "SpecKind",
    "EagleVerifyInput": "CheckInput",
    "EagleDraftInput": "GuessInput",
    "LogitsMetadata": "HeadPlan",
    "LlamaForCausalLM": "Goat",
}
MODULES = {
    "eagle_worker": "feature_speculator",
    "tp_worker": "shard_runner",
    "cuda_graph_runner": "player",
    "model_runner": "executor",
    "forward_batch_info": "passes",
    "schedule_batch": "flock",
    "spec_info": "kinds",
    "logits_processor": "head",
}


def renamed(files: Mapping[str, str]) -> dict[str, str]:
    """The same tree as a fork would have it: another package, other files, other classes. Attributes keep their names:
    those are the vocabulary's."""

    def text_of(text: str) -> str:
        for old, new in CLASSES.items():
            text = re.sub(rf"\b{old}\b", new, text)
        for old, new in MODULES.items():
            text = re.sub(rf"(?<=\.){old}(?= import)", new, text)
        return re.sub(r"\bsglang\b", "herdserve", text)

    def path_of(path: str) -> str:
        folder, _, end = path.rpartition("/")
        name = end.removesuffix(".py")
        return f"{folder.replace('sglang', 'herdserve')}/{MODULES.get(name, name)}.py"

    return {path_of(path): text_of(text) for path, text in files.items()}


REGISTRY = """
class _Registered(type):
    def __iter__(cls):
        return iter(cls._order)

    def __len__(cls):
        return len(cls._order)


class SpeculativeAlgorithm(metaclass=_Registered):
    _by_name = {}
    _order = []
    _flags = collections.defaultdict(set)

    def __init__(self, name, value):
        self.name = name
        self.value = value
        self._factory = None

    def __eq__(self, other):
        return isinstance(other, SpeculativeAlgorithm) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    @classmethod
    def register(cls, name, *, flags=(), factory=None):
        name = name.upper()
        if name in cls._by_name:
            raise ValueError(f"{name} is registered")
        made = cls(name, len(cls._order))
        made._factory = factory
        cls._by_name[name] = made
        cls._order.append(made)
        setattr(cls, name, made)
        for flag in flags:
            cls._flags[flag].add(made.value)
        return made

    @classmethod
    def from_string(cls, name):
        if name is None:
            return cls.NONE
        try:
            return cls._by_name[name.upper()]
        except KeyError as error:
            raise ValueError(f"{name} is unknown") from error

    def _has(self, flag):
        return self.value in type(self)._flags[flag]

    def is_none(self):
        return self is SpeculativeAlgorithm.NONE

    def is_eagle(self):
        return self._has("EAGLE")

    def is_eagle3(self):
        return self._has("EAGLE3")

    def is_standalone(self):
        return self._has("STANDALONE")

    def is_ngram(self):
        return self._has("NGRAM")

    def create_worker(self, **kwargs):
        return None if self._factory is None else self._factory(**kwargs)


def _make_eagle(**kwargs):
    from sglang.srt.speculative.eagle_worker import EAGLEWorker

    return EAGLEWorker(**kwargs)


SpeculativeAlgorithm.register("NONE")
for _name, _flags in {"EAGLE": ("EAGLE",), "EAGLE3": ("EAGLE", "EAGLE3")}.items():
    SpeculativeAlgorithm.register(_name, flags=_flags, factory=_make_eagle)
SpeculativeAlgorithm.register("STANDALONE", flags=("STANDALONE",), factory=_make_eagle)
"""


def with_registry(files: Mapping[str, str]) -> dict[str, str]:
    """The same tree with algorithms that are registered when their module is imported."""
    out = dict(files)
    text = out[SPEC_INFO].replace("import dataclasses\n", "import collections\nimport dataclasses\n")
    start, end = text.index("class SpeculativeAlgorithm"), text.index("class SpecInput")
    out[SPEC_INFO] = text[:start].rstrip("\n") + "\n\n" + REGISTRY + "\n\n" + text[end:]
    scheduler = out[SCHEDULER]
    start, end = (
        scheduler.index("        from sglang.srt.speculative.eagle"),
        scheduler.index("        self.model_worker"),
    )
    end = scheduler.index("        self.draft_worker = EAGLEWorker(")
    scheduler = scheduler[:start] + scheduler[end:]
    out[SCHEDULER] = scheduler.replace("= EAGLEWorker(", "= self.spec_algorithm.create_worker(")
    return out


def relative(files: Mapping[str, str]) -> dict[str, str]:
    """The same tree with relative imports alone."""
    return {
        path: text.replace("from sglang.srt.", "from .." if path != SERVER_ARGS else "from .")
        for path, text in files.items()
    }


SECOND_WORKER = lines(
    '''
    """A second worker, for drafts with several layers."""

    from __future__ import annotations

    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
    from sglang.srt.speculative.eagle_worker import EAGLEWorker


    class MultiLayerEagleWorker(EAGLEWorker):
        def forward_target_extend(self, batch):
            model_worker_batch = batch.get_model_worker_batch()
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
            result = self.target_worker.forward_batch_generation(model_worker_batch)
            return result.logits_output, result.next_token_ids
    ''',
    0,
)
SECOND = f"{SRT}/speculative/multi_layer_eagle_worker.py"
SELECTED = (
    SCHEDULER,
    "        self.draft_worker = EAGLEWorker(\n",
    """        worker_class = EAGLEWorker
        if self.server_args.enable_multi_layer_eagle:
            from sglang.srt.speculative.multi_layer_eagle_worker import MultiLayerEagleWorker

            worker_class = MultiLayerEagleWorker
        self.draft_worker = worker_class(
""",
)


def two_workers(name: str, second: str) -> Case:
    files = edited([argument("enable_multi_layer_eagle"), SELECTED, (SECOND, "", second)])
    workers = ("EAGLEWorker", "MultiLayerEagleWorker")
    return Case(
        name, files, settings={"enable_multi_layer_eagle": True}, condition="enable_multi_layer_eagle", workers=workers
    )


PREPARE = "        batch.spec_info = self\n"
VERIFY_BATCH = """        model_worker_batch = batch.get_model_worker_batch()
        result = self.target_worker.forward_batch_generation(model_worker_batch, is_verify=True)
"""
INIT_NEW = "            capture_hidden_mode=batch.capture_hidden_mode,\n"
FACTORY = "            capture_hidden_mode=forward_batch.capture_hidden_mode,\n"
TP_FORWARD = "        logits_output, can_run_cuda_graph = self.model_runner.forward(forward_batch)\n"
RUN_ONCE = "        def run_once():\n"
CAN_RUN = "        return forward_batch.batch_size <= self.capture_bs[-1]\n"
RUNNER_FORWARD = "        can_run_graph = bool(\n"
HIGHEST = "max(self.capture_hidden_mode, spec_info.capture_hidden_mode)"
ASKED_BY_THE_RUNNER = "            capture_hidden_mode=self.capture_hidden_mode,\n"
NULL_START = "        self.capture_hidden_mode = CaptureHiddenMode.NULL\n"
WORKER_BATCH_MODE = (
    "    capture_hidden_mode: Optional[CaptureHiddenMode] = None\n"
    "\n\n@dataclasses.dataclass\nclass GenerationBatchResult"
)

RECORDER = f"{SRT}/model_executor/recorder.py"
RECORDER_TEXT = lines(
    """
class Recorder:
    def __init__(self):
        self.kept = {}

    def record(self, graph, key, work, after=None):
        for _ in range(2):
            work()
            if after is not None:
                after()
        with torch.cuda.graph(graph):
            self.kept[key] = work()
""",
    0,
)
RECORDED = "        run_once()\n        with torch.cuda.graph(graph):\n            out = run_once()\n        return graph, out\n"
HANDED_OVER: tuple[Edit, ...] = (
    (RECORDER, "", f"import torch\n\n\n{RECORDER_TEXT}"),
    imports("from sglang.srt.model_executor.recorder import Recorder", GRAPH_RUNNER),
    (
        GRAPH_RUNNER,
        RECORDED,
        (
            "        recorder = Recorder()\n        recorder.record(graph, bs, run_once)\n"
            "        return graph, recorder.kept[bs]\n"
        ),
    ),
)
"""What is recorded is handed to an object whose text names nothing that is tracked."""

PREFILL = f"{SRT}/model_executor/prefill_graph_runner.py"
PREFILL_RUNNER = lines(
    '''
    """Records the target's extends for some numbers of tokens."""

    from __future__ import annotations

    import torch

    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode


    class PrefillGraphRunner:
        def __init__(self, model_runner):
            self.model_runner = model_runner
            self.graphs = {}
            self.output_buffers = {}
            self.capture_hidden_mode = CaptureHiddenMode.NULL
            if model_runner.spec_algorithm.is_eagle():
                self.capture_hidden_mode = CaptureHiddenMode.FULL
            for num_tokens in (6, 12):
                self.capture_one_batch_size(num_tokens)

        def can_run(self, forward_batch):
            return len(forward_batch.input_ids) in self.graphs

        def capture_one_batch_size(self, num_tokens):
            graph = torch.cuda.CUDAGraph()
            forward_batch = ForwardBatch(
                forward_mode=ForwardMode.EXTEND,
                batch_size=1,
                input_ids=[0] * num_tokens,
                seq_lens=[num_tokens],
                capture_hidden_mode=self.capture_hidden_mode,
            )
            with torch.cuda.graph(graph):
                output = self.model_runner.model.forward(forward_batch.input_ids, forward_batch)
            self.graphs[num_tokens] = graph
            self.output_buffers[num_tokens] = output

        def replay(self, forward_batch):
            num_tokens = len(forward_batch.input_ids)
            self.graphs[num_tokens].replay()
            return self.output_buffers[num_tokens]
    ''',
    0,
)
RUNNERS = "        self.graph_runner = None\n"
FORWARD_EXTEND = "    def forward_extend(self, forward_batch: ForwardBatch) -> LogitsProcessorOutput:\n"


def prefill_graph(*edits: Edit) -> dict[str, str]:
    """The healthy tree with a prefill graph, whose text is edited."""
    runner = PREFILL_RUNNER
    for _, old, new in edits:
        assert runner.count(old) == 1, old
        runner = runner.replace(old, new)
    return edited(
        [
            (PREFILL, "", runner),
            (
                MODEL_RUNNER,
                "from sglang.srt.models",
                "from sglang.srt.model_executor.prefill_graph_runner import PrefillGraphRunner\nfrom sglang.srt.models",
            ),
            (MODEL_RUNNER, RUNNERS, RUNNERS.replace("= None", "= self.prefill_runner = None")),
            (
                MODEL_RUNNER,
                "        self.graph_runner = CudaGraphRunner(self)\n",
                (
                    "        self.prefill_runner = PrefillGraphRunner(self)\n"
                    "        self.graph_runner = CudaGraphRunner(self)\n"
                ),
            ),
            (
                MODEL_RUNNER,
                FORWARD_EXTEND,
                FORWARD_EXTEND
                + "        if self.prefill_runner is not None and self.prefill_runner.can_run(forward_batch):\n"
                + "            return self.prefill_runner.replay(forward_batch)\n",
            ),
        ]
    )
