"""Contracts: what a function or a module that is not entered does to tensors. Kinds only; whose they are, ``rules/`` says.

A contract of a function sees its arguments as they were given. A contract of a class is that of its ``forward``: instances
are made without running ``__init__``, and hold the constructor's arguments.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowcheck.interp import tensor_ops
from flowcheck.interp.contents import (
    Content,
    Normed,
    Opaque,
    Rows,
    Segment,
    Term,
    Width,
    leaves,
    named,
    value_of,
    width_of,
)
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.tensors import (
    is_tensor,
    like,
    make,
    opaque,
    put,
    read,
    site_text,
    tensors_in,
    view_of,
    widened,
    write,
)
from flowcheck.interp.trails import Site
from flowcheck.interp.values import NONE, Known, Ref, TupleV, Unknown, Value, alternatives

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame
    from flowcheck.syntax import ir

__all__ = ["KINDS", "MIXED", "Call", "Contract", "apply"]

MIXED = "rows of different replicas are summed"
"""Why a sum over ranks says nothing where these serve different requests."""


@dataclass(frozen=True, slots=True)
class Contract:
    """One contract: its kind and what the kind has to know.

    ``inputs``: places or names of the tensors that it takes, in the order of the kind. ``width``: the attribute of the
    module that says how wide the result is (or several, the first that is known), or a factor. ``group``: the ranks over
    which a result is partial or reduced. ``complete``: attributes (or arguments) of which one that is true says that the
    module reduces its result itself. ``split``: two attributes that differ where the module takes a part of the columns,
    and ``parts`` the one that says of how many parts where the sizes do not.
    ``value``: what it returns. ``module``: the argument that is the module, where it is not the object whose method is
    called. ``overwrites``: it may write its result into its input. ``sums``: where it sums its result over the ranks itself,
    the attribute of an instance that says over how many; its own body is asked whether it does.
    """

    kind: str
    inputs: tuple[int | str, ...] = (0,)
    width: str | float | None = None
    group: str | None = None
    complete: tuple[str, ...] = ()
    split: tuple[str, str] | None = None
    parts: str = ""
    name: str = ""
    value: Any = None
    returns: str = ""
    module: int | str | None = None
    overwrites: bool = False
    sums: str = ""


@dataclass(slots=True)
class Call:
    """A call of something that has a contract. ``module``: the object whose contract it is; ``path``: what it is named.

    ``sizes``: how many ranks a group has.
    """

    it: Interpreter
    st: State
    args: list[Value]
    keywords: dict[str, Value]
    names: tuple[str, ...]
    module: Value | None
    path: str
    site: Site | None
    sizes: Mapping[str, int] = field(default_factory=dict)
    node: ir.Node | None = None
    frame: Frame | None = None

    def argument(self, which: int | str) -> Value | None:
        """An argument by place or by name."""
        if isinstance(which, str):
            if which in self.keywords:
                return self.keywords[which]
            return self.args[self.names.index(which)] if which in self.names[: len(self.args)] else None
        if which < len(self.args):
            return self.args[which]
        return self.keywords.get(self.names[which]) if which < len(self.names) else None

    def attribute(self, name: str) -> Value | None:
        """An attribute of the module, without running code."""
        for x in alternatives(self.module) if self.module is not None else ():
            obj = self.st.get(x.oid) if isinstance(x, Ref) else None
            if obj is not None and name in obj.attrs:
                return obj.attrs[name]
        return None

    def tensor(self, which: int | str) -> Ref | None:
        """An argument that is certainly a tensor."""
        v = self.argument(which)
        return v if isinstance(v, Ref) and is_tensor(v, self.st) else None

    def everything(self) -> list[Value]:
        """All arguments."""
        return [*self.args, *self.keywords.values()]


Kind = Callable[[Contract, Call], "Value | None"]
EVERYBODYS_ROWS = "rows of all replicas"


def apply(contract: Contract, call: Call) -> Value | None:
    """What the call gives; None when the contract cannot be applied to these arguments."""
    return KINDS[contract.kind](contract, call)


# ------------------------------------------------------------------------------------------------------------- helpers
def _norm(content: Content, by: str) -> Content:
    return Content(frozenset((Term(Normed(by, content)),)))


def _normed(c: Call, ref: Ref, by: str) -> tuple[Segment, ...]:
    return tuple(Segment(s.width, _norm(s.content, by)) for s in read(c.st, ref))


def _width(k: Contract, c: Call, main: Ref | None) -> Width | None:
    if isinstance(k.width, str):
        return next((w for name in k.width.split("|") if (w := width_of(c.attribute(name))) is not None), None)
    view = view_of(main, c.st) if main is not None else None
    if view is None or view.width is None or k.width is None:
        return view.width if view is not None else None
    number = view.width.number
    scaled = number * k.width if number is not None else None
    return Width(int(scaled)) if scaled is not None and scaled == int(scaled) else None


def _owes(k: Contract, c: Call) -> str | bool | None:
    """The group over which the result is one rank's part of a sum; False for none, None when that is not known."""
    if k.group is None:
        return False
    answers: list[bool | None] = []
    for name in k.complete:
        v = c.argument(name) if c.argument(name) is not None else c.attribute(name)
        if v is not None:
            options = {bool(x.value) if isinstance(x, Known) else None for x in alternatives(v)}
            answers.append(options.pop() if len(options) == 1 else None)
    if True in answers:
        return False
    if None in answers:
        return None
    groups = k.group.split("|")
    if k.split is None:
        return groups[0] if c.sizes.get(groups[0]) != 1 else False
    sizes = tuple(c.attribute(n) for n in k.split)
    parts = _parts(*sizes)
    if parts is None and k.parts and None not in sizes:
        said = c.attribute(k.parts)
        parts = said.value if isinstance(said, Known) else None
    return False if parts == 1 else next((g for g in groups if parts is not None and c.sizes.get(g) == parts), None)


