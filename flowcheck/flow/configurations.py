"""Configurations as the tree sees them: what a JSON file writes is known, what it leaves out is said to be left out.

Where the tree has a class of its own for a ``model_type``, that class gives the defaults; what a class of transformers gives
lies outside the tree, and is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowcheck.flow.roles import class_value
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.interp import classes, documents, functions
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.frames import Dead
from flowcheck.interp.heap import Obj
from flowcheck.interp.values import NONE, ClassV, FuncV, Known, Ref, Unknown, Value

__all__ = ["configuration"]

DEEPEST = 20


def configuration(
    it: Interpreter,
    words: Vocabulary,
    raw: Mapping[str, Any],
    label: str,
    *,
    raises: bool,
    told: ClassV | None = None,
    part_of: str = "",
    depth: int = 0,
) -> Ref:
    """The object that stands for a configuration, in the interpreter's base state.

    ``raises``: whether reading what nothing gives raises AttributeError; without, it is unknown. ``told``: the class that
    somebody who takes the configuration says it has. ``part_of``: the type of a part that does not write its own.
    """
    st = it.base_state
    written = raw.get(words.configurations.type_key)
    kind = written if isinstance(written, str) and written else part_of
    attrs: dict[str, Value] = {}
    for key, value in raw.items():
        if key in words.configurations.object_keys and isinstance(value, Mapping) and depth < DEEPEST:
            attrs[key] = configuration(
                it, words, value, f"{label}.{key}", raises=raises, part_of=_part(kind, key), depth=depth + 1
            )
        else:
            attrs[key] = documents.dict_of(it, st, value)
    given = frozenset(words.configurations.given)
    defaults = {} if raises else words.configurations.defaults.get(kind, {})
    obj = documents.document(label, attrs, given, raises, {k: Known(v) for k, v in defaults.items()})
    cls = _class_for(it, words, raw, kind, told, whole=depth == 0)
    text = _text_part(words, raw, attrs)
    if cls is None:
        ref = Ref(st.new(obj))
        _with_method(obj, words, text, ref)
        _lift(it, words, attrs, frozenset())
        return ref
    made = Obj("skeleton", cls, attrs=attrs)
    made.tag = obj.tag
    ref = Ref(st.new(made))
    _with_method(made, words, text, ref)
    made.ctor = _constructed(it, cls, ref, attrs)
    _lift(it, words, attrs, frozenset(made.ctor))
    return ref


def _lift(it: Interpreter, words: Vocabulary, attrs: dict[str, Value], given: frozenset[str]) -> None:
    """Copies to the top what the text model's part alone writes, as the tree does when it has read a configuration."""
    for path in words.configurations.text_parts:
        part: dict[str, Value] | None = attrs
        for key in path.split("."):
            held = part.get(key) if part is not None else None
            obj = it.base.objects.get(held.oid) if isinstance(held, Ref) else None
            part = obj.attrs if obj is not None and documents.is_document(obj) else None
        if part is not None:
            for key, value in part.items():
                if key not in attrs and key not in given and value != NONE:
                    attrs[key] = value
            return


def _text_part(words: Vocabulary, raw: Mapping[str, Any], attrs: Mapping[str, Value]) -> Value | None:
    """What a configuration gives as its text part: NONE stands for itself, None for what is not known."""
    said = words.configurations
    parts = [key for key in (*said.object_keys, *said.other_parts) if raw.get(key) is not None]
    if not parts:
        return NONE
    texts = [key for key in said.text_method_parts if isinstance(attrs.get(key), Ref)]
    rivals = {*said.other_parts, *(path.split(".")[0] for path in said.text_parts)} - set(texts)
    return attrs[texts[0]] if len(texts) == 1 and not rivals.intersection(parts) else None


def _with_method(obj: Obj, words: Vocabulary, text: Value | None, ref: Ref) -> None:
    """Gives a configuration the method that returns its text part, where that is known."""
    if text is not None:
        obj.tag = replace(obj.tag, methods={words.configurations.text_method: ref if text == NONE else text})


def _part(kind: str, key: str) -> str:
    """The type of a part that does not say it: named after the whole and the part."""
    return f"{kind}_{key.removesuffix('_config')}" if kind else ""


def _class_for(
    it: Interpreter, words: Vocabulary, raw: Mapping[str, Any], written: str, told: ClassV | None, whole: bool
) -> ClassV | None:
    """The tree's own class for a configuration: one whose body writes the same type. Several may: then it is the one that
    its reader names, or else the one that takes most of what the file writes. A class that nothing outside its module names
    is for parts of what the module describes: files as a whole are read by a class from elsewhere."""
    key = words.configurations.type_key
    if not written:
        return None
    found: list[tuple[int, ClassV]] = []
    for module, c in it.program.corpus.classes_with_members(key):
        if written.encode() not in it.program.corpus.files.get(module.path, b""):
            continue
        cls = class_value(it, module, c.name)
        if whole and not any(path != module.path for path in it.program.corpus.files_with(c.name)):
            continue
        if cls is None or it.base.objects[cls.oid].attrs.get(key) != Known(written):
            continue
        init = classes.class_attr(it, cls, "__init__", it.base_state)
        if isinstance(init, FuncV) and (cls.external or len(cls.mro) > 1):
            found.append((sum(p.name in raw for p in init.node.params.items), cls))
    if any(cls is told for _, cls in found):
        return told
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _constructed(it: Interpreter, cls: ClassV, ref: Ref, attrs: dict[str, Value]) -> dict[str, Value]:
    """The arguments of the class's constructor when it is given all that the file writes."""
    init = classes.class_attr(it, cls, "__init__", it.base_state)
    if not isinstance(init, FuncV):
        return {}
    frame = it.module_frame(cls.module)
    try:
        with it.outside():
            bound = functions.bind(it, init, [ref], dict(attrs), it.base_state, False, None, frame)
    except Dead:
        bound = {p.name: attrs.get(p.name, Unknown(f"{cls.name}({p.name})")) for p in init.node.params.items}
    first = init.node.params.items[0].name if init.node.params.items else ""
    return {**bound, first: ref} if first else bound
