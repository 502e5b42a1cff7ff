"""The name index: what is defined, mentioned and stored where."""

from __future__ import annotations

import pytest

from flowcheck.syntax import NameIndex
from tests.syntax.trees import MemoryTree, store_of

FILES: dict[str, bytes | str] = {
    "a.py": (
        'class Batch:\n    """Shows code:\n\ndef forward(): pass\n    self.mode = 3\n"""\n\n    mode: int = 0\n\n'
        "    def forward(self):\n        self.mode = FULL\n        def forward(): pass\n"
    ),
    "b/c.py": "async  def forward(x): return x.mode\nif x:\n\tclass forward: mode = 1\n",
    "crlf.py": b"# mode\r\n\r\nx = 1\r\n\r\ndef last(): pass\r\n",
    "bom.py": b"\xef\xbb\xbfdef first(): pass\n",
}


@pytest.fixture
def index() -> NameIndex:
    return store_of(FILES).index


def test_definitions_by_name(index: NameIndex) -> None:
    found = [(ref.path, ref.line, ref.kind, ref.indent) for ref in index.definitions("forward")]
    assert found == [("a.py", 10, "def", 4), ("a.py", 12, "def", 8), ("b/c.py", 1, "def", 0), ("b/c.py", 3, "class", 1)]
    assert [(ref.path, ref.line) for ref in index.definitions("last")] == [("crlf.py", 5)]
    assert [(ref.path, ref.line) for ref in index.definitions("first")] == [("bom.py", 1)]
    assert index.definitions("absent") == ()
    assert index.definition_count == 7


def test_strings_between_quotes_of_both_kinds_hide_definitions() -> None:
    source = "# '''\ndef f(): pass\nx = \"'''\"\ny = '''\ndef g(): pass\n'''\ndef h(): pass\n"
    index = store_of({"m.py": source}).index
    assert [name for name in "fgh" if index.definitions(name)] == ["f", "h"]


def test_files_that_mention_a_word(index: NameIndex) -> None:
    assert index.files_with("mode") == ("a.py", "b/c.py", "crlf.py")
    assert index.files_with(b"mode") == index.files_with("mode")
    assert index.files_with("mod") == ()
    assert index.files_with("") == ()
    assert index.files_with("x") == ("b/c.py", "crlf.py")


def test_words_at_the_edges_of_files() -> None:
    index = store_of({"a.py": "word", "b.py": "word2", "c.py": "wordword word", "d.py": "éword", "e.py": ""}).index
    assert index.files_with("word") == ("a.py", "c.py")


def test_the_definition_that_holds_a_line(index: NameIndex) -> None:
    names = [index.enclosing("a.py", line) for line in (1, 4, 8, 9, 10, 11, 12, 13)]
    held = [span.qualname if span else None for span in names]
    method = "Batch.forward"
    assert held == ["Batch", "Batch", "Batch", "Batch", method, method, f"{method}.<locals>.forward", None]


def test_decorators_belong_to_the_definition() -> None:
    index = store_of({"m.py": "x = 1\n@d(\n  1)\ndef f(): pass\n\ny = 2\n"}).index
    assert [getattr(index.enclosing("m.py", line), "name", None) for line in range(1, 7)] == [
        None, "f", "f", "f", None, None,
    ]  # fmt: skip


