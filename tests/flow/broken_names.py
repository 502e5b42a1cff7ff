"""Edits about names that are chosen at run time: which strings of the text can be such a name, and which cannot."""

from __future__ import annotations

from tests.flow.edits import EXTEND_FORWARD, LAST, MODE, Case, Edit, after, case, extend, imports, lines, top
from tests.flow.trees import EAGLE_WORKER, MODEL_RUNNER

__all__ = ["HEALTHY_NAMES", "NAMES"]


def laid_over(more: str = "") -> tuple[Edit, ...]:
    """A runner that lays fields over each batch whose names nobody can tell from the text."""
    return (
        imports("import dataclasses\nimport json", MODEL_RUNNER),
        (
            MODEL_RUNNER,
            "        can_run_graph = bool(\n",
            lines(
                f"""
            over = {{}}
            for field in json.loads("[]"):
                over[field["name"]] = field["value"]{more}
            forward_batch = dataclasses.replace(forward_batch, **over)
            can_run_graph = bool(
        """,
                8,
            ),
        ),
    )


HANDED = (
    MODEL_RUNNER,
    "        self.graph_runner = None\n",
    "        self.extra = {}\n        self.graph_runner = None\n",
)
EXTRA = "\n            over.update(self.extra)"


def wrapped(text: str) -> tuple[Edit, ...]:
    """A base whose hook wraps a method of each subclass."""
    return (
        imports("import functools"),
        (EAGLE_WORKER, "class EAGLEWorker(TpModelWorker):", "class EAGLEWorker(Noted, TpModelWorker):"),
        (
            EAGLE_WORKER,
            "class EAGLEWorker(",
            lines(
                f"""
            class Noted:
                def __init_subclass__(cls, **options):
                    super().__init_subclass__(**options)
                    original = cls.forward_target_extend

                    @functools.wraps(original)
                    def forward_target_extend(self, batch):
                        {text}
                        return original(self, batch)

                    cls.forward_target_extend = forward_target_extend
            """,
                0,
            )
            + "\n\nclass EAGLEWorker(",
        ),
    )


def made_in_a_loop(field: str, made: str) -> tuple[Edit, ...]:
    """Records that a loop of unknown length makes, with a function in a field."""
    return (
        imports("import dataclasses"),
        top(f"@dataclasses.dataclass\nclass Step:\n    mode: object = {field}\n"),
        extend(f"""
            steps = []
            for _ in range(batch.batch_size() + 1):
                steps.append({made})
            model_worker_batch.capture_hidden_mode = {MODE}.FULL
            for step in steps:
                model_worker_batch.capture_hidden_mode = step.mode() if callable(step.mode) else step.mode
        """),
    )


NAMES: tuple[Case, ...] = (
    case(
        "by-a-field-of-a-name-that-the-worker-hands-over",
        HANDED,
        *laid_over(EXTRA),
        after(f'for name in ("capture_hidden_mode",):\n    self.target_worker.model_runner.extra[name] = {LAST}'),
        rules="HS109",
        also="HS101 HS102 HS104",
    ),
    case(
        "by-a-field-of-a-name-that-the-worker-returns",
        HANDED,
        *laid_over(EXTRA),
        after(f"""
            def field():
                name = "capture_hidden_mode"
                return name
            self.target_worker.model_runner.extra = {{field(): {LAST}}}
        """),
        rules="HS109",
        also="HS101 HS102 HS104",
    ),
    # a method that the class of another wraps, a function in a field
    case(
        "by-a-hook-of-the-base-that-wraps",
        *wrapped("self.quiet = True"),
        extend(f"model_worker_batch.capture_hidden_mode = {LAST} if self.quiet else {MODE}.FULL  # HS101"),
    ),
    case(
        "by-a-lambda-in-a-field-of-a-record-of-a-loop",
        *made_in_a_loop("None", f"Step(lambda: {LAST})"),
        rules="HS101",
    ),
    case(
        "by-one-of-two-lambdas-in-a-field-of-records-of-loops",
        *made_in_a_loop("None", f"Step((lambda: {LAST}) if steps else (lambda: {MODE}.FULL))"),
        rules="HS101",
    ),
    # a name that is used on the spot, and out of a container of which nobody knows what is left in it
    *(
        case(
            f"by-{name}",
            imports("import json"),
            after(text),
            rules="HS109",
            also="HS101 HS102 HS103",
        )
        for name, text in {
            "a-setattr-of-what-is-left-of-some-names": f"""
                for name in {{"capture_hidden_mode"}} - set(json.loads("[]")):
                    setattr(model_worker_batch, name, {LAST})
            """,
            "a-setattr-of-what-is-left-of-some-pairs": f"""
                values = {{"capture_hidden_mode": {LAST}}}
                for field in json.loads("[]"):
                    values.pop(field, None)
                for name, value in values.items():
                    setattr(model_worker_batch, name, value)
            """,
            "a-lambda-for-what-is-left-of-some-names": f"""
                put = lambda names: [setattr(model_worker_batch, name, {LAST}) for name in names]
                put({{"capture_hidden_mode"}} - set(json.loads("[]")))
            """,
        }.items()
    ),
)

HEALTHY_NAMES: tuple[Case, ...] = (
    case("a-hook-of-the-base-that-wraps", *wrapped("self.calls = 1")),
    case("a-lambda-in-a-field-of-a-record-of-a-loop", *made_in_a_loop("None", f"Step(lambda: {MODE}.FULL)")),
    case(
        "a-factory-of-a-field-of-a-record-of-a-loop",
        *made_in_a_loop(f"dataclasses.field(default_factory=lambda: {MODE}.FULL)", "Step()"),
    ),
    case("a-field-of-a-record-of-a-loop", *made_in_a_loop("None", f"Step({MODE}.FULL)")),
    case("fields-of-any-name-that-nobody-spells", *laid_over()),
    *(
        case(f"fields-of-any-name-beside-{name}", *laid_over(), extend(text))
        for name, text in {
            "a-setattr": f'setattr(model_worker_batch, "capture_hidden_mode", {MODE}.FULL)',
            "a-loop-over-names": f"""
                for name in ("capture_hidden_mode",):
                    setattr(model_worker_batch, name, {MODE}.FULL)
            """,
            "a-loop-over-pairs": f"""
                for name, value in {{"capture_hidden_mode": {MODE}.FULL}}.items():
                    setattr(model_worker_batch, name, value)
            """,
            "a-lambda": f"""
                put = lambda batch: setattr(batch, "capture_hidden_mode", {MODE}.FULL)
                put(model_worker_batch)
            """,
            "an-entry-of-the-attributes": f'model_worker_batch.__dict__["capture_hidden_mode"] = {MODE}.FULL',
            "an-update-of-the-attributes": f'vars(model_worker_batch).update({{"capture_hidden_mode": {MODE}.FULL}})',
        }.items()
    ),
    case(
        "fields-of-any-name-beside-a-test-of-a-name",
        *laid_over(),
        (
            EAGLE_WORKER,
            EXTEND_FORWARD,
            EXTEND_FORWARD
            + lines(
                """
            named = [name for name in vars(model_worker_batch) if name == "capture_hidden_mode"]
            if not named:
                raise ValueError(named)
        """,
                8,
            ),
        ),
    ),
)
