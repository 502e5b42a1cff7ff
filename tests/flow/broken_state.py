"""Edits about what lasts: what a test has taught of a container that changes, and stores from afar in rarer spellings."""

from __future__ import annotations

from tests.flow.broken_from_afar import asked, flag, harmless, scheduled
from tests.flow.edits import CAN_RUN, LAST, MODE, Case, Edit, case, extend, imports, lines, method
from tests.flow.trees import EAGLE_WORKER, GRAPH_RUNNER, SERVER_ARGS

__all__ = ["HEALTHY_STATE", "STATE"]

TARGETS = {
    "a-loop": "for self.draft_worker.quiet in (True,):\n    pass",
    "a-loop-over-pairs": "for self.calls, self.draft_worker.quiet in ((1, True),):\n    pass",
    "a-manager": "import contextlib\nwith contextlib.nullcontext(True) as self.draft_worker.quiet:\n    pass",
    "a-line-in-brackets": "(self.calls, self.draft_worker.quiet) = 1, True",
    "lines-in-brackets": "(\n    self.calls,\n    self.draft_worker.quiet,\n) = 1, True",
    "lines-in-square-brackets": "[\n    self.draft_worker.quiet,\n    self.calls,\n] = True, 1",
    "its-own-setter": 'self.draft_worker.__setattr__("quiet", True)',
}
"""Statements that set a flag of the worker, by what spells the target."""

CONTAINERS = {
    "an-alias": ("{'quiet': False}", "flags = self.draft_worker.flags\nflags['quiet'] = True", "self.flags['quiet']"),
    "an-alias-of-a-list": ("[]", "flags = self.draft_worker.flags\nflags.append(True)", "self.flags"),
    "an-entry-of-an-entry": (
        "{'rows': {'quiet': False}}",
        "self.draft_worker.flags['rows']['quiet'] = True",
        "self.flags['rows']['quiet']",
    ),
    "a-list-in-an-entry": (
        "{'rows': []}",
        "self.draft_worker.flags['rows'].append(True)",
        "self.flags['rows']",
    ),
    "a-count-in-an-entry": ("{'rows': 0}", "self.draft_worker.flags['rows'] += 1", "self.flags['rows'] > 0"),
    "an-entry-that-is-deleted": (
        "{'loud': True}",
        "if self.draft_worker.flags:\n    del self.draft_worker.flags['loud']",
        "not self.flags",
    ),
}
"""What an attribute of the worker starts with, what changes it, and what reads it."""

CHANGES = {
    "an-append": ("[]", "if not rows:", "rows.append(1)", "if rows:"),
    "an-alias-that-appends": ("[]", "if not rows:", "more = rows\n    more.append(1)", "if rows:"),
    "a-clear": ("[1]", "if rows:", "rows.clear()", "if not rows:"),
    "a-pop": ("[1]", "if rows:", "rows.pop()", "if not rows:"),
    "an-entry": ("{}", "if not rows:", "rows['a'] = 1", "if rows:"),
    "a-deletion": ("[1]", "if rows:", "del rows[0]", "if not rows:"),
    "a-deleted-slice": ("[1]", "if rows:", "del rows[:]", "if not rows:"),
}
"""A container that nobody knows, a test of it, a change in place, and the test that holds from then on."""


def changed(text: str, before: str, change: str, then: str) -> str:
    return (
        f"rows = json.loads({text!r})\nmodel_worker_batch.capture_hidden_mode = {MODE}.FULL\n"
        f"{before}\n    {change}\n    {then}\n        model_worker_batch.capture_hidden_mode = {LAST}  # HS101"
    )


