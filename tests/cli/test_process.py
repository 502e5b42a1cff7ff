"""The command as a process of its own: what a shell sees."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAKE = [sys.executable, "-m", "tests.cli.fake_engine"]
REAL = [sys.executable, "-m", "flowcheck"]


def run(command: list[str], *arguments: str, scene: str = "clean", **env: str) -> subprocess.CompletedProcess[str]:
    cleaned = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "TERM", "COLUMNS"}}
    return subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        env={**cleaned, "SCENE": scene, **env},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


@pytest.mark.parametrize(("scene", "code"), [("clean", 0), ("error", 1), ("unreadable", 2), ("bug", 3)])
def test_exit_codes(scene: str, code: int) -> None:
    done = run(FAKE, "scan", "./tree", scene=scene)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == (1 if code > 1 else 0)


def test_a_bug_shows_its_traceback_on_demand() -> None:
    done = run(FAKE, "scan", "./tree", scene="bug", FLOWCHECK_DEBUG="1")
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" in done.stderr


def test_json_on_stdout_is_one_document() -> None:
    assert json.loads(run(FAKE, "scan", "./tree", "--format", "json").stdout)["tool"]["name"] == "flowcheck"


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        done = subprocess.run(
            [*FAKE, "scan", "./tree", "--format", "json"],
            cwd=ROOT,
            env={**os.environ, "SCENE": "error"},
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 141
    assert done.stderr == ""


def shell(line: str, scene: str = "clean", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A line of bash in which ``FAKE`` and ``REAL`` stand for the commands."""
    line = line.replace("FAKE", " ".join(FAKE)).replace("REAL", " ".join(REAL))
    env = {**os.environ, "SCENE": scene, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=cwd, env=env, capture_output=True, text=True, timeout=60
    )


