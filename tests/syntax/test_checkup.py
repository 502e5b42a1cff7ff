"""Which files are no Python: said of each once, whatever becomes of the process that looks at them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flowcheck.syntax import Checkup, SyntaxCache, SyntaxStore, _python, checkup
from tests.syntax.trees import MemoryTree

FILES: dict[str, bytes | str] = {
    "a.py": "x = 1\n",
    "b.py": "x = 1\ny = (\n",
    "c.py": "DEADLY = 1\n",
    "d.py": "DEADLY = = 1\n",
    "e.py": "def f():\n    x = 1\n    global x\n",
    "f.py": b"# coding: latin-1\r\nx = '\xe9'\r\n",
    "g.py": "x = 'a\n",
    "h.py": "x = '\\d'\n",
    "i.py": b"x = 1\n# \xff\n",
}
BAD = [
    "b.py:2: '(' was never closed",
    "d.py:1: ",
    "e.py:3: name 'x' is assigned to before global ",
    "g.py:1: ",
    "i.py:2: ",
]


def said(files: dict[str, bytes | str] = FILES, cache: SyntaxCache | None = None) -> list[str]:
    with Checkup(SyntaxStore(MemoryTree(files), cache), sorted(files), cache) as started:
        return [str(problem) for problem in started.finish()]


def check(found: list[str], expected: list[str] = BAD) -> None:
    assert len(found) == len(expected), found
    for text, start in zip(found, expected, strict=True):
        assert text.startswith(start.partition(" ")[0]), found


def test_each_bad_file_is_said_with_its_line() -> None:
    found = said()
    check(found)
    assert found[0] == BAD[0]
    assert found[2].startswith(BAD[2])


def test_what_was_sound_is_not_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = said(cache=SyntaxCache(tmp_path))
    monkeypatch.setattr(_python, "__file__", str(tmp_path / "none.py"))
    assert said({"a.py": FILES["a.py"]}, SyntaxCache(tmp_path)) == []
    monkeypatch.undo()
    assert said(cache=SyntaxCache(tmp_path)) == first


def test_another_content_of_the_same_file_is_looked_at(tmp_path: Path) -> None:
    said(cache=SyntaxCache(tmp_path))
    check(said({**FILES, "a.py": "x = = 1\n"}, SyntaxCache(tmp_path)), ["a.py:1:", *BAD])


@pytest.mark.parametrize("end", ["import os; os._exit(11)", "import time; time.sleep(600)"])
def test_a_file_that_ends_or_holds_the_process_is_parsed_here_and_the_others_go_on(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fragile = tmp_path / "fragile.py"
    fragile.write_text(
        Path(_python.__file__)
        .read_text("utf-8")
        .replace(
            "    try:\n        symtable", f"    if b'DEADLY' in data:\n        {end}\n    try:\n        symtable", 1
        )
    )
    monkeypatch.setattr(_python, "__file__", str(fragile))
    monkeypatch.setattr(checkup, "_PATIENCE", 0.5)
    check(said())


def test_where_no_process_starts_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert said() == []
    monkeypatch.setattr(sys, "executable", "")
    assert said() == []


def test_a_scan_that_fails_leaves_no_process() -> None:
    stopped = Checkup(SyntaxStore(MemoryTree(FILES)), sorted(FILES), None)
    with pytest.raises(ZeroDivisionError), stopped:
        raise ZeroDivisionError
    stopped._thread.join(10)
    assert not stopped._thread.is_alive()
