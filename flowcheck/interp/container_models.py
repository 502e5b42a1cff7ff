"""The methods of builtin objects: strings, tuples, dicts, lists, sets, iterators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowcheck.interp import attributes, documents, functions, managers, operators, queue_models, views
from flowcheck.interp.confined import drop_entry, entry_of, store_entry
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.iteration_models import key_each, ordered
from flowcheck.interp.models import Args, Keywords
from flowcheck.interp.values import (
    NONE,
    GeneratorV,
    Known,
    Ref,
    TupleV,
    Union,
    Unknown,
    Value,
    join,
    union_of,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame


PURE_METHODS = frozenset(
    n for n in dir(str) if not n.startswith("_")
) - {"format", "format_map", "maketrans", "translate", "encode"}  # fmt: skip


DEQUE_METHODS = frozenset({"appendleft", "extendleft", "popleft", "rotate"})


def method(
    it: Interpreter, x: Value, name: str, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    """Call a method of a builtin object."""
    if isinstance(x, Known):
        return _scalar_method(it, x, name, a, kw, st, node, fr)
    if isinstance(x, TupleV):
        if name in ("index", "count") and a:
            keys = [it.key(v) for v in x.items]
            k = it.key(a[0])
            if k is not None and None not in keys:
                if name == "count":
                    return Known(keys.count(k))
                if k in keys:
                    return Known(keys.index(k))
                it.throw("ValueError", st, node, fr)
        it.may_raise(st, node, fr)
        return Unknown(f"tuple.{name}(…)")
    if isinstance(x, Ref):
        obj = st.get(x.oid)
        if obj is None:
            return Unknown(f"{name}(…)")
        if name in attributes.RECORD_METHODS and obj.cls is not None:
            record = operators.record_items(it, obj)
            if record is not None and name == "_replace":
                copy = obj.copy()
                copy.exact = True
                copy.attrs.update(kw)
                return it.alloc(st, copy)
            if record is not None and name in ("index", "count"):
                return method(it, TupleV(record), name, a, kw, st, node, fr)
            return Unknown(f"{name}(…)")
        if obj.kind == "dict":
            return _dict_method(it, x, obj, name, a, kw, st, node, fr)
        if obj.kind == "queue":
            return queue_models.method(it, x, obj, name, a, kw, st, node, fr)
        if obj.tag == managers.STACK:
            return managers.method(it, x, name, a, kw, st, node, fr)
        if obj.kind in ("list", "set", "iterator"):
            return _list_method(it, x, obj, name, a, kw, st, node, fr)
    if isinstance(x, GeneratorV) and name in ("close", "throw", "send"):
        it.may_raise(st, node, fr)
        return Unknown(f"generator.{name}(…)")
    it.may_raise(st, node, fr)
    return Unknown(f"{name}(…)")


def _scalar_method(
    it: Interpreter, x: Known, name: str, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    args: list[Any] = []
    exact = not kw
    for v in a:
        p = operators.plain(v)
        if isinstance(p, Known):
            args.append(p.value)
        elif isinstance(p, TupleV) and all(isinstance(y, Known) for y in p.items):
            args.append(tuple(y.value for y in p.items))  # type: ignore[attr-defined]
        elif name == "join":
            items = operators.iterate(it, v, fr, st, node)
            if items is not None and all(isinstance(y, Known) and isinstance(y.value, str) for y in items):
                args.append([y.value for y in items])  # type: ignore[attr-defined]
            else:
                exact = False
        else:
            exact = False
    if (
        exact
        and (not isinstance(x.value, str) or name in PURE_METHODS)
        and isinstance(x.value, (str, int, float, bytes))
    ):
        try:
            result = getattr(x.value, name)(*args)
        except Exception as error:  # noqa: BLE001 - whatever the method raises, the program does
            it.throw(type(error).__name__, st, node, fr)
        if isinstance(result, list):
            return it.new_list(st, [Known(y) for y in result])
        if isinstance(result, tuple):
            return TupleV([Known(y) for y in result])
        if isinstance(result, (str, int, float, bytes, bool, type(None))):
            return Known(result)
    it.may_raise(st, node, fr)
    return Unknown(f"{type(x.value).__name__}.{name}(…)")


def _dict_method(
    it: Interpreter, x: Ref, obj: Obj, name: str, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    key = it.key(a[0]) if a else None
    if it.config.on_key is not None and a and name in ("get", "pop", "setdefault"):
        documents.asked(it, x.oid, a[0], fr, node)
    unknown = obj.elements if obj.elements is not None else Unknown("a value of a mapping")
    if name == "get":
        default = a[1] if len(a) > 1 else kw.get("default", NONE)
        if isinstance(a[0], Union):
            return union_of([_dict_method(it, x, obj, name, [k, *a[1:]], kw, st, node, fr) for k in a[0].items])
        if obj.items is None:
            entry = entry_of(obj, key)
            return join(default, unknown) if entry is None else entry
        if key is None:
            return union_of([default, *(v for _, v in obj.items.values())])
        return obj.items[key][1] if key in obj.items else default
    if name in ("items", "keys", "values"):
        if obj.items is None:
            ref = it.new_list(st, None, None, "iterator")
            k = Unknown("a key")
            st.write(ref.oid).elements = TupleV([k, unknown]) if name == "items" else k if name == "keys" else unknown
            return ref
        rows: list[Value] = [
            TupleV(p) if name == "items" else p[0] if name == "keys" else p[1] for p in obj.items.values()
        ]
        view = it.new_list(st, rows)
        if name != "values":
            st.write(view.oid).tag = "view"  # sets can be made of it with operators
        return view
    if name == "copy":
        return it.alloc(st, obj.copy())
    w = st.write(x.oid)
    if name == "clear":
        w.attrs.clear()
        w.items = {} if w.exact else None
        return NONE
    if name == "update":
        dict_update(it, x, a, kw, st, node, fr)
        return NONE
    if w.items is None:
        entry = entry_of(w, key)
        if name == "setdefault":
            v = a[1] if len(a) > 1 else NONE
            if entry is None:
                entry = join(unknown, v)
                store_entry(w, key, entry, st)
            return entry
        drop_entry(w, key if name == "pop" else None)
        if entry is not None and name == "pop":
            return entry
        if key is None or len(a) < 2:
            it.may_raise(st, node, fr)
        return unknown if len(a) < 2 else join(unknown, a[1])
    if name == "setdefault":
        v = a[1] if len(a) > 1 else NONE
        if key is not None and w.exact:
            if key not in w.items:
                w.items[key] = (a[0], v)
            return w.items[key][1]  # type: ignore[no-any-return]
    elif name == "pop":
        if key is not None and w.exact:
            if key in w.items:
                return w.items.pop(key)[1]  # type: ignore[no-any-return]
            if len(a) > 1:
                return a[1]
            it.throw("KeyError", st, node, fr)
    elif name == "popitem" and w.exact and w.items:
        k = list(w.items)[-1]
        return TupleV(w.items.pop(k))
    elif name == "move_to_end" and key is not None and key in w.items and w.exact:
        w.items[key] = w.items.pop(key)
        return NONE
    it.may_raise(st, node, fr)
    values: list[Value] = [v for _, v in w.items.values()]
    w.items = None
    w.elements = union_of([*values, *a[1:]]) if values or len(a) > 1 else None
    return w.elements if w.elements is not None else Unknown(f"dict.{name}(…)")


def dict_update(it: Interpreter, x: Ref, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame) -> None:
    """``x.update(…)`` of a dict."""
    w = st.write(x.oid)
    for source in a[:1]:
        if views.is_view(source):
            source = views.contents(it, source, st)
        other = st.get(source.oid) if isinstance(source, Ref) else None
        pairs: list[Value] | None = None
        if other is not None and other.kind == "dict" and other.items is not None:
            items = dict(other.items)
        else:
            items = None
            if not isinstance(source, Unknown):
                pairs = operators.iterate(it, source, fr, st, node) if other is None or other.kind != "dict" else None
            if pairs is not None:
                items = {}
                for p in pairs:
                    row = operators.iterate(it, p, fr, st, node)
                    k = it.key(row[0]) if row is not None and len(row) == 2 else None
                    if row is None or k is None:
                        items = None
                        break
                    items[k] = (row[0], row[1])
        if items is None or not w.exact:
            w.items = None
            w.elements = None
            w.attrs.clear()
        elif w.items is not None:
            for k, v in items.items():
                w.items[k] = (w.items[k][0] if k in w.items else v[0], v[1])
        else:
            for k, (_, v) in items.items():
                store_entry(w, k, v, st)
    if w.items is not None:
        for name, v in kw.items():
            w.items[("k", name)] = (Known(name), v)
    else:
        for name, v in kw.items():
            store_entry(w, ("k", name), v, st)


def _list_method(
    it: Interpreter, x: Ref, obj: Obj, name: str, a: Args, kw: Keywords, st: State, node: ir.Node | None, fr: Frame
) -> Value:
    if name == "copy":
        return it.alloc(st, obj.copy())
    if name in ("index", "count"):
        if obj.items is not None:
            keys = [it.key(v) for v in obj.items]
            k = it.key(a[0])
            if k is not None and None not in keys:
                if name == "count":
                    return Known(keys.count(k))
                if k in keys and len(a) == 1:
                    return Known(keys.index(k))
                if len(a) == 1:
                    it.throw("ValueError", st, node, fr)
        it.may_raise(st, node, fr)
        return Unknown(f"list.{name}(…)")
    if name in ("issubset", "issuperset", "isdisjoint", "union", "intersection", "difference", "symmetric_difference"):
        op = {"union": "|", "intersection": "&", "difference": "-"}.get(name)
        if op and len(a) == 1 and isinstance(a[0], Ref) and st.obj(a[0].oid).kind == "set":
            return operators.binary(it, op, x, a[0], fr, st, node)
        if op:
            ref = it.new_list(st, None, None, "set")
            st.write(ref.oid).elements = union_of(
                [operators.element(it, x, st), *(operators.element(it, y, st) for y in a)]
            )
            return ref
        return Unknown(f"set.{name}(…)")
    if obj.kind == "list" and name in DEQUE_METHODS:
        rows = operators.iterate(it, a[0], fr, st, node) if name == "extendleft" and a else None
        given = queue_models.of_deque(it, x, name, a, rows, st, node, fr)
        if given is not None:
            return given
    w = st.write(x.oid)
    weak = not w.exact
    if name in ("append", "add"):
        if it.config.tensors is not None and a:
            it.config.tensors.kept(x, a[0], st, node, fr)
        if name == "add" and w.items is not None and not weak:
            k = it.key(a[0])
            keys = [it.key(v) for v in w.items]
            if k is not None and None not in keys:
                if k not in keys:
                    w.items.append(a[0])
                return NONE
            w.elements = union_of([*w.items, a[0]])
            w.items = None
        elif w.items is not None and not weak and len(w.items) < operators.BIGGEST:
            w.items.append(a[0])
        else:
            _open(w, [a[0]])
        return NONE
    if name in ("extend", "update"):
        for source in a:
            items = operators.iterate(it, source, fr, st, node)
            w = st.write(x.oid)
            if items is not None and w.items is not None and not weak and w.kind == "list":
                w.items.extend(items)
            elif items is not None and w.items is not None and not weak and w.kind == "set":
                for v in items:
                    _list_method(it, x, w, "add", [v], {}, st, node, fr)
            else:
                _open(w, [operators.element(it, source, st)] if items is None else items)
        return NONE
    if name == "clear":
        if weak:
            _open(w, [])
        else:
            w.items = []
            w.elements = None
        return NONE
    if name == "pop" and w.items is not None and not weak and w.kind == "list":
        if not w.items:
            it.throw("IndexError", st, node, fr)
        if not a:
            return w.items.pop()  # type: ignore[no-any-return]
        p = operators.plain(a[0])
        if isinstance(p, Known) and isinstance(p.value, int):
            if not -len(w.items) <= p.value < len(w.items):
                it.throw("IndexError", st, node, fr)
            return w.items.pop(p.value)  # type: ignore[no-any-return]
    if name == "insert" and w.items is not None and not weak:
        p = operators.plain(a[0])
        if isinstance(p, Known) and isinstance(p.value, int):
            w.items.insert(p.value, a[1])
            return NONE
    if name in ("remove", "discard") and w.items is not None and not weak:
        keys = [it.key(v) for v in w.items]
        k = it.key(a[0])
        if k is not None and None not in keys:
            if k in keys:
                w.items.pop(keys.index(k))
            elif name == "remove":
                it.throw("KeyError" if w.kind == "set" else "ValueError", st, node, fr)
            return NONE
    if name == "reverse" and w.items is not None and not weak:
        w.items.reverse()
        return NONE
    if name == "sort" and w.items is not None and not weak:
        items = list(w.items)
        order = ordered(it, items, kw, st, node, fr)
        w = st.write(x.oid)
        if order is not None:
            w.items = [items[i] for i in order]
            return NONE
    it.may_raise(st, node, fr)
    if name == "sort":
        key_each(it, x, kw, st, node, fr)
        w = st.write(x.oid)
    if w.kind == "iterator":
        functions.resume(it, x, fr, st, node)
        w = st.write(x.oid)
    _open(w, a[1:] if name == "insert" else [])
    if name in ("pop",):
        return w.elements if w.elements is not None else Unknown(f"{w.kind}.pop()")
    return NONE if name in ("sort", "reverse", "insert", "remove", "discard") else Unknown(f"{w.kind}.{name}(…)")


def _open(w: Obj, more: Args) -> None:
    """From here on the container may hold any number of the values that it holds or is given."""
    w.open(more)
