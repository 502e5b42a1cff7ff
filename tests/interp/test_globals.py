"""Module variables and module-level containers that functions fill: what CPython leaves there is never ruled out."""

from __future__ import annotations

from textwrap import dedent

import pytest

from flowcheck.interp.values import Known, Unknown, Value
from flowcheck.syntax import SyntaxStore
from tests.interp.harness import (
    INPUTS,
    PARAMETERS,
    PYTHON,
    MemoryTree,
    check_exact,
    covers,
    deeply,
    interpret,
    numbered,
)

TRACKED = frozenset({"mode"})

_BOX = """
class Box:
    def __init__(self, mode):
        self.mode = mode


"""

_TEXT = """
### exact: an object in a module variable
CURRENT = None
def hold(box):
    global CURRENT
    CURRENT = box
def lower():
    CURRENT.mode = "LAST"
def main(a, b, c):
    box = Box("FULL")
    hold(box)
    lower()
    return box.mode, CURRENT is box
### exact: names that one statement binds together, and one of them again
FIRST, MODE = "NULL", "LAST"
MODE = MODE[:1] + "FULL"
MODE = MODE[1:]
def main(a, b, c):
    first = FIRST
    return first, MODE
### exact: a class that stands in for the one that it derives from
class Base:
    mode = "LAST"
Other, Derived = Base, Base
class Derived(Derived):
    mode = "FULL"
def main(a, b, c):
    return Other.mode, Derived.mode, Derived().mode
### a module variable that is written on some paths
MODE = "LAST"
def hold():
    global MODE
    MODE = "FULL"
def main(a, b, c):
    if a:
        hold()
    return MODE
### a module variable that is written on some paths, and asked for first
MODE = "LAST"
def hold():
    global MODE
    MODE = "FULL"
def main(a, b, c):
    before = MODE
    if a:
        hold()
    return before, MODE
### a module variable that is deleted on some paths
MODE = "LAST"
def drop():
    global MODE
    del MODE
def main(a, b, c):
    if a:
        drop()
    try:
        return MODE
    except NameError:
        return "none"
### exact: a module variable that is bound by its name
MODE = "FULL"
globals()["MODE"] = "LAST"
def main(a, b, c):
    return MODE
### exact: a module variable that is bound by its name alone
globals()["MODE"] = "LAST"
def main(a, b, c):
    return MODE
### exact: a module variable that is bound by its name, and then again
globals()["MODE"] = "LAST"
MODE = "FULL"
def main(a, b, c):
    return MODE
### a module variable that is bound by an update
MODE = "FULL"
globals().update(MODE="LAST")
def main(a, b, c):
    return MODE
### a module variable that is bound by an update of vars
MODE = "FULL"
vars().update({"MODE": "LAST"})
def main(a, b, c):
    return MODE
### exact: a module variable that is bound in a loop over names
MODE = "FULL"
for name in ("OTHER", "MODE"):
    globals()[name] = "LAST"
def main(a, b, c):
    return MODE
### exact: an object in a dictionary of the module
HELD = {}
def main(a, b, c):
    box = Box("FULL")
    HELD["box"] = box
    HELD["box"].mode = "LAST"
    return box.mode, HELD["box"] is box
### exact: an object in a dictionary of the module, stored by a function
HELD = {}
def hold(box):
    HELD["box"] = box
def lower():
    HELD["box"].mode = "LAST"
def main(a, b, c):
    box, other = Box("FULL"), Box("FULL")
    hold(other)
    hold(box)
    lower()
    return box.mode, other.mode
### a dictionary of the module that is filled on some paths
HELD = {"mode": "LAST"}
def main(a, b, c):
    if a:
        HELD["mode"] = "FULL"
    return HELD["mode"]
### a dictionary of the module that is filled under a key that is not known
HELD = {"mode": "FULL"}
def main(a, b, c):
    HELD["mode"] = "FULL"
    HELD["mode" if a else "other"] = "LAST"
    return HELD["mode"]
### a dictionary of the module that is changed after it was filled
HELD = {}
def lower():
    HELD.update(mode="LAST")
def main(a, b, c):
    HELD["mode"] = "FULL"
    lower()
    return HELD["mode"]
### a dictionary of the module that is emptied
HELD = {}
def main(a, b, c):
    HELD["mode"] = "FULL"
    HELD.clear()
    HELD.setdefault("mode", "LAST")
    return HELD["mode"]
### a dictionary of the module that loses an entry
HELD = {}
def main(a, b, c):
    HELD["mode"] = "FULL"
    HELD.pop("mode")
    return HELD.get("mode", "LAST")
### exact: a dictionary of the module that loses another entry
HELD = {}
def drop(key):
    HELD.pop(key, None)
    if "spare" in HELD:
        del HELD["spare"]
def main(a, b, c):
    HELD["mode"] = "FULL"
    HELD.setdefault("spare", "LAST")
    drop("other")
    HELD.update(note=1)
    return HELD.setdefault("mode", "LAST"), HELD.get("mode"), "mode" in HELD, HELD.pop("mode")
### a dictionary of the module, an entry of which goes for sure and comes again
HELD = {}
def main(a, b, c):
    HELD["mode"] = "FULL"
    HELD.pop("mode")
    first = HELD.get("mode")
    HELD.update({"mode": "LAST", 1: "x"})
    HELD[b] = "NULL"
    del HELD[b]
    return first, HELD["mode"], "mode" in HELD
### a dictionary of the module that is updated with what is not known
HELD = {}
def main(a, b, c):
    HELD["mode"] = "FULL"
    HELD.update({("mode" if a else "spare"): "LAST"})
    one = HELD["mode"]
    HELD.update(**{"mode": "NULL"} if b else {})
    return one, HELD["mode"]
### a dictionary of the module that a class attribute fills when it is made
HELD = {}
class Filled:
    def __init__(self):
        HELD["mode"] = "FULL"
FILLED = Filled()
def main(a, b, c):
    if a:
        HELD["mode"] = "LAST"
    return HELD["mode"]
### a dictionary of the module that loses an entry on some paths
HELD = {}
def main(a, b, c):
    HELD["mode"] = "FULL"
    if a:
        del HELD["mode"]
    return HELD.get("mode", "LAST")
### a dictionary of the module under another name
HELD = {}
def main(a, b, c):
    rows = HELD
    HELD["mode"] = "FULL"
    rows["mode"] = "LAST"
    return HELD["mode"]
### a list of the module
HELD = []
def main(a, b, c):
    box = Box("FULL")
    HELD.append(box)
    HELD[0].mode = "LAST"
    return box.mode
### a dictionary of unknown keys that is updated
def main(a, b, c):
    rows = {}
    rows[a] = "FULL"
    rows.update({"mode": "LAST"})
    return rows["mode"]
### a dictionary of the module, in a loop
HELD = {}
def main(a, b, c):
    HELD["mode"] = "FULL"
    for step in range(a or 0):
        HELD["mode"] = "LAST"
    return HELD["mode"]
### a dictionary of the module that a loop fills with what it makes
HELD = {}
def main(a, b, c):
    boxes = []
    for step in range(3):
        HELD["box"] = Box("FULL")
        boxes.append(HELD["box"])
    HELD["box"].mode = "LAST"
    return [box.mode for box in boxes]
"""


