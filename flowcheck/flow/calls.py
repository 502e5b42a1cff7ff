"""The part of the call graph that a report can show: from the dispatch of a batch to the target's forwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flowcheck.flow.facts import CallEdge, Definition
from flowcheck.flow.walk import Walk
from flowcheck.interp.classes import class_attr
from flowcheck.interp.values import FuncV, Known, alternatives
from flowcheck.program.callgraph import EdgeKind, Key, between

if TYPE_CHECKING:
    from flowcheck.program.callgraph import Graph, Mark

__all__ = ["MOST_EDGES", "calls_of", "merged_calls"]

MOST_EDGES = 2000
"""A larger graph says nothing to anybody, and would be most of the report."""


def calls_of(walk: Walk) -> tuple[CallEdge, ...]:
    """What lies between a dispatch and a forward of the target, or what sets the mode, as one walk met it."""
    it, words = walk.it, walk.words
    graph = it.graph.graph()
    dispatches = [class_attr(it, c, words.entry.dispatch, it.base_state) for c in walk.roles.schedulers]
    sources: list[Key] = [(f.module.path, f.qualname) for f in dispatches if isinstance(f, FuncV)]
    targets: list[Key] = [
        (f.site.module.path, f.site.symbol)
        for f in walk.forwards
        if f.kind != "record" and {x.value if isinstance(x, Known) else None for x in alternatives(f.draft)} != {True}
    ]
    mode = words.mode.attribute
    sets = [a for a, b, kind in graph.edges(keys=True) if kind == EdgeKind.WRITES and b[1].rpartition(".")[2] == mode]
    part = between(graph, sources, [*targets, *sets], [mode])
    if part.number_of_edges() > MOST_EDGES:
        return ()
    return tuple(_edges(part))


def _edges(part: Graph) -> Iterable[CallEdge]:
    known = {key: Definition(at["file"], key[1], at["line"], at["kind"]) for key, at in part.nodes(data=True)}
    for a, b, kind in sorted(part.edges(keys=True)):
        marks: tuple[Mark, ...] = part.edges[a, b, kind]["marks"]
        spans = {span for mark in marks if (span := mark.span()) is not None}
        yield CallEdge(known[a], known[b], kind, tuple(sorted(spans, key=lambda s: (s.line, s.column))))


def merged_calls(walks: Iterable[Iterable[CallEdge]]) -> tuple[CallEdge, ...]:
    """The edges of several walks, each once and in order; none where they are too many."""
    found: dict[tuple[Definition, Definition, str], set[tuple[int, int, int, int]]] = {}
    spans = {}
    for walk in walks:
        for edge in walk:
            sites = found.setdefault((edge.caller, edge.callee, edge.kind), set())
            for span in edge.sites:
                place = (span.line, span.column, span.end_line, span.end_column)
                spans[place] = span
                sites.add(place)
    if len(found) > MOST_EDGES:
        return ()
    return tuple(CallEdge(*key, tuple(spans[place] for place in sorted(sites))) for key, sites in sorted(found.items()))
