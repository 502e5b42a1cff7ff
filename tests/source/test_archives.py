"""Wheels and sdists are read in place."""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck.source import SourceError, open_source
from flowcheck.source import archive as archives
from flowcheck.source.store import MAX_FILE_BYTES

Make = Callable[..., Path]
UTILS = "sglang/srt/utils.py"


def test_a_wheel_is_read_in_place(tmp_path: Path, make_wheel: Make) -> None:
    wheel = make_wheel(tmp_path / "sglang-0.5.7-py3-none-any.whl")
    before = sorted(tmp_path.iterdir())
    tree = open_source(str(wheel))
    assert (tree.kind, tree.root, tree.package, tree.core, tree.version) == (
        "wheel",
        "sglang",
        "sglang",
        "sglang/srt",
        "0.5.7",
    )
    assert tree.read(UTILS) == b"def helper(): ...\n"
    assert tree.file_digest(UTILS) == hashlib.sha256(tree.read(UTILS)).hexdigest()
    assert tree.is_namespace("sglang.srt")
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(KeyError):
        tree.read("sglang-0.5.7.dist-info/METADATA")


@pytest.mark.parametrize(
    ("suffix", "mode"),
    [(".tar.gz", "w:gz"), (".tgz", "w:gz"), (".tar.xz", "w:xz"), (".tar.bz2", "w:bz2"), (".tar", "w")],
)
def test_an_sdist_is_read_in_place(tmp_path: Path, make_sdist: Make, suffix: str, mode: str) -> None:
    tree = open_source(str(make_sdist(tmp_path / f"sglang-0.5.8{suffix}", mode)))
    assert (tree.kind, tree.root, tree.version) == ("sdist", "sglang-0.5.8/sglang", "0.5.8")
    assert tree.read(f"sglang-0.5.8/{UTILS}") == b"def helper(): ...\n"
    assert tree.path_of("sglang.srt.layers.norm") == "sglang-0.5.8/sglang/srt/layers/norm.py"


def test_a_zip_of_a_checkout_is_read_in_place(tmp_path: Path, make_wheel: Make) -> None:
    wheel = make_wheel(tmp_path / "x.whl")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(tmp_path / "main.zip", "w") as new:
        for info in old.infolist():
            new.writestr(f"sglang-main/python/{info.filename}", old.read(info))
    tree = open_source(str(tmp_path / "main.zip"))
    assert (tree.kind, tree.root) == ("sdist", "sglang-main/python/sglang")


def test_a_copy_in_another_process_reads_the_same(tmp_path: Path, make_wheel: Make, make_sdist: Make) -> None:
    for path in (make_wheel(tmp_path / "sglang-0.5.7-py3-none-any.whl"), make_sdist(tmp_path / "sglang-0.5.7.tar.gz")):
        with open_source(str(path)) as tree, pickle.loads(pickle.dumps(tree)) as copy:
            assert copy.paths() == tree.paths()
            assert [copy.read(each) for each in copy.paths()] == [tree.read(each) for each in tree.paths()]
            assert copy.digests == tree.digests


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_digest_follows_the_content(tmp_path: Path, make_wheel: Make, kind: str) -> None:
    def pack(path: Path, text: bytes) -> str:
        wheel = make_wheel(tmp_path / f"{path.name}.whl", [("sglang/srt/more.py", text)])
        if kind == "wheel":
            return open_source(str(wheel)).digest
        with zipfile.ZipFile(wheel) as old, tarfile.open(path, "w:gz") as new:
            for info in old.infolist():
                member = tarfile.TarInfo(info.filename)
                member.size, member.mtime = info.file_size, len(text)
                new.addfile(member, io.BytesIO(old.read(info)))
        return open_source(str(path)).digest

    one, same, other = (pack(tmp_path / f"{n}.tar.gz", text) for n, text in enumerate((b"a = 1", b"a = 1", b"a = 2")))
    assert one == same != other


def test_a_wheel_of_a_fork_is_found_by_content(tmp_path: Path) -> None:
    path = tmp_path / "acme.whl"
    with zipfile.ZipFile(path, "w") as archive:
        text = "class K(IntEnum):\n    NULL = 0\n    LAST = 1\n    FULL = 2  # hidden\n"
        archive.writestr("acme/__init__.py", "")
        archive.writestr("acme/runtime/exec/kinds.py", f"from acme.runtime.exec import other\n{text}")
        archive.writestr("acme/runtime/exec/other.py", "")
    tree = open_source(str(path))
    assert (tree.root, tree.package, tree.core) == ("acme", "acme", "acme/runtime")


EVIL = (
    "../evil.py",
    "/abs.py",
    "sglang/../../up.py",
    "C:/win.py",
    "sglang/./dot.py",
    "sglang//two.py",
    "sglang/srt/a\\b.py",
)


def test_evil_names_in_a_zip_are_ignored(tmp_path: Path, make_wheel: Make) -> None:
    tree = open_source(str(make_wheel(tmp_path / "x.whl", [(name, b"evil = 1\n") for name in EVIL])), include_all=True)
    assert all(path.startswith("sglang/") and ".." not in path and "\\" not in path for path in tree.paths())
    assert not any(b"evil" in tree.read(path) for path in tree.paths())


