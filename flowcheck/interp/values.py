"""Abstract values. Immutable, hashable, compared by meaning: the trail of sites that made a value is never part of it.

A value stands for a set of concrete Python values. :class:`Known`, :class:`Member`, :class:`TupleV`, functions, classes
and modules stand for one; :class:`Ref` for the object at one heap address (see :mod:`flowcheck.interp.heap`);
:class:`Union` for any of its alternatives; :class:`Unknown` for anything at all, with the reason why nothing better is
known. Nothing here knows SGLang.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from flowcheck.interp.trails import Trail, joined
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.program.modules import Module

__all__ = [
    "FALSE", "NONE", "TRUE", "UNBOUND", "BoundV", "BuiltinV", "ClassV", "ExternalV", "FieldSpec", "FuncV", "GeneratorV",
    "Known", "LazyImport", "Member", "ModuleV", "PartialV", "Ref", "Slice", "SuperV", "TupleV", "Union", "Unknown", "Value",
    "alternatives", "join", "join_all", "known", "union_of",
]  # fmt: skip

WIDEST_UNION = 24
"""More alternatives than this at one place become Unknown: every one of them multiplies the work of what follows."""


class Value:
    """Base of all abstract values."""

    __slots__ = ()


class Known(Value):
    """One literal: None, bool, int, float, complex, str, bytes, Ellipsis."""

    __slots__ = ("trail", "value")

    def __init__(self, value: Any, trail: Trail | None = None) -> None:
        self.value = value
        self.trail = trail

    def __repr__(self) -> str:
        return repr(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Known) or type(self.value) is not type(other.value):
            return False
        if isinstance(self.value, float):  # 0.0 and -0.0, and nan, are told apart by what they print
            return repr(self.value) == repr(other.value)
        return bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), repr(self.value)))


class Member(Value):
    """A member of an enum of the scanned tree. ``value`` is its abstract value (usually a :class:`Known`)."""

    __slots__ = ("cls", "name", "trail", "value")

    def __init__(self, cls: ClassV, name: str, value: Value, trail: Trail | None = None) -> None:
        self.cls = cls
        self.name = name
        self.value = value
        self.trail = trail

    def at(self, trail: Trail | None) -> Member:
        """The same member with another trail."""
        return Member(self.cls, self.name, self.value, trail)

    def __repr__(self) -> str:
        return f"{self.cls.name}.{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Member) and self.cls is other.cls and self.name == other.name

    def __hash__(self) -> int:
        return hash((id(self.cls), self.name))


class Ref(Value):
    """The heap object at address ``oid``."""

    __slots__ = ("oid",)

    def __init__(self, oid: int) -> None:
        self.oid = oid

    def __repr__(self) -> str:
        return f"<object {self.oid}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and self.oid == other.oid

    def __hash__(self) -> int:
        return self.oid


class FuncV(Value):
    """A function of the tree: its definition, its module, the environment it closes over.

    ``kind``: "func", "static", "class", "property", "cached". ``is_context`` marks ``@contextmanager``.
    """

    __slots__ = (
        "around", "cls", "defaults", "deleter", "env", "is_context", "kind", "memo", "module", "node", "owner", "setter",
    )  # fmt: skip

    def __init__(
        self,
        node: ir.FunctionDef | ir.Lambda,
        module: Module,
        env: int,
        owner: ir.FunctionDef | None,
        cls: ClassV | None = None,
        defaults: dict[str, Value] | None = None,
        kind: str = "func",
    ) -> None:
        self.node = node
        self.module = module
        self.env = env
        self.owner = owner  # the definition whose slice numbers this node (for positions): None at module level
        self.cls = cls
        self.defaults = defaults or {}
        self.kind = kind
        self.setter: FuncV | None = None
        self.deleter: FuncV | None = None
        self.around: tuple[Value, ...] = ()  # managers that it runs inside of, the innermost first
        self.is_context = False
        self.memo = False

    @property
    def name(self) -> str:
        """The name in the definition."""
        return self.node.name if isinstance(self.node, ir.FunctionDef) else "<lambda>"

    @property
    def qualname(self) -> str:
        """The qualified name, as in a traceback."""
        return self.node.qualname if isinstance(self.node, ir.FunctionDef) else "<lambda>"

    def __repr__(self) -> str:
        return f"<function {self.qualname}>"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FuncV)
            and self.node is other.node
            and self.env == other.env
            and self.kind == other.kind
            and (self.defaults is other.defaults or self.defaults == other.defaults)
        )

    def __hash__(self) -> int:
        return hash((id(self.node), self.env))


class BoundV(Value):
    """A bound method."""

    __slots__ = ("func", "self_")

    def __init__(self, func: Value, self_: Value) -> None:
        self.func = func
        self.self_ = self_

    def __repr__(self) -> str:
        return f"<bound {self.func} of {self.self_}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundV) and self.func == other.func and self.self_ == other.self_

    def __hash__(self) -> int:
        return hash((self.func, self.self_))


class ClassV(Value):
    """A class of the tree. Compared by identity. ``external`` holds the dotted names of bases outside the tree."""

    __slots__ = (
        "bases", "enum_kind", "environment", "external", "field_list", "is_record", "keywords", "metaclass", "module", "mro",
        "name", "node", "oid", "opaque_base", "order", "own_init", "owner", "replacing", "writes",
    )  # fmt: skip

    def __init__(self, name: str, node: ir.ClassDef, module: Module, oid: int, owner: ir.FunctionDef | None) -> None:
        self.name = name
        self.node = node
        self.module = module
        self.oid = oid
        self.owner = owner
        self.bases: list[ClassV] = []
        self.mro: list[ClassV] = [self]
        self.external: list[str] = []
        self.opaque_base = False
        self.metaclass: Value | None = None
        self.enum_kind: str | None = None
        self.is_record = False
        self.own_init = False
        self.replacing: frozenset[str] | None = None
        self.keywords: dict[str, Value] = {}
        self.field_list: dict[str, tuple[ClassV, bool]] | None = None
        self.writes: Any = None
        self.environment: bool | None = None
        self.order: list[str] = []

    @property
    def qualname(self) -> str:
        """The qualified name, as in a traceback."""
        return self.node.qualname

    def __repr__(self) -> str:
        return f"<class {self.name}>"


class ModuleV(Value):
    """A module of the tree."""

    __slots__ = ("module",)

    def __init__(self, module: Module) -> None:
        self.module = module

    def __repr__(self) -> str:
        return f"<module {self.module.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleV) and self.module is other.module

    def __hash__(self) -> int:
        return id(self.module)


class BuiltinV(Value):
    """A builtin of Python, or a method (``self_`` set, name "m.append") of a builtin object."""

    __slots__ = ("name", "self_")

    def __init__(self, name: str, self_: Value | None = None) -> None:
        self.name = name
        self.self_ = self_

    def __repr__(self) -> str:
        return f"<builtin {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BuiltinV) and self.name == other.name and self.self_ == other.self_

    def __hash__(self) -> int:
        return hash(self.name)


class ExternalV(Value):
    """Something outside the tree, by its dotted name ("torch.cuda.graph")."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<external {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExternalV) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class TupleV(Value):
    """A tuple of known length."""

    __slots__ = ("cls", "items")

    def __init__(self, items: Iterable[Value]) -> None:
        self.items = tuple(items)

    def __repr__(self) -> str:
        return "(" + ", ".join(map(repr, self.items)) + ")"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleV) and self.items == other.items

    def __hash__(self) -> int:
        return hash(self.items)


