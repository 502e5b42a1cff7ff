"""The PyTorch of the interpreter that runs flowcheck, lent to another environment of the same Python: never a second copy.

Only PyTorch and what it needs are lent, by links in a folder of their own that comes last on that environment's path:
whatever else is installed here must not be seen by the code that is probed, and pip cannot change what is linked.
"""

from __future__ import annotations

import importlib.metadata as metadata
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from flowcheck.probe.errors import ProbeError

__all__ = ["Torch", "installed_torch", "lend"]

NAME = "torch"


@dataclass(frozen=True, slots=True)
class Torch:
    """PyTorch as it is installed here: its version, and the folder in which its package lies."""

    version: str
    site: Path


def installed_torch() -> Torch:
    """The PyTorch that this interpreter would import. Raises ProbeError where there is none."""
    spec = importlib.util.find_spec(NAME)
    origin = spec.origin if spec is not None else None
    if origin is None:
        raise ProbeError(
            f"the probe needs PyTorch, and {sys.executable} has none: pip install 'flowcheck[probe]' (a CPU build will do)"
        )
    try:
        version = metadata.version(NAME)
    except metadata.PackageNotFoundError:
        version = "of unknown version"
    return Torch(version, Path(origin).resolve().parent.parent)


def lend(torch: Torch, folder: Path) -> Path:
    """The folder to put on another environment's path: ``folder``, filled with links, or the whole of ``torch.site`` where
    nothing says which files PyTorch has."""
    links = {name: path for distribution in _needed(NAME) for name, path in _top_levels(distribution)}
    if NAME not in links:
        return torch.site
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in links.items():
        (folder / name).symlink_to(path)
    return folder


def _needed(name: str) -> list[metadata.Distribution]:
    """A distribution and, of what it needs here, all that is installed."""
    found: dict[str, metadata.Distribution] = {}
    pending = [name]
    while pending:
        name = pending.pop()
        key = canonicalize_name(name)
        if key in found:
            continue
        try:
            found[key] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for text in found[key].requires or ():
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name)
    return list(found.values())


def _top_levels(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """The names that a distribution puts into its site-packages folder, each with where it lies."""
    base = Path(str(distribution.locate_file("")))
    for name in {file.parts[0] for file in distribution.files or () if file.parts}:
        path = base / name
        if name not in ("..", "__pycache__") and not name.endswith(".pth") and path.exists():
            yield name, path.resolve()
