"""What operations make of tensors: arithmetic, columns and rows, concatenation, casts. PyTorch's own semantics, no kernels."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from flowcheck.interp.contents import NOTHING, Content, Opaque, Rows, Segment, Term, Width, leaves, value_of, width_of
from flowcheck.interp.heap import State
from flowcheck.interp.tensors import (
    View,
    content_of,
    deps_of,
    is_tensor,
    joined_columns,
    like,
    make,
    opaque,
    read,
    site_text,
    view_of,
    widened,
    write,
)
from flowcheck.interp.trails import Site
from flowcheck.interp.values import NONE, Known, Ref, Slice, TupleV, Unknown, Value, alternatives

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter

__all__ = [
    "added", "agreed", "assigned", "binary", "cast", "concatenated", "exchanged", "in_place", "loose", "picked", "reshaped",
    "same", "shape_of", "sliced", "split", "stored", "taken",
]  # fmt: skip

ROWS = Unknown("the number of rows", ("rows",))
"""The number of tokens of a batch: one quantity, so that two tests of it agree."""
SHARE = Unknown("a share of the rows", ("share", ("rows",)))
"""One rank's part of them."""
EVERYBODYS = Unknown("the rows of all replicas", ("gathered", ("rows",)))
"""Those of all replicas together."""


def loose(
    it: Interpreter, st: State, op: str, values: Sequence[Value], site: Site | None, rows: Rows | None = None
) -> Ref:
    """A tensor of unknown shape that depends on what the tensors among ``values`` hold."""
    return make(it, st, opaque(st, op, values, site), None, rows or Rows(), None, site)


def shape_of(v: Value, st: State) -> tuple[Value, ...] | None:
    """The shape of a tensor as values, where that is known."""
    view = view_of(v, st)
    return view.dims if view is not None else None


def is_bare(content: Content) -> bool:
    """Whether nothing that a model made is in a content: a parameter, a mask, a buffer."""
    return content.lost is None and not leaves((content,))


# ---------------------------------------------------------------------------------------------------------- arithmetic
def binary(it: Interpreter, op: str, a: Value, b: Value, st: State, site: Site | None) -> Value:
    """``a op b`` where one of them is a tensor, neither of them is None, and nothing is a union."""
    x, y = view_of(a, st), view_of(b, st)
    shaped = a if x is not None and (y is None or x.width is not None) else b
    if op in ("+", "-"):
        return added(it, a, b, st, site, 1 if op == "+" else -1)
    if op in ("*", "/"):
        scaled = _scaled(it, op, a, b, st, site)
        if scaled is not None:
            return like(it, st, scaled[0], scaled[1], site)
    made = opaque(st, op, (a, b), site)
    if op == "@":
        return make(it, st, made, None, _rows(a, b, st), None, site)
    view = view_of(shaped, st)
    assert view is not None
    return make(it, st, made, view.width, _rows(a, b, st), view.dims, site)


def _rows(a: Value, b: Value, st: State) -> Rows:
    found = [v.rows for v in (view_of(a, st), view_of(b, st)) if v is not None and v.dims != ()]
    rows = found[0] if found else Rows()
    for other in found[1:]:
        if rows != other:
            rows = Rows(rows.shards | other.shards, rows.picked or other.picked)
    return rows


def _is_factor(v: Value, st: State) -> bool:
    return is_tensor(v, st) and is_bare(content_of(st, v))


def _scaled(
    it: Interpreter, op: str, a: Value, b: Value, st: State, site: Site | None
) -> tuple[Value, tuple[Segment, ...]] | None:
    """A tensor, and what it holds times (or divided by) something that no contribution is in; None when both have some."""
    pairs = ((a, b),) if op == "/" else ((a, b), (b, a))
    for tensor, factor in pairs:
        if not is_tensor(tensor, st):
            continue
        if isinstance(factor, Known) and isinstance(factor.value, (int, float)):
            number = float(factor.value)
            if op == "/":
                if number == 0:
                    return None
                number = 1 / number
            return tensor, tuple(Segment(s.width, s.content.times(number)) for s in read(st, tensor))
        token = _token(it, factor, st) if not _is_factor(tensor, st) else None
        token = token if token is not None else _gate(tensor, factor, st)
        if token is not None:
            token = token if op == "*" else f"1/{token}"
            return tensor, tuple(Segment(s.width, s.content.times(1, token)) for s in read(st, tensor))
    return None


