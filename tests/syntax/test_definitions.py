"""Where definitions stand: in files that parse, in files that do not, and in Python that the host does not read."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowcheck.syntax import ir
from tests.syntax.oracle import AstDump, IrDump, difference
from tests.syntax.test_lowering import DEFINITIONS, STATEMENTS
from tests.syntax.trees import module_of, store_of


def found(source: str) -> list[tuple[str, int, int, int]]:
    spans = store_of({"m.py": source}).index.spans("m.py")
    return [(span.qualname, span.start_line, span.line, span.end_line) for span in spans]


@pytest.mark.parametrize("source", DEFINITIONS)
def test_spans_are_those_of_ast(source: str) -> None:
    expected = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            expected.append((node.name, first, node.lineno, node.end_lineno))
    actual = [(name.rpartition(".")[2], *lines) for name, *lines in found(source)]
    assert actual == sorted(expected, key=lambda each: each[2])


def test_new_syntax_does_not_depend_on_the_host() -> None:
    source = (
        "type Pair[T] = tuple[T, T]\n"
        "class Box[T: (int, str)](Base):\n"
        "    def get[*Ts, **P](self, x: T) -> T:\n"
        "        name = f'{self['a']:{'w'}} {f'{f'{x}'}'} # {\n            x  # }'\n        }'\n"
        "        return name\n"
        "    def put(self): return 2\n"
    )
    assert found(source) == [("Box", 2, 2, 8), ("Box.get", 3, 3, 7), ("Box.put", 8, 8, 8)]
    module = module_of(source)
    alias, box = module.body
    assert isinstance(alias, ir.Assign)
    assert isinstance(alias.value, ir.Opaque)
    assert isinstance(box, ir.ClassDef)
    get = box.body[0]
    assert isinstance(get, ir.FunctionDef)
    assign = module.body_of(get)[0]
    assert isinstance(assign, ir.Assign)
    assert isinstance(assign.value, ir.FString)
    assert assign.value.parts[1:2] == (" ",)
    span = module.span(get, module.body_of(get)[1].nid)
    assert (span.line, span.column, span.end_column) == (7, 9, 20)


@pytest.mark.parametrize(
    "string",
    [
        r"f'{a}'", r"f'{{'", r"f'}}'", r"rf'\{a}'", r"f'\{a}'", r"f'\N{DASH}'", r"f'{a:{b}}'", "f'{a[\"b\"]}'",
        r"f'{a!r:\n}'", "f'''{\na\n}'''", "f'''{a:\n}'''", r"b'\''", r"rb'\''", r"'\\'", "''", "''''a'''", "'''a\\''''",
        r"f'{a:}}' if x else '{'", r"f'{ {1: 2}[1] }'", r"f'{(lambda: 1)()}'", "f'{a}' '{' f'{b}'", "if_x if'{'else'}'",
        "f'''{a['b']:{c[\"'\"]}}'''", "f'{x!r}' \\\n    '{'",
    ],
)  # fmt: skip
def test_a_string_ends_where_it_ends(string: str) -> None:
    source = f"def f():\n    return {string}\ndef g(): '# no comment'; x = ('\\\n'\n)\nclass A: pass\n"
    lines = 2 + string.count("\n")
    assert [name for name, *_ in found(source)] == ["f", "g", "A"]
    assert found(source)[0] == ("f", 1, 1, lines)


def test_a_body_that_does_not_parse_is_opaque_and_the_rest_is_kept() -> None:
    store = store_of({
        "m.py": "class A:\n    def f(self):\n        x = (1,\n        y = 2\n\n    @d\n    def g(self): return 3\n"
    })  # fmt: skip
    module = store.module("m.py")
    (cls,) = module.body
    assert isinstance(cls, ir.ClassDef)
    f, g = cls.body
    assert isinstance(f, ir.FunctionDef)
    assert isinstance(g, ir.FunctionDef)
    (statement,) = module.body_of(f)
    assert isinstance(statement, ir.Opaque)
    assert isinstance(module.body_of(g)[0], ir.Return)
    module.body_of(f)
    (problem,) = store.problems
    assert str(problem).startswith("m.py:4: ")
    assert module.span(f, statement.nid).line == 2


def test_definitions_of_another_module_are_refused() -> None:
    module = module_of("def f(): return 1\n")
    (other,) = module_of("\ndef f(): return 2\n").body
    assert isinstance(other, ir.FunctionDef)
    with pytest.raises(LookupError):
        module.body_of(other)


def test_text_of_a_definition_has_no_decorators() -> None:
    module = module_of("class A:\n    @a\n    async def f(self):\n        return 1  # c\n    x = 1\n")
    (cls,) = module.body
    assert isinstance(cls, ir.ClassDef)
    (f, _) = cls.body
    assert isinstance(f, ir.FunctionDef)
    assert module.def_source(f) == "async def f(self):\n        return 1"
    whole = module.span(None, f.nid)
    assert (whole.line, whole.column, whole.end_line, whole.end_column) == (3, 5, 4, 17)


def test_a_module_knows_what_it_is() -> None:
    store = store_of({"a/__init__.py": "", "a/b.py": "", "c.py": ""})
    modules = [store.module(path) for path in store.tree.paths()]
    assert [(each.name, each.is_package) for each in modules] == [("a", True), ("a.b", False), ("c", False)]


BLOCKS = st.sampled_from([*STATEMENTS, *(each for each in DEFINITIONS if "\n" in each and "'''" not in each)])
HEADERS = st.sampled_from([
    "def f(self, x: int = (1,\n 2)):", "class A(B):", "async def g():  # c", "if a:", "while b:",
    "with a as b:",
    "@d(\n  'x')\ndef h():", "for x in y:", "class C:  # '''", "def f(a='''\n'''):",
])  # fmt: skip
NOISE = st.sampled_from(["", "# dedented\n", "\n\n", "   \n", "        # far\n", "\n# '''\n"])


def indented(block: str, by: str) -> str:
    """``block`` one level deeper; lines inside brackets and strings move too, which changes no structure."""
    return "".join(f"{by}{line}" for line in block.splitlines(keepends=True))


def nest(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    indent = st.sampled_from(["  ", "    ", "\t"])
    nested = st.tuples(HEADERS, NOISE, st.lists(inner, min_size=1, max_size=3), indent)
    return nested.map(lambda p: f"{p[0]}\n{p[1]}{indented(''.join(b.rstrip() + chr(10) for b in p[2]), p[3])}")


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@given(st.lists(st.tuples(st.recursive(BLOCKS, nest, max_leaves=6), NOISE), min_size=1, max_size=4))
def test_random_programs_agree_with_ast(blocks: list[tuple[str, str]]) -> None:
    source = "".join(f"{block.rstrip()}\n{noise}" for block, noise in blocks)
    try:
        expected = AstDump(source).module()
    except SyntaxError:
        return
    assert difference(expected, IrDump(module_of(source)).module()) is None


@given(st.text(alphabet="\"'{}()[]\\\n #:fbrdeclass def@xx\t\f,=", max_size=80))
@example("f'{")
@example("def f(:\n'''")
@example("class A:\n\\\n\\")
def test_no_text_upsets_the_scanner(text: str) -> None:
    spans: Any = store_of({"m.py": text}).index.spans("m.py")
    for index, span in enumerate(spans):
        assert span.start <= span.header_end <= span.end <= len(text)
        assert span.parent < index
        assert span.start_line <= span.line <= span.end_line
