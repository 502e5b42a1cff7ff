"""The target's and the draft's real classes: found through the tree's registration, built, and made ready."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flowcheck.probe.rank.tree import Tree, Unbridged, call, filled

__all__ = ["build", "class_named", "finish"]


def class_named(tree: Tree, architecture: str) -> Any:
    """The class that the tree registers under this name.

    Only files that spell the name are imported: importing all models takes long and needs more packages.

    Raises:
        Unbridged: no file registers it.
    """
    table = tree.names["models"]
    for module_name in _modules_that_spell(tree, table["package"], architecture):
        entry = getattr(importlib.import_module(module_name), table["entry"], None)
        for cls in entry if isinstance(entry, (list, tuple)) else [entry]:
            if getattr(cls, "__name__", None) == architecture:
                return cls
    raise Unbridged(f"no file of {tree.package}.{table['package']} registers {architecture}")


def _modules_that_spell(tree: Tree, package: str, name: str) -> Iterator[str]:
    found = tree.module(package)
    if found is None:
        raise Unbridged(f"{tree.package} has no {package}")
    pattern = re.compile(rf"^class {re.escape(name)}\b|^EntryClass\b.*\b{re.escape(name)}\b", re.MULTILINE)
    hits: list[tuple[bool, str]] = []
    for info in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
        path = _path_of(info)
        if path is None:
            continue
        text = path.read_text("utf-8", errors="replace")
        if pattern.search(text) or re.search(rf"\b{re.escape(name)}\b", text):
            hits.append((pattern.search(text) is None, info.name))
    yield from (module for _, module in sorted(hits))


def _path_of(info: pkgutil.ModuleInfo) -> Path | None:
    folder = getattr(info.module_finder, "path", None)
    if folder is None:
        return None
    last = info.name.rpartition(".")[2]
    path = Path(folder, last, "__init__.py") if info.ispkg else Path(folder, f"{last}.py")
    return path if path.is_file() else None


def build(tree: Tree, cls: Any, config: Any) -> Any:
    """A model of a configuration, as the tree's loader calls its class."""
    given = {"config": config, **filled(tree.names["models"]["arguments"], {})}
    return call(cls, given)


def finish(tree: Tree, model: Any) -> list[tuple[str, str]]:
    """What the tree's loader does once the weights are in.

    Returns:
        What could not be done: the method, and why.
    """
    table = tree.names["models"]
    notes = []
    for path, module in model.named_modules():
        method = getattr(module, table["quantisation"], None)
        for name in table["after_loading"]:
            if method is not None and hasattr(method, name):
                getattr(method, name)(module)
        for name in table["after_weights"]:
            if hasattr(module, name):
                try:
                    call(getattr(module, name), {})
                except Exception as error:  # noqa: BLE001 - some want names of a checkpoint
                    notes.append((f"{path or 'the model'}.{name}", f"{type(error).__name__}: {str(error)[:160]}"))
    return notes


@contextlib.contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    """Models made inside have this type."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