def _token(it: Interpreter, factor: Value, st: State) -> str | None:
    """What names a factor: a number that does not change during a run, or a tensor without contributions, which has the name
    that the model has for it if there is one."""
    if isinstance(factor, Unknown) and factor.key is not None:
        return repr(factor.key)[-120:]
    if is_tensor(factor, st):
        content = content_of(st, factor)
        if is_bare(content):
            view, model = view_of(factor, st), it.config.tensors
            if view is not None and model is not None and view.storage in model.paths:
                return model.paths[view.storage]
            return str(content)[-120:]
    return None


def _gate(tensor: Value, factor: Value, st: State) -> str | None:
    """What names a column by which all others are multiplied, such as a gate: it is a factor, whatever it was made of."""
    wide, narrow = view_of(tensor, st), view_of(factor, st)
    if wide is None or narrow is None or narrow.width != Width(1) or wide.width in (None, Width(1)):
        return None
    content = content_of(st, factor)
    if content.lost is not None or content.pending:
        return None
    deps = "".join(sorted(leaves((content,)))).encode()
    return f"{' + '.join(sorted(str(t) for t in content.terms))[-120:]}#{zlib.crc32(deps):x}"


def added(it: Interpreter, a: Value, b: Value, st: State, site: Site | None, sign: float = 1) -> Ref:
    """``a + b``, ``a - b``; a number that is added adds nothing that has a name."""
    x, y = view_of(a, st), view_of(b, st)
    main = a if x is not None and (y is None or x.width is not None or y.width is None) else b
    view = view_of(main, st)
    assert view is not None
    segments = _sum(a, b, st, site, sign)
    width = joined_columns(segments) if view.width is None else view.width
    return make(it, st, segments, width, _rows(a, b, st), view.dims, site)


def _sum(a: Value, b: Value, st: State, site: Site | None, sign: float) -> tuple[Segment, ...]:
    x, y = view_of(a, st), view_of(b, st)
    if x is None or y is None:
        tensor, other = (a, b) if x is not None else (b, a)
        parts = read(st, tensor)
        if x is None and sign < 0:
            parts = tuple(Segment(s.width, s.content.times(-1)) for s in parts)
        if isinstance(other, Known) and other.value == 0:
            return parts
        lost = Content(frozenset((Term(Opaque("number", site_text(site))),)))
        if not isinstance(other, Known):
            lost = Content(lost=f"something unknown is added at {site_text(site)}")
        return tuple(Segment(s.width, s.content.plus(lost)) for s in parts)
    left, right = read(st, a), read(st, b)
    if x.width is not None and y.width is not None and x.width != y.width and Width(1) not in (x.width, y.width):
        both = Content(frozenset((Term(Opaque("+", site_text(site), deps_of(st, (a, b)))),)))
        return (Segment(x.width, both),)
    if len(left) == 1 and len(right) == 1:
        p, q = left[0], right[0]
        return (Segment(p.width if p.width is not None else q.width, p.content.plus(q.content, sign)),)
    pairs = _aligned(left, right)
    if pairs is not None:
        return tuple(Segment(width, p.plus(q, sign)) for width, p, q in pairs)
    return (Segment(x.width, content_of(st, a).plus(content_of(st, b), sign)),)


def _aligned(left: Sequence[Segment], right: Sequence[Segment]) -> list[tuple[Width | None, Content, Content]] | None:
    """Two rows of columns cut where either is cut; None where it is not known which cut comes first."""
    if len(left) == 1 or len(right) == 1:  # one content all over, or one column that is spread
        many, one = (left, right[0].content) if len(right) == 1 else (right, left[0].content)
        return [(s.width, s.content, one) if many is left else (s.width, one, s.content) for s in many]
    out: list[tuple[Width | None, Content, Content]] = []
    p, q = list(left), list(right)
    while p and q:
        first, second = p.pop(0), q.pop(0)
        if first.width is None or second.width is None:
            return None
        longer = (first.width - second.width).sign
        if longer is None:
            return None
        out.append((second.width if longer > 0 else first.width, first.content, second.content))
        if longer > 0:
            p.insert(0, Segment(first.width - second.width, first.content))
        elif longer < 0:
            q.insert(0, Segment(second.width - first.width, second.content))
    return out if not p and not q else None