def _programs() -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _TEXT.split("\n### ")[1:]:
        title, body = part.split("\n", 1)
        found[title] = _BOX + dedent(body) + "\n"
    return found


PROGRAMS = _programs()
"""Those that begin with "exact" are known as well as CPython knows them."""


@pytest.mark.parametrize("title", PROGRAMS)
def test_what_cpython_leaves_is_not_ruled_out(title: str) -> None:
    source = PROGRAMS[title]
    outcomes = PYTHON.run(source, INPUTS)
    assert not [o["broken"] for o in outcomes if "broken" in o], outcomes
    store = SyntaxStore(MemoryTree({"program.py": source}))  # type: ignore[arg-type]

    def work() -> None:
        free: list[Value] = [Unknown(p, key=p) for p in PARAMETERS]
        runs: list[tuple[list[Value], list[int]]] = [(free, list(range(len(INPUTS))))]
        runs += [([Known(x) for x in INPUTS[i]], [i]) for i in (0, 1)]
        for given, covered in runs:
            abstract = interpret(store, given, TRACKED)
            for i in covered:
                wrong = covers(abstract, outcomes[i], dict(zip(PARAMETERS, INPUTS[i], strict=True)))
                assert wrong is None, f"main{INPUTS[i]} given {given}: {wrong}\n{numbered(source)}"

    deeply(work)


@pytest.mark.parametrize("title", [title for title in PROGRAMS if title.startswith("exact")])
def test_what_is_plain_is_known(title: str) -> None:
    check_exact(PROGRAMS[title], INPUTS[0])
