"""Runs programs in CPython and says what came of them. A process of its own: it reads one JSON request per line.

A request is ``{"source": …, "inputs": [[…], …]}``; the answer lists, for each input, ``{"value": …, "heap": {…}}`` or
``{"raised": type name}``. Heap objects are named by numbers, so that aliasing shows.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
import types
from typing import Any

MODULE = "pkg.program"
MOST_STEPS = 20_000


class TooLong(BaseException):
    """A program that does not end: a defect of the generator, not of the interpreter."""


class Describer:
    """Values as JSON; objects with identity as ``["ref", number]`` into :attr:`heap`."""

    def __init__(self) -> None:
        self.heap: dict[str, Any] = {}
        self.numbers: dict[int, int] = {}
        self.alive: list[Any] = []

    def describe(self, v: Any) -> list[Any]:
        if isinstance(v, enum.Enum):
            return ["member", type(v).__name__, v.name]
        if v is None or type(v) in (bool, int, str, float, bytes, complex) or v is Ellipsis:
            return ["scalar", type(v).__name__, repr(v)]
        if type(v) is tuple:
            return ["tuple", [self.describe(x) for x in v]]
        if isinstance(v, type):
            return ["class", v.__name__]
        if isinstance(v, types.FunctionType):
            return ["function", v.__name__]
        if isinstance(v, (types.MethodType, types.BuiltinFunctionType, types.GeneratorType)):
            return ["opaque", type(v).__name__]
        number = self.numbers.get(id(v))
        if number is None:
            number = self.numbers[id(v)] = len(self.numbers)
            self.alive.append(v)
            self.heap[str(number)] = {}
            self.heap[str(number)] = self.object(v)
        return ["ref", number]

    def object(self, v: Any) -> dict[str, Any]:
        if type(v) is list:
            return {"kind": "list", "items": [self.describe(x) for x in v]}
        if type(v) in (set, frozenset):
            return {"kind": "set", "items": [self.describe(x) for x in v]}
        if isinstance(v, dict):
            return {"kind": "dict", "items": [[self.describe(k), self.describe(x)] for k, x in v.items()]}
        if isinstance(v, BaseException):
            return {"kind": "exception", "cls": type(v).__name__, "attrs": {}}
        if isinstance(v, tuple) and hasattr(v, "_fields"):
            return {
                "kind": "object", "cls": type(v).__name__,
                "attrs": {n: self.describe(getattr(v, n)) for n in v._fields},
            }  # fmt: skip
        if type(v).__module__ == MODULE:
            attrs = {k: self.describe(x) for k, x in vars(v).items()}
            if dataclasses.is_dataclass(v):
                attrs.update(
                    {f.name: self.describe(getattr(v, f.name)) for f in dataclasses.fields(v) if hasattr(v, f.name)}
                )
            return {"kind": "object", "cls": type(v).__name__, "attrs": attrs}
        return {"kind": "opaque", "cls": type(v).__name__}


def run(source: str, arguments: list[Any]) -> dict[str, Any]:
    """One run of ``main(*arguments)`` in a fresh module."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    steps = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps > MOST_STEPS:
            raise TooLong
        return trace

    try:
        exec(compile(source, "program.py", "exec"), module.__dict__)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return {"broken": f"{type(error).__name__}: {error}"}
    sys.settrace(trace)
    try:
        value = module.main(*arguments)
    except TooLong:
        return {"broken": "runs too long"}
    except BaseException as error:  # noqa: BLE001 - as above
        return {"raised": type(error).__name__, "text": str(error)}
    finally:
        sys.settrace(None)
    describer = Describer()
    described = describer.describe(value)
    return {"value": described, "heap": describer.heap}


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        answers = [run(request["source"], arguments) for arguments in request["inputs"]]
        sys.stdout.write(json.dumps(answers) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.stdout, real = sys.stderr, sys.stdout  # what a program prints is no answer
    out = real

    class _Out:
        write = staticmethod(out.write)
        flush = staticmethod(out.flush)

    sys.stdout = _Out()  # type: ignore[assignment]
    serve()
