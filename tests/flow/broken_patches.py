"""Edits that must be caught: a module replaces what another one defines, somewhere else than at the start of a line."""

from __future__ import annotations

import textwrap

from tests.flow.edits import Case, case, extend, imports, lines
from tests.flow.trees import FORWARD_BATCH, SCHEDULER, SRT, Edit

__all__ = ["HEALTHY_PATCHES", "PATCHES"]

PATCH = f"{SRT}/patches.py"
HEAD = """import contextlib
from sglang.srt.layers.logits_processor import LogitsMetadata
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.model_executor import forward_batch_info
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch


"""
BATCH = """
ORIGINAL = ForwardBatch.init_new.__func__


def made(cls, batch, runner):
    out = ORIGINAL(cls, batch, runner)
    out.capture_hidden_mode = CaptureHiddenMode.LAST
    return out


REPLACEMENT = classmethod(made)
"""
HARMLESS_BATCH = BATCH.replace("capture_hidden_mode = CaptureHiddenMode.LAST", "seen = True")
READ = """
def REPLACEMENT(self):
    return False
"""
METADATA = """
def made(cls, forward_batch):
    return cls(forward_batch.forward_mode, CaptureHiddenMode.LAST, forward_batch.seq_lens)


REPLACEMENT = classmethod(made)
"""
WAYS = {
    "under-a-test": """
        def is_old():
            return True


        if is_old():
            {c}.{a} = REPLACEMENT
    """,
    "under-a-test-of-the-environment": "import os\n\nif os.environ.get('OLD', 'yes'):\n    {c}.{a} = REPLACEMENT",
    "in-a-try": "try:\n    {c}.{a} = REPLACEMENT\nexcept ImportError:\n    pass",
    "after-a-try": "try:\n    import sys\nexcept ImportError:\n    pass\nelse:\n    {c}.{a} = REPLACEMENT",
    "in-a-with": "with contextlib.suppress(ImportError):\n    {c}.{a} = REPLACEMENT",
    "in-a-loop": "for name in ('{a}',):\n    setattr({c}, name, REPLACEMENT)",
    "in-a-function": "def apply():\n    {c}.{a} = REPLACEMENT\n\n\napply()",
    "in-a-function-under-a-test": "def apply():\n    {c}.{a} = REPLACEMENT\n\n\nif True:\n    apply()",
    "of-a-parameter": "def apply(cls):\n    cls.{a} = REPLACEMENT\n\n\napply({c})",
    "by-a-name": 'NAME = "{a}"\nsetattr({c}, NAME, REPLACEMENT)',
    "by-a-function-that-takes-a-name": """
        def put(cls, name, f):
            setattr(cls, name, f)


        put({c}, "{a}", REPLACEMENT)
    """,
    "by-a-decorator": """
        def replaces(cls, name):
            def wrap(f):
                setattr(cls, name, REPLACEMENT)
                return f

            return wrap


        @replaces({c}, "{a}")
        def other(*given):
            return given
    """,
    "in-the-body-of-a-class": "class Patch:\n    {c}.{a} = REPLACEMENT",
    "past-the-class": 'type.__setattr__({c}, "{a}", REPLACEMENT)',
}
TARGETS = (
    ("a-batch", BATCH, "ForwardBatch", "init_new", "HS101 HS102"),
    ("a-mode", READ, "CaptureHiddenMode", "is_full", "HS101 HS102 HS104"),
    ("metadata", METADATA, "LogitsMetadata", "from_forward_batch", "HS103 HS104"),
)


def patched(text: str) -> tuple[Edit, Edit]:
    """A module that the scheduler's imports."""
    return (PATCH, "", HEAD + lines(text, 0)), imports("import sglang.srt.patches  # noqa: F401", SCHEDULER)


def applied(text: str, way: str, cls: str, attribute: str) -> str:
    """What a module says that replaces an attribute of a class in one of the ways."""
    return f"{text}\n\n{textwrap.dedent(way).strip()}\n".replace("{c}", cls).replace("{a}", attribute)


def called(text: str, where: str) -> tuple[Edit, ...]:
    """A module whose function ``apply`` the scheduler calls."""
    old = {"import": "class Scheduler:", "constructor": "        self.forward_ct = 0\n"}[where]
    new = "apply()\n\n\n" + old if where == "import" else old + "        apply()\n"
    return (
        (PATCH, "", HEAD + lines(text, 0)),
        imports("from sglang.srt.patches import apply", SCHEDULER),
        (SCHEDULER, old, new),
    )


def started(text: str, call: str, imported: str) -> tuple[Edit, ...]:
    """A module of which the scheduler's constructor calls something."""
    return (
        (PATCH, "", text),
        imports(f"from sglang.srt.patches import {imported}", SCHEDULER),
        (SCHEDULER, "        self.forward_ct = 0\n", f"        self.forward_ct = 0\n        {call}\n"),
    )


