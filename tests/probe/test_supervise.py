"""Ranks that die, hang, raise, flood, fork and ignore signals: whatever they do, the probe ends and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck.probe.errors import ProbeError
from flowcheck.probe.protocol import Event, dumps
from flowcheck.probe.supervise import End, ProcessEnd, Start, supervise

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
"""Seconds: only what is broken comes near it."""

FOREVER = "import time\nwhile True: time.sleep(1)"


def start(rank: int, program: str, *arguments: object) -> Start:
    command = (sys.executable, "-c", program, *map(str, arguments))
    return Start((rank,), command, {**os.environ, "PYTHONPATH": str(ROOT)})


def run(*starts: Start, seconds: float = PATIENCE, together: bool = True, **options: object) -> list[ProcessEnd]:
    return supervise(starts, seconds=seconds, at_once=len(starts), together=together, **options)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def gone(pid: int) -> bool:
    """Whether a process that was ended goes away."""
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


def pids(folder: Path, number: int) -> list[int]:
    deadline = time.monotonic() + PATIENCE
    while len(found := list(folder.glob("pid-*"))) < number and time.monotonic() < deadline:
        time.sleep(0.02)
    return [int(path.name.removeprefix("pid-")) for path in found]


NOTE = "import os, sys, pathlib; pathlib.Path(sys.argv[1], f'pid-{os.getpid()}').touch()\n"
"""Leaves the process id in a folder."""


def test_ranks_that_end_well() -> None:
    ends = run(start(0, "pass"), start(1, "raise SystemExit(1)"))
    assert [(each.end, each.code) for each in ends] == [(End.DONE, 0), (End.DONE, 1)]


def test_events_are_heard_and_other_lines_are_words() -> None:
    heard: list[Event] = []
    event = Event(0, "forward", "extend", 1.5)
    ends = run(start(0, f"print({dumps(event)!r}); print('chatter')"), on_event=heard.append)
    assert heard == [event]
    assert (ends[0].last, ends[0].words) == ({0: event}, ("chatter",))


def test_an_event_in_the_name_of_another_rank_is_none() -> None:
    heard: list[Event] = []
    run(start(0, f"print({dumps(Event(1, 'done'))!r})"), on_event=heard.append)
    assert heard == []


def test_a_rank_that_dies_ends_the_others_with_its_last_words(tmp_path: Path) -> None:
    dies = NOTE + "print('no memory left', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)"
    ends = run(start(0, NOTE + FOREVER, tmp_path), start(1, dies, tmp_path))
    assert [each.end for each in ends] == [End.STOPPED, End.DIED]
    assert (ends[1].code, ends[1].words) == (-signal.SIGKILL, ("no memory left",))
    assert all(map(gone, pids(tmp_path, 2)))


def test_a_rank_that_raises_says_what() -> None:
    ends = run(start(0, "import sys; sys.excepthook = lambda *a: (print(a[1], file=sys.stderr), sys.exit(4)); 1 / 0"))
    assert (ends[0].end, ends[0].words) == (End.DIED, ("division by zero",))


def test_an_error_of_one_ends_those_that_wait_for_it() -> None:
    ends = run(start(0, FOREVER), start(1, "raise SystemExit(1)"))
    assert [each.end for each in ends] == [End.STOPPED, End.DONE]


def test_an_error_of_one_leaves_alone_those_that_do_not_wait() -> None:
    slow = "import time; time.sleep(0.5)"
    ends = run(start(0, slow), start(1, "raise SystemExit(1)"), together=False)
    assert [(each.end, each.code) for each in ends] == [(End.DONE, 0), (End.DONE, 1)]


def test_a_rank_that_hangs_is_ended_and_says_where(tmp_path: Path) -> None:
    module = tmp_path / "stuck.py"
    module.write_text("import time\ndef waits_for_nobody():\n    time.sleep(600)\nwaits_for_nobody()\n")
    code = "import sys; sys.argv = ['leash', 'stuck']; import flowcheck.probe.leash as leash; leash.main()"
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    ends = run(Start((0,), (sys.executable, "-c", code), env), seconds=3)
    assert ends[0].end is End.HUNG
    assert "waits_for_nobody" in "\n".join(ends[0].words)


def test_a_rank_that_ignores_every_signal_ends_all_the_same(tmp_path: Path) -> None:
    deaf = (
        NOTE.replace("import os", "import signal, os")
        + "for n in (1, 2, 10, 15): signal.signal(n, signal.SIG_IGN)\n"
        + FOREVER
    )
    ends = run(start(0, deaf, tmp_path), seconds=1)
    assert (ends[0].end, ends[0].code) == (End.HUNG, -signal.SIGKILL)
    assert all(map(gone, pids(tmp_path, 1)))


def test_a_rank_that_floods_its_streams_is_heard_to_the_end() -> None:
    flood = "import sys\nfor n in range(200000): print('x' * 100, file=sys.stderr); print('y' * 100)\n"
    ends = run(start(0, flood + "print('last', file=sys.stderr)"))
    assert (ends[0].end, ends[0].code) == (End.DONE, 0)
    assert ends[0].words[-1] == "last"
    assert sum(map(len, ends[0].words)) < 10_000


def test_words_hold_nothing_that_a_terminal_acts_on() -> None:
    ends = run(start(0, r"import sys; sys.stderr.buffer.write(b'\x1b[2Jred\xff\n'); sys.exit(5)"))
    assert all(character.isprintable() for line in ends[0].words for character in line)


@pytest.mark.parametrize("detach", ["", "os.setsid()\n"])
@pytest.mark.parametrize("after", ["sys.exit(0)", "os.kill(os.getpid(), 9)", FOREVER])
def test_nothing_that_a_rank_started_is_left(tmp_path: Path, detach: str, after: str) -> None:
    forks = (
        NOTE
        + f"if os.fork() == 0:\n    {detach.strip() or 'pass'}\n    {NOTE.strip()}\n    import time; time.sleep(600)\n"
    )
    wait = "import time\nwhile len(list(pathlib.Path(sys.argv[1]).iterdir())) < 2: time.sleep(0.01)\n"
    run(start(0, forks + wait + after, tmp_path), seconds=5)
    found = pids(tmp_path, 2)
    assert len(found) == 2
    assert all(map(gone, found))


def test_ranks_take_turns_where_not_all_may_run_at_once(tmp_path: Path) -> None:
    alone = "import os, sys, time; os.mkdir(sys.argv[1]); time.sleep(0.1); os.rmdir(sys.argv[1])"
    starts = [start(rank, alone, tmp_path / "one") for rank in range(3)]
    ends = supervise(starts, seconds=PATIENCE, at_once=1, together=False)
    assert [each.code for each in ends] == [0, 0, 0]


def test_those_that_never_began_are_said_to_be_stopped() -> None:
    ends = supervise([start(0, "raise SystemExit(9)"), start(1, "pass")], seconds=PATIENCE, at_once=1, together=False)
    assert [(each.end, each.code) for each in ends] == [(End.DIED, 9), (End.STOPPED, None)]


def test_a_program_that_is_not_there_is_one_line() -> None:
    with pytest.raises(ProbeError, match="cannot start rank 0: /nowhere/python: No such file"):
        run(Start((0,), ("/nowhere/python",), {}))


SUPERVISOR = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from flowcheck.probe.supervise import Start, supervise
code = {code!r}
starts = [Start((rank,), (sys.executable, "-c", code, sys.argv[1]), dict(os.environ)) for rank in range(2)]
supervise(starts, seconds=600, at_once=2, together=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupts_leave_nothing_behind(tmp_path: Path, number: int) -> None:
    found = interrupted(tmp_path, NOTE + FOREVER, lambda process: process.send_signal(number))
    assert all(map(gone, found))


def test_ranks_on_a_leash_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "module_of_a_rank.py").write_text(NOTE + FOREVER)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['', 'module_of_a_rank', sys.argv[1]];"
        "import flowcheck.probe.leash as leash; leash.main()"
    )
    found = interrupted(tmp_path, code, lambda process: process.kill())
    assert all(map(gone, found))


def interrupted(folder: Path, code: str, end: Callable[[subprocess.Popen[bytes]], None]) -> list[int]:
    """The processes of two ranks whose supervisor is ended while they run."""
    seen = folder / "seen"
    seen.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR.format(code=code), str(seen)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    try:
        found = pids(seen, 2)
        assert len(found) == 2
        end(process)
        assert process.wait(PATIENCE) != 0
    finally:
        process.kill()
        process.wait()
    return found
