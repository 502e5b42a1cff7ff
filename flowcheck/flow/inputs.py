"""The speculative input of a batch: which classes of it a dispatched batch may carry, and which a dispatch leaves behind.

A worker drafts from what its last forward left; the scheduler carries that from batch to batch without looking at it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.interp import classes, names
from flowcheck.interp.engine import Interpreter
from flowcheck.interp.heap import State
from flowcheck.interp.values import UNBOUND, ClassV, Ref, alternatives
from flowcheck.program.corpus import Corpus, methods_of

__all__ = ["draft_inputs", "left_behind"]


def draft_inputs(it: Interpreter, corpus: Corpus, words: Vocabulary, workers: Iterable[ClassV]) -> list[ClassV]:
    """The classes that a dispatched batch may carry: what the code of the workers stores there."""
    found: list[ClassV] = []
    texts = [b.module.syntax.text for c in workers for b in c.mro if b.module.syntax is not None]
    plain = [a.encode() for a in (words.phase.speculative_input, words.phase.next_input)]
    carried, handed = map(re.escape, plain)
    made = rb"\b%b\s*=\s*([A-Za-z_]\w*)(?:\.\w+)?\(|%b\s*=\s*([A-Za-z_]\w*)\(" % (carried, handed)
    for name in sorted(corpus.captures(made, *plain)):
        if not any(name in text for text in texts):
            continue
        for module, _ in corpus.classes_named(name):
            v = names.global_value(it, module, name, it.base_state)
            if isinstance(v, ClassV) and v not in found and not _is_verify_input(it, words, v):
                found.append(v)
    return found


def _is_verify_input(it: Interpreter, words: Vocabulary, c: ClassV) -> bool:
    if any(not methods_of(b.node).isdisjoint(words.phase.verify_input_methods) for b in c.mro):
        return True
    return c.is_record and not set(classes.record_fields(it, c)).isdisjoint(words.phase.verify_input_fields)


def left_behind(st: State, words: Vocabulary) -> list[ClassV]:
    """The classes of speculative input that the objects which a dispatch changed hold at its end."""
    attributes = (words.phase.next_input, words.phase.speculative_input)
    out: list[ClassV] = []
    for obj in st.changed_objects():
        if obj.cls is None or (words.mode.attribute in obj.attrs and obj.kind != "free"):
            continue  # a forward batch carries the input of its own forward
        for name in attributes:
            for x in alternatives(obj.attrs.get(name, UNBOUND)):
                held = st.get(x.oid) if isinstance(x, Ref) else None
                if held is not None and held.cls is not None and held.cls not in out:
                    out.append(held.cls)
    return out
