"""Which files of a package a scan looks at by default."""

from __future__ import annotations

__all__ = ["in_scope"]

_FOLDERS = frozenset({"test", "tests", "benchmark", "benchmarks", "bench", "example", "examples"})
_FILES = frozenset({"conftest.py", "setup.py"})


def in_scope(path: str) -> bool:
    """Whether ``path`` (relative to the package folder) is code that serves: no test, benchmark or example."""
    *folders, name = path.split("/")
    if not _FOLDERS.isdisjoint(folders):
        return False
    return not (name in _FILES or name.startswith(("test_", "bench_", "benchmark_")) or name.endswith("_test.py"))
