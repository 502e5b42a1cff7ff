"""Checkouts, package folders, site-packages and what a tree tells of its files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck.source import SourceError, Tree, open_source
from flowcheck.source.store import MAX_FILE_BYTES

Make = Callable[..., Path]
CORE = "python/sglang/srt"


def test_a_checkout_is_found_below_its_root(checkout: Path) -> None:
    tree = open_source(str(checkout))
    assert (tree.kind, tree.root, tree.package, tree.core) == ("checkout", "python/sglang", "sglang", CORE)
    assert tree.version == "0.5.6"
    assert tree.label == str(checkout)
    assert f"{CORE}/model_executor/forward_batch_info.py" in tree.paths()
    assert list(tree.paths()) == sorted(tree.paths())


@pytest.mark.parametrize("inside", ["python/sglang", "python"])
def test_a_package_folder_and_its_parent_are_sources_too(checkout: Path, inside: str) -> None:
    tree = open_source(str(checkout / inside))
    assert tree.root == ("" if inside.endswith("sglang") else "sglang")
    assert tree.package == "sglang"
    path = tree.path_of("sglang.srt.utils")
    assert path is not None
    assert tree.read(path) == b"def helper(): ...\n"


def test_a_symbolic_link_to_a_package_folder_is_a_source(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(checkout / "python" / "sglang", target_is_directory=True)
    assert open_source(str(tmp_path / "link")).package == "sglang"


def test_tests_and_benchmarks_are_in_scope_only_when_asked(checkout: Path) -> None:
    left_out = {
        "python/sglang/test/test_utils.py",
        "python/sglang/benchmark/run.py",
        "python/sglang/bench_serving.py",
        f"{CORE}/model_executor/test_info.py",
    }
    scope = set(open_source(str(checkout)).paths())
    everything = set(open_source(str(checkout), include_all=True).paths())
    assert not scope & left_out
    assert everything - scope == left_out


def test_a_test_module_that_serving_code_imports_is_still_reachable(checkout: Path) -> None:
    tree = open_source(str(checkout))
    path = tree.path_of("sglang.test.test_utils")
    assert path == "python/sglang/test/test_utils.py"
    assert tree.read(path) == b"DEFAULT = 1\n"


def test_core_paths_are_those_of_the_serving_part(checkout: Path) -> None:
    tree = open_source(str(checkout))
    assert set(tree.paths()) - set(tree.core_paths()) == {
        f"python/sglang/{name}" for name in ("__init__.py", "utils.py", "version.py")
    }


def test_modules_packages_and_namespaces(checkout: Path) -> None:
    tree = open_source(str(checkout))
    assert tree.module_name(f"{CORE}/layers/norm.py") == "sglang.srt.layers.norm"
    assert tree.module_name(f"{CORE}/layers/quant/__init__.py") == "sglang.srt.layers.quant"
    assert tree.path_of("sglang") == "python/sglang/__init__.py"
    assert tree.path_of("sglang.srt.layers.quant") == f"{CORE}/layers/quant/__init__.py"
    assert tree.path_of("sglang.srt.layers") is None
    assert tree.is_namespace("sglang.srt")
    assert tree.is_namespace("sglang.srt.layers")
    assert not tree.is_namespace("sglang.srt.layers.quant")
    assert not tree.is_namespace("sglang.nothing")
    for path in tree.paths():
        assert tree.path_of(tree.module_name(path)) == path


def test_a_package_wins_over_a_module_of_the_same_name(checkout: Path) -> None:
    (checkout / CORE / "utils").mkdir()
    (checkout / CORE / "utils" / "__init__.py").write_text("")
    assert open_source(str(checkout)).path_of("sglang.srt.utils") == f"{CORE}/utils/__init__.py"


def test_a_module_hides_a_namespace_folder_of_the_same_name(checkout: Path) -> None:
    (checkout / CORE / "utils").mkdir()
    (checkout / CORE / "utils" / "deep.py").write_text("")
    tree = open_source(str(checkout))
    assert tree.path_of("sglang.srt.utils") == f"{CORE}/utils.py"
    assert not tree.is_namespace("sglang.srt.utils")


def test_only_paths_of_the_package_can_be_read(checkout: Path) -> None:
    tree = open_source(str(checkout))
    for path in ("setup.py", "test/run.py", "../x.py", "python/pyproject.toml", ""):
        with pytest.raises(KeyError):
            tree.read(path)
        with pytest.raises(KeyError):
            tree.file_digest(path)


def test_digests_follow_the_content_and_nothing_else(checkout: Path) -> None:
    before = open_source(str(checkout))
    path = f"{CORE}/utils.py"
    assert before.file_digest(path) == hashlib.sha256(before.read(path)).hexdigest()
    os.utime(checkout / path, (1, 1))
    (checkout / "test" / "run.py").write_text("changed = 1\n")
    assert open_source(str(checkout)).digest == before.digest
    (checkout / path).write_text("def helper(): pass\n")
    after = open_source(str(checkout))
    assert after.digest != before.digest
    assert after.file_digest(path) != before.file_digest(path)


def test_a_new_file_changes_the_digest_and_a_renamed_one_too(checkout: Path) -> None:
    before = open_source(str(checkout)).digest
    (checkout / CORE / "utils.py").rename(checkout / CORE / "helpers.py")
    renamed = open_source(str(checkout)).digest
    (checkout / CORE / "new.py").write_text("")
    assert len({before, renamed, open_source(str(checkout)).digest}) == 3


def test_a_version_is_read_from_what_stands_beside_the_package(tmp_path: Path, make_package: Make) -> None:
    package = make_package(tmp_path / "site-packages" / "sglang")
    (package / "version.py").write_text(
        'try:\n    from ._version import v\nexcept ImportError:\n    __version__ = "0.0.0"\n'
    )
    assert open_source(str(tmp_path)).version is None
    for name, version in (("torch", "2.9"), ("sglang", "0.5.11")):
        info = tmp_path / "site-packages" / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    assert open_source(str(tmp_path)).version == "0.5.11"
    (package / "_version.py").write_text("__version__: str\nversion: str\n__version__ = version = '0.5.12'\n")
    assert open_source(str(tmp_path)).version == "0.5.12"


def test_a_static_version_of_a_project_is_used(checkout: Path) -> None:
    (checkout / "python" / "sglang" / "version.py").unlink()
    assert open_source(str(checkout)).version == "9"


# What cannot be read is named, and the rest goes on.


def warned(tree: Tree, path: str) -> str:
    texts = [warning.text for warning in tree.warnings if warning.path == path]
    assert len(texts) == 1, tree.warnings
    return texts[0]


def test_a_huge_file_is_left_out_with_a_warning(checkout: Path) -> None:
    path = f"{CORE}/huge.py"
    with (checkout / path).open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES * 6)
    tree = open_source(str(checkout))
    assert tree.read(path) == b""
    assert tree.read(path) == b""
    assert "larger than 8 MB" in warned(tree, path)


def test_an_unreadable_file_is_left_out_with_a_warning(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{CORE}/utils.py"
    real = os.open

    def refuse(name: str, flags: int) -> int:
        if str(name).endswith("srt/utils.py"):
            raise PermissionError(13, "Permission denied")
        return real(name, flags)

    tree = open_source(str(checkout))
    monkeypatch.setattr(os, "open", refuse)
    assert tree.read(path) == b""
    assert "Permission denied" in warned(tree, path)
    assert tree.read(f"{CORE}/layers/norm.py")


def test_what_has_the_name_of_a_file_and_is_none(checkout: Path) -> None:
    (checkout / CORE / "folder.py").mkdir()
    os.mkfifo(checkout / CORE / "pipe.py")
    (checkout / CORE / "device.py").symlink_to("/dev/zero")
    (checkout / CORE / "dangling.py").symlink_to("nowhere.py")
    (checkout / CORE / "real.py").symlink_to("utils.py")
    tree = open_source(str(checkout))
    assert tree.digest
    for name in ("folder", "pipe", "device", "dangling"):
        assert warned(tree, f"{CORE}/{name}.py")
    assert tree.read(f"{CORE}/pipe.py") == b""
    assert tree.read(f"{CORE}/real.py") == tree.read(f"{CORE}/utils.py")


def test_a_loop_of_links_does_not_trap_the_scan(checkout: Path) -> None:
    (checkout / CORE / "again").symlink_to(checkout, target_is_directory=True)
    (checkout / CORE / "self.py").symlink_to("self.py")
    tree = open_source(str(checkout))
    assert not any("again" in path for path in tree.paths())
    assert "not followed" in warned(tree, f"{CORE}/again")
    assert tree.read(f"{CORE}/self.py") == b""


def test_a_file_that_vanishes_is_a_warning(checkout: Path) -> None:
    tree = open_source(str(checkout))
    (checkout / CORE / "utils.py").unlink()
    assert tree.read(f"{CORE}/utils.py") == b""
    assert warned(tree, f"{CORE}/utils.py")


def test_names_that_are_no_text_do_no_harm(checkout: Path) -> None:
    name = os.fsencode(checkout / CORE) + b"/caf\xe9.py"
    with open(name, "wb") as stream:  # noqa: PTH123
        stream.write(b"x = 1\n")
    tree = open_source(str(checkout))
    assert tree.digest
    assert len([path for path in tree.paths() if "caf" in path]) == 1


# Bad input: one clear line.


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path, "no such file or folder"),
        (lambda path: path.mkdir(), "holds no Python file"),
        (lambda path: path.symlink_to("nowhere"), "leads nowhere"),
        (lambda path: path.write_text("hello"), "neither a wheel"),
        (os.mkfifo, "neither a folder nor a regular file"),
    ],
)
def test_bad_paths(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    path = tmp_path / "source"
    make(path)
    with pytest.raises(SourceError, match=said) as caught:
        open_source(str(path))
    assert "\n" not in str(caught.value)
    assert "source" in str(caught.value)


def test_a_folder_that_is_not_sglang(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("class Color(Enum):\n    NULL = 0\n    LAST = 1\n\nFULL = 2\n")
    with pytest.raises(SourceError, match="holds no SGLang package"):
        open_source(str(tmp_path))


def test_what_was_not_read_is_named_where_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n")
    (tmp_path / "modes.py").write_bytes(b"# " + b"x" * (9 * 1024**2))
    with pytest.raises(SourceError, match=r"not read: modes\.py \(left out: larger than 8 MB"):
        open_source(str(tmp_path))


@pytest.mark.parametrize("spec", ["", "  ", "a\0b", "x" * 5000, "~nobody-of-this-name/x", "@", "@HEAD", "=="])
def test_odd_spellings_are_errors_and_no_tracebacks(spec: str) -> None:
    with pytest.raises(SourceError):
        open_source(spec)
