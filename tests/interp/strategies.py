"""Programs in the interpreter's subset, as text. Each strategy dwells on one part of the language.

A program defines ``main(a, b, c)``: ``a`` is a bool, ``b`` a small number, ``c`` None or a small number. It ends, as
its loops are bounded, and it returns everything that it has made, so that the oracle sees all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Draw = Callable[[Any], Any]
NUMBERS = ("x", "y", "z")
PART = re.compile(r"<([a-z]+)(\d?)>")


class Writer:
    """Writes statements, a decision at a time."""

    returns = ("x", "y", "z")

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.level = 0
        self.loops = 0
        self.names = 0
        self.left = 26
        self.functions: list[tuple[str, int]] = []

    # ------------------------------------------------------------------------------------------------- decisions
    def below(self, n: int) -> int:
        return int(self.draw(st.integers(0, n - 1)))

    def one(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, n: int) -> bool:
        """True once in ``n`` times."""
        return self.below(n) == n - 1

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    # --------------------------------------------------------------------------------------------------- writing
    def put(self, *lines: str) -> None:
        """Writes lines; ``<number1>`` in them stands for what ``self.number(1)`` gives, and so on."""
        self.lines += ["    " * self.level + self.filled(line) for line in lines]

    def filled(self, text: str) -> str:
        def part(match: re.Match[str]) -> str:
            method = getattr(self, match[1])
            return self.filled(str(method(int(match[2])) if match[2] else method()))

        return PART.sub(part, text)

    def variable(self) -> str:
        return self.one(NUMBERS)

    def safely(self, *lines: str) -> None:
        """Statements that may well raise; most of the time the program goes on."""
        if self.chance(5):
            self.put(*lines)
        else:
            self.put(
                "try:",
                *("    " + line for line in lines),
                f"except {self.one(('Exception', 'Exception', 'TypeError'))}:",
            )
            self.put("    pass")

    def block(self, header: str, body: Callable[[], None]) -> None:
        self.put(header)
        self.level += 1
        before = len(self.lines)
        body()
        if len(self.lines) == before:
            self.put("pass")
        self.level -= 1

    def some(self, most: int = 3) -> None:
        for _ in range(1 + self.below(most)):
            self.statement()

    # ----------------------------------------------------------------------------------------------- expressions
    def number(self, depth: int = 2) -> str:
        n = self.below(12 if depth > 0 else 4)
        if n == 0:
            return str(self.below(4))
        if n in (1, 3):
            return self.one(NUMBERS)
        if n == 2:
            return self.one(("b", "b", "(c or 0)"))
        if n == 4:
            return f"({self.number(depth - 1)} {self.one(('+', '-', '*'))} {self.number(depth - 1)})"
        if n == 5:
            return f"({self.number(depth - 1)} {self.one(('%', '//'))} {self.one(('2', '3'))})"
        if n == 6:
            return f"({self.number(depth - 1)} if {self.condition(depth - 1)} else {self.number(depth - 1)})"
        if n == 7:
            return f"({self.condition(depth - 1)} and {self.number(depth - 1)})"
        if n == 8:
            return f"({self.number(depth - 1)} or {self.number(depth - 1)})"
        if n == 9:
            return f"{self.one(('min', 'max'))}({self.number(depth - 1)}, {self.number(depth - 1)})"
        if n == 10:
            return f"(<variable> := {self.number(depth - 1)})"
        if self.functions:
            name, arity = self.one(self.functions)
            return f"{name}({', '.join(self.number(0) for _ in range(arity))})"
        return self.one(("sum([x, 1])", "len([x, y])", "abs(y)", "int(a)"))

    def condition(self, depth: int = 2) -> str:
        n = self.below(11 if depth > 0 else 3)
        if n == 0:
            return self.one(("a", "not a", "c is None", "c is not None", "c", "b"))
        if n in (1, 2):
            return f"{self.one((*NUMBERS, 'b'))} {self.one(('==', '!=', '<', '<=', '>'))} {self.below(4)}"
        if n == 3:
            return f"({self.condition(depth - 1)} and {self.condition(depth - 1)})"
        if n == 4:
            return f"({self.condition(depth - 1)} or {self.condition(depth - 1)})"
        if n == 5:
            return f"not {self.condition(depth - 1)}"
        if n == 6:
            return f"<number0> < {self.number(depth - 1)} <= <number0>"
        if n == 7:
            return f"{self.number(depth - 1)} {self.one(('in', 'not in'))} (<number0>, <number0>)"
        if n == 8:
            return f"isinstance({self.one(('a', 'b', 'c', 'x'))}, {self.one(('int', 'bool', 'str', '(str, int)'))})"
        if n == 9:
            return f"(<variable> := {self.number(depth - 1)}) {self.one(('==', '<', '!='))} {self.below(4)}"
        return f"bool({self.number(depth - 1)})"

    # ------------------------------------------------------------------------------------------------ statements
    def simple(self) -> None:
        name = self.one(NUMBERS)
        n = self.below(5)
        if n == 0:
            self.put(f"{name} {self.one(('+=', '-=', '*='))} <number1>")
        elif n == 1:
            self.put("x, y = <number1>, <number1>")
        else:
            self.put(f"{name} = <number2>")

    def statement(self) -> None:
        self.left -= 1
        if self.left < 0 or self.level > 5:
            self.simple()
            return
        self.one(self.kinds())()

    def kinds(self) -> list[Callable[[], None]]:
        return [self.simple, self.simple, self.branch, self.loop, self.count_down]

    def branch(self) -> None:
        self.block("if <condition2>:", self.some)
        if self.chance(3):
            self.block("elif <condition2>:", self.some)
        if self.chance(2):
            self.block("else:", self.some)

    def iterable(self) -> str:
        return self.one(
            ("range(b)", "range(2)", "range(c or 1)", "(x, y)", "range(3)", "range(b + 1)", "[z, b, 2]", "range(x % 4)")
        )

    def loop(self) -> None:
        if self.loops >= 2:
            self.simple()
            return
        self.loops += 1
        target = self.one(("i", "j", "x"))
        self.block(f"for {target} in {self.iterable()}:", self.loop_body)
        self.loops -= 1
        if self.chance(3):
            self.block("else:", self.some)

    def loop_body(self) -> None:
        self.some()
        if self.chance(2):
            self.block("if <condition1>:", lambda: (self.some(1), self.put(self.one(("break", "continue"))))[0])
            self.some(2)

    def count_down(self) -> None:
        if self.loops >= 2:
            self.simple()
            return
        self.loops += 1
        fuel = self.fresh("n")
        self.put(f"{fuel} = {self.one(('b', '2', '3', 'b + 1', '(c or 0)'))}")
        extra = " and <condition1>" if self.chance(2) else ""

        def body() -> None:
            self.put(f"{fuel} -= 1")
            self.loop_body()

        self.block(f"while {fuel} > 0{extra}:", body)
        self.loops -= 1
        if self.chance(3):
            self.block("else:", self.some)

    # --------------------------------------------------------------------------------------------------- program
    def prologue(self) -> None:
        self.put("x = y = z = 0")

    def preamble(self) -> None:
        """What stands before ``main``."""

    def body(self) -> None:
        for _ in range(3 + self.below(4)):
            self.statement()

    def program(self) -> str:
        self.preamble()

        def main() -> None:
            self.prologue()
            self.body()
            self.put(f"return {', '.join(self.returns)}")

        self.block("def main(a, b, c):", main)
        return "\n".join(self.lines) + "\n"


class Control(Writer):
    """Branches, loops, early returns, match, functions of scalars."""

    def preamble(self) -> None:
        self.put("T = 1")
        for _ in range(self.below(3)):
            name = self.fresh("f")
            self.put(f"def {name}(x, y=2):")
            self.level += 1
            self.put("a, b, c, z = x > 0, y, None, 0")
            kept, self.functions = self.functions, []
            self.some(2)
            self.functions = kept
            self.put("return " + self.number(1))
            self.level -= 1
            self.functions.append((name, 1 + self.below(2)))

    def kinds(self) -> list[Callable[[], None]]:
        return [*super().kinds(), self.match, self.early, self.unset]

    def early(self) -> None:
        if self.level < 2:
            self.simple()
        else:
            self.put("return <number1>" if self.chance(2) else self.one(("x = -1", "y = -1")))

    def unset(self) -> None:
        name = self.fresh("u")
        self.block("if <condition1>:", lambda: self.put(f"{name} = <number1>"))
        if self.chance(4):
            self.put(f"del {name}")
        self.put(f"x = {name}")

    def match(self) -> None:
        self.put(f"match {self.one(('x', 'b', 'c', '(x, b)', '[b, c, 1]', 'a'))}:")
        self.level += 1
        for _ in range(1 + self.below(3)):
            pattern = self.one(
                (
                    "0",
                    "1 | 2",
                    "None",
                    "True",
                    "(0, y)",
                    "[x, *rest]",
                    "(1, 2) | (2, 1)",
                    "int(z)",
                    "int()",
                    "[_, None, _]",
                )
            )
            guard = " if <condition1>" if self.chance(3) else ""
            self.block(f"case {pattern}{guard}:", self.some)
        if self.chance(2):
            self.block("case _:", self.some)
        self.level -= 1


THINGS = ("u", "v", "w")


class Heap(Writer):
    """Lists, dicts and objects that several names share, changed through any of them."""

    returns = ("x", "y", "u", "v", "w", "SHARED")

    def preamble(self) -> None:
        self.put("import copy")
        self.put(
            "class N:",
            "    kind = 0",
            "    def __init__(self, f=None, g=0):",
            "        self.f = f",
            "        self.g = g",
        )
        self.put("class M(N):", "    def grow(self, v):", "        self.f = [self.f, v]", "        return self")
        self.put("def push(l, v):", "    l.append(v)", "    return l")
        self.put("def same(p, into=[]):", "    into.append(p)", "    return into if p else p")
        self.put("def wrap(p, q=None, *more, k=1):", "    return N(p, q or k)")

    def prologue(self) -> None:
        self.put("x = y = z = 0")
        self.put("SHARED = [1]")
        for name in THINGS:
            self.put(f"{name} = <make1>")

    def make(self, depth: int = 2) -> str:
        if depth <= 0:
            return (
                self.one((*THINGS, "1", "None", "x"))
                if self.lines[-1].startswith("    ") and "w =" in "".join(self.lines)
                else self.one(("1", "None", "x"))
            )
        n = self.below(8)
        inner = self.make(depth - 1)
        return (
            f"[{inner}]",
            f"{{'k': {inner}, 'l': 1}}",
            f"N({inner})",
            f"M({inner}, g=<number0>)",
            f"[{inner}, {inner}]",
            f"({inner}, [])",
            "[]",
            "{}",
        )[n]

    def thing(self) -> str:
        return self.one((*THINGS, *THINGS, "SHARED"))

    def value(self) -> str:
        n = self.below(9)
        t = self.thing()
        return (
            t,
            t,
            self.make(1),
            self.number(1),
            f"{t}.f",
            f"{t}['k']",
            f"{t}[0]",
            f"({t} if <condition1> else <thing>)",
            f"({t} or <thing>)",
        )[n]

    def kinds(self) -> list[Callable[[], None]]:
        return [
            self.mutate,
            self.mutate,
            self.mutate,
            self.mutate,
            self.bind,
            self.bind,
            *super().kinds()[2:],
            self.guarded,
        ]

    def guarded(self) -> None:
        self.block("try:", lambda: self.some(2))
        kind = self.one(("Exception", "AttributeError", "TypeError", "(KeyError, IndexError)", "LookupError"))
        self.block(f"except {kind}:", lambda: self.some(1))

    def iterable(self) -> str:
        return self.one(
            ("range(b)", "range(2)", "SHARED[:3]", "(u, v)", "[w, v, u]", "range(c or 1)", "list(SHARED)[:2]")
        )

    def loop(self) -> None:
        if self.loops >= 2:
            self.simple()
            return
        self.loops += 1
        self.block(f"for {self.one(('x', 'y', 'v', 'w'))} in {self.iterable()}:", self.loop_body)
        self.loops -= 1

    def bind(self) -> None:
        name = self.one(THINGS)
        n = self.below(12)
        t = self.thing()
        self.safely(
            (
                f"{name} = <value>",
                f"{name} = <value>",
                f"{name} = <make2>",
                f"{name} = copy.copy({t})",
                f"{name} = copy.deepcopy({t})",
                "u, v = v, u",
                f"{name}, *w = <value>, <value>, <value>",
                f"{name} = push({t}, <value>)",
                f"{name} = same(<value>)",
                f"{name} = wrap(<value>, k=<number0>)",
                f"{name} = [*{t}, <value>]",
                f"{name} = getattr({t}, 'f', <value>)",
            )[n]
        )

    def mutate(self) -> None:
        n = self.below(20)
        t, v = self.thing(), "<value>"
        self.safely(
            (
                f"{t}.append({v})",
                f"{t}.f = {v}",
                f"{t}['k'] = {v}",
                f"{t}[0] = {v}",
                f"{t} += [{v}]",
                f"{t}.g += 1",
                f"{t}.extend([{v}, x])",
                f"x = {t}.pop()",
                f"{t}.update(k={v})",
                f"del {t}[0]",
                f"{t}.f.append({v})",
                f"y = {t} is <thing>",
                f"{t}.setdefault('m', []).append({v})",
                f"setattr({t}, 'f', {v})",
                f"{t}[0:1] = [{v}]",
                f"x = {t} == <thing>",
                f"{t}.grow({v})",
                f"{t}.insert(0, {v})",
                f"y = len({t})",
                f"x = {v} in {t}",
            )[n]
        )


RAISES = ("ValueError", "KeyError", "E1", "E2", "IndexError", "StopIteration")
CATCHES = ("ValueError", "LookupError", "E1", "E2", "(KeyError, E1)", "Exception", "BaseException", "RuntimeError")


class Exceptions(Writer):
    """Raising, catching, ``finally``, managers of both kinds, and what happens on the way out."""

    returns = ("x", "log")

    def preamble(self) -> None:
        self.put("from contextlib import contextmanager")
        self.put("class E1(Exception):", "    pass", "class E2(E1, ValueError):", "    def __init__(self, n=0):")
        self.put("        super().__init__(n)", "        self.n = n")
        self.put(
            "class M:",
            "    def __init__(self, log, swallow=False):",
            "        self.log = log",
            "        self.swallow = swallow",
            "    def __enter__(self):",
            "        self.log.append('in')",
            "        return self.swallow",
            "    def __exit__(self, kind, value, tb):",
            "        self.log.append(kind is None)",
            "        return self.swallow",
        )
        self.put("@contextmanager", "def cm(log, n):")
        self.level += 1
        self.one((self.cm_plain, self.cm_finally, self.cm_swallow, self.cm_turns))()
        self.level -= 1
        self.put("def deep(n, log):", "    log.append('deep')")
        self.put(f"    if n == {self.below(3)}:", f"        raise {self.one(RAISES[:5])}")
        self.put("    return n")

    def cm_plain(self) -> None:
        self.put("log.append(n)", "yield n", "log.append('done')")

    def cm_finally(self) -> None:
        self.put("try:", "    yield n", "finally:", "    log.append('f')")

    def cm_swallow(self) -> None:
        self.put(
            "try:", "    yield n", f"except {self.one(CATCHES)}:", "    log.append('s')", "else:", "    log.append('e')"
        )

    def cm_turns(self) -> None:
        self.put("try:", "    yield n", f"except {self.one(CATCHES[:6])} as e:", "    log.append('t')")
        self.put(f"    raise {self.one(RAISES[:5])} from e")

    def prologue(self) -> None:
        self.put("x = y = z = 0", "log = []")

    def simple(self) -> None:
        if self.chance(3):
            super().simple()
        else:
            self.put(self.one(("log.append(<number0>)", "x = deep(<number0>, log)", "log.append('s')")))

    def kinds(self) -> list[Callable[[], None]]:
        return [
            self.simple,
            self.attempt,
            self.attempt,
            self.attempt,
            self.throw,
            self.throw,
            self.managed,
            self.managed,
            self.branch,
            self.loop,
            self.inner,
            self.leave,
        ]

    def throw(self) -> None:
        what = self.one((*RAISES[:5], "E2(1)", "KeyError('k')", "ValueError(x)"))
        if self.chance(2):
            self.put("if <condition1>:", f"    raise {what}")
        else:
            self.put(
                self.one((f"raise {what}", "x = 1 // b", "x = [1, 2][b]", "x = {0: 1}[b]", "assert b", "x = c + 1"))
            )

    def leave(self) -> None:
        options = ["return x, <number0>, log"]
        if self.loops:
            options += ["break", "continue"]
        if self.level > 1:
            self.put("if <condition1>:", "    " + self.one(options))
        else:
            self.simple()

    def attempt(self) -> None:
        self.block("try:", self.some)
        handlers = self.below(3)
        for _ in range(handlers):
            name = self.one(("", " as e"))
            self.block(f"except {self.one(CATCHES)}{name}:", lambda name=name: self.handler(name))
        if handlers and self.chance(3):
            self.block("else:", self.some)
        if not handlers or self.chance(3):
            self.block("finally:", lambda: self.some(2))

    def handler(self, name: str) -> None:
        if name:
            self.put("log.append(type(e).__name__)")
        self.some(2)
        if self.chance(4):
            self.put("raise")

    def managed(self) -> None:
        items = [
            self.one(
                ("M(log)", "M(log, True)", "M(log, a)", "cm(log, 1)", "cm(log, x)", "(M(log) if a else cm(log, 2))")
            )
            for _ in range(1 + self.below(2))
        ]
        if self.chance(2):
            items[0] += " as z"
        self.block(f"with {', '.join(items)}:", self.some)

    def inner(self) -> None:
        name = self.fresh("g")
        loops, self.loops = self.loops, 0

        def body() -> None:
            self.put("x = 5")
            self.some()
            self.put("return x")

        self.block(f"def {name}(b, c, log, a=a):", lambda: (self.put("y = z = 0"), body())[0])
        self.loops = loops
        self.put(f"y = {name}(<number0>, c, log)")

    def loop(self) -> None:
        if self.loops >= 2:
            self.simple()
            return
        self.loops += 1
        self.block(f"for x in {self.one(('range(b)', 'range(2)', '(1, b)', 'range(c or 1)'))}:", self.some)
        self.loops -= 1


class Classes(Writer):
    """Inheritance, properties, hooks, dunder methods, class and static methods, registries."""

    returns = ("x", "y", "o", "p", "log")
    ATTRS = ("f", "g", "h", "k")

    def preamble(self) -> None:
        self.put("REG = {}")
        if self.chance(2):
            self.put(
                "class Meta(type):",
                "    def __init__(cls, name, bases, space):",
                "        super().__init__(name, bases, space)",
            )
            self.put("        REG[name] = cls", "    def pick(cls, n):", "        return REG.get(n, cls)")
            self.root = "(metaclass=Meta)"
        else:
            self.root = ""
        self.class_names: list[str] = []
        for _ in range(2 + self.below(2)):
            self.klass()

    def klass(self) -> None:
        name = self.fresh("K")
        bases = self.class_names[-(1 + self.below(2)) :] if self.class_names and not self.chance(4) else []
        bases = bases[-1:] if len(bases) > 1 and not self.chance(2) else bases[::-1]
        self.put(f"class {name}{'(' + ', '.join(bases) + ')' if bases else self.root}:")
        self.level += 1
        self.put(f"k = {self.below(3)}", "made = 0")
        if not bases or self.chance(2):
            self.put("def __init__(self, log, v=1):")
            if bases:
                self.put(f"    super().__init__(log, {self.one(('v', 'v + 1', '0'))})")
            self.put(
                "    self.log = log",
                f"    self.{self.one(('f', 'g', '_p'))} = v",
                "    self.g = 0",
                "    type(self).made += 1",
            )
        members = [
            self.prop,
            self.getter,
            self.setter,
            self.truth,
            self.length,
            self.equal,
            self.class_method,
            self.static,
            self.method,
            self.method,
            self.chained,
            self.contains,
            self.item,
            self.add,
            self.less,
            self.called,
            self.iterator,
            self.walk,
        ]
        for _ in range(1 + self.below(4)):
            self.one(members)(bool(bases))
        self.level -= 1
        self.class_names.append(name)

    def prop(self, derived: bool) -> None:
        name = self.one(("f", "h"))
        self.put(
            "@property",
            f"def {name}(self):",
            "    self.log.append('get')",
            f"    return {self.one(('self.g', '1', 'self.k'))}",
        )
        if not self.chance(3):
            self.put(f"@{name}.setter", f"def {name}(self, v):", "    self.log.append('set')", "    self.g = v")

    def getter(self, derived: bool) -> None:
        self.put(
            "def __getattr__(self, name):",
            "    if name == 'h':",
            "        raise AttributeError(name)",
            "    return len(name)",
        )

    def setter(self, derived: bool) -> None:
        self.put(
            "def __setattr__(self, name, v):",
            f"    if name == '{self.one(self.ATTRS)}':",
            f"        v = {self.one(('7', 'v', '(v, 1)'))}",
        )
        self.put("    object.__setattr__(self, name, v)" if self.chance(2) else "    super().__setattr__(name, v)")

    def truth(self, derived: bool) -> None:
        self.put(
            "def __bool__(self):",
            "    self.log.append('bool')",
            f"    return {self.one(('self.g == 0', 'True', 'False', 'bool(self.g)'))}",
        )

    def length(self, derived: bool) -> None:
        self.put("def __len__(self):", f"    return {self.one(('self.k', '0', '2'))}")

    def equal(self, derived: bool) -> None:
        self.put(
            "def __eq__(self, other):",
            "    self.log.append('eq')",
            f"    return {self.one(('isinstance(other, type(self))', 'self is other', 'NotImplemented', 'True'))}",
        )
        self.put(
            "__hash__ = None" if self.chance(3) else "def __hash__(self):\n" + "    " * (self.level + 1) + "return 1"
        )

    def class_method(self, derived: bool) -> None:
        self.put(
            "@classmethod",
            "def build(cls, log):",
            f"    cls.{self.one(('made', 'k'))} += 1",
            f"    return cls({self.one(('log', 'log, 2', '[]'))})",
        )

    def static(self, derived: bool) -> None:
        self.put("@staticmethod", "def twice(n):", "    return n * 2")

    def method(self, derived: bool) -> None:
        name = self.one(("act", "other"))
        self.put(
            f"def {name}(self, n=1):",
            f"    self.{self.one(('f', 'g', 'h'))} = {self.one(('n', 'self.k', 'n + 1'))}",
            f"    return {self.one(('self', 'n', 'self.k', 'self.g'))}",
        )

    def chained(self, derived: bool) -> None:
        if derived:
            self.put(
                "def act(self, n=1):",
                f"    r = super().act({self.one(('n', 'n + 1'))})",
                "    self.log.append('act')",
                "    return r",
            )
        else:
            self.put("def act(self, n=1):", "    self.log.append(n)", "    return n")

    def contains(self, derived: bool) -> None:
        self.put("def __contains__(self, v):", "    return v == self.g")

    def item(self, derived: bool) -> None:
        self.put(
            "def __getitem__(self, k):",
            "    if k > 2:",
            "        raise IndexError",
            "    self.log.append(k)",
            "    return k if k else self.k",
        )

    def add(self, derived: bool) -> None:
        which = self.one(("add", "radd", "iadd"))
        self.put(
            f"def __{which}__(self, v):",
            "    self.log.append('+')",
            f"    return {self.one(('self', '5', 'NotImplemented'))}",
        )

    def less(self, derived: bool) -> None:
        self.put("def __lt__(self, v):", "    return self.g < 1")

    def iterator(self, derived: bool) -> None:
        self.put(
            "def __iter__(self):",
            "    return self",
            "def __next__(self):",
            "    self.g += 1",
            f"    if self.g > {self.one(('2', 'self.k'))}:",
        )
        self.put("        raise StopIteration", "    self.log.append('next')", "    return self.g")

    def walk(self, derived: bool) -> None:
        self.put(
            "def __iter__(self):",
            "    for n in range(2):",
            "        self.log.append('yield')",
            "        yield n + self.g",
        )

    def called(self, derived: bool) -> None:
        self.put("def __call__(self, v=0):", "    self.g += 1", "    return self.g")

    def prologue(self) -> None:
        self.put("x = y = z = 0", "log = []")
        for name in ("o", "p"):
            self.put(f"{name} = <instance>")

    def instance(self) -> str:
        first, second = self.one(self.class_names), self.one(self.class_names)
        return self.one(
            (f"{first}(log)", f"{first}(log, b)", f"({first} if a else {second})(log)", f"{first}(log, v=2)")
        )

    def kinds(self) -> list[Callable[[], None]]:
        return [self.use] * 6 + [self.branch, self.loop, self.guarded]

    def guarded(self) -> None:
        self.block("try:", lambda: self.some(2))
        self.block(
            f"except {self.one(('Exception', 'AttributeError', 'TypeError'))}:", lambda: self.put("log.append('no')")
        )

    def use(self) -> None:
        o, attr = self.one(("o", "p", "o", "p")), self.one(self.ATTRS)
        cls = self.one(self.class_names)
        n = self.below(30)
        self.safely(
            (
                f"x = {o}.{attr}",
                f"{o}.{attr} = <number0>",
                f"{o}.{attr} += 1",
                f"x = {o}.act(<number0>)",
                f"x = {o}.other()",
                f"x = getattr({o}, '{attr}', -1)",
                f"y = hasattr({o}, '{attr}')",
                f"y = 1 if {o} else 2",
                "y = o == p",
                "y = o != p",
                "o = <instance>",
                "o, p = p, o",
                f"y = len({o})",
                f"x = {cls}.build(log)",
                f"x = {o}.twice(3)",
                f"y = isinstance({o}, {cls})",
                f"y = {o} in [p, 1]",
                f"x = {o} + 1",
                f"x = 1 + {o}",
                f"{o} += 1",
                "y = o < p",
                f"x = {o}[<number0>]",
                f"x = {o}()",
                f"{cls}.k = <number0>",
                f"x = ({o} or 3)",
                f"x = (type({o}) is {cls}, {cls}.made, {cls}.k)",
                f"x = list({o})",
                f"x = next({o}, -1)",
                f"x = [n for n in {o} if n != b]",
                f"x, *y = {o}",
            )[n]
        )

    def iterable(self) -> str:
        return self.one(("o", "p", "range(b)", "(o, p)"))

    def simple(self) -> None:
        self.use()


class DataModel(Writer):
    """Enums, dataclasses, named tuples, closures, generators, partial, copies, calls with stars."""

    returns = ("x", "y", "z", "out", "d")

    def preamble(self) -> None:
        self.put(
            "import copy",
            "from dataclasses import dataclass, field, replace",
            "from enum import Enum, IntEnum",
            "from functools import partial",
            "from typing import NamedTuple",
            "class Mode(IntEnum):",
            "    NULL = 0",
            "    LAST = 1",
            "    FULL = 2",
            "    def wide(self):",
            "        return self == Mode.FULL or self is Mode.LAST",
            "class Kind(Enum):",
            "    A = 'a'",
            "    B = 'b'",
            "    C = 'a'",
            "    @property",
            "    def other(self):",
            "        return Kind.B if self is Kind.A else Kind.A",
            "@dataclass",
            "class D:",
            "    n: int",
            "    m: Mode = Mode.NULL",
            "    l: list = field(default_factory=list)",
            "    def __post_init__(self):",
            "        if self.n == 1:",
            "            self.l.append(self.m)",
            "@dataclass(frozen=True)",
            "class F:",
            "    n: int = 1",
            "    k: Kind = Kind.A",
            "class P(NamedTuple):",
            "    u: int",
            "    v: object = None",
            "def many(p, q=2, *args, k=3, **kw):",
            "    return p, q, args, k, sorted(kw)",
            "def gen(n, out):",
            "    for i in range(n):",
            "        out.append(i)",
            "        yield i",
            "    out.append('end')",
            "def chain(n, out):",
            "    yield from gen(n, out)",
            "    yield n",
            "def counter(start):",
            "    n = start",
            "    def step(by=1):",
            "        nonlocal n",
            "        n += by",
            "        return n",
            "    return step",
        )

    def prologue(self) -> None:
        self.put("x = y = z = 0", "out = []", "d = D(b)", "step = counter(b)", "mode = Mode.LAST if a else Mode.NULL")

    def mode(self) -> str:
        return self.one(
            (
                "mode",
                "Mode.NULL",
                "Mode.LAST",
                "Mode.FULL",
                "d.m",
                "(Mode.FULL if a else mode)",
                "(d.m or Mode.LAST)",
                "Mode(b % 3)",
            )
        )

    def kinds(self) -> list[Callable[[], None]]:
        return [self.use] * 8 + [self.branch, self.loop, self.guarded]

    def simple(self) -> None:
        self.use()

    def condition(self, depth: int = 2) -> str:
        if self.chance(2):
            m = self.mode()
            return self.one(
                (
                    f"{m}",
                    f"{m} == <mode>",
                    f"{m} is <mode>",
                    f"{m} > <mode>",
                    f"{m}.wide()",
                    f"{m} in (Mode.NULL, mode)",
                    f"not {m}",
                    "d.l",
                    "out",
                )
            )
        return super().condition(depth)

    def guarded(self) -> None:
        self.block("try:", lambda: self.some(2))
        self.block(
            f"except {self.one(('Exception', 'AttributeError', 'ValueError', 'StopIteration'))}:",
            lambda: self.put("out.append('no')"),
        )

    def iterable(self) -> str:
        return self.one(
            (
                "gen(b, out)",
                "gen(2, out)",
                "chain(c or 1, out)",
                "Mode",
                "Kind",
                "range(b)",
                "(i * b for i in range(2))",
                "d.l",
                "enumerate(gen(2, out))",
                "P(b)",
            )
        )

    def loop_body(self) -> None:
        self.put("if len(out) > 12:", "    break")
        self.put("out.append('body')")
        super().loop_body()

    def use(self) -> None:
        name = self.one(NUMBERS)
        m = self.mode()
        n = self.below(36)
        self.safely(
            *(
                f"mode = {m}",
                f"d.m = {m}",
                f"{name} = max({m}, <mode>)",
                f"{name} = min({m}, <mode>)",
                f"{name} = {m} or <mode>",
                f"{name} = {m}.name",
                f"{name} = {m} + 1",
                f"{name} = Mode[{self.one(('mode.name', repr('FULL'), repr('NO')))}]",
                f"{name} = Kind({self.one((repr('a'), repr('b'), 'b'))})",
                f"{name} = Kind.{self.one(('A', 'B', 'C'))}.other",
                f"{name} = {m}.wide()",
                "d = replace(d, n=d.n + 1)",
                f"d = D(<number0>, {m})",
                f"{name} = d",
                f"{name} = copy.copy(d)",
                f"{name} = copy.deepcopy(d)",
                "d.l.append(x)",
                f"{name} = d == D(<number0>)",
                f"{name} = F(<number0>)",
                f"{name} = F() == F(k=Kind.C)",
                "f = F(<number0>)\nf.n = 3",
                f"{name} = P(<number0>)",
                "x, y = P(b, z)",
                f"{name} = P(1, v=d).v",
                f"{name} = step()",
                f"{name} = step(<number0>)",
                f"{name} = many(<number0>, *out[:1])",
                f"{name} = many(1, k=<number0>, **{{'w': x}})",
                f"{name} = partial(many, <number0>, k=b)(5)",
                f"{name} = list(gen(b, out))",
                f"{name} = next(gen(<number0> % 3, out), None)",
                f"{name} = sum(chain(2, out))",
                f"{name} = any(i == b for i in gen(3, out))",
                f"{name} = [i for i in gen(2, out) if i != b]",
                f"{name} = {{k: v for k, v in zip('pq', gen(2, out))}}",
                "step = counter(step())",
            )[n].split("\n")
        )


class Unknowns(Writer):
    """Loops whose length nobody knows, over objects that they make, keep and link."""

    returns = ("x", "y", "z", "l", "m", "o", "p", "d", "fs and [f() for f in fs]")

    def preamble(self) -> None:
        self.put(
            "class N:",
            "    def __init__(self, v, nxt=None):",
            "        self.v = v",
            "        self.nxt = nxt",
            "        self.seen = []",
        )
        self.put("def bump(n, by=1):", "    n.v += by", "    return n")

    def prologue(self) -> None:
        self.put("x = y = z = 0", "l = []", "m = []", "o = N(0)", "p = o", "d = {}", "fs = []")

    def kinds(self) -> list[Callable[[], None]]:
        return [self.work] * 5 + [self.loop, self.count_down, self.loop, self.branch]

    def iterable(self) -> str:
        return self.one(("range(b)", "range(c or 1)", "range(b)", "l[:4]", "m[:4]", "range(b % 2)", "list(d)[:4]"))

    def simple(self) -> None:
        self.work()

    def work(self) -> None:
        n = self.below(34)
        i = self.one(NUMBERS)
        self.put(
            (
                "o = N(x)",
                "o = N(x, o)",
                "p = o",
                "o, p = p, o",
                "l.append(o)",
                "l.append(x)",
                "m = l",
                "m = list(l)",
                "l = [x]",
                "p.v += 1",
                "o.nxt = p",
                "bump(p)",
                "x, y, z = y, z, x + 1",
                "d[x] = o",
                "d['k'] = p",
                f"{i} = len(l)",
                f"{i} = <number1>",
                "fs.append(lambda: x)",
                "fs.append(lambda n=x: n)",
                "o.seen.append(x)",
                "p = o.nxt or o",
                "l[-1:] = [y]",
                "p.seen = o.seen",
                f"{i} += 1",
                "m.append(l)" if self.chance(6) else "m.append(y)",
                "d.update(k=x)",
                "o = d.get('k', o)" if self.chance(5) else "d.setdefault('s', l)",
                "y = o is p",
                "y = o.v",
                "l = [N(i) for i in range(b)]",
                "x = sum(1 for i in l[:3])",
                "o = bump(N(1), x)",
                "z = x == y",
                "o.t = x",
            )[n]
        )


class Conditions(Writer):
    """Conditions that run code, that are kept for later, and that tell apart what a name may be."""

    returns = ("x", "y", "z", "o", "p", "q", "t", "s", "log")

    def preamble(self) -> None:
        self.put(
            "FLAG = 0",
            "class N:",
            "    def __init__(self, v, nxt=None):",
            "        self.v = v",
            "        self.nxt = nxt",
            "        self.on = v",
            "    def take(self):",
            "        self.v -= 1",
            "        return self.v > 0",
            "    def ready(self):",
            "        return self.on and self.v",
            "    def flip(self):",
            "        old = self.on",
            "        self.on = not old",
            "        return old",
            "    @property",
            "    def live(self):",
            "        return self.nxt is not None",
            "    @property",
            "    def once(self):",
            "        self.v += 1",
            "        return self.v == 2",
            "class S(N):",
            "    def ready(self):",
            "        return not self.on",
            "    def __bool__(self):",
            "        self.v += 1",
            "        return self.v % 2 == 0",
            "def pick(a, n):",
            "    return N(n) if a else None",
            "def choose(n):",
            "    if n == 0:",
            "        return None",
            "    if n == 1:",
            "        return 5",
            "    if n == 2:",
            "        return 'two'",
            "    return N(n)",
            "def raise_flag(v):",
            "    global FLAG",
            "    FLAG = v",
            "    return FLAG",
            "def check(o, log):",
            "    log.append('check')",
            "    return o is not None and o.ready()",
        )

    def prologue(self) -> None:
        self.put("x = y = z = 0", "log = []", "o = N(b)", "p = pick(a, b)", "q = choose(b)", "t = s = False")
        self.put("def local():", "    return x", "def poke(n=1):", "    nonlocal x", "    x += n", "    return x > 1")

    def kinds(self) -> list[Callable[[], None]]:
        return [self.work] * 5 + [
            self.keep,
            self.keep,
            self.branch,
            self.branch,
            self.branch,
            self.loop,
            self.count_down,
            self.walk,
        ]

    def simple(self) -> None:
        self.work()

    def condition(self, depth: int = 2) -> str:
        n = self.below(26 if depth > 0 else 14)
        o = self.one(("o", "p", "q", "o", "p"))
        options = (
            "t",
            "s",
            "not t",
            f"{o}",
            f"{o} is None",
            f"{o} is not None",
            f"{o} is p",
            "a",
            "c is None",
            "x",
            f"not {o}",
            "q == 5",
            "b == 2",
            "t is s",
            "o.take()",
            f"{o} and {o}.ready()",
            "o.flip()",
            "o.live",
            "o.once",
            f"isinstance({o}, {self.one(('N', 'S', 'int', '(str, N)'))})",
            "check(p, log)",
            "poke()",
            "local() == 1",
            f"({self.one(('t', 's', 'x'))} := <condition0>)",
            f"(<condition{depth - 1}> {self.one(('and', 'or'))} <condition{depth - 1}>)",
            f"getattr({o}, 'on', None)",
        )
        return options[n]

    def keep(self) -> None:
        self.put(
            f"{self.one(('t', 's'))} = <condition2>"
            if self.chance(2)
            else f"{self.one(('t', 's'))} = bool(<condition1>)"
        )

    def work(self) -> None:
        o = self.one(("o", "p", "q", "o"))
        n = self.below(24)
        self.safely(
            (
                "x = <number1>",
                "o.v = x",
                "o.on = False",
                "o.on = t",
                f"{o} = N(<number0>)",
                f"{o} = S(<number0>)",
                f"{o} = None",
                f"{o} = p",
                "p = o",
                "p = pick(t, 1)",
                "q = choose(x)",
                "o.nxt = p",
                "o = o.nxt or o",
                f"{o}.v += 1",
                "log.append(x)",
                "poke(b)",
                "o.take()",
                "raise_flag(x)",
                "y = FLAG",
                "z = local()",
                f"x = {o}.v",
                "t, s = s, t",
                f"y = ({o} if <condition1> else x)",
                "z = o.once",
            )[n]
        )

    def walk(self) -> None:
        if self.loops >= 1:
            self.simple()
            return
        self.loops += 1
        fuel = self.fresh("n")
        self.put(f"{fuel} = 4")

        def body() -> None:
            self.put(f"{fuel} -= 1", f"if {fuel} == 0:", "    break")
            self.some(2)
            self.put(self.one(("p = p.nxt", "o.v -= 1", "x += 1", "p = None")))

        self.block(
            f"while {self.one(('p is not None', 'o.take()', 'poke()', '(p := p and p.nxt)', self.condition(1)))}:", body
        )
        self.loops -= 1


class Closures(Writer):
    """Functions in functions, ``nonlocal`` and ``global``, decorators, recursion, names that a loop binds again."""

    returns = ("x", "y", "z", "log", "[f() for f in fs]", "TOTAL")

    def preamble(self) -> None:
        self.put(
            "TOTAL = 0",
            "MADE = None",
            "def add(n):",
            "    global TOTAL",
            "    TOTAL += n",
            "    return TOTAL",
            "def make():",
            "    global MADE",
            "    if MADE is None:",
            "        MADE = [0]",
            "    MADE.append(1)",
            "    return len(MADE) > 1",
            "def noted(log):",
            "    def wrap(f):",
            "        def inner(*args, **kw):",
            "            log.append(len(args))",
            "            return f(*args, **kw)",
            "        return inner",
            "    return wrap",
            "def twice(f):",
            "    return lambda *args: (f(*args), f(*args))[1]",
            "def fact(n):",
            "    return 1 if n <= 0 else n * fact(n - 1)",
            "def even(n):",
            "    return n == 0 or odd(n - 1)",
            "def odd(n):",
            "    return n != 0 and even(n - 1)",
        )

    def prologue(self) -> None:
        self.put("x = y = z = 0", "log = []", "fs = []")

    def kinds(self) -> list[Callable[[], None]]:
        return [
            self.define,
            self.define,
            self.define,
            self.use,
            self.use,
            self.use,
            self.branch,
            self.loop,
            self.count_down,
        ]

    def simple(self) -> None:
        if self.chance(2):
            super().simple()
        else:
            self.use()

    def define(self) -> None:
        name = self.fresh("g")
        if self.chance(3):
            self.put(self.one(("@noted(log)", "@twice")))
        defaults = self.one(("", "", ", k=<variable>", ", k=log"))
        outer = self.functions

        def body() -> None:
            if self.chance(2):
                self.put("nonlocal <variable>")
                self.put(
                    self.lines[-1].strip().replace("nonlocal ", "")
                    + f" {self.one(('+=', '='))} {self.one(('n', '1', 'b'))}"
                )
            self.functions = []
            for _ in range(self.below(3)):
                self.put(self.one(("log.append(<variable>)", "fs.append(lambda: n)", "add(n)", "if n > 1: return x")))
            self.functions = outer
            self.put(f"return {self.one((*NUMBERS, 'n', 'n + x', 'k' if defaults and 'log' not in defaults else 'b'))}")

        self.block(f"def {name}(n=1{defaults}):", body)
        if self.level <= 1:
            self.functions = [*self.functions, (name, self.below(2))]
        else:
            self.put(f"<variable> = {name}(<number0>)")

    def use(self) -> None:
        n = self.one(NUMBERS)
        loops = "x" if not self.loops else self.one(("x", "y"))
        self.put(
            self.one(
                (
                    f"fs.append(lambda: {n})",
                    f"fs.append(lambda n={n}: n)",
                    f"{n} = add(<number0>)",
                    f"{n} = make()",
                    f"{n} = fact(<number0> % 3)",
                    f"{n} = even(b)",
                    "fs = [lambda: i for i in range(b)]",
                    f"{n} = sum(f() for f in fs[:2])",
                    f"{n} = <number2>",
                    f"log.append({n})",
                    f"{n} = [i + {loops} for i in range(2)][b % 2]",
                    f"{n} = TOTAL",
                    f"{n} = (lambda v: v + {loops})(<number0>)",
                )
            )
        )


def programs(writer: type[Writer]) -> st.SearchStrategy[str]:
    @st.composite
    def build(draw: Draw) -> str:
        return writer(draw).program()

    return build()
