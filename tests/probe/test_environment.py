"""The environment of a probe: made once for a set of requirements, whole or not at all, with the PyTorch that is here already."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from flowcheck.probe import torches
from flowcheck.probe.environment import Done, Environment, environment_for, named_environment
from flowcheck.probe.errors import ProbeError
from flowcheck.probe.requirements import Wanted, wanted_of
from flowcheck.probe.torches import Torch, installed_torch

STAND_IN = "packaging"
"""A package that is installed wherever the tests run: it stands for PyTorch."""

WANTED = Wanted(("somelib==1.2", "other"))


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torches, "NAME", STAND_IN)


class Pip:
    """Makes a real environment without pip, and notes what would be installed."""

    def __init__(self, answer: Done | None = None) -> None:
        self.answer = answer or Done(0, "")
        self.installed: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> Done:
        if "venv" in command:
            done = subprocess.run([*command, "--without-pip"], capture_output=True, text=True)
            return Done(done.returncode, done.stdout + done.stderr)
        self.installed.append(command)
        return self.answer


def made(cache: Path, pip: Pip, wanted: Wanted = WANTED, **options: object) -> Environment:
    return environment_for(wanted, installed_torch(), cache, run=pip, **options)  # type: ignore[arg-type]


def asked(environment: Environment, code: str) -> str:
    done = subprocess.run([environment.python, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_is_said_before_it_is_made_and_made_once(tmp_path: Path) -> None:
    pip, said = Pip(), list[str]()
    first = made(tmp_path, pip, announce=said.append)
    assert [each.startswith("making an environment for the probe with somelib==1.2 and 1 more") for each in said] == [
        True
    ]
    assert [list(each[-2:]) for each in pip.installed] == [["somelib==1.2", "other"]]
    assert made(tmp_path, pip, announce=said.append) == first
    assert (len(pip.installed), len(said)) == (1, 1)


def test_it_sees_the_lent_package_and_nothing_else_of_this_one(tmp_path: Path) -> None:
    environment = made(tmp_path, Pip())
    here = importlib.metadata.version(STAND_IN)
    assert asked(environment, f"import importlib.metadata as m; print(m.version('{STAND_IN}'))") == here
    assert asked(environment, f"import {STAND_IN}.version; print('there')") == "there"
    assert asked(environment, "import importlib.util as u; print(u.find_spec('pytest'))") == "None"


def test_what_it_has_itself_wins_over_what_is_lent(tmp_path: Path) -> None:
    environment = made(tmp_path, Pip())
    site = next(environment.python.parents[1].glob("lib/python3*/site-packages"))
    (site / STAND_IN).mkdir()
    (site / STAND_IN / "__init__.py").write_text("own = True\n")
    assert asked(environment, f"import {STAND_IN}; print({STAND_IN}.own)") == "True"


def test_other_requirements_or_another_torch_need_another_one(tmp_path: Path) -> None:
    pip = Pip()
    first, second = made(tmp_path, pip), made(tmp_path, pip, Wanted(("somelib==1.3", "other")))
    third = environment_for(WANTED, Torch("other", installed_torch().site), tmp_path, run=pip)
    assert len({first.python, second.python, third.python}) == 3


def test_one_that_was_interrupted_is_made_anew(tmp_path: Path) -> None:
    class Interrupted(Pip):
        def __call__(self, command: Sequence[str]) -> Done:
            if "venv" not in command:
                raise KeyboardInterrupt
            return super().__call__(command)

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, Interrupted())
    pip = Pip()
    made(tmp_path, pip)
    assert len(pip.installed) == 1


def test_one_whose_interpreter_is_gone_is_made_anew(tmp_path: Path) -> None:
    made(tmp_path, Pip()).python.unlink()
    pip = Pip()
    made(tmp_path, pip)
    assert len(pip.installed) == 1


TWO = """
import sys, time
from pathlib import Path
from flowcheck.probe import environment, torches
torches.NAME = {name!r}
def run(command):
    folder = Path(sys.argv[1])
    if "venv" in command:
        time.sleep(0.3)
        import subprocess
        subprocess.run([*command, "--without-pip"], check=True)
    else:
        (folder / f"made-{{time.time_ns()}}").touch()
    return environment.Done(0, "")
