"""Packages are found by what their files say, under any name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck.source import SourceError, open_source

Make = Callable[..., Path]


def test_a_fork_with_every_name_changed(tmp_path: Path, make_package: Make) -> None:
    package = make_package(tmp_path / "lib" / "acme", package="acme", core="runtime", modes="batches")
    modes = package / "runtime" / "model_executor" / "batches.py"
    modes.write_text(modes.read_text().replace("CaptureHiddenMode", "Keep"))
    tree = open_source(str(tmp_path))
    assert (tree.root, tree.package, tree.core) == ("lib/acme", "acme", "lib/acme/runtime")
    assert tree.path_of("acme.runtime.utils") == "lib/acme/runtime/utils.py"


def test_the_import_name_is_the_one_that_the_tree_uses(tmp_path: Path, make_package: Make) -> None:
    make_package(tmp_path / "sglang_patched")
    for source in (tmp_path, tmp_path / "sglang_patched"):
        tree = open_source(str(source))
        assert tree.package == "sglang"
        assert tree.root == ("sglang_patched" if source == tmp_path else "")


def test_a_vendored_package_keeps_its_long_name(tmp_path: Path, make_package: Make) -> None:
    make_package(tmp_path / "myco" / "_vendor" / "sglang", package="myco._vendor.sglang")
    (tmp_path / "myco" / "__init__.py").write_text("")
    tree = open_source(str(tmp_path))
    assert (tree.root, tree.package) == ("myco/_vendor/sglang", "myco._vendor.sglang")
    assert tree.path_of("myco._vendor.sglang.srt.utils") == "myco/_vendor/sglang/srt/utils.py"


def test_third_party_imports_do_not_name_the_package(tmp_path: Path, make_package: Make) -> None:
    package = make_package(tmp_path / "sglang")
    write = package / "srt" / "model_executor" / "forward_batch_info.py"
    write.write_text("import torch.layers\nimport torch.utils\nimport torch.model_executor\n" + write.read_text())
    assert open_source(str(tmp_path)).package == "sglang"


def test_a_tree_without_absolute_imports(tmp_path: Path, make_package: Make) -> None:
    package = make_package(tmp_path / "python" / "sglang")
    for path in package.rglob("*.py"):
        path.write_text(path.read_text().replace("from sglang.", "from ...").replace("from ...srt.", "from .."))
    tree = open_source(str(tmp_path))
    assert (tree.root, tree.package, tree.core) == ("python/sglang", "sglang", "python/sglang/srt")


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_the_signature_is_found_with_any_line_end(tmp_path: Path, make_package: Make, newline: str) -> None:
    package = make_package(tmp_path / "sglang")
    path = package / "srt" / "model_executor" / "forward_batch_info.py"
    path.write_bytes(path.read_text().replace("\n", newline).encode())
    assert open_source(str(tmp_path)).core == "sglang/srt"


def test_the_phases_of_a_forward_are_a_signature_too(tmp_path: Path, make_package: Make) -> None:
    package = make_package(tmp_path / "sglang")
    path = package / "srt" / "model_executor" / "forward_batch_info.py"
    text = path.read_text().replace("NULL =", "NOTHING =")
    path.write_text(
        text + "\n\nclass Phase(IntEnum):\n    EXTEND = auto()\n    DECODE = auto()\n    TARGET_VERIFY = auto()\n"
    )
    assert open_source(str(tmp_path)).package == "sglang"


def test_several_packages_are_listed_and_one_is_chosen(tmp_path: Path, make_package: Make) -> None:
    make_package(tmp_path / "python" / "sglang")
    other = make_package(tmp_path / "third_party" / "old", modes="renamed")
    with pytest.raises(SourceError, match="--package-root") as caught:
        open_source(str(tmp_path))
    assert "python/sglang" in str(caught.value)
    assert "third_party/old" in str(caught.value)
    for given in ("third_party/old", "./third_party/old/", str(other)):
        tree = open_source(str(tmp_path), package_root=given)
        assert (tree.root, tree.package, tree.core) == ("third_party/old", "sglang", "third_party/old/srt")
        assert all(path.startswith("third_party/old/") for path in tree.paths())


@pytest.mark.parametrize("given", ["nowhere", "../elsewhere", "/"])
def test_a_wrong_package_root_is_one_clear_line(checkout: Path, given: str) -> None:
    with pytest.raises(SourceError, match="--package-root"):
        open_source(str(checkout), package_root=given)


def test_outputs_of_a_build_are_no_second_package(checkout: Path, make_package: Make) -> None:
    make_package(checkout / "python" / "build" / "lib" / "sglang")
    make_package(checkout / ".venv" / "lib" / "sglang")
    assert open_source(str(checkout)).root == "python/sglang"


# Editable installs.


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "six.py").write_text("")
    return site


def direct_url(site: Path, target: Path) -> None:
    info = site / "sglang-0.5.6.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text(json.dumps({"url": target.as_uri(), "dir_info": {"editable": True}}))


def pth(site: Path, target: Path) -> None:
    (site / "__editable__.sglang-0.5.6.pth").write_text(f"import sys; sys.exit(3)\n# comment\n{target}\n")


def finder(site: Path, target: Path) -> None:
    text = f"import sys\nraise SystemExit(3)\nMAPPING: dict[str, str] = {{'sglang': {str(target / 'sglang')!r}}}\n"
    (site / "__editable___sglang_0_5_6_finder.py").write_text(text)


@pytest.mark.parametrize("ways", [(direct_url,), (pth,), (finder,), (direct_url, pth, finder)])
def test_an_editable_install_is_followed(
    checkout: Path, site: Path, ways: tuple[Callable[[Path, Path], None], ...]
) -> None:
    for way in ways:
        way(site, checkout / "python")
    tree = open_source(str(site))
    assert tree.package == "sglang"
    path = tree.path_of("sglang.srt.utils")
    assert path is not None
    assert tree.read(path) == b"def helper(): ...\n"
    assert open_source(str(site.parents[2])).digest == tree.digest


def test_a_package_that_is_there_wins_over_an_editable_one(checkout: Path, site: Path, make_package: Make) -> None:
    pth(site, checkout / "python")
    make_package(site / "sglang")
    assert open_source(str(site)).root == "sglang"


def test_two_editable_installs_are_listed(checkout: Path, site: Path, tmp_path: Path, make_package: Make) -> None:
    make_package(tmp_path / "second" / "sglang")
    pth(site, checkout / "python")
    (site / "second.pth").write_text(f"{tmp_path / 'second'}\n")
    with pytest.raises(SourceError, match="give one of them as SOURCE"):
        open_source(str(site))


def test_broken_records_of_installs_do_no_harm(site: Path, checkout: Path) -> None:
    info = site / "x-1.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text("[1, 2")
    (site / "__editable___y_finder.py").write_text("MAPPING = {")
    (site / "__editable___z_finder.py").write_text("MAPPING = dict(a=open('x'))\nOTHER = 1\n")
    (site / "gone.pth").write_text("/no/such/folder\n")
    pth(site, checkout / "python")
    assert open_source(str(site)).package == "sglang"


def test_the_signature_may_lie_deeper_or_higher(tmp_path: Path, make_package: Make) -> None:
    package = make_package(tmp_path / "sglang")
    source = package / "srt" / "model_executor" / "forward_batch_info.py"
    for place in ("srt/model_executor/batches/info/modes.py", "srt/modes.py"):
        target = package / place
        target.parent.mkdir(parents=True, exist_ok=True)
        source = source.rename(target)
        tree = open_source(str(tmp_path))
        assert (tree.root, tree.package, tree.core) == ("sglang", "sglang", "sglang/srt")


def test_a_package_among_tests_counts_only_where_there_is_no_other(tmp_path: Path, make_package: Make) -> None:
    make_package(tmp_path / "tests" / "data" / "sglang")
    tree = open_source(str(tmp_path))
    assert tree.root == "tests/data/sglang"
    assert tree.path_of("sglang.srt.utils") in tree.paths()
    make_package(tmp_path / "python" / "sglang")
    assert open_source(str(tmp_path)).root == "python/sglang"
