"""What is installed is what was checked out: the rules are inside the wheel and are found there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from flowcheck.data import rules_dir

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_ships_every_rule_and_nothing_of_the_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"flowcheck/_rules/{path.name}" for path in rules_dir().glob("*.toml")} <= names
    assert "flowcheck/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "fixtures/", "rules/"))]


def test_a_wheel_does_not_ask_for_torch(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        asked = [line for line in archive.read(name).decode().splitlines() if line.startswith("Requires-Dist: torch")]
    assert asked
    assert all("extra == 'probe'" in line or "extra == 'dev'" in line for line in asked)


def test_an_installed_wheel_finds_its_rules(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "import flowcheck.data; from flowcheck.checks.rules import load_rules\n"
        "print(flowcheck.data.rules_dir()); print([rule.id for rule in load_rules()])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder, ids = done.stdout.splitlines()
    assert Path(folder) == site / "flowcheck" / "_rules"
    assert "'HS101'" in ids
