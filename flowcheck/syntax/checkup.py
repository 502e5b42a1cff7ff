"""Which files of a tree are no Python: all of them, those that no walk ever needs included.

Python's own parser looks at each file, in a process beside the scan. What it refuses is parsed as the walk would parse
it, since the tree may be written for a newer Python than the one that runs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from flowcheck.syntax import _python
from flowcheck.syntax._cache import SyntaxCache
from flowcheck.syntax._model import SyntaxProblem
from flowcheck.syntax._source import Tree
from flowcheck.syntax.store import SyntaxStore

__all__ = ["Checkup"]

_TABLE = "sound-files"
_MOST_KEPT = 100_000  # digests of 32 bytes
_MOST_ENDS = 5  # processes that died or were stopped
_PATIENCE = 30.0  # seconds for what is left when the walk is over; a whole release takes five

_Fault = tuple[int, str, bool]


class Checkup:
    """Starts at once, beside whatever the caller does; :meth:`finish` waits for it. A context manager that stops it.

    Files whose content an earlier run found sound are not looked at again. Where no process can be started, and for
    what follows the fifth file that ends one, nothing is said.
    """

    def __init__(self, store: SyntaxStore, paths: Sequence[str], cache: SyntaxCache | None) -> None:
        self._store = store
        self._tree: Tree = store.tree
        self._cache = cache
        self._known = (cache.load_table(_TABLE, set[bytes]) if cache is not None else None) or set()
        self._todo = list(paths)
        self._faults: dict[str, _Fault] = {}
        self._sound: set[bytes] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="flowcheck-checkup", daemon=True)
        self._thread.start()

    def finish(self) -> list[SyntaxProblem]:
        """The first problem of each file, those that the store has met included. Remembers which files have none."""
        for _ in range(_MOST_ENDS):
            self._thread.join(_PATIENCE)
            if not self._thread.is_alive():
                break
            self._kill()
        for path, (line, reason, certain) in sorted(self._faults.items()):
            if certain:
                self._store.report(SyntaxProblem(path, line, reason))
            else:
                self._store.parse_whole(path)
                if all(problem.path != path for problem in self._store.problems):
                    self._sound.add(self._digest(path))
        fresh = self._sound - self._known
        if self._cache is not None and fresh:
            kept = self._known | fresh
            self._cache.save_table(_TABLE, kept if len(kept) <= _MOST_KEPT else self._sound)
        first: dict[str, SyntaxProblem] = {}
        for problem in sorted(self._store.problems, key=lambda p: (p.path, p.line)):
            first.setdefault(problem.path, problem)
        return [self._in_python_s_words(problem) for problem in first.values()]

    def _in_python_s_words(self, problem: SyntaxProblem) -> SyntaxProblem:
        """Python says it better, if it is the same that it means: an older one may not know what comes before."""
        line, reason, _ = self._faults.get(problem.path, (0, "", False))
        if line == problem.line and reason and problem.reason.startswith("invalid syntax"):
            return SyntaxProblem(problem.path, line, reason)
        return problem

    def __enter__(self) -> Checkup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = True
        self._kill()

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()

    def _digest(self, path: str) -> bytes:
        return bytes.fromhex(self._tree.file_digest(path))

    # ------------------------------------------------------------------------------------------------- in the thread
    def _run(self) -> None:
        for _ in range(_MOST_ENDS):
            if not self._todo or self._stopped or not sys.executable:
                return
            try:
                with tempfile.TemporaryFile() as answers:
                    fed = self._feed(answers)
                    answers.seek(0)
                    lines = answers.read().decode("ascii").splitlines()
            except OSError:
                return
            if not lines or lines[0] != _python.READY:
                return
            for path, line in zip(fed, lines[1:], strict=False):
                self._answered(path, line)
            ends_at = fed[len(lines) - 1 : len(lines)]  # the file that has no answer
            for path in ends_at:
                self._faults[path] = (1, "", False)
            read = len(self._todo) if not ends_at else self._todo.index(ends_at[0]) + 1
            del self._todo[:read]

    def _feed(self, answers: IO[bytes]) -> list[str]:
        """Gives a process every file that is left, as long as it takes them; which were given."""
        command = [sys.executable, "-I", "-S", "-W", "ignore", str(Path(_python.__file__))]
        fed: list[str] = []
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=answers, stderr=subprocess.DEVNULL
        ) as self._process:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):
                for path in self._todo:
                    data = self._tree.read(path)
                    digest = self._digest(path)
                    if digest in self._known:
                        self._sound.add(digest)
                        continue
                    fed.append(path)
                    self._process.stdin.write(len(data).to_bytes(8, "big") + data)
                self._process.stdin.close()
        return fed

    def _answered(self, path: str, line: str) -> None:
        if not line:
            self._sound.add(self._digest(path))
            return
        number, certain, reason = (*line.split(" ", 2), "", "")[:3]
        self._faults[path] = (int(number), reason, certain == "1")
