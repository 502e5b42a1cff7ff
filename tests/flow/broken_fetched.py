"""Edits that must be caught: a forward's result is discarded where it is made, and fetched from where the forward left it."""

from __future__ import annotations

from dataclasses import replace

from tests.flow.edits import EXTEND, LAST, MODE, TP_FORWARD, Case, Edit, case, imports, lines
from tests.flow.trees import EAGLE_WORKER, FORWARD_BATCH, MODEL_RUNNER, TP_WORKER

__all__ = ["FETCHED", "HEALTHY_FETCHED"]

RETURN = "        return output, can_run_graph\n"
EXTENDED = """    def forward_extend(self, forward_batch: ForwardBatch) -> LogitsProcessorOutput:
        return self.model.forward(forward_batch.input_ids, forward_batch)
"""
RUNNERS = "        self.graph_runner = None\n"
DISCARDED = "        self.model_runner.forward(forward_batch)\n"


def asked(mode: str, mark: str = "") -> Edit:
    """The mode of the target's extend."""
    return (EAGLE_WORKER, EXTEND, f"        model_worker_batch.capture_hidden_mode = {mode}{mark}\n")


def kept(store: str, fetch: str, before: str = "pass", call: str = DISCARDED) -> tuple[Edit, ...]:
    """The runner's forward stores its result, and the worker fetches it: graphs return theirs another way."""
    fetched = (
        "        if is_verify:\n    "
        + TP_FORWARD
        + "        else:\n"
        + lines(before, 12)
        + lines(call, 12)
        + f"            logits_output, can_run_cuda_graph = {fetch}, False\n"
    )
    return (TP_WORKER, TP_FORWARD, fetched), (MODEL_RUNNER, RETURN, lines(store, 8) + RETURN)


WAYS: dict[str, tuple[Edit, ...]] = {
    "an-attribute": kept("self.latest = output", "self.model_runner.latest"),
    "an-attribute-with-more": kept("self.latest = (output, can_run_graph)", "self.model_runner.latest[0]"),
    "an-attribute-in-an-attribute": (
        *kept("self.box.latest = output", "self.model_runner.box.latest"),
        (MODEL_RUNNER, RUNNERS, RUNNERS + "        self.box = type('Box', (), {})()\n"),
    ),
    "the-batch": (
        *kept("forward_batch.result = output", "forward_batch.result"),
        (
            FORWARD_BATCH,
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = None\n\n    @classmethod\n    def init_new",
            (
                "    capture_hidden_mode: Optional[CaptureHiddenMode] = None\n    result: object = None\n\n"
                "    @classmethod\n    def init_new"
            ),
        ),
    ),
    "a-list": (
        *kept("self.results.append(output)", "self.model_runner.results.pop()"),
        (MODEL_RUNNER, RUNNERS, RUNNERS + "        self.results = []\n"),
    ),
    "a-list-by-another-name": (
        *kept("rows = self.results\nrows.append(output)", "self.model_runner.results.pop()"),
        (MODEL_RUNNER, RUNNERS, RUNNERS + "        self.results = []\n"),
    ),
    "a-dict": (
        *kept('self.results["latest"] = output', 'self.model_runner.results["latest"]'),
        (MODEL_RUNNER, RUNNERS, RUNNERS + "        self.results = {}\n"),
    ),
    "a-computed-name": kept('setattr(self, "latest", output)', "self.model_runner.latest"),
    "another-method": (
        *kept("self.put_by(output)", "self.model_runner.latest"),
        (
            MODEL_RUNNER,
            "    def sample(self",
            "    def put_by(self, result):\n        self.latest = result\n\n    def sample(self",
        ),
    ),
    "a-variable-of-the-module": (
        *kept("global LATEST\nLATEST = output", "model_runner.LATEST"),
        imports("from sglang.srt.model_executor import model_runner", TP_WORKER),
    ),
    "the-inner-forward": (
        *kept("pass", "self.model_runner.latest"),
        (
            MODEL_RUNNER,
            EXTENDED,
            """    def forward_extend(self, forward_batch: ForwardBatch) -> LogitsProcessorOutput:
        self.latest = self.model.forward(forward_batch.input_ids, forward_batch)
        return self.latest
""",
        ),
    ),
    "a-result-that-is-wrapped": kept(
        "wrapped = LogitsProcessorOutput(output.next_token_logits, output.hidden_states)\nself.latest = wrapped",
        "self.model_runner.latest",
    ),
    "what-the-caller-gives": (
        (
            MODEL_RUNNER,
            "    def forward(self, forward_batch: ForwardBatch)",
            "    def forward(self, forward_batch: ForwardBatch, into=None)",
        ),
        *kept(
            "if into is not None:\n    into.append(output)",
            "found[0]",
            "found = []",
            "self.model_runner.forward(forward_batch, into=found)\n",
        ),
    ),
}

FETCHED: tuple[Case, ...] = tuple(
    case(f"a-result-that-is-fetched-from-{name}", asked(LAST, "  # HS101"), *edits, also="HS109")
    for name, edits in WAYS.items()
)


def warmed(text: str = "") -> tuple[Edit, ...]:
    """A forward of LAST whose result nobody takes, before the one that counts."""
    return (
        asked(
            f"{LAST}\n        self.target_worker.warm_rows(model_worker_batch)\n"
            f"        model_worker_batch.capture_hidden_mode = {MODE}.FULL"
        ),
        (
            TP_WORKER,
            "    def forward_batch_generation(",
            (
                "    def warm_rows(self, model_worker_batch):\n"
                "        forward_batch = ForwardBatch.init_new(model_worker_batch, self.model_runner)\n"
                "        self.model_runner.warm(forward_batch)\n\n"
                "    def forward_batch_generation("
            ),
        ),
        (
            MODEL_RUNNER,
            "    def forward_decode(self",
            "    def warm(self, forward_batch):\n"
            "        output = self.model.forward(forward_batch.input_ids, forward_batch)\n"
            + lines(text or "return output", 8)
            + "\n    def forward_decode(self",
        ),
    )


UNUSED = {
    "nothing": "",
    "a-local-list": "rows = []\nrows.append(output)\nreturn rows",
    "a-local-dict": 'rows = {}\nrows["output"] = output\nreturn None',
    "a-result-of-its-own": "output.rows = 1\nreturn output",
    "a-flag": "self.warm_done = True\nreturn output",
    "its-text": "repr(output)\nreturn output",
    "an-attribute-that-nobody-reads": "self.never_read = output\nreturn output",
}
HEALTHY_FETCHED: tuple[Case, ...] = (
    *(
        case(f"harmless-a-result-that-is-fetched-from-{name}", asked(f"{MODE}.FULL"), *way)
        for name, way in WAYS.items()
    ),
    *(  # CPython counts every forward, used or not
        replace(case(f"a-warm-up-that-keeps-{name}", *warmed(text)), runs=False) for name, text in UNUSED.items()
    ),
)
