"""Tensors on the abstract heap: a tensor is a view of a storage, and a storage holds contents, column range by column range.

Two tensors that share a storage are aliases of each other: what is written through one is read through the other. What a
view and a storage say (``Obj.tag``) is immutable data; a write replaces it. Python attributes that are set on a tensor are
those of its heap object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flowcheck.interp.contents import (
    NOTHING,
    Content,
    Named,
    Normed,
    Opaque,
    Rows,
    Segment,
    Storage,
    Term,
    Width,
    leaves,
)
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.trails import Site
from flowcheck.interp.values import Ref, Slice, Value, alternatives

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter

__all__ = [
    "Slice", "View", "content_of", "deps_of", "is_tensor", "joined_columns", "like", "make", "opaque", "put", "read", "site_text",
    "tensors_in", "view_of", "widened", "write",
]  # fmt: skip

MOST_WRITERS = 8
MOST_TURNS = 4
MIXED: tuple[object, str] = (None, "")
"""Stands among exchanges of axes for what no exchange undoes."""


@dataclass(frozen=True, slots=True)
class View:
    """What a tensor is: the columns ``start`` to ``start + width`` of a storage, for some rows.

    ``dims``: its shape as values; the last one is ``width`` where the tensor has not been folded. ``whole`` is False when
    it is a part of the storage's rows, or of its columns in an order that nobody follows: writes through it are weak.
    ``others``: it may be a view of one of these storages instead. ``turned``: how its axes were exchanged and not put back,
    the first exchange first, each with its place: what is read is in an order that nobody follows.
    """

    storage: int
    start: Width
    width: Width | None
    rows: Rows
    dims: tuple[Value, ...] | None
    whole: bool = True
    others: tuple[int, ...] = ()
    turned: tuple[tuple[object, str], ...] = ()

    @property
    def addresses(self) -> frozenset[int]:
        """The addresses of the storages that it may show."""
        return frozenset((self.storage, *self.others))

    def renamed(self, names: Mapping[int, int]) -> View:
        """The same where what was at the addresses that are the keys of ``names`` goes by their values."""
        if names.keys().isdisjoint(self.addresses):
            return self
        first, *others = dict.fromkeys(names.get(oid, oid) for oid in (self.storage, *self.others))
        return replace(self, storage=first, others=tuple(others))

    def is_instance(self, name: str) -> bool | None:
        """Whether it is an instance of a class outside the tree; what has no shape may be no tensor at all."""
        if self.dims is None and self.width is None:
            return None
        return name.rsplit(".", 1)[-1] in ("Tensor", "Parameter")

    def joined(self, other: View) -> View:
        """The tensor at an address that is one or the other; most are views of one storage (see ``unified``)."""
        if self == other:
            return self
        same = self.start == other.start and self.width == other.width
        storages = dict.fromkeys((self.storage, *self.others, other.storage, *other.others))
        return View(
            self.storage,
            self.start,
            self.width if same else None,
            self.rows.joined(other.rows),
            self.dims if self.dims == other.dims else None,
            same and self.whole and other.whole,
            tuple(storages)[1:],
            self.turned if self.turned == other.turned else ((self.turned or other.turned)[0], MIXED),
        )

    def exchanged(self, axes: object, place: str) -> View:
        """After an exchange of axes, which the same exchange undoes if nothing lies between the two; None is any axes."""
        if axes is not None and self.turned and self.turned[-1][0] == axes:
            return replace(self, dims=None, turned=self.turned[:-1])
        turned = (*self.turned, (axes, place)) if len(self.turned) < MOST_TURNS else (self.turned[0], MIXED)
        return replace(self, dims=None, turned=turned)

    def folded(self) -> View:
        """After a change of shape that keeps the order of elements: what was turned before cannot be put back."""
        return replace(self, turned=(self.turned[0], MIXED)) if self.turned else self


def view_of(v: Value, st: State) -> View | None:
    """The view that a value is; None when it is no tensor."""
    if isinstance(v, Ref):
        obj = st.get(v.oid)
        if obj is not None and obj.kind == "tensor":
            assert isinstance(obj.tag, View)
            return obj.tag
    return None


def is_tensor(v: Value, st: State) -> bool:
    """Whether a value is certainly a tensor."""
    return view_of(v, st) is not None


def tensors_in(values: Iterable[Value], st: State, depth: int = 2) -> list[Ref]:
    """The tensors among values, in containers and on plain objects a few steps away."""
    out: list[Ref] = []
    for value in values:
        for v in alternatives(value):
            items: Iterable[Value] = ()
            if isinstance(v, Ref):
                obj = st.get(v.oid)
                if obj is None:
                    continue
                if obj.kind == "tensor":
                    out.append(v)
                    continue
                if not depth:
                    continue
                if obj.kind in ("list", "set", "iterator"):
                    items = obj.items or ()
                elif obj.kind == "dict":
                    items = [x for _, x in (obj.items or {}).values()]
                elif obj.kind in ("object", "plain object") and (obj.cls is None or obj.cls.is_record):
                    items = obj.attrs.values()
            elif depth and hasattr(v, "items") and isinstance(v.items, tuple):
                items = v.items
            if items:
                out += [x for x in tensors_in(items, st, depth - 1) if x not in out]
    return out


def _storage(st: State, oid: int) -> Storage:
    tag = st.obj(oid).tag
    assert isinstance(tag, Storage)
    return tag


# -------------------------------------------------------------------------------------------------------------- making
def make(
    it: Interpreter,
    st: State,
    segments: Content | Iterable[Segment],
    width: Width | None,
    rows: Rows,
    dims: tuple[Value, ...] | None,
    site: Site | None,
) -> Ref:
    """A new tensor with a storage of its own."""
    parts = (Segment(width, segments),) if isinstance(segments, Content) else tuple(segments)
    held = Obj("storage", site=site)
    held.tag = Storage(parts)
    oid = it.alloc(st, held, site).oid
    return _tensor(it, st, View(oid, Width(), width, rows, dims), site)


def _tensor(it: Interpreter, st: State, view: View, site: Site | None) -> Ref:
    obj = Obj("tensor", site=site)
    obj.tag = view
    ref = it.alloc(st, obj, site)
    it.base.keyless.discard(ref.oid)
    return ref


def like(it: Interpreter, st: State, ref: Value, content: Content | Iterable[Segment], site: Site | None) -> Ref:
    """A new tensor of the same shape with another content."""
    view = view_of(ref, st)
    assert view is not None
    return make(it, st, content, view.width, view.rows, view.dims, site)


def widened(it: Interpreter, st: State, ref: Value, site: Site | None, **changes: object) -> Ref:
    """Another view of the same storage: ``changes`` are fields of :class:`View`."""
    view = view_of(ref, st)
    assert view is not None
    return _tensor(it, st, replace(view, **changes), site)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- reading
def read(st: State, ref: Value) -> tuple[Segment, ...]:
    """The columns that a tensor shows, in order."""
    view = view_of(ref, st)
    assert view is not None
    if view.turned:
        return (Segment(view.width, _turned(_shown(st, view), view.turned[0][1])),)
    return _shown(st, view)


def _turned(parts: tuple[Segment, ...], place: str) -> Content:
    """What columns hold when their axes were exchanged. What no model made (a weight) has no order that matters."""
    content = _all(parts, "several columns")
    if content.lost is not None or not leaves((content,)):
        return content
    return Content(content.terms, f"its axes are exchanged at {place}")


def _shown(st: State, view: View) -> tuple[Segment, ...]:
    if view.others:
        contents = [_all(_storage(st, oid).segments, "several columns") for oid in (view.storage, *view.others)]
        whole = contents[0]
        for content in contents[1:]:
            whole = whole.joined(content)
        return (Segment(view.width, whole),)
    segments = _storage(st, view.storage).segments
    found = _overlap(segments, view)
    return found[1] if found is not None else (Segment(view.width, _all(segments, "columns that nobody follows")),)


def _all(segments: Iterable[Segment], why: str) -> Content:
    parts = [s.content for s in segments]
    if parts and all(p == parts[0] for p in parts):
        return parts[0]
    return Content(frozenset((Term(Opaque("columns", why, leaves(parts))),)))


def _overlap(
    segments: tuple[Segment, ...], view: View
) -> tuple[tuple[Segment, ...], tuple[Segment, ...], tuple[Segment, ...]] | None:
    """The segments before a view, under it and after it, cut at its ends; None when that cannot be told."""
    if view.width is None:
        return None
    if len(segments) == 1 and segments[0].width is None:
        return None
    before: list[Segment] = []
    under: list[Segment] = []
    after: list[Segment] = []
    at = Width()
    stop = view.start + view.width
    for s in segments:
        if s.width is None:
            return None
        end = at + s.width
        lows = [(end - view.start).sign, (at - view.start).sign, (end - stop).sign, (at - stop).sign]
        if None in lows:
            return None
        ends_after, begins_after, beyond, past = lows
        assert ends_after is not None and begins_after is not None and beyond is not None and past is not None  # noqa: PT018
        if ends_after <= 0:
            before.append(s)
        elif past >= 0:
            after.append(s)
        else:
            low = at if begins_after >= 0 else view.start
            high = end if beyond <= 0 else stop
            if begins_after < 0:
                before.append(Segment(view.start - at, s.content))
            under.append(Segment(high - low, s.content))
            if beyond > 0:
                after.append(Segment(end - stop, s.content))
        at = end
    return tuple(before), tuple(under), tuple(after)


def content_of(st: State, ref: Value) -> Content:
    """The one content of a tensor; columns of several contents are one opaque content."""
    return _all(read(st, ref), "several columns")


def deps_of(st: State, values: Iterable[Value]) -> frozenset[str]:
    """The names of all contributions that reach the tensors among values."""
    return leaves(s.content for ref in tensors_in(values, st) for s in read(st, ref))


def site_text(site: Site | None) -> str:
    """A site for people and for telling operations apart: the module and the line."""
    if site is None:
        return "?"
    syntax = site.module.syntax
    line = syntax.span(site.owner, site.nid).line if syntax is not None else 0
    return f"{site.module.path}:{line}"


def opaque(st: State, op: str, values: Iterable[Value], site: Site | None) -> Content:
    """What an operation that nobody follows makes of tensors: complete, and of all their contributions."""
    return Content(frozenset((Term(Opaque(op, site_text(site), deps_of(st, values))),)))


def joined_columns(segments: Iterable[Segment]) -> Width | None:
    """The width of all segments together."""
    total = Width()
    for s in segments:
        if s.width is None:
            return None
        total += s.width
    return total


# ------------------------------------------------------------------------------------------------------------- writing
def write(it: Interpreter, st: State, ref: Value, content: Content | Iterable[Segment], site: Site | None) -> None:
    """Writes what a tensor shows, in place: every view of its storage sees it."""
    view = view_of(ref, st)
    assert view is not None
    assert isinstance(ref, Ref)
    if view.rows.shards and not view.whole and not view.others and st.obj(ref.oid).exact:
        put(it, st, ref, (Segment(view.width, content),) if isinstance(content, Content) else tuple(content), site=site)
        return
    for storage in (view.storage, *view.others):
        _write(st, replace(view, storage=storage, whole=view.whole and not view.others), ref, content, site)


def _write(st: State, view: View, ref: Ref, content: Content | Iterable[Segment], site: Site | None) -> None:
    held = _storage(st, view.storage)
    exact = view.whole and st.obj(ref.oid).exact and st.obj(view.storage).exact
    new = (Segment(view.width, content),) if isinstance(content, Content) else tuple(content)
    parts = _overlap(held.segments, view)
    whole = parts is None and view.whole and view.start == Width() and len(held.segments) == 1
    if parts is None and not whole:
        every = [*held.segments, *new]
        kept = every[0].content
        for s in every[1:]:
            kept = kept.joined(s.content)
        lost = Content(kept.terms, f"written in columns that nobody follows at {site_text(site)}")
        segments: tuple[Segment, ...] = (Segment(joined_columns(held.segments), lost),)
    else:
        before, under, after = parts if parts is not None else ((), held.segments, ())
        if not exact:
            old, made = _all(under, "several columns"), _all(new, "several columns")
            new = (Segment(view.width, old.joined(made)),)
        segments = (*before, *new, *after)
    writers = held.writers if site is None else (*held.writers, site)[-MOST_WRITERS:]
    st.write(view.storage).tag = Storage(segments, writers, held.kin)
    made_of_all = _all(new, "several columns")
    for oid in held.kin:
        if st.get(oid) is None:
            continue  # made on a path that ended: nothing can read it
        kin = _storage(st, oid)
        seen = tuple(Segment(s.width, s.content.joined(made_of_all)) for s in kin.segments)
        st.write(oid).tag = Storage(seen, kin.writers, kin.kin)


def put(
    it: Interpreter,
    st: State,
    ref: Value,
    segments: tuple[Segment, ...],
    rows: Rows | None = None,
    dims: tuple[Value, ...] | None = None,
    site: Site | None = None,
) -> None:
    """Fills a tensor whatever it was: a part of another's rows shows what was written, and no longer what the other holds.

    The storage that it was a part of keeps what it had in common with what was written. With ``rows``, what fills it may
    have another shape than the one that it was made with, if nobody knew that one.
    """
    view = view_of(ref, st)
    assert view is not None
    assert isinstance(ref, Ref)
    for oid in (view.storage, *view.others):
        _write(st, replace(view, storage=oid, whole=view.whole and not view.others), ref, segments, site)
    storage = view.storage
    if not view.whole or view.others:
        held = Obj("storage", site=site)
        held.tag = Storage(segments, (site,) if site is not None else (), frozenset((view.storage, *view.others)))
        storage = it.alloc(st, held, site).oid
        for oid in (view.storage, *view.others):
            old = _storage(st, oid)
            st.write(oid).tag = replace(old, kin=old.kin | {storage})
    shown = View(storage, Width(), joined_columns(segments), view.rows, view.dims)
    shown = shown if rows is None else replace(shown, rows=rows, dims=dims)
    st.write(ref.oid).tag = shown if st.obj(ref.oid).exact else view.joined(shown)


_ = (NOTHING, Named, Normed)
