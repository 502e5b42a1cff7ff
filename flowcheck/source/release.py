"""A release by name: found in the cache, or downloaded once. Nothing of it is installed or executed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flowcheck.source.cache import Slot, cache_root
from flowcheck.source.errors import SourceError
from flowcheck.source.pipcall import Log, Runner, failure, offered, run_pip, tag_options, usual_options

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Release", "fetch", "parse_release", "slot_of"]

_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(?:\[[^\]/]*\])?\s*(?:[<>=!~]=?=?)\s*\S+")
_MAX_ARCHIVE = 2 * 1024**3
_TIMEOUT = 60.0


@dataclass(frozen=True)
class Release:
    """A project and an exact version of it."""

    name: str
    version: Version


def parse_release(spec: str) -> Release | None:
    """The release that ``spec`` names, or None if it has not that shape. Raises SourceError if it is not exact."""
    if not _SHAPE.fullmatch(spec.strip()):
        return None
    try:
        requirement = Requirement(spec)
        clauses = list(requirement.specifier)
        if len(clauses) == 1 and clauses[0].operator in ("==", "===") and requirement.marker is None:
            return Release(canonicalize_name(requirement.name), Version(clauses[0].version))
    except (InvalidRequirement, InvalidVersion):
        pass
    raise SourceError(f"{spec!r} names no single release; write it as name==version, such as sglang==0.5.6")


def slot_of(release: Release, cache_dir: Path | None) -> Slot:
    """Where the archive of ``release`` is kept."""
    return Slot((cache_dir or cache_root()) / "releases" / f"{release.name}-{release.version}")


def fetch(
    release: Release,
    *,
    cache_dir: Path | None = None,
    offline: bool = False,
    progress: Callable[[str], None] | None = None,
    runner: Runner | None = None,
) -> Path:
    """The wheel or sdist of ``release`` in the cache, downloaded if it is not there.

    Any platform's wheel will do, since it is only read; without one, the sdist. Raises SourceError in one line: no such
    release, no network, no pip, an unwritable cache.
    """
    slot = slot_of(release, cache_dir)
    known = slot.get() if slot.folder.is_dir() else None
    if known is not None:
        return known
    title = f"{release.name}=={release.version}"
    if offline:
        raise SourceError(f"{title} is not in the cache, and --offline forbids to fetch it")
    with slot.locked():
        known = slot.get()  # another process may have brought it meanwhile
        if known is not None:
            return known
        if progress is not None:
            progress(f"fetching {title} through pip, once")
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=slot.folder.parent) as scratch:
            return slot.put(_download(release, Path(scratch), runner or run_pip))


def _download(release: Release, scratch: Path, runner: Runner) -> Path:
    first = _attempt(release, scratch, runner, [])
    if isinstance(first, Path):
        return first
    files = offered(first.text, release.name, release.version)
    attempts = [tag_options(tags) for tags in files.wheels]
    if not attempts and not files.sdists and _may_exist(first.text, release):
        attempts = usual_options()
    for options in attempts[:8]:
        again = _attempt(release, scratch, runner, options)
        if isinstance(again, Path):
            return again
    for address in files.sdists:
        return _fetch_sdist(address, scratch, release)
    raise SourceError(failure(first.text, release.name, release.version))


def _may_exist(text: str, release: Release) -> bool:
    """Whether pip saw the version but named no file of it in a way that is understood here."""
    return re.search(rf"(?<![\w.]){re.escape(str(release.version))}(?![\w.])", text.partition("ERROR:")[0]) is not None


def _attempt(release: Release, scratch: Path, runner: Runner, options: list[str]) -> Path | Log:
    target = scratch / "files"
    empty = scratch / "empty"
    target.mkdir(exist_ok=True)
    empty.mkdir(exist_ok=True)
    wanted = f"{release.name}=={release.version}"
    fixed = [
        "download",
        "-vv",
        "--no-color",
        "--no-deps",
        "--only-binary=:all:",
        "--retries",
        "2",
        "--dest",
        str(target),
    ]
    log = runner([*fixed, *options, wanted], empty)
    found = sorted(target.glob("*.whl"))
    return found[0] if log.code == 0 and found else log


def _fetch_sdist(address: str, scratch: Path, release: Release) -> Path:
    import ssl
    import urllib.request

    # pip would run the build backend to learn the sdist's metadata, so the file is fetched without it.
    parsed = urlparse(address)
    if "****" in parsed.netloc:
        raise SourceError(
            f"{release.name}=={release.version} exists only as an sdist behind a login; download it and name the file"
        )
    target = scratch / Path(unquote(parsed.path)).name
    authorities = os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE")
    try:
        context = ssl.create_default_context(cafile=authorities)
        with urllib.request.urlopen(address, timeout=_TIMEOUT, context=context) as answer, target.open("wb") as stream:
            size = int(answer.headers.get("Content-Length") or 0)
            if size > _MAX_ARCHIVE:
                raise SourceError(f"the sdist of {release.name}=={release.version} is larger than 2 GB")
            shutil.copyfileobj(answer, stream, 1 << 20)
    except (OSError, ValueError) as error:
        raise SourceError(f"cannot fetch the sdist of {release.name}=={release.version}: {error}") from error
    if size and target.stat().st_size != size:
        raise SourceError(f"the sdist of {release.name}=={release.version} arrived cut short; try again")
    return target
