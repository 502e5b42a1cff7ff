"""The call graph of small programs: which edges there are, where they stand, and that what is not known has none."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from flowcheck.program.callgraph import EdgeKind, between
from flowcheck.syntax import SyntaxStore
from tests.interp.harness import MemoryTree, deeply, interpret

if TYPE_CHECKING:
    from flowcheck.program.callgraph import Graph

PROGRAM = "program.py"
Edge = tuple[str, str, str]

CLASSES = """
    class Base:
        def __init__(self, mode):
            self.mode = mode
        def run(self):
            return self.step()
        def step(self):
            return 1
        def left(self):
            return 2

    class Derived(Base):
        def __init__(self, mode):
            super().__init__(mode)
        def step(self):
            return super().step() + 1

"""


def graph_of(text: str, tracked: frozenset[str] = frozenset()) -> Graph:
    files = {"__init__.py": "", PROGRAM: textwrap.dedent(text)}
    store = SyntaxStore(MemoryTree(files))

    def work() -> Graph:
        return interpret(store, [], tracked).interpreter.graph.graph()

    graph: Graph = deeply(work)
    return graph


def edges(graph: Graph) -> set[Edge]:
    return {(a[1], kind, b[1]) for a, b, kind in graph.edges(keys=True)}


def lines(graph: Graph, edge: Edge) -> list[int]:
    caller, kind, callee = edge
    marks = graph.edges[(PROGRAM, caller), (PROGRAM, callee), kind]["marks"]
    return sorted(mark.span().line for mark in marks)


def test_calls_through_inheritance_and_super() -> None:
    graph = graph_of(f"{CLASSES}\n    def main():\n        return Derived(3).run()\n")
    assert {
        ("main", "constructs", "Derived"),
        ("main", "calls", "Derived.__init__"),
        ("Derived.__init__", "calls", "Base.__init__"),
        ("main", "calls", "Base.run"),
        ("Base.run", "calls", "Derived.step"),
        ("Derived.step", "calls", "Base.step"),
    } <= edges(graph)
    assert ("Base.run", "calls", "Base.step") not in edges(graph)
    assert lines(graph, ("Derived.step", "calls", "Base.step")) == [16]


def test_overrides_come_from_the_classes_that_are_met() -> None:
    both = {("Derived.__init__", "overrides", "Base.__init__"), ("Derived.step", "overrides", "Base.step")}
    met = edges(graph_of(f"{CLASSES}\n    def main():\n        return Derived(3)\n"))
    assert {edge for edge in met if edge[1] == "overrides"} == both
    unmet = edges(graph_of(f"{CLASSES}\n    def main():\n        return Base(3)\n"))
    assert not {edge for edge in unmet if edge[1] == "overrides"}


def test_reads_and_writes_of_tracked_attributes_alone() -> None:
    text = f"{CLASSES}\n    def main():\n        d = Derived(3)\n        d.mode = d.other = d.mode\n        return d\n"
    graph = graph_of(text, frozenset({"mode"}))
    touched = {edge for edge in edges(graph) if edge[1] in ("reads", "writes")}
    assert touched == {
        ("Base.__init__", "writes", "Base.mode"),
        ("main", "reads", "Base.mode"),
        ("main", "writes", "Base.mode"),
    }
    assert graph.nodes[PROGRAM, "Base.mode"] == {"file": PROGRAM, "line": 2, "kind": "attribute"}
    assert not {edge for edge in edges(graph_of(text)) if edge[1] in ("reads", "writes")}


def test_a_record_writes_the_fields_that_its_call_gives() -> None:
    graph = graph_of(
        """
        import dataclasses

        @dataclasses.dataclass
        class Batch:
            mode: int = 0

        def main():
            return dataclasses.replace(Batch(mode=1), mode=2)
        """,
        frozenset({"mode"}),
    )
    assert {("main", "constructs", "Batch"), ("main", "writes", "Batch.mode")} <= edges(graph)


def test_nodes_say_what_and_where_they_are() -> None:
    graph = graph_of(f"{CLASSES}\n    def main():\n        return Derived(3).run()\n")
    assert graph.nodes[PROGRAM, "Derived"] == {"file": PROGRAM, "line": 12, "kind": "class"}
    assert graph.nodes[PROGRAM, "Base.run"] == {"file": PROGRAM, "line": 5, "kind": "function"}


def test_every_place_of_a_call_is_kept() -> None:
    graph = graph_of(
        """
        def f():
            return 1

        def main():
            f()
            return [f() for _ in (1, 2)]
        """
    )
    assert lines(graph, ("main", "calls", "f")) == [6, 7]


@pytest.mark.parametrize(
    ("call", "callees"),
    [
        ("missing()", set()),
        ("unknown.method()", set()),
        ("print(1)", set()),
        ("{}.get(1)", set()),
        ("getattr(f, 'x' + str(unknown))()", set()),
        ("(f if unknown else g)()", {"f", "g"}),
        ("(lambda: f())()", {"f", "main.<locals>.<lambda>"}),
    ],
)
def test_only_what_is_resolved_has_edges(call: str, callees: set[str]) -> None:
    text = f"""
        import outside

        unknown = outside.thing

        def f():
            return 1

        def g():
            return 2

        def main():
            {call}
        """
    found = {b for _, kind, b in edges(graph_of(text)) if kind == "calls"}
    assert found == callees


def test_calls_at_import_belong_to_the_module() -> None:
    graph = graph_of("def f():\n    return 1\n\nTABLE = [f()]\n\ndef main():\n    return TABLE\n")
    assert ("", "calls", "f") in edges(graph)
    assert graph.nodes[PROGRAM, ""]["kind"] == "module"


def test_the_part_between_keeps_whole_ways_and_nothing_beside_them() -> None:
    text = """
        class Batch:
            def __init__(self):
                self.mode = 1
                self.phase = 2

        def beside():
            return 0

        def end(batch):
            return batch.mode

        def middle(batch):
            beside()
            return end(batch)

        def main():
            return middle(Batch())
        """
    graph = graph_of(text, frozenset({"mode", "phase"}))
    part = between(graph, [(PROGRAM, "main")], [(PROGRAM, "end")], ["mode"])
    assert edges(part) == {("main", "calls", "middle"), ("middle", "calls", "end"), ("end", "reads", "Batch.mode")}
    assert not between(graph, [(PROGRAM, "end")], [(PROGRAM, "main")])
    assert not between(graph, [(PROGRAM, "nothing")], [(PROGRAM, "end")])
    wider = between(graph, [(PROGRAM, "main")], [(PROGRAM, "end"), (PROGRAM, "Batch.__init__")], ["phase"])
    assert ("Batch.__init__", EdgeKind.WRITES.value, "Batch.phase") in edges(wider)
    assert ("end", "reads", "Batch.mode") not in edges(wider)
