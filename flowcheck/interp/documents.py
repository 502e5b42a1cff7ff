"""Objects whose attributes are the keys of a document, such as a model's configuration.

What the document writes is known. What it does not write, a class that lies outside the tree may give all the same: the
object says of which names that can be true, and whether reading any other name raises.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.values import NONE, BuiltinV, Known, PartialV, Ref, Unknown, Value, join

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame
    from flowcheck.syntax import ir

__all__ = ["GIVES", "Absent", "asked", "attribute", "dict_of", "document", "is_document", "paths_of"]

DEEPEST = 40
GIVES = "document.gives"
"""The builtin that gives its first argument, whatever else it is told: what a method of a document is made of."""


@dataclass(frozen=True)
class Absent:
    """What a document says of the names that it does not write.

    ``label`` is what people call the document. ``given``: names that a class outside the tree may define; ``defaults``: what
    such a class is known to give; ``methods``: what calling one of its methods gives. Any other name raises AttributeError
    when ``raises``; without, it is not known, for the reader knows that it is there.
    """

    label: str
    given: frozenset[str] = frozenset()
    raises: bool = True
    defaults: Mapping[str, Value] = field(default_factory=dict, compare=False)
    methods: Mapping[str, Value] = field(default_factory=dict, compare=False)


def document(
    label: str,
    attrs: dict[str, Value],
    given: frozenset[str] = frozenset(),
    raises: bool = True,
    defaults: Mapping[str, Value] | None = None,
) -> Obj:
    """An object of no class of the tree that has these attributes."""
    obj = Obj("document", attrs=attrs)
    obj.tag = Absent(label, given, raises, defaults or {})
    return obj


def is_document(obj: Obj) -> bool:
    """Whether the keys of a document are what the object has."""
    return isinstance(obj.tag, Absent)


def asked(it: Interpreter, oid: int, key: object, fr: Frame, node: ir.Node | None) -> None:
    """Tells whoever wants to know that a name of a document, or a key of a mapping, is read."""
    name = key.value if isinstance(key, Known) else key
    if it.config.on_key is not None and isinstance(name, str):
        it.config.on_key(it, oid, name, fr.site(node) if node is not None else None)


def attribute(
    it: Interpreter,
    oid: int,
    obj: Obj,
    name: str,
    fr: Frame,
    st: State,
    node: ir.Node | None,
    default: Value | None,
) -> Value:
    """What reading a name gives that the document does not write."""
    absent = obj.tag
    assert isinstance(absent, Absent)
    method = absent.methods.get(name)
    if method is not None:
        return PartialV(BuiltinV(GIVES), (method,), {})
    known = absent.defaults.get(name)
    if known is not None:
        if it.config.tensors is not None:
            it.config.tensors.absent.setdefault(name, True)
        return known
    missing = Unknown(f"{absent.label} does not write {name}", ("document", oid, name))
    given = name in absent.given or name.startswith("_")
    if it.config.tensors is not None:
        it.config.tensors.absent.setdefault(name, default is not None and not given)
    if default is not None:
        return join(default, missing) if given else default
    if given:
        it.may_raise(st, node, fr)
        return missing
    if absent.raises:
        it.throw("AttributeError", st, node, fr)
        raise Dead
    return missing


def dict_of(it: Interpreter, st: State, value: object, depth: int = 0) -> Value:
    """A value of JSON as Python reads it."""
    if depth > DEEPEST:
        return Unknown("what is nested deeper than anything that is read")
    if isinstance(value, dict):
        items: dict[Hashable, tuple[Value, Value]] = {
            ("k", k): (Known(k), dict_of(it, st, v, depth + 1)) for k, v in value.items()
        }
        return it.new_dict(st, items)
    if isinstance(value, (list, tuple)):
        return it.new_list(st, [dict_of(it, st, v, depth + 1) for v in value])
    return NONE if value is None else Known(value)


def paths_of(attrs: dict[str, Value], st: State, prefix: str = "", depth: int = 0) -> dict[int, str]:
    """Where in the document each of its lists and objects stands, by address."""
    found: dict[int, str] = {}
    for name, value in attrs.items():
        path = f"{prefix}.{name}" if prefix else name
        obj = st.get(value.oid) if isinstance(value, Ref) else None
        if obj is None or not isinstance(value, Ref) or depth > DEEPEST:
            continue
        found[value.oid] = path
        inside = obj.attrs
        if obj.kind == "dict" and obj.items is not None:
            inside = {str(k.value): v for k, v in obj.items.values() if isinstance(k, Known)}
        for oid, where in paths_of(inside, st, path, depth + 1).items():
            found.setdefault(oid, where)
    return found
