"""Edits that must be caught: a graph runner replays what another one has recorded."""

from __future__ import annotations

from tests.flow.edits import ASKED_BY_THE_RUNNER, Case, Edit, case, imports, lines, top
from tests.flow.trees import GRAPH_RUNNER, MODEL_RUNNER

__all__ = ["HEALTHY_LENT", "LENT"]

MADE = "        self.graph_runner = CudaGraphRunner(self)\n"
OWN = "        self.graphs = {}\n"
LOW = "class LowRunner(CudaGraphRunner):\n    asked = CaptureHiddenMode.LAST\n"
CAPTURED = (
    GRAPH_RUNNER,
    ASKED_BY_THE_RUNNER,
    "            capture_hidden_mode=self.asked or self.capture_hidden_mode,\n",
)
ASKED = (
    GRAPH_RUNNER,
    "    def __init__(self, model_runner):\n",
    "    asked = None\n\n    def __init__(self, model_runner):\n",
)


def runners(after: str, low: str = LOW, before: str = "") -> tuple[Edit, ...]:
    """The target's runner has a second graph runner, and what happens once both have recorded."""
    return (
        CAPTURED,
        ASKED,
        (MODEL_RUNNER, MADE, lines(before, 8) + MADE + "        low = LowRunner(self)\n" + lines(after, 8)),
        imports("from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode", MODEL_RUNNER),
        top(low, MODEL_RUNNER, "class ModelRunner:"),
    )


def taking(text: str) -> tuple[Edit, ...]:
    """The graph runner takes the graphs of another one, by a method of its own."""
    method = "    def take(self, other):\n" + lines(text, 8) + "\n    def can_run(self"
    return (*runners("self.graph_runner.take(low)"), (GRAPH_RUNNER, "    def can_run(self", method))


WAYS = {
    "from-outside": runners("self.graph_runner.graphs = low.graphs"),
    "by-a-computed-name": runners('setattr(self.graph_runner, "graphs", low.graphs)'),
    "from-outside-by-update": runners("self.graph_runner.graphs.update(low.graphs)"),
    "from-outside-by-a-local-name": runners("lent = low.graphs\nself.graph_runner.graphs = lent"),
    "by-assignment": taking("self.graphs = other.graphs"),
    "by-a-copy": taking("self.graphs = dict(other.graphs)"),
    "by-update": taking("self.graphs.update(other.graphs)"),
    "by-a-union": taking("self.graphs |= other.graphs"),
    "item-by-item": taking("for bs, graph in other.graphs.items():\n    self.graphs[bs] = graph"),
    "by-key": taking("for bs in self.graphs:\n    self.graphs[bs] = other.graphs[bs]"),
    "as-a-parameter": (
        *runners("self.graph_runner.take(low.graphs)"),
        (
            GRAPH_RUNNER,
            "    def can_run(self",
            "    def take(self, graphs):\n        self.graphs = graphs\n\n    def can_run(self",
        ),
    ),
    "by-a-dict-of-the-class": (
        *runners("pass"),
        (GRAPH_RUNNER, "class CudaGraphRunner:\n", "class CudaGraphRunner:\n    graphs = {}\n"),
        (GRAPH_RUNNER, OWN, ""),
    ),
    "by-a-dict-of-the-module": (
        *runners("pass"),
        (GRAPH_RUNNER, "class CudaGraphRunner:\n", "GRAPHS = {}\n\n\nclass CudaGraphRunner:\n"),
        (GRAPH_RUNNER, OWN, ""),
        (GRAPH_RUNNER, "self.graphs[bs], self.output", "GRAPHS[bs], self.output"),
        (GRAPH_RUNNER, "self.graphs[bs].replay()", "GRAPHS[bs].replay()"),
    ),
}

LENT: tuple[Case, ...] = tuple(
    case(f"graphs-are-lent-{name}", *edits, rules="HS109", also="HS102 HS104") for name, edits in WAYS.items()
)
HEALTHY_LENT: tuple[Case, ...] = (
    case("two-runners-that-keep-their-graphs", *runners("self.low = low")),
    case("two-runners-that-copy-their-own-graphs", *taking("self.graphs = dict(self.graphs)")),
    case(
        "two-runners-with-a-method-that-keeps-a-graph",
        *runners("self.low = low"),
        (GRAPH_RUNNER, "self.graphs[bs], self.output_buffers[bs] = ", "graph, self.output_buffers[bs] = "),
        (
            GRAPH_RUNNER,
            "bs, self.model_runner.model.forward)\n",
            "bs, self.model_runner.model.forward)\n            self.keep_graph(bs, graph)\n",
        ),
        (
            GRAPH_RUNNER,
            "    def can_run(self",
            "    def keep_graph(self, bs, graph):\n        self.graphs[bs] = graph\n\n    def can_run(self",
        ),
    ),
    case("two-runners-of-which-one-counts-the-graphs-of-the-other", *runners("self.count = len(low.graphs)")),
    case(
        "one-runner-with-a-dict-of-its-class",
        (GRAPH_RUNNER, "class CudaGraphRunner:\n", "class CudaGraphRunner:\n    graphs = {}\n"),
        (GRAPH_RUNNER, OWN, ""),
    ),
)
