"""Whether a tree reads the keys of a draft's file: by what runs that were followed have asked for, and by what other code spells.

A key that no code spells cannot be read. Code spells it as an attribute, as a string of its own, or as a parameter that an
unpacked configuration may fill; comments, prose and local variables read nothing.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flowcheck.flow.facts import Place
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.flow.width import Intake, KeyRead, KeyUse, Use
from flowcheck.program.modules import Program

__all__ = ["key_uses", "keys_of"]

DEEPEST = 8


def keys_of(raw: Mapping[str, Any], prefix: str = "", depth: int = 0) -> tuple[str, ...]:
    """The paths of all keys that a file writes, those of nested objects behind the key that holds them."""
    found: list[str] = []
    for key, value in raw.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        found.append(path)
        if isinstance(value, Mapping) and depth < DEEPEST:
            found += keys_of(value, path, depth + 1)
    return tuple(found)


def key_uses(
    program: Program, words: Vocabulary, intake: Intake, reads: Iterable[KeyRead], keys: Iterable[str]
) -> tuple[KeyUse, ...]:
    """What the tree does with each of ``keys``. ``reads`` are those of other runs on the same draft (`CapturePlan.reads`)."""
    places: dict[str, list[Place]] = {}
    for read in (*intake.reads, *reads):
        places.setdefault(read.key, []).extend(read.places)
    texts = _texts(program, words, intake)
    uses = []
    for key in keys:
        if key in places:
            uses.append(KeyUse(key, Use.READ, tuple(dict.fromkeys(places[key]))))
            continue
        name = key.rpartition(".")[2]
        seen = [p for other, at in places.items() if other.rpartition(".")[2] == name for p in at]
        spelled = [
            (path, line)
            for path, line, function in _spelled(texts, name)
            if function not in intake.followed
            and not any(p.path == path and p.span.line <= line <= p.span.end_line for p in seen)
        ]
        uses.append(KeyUse(key, Use.OPEN if spelled else Use.IGNORED, (), tuple(dict.fromkeys(spelled))))
    return tuple(uses)


def _texts(program: Program, words: Vocabulary, intake: Intake) -> dict[str, bytes]:
    """The files that may see the draft's configuration: all but the model files that the draft's class does not import."""
    corpus = program.corpus
    beyond = re.compile(words.relevance.beyond.encode(), re.M)
    models = {path for path, data in corpus.files.items() if beyond.search(data)}
    own: set[str] = set()
    todo = [intake.place.path] if intake.place is not None else sorted(models)
    while todo:
        path = todo.pop()
        if path in own:
            continue
        own.add(path)
        todo += [other for other in _imported(program, path) if other in models]
    return {path: data for path, data in corpus.files.items() if path not in models or path in own}


_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+\(?([\w ,\t]*)|import[ \t]+([\w.]+))", re.M)


def _imported(program: Program, path: str) -> Iterator[str]:
    """The files of the modules that a file imports, anywhere in it."""
    here = program.module_at(path)
    for found in _IMPORT.finditer(program.corpus.files[path]):
        source, names, plain = (part.decode() if part else "" for part in found.groups())
        base = source or plain
        if base.startswith(".") and here is not None:
            up = len(base) - len(base.lstrip("."))
            parts = here.name.split(".")
            parts = parts[: len(parts) - up + (1 if here.is_package else 0)]
            base = ".".join([*parts, base.lstrip(".")]).strip(".")
        for name in (base, *(f"{base}.{each.split()[0]}" for each in names.split(",") if each.split())):
            module = program.module(name)
            if module is not None:
                yield module.path


def _spelled(texts: Mapping[str, bytes], name: str) -> Iterator[tuple[str, int, tuple[str, int]]]:
    """The places at which code spells a name: file, line, and file and line of the function around it (line 0: none)."""
    word = name.encode()
    for path, data in texts.items():
        if word in data:
            for line, function in _places(data, name):
                yield path, line, (path, function)


def _places(data: bytes, name: str) -> list[tuple[int, int]]:
    """Line and line of the function around it, for each place in a file."""
    found: list[tuple[int, int]] = []
    around: list[tuple[int, int]] = []  # the columns and lines of the definitions that are open
    before = ""
    header = False
    depth = 0
    fresh = True
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            kind, text, (line, column) = token.type, token.string, token.start
            if kind in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING):
                fresh = True
                continue
            if kind in (tokenize.COMMENT, tokenize.NL):
                continue
            if fresh:
                around = [each for each in around if each[0] < column]
                fresh = False
                start = column
            if kind == tokenize.NAME and text == "def":
                around.append((start, line))
                header = True
            if kind == tokenize.OP:
                depth += (text in "([{") - (text in ")]}")
                header = header and not (text == ":" and depth == 0)
            if (kind == tokenize.NAME and text == name and (before == "." or header)) or (
                kind == tokenize.STRING and _is_string(text, name)
            ):
                found.append((line, around[-1][1] if around else 0))
            elif before == name and text == ":" and kind == tokenize.OP and depth == 0:
                found.append((line, around[-1][1] if around else 0))  # a field of a class
            before = text
    except (tokenize.TokenError, SyntaxError, UnicodeDecodeError, ValueError):
        lines = enumerate(data.split(b"\n"), 1)
        return [(n, 0) for n, text_ in lines if re.search(rb"(?<!\w)" + re.escape(name.encode()) + rb"(?!\w)", text_)]
    return found


_STRING = re.compile(r"[A-Za-z]*('''|\"\"\"|'|\")(.*)\1", re.S)


def _is_string(text: str, name: str) -> bool:
    """Whether a literal is exactly the name."""
    match = _STRING.fullmatch(text)
    return match is not None and match.group(2) == name
