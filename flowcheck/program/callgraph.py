"""The call graph: which definition calls, constructs or overrides which, and reads or writes which tracked attribute.

Whoever follows calls notes them in :class:`Calls`, at next to no cost: keys of syntax nodes and no values. A graph is
made of that when somebody asks, and positions are resolved for the edges that are shown and for no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from flowcheck.syntax import ir
from flowcheck.syntax.ir import Span

if TYPE_CHECKING:
    import networkx

    from flowcheck.program.modules import Module

    Graph: TypeAlias = "networkx.MultiDiGraph[Key]"

__all__ = ["Calls", "Definition", "EdgeKind", "Key", "Mark", "between", "definition_of"]

Key = tuple[str, str]
"""A node of the graph: a module's path and a qualified name ("" for a module's top level)."""

Owner = ir.FunctionDef | ir.ClassDef | ir.Lambda | None


class EdgeKind(str, Enum):
    """What one definition does to another; it is the edge's key."""

    CALLS = "calls"
    CONSTRUCTS = "constructs"
    OVERRIDES = "overrides"
    READS = "reads"
    WRITES = "writes"


class Definition(NamedTuple):
    """A definition. ``kind``: "function", "class", "module", or "attribute" (at the line of its class)."""

    path: str
    qualname: str
    line: int
    kind: str

    @property
    def key(self) -> Key:
        """Its node in the graph."""
        return (self.path, self.qualname)


class Mark(NamedTuple):
    """A place that is not resolved yet: a node's number in the slice of ``owner`` (None: a module's top level)."""

    module: Module
    owner: ir.FunctionDef | None
    nid: int

    def span(self) -> Span | None:
        """Its position; None where the module has no text."""
        syntax = self.module.syntax
        return syntax.span(self.owner, self.nid) if syntax is not None else None


def definition_of(module: Module, node: Owner, owner: ir.FunctionDef | None = None) -> Definition:
    """The definition that ``node`` is; ``owner`` is the function that holds it, where it is a lambda."""
    if node is None:
        return Definition(module.path, "", 1, "module")
    if isinstance(node, ir.Lambda):
        inside = f"{owner.qualname}.<locals>." if owner is not None else ""
        return Definition(module.path, f"{inside}<lambda>", owner.line if owner is not None else 1, "function")
    return Definition(module.path, node.qualname, node.line, "class" if isinstance(node, ir.ClassDef) else "function")


class Calls:
    """What was resolved, each edge once for every place. Holds nodes of the syntax and nothing of a run."""

    def __init__(self) -> None:
        self._edges: dict[tuple[Definition, Definition, EdgeKind], dict[Mark | None, None]] = {}
        self._known: dict[ir.Node, Definition] = {}
        self.attributes: dict[tuple[ir.ClassDef, str], Definition] = {}
        self._classes: dict[Key, Sequence[tuple[Module, ir.ClassDef]]] = {}

    def definition(self, module: Module, node: Owner, owner: ir.FunctionDef | None = None) -> Definition:
        """As :func:`definition_of`, one object for one node."""
        if node is None:
            return definition_of(module, None)
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = definition_of(module, node, owner)
        return found

    def note(self, caller: Definition, callee: Definition, kind: EdgeKind, mark: Mark | None) -> None:
        """Takes note of one edge."""
        self._edges.setdefault((caller, callee, kind), {})[mark] = None

    def meets(self, key: Key) -> bool:
        """Whether a class is still to be met."""
        return key not in self._classes

    def met(self, mro: Sequence[tuple[Module, ir.ClassDef]]) -> None:
        """A class that was constructed, or one of whose methods was called: itself and its bases, in Python's order."""
        module, node = mro[0]
        self._classes.setdefault((module.path, node.qualname), mro)

    def graph(self) -> Graph:
        """All of it. Nodes carry ``file``, ``line`` and ``kind``; edges have their kind as key, and ``marks``."""
        import networkx

        graph: Graph = networkx.MultiDiGraph()
        edges = {key: tuple(m for m in marks if m is not None) for key, marks in self._edges.items()}
        for caller, callee in self._overrides():
            edges.setdefault((caller, callee, EdgeKind.OVERRIDES), ())
        for (caller, callee, kind), marks in edges.items():
            for each in (caller, callee):
                if each.key not in graph:
                    graph.add_node(each.key, file=each.path, line=each.line, kind=each.kind)
            graph.add_edge(caller.key, callee.key, key=kind.value, marks=marks)
        return graph

    def _overrides(self) -> Iterable[tuple[Definition, Definition]]:
        for mro in self._classes.values():
            methods = [(module, _methods(node)) for module, node in mro]
            for i, (module, own) in enumerate(methods):
                for name, node in own.items():
                    hidden = next(((m, other[name]) for m, other in methods[i + 1 :] if name in other), None)
                    if hidden is not None:
                        yield self.definition(module, node), self.definition(*hidden)


def _methods(node: ir.ClassDef) -> dict[str, ir.FunctionDef]:
    return {s.name: s for s in node.body if isinstance(s, ir.FunctionDef)}


def between(graph: Graph, sources: Iterable[Key], targets: Iterable[Key], attributes: Iterable[str] = ()) -> Graph:
    """The part of a graph that lies on some way of calls from a source to a target.

    What the definitions on these ways read and write is part of it, for attributes of these names, and so is what they
    override.
    """
    import networkx

    follows = {EdgeKind.CALLS.value, EdgeKind.CONSTRUCTS.value}
    ways: networkx.DiGraph[Key] = networkx.DiGraph()
    ways.add_edges_from((a, b) for a, b, kind in graph.edges(keys=True) if kind in follows)
    below: set[Key] = set()
    for source in sources:
        if source in ways:
            below |= {source, *networkx.descendants(ways, source)}
    above: set[Key] = set()
    for target in targets:
        if target in ways:
            above |= {target, *networkx.ancestors(ways, target)}
    kept = below & above
    names = frozenset(attributes)
    touched = {
        b
        for a, b, kind in graph.edges(kept, keys=True)
        if kind in (EdgeKind.READS.value, EdgeKind.WRITES.value) and b[1].rpartition(".")[2] in names
    }
    part: Graph = graph.subgraph(kept | touched).copy()
    return part
