"""A stand-in for huggingface_hub with the functions that flowcheck calls, over folders on disk and without a network.

Names and signatures are those of huggingface_hub 0.24 to 2.4.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HfHubHTTPError(OSError):
    def __init__(self, text: str, status: int = 500) -> None:
        super().__init__(text)
        self.response = type("Response", (), {"status_code": status})()


class RepositoryNotFoundError(HfHubHTTPError):
    pass


class GatedRepoError(RepositoryNotFoundError):
    pass


class RevisionNotFoundError(HfHubHTTPError):
    pass


class EntryNotFoundError(Exception):
    pass


class LocalEntryNotFoundError(EntryNotFoundError, FileNotFoundError):
    pass


class HFValidationError(ValueError):
    pass


class NotASafetensorsRepoError(Exception):
    pass


class SafetensorsParsingError(Exception):
    pass


class ConnectError(Exception):
    """What an HTTP client raises: nothing that huggingface_hub or Python derives from."""


@dataclass
class TensorInfo:
    dtype: str
    shape: list[int]


@dataclass
class FileMetadata:
    tensors: dict[str, TensorInfo]


@dataclass
class RepoMetadata:
    sharded: bool
    weight_map: dict[str, str]
    files_metadata: dict[str, FileMetadata]


@dataclass
class FakeHub:
    """``remote`` are the files on the hub, ``cache`` the folder of the local cache. ``asked`` counts network calls."""

    cache: Path
    remote: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, TensorInfo]] = field(default_factory=dict)
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)
    revisions: list[str | None] = field(default_factory=list)

    @property
    def snapshot(self) -> Path:
        return self.cache / "models--org--name" / "snapshots" / COMMIT

    def put(self, name: str, content: bytes) -> Path:
        """Let a file lie in the local cache."""
        self.snapshot.mkdir(parents=True, exist_ok=True)
        (self.snapshot / name).write_bytes(content)
        return self.snapshot / name

    def _network(self, what: str) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error

    def try_to_load_from_cache(
        self,
        repo_id: str,
        filename: str,
        cache_dir: Any = None,
        revision: str | None = None,
        repo_type: str | None = None,
    ) -> Any:
        if repo_id.count("/") != 1 or "--" in repo_id:
            raise HFValidationError(f"Repo id must be in the form 'namespace/repo_name': '{repo_id}'")
        path = self.snapshot / filename
        return str(path) if path.is_file() else None

    def hf_hub_download(self, repo_id: str, filename: str, *, revision: str | None = None) -> str:
        self._network(filename)
        self.revisions.append(revision)
        if filename not in self.remote:
            raise EntryNotFoundError(f"404: {filename}")
        return str(self.put(filename, self.remote[filename]))

    def list_repo_files(self, repo_id: str, *, revision: str | None = None) -> list[str]:
        self._network("list")
        return [*self.remote, *self.headers]

    def get_safetensors_metadata(self, repo_id: str, *, revision: str | None = None) -> RepoMetadata:
        self._network("metadata")
        self.revisions.append(revision)
        index = self.remote.get("model.safetensors.index.json")
        table = json.loads(index)["weight_map"] if index else {}
        return RepoMetadata(index is not None, table, {name: FileMetadata(each) for name, each in self.headers.items()})

    def parse_safetensors_file_metadata(
        self, repo_id: str, filename: str, *, revision: str | None = None
    ) -> FileMetadata:
        self._network(filename)
        return FileMetadata(self.headers[filename])