from flowcheck.probe.requirements import Wanted
print(environment.environment_for(Wanted(("x==1",)), torches.installed_torch(), Path(sys.argv[1]), run=run).python)
"""


def test_two_that_want_it_at_once_make_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TWO.format(name=STAND_IN), str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = {each.communicate(timeout=120)[0] for each in both}
    assert [each.returncode for each in both] == [0, 0]
    assert len(answers) == 1
    assert len(list(tmp_path.glob("made-*"))) == 1


UNREACHABLE = "WARNING: Retrying: NewConnectionError(...)\nERROR: No matching distribution found for somelib==1.2"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            UNREACHABLE,
            "no network, or the package index does not answer: cannot install somelib==1.2 and 1 more packages",
        ),
        (
            "ERROR: No matching distribution found for somelib==1.2",
            "pip cannot install somelib==1.2 and 1 more packages",
        ),
    ],
)
def test_what_pip_cannot_do_is_one_line(tmp_path: Path, log: str, said: str) -> None:
    with pytest.raises(ProbeError) as raised:
        made(tmp_path, Pip(Done(1, log)))
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_offline_makes_nothing(tmp_path: Path) -> None:
    pip = Pip()
    with pytest.raises(ProbeError, match="--offline forbids to make it; --env DIR uses one that exists"):
        made(tmp_path, pip, offline=True)
    ready = made(tmp_path, pip)
    assert made(tmp_path, pip, offline=True) == ready


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProbeError, match="cannot write to the cache"):
        made(tmp_path / "file" / "below", Pip())


def test_no_torch_says_which_extra_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torches, "NAME", "no_such_torch")
    with pytest.raises(ProbeError, match=r"needs PyTorch, and .* has none: pip install 'flowcheck\[probe\]'"):
        installed_torch()


def test_a_named_environment(tmp_path: Path) -> None:
    assert named_environment(Path(sys.executable), ["packaging"]).python == Path(sys.executable)
    with pytest.raises(ProbeError, match="it lacks no_such_module, nor_this_one"):
        named_environment(Path(sys.executable), ["packaging", "no_such_module", "nor_this_one"])
    with pytest.raises(ProbeError, match="there is no bin/python in it"):
        named_environment(tmp_path, [])
    broken = tmp_path / "bin" / "python"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho this is none >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(ProbeError, match="does not run: this is none"):
        named_environment(tmp_path, [])


# ------------------------------------------------------------------------------------------------------ requirements
def test_versions_are_those_of_the_tree() -> None:
    stated = ["Some_Lib==1.2", "pillow", "heavy==3", 'pyzmq>=25; extra == "srt"']
    wanted = wanted_of(stated, ["pillow", "pyzmq", "orjson"], ["some-lib"])
    assert wanted == Wanted(("orjson", "pillow", "pyzmq>=25", "some-lib==1.2"))


def test_its_own_version_counts_before_that_of_an_extra() -> None:
    assert wanted_of(['lib==1; extra == "a"', "lib==2"], [], ["lib"]).requirements == ("lib==2",)
    assert wanted_of(['lib==1; extra == "a"'], [], ["lib"]).requirements == ("lib==1",)


def test_requirements_of_other_systems_do_not_count() -> None:
    stated = ["lib==9; sys_platform == 'nowhere'", "lib==2; python_version >= '3'"]
    assert wanted_of(stated, [], ["lib"]).requirements == ("lib==2",)


@pytest.mark.parametrize("stated", [[], ["lib>=2"], ["not a requirement ="]])
def test_a_version_that_nobody_pins_is_said_to_be_open(stated: list[str]) -> None:
    assert wanted_of(stated, [], ["lib"]).open == ("lib",)
