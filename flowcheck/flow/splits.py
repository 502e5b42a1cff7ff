"""Restart splits: where a free quantity decides which worker runs, each of its values gets a walk of its own.

One joined walk would mix the batch of one worker with the code of another. A scenario narrows, it does not hide: over
all splits every worker that the selector can return is walked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.flow.walk import Walk

__all__ = ["MOST_SPLITS", "Asked", "candidates", "condition_of", "describe_key", "settings_asked", "worker_splits"]

MOST_SPLITS = 8
MOST_CANDIDATES = 3

Asked = tuple[tuple[Any, frozenset[str]], ...]
"""Settings, each with the qualified names of the functions that tested it."""


def worker_splits(make: Callable[[dict[Any, Any]], Walk]) -> list[dict[Any, Any]]:
    """Assignments of free quantities under which the walks are run; one empty assignment when nothing decides."""

    def workers(forced: dict[Any, Any]) -> tuple[frozenset[str], list[Any]]:
        walk = make(forced)
        keys = walk.selector_keys()
        return frozenset(f"{c.module.name}.{c.name}" for _, c in walk.worker_list), keys

    everything, keys = workers({})
    deciding: list[Any] = []
    for key in keys:
        sides = [workers({key: side})[0] for side in (True, False)]
        if sides[0] != sides[1]:
            deciding.append(key)
    if not deciding or len(everything) < 2:
        return [{}]
    out: list[dict[Any, Any]] = []
    for values in itertools.product((False, True), repeat=min(len(deciding), 3)):
        out.append(dict(zip(deciding, values, strict=False)))
    return out[:MOST_SPLITS]


def settings_asked(walk: Walk) -> Asked:
    """The settings that a walk tested, and the functions in which it did, in an order that every run shares."""
    found: list[tuple[Any, frozenset[str]]] = []
    for key, where in sorted(walk.it.asked_in.items(), key=lambda item: repr(item[0])):
        while isinstance(key, tuple) and key[0] == "not":
            key = key[1]
        if _is_setting(key, walk.words.entry.arguments_attribute) and _is_lasting(key):
            found.append((key, frozenset(where)))
    return tuple(found)


def candidates(asked: Asked, near: set[str], on_the_way: set[str], forced: dict[Any, Any]) -> list[Any]:
    """Free settings that were tested in functions of a flow that is not proved: the ones worth a walk for each value.

    ``near``: the functions in which its modes are made come first. ``on_the_way``: the others of its chain. Among
    them a switch comes before a comparison, and what more functions test before what fewer do: it has more tests that
    have to agree.
    """
    out: list[Any] = []
    by_tests = sorted(asked, key=lambda item: (item[0][0] != "free", -len(item[1])))
    for functions in (near, on_the_way):
        out += [key for key, where in by_tests if key not in forced and key not in out and where & functions]
    return out[:MOST_CANDIDATES]


def _is_lasting(key: Any) -> bool:
    """Whether a key means anything to another walk: objects, and the addresses of classes, are of one walk alone."""
    if isinstance(key, tuple):
        holds_address = len(key) > 1 and type(key[1]) is int and key[0] in ("m", "c", "f", "r")
        return not holds_address and all(map(_is_lasting, key))
    return key is None or isinstance(key, (str, int, float, bytes))


def _is_setting(key: Any, arguments: str) -> bool:
    """Whether a key stands for something that a deployment fixes: a server argument, an entry of its configuration.

    ``arguments`` is what keys call the server arguments.
    """
    if not isinstance(key, tuple) or not key:
        return False
    if key[0] == "free":
        return bool(key[1] == arguments)
    if key[0] in ("attr", "cmp", "call", "len", "bool"):
        return any(_is_setting(part, arguments) for part in key[1:])
    return bool(key[0] == "bag")


def condition_of(words: Vocabulary, forced: dict[Any, Any]) -> str:
    """A set of forced facts as people say it; "" for none."""
    return " and ".join(describe_key(k, v, words.entry.arguments_attribute) for k, v in forced.items())


def describe_key(key: Any, value: Any, arguments: str) -> str:
    """A split as people say it: "disable_overlap_schedule is false". ``arguments`` goes without saying."""
    while isinstance(key, tuple) and key[0] == "not" and isinstance(value, bool):
        key, value = key[1], not value
    return f"{key_text(key, arguments)} is {str(value).lower()}"


def key_text(key: Any, arguments: str) -> str:
    if isinstance(key, tuple) and key:
        head = key[0]
        if head == "free":
            return str(key[2]) if key[1] == arguments else f"{key[1]}.{key[2]}"
        if head == "not":
            return f"not {key_text(key[1], arguments)}"
        if head == "cmp":
            return f"{key_text(key[2], arguments)} {key[1]} {key_text(key[3], arguments)}"
        if head == "lit":
            is_member = isinstance(key[1], tuple) and key[1][:1] == ("member",)
            return f"{key[1][2]}.{key[1][3]}" if is_member else repr(key[1])
        if head == "attr" and isinstance(key[1], tuple) and key[1][:1] == ("bag",):
            return str(key[2])  # a view of the settings: the setting's name says it all
        if head == "attr":
            return f"{key_text(key[1], arguments)}.{key[2]}"
        if head in ("bag", "call"):
            return f"{key_text(key[1], arguments)}()" if isinstance(key[1], tuple) else f"{key[1]}()"
        if head in ("ctor", "skeleton", "parameter"):
            return str(key[-1])
        if head in ("len", "bool", "int", "str", "float"):
            return f"{head}({key_text(key[1], arguments)})"
        if head == "isinstance":
            return f"isinstance({key_text(key[1], arguments)}, …)"
    return str(key)
