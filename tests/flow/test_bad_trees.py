"""Trees that cannot be read or followed: one line or a finding, the documented exit code, never a traceback."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flowcheck.cli import app
from tests.flow.edits import EXTEND, EXTEND_FORWARD, lines
from tests.flow.trees import (
    EAGLE_WORKER,
    FORWARD_BATCH,
    LOGITS,
    QUESTIONS,
    SCHEDULE_BATCH,
    SCHEDULER,
    SPEC_INFO,
    SRT,
    TP_WORKER,
    Edit,
    edited,
    write,
)

OTHER = f"{SRT}/other.py"
UNREADABLE = {
    "a-syntax-error": b"def broken(:\n    pass\n",
    "a-tab-and-a-space": b"def f():\n\tif 1:\n        return\n",
    "invalid-utf-8": b'TEXT = "\xff\xfe"\n',
    "a-null-byte": b"A = 1\x00\n",
    "nested-parentheses": b"A = " + b"(" * 3000 + b"1" + b")" * 3000 + b"\n",
    "a-sum-of-20000-terms": b"A = " + b" + ".join([b"1"] * 20_000) + b"\n",
    "an-unclosed-string": b'A = """\n',
    "an-unknown-encoding": b"# -*- coding: klingon -*-\nA = 1\n",
    "nothing": b"",
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error is raised rather than said in a line where it is a bug."""
    monkeypatch.setenv("FLOWCHECK_DEBUG", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(source: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(app, ["scan", str(source), "--no-cache", *arguments], prog_name="flowcheck")
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    return result


def document(source: Path) -> dict[str, Any]:
    result = run(source, "--format", "json")
    assert result.exit_code in (0, 1), result.output
    loaded: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (1 if loaded["findings"] else 0)
    return loaded


def proved(report: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(flow["phase"], flow["path"]) for flow in report["flows"] if flow["verdict"] == "proved"}


def rules(report: Mapping[str, Any]) -> set[str]:
    return {finding["rule"] for finding in report["findings"]}


def tree(root: Path, *edits: Edit) -> Path:
    return write(root / "tree", edited(edits))


# ------------------------------------------------------------------------------------------------- files that are bad
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_bad_file_that_nobody_needs_changes_nothing(name: str, tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / OTHER).write_bytes(UNREADABLE[name])
    report = document(root)
    assert (rules(report), proved(report)) == (set(), QUESTIONS)
    warnings = report["source"]["warnings"]
    if name == "nothing":
        assert not warnings
    elif name == "a-sum-of-20000-terms":  # which Python reads in some versions
        assert len(warnings) <= 1
    else:
        (warning,) = warnings
        assert warning.startswith(f"{OTHER}:{3 if name == 'a-tab-and-a-space' else 1}: cannot be parsed: ")
        assert warning.count(OTHER) == 1


def test_many_bad_files_are_named_once_each_and_the_first_of_them_on_stderr(tmp_path: Path) -> None:
    root = tree(tmp_path)
    for number in range(9):
        (root / f"{SRT}/bad_{number}.py").write_text("def a(:\n    pass\n\n\ndef b(:\n    pass\n")
    assert [each.partition(":")[0] for each in document(root)["source"]["warnings"]] == [
        f"{SRT}/bad_{number}.py" for number in range(9)
    ]
    said = run(root).stderr.splitlines()
    assert [line.count(f"{SRT}/bad_") for line in said] == [1, 1, 1, 1, 1, 0]
    assert "4 more" in said[-1]


@pytest.mark.parametrize("text", ["type A = int\n", "def f[T](a: T) -> T:\n    return a\n", 'A = f"{"a"}"\n'])
def test_what_only_a_newer_python_reads_is_no_bad_file(text: str, tmp_path: Path) -> None:
    root = tree(tmp_path, (OTHER, "", text))
    assert not document(root)["source"]["warnings"]


def test_a_rule_of_scopes_that_a_file_breaks_is_said(tmp_path: Path) -> None:
    root = tree(tmp_path, (OTHER, "", "def f(a):\n    return a\n\n\ndef g(a, a):\n    return a\n"))
    (warning,) = document(root)["source"]["warnings"]
    assert warning.startswith(f"{OTHER}:5: cannot be parsed: duplicate argument 'a'")


def test_bad_tests_are_nobody_s_concern_unless_asked(tmp_path: Path) -> None:
    root = tree(tmp_path, ("sglang/test/bad.py", "", "def a(:\n"), (f"{SRT}/test_bad.py", "", "def a(:\n"))
    assert not document(root)["source"]["warnings"]
    asked = json.loads(run(root, "--format", "json", "--all").stdout)["source"]["warnings"]
    assert [each.partition(":")[0] for each in asked] == [f"{SRT}/test_bad.py", "sglang/test/bad.py"]


def test_a_wheel_and_a_revision_say_the_same_as_the_folder(tmp_path: Path) -> None:
    root = tree(tmp_path, (OTHER, "", "A = 1\ndef broken(:\n"))
    said = document(root)["source"]["warnings"]
    wheel = tmp_path / "sglang-0.5.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, path.relative_to(root))
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    (root / OTHER).unlink()
    assert said[0].startswith(f"{OTHER}:2: ")
    assert document(wheel)["source"]["warnings"] == said
    assert document(Path(f"{root}@HEAD"))["source"]["warnings"] == said


@pytest.mark.parametrize("name", [name for name in UNREADABLE if name not in ("nothing", "a-sum-of-20000-terms")])
def test_a_bad_worker_file_leaves_the_questions_open(name: str, tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / EAGLE_WORKER).write_bytes(UNREADABLE[name])
    report = document(root)
    assert (rules(report), proved(report)) == ({"HS109"}, set())


def test_a_syntax_error_below_the_worker_is_said_with_its_file(tmp_path: Path) -> None:
    root = tree(tmp_path, (EAGLE_WORKER, "", "\n\ndef broken(:\n"))
    result = run(root)
    assert result.exit_code in (0, 1)
    assert "eagle_worker.py" in result.stderr
    assert result.stderr.count("\n") <= 3


@pytest.mark.parametrize("path", [SCHEDULER, TP_WORKER, FORWARD_BATCH, SPEC_INFO, SCHEDULE_BATCH, LOGITS])
def test_a_bad_file_on_the_way_proves_nothing(path: str, tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / path).write_bytes(UNREADABLE["a-syntax-error"])
    result = run(root, "--format", "json")
    if result.exit_code == 2:  # the enums are the sign of an SGLang tree: without them there is none
        assert path == FORWARD_BATCH
        assert result.stderr.startswith("flowcheck: error: ")
        assert result.stderr.count("\n") == 1
        return
    report = json.loads(result.stdout)
    assert (result.exit_code, rules(report), proved(report)) == (1, {"HS109"}, set())


@pytest.mark.parametrize("name", ["carriage-returns", "a-byte-order-mark", "latin-1", "form-feeds"])
def test_odd_files_that_python_reads_are_read(name: str, tmp_path: Path) -> None:
    root = tree(tmp_path)
    data = (root / EAGLE_WORKER).read_bytes()
    changed = {
        "carriage-returns": data.replace(b"\n", b"\r\n"),
        "a-byte-order-mark": b"\xef\xbb\xbf" + data,
        "latin-1": b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + data,
        "form-feeds": data.replace(b"\n\n\n", b"\n\x0c\n\n"),
    }[name]
    (root / EAGLE_WORKER).write_bytes(changed)
    report = document(root)
    assert (rules(report), proved(report)) == (set(), QUESTIONS)


# ------------------------------------------------------------------------------------------ trees without what it takes
def test_a_folder_that_is_not_sglang_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "main.py").write_text("print('hello')\n")
    result = run(tmp_path / "tree")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("flowcheck: error: ")


ALGORITHM = "class SpeculativeAlgorithm(IntEnum):"
PARTS: dict[str, tuple[Edit, ...]] = {
    "no-dispatch": ((SCHEDULER, "def run_batch(", "def process("),),
    "no-draft-worker": (
        (SCHEDULER, "        self.draft_worker = EAGLEWorker(", "        self.speculator = EAGLEWorker("),
        (SCHEDULER, "            self.draft_worker = None\n", ""),
        (SCHEDULER, "= self.draft_worker\n", "= self.speculator\n"),
    ),
    "a-worker-from-nowhere": ((SCHEDULER, "sglang.srt.speculative.eagle_worker", "eagle_plugin.worker"),),
    "a-worker-that-is-missing": ((SCHEDULER, "eagle_worker import EAGLEWorker", "eagle_worker_v9 import EAGLEWorker"),),
    "a-worker-that-is-none": (
        (SCHEDULER, "self.draft_worker = EAGLEWorker(", "self.draft_worker = None and EAGLEWorker("),
    ),
    "a-batch-without-a-class": ((SCHEDULER, "batch: ScheduleBatch)", "batch)"),),
    "no-algorithm": ((SPEC_INFO, "    def is_eagle(self):", "    def is_bird(self):"),),
    "no-forward-of-a-model": (
        (
            f"{SRT}/model_executor/model_runner.py",
            (
                "    def forward_extend(self, forward_batch: ForwardBatch) -> LogitsProcessorOutput:\n"
                "        return self.model.forward(forward_batch.input_ids, forward_batch)\n"
            ),
            (
                "    def forward_extend(self, forward_batch: ForwardBatch) -> LogitsProcessorOutput:\n"
                "        return LogitsProcessorOutput([], [])\n"
            ),
        ),
    ),
    "no-target": (
        (EAGLE_WORKER, EXTEND_FORWARD, "        result = external.forward(model_worker_batch)\n"),
        (
            EAGLE_WORKER,
            "from __future__ import annotations\n",
            "from __future__ import annotations\n\nimport external\n",
        ),
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_tree_without_a_part_leaves_its_question_open(name: str, tmp_path: Path) -> None:
    report = document(tree(tmp_path, *PARTS[name]))
    assert rules(report) == {"HS109"}
    assert ("extend", "eager") not in proved(report)


def test_an_algorithm_that_the_tree_does_not_know_is_no_proof(tmp_path: Path) -> None:
    result = run(tree(tmp_path), "--algorithm", "EAGLE9", "--format", "json")
    assert result.exit_code in (1, 2)
    if result.exit_code == 1:
        assert rules(json.loads(result.stdout)) == {"HS109"}


# -------------------------------------------------------------------------------------------------------------- loops
RECURSION = (
    EAGLE_WORKER,
    EXTEND,
    lines(
        """
    def lower(depth):
        return CaptureHiddenMode.FULL if depth == 0 else lower(depth - 1)

    model_worker_batch.capture_hidden_mode = lower(batch.batch_size())