def _parts(whole: Value | None, part: Value | None) -> float | None:
    """Of how many parts a size is one; None when that is not known. What nobody knows may be a part of what nobody knows: it
    is, where it was divided."""
    if whole is None or part is None:
        return None
    sizes, parts = alternatives(whole), alternatives(part)
    answers = {_divided(x, y) for x, y in zip(sizes, parts, strict=False)} if len(sizes) == len(parts) else {None}
    return answers.pop() if len(answers) == 1 else None


def _divided(whole: Value, part: Value) -> float | None:
    if whole == part and not (isinstance(whole, Unknown) and whole.key is None):
        return 1  # two things of which nobody knows what they are may be different ones
    if isinstance(whole, Known) and isinstance(part, Known):
        return float(whole.value / part.value) if part.value else None
    if isinstance(whole, Unknown) and isinstance(part, Unknown) and isinstance(part.key, tuple) and len(part.key) == 4:
        kind, op, of, by = part.key
        if (kind, op, of) == ("op", "//", whole.key) and isinstance(by, tuple) and by[0] == "lit":
            return float(by[1])
    return None


def _contribution(k: Contract, c: Call) -> Content:
    path = c.path + (f".{k.name}" if k.name else "")
    group = _owes(k, c)
    model = c.it.config.tensors
    if k.sums and group is False and model is not None:
        group = model.owed(k, c)
    if group is None:
        return Content(frozenset(named(path).terms), f"whether {path} reduces its result is not known")
    return named(path, *((str(group),) if group else ()))


def _main(k: Contract, c: Call) -> Ref | None:
    for which in k.inputs:
        found = c.tensor(which)
        if found is not None:
            return found
    found_all = tensors_in(c.everything(), c.st, 1)
    return found_all[0] if found_all else None


