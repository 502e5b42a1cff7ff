"""PyTorch's functions on tensors and the methods of tensors, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flowcheck.interp import operators, tensor_ops
from flowcheck.interp.contents import NOTHING, Content, Opaque, Rows, Term, Width, value_of, width_of
from flowcheck.interp.heap import State
from flowcheck.interp.tensors import (
    content_of,
    is_tensor,
    like,
    make,
    opaque,
    read,
    site_text,
    tensors_in,
    view_of,
    widened,
    write,
)
from flowcheck.interp.trails import Site
from flowcheck.interp.values import NONE, TRUE, ExternalV, Known, Ref, TupleV, Unknown, Value

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame
    from flowcheck.syntax import ir

__all__ = ["FUNCTIONS", "attribute", "function", "is_method", "method"]

Function = Callable[
    ["Interpreter", list[Value], dict[str, Value], State, "Site | None", "Frame", "ir.Node | None"], "Value | None"
]

SAME = frozenset({"detach", "requires_grad_", "pin_memory", "data", "cuda", "contiguous", "wait"})
"""Gives the tensor itself. What is on the device stays there; streams of hidden states are contiguous."""
CASTS = frozenset({"to", "float", "half", "bfloat16", "type", "type_as", "int", "long", "cpu", "double", "bool"})
SHAPED = frozenset({"view", "reshape"})
FOLDED = frozenset(
    {
        "squeeze",
        "unsqueeze",
        "flatten",
        "unflatten",
        "view_as",
        "reshape_as",
        "expand",
        "expand_as",
    }
)
TURNED = frozenset({"permute", "transpose", "t"})
ARITHMETIC = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "true_divide": "/", "multiply": "*", "subtract": "-", "matmul": "@",
    "mm": "@", "bmm": "@",
}  # fmt: skip
NUMBERS = frozenset({"item", "tolist", "numel", "stride", "storage_offset", "data_ptr", "element_size", "nbytes"})
BLANK = frozenset({"empty", "zeros", "empty_strided", "zeros_like", "empty_like", "new_empty", "new_zeros"})
ROW_PICKS = frozenset({"index_select", "gather", "masked_select", "take_along_dim"})
MADE = frozenset(
    {
        "ones",
        "full",
        "arange",
        "tensor",
        "rand",
        "randn",
        "ones_like",
        "full_like",
        "new_ones",
        "new_full",
        "as_tensor",
        "linspace",
        "eye",
    }
)


def is_method(name: str) -> bool:
    """Whether PyTorch's tensors certainly have a method of this name."""
    return name in METHODS


# ---------------------------------------------------------------------------------------------------------- attributes
def attribute(it: Interpreter, ref: Ref, name: str, st: State, site: Site | None) -> Value | None:
    """``x.name`` of PyTorch's own; None when it is a method or nothing of a tensor's."""
    view = view_of(ref, st)
    assert view is not None
    if name == "shape":
        return TupleV(view.dims) if view.dims is not None else Unknown("the shape of a tensor")
    if name == "dtype" and view.whole:
        return ExternalV("torch.bfloat16")  # that of activations and weights; what is cast has another
    if name in ("dtype", "device", "layout"):
        return Unknown(f"a {name}", ("tensor", name))
    if name == "ndim":
        return Known(len(view.dims)) if view.dims is not None else Unknown("a number of dimensions")
    if name == "data":
        return ref
    if name in ("T", "mT"):
        turned = view.exchanged(("exchange", frozenset((0, 1))), site_text(site)).turned
        return widened(it, st, ref, site, dims=None, width=None, whole=False, turned=turned)
    if name == "grad":
        return NONE
    return None


# ------------------------------------------------------------------------------------------------------------- methods
def method(
    it: Interpreter,
    ref: Ref,
    name: str,
    args: list[Value],
    kw: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
) -> Value:
    """``x.name(…)``."""
    site = fr.site(node) if node is not None else None
    view = view_of(ref, st)
    assert view is not None
    if name in SAME:
        return ref
    if name == "clone":
        return like(it, st, ref, read(st, ref), site)
    if name in CASTS:
        return tensor_ops.cast(it, ref, st, site)
    if name in SHAPED:
        return tensor_ops.reshaped(it, ref, _dims(it, args, st, fr, node), st, site)
    if name in FOLDED:
        return widened(it, st, ref, site, dims=None, turned=view.folded().turned)
    if name in TURNED:
        axes = _dims(it, args, st, fr, node) if name == "permute" else [*args, *kw.values()]
        return tensor_ops.exchanged(it, ref, name, axes if axes is not None else [Unknown("axes")], st, site)
    if name == "size":
        return _size(view.dims, args)
    if name == "dim":
        return Known(len(view.dims)) if view.dims is not None else Unknown("a number of dimensions")
    if name == "numel":
        return _numel(it, view.dims)
    if name in NUMBERS:
        return Unknown(f"{name} of a tensor")
    if name in ("is_contiguous", "is_floating_point"):
        return Unknown(name, ("tensor", name))
    if name == "copy_" and args:
        write(it, st, ref, tensor_ops.stored(args[0], st, site), site)
        return ref
    if name in ("zero_", "fill_"):
        value = Known(0) if name == "zero_" else args[0] if args else Unknown("a number")
        write(it, st, ref, tensor_ops.stored(value, st, site), site)
        return ref
    if name.endswith("_") and not name.startswith("_"):
        _written(it, ref, name[:-1], args, kw, st, site)
        return ref
    if name in ("__setitem__",) and len(args) == 2:
        tensor_ops.assigned(it, ref, args[0], args[1], st, site)
        return NONE
    found = function(it, name, [ref, *args], kw, st, fr, node)
    return found if found is not None else Unknown(f"x.{name}(…)")


