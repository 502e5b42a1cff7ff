"""What ``super()`` finds: the next class of the object's MRO, a metaclass's method, the constructor of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcheck.interp import attributes, classes, dispatch_models
from flowcheck.interp.heap import State
from flowcheck.interp.values import BoundV, BuiltinV, ClassV, FuncV, Member, PartialV, Ref, SuperV, Unknown, Value
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["of_super"]


def of_super(it: Interpreter, b: SuperV, name: str, fr: Frame, st: State, node: ir.Node | None) -> Value:
    """``super().name`` as the object that the call is on finds it, behind one class of its MRO."""
    self_ = b.self_
    cls: ClassV | None
    if isinstance(self_, Member):
        cls = self_.cls
    elif isinstance(self_, Ref):
        obj = st.get(self_.oid)
        cls = obj.cls if obj is not None else None
    else:
        cls = self_ if isinstance(self_, ClassV) else None
    if cls is None:
        return Unknown(f"super().{name}")
    if isinstance(self_, ClassV) and b.cls not in cls.mro and isinstance(cls.metaclass, ClassV):
        v = classes.class_attr(it, cls.metaclass, name, st, after=b.cls)  # a method of a metaclass
        return (
            attributes.bind(it, v, self_, cls.metaclass, fr, st, node)
            if isinstance(v, FuncV)
            else BuiltinV("super." + name, self_)
        )
    v = classes.class_attr(it, cls, name, st, after=b.cls)
    if v is None and name == "__init__" and b.cls in cls.mro:
        following = cls.mro[cls.mro.index(b.cls) + 1 :]
        if following and classes.is_made_record(following[0]) and isinstance(self_, Ref):
            return PartialV(BuiltinV(classes.RECORD_INIT), (following[0], self_), {})
    if isinstance(v, FuncV) and self_ is cls:
        return BoundV(v, cls) if v.kind == "class" else v
    if isinstance(v, FuncV):
        return attributes.bind(it, v, self_, cls, fr, st, node)
    if isinstance(v, Ref) and (held := st.get(v.oid)) is not None and held.kind == dispatch_models.KIND:
        return BoundV(v, self_)
    if v is not None:
        return v
    return BuiltinV("super." + name, self_)