# --------------------------------------------------------------------------------------------------------------- kinds
def _module(k: Contract, c: Call) -> Value | None:
    """A module that adds one contribution: attention, experts, a linear layer, an embedding."""
    main = _main(k, c)
    view = view_of(main, c.st) if main is not None else None
    width = _width(k, c, main)
    rows = view.rows if view is not None else Rows()
    count: Value = view.dims[0] if view is not None and view.dims else tensor_ops.ROWS
    dims = (count, value_of(width, f"the width of {c.path}"))
    added = _contribution(k, c)
    made = make(c.it, c.st, added, width, rows, dims, c.site)
    if k.overwrites and main is not None:
        write(c.it, c.st, widened(c.it, c.st, main, None, whole=False), added, c.site)
    return TupleV([made, NONE]) if k.returns == "pair" else made


def _norm_of(k: Contract, c: Call) -> Value | None:
    x = c.tensor(k.inputs[0])
    if x is None:
        return None
    segments = _normed(c, x, c.path)
    out = c.tensor("out")
    if out is not None:
        write(c.it, c.st, out, segments, c.site)
        return out
    return like(c.it, c.st, x, segments, c.site)


def _add_norm_in_place(k: Contract, c: Call) -> Value | None:
    x, residual = c.tensor(k.inputs[0]), c.tensor(k.inputs[1])
    if x is None or residual is None:
        return None
    total = tensor_ops.added(c.it, x, residual, c.st, c.site)
    write(c.it, c.st, residual, read(c.st, total), c.site)
    write(c.it, c.st, x, _normed(c, total, c.path), c.site)
    return NONE


def _add_norm(k: Contract, c: Call) -> Value | None:
    """Gives the norm and the sum as new tensors; with a group, the first input is summed over its ranks before."""
    x, residual = c.tensor(k.inputs[0]), c.tensor(k.inputs[1])
    if x is None or residual is None:
        return None
    first: Value = x
    if k.group is not None:
        first = like(c.it, c.st, x, _reduced(k, c, x), c.site)
    total = tensor_ops.added(c.it, first, residual, c.st, c.site)
    return TupleV([like(c.it, c.st, x, _normed(c, total, c.path), c.site), total])


def _norm_add(k: Contract, c: Call) -> Value | None:
    """The norm of the first inputs, plus the last one, times the argument that the contract names. Of several first inputs
    the norms are added, and the sum has a norm of its own."""
    *parts, residual = (c.tensor(which) for which in k.inputs)
    scalar = c.argument(str(k.value))
    if residual is None or scalar is None:
        return None
    normed: Ref | None = None
    for i, x in enumerate(parts):
        if x is None:
            return None
        part = like(c.it, c.st, x, _normed(c, x, f"{c.path}.{i}" if len(parts) > 1 else c.path), c.site)
        normed = part if normed is None else tensor_ops.added(c.it, normed, part, c.st, c.site)
    if normed is None:
        return None
    if len(parts) > 1:
        normed = like(c.it, c.st, normed, _normed(c, normed, c.path), c.site)
    return tensor_ops.binary(c.it, "*", tensor_ops.added(c.it, normed, residual, c.st, c.site), scalar, c.st, c.site)


def _add_gated(k: Contract, c: Call) -> Value | None:
    """Adds one input, times a gate that is made of the others, to what the last one holds, in place."""
    *sources, gated, out = (c.tensor(which) for which in k.inputs)
    if gated is None or out is None or None in sources:
        return None
    made = opaque(c.st, c.path, [x for x in sources if x is not None], c.site)
    gate = f"{c.path}#{zlib.crc32(''.join(sorted(leaves((made,)))).encode()):x}"
    scaled = tuple(Segment(s.width, s.content.times(1, gate)) for s in read(c.st, gated))
    tensor_ops.in_place(c.it, "+", out, like(c.it, c.st, gated, scaled, c.site), c.st, c.site)
    return NONE


