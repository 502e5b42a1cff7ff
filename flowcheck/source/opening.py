"""From what the user typed to a `Tree`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from flowcheck.source.archive import TarStore, ZipStore, is_archive_name
from flowcheck.source.errors import SourceError
from flowcheck.source.roots import Root, find_roots, root_at
from flowcheck.source.store import FolderStore, Store
from flowcheck.source.tree import Tree

__all__ = ["open_source"]

_FORMS = "a checkout, a package folder, a wheel or sdist, name==version, or REPO@REV"


def open_source(
    spec: str,
    *,
    package_root: str | None = None,
    include_all: bool = False,
    cache_dir: Path | None = None,
    offline: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Tree:
    """Open the SGLang package that ``spec`` names. Nothing of it is installed or executed.

    Args:
        spec: a checkout, a package folder, a site-packages folder (an editable install in it is followed), a wheel or an
            sdist, ``name==version`` (fetched once through pip into the cache), or ``REPO@REV`` (read through git without a
            checkout). A path that exists wins over the other readings.
        package_root: the package folder inside SOURCE, needed where SOURCE holds several.
        include_all: tests, benchmarks and examples of the package are in scope too.
        cache_dir: where fetched archives are kept; `cache_root` by default.
        offline: fetch nothing; a release that is not in the cache is an error.
        progress: called with one line before something slow.

    Raises:
        SourceError: the path does not exist, is no SGLang, holds several packages, is damaged, or cannot be fetched.
    """
    if not spec.strip():
        raise SourceError(f"SOURCE is empty; give {_FORMS}")
    if "\0" in spec:
        raise SourceError("SOURCE holds a NUL character")
    path = Path(os.path.expanduser(spec))
    if os.path.lexists(path):
        return _open_path(path, spec, package_root, include_all)
    raise SourceError(f"no such file or folder: {spec}")


def _open_path(path: Path, spec: str, package_root: str | None, include_all: bool) -> Tree:
    if path.is_dir():
        return _open_folder(path, spec, package_root, include_all)
    if not path.exists():
        raise SourceError(f"{spec} is a symbolic link that leads nowhere")
    if not path.is_file():
        raise SourceError(f"{spec} is neither a folder nor a regular file")
    store = open_archive(path)
    kind = "wheel" if path.suffix.lower() == ".whl" else "sdist"
    return build(store, kind=kind, label=spec, package_root=package_root, include_all=include_all)


def open_archive(path: Path) -> Store:
    """The store for a wheel or sdist, by content where the name allows it. Raises SourceError."""
    try:
        with path.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}") from error
    if magic.startswith(b"PK") or path.suffix.lower() in (".whl", ".zip"):
        return ZipStore(path)
    if is_archive_name(path.name):
        return TarStore(path)
    raise SourceError(f"{path} is a file, but neither a wheel (.whl) nor an sdist (.tar.gz, .zip)")


def _open_folder(path: Path, spec: str, package_root: str | None, include_all: bool) -> Tree:
    store = FolderStore(path)
    name = path.resolve().name
    kind = "checkout" if any((path / mark).exists() for mark in (".git", "pyproject.toml", "python")) else "package"
    return build(store, kind=kind, label=spec, name=name, package_root=package_root, include_all=include_all, base=path)


def build(
    store: Store,
    *,
    kind: str,
    label: str,
    name: str = "",
    package_root: str | None = None,
    include_all: bool = False,
    base: Path | None = None,
    version: str | None = None,
) -> Tree:
    """The tree over the one package in ``store``; closes ``store`` if there is not exactly one. Raises SourceError."""
    try:
        root = _choose(store, label, name, package_root, base)
    except BaseException:
        store.close()
        raise
    return Tree(store, root, kind=kind, label=label, include_all=include_all, version=version)


def _choose(store: Store, label: str, name: str, package_root: str | None, base: Path | None) -> Root:
    if not store.files:
        raise SourceError(f"{label} holds no Python file")
    if package_root is not None:
        folder = _inside(package_root, base, label)
        chosen = root_at(store, name, folder)
        if chosen is None:
            raise SourceError(f"--package-root {package_root}: no such folder with Python files in {label}")
        return chosen
    roots = find_roots(store, name)
    if not roots:
        raise SourceError(f"{label} holds no SGLang package (no class with the hidden-state capture or forward modes)")
    if len(roots) > 1:
        listed = ", ".join(root.folder or "." for root in roots[:10])
        more = f" and {len(roots) - 10} more" if len(roots) > 10 else ""
        raise SourceError(
            f"{label} holds {len(roots)} SGLang packages: {listed}{more}; choose one with --package-root PATH"
        )
    return roots[0]


def _inside(package_root: str, base: Path | None, label: str) -> str:
    """``package_root`` relative to SOURCE; it may be given relative to SOURCE, or as a path of the file system."""
    text = package_root.replace(os.sep, "/")
    if base is not None and (os.path.isabs(package_root) or not (base / package_root).is_dir()):
        try:
            text = Path(package_root).resolve().relative_to(base.resolve()).as_posix()
        except ValueError:
            raise SourceError(f"--package-root {package_root} is not inside {label}") from None
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise SourceError(f"--package-root {package_root} is not inside {label}")
    return "/".join(parts)
