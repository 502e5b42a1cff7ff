"""Runs trees of the fixtures' shape with CPython, and says how many rows of hidden states each forward kept.

Started as a child with a JSON list of ``[folder, server arguments]`` on its input. What a recorded graph gives is what
its forward gave while it was recorded. Nothing of the scanner is imported: a scan is compared with what this says.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

EXTEND_ROWS = 6
BATCH = 2

Entry = tuple[str, str, str, str]
"""The model ("target", "draft"), the phase, the path and the mode whose rows were kept."""


class Log:
    """The forwards of one run. Those made while the workers are built count when a graph replays them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.last: Entry = ("", "", "", "")
        self.building = True

    def forward(self, model: str, phase: str, kept: str) -> None:
        self.last = (model, phase, "graph", kept)
        if not self.building:
            self.entries.append((model, phase, "eager", kept))


class Graph:
    """Stands in for a recorded CUDA graph."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.recorded: Entry = ("", "", "", "")

    def replay(self) -> None:
        self.log.entries.append(self.recorded)


def stub_torch(log: Log) -> types.ModuleType:
    torch: Any = types.ModuleType("torch")
    torch.no_grad = lambda: lambda function: function

    @contextlib.contextmanager
    def record(graph: Graph) -> Iterator[None]:
        yield
        graph.recorded = log.last

    torch.cuda = types.SimpleNamespace(CUDAGraph=lambda: Graph(log), graph=record)
    return torch


def watched(log: Log, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A model's forward that says how many of its rows the logits processor kept."""

    def watch(self: Any, input_ids: Any, forward_batch: Any) -> Any:
        output = forward(self, input_ids, forward_batch)
        rows = None if output.hidden_states is None else len(output.hidden_states)
        kept = "NULL" if rows is None else "FULL" if rows == len(input_ids) else "LAST"
        log.forward(self.path, forward_batch.forward_mode.name, kept)
        return output

    return watch


def building(log: Log, record: Callable[..., Any]) -> Callable[..., Any]:
    """A runner's recording, whose warm-up forwards count no more than those that it records."""

    def build(*args: Any) -> Any:
        before, log.building = log.building, True
        try:
            return record(*args)
        finally:
            log.building = before

    return build


def run(root: str, arguments: dict[str, Any]) -> list[Entry]:
    """The forwards of two extends, each with some decode steps."""
    log = Log()
    sys.modules["torch"] = stub_torch(log)
    sys.path.insert(0, root)
    try:
        load = importlib.import_module
        model = load("sglang.srt.models.llama").LlamaForCausalLM
        modes = load("sglang.srt.model_executor.forward_batch_info").ForwardMode
        batches = load("sglang.srt.managers.schedule_batch")
        named = {"model_path": "target", "speculative_draft_model_path": "draft", "speculative_algorithm": "EAGLE3"}
        server_args = load("sglang.srt.server_args").ServerArgs(**{**named, **arguments})
        model.forward = watched(log, model.forward)
        graphs = load("sglang.srt.model_executor.cuda_graph_runner").CudaGraphRunner
        graphs.capture_one_batch_size = building(log, graphs.capture_one_batch_size)
        scheduler = load("sglang.srt.managers.scheduler").Scheduler(server_args, 0, 0)
        log.building = False
        batch = batches.ScheduleBatch(
            input_ids=[0] * EXTEND_ROWS,
            seq_lens=[EXTEND_ROWS // BATCH] * BATCH,
            forward_mode=modes.EXTEND,
            spec_algorithm=scheduler.spec_algorithm,
        )
        for mode in (modes.EXTEND, modes.DECODE, modes.DECODE, modes.EXTEND, modes.DECODE):
            if mode is modes.EXTEND:
                batch.input_ids, batch.spec_info = [0] * EXTEND_ROWS, None
            else:
                batch.input_ids = batch.output_ids or [0] * BATCH
            batch.forward_mode = mode
            scheduler.run_batch(batch)
    except Exception as error:  # noqa: BLE001 - whatever an edited tree raises is the answer
        log.entries.append(("target", "raises", type(error).__name__, str(error)))
    finally:
        sys.path.remove(root)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("sglang", "torch")]:
            del sys.modules[name]
        importlib.invalidate_caches()
    return log.entries


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    print(json.dumps([run(root, arguments) for root, arguments in json.load(sys.stdin)]))