def _numel(it: Interpreter, dims: tuple[Value, ...] | None) -> Value:
    """How many elements: a number where the batch has a number of rows (see ``Interpreter.forced_facts``)."""
    total = 1
    for d in dims if dims is not None else (NONE,):
        number = (
            it.forced_facts.get(("value", d.key))
            if isinstance(d, Unknown)
            else d.value
            if isinstance(d, Known)
            else None
        )
        if not isinstance(number, int):
            return Unknown("numel of a tensor", ("tensor", "numel", dims) if dims else None)
        total *= number
    return Known(total)


def _size(dims: tuple[Value, ...] | None, args: list[Value]) -> Value:
    if dims is None:
        return Unknown("the shape of a tensor")
    if not args:
        return TupleV(dims)
    n = args[0]
    if isinstance(n, Known) and isinstance(n.value, int) and -len(dims) <= n.value < len(dims):
        return dims[n.value]
    return Unknown("a dimension")


def _written(
    it: Interpreter, ref: Ref, op: str, args: list[Value], kw: dict[str, Value], st: State, site: Site | None
) -> None:
    sign = ARITHMETIC.get(op)
    if sign in ("+", "-") and len(args) == 1 and kw.keys() == {"alpha"} and is_tensor(args[0], st):
        scaled = tensor_ops.binary(it, "*", args[0], kw["alpha"], st, site)
        tensor_ops.in_place(it, sign, ref, scaled, st, site)
        return
    if sign is not None and sign != "@" and len(args) == 1 and not kw and args[0] != NONE:
        tensor_ops.in_place(it, sign, ref, args[0], st, site)
        return
    if (
        op == "masked_fill"
        and len(args) == 2
        and args[1] == Known(0)
        and tensor_ops.is_bare(content_of(st, args[0]) if is_tensor(args[0], st) else NOTHING)
    ):
        token = f"mask@{site_text(site)}"
        write(it, st, ref, content_of(st, ref).times(1, token), site)
        return
    write(it, st, ref, opaque(st, op + "_", [ref, *args, *kw.values()], site), site)


def _dims(it: Interpreter, args: Sequence[Value], st: State, fr: Frame, node: ir.Node | None) -> list[Value] | None:
    """A shape that is given as a tuple, a list, or as several arguments."""
    if len(args) == 1 and not isinstance(args[0], (Known, Unknown)):
        return operators.iterate(it, args[0], fr, st, node)
    return list(args) if args and all(isinstance(a, (Known, Unknown)) for a in args) else None


# ----------------------------------------------------------------------------------------------------------- functions
def function(
    it: Interpreter, name: str, args: list[Value], kw: dict[str, Value], st: State, fr: Frame, node: ir.Node | None
) -> Value | None:
    """``torch.name(…)``; None when it has nothing to do with tensors, as far as anybody knows."""
    site = fr.site(node) if node is not None else None
    model = FUNCTIONS.get(name)
    made: Value | None = None
    target = args[0] if args else None
    if isinstance(target, Ref) and is_tensor(target, st) and (name.endswith("_") or kw.get("inplace", NONE) == TRUE):
        _written(it, target, name.rstrip("_"), args[1:], {k: v for k, v in kw.items() if k != "inplace"}, st, site)
        return target
    if model is not None:
        made = model(it, args, kw, st, site, fr, node)
    elif name in ARITHMETIC and len(args) >= 2 and NONE not in args[:2] and any(is_tensor(a, st) for a in args[:2]):
        made = tensor_ops.binary(it, ARITHMETIC[name], args[0], args[1], st, site)
    elif name in ("clone", "contiguous") and args and isinstance(args[0], Ref) and is_tensor(args[0], st):
        made = like(it, st, args[0], read(st, args[0]), site)
    elif name in ROW_PICKS and args and isinstance(args[0], Ref) and is_tensor(args[0], st):
        made = tensor_ops.picked(it, args[0], st, site, name)
    elif name in BLANK or name in MADE:
        made = _blank(it, name, args, kw, st, site, fr, node)
    elif tensors_in([*args, *kw.values()], st):
        made = _elementwise(it, name, args, kw, st, site)
    out = kw.get("out")
    if isinstance(out, Ref) and is_tensor(out, st):
        write(
            it,
            st,
            out,
            read(st, made)
            if made is not None and is_tensor(made, st)
            else opaque(st, name, [*args, *kw.values()], site),
            site,
        )
        return out
    return made


