"""Edits that must be caught: what decides the mode is changed by code that names neither the mode nor the batch."""

from __future__ import annotations

from tests.flow.edits import (
    EXTEND_FORWARD,
    INIT_NEW,
    LAST,
    MODE,
    UTILS,
    Case,
    Edit,
    after,
    case,
    extend,
    imports,
    lines,
    method,
    top,
)
from tests.flow.trees import EAGLE_WORKER, FORWARD_BATCH, GRAPH_RUNNER, MODEL_RUNNER, SCHEDULER, SRT, TP_WORKER, edited

__all__ = ["FROM_AFAR", "HEALTHY_FROM_AFAR"]


def flag(text: str = "self.quiet = False") -> Edit:
    """An attribute that the worker starts with."""
    return (EAGLE_WORKER, "        self.topk = ", f"        {text}\n        self.topk = ")


def asked(test: str) -> Edit:
    """An extend whose mode a test decides."""
    return extend(f"model_worker_batch.capture_hidden_mode = {LAST} if {test} else {MODE}.FULL  # HS101")


def harmless(test: str) -> Edit:
    path, old, new = asked(test)
    return (path, old, new.replace("  # HS101", ""))


RUN = "        self.forward_ct += 1\n"


def scheduled(text: str) -> tuple[Edit, Edit]:
    """A method of the scheduler that every dispatch calls first."""
    return (
        (SCHEDULER, RUN, RUN + "        self.on_batch(batch)\n"),
        method("def on_batch(self, batch):\n" + lines(text, 4), SCHEDULER, "    def run_batch"),
    )


def helper(text: str) -> Edit:
    return (UTILS, "", lines(text, 0))


def worked_by(worker: str, name: str, *edits: Edit) -> Case:
    return Case(name, edited(edits), workers=(worker,))


RECORDER = f"""
    import contextlib

    from sglang.srt.model_executor.forward_batch_info import {MODE}


    def get_global_expert_distribution_recorder():
        return RECORDER


    class Recorder:
        def rows(self):
            return 1
"""


def recorder(text: str) -> Edit:
    """A class of which the vocabulary knows what returns its object."""
    return (UTILS, "", lines(RECORDER, 0) + "\n" + lines(text, 4) + "\n\nRECORDER = Recorder()\n")


