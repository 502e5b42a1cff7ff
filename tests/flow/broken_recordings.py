"""Edits of graph runners that must be caught: what a graph holds is not what its runner says of itself."""

from __future__ import annotations

from dataclasses import replace

from tests.flow.broken_from_afar import asked, flag, scheduled
from tests.flow.edits import (
    ASKED_BY_THE_RUNNER,
    HIGHEST,
    LAST,
    NULL_START,
    Case,
    Edit,
    after,
    argument,
    case,
    lines,
    method,
)
from tests.flow.trees import GRAPH_RUNNER, MODEL_RUNNER

__all__ = ["HEALTHY_RECORDINGS", "RECORDINGS"]

CAPTURE = "            self.graphs[bs], self.output_buffers[bs] = self.capture_one_batch_size("
CHOSEN = "        bs = self.capture_bs[bisect"
ITS_OWN: tuple[Edit, ...] = (
    (GRAPH_RUNNER, HIGHEST, "self.capture_hidden_mode"),
    (GRAPH_RUNNER, NULL_START, NULL_START[:-1] + "  # HS104\n"),
)
"""The runner records what it says of itself, which is nothing."""


def recaptured(text: str) -> Edit:
    """What a replay does for a batch that asks for another mode than the runner has."""
    test = "        if forward_batch.capture_hidden_mode != self.capture_hidden_mode:\n"
    return (GRAPH_RUNNER, CHOSEN, test + lines(text, 12) + CHOSEN)


TAKEN = "self.capture_hidden_mode = forward_batch.capture_hidden_mode\n"

RECORDINGS: tuple[Case, ...] = (
    case(
        "a-runner-that-records-again-if-a-setting-says-so",
        argument("recapture"),
        *ITS_OWN,
        recaptured(f"{TAKEN}if self.model_runner.server_args.recapture:\n    self.capture()"),
        also="HS109",
    ),
    case(
        "a-runner-that-records-another-size-again",
        *ITS_OWN,
        recaptured(
            f"{TAKEN}self.graphs[1], self.output_buffers[1] = "
            "self.capture_one_batch_size(1, self.model_runner.model.forward)"
        ),
    ),
    case(
        "a-runner-that-restores-its-mode",
        (GRAPH_RUNNER, HIGHEST, "self.capture_hidden_mode"),
        (
            GRAPH_RUNNER,
            "        self.capture()\n",
            (
                "        self.capture_hidden_mode = CaptureHiddenMode.LAST  # HS104\n        self.capture()\n"
                "        self.capture_hidden_mode = CaptureHiddenMode.FULL\n"
            ),
        ),
        also="HS109",
    ),
    replace(  # the forward runs below a graph runner: CPython calls that eager
        case(
            "a-forward-in-a-method-that-is-called-like-a-recording",
            method(
                f"""
            def capture_rows(self, forward_batch):
                forward_batch.capture_hidden_mode = {LAST}  # HS101
                return self.model_runner.model.forward(forward_batch.input_ids, forward_batch)
            """,
                GRAPH_RUNNER,
                "    def capture(self)",
            ),
            (
                MODEL_RUNNER,
                "    def forward_extend(self, forward_batch: ForwardBatch) -> LogitsProcessorOutput:\n",
                (
                    "    def forward_extend(self, forward_batch: ForwardBatch) -> LogitsProcessorOutput:\n"
                    "        if self.graph_runner is not None:\n"
                    "            return self.graph_runner.capture_rows(forward_batch)\n"
                ),
            ),
            also="HS102",
        ),
        runs=False,
    ),
    case(
        "a-runner-in-a-dictionary",
        (GRAPH_RUNNER, ASKED_BY_THE_RUNNER, f"            capture_hidden_mode={LAST},\n"),
        (MODEL_RUNNER, "        self.graph_runner = None\n", '        self.runners = {"decode": None}\n'),
        (
            MODEL_RUNNER,
            "        self.graph_runner = CudaGraphRunner(self)\n",
            '        self.runners["decode"] = CudaGraphRunner(self)\n',
        ),
        (MODEL_RUNNER, "            and self.graph_runner\n", '            and self.runners["decode"]\n'),
        (MODEL_RUNNER, "and self.graph_runner.can_run(", 'and self.runners["decode"].can_run('),
        (MODEL_RUNNER, "return self.graph_runner.replay(", 'return self.runners["decode"].replay('),
        rules="HS109",
    ),
    # what is stored from afar, in other spellings
    case(
        "by-a-flag-that-a-call-over-several-lines-sets",
        flag(),
        asked("self.quiet"),
        *scheduled('setattr(\n    self.draft_worker,\n    "quiet",\n    True,\n)'),
    ),
    case(
        "by-a-flag-in-the-dictionary-of-the-worker",
        flag(),
        asked("self.quiet"),
        *scheduled('self.draft_worker.__dict__["quiet"] = True'),
    ),
    case(
        "by-a-method-that-is-taken-as-a-value",
        after("self.prepare(model_worker_batch)"),
        method(
            f"""
            def prepare(self, worker_batch):
                step = self.lower_rows
                step(worker_batch)

            def lower_rows(self, worker_batch):
                worker_batch.capture_hidden_mode = {LAST}  # HS101
            """
        ),
    ),
)

HEALTHY_RECORDINGS: tuple[Case, ...] = (
    case("a-worker-with-a-mode-of-its-own", flag("self.capture_hidden_mode = CaptureHiddenMode.FULL")),
    case(
        "a-recording-that-is-taken-as-a-value",
        (
            GRAPH_RUNNER,
            "        for bs in reversed(",
            "        record = self.capture_one_batch_size\n        for bs in reversed(",
        ),
        (GRAPH_RUNNER, CAPTURE, CAPTURE.replace("self.capture_one_batch_size", "record")),
    ),
)
