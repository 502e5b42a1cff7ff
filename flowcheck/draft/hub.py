"""Models on the hub, through ``huggingface_hub`` (the extra ``flowcheck[hub]``): configurations and headers, no weights.

Offline first: what lies in the hub's cache is taken from there without a network. The package finds ``HF_TOKEN`` itself.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcheck.draft.checkpoint import INDEX, MAX_INDEX_BYTES, SINGLE, absence, header_in, joined, shards_of
from flowcheck.draft.documents import parse_object, read_bytes, read_object
from flowcheck.draft.errors import DraftError, HeaderError, HubError, one_line
from flowcheck.draft.header import Header, header_from

__all__ = ["Access", "HubName", "fetch_config", "fetch_header", "hub_name"]

_NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95})(?:@([\w./-]{1,250}))?", re.ASCII)
_TOKEN = re.compile(r"hf_\w{4,}")


@dataclass(frozen=True)
class HubName:
    """A repository on the hub, at a branch, tag or commit, or at what its main branch is."""

    repository: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.repository}@{self.revision}" if self.revision else self.repository


@dataclass(frozen=True)
class Access:
    """How far to go for a model. ``cache_dir`` is where headers are kept that were read over the network."""

    offline: bool = False
    cache_dir: Path | None = None
    progress: Callable[[str], None] | None = None

    def say(self, text: str) -> None:
        """Tell whoever waits, before something slow."""
        if self.progress is not None:
            self.progress(text)


def hub_name(spec: str) -> HubName | None:
    """The repository that ``org/name`` or ``org/name@revision`` names, or None if ``spec`` has not that shape."""
    match = _NAME.fullmatch(spec)
    if match is None or ".." in spec or match.group(1).endswith((".json", ".safetensors")):
        return None
    return HubName(match.group(1), match.group(2))


def fetch_config(name: HubName, access: Access) -> tuple[dict[str, Any], str]:
    """The configuration of a model, and the commit that it is of. Raises `HubError` or `ConfigError`."""
    package = _package(name)
    path = _cached(package, name)
    if path is None:
        if access.offline:
            raise HubError(f"{name} is not in the hub's cache, and --offline forbids to fetch it")
        access.say(f"fetching the configuration of {name} from the hub")
        with _quiet(package):
            try:
                path = str(package.hf_hub_download(name.repository, "config.json", revision=name.revision))
            except Exception as problem:  # noqa: BLE001 - the errors of its HTTP client differ between its versions
                raise HubError(_said(problem, name)) from None
    where = Path(path)
    commit = where.parent.name if re.fullmatch(r"[0-9a-f]{40}", where.parent.name) else name.revision or ""
    return read_object(where, f"{name}/config.json"), commit


def fetch_header(name: HubName, commit: str, access: Access) -> Header | str:
    """The header of a model's checkpoint, by range requests, or the reason why there is none.

    That the hub cannot be reached is such a reason, since a pair can be judged without a header. Raises `HeaderError`.
    """
    package = _package(name)
    at = HubName(name.repository, commit or name.revision)
    kept = _kept(at, access)
    if kept is not None and kept.is_file():
        with contextlib.suppress(DraftError):  # damaged: it is fetched again
            return header_from(read_object(kept, str(kept), MAX_INDEX_BYTES), str(name))
    found = _in_cache(package, at, name)
    if found is not None:
        return found
    if access.offline:
        return "its header is not in the cache, and --offline forbids to fetch it"
    access.say(f"reading the header of {name} on the hub")
    with _quiet(package):
        try:
            header = _over_network(package, at, str(name))
        except HeaderError:
            raise
        except Exception as problem:  # noqa: BLE001 - as above
            if type(problem).__name__ == "SafetensorsParsingError":
                raise HeaderError(f"the header of {name} is damaged: {_masked(problem)}") from None
            return f"its header was not fetched: {_said(problem, name)}"
    if isinstance(header, Header) and kept is not None:
        _keep(header, kept)
    return header


def _package(name: HubName) -> Any:
    try:
        import huggingface_hub  # here: an extra, and slow to import
    except ImportError:
        raise HubError(
            f"{name} is no path that exists, and to ask the hub huggingface_hub is needed: pip install 'flowcheck[hub]'"
        ) from None
    return huggingface_hub


def _cached(package: Any, name: HubName, file: str = "config.json") -> str | None:
    """Where a file lies in the hub's cache."""
    try:
        found = package.try_to_load_from_cache(name.repository, file, revision=name.revision)
    except Exception as problem:  # noqa: BLE001 - as above
        raise HubError(_said(problem, name)) from None
    return found if isinstance(found, str) else None