FROM_AFAR: tuple[Case, ...] = (
    # an attribute of an object that is there before the dispatch
    case(
        "by-a-flag-that-the-scheduler-sets", flag(), *scheduled("self.draft_worker.quiet = True"), asked("self.quiet")
    ),
    case(
        "by-a-flag-that-the-scheduler-sets-beside-another",
        flag(),
        *scheduled("self.calls, self.draft_worker.quiet = 1, True"),
        asked("self.quiet"),
    ),
    case(
        "by-a-flag-that-nobody-else-sets",
        *scheduled("self.draft_worker.quiet = True"),
        asked('getattr(self, "quiet", False)'),
    ),
    case(
        "by-a-flag-that-a-function-sets",
        flag(),
        helper("def hush(worker):\n    worker.quiet = True"),
        imports("from sglang.srt.utils import hush", SCHEDULER),
        *scheduled("hush(self.draft_worker)"),
        asked("self.quiet"),
    ),
    case(
        "by-a-flag-that-is-set-by-its-name",
        flag(),
        *scheduled('setattr(self.draft_worker, "quiet", True)'),
        asked("self.quiet"),
    ),
    case(
        "by-a-flag-of-an-alias",
        flag(),
        *scheduled("worker = self.draft_worker\nworker.quiet = True"),
        asked("self.quiet"),
    ),
    case(
        "by-an-entry-that-the-scheduler-fills",
        flag('self.flags = {"quiet": False}'),
        *scheduled('self.draft_worker.flags["quiet"] = True'),
        asked('self.flags["quiet"]'),
    ),
    case(
        "by-a-flag-of-a-state-of-the-module",
        helper("""
            class State:
                def __init__(self):
                    self.quiet = False


            STATE = State()


            def hush():
                STATE.quiet = True
        """),
        imports("from sglang.srt.utils import hush", SCHEDULER),
        imports("from sglang.srt.utils import STATE"),
        *scheduled("hush()"),
        asked("STATE.quiet"),
    ),
    case(
        "by-a-flag-that-a-state-of-the-module-sets",
        helper("""
            class State:
                def __init__(self):
                    self.quiet = False

                def hush(self):
                    self.quiet = True


            STATE = State()
        """),
        imports("from sglang.srt.utils import STATE", SCHEDULER),
        imports("from sglang.srt.utils import STATE"),
        *scheduled("STATE.hush()"),
        asked("STATE.quiet"),
    ),
    case(
        "by-a-flag-of-the-class",
        (
            EAGLE_WORKER,
            "class EAGLEWorker(TpModelWorker):\n",
            "class EAGLEWorker(TpModelWorker):\n    quiet = False\n\n",
        ),
        *scheduled("type(self.draft_worker).quiet = True"),
        asked("self.quiet"),
    ),
    case(
        "by-a-flag-of-the-class-by-its-name",
        (
            EAGLE_WORKER,
            "class EAGLEWorker(TpModelWorker):\n",
            "class EAGLEWorker(TpModelWorker):\n    quiet = False\n\n",
        ),
        *scheduled("from sglang.srt.speculative.eagle_worker import EAGLEWorker\nEAGLEWorker.quiet = True"),
        asked("EAGLEWorker.quiet"),
    ),
    case(
        "by-a-variable-of-another-module",
        helper("QUIET = False"),
        imports("from sglang.srt import utils", SCHEDULER),
        imports("from sglang.srt import utils"),
        *scheduled("utils.QUIET = True"),
        asked("utils.QUIET"),
    ),
    case(
        "by-a-flag-of-the-runner",
        (
            FORWARD_BATCH,
            INIT_NEW,
            f"            capture_hidden_mode={LAST} if model_runner.lean else batch.capture_hidden_mode,  # HS101 HS102\n",
        ),
        (
            MODEL_RUNNER,
            "        self.graph_runner = None\n",
            "        self.lean = False\n        self.graph_runner = None\n",
        ),
        *scheduled("self.tp_worker.model_runner.lean = True"),
    ),
    case(
        "by-a-flag-of-the-graph-runner",
        (GRAPH_RUNNER, "        self.graphs = {}\n", "        self.quiet = False\n        self.graphs = {}\n"),
        (
            GRAPH_RUNNER,
            "        return forward_batch.batch_size <= self.capture_bs[-1]\n",
            lines(
                f"""
            if self.quiet:
                forward_batch.capture_hidden_mode = {LAST}  # HS102
                return False
            return forward_batch.batch_size <= self.capture_bs[-1]
        """,
                8,
            ),
        ),
        *scheduled("""
            runner = self.tp_worker.model_runner.graph_runner
            if runner is not None:
                runner.quiet = True
        """),
    ),
    # a module variable that its module binds by name
    case(
        "by-a-module-variable-that-is-bound-by-its-name",
        top(f'WANTED = {MODE}.FULL\nglobals()["WANTED"] = {LAST}  # HS101'),
        extend("model_worker_batch.capture_hidden_mode = WANTED"),
    ),
    case(
        "by-a-module-variable-that-is-set-on-its-module",
        imports("import sys"),
        top(f'WANTED = {MODE}.FULL\nsetattr(sys.modules[__name__], "WANTED", {LAST})'),
        extend("model_worker_batch.capture_hidden_mode = WANTED"),
        rules="HS101",
    ),
    case(
        "by-a-module-variable-that-is-an-attribute-of-its-module",
        imports("import sys"),
        top(f"WANTED = {MODE}.FULL\nsys.modules[__name__].WANTED = {LAST}"),
        extend("model_worker_batch.capture_hidden_mode = WANTED"),
        rules="HS101",
    ),
    # a decorator of the class that replaces its methods
    case(
        "by-a-class-decorator-with-another-constructor",
        helper("""
            def lean(cls):
                original = cls.__init__

                def init(self, *args, **options):
                    original(self, *args, **options)
                    self.quiet = True

                cls.__init__ = init
                return cls
        """),
        imports("from sglang.srt.utils import lean"),
        (EAGLE_WORKER, "class EAGLEWorker(", "@lean\nclass EAGLEWorker("),
        flag(),
        harmless("self.quiet"),
        rules="HS109",
    ),
    case(
        "by-a-class-decorator-with-a-constructor-of-its-own",
        helper("""
            def lean(cls):
                original = cls.__init__

                def init(worker, server_args, gpu_id, tp_rank, target_worker):
                    original(worker, server_args, gpu_id, tp_rank, target_worker)
                    worker.wanted = worker.least

                cls.__init__ = init
                return cls
        """),
        imports("from sglang.srt.utils import lean"),
        (EAGLE_WORKER, "class EAGLEWorker(", "@lean\nclass EAGLEWorker("),
        flag(f"self.least = {LAST}\n        self.wanted = {MODE}.FULL"),
        extend("model_worker_batch.capture_hidden_mode = self.wanted"),
        rules="HS109",
    ),
    worked_by(
        "Lean",
        "by-a-class-decorator-with-a-subclass",
        helper("""
            def lean(cls):
                class Lean(cls):
                    def __init__(self, *args, **options):
                        super().__init__(*args, **options)
                        self.quiet = True

                return Lean
        """),
        imports("from sglang.srt.utils import lean"),
        (EAGLE_WORKER, "class EAGLEWorker(", "@lean\nclass EAGLEWorker("),
        (EAGLE_WORKER, "        super().__init__(server", "        TpModelWorker.__init__(self, server"),
        flag(),
        asked("self.quiet"),
    ),
    case(
        "by-a-class-decorator-with-another-method",
        helper(f"""
            from sglang.srt.model_executor.forward_batch_info import {MODE}


            def lean(cls):
                original = cls.forward_batch_generation

                def forward(self, batch, **options):
                    batch.capture_hidden_mode = {LAST}
                    return original(self, batch, **options)

                cls.forward_batch_generation = forward
                return cls
        """),
        imports("from sglang.srt.utils import lean", TP_WORKER),
        (TP_WORKER, "class TpModelWorker:", "@lean\nclass TpModelWorker:"),
        rules="HS101 HS102",
    ),
    # attributes that vanish
    case(
        "by-a-batch-that-is-emptied",
        helper(
            "def wipe(batch):\n    kept = dict(vars(batch))\n    kept.pop(NAME)\n    vars(batch).clear()\n"
            "    vars(batch).update(kept)\n\n\nNAME = '_'.join(['capture', 'hidden', 'mode'])"
        ),
        imports("from sglang.srt.utils import wipe"),
        after("wipe(model_worker_batch)"),
        rules="HS103",
        also="HS109",
    ),
    case(
        "by-attributes-that-are-deleted",
        helper("def wipe(batch, names):\n    for name in names:\n        delattr(batch, name)"),
        imports("from sglang.srt.utils import wipe"),
        after('wipe(model_worker_batch, [n for n in vars(model_worker_batch) if n.startswith("capture")])'),
        rules="HS103",
        also="HS109",
    ),
    case(
        "by-attributes-that-a-method-deletes",
        method("def wipe(self, batch, names):\n    for name in names:\n        delattr(batch, name)"),
        after('self.wipe(model_worker_batch, [n for n in vars(model_worker_batch) if n.startswith("capture")])'),
        rules="HS103",
        also="HS109",
    ),
    # a manager whose exit is inherited
    case(
        "by-a-manager-that-inherits-its-exit",
        helper("""
            class Quiet:
                def __enter__(self):
                    return self

                def __exit__(self, *error):
                    return True


            class Calm(Quiet):
                pass
        """),
        imports("from sglang.srt.utils import Calm"),
        extend(f"""
            model_worker_batch.capture_hidden_mode = {LAST}  # HS101
            with Calm():
                self.missing(batch)
                model_worker_batch.capture_hidden_mode = {MODE}.FULL
        """),
        method("def missing(self, batch):\n    return {}[batch.batch_size()]"),
    ),
    # what is known by its name alone is given the batch
    case(
        "by-a-recorder-that-takes-note",
        recorder(f"""
            def note(self, batch):
                batch.capture_hidden_mode = {LAST}
        """),
        imports("from sglang.srt.utils import get_global_expert_distribution_recorder"),
        after("get_global_expert_distribution_recorder().note(model_worker_batch)"),
        rules="HS109",
    ),
    case(
        "by-a-recorder-around-the-forward",
        recorder(f"""
            @contextlib.contextmanager
            def with_forward_pass(self, number, batch, *, rows=1):
                batch.capture_hidden_mode = {LAST}
                yield
                batch.capture_hidden_mode = {MODE}.FULL
        """),
        imports("from sglang.srt.utils import get_global_expert_distribution_recorder"),
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            "        with get_global_expert_distribution_recorder().with_forward_pass(1, model_worker_batch):\n    "
            + EXTEND_FORWARD,
        ),
        rules="HS109",
    ),
    # a container that a function fills which names nothing
    case(
        "by-a-container-that-is-filled-under-another-name",
        (f"{SRT}/modes.py", "", f"from sglang.srt.model_executor.forward_batch_info import {MODE}\n\nLOW = {LAST}\n"),
        (UTILS, "", "from sglang.srt.modes import LOW\n\n\ndef fill(options):\n    options['wanted'] = LOW\n"),
        imports("from sglang.srt.utils import fill"),
        extend(f"""
            options = {{"wanted": {MODE}.FULL}}
            fill(options)
            model_worker_batch.capture_hidden_mode = options["wanted"]
        """),
        rules="HS101",
        also="HS109",
    ),
    case(
        "by-a-list-that-is-filled-by-a-method",
        method("def fill(self, wanted, rows):\n    wanted.append(LOW)\n    return rows"),
        top(f"LOW = {LAST}"),
        extend(f"""
            wanted = [{MODE}.FULL]
            self.fill(wanted, 3)
            model_worker_batch.capture_hidden_mode = wanted[-1]
        """),
        rules="HS101",
        also="HS109",
    ),
    # a flag that is set on the way, and set otherwise by what is left out
    case(
        "by-a-flag-that-is-set-again",
        flag(),
        method("def notice(self, rows):\n    self.quiet = rows > 0"),
        extend(f"""
            self.quiet = False
            self.notice(batch.batch_size())
            model_worker_batch.capture_hidden_mode = {LAST} if self.quiet else {MODE}.FULL  # HS101
        """),
    ),
    case(
        "by-a-flag-that-another-sets-again",
        flag(),
        helper("def notice(worker, rows):\n    worker.quiet = rows > 0"),
        imports("from sglang.srt.utils import notice"),
        extend(f"""
            self.quiet = False
            notice(self, batch.batch_size())
            model_worker_batch.capture_hidden_mode = {LAST} if self.quiet else {MODE}.FULL  # HS101
        """),
    ),
)

