"""Code that looks wrong and is right: variants of the healthy fixture that must raise nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.flow.edits import ASKED, EXTEND, LAST, PREPARE, VERIFY_BATCH, extend, lines, method
from tests.flow.trees import (
    EAGLE_WORKER,
    FORWARD_BATCH,
    QUESTIONS,
    SCHEDULER,
    SERVER_ARGS,
    SPEC_INFO,
    Edit,
    Truth,
    edited,
    scan,
    truths,
    write,
)

NULL = "CaptureHiddenMode.NULL"
FULL = "CaptureHiddenMode.FULL"
AFTER_DRAFT_WORKER = "is_draft_worker=True)\n"
DRAFT_INPUT_MODE = "    capture_hidden_mode: CaptureHiddenMode = CaptureHiddenMode.LAST\n"
DRAFT_MODE = "        draft_input.capture_hidden_mode = CaptureHiddenMode.LAST\n"
DRAFT_EXTEND_MODE = "        batch.spec_info.capture_hidden_mode = CaptureHiddenMode.LAST\n"
AFTER_DECODE = "        batch.forward_mode = ForwardMode.IDLE if kept_mode.is_idle() else ForwardMode.DRAFT_EXTEND\n"
AFTER_DECODE_FORWARD = """        logits_output, _ = self.draft_model_runner.forward(forward_batch)
        batch.spec_info.hidden_states = logits_output.hidden_states
        batch.forward_mode = kept_mode
"""

DRAFT_EXTEND_GRAPH = f'''

class EagleDraftExtendCudaGraphRunner:
    """Records the draft's extend after a verify: one row for each sequence, so LAST and FULL keep the same rows."""

    def __init__(self, eagle_worker):
        self.eagle_worker = eagle_worker
        self.model_runner = eagle_worker.draft_model_runner
        self.graphs = {{}}
        self.output_buffers = {{}}
        self.capture_hidden_mode = {LAST}
        self.capture()

    def can_run(self, forward_batch):
        return forward_batch.batch_size in self.graphs

    def capture(self):
        for bs in (1, 2):
            self.graphs[bs], self.output_buffers[bs] = self.capture_one_batch_size(bs)

    def capture_one_batch_size(self, bs):
        graph = torch.cuda.CUDAGraph()
        forward_batch = ForwardBatch(
            forward_mode=ForwardMode.DRAFT_EXTEND,
            batch_size=bs,
            input_ids=[0] * bs,
            seq_lens=[1] * bs,
            spec_info=EagleDraftInput(capture_hidden_mode={LAST}),
            capture_hidden_mode={LAST},
        )
        with torch.cuda.graph(graph):
            out = self.model_runner.model.forward(forward_batch.input_ids, forward_batch)
        return graph, out

    def replay(self, forward_batch):
        self.graphs[forward_batch.batch_size].replay()
        return self.output_buffers[forward_batch.batch_size]


class EAGLEWorker(TpModelWorker):
'''


@dataclass(frozen=True)
class Lookalike:
    name: str
    edits: tuple[Edit, ...]
    algorithm: str = "EAGLE3"
    asked: frozenset[tuple[str, str]] = frozenset(QUESTIONS)
    """What a scan has to prove; nothing is asked of an algorithm that does not use the states."""


NULL_FOR_STANDALONE = f"{NULL} if self.speculative_algorithm.is_standalone() else {FULL}"
BY_ALGORITHM = (
    extend(f"model_worker_batch.capture_hidden_mode = {NULL_FOR_STANDALONE}"),
    (EAGLE_WORKER, ASKED, f"capture_hidden_mode={NULL_FOR_STANDALONE},\n"),
    (
        SPEC_INFO,
        "        hidden_states = logits_output.hidden_states[width - 1 :: width]\n",
        "        hidden_states = logits_output.hidden_states and logits_output.hidden_states[width - 1 :: width]\n",
    ),
    (
        "sglang/srt/model_executor/cuda_graph_runner.py",
        ASKED,
        (
            "capture_hidden_mode=CaptureHiddenMode.FULL if "
            "self.model_runner.spec_algorithm.is_eagle() else CaptureHiddenMode.NULL,\n"
        ),
    ),
)

NGRAM_WORKER = f'''"""Drafts without a model: the target's states are of no use to it."""

from __future__ import annotations

from sglang.srt.managers.schedule_batch import GenerationBatchResult, ScheduleBatch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
from sglang.srt.speculative.spec_info import EagleVerifyInput


