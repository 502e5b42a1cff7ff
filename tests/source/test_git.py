"""REPO@REV reads blobs and makes no checkout."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck.source import SourceError, open_source
from flowcheck.source.store import MAX_FILE_BYTES

UTILS = "python/sglang/srt/utils.py"


def git(repo: Path, *arguments: str) -> str:
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-C", str(repo), *arguments], check=True, capture_output=True, text=True, env={**kept, **identity}
    )
    return done.stdout.strip()


@pytest.fixture
def repo(checkout: Path) -> Path:
    git(checkout, "init", "-q", "-b", "main")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "one")
    git(checkout, "tag", "v1")
    (checkout / UTILS).write_text("changed = 1\n")
    git(checkout, "commit", "-q", "-a", "-m", "two")
    (checkout / UTILS).write_text("not committed\n")
    return checkout


@pytest.mark.parametrize("revision", ["v1", "HEAD~1", "main^", "HEAD@{1}"])
def test_an_older_revision_is_read(repo: Path, revision: str) -> None:
    with open_source(f"{repo}@{revision}") as tree:
        assert (tree.kind, tree.root, tree.package, tree.version) == ("git", "python/sglang", "sglang", "0.5.6")
        assert tree.read(UTILS) == b"def helper(): ...\n"
        assert tree.read(UTILS) == b"def helper(): ...\n"
        assert tree.path_of("sglang.srt.layers.norm") is not None


def test_nothing_in_the_repository_changes(repo: Path) -> None:
    before = git(repo, "status", "--porcelain"), (repo / UTILS).read_bytes(), sorted((repo / ".git").iterdir())
    open_source(f"{repo}@HEAD").close()
    assert (
        git(repo, "status", "--porcelain"),
        (repo / UTILS).read_bytes(),
        sorted((repo / ".git").iterdir()),
    ) == before


def test_the_digest_follows_the_content(repo: Path) -> None:
    git(repo, "checkout", "-q", "--", ".")
    git(repo, "commit", "-q", "--allow-empty", "-m", "three")
    digests = {name: open_source(f"{repo}@{name}").digest for name in ("v1", "HEAD~1", "HEAD")}
    assert digests["HEAD"] == digests["HEAD~1"] != digests["v1"]


def test_a_folder_inside_a_repository(repo: Path) -> None:
    tree = open_source(f"{repo / 'python'}@v1")
    assert tree.root == "sglang"
    assert tree.read("sglang/srt/utils.py") == b"def helper(): ...\n"
    assert open_source(f"{repo / 'python' / 'sglang'}@v1").package == "sglang"


def test_a_bare_repository(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    assert open_source(f"{tmp_path / 'bare.git'}@v1").read(UTILS) == b"def helper(): ...\n"


def test_a_folder_whose_name_holds_the_sign_wins(repo: Path) -> None:
    renamed = repo.rename(repo.with_name("checkout@v1"))
    assert open_source(str(renamed)).read(UTILS) == b"not committed\n"
    assert open_source(f"{renamed}@v1").read(UTILS) == b"def helper(): ...\n"


def test_links_and_submodules_are_named_and_skipped(repo: Path) -> None:
    core = repo / "python" / "sglang" / "srt"
    (core / "link.py").symlink_to("utils.py")
    (core / "folder").symlink_to("layers", target_is_directory=True)
    git(repo, "add", ".")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{git(repo, 'rev-parse', 'HEAD')},python/sglang/srt/sub")
    git(repo, "commit", "-q", "-m", "links")
    tree = open_source(f"{repo}@HEAD")
    assert {warning.path.rpartition("/")[2] for warning in tree.warnings} == {"link.py", "folder", "sub"}
    assert not any("link.py" in path for path in tree.paths())


def test_a_huge_blob_is_left_out_and_the_next_one_is_read(repo: Path) -> None:
    with (repo / "python/sglang/srt/huge.py").open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES * 2)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "huge")
    tree = open_source(f"{repo}@HEAD")
    assert tree.read("python/sglang/srt/huge.py") == b""
    assert "larger than 8 MB" in tree.warnings[0].text
    assert tree.read("python/sglang/srt/layers/norm.py") == b"class Norm: ...\n"


def test_an_odd_file_name_survives(repo: Path) -> None:
    (repo / "python/sglang/srt/two words\nand ü.py").write_text("x = 1\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "odd")
    assert open_source(f"{repo}@HEAD").read("python/sglang/srt/two words\nand ü.py") == b"x = 1\n"


@pytest.mark.parametrize("revision", ["nope", "", "--output=pwned", "-p", "v1:python", "v1..HEAD"])
def test_unknown_revisions(repo: Path, revision: str) -> None:
    with pytest.raises(SourceError) as caught:
        open_source(f"{repo}@{revision}")
    assert "revision" in str(caught.value)
    assert not (repo / "pwned").exists()


def test_a_folder_that_is_no_repository(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not in a git repository"):
        open_source(f"{tmp_path}@main")


def test_git_is_absent(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repo))
    with pytest.raises(SourceError, match="no git on PATH"):
        open_source(f"{repo}@main")


def test_the_callers_git_variables_do_not_mislead(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert open_source(f"{repo}@v1").read(UTILS) == b"def helper(): ...\n"


def test_a_worker_forked_later_reads_too(repo: Path, make_wheel: Callable[..., Path], tmp_path: Path) -> None:
    trees = [open_source(f"{repo}@v1"), open_source(str(make_wheel(tmp_path / "x.whl")))]
    for tree in trees:
        path = tree.path_of("sglang.srt.utils")
        assert path is not None
        expected = tree.read(path)
        child = os.fork()
        if child == 0:
            os._exit(0 if tree.read(path) == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert tree.read(path) == expected


def test_a_copy_in_another_process_reads_the_same(repo: Path) -> None:
    with open_source(f"{repo}@v1") as tree:
        tree.read(UTILS)
        with pickle.loads(pickle.dumps(tree)) as copy:
            assert copy.read(UTILS) == tree.read(UTILS)
            assert copy.digest == tree.digest
            assert copy.digests == {UTILS: tree.file_digest(UTILS)}
