"""The oracle: a program runs in CPython and in the interpreter; the concrete outcome must lie in the abstract one."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import operator
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowcheck.interp import calls, names
from flowcheck.interp.engine import Config, Interpreter
from flowcheck.interp.frames import Budget, Dead, Raised
from flowcheck.interp.heap import State
from flowcheck.interp.values import (
    UNBOUND,
    BoundV,
    BuiltinV,
    ClassV,
    ExternalV,
    FuncV,
    GeneratorV,
    Known,
    Member,
    ModuleV,
    PartialV,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    alternatives,
)
from flowcheck.program.modules import Program
from flowcheck.syntax import SyntaxStore

MODULE = "pkg.program"
PARAMETERS = ("a", "b", "c")
STACK = 256 * 1024 * 1024
DEPTH = 20_000


# ------------------------------------------------------------------------------------------------------------ the tree
class MemoryTree:
    """A source tree of one package in memory."""

    package = "pkg"

    def __init__(self, files: dict[str, str]) -> None:
        self._files = {path: text.encode() for path, text in files.items()}

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self._files))

    def read(self, path: str) -> bytes:
        return self._files[path]

    def file_digest(self, path: str) -> str:
        return hashlib.sha256(self._files[path]).hexdigest()

    def module_name(self, path: str) -> str:
        parts = [self.package, *path.removesuffix(".py").split("/")]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def path_of(self, module: str) -> str | None:
        for path in self._files:
            if self.module_name(path) == module:
                return path
        return None

    def is_namespace(self, module: str) -> bool:
        return module == self.package

    def core_paths(self) -> tuple[str, ...]:
        return self.paths()


# ------------------------------------------------------------------------------------------------------- the two sides
@dataclass
class Abstract:
    """What the interpreter says of a call: the value and state of a normal end, if there is one, and the raises."""

    value: Value | None
    state: State
    raised: list[Raised]
    interpreter: Interpreter = field(repr=False)


def deeply(work: Callable[[], Any]) -> Any:
    """Runs ``work`` on a stack that a deep recursion cannot exhaust."""
    result: list[Any] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            failure.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(STACK)
    sys.setrecursionlimit(DEPTH)
    try:
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if failure:
        raise failure[0]
    return result[0]


def interpret(store: SyntaxStore, arguments: Sequence[Value], tracked: frozenset[str] = frozenset()) -> Abstract:
    """``main(*arguments)`` of the program in ``store``."""
    it = Interpreter(Program(store), Config(tracked=tracked, max_steps=400_000))
    module = it.program.module(MODULE)
    assert module is not None, store.problems
    main = names.global_value(it, module, "main", it.base_state)
    assert main is not None
    state = State(it.base)
    it.in_try = 1  # so that whatever may raise is on record
    raised: list[Raised] = []
    it.handlers.append(raised)
    value: Value | None = None
    with contextlib.suppress(Dead):
        value = calls.call(it, main, list(arguments), {}, state, None, it.module_frame(module))
    assert it.handlers[-1] is raised, "a handler was left behind"
    return Abstract(value, state, raised, it)


class Python:
    """CPython in a process of its own, one for all programs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, source: str, inputs: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        if self._process is None:
            worker = Path(__file__).with_name("concrete_worker.py")
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(worker)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            atexit.register(self.close)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"source": source, "inputs": list(map(list, inputs))}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process = None
            raise RuntimeError("CPython ended while it ran\n" + source)
        return list(json.loads(answer))

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(10)
            self._process = None


PYTHON = Python()


