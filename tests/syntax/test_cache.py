"""The cache: a second run parses nothing, and nothing in the folder is believed without reason."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from flowcheck.syntax import SyntaxCache, SyntaxStore, ir
from tests.syntax.trees import MemoryTree, store_of

FILES: dict[str, bytes | str] = {
    "a.py": (
        "X = (..., 1j, -1.5, b'\\xff', 'é', 2 ** 70, None, True)\n"
        "class A(B, m=C):\n"
        "    def f(self, a, *, b=1):\n"
        "        match a:\n"
        "            case {'k': v, **r} | A(x, y=z): yield f'{a!r}{b}'\n"
        "        return [i for i in a if i]\n"
    ),
    "b.py": "import a\ndef g(): return a.A().f(1)\n",
}


def everything(store: SyntaxStore) -> str:
    """All that a store says of its tree, as text."""
    result = []
    for path in store.tree.paths():
        module = store.module(path)
        pending: list[object] = list(module.body)
        while pending:
            node = pending.pop()
            if isinstance(node, ir.ClassDef):
                pending += node.body
            elif isinstance(node, ir.FunctionDef):
                result.append((node, module.body_of(node), module.def_source(node)))
        result.append((module.body, module.definitions))
    index = store.index
    return repr((result, index.definitions("f"), index.files_with("a"), index.keyword_uses("m")))


def run(folder: Path, files: dict[str, bytes | str] = FILES) -> tuple[str, int]:
    """What a run says, and how many definitions it had to parse."""
    with SyntaxStore(MemoryTree(files), SyntaxCache(folder)) as store:
        said = everything(store)
        return said, store.stats.definitions_parsed


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_second_run_parses_nothing_and_says_the_same(tmp_path: Path) -> None:
    plain = everything(store_of(FILES))
    first, cold = run(tmp_path)
    second, warm = run(tmp_path)
    assert plain == first == second
    assert cold == 4
    assert warm == 0


def test_a_cached_run_never_imports_libcst(tmp_path: Path) -> None:
    run(tmp_path)
    code = (
        "import sys; from pathlib import Path; from tests.syntax.test_cache import run\n"
        f"assert run(Path({str(tmp_path)!r}))[1] == 0; assert 'libcst' not in sys.modules"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=True)


def test_only_what_changed_is_parsed_again(tmp_path: Path) -> None:
    run(tmp_path)
    changed = {**FILES, "b.py": "import a\ndef g(): return 2\n", "moved.py": FILES["a.py"]}
    said, parsed = run(tmp_path, changed)
    assert parsed == 2
    assert said == everything(store_of(changed))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data + b"x",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:],
        lambda data: pickle.dumps(["foreign"]),
    ],
)
def test_damaged_entries_are_made_anew(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    first, cold = run(tmp_path)
    for path in entries(tmp_path):
        path.write_bytes(damage(path.read_bytes()))
    assert run(tmp_path) == (first, cold)
    assert run(tmp_path) == (first, 0)


def test_an_entry_of_another_file_is_not_believed(tmp_path: Path) -> None:
    first, cold = run(tmp_path)
    contents = [path.read_bytes() for path in entries(tmp_path)]
    for path, data in zip(entries(tmp_path), contents[1:] + contents[:1], strict=True):
        path.write_bytes(data)
    assert run(tmp_path) == (first, cold)


def test_a_well_formed_entry_of_another_shape_is_not_believed(tmp_path: Path) -> None:
    cache = SyntaxCache(tmp_path)
    tree = MemoryTree(FILES)
    for path in tree.paths():
        cache.save_table(tree.file_digest(path), {"structure": [1, 2], "slices": "none"})
    assert run(tmp_path) == (everything(store_of(FILES)), 4)


def test_a_slice_of_another_shape_is_not_believed(tmp_path: Path) -> None:
    cache = SyntaxCache(tmp_path)
    tree = MemoryTree(FILES)
    run(tmp_path)
    for path in tree.paths():
        entry = cache.load(tree.file_digest(path))
        assert entry is not None
        cache.save_table(tree.file_digest(path), [entry.structure, {key: [[[1, 2]], True] for key in entry.slices}])
    assert run(tmp_path) == (everything(store_of(FILES)), 4)


def test_another_version_does_not_share_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flowcheck.syntax import _cache

    first, cold = run(tmp_path)
    _cache._stamp.cache_clear()
    monkeypatch.setattr(_cache, "__version__", "0.0.0+other")
    assert run(tmp_path) == (first, cold)
    _cache._stamp.cache_clear()


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    first, cold = run(blocked)
    assert run(blocked) == (first, cold)
    assert blocked.read_text() == "not a folder"


def test_runs_that_learn_different_bodies_keep_both(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {"m.py": "def f(): return 1\ndef g(): return 2\n"}
    stores = [SyntaxStore(MemoryTree(files), SyntaxCache(tmp_path)) for _ in range(2)]
    for index, store in enumerate(stores):
        module = store.module("m.py")
        fn = module.body[index]
        assert isinstance(fn, ir.FunctionDef)
        module.body_of(fn)
    for store in stores:
        store.save()
    assert run(tmp_path, files)[1] == 0


def test_processes_may_write_at_once(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    code = (
        f"from pathlib import Path; from tests.syntax.test_cache import run\n"
        f"for _ in range(20): [p.unlink(missing_ok=True) for p in Path({str(tmp_path)!r}).rglob('*-*/*')]; "
        f"run(Path({str(tmp_path)!r}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(root)}
    workers = [subprocess.Popen([sys.executable, "-c", code], cwd=root, env=environment) for _ in range(2)]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert run(tmp_path)[0] == everything(store_of(FILES))
    assert not [path for path in entries(tmp_path) if path.name.startswith(".")]


def test_problems_are_told_in_every_run(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {"m.py": "def f(): return 1 +\n", "n.py": "x = = 1\n"}
    for _ in range(2):
        with SyntaxStore(MemoryTree(files), SyntaxCache(tmp_path)) as store:
            module = store.module("m.py")
            assert isinstance(module.body[0], ir.FunctionDef)
            module.body_of(module.body[0])
            assert store.try_module("n.py") is None
            assert [problem.path for problem in store.problems] == ["m.py", "n.py"]


def test_constants_that_the_format_lacks_are_still_right(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {"m.py": "x = (99999999999999999999999, '\\ud800', ..., 2j, 1e999)\n"}
    for _ in range(2):
        said, _ = run(tmp_path, files)
        assert said == everything(store_of(files))


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    run(tmp_path)
    oldest = entries(tmp_path)[0]
    os.utime(oldest, (1, 1))
    total = sum(path.stat().st_size for path in entries(tmp_path))
    SyntaxCache(tmp_path).trim(total - 1)
    assert oldest not in entries(tmp_path)
    assert entries(tmp_path)