class SuperV(Value):
    """``super()``: attribute look-up continues after ``cls`` in the MRO of ``self_``."""

    __slots__ = ("cls", "self_")

    def __init__(self, cls: ClassV, self_: Value) -> None:
        self.cls = cls
        self.self_ = self_

    def __repr__(self) -> str:
        return f"<super {self.cls.name}>"


class PartialV(Value):
    """``functools.partial``."""

    __slots__ = ("args", "func", "keywords")

    def __init__(self, func: Value, args: tuple[Value, ...], keywords: dict[str, Value]) -> None:
        self.func = func
        self.args = args
        self.keywords = keywords

    def __repr__(self) -> str:
        return f"<partial {self.func}>"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PartialV)
            and self.func == other.func
            and self.args == other.args
            and self.keywords == other.keywords
        )

    def __hash__(self) -> int:
        return hash((self.func, self.args))


class GeneratorV(Value):
    """A generator that has not run: calling code runs it where it is consumed."""

    __slots__ = ("args", "func", "keywords")

    def __init__(self, func: FuncV, args: tuple[Value, ...], keywords: dict[str, Value]) -> None:
        self.func = func
        self.args = args
        self.keywords = keywords

    def __repr__(self) -> str:
        return f"<generator {self.func.qualname}>"


class FieldSpec(Value):
    """``dataclasses.field(...)`` or ``msgspec.field(...)``: what a record's field defaults to."""

    __slots__ = ("compare", "default", "factory", "init", "keyword_only")

    def __init__(
        self,
        default: Value | None,
        factory: Value | None,
        init: bool = True,
        compare: bool = True,
        keyword_only: bool = False,
    ) -> None:
        self.default = default
        self.factory = factory
        self.init = init
        self.compare = compare
        self.keyword_only = keyword_only