# ------------------------------------------------------------------------------------------------------ concretisation
class Cover:
    """Whether one concrete outcome lies in an abstract one.

    A concrete object is matched to one abstract address at most, and an exact address to one concrete object at most:
    that is what aliasing means. Unions make it a search.
    """

    def __init__(self, state: State, heap: dict[str, Any], inputs: dict[str, Any]) -> None:
        self.state = state
        self.heap = heap
        self.inputs = inputs

    def value(self, v: Value, c: list[Any]) -> bool:
        return self._all([(v, c)], {}, {})

    def _all(self, todo: list[tuple[Value, list[Any]]], up: dict[int, int], down: dict[int, int]) -> bool:
        """``up``: concrete number -> address; ``down``: exact address -> concrete number."""
        if not todo:
            return True
        (v, c), rest = todo[-1], todo[:-1]
        if c[0] not in ("ref", "tuple") or any(isinstance(alt, Unknown) for alt in alternatives(v)):
            # Nothing more follows from how these are matched, so that one way is as good as any.
            options = [alt for alt in alternatives(v) if c[0] not in ("ref", "tuple") or isinstance(alt, Unknown)]
            if any(True for alt in options for _ in self._one(alt, c, up, down)):
                return self._all(rest, up, down)
            if c[0] not in ("ref", "tuple"):
                return False
        return any(
            self._all(rest + more, {**up, **new_up}, {**down, **new_down})
            for alt in alternatives(v)
            for more, new_up, new_down in self._one(alt, c, up, down)
        )

    def _one(  # noqa: C901 - one case for each kind of value
        self, v: Value, c: list[Any], up: dict[int, int], down: dict[int, int]
    ) -> Iterator[tuple[list[tuple[Value, list[Any]]], dict[int, int], dict[int, int]]]:
        """The ways in which ``v``, no union, may stand for ``c``: what else must hold then."""
        if v is UNBOUND:
            return
        kind = c[0]
        if isinstance(v, Unknown):
            if self._unknown(v, c):
                yield [], {}, {}
        elif isinstance(v, Known):
            if kind == "scalar" and c[1] == type(v.value).__name__ and c[2] == repr(v.value):
                yield [], {}, {}
        elif isinstance(v, Member):
            if kind == "member" and c[1:] == [v.cls.name, v.name]:
                yield [], {}, {}
        elif isinstance(v, TupleV):
            if kind == "tuple" and len(c[1]) == len(v.items):
                yield list(zip(v.items, c[1], strict=True)), {}, {}
        elif isinstance(v, ClassV):
            if kind == "class" and c[1] == v.name:
                yield [], {}, {}
        elif isinstance(v, FuncV):
            if kind == "function" and c[1] == v.name:
                yield [], {}, {}
        elif isinstance(v, BuiltinV):
            if kind == "opaque" or (kind == "class" and c[1] == v.name):
                yield [], {}, {}
        elif isinstance(v, (BoundV, GeneratorV, PartialV, ExternalV, ModuleV)):
            if kind in ("opaque", "class") or (kind == "ref" and self.heap[str(c[1])]["kind"] == "opaque"):
                yield [], {}, {}
        elif isinstance(v, Ref):
            if kind == "ref":
                yield from self._object(v.oid, c[1], up, down)
            elif kind in ("opaque", "tuple"):
                obj = self.state.get(v.oid)
                if obj is not None and obj.kind == "iterator":
                    yield [], {}, {}
        else:
            raise AssertionError(f"no meaning for {v!r}")

    def _unknown(self, v: Unknown, c: list[Any]) -> bool:
        if v.not_none and c == ["scalar", "NoneType", "None"]:
            return False
        if v.truth is not None and c[0] == "scalar" and bool(eval(c[2])) != v.truth:
            return False
        if v.key is not None and c[0] == "scalar":
            known, meant = self.key(v.key)
            if known and isinstance(meant, (bool, int, str, type(None))) and repr(meant) != c[2]:
                return bool(isinstance(meant, bool) and bool(eval(c[2])) == meant)  # a test's key speaks of its truth
        return True

    def key(self, key: Any) -> tuple[bool, Any]:
        """(True, value) where a key's meaning under the inputs is known."""
        if isinstance(key, str):
            return (key in self.inputs, self.inputs.get(key))
        if isinstance(key, tuple) and key[0] == "lit":
            return (isinstance(key[1], (bool, int, str, float, type(None))), key[1])
        if isinstance(key, tuple) and key[0] == "not" and len(key) == 2:
            ok, x = self.key(key[1])
            return ok, not x
        if isinstance(key, tuple) and key[0] == "truth" and len(key) == 2:
            ok, x = self.key(key[1])
            return ok, bool(x)
        if isinstance(key, tuple) and key[0] in ("cmp", "op") and len(key) == 4:
            known_l, left = self.key(key[2])
            known_r, right = self.key(key[3])
            table = COMPARE if key[0] == "cmp" else ARITHMETIC
            if known_l and known_r and key[1] in table:
                try:
                    return True, table[key[1]](left, right)
                except (TypeError, ZeroDivisionError, ValueError):
                    return False, None
        return False, None

    def facts(self) -> str | None:
        """A fact of the state that the inputs contradict, if there is one."""
        for key, fact in self.state.facts.items():
            if isinstance(key, tuple) and key[0] == "value":
                known, x = self.key(key[1])
                if known and x != fact:
                    return f"{key} = {fact}"
            elif isinstance(fact, bool):
                known, x = self.key(key)
                if known and bool(x) != fact:
                    return f"{key} = {fact}"
        return None

    def _object(  # noqa: C901 - one case for each kind of object
        self, oid: int, number: int, up: dict[int, int], down: dict[int, int]
    ) -> Iterator[tuple[list[tuple[Value, list[Any]]], dict[int, int], dict[int, int]]]:
        obj = self.state.get(oid)
        real = self.heap[str(number)]
        if obj is None:
            return
        if number in up:
            if up[number] == oid:
                yield [], {}, {}
            return
        if obj.exact and oid in down:
            return  # another concrete object has this address
        new_up, new_down = {number: oid}, ({oid: number} if obj.exact else {})
        kind = real["kind"]
        if kind == "opaque":
            yield [], new_up, new_down
        elif kind in ("list", "set"):
            if obj.cls is not None or obj.kind != kind:
                return
            if obj.items is None:
                pairs = [(obj.elements, x) for x in real["items"]] if obj.elements is not None else []
                yield pairs, new_up, new_down
            elif len(obj.items) == len(real["items"]):
                if kind == "list":
                    yield list(zip(obj.items, real["items"], strict=True)), new_up, new_down
                else:
                    for order in orders(obj.items):
                        yield list(zip(order, real["items"], strict=True)), new_up, new_down
        elif kind == "dict":
            if obj.kind != "dict":
                return
            if obj.items is None:
                pairs = [(obj.elements, x) for _, x in real["items"]] if obj.elements is not None else []
                yield pairs, new_up, new_down
            elif len(obj.items) == len(real["items"]):
                rows = list(obj.items.values())
                pairs = [p for (k, v), (ck, cv) in zip(rows, real["items"], strict=True) for p in ((k, ck), (v, cv))]
                yield pairs, new_up, new_down
        elif kind == "exception":
            if obj.kind == "exception":
                if obj.tag == real["cls"]:
                    yield [], new_up, new_down
            elif obj.cls is not None and obj.cls.name == real["cls"]:
                yield [], new_up, new_down
        elif obj.cls is not None and obj.cls.name == real["cls"]:
            pairs = []
            for name, x in real["attrs"].items():
                v = obj.attrs.get(name)
                if v is None:
                    if obj.attrs.get("#any") is None and obj.kind == "object":
                        return
                    continue
                pairs.append((v, x))
            for name, v in obj.attrs.items():
                if name not in real["attrs"] and name[0] not in "#@" and UNBOUND not in alternatives(v):
                    return  # the interpreter is sure of an attribute that is not there
            yield pairs, new_up, new_down


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "is": operator.is_,
}  # fmt: skip
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip


