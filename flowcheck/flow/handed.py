"""What the logits processor hands on to the draft, against the states that reached it: what is done to them there counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flowcheck.flow.boundaries import Boundary, Captured, Stream, boundary_of
from flowcheck.flow.facts import Place
from flowcheck.flow.modes import place_of
from flowcheck.interp.contents import Segment
from flowcheck.interp.heap import State
from flowcheck.interp.tensors import read, view_of
from flowcheck.interp.values import NONE, Ref, Value, alternatives

__all__ = ["handed_on"]

OTHER_ORDER = "the logits processor hands it on in a shape that is not followed"


def handed_on(
    st: State, result: Value, attribute: str, arrived: Sequence[Segment], stream: Stream
) -> tuple[Captured, ...] | None:
    """The states as ``attribute`` of the processor's ``result`` holds them; None where these are the ones that arrived.

    ``arrived`` are the columns of the states in their order.
    """
    if not arrived:
        return None
    for ref in _tensors(st, result, attribute):
        found = read(st, ref)
        if _same(found, arrived):
            continue
        return tuple(_named(st, ref, segment, arrived, stream) for segment in found)
    return None


def _tensors(st: State, result: Value, attribute: str) -> Iterator[Ref]:
    for x in alternatives(result):
        obj = st.get(x.oid) if isinstance(x, Ref) else None
        for v in alternatives(obj.attrs.get(attribute, NONE)) if obj is not None else ():
            if isinstance(v, Ref) and view_of(v, st) is not None:
                yield v


def _same(found: Sequence[Segment], arrived: Sequence[Segment]) -> bool:
    """Whether columns are the same; a width that is not known may be any."""
    return len(found) == len(arrived) and all(
        a.content == b.content and (a.width == b.width or a.width is None or b.width is None)
        for a, b in zip(found, arrived, strict=True)
    )


def _named(st: State, ref: Ref, segment: Segment, arrived: Sequence[Segment], stream: Stream) -> Captured:
    view = view_of(ref, st)
    assert view is not None
    now = boundary_of(segment.content, stream, bool(view.rows.shards))
    if segment.width not in {each.width for each in arrived}:
        now = Boundary(None, now.reach, False, False, False, OTHER_ORDER)
    site = st.obj(ref.oid).site
    place: Place | None = place_of(site) if site is not None else None
    width = str(segment.width) if segment.width is not None else "?"
    return Captured(now, now, str(view.rows), width, place, None, None)
