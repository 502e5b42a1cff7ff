"""The tensor domain against lists of columns: programs of tensor operations, run by CPython and by the interpreter.

The concrete tensors are lists of references to columns, and a column is a sum of named contributions: what a view shares
and what an operation writes in place is Python's own to say.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from flowcheck.interp import attributes, calls
from flowcheck.interp.contents import Named, Rows, Width, named
from flowcheck.interp.engine import Config, Interpreter
from flowcheck.interp.heap import State
from flowcheck.interp.tensor_model import TensorModel
from flowcheck.interp.tensors import make, read
from flowcheck.interp.unify import unified
from flowcheck.interp.values import Known, Ref, Unknown, alternatives
from flowcheck.program.modules import Program
from flowcheck.source import open_source
from flowcheck.syntax import SyntaxStore

COLUMNS = 4
NAMES = ("a", "b", "c")


# ------------------------------------------------------------------------------------------------------------ concrete
class Column:
    def __init__(self, terms: dict[str, float]) -> None:
        self.terms = terms


def plus(x: dict[str, float], y: dict[str, float], sign: float = 1) -> dict[str, float]:
    total = {k: x.get(k, 0) + sign * y.get(k, 0) for k in x.keys() | y.keys()}
    return {k: v for k, v in total.items() if v}


class Tensor:
    """A view: columns that other tensors may show too."""

    def __init__(self, columns: list[Column]) -> None:
        self.columns = columns

    @staticmethod
    def of(name: str) -> Tensor:
        return Tensor([Column({name: 1}) for _ in range(COLUMNS)])

    def fresh(self, terms: list[dict[str, float]]) -> Tensor:
        return Tensor([Column(dict(t)) for t in terms])

    def __add__(self, other: Tensor) -> Tensor:
        return self.fresh([plus(x.terms, y.terms) for x, y in zip(self.columns, other.columns, strict=True)])

    def __sub__(self, other: Tensor) -> Tensor:
        return self.fresh([plus(x.terms, y.terms, -1) for x, y in zip(self.columns, other.columns, strict=True)])

    def __mul__(self, number: float) -> Tensor:
        return self.fresh([{k: v * number for k, v in x.terms.items() if v * number} for x in self.columns])

    def put(self, terms: list[dict[str, float]]) -> Tensor:
        for x, t in zip(self.columns, terms, strict=True):
            x.terms = dict(t)
        return self

    def __iadd__(self, other: Tensor) -> Tensor:
        return self.put([plus(x.terms, y.terms) for x, y in zip(self.columns, other.columns, strict=True)])

    def add_(self, other: Tensor) -> Tensor:
        return self.__iadd__(other)

    def __imul__(self, number: float) -> Tensor:
        return self.put([{k: v * number for k, v in x.terms.items() if v * number} for x in self.columns])

    def copy_(self, other: Tensor) -> Tensor:
        return self.put([dict(y.terms) for y in other.columns])

    def zero_(self) -> Tensor:
        return self.put([{} for _ in self.columns])

    def clone(self) -> Tensor:
        return self.fresh([x.terms for x in self.columns])

    def contiguous(self) -> Tensor:
        return self

    def __getitem__(self, key: tuple[Any, slice]) -> Tensor:
        return Tensor(self.columns[key[1]])

    def __setitem__(self, key: tuple[Any, slice], value: Tensor) -> None:
        self[key].copy_(value)

    def chunk(self, n: int, dim: int) -> list[Tensor]:
        size = len(self.columns) // n
        return [Tensor(self.columns[i * size : (i + 1) * size]) for i in range(n)]


class Torch:
    @staticmethod
    def cat(parts: list[Tensor], dim: int) -> Tensor:
        return Tensor([Column(dict(c.terms)) for p in parts for c in p.columns])

    @staticmethod
    def empty_like(x: Tensor) -> Tensor:
        return x.fresh([{"?": 1} for _ in x.columns])

    @staticmethod
    def zeros_like(x: Tensor) -> Tensor:
        return x.fresh([{} for _ in x.columns])


# ------------------------------------------------------------------------------------------------------------ programs
STATEMENTS = (
    "{x} = {y} + {z}",
    "{x} = {y} - {z}",
    "{x} = {y}",
    "{x} = {y}.clone()",
    "{x} = {y}.contiguous()",
    "{x} = {y} * 3",
    "{x} += {y}",
    "{x} *= 2",
    "{x}.copy_({y})",
    "{x}.add_({y})",
    "{x}.zero_()",
    "{x} = torch.zeros_like({y})",
    "{x}[:, 1:3] += {y}[:, 1:3]",
    "{x}[..., :2] = {y}[:, 2:]",
    "{x} = torch.cat([{y}[:, :1], {z}[:, 1:]], dim=-1)",
    "{x}[:, 2:].copy_({y}[:, :2])",
    "h = {y}.chunk(2, dim=-1)\n    {x} = torch.cat([h[1], h[0]], dim=-1)",
    "if flag:\n        {x} = {y} + {z}\n    else:\n        {x} = {z} + {y}",
    "for _ in range(2):\n        {x} = {x} + {y}",
)


@some.composite
def programs(draw: Any) -> str:
    lines = draw(some.lists(some.sampled_from(STATEMENTS), min_size=1, max_size=8))
    return "\n    ".join(s.format(**{k: draw(some.sampled_from(NAMES)) for k in "xyz"}) for s in lines)


def abstract(body: str, flag: bool | None) -> list[list[dict[str, float] | None]]:
    """The columns of the three tensors after the program; None for a column that is not known."""
    with tempfile.TemporaryDirectory() as name:
        srt = Path(name) / "sglang" / "srt"
        srt.mkdir(parents=True)
        (srt.parent / "__init__.py").write_text("")
        (srt / "modes.py").write_text(
            "from enum import IntEnum\nclass CaptureHiddenMode(IntEnum):\n    NULL = 0\n    LAST = 1\n    FULL = 2\n"
        )
        (srt / "program.py").write_text(
            f"import torch\n\n\ndef program(a, b, c, flag):\n    {body}\n    return a, b, c\n"
        )
        program = Program(SyntaxStore(open_source(name), None))
        it = Interpreter(program, Config(tensors=TensorModel({}, {}, {}, {}, ("torch.*",)), follow_raises=False))
        assert it.config.tensors is not None
        it.config.observer = it.config.tensors.observed
        it.base.unify = unified
        module = program.module("sglang.srt.program")
        assert module is not None
        state, frame = State(it.base), it.module_frame(module)
        rows = Unknown("rows", ("rows",))
        inputs = [make(it, state, named(n), Width(COLUMNS), Rows(), (rows, Known(COLUMNS)), None) for n in NAMES]
        f = attributes.get(it, it.module_value(module.name), "program", frame, state)
        last = Known(flag) if flag is not None else Unknown("a flag", ("flag",))
        result = calls.call(it, f, [*inputs, last], {}, state, None, frame)
        assert hasattr(result, "items")
        return [_columns(v, state) for v in result.items]


def _columns(v: Any, state: State) -> list[dict[str, float] | None]:
    out: list[list[dict[str, float] | None]] = []
    for ref in alternatives(v):
        if not isinstance(ref, Ref):
            return [None] * COLUMNS
        columns: list[dict[str, float] | None] = []
        for s in read(state, ref):
            if s.width is None:
                return [None] * COLUMNS
            known: dict[str, float] | None = {}
            for t in s.content.terms:
                if isinstance(t.source, Named) and known is not None:
                    known[t.source.path] = t.number
                else:
                    known = None
            columns += [known if s.content.lost is None else None] * (s.width.number or 0)
        out.append(columns)
    return out[0] if all(c == out[0] for c in out) else [None] * COLUMNS


def concrete(body: str, flag: bool | tuple[bool, ...]) -> list[list[dict[str, float]]]:
    space: dict[str, Any] = {"torch": Torch}
    exec(f"def program(a, b, c, flag):\n    {body}\n    return a, b, c\n", space)  # the program is this test's own
    return [[c.terms for c in t.columns] for t in space["program"](*(Tensor.of(n) for n in NAMES), flag)]


@settings(max_examples=60)
@given(programs(), some.booleans())
def test_exact_programs(body: str, flag: bool) -> None:
    assert abstract(body, flag) == concrete(body, flag)


@settings(max_examples=40)
@given(programs())
def test_joined_programs(body: str) -> None:
    """What is said of a program whose branches are not decided holds for both."""
    found = abstract(body, None)
    for flag in (True, False):
        for said, real in zip(found, concrete(body, flag), strict=True):
            assert all(s is None or s == r for s, r in zip(said, real, strict=True))


@pytest.mark.parametrize(
    "body",
    [
        "b = a\n    b += c",  # an alias
        "b = a[:, :2]\n    b += c[:, 2:]\n    b = c",  # a view of some columns
        "b = a.clone()\n    b += c",
        "if flag:\n        b = a + c\n    else:\n        b = c + a",
    ],
)
def test_aliases_and_copies(body: str) -> None:
    assert abstract(body, None) == concrete(body, True)


def looped(body: str, leaves: str) -> str:
    """The program as the body of a loop that runs as often as nobody knows, or that is left in its middle."""
    return f"for one in flag:\n        {body.replace(chr(10), chr(10) + '    ')}\n        {leaves}"


@settings(max_examples=60)
@given(programs(), some.sampled_from(("pass", "break", "if one:\n            break\n        b = a + b")))
def test_loops_of_unknown_length(body: str, leaves: str) -> None:
    """What is said after such a loop holds however often it ran."""
    program = looped(body.replace("if flag", "if one"), leaves)
    found = abstract(program, None)
    for rounds in ((), (False,), (True,), (False, False, True)):
        for said, real in zip(found, concrete(program, rounds), strict=True):
            assert all(s is None or s == r for s, r in zip(said, real, strict=True)), (rounds, program)


def test_what_a_loop_makes_and_leaves_is_known() -> None:
    loop = "for one in flag:\n        d = a + c\n        d = d[:, :4]\n        break\n    else:\n        d = c + a"
    body = f"d = a\n    {loop}\n    b = d"
    assert abstract(body, None) == concrete(body, ())


def test_a_loop_of_unknown_length_leaves_alone_what_it_does_not_write() -> None:
    found = abstract("d = b\n    for one in flag:\n        d = a + c\n        d += c\n    b = d", None)
    assert found == [[{"a": 1}] * COLUMNS, [None] * COLUMNS, [{"c": 1}] * COLUMNS]


def test_what_differs_from_path_to_path_is_not_known() -> None:
    found = abstract("if flag:\n        b += a\n    else:\n        b += c", None)
    assert found[1] == [None] * COLUMNS
    assert found[0] == [{"a": 1}] * COLUMNS