def _elementwise(
    it: Interpreter, name: str, args: list[Value], kw: dict[str, Value], st: State, site: Site | None
) -> Value:
    """An operation without a model: of all that it is given, with the shape of its first input where it keeps shapes."""
    first = next((a for a in args if is_tensor(a, st)), None)
    content = opaque(st, name, [*args, *kw.values()], site)
    if first is not None and name in KEEPS_SHAPE:
        return like(it, st, first, content, site)
    view = view_of(first, st) if first is not None else None
    return make(it, st, content, None, view.rows if view is not None else Rows(), None, site)


KEEPS_SHAPE = frozenset(
    {
        "sigmoid", "silu", "gelu", "relu", "tanh", "softmax", "exp", "rsqrt", "sqrt", "pow", "clamp", "abs", "neg", "where",
        "masked_fill", "cumsum", "square", "softplus", "log", "round", "dropout", "layer_norm", "rms_norm",
    }
)  # fmt: skip


def _blank(
    it: Interpreter,
    name: str,
    args: list[Value],
    kw: dict[str, Value],
    st: State,
    site: Site | None,
    fr: Frame,
    node: ir.Node | None,
) -> Value:
    zero = "zeros" in name
    content = NOTHING if zero else Content(frozenset((Term(Opaque(name, site_text(site))),)))
    if name.endswith("_like"):
        source = args[0] if args else NONE
        if isinstance(source, Ref) and is_tensor(source, st):
            return like(it, st, source, content, site)
        return make(it, st, content, None, Rows(), None, site)
    if name in ("tensor", "as_tensor", "arange", "linspace", "eye"):
        return make(it, st, content, None, Rows(), None, site)
    given = args[1:] if name.startswith("new_") else args
    if not given and "size" in kw:
        given = [kw["size"]]
    if name in ("full", "new_full", "empty_strided"):
        given = given[:1]
    dims = _dims(it, given, st, fr, node)
    width = width_of(dims[-1]) if dims else None
    return make(it, st, content, width, Rows(), tuple(dims) if dims is not None else None, site)


def _cat(
    it: Interpreter, a: list[Value], kw: dict[str, Value], st: State, site: Site | None, fr: Frame, node: ir.Node | None
) -> Value | None:
    source = a[0] if a else kw.get("tensors", NONE)
    parts = operators.iterate(it, source, fr, st, node)
    dim = a[1] if len(a) > 1 else kw.get("dim", Known(0))
    parts = [tensor_ops.agreed(p, st) for p in parts] if parts is not None else None
    if not parts or not all(is_tensor(p, st) for p in parts):
        return tensor_ops.loose(it, st, "cat", [source], site)
    return tensor_ops.concatenated(it, parts, dim, st, site)


def _split(
    it: Interpreter, a: list[Value], kw: dict[str, Value], st: State, site: Site | None, fr: Frame, node: ir.Node | None
) -> Value | None:
    ref = a[0]
    view = view_of(ref, st)
    if view is None or not isinstance(ref, Ref):
        return None
    given = a[1] if len(a) > 1 else kw.get("split_size_or_sections", kw.get("split_size", NONE))
    dim = a[2] if len(a) > 2 else kw.get("dim", Known(0))
    last = dim == Known(-1) or (view.dims is not None and dim == Known(len(view.dims) - 1) and len(view.dims) > 1)
    sizes = None
    if last and isinstance(given, (Known, Unknown)):
        size = width_of(given)
        if size is not None and view.width is not None:
            sizes = _equal_parts(view.width, size)
    elif last:
        items = operators.iterate(it, given, fr, st, node)
        widths = [width_of(x) for x in items] if items is not None else [None]
        sizes = [w for w in widths if w is not None] if None not in widths else None
    parts = tensor_ops.split(it, ref, sizes, st, site) if sizes is not None else None
    if parts is not None:
        return TupleV(parts)
    return _parts(it, ref, last, st, site, fr, given, node)


