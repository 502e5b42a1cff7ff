"""Trees that are to be run: what is no folder is unpacked whole, once; and what they say that they need."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck.source import SourceError, Tree, open_source

MODES = "import enum\nclass CaptureHiddenMode(enum.IntEnum):\n    NULL = 0\n    LAST = 1\n    FULL = 2\n"
MODES += "class ForwardMode(enum.IntEnum):\n    EXTEND = 0\n    TARGET_VERIFY = 1\n"
FILES = {
    "fork/srt/model_executor/forward_batch_info.py": MODES,
    "fork/__init__.py": "",
    "fork/data/table.json": "{}",
    "beside/other.py": "",
}


def checkout(folder: Path) -> Path:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def wheel(folder: Path) -> str:
    path = folder / "fork-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
        archive.writestr("fork/../../outside.py", "")
        archive.writestr("fork-1.0.dist-info/METADATA", "Name: fork\nRequires-Dist: lib==1\n\nRequires-Dist: prose\n")
    return str(path)


def sdist(folder: Path) -> str:
    inside = checkout(folder / "fork-1.0")
    (inside / "pyproject.toml").write_text('[project]\nname="fork"\ndependencies=["lib==1"]\n')
    (inside / "fork" / "link.py").symlink_to("/etc/passwd")
    path = folder / "fork-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(inside, "fork-1.0")
    return str(path)


def revision(folder: Path) -> str:
    repo = checkout(folder / "repo")
    (repo / "pyproject.toml").write_text('[project]\nname="fork"\n[project.optional-dependencies]\nsrt=["lib==1"]\n')
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(repo), *command], check=True)
    (repo / "fork" / "__init__.py").write_text("changed = 1\n")
    return f"{repo}@HEAD"


KINDS: list[Callable[[Path], str]] = [wheel, sdist, revision]


def opened(spec: str) -> Tree:
    return open_source(spec)


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_is_unpacked_once_with_files_of_every_kind(tmp_path: Path, kind: Callable[[Path], str]) -> None:
    spec, said = kind(tmp_path), list[str]()
    with opened(spec) as tree:
        place = tree.unpacked(tmp_path / "cache", said.append)
        assert tree.unpacked(tmp_path / "cache", said.append) == place
    assert len(said) == 1
    files = {path.relative_to(place).as_posix(): path.read_text() for path in place.rglob("*") if path.is_file()}
    assert files == {name.removeprefix("fork/"): text for name, text in FILES.items() if name.startswith("fork/")}
    assert not (tmp_path / "outside.py").exists()
    assert not list((tmp_path / "cache").rglob("other.py"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_needs_is_read_from_its_metadata(tmp_path: Path, kind: Callable[[Path], str]) -> None:
    with opened(kind(tmp_path)) as tree:
        assert tree.requirements() == ["lib==1"]


def test_a_folder_is_used_as_it_is(tmp_path: Path) -> None:
    with opened(str(checkout(tmp_path / "tree"))) as tree:
        assert tree.unpacked(tmp_path / "cache") == tmp_path / "tree" / "fork"
    assert not (tmp_path / "cache").exists()


def test_a_package_folder_is_asked_beside_itself(tmp_path: Path) -> None:
    site = checkout(tmp_path / "site")
    (site / "fork-1.0.dist-info").mkdir()
    (site / "fork-1.0.dist-info" / "METADATA").write_text("Name: fork\nRequires-Dist: lib==1\n")
    with opened(str(site / "fork")) as tree:
        assert tree.requirements() == ["lib==1"]


def test_metadata_that_is_none_says_nothing(tmp_path: Path) -> None:
    tree_folder = checkout(tmp_path / "tree")
    (tree_folder / "pyproject.toml").write_text("[project\n")
    with opened(str(tree_folder)) as tree:
        assert tree.requirements() == []


def test_one_that_was_cut_short_is_unpacked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    spec, cache = wheel(tmp_path), tmp_path / "cache"
    with opened(spec) as tree:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", interrupted)
            with pytest.raises(KeyboardInterrupt):
                tree.unpacked(cache)
        assert not list(cache.rglob("forward_batch_info.py"))
        assert (tree.unpacked(cache) / "__init__.py").is_file()


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with opened(wheel(tmp_path)) as tree, pytest.raises(SourceError, match="cannot write to the cache"):
        tree.unpacked(tmp_path / "file" / "below")


def test_a_member_that_is_damaged_is_one_line(tmp_path: Path) -> None:
    path = Path(wheel(tmp_path))
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("fork/data/table.json")
    data = bytearray(path.read_bytes())
    at = data.index(b"{}", info.header_offset)
    data[at : at + 2] = b"[]"
    path.write_bytes(bytes(data))
    with opened(str(path)) as tree, pytest.raises(SourceError, match=r"table\.json: damaged in the archive"):
        tree.unpacked(tmp_path / "cache")