def orders(items: list[Value]) -> Iterator[tuple[Value, ...]]:
    from itertools import permutations

    return permutations(items) if len(items) <= 5 else iter([tuple(items)])


def covers(abstract: Abstract, outcome: dict[str, Any], inputs: dict[str, Any]) -> str | None:
    """None when ``outcome`` lies in ``abstract``, else what is wrong."""
    if "raised" in outcome:
        name = outcome["raised"]
        for r in abstract.raised:
            same = r.name in (name, "?") or (name == "FrozenInstanceError" and r.name == "AttributeError")
            if same and Cover(r.state, {}, inputs).facts() is None:
                return None
        return f"CPython raises {name} ({outcome['text']}); the interpreter knows only {raises(abstract)}"
    if abstract.value is None:
        return f"CPython returns; the interpreter only raises {raises(abstract)}"
    cover = Cover(abstract.state, outcome["heap"], inputs)
    wrong = cover.facts()
    if wrong is not None:
        return f"the state says {wrong}, which the inputs contradict"
    if not cover.value(abstract.value, outcome["value"]):
        return f"CPython gives {concrete(outcome)}\nthe interpreter gives {show(abstract.value, abstract.state)}"
    return None


def raises(abstract: Abstract) -> list[str]:
    return sorted({r.name for r in abstract.raised})