def _in_cache(package: Any, at: HubName, name: HubName) -> Header | None:
    """The header, if the weights themselves lie in the hub's cache, all of them."""
    index = _cached(package, at, INDEX)
    path = index or _cached(package, at, SINGLE)
    if path is None:
        return None
    folder = Path(path).parent
    if index is not None:
        label = f"{name}/{INDEX}"
        table = parse_object(read_bytes(Path(index), label, MAX_INDEX_BYTES, HeaderError), label, HeaderError)
        if not all((folder / shard).is_file() for shard in set(shards_of(table, label).values())):
            return None
    found = header_in(folder, str(name))
    return found if isinstance(found, Header) else None


def _over_network(package: Any, at: HubName, label: str) -> Header | str:
    files = package.list_repo_files(at.repository, revision=at.revision)
    if SINGLE in files or INDEX in files:
        found = package.get_safetensors_metadata(at.repository, revision=at.revision)
        parts = {file: _part(each, label) for file, each in found.files_metadata.items()}
        return joined(parts, label, found.weight_map if found.sharded else None)
    others = [each for each in files if each.endswith(".safetensors") and "/" not in each]
    if not others:
        return absence([each for each in files if "/" not in each])
    one = package.parse_safetensors_file_metadata
    return joined({each: _part(one(at.repository, each, revision=at.revision), label) for each in others}, label)


def _part(metadata: Any, label: str) -> Header:
    tensors = {name: {"dtype": each.dtype, "shape": list(each.shape)} for name, each in metadata.tensors.items()}
    return header_from({"tensors": tensors}, label)


def _kept(at: HubName, access: Access) -> Path | None:
    """Where a header is kept; only one of a commit is, since branches move."""
    if access.cache_dir is None or not re.fullmatch(r"[0-9a-f]{40}", at.revision or ""):
        return None
    return access.cache_dir / "headers" / at.repository.replace("/", "--") / f"{at.revision}.json"


def _keep(header: Header, path: Path) -> None:
    tensors = {name: {"dtype": each.dtype, "shape": list(each.shape)} for name, each in header.tensors.items()}
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".header-")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump({"tensors": tensors}, stream)
        Path(scratch).replace(path)


@contextlib.contextmanager
def _quiet(package: Any) -> Iterator[None]:
    """No retries on the log and no bars: whatever comes of it is said once, in our words."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    bars = getattr(package, "utils", None)
    with contextlib.suppress(AttributeError):
        bars.disable_progress_bars()  # type: ignore[union-attr]
    try:
        yield
    finally:
        logger.setLevel(before)


def _said(problem: Exception, name: HubName) -> str:
    """What went wrong, by the names of the error's classes: these are stable, their modules are not."""
    kinds = [each.__name__ for each in type(problem).__mro__]
    if "GatedRepoError" in kinds:
        return f"{name.repository} is gated: accept its terms on the hub and set HF_TOKEN"
    if "RepositoryNotFoundError" in kinds:
        return f"there is no {name.repository} on the hub, or it is private (then set HF_TOKEN)"
    if "RevisionNotFoundError" in kinds:
        return f"{name.repository} has no revision {name.revision or 'main'}"
    if "HFValidationError" in kinds:
        return f"{name} is no name of a repository on the hub"
    if "EntryNotFoundError" in kinds and "LocalEntryNotFoundError" not in kinds:
        return f"{name} has no config.json"
    status = getattr(getattr(problem, "response", None), "status_code", None)
    if isinstance(status, int):
        hint = "; set HF_TOKEN" if status in (401, 403) else ""
        return f"the hub answers {status} for {name}{hint}"
    return f"cannot reach the hub for {name}, which is not in its cache: {_masked(problem.__cause__ or problem)}"


def _masked(problem: BaseException) -> str:
    text = _TOKEN.sub("hf_…", one_line(str(problem))) or type(problem).__name__
    return text if len(text) <= 160 else text[:159] + "…"
