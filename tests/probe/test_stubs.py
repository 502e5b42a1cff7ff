"""Stand-ins for packages that are not there: what they may be used for, and what they must never hide."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flowcheck.probe.rank.stubs import missing_root

ROOT = Path(__file__).resolve().parents[2]

PREAMBLE = """
from flowcheck.probe.rank.stubs import LAUNCHES, install, is_stub, missing_root
found = install(['triton', 'vllm', 'json'])
"""


def said(code: str, folder: Path | None = None) -> str:
    """What a program prints that has stand-ins for two packages that are not installed, and for one that is."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + code],
        capture_output=True,
        text=True,
        cwd=folder or ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_is_installed_is_never_stubbed() -> None:
    assert said("import json; print(json.loads('[1]'), sorted(found.found))") == "[1] []"


def test_what_is_not_on_the_list_stays_missing() -> None:
    code = "try:\n    import flashinfer_of_no_one\nexcept ImportError:\n    print('missing')"
    assert said(code) == "missing"


def test_a_tree_may_derive_from_a_stand_in_annotate_with_it_and_call_it() -> None:
    code = """
from vllm.layers.deep import Base, make, Config
class Mine(Base):
    def __init__(self, x: Config | None = None): self.x = x
print(Mine(3).x, bool(make(1, 2)), is_stub(make), is_stub(Mine))
"""
    assert said(code) == "3 False True False"


def test_a_stubbed_kernel_does_nothing_and_is_counted() -> None:
    code = """
import triton, triton.language as tl
@triton.jit
def kernel(x, BLOCK: tl.constexpr): raise RuntimeError
@triton.autotune(configs=[], key=[])
@triton.jit
def tuned(x): raise RuntimeError
print(sorted(LAUNCHES), kernel[(1,)](3, BLOCK=4), tuned[(1,)](3), sorted(LAUNCHES), triton.cdiv(9, 4))
"""
    assert said(code) == "[] None None ['kernel', 'tuned'] 3"


def test_a_stubbed_function_that_is_called_is_counted() -> None:
    assert (
        said("from vllm.ops import silu_and_mul; silu_and_mul(1, 2); print(sorted(LAUNCHES))")
        == "['vllm.ops.silu_and_mul']"
    )


def test_a_decorator_leaves_the_function() -> None:
    assert said("from vllm import register\n@register\ndef f(): return 5\nprint(f(), sorted(LAUNCHES))") == "5 []"


def test_there_is_no_driver() -> None:
    code = "import triton\ntry:\n    triton.runtime.driver.active\nexcept RuntimeError as error:\n    print(error)"
    assert said(code) == "0 active drivers"


def test_a_stand_in_never_takes_the_place_of_what_a_module_has(tmp_path: Path) -> None:
    module = "class RMSNorm: own = True\nfrom vllm.norms import RMSNorm, Other\n"
    (tmp_path / "norms.py").write_text(module, "utf-8")
    assert said("import norms; print(norms.RMSNorm.own, is_stub(norms.Other))", tmp_path) == "True True"


def test_a_missing_package_is_found_behind_other_errors() -> None:
    outer = RuntimeError("cannot")
    outer.__cause__ = ModuleNotFoundError("No module named 'of_no_one.deep'", name="of_no_one.deep")
    assert missing_root(outer, "sglang") == "of_no_one"


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'sglang.srt.other'", name="sglang.srt.other"),
        ModuleNotFoundError("No module named 'json.of_no_one'", name="json.of_no_one"),
        NameError("name 'datetime' is not defined", name="datetime"),
        UnboundLocalError("cannot access local variable 'triton_of_no_one'"),
        ValueError("no"),
    ],
    ids=repr,
)
def test_other_errors_speak_of_no_missing_package(error: Exception) -> None:
    assert missing_root(error, "sglang") is None


def test_a_package_that_another_asks_for_is_missing() -> None:
    said = "SomeProcessor requires the Vision_Of_No_One library but it was not found in your environment."
    assert missing_root(ImportError(said), "sglang") == "vision_of_no_one"


def test_a_name_that_a_guarded_import_left_out_is_a_missing_package() -> None:
    assert (
        missing_root(NameError("name 'triton_of_no_one' is not defined", name="triton_of_no_one"), "sglang")
        == "triton_of_no_one"
    )