def _reduced(k: Contract, c: Call, ref: Ref) -> tuple[Segment, ...]:
    assert k.group is not None
    view = view_of(ref, c.st)
    if k.group == "tp" and c.sizes.get("attn_dp", 1) > 1 and view is not None and view.rows.picked != EVERYBODYS_ROWS:
        lost = Content(lost=f"{MIXED} at {site_text(c.site)}")
        return tuple(Segment(s.width, lost) for s in read(c.st, ref))
    if view is not None and (k.group in view.rows.shards or (k.group == "tp" and view.rows.shards)):
        lost = Content(lost=f"each rank's own rows are summed at {site_text(c.site)}")
        return tuple(Segment(s.width, lost) for s in read(c.st, ref))
    return tuple(Segment(s.width, s.content.reduced(k.group, c.sizes.get(k.group))) for s in read(c.st, ref))


def _all_reduce(k: Contract, c: Call) -> Value | None:
    """The sum over a group. It may be made in place, so that nothing is certain of the input but what it has in common."""
    x = c.tensor(k.inputs[0])
    if x is None:
        return None
    segments = _reduced(k, c, x)
    made = like(c.it, c.st, x, segments, c.site)
    before = read(c.st, x)
    if before != segments:
        pairs = zip(before, segments, strict=True)
        write(c.it, c.st, x, tuple(Segment(a.width, a.content.joined(b.content)) for a, b in pairs), c.site)
    return made


def _shape(dims: tuple[Value, ...] | None, rows: Value) -> tuple[Value, ...] | None:
    return (rows, *dims[1:]) if dims else None


def _reduce_scatter(k: Contract, c: Call) -> Value | None:
    """Writes each rank's share of the rows of the sum into the output."""
    out, x = c.tensor(k.inputs[0]), c.tensor(k.inputs[1])
    if out is None or x is None or k.group is None:
        return None
    view = view_of(x, c.st)
    assert view is not None
    if c.sizes.get(k.group) == 1:
        put(c.it, c.st, out, read(c.st, x), view.rows, view.dims, c.site)
        return NONE
    rows = Rows(view.rows.shards | {k.group}, view.rows.picked)
    put(c.it, c.st, out, _reduced(k, c, x), rows, _shape(view.dims, tensor_ops.SHARE), c.site)
    return NONE


def _gathered(k: Contract, c: Call, x: Ref) -> tuple[Rows, tuple[Value, ...] | None]:
    """The rows and the shape of what the ranks of a group hold together."""
    view = view_of(x, c.st)
    assert view is not None
    assert k.group is not None
    if c.sizes.get(k.group) == 1:
        return view.rows, view.dims
    if k.group == "tp" and "attn_tp" in view.rows.shards:  # the shares of all replicas
        dims = _shape(view.dims, tensor_ops.EVERYBODYS)
        return Rows(view.rows.shards - {"attn_tp"}, EVERYBODYS_ROWS), dims
    if k.group not in view.rows.shards:  # what is no share is repeated
        why = f"rows of all ranks of {k.group}"
        return Rows(view.rows.shards, why), _shape(view.dims, Unknown(why, ("gathered", k.group)))
    rows = Rows(view.rows.shards - {k.group}, view.rows.picked)
    return rows, _shape(view.dims, tensor_ops.SHARE if rows.shards else tensor_ops.ROWS)


def _all_gather(k: Contract, c: Call) -> Value | None:
    """Writes the rows of all ranks of a group into the output, below each other."""
    out, x = c.tensor(k.inputs[0]), c.tensor(k.inputs[1])
    if out is None or x is None or k.group is None:
        return None
    put(c.it, c.st, out, read(c.st, x), *_gathered(k, c, x), c.site)
    return NONE


