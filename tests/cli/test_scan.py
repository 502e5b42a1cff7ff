from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flowcheck.cli import app, engine
from tests.cli import fake_engine

Flowcheck = Callable[..., Result]


@pytest.fixture
def scan(monkeypatch: pytest.MonkeyPatch) -> Flowcheck:
    """Runs ``flowcheck scan ./tree …`` over a scene."""

    def run(scene: str, *arguments: str) -> Result:
        run.requests = fake_engine.install(scene, monkeypatch.setattr)  # type: ignore[attr-defined]
        return CliRunner().invoke(app, ["scan", "./tree", *arguments], prog_name="flowcheck")

    return run


def one_line(result: Result, said: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("flowcheck: error: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr


@pytest.mark.parametrize(
    ("scene", "arguments", "code"),
    [
        ("clean", [], 0),
        ("error", [], 1),
        ("warning", [], 0),
        ("unproved", [], 1),
        ("error", ["--fail-on", "warning"], 1),
        ("warning", ["--fail-on", "warning"], 1),
        ("error", ["--fail-on", "never"], 0),
        ("error", ["--ignore", "HS101"], 0),
        ("error", ["--select", "HS102"], 0),
        ("unproved", ["--select", "HS1", "--ignore", "HS109"], 0),
        ("error", ["--format", "json"], 1),
        ("clean", ["--format", "json"], 0),
    ],
)
def test_the_exit_code_says_whether_there_are_findings(
    scan: Flowcheck, scene: str, arguments: list[str], code: int
) -> None:
    assert scan(scene, *arguments).exit_code == code


def test_the_terminal_report_is_plain_text_of_80_columns_when_piped(scan: Flowcheck) -> None:
    result = scan("error")
    assert "\x1b" not in result.stdout
    assert "speculative/eagle_worker.py:372" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("4 questions: 3 proved, 1 violated, 0 unproved")
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr == ""


def test_colour_on_demand(scan: Flowcheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31mVIOLATED HS101" in scan("error", "--color", "always").stdout
    assert "\x1b" not in scan("error", "--color", "never").stdout
    assert "\x1b" not in scan("error", "--color", "auto").stdout


def test_json_is_one_document_and_nothing_else(scan: Flowcheck) -> None:
    result = scan("error", "--format", "json", "--set", "dp_size=2")
    document = json.loads(result.stdout)
    assert document["schema"] == "flowcheck.report/1"
    assert document["findings"][0]["rule"] == "HS101"
    assert result.stderr == ""


@pytest.mark.parametrize("form", ["json", "terminal"])
def test_a_report_in_a_file_leaves_stdout_empty_and_no_other_file(scan: Flowcheck, tmp_path: Path, form: str) -> None:
    target = tmp_path / "report"
    result = scan("error", "--format", form, "-o", str(target), "--color", "always")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "HS101" in target.read_text("utf-8")
    assert "\x1b" not in target.read_text("utf-8")
    assert list(tmp_path.iterdir()) == [target]


def test_a_report_replaces_the_one_before_and_keeps_its_mode(scan: Flowcheck, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    target.chmod(0o640)
    scan("clean", "--format", "json", "-o", str(target))
    assert json.loads(target.read_text("utf-8"))["summary"]["proved"] == 3
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_report_goes_through_a_link_to_its_file(scan: Flowcheck, tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    scan("clean", "--format", "json", "-o", str(link))
    assert link.is_symlink()
    assert json.loads(real.read_text("utf-8"))["summary"]["proved"] == 3


def test_a_report_to_a_device_is_written_in_place(scan: Flowcheck) -> None:
    assert scan("clean", "-o", os.devnull).exit_code == 0


def test_a_dash_is_stdout(scan: Flowcheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert json.loads(scan("clean", "--format", "json", "-o", "-").stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["nowhere/report.json", "."])
def test_a_file_that_cannot_be_written_is_refused_before_the_scan(scan: Flowcheck, tmp_path: Path, where: str) -> None:
    one_line(scan("clean", "-o", str(tmp_path / where)), "cannot write")
    assert scan.requests == []  # type: ignore[attr-defined]


def test_a_disk_that_fills_up_is_said(scan: Flowcheck) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    one_line(scan("clean", "-o", "/dev/full"), "cannot write /dev/full")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--select", "HS9"], "no rule is called 'HS9'"),
        (["--ignore", "HS101,E501"], "no rule is called 'E501'"),
        (["--set", "dp_size"], "--set dp_size: expected key=value"),
        (["--set", "=2"], "expected key=value"),
        (
            ["--set", "instance_id="],
            "--set instance_id=: no value is given; an empty text is written \"instance_id=''\"",
        ),
        (["--set", "instance-id= "], "an empty text is written \"instance_id=''\""),
        (["--set", "a=1", "--set", "a=2"], "a is set to 1 already"),
        (["--fail-on", "sometimes"], "--fail-on"),
        (["--format", "xml"], "--format"),
        (["--jobs", "0"], "--jobs"),
        (["--jobs", "many"], "--jobs"),
        (["--rules", "/nowhere/at/all"], "no such folder of rules"),
        (["--quiet", "--verbose"], "exclude each other"),
        (["--drafts", "x"], "no such option"),
        (["another"], "nexpected extra argument"),
    ],
)
def test_bad_usage_is_said_in_one_line(scan: Flowcheck, arguments: list[str], said: str) -> None:
    one_line(scan("clean", *arguments), said)


def test_unreadable_input_is_said_in_one_line(scan: Flowcheck) -> None:
    one_line(scan("unreadable"), "nothing to read here")


def test_a_bug_is_one_line_with_a_way_to_the_traceback(scan: Flowcheck) -> None:
    result = scan("bug")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "flowcheck: bug: ZeroDivisionError: a bug (FLOWCHECK_DEBUG=1 shows the traceback; please report it)"
    ]


def test_a_bug_under_debugging_is_raised(scan: Flowcheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWCHECK_DEBUG", "1")
    assert isinstance(scan("bug").exception, ZeroDivisionError)


def test_an_interrupt_is_130(scan: Flowcheck) -> None:
    result = scan("interrupt")
    assert (result.exit_code, result.stderr) == (130, "flowcheck: interrupted\n")


def test_files_left_out_are_named_on_stderr_the_first_five_in_full(scan: Flowcheck) -> None:
    result = scan("warned")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert lines[0] == "flowcheck: warning: a/0.py: is not UTF-8"
    assert len(lines) == 6
    assert lines[5] == "flowcheck: warning: and 3 more (--verbose lists them all)"
    assert len(scan("warned", "--verbose").stderr.splitlines()) == 8
    assert len(json.loads(scan("warned", "--format", "json").stdout)["source"]["warnings"]) == 8


def test_options_reach_the_engine(scan: Flowcheck) -> None:
    scan(
        "clean", "--algorithm", "NGRAM", "--set", "enable-dp-attention=true", "--set", "tp=8", "--set", "mode='8'",
        "--set", "rate=0.5", "--set", "backend=triton", "--set", "x=none", "--package-root", "python/sglang", "--all",
        "--jobs", "3", "--no-cache", "--offline",
    )  # fmt: skip
    (request,) = scan.requests  # type: ignore[attr-defined]
    assert request.algorithm == "NGRAM"
    assert request.settings == {
        "enable_dp_attention": True,
        "tp": 8,
        "mode": "8",
        "rate": 0.5,
        "backend": "triton",
        "x": None,
    }
    assert (request.package_root, request.include_all, request.jobs) == ("python/sglang", True, 3)
    assert (request.cache, request.offline) == (False, True)


@pytest.mark.parametrize(
    ("word", "value"),
    [("on", True), ("YES", True), ("True", True), ("off", False), ("No", False), ("'on'", "on"), ("only", "only")],
)
def test_words_that_stand_for_a_boolean(scan: Flowcheck, word: str, value: object) -> None:
    scan("clean", "--set", f"x={word}")
    assert scan.requests[0].settings == {"x": value}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "speculative_algorithm=EAGLE"], "use --algorithm"),
        (["--set", "speculative-algorithm=EAGLE"], "use --algorithm"),
        (["--algorithm", ""], "--algorithm is empty"),
        (["--algorithm", " "], "--algorithm is empty"),
        (["-o", ""], "--output is empty"),
        (["--select", ""], "--select names no rule"),
        (["--select", " , ", "--select", ""], "--select names no rule"),
    ],
)
def test_an_option_that_says_nothing_is_bad_usage(scan: Flowcheck, arguments: list[str], said: str) -> None:
    one_line(scan("clean", *arguments), said)
    assert scan.requests == []  # type: ignore[attr-defined]


def test_a_team_may_change_what_fails(scan: Flowcheck, tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text('id = "HS101"\nseverity = "warning"\nfix = "Ask team X."\n')
    result = scan("error", "--rules", str(tmp_path))
    assert result.exit_code == 0
    assert "warning[HS101]" in result.stdout
    assert "Ask team X." in result.stdout


def test_quiet_and_verbose(scan: Flowcheck) -> None:
    assert scan("clean", "-q").stdout == "3 questions: 3 proved, 0 violated, 0 unproved; 2 assumptions\n"
    assert "LogitsMetadata.from_forward_batch copies it" in scan("clean", "-v").stdout


@pytest.mark.parametrize(("load", "jobs"), [(0.2, 4), (1.6, 2), (3.9, 1), (9.0, 1)])
def test_only_idle_cores_are_taken_unasked(monkeypatch: pytest.MonkeyPatch, load: float, jobs: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert engine._idle_cores() == jobs