KEPT = {
    "a-generator": (
        "self.modes = self.wanted_modes()",
        f"def wanted_modes(self):\n    yield {MODE}.FULL\n    while True:\n        yield {LAST}",
        "next(self.modes)",
    ),
    "an-iterator": (f"self.modes = iter([{MODE}.FULL, {LAST}, {LAST}, {LAST}])", "", "next(self.modes)"),
    "a-counter-in-a-closure": (
        "self.turn = self.counter()",
        """
            def counter(self):
                turns = 0

                def turn():
                    nonlocal turns
                    turns += 1
                    return turns

                return turn
        """,
        f"{MODE}.FULL if self.turn() == 1 else {LAST}",
    ),
    "a-flag-in-a-closure": (
        "self.turn = self.once()",
        """
            def once(self):
                used = False

                def turn():
                    nonlocal used
                    before, used = used, True
                    return before

                return turn
        """,
        f"{LAST} if self.turn() else {MODE}.FULL",
    ),
}
"""What the worker starts with, a method of it, and a mode that only the first dispatch gets as it should be."""

COMPARED = {
    "equality": ('"fast"', 'kind == "fast"', 'kind != "fast"'),
    "inequality": ('"fast"', 'not kind != "fast"', 'kind != "fast"'),
    "none": ("3", "kind is not None", "kind is None"),
    "more": ("3", "kind > 2", "kind <= 2"),
    "less": ("3", "kind >= 3", "kind < 3"),
}
"""A server argument's default, a test of it, and the opposite test."""


def compared(default: str, records: str, refuses: str) -> tuple[Edit, ...]:
    """A graph that is recorded right under one test, and is not replayed under another."""
    return (
        (SERVER_ARGS, "    device: str", f"    kind: object = {default}\n    device: str"),
        (
            GRAPH_RUNNER,
            "                capture_hidden_mode=CaptureHiddenMode.FULL,\n",
            f"                capture_hidden_mode={MODE}.FULL if {of_kind(records)} else {LAST},\n",
        ),
        (GRAPH_RUNNER, CAN_RUN, f"        if {of_kind(refuses)}:\n            return False\n{CAN_RUN}"),
    )


def of_kind(test: str) -> str:
    return test.replace("kind", "self.model_runner.server_args.kind")


TARGET = "        self.target_worker = target_worker\n"
ENDLESS = {
    "a-cycle-of-one": ("modes = None", f"itertools.cycle([{LAST}])"),
    "a-cycle-of-two": ("modes = None", f"itertools.cycle([{MODE}.FULL, {LAST}])"),
    "a-cycle-of-a-tuple": ("modes = None", f"itertools.cycle(({MODE}.FULL, {LAST}))"),
    "a-cycle-of-a-list-that-grows": (f"modes = [{MODE}.FULL]", f"itertools.cycle(modes)\nmodes.append({LAST})"),
    "a-repetition": ("modes = None", f"itertools.repeat({LAST})"),
}


def endless(start: str, made: str) -> tuple[Edit, ...]:
    """The mode of the extend comes out of an iterator that an attribute of the worker holds."""
    held = TARGET + lines(f"{start}\nself.modes = {made}", 8)
    return (
        imports("import itertools"),
        (EAGLE_WORKER, TARGET, held),
        extend("model_worker_batch.capture_hidden_mode = next(self.modes)"),
    )


