"""Runs the processes of a probe, each in a session of its own, and sees to it that all of them end: when one dies, when time
is up, when the user interrupts, and when this process is told to end. Nothing that they started is left behind.

Knows processes, their streams and time; knows nothing of models.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import FrameType

from flowcheck.probe.errors import ProbeError
from flowcheck.probe.leash import PARENT
from flowcheck.probe.protocol import Event, loads

__all__ = ["End", "ProcessEnd", "Start", "last_words", "supervise"]

MARK = "FLOWCHECK_PROBE_RUN"
"""The variable by which whatever a rank started, in whichever session, is found."""

KEPT_BYTES = 16 * 1024
LONGEST_LINE = 64 * 1024
WORDS = 12
STACK = "most recent call first"
"""In the first line of a stack as `faulthandler` prints it."""

TICK_SECONDS = 0.05
ASKED_SECONDS = 1.0
"""How long a rank that is asked where it stands may take to say it."""

TERM_SECONDS = 2.0
OTHERS_SECONDS = 5.0
"""How long the others may go on after one rank came to an error of its own: they may meet the same."""


class End(str, Enum):
    """How the process of a rank ended."""

    DONE = "done"
    """With a result, which may be an error (exit code 0 or 1)."""

    DIED = "died"
    """By a signal, or with any other exit code."""

    HUNG = "hung"
    """It was still running when time was up."""

    STOPPED = "stopped"
    """It was ended, or never begun, because another one died or failed."""


@dataclass(frozen=True, slots=True)
class Start:
    """One process: the ranks that it is (one, or several that it forks), its command, and its whole environment."""

    ranks: tuple[int, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended: ``code`` is its exit code (minus a signal's number; None if it was never begun), ``words`` the last
    lines of its standard error, ``last`` the last event of each of its ranks that reported any."""

    ranks: tuple[int, ...]
    end: End
    code: int | None = None
    words: tuple[str, ...] = ()
    last: Mapping[int, Event] = field(default_factory=dict)


def supervise(
    starts: Sequence[Start],
    *,
    seconds: float,
    at_once: int,
    together: bool,
    on_event: Callable[[Event], None] = lambda _: None,
) -> list[ProcessEnd]:
    """Run all processes to their end, in the order of ``starts``.

    Args:
        starts: the processes; each one leads a session of its own.
        seconds: when everything that still runs has hung.
        at_once: how many may run at the same time.
        together: they wait for each other, so that an error of one (exit code 1) ends the others, too, after a moment.
            Any other exit code but 0 does so in every case.
        on_event: called with each event that a process reports.
    """
    mark = secrets.token_hex(16)
    running: dict[tuple[int, ...], _Process] = {}
    waiting = deque(starts)
    ended: dict[tuple[int, ...], ProcessEnd] = {}
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector, _told_to_end():
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    process = _Process(waiting.popleft(), mark, selector, on_event)
                    running[process.start.ranks] = process
                _hear(selector)
                for process in [each for each in running.values() if each.is_over]:
                    process.finish()
                    del running[process.start.ranks]
                    ended[process.start.ranks] = process.ended(End.DIED if process.code not in (0, 1) else End.DONE)
                    if process.code not in (0, 1):
                        deadline = min(deadline, time.monotonic())
                    elif process.code == 1 and together:
                        deadline = min(deadline, time.monotonic() + OTHERS_SECONDS)
                if time.monotonic() >= deadline and (running or waiting):
                    broken = any(each.end is End.DIED or (each.code == 1 and together) for each in ended.values())
                    _stop(running.values(), selector, ask=not broken)
                    how = End.STOPPED if broken else End.HUNG
                    ended |= {ranks: process.ended(how) for ranks, process in running.items()}
                    running.clear()
                    ended |= {each.ranks: ProcessEnd(each.ranks, End.STOPPED) for each in waiting}
                    waiting.clear()
        finally:
            _stop(running.values(), selector, ask=False)
            _sweep(mark)
    return [ended[start.ranks] for start in starts]


