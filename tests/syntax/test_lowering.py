"""The lowered tree says what the standard ``ast`` says, with the same positions; see ``oracle``."""

from __future__ import annotations

import sys

import pytest

from tests.syntax.oracle import AstDump, IrDump, difference
from tests.syntax.trees import module_of

EXPRESSIONS = r"""
a; a.b.c; a[b]; a[b, c]; a[b,]; a[(b, c)]; a[(b), (c)]; a[b:]; a[:b]; a[b:c:d]; a[::]; a[ : b , c :: ]; a[(b):(c)]
a[...]; a[b][c]; a()(b)(c, d=e); f(*a, b, *c, d=e, **g); f(a for b in c); f( (a) for b in c ); f((a for b in c))
(a); ((a)).b; (a)(b); (a, b); (); (a,); a, ; a, b; [a, *b]; {a, *b}; {a: b, **c, 'd': e}; {}; []; not a; not (a)
-a; -(-1); +a; ~a; a + b * c ** d; (a + b) * c; a // b % c @ d << e >> f & g | h ^ i; a - b - c - (d - e)
a and b and c; a or b and c or d; (a and b) and c; a and (b and c); a < b <= c != d == e >= f > g
a is b is not c in d not in e; a if b else c; (a if b else c).d; a if b else c if d else e; (x := a)
[y := 1, y ** 2]; lambda: a; lambda a, b=1, *c, d, e=(2), **f: a; lambda a, /, b, *, c: 0; lambda *a, **b: (a)
[a for a in b]; {a for a in b if c if d}; {a: b for a, b in c for d in e}; (a for a in b); [[a for a in b] for b in c]
None; True; False; ...; 0; 0xFF + 0b1 + 0o17 + 1_000; 1e-3; 1.5j; .5; 5.; 0_0; 1E5; 3J; 9999999999999999999999
'a'; "b"; 'a' "b" '''c'''; r'\d'; u'\u00e9'; '\x41\101\n\t\\\'\"\a\0'; '\N{EM DASH}' if a else '\q'; 'é' + é.ß
b'\x41\377'; b'a' rb'\n'
f''; f'a'; f'{a}'; f'a{b}c{d!r}{e:>{w}}{g=}{{h}}'; f'{a}' 'b{c}' f'{d}'; 'a' f'b'; rf'\d{a}'; f"{a['b']}"
f'{a:{b}.{c}}'; f'{a!s:>10}'; f'{ {1: 2}[1] }'; f'{a }{ b}'; f'{lambda_}' '{}'; f'''{
a
}'''; f'{x = }'; f'\x41{a}\N{EM DASH}'; f'{a,}'; f'{a if b else c}'
(
    a  # (comment
    + b
)
f(
    # (a comment
    a for b in c
)
a[
    b
    :
]
"""

STATEMENTS = [
    "x = 1", "x = y = z", "x, y = y, x", "x, *y = z", "(x, y) = z", "[x, y] = z", "x.y = z[0] = 1", "(x) = 1",
    "x: int",
    "x: int = 1", "x.y: (int) = (1)", "x += 1", "x @= y", "x //= y; x **= y; x >>= y; x |= y",
    "del x", "del x, y", "del (x, y)", "del (x)", "del x.y, x[0]", "assert x", "assert (x), (y)", "pass", "...",
    "raise", "raise x", "raise (x) from (y)", "global x, y", "import a", "import a.b.c as d, e", "from . import a",
    "from .. import *", "from ...a.b import (c as d, e,)", "from a import b as c, d", "x=1;", "x = 1 ; y = 2 ;",
    "if a: b", "if a: b; c\nelif d: e\nelif f: g\nelse: h", "if a:\n  b # c\n\n# d\n", "while a: break\nelse: pass",
    "while (a):\n  continue", "for a in b: c\nelse: d", "for a, b in c, d:\n  pass", "for x in *a, b: pass",
    "for (a) in (b):\n  if c:\n    d\n", "try:\n  a\nexcept:\n  b",
    "try: a\nexcept (A, B) as c: d\nelse: e\nfinally: f",
    "try: a\nfinally:\n  b", "with a: b", "with a as b, c as (d, e): f", "with (a as b, c as d,): e", "with (a, b): c",
    "with (a): b", "with (a), (b): c", "with (\n  a as b,\n  c\n):\n  d",
    "match (a):\n  case 1 | 2: b", "match a, b:\n  case a, *_: b\n  case [a, (b)]: c\n  case (a,): d\n  case (): e",
    "match a:\n  case {'x': (1), b.c: d, **r}: e\n  case {}: f",
    "match a:\n  case A(): b\n  case a.B(x, 1, y=(z), w=[c]) if d: e",
    "match a:\n  case -1 | 1+2j | 'a' 'b' | None | True: b\n  case (1 | 2) as x: c\n  case a.b: d\n  case _: e",
    "match a:\n  case (x): b", "match a:\n  case *a, : b", "match = case = type = 1\nmatch(case)\nprint(type)",
]  # fmt: skip

