"""Files of a revision, read from a repository's objects: no checkout is made and nothing in the repository changes."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING, cast

from flowcheck.source.errors import SourceError, SourceWarning, UnreadableError
from flowcheck.source.store import MAX_FILE_BYTES, too_large

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

__all__ = ["GitStore", "split_revision"]

_CHUNK = 1 << 20
_LINK, _SUBMODULE = "120000", "160000"


def split_revision(spec: str) -> tuple[str, str] | None:
    """``REPO@REV`` as a folder that exists and a revision; the longest such folder, since revisions hold ``@`` too."""
    at = len(spec)
    while (at := spec.rfind("@", 0, at)) > 0:
        if os.path.isdir(spec[:at]):  # noqa: PTH112 - a Path would drop what the user typed
            return spec[:at], spec[at + 1 :]
    return None


class GitStore:
    """The blobs below ``repo`` (a repository or a folder in one) at ``revision``, by one ``git cat-file --batch``."""

    def __init__(self, repo: Path, revision: str) -> None:
        self.notes: list[SourceWarning] = []
        self._repo = repo
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._blobs: dict[str, str] = {}
        self._children: dict[str, set[str]] = {}
        if not revision or revision.startswith("-"):
            raise SourceError(f"{revision!r} is no revision of {repo}")
        self._git("rev-parse", "--git-dir", failure=f"{repo} is not in a git repository")
        self.commit = self._git(
            "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", failure=f"no revision {revision!r} in {repo}"
        ).strip()
        self._list()
        self.files = [path for path in self._blobs if path.endswith(".py")]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_lock": None, "_process": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def _list(self) -> None:
        failure = f"cannot list {self.commit[:12]} of {self._repo}"
        for record in self._git("ls-tree", "-r", "-z", self.commit, failure=failure).split("\0"):
            if not record:
                continue
            facts, _, path = record.partition("\t")
            mode, _, oid = facts.split(" ")
            self._add(path)
            if mode == _SUBMODULE:
                self.notes.append(SourceWarning(path, "a submodule, not entered"))
            elif mode != _LINK:
                self._blobs[path] = oid
            elif path.endswith(".py") or "." not in path.rpartition("/")[2]:
                self.notes.append(SourceWarning(path, "a symbolic link, not followed"))

    def _add(self, path: str) -> None:
        while path:
            folder, _, leaf = path.rpartition("/")
            known = self._children.setdefault(folder, set())
            if leaf in known:
                return
            known.add(leaf)
            path = folder

    def _command(self, *arguments: str) -> list[str]:
        return ["git", "--no-replace-objects", "-C", str(self._repo), *arguments]

    def _git(self, *arguments: str, failure: str) -> str:
        try:
            done = subprocess.run(
                self._command(*arguments),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                env=_environment(),
            )
        except FileNotFoundError:
            raise SourceError("REPO@REV needs git, and there is no git on PATH") from None
        except OSError as error:
            raise SourceError(f"cannot run git: {error.strerror or error}") from error
        if done.returncode:
            said = os.fsdecode(done.stderr).strip().partition("\n")[0].removeprefix("fatal: ")
            raise SourceError(f"{failure} ({said})" if said else failure)
        return os.fsdecode(done.stdout)

    def _batch(self) -> tuple[IO[bytes], IO[bytes]]:
        # A forked worker shares the pipes of its parent: it needs a process of its own.
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._command("cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
            )
            self._owner = os.getpid()
        return cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)

    def _blob(self, oid: str) -> bytes:
        with self._lock:
            try:
                wanted, given = self._batch()
                wanted.write(oid.encode() + b"\n")
                wanted.flush()
                header = given.readline().split()
                if len(header) != 3 or header[1] != b"blob":
                    raise UnreadableError("its object is missing from the repository")
                size = int(header[2])
                if size > MAX_FILE_BYTES:
                    left = size + 1
                    while left:
                        left -= len(given.read(min(left, _CHUNK))) or left
                    raise too_large(size)
                data = given.read(size + 1)[:-1]
            except (OSError, ValueError) as error:
                raise UnreadableError(f"git cannot read it: {error}") from error
        if len(data) != size:
            raise UnreadableError("git ended while it gave the file")
        return data

    def read(self, path: str) -> bytes:
        """The bytes of a file; raises `UnreadableError`."""
        return self._blob(self._blobs[path])

    def fingerprint(self, path: str) -> str | None:
        """The blob's object id."""
        return self._blobs[path]

    def names(self, folder: str) -> list[str]:
        """Names directly in ``folder``."""
        return sorted(self._children.get(folder, ()))

    def peek(self, path: str) -> bytes | None:
        """The bytes of a metadata file, or None."""
        try:
            return self._blob(self._blobs[path]) if path in self._blobs else None
        except UnreadableError:
            return None

    @property
    def folder(self) -> Path | None:
        """See `Store.folder`."""
        return None

    def identity(self) -> str:
        """The commit, and the folder of the repository that is read."""
        inside = self._git("rev-parse", "--show-prefix", failure=f"{self._repo} is not in a git repository")
        return f"{self.commit}:{inside.strip()}"

    def unpack(self, prefix: str, into: Path) -> None:
        """See `Store.unpack`; links and submodules are left out."""
        for path in self._blobs:
            if path.startswith(prefix):
                data = self.read(path)
                target = into / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)

    def close(self) -> None:
        """End the git process."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()


def _environment() -> dict[str, str]:
    """The caller's, without what points git at another repository, lets it ask, or lets it fetch missing objects."""
    local = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_COMMON_DIR"}
    kept = {key: value for key, value in os.environ.items() if key not in local}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