class _Process:
    """One running process and what it says."""

    def __init__(
        self, start: Start, mark: str, selector: selectors.BaseSelector, on_event: Callable[[Event], None]
    ) -> None:
        self.start = start
        self.last: dict[int, Event] = {}
        self._selector = selector
        self._on_event = on_event
        self._line = b""
        self._tail = b""
        self._other = b""
        try:
            self.popen = subprocess.Popen(
                start.command,
                env={**start.environment, MARK: mark, PARENT: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ProbeError(
                f"cannot start rank {start.ranks[0]}: {start.command[0]}: {error.strerror or error}"
            ) from error
        assert self.popen.stdout is not None
        assert self.popen.stderr is not None
        self._streams = {self.popen.stdout: self._hear_events, self.popen.stderr: self._keep}
        for stream, take in self._streams.items():
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, take)

    @property
    def code(self) -> int | None:
        """The exit code; None before `finish`."""
        return self.popen.returncode

    @property
    def is_over(self) -> bool:
        """Whether it has ended. It is not waited for: until `finish`, nobody else can get the id of its session."""
        if self.code is not None:
            return True
        return os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def signal(self, number: int) -> None:
        """Signal everything in its session's process group."""
        if self.code is None:
            with contextlib.suppress(OSError):
                os.killpg(self.popen.pid, number)

    def finish(self) -> None:
        """End what is left of its session, take what it said last, and give everything back."""
        self.signal(signal.SIGKILL)
        for stream, take in self._streams.items():
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(stream)
            for _ in range(64):  # a child that it left behind may go on writing
                if stream.closed or not take(stream.fileno()):
                    break
            stream.close()
        self.popen.wait()

    def ended(self, end: End) -> ProcessEnd:
        """What is to be said of it."""
        words = last_words(self._tail) or last_words(self._other)
        return ProcessEnd(self.start.ranks, end, self.code, words, dict(self.last))

    def _hear_events(self, descriptor: int) -> bool:
        data = _read(descriptor)
        *lines, self._line = (self._line + data).split(b"\n")
        self._line = self._line[-LONGEST_LINE:]
        for line in lines:
            try:
                event = loads(Event, line)
            except (ValueError, RecursionError):
                self._other = (self._other + line + b"\n")[
                    -KEPT_BYTES:
                ]  # not by the protocol: words, if there are no others
                continue
            if event.rank in self.start.ranks:
                self.last[event.rank] = event
                self._on_event(event)
        return bool(data)

    def _keep(self, descriptor: int) -> bool:
        data = _read(descriptor)
        self._tail = (self._tail + data)[-KEPT_BYTES:]
        return bool(data)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except (BlockingIOError, InterruptedError):
        return b""


def _hear(selector: selectors.BaseSelector) -> None:
    """Take what the processes said meanwhile, or wait a moment."""
    ready = selector.select(TICK_SECONDS)
    heard = [key.data(key.fd) for key, _ in ready]
    if not ready or not any(heard):  # nobody speaks, or streams are at their ends
        time.sleep(TICK_SECONDS / 5)


def _stop(processes: Iterable[_Process], selector: selectors.BaseSelector, *, ask: bool) -> None:
    """End processes and what is in their sessions; those that hang are asked first where they stand."""
    left = list(processes)
    if ask:
        for process in left:
            process.signal(signal.SIGUSR1)
        _wait(left, selector, ASKED_SECONDS)
    for process in left:
        process.signal(signal.SIGTERM)
    _wait(left, selector, TERM_SECONDS)
    for process in left:
        process.finish()


def _wait(processes: Sequence[_Process], selector: selectors.BaseSelector, seconds: float) -> None:
    """Hear what processes say for a while, or until all of them have ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not all(each.is_over for each in processes):
        _hear(selector)


def _sweep(mark: str) -> None:
    """End what ranks started in sessions of its own: found by a variable of its environment, where the system shows it."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(10):  # what is being ended may fork meanwhile
        found = False
        for place in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError, ValueError):
                if wanted in place.read_bytes().split(b"\0"):
                    os.kill(int(place.parent.name), signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(TICK_SECONDS)


def last_words(tail: bytes) -> tuple[str, ...]:
    """The last lines of a stream, fit for a terminal."""
    lines = [line.rstrip() for line in tail.decode("utf-8", "replace").splitlines()]
    shown = ["".join(each if each.isprintable() else " " for each in line)[-400:] for line in lines if line.strip()]
    asked = [number for number, line in enumerate(shown) if STACK in line]
    first = asked[-1] if asked else max(0, len(shown) - WORDS)  # a stack begins with the innermost call
    return tuple(shown[first : first + WORDS])


@contextlib.contextmanager
def _told_to_end() -> Iterator[None]:
    """Signals that would end this process at once end it through the way out instead, so that nothing is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    before = {number: signal.signal(number, leave) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