def test_evil_members_of_a_tar_are_ignored(tmp_path: Path, make_sdist: Make) -> None:
    path = make_sdist(tmp_path / "x.tar", "w")
    with tarfile.open(path, "a") as archive:
        for name in EVIL:
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"evil"))
        for name, kind, target in (
            ("sglang-0.5.8/sglang/srt/link.py", tarfile.SYMTYPE, "/etc/passwd"),
            ("sglang-0.5.8/sglang/srt/hard.py", tarfile.LNKTYPE, "sglang-0.5.8/sglang/utils.py"),
            ("sglang-0.5.8/sglang/srt/pipe.py", tarfile.FIFOTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
    tree = open_source(str(path), include_all=True)
    assert not any(b"evil" in tree.read(path) or b"root:" in tree.read(path) for path in tree.paths())
    assert {warning.path.rpartition("/")[2] for warning in tree.warnings} == {"link.py", "hard.py", "pipe.py"}


def test_a_huge_member_is_left_out_with_a_warning(tmp_path: Path, make_wheel: Make) -> None:
    bomb = bytes(MAX_FILE_BYTES + 1)
    tree = open_source(str(make_wheel(tmp_path / "x.whl", [("sglang/srt/bomb.py", bomb)])))
    assert tree.read("sglang/srt/bomb.py") == b""
    assert [warning.path for warning in tree.warnings] == ["sglang/srt/bomb.py"]

    path = tmp_path / "x.tar.gz"
    with zipfile.ZipFile(tmp_path / "x.whl") as old, tarfile.open(path, "w:gz", compresslevel=1) as new:
        for info in old.infolist():
            member = tarfile.TarInfo(info.filename)
            member.size = info.file_size
            new.addfile(member, io.BytesIO(old.read(info)))
    tree = open_source(str(path))
    assert tree.read("sglang/srt/bomb.py") == b""
    assert "larger than 8 MB" in tree.warnings[0].text
    assert tree.digest


def test_a_member_whose_size_is_a_lie_is_refused(tmp_path: Path, make_wheel: Make) -> None:
    wheel = make_wheel(tmp_path / "x.whl", [("sglang/srt/lie.py", bytes(MAX_FILE_BYTES + 1))])
    raw = bytearray(wheel.read_bytes())
    entry = raw.rindex(b"sglang/srt/lie.py") - 46  # its record in the central directory
    assert raw[entry : entry + 4] == b"PK\1\2"
    raw[entry + 24 : entry + 28] = struct.pack("<I", 10)
    wheel.write_bytes(raw)
    tree = open_source(str(wheel))
    assert tree.read("sglang/srt/lie.py") == b""
    assert len(tree.warnings) == 1


def test_a_damaged_member_is_left_out_and_the_rest_is_read(tmp_path: Path, make_wheel: Make) -> None:
    wheel = make_wheel(tmp_path / "x.whl", [("sglang/srt/hurt.py", bytes(range(256)) * 40)])
    sound = open_source(str(wheel)).package_digest
    raw = bytearray(wheel.read_bytes())
    at = raw.index(b"sglang/srt/hurt.py") + 60
    raw[at : at + 40] = b"\xff" * 40
    wheel.write_bytes(raw)
    tree = open_source(str(wheel))
    assert tree.package_digest != sound, "an answer about the sound one would be given for the damaged one"
    assert tree.read("sglang/srt/hurt.py") == b""
    assert "damaged" in tree.warnings[0].text
    assert tree.read(UTILS)


def test_a_bomb_of_a_tar_is_bounded(tmp_path: Path, make_sdist: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_sdist(tmp_path / "x.tar.gz")
    monkeypatch.setattr(archives, "MAX_STREAM_BYTES", 4000)
    with pytest.raises(SourceError, match="unpacks to more"):
        open_source(str(path))


# Bad input: one clear line.


def truncated(path: Path, make_wheel: Make, make_sdist: Make) -> Path:
    make = make_wheel if path.suffix == ".whl" else make_sdist
    data = make(path).read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


@pytest.mark.parametrize("name", ["x.whl", "x.tar.gz", "x.tar.xz"])
def test_truncated_archives(tmp_path: Path, make_wheel: Make, make_sdist: Make, name: str) -> None:
    path = tmp_path / name
    if name.endswith("xz"):
        data = make_sdist(path, "w:xz").read_bytes()
        path.write_bytes(data[: len(data) // 2])
    else:
        truncated(path, make_wheel, make_sdist)
    with pytest.raises(SourceError, match="not a readable") as caught:
        open_source(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["x.whl", "x.zip", "x.tar.gz", "x.tar.bz2", "x.tar"])
@pytest.mark.parametrize("data", [b"", b"this is no archive at all" * 40, b"PK\3\4 nearly", b"\x1f\x8b\x08nearly"])
def test_files_that_only_have_the_name_of_an_archive(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(SourceError) as caught:
        open_source(str(path))
    assert "\n" not in str(caught.value)


def test_an_encrypted_zip(tmp_path: Path, make_wheel: Make) -> None:
    wheel = make_wheel(tmp_path / "x.whl")
    raw = bytearray(wheel.read_bytes())
    for signature, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        at = -1
        while (at := raw.find(signature, at + 1)) >= 0:
            raw[at + offset] |= 1
    wheel.write_bytes(raw)
    with pytest.raises(SourceError, match="encrypted"):
        open_source(str(wheel))


def test_archives_without_sglang(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "six.whl", "w") as archive:
        archive.writestr("six.py", "x = 1\n")
    with pytest.raises(SourceError, match="holds no SGLang package"):
        open_source(str(tmp_path / "six.whl"))
    with zipfile.ZipFile(tmp_path / "empty.whl", "w"):
        pass
    with pytest.raises(SourceError, match="holds no Python file"):
        open_source(str(tmp_path / "empty.whl"))