def show(v: Value, st: State, depth: int = 6) -> str:
    """A value with the objects that it refers to."""
    if isinstance(v, Union):
        return "{" + " | ".join(show(x, st, depth) for x in v.items) + "}"
    if isinstance(v, TupleV):
        return "(" + ", ".join(show(x, st, depth) for x in v.items) + ")"
    if not isinstance(v, Ref):
        return repr(v)
    obj = st.get(v.oid)
    if obj is None or depth == 0:
        return f"@{v.oid}"
    mark = f"@{v.oid}" + ("" if obj.exact else "*")
    if obj.cls is not None or obj.kind not in ("list", "set", "dict", "iterator"):
        name = obj.cls.name if obj.cls is not None else str(obj.tag or obj.kind)
        attrs = ", ".join(f"{k}={show(x, st, depth - 1)}" for k, x in obj.attrs.items() if k[0] != "@")
        return f"{mark}{name}({attrs})"
    if obj.items is None:
        return f"{mark}{obj.kind}[… of {show(obj.elements, st, depth - 1) if obj.elements is not None else '?'}]"
    if obj.kind == "dict":
        body = ", ".join(f"{show(k, st, depth - 1)}: {show(x, st, depth - 1)}" for k, x in obj.items.values())
    else:
        body = ", ".join(show(x, st, depth - 1) for x in obj.items)
    return f"{mark}{obj.kind}[{body}]"


def concrete(outcome: dict[str, Any]) -> str:
    heap = outcome["heap"]

    def text(c: list[Any], depth: int = 6) -> str:
        if c[0] == "scalar":
            return str(c[2])
        if c[0] == "tuple":
            return "(" + ", ".join(text(x, depth) for x in c[1]) + ")"
        if c[0] != "ref":
            return ".".join(map(str, c[1:]))
        if depth == 0:
            return f"@{c[1]}"
        obj = heap[str(c[1])]
        if obj["kind"] == "dict":
            body = ", ".join(f"{text(k, depth - 1)}: {text(x, depth - 1)}" for k, x in obj["items"])
        elif "items" in obj:
            body = ", ".join(text(x, depth - 1) for x in obj["items"])
        else:
            body = ", ".join(f"{k}={text(x, depth - 1)}" for k, x in obj.get("attrs", {}).items())
        return f"@{c[1]}{obj.get('cls', obj['kind'])}[{body}]"

    return text(outcome["value"])


# --------------------------------------------------------------------------------------------------------- the verdict
INPUTS: tuple[tuple[Any, ...], ...] = (
    (True, 0, None), (False, 1, 0), (True, 2, 1), (False, 3, None), (False, 0, 2), (True, 1, None), (False, 2, 0),
)  # fmt: skip


def check(source: str, inputs: Sequence[Sequence[Any]] = INPUTS, known: int = 2) -> None:
    """The program under free arguments covers every input, and under known ones the first ``known`` inputs."""
    outcomes = PYTHON.run(source, inputs)
    broken = [o["broken"] for o in outcomes if "broken" in o]
    assert not broken, f"the program is no program: {broken[0]}\n{numbered(source)}"
    store = SyntaxStore(MemoryTree({"program.py": source}))  # type: ignore[arg-type]

    def work() -> None:
        free = [Unknown(p, key=p) for p in PARAMETERS]
        try:
            runs = [(interpret(store, free), inputs, outcomes)]
            for i in range(min(known, len(inputs))):
                runs.append((interpret(store, list(map(Known, inputs[i]))), [inputs[i]], [outcomes[i]]))
        except Budget:
            return  # what costs too much is unproved, which is no lie
        except Exception as error:
            raise AssertionError(f"the interpreter fails: {error!r}\n{numbered(source)}") from error
        for number, (abstract, given, real) in enumerate(runs):
            for arguments, outcome in zip(given, real, strict=True):
                wrong = covers(abstract, outcome, dict(zip(PARAMETERS, arguments, strict=True)))
                how = "known" if number else "free"
                assert wrong is None, f"main{tuple(arguments)}, {how} arguments: {wrong}\n{numbered(source)}"

    deeply(work)


