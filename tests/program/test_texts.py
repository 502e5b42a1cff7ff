"""What is found by letters is what a plain pattern finds, which says more clearly what is meant and is slower."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowcheck.program import effects, modules, patching, placing
from flowcheck.program.texts import Texts, Wanted, has_word, required

BLANKS = ("\n", "\n", "\n    ", "\n        ", "\n\t", " ", "  ")
MARKS = ("(", ")", "[", "]", "[0]", ".", ",", ":", " = ", "=", "==", "+=", "# f", "@f")
WORDS = (
    "async ",
    "def ",
    "class ",
    "undef ",
    " in ",
    "for ",
    " as ",
    "del ",
    "global ",
    "f",
    "g",
    "C",
    "x",
    "self",
    "_",
)
PARTS = ("f(", "x.f(", "self.f", "self.f(", "x.append(", "x: C", "(x.f, self.g) = ", "[x.f] = ", "as x.f:", "as x.f,")
PIECES = (*BLANKS, *MARKS, *WORDS, *PARTS)

texts = st.lists(st.sampled_from(PIECES), max_size=40).map(lambda pieces: "".join(pieces).encode())


class _Tree:
    """A tree of one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def core_paths(self) -> tuple[str, ...]:
        return ("a.py",)

    def read(self, path: str) -> bytes:
        return self.data


def of(data: bytes) -> Texts:
    return Texts(_Tree(data))  # type: ignore[arg-type]


@given(texts)
def test_definitions(data: bytes) -> None:
    pattern = re.compile(rb"^([ \t]*)(?:async[ \t]+)?(?:(def)|class)[ \t]+(\w+)", re.M)
    expected = [
        (m.start(), len(m.group(1)), m.end(), m.group(2) is None, m.group(3).decode()) for m in pattern.finditer(data)
    ]
    expected = [d for d in expected if not (d[3] and b"async" in data[d[0] : d[2]])]  # no Python
    found = of(data).definitions("a.py")
    assert [(d.line_start, d.indent, d.name_end, d.is_class, d.name) for d in found] == expected


@given(texts)
def test_calls(data: bytes) -> None:
    every = of(data)
    calls = every.calls("a.py")
    expected = [(m.start(), m.group()[:-1].decode()) for m in re.finditer(rb"\b[A-Za-z_]\w*\(", data)]
    assert [(at, every.called[what][1]) for at, what in zip(calls.at, calls.what, strict=True)] == expected
    for at, what in zip(calls.at, calls.what, strict=True):
        before = data[:at]
        kind = "s" if before.endswith(b"self.") else "o" if before.endswith(b".") else "f"
        assert every.called[what][0] == kind


@given(texts)
def test_methods_as_values(data: bytes) -> None:
    every = of(data)
    pattern = re.compile(rb"\bself\.(\w+)\b(?![ \t]*[(=.\[:])")
    expected = [("v", name.decode()) for name in pattern.findall(data)]
    assert [every.called[what] for what in every.values("a.py").what] == expected


@given(texts)
def test_calls_are_found_again(data: bytes) -> None:
    every = of(data)

    def spelled() -> list[tuple[str, str]]:
        return [every.called[what] for what in every.calls("a.py").what]

    before = spelled()
    every.values("a.py")
    every.forget_calls()
    assert spelled() == before


@given(texts)
def test_several_patterns(data: bytes) -> None:
    patterns = (rb"\bself\b", rb"x\.f", rb"\bf\(")
    expected = sorted(m.span() for p in patterns for m in re.finditer(p, data))
    assert Wanted(patterns).spans(data) == expected


@given(texts)
@example(b"async for x.f in g:\n    with g as x.f, g as self.f:\n        del x.f, x.g\n")
def test_targets_of_loops_and_managers(data: bytes) -> None:
    pattern = re.compile(
        rb"^[ \t]*(?:async[ \t]+)?for\b((?:(?!\bin\b)[^\n:])*\.\w+(?:(?!\bin\b)[^\n:])*)\bin\b"
        rb"|\bas[ \t]+([\w.]+\.\w+)[ \t]*[,:)]|^[ \t]*del[ \t]+([^\n#]+)",
        re.M,
    )
    plain = {m.span(m.lastindex or 0) for m in pattern.finditer(data)}
    assert plain <= set(placing._bound(data))


