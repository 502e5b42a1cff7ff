"""Source trees in memory, for tests."""

from __future__ import annotations

import hashlib

from flowcheck.syntax import ModuleSyntax, SyntaxCache, SyntaxStore


class MemoryTree:
    """A tree of the given files; counts what is read."""

    def __init__(self, files: dict[str, bytes | str]) -> None:
        self.files = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
        self.reads: list[str] = []

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self.files))

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        return self.files[path]

    def file_digest(self, path: str) -> str:
        return hashlib.sha256(self.files[path]).hexdigest()

    def module_name(self, path: str) -> str:
        return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def path_of(self, module: str) -> str | None:
        path = module.replace(".", "/")
        return next((name for name in (f"{path}.py", f"{path}/__init__.py") if name in self.files), None)


def store_of(files: dict[str, bytes | str], cache: SyntaxCache | None = None) -> SyntaxStore:
    return SyntaxStore(MemoryTree(files), cache)


def module_of(source: bytes | str) -> ModuleSyntax:
    """The module of one file, which must have no problem."""
    store = store_of({"m.py": source})
    module = store.module("m.py")
    assert not store.problems
    return module