START_UP = {
    "a-function": ("\n\ndef apply():\n    {store}\n", "apply()", "apply"),
    "the-constructor-of-an-object": (
        "\n\nclass Patch:\n    def __init__(self):\n        {store}\n",
        "Patch()",
        "Patch",
    ),
    "entering-an-object": (
        "\n\nclass Patch:\n    def __enter__(self):\n        {store}\n\n    def __exit__(self, *error):\n        return False\n",
        "with Patch(): pass",
        "Patch",
    ),
    "a-function-that-is-given-the-class": (
        "\n\ndef apply(cls):\n    cls.{a} = REPLACEMENT\n",
        "apply({c})",
        "apply, CaptureHiddenMode, LogitsMetadata",
    ),
    "a-function-that-is-given-the-name": (
        "\n\ndef apply(cls, name, f):\n    setattr(cls, name, f)\n",
        'apply({c}, "{a}", REPLACEMENT)',
        "apply, CaptureHiddenMode, LogitsMetadata, REPLACEMENT",
    ),
}
"""By name: the text of a module, what the scheduler's constructor does, and what it imports for that."""
WANTED: tuple[Edit, ...] = (
    (FORWARD_BATCH, "", "\n\ndef wanted():\n    return CaptureHiddenMode.FULL\n"),
    imports("from sglang.srt.model_executor import forward_batch_info"),
    extend("model_worker_batch.capture_hidden_mode = forward_batch_info.wanted()"),
)
LOW = "def low():\n    return CaptureHiddenMode.LAST\n\n\n"
SAME = "def same(self):\n    return self == CaptureHiddenMode.FULL\n\n\n"
APPLY = "\n\ndef apply():\n    LogitsMetadata.from_forward_batch = REPLACEMENT\n"
PATCHES: tuple[Case, ...] = (
    *(
        case(
            f"{of}-is-patched-{name}",
            *patched(applied(text, way, c, a)),
            rules=rules,
            also="HS109",
        )
        for of, text, c, a, rules in TARGETS
        for name, way in WAYS.items()
    ),
    *(
        case(f"a-function-is-patched-{name}", *WANTED, *patched(LOW + text), rules="HS101", also="HS109")
        for name, text in {
            "under-a-test": "if True:\n    forward_batch_info.wanted = low\n",
            "in-a-try": "try:\n    forward_batch_info.wanted = low\nexcept ImportError:\n    pass\n",
            "in-its-dict": "forward_batch_info.__dict__['wanted'] = low\n",
            "of-sys": "import sys\n\nsys.modules['sglang.srt.model_executor.forward_batch_info'].wanted = low\n",
        }.items()
    ),
    *(
        case(
            f"metadata-is-patched-by-the-scheduler-s-{where}",
            *called(METADATA + APPLY, where),
            rules="HS103 HS104",
            also="HS109",
        )
        for where in ("import", "constructor")
    ),
    *(
        case(
            f"{name}-is-patched-by-{way}",
            *started(HEAD + text.replace("{store}", store), call, imported),
            rules=rules,
            also="HS109",
        )
        for name, replacement, cls, attribute, rules in (
            ("a-mode", READ, "CaptureHiddenMode", "is_full", "HS101 HS102 HS104"),
            ("metadata", METADATA, "LogitsMetadata", "from_forward_batch", "HS103 HS104"),
        )
        for way, (text, call, imported) in START_UP.items()
        for text, store, call in (
            (
                replacement + text.replace("{c}", cls),
                f"{cls}.{attribute} = REPLACEMENT",
                call.replace("{c}", cls).replace("{a}", attribute),
            ),
        )
        for text in (text.replace("{a}", attribute),)
    ),
    case(
        "a-mode-is-patched-by-a-lambda-in-the-constructor",
        *started(HEAD, "forward_batch_info.CaptureHiddenMode.is_full = lambda mode: False", "forward_batch_info"),
        rules="HS101 HS102 HS104",
        also="HS109",
    ),
)

HEALTHY_PATCHES: tuple[Case, ...] = (
    case("a-patch-that-means-the-same", *patched(SAME + "if True:\n    CaptureHiddenMode.is_full = same\n")),
    case(
        "a-patch-that-means-the-same-in-a-function",
        *patched(SAME + "def apply():\n    CaptureHiddenMode.is_full = same\n\n\napply()\n"),
    ),
    *(
        case(
            f"a-patch-that-calls-what-it-replaced-{name}",
            *patched(applied(HARMLESS_BATCH, way, "ForwardBatch", "init_new")),
        )
        for name, way in WAYS.items()
    ),
    case(
        "a-patch-of-the-mode-that-means-the-same-by-the-constructor",
        *started(HEAD + SAME + "def apply():\n    CaptureHiddenMode.is_full = same\n", "apply()", "apply"),
    ),
    case(
        "a-patch-of-the-mode-that-nobody-applies",
        (PATCH, "", HEAD + READ + "\n\ndef apply():\n    CaptureHiddenMode.is_full = REPLACEMENT\n"),
        imports("from sglang.srt.patches import apply  # noqa: F401", SCHEDULER),
    ),
    case("a-patch-that-nobody-applies", *patched(METADATA + APPLY)),
    case("a-patch-that-is-not-taken", *patched(READ + "\n\nif False:\n    CaptureHiddenMode.is_full = REPLACEMENT\n")),
    case("a-patch-that-nobody-imports", (PATCH, "", HEAD + METADATA + APPLY + "\n\napply()\n")),
)