""",
        8,
    ),
)
LOOPS: dict[str, tuple[Edit, ...]] = {
    "recursion": (RECURSION,),
    "recursion-that-never-ends": ((EAGLE_WORKER, EXTEND, f"        self.forward_target_extend(batch)\n{EXTEND}"),),
    "mutual-recursion-of-properties": (
        (EAGLE_WORKER, EXTEND, "        model_worker_batch.capture_hidden_mode = self.one\n"),
        (
            EAGLE_WORKER,
            "    def draft(self",
            lines(
                """
            @property
            def one(self):
                return self.two

            @property
            def two(self):
                return self.one
         """,
                4,
            )
            + "\n    def draft(self",
        ),
    ),
    "a-loop-that-never-ends": ((EAGLE_WORKER, EXTEND, f"        while True:\n            batch = batch\n{EXTEND}"),),
    "a-constant-that-imports-itself": (
        (EAGLE_WORKER, EXTEND, "        model_worker_batch.capture_hidden_mode = WANTED\n"),
        (
            EAGLE_WORKER,
            "from sglang.srt.server_args",
            "from sglang.srt.speculative.a import WANTED\nfrom sglang.srt.server_args",
        ),
        (f"{SRT}/speculative/a.py", "", "from sglang.srt.speculative.b import WANTED\n"),
        (f"{SRT}/speculative/b.py", "", "from sglang.srt.speculative.a import WANTED\n"),
    ),
}

CIRCLES: dict[str, tuple[Edit, ...]] = {
    "a-class-that-is-its-own-base": (
        (EAGLE_WORKER, "class EAGLEWorker(TpModelWorker)", "class EAGLEWorker(EAGLEWorker)"),
    ),
    "bases-in-a-circle": (
        (TP_WORKER, "class TpModelWorker:", "class TpModelWorker(Circle):"),
        (TP_WORKER, "from sglang.srt.managers", "from sglang.srt.circle import Circle\nfrom sglang.srt.managers"),
        (
            f"{SRT}/circle.py",
            "",
            "from sglang.srt.managers.tp_worker import TpModelWorker\n\n\nclass Circle(TpModelWorker):\n    pass\n",
        ),
    ),
}


@pytest.mark.parametrize("name", CIRCLES)
def test_classes_in_a_circle_are_no_crash(name: str, tmp_path: Path) -> None:
    assert document(tree(tmp_path, *CIRCLES[name]))["summary"]


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_ends_and_proves_nothing_that_never_returns(name: str, tmp_path: Path) -> None:
    report = document(tree(tmp_path, *LOOPS[name]))
    if name == "recursion":
        assert not report["summary"]["violated"]
    else:
        assert ("extend", "eager") not in proved(report), report["findings"]
        assert report["findings"]


def test_a_setting_that_the_tree_does_not_have_is_said(tmp_path: Path) -> None:
    root = tree(tmp_path)
    result = run(root, "--set", "topkk=1", "--set", "disable_cuda_graph=true")
    assert (result.exit_code, result.stderr) == (
        0,
        "flowcheck: warning: --set topkk: the tree holds no such name, so that it changes nothing\n",
    )


@pytest.mark.parametrize("place", ["keep", "left_behind", "find_roles"])
def test_what_python_cannot_recurse_into_is_left_open(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*unused: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(f"flowcheck.flow.walk.{place}", refuse)
    report = document(tree(tmp_path))
    assert "HS109" in rules(report)
    assert any("nested too deeply" in each["reason"] for each in report["unproved"])


def test_modules_that_import_each_other_are_read(tmp_path: Path) -> None:
    edits = (
        (f"{SRT}/a.py", "", "from sglang.srt import b\n\nMODE = b.MODE\n"),
        (
            f"{SRT}/b.py",
            "",
            (
                "from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode\n"
                "\nMODE = CaptureHiddenMode.FULL\nfrom sglang.srt import a\n"
            ),
        ),
        (
            EAGLE_WORKER,
            EXTEND,
            "        from sglang.srt import a\n\n        model_worker_batch.capture_hidden_mode = a.MODE\n",
        ),
    )
    report = document(tree(tmp_path, *edits))
    assert (rules(report), proved(report)) == (set(), QUESTIONS)


LARGE: dict[str, str] = {
    "many-statements": "".join(f"        value_{each} = batch.batch_size() + {each}\n" for each in range(1500)),
    "many-branches": "".join(
        f"        if batch.seq_lens[0] > {each}:\n            self.topk = {each}\n" for each in range(400)
    ),
    "many-flags": "".join(
        f"        if self.server_args.flag_{each}:\n            batch.output_ids = None\n" for each in range(200)
    ),
    "deep-branches": "".join(f"{'    ' * (each + 2)}if batch.seq_lens[0] > {each}:\n" for each in range(60))
    + "    " * 62
    + "self.topk = 1\n",
    "a-long-chain": "        value = batch" + ".spec_info" * 800 + "\n",
    "a-large-table": "        table = {" + ", ".join(f"{each}: {each}" for each in range(4000)) + "}\n",
}


@pytest.mark.parametrize("name", LARGE)
def test_a_huge_function_is_followed_or_left_open(name: str, tmp_path: Path) -> None:
    report = document(tree(tmp_path, (EAGLE_WORKER, EXTEND, LARGE[name] + EXTEND)))
    assert not report["summary"]["violated"]
    assert proved(report) | {("extend", "eager")} == QUESTIONS
