"""More edits that must be caught: other ways in Python to the same batch, the same function and the same value."""

from __future__ import annotations

from tests.flow.edits import (
    ASKED,
    ASKED_BY_THE_RUNNER,
    CAN_RUN,
    EXTEND,
    EXTEND_FORWARD,
    HANDED_OVER,
    HIGHEST,
    LAST,
    MODE,
    NULL_START,
    RUN_ONCE,
    UTILS,
    Case,
    after,
    argument,
    case,
    extend,
    imports,
    lines,
    method,
    top,
    verify_input,
)
from tests.flow.trees import EAGLE_WORKER, FORWARD_BATCH, GRAPH_RUNNER, LOGITS, SCHEDULE_BATCH, SPEC_INFO, TP_WORKER

__all__ = ["HARD"]

LOWER = method(f"def lower(self, batch):\n    batch.capture_hidden_mode = {LAST}  # HS101")

HARD: tuple[Case, ...] = (
    # what a helper does when its text names nothing
    case(
        "by-a-setter-that-names-nothing",
        imports("from sglang.srt.utils import FIELD, put"),
        (
            UTILS,
            "",
            'FIELD = "capture_hidden_mode"\n\n\ndef put(target, name, value):\n    setattr(target, name, value)\n',
        ),
        after(f"put(model_worker_batch, FIELD, {LAST})  # HS101"),
    ),
    case(
        "by-a-setter-of-many",
        imports("from sglang.srt.utils import assign"),
        (
            UTILS,
            "",
            (
                "def assign(target, **values):\n    for name, value in values.items():\n"
                "        setattr(target, name, value)\n"
            ),
        ),
        after(f"assign(model_worker_batch, capture_hidden_mode={LAST})  # HS101"),
    ),
    case(
        "by-a-merge-of-dicts",
        imports("from sglang.srt.utils import merge"),
        (UTILS, "", "def merge(target, values):\n    target.__dict__.update(values)\n"),
        after(f'merge(model_worker_batch, {{"capture_hidden_mode": {LAST}}})  # HS101'),
    ),
    case(
        "by-a-method-with-a-common-name",
        (
            SCHEDULE_BATCH,
            "\n\n@dataclasses.dataclass\nclass GenerationBatchResult",
            lines(
                """

            def update(self, **values):
                for name, value in values.items():
                    setattr(self, name, value)
        """,
                4,
            )
            + "\n\n@dataclasses.dataclass\nclass GenerationBatchResult",
        ),
        after(f"model_worker_batch.update(capture_hidden_mode={LAST})  # HS101"),
    ),
    case(
        "by-setattr-with-a-composed-name",
        after(f'setattr(model_worker_batch, "capture_" + "hidden_mode", {LAST})  # HS101'),
    ),
    case(
        "by-setattr-with-a-formatted-name",
        after(f'what = "hidden"\nsetattr(model_worker_batch, f"capture_{{what}}_mode", {LAST})  # HS101'),
    ),
    case("by-object-setattr", after(f'object.__setattr__(model_worker_batch, "capture_hidden_mode", {LAST})  # HS101')),
    case(
        "by-an-overridden-setattr",
        (
            SCHEDULE_BATCH,
            "\n\n@dataclasses.dataclass\nclass GenerationBatchResult",
            lines(
                f"""

            def __setattr__(self, name, value):
                if name == "capture_hidden_mode":
                    value = {LAST} if value is not None and value > 1 else value  # HS101
                object.__setattr__(self, name, value)
        """.replace(MODE, MODE),
                4,
            )
            + "\n\n@dataclasses.dataclass\nclass GenerationBatchResult",
        ),
        rules="HS101 HS102",
    ),
    case("by-deletion", after("del model_worker_batch.capture_hidden_mode"), rules="HS103"),
    # another way to the same batch
    case("by-a-list", after(f"pending = [model_worker_batch]\npending[0].capture_hidden_mode = {LAST}  # HS101")),
    case(
        "by-an-unpacked-pair", after(f"_, same = (0, model_worker_batch)\nsame.capture_hidden_mode = {LAST}  # HS101")
    ),
    case(
        "by-a-holder", after(f"self.current = model_worker_batch\nself.current.capture_hidden_mode = {LAST}  # HS101")
    ),
    case(
        "by-a-helper-that-swaps-what-is-held",
        method("def swap(self, batch):\n    self.held = batch"),
        extend(f"""
        model_worker_batch.capture_hidden_mode = {LAST}  # HS101
        self.held = model_worker_batch
        self.swap(batch)
        self.held.capture_hidden_mode = CaptureHiddenMode.FULL
     """),
    ),
    case(
        "by-a-helper-that-swaps-what-is-forwarded",
        imports("import copy"),
        method("def keep(self, batch):\n    self.kept = batch"),
        (
            EAGLE_WORKER,
            EXTEND,
            lines(
                f"""
        lower = copy.copy(model_worker_batch)
        lower.capture_hidden_mode = {LAST}  # HS101
        model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
        self.kept = model_worker_batch
        self.keep(lower)
     """,
                8,
            ),
        ),
        (EAGLE_WORKER, EXTEND_FORWARD, EXTEND_FORWARD.replace("(model_worker_batch)", "(self.kept)")),
    ),
    case(
        "by-a-star-below-another-binding",
        (
            UTILS,
            "",
            f"from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode\n\nTARGET = {LAST}  # HS101\n",
        ),
        top("TARGET = CaptureHiddenMode.FULL\nfrom sglang.srt.utils import *"),
        extend("model_worker_batch.capture_hidden_mode = TARGET"),
    ),
    case(
        "by-a-class-variable-that-a-dispatch-leaves",
        (EAGLE_WORKER, "    def draft(self", "    wanted = CaptureHiddenMode.FULL\n\n    def draft(self"),
        extend(f"""
        model_worker_batch.capture_hidden_mode = self.wanted
        EAGLEWorker.wanted = {LAST}  # HS101
     """),
    ),
    case(
        "by-a-list-of-a-module-that-a-dispatch-leaves",
        top("WANTED = [CaptureHiddenMode.FULL]"),
        extend(f"""
        model_worker_batch.capture_hidden_mode = WANTED[-1]
        WANTED.append({LAST})  # HS101
     """),
    ),
    case(
        "by-a-default-that-a-dispatch-leaves",
        method(f"""
        def wanted(self, seen=[CaptureHiddenMode.FULL]):
            mode = seen[-1]
            seen.append({LAST})  # HS101
            return mode
     """),
        extend("model_worker_batch.capture_hidden_mode = self.wanted()"),
    ),
    case(
        "by-a-rotation",
        imports("from collections import deque"),
        extend(f"""
        modes = deque([CaptureHiddenMode.FULL, {LAST}])  # HS101
        modes.rotate(1)
        model_worker_batch.capture_hidden_mode = modes[0]
     """),
    ),
    case(
        "by-an-order-of-its-own",
        (
            FORWARD_BATCH,
            "    def need_capture(self):",
            "    def __gt__(self, other):\n        return self.value < other.value\n\n    def need_capture(self):",
        ),
        extend(f"model_worker_batch.capture_hidden_mode = max({LAST}, CaptureHiddenMode.FULL)  # HS101"),
        rules="HS101",
        also="HS104",
    ),
    case(
        "by-a-sort-with-an-order-of-its-own",
        (
            FORWARD_BATCH,
            "    def need_capture(self):",
            "    def __lt__(self, other):\n        return self.value > other.value\n\n    def need_capture(self):",
        ),
        extend(f"model_worker_batch.capture_hidden_mode = sorted([{LAST}, CaptureHiddenMode.FULL])[-1]  # HS101"),
        rules="HS101",
        also="HS104",
    ),
    case(
        "by-a-loop-over-batches",
        after(f"for each in (batch, model_worker_batch):\n    each.capture_hidden_mode = {LAST}  # HS101"),
    ),
    case(
        "by-a-dict-of-batches",
        after(
            f'named = {{"target": model_worker_batch}}\nfor each in named.values():\n'
            f"    each.capture_hidden_mode = {LAST}  # HS101"
        ),
    ),
    case(
        "by-map",
        LOWER,
        after("list(map(self.lower, [model_worker_batch]))"),
    ),
    case(
        "by-a-comprehension",
        LOWER,
        after("[self.lower(each) for each in [model_worker_batch]]"),
    ),
    case(
        "by-any",
        LOWER,
        after("any(self.lower(each) for each in [model_worker_batch])"),
    ),
    # another way to the same function
    case(
        "by-a-name-of-a-method",
        method(f"def lower_rows(self, batch):\n    batch.capture_hidden_mode = {LAST}  # HS101"),
        after('getattr(self, "lower_" + "rows")(model_worker_batch)'),
    ),
    case(
        "by-hooks",
        (EAGLE_WORKER, "        self.topk = ", "        self.hooks = [self.lower]\n        self.topk = "),
        LOWER,
        after("for hook in self.hooks:\n    hook(model_worker_batch)"),
    ),
    case(
        "by-registered-hooks",
        (
            EAGLE_WORKER,
            "class EAGLEWorker",
            (
                "_HOOKS = []\n\n\ndef hook(function):\n    _HOOKS.append(function)\n    return function\n\n\n@hook\n"
                f"def lower(batch):\n    batch.capture_hidden_mode = {LAST}  # HS101\n\n\nclass EAGLEWorker"
            ),
        ),
        after("for each in _HOOKS:\n    each(model_worker_batch)"),
    ),
    case(
        "by-a-decorator",
        imports("import functools"),
        (
            EAGLE_WORKER,
            "class EAGLEWorker",
            lines(
                f"""
            def lowered(function):
                @functools.wraps(function)
                def run(self, worker_batch, *args, **kwargs):
                    worker_batch.capture_hidden_mode = {LAST}  # HS101
                    return function(self, worker_batch, *args, **kwargs)

                return run
        """,
                0,
            )
            + "\n\nclass EAGLEWorker",
        ),
        method(
            "@lowered\ndef send(self, worker_batch):\n"
            "    return self.target_worker.forward_batch_generation(worker_batch)"
        ),
        (EAGLE_WORKER, EXTEND_FORWARD, "        result = self.send(model_worker_batch)\n"),
    ),
    case(
        "by-a-patched-method",
        (
            EAGLE_WORKER,
            "",
            lines(
                f"""


            _extend = EAGLEWorker.forward_target_extend


            def _lowered_extend(self, batch):
                model_worker_batch = batch.get_model_worker_batch()
                model_worker_batch.capture_hidden_mode = {LAST}  # HS101
                result = self.target_worker.forward_batch_generation(model_worker_batch)
                return result.logits_output, result.next_token_ids


            EAGLEWorker.forward_target_extend = _lowered_extend
        """,
                0,
            ),
        ),
    ),
    case(
        "by-a-patched-factory",
        imports("import functools", TP_WORKER),
        (
            TP_WORKER,
            "\n\nclass TpModelWorker",
            lines(
                """


            _init_new = ForwardBatch.init_new


            def _lowered(batch, model_runner):
                made = _init_new(batch, model_runner)
                made.capture_hidden_mode = CaptureHiddenMode.LAST  # HS101 HS102
                return made


            ForwardBatch.init_new = staticmethod(_lowered)
        """,
                0,
            )
            + "\n\nclass TpModelWorker",
        ),
        (TP_WORKER, "import ForwardBatch\n", "import CaptureHiddenMode, ForwardBatch\n"),
    ),
    case(
        "by-an-executor",
        imports("from concurrent.futures import ThreadPoolExecutor"),
        LOWER,
        after("ThreadPoolExecutor(1).submit(self.lower, model_worker_batch).result()"),
        also="HS109",
    ),
    case("by-exec", after(f'exec("model_worker_batch.capture_hidden_mode = {LAST}")'), rules="HS109", also="HS101"),
    case(
        "by-a-module-by-name",
        imports("import importlib"),
        (
            UTILS,
            "",
            (
                f"from sglang.srt.model_executor.forward_batch_info import {MODE}\n\n"
                f"\ndef lower(batch):\n    batch.capture_hidden_mode = {LAST}  # HS101\n"
            ),
        ),
        after('importlib.import_module("sglang.srt.utils").lower(model_worker_batch)'),
    ),
    case(
        "by-globals",
        (
            EAGLE_WORKER,
            "class EAGLEWorker",
            f"def lower(batch):\n    batch.capture_hidden_mode = {LAST}  # HS101\n\n\nclass EAGLEWorker",
        ),
        after('globals()["lower"](model_worker_batch)'),
    ),
    case(
        "by-an-operator",
        imports("import operator"),
        (
            SCHEDULE_BATCH,
            "\n\n@dataclasses.dataclass\nclass GenerationBatchResult",
            (
                f"\n    def lower(self):\n        self.capture_hidden_mode = {LAST}  # HS101\n"
                "\n\n@dataclasses.dataclass\nclass GenerationBatchResult"
            ),
        ),
        after('operator.methodcaller("lower")(model_worker_batch)'),
    ),
    # another way to the value
    case(
        "by-a-cached-helper",
        imports("import functools"),
        (
            EAGLE_WORKER,
            "class EAGLEWorker",
            f"@functools.lru_cache(maxsize=None)\ndef wanted():\n    return {LAST}  # HS101\n\n\nclass EAGLEWorker",
        ),
        extend("model_worker_batch.capture_hidden_mode = wanted()"),
    ),
    case(
        "by-a-cached-property",
        imports("import functools"),
        method(f"@functools.cached_property\ndef wanted(self):\n    return {LAST}  # HS101"),
        extend("model_worker_batch.capture_hidden_mode = self.wanted"),
    ),
    case(
        "by-a-pair",
        method(f"def plan(self):\n    return 4, {LAST}  # HS101"),
        extend("_, model_worker_batch.capture_hidden_mode = self.plan()"),
    ),
    case(
        "by-a-generator",
        method(f"def modes(self):\n    yield {LAST}  # HS101\n    yield CaptureHiddenMode.FULL"),
        extend("model_worker_batch.capture_hidden_mode = next(self.modes())"),
    ),
    case(
        "by-arithmetic",
        extend("model_worker_batch.capture_hidden_mode = CaptureHiddenMode(CaptureHiddenMode.FULL - 1)  # HS101"),
    ),
    case(
        "by-a-default-factory",
        (EAGLE_WORKER, "            " + ASKED, ""),
        (
            SPEC_INFO,
            "    capture_hidden_mode: Optional[CaptureHiddenMode] = None\n",
            (
                "    capture_hidden_mode: Optional[CaptureHiddenMode] = "
                f"dataclasses.field(default_factory=lambda: {LAST})  # HS102\n"
            ),
        ),
    ),
    case(
        "by-another-name-of-the-member",
        (FORWARD_BATCH, "    FULL = 2", "    DEFAULT = 1\n    FULL = 2"),
        extend("model_worker_batch.capture_hidden_mode = CaptureHiddenMode.DEFAULT  # HS101"),
    ),
    case(
        "by-the-order-of-the-members",
        extend("model_worker_batch.capture_hidden_mode = sorted(CaptureHiddenMode)[1]  # HS101"),
    ),
    case(
        "by-an-unset-variable-of-the-environment",
        imports("import os"),
        extend(
            "model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL "
            f'if os.environ.get("FULL_ROWS") else {LAST}  # HS101'
        ),
    ),
    # control
    case(
        "by-a-suppressed-error",
        imports("import contextlib"),
        extend(f"""
        model_worker_batch.capture_hidden_mode = {LAST}  # HS101
        with contextlib.suppress(KeyError):
            {{}}["target"]
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
     """),
    ),
    case(
        "by-an-error-that-passes-a-finally-and-is-swallowed-further-out",
        method(f"""
        def guarded(self, batch):
            batch.capture_hidden_mode = {LAST}  # HS101
            try:
                batch.input_ids[10 ** 9].item()
                batch.capture_hidden_mode = CaptureHiddenMode.FULL
            finally:
                self.attempts = 1
     """),
        extend("""
        try:
            self.guarded(model_worker_batch)
        except Exception:
            pass
     """),
    ),
    case(
        "by-an-error-that-is-raised-again-and-swallowed-further-out",
        method(f"""
        def guarded(self, batch):
            batch.capture_hidden_mode = {LAST}  # HS101
            try:
                batch.input_ids[10 ** 9].item()
            except IndexError as error:
                self.attempts = 1
                raise RuntimeError("no such token") from error
            batch.capture_hidden_mode = CaptureHiddenMode.FULL
     """),
        extend("""
        try:
            self.guarded(model_worker_batch)
        except RuntimeError:
            pass
     """),
    ),
    case(
        "by-an-exit-that-swallows",
        top("""
        class Forgiving:
            def __enter__(self):
                return self

            def __exit__(self, kind, error, trace):
                return kind is not None and issubclass(kind, LookupError)
     """),
        extend(f"""
        model_worker_batch.capture_hidden_mode = {LAST}  # HS101
        with Forgiving():
            batch.input_ids[10 ** 9].item()
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
     """),
    ),
    case(
        "by-a-finally-that-drops-the-error",
        method(f"""
        def guarded(self, batch):
            batch.capture_hidden_mode = {LAST}  # HS101
            for _ in range(1):
                try:
                    batch.input_ids[10 ** 9].item()
                    batch.capture_hidden_mode = CaptureHiddenMode.FULL
                finally:
                    break
     """),
        extend("self.guarded(model_worker_batch)"),
    ),
    case(
        "by-a-loop-that-breaks",
        extend(f"""
        model_worker_batch.capture_hidden_mode = {LAST}  # HS101
        for step in range(8):
            if step == 3:
                break
        else:
            model_worker_batch.capture_hidden_mode = CaptureHiddenMode.FULL
     """),
    ),
    case(
        "by-a-return-in-a-finally",
        method(f"""
        def wanted(self):
            try:
                return CaptureHiddenMode.FULL
            finally:
                return {LAST}  # HS101
     """),
        extend("model_worker_batch.capture_hidden_mode = self.wanted()"),
    ),
    case(
        "by-a-short-cut",
        method("def raise_rows(self, batch):\n    batch.capture_hidden_mode = CaptureHiddenMode.FULL\n    return True"),
        extend(
            f"model_worker_batch.capture_hidden_mode = {LAST}  # HS101\n"
            "batch.forward_mode.is_idle() and self.raise_rows(model_worker_batch)"
        ),
    ),
    case(
        "by-an-exit",
        (
            EAGLE_WORKER,
            "class EAGLEWorker",
            lines(
                f"""
            class Rows:
                def __init__(self, batch):
                    self.batch = batch

                def __enter__(self):
                    return self.batch

                def __exit__(self, *error):
                    self.batch.capture_hidden_mode = {LAST}  # HS101
        """,
                0,
            )
            + "\n\nclass EAGLEWorker",
        ),
        extend("with Rows(model_worker_batch) as rows:\n    rows.capture_hidden_mode = CaptureHiddenMode.FULL"),
    ),
    case(
        "by-an-exit-stack",
        imports("import contextlib"),
        method(f"""
        @contextlib.contextmanager
        def rows(self, batch):
            batch.capture_hidden_mode = {LAST}  # HS101
            yield
     """),
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            lines(
                """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.rows(model_worker_batch))
            result = self.target_worker.forward_batch_generation(model_worker_batch)
     """,
                8,
            ),
        ),
        also="HS109",
    ),
    # state that outlives a batch
    case(
        "by-a-template-that-is-lowered-later",
        (
            EAGLE_WORKER,
            "        self.topk = ",
            (
                "        self.template = EagleVerifyInput(None, self_draft_tokens, CaptureHiddenMode.FULL)\n"
                "        self.topk = "
            ).replace("self_draft_tokens", "4"),
        ),
        verify_input(
            "self.template.draft_token = [0] * (batch.batch_size() * self.num_draft_tokens)\nreturn self.template"
        ),
        (
            EAGLE_WORKER,
            "        kept_mode = batch.forward_mode\n",
            f"        kept_mode = batch.forward_mode\n        self.template.capture_hidden_mode = {LAST}  # HS102\n",
        ),
    ),
    case(
        "by-a-flag-that-a-decode-sets",
        (EAGLE_WORKER, "        self.topk = ", "        self.lean = False\n        self.topk = "),
        (
            EAGLE_WORKER,
            "        draft_input = batch.spec_info\n",
            "        self.lean = True\n        draft_input = batch.spec_info\n",
        ),
        extend(f"model_worker_batch.capture_hidden_mode = {LAST} if self.lean else CaptureHiddenMode.FULL  # HS101"),
    ),
    case(
        "by-an-argument-that-the-tree-sets",
        argument("lean"),
        (EAGLE_WORKER, "        self.topk = ", "        server_args.lean = True\n        self.topk = "),
        extend(
            f"model_worker_batch.capture_hidden_mode = {LAST} if "
            "self.server_args.lean else CaptureHiddenMode.FULL  # HS101"
        ),
    ),
    # the result that counts
    case(
        "of-two-forwards-the-lower-one-is-used",
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            f"""        self.target_worker.forward_batch_generation(model_worker_batch)
        model_worker_batch.capture_hidden_mode = {LAST}  # HS101
{EXTEND_FORWARD}""",
        ),
    ),
    case(
        "a-forward-batch-of-its-own",
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            lines(
                f"""
        forward_batch = ForwardBatch.init_new(model_worker_batch, self.target_worker.model_runner)
        forward_batch.capture_hidden_mode = {LAST}  # HS101
        logits_output, _ = self.target_worker.model_runner.forward(forward_batch)
        return logits_output, self.target_worker.model_runner.sample(logits_output)
     """,
                8,
            ),
        ),
        (EAGLE_WORKER, "        return result.logits_output, result.next_token_ids\n", ""),
    ),
    # graphs
    case(
        "a-graph-for-one-size-is-lower",
        (
            GRAPH_RUNNER,
            "            capture_hidden_mode=self.capture_hidden_mode,\n",
            f"            capture_hidden_mode={LAST} if bs == 2 else self.capture_hidden_mode,  # HS104\n",
        ),
    ),
    case(
        "a-graph-is-recorded-again-lower",
        (
            GRAPH_RUNNER,
            "        bs = self.capture_bs[bisect",
            lines(
                f"""
        self.capture_hidden_mode = {LAST}  # HS104
        self.capture()
     """,
                8,
            )
            + "        bs = self.capture_bs[bisect",
        ),
        (GRAPH_RUNNER, "            self.capture_hidden_mode = " + HIGHEST, "            pass"),
    ),
    case(
        "a-graph-of-a-replaced-batch",
        imports("import dataclasses", GRAPH_RUNNER),
        (
            GRAPH_RUNNER,
            RUN_ONCE,
            (
                f"        forward_batch = dataclasses.replace(forward_batch, capture_hidden_mode={LAST})  # HS104\n"
                f"\n{RUN_ONCE}"
            ),
        ),
    ),
    case(
        "what-is-recorded-is-handed-to-a-recorder",
        *HANDED_OVER,
        (
            GRAPH_RUNNER,
            ASKED_BY_THE_RUNNER,
            ASKED_BY_THE_RUNNER.replace("self.capture_hidden_mode,", f"{LAST},  # HS104"),
        ),
    ),
    case(
        "a-runner-that-refuses-what-one-setting-does-not-record",
        argument("drop_states"),
        (
            GRAPH_RUNNER,
            NULL_START,
            (
                f"{NULL_START[:-1]}  # HS104\n        if not model_runner.server_args.drop_states:\n"
                f"            self.capture_hidden_mode = {MODE}.FULL\n"
            ),
        ),
        (GRAPH_RUNNER, "max(self.capture_hidden_mode, spec_info.capture_hidden_mode)", "self.capture_hidden_mode"),
        (GRAPH_RUNNER, CAN_RUN, f"{CAN_RUN[:-1]} and forward_batch.capture_hidden_mode <= self.capture_hidden_mode\n"),
    ),
    case(
        "a-runner-that-records-less-than-it-admits",
        argument("drop_states"),
        (
            GRAPH_RUNNER,
            NULL_START,
            (
                f"{NULL_START}        if not model_runner.server_args.drop_states:\n"
                f"            self.capture_hidden_mode = {MODE}.FULL\n"
            ),
        ),
        (GRAPH_RUNNER, "max(self.capture_hidden_mode, spec_info.capture_hidden_mode)", "self.capture_hidden_mode"),
        (GRAPH_RUNNER, CAN_RUN, f"{CAN_RUN[:-1]} and forward_batch.capture_hidden_mode <= self.capture_hidden_mode\n"),
        (
            GRAPH_RUNNER,
            ASKED_BY_THE_RUNNER,
            (
                "            capture_hidden_mode=(\n"
                f"                {LAST} if self.capture_hidden_mode.is_full() else self.capture_hidden_mode  # HS104\n"
                "            ),\n"
            ),
        ),
    ),
    # what a function leaves in names and containers that outlive it
    case(
        "by-a-nonlocal",
        extend(f"""
            wanted = {MODE}.FULL
            def choose():
                nonlocal wanted
                rows = batch.batch_size()
                more = rows + 1
                wanted = {LAST}  # HS101
                return more
            choose()
            model_worker_batch.capture_hidden_mode = wanted
        """),
    ),
    case(
        "by-a-container-that-is-given-away",
        top(f"""
            def fill(options, rows):
                less = rows
                more = rows
                options["capture_hidden_mode"] = {LAST}  # HS101
                return less + more
        """),
        extend(f"""
            options = {{"capture_hidden_mode": {MODE}.FULL}}
            fill(options, 3)
            for name, value in options.items():
                setattr(model_worker_batch, name, value)
        """),
    ),
    case(
        "by-a-container-that-is-closed-over",
        extend(f"""
            options = {{"mode": {MODE}.FULL}}
            def fill(rows):
                less = rows
                more = rows
                options["mode"] = {LAST}  # HS101
                return less + more
            fill(3)
            model_worker_batch.capture_hidden_mode = options["mode"]
        """),
    ),
    case(
        "by-a-module-variable",
        top(f"""
            WANTED = {MODE}.FULL


            def lower(rows):
                global WANTED
                less = rows
                more = rows
                WANTED = {LAST}  # HS101
                return less + more
        """),
        extend(f"""
            global WANTED
            WANTED = {MODE}.FULL
            lower(3)
            model_worker_batch.capture_hidden_mode = WANTED
        """),
    ),
    case(
        "by-a-module-variable-on-some-paths",
        top(f"""
            WANTED = {LAST}  # HS101


            def raised():
                global WANTED
                WANTED = {MODE}.FULL
        """),
        extend("""
            if batch.batch_size() > 4:
                raised()
            model_worker_batch.capture_hidden_mode = WANTED
        """),
    ),
    case(
        "by-another-batch-in-a-dictionary-of-the-module",
        top(f"""
            HELD = {{}}


            def hold(other, rows):
                less = rows
                more = rows
                HELD["batch"] = other
                other.capture_hidden_mode = {LAST}
                return less + more
        """),
        extend(f"""
            HELD["batch"] = model_worker_batch
            hold(batch.get_model_worker_batch(), 3)
            HELD["batch"].capture_hidden_mode = {MODE}.FULL
        """),
        rules="HS101",
    ),
    case(
        "by-a-function-that-names-only-the-dictionary",
        top("""
            HELD = {}


            def hold(batch):
                HELD["batch"] = batch


            def exchange():
                HELD["batch"] = HELD.pop("spare")


            def mark():
                HELD["batch"].capture_hidden_mode = CaptureHiddenMode.FULL
        """),
        extend("""
            hold(model_worker_batch)
            HELD["spare"] = batch.get_model_worker_batch()
            exchange()
            mark()
        """),
        rules="HS101",
    ),
    case(
        "by-a-function-that-empties-a-dictionary-of-another-module",
        (
            FORWARD_BATCH,
            "",
            lines(
                f"""


            LOW = {LAST}
            WANTED = {{}}


            def want(key, mode):
                WANTED[key] = mode


            def forget():
                WANTED.clear()
                WANTED.update(extend=LOW)


            def wanted(key):
                return WANTED.get(key, LOW)
        """,
                0,
            ),
        ),
        imports("from sglang.srt.model_executor.forward_batch_info import forget, want, wanted"),
        extend(f"""
            want("extend", {MODE}.FULL)
            forget()
            model_worker_batch.capture_hidden_mode = wanted("extend")
        """),
        rules="HS101",
        also="HS109",
    ),
    case(
        "by-a-dictionary-under-another-name",
        top(f"""
            WANTED = {{}}


            def wanted(key):
                return WANTED[key]


            def lower(rows=WANTED):
                rows["extend"] = {LAST}
        """),
        extend(f"""
            WANTED["extend"] = {MODE}.FULL
            lower()
            model_worker_batch.capture_hidden_mode = wanted("extend")
        """),
        rules="HS109",
    ),
    case(
        "by-the-round-after",
        extend(f"""
            rows = []
            for turn in range(batch.batch_size() + 1):
                made = batch.get_model_worker_batch()
                made.capture_hidden_mode = {MODE}.FULL
                if rows:
                    rows[-1].capture_hidden_mode = {LAST}  # HS101
                rows.append(made)
            model_worker_batch = rows[0]
        """),
        also="HS102 HS109",
    ),
    case(
        "by-a-keyword-that-every-round-of-a-recording-lowers",
        (
            GRAPH_RUNNER,
            "            capture_hidden_mode=self.capture_hidden_mode,\n        )\n",
            "            **options,\n        )\n",
        ),
        (
            GRAPH_RUNNER,
            "        forward_batch = ForwardBatch(\n",
            lines(
                f"""
            options = {{"capture_hidden_mode": self.capture_hidden_mode}}
            options["capture_hidden_mode"] = {LAST}  # HS104
            forward_batch = ForwardBatch(
        """,
                8,
            ),
        ),
    ),
    case(
        "by-the-other-end-of-a-deque",
        imports("from collections import deque"),
        extend(f"""
            pending = deque([model_worker_batch])
            pending.appendleft(batch.get_model_worker_batch())
            pending.popleft().capture_hidden_mode = {MODE}.FULL
            model_worker_batch = pending.popleft()
        """),
        rules="HS101",
    ),
    case(
        "by-the-second-of-a-queue",
        imports("import queue"),
        extend(f"""
            modes = queue.Queue()
            modes.put({MODE}.FULL)
            modes.put({LAST})  # HS101
            modes.get()
            model_worker_batch.capture_hidden_mode = modes.get()
        """),
    ),
    case(
        "by-an-item-that-a-list-loses-to-nobody",
        extend(f"""
            modes = [{LAST}, {MODE}.FULL, {LAST}]  # HS101
            highest = modes.pop(1)
            model_worker_batch.capture_hidden_mode = modes[1]
        """),
    ),
    case(
        "by-a-descriptor-that-keeps-one-mode-for-all",
        (
            SCHEDULE_BATCH,
            "@dataclasses.dataclass\nclass ModelWorkerBatch",
            lines(
                """
            class Kept:
                def __get__(self, instance, owner=None):
                    return None if instance is None else self.kept

                def __set__(self, instance, value):
                    self.kept = value


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
        after("spare = batch.get_model_worker_batch()"),
        rules="HS101",
        also="HS109",
    ),
    case(
        "by-a-descriptor-that-names-nothing",
        (
            UTILS,
            "",
            lines(
                """


            def lowest(kind):
                return min(kind)
        """,
                0,
            ),
        ),
        (
            SCHEDULE_BATCH,
            "@dataclasses.dataclass\nclass ModelWorkerBatch",
            lines(
                """
            from sglang.srt.utils import lowest


            class Kept:
                def __get__(self, instance, owner=None):
                    if instance is None:
                        return None
                    return instance.kept

                def __set__(self, instance, value):
                    seen = 0
                    for each in range(400):
                        seen += each * 2
                    instance.kept = lowest(type(value)) if seen else value


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
        rules="HS101 HS102",
        also="HS109 HS103",
    ),
    case(
        "by-a-metaclass-that-lowers-what-it-makes",
        (
            SPEC_INFO,
            "@dataclasses.dataclass\nclass EagleVerifyInput",
            lines(
                """
            class Lowered(type):
                def __call__(cls, *args, **kwargs):
                    for name in list(kwargs)[-1:]:
                        kwargs[name] = min(type(kwargs[name]))
                    return super().__call__(*args, **kwargs)


            @dataclasses.dataclass
            class EagleVerifyInput
        """,
                0,
            ).rstrip("\n"),
        ),
        (SPEC_INFO, "class EagleVerifyInput(SpecInput):", "class EagleVerifyInput(SpecInput, metaclass=Lowered):"),
        rules="HS102 HS104",
        also="HS103 HS109",
    ),
    case(
        "by-a-metaclass-that-makes-one-for-all",
        (
            SCHEDULE_BATCH,
            "@dataclasses.dataclass\nclass ModelWorkerBatch",
            lines(
                """
            class Once(type):
                kept = {}

                def __call__(cls, *args, **kwargs):
                    if cls not in Once.kept:
                        Once.kept[cls] = cls.__new__(cls)
                    Once.kept[cls].__init__(*args, **kwargs)
                    return Once.kept[cls]


            @dataclasses.dataclass
            class ModelWorkerBatch
        """,
                0,
            ).rstrip("\n"),
        ),
        (SCHEDULE_BATCH, "class ModelWorkerBatch:", "class ModelWorkerBatch(metaclass=Once):"),
        after("spare = batch.get_model_worker_batch()"),
        rules="HS101",
        also="HS109",
    ),
    case(
        "by-a-function-that-is-chosen-by-type",
        imports("import functools\nfrom sglang.srt.managers.schedule_batch import ModelWorkerBatch"),
        top(f"""
            @functools.singledispatch
            def mark(batch):
                return None


            @mark.register
            def _(batch: ModelWorkerBatch):
                batch.capture_hidden_mode = {LAST}  # HS101
        """),
        after("mark(model_worker_batch)"),
    ),
    case(
        "by-what-another-module-registers-for-a-type",
        (
            FORWARD_BATCH,
            "",
            lines(
                """


            import functools


            @functools.singledispatch
            def mark(batch):
                return None
        """,
                0,
            ),
        ),
        (
            SCHEDULE_BATCH,
            "@dataclasses.dataclass\nclass GenerationBatchResult",
            lines(
                f"""
            from sglang.srt.model_executor.forward_batch_info import mark


            @mark.register
            def _(batch: ModelWorkerBatch):
                batch.capture_hidden_mode = {LAST}


            @dataclasses.dataclass
            class GenerationBatchResult
        """,
                0,
            ).rstrip("\n"),
        ),
        imports("from sglang.srt.model_executor.forward_batch_info import mark"),
        after("mark(model_worker_batch)"),
        rules="HS109",
    ),
    case(
        "by-a-method-that-is-chosen-by-type",
        imports("from functools import singledispatchmethod"),
        method(f"""
            @singledispatchmethod
            def marked(self, how, batch):
                return None

            @marked.register(int)
            def _(self, how, batch):
                batch.capture_hidden_mode = {LAST}  # HS101

            @marked.register(bool)
            def _(self, how, batch):
                batch.capture_hidden_mode = {MODE}.FULL
        """),
        after("self.marked(3, model_worker_batch)"),
    ),
    case(
        "by-operator-setitem-of-vars",
        imports("import operator"),
        after(f'operator.setitem(vars(model_worker_batch), "capture_hidden_mode", {LAST})  # HS101'),
    ),
    case(
        "by-operator-setitem",
        imports("import operator"),
        extend(f"""
            options = {{"mode": {MODE}.FULL}}
            operator.setitem(options, "mode", {LAST})  # HS101
            model_worker_batch.capture_hidden_mode = options["mode"]
        """),
    ),
    case(
        "by-a-setitem-of-ones-own",
        extend(f"""
            options = {{"mode": {MODE}.FULL}}
            dict.__setitem__(options, "mode", {LAST})
            model_worker_batch.capture_hidden_mode = options["mode"]
        """),
        rules="HS101",
        also="HS109",
    ),
    case(
        "by-a-recursion-that-counts",
        top(f"""
            def lower(batch, turns):
                if turns == 0:
                    batch.capture_hidden_mode = {LAST}  # HS101
                else:
                    lower(batch, turns - 1)
        """),
        after("lower(model_worker_batch, 7)"),
    ),
    # the logits processor's own tests, turned around
    case(
        "a-processor-that-keeps-where-nothing-is-asked",
        (
            LOGITS,
            "        if logits_metadata.capture_hidden_mode.need_capture():\n",
            "        if not logits_metadata.capture_hidden_mode.need_capture():  # HS103\n",
        ),
        also="HS104",
    ),
    case(
        "a-processor-that-keeps-all-rows-where-they-are-not-asked",
        (
            LOGITS,
            "        if logits_metadata.capture_hidden_mode.need_capture():\n",
            "        if logits_metadata.capture_hidden_mode.need_capture():  # HS103\n",
        ),
        (
            LOGITS,
            "if logits_metadata.capture_hidden_mode.is_full",
            "if not logits_metadata.capture_hidden_mode.is_full",
        ),
        also="HS104",
    ),
    case(
        "a-processor-that-keeps-nothing",
        (
            LOGITS,
            "        if logits_metadata.capture_hidden_mode.need_capture():\n",
            "        if logits_metadata.capture_hidden_mode.need_capture():  # HS103\n",
        ),
        (LOGITS, "hidden_states=kept)", "hidden_states=None)"),
        also="HS104",
    ),
)