PRINTING = ["FAKE scan ./tree", "FAKE scan ./tree --format json", "FAKE scan ./tree --color always", "REAL rules"]
PRINTING += ["REAL explain HS101", "REAL schema", "REAL --help", "REAL scan --help", "REAL --version", "REAL"]
HEALTHY_PAIR = "fixtures/pair-healthy/draft fixtures/pair-healthy/target"
PRINTING += [f"REAL check-pair {HEALTHY_PAIR}", "REAL pair", "REAL pair --help"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("where", "said"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")])
@pytest.mark.parametrize("command", PRINTING)
def test_a_stdout_that_takes_nothing_is_one_line(command: str, where: str, said: str, unbuffered: str) -> None:
    done = shell(f"PYTHONUNBUFFERED={unbuffered} {command} {where}")
    assert (done.returncode, done.stderr) == (2, f"flowcheck: error: cannot write to stdout: {said}\n")


@pytest.mark.parametrize("command", PRINTING)
def test_every_command_says_141_where_its_reader_went_away(command: str) -> None:
    done = shell(f"(sleep 0.2; {command}) | true")
    assert (done.returncode, done.stderr) == (141, "")


def test_a_report_in_a_file_needs_no_stdout(tmp_path: Path) -> None:
    assert shell(f"FAKE scan ./tree -o {tmp_path}/report >&- <&-").returncode == 0
    assert "3 proved" in (tmp_path / "report").read_text("utf-8")


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(("scene", "code"), [("clean", 0), ("warned", 0), ("error", 1), ("unreadable", 2), ("bug", 3)])
def test_exit_codes_do_not_need_a_stderr(scene: str, code: int, where: str) -> None:
    assert shell(f"FAKE scan ./tree {where} >/dev/null", scene).returncode == code


def test_a_working_directory_that_is_gone_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    done = shell(f"mkdir {gone}; cd {gone}; rmdir {gone}; REAL scan .")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "flowcheck: error: the working directory does not exist any more\n"


def test_a_terminal_that_knows_only_ascii_is_no_traceback() -> None:
    done = run(FAKE, "scan", "./tree", scene="error", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.parametrize(("extra", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colour_on_a_terminal(extra: dict[str, str], colored: bool) -> None:
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [*FAKE, "scan", "./tree"],
        cwd=ROOT,
        env={**env, "SCENE": "error", **extra},
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(theirs)
        said = b""
        while chunk := _read(ours):
            said += chunk
    os.close(ours)
    assert process.returncode == 1
    assert (b"\x1b[" in said) == colored
    head = next(line for line in said.decode().splitlines() if "SITE" in line)
    assert "WORKER" in head  # 100 columns have room for it


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["scan", "--help"],
        ["trace", "--help"],
        ["ids", "--help"],
        ["upgrade", "--help"],
        ["check-pair", "--help"],
        ["pair", "freeze", "--help"],
    ],
)
def test_help_and_version_load_no_heavy_library(arguments: list[str]) -> None:
    code = (
        "import sys, atexit\n"
        "rooms = {f'flowcheck.{room}' for room in ('source', 'syntax', 'flow', 'draft', 'checks', 'report')}\n"
        "heavy = {'libcst', 'networkx', *rooms}\n"
        "atexit.register(lambda: print('LOADED', sorted(heavy & set(sys.modules))))\n"
        "from flowcheck.cli import main\n"
        "main()"
    )
    done = run([sys.executable, "-c", code], *arguments)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_a_pair_on_a_real_tree_with_its_launch(tmp_path: Path) -> None:
    draft, target = "fixtures/wiring-healthy/draft", "fixtures/wiring-healthy/target"
    script = tmp_path / "serve.sh"
    script.write_text(
        f"python -m sglang.launch_server --model-path {target} --speculative-draft-model-path {draft} "
        "--speculative-algorithm EAGLE3 --tp 8\n"
    )
    given = ["--launch", str(script), "--trained-boundaries", "3,5,7"]
    done = run(REAL, "scan", "fixtures/wiring-healthy/tree", "--no-cache", *given)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("6 questions: 6 proved, 0 violated, 0 unproved;")


def test_a_tree_that_has_no_model_of_the_target_leaves_a_question() -> None:
    draft, target = HEALTHY_PAIR.split()
    done = run(REAL, "scan", "fixtures/mode-healthy", "--no-cache", "--draft", draft, "--target", target)
    assert (done.returncode, done.stderr) == (0, "")
    assert "warning[HS204] whether this tree can tell the target" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("4 questions: 3 proved, 0 violated, 1 unproved;")


@pytest.mark.parametrize(("name", "code"), [("pair-healthy", 0), ("pair-fc-width", 1)])
def test_a_pair_on_a_terminal_fits_its_80_columns(name: str, code: int) -> None:
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm", "COLUMNS": "80"}
    line = [*REAL, "check-pair", f"fixtures/{name}/draft", f"fixtures/{name}/target"]
    with subprocess.Popen(line, cwd=ROOT, env=env, stdout=theirs, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        said = b""
        while chunk := _read(ours):
            said += chunk
    os.close(ours)
    assert process.returncode == code
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode())
    assert max(map(len, plain.splitlines())) <= 80
    assert b"\x1b[2mdraft" in said
    assert (b"\x1b[1;31merror[HS404]" in said) is bool(code)


def test_version() -> None:
    from flowcheck import __version__

    assert run(REAL, "--version").stdout == f"flowcheck {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frobnicate"], "no such command 'frobnicate'"),
        (["scan"], "missing argument 'SOURCE'"),
        (["scan", "/no/such/tree"], "no such file or folder: /no/such/tree"),
        (
            ["scan", "fixtures/mode-healthy", "--no-cache", "--algorithm", "NONSENSE"],
            "this tree knows no algorithm NONSENSE (it knows NONE, EAGLE, EAGLE3",
        ),
        (["check-pair"], "a pair needs DRAFT and TARGET, or --pair NAME"),
        (["check-pair", "/no/such/draft", "/no/such/target"], "no such file or folder: /no/such/draft"),
        (["pair", "frobnicate"], "no such command 'frobnicate'"),
        (["pair", "freeze", "fixtures/pair-healthy/draft"], "missing argument 'TARGET'"),
        (["pair", "show", "nobody"], "there is no pair nobody"),
        (["explain", "HS999"], "no rule is called 'HS999'"),
        (["rules", "--rules", "/no/such/folder"], "no such folder of rules"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], said: str) -> None:
    done = run(REAL, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_no_command_is_the_help() -> None:
    done = run(REAL)
    assert "scan" in done.stdout
    assert done.stderr == ""
    assert done.returncode == 2


def test_rules_and_explain() -> None:
    listed = run(REAL, "rules").stdout
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("HS")] == [
        *("HS101", "HS102", "HS103", "HS104", "HS109"),
        *(f"HS2{number:02}" for number in (*range(1, 14), 19)),
        *("HS301", "HS302", "HS303", "HS304"),
        *(f"HS40{number}" for number in range(1, 10)),
        *(f"HS50{number}" for number in range(1, 8)),
    ]
    for wanted in ("HS101", "hs101", "target-extend-not-full"):
        explained = run(REAL, "explain", wanted).stdout
        assert explained.startswith("HS101 target-extend-not-full")
        assert "fewer ROWS at the same WIDTH" in " ".join(explained.split())
    assert max(map(len, (listed + explained).splitlines())) <= 80


def test_the_schema_is_printed() -> None:
    assert json.loads(run(REAL, "schema").stdout)["title"] == "flowcheck report"
