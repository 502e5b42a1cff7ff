"""Whether every way of running that the tree prepares was met: what vanishes is an open question, and never a pass."""

from __future__ import annotations

from collections.abc import Iterable

from flowcheck.flow.facts import Flow, Open, Path, Phase
from flowcheck.flow.modes import graph_path, place_of
from flowcheck.flow.walk import Walk
from flowcheck.interp.frames import CallEvent
from flowcheck.interp.trails import Site
from flowcheck.interp.values import FALSE, NONE, Ref, alternatives

__all__ = ["lost_replays"]


def lost_replays(walk: Walk, flows: Iterable[Flow]) -> list[Open]:
    """The target's graph runners of which this walk met no replay although none of them says no to every batch.

    Such a path has vanished, in the tree or in the walk; what its batches get is not known.
    """
    seen = {f.path for f in flows}
    met = {f.runner for f in walk.forwards if f.kind != "record"}
    out: list[Open] = []
    for oid, obj in list(walk.it.base.objects.items()):
        c = obj.cls
        if c is None or c.is_record or obj.kind != "skeleton" or c in met or not walk.records_graphs(c):
            continue
        path = graph_path(c, None, walk.words)
        if path in seen or walk.admissions.answers.get(oid) is False or not _serves_the_target(walk, Ref(oid)):
            continue
        phase = Phase.EXTEND if path is Path.PREFILL_GRAPH else Phase.VERIFY
        place = place_of(Site(c.module, None, c.node.nid, c.qualname))
        why = "the target has graphs of its own, and no replay of them was found"
        for _, worker in walk.worker_list:
            question = f"which mode a graph of {c.name} replays for {worker.name}"
            out.append(Open(question, why, place, "missing", phase, path, worker.name))
    asked: set[Path] = set()
    for c, site in walk.unknown_replays:
        path = graph_path(c, None, walk.words)
        if path in seen or path in asked:
            continue
        asked.add(path)
        phase = Phase.EXTEND if path is Path.PREFILL_GRAPH else Phase.VERIFY
        why = "the graph runner that is asked to replay lies where it is not known"
        for _, worker in walk.worker_list:
            question = f"which mode a graph of {c.name} replays for {worker.name}"
            out.append(Open(question, why, place_of(site), "missing", phase, path, worker.name))
    return out


def _serves_the_target(walk: Walk, runner: Ref) -> bool:
    """Whether the runner's graphs are surely those of the target's model. Asked beside the walk, and not kept."""
    it = walk.it
    event = CallEvent(NONE, "", [], {}, it.base_state, None, walk.frame)
    asked_in, asked_keys = {k: set(v) for k, v in it.asked_in.items()}, dict(it.asked_keys)
    with it.aside():
        owner = walk.owner(runner, event)
        draft = walk.read(owner, walk.words.target.draft_flag, event)
    it.asked_in, it.asked_keys = asked_in, asked_keys
    return alternatives(draft) == alternatives(FALSE)