def _all_gathered(k: Contract, c: Call) -> Value | None:
    """Gives the rows of all ranks of a group as a new tensor; along another dimension it gives columns."""
    x = c.tensor(k.inputs[0])
    if x is None or k.group is None:
        return None
    dim = c.argument("dim")
    if (dim if dim is not None or len(c.args) < 2 or c.names else c.args[1]) != Known(0):
        return tensor_ops.loose(c.it, c.st, k.name or c.path, c.everything(), c.site)
    view = view_of(x, c.st)
    assert view is not None
    return make(c.it, c.st, read(c.st, x), view.width, *_gathered(k, c, x), c.site)


def _replicas_gather(k: Contract, c: Call) -> Value | None:
    """Writes the rows of all replicas into the output; with a group, the parts of its ranks are summed."""
    out, x = c.tensor(k.inputs[0]), c.tensor(k.inputs[1])
    view = view_of(x, c.st) if x is not None else None
    if out is None or x is None or view is None:
        return None
    segments = _reduced(k, c, x) if k.group is not None else read(c.st, x)
    dims = _shape(view.dims, tensor_ops.EVERYBODYS)
    put(c.it, c.st, out, segments, Rows(view.rows.shards, EVERYBODYS_ROWS), dims, c.site)
    return NONE


def _replicas_scatter(k: Contract, c: Call) -> Value | None:
    """Writes the rows of one's own replica into the output; with a group, the parts of its ranks are summed."""
    out, x = c.tensor(k.inputs[0]), c.tensor(k.inputs[1])
    view = view_of(x, c.st) if x is not None else None
    if out is None or x is None or view is None:
        return None
    segments = _reduced(k, c, x) if k.group is not None else read(c.st, x)
    put(c.it, c.st, out, segments, Rows(view.rows.shards), _shape(view.dims, tensor_ops.ROWS), c.site)
    return NONE


def _buffer(k: Contract, c: Call) -> Value | None:
    """A new tensor that nothing was written into, of as many rows as the batch has (or, with "all", all replicas')."""
    rows = tensor_ops.EVERYBODYS if k.value == "all" else tensor_ops.ROWS
    held = Content(frozenset((Term(Opaque("buffer", c.path)),)))
    return make(c.it, c.st, held, None, Rows(), (rows, Unknown("the width of a buffer")), c.site)


def _given(k: Contract, c: Call) -> Value | None:
    """Gives back what it was given: one argument, or several as a tuple."""
    out = [c.argument(which) for which in k.inputs]
    if any(v is None for v in out):
        return None
    values = [v for v in out if v is not None]
    return values[0] if len(values) == 1 else TupleV(values)


def _elementwise(k: Contract, c: Call) -> Value | None:
    x = _main(k, c)
    if x is None:
        return None
    view = view_of(x, c.st)
    assert view is not None
    width = _width(k, c, x)
    dims = (*view.dims[:-1], value_of(width)) if view.dims else None
    made = make(c.it, c.st, opaque(c.st, k.name or c.path, c.everything(), c.site), width, view.rows, dims, c.site)
    return TupleV([made, NONE]) if k.returns == "pair" else made


def _stream_count(k: Contract, c: Call) -> int | None:
    n = c.argument(k.inputs[1])
    return n.value if isinstance(n, Known) and type(n.value) is int and n.value > 0 else None


def _to_streams(k: Contract, c: Call) -> Value | None:
    """The columns of a tensor as often beside each other as there are streams."""
    x, n = c.tensor(k.inputs[0]), _stream_count(k, c)
    view = view_of(x, c.st) if x is not None else None
    if x is None or view is None or n is None:
        return None
    width = view.width * n if view.width is not None else None
    dims = (*view.dims[:-1], value_of(width)) if view.dims else None
    return make(c.it, c.st, read(c.st, x) * n, width, view.rows, dims, c.site)