class NGRAMWorker:
    def __init__(self, server_args, gpu_id, tp_rank, target_worker):
        self.target_worker = target_worker
        self.num_draft_tokens = server_args.speculative_num_draft_tokens

    def forward_batch_generation(self, batch: ScheduleBatch) -> GenerationBatchResult:
        if batch.forward_mode.is_extend():
            return self.target_worker.forward_batch_generation(batch.get_model_worker_batch())
        spec_info = EagleVerifyInput(
            draft_token=[0] * (batch.batch_size() * self.num_draft_tokens),
            draft_token_num=self.num_draft_tokens,
            capture_hidden_mode={NULL},
        )
        spec_info.prepare_for_verify(batch)
        result = self.target_worker.forward_batch_generation(batch.get_model_worker_batch(), is_verify=True)
        result.next_token_ids = [0] * batch.batch_size()
        batch.spec_info = None
        return result
'''
BY_SELECTOR = (
    ("sglang/srt/speculative/ngram_worker.py", "", NGRAM_WORKER),
    (
        SCHEDULER,
        "        self.draft_worker = EAGLEWorker(\n",
        """        worker_class = EAGLEWorker
        if self.spec_algorithm.is_ngram():
            from sglang.srt.speculative.ngram_worker import NGRAMWorker

            worker_class = NGRAMWorker
        self.draft_worker = worker_class(
""",
    ),
)

REPLAY = (
    (SERVER_ARGS, "    device: str", "    enable_encoder_replay: bool = False\n    device: str"),
    (
        EAGLE_WORKER,
        EXTEND,
        EXTEND
        + lines(
            """
        if self.server_args.enable_encoder_replay:
            self.replay_window(batch)
     """,
            8,
        ),
    ),
    method(f"""
        def replay_window(self, batch: ScheduleBatch):
            window = batch.get_model_worker_batch()
            window.capture_hidden_mode = {NULL}
            self.target_worker.forward_batch_generation(window)
    """),
)

LOOKALIKES = (
    Lookalike("the-draft-asks-for-last", ()),
    Lookalike(
        "a-verify-input-without-a-mode-whose-preparation-sets-it-on-the-batch",
        (
            (EAGLE_WORKER, ASKED, "capture_hidden_mode=None,\n"),
            (
                SPEC_INFO,
                "    def verify(self",
                lines(
                    f"""
                def prepare_for_v2_verify(self, batch: ScheduleBatch):
                    self.prepare_for_verify(batch)
                    model_worker_batch = batch.get_model_worker_batch()
                    model_worker_batch.capture_hidden_mode = {FULL}
                    return model_worker_batch
             """,
                    4,
                )
                + "\n    def verify(self",
            ),
            (EAGLE_WORKER, "        spec_info.prepare_for_verify(batch)\n", ""),
            (
                EAGLE_WORKER,
                VERIFY_BATCH,
                VERIFY_BATCH.replace("batch.get_model_worker_batch()", "spec_info.prepare_for_v2_verify(batch)"),
            ),
        ),
    ),
    Lookalike(
        "a-verify-input-without-a-mode-whose-preparation-sets-it-on-itself",
        (
            (EAGLE_WORKER, ASKED, "capture_hidden_mode=None,\n"),
            (SPEC_INFO, PREPARE, f"        self.capture_hidden_mode = {FULL}\n{PREPARE}"),
        ),
    ),
    Lookalike(
        "a-graph-of-the-draft-that-records-last-for-batches-that-ask-for-full",
        (
            (
                EAGLE_WORKER,
                "from sglang.srt.managers.schedule_batch",
                "import torch\n\nfrom sglang.srt.managers.schedule_batch",
            ),
            (EAGLE_WORKER, "\n\nclass EAGLEWorker(TpModelWorker):\n", DRAFT_EXTEND_GRAPH),
            (
                EAGLE_WORKER,
                AFTER_DRAFT_WORKER,
                f"{AFTER_DRAFT_WORKER}        self.draft_extend_graph_runner = EagleDraftExtendCudaGraphRunner(self)\n",
            ),
            (EAGLE_WORKER, AFTER_DECODE, f"{AFTER_DECODE}        batch.spec_info.capture_hidden_mode = {FULL}\n"),
            (
                EAGLE_WORKER,
                AFTER_DECODE_FORWARD,
                lines(
                    """
                if self.draft_extend_graph_runner.can_run(forward_batch):
                    logits_output = self.draft_extend_graph_runner.replay(forward_batch)
                else:
                    logits_output, _ = self.draft_model_runner.forward(forward_batch)
                batch.spec_info.hidden_states = logits_output.hidden_states
                batch.forward_mode = kept_mode
             """,
                    8,
                ),
            ),
        ),
    ),
    Lookalike(
        "a-decorator-under-a-classmethod",
        (
            (
                FORWARD_BATCH,
                "@dataclasses.dataclass\nclass ForwardBatch:",
                (
                    "def timed(function):\n    def inner(*args, **kwargs):\n        return function(*args, **kwargs)\n\n"
                    "    return inner\n\n\n@dataclasses.dataclass\nclass ForwardBatch:"
                ),
            ),
            (
                FORWARD_BATCH,
                "    @classmethod\n    def init_new(",
                "    @classmethod\n    @timed\n    def init_new(",
            ),
        ),
    ),
    Lookalike(
        "the-lowest-in-an-order-of-its-own",
        (
            (
                FORWARD_BATCH,
                "    def need_capture(self):",
                "    def __lt__(self, other):\n        return self.value > other.value\n\n    def need_capture(self):",
            ),
            extend(f"model_worker_batch.capture_hidden_mode = min({LAST}, {FULL})"),
        ),
    ),
    Lookalike("full-for-eagle-and-null-for-standalone", BY_ALGORITHM),
    Lookalike("null-for-standalone", BY_ALGORITHM, "STANDALONE", frozenset()),
    Lookalike("full-beside-a-worker-that-asks-for-null", BY_SELECTOR),
    Lookalike("null-for-ngram", BY_SELECTOR, "NGRAM", frozenset()),
    Lookalike(
        "a-draft-that-keeps-nothing",
        (
            (SPEC_INFO, DRAFT_INPUT_MODE, DRAFT_INPUT_MODE.replace("LAST", "NULL")),
            (EAGLE_WORKER, DRAFT_MODE, DRAFT_MODE.replace("LAST", "NULL")),
            (EAGLE_WORKER, DRAFT_EXTEND_MODE, DRAFT_EXTEND_MODE.replace("LAST", "NULL")),
        ),
    ),
    Lookalike("an-extra-extend-whose-states-are-thrown-away", REPLAY),
    Lookalike(
        "an-idle-batch-that-asks-for-null",
        (
            (
                EAGLE_WORKER,
                VERIFY_BATCH,
                VERIFY_BATCH.replace(
                    "        result = ",
                    f"""        if batch.forward_mode.is_idle():
            model_worker_batch.capture_hidden_mode = {NULL}
        result = """,
                ),
            ),
        ),
    ),
    Lookalike(
        "an-idle-batch-that-leaves-early",
        (
            (
                EAGLE_WORKER,
                "        if batch.forward_mode.is_extend():\n",
                lines(
                    f"""
                if batch.forward_mode.is_idle():
                    idle = batch.get_model_worker_batch()
                    idle.capture_hidden_mode = {NULL}
                    return self.target_worker.forward_batch_generation(idle)
                if batch.forward_mode.is_extend():
             """,
                    8,
                ),
            ),
        ),
    ),
)


@pytest.fixture(scope="module")
def concrete(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Truth]:
    """What CPython says about every look-alike."""
    trees = [
        (write(tmp_path_factory.mktemp("concrete"), edited(each.edits)), {"speculative_algorithm": each.algorithm})
        for each in LOOKALIKES
    ]
    return {each.name: truth for each, truth in zip(LOOKALIKES, truths(trees), strict=True)}


@pytest.mark.parametrize("lookalike", LOOKALIKES, ids=lambda each: each.name)
def test_what_looks_wrong_and_is_right_raises_nothing(lookalike: Lookalike, tmp_path: Path) -> None:
    answer = scan(write(tmp_path, edited(lookalike.edits)), lookalike.algorithm)
    assert answer.findings == (), str(answer)
    assert answer.proved == lookalike.asked, str(answer)


@pytest.mark.parametrize("lookalike", LOOKALIKES, ids=lambda each: each.name)
def test_cpython_runs_the_lookalike_and_loses_no_rows(lookalike: Lookalike, concrete: dict[str, Truth]) -> None:
    truth = concrete[lookalike.name]
    assert truth.raised == ()
    if lookalike.asked and "extra-extend" not in lookalike.name:
        assert truth == Truth(set(lookalike.asked), set(), ())


def test_the_same_extra_extend_is_a_finding_where_its_states_feed_the_draft(tmp_path: Path) -> None:
    fed = method(f"""
        def replay_window(self, batch: ScheduleBatch):
            window = batch.get_model_worker_batch()
            window.capture_hidden_mode = {NULL}  # HS101
            result = self.target_worker.forward_batch_generation(window)
            self.forward_draft_extend(batch, result.logits_output.hidden_states, result.next_token_ids)
    """)
    answer = scan(write(tmp_path, edited((*REPLAY[:2], fed))))
    assert answer.rules == {"HS101"}, str(answer)


def test_the_extra_forward_is_listed_and_asks_nothing(tmp_path: Path) -> None:
    answer = scan(write(tmp_path, edited(REPLAY)))
    extra = [flow for flow in answer.facts.flows if any(mode.member == "NULL" for mode in flow.reached)]
    assert [(flow.phase.value, flow.consumed) for flow in extra] == [("extend", False)]
