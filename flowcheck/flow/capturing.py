"""What reaches the logits processor as captured states, named as boundaries: the answer for one class, one list of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from flowcheck.flow.boundaries import Boundary, Capture, Captured, Reach, RowLimit, Stream, boundary_of
from flowcheck.flow.facts import Place
from flowcheck.flow.forwarding import Arrival, Forwarding
from flowcheck.flow.handed import handed_on
from flowcheck.flow.lasting_changes import changed_by
from flowcheck.flow.model_runs import ModelRun
from flowcheck.flow.modes import place_of
from flowcheck.flow.stack import with_deep_stack
from flowcheck.interp.contents import Content, Normed, Rows
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.frames import Budget, Dead, Raised
from flowcheck.interp.tensors import content_of, is_tensor, read, tensors_in, view_of
from flowcheck.interp.values import NONE, Ref, TupleV, Value, alternatives

__all__ = ["capture", "is_refused", "stream_of"]


Told = Sequence[Union[Sequence[int], None]]
"""The calls of a setter in their order: the ids of each, or None where it is called without any."""


def capture(
    forwarding: Forwarding,
    architecture: str,
    config: Mapping[str, Any],
    ids: Sequence[int] | None = None,
    phases: Sequence[str] = ("extend", "verify"),
    told: Told | None = None,
) -> tuple[Capture, ...]:
    """What a class captures for ids (None: the setter is called without any), one answer for each phase.

    ``told`` instead of ``ids``: the setter is called once for each of them, one after the other; never, where it is empty.
    """
    given = tuple(tuple(each) if each is not None else None for each in (told if told is not None else (ids,)))
    return with_deep_stack(lambda: tuple(_capture(forwarding, architecture, config, given, phase) for phase in phases))


def _capture(
    forwarding: Forwarding,
    architecture: str,
    config: Mapping[str, Any],
    told: tuple[tuple[int, ...] | None, ...],
    phase: str,
) -> Capture:
    words = forwarding.kernels.forward
    layers = forwarding.layer_count(config)
    run: ModelRun | None = None
    since = 0

    def failed(question: str | None, raised: tuple[str, Place | None] | None = None) -> Capture:
        if raised is not None and _unmodelled(run):  # what was not modelled may be why
            question, raised = f"{raised[0]} is raised after calls that have no model", None
        return Capture(
            architecture, phase, told, run.layers if run is not None else layers, (), None, None, None, None,
            raised, question, _unmodelled(run), _assumed(forwarding), _limits(forwarding),
        )  # fmt: skip

    what = "its __init__"
    result, raised = None, None
    try:
        run = forwarding.fresh(architecture, config)
        what = "its setter"
        for ids in told:
            since = len(run.it.handlers[0])
            forwarding.set_layers(run, ids)
        what, since = "its forward", len(run.it.handlers[0])
        before = run.state.fork()
        result = forwarding.forward(run, words.extend_member if phase == "extend" else words.verify_member)
        forwarding.keep()
        changed = changed_by(run, before)
        if changed:
            return failed(f"its forward changes {changed}, so that the next one may capture something else")
    except LookupError as error:
        return failed(str(error))
    except Budget as error:
        return failed(str(error))
    except Dead:
        raised = _raised_in(forwarding.it, since)
        if run is None or not forwarding.arrivals:
            return failed(None if raised is not None else f"{what} never returns", raised)
    if not forwarding.arrivals:
        return failed("the logits processor is never called")
    if len(forwarding.arrivals) > 1:
        return failed("the logits processor is called on several paths")
    return _read_arrival(forwarding, run, result, told, phase, raised if not _unmodelled(run) else None)


def is_refused(forwarding: Forwarding, architecture: str, config: Mapping[str, Any]) -> bool:
    """Whether making the target certainly raises on so many ranks."""
    try:
        forwarding.fresh(architecture, config)
    except Dead:
        return _raised_in(forwarding.it, 0) is not None
    except (LookupError, Budget):
        return False
    forwarding.keep()
    return False


def _assumed(forwarding: Forwarding) -> tuple[str, ...]:
    """What an answer rests on beside the scenario."""
    model = forwarding.it.config.tensors if forwarding.it is not None else None
    names = [name for name, has_default in model.absent.items() if has_default] if model is not None else []
    absent = (f"not in the configuration, so that the code's own default holds: {', '.join(names)}",) if names else ()
    return (*absent, f"a batch of {forwarding.rows} rows on rank 0 of {forwarding.tp}")


def _limits(forwarding: Forwarding) -> tuple[RowLimit, ...]:
    """The comparisons of the number of rows that the run met."""
    model = forwarding.it.config.tensors if forwarding.it is not None else None
    found = model.limits.items() if model is not None else ()
    return tuple(RowLimit(whose, op, n, place_of(site)) for (whose, op, n), site in found)


def _unmodelled(run: ModelRun | None) -> tuple[str, ...]:
    model = run.it.config.tensors if run is not None else None
    return tuple(f"{k} ({v})" for k, v in model.unmodelled.items()) if model is not None else ()


def _raised_in(it: Interpreter | None, since: int) -> tuple[str, Place | None] | None:
    """The last exception that a path certainly raised, of those that were noted from a point on."""
    found: list[Raised] = [r for r in it.handlers[0][since:] if r.certain] if it is not None else []
    if not found:
        return None
    last = found[-1]
    name = last.cls.name if last.cls is not None else last.name
    return name, place_of(last.site) if last.site is not None else None


def _read_arrival(
    forwarding: Forwarding,
    run: ModelRun,
    result: Value | None,
    told: tuple[tuple[int, ...] | None, ...],
    phase: str,
    raised: tuple[str, Place | None] | None,
) -> Capture:
    arrival = forwarding.arrivals[0]
    stream = stream_of(run, arrival)
    states, question = _states(run, arrival, stream)
    width, rows, concat = (None, None, None)
    given = tensors_in([arrival.captured], arrival.state)
    arrived = [s for ref in given for s in read(arrival.state, ref)]
    if result is not None:
        width, rows, concat = _stored(forwarding, run, result)
        held = frozenset(v.rows for ref in given if (v := view_of(ref, arrival.state)) is not None)
        attribute = forwarding.kernels.forward.result_attribute
        if all(map(_is_whole, states)):  # of what is wrong before, the place of the capture says more
            states = handed_on(run.state, result, attribute, arrived, held, stream) or states
    return Capture(
        run.name, phase, told, run.layers, states, width, rows, concat,
        place_of(arrival.site) if arrival.site is not None else None,
        raised, question, _unmodelled(run), _assumed(forwarding), _limits(forwarding),
        unfinished=stream.unfinished(s.content for s in arrived),
    )  # fmt: skip


def stream_of(run: ModelRun, arrival: Arrival) -> Stream:
    """The input of the final norm, as the hidden states that reach the logits processor say it."""
    final = Content(lost="what reaches the logits processor is no norm")
    found: list[Content] = []
    for v in alternatives(arrival.hidden):
        if is_tensor(v, arrival.state):
            content = content_of(arrival.state, v)
            if content.lost is not None:
                final = Content(lost=content.lost)
            for t in content.terms:
                if isinstance(t.source, Normed):
                    found.append(t.source.of)
    if found and all(f == found[0] for f in found):
        final = found[0]
    return Stream(final, run.layers, run.stack)


def _states(run: ModelRun, arrival: Arrival, stream: Stream) -> tuple[tuple[Captured, ...], str | None]:
    """The captured states in their order, or why they are not known."""
    st = arrival.state
    options = alternatives(arrival.captured)
    if options == (NONE,):
        return (), None
    if len(options) > 1:
        return (), "whether states are captured differs from path to path"
    v = options[0]
    items: list[Value] | None = None
    container: int | None = None
    if isinstance(v, TupleV):
        items = list(v.items)
    elif isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is not None and obj.kind == "tensor":
            return tuple(_packed(run, arrival, v, stream)), None
        if obj is not None and obj.kind == "list":
            items, container = obj.items, v.oid
        elif obj is not None and obj.cls is not None:
            held = [
                x
                for x in obj.attrs.values()
                if isinstance(x, Ref) and (o := st.get(x.oid)) is not None and o.kind == "list"
            ]
            if len(held) == 1 and isinstance(held[0], Ref):
                items, container = st.obj(held[0].oid).items, held[0].oid
            if items is None and obj.items is not None:
                items, container = list(obj.items), v.oid
    if items is None:
        return (), f"the captured states are {v!r}"
    return tuple(_captured(run, arrival, x, container, stream) for x in items), None


def _is_whole(state: Captured) -> bool:
    """Whether a state is known, and has reached the processor whole and with its rows."""
    return state.boundary.certain and state.boundary.reach is Reach.COMPLETE and state.rows == str(Rows())


def _unknown(reason: str) -> Captured:
    boundary = Boundary(None, Reach.COMPLETE, False, False, False, reason)
    return Captured(boundary, boundary, "?", "?", None, None, None)


def _agree(a: Captured, b: Captured) -> bool:
    """Whether two states hold the same, and held the same when they were captured, wherever that was."""
    return (a.boundary, a.at_capture, a.rows, a.width) == (b.boundary, b.at_capture, b.rows, b.width)


def _captured(run: ModelRun, arrival: Arrival, v: Value, container: int | None, stream: Stream) -> Captured:
    st, model = arrival.state, run.it.config.tensors
    assert model is not None
    options = list(alternatives(v))
    if not all(isinstance(each, Ref) and is_tensor(each, st) for each in options):
        return _unknown("it is no tensor that was followed")
    if len(options) > 1:  # on several paths: they may have come to the same
        found = [_captured(run, arrival, each, container, stream) for each in options]
        if any(not _agree(each, found[0]) for each in found[1:]):
            return _unknown(f"it is one of {len(options)} tensors, which hold different things")
        return found[0]
    ref = options[0]
    assert isinstance(ref, Ref)
    view = view_of(ref, st)
    assert view is not None
    now = boundary_of(content_of(st, ref), stream, bool(view.rows.shards))
    kept = [k for k in model.keeps if k.tensor == ref.oid]
    then, appended = now, None
    if kept:
        first = kept[0]
        contents = {s.content for s in first.segments}
        if len(contents) == 1:
            then = boundary_of(contents.pop(), stream, bool(view.rows.shards))
        appended = place_of(first.site) if first.site is not None else None
    writers = st.obj(view.storage).tag.writers
    overwritten = place_of(writers[-1]) if writers and then != now else None
    site = st.obj(ref.oid).site
    width = str(view.width) if view.width is not None else "?"
    return Captured(
        now, then, str(view.rows), width, place_of(site) if site is not None else None, appended, overwritten
    )


def _packed(run: ModelRun, arrival: Arrival, ref: Ref, stream: Stream) -> list[Captured]:
    """States that were put side by side in one buffer."""
    st = arrival.state
    view = view_of(ref, st)
    assert view is not None
    site = st.obj(ref.oid).site
    place = place_of(site) if site is not None else None
    out: list[Captured] = []
    for s in read(st, ref):
        now = boundary_of(s.content, stream, bool(view.rows.shards))
        out.append(Captured(now, now, str(view.rows), str(s.width), place, None, None))
    return out


def _stored(forwarding: Forwarding, run: ModelRun, result: Value) -> tuple[str | None, str | None, Place | None]:
    """The width and rows of what the logits processor hands on, and where it was put together."""
    st = run.state
    found: list[tuple[str | None, str, Place | None]] = []
    for x in alternatives(result):
        obj = st.get(x.oid) if isinstance(x, Ref) else None
        if obj is None:
            return None, None, None
        for v in alternatives(obj.attrs.get(forwarding.kernels.forward.result_attribute, NONE)):
            view = view_of(v, st)
            if view is None or not isinstance(v, Ref):
                return None, None, None
            site = st.obj(v.oid).site
            width = str(view.width) if view.width is not None else None
            found.append((width, str(view.rows), place_of(site) if site is not None else None))
    if found and all(f == found[0] for f in found):
        return found[0]
    return None, None, None