def check_exact(source: str, arguments: Sequence[Any] = (True, 2, None)) -> None:
    """A program whose inputs are known: the abstract outcome is the concrete one and nothing else."""
    (outcome,) = PYTHON.run(source, [arguments])
    assert "broken" not in outcome, outcome
    store = SyntaxStore(MemoryTree({"program.py": source}))  # type: ignore[arg-type]

    def work() -> None:
        abstract = interpret(store, list(map(Known, arguments)))
        wrong = covers(abstract, outcome, dict(zip(PARAMETERS, arguments, strict=True)))
        assert wrong is None, f"{wrong}\n{numbered(source)}"
        if "raised" in outcome:
            assert abstract.value is None, f"may also return {abstract.value}\n{numbered(source)}"
            assert raises(abstract) == [outcome["raised"]], f"raises {raises(abstract)}\n{numbered(source)}"
        else:
            assert not abstract.raised, f"may also raise {raises(abstract)}\n{numbered(source)}"
            assert abstract.value is not None
            vague = next(vagueness(abstract.value, abstract.state, set()), None)
            text = show(abstract.value, abstract.state)
            assert vague is None, f"{vague} in {text}; CPython gives {concrete(outcome)}\n{numbered(source)}"

    deeply(work)


def vagueness(v: Value, st: State, seen: set[int]) -> Iterator[str]:  # noqa: C901 - as above
    """What in a value stands for more than one thing."""
    if isinstance(v, Union):
        yield f"alternatives {v}"
    elif isinstance(v, Unknown):
        yield f"unknown {v.reason}"
    elif isinstance(v, TupleV):
        for x in v.items:
            yield from vagueness(x, st, seen)
    elif isinstance(v, Ref) and v.oid not in seen:
        seen.add(v.oid)
        obj = st.get(v.oid)
        if obj is None:
            yield "a lost object"
        elif obj.cls is None and obj.kind in ("list", "dict", "set"):
            if obj.items is None:
                yield f"a {obj.kind} of unknown contents"
            elif obj.kind == "dict":
                for _, x in obj.items.values():
                    yield from vagueness(x, st, seen)
            else:
                for x in obj.items:
                    yield from vagueness(x, st, seen)
        elif obj.cls is not None:
            for name, x in obj.attrs.items():
                if name[0] not in "#@" and x is not UNBOUND:
                    yield from vagueness(x, st, seen)


def numbered(source: str) -> str:
    return "\n".join(f"{i:3} {line}" for i, line in enumerate(source.splitlines(), 1))


# ----------------------------------------------------------------------------------------------------------- reduction
def reduced(source: str) -> str:
    """A shorter program that fails as ``source`` does; Hypothesis's own shrinking takes minutes for as much."""
    wanted = _failure(source)
    lines = source.splitlines()
    tries = MOST_TRIES
    shrinking = wanted is not None
    while shrinking:
        shrinking = False
        for size in (8, 4, 2, 1):
            i = 0
            while i < len(lines) and tries:
                for shorter in (lines[:i] + lines[i + size :], _unwrapped(lines, i) if size == 1 else lines):
                    tries -= 1
                    if len(shorter) < len(lines) and _failure("\n".join(shorter) + "\n") == wanted:
                        lines, shrinking = shorter, bool(tries)
                        break
                else:
                    i += 1
    return "\n".join(lines) + "\n"


MOST_TRIES = 1_500


def _unwrapped(lines: list[str], i: int) -> list[str]:
    """The lines without the header at ``i``, its block moved out."""
    depth = len(lines[i]) - len(lines[i].lstrip())
    j = i + 1
    while j < len(lines) and len(lines[j]) - len(lines[j].lstrip()) > depth:
        j += 1
    return lines[:i] + [line[4:] for line in lines[i + 1 : j]] + lines[j:]


def _failure(source: str) -> str | None:
    """How a program fails, in a word; None when it does not, or is none."""
    try:
        compile(source, "program.py", "exec")
        check(source)
    except SyntaxError:
        return None
    except AssertionError as error:
        text = str(error)
        for word in ("no program", "interpreter fails", "gives", "only raises", "contradict"):
            if word in text:
                return word if word != "no program" else None
        return text.partition("CPython raises ")[2].partition(" ")[0]
    return None