STORES = [
    ("x.a = 1", "x", "assign"),
    ("x.a.b.a = 1", "x.a.b", "assign"),
    ("y = x.a = 1", "x", "assign"),
    ("x.a: int = 1", "x", "annotate"),
    ("x.a: int", "x", "annotate"),
    ("x.a += 1", "x", "augment"),
    ("x.a //= 1; y", "x", "augment"),
    ("f(1, [2])[3].a = 1", "f(1, [2])[3]", "assign"),
    ("f(x.a).a = 1", "f(x.a)", "assign"),
    ("x.a, y = 1, 2", "x", "unpack"),
    ("y, x.a = 1, 2", "x", "unpack"),
    ("y, *x.a = z", "x", "unpack"),
    ("(y, x[0].a), z = 1, 2", "x[0]", "unpack"),
    ("[x.a] = 1,", "x", "unpack"),
    ("(\n    y,\n    x.a,\n) = f()", "x", "unpack"),
    ("(\n    y,\n    x.a\n) = z", "x", "unpack"),
    ("for x.a in y: pass", "x", "bind"),
    ("for i, x.a in y: pass", "x", "bind"),
    ("with f() as x.a: pass", "x", "bind"),
    ("with f() as (y, x.a): pass", "x", "bind"),
    ("setattr(x.y, 'a', 1)", "x.y", "setattr"),
    ('setattr(\n    f(x, 1),\n    "a",\n    1,\n)', "f(x, 1)", "setattr"),
    ("object.__setattr__(x, 'a', 1)", "x", "setattr"),
    ("x . a = 1", "x", "assign"),
    ("x \\\n  .a = 1", "x", "assign"),
    ("if y: x.a = 1", "x", "assign"),
    ("if y: z = 1; x.a = 1", "x", "assign"),
    ("else_ = [\n]; x.a = 1", "x", "assign"),
    ("(x).a = 1", "(x)", "assign"),
    ("'é'; x.a = 1", "x", "assign"),
]
READS = [
    "y: x.a = 1", "y: z | x.a = 1", "def g(y: x.a = 1): pass", "def g(\n    y: x.a = 1,\n    *z: x.a\n): pass",
    "y: z[x.a] = 1",
    "y = x.a",
    "x.a == 1", "x.a <= 1", "f(x.a, b=1)", "f(\n    x.a,\n    b=1,\n)", "x.a[0] = 1", "x.a.b = 1", "x.ab = 1",
    "y[x.a] = 1", "y[x.a, 0] = 1", "if x.a: y = 1", "{\n    x.a: 1,\n    y: 2}", "for i in x.a: pass", "# x.a = 1",
    "'''\nx.a = 1\n'''", "'x.a = 1'", "a = 1", "f(a=1)", "setattr(x, a, 1)", "setattr(x, 'ab', 1)",
    "getattr(x, 'a', 1)",
    "return_(x.a), y == 1", "[x.a for i in y]", "[i for i in x.a]", "lambda: x.a\ny = 1", "x.a\ny = 1", "x.a, y\nz = 1",
    "(x.a)\ny = 1", "print(f'{x.a=}')", "assert x.a, y", "with x.a as y: pass", "x.a(y).b = 1", "not x.a, y",
]  # fmt: skip


@pytest.mark.parametrize(("statement", "receiver", "kind"), STORES)
def test_every_way_to_store_an_attribute(statement: str, receiver: str, kind: str) -> None:
    nested = statement.replace("\n", "\n        ")
    index = store_of({"m.py": f"class A:\n    def f(self):\n        {nested}\n        return 1\n"}).index
    (use,) = index.attribute_stores("a")
    assert (use.path, use.receiver, use.kind, use.qualname) == ("m.py", receiver, kind, "A.f")
    assert 3 <= use.line <= 3 + statement.count("\n")
    top = store_of({"m.py": statement}).index.attribute_stores("a")
    assert [(each.receiver, each.kind, each.qualname) for each in top] == [(receiver, kind, "")]


@pytest.mark.parametrize("statement", READS)
def test_what_stores_no_attribute(statement: str) -> None:
    nested = statement.replace("\n", "\n    ")
    index = store_of({"m.py": statement, "n.py": f"def f():\n    y = 1\n    {nested}\n    y = 1\n"}).index
    assert index.attribute_stores("a") == ()


def test_keywords_of_calls() -> None:
    source = (
        "def f(x=1, *, y: int = 2): return g.h(1, x=2)(x = 3)\n"
        "class A(B, x=4):\n    x = 5\n    z = dict(\n        # x=6\n        y=[1, 2],\n        x=lambda: 7,\n    )\n"
        "lambda x=8: x\nC[int](x==9, 'x=10', x=y)\n"
    )
    uses = store_of({"m.py": source}).index.keyword_uses("x")
    assert [(use.line, use.receiver, use.qualname) for use in uses] == [
        (1, "g.h", "f"), (1, "g.h(1, x=2)", "f"), (7, "dict", "A"), (10, "C[int]", ""),
    ]  # fmt: skip
    assert {use.kind for use in uses} == {"keyword"}


def test_a_file_that_is_no_text_is_a_problem_and_the_rest_is_indexed() -> None:
    store = store_of({"bad.py": b"x.a = '\xff'\n'''\ndef f(): pass\n", "good.py": "def f(): x.a = 1\n"})
    assert [ref.path for ref in store.index.definitions("f")] == ["good.py"]
    assert [use.path for use in store.index.attribute_stores("a")] == ["good.py"]
    assert [problem.path for problem in store.problems] == ["bad.py"]


def test_the_index_reads_each_file_once_and_parses_nothing() -> None:
    tree = MemoryTree(FILES)
    from flowcheck.syntax import SyntaxStore

    store = SyntaxStore(tree, index_paths=("b/c.py", "crlf.py"))
    assert tree.reads == []
    assert [ref.path for ref in store.index.definitions("forward")] == ["b/c.py", "b/c.py"]
    assert store.index.files_with("x") == ("b/c.py", "crlf.py")
    assert sorted(tree.reads) == ["b/c.py", "crlf.py"]
    assert (store.stats.files_indexed, store.stats.definitions_indexed, store.stats.definitions_parsed) == (2, 3, 0)
