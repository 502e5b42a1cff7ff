"""From what the user typed to a `Tree`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flowcheck.source.archive import TarStore, ZipStore, is_archive_name
from flowcheck.source.editable import editable_targets
from flowcheck.source.errors import SourceError, UnreadableError
from flowcheck.source.gitstore import GitStore, split_revision
from flowcheck.source.roots import Root, find_roots, root_at
from flowcheck.source.store import FolderStore, Store
from flowcheck.source.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowcheck.source.release import Release

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
        spec: a checkout, a package folder, a site-packages folder (an editable install in it is followed), a wheel or
            an sdist, ``name==version`` (fetched once through pip into the cache), or ``REPO@REV`` (read through git
            without a checkout). A path that exists wins over the other readings.
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
    wanted = _Wanted(spec, package_root, include_all)
    try:
        path = Path(spec).expanduser()
    except RuntimeError:  # the home of a user who does not exist
        path = Path(spec)
    if os.path.lexists(path):
        return _open_path(path, wanted)
    if "=" in spec or "<" in spec or ">" in spec:
        from flowcheck.source.release import parse_release  # here, since start-up counts

        release = parse_release(spec)
        if release is not None:
            return _open_release(release, wanted, cache_dir, offline, progress)
    split = split_revision(os.path.expanduser(spec))  # noqa: PTH111 - Path would fold `./` and `//`
    if split is not None:
        repo, revision = Path(split[0]), split[1]
        return wanted.build(GitStore(repo, revision), "git", name=repo.resolve().name)
    raise SourceError(f"no such file or folder: {spec} (SOURCE is {_FORMS})")


@dataclass(frozen=True)
class _Wanted:
    """What the user asked for, whatever kind of source it turns out to be."""

    label: str
    package_root: str | None
    include_all: bool

    def build(
        self, store: Store, kind: str, *, name: str = "", base: Path | None = None, version: str | None = None
    ) -> Tree:
        """The tree over the one package in ``store``; closes ``store`` if there is not exactly one."""
        try:
            root = self._chosen(store, name, base)
        except BaseException:
            store.close()
            raise
        return Tree(store, root, kind=kind, label=self.label, include_all=self.include_all, version=version)

    def _chosen(self, store: Store, name: str, base: Path | None) -> Root:
        if not store.files:
            raise SourceError(f"{self.label} holds no Python file")
        if self.package_root is not None:
            chosen = root_at(store, name, _inside(self.package_root, base, self.label))
            if chosen is None:
                raise SourceError(
                    f"--package-root {self.package_root}: no such folder with Python files in {self.label}"
                )
            return chosen
        roots = find_roots(store, name)
        if not roots:
            raise SourceError(
                f"{self.label} holds no SGLang package (no class with the hidden-state capture modes or forward modes)"
                + _left_unread(store)
            )
        if len(roots) > 1:
            raise _several(self.label, [root.folder or "." for root in roots])
        return roots[0]


def _left_unread(store: Store) -> str:
    """What to add where nothing was found: the class may be in a file that was not read."""
    unread: list[tuple[str, str]] = []
    for path in sorted(store.files):
        try:
            store.read(path)
        except UnreadableError as error:
            unread.append((path, str(error)))
    if not unread:
        return ""
    path, reason = unread[0]
    others = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
    return f"; not read: {path} ({reason}){others}"


def _several(label: str, folders: list[str]) -> SourceError:
    listed = ", ".join(folders[:10]) + (f" and {len(folders) - 10} more" if len(folders) > 10 else "")
    return SourceError(f"{label} holds {len(folders)} SGLang packages: {listed}; choose one with --package-root PATH")


def _open_path(path: Path, wanted: _Wanted) -> Tree:
    if path.is_dir():
        return _open_folder(path, wanted)
    if not path.exists():
        raise SourceError(f"{wanted.label} is a symbolic link that leads nowhere")
    if not path.is_file():
        raise SourceError(f"{wanted.label} is neither a folder nor a regular file")
    return wanted.build(_open_archive(path), _archive_kind(path))


def _archive_kind(path: Path) -> str:
    return "wheel" if path.suffix.lower() == ".whl" else "sdist"


def _open_archive(path: Path) -> Store:
    try:
        with path.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}") from error
    if magic == b"PK\3\4" or path.suffix.lower() in (".whl", ".zip"):
        return ZipStore(path)
    if is_archive_name(path.name):
        return TarStore(path)
    raise SourceError(f"{path} is a file, but neither a wheel (.whl) nor an sdist (.tar.gz, .zip)")


def _open_folder(path: Path, wanted: _Wanted) -> Tree:
    store = FolderStore(path)
    name = path.resolve().name
    if wanted.package_root is None and not find_roots(store, name, thorough=False):
        followed = _follow_editable(path, wanted)
        if followed is not None:
            return followed
    elif wanted.package_root is not None and not store.files:
        raise SourceError(f"{wanted.label} holds no Python file")
    return wanted.build(store, _folder_kind(path), name=name, base=path)


def _folder_kind(path: Path) -> str:
    return "checkout" if any((path / mark).exists() for mark in (".git", "pyproject.toml", "python")) else "package"


def _follow_editable(path: Path, wanted: _Wanted) -> Tree | None:
    """The package that an editable install in ``path`` refers to. Its paths are relative to where it really is."""
    found: dict[str, tuple[Path, FolderStore]] = {}
    for target in editable_targets(path):
        store = FolderStore(target)
        for root in find_roots(store, target.name):
            # Several files of one install lead to the same package; the first (`direct_url.json`) is the checkout.
            found.setdefault(os.path.realpath(target / root.folder), (target, store))
    if not found:
        return None
    if len(found) > 1:
        raise SourceError(
            f"editable installs in {wanted.label} lead to {len(found)} SGLang packages: {', '.join(sorted(found))}; "
            "give one of them as SOURCE"
        )
    target, store = next(iter(found.values()))
    return wanted.build(store, _folder_kind(target), name=target.name, base=target)


def _open_release(
    release: Release,
    wanted: _Wanted,
    cache_dir: Path | None,
    offline: bool,
    progress: Callable[[str], None] | None,
) -> Tree:
    from flowcheck.source import release as releases

    path = releases.fetch(release, cache_dir=cache_dir, offline=offline, progress=progress)
    try:
        store = _open_archive(path)
    except SourceError:
        # It matched its seal and still is no archive: what was fetched was broken. Once more, from the start.
        releases.slot_of(release, cache_dir).drop()
        path = releases.fetch(release, cache_dir=cache_dir, offline=offline, progress=progress)
        store = _open_archive(path)
    return wanted.build(store, "release", version=str(release.version))


def _inside(package_root: str, base: Path | None, label: str) -> str:
    """``package_root`` relative to SOURCE; it may be given relative to SOURCE, or as a path of the file system."""
    text = package_root.replace(os.sep, "/")
    if base is not None and (Path(package_root).is_absolute() or not (base / package_root).is_dir()):
        try:
            text = Path(package_root).resolve().relative_to(base.resolve()).as_posix()
        except ValueError:
            raise SourceError(f"--package-root {package_root} is not inside {label}") from None
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise SourceError(f"--package-root {package_root} is not inside {label}")
    return "/".join(parts)