def _parts(
    it: Interpreter,
    ref: Ref,
    columns: bool,
    st: State,
    site: Site | None,
    fr: Frame,
    given: Value,
    node: ir.Node | None,
) -> Value:
    """Parts of which the sizes, or the number, are not known: each is some part of the tensor."""
    changes: dict[str, object] = {"dims": None, "whole": False}
    view = view_of(ref, st)
    assert view is not None
    if columns:
        changes["width"] = None
    else:
        changes["rows"] = Rows(view.rows.shards, f"rows split at {site_text(site)}")
    items = operators.iterate(it, given, fr, st, node) if not isinstance(given, (Known, Unknown)) else None
    if items is not None:
        return TupleV([widened(it, st, ref, None, **changes) for _ in items])
    made = it.new_list(st, None, site)
    st.write(made.oid).elements = widened(it, st, ref, None, **changes)
    return made


def _equal_parts(width: Width, size: Width) -> list[Width] | None:
    total, part = width.number, size.number
    if total is None or part is None or part <= 0 or total > 4096 * part:
        return [size] if width == size else None
    out = [Width(part)] * (total // part)
    return [*out, Width(total % part)] if total % part else out


def _chunk(
    it: Interpreter, a: list[Value], kw: dict[str, Value], st: State, site: Site | None, fr: Frame, node: ir.Node | None
) -> Value | None:
    ref = a[0]
    view = view_of(ref, st)
    n = a[1] if len(a) > 1 else kw.get("chunks", NONE)
    dim = a[2] if len(a) > 2 else kw.get("dim", Known(0))
    if view is None or not isinstance(ref, Ref) or not isinstance(n, Known) or not isinstance(n.value, int):
        return None
    last = dim == Known(-1) or (view.dims is not None and len(view.dims) > 1 and dim == Known(len(view.dims) - 1))
    number = view.width.number if view.width is not None else None
    if last and number is not None and n.value > 0:
        sizes = _equal_parts(Width(number), Width(-(-number // n.value)))
        parts = tensor_ops.split(it, ref, sizes, st, site)
        if parts is not None:
            return TupleV(parts)
    return _parts(it, ref, last, st, site, fr, TupleV([NONE] * min(n.value, 256)), node)


def _tensor_split(
    it: Interpreter, a: list[Value], kw: dict[str, Value], st: State, site: Site | None, fr: Frame, node: ir.Node | None
) -> Value | None:
    """``tensor_split`` over rows into one part per rank: each part is a shard of the rows."""
    ref = a[0]
    view = view_of(ref, st)
    if view is None or not isinstance(ref, Ref):
        return None
    parts = a[1] if len(a) > 1 else kw.get("indices_or_sections", NONE)
    if parts == Known(1):
        return TupleV([widened(it, st, ref, site)])
    sizes = it.config.tensors.ranks if it.config.tensors is not None else {}
    group = next((g for g, n in sizes.items() if parts == Known(n)), "a part of the ranks")
    rows = Rows(view.rows.shards | {group}, view.rows.picked)
    made = it.new_list(st, None, site)
    dims = (tensor_ops.SHARE, *view.dims[1:]) if view.dims else None
    st.write(made.oid).elements = widened(it, st, ref, None, rows=rows, dims=dims, whole=False)
    return made


def _unbind(
    it: Interpreter, a: list[Value], kw: dict[str, Value], st: State, site: Site | None, fr: Frame, node: ir.Node | None
) -> Value | None:
    ref = a[0]
    if not isinstance(ref, Ref) or not is_tensor(ref, st):
        return None
    return _parts(it, ref, True, st, site, fr, NONE, node)


def _is_tensor(
    it: Interpreter, a: list[Value], kw: dict[str, Value], st: State, site: Site | None, fr: Frame, node: ir.Node | None
) -> Value | None:
    if a and is_tensor(a[0], st):
        return TRUE
    return Known(False) if a and isinstance(a[0], (Known, TupleV)) else None


FUNCTIONS: dict[str, Function] = {
    "cat": _cat,
    "concat": _cat,
    "concatenate": _cat,
    "split": _split,
    "split_with_sizes": _split,
    "chunk": _chunk,
    "tensor_split": _tensor_split,
    "unbind": _unbind,
    "is_tensor": _is_tensor,
}

METHODS = frozenset(
    {
        "clone", "size", "dim", "is_contiguous", "is_floating_point", "copy_", "zero_", "fill_", "masked_fill_", "sum", "mean",
        "max", "min", "argmax", "topk", "any", "all", "repeat", "narrow", "repeat_interleave", "numel",
    }
    | SAME | CASTS | SHAPED | FOLDED | TURNED | NUMBERS | ROW_PICKS | KEEPS_SHAPE | set(FUNCTIONS)
    | set(ARITHMETIC) | {f"{n}_" for n in ARITHMETIC} | {f"{n}_" for n in KEEPS_SHAPE}
    | {n for n in BLANK | MADE if n.startswith("new_")}
)  # fmt: skip

_ = (ExternalV, value_of)