class Slice(Value):
    """``a:b:c`` inside a subscript of several parts."""

    __slots__ = ("bounds",)

    def __init__(self, bounds: tuple[Value, ...]) -> None:
        self.bounds = bounds

    def __repr__(self) -> str:
        return "slice(" + ", ".join(map(repr, self.bounds)) + ")"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slice) and self.bounds == other.bounds

    def __hash__(self) -> int:
        return hash(self.bounds)


class LazyImport(Value):
    """A name imported at a module's top level, resolved when it is read (so that import cycles need no order)."""

    __slots__ = ("module", "name")

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.name = name


class Union(Value):
    """Any of several alternatives, none of which is a Union."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Value, ...]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return "{" + " | ".join(map(repr, self.items)) + "}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Union) and (self.items == other.items or set(self.items) == set(other.items))

    def __hash__(self) -> int:
        return hash(frozenset(self.items))


class Unknown(Value):
    """Anything at all.

    ``reason`` is for people. ``key`` identifies a quantity that does not change during a run (a server argument), so
    that two tests of it agree; a key is None where two reads may differ. ``truth`` is what a test has established, and
    ``not_none`` that it is not None.
    """

    __slots__ = ("key", "not_none", "reason", "trail", "truth")

    def __init__(
        self,
        reason: str,
        key: Hashable | None = None,
        truth: bool | None = None,
        not_none: bool = False,
        trail: Trail | None = None,
    ) -> None:
        self.reason = reason
        self.key = key
        self.truth = truth
        self.not_none = not_none
        self.trail = trail

    def __repr__(self) -> str:
        extra = "" if self.truth is None else f":{self.truth}"
        return f"?({self.reason}{extra})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Unknown)
            and self.key == other.key
            and self.truth == other.truth
            and self.not_none == other.not_none
        )

    def __hash__(self) -> int:
        return hash((self.key, self.truth, self.not_none))


class _Unbound(Value):
    """A name or attribute that may not be set on some path."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<unbound>"


UNBOUND = _Unbound()
NONE, TRUE, FALSE = Known(None), Known(True), Known(False)


def known(value: Value) -> bool:
    """Whether ``value`` stands for exactly one concrete value that is not on the heap."""
    return isinstance(value, (Known, Member)) or (isinstance(value, TupleV) and all(map(known, value.items)))


def alternatives(value: Value) -> tuple[Value, ...]:
    """The values that one value may be, each once."""
    return value.items if isinstance(value, Union) else (value,)


def union_of(items: Iterable[Value]) -> Value:
    """The join of ``items``; there must be at least one."""
    result: list[Value] = []
    seen: set[Value] = set()
    unknown: Unknown | None = None
    for item in items:
        for alt in alternatives(item):
            if isinstance(alt, Unknown):
                if unknown is None:
                    unknown = alt
                elif unknown != alt:
                    unknown = Unknown(
                        unknown.reason,
                        unknown.key if unknown.key == alt.key else None,
                        unknown.truth if unknown.truth == alt.truth else None,
                        unknown.not_none and alt.not_none,
                        unknown.trail or alt.trail,
                    )
            elif alt not in seen:
                seen.add(alt)
                result.append(alt)
            elif isinstance(alt, Member) and alt.trail is not None:
                for i, kept in enumerate(result):
                    if kept == alt:
                        result[i] = _same_member(kept, alt)
    if unknown is not None:
        result.append(unknown)
    if len(result) == 1:
        return result[0]
    if len(result) > WIDEST_UNION:
        return Unknown(f"more than {WIDEST_UNION} alternatives")
    return Union(tuple(result))


def join(a: Value, b: Value) -> Value:
    """The least value that stands for everything ``a`` or ``b`` stands for."""
    if a is b:
        return a
    if a == b:
        return _same_member(a, b) if isinstance(a, Member) else a
    if type(a) is Union:  # nothing new: mostly the very alternatives that one side of a fork has kept
        held = set(map(id, a.items))
        if all(id(x) in held for x in alternatives(b)):
            return a
    return union_of((a, b))


def _same_member(a: Value, b: Value) -> Value:
    """Two equal members as one, which remembers where both come from."""
    assert isinstance(a, Member)
    assert isinstance(b, Member)
    trail = joined(a.trail, b.trail)
    return a if trail is a.trail else a.at(trail)


def join_all(items: Iterable[Value]) -> Value:
    """Join of several values; ``UNBOUND`` when there are none."""
    result: Value | None = None
    for item in items:
        result = item if result is None else join(result, item)
    return UNBOUND if result is None else result
