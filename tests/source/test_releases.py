"""Releases by name: pip is asked once, for wheels alone; the cache is trusted only while it is whole."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck.source import SourceError, cache_root, open_source
from flowcheck.source import release as releases
from flowcheck.source.pipcall import Log, run_pip

Make = Callable[..., Path]
UTILS = "sglang/srt/utils.py"
NAMED = "sglang-0.5.7-py3-none-any.whl"
FOREIGN = "sglang-0.5.7-cp311-cp311-manylinux_2_34_aarch64.whl"
HOST = "https://index.example"


class FakePip:
    """Answers as pip would whose index has ``archives``; ``runs_here`` says which wheels fit this machine."""

    def __init__(self, archives: list[Path], *, runs_here: bool = True, text: str | None = None) -> None:
        self.archives = archives
        self.runs_here = runs_here
        self.text = text
        self.calls: list[list[str]] = []

    def __call__(self, arguments: list[str], folder: Path) -> Log:
        assert not list(folder.iterdir())
        self.calls.append(arguments)
        if self.text is not None:
            return Log(1, self.text)
        lines = []
        for path in self.archives:
            url = f"{HOST}/p/{path.name} (from {HOST}/simple/sglang/)"
            if path.suffix != ".whl":
                lines.append(f"  Skipping link: No sources permitted for sglang: {url}")
            elif self.runs_here or "--platform" in arguments:
                shutil.copy(path, arguments[arguments.index("--dest") + 1])
                return Log(0, f"  Found link {url}, version: 0.5.7\nSaved")
            else:
                lines.append(f"  Skipping link: none of the wheel's tags (x) are compatible (run pip debug): {url}")
        lines.append("ERROR: Could not find a version that satisfies the requirement x (from versions: 0.5.6, 0.5.9)")
        return Log(1, "\n".join(lines))


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make_wheel: Make) -> FakePip:
    (tmp_path / "index").mkdir()
    fake = FakePip([make_wheel(tmp_path / "index" / NAMED)])
    monkeypatch.setattr(releases, "run_pip", fake)
    monkeypatch.setenv("FLOWCHECK_CACHE_DIR", str(tmp_path / "cache"))
    return fake


def test_a_release_is_fetched_once(pip: FakePip) -> None:
    said: list[str] = []
    for _ in range(2):
        tree = open_source("sglang==0.5.7", progress=said.append)
        assert (tree.kind, tree.root, tree.version, tree.label) == ("release", "sglang", "0.5.7", "sglang==0.5.7")
        assert tree.read(UTILS) == b"def helper(): ...\n"
    assert len(pip.calls) == len(said) == 1


def test_pip_is_asked_for_wheels_alone_and_without_dependencies(pip: FakePip) -> None:
    open_source("sglang==0.5.7")
    (call,) = pip.calls
    assert call[0] == "download"
    assert {"--no-deps", "--only-binary=:all:"} <= set(call)


@pytest.mark.parametrize("spec", ["SGLang==0.5.7", "sglang[all] == 0.5.7", "sglang===0.5.7"])
def test_other_spellings_name_the_same_release(pip: FakePip, spec: str) -> None:
    open_source("sglang==0.5.7")
    assert open_source(spec, offline=True).kind == "release"


@pytest.mark.parametrize(
    "spec", ["sglang>=0.5", "sglang==0.5.*", "sglang==0.5.6,==0.5.7", "sglang==nonsense", "sglang=0.5.7"]
)
def test_what_names_no_single_release(pip: FakePip, spec: str) -> None:
    with pytest.raises(SourceError, match="names no single release"):
        open_source(spec)
    assert not pip.calls


def test_a_path_that_exists_wins_over_a_release(pip: FakePip, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout.rename(checkout.with_name("sglang==0.5.7"))
    monkeypatch.chdir(checkout.parent)
    assert open_source("sglang==0.5.7").kind == "checkout"


def test_offline_fetches_nothing(pip: FakePip) -> None:
    with pytest.raises(SourceError, match="not in the cache"):
        open_source("sglang==0.5.7", offline=True)
    assert not pip.calls


def test_a_wheel_for_another_platform_will_do(pip: FakePip) -> None:
    pip.archives = [pip.archives[0].rename(pip.archives[0].with_name(FOREIGN))]
    pip.runs_here = False
    assert open_source("sglang==0.5.7").read(UTILS)
    options = pip.calls[1]
    for option, value in (("--platform", "manylinux_2_34_aarch64"), ("--abi", "cp311"), ("--python-version", "3.11")):
        assert options[options.index(option) + 1] == value


def test_an_sdist_is_fetched_without_pip(pip: FakePip, make_sdist: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    sdist = make_sdist(pip.archives[0].with_name("sglang-0.5.7.tar.gz"))
    pip.archives = [sdist]
    real = urllib.request.urlopen
    asked: list[str] = []

    def urlopen(address: str, **options: object) -> object:
        asked.append(address)
        return real(sdist.as_uri())

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    tree = open_source("sglang==0.5.7")
    assert asked == [f"{HOST}/p/sglang-0.5.7.tar.gz"]
    assert tree.read(f"sglang-0.5.8/{UTILS}")
    assert all("--only-binary=:all:" in call for call in pip.calls)


def test_an_sdist_behind_a_login_is_one_clear_line(pip: FakePip) -> None:
    pip.text = "Skipping link: No sources permitted for sglang: https://me:****@index.example/p/sglang-0.5.7.tar.gz"
    with pytest.raises(SourceError, match="behind a login"):
        open_source("sglang==0.5.7")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "ERROR: Could not find a version that ... (from versions: 0.5.5, 0.5.6, 0.6.0)",
            r"no such release.*0\.5\.6 and 0\.6\.0",
        ),
        (
            "WARNING: Retrying (Retry(total=0)) broken by 'NewConnectionError(x)'\n(from versions: none)",
            "no network",
        ),
        ("Could not fetch URL https://index.example/simple/x/: connection error\n(from versions: none)", "no network"),
        (
            "Could not fetch URL https://i.example/simple/x/: 404 Client Error: Not Found\n(from versions: none)",
            "no project",
        ),
        ("ERROR: No matching distribution found for x", "no project"),
        ("/usr/bin/python: No module named pip", "needs pip"),
        ("ERROR: Something\nelse happened", "pip cannot fetch.*Something"),
        ("", "pip cannot fetch"),
    ],
)
def test_why_a_release_cannot_be_fetched(pip: FakePip, text: str, said: str) -> None:
    pip.text = text
    with pytest.raises(SourceError, match=said) as caught:
        open_source("sglang==0.5.7")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "seal", "deleted"])
def test_a_damaged_cache_entry_is_fetched_again(pip: FakePip, damage: str) -> None:
    digest = open_source("sglang==0.5.7").digest
    (wheel,) = (cache_root() / "releases" / "sglang-0.5.7").glob("*.whl")
    data = wheel.read_bytes()
    if damage == "truncated":
        wheel.write_bytes(data[:100])
    elif damage == "overwritten":
        wheel.write_bytes(b"x" * len(data))
    elif damage == "seal":
        (wheel.parent / "seal.json").write_text("[]")
    else:
        wheel.unlink()
    assert open_source("sglang==0.5.7").digest == digest
    assert len(pip.calls) == 2


def test_a_download_that_is_no_archive_is_not_kept(pip: FakePip) -> None:
    good = pip.archives[0].read_bytes()
    pip.archives[0].write_bytes(b"an error page")
    with pytest.raises(SourceError, match="not a readable wheel"):
        open_source("sglang==0.5.7")
    pip.archives[0].write_bytes(good)
    assert open_source("sglang==0.5.7").read(UTILS)


def test_a_cache_entry_that_was_only_touched_is_kept(pip: FakePip) -> None:
    open_source("sglang==0.5.7")
    (wheel,) = (cache_root() / "releases" / "sglang-0.5.7").glob("*.whl")
    wheel.touch()
    assert open_source("sglang==0.5.7", offline=True).kind == "release"


def test_a_seal_cannot_point_out_of_the_cache(pip: FakePip, tmp_path: Path) -> None:
    open_source("sglang==0.5.7")
    seal = cache_root() / "releases" / "sglang-0.5.7" / "seal.json"
    (tmp_path / "other.whl").write_bytes(b"x")
    seal.write_text(json.dumps({**json.loads(seal.read_text()), "file": "../../../other.whl"}))
    open_source("sglang==0.5.7")
    assert len(pip.calls) == 2
    assert (tmp_path / "other.whl").exists()


def test_two_that_ask_at_once_fetch_once(pip: FakePip) -> None:
    trees: list[str] = []
    threads = [threading.Thread(target=lambda: trees.append(open_source("sglang==0.5.7").digest)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trees) == 4
    assert len(set(trees)) == 1
    assert len(pip.calls) == 1


def test_a_cache_that_cannot_be_written(pip: FakePip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLOWCHECK_CACHE_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(SourceError, match="cannot write to the cache"):
        open_source("sglang==0.5.7")


def test_the_cache_folder_is_the_users_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWCHECK_CACHE_DIR", str(tmp_path))
    assert cache_root() == tmp_path
    monkeypatch.delenv("FLOWCHECK_CACHE_DIR")
    assert cache_root().name == "flowcheck"


def test_pip_runs_where_nothing_can_stand_in_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's folder may hold a `pip.py`: it must not be imported."""
    (tmp_path / "pip.py").write_text("raise SystemExit('hijacked')\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "hijacked" not in run_pip(["--version"], tmp_path / "empty").text


def test_an_interpreter_that_cannot_be_run(pip: FakePip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "run_pip", run_pip)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with pytest.raises(SourceError, match="pip cannot fetch"):
        open_source("sglang==0.5.7")


@pytest.mark.release
def test_a_real_release_by_name() -> None:
    tree = open_source("sglang==0.5.6")
    assert (tree.root, tree.package, tree.core, tree.version) == ("sglang", "sglang", "sglang/srt", "0.5.6")
    path = tree.path_of("sglang.srt.model_executor.forward_batch_info")
    assert path is not None
    assert b"class CaptureHiddenMode" in tree.read(path)
    assert tree.is_namespace("sglang.srt.speculative")
    assert tree.path_of("sglang.test.test_utils") not in tree.paths()
    assert not tree.warnings
    assert tree.digest == open_source("sglang==0.5.6", offline=True).digest


@pytest.mark.release
def test_a_real_release_that_does_not_exist() -> None:
    with pytest.raises(SourceError, match=r"no such release|no network"):
        open_source("sglang==0.5.6.post999")
