"""Tiny trees of SGLang's shape."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

MODES = """\
from enum import IntEnum, auto

from {package}.{core}.utils import helper
from {package}.utils import other
from {package}.{core}.layers.norm import Norm


class CaptureHiddenMode(IntEnum):
    # Do not capture anything.
    NULL = 0

    # The last token.
    LAST = 1
    FULL = 2

    def is_full(self):
        return self == CaptureHiddenMode.FULL


class ForwardBatch:
    forward_mode: int
"""


def files(package: str = "sglang", core: str = "srt", modes: str = "forward_batch_info") -> dict[str, str]:
    """A package's files, relative to the package folder."""
    return {
        "__init__.py": "",
        "utils.py": "def other(): ...\n",
        "version.py": '__version__ = "0.5.6"\n',
        f"{core}/utils.py": "def helper(): ...\n",
        f"{core}/layers/norm.py": "class Norm: ...\n",
        f"{core}/layers/quant/__init__.py": "",
        f"{core}/layers/quant/fp8.py": f"from {package}.{core}.utils import helper\n",
        f"{core}/model_executor/{modes}.py": MODES.format(package=package, core=core),
        f"{core}/model_executor/test_info.py": "",
        "test/test_utils.py": "DEFAULT = 1\n",
        "benchmark/run.py": "",
        "bench_serving.py": "",
    }


def write(folder: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


@pytest.fixture
def make_package() -> Callable[..., Path]:
    """Writes a package's files into a folder; the keywords are those of `files`."""

    def make(folder: Path, **names: str) -> Path:
        return write(folder, files(**names))

    return make


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    write(root / "python" / "sglang", files())
    write(
        root,
        {"python/pyproject.toml": '[project]\nname = "sglang"\nversion = "9"\n', "test/run.py": "", "setup.py": ""},
    )
    return root


def add_to_zip(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


@pytest.fixture
def make_wheel() -> Callable[..., Path]:
    """Writes a wheel, with further members after the package's own."""

    def make(path: Path, extra: Iterable[tuple[str, bytes]] = (), **names: str) -> Path:
        own = [(f"sglang/{name}", text.encode()) for name, text in files(**names).items() if name != "version.py"]
        meta = ("sglang-0.5.7.dist-info/METADATA", b"Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.7\n")
        return add_to_zip(path, [*own, meta, *extra])

    return make


@pytest.fixture
def make_sdist(tmp_path: Path) -> Callable[..., Path]:
    """Writes an sdist; ``mode`` is that of `tarfile.open`."""

    def make(path: Path, mode: str = "w:gz") -> Path:
        base = write(tmp_path / "to-pack" / "sglang", {k: v for k, v in files().items() if k != "version.py"})
        info = write(base.parent, {"PKG-INFO": "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.8\n"})
        with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
            archive.add(base, "sglang-0.5.8/sglang")
            archive.add(info / "PKG-INFO", "sglang-0.5.8/PKG-INFO")
        return path

    return make