def in_place(it: Interpreter, op: str, target: Ref, other: Value, st: State, site: Site | None) -> None:
    """``target op= other``: the storage is written, every alias sees it."""
    if op in ("+", "-"):
        write(it, st, target, _sum(target, other, st, site, 1 if op == "+" else -1), site)
        return
    scaled = _scaled(it, op, target, other, st, site) if op in ("*", "/") else None
    if scaled is not None and scaled[0] == target:
        write(it, st, target, scaled[1], site)
        return
    write(it, st, target, opaque(st, op, (target, other), site), site)


# --------------------------------------------------------------------------------------------------------------- views
def same(ref: Ref) -> Ref:
    """What gives back the tensor that it is given."""
    return ref


def cast(it: Interpreter, ref: Ref, st: State, site: Site | None) -> Ref:
    """A cast or a copy to a device: the same tensor where nothing changes, else a copy. Writes through it are weak."""
    return widened(it, st, ref, site, whole=False)


def reshaped(it: Interpreter, ref: Ref, dims: Sequence[Value] | None, st: State, site: Site | None) -> Ref:
    """``view`` and ``reshape``: another shape of the same storage."""
    view = view_of(ref, st)
    assert view is not None
    turned = view.folded().turned
    if dims is None or view.dims is None:
        return widened(it, st, ref, site, dims=None, turned=turned)
    wanted = list(dims)
    holes = [i for i, d in enumerate(wanted) if isinstance(d, Known) and d.value == -1]
    if len(holes) == 1:
        wanted[holes[0]] = _left_over(view, wanted, holes[0])
    return widened(it, st, ref, site, dims=tuple(wanted), turned=turned)


def exchanged(it: Interpreter, ref: Ref, name: str, axes: Sequence[Value], st: State, site: Site | None) -> Ref:
    """``transpose``, ``t`` and ``permute``: the same storage with its axes in another order. An axis of one element may go
    anywhere."""
    view = view_of(ref, st)
    assert view is not None
    numbers = [a.value for a in axes if isinstance(a, Known) and isinstance(a.value, int)]
    certain = len(numbers) == len(axes)
    ndim = len(view.dims) if view.dims is not None else None
    if ndim is not None:
        numbers = [n + ndim if n < 0 else n for n in numbers]
    key: object
    if name == "permute":
        moved = [n for n in numbers if view.dims is None or not 0 <= n < len(view.dims) or view.dims[n] != Known(1)]
        if certain and numbers and moved == sorted(moved) and min(numbers) >= 0:
            dims = tuple(view.dims[n] for n in numbers) if view.dims is not None and len(numbers) == ndim else None
            return widened(it, st, ref, site, dims=dims)
        size = len(numbers)
        undoes_itself = certain and all(0 <= n < size and numbers[n] == i for i, n in enumerate(numbers))
        key = ("permute", tuple(numbers)) if undoes_itself else None
    else:
        pair = numbers if numbers or name == "transpose" else [0, 1]
        if certain and len(pair) == 2 and view.dims is not None and ndim is not None and max(pair) < ndim:
            low, high = min(pair), max(pair)
            if low == high:
                return widened(it, st, ref, site)
            if low >= 0 and sum(d != Known(1) for d in view.dims[low : high + 1]) <= 1:
                swapped = list(view.dims)
                swapped[low], swapped[high] = swapped[high], swapped[low]
                return widened(it, st, ref, site, dims=tuple(swapped))
        key = ("exchange", frozenset(pair)) if certain and len(pair) == 2 else None
    place = site_text(site)
    turned = view.exchanged(key, place).turned
    return widened(it, st, ref, site, dims=None, turned=turned)


