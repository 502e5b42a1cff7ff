"""Rewrites of the healthy fixture that keep its meaning."""

from __future__ import annotations

from tests.flow.edits import (
    ASKED,
    EXTEND_FORWARD,
    HANDED_OVER,
    SECOND_WORKER,
    Case,
    argument,
    case,
    extend,
    imports,
    lines,
    method,
    relative,
    renamed,
    top,
    two_workers,
    verify_input,
    with_registry,
)
from tests.flow.trees import EAGLE_WORKER, FORWARD_BATCH, GRAPH_RUNNER, MODEL_RUNNER, SCHEDULE_BATCH, SPEC_INFO, edited

__all__ = ["HEALTHY_REWRITES"]

HEALTHY_REWRITES: tuple[Case, ...] = (
    case("a-local", extend("wanted = CaptureHiddenMode.FULL\nmodel_worker_batch.capture_hidden_mode = wanted")),
    case(
        "a-helper",
        imports("from sglang.srt.model_executor.forward_batch_info import wanted_mode"),
        (FORWARD_BATCH, "", "\n\ndef wanted_mode():\n    return CaptureHiddenMode.FULL\n"),
        extend("model_worker_batch.capture_hidden_mode = wanted_mode()"),
    ),
    case(
        "a-constant-and-an-alias",
        imports("from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode as Rows"),
        (EAGLE_WORKER, "class EAGLEWorker", "_WANTED = Rows.FULL\n\n\nclass EAGLEWorker"),
        extend("model_worker_batch.capture_hidden_mode = _WANTED"),
    ),
    case("a-member-by-value", extend("model_worker_batch.capture_hidden_mode = CaptureHiddenMode(2)")),
    case("a-member-by-name", extend('model_worker_batch.capture_hidden_mode = CaptureHiddenMode["FULL"]')),
    case("the-highest-member", extend("model_worker_batch.capture_hidden_mode = max(CaptureHiddenMode)")),
    case(
        "a-walrus",
        extend(
            "if (wanted := CaptureHiddenMode.FULL).need_capture():\n    model_worker_batch.capture_hidden_mode = wanted"
        ),
    ),
    case("setattr", extend('setattr(model_worker_batch, "capture_hidden_mode", CaptureHiddenMode.FULL)')),
    case(
        "last-before-full",
        extend("""
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.LAST
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
        """),
    ),
    case(
        "dataclasses-replace",
        imports("import dataclasses"),
        extend(
            "model_worker_batch = dataclasses.replace(model_worker_batch, capture_hidden_mode=CaptureHiddenMode.FULL)"
        ),
    ),
    case(
        "another-batch-is-lowered",
        extend("""
            spare = batch.get_model_worker_batch()
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
            spare.capture_hidden_mode = CaptureHiddenMode.LAST
        """),
    ),
    case(
        "both-arms-agree",
        extend("""
            if batch.batch_size() > 4:
                model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
            else:
                wanted = CaptureHiddenMode.FULL
                model_worker_batch.capture_hidden_mode = wanted
        """),
    ),
    case(
        "both-arms-by-a-flag-that-is-tested-twice",
        argument("enable_two_steps"),
        extend("""
            wanted = None
            if self.server_args.enable_two_steps:
                wanted = CaptureHiddenMode.FULL
            if not self.server_args.enable_two_steps:
                wanted = CaptureHiddenMode.FULL
            model_worker_batch.capture_hidden_mode = wanted
        """),
    ),
    case(
        "another-device",
        (EAGLE_WORKER, "class EAGLEWorker", "def is_npu():\n    return False\n\n\nclass EAGLEWorker"),
        extend(
            "model_worker_batch.capture_hidden_mode = CaptureHiddenMode.LAST if is_npu() else CaptureHiddenMode.FULL"
        ),
    ),
    case(
        "another-algorithm",
        extend("""
            unused = self.speculative_algorithm.is_standalone()
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.NULL if unused else CaptureHiddenMode.FULL
        """),
    ),
    case(
        "an-assertion",
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            f"        assert model_worker_batch.capture_hidden_mode == CaptureHiddenMode.FULL\n{EXTEND_FORWARD}",
        ),
    ),
    case(
        "a-manager-that-restores",
        imports("import contextlib"),
        method("""
            @contextlib.contextmanager
            def rows(self, batch, mode):
                before = batch.capture_hidden_mode
                batch.capture_hidden_mode = mode
                try:
                    yield batch
                finally:
                    batch.capture_hidden_mode = before
        """),
        extend(""),
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            lines(
                """
            with self.rows(model_worker_batch, CaptureHiddenMode.FULL) as marked:
                result = self.target_worker.forward_batch_generation(marked)
        """,
                8,
            ),
        ),
    ),
    case(
        "keyword-arguments",
        verify_input("""
            options = {"draft_token_num": self.num_draft_tokens}
            options["capture_hidden_mode"] = CaptureHiddenMode.FULL
            return EagleVerifyInput(draft_token=[0] * (batch.batch_size() * self.num_draft_tokens), **options)
        """),
    ),
    case(
        "keyword-arguments-in-every-round-of-a-recording",
        (
            GRAPH_RUNNER,
            "            capture_hidden_mode=self.capture_hidden_mode,\n        )\n",
            "            **options,\n        )\n",
        ),
        (
            GRAPH_RUNNER,
            "        forward_batch = ForwardBatch(\n",
            lines(
                """
            options = {"capture_hidden_mode": None}
            options["capture_hidden_mode"] = self.capture_hidden_mode
            forward_batch = ForwardBatch(
        """,
                8,
            ),
        ),
    ),
    case(
        "an-attribute-set-in-every-round-of-a-recording",
        (
            GRAPH_RUNNER,
            "            capture_hidden_mode=self.capture_hidden_mode,\n        )\n",
            "        )\n        forward_batch.capture_hidden_mode = self.capture_hidden_mode\n",
        ),
        (
            GRAPH_RUNNER,
            "                capture_hidden_mode=CaptureHiddenMode.FULL,\n            )\n",
            lines(
                """
                capture_hidden_mode=CaptureHiddenMode.LAST,
            )
            self.raise_mode(spec_info)
        """,
                0,
            )
            .replace(")", "            )")
            .replace("capture", "                capture", 1)
            .replace("self.", "            self."),
        ),
        method(
            """
            def raise_mode(self, info):
                info.capture_hidden_mode = CaptureHiddenMode.FULL
        """,
            GRAPH_RUNNER,
            "    def get_spec_info(self",
        ),
    ),
    case(
        "a-batch-of-the-round-before",
        extend("""
            last = None
            for turn in range(batch.batch_size()):
                made = batch.get_model_worker_batch()
                made.capture_hidden_mode = CaptureHiddenMode.FULL
                if last is not None:
                    last.capture_hidden_mode = CaptureHiddenMode.LAST
                last = made
            while True:
                model_worker_batch = batch.get_model_worker_batch()
                model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
                if batch.batch_size() > 0:
                    break
        """),
    ),
    case(
        "a-copy-of-every-field",
        imports("import dataclasses as records", FORWARD_BATCH),
        (
            FORWARD_BATCH,
            (
                "            spec_info=batch.spec_info,\n"
                "            capture_hidden_mode=batch.capture_hidden_mode,\n        )\n"
            ),
            lines(
                """
                spec_info=batch.spec_info,
            )
            for each in records.fields(batch):
                if hasattr(made, each.name):
                    setattr(made, each.name, getattr(batch, each.name))
            return made
         """,
                8,
            ).replace("    spec_info", "            spec_info", 1),
        ),
        (
            FORWARD_BATCH,
            "        return cls(\n            forward_mode=batch",
            "        made = cls(\n            forward_mode=batch",
        ),
    ),
    case(
        "a-field-without-a-default-of-none",
        (
            FORWARD_BATCH,
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = None\n",
            "    capture_hidden_mode: CaptureHiddenMode = CaptureHiddenMode.NULL\n",
        ),
    ),
    case(
        "members-by-auto",
        (FORWARD_BATCH, "NULL = 0", "NULL = auto()"),
        (FORWARD_BATCH, "LAST = 1", "LAST = auto()"),
        (FORWARD_BATCH, "FULL = 2", "FULL = auto()"),
    ),
    case("is-full-by-identity", (FORWARD_BATCH, "self == CaptureHiddenMode.FULL", "self is CaptureHiddenMode.FULL")),
    case(
        "a-graph-that-is-recorded-again-when-it-is-too-low",
        (GRAPH_RUNNER, ASKED, "capture_hidden_mode=CaptureHiddenMode.LAST,\n"),
        (
            GRAPH_RUNNER,
            "        bs = self.capture_bs[bisect",
            lines(
                """
            wanted = max(forward_batch.capture_hidden_mode, self.capture_hidden_mode)
            if self.capture_hidden_mode != wanted:
                self.capture_hidden_mode = wanted
                self.capture()
        """,
                8,
            )
            + "        bs = self.capture_bs[bisect",
        ),
    ),
    case("what-is-recorded-is-handed-to-a-recorder", *HANDED_OVER),
    case(
        "an-early-return",
        (
            EAGLE_WORKER,
            "        if batch.forward_mode.is_extend():\n",
            (
                "        if batch.batch_size() == 0:\n            return GenerationBatchResult(logits_output=None)\n"
                "        if batch.forward_mode.is_extend():\n"
            ),
        ),
    ),
    case(
        "a-check-that-may-raise",
        (
            EAGLE_WORKER,
            "        if batch.forward_mode.is_extend():\n",
            (
                '        if batch.batch_size() > 4096:\n            raise ValueError("too large")\n'
                "        if batch.forward_mode.is_extend():\n"
            ),
        ),
    ),
    case(
        "a-module-variable",
        top("""
            CURRENT = None


            def hold(batch):
                global CURRENT
                CURRENT = batch


            def mark():
                CURRENT.capture_hidden_mode = CaptureHiddenMode.FULL
        """),
        extend("hold(model_worker_batch)\nmark()"),
    ),
    case(
        "a-dictionary-of-the-module",
        top("HELD = {}"),
        extend("""
            HELD["batch"] = model_worker_batch
            HELD["batch"].capture_hidden_mode = CaptureHiddenMode.FULL
            HELD["spare"] = None
            assert HELD["batch"] is model_worker_batch
        """),
    ),
    case(
        "a-dictionary-of-the-module-in-every-forward",
        top("HELD = {}", MODEL_RUNNER, "class ModelRunner"),
        (
            MODEL_RUNNER,
            "        can_run_graph = bool(",
            lines(
                """
            HELD["batch"] = forward_batch
            HELD["batch"].capture_hidden_mode = forward_batch.capture_hidden_mode
            can_run_graph = bool(
        """,
                8,
            ).rstrip("\n"),
        ),
        (
            GRAPH_RUNNER,
            "            return forward(forward_batch.input_ids, forward_batch)\n",
            "            return self.model_runner.forward(forward_batch)[0]\n",
        ),
        (
            MODEL_RUNNER,
            "        self.init_cuda_graphs()\n",
            "        self.init_cuda_graphs()\n        self.warmed = self.graph_runner is not None\n",
        ),
        (MODEL_RUNNER, "            and self.graph_runner\n", "            and self.graph_runner is not None\n"),
    ),
    case(
        "a-dictionary-of-the-module-that-functions-share",
        top("""
            HELD = {}


            def hold(batch):
                HELD["batch"] = batch


            def mark():
                HELD["batch"].capture_hidden_mode = CaptureHiddenMode.FULL


            def is_held():
                return "batch" in HELD


            def spare():
                HELD["spare"] = None


            def drop_spare():
                HELD.pop("spare", None)
        """),
        extend("""
            spare()
            hold(model_worker_batch)
            assert is_held()
            drop_spare()
            mark()
        """),
    ),
    case(
        "a-mode-in-a-dictionary-of-the-module",
        top("""
            WANTED = {"note": ""}


            def want(key, mode):
                WANTED[key] = mode


            def wanted(key):
                return WANTED[key]


            def count():
                return len(WANTED)


            def clear():
                WANTED.clear()
        """),
        extend("""
            clear()
            want("extend", CaptureHiddenMode.FULL)
            want("verify", CaptureHiddenMode.LAST)
            if count() > 1:
                model_worker_batch.capture_hidden_mode = wanted("extend")
        """),
    ),
    case(
        "a-dictionary-of-another-module",
        (
            FORWARD_BATCH,
            "",
            lines(
                """


            HELD = {}


            def hold(batch):
                HELD["batch"] = batch


            def held():
                return HELD["batch"]
        """,
                0,
            ),
        ),
        imports("from sglang.srt.model_executor.forward_batch_info import held, hold"),
        extend("""
            hold(model_worker_batch)
            held().capture_hidden_mode = CaptureHiddenMode.FULL
        """),
    ),
    case(
        "a-deque",
        imports("from collections import deque"),
        method("""
            def waiting(self, batch):
                rows = deque()
                rows.append(batch)
                rows.appendleft(None)
                spare = rows.popleft()
                if spare is None:
                    rows.append(spare)
                return rows
        """),
        extend("""
            pending = self.waiting(model_worker_batch)
            spare = batch.get_model_worker_batch()
            pending.append(spare)
            model_worker_batch = pending.popleft()
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
            pending.pop().capture_hidden_mode = CaptureHiddenMode.LAST
        """),
    ),
    case(
        "a-queue",
        imports("import queue\nfrom queue import SimpleQueue"),
        extend("""
            pending, modes = queue.Queue(), SimpleQueue()
            pending.put(model_worker_batch)
            modes.put(CaptureHiddenMode.FULL)
            modes.put(CaptureHiddenMode.LAST)
            while not pending.empty():
                model_worker_batch = pending.get()
                model_worker_batch.capture_hidden_mode = modes.get_nowait()
                pending.task_done()
        """),
    ),
    case(
        "a-data-descriptor-in-place-of-the-mode",
        (
            SCHEDULE_BATCH,
            "@dataclasses.dataclass\nclass ModelWorkerBatch",
            lines(
                """
            class Kept:
                def __set_name__(self, owner, name):
                    self.slot = "_" + name

                def __get__(self, instance, owner=None):
                    if instance is None:
                        return None
                    return getattr(instance, self.slot)

                def __set__(self, instance, mode):
                    setattr(instance, self.slot, mode)


            @dataclasses.dataclass
            class ModelWorkerBatch
        """,
                0,
            ).rstrip("\n"),
        ),
        (
            SCHEDULE_BATCH,
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = None\n",
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = Kept()\n",
        ),
    ),
    case(
        "a-data-descriptor-that-keeps-modes-by-object",
        (
            SCHEDULE_BATCH,
            "@dataclasses.dataclass\nclass ModelWorkerBatch",
            lines(
                """
            class Kept:
                def __init__(self, default=None):
                    self.default = default

                def __get__(self, instance, owner=None):
                    return self if instance is None else instance.__dict__.get("kept_mode", self.default)

                def __set__(self, instance, mode):
                    instance.__dict__["kept_mode"] = mode


            @dataclasses.dataclass
            class ModelWorkerBatch
        """,
                0,
            ).rstrip("\n"),
        ),
        (
            SCHEDULE_BATCH,
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = None\n",
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = Kept()\n",
        ),
    ),
    case(
        "a-metaclass-that-is-called",
        (
            SPEC_INFO,
            "@dataclasses.dataclass\nclass EagleVerifyInput",
            lines(
                """
            class Noted(type):
                made = 0

                def __call__(cls, *args, **kwargs):
                    Noted.made += 1
                    made = super().__call__(*args, **kwargs)
                    return made


            @dataclasses.dataclass
            class EagleVerifyInput
        """,
                0,
            ).rstrip("\n"),
        ),
        (SPEC_INFO, "class EagleVerifyInput(SpecInput):", "class EagleVerifyInput(SpecInput, metaclass=Noted):"),
    ),
    case(
        "a-metaclass-that-makes-and-initialises",
        (
            SCHEDULE_BATCH,
            "@dataclasses.dataclass\nclass ModelWorkerBatch",
            lines(
                """
            class Stepwise(type):
                def __call__(cls, *args, **kwargs):
                    made = cls.__new__(cls)
                    made.__init__(*args, **kwargs)
                    return made


            @dataclasses.dataclass
            class ModelWorkerBatch
        """,
                0,
            ).rstrip("\n"),
        ),
        (SCHEDULE_BATCH, "class ModelWorkerBatch:", "class ModelWorkerBatch(metaclass=Stepwise):"),
    ),
    case(
        "a-function-that-is-chosen-by-type",
        imports("import functools\nfrom sglang.srt.managers.schedule_batch import ModelWorkerBatch"),
        top("""
            @functools.singledispatch
            def mark(batch, mode=None):
                raise TypeError(batch)


            @mark.register
            def _(batch: ModelWorkerBatch, mode=None):
                batch.capture_hidden_mode = mode


            @mark.register(ScheduleBatch)
            def mark_all(batch, mode=None):
                raise ValueError


            @mark.register(list)
            def _(batch, mode=None):
                for each in batch:
                    mark(each, mode)
        """),
        extend("mark([model_worker_batch], CaptureHiddenMode.FULL)"),
    ),
    case(
        "a-method-that-is-chosen-by-type",
        imports(
            "from functools import singledispatchmethod\nfrom sglang.srt.managers.schedule_batch import ModelWorkerBatch"
        ),
        method("""
            @singledispatchmethod
            def marked(self, batch):
                raise TypeError(batch)

            @marked.register
            def _(self, batch: "ModelWorkerBatch"):
                batch.capture_hidden_mode = CaptureHiddenMode.FULL
                return batch

            @marked.register(type(None))
            def _(self, batch):
                return batch
        """),
        extend("self.marked(None)\nmodel_worker_batch = self.marked(model_worker_batch)"),
    ),
    case(
        "an-item-of-the-attributes",
        imports("import operator"),
        extend('operator.setitem(vars(model_worker_batch), "capture_hidden_mode", CaptureHiddenMode.FULL)'),
    ),
    case(
        "a-recursion-that-counts",
        top("""
            def mark(batch, turns):
                if turns == 0:
                    batch.capture_hidden_mode = CaptureHiddenMode.FULL
                else:
                    mark(batch, turns - 1)
        """),
        extend("mark(model_worker_batch, 7)"),
    ),
    case(
        "a-step-that-switches-a-shortcut-off",
        (EAGLE_WORKER, "        self.num_steps =", "        self.shortcut = True\n        self.num_steps ="),
        method("""
            def marked(self, batch, mode):
                batch.capture_hidden_mode = mode
                return batch
        """),
        extend("model_worker_batch = self.marked(model_worker_batch, CaptureHiddenMode.FULL)"),
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            EXTEND_FORWARD
            + lines(
                """
            if not result.next_token_ids:
                self.shortcut = False
        """,
                8,
            ),
        ),
        (
            EAGLE_WORKER,
            "        spec_info = self.draft(batch)\n",
            lines(
                """
            if self.shortcut:
                batch.output_ids = None
            spec_info = self.draft(batch)
        """,
                8,
            ),
        ),
    ),
    two_workers("two-healthy-workers", SECOND_WORKER),
    Case("relative-imports", relative(edited([]))),
    Case("renamed", renamed(edited([])), workers=("FeatureSpeculator",), runs=False),
    Case("registered", with_registry(edited([]))),
    Case("renamed-and-registered", renamed(with_registry(edited([]))), workers=("FeatureSpeculator",), runs=False),
)