LOG = """
    class Log:
        def __init__(self):
            self.quiet = False
            self.rows = 0

        def count(self, rows):
            self.rows += rows
"""

HEALTHY_FROM_AFAR: tuple[Case, ...] = (
    case(
        "a-flag-of-the-same-name-of-another",
        flag(),
        helper(LOG),
        imports("from sglang.srt.utils import Log", SCHEDULER),
        (SCHEDULER, "        self.gpu_id = gpu_id\n", "        self.gpu_id = gpu_id\n        self.log = Log()\n"),
        *scheduled("self.log.quiet = True"),
        harmless("self.quiet"),
    ),
    case(
        "a-flag-of-a-parameter-of-another-class",
        flag(),
        helper(LOG + "\n\n    def hush(log: Log):\n        log.quiet = True\n"),
        imports("from sglang.srt.utils import Log, hush", SCHEDULER),
        *scheduled("hush(Log())"),
        harmless("self.quiet"),
    ),
    case(
        "a-flag-of-a-parameter-that-is-no-worker",
        flag(),
        helper(LOG + "\n\n    def hush(log):\n        log.quiet = True\n        log.count(3)\n"),
        imports("from sglang.srt.utils import Log, hush", SCHEDULER),
        *scheduled("hush(Log())"),
        harmless("self.quiet"),
    ),
)