def _left_over(view: View, dims: list[Value], hole: int) -> Value:
    """What ``-1`` stands for in a shape."""
    assert view.dims is not None
    old, below = _factors(view.dims)
    new, above = _factors(d for i, d in enumerate(dims) if i != hole)
    old, new = old + above, new + below
    for d in list(new):
        if d in old:
            old.remove(d)
            new.remove(d)
    numbers = [d.value for d in old if isinstance(d, Known)]
    given = [d.value for d in new if isinstance(d, Known)]
    others = [d for d in old if not isinstance(d, Known)]
    if len(given) == len(new) and all(isinstance(n, int) for n in (*numbers, *given)):
        top, low = 1, 1
        for n in numbers:
            top *= n
        for n in given:
            low *= n
        if not others and low and top % low == 0:
            return Known(top // low)
        if len(others) == 1 and top == low:
            return others[0]
    return Unknown("a dimension", ("dimension", tuple(old), tuple(new)))


def _factors(dims: Iterable[Value]) -> tuple[list[Value], list[Value]]:
    """The factors of a number of elements, and what their product is to be divided by. Equal widths are equal factors."""
    up: list[Value] = []
    down: list[Value] = []
    for d in dims:
        key = d.key if isinstance(d, Unknown) else None
        if isinstance(key, tuple) and key[:1] == ("dimension",):
            up += key[1]
            down += key[2]
        elif d != Known(1):
            width = width_of(d)
            up.append(value_of(width) if width is not None else d)
    return up, down


def sliced(it: Interpreter, ref: Ref, bounds: Sequence[Value], st: State, site: Site | None, columns: bool) -> Ref:
    """``x[a:b]`` over rows, ``x[..., a:b]`` over columns: a view."""
    view = view_of(ref, st)
    assert view is not None
    low, high, step = (*bounds, NONE, NONE, NONE)[:3]
    if low in (NONE, Known(0)) and high == NONE and step in (NONE, Known(1)):
        return widened(it, st, ref, site)
    if not columns:
        rows = Rows(view.rows.shards, f"rows taken at {site_text(site)}")
        count: Value = high if low in (NONE, Known(0)) and isinstance(high, Unknown) else Unknown("a number of rows")
        if view.dims is not None and high == view.dims[0] and low in (NONE, Known(0)):
            return widened(it, st, ref, site)
        dims = (count, *view.dims[1:]) if view.dims else None
        return widened(it, st, ref, site, rows=rows, dims=dims, whole=False)
    ends = _columns(view, low, high)
    if ends is None or step not in (NONE, Known(1)) or (view.dims is not None and len(view.dims) > 2):
        return widened(it, st, ref, site, width=None, dims=None, whole=False)
    start, stop = ends
    width = stop - start
    dims = (*view.dims[:-1], value_of(width)) if view.dims else None
    return widened(it, st, ref, site, start=view.start + start, width=width, dims=dims)


def _columns(view: View, low: Value, high: Value) -> tuple[Width, Width] | None:
    start = Width() if low == NONE else width_of(low)
    stop = view.width if high == NONE else width_of(high)
    if view.width is not None:
        if start is not None and start.sign == -1:
            start = view.width + start
        if stop is not None and stop.sign == -1:
            stop = view.width + stop
        if stop is not None and (stop - view.width).sign == 1:
            stop = view.width
    if start is None or stop is None or start.sign == -1 or (stop - start).sign == -1:
        return None
    return start, stop


def picked(it: Interpreter, ref: Ref, st: State, site: Site | None, why: str = "rows picked") -> Ref:
    """A copy of some rows, chosen by an index that nobody follows."""
    view = view_of(ref, st)
    assert view is not None
    dims = (Unknown("a number of rows"), *view.dims[1:]) if view.dims else None
    return make(it, st, read(st, ref), view.width, Rows(view.rows.shards, f"{why} at {site_text(site)}"), dims, site)


def split(it: Interpreter, ref: Ref, sizes: Sequence[Width] | None, st: State, site: Site | None) -> list[Ref] | None:
    """Views of consecutive columns."""
    view = view_of(ref, st)
    assert view is not None
    if sizes is None or view.width is None:
        return None
    out: list[Ref] = []
    at = view.start
    for size in sizes:
        dims = (*view.dims[:-1], value_of(size)) if view.dims and len(view.dims) <= 2 else None
        out.append(widened(it, st, ref, None, start=at, width=size, dims=dims))
        at += size
    return out


def agreed(v: Value, st: State) -> Value:
    """One of several tensors that a value may be, where all read alike; for what copies them. Any other value is itself."""
    options = list(alternatives(v))
    views = [view_of(each, st) for each in options]
    if len(options) < 2 or views[0] is None:
        return v
    same = all(
        x is not None and (x.rows, x.dims, x.turned) == (views[0].rows, views[0].dims, views[0].turned) for x in views
    )
    return options[0] if same and all(read(st, each) == read(st, options[0]) for each in options[1:]) else v


def concatenated(it: Interpreter, parts: Sequence[Value], dim: Value, st: State, site: Site | None) -> Ref:
    """``torch.cat``: columns stand side by side; rows one below the other keep what all parts hold."""
    views = [view_of(p, st) for p in parts]
    if not views or any(v is None for v in views):
        return loose(it, st, "cat", parts, site)
    known = [v for v in views if v is not None]
    flat = all(v.dims is None or len(v.dims) == 2 for v in known)
    rows = known[0].rows
    for v in known[1:]:
        rows = rows.joined(v.rows)
    if dim == Known(-1) or (dim == Known(1) and flat):
        segments = [Segment(s.width, s.content) for p in parts for s in read(st, p)]
        width = joined_columns(segments)
        first = known[0].dims
        dims = (*first[:-1], value_of(width, "the width of a concatenation")) if first else None
        return make(it, st, segments, width, rows, dims, site)
    whole = content_of(st, parts[0])
    for p in parts[1:]:
        whole = whole.joined(content_of(st, p))
    if whole.lost is not None:
        whole = opaque(st, "cat of rows", parts, site)
    dims = (Unknown("a number of rows"), *known[0].dims[1:]) if known[0].dims else None
    below = rows if len(known) == 1 else Rows(rows.shards, f"rows put together at {site_text(site)}")
    return make(it, st, whole, known[0].width, below, dims, site)


# ---------------------------------------------------------------------------------------------------------- subscripts
def taken(it: Interpreter, ref: Ref, key: Value, st: State, site: Site | None) -> Value:
    """``x[key]`` for one key or a tuple of them."""
    if isinstance(key, Slice):
        return sliced(it, ref, key.bounds, st, site, columns=False)
    parts = key.items if isinstance(key, TupleV) else (key,)
    if parts and all(p in (NONE, Known(...)) or _is_all(p) for p in parts):
        return widened(it, st, ref, site, dims=None) if NONE in parts else ref
    if len(parts) >= 2 and isinstance(parts[-1], Slice) and all(p == Known(...) or _is_all(p) for p in parts[:-1]):
        return sliced(it, ref, parts[-1].bounds, st, site, columns=True)
    if len(parts) >= 2 and isinstance(parts[0], Slice) and all(p == Known(...) or _is_all(p) for p in parts[1:]):
        return sliced(it, ref, parts[0].bounds, st, site, columns=False)
    if len(parts) == 1 and (is_tensor(key, st) or isinstance(key, Unknown)):
        return picked(it, ref, st, site)
    view = view_of(ref, st)
    assert view is not None
    return widened(
        it,
        st,
        ref,
        site,
        width=None,
        dims=None,
        whole=False,
        rows=Rows(view.rows.shards, f"a part, taken at {site_text(site)}"),
    )


def _is_all(v: Value) -> bool:
    return isinstance(v, Slice) and all(b == NONE for b in v.bounds)


def assigned(it: Interpreter, ref: Ref, key: Value, value: Value, st: State, site: Site | None) -> None:
    """``x[key] = value``."""
    target = taken(it, ref, key, st, site)
    view, whole = view_of(target, st), view_of(ref, st)
    assert whole is not None
    assert isinstance(target, Ref)
    if view is None or view.storage != whole.storage:
        target = widened(it, st, ref, site, whole=False)
    write(it, st, target, stored(value, st, site), site)


def stored(value: Value, st: State, site: Site | None) -> Content | tuple[Segment, ...]:
    """What a tensor holds after ``value`` was stored in it."""
    if is_tensor(value, st):
        return read(st, value)
    if isinstance(value, Known):
        return NOTHING if value.value == 0 else Content(frozenset((Term(Opaque("number", site_text(site))),)))
    return Content(lost=f"something unknown is stored at {site_text(site)}")