DEFINITIONS = [
    "def f(): pass", "def f(): return 1", "def f(a, /, b: int = 1, *c: int, d, e=2, **g: str) -> (int): return a",
    "def f(*, a): return", "def f(\n  a,  # first\n  b=(1,\n     2),\n):\n  return a", "def f(): a; b; return c",
    "async def f():\n  async with a as b: pass\n  async for x in y: pass\n  await (z)\n  return [i async for i in j]",
    "@a\n@ b . c (d)\n# between\n\n@e\ndef f(): pass\n@g\nclass A: pass", "class A: pass", "class A: x = 1; y = 2",
    "class A ( B , *d, m = C, **e ) :\n  '''doc'''\n  x: int = 1\n  def f(self): return self",
    "class A:\n  @property\n  def g(self):\n    return 1\n\n  class B:\n    def h(self): yield\n",
    "if a:\n  def f(): pass\nelif b:\n  @c\n  def f(x):\n    return x\nelse:\n  class A:\n    def f(self): pass",
    "try:\n  def f(): pass\nexcept A:\n  def f(): return 1\nfinally:\n  def g(): return 2",
    "@overload\ndef f(a: int) -> int: ...\n@overload\ndef f(a: str) -> str: ...\ndef f(a): return a",
    "def f():\n  def g():\n    def h(): return 1\n    return h\n  class A:\n    def m(self): return f\n  return g, A",
    "def f():\n  yield", "def f():\n  x = yield from a", "def f():\n  def g(): yield\n",
    "def f(): return lambda: (yield)",
    "def f():\n  def g(x=(yield)): pass", "def f():\n  @(yield)\n  def g(): pass", "def f(): return 'yield'",
    "def f():\n  # yield\n  return 1", "def f():\n  return [i for i in (yield)]", "def f(): yield",
    "def f(x=lambda: 1): yield", "def f(x: 'a:b' = {1: 2}) -> a[1:2]: return 1",
    "def f():\n  '''\ndef g(): pass\nclass B:\n'''\n  def h(): pass\n  return h",
    "x = '''\ndef g(): pass\n'''\ndef f():\n  return \"\"\"\nclass A: pass\n\"\"\"",
    "def f():\n  return {\n  'a': 1,\n}\nclass A: pass", "def f():\n  x = (1,\n2)\n  return x\ny = f()",
    "def f():\n    if a:\n        return 1\n    # trailing\n# dedented comment\n    return 2\n\n\n# after\nx = 1",
    "class A:\n\tdef f(self):\n\t\tif a:\n\t\t\treturn 'é' + b\n\tx = 1",
    "\x0cdef f(): pass\n\x0c\nclass A:\n  \x0c\n  x",
    "class A:\n  x = 1\n\x0c\n  def f(self): return 1\n  y = 2", "def f():\n  x = a \\\n    + b\n  return x",
    "class \\\n A: pass\ndef \\\n f(): pass", "def f(a='#', b=\"'\"): return a  # '''\nclass A: pass",
    "def f(): pass; pass\ndef g(): pass", "if x: pass\ndef f(): pass", "class A:\n  def f(self): pass\n\n  f = g(f)",
    "def f():\n  x = 1\n\n\n", "def f():\n  x = 1", "", "# only a comment", "\n\n", "x", "definition = classes = 1",
    "for i in x:\n  def f(): return i\nwith y:\n  class A:\n    def m(self): pass",
]  # fmt: skip


def check(source: str) -> None:
    module = module_of(source)
    assert difference(AstDump(module.text).module(), IrDump(module).module()) is None


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
class TestAgainstAst:
    def test_expressions(self) -> None:
        check(EXPRESSIONS)

    def test_expressions_inside_a_method(self) -> None:
        # Only lines that start no string may be indented.
        lines = EXPRESSIONS.strip().split("\n")
        text = "\n".join(line if line in ("a", "}'''; f'{x = }'; f'\\x41{a}\\N{EM DASH}'; f'{a,}'; f'{a if b else c}'")
                         else f"        {line}" for line in lines)  # fmt: skip
        check(f"class A:\n    def f(self):\n{text}\n    x = 1\n")

    @pytest.mark.parametrize("source", STATEMENTS)
    def test_statement(self, source: str) -> None:
        check(source)
        nested = source.replace("\n", "\n        ")
        check(f"class A:\n    def f(self):\n        {nested}\n        return é\n\n    x = 1\n")

    @pytest.mark.parametrize("source", DEFINITIONS)
    def test_definition(self, source: str) -> None:
        check(source)

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="except* is not read by an older ast")
    def test_exception_groups(self) -> None:
        check("try: a\nexcept* A as b: c\nexcept* (B, C): d\nelse: e\n")
        check("def f(*args: *Ts): return x[*a], x[*a, b]\n")


def test_line_ends_do_not_matter() -> None:
    source = 'class A:\n    def f(self):\n        x = """a\n  b"""\n        return x\n\n    y = 1\n'
    expected = IrDump(module_of(source)).module()
    assert IrDump(module_of(source.replace("\n", "\r\n"))).module() == expected
    assert IrDump(module_of(source.replace("\n", "\r"))).module() == expected


def test_numbers_are_the_same_in_every_run_and_parents_come_first() -> None:
    source = "def f(a):\n    return a + g(b, c)[d]\n"
    first, second = module_of(source), module_of(source)
    assert repr(first.body) == repr(second.body)
    body = first.body_of(first.body[0])  # type: ignore[arg-type]
    assert repr(body) == repr(second.body_of(second.body[0]))  # type: ignore[arg-type]
    numbers = [int(part.split(",")[0].rstrip(")")) for part in repr(body).split("nid=")[1:]]
    assert sorted(numbers) == numbers == list(range(len(numbers)))