STATE: tuple[Case, ...] = (
    *(
        case(
            f"an-attribute-holds-{name}", *endless(*parts), rules="HS109" if "grows" in name else "HS101", also="HS109"
        )
        for name, parts in ENDLESS.items()
    ),
    case(
        "by-a-runner-that-refuses-what-it-has-recorded-right",
        *compared("1", "kind > 2", "kind > 2"),
        rules="HS104",
    ),
    case(
        "by-a-runner-that-refuses-by-what-is-not-quite-the-opposite",
        *compared("2.5", "kind >= 3", "kind <= 2"),
        rules="HS104",
    ),
    *(
        case(
            f"by-what-lasts-in-{name}",
            flag(start),
            *((method(text),) if text else ()),
            extend(f"model_worker_batch.capture_hidden_mode = {mode}"),
            rules="HS109" if name in ("a-generator", "an-iterator") else "HS101",
        )
        for name, (start, text, mode) in KEPT.items()
    ),
    *(
        case(f"by-a-flag-that-is-the-target-of-{name}", flag(), *scheduled(text), asked("self.quiet"))
        for name, text in TARGETS.items()
    ),
    case(
        "by-a-flag-that-is-deleted",
        (
            EAGLE_WORKER,
            "class EAGLEWorker(TpModelWorker):\n",
            "class EAGLEWorker(TpModelWorker):\n    quiet = True\n\n",
        ),
        flag(),
        *scheduled("if not self.draft_worker.quiet:\n    del self.draft_worker.quiet"),
        asked("self.quiet"),
    ),
    *(
        case(f"by-a-container-through-{name}", flag(f"self.flags = {start}"), *scheduled(change), asked(test))
        for name, (start, change, test) in CONTAINERS.items()
    ),
    *(
        case(
            f"by-a-local-container-through-{name}",
            extend(
                f"model_worker_batch.capture_hidden_mode = {MODE}.FULL\n{text}"
                f"\n    model_worker_batch.capture_hidden_mode = {LAST}  # HS101"
            ),
        )
        for name, text in {
            "an-alias": "rows = []\nmore = rows\nmore.append(1)\nif rows:",
            "an-alias-of-an-alias": "rows = []\nmost = rows\nmore = most\nmore.append(1)\nif rows:",
            "either-alias": "rows, others = [], []\nmore = rows if batch.batch_size() else others\nmore.append(1)\nif rows:",
            "what-it-holds": "rows = [[]]\nmore = rows[0]\nmore.append(1)\nif rows[0]:",
            "an-entry": "rows = {'a': {'b': 0}}\nmore = rows.get('a')\nmore['b'] += 1\nif rows['a']['b']:",
            "a-loop-over-it": "rows = [[], []]\nfor more in rows:\n    more.append(1)\nif rows[1]:",
        }.items()
    ),
    *(
        case(f"by-what-a-test-taught-before-{name}", imports("import json"), extend(changed(*parts)))
        for name, parts in CHANGES.items()
    ),
    case(
        "by-what-a-test-of-an-attribute-taught-before-a-pop",
        imports("import json"),
        flag('self.rows = json.loads("[1]")'),
        extend(f"""
            model_worker_batch.capture_hidden_mode = {MODE}.FULL
            if self.rows:
                self.rows.pop()
                if not self.rows:
                    model_worker_batch.capture_hidden_mode = {LAST}  # HS101
        """),
    ),
)

HEALTHY_STATE: tuple[Case, ...] = (
    *(
        case(f"harmless-an-attribute-holds-{name}", *endless(start, made.replace(LAST, f"{MODE}.FULL")))
        for name, (start, made) in ENDLESS.items()
        if "grows" not in name
    ),
    *(case(f"a-runner-that-refuses-by-the-opposite-of-{name}", *compared(*parts)) for name, parts in COMPARED.items()),
    case(
        "a-counter-in-a-closure-that-decides-nothing",
        flag(KEPT["a-counter-in-a-closure"][0]),
        method(KEPT["a-counter-in-a-closure"][1]),
        extend(f"batch.turn = self.turn()\nmodel_worker_batch.capture_hidden_mode = {MODE}.FULL"),
    ),
    case(
        "a-flag-in-a-closure-that-chooses-the-same",
        flag(KEPT["a-flag-in-a-closure"][0]),
        method(KEPT["a-flag-in-a-closure"][1]),
        extend(f"model_worker_batch.capture_hidden_mode = {MODE}.FULL if self.turn() else {MODE}.FULL"),
    ),
    *(
        case(
            f"a-flag-beside-the-target-of-{name}",
            flag(),
            *scheduled(text.replace("quiet", "loud")),
            harmless("self.quiet"),
        )
        for name, text in TARGETS.items()
    ),
    case(
        "a-container-whose-alias-is-only-read",
        flag("self.flags = {'quiet': False}"),
        *scheduled("flags = self.draft_worker.flags\nif flags['quiet']:\n    raise ValueError(flags)"),
        harmless("self.flags['quiet']"),
    ),
    case(
        "what-a-test-taught-before-another-list-changes",
        imports("import json"),
        extend(
            lines(
                f"""
            rows = json.loads("[1]")
            others = json.loads("[]")
            model_worker_batch.capture_hidden_mode = {MODE}.FULL
            if rows:
                others.append(1)
                if not rows:
                    model_worker_batch.capture_hidden_mode = {LAST}
        """,
                0,
            )
        ),
    ),
)