@given(texts)
@example(b"(x.f, self.g) = 1\n[x.f] = 2\n")
def test_targets_in_brackets(data: bytes) -> None:
    pattern = re.compile(rb"^[ \t]*[(\[]([\w., *\t\n]{0,400}\.[A-Za-z_][\w., *\t\n]{0,400})[)\]][ \t]*=(?!=)", re.M)
    for text in (data, data + b"\n" + b"# more\n" * 200):  # the file is longer than what is in brackets may be
        plain = {m.span(1) for m in pattern.finditer(text)}
        assert plain <= set(placing._bound(text))


@given(texts)
def test_stores(data: bytes) -> None:
    pattern = re.compile(rb"(?:^|:)[ \t]*([A-Za-z_]\w*)((?:\.\w+)*)\.(\w+)[ \t]*=(?!=)", re.M)
    plain = [(m.start(1), *m.groups()) for m in pattern.finditer(data) if m.group(1) != b"self"]
    assert list(patching._stores(data)) == plain


def plainly_filled(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    pattern = re.compile(
        rb"^[ \t]+(?:del[ \t]+)?(\w+)((?:\.\w+)?)(?:\[[^\]\n]*\][ \t]*(?:[-+*/|&]?=(?!=)|$)"
        rb"|\.(?:append|appendleft|extend|update|add|pop|insert|remove|clear|setdefault|discard|popitem|sort|reverse)\()",
        re.M,
    )
    for m in pattern.finditer(data):
        if m.group(1) != b"self":
            yield m.start(), m.group(1), bool(m.group(2))
    for m in re.finditer(rb"^[ \t]+(\w+)\.\w+[ \t]*[-+*/|&]?=(?!=)", data, re.M):
        if m.group(1) != b"self":
            yield m.start(), m.group(1), True


@given(texts)
def test_filled_containers(data: bytes) -> None:
    assert set(effects._filled(data)) == set(plainly_filled(data))


@given(texts)
@example(b"\tx = self.f # why\n    x = y.z.f\nx = y.f")
def test_locals_for_an_attribute(data: bytes) -> None:
    pattern = re.compile(rb"^[ \t]+(\w+)[ \t]*=[ \t]*[\w.]+\.(\w+)[ \t]*(?:#[^\n]*)?$", re.M)
    plain: dict[bytes, list[tuple[str, int, bytes]]] = {}
    for m in pattern.finditer(data):
        plain.setdefault(m.group(2), []).append(("a.py", m.start(2) - 1, m.group(1)))
    assert placing.Places(of(data))._aliases == plain


@given(texts)
@example(b"    x[0] = 1")
@example(b"    del x[0]")
@example(b"    C.x.append(1)")
@example(b"    del x")
@example(b"    x[0]")
def test_changes_of_a_container(data: bytes) -> None:
    pattern = re.compile(
        rb"^[ \t]+(?:[\w.]+\.)?x(?:\.(?:update|append|appendleft|add|extend|extendleft|insert|pop|put|put_nowait|remove|clear"
        rb"|setdefault|discard)\(|\[[^\]\n]*\][ \t]*(?:\|)?=(?!=))|^[ \t]+del[ \t]+x\[",
        re.M,
    )
    found = any(modules._is_statement(data, m) for m in re.finditer(b"x" + modules._MUTATING, data, re.M))
    assert found == (pattern.search(data) is not None)


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        (rb"^EntryClass\b", b"EntryClass"),
        (rb"\bgiven\(", b"given"),
        (rb"maybe?", b"mayb"),
        (rb"one|other", b""),
        (rb"[a-z]", b""),
    ],
)
def test_letters_that_a_pattern_needs(pattern: bytes, letters: bytes) -> None:
    assert required(pattern) == letters


@given(st.text("ab_ .", max_size=12).map(str.encode), st.text("ab_", min_size=1, max_size=3).map(str.encode))
def test_words_are_found_as_a_regular_expression_finds_them(data: bytes, word: bytes) -> None:
    assert has_word(data, word) == bool(re.search(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)", data))
