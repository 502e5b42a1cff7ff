"""Edits of the healthy fixture that must be caught, at the lines that their marks show."""

from __future__ import annotations

from tests.flow.edits import (
    ASKED,
    CAN_RUN,
    EXTEND_FORWARD,
    FACTORY,
    HIGHEST,
    INIT_NEW,
    LAST,
    MODE,
    NULL_START,
    PREPARE,
    RUN_ONCE,
    RUNNER_FORWARD,
    SECOND_WORKER,
    TP_FORWARD,
    VERIFY_BATCH,
    WORKER_BATCH_MODE,
    Case,
    after,
    argument,
    case,
    extend,
    imports,
    lines,
    method,
    renamed,
    two_workers,
    verify_input,
    with_registry,
)
from tests.flow.trees import (
    EAGLE_WORKER,
    FORWARD_BATCH,
    GRAPH_RUNNER,
    LOGITS,
    MODEL_RUNNER,
    SCHEDULE_BATCH,
    SPEC_INFO,
    TP_WORKER,
    edited,
)

__all__ = ["BROKEN"]

BROKEN: tuple[Case, ...] = (
    # at the site itself
    case("extend-null", extend("model_worker_batch.capture_hidden_mode = CaptureHiddenMode.NULL  # HS101")),
    case("extend-none", extend("model_worker_batch.capture_hidden_mode = None  # HS103")),
    case("extend-removed", extend("pass"), rules="HS101"),
    case("verify-null", (EAGLE_WORKER, ASKED, "capture_hidden_mode=CaptureHiddenMode.NULL,  # HS102\n")),
    case("verify-none", (EAGLE_WORKER, ASKED, "capture_hidden_mode=None,  # HS103\n")),
    case(
        "verify-removed",
        (EAGLE_WORKER, "            " + ASKED, ""),
        (
            SPEC_INFO,
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = None\n",
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = None  # HS103\n",
        ),
    ),
    case(
        "graph-null",
        (GRAPH_RUNNER, ASKED, "capture_hidden_mode=CaptureHiddenMode.NULL,\n"),
        (GRAPH_RUNNER, NULL_START, NULL_START.replace("\n", "  # HS104\n")),
    ),
    # on the way to the site
    case("by-a-local", extend(f"wanted = {LAST}  # HS101\nmodel_worker_batch.capture_hidden_mode = wanted")),
    case(
        "by-a-helper-of-another-module",
        imports("from sglang.srt.model_executor.forward_batch_info import wanted_mode"),
        (FORWARD_BATCH, "", f"\n\ndef wanted_mode():\n    return {LAST}  # HS101\n"),
        extend("model_worker_batch.capture_hidden_mode = wanted_mode()"),
    ),
    case(
        "by-a-constant-of-another-module",
        imports("from sglang.srt.model_executor import forward_batch_info as info"),
        (FORWARD_BATCH, "", f"\n\nTARGET_MODE = {LAST}  # HS101\n"),
        extend("model_worker_batch.capture_hidden_mode = info.TARGET_MODE"),
    ),
    case(
        "by-an-alias-of-the-enum",
        imports("from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode as Rows"),
        extend("model_worker_batch.capture_hidden_mode = Rows.LAST  # HS101"),
    ),
    case(
        "by-a-keyword",
        method("def ask(self, batch, *, mode):\n    batch.capture_hidden_mode = mode"),
        extend(f"self.ask(model_worker_batch, mode={LAST})  # HS101"),
    ),
    case(
        "by-a-default-of-a-parameter",
        method(f"def ask(self, batch, mode={LAST}):  # HS101\n    batch.capture_hidden_mode = mode"),
        extend("self.ask(model_worker_batch)"),
    ),
    case(
        "by-keyword-arguments",
        verify_input(f"""
            options = dict(draft_token_num=self.num_draft_tokens, capture_hidden_mode={LAST})  # HS102
            return EagleVerifyInput([0] * (batch.batch_size() * self.num_draft_tokens), **options)
        """),
    ),
    case(
        "by-a-list-of-arguments",
        verify_input(f"""
            parts = [[0] * (batch.batch_size() * self.num_draft_tokens), self.num_draft_tokens]
            parts.append({LAST})  # HS102
            return EagleVerifyInput(*parts)
        """),
    ),
    case(
        "by-a-partial",
        imports("import functools"),
        verify_input(f"""
            make = functools.partial(EagleVerifyInput, capture_hidden_mode={LAST})  # HS102
            return make([0] * (batch.batch_size() * self.num_draft_tokens), self.num_draft_tokens)
        """),
    ),
    case(
        "by-dataclasses-replace",
        imports("import dataclasses"),
        extend(f"model_worker_batch = dataclasses.replace(model_worker_batch, capture_hidden_mode={LAST})  # HS101"),
    ),
    case(
        "by-the-default-of-a-field",
        (EAGLE_WORKER, "            " + ASKED, ""),
        (
            SPEC_INFO,
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = None\n",
            f"    capture_hidden_mode: Optional[CaptureHiddenMode] = {LAST}  # HS102\n",
        ),
    ),
    case("by-setattr", extend(f'setattr(model_worker_batch, "capture_hidden_mode", {LAST})  # HS101')),
    case(
        "by-setattr-in-a-loop",
        extend(f"""
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
            for name, value in (("spec_info", None), ("capture_hidden_mode", {LAST})):  # HS101
                setattr(model_worker_batch, name, value)
        """),
    ),
    case("by-the-dict", after(f'model_worker_batch.__dict__["capture_hidden_mode"] = {LAST}  # HS101')),
    case("by-vars", after(f"vars(model_worker_batch).update(capture_hidden_mode={LAST})  # HS101")),
    case(
        "by-an-alias-of-the-batch",
        extend(f"""
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
            same = model_worker_batch
            same.capture_hidden_mode = {LAST}  # HS101
        """),
    ),
    case(
        "on-a-copy-that-is-not-forwarded",
        imports("import copy"),
        extend("copy.copy(model_worker_batch).capture_hidden_mode = CaptureHiddenMode.FULL"),
        rules="HS101",
    ),
    case(
        "by-a-property",
        (
            SCHEDULE_BATCH,
            "\n\n@dataclasses.dataclass\nclass GenerationBatchResult",
            lines(
                """

            @property
            def rows(self):
                return self.capture_hidden_mode

            @rows.setter
            def rows(self, mode):
                self.capture_hidden_mode = mode
        """,
                4,
            )
            + "\n\n@dataclasses.dataclass\nclass GenerationBatchResult",
        ),
        extend(f"model_worker_batch.rows = {LAST}  # HS101"),
    ),
    case(
        "by-a-nested-function",
        extend(f"""
            def lower():
                model_worker_batch.capture_hidden_mode = {LAST}  # HS101

            lower()
        """),
    ),
    case(
        "by-a-generator-based-manager",
        imports("import contextlib"),
        method(f"""
            @contextlib.contextmanager
            def rows(self, batch):
                batch.capture_hidden_mode = {LAST}  # HS101
                yield batch
                batch.capture_hidden_mode = CaptureHiddenMode.FULL
        """),
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            lines(
                """
            with self.rows(model_worker_batch):
                result = self.target_worker.forward_batch_generation(model_worker_batch)
        """,
                8,
            ),
        ),
    ),
    case(
        "by-a-manager-class",
        (
            EAGLE_WORKER,
            "class EAGLEWorker",
            lines(
                f"""
            class Rows:
                def __init__(self, batch):
                    self.batch = batch

                def __enter__(self):
                    self.batch.capture_hidden_mode = {LAST}  # HS101

                def __exit__(self, *error):
                    return False


        """,
                0,
            )
            + "\n\nclass EAGLEWorker",
        ),
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            lines(
                """
            with Rows(model_worker_batch):
                result = self.target_worker.forward_batch_generation(model_worker_batch)
        """,
                8,
            ),
        ),
    ),
    case(
        "in-a-finally",
        extend(f"""
            try:
                model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
            finally:
                model_worker_batch.capture_hidden_mode = {LAST}  # HS101
        """),
    ),
    case(
        "in-a-handler",
        extend(f"""
            try:
                wanted = {{"draft": CaptureHiddenMode.FULL}}["target"]
            except KeyError:
                wanted = {LAST}  # HS101
            model_worker_batch.capture_hidden_mode = wanted
        """),
    ),
    case(
        "in-a-loop",
        extend(f"""
            for _ in range(self.num_steps):
                model_worker_batch.capture_hidden_mode = {LAST}  # HS101
        """),
    ),
    case(
        "in-a-match",
        extend(f"""
            match batch.forward_mode:
                case ForwardMode.EXTEND:
                    model_worker_batch.capture_hidden_mode = {LAST}  # HS101
                case _:
                    model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
        """),
    ),
    case(
        "by-the-value-of-the-member", extend("model_worker_batch.capture_hidden_mode = CaptureHiddenMode(1)  # HS101")
    ),
    case(
        "by-the-name-of-the-member",
        extend('model_worker_batch.capture_hidden_mode = CaptureHiddenMode["LAST"]  # HS101'),
    ),
    case("by-falsehood", extend(f"model_worker_batch.capture_hidden_mode = CaptureHiddenMode.NULL or {LAST}  # HS101")),
    case(
        "by-a-dispatch-table",
        extend(f"""
            table = {{True: lambda: CaptureHiddenMode.FULL, False: lambda: {LAST}}}  # HS101
            model_worker_batch.capture_hidden_mode = table[batch.forward_mode.is_idle()]()
        """),
    ),
    case(
        "by-an-attribute-of-the-class",
        (
            EAGLE_WORKER,
            "class EAGLEWorker(TpModelWorker):\n",
            f"class EAGLEWorker(TpModelWorker):\n    rows = {LAST}  # HS101\n\n",
        ),
        extend("model_worker_batch.capture_hidden_mode = self.rows"),
    ),
    case(
        "by-an-attribute-that-changes-after-a-step",
        (EAGLE_WORKER, "        self.topk = ", "        self.rows = CaptureHiddenMode.FULL\n        self.topk = "),
        (EAGLE_WORKER, ASKED, "capture_hidden_mode=self.rows,\n"),
        (
            EAGLE_WORKER,
            "        return result\n\n    def forward_target",
            f"        self.rows = {LAST}  # HS102\n        return result\n\n    def forward_target",
        ),
    ),
    case(
        "by-a-global",
        (EAGLE_WORKER, "class EAGLEWorker", "_rows = CaptureHiddenMode.FULL\n\n\nclass EAGLEWorker"),
        method(f"def lower(self):\n    global _rows\n    _rows = {LAST}  # HS101"),
        extend("self.lower()\nmodel_worker_batch.capture_hidden_mode = _rows"),
    ),
    case(
        "by-an-override-in-a-base",
        (
            TP_WORKER,
            "    def forward_batch_generation(",
            f"    def wanted(self):\n        return {LAST}  # HS101\n\n    def forward_batch_generation(",
        ),
        extend("model_worker_batch.capture_hidden_mode = self.wanted()"),
    ),
    # under a condition
    case(
        "under-a-free-argument",
        argument("enable_lean_extend"),
        extend(f"""
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
            if self.server_args.enable_lean_extend:
                model_worker_batch.capture_hidden_mode = {LAST}  # HS101
        """),
        settings={"enable_lean_extend": True},
        condition="enable_lean_extend",
    ),
    case(
        "under-a-batch-size",
        extend(
            f"model_worker_batch.capture_hidden_mode = {LAST} if "
            "batch.batch_size() > 1 else CaptureHiddenMode.FULL  # HS101"
        ),
    ),
    case(
        "under-a-width-of-the-tree",
        (EAGLE_WORKER, ASKED, f"capture_hidden_mode={LAST} if self.topk == 1 else CaptureHiddenMode.FULL,  # HS102\n"),
    ),
    case(
        "under-the-algorithm",
        extend(f"""
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
            if self.speculative_algorithm.is_eagle3():
                model_worker_batch.capture_hidden_mode = {LAST}  # HS101
        """),
    ),
    # between the site and the logits processor
    case(
        "init-new-has-its-own", (FORWARD_BATCH, INIT_NEW, f"            capture_hidden_mode={LAST},  # HS101 HS102\n")
    ),
    case("the-metadata-drop-it", (LOGITS, FACTORY, ""), rules="HS103", also="HS104"),
    case(
        "the-metadata-replace-it",
        (LOGITS, FACTORY, f"            capture_hidden_mode={LAST},  # HS103\n"),
        also="HS104",
    ),
    case(
        "the-worker-batch-drops-it",
        (SCHEDULE_BATCH, "            capture_hidden_mode=capture_hidden_mode,\n", ""),
        (SCHEDULE_BATCH, WORKER_BATCH_MODE, WORKER_BATCH_MODE.replace(" = None\n", " = None  # HS103\n")),
    ),
    case(
        "the-worker-overwrites-it",
        (TP_WORKER, TP_FORWARD, f"        forward_batch.capture_hidden_mode = {LAST}  # HS101 HS102\n{TP_FORWARD}"),
    ),
    case(
        "the-runner-overwrites-it",
        (
            MODEL_RUNNER,
            RUNNER_FORWARD,
            (
                "        if forward_batch.forward_mode == ForwardMode.EXTEND:\n"
                f"            forward_batch.capture_hidden_mode = {LAST}  # HS101\n{RUNNER_FORWARD}"
            ),
        ),
        (MODEL_RUNNER, "import ForwardBatch\n", f"import {MODE}, ForwardBatch, ForwardMode\n"),
    ),
    case(
        "the-batch-overwrites-it-when-made",
        (
            FORWARD_BATCH,
            "\n    @classmethod\n    def init_new",
            lines(
                f"""

            def __post_init__(self):
                if self.spec_info is None:
                    self.capture_hidden_mode = {LAST}  # HS101

        """,
                4,
            )
            + "\n    @classmethod\n    def init_new",
        ),
    ),
    case(
        "the-prepare-step-overwrites-it",
        (SPEC_INFO, PREPARE, f"{PREPARE}        self.capture_hidden_mode = {LAST}  # HS102\n"),
    ),
    case(
        "the-graph-overwrites-it",
        (GRAPH_RUNNER, RUN_ONCE, f"        forward_batch.capture_hidden_mode = {LAST}  # HS104\n\n{RUN_ONCE}"),
    ),
    case(
        "the-graph-overwrites-it-while-it-records",
        (GRAPH_RUNNER, RUN_ONCE, f"{RUN_ONCE}            forward_batch.capture_hidden_mode = {LAST}  # HS104\n"),
    ),
    case(
        "the-graph-has-no-speculative-input",
        (GRAPH_RUNNER, "        spec_info = self.get_spec_info()\n", "        spec_info = None\n"),
        (GRAPH_RUNNER, NULL_START, NULL_START.replace("\n", "  # HS104\n")),
    ),
    case(
        "the-graph-takes-the-lowest",
        (GRAPH_RUNNER, HIGHEST, HIGHEST.replace("max", "min")),
        (GRAPH_RUNNER, NULL_START, NULL_START.replace("\n", "  # HS104\n")),
    ),
    case(
        "the-graph-refuses-what-it-did-not-record",
        (GRAPH_RUNNER, ASKED, "capture_hidden_mode=CaptureHiddenMode.LAST,  # HS104\n"),
        (
            GRAPH_RUNNER,
            CAN_RUN,
            lines(
                """
            if forward_batch.capture_hidden_mode > self.capture_hidden_mode:
                return False
            return forward_batch.batch_size <= self.capture_bs[-1]
        """,
                8,
            ),
        ),
    ),
    # in the enum
    case(
        "the-members-are-reordered",
        (FORWARD_BATCH, "NULL = 0", "NULL = 2"),
        (FORWARD_BATCH, "FULL = 2", "FULL = 0"),
        rules="HS104",
    ),
    case(
        "is-full-is-turned-round",
        (FORWARD_BATCH, "self == CaptureHiddenMode.FULL", "self != CaptureHiddenMode.FULL"),
        rules="HS101 HS102 HS104",
    ),
    case(
        "need-capture-is-turned-round",
        (FORWARD_BATCH, "self != CaptureHiddenMode.NULL", "self == CaptureHiddenMode.NULL"),
        rules="HS101 HS102 HS104",
    ),
    case(
        "is-full-is-patched",
        (FORWARD_BATCH, "", "\n\nCaptureHiddenMode.is_full = lambda self: False\n"),
        rules="HS101 HS102 HS104",
    ),
    # never there
    case("extend-raises", extend('raise NotImplementedError("not yet")  # HS101')),
    case(
        "verify-raises",
        (EAGLE_WORKER, VERIFY_BATCH, f'        raise NotImplementedError("not yet")  # HS102\n{VERIFY_BATCH}'),
        rules="HS102",
    ),
    # another worker, other names, another way to name algorithms
    two_workers("a-second-worker", SECOND_WORKER.replace("= CaptureHiddenMode.FULL", f"= {LAST}  # HS101")),
    Case(
        "renamed",
        renamed(edited([extend(f"model_worker_batch.capture_hidden_mode = {LAST}  # HS101")])),
        workers=("FeatureSpeculator",),
        runs=False,
    ),
    Case(
        "renamed-graph",
        renamed(edited([(GRAPH_RUNNER, ASKED, f"capture_hidden_mode={LAST},  # HS104\n")])),
        workers=("FeatureSpeculator",),
        runs=False,
    ),
    Case("registered", with_registry(edited([extend(f"model_worker_batch.capture_hidden_mode = {LAST}  # HS101")]))),
    Case("registered-graph", with_registry(edited([(GRAPH_RUNNER, ASKED, f"capture_hidden_mode={LAST},  # HS104\n")]))),
)
