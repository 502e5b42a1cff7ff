"""Objects that a loop of unknown length makes: those of one round are told apart, and no concrete outcome is ruled out."""

from __future__ import annotations

from textwrap import dedent

import pytest

from flowcheck.interp.values import Unknown
from flowcheck.syntax import SyntaxStore
from tests.interp.harness import (
    INPUTS,
    PARAMETERS,
    PYTHON,
    MemoryTree,
    check,
    concrete,
    deeply,
    interpret,
    numbered,
    show,
    vagueness,
)

_CLASS = """
class Box:
    x = 0
    def get(self):
        return self.x
    def both(self):
        self.x += 1000
        yield self.x
        yield self.x


"""

_TEXT = """
### plain: a round's own objects
def main(a, b, c):
    last = ()
    for turn in range(b or 0):
        box = Box()
        box.x = 1
        row = {"x": 0}
        row["x"] = 2
        names = [0]
        names[0] = 3
        last = (box.x, row["x"], named(**row), names[0])
        if last == (1, 2, 2, 3):
            last = ()
    return last
def named(x):
    return x
### plain: the object with which a round leaves
def main(a, b, c):
    kept = None
    while True:
        box = Box()
        box.x = "new"
        if kept is not None:
            kept.x = "old"
        kept = box
        if step(b):
            break
    kept.x += "est"
    return kept.x, returned(a).x
def step(b):
    return not b or b
def returned(a):
    while True:
        box = Box()
        box.x = 1
        if a or not a:
            box.x = 2
            return box
### plain: an object that a comprehension makes in every round
def main(a, b, c):
    for x in (made().x for turn in range(b or 0)):
        if x != 2:
            return x
    return 2
def made():
    box = Box()
    box.x = 2
    return box
### the object of the round before
def main(a, b, c):
    last, seen = None, []
    for turn in range((b or 1) + 1):
        box = Box()
        box.x = "new"
        if last is not None:
            last.x = "old"
            box.before = last
        last = box
        seen.append(box)
        if a and turn:
            seen[0].x = "first"
    return [s.x for s in seen], last.x, getattr(last, "before", None) and last.before.x
### objects that are held by what does not name them plainly
def main(a, b, c):
    rows, out, kept = [], {}, None
    for turn in range((b or 1) + 1):
        box = Box()
        box.x = turn
        rows.append((lambda held: lambda: held)(box))
        out[box.get] = turn
        gen = (z for z in box.both())
        kept = kept or gen
        if a:
            next(gen)
        rows.append(lambda held=box: held)
        box.x += 10
    for made in rows:
        made().x += 100
    first, rest = list(gen), list(kept)
    return [made().x for made in rows], first, rest, box.x
### a loop inside another, and what an exception leaves
def main(a, b, c):
    seen = []
    for turn in range((b or 1) + 1):
        outer = Box()
        for step in range((b or 1) + turn):
            inner = Box()
            inner.of = outer
            outer.x = step
            if a and step:
                outer.x = "left"
                break
        one = outer
        try:
            while outer.x != 5:
                one = Box()
                one.x = outer.x
                seen.append(one)
                outer.x = 5
                if c is None and turn:
                    raise ValueError
        except ValueError:
            one.x = "caught"
        inner.of.x = (outer.x, one.x)
        seen.append(outer)
        seen.append(inner)
    return [s.x for s in seen], inner.of is outer
### an object that a function returns out of a loop, in a loop
def main(a, b, c):
    seen = []
    for turn in range((b or 1) + 1):
        box = found(turn, a)
        box.x = (box.x, "seen")
        if seen:
            seen[-1].x = "passed"
        seen.append(box)
    return [s.x for s in seen], box.x
def found(turn, a):
    n = 0
    while n <= turn:
        box = Box()
        box.x = n
        if a and n:
            return box
        n += 1
    return box
### a generator that makes its objects in a loop, and a body that keeps them
def main(a, b, c):
    first, last = None, None
    for box in boxes((b or 1) + 1):
        mine = Box()
        mine.x = box
        if first is None:
            first = mine
        else:
            first.x.x = "later"
            last.x = first.x
        last = mine
        if a and box.x == 2:
            break
    return first.x.x, last.x.x, last is first
def boxes(n):
    turn = 0
    while turn < n:
        box = Box()
        box.x = turn
        yield box
        turn += 1
        box.x = (box.x, "after")
### objects that are made at one place by several calls of one round
def main(a, b, c):
    seen = []
    for turn in range((b or 1) + 1):
        pair = [made(n) for n in range(12)]
        pair[0].x = "zero"
        one, two = made(1), made(2)
        one.x = "one"
        seen += [*pair[:2], one, two]
        if a:
            one, two = two, one
    return [s.x for s in seen], one.x, two.x
def made(n):
    box = Box()
    box.x = n
    return box
### lists and dicts of a round that hold one another
def main(a, b, c):
    rows, total = [], {}
    for turn in range((b or 1) + 1):
        row = []
        table = {"row": row, "turn": turn}
        row.append(table)
        table["before"] = rows[-1] if rows else None
        total[turn] = table
        rows.append(row)
        if a and turn:
            rows[0].append("more")
            rows[0][0]["turn"] = "first"
    return [r[0]["turn"] for r in rows], len(rows[0]), [t["row"] is rows[-1] for t in total.values()]
"""


def _programs() -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _TEXT.split("\n### ")[1:]:
        title, body = part.split("\n", 1)
        found[title] = _CLASS + dedent(body) + "\n"
    return found


PROGRAMS = _programs()
"""What those give that begin with "plain" is the same for all inputs."""


@pytest.mark.parametrize("title", PROGRAMS)
def test_no_concrete_outcome_is_ruled_out(title: str) -> None:
    check(PROGRAMS[title])


@pytest.mark.parametrize("title", [title for title in PROGRAMS if title.startswith("plain")])
def test_what_is_the_same_in_all_rounds_is_known(title: str) -> None:
    source = PROGRAMS[title]
    outcomes = PYTHON.run(source, INPUTS)
    store = SyntaxStore(MemoryTree({"program.py": source}))  # type: ignore[arg-type]

    def work() -> None:
        abstract = interpret(store, [Unknown(p, key=p) for p in PARAMETERS])
        assert abstract.value is not None
        vague = next(vagueness(abstract.value, abstract.state, set()), None)
        given = {concrete(o) for o in outcomes}
        text = show(abstract.value, abstract.state)
        assert vague is None, f"{vague} in {text}; CPython gives {given}\n{numbered(source)}"

    deeply(work)