def _from_streams(k: Contract, c: Call) -> Value | None:
    """What is computed from streams beside each other, row by row: ``returns`` names each part, "stream" for one as wide as a
    stream, "n" and "n*n" for factors of the streams and of pairs of them, "?" for what is not known."""
    x, n = c.tensor(k.inputs[0]), _stream_count(k, c)
    view = view_of(x, c.st) if x is not None else None
    if view is None or n is None:
        return None
    whole = view.width.number if view.width is not None else None
    stream = Width(whole // n) if whole is not None and whole % n == 0 else None
    widths = {"stream": stream, "n": Width(n), "n*n": Width(n * n)}
    made: list[Value] = []
    for name in k.returns.split():
        if name not in widths:
            made.append(Unknown(f"{c.path}(…)"))
            continue
        content = opaque(c.st, f"{c.path} {name}", c.everything(), c.site)
        dims = (*view.dims[:-1], value_of(widths[name], f"the width of {c.path}")) if view.dims else None
        made.append(make(c.it, c.st, content, widths[name], view.rows, dims, c.site))
    return made[0] if len(made) == 1 else TupleV(made)


def _constant(k: Contract, c: Call) -> Value | None:
    return k.value if isinstance(k.value, Value) else Known(k.value)


def _writes(k: Contract, c: Call) -> Value | None:
    """Reads all its arguments and writes those that are its inputs."""
    made = opaque(c.st, k.name or c.path, c.everything(), c.site)
    for which in k.inputs:
        target = c.tensor(which)
        if target is None:
            return None
        write(c.it, c.st, target, made, c.site)
    return NONE


def _unknown(k: Contract, c: Call) -> Value | None:
    """Reads its arguments and nothing else; what it gives is not known."""
    if tensors_in(c.everything(), c.st):
        return tensor_ops.loose(c.it, c.st, k.name or c.path, c.everything(), c.site)
    return Unknown(f"{k.name or c.path}(…)", ("asked", k.name) if k.name else None)


def _listed(k: Contract, c: Call) -> Value | None:
    """A list of what it is given to go over."""
    from flowcheck.interp.builtin_models import MODELS

    v = c.argument(k.inputs[0])
    return MODELS["list"](c.it, [v], {}, c.st, c.node, c.frame) if v is not None and c.frame is not None else None


def _alias(k: Contract, c: Call) -> Value | None:
    x = c.tensor(k.inputs[0])
    return widened(c.it, c.st, x, c.site) if x is not None else None


def _parameter(k: Contract, c: Call) -> Value | None:
    """Gives the module a parameter, of which nothing is known but that no contribution is in it."""
    for x in alternatives(c.module) if c.module is not None else ():
        obj = c.st.get(x.oid) if isinstance(x, Ref) else None
        if obj is not None and isinstance(x, Ref):
            held = Content(frozenset((Term(Opaque("parameter", str(k.value))),)))
            c.st.write(x.oid).attrs[str(k.value)] = make(c.it, c.st, held, None, Rows(), None, None)
    return NONE


def _maker(k: Contract, c: Call) -> Value | None:
    """Makes a module that is known by the contract of a class alone."""
    obj = Obj("torch module", attrs=dict(c.keywords), site=c.site)
    obj.items = list(c.args)
    obj.tag = k.value
    return Ref(c.st.new(obj))


KINDS: dict[str, Kind] = {
    "module": _module,
    "norm": _norm_of,
    "add-norm": _add_norm,
    "norm-add": _norm_add,
    "add-norm-in-place": _add_norm_in_place,
    "add-gated": _add_gated,
    "all-reduce": _all_reduce,
    "reduce-scatter": _reduce_scatter,
    "all-gather": _all_gather,
    "all-gathered": _all_gathered,
    "replicas-gather": _replicas_gather,
    "replicas-scatter": _replicas_scatter,
    "buffer": _buffer,
    "given": _given,
    "alias": _alias,
    "listed": _listed,
    "maker": _maker,
    "parameter": _parameter,
    "elementwise": _elementwise,
    "writes": _writes,
    "constant": _constant,
    "to-streams": _to_streams,
    "from-streams": _from_streams,
    "unknown": _unknown,
}
