"""Edits that must be caught: a container or a variable decides the mode, and a function that names neither the
mode nor the batch changes it."""

from __future__ import annotations

from tests.flow.edits import LAST, MODE, UTILS, Case, Edit, case, extend, imports, lines
from tests.flow.trees import SCHEDULER

__all__ = ["HANDS", "HEALTHY_HANDS"]

UTILITIES = imports("from sglang.srt import utils")
ROWS = "def tell(rows):\n    {change}"
FLAGS = "def tell(flags):\n    {change}"


def handed(helper: str, made: str, test: str, lower: str = LAST) -> tuple[Edit, ...]:
    """A helper module, what the extend does with it, and the test that decides the extend's mode."""
    text = f"{made}\nmodel_worker_batch.capture_hidden_mode = {lower} if {test} else {MODE}.FULL"
    return (UTILS, "", lines(helper, 0)), UTILITIES, extend(text)


LISTS = {
    "append": "rows.append(1)",
    "an-augmented-assignment": "rows += [1]",
    "a-slice": "rows[:] = [1]",
    "an-alias": "same = rows\n    same.append(1)",
    "another-function": "more(rows)\n\n\ndef more(rows):\n    rows.append(1)",
    "heapq": "import heapq\n\n    heapq.heappush(rows, 1)",
}
DICTS = {
    "a-subscript": 'flags["low"] = True',
    "the-method-of-a-subscript": 'flags.__setitem__("low", True)',
    "an-operator": 'import operator\n\n    operator.setitem(flags, "low", True)',
    "the-method-of-its-class": "dict.update(flags, low=True)",
    "a-union": 'flags |= {"low": True}',
}
CALLS = {
    "first-of-all": ("def tell(*all):\n    all[0].append(1)", "rows = []\nutils.tell(rows)"),
    "by-keyword": ("def tell(*, rows):\n    rows.append(1)", "rows = []\nutils.tell(rows=rows)"),
    "by-keywords": ('def tell(**given):\n    given["rows"].append(1)', "rows = []\nutils.tell(rows=rows)"),
    "in-a-tuple": ("def tell(pair):\n    _, rows = pair\n    rows.append(1)", "rows = []\nutils.tell((1, rows))"),
    "by-a-partial": (
        "def tell(rows, x):\n    rows.append(x)",
        "import functools\nrows = []\nfunctools.partial(utils.tell, rows)(1)",
    ),
    "by-its-method": ("def tell(put):\n    put(1)", "rows = []\nutils.tell(rows.append)"),
    "by-map": ("def tell(rows):\n    rows.append(1)", "rows = []\nlist(map(utils.tell, [rows]))"),
    "a-deque": (
        "def tell(rows):\n    rows.appendleft(1)",
        "import collections\nrows = collections.deque()\nutils.tell(rows)",
    ),
    "a-set": ("def tell(rows):\n    rows.add(1)", "rows = set()\nutils.tell(rows)"),
    "one-of-two": (
        "def tell(rows):\n    rows.append(1)",
        "rows, other = [], []\nutils.tell(rows if batch.seq_lens else other)",
    ),
    "for-its-value": (
        "def tell(rows):\n    rows.append(1)\n    return len(rows)",
        "rows = []\nn = utils.tell(rows)",
    ),
    "in-a-test": ("def tell(rows):\n    rows.append(1)\n    return True", "rows = []\nif utils.tell(rows):\n    pass"),
    "to-a-generator": (
        "def tell(rows):\n    rows.append(1)\n    yield 1",
        "rows = []\nfor _ in utils.tell(rows):\n    pass",
    ),
    "to-a-manager": (
        """
        import contextlib


        @contextlib.contextmanager
        def tell(rows):
            rows.append(1)
            yield
        """,
        "rows = []\nwith utils.tell(rows):\n    pass",
    ),
}
CELL = """
def make():
    low = False

    def hush():
        nonlocal low
        low = True

    def is_low():
        return low

    return hush, is_low


hush, is_low = make()
"""
RUN = "        self.forward_ct += 1\n"


def made(low: str) -> dict[str, tuple[Edit, ...]]:
    """By name: edits by which the extend asks for ``low`` once what it hands over has been changed."""
    return {
        **{
            f"a-list-that-is-handed-over-changes-by-{name}": handed(
                ROWS.replace("{change}", change), "rows = []\nutils.tell(rows)", "rows", low
            )
            for name, change in LISTS.items()
        },
        **{
            f"a-dict-that-is-handed-over-changes-by-{name}": handed(
                FLAGS.replace("{change}", change), "flags = {}\nutils.tell(flags)", 'flags.get("low")', low
            )
            for name, change in DICTS.items()
        },
        **{
            f"a-container-is-handed-over-{name}": handed(helper, text, "rows", low)
            for name, (helper, text) in CALLS.items()
        },
        "a-cell-is-changed-by-a-sibling": handed(CELL, "utils.hush()", "utils.is_low()", low),
        "a-cell-is-changed-by-a-sibling-that-the-scheduler-calls": (
            *handed(CELL, "pass", "utils.is_low()", low),
            imports("from sglang.srt import utils", SCHEDULER),
            (SCHEDULER, RUN, RUN + "        utils.hush()\n"),
        ),
    }


SWAP = "rows[0], rows[1] = rows[1], rows[0]"
HANDS: tuple[Case, ...] = (
    *(case(name, *edits, rules="HS101", also="HS109") for name, edits in made(LAST).items()),
    case(
        "two-modes-of-a-list-are-swapped",
        (UTILS, "", lines(ROWS.replace("{change}", SWAP), 0)),
        UTILITIES,
        extend(f"rows = [{MODE}.FULL, {LAST}]\nutils.tell(rows)\nmodel_worker_batch.capture_hidden_mode = rows[0]"),
        rules="HS101",
        also="HS109",
    ),
)

READS = {
    "a-length": "return len(rows)",
    "its-first": "first = rows[0] if rows else None\n    return first",
    "its-copy": "same = list(rows)\n    same.append(1)\n    return same",
}
HEALTHY_HANDS: tuple[Case, ...] = (
    *(case(f"harmless-{name}", *edits) for name, edits in made(f"{MODE}.FULL").items()),
    *(
        case(
            f"a-list-of-which-a-function-reads-{name}",
            *handed(ROWS.replace("{change}", text), "rows = []\nutils.tell(rows)", "rows"),
        )
        for name, text in READS.items()
    ),
)
