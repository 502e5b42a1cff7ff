"""The interpreter's answer to "what is this target told to capture" against CPython's, for every setter of released trees.

Nobody wrote the expected answers: the child executes the released setters on plain stubs (``setter_stubs.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowcheck.flow.setters import capture_request
from flowcheck.source import Tree
from tests.flow.models import WORDS, built, deep, interpreter_of, opened, target_config
from tests.releases.setter_oracle import Calls, Release, Stubs

SMALL = ("0.5.9", "0.5.23")
ALL = ("0.4.9.post3", "0.5.2", "0.5.6", "0.5.10", "0.5.12", "0.5.14", "0.5.17", "0.5.20", "0.5.23")

DRAFTS = re.compile("NextN|MTP|Eagle|Draft|Assistant|Embedding")
"""Classes of drafts and embeddings inherit setters that nobody calls; some of them cannot even be called."""

NOT_BUILT = {"InternS1ProForConditionalGeneration"}
"""Its layers cannot be made in 0.5.23 (``start_layer`` is passed to a constructor that does not take it): the stub, which
has layers all the same, knows less than the interpreter."""

OPEN = {"MuseSparkForConditionalGeneration"}
"""It hangs its parts below a bare ``nn.Module()``: the interpreter has to say that it does not know."""

STUBS_LACK = re.compile(
    r"unsupported: (KimiK3LinearModel\.carries_bank_slices|layer\._mlp\w+|MindSporeForCausalLM\.model)$"
)
"""What the stubs do not have, and setters of these trees ask for."""

FEW: tuple[Calls, ...] = (
    [None], [[1, 29, 57]], [[2, 30, 58]], [[-1, 2, 30]], [[2, 2, 30]], [[57, 1, 29]], [[0, 29, 57]], [[]], [[60]], [[61]],
    [[10**9]], [[-70]], [None, [3, 5]], [[24, 30, 36], None],
)  # fmt: skip


def models_of(tree: Tree, folder: Path) -> Path:
    """The files of a tree's models, where the child can read them."""
    for path in tree.paths():
        head, _, name = path.rpartition("/")
        if head.endswith("srt/models") and name.endswith(".py"):
            (folder / name).write_bytes(tree.read(path))
    return folder


@contextmanager
def release(version: str, folder: Path) -> Iterator[Release]:
    with opened(f"sglang=={version}") as tree:
        stubs = Stubs(models_of(tree, folder))
        try:
            yield Release(tree, stubs)
        finally:
            stubs.close()


def setters_of(found: Release) -> list[tuple[str, str]]:
    return [
        (name, method)
        for name, methods in sorted(found.stubs.registered().items())
        if not DRAFTS.search(name) and name not in NOT_BUILT | OPEN
        for method in methods
    ]


def differences(found: Release, name: str, method: str, layers: int, calls: Calls) -> str | None:
    said = found.difference(name, method, layers, calls)
    return None if said is not None and STUBS_LACK.match(said) else said


@pytest.mark.release
@pytest.mark.parametrize("version", SMALL)
def test_setters_do_what_cpython_says_they_do(version: str, tmp_path: Path) -> None:
    def work() -> None:
        with release(version, tmp_path) as found:
            wrong = [
                f"{name}.{method}{calls}: {said}"
                for name, method in setters_of(found)
                for calls in FEW
                if (said := differences(found, name, method, 61, calls)) is not None
            ]
            assert not wrong, "\n".join(wrong)

    deep(work)


ids = st.one_of(
    st.integers(-3, 64), st.integers(-70, 70), st.sampled_from([0, 1, 35, 36, 37, 60, 61, 62, 2**40, -(2**40)])
)
calls_ = st.lists(st.none() | st.lists(ids, max_size=6), min_size=1, max_size=2)


@pytest.mark.long
@pytest.mark.release
@pytest.mark.parametrize("version", ALL)
def test_setters_do_what_cpython_says_for_any_ids(version: str, tmp_path: Path) -> None:
    """Every setter of every target class, two depths, forty id lists each."""

    def check(found: Release, name: str, method: str) -> None:
        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(calls=calls_, layers=st.sampled_from([61, 36]))
        def agrees(calls: Calls, layers: int) -> None:
            said = differences(found, name, method, layers, calls)
            assert said is None, f"{name}.{method}: {said}"

        agrees()

    def work() -> None:
        with release(version, tmp_path) as found:
            for name, method in setters_of(found):
                check(found, name, method)

    deep(work)


Answer = tuple[int, ...]
CASES: list[tuple[str, str, list[int] | None, Answer]] = [
    # DOMAIN.md 2.1, generic targets: any release
    *((v, "llama-3.1-8b", [1, 15, 28], (2, 16, 29)) for v in ("0.4.9.post3", "0.5.6", "0.5.23")),
    *((v, "llama-3.1-8b", None, (2, 16, 29)) for v in ("0.4.9.post3", "0.5.6", "0.5.23")),
    *((v, "qwen3-8b", [2, 30, 58], (3, 31, 59)) for v in ("0.5.6", "0.5.16", "0.5.23")),
    *((v, "minimax-m2.5", [-1, 2, 30], (0, 3, 31)) for v in ("0.5.6", "0.5.23")),
    # DeepSeek and those that inherit from it
    *((v, "deepseek-v3", [2, 30, 58], (3, 31, 59)) for v in ("0.5.6", "0.5.10", "0.5.11", "0.5.12")),
    *((v, "deepseek-v3", [2, 30, 58], (2, 30, 58)) for v in ("0.5.13", "0.5.16", "0.5.17", "0.5.23")),
    *((v, "deepseek-v3", [1, 29, 57], (2, 30, 58)) for v in ("0.5.12", "0.5.13", "0.5.23")),
    *((v, "deepseek-v3", [57, 1, 29], (57, 1, 29)) for v in ("0.5.13", "0.5.23")),
    *((v, "deepseek-v3", [3, 31, 59], (3, 31, 59)) for v in ("0.5.13", "0.5.23")),
    *((v, "kimi-k2.5", [2, 30, 58], (3, 31, 59)) for v in ("0.5.10", "0.5.12")),
    *((v, "kimi-k2.5", [2, 30, 58], (2, 30, 58)) for v in ("0.5.13", "0.5.23")),
    *((v, "kimi-k2.5", None, (2, 30, 58)) for v in ("0.5.10", "0.5.23")),
    # gpt-oss changes its rule in 0.5.17
    ("0.5.16", "gpt-oss-120b", [24, 30, 36], (25, 31, 37)),
    ("0.5.17", "gpt-oss-120b", [24, 30, 36], (24, 30, 36)),
    ("0.5.17", "gpt-oss-120b", [1, 17, 32], (2, 18, 33)),
    ("0.5.23", "gpt-oss-120b", [24, 30, 36], (24, 30, 36)),
    ("0.5.23", "gemma3-1b", [1, 12, 25], (2, 13, 26)),
    ("0.5.23", "qwen3-30b-a3b", [1, 23, 44], (2, 24, 45)),
]


@pytest.mark.release
def test_the_worked_examples_come_out_of_the_setters() -> None:
    """DOMAIN.md 2.1 and 2.2, as far as a setter decides them: the positions that it leaves."""

    def work() -> None:
        wrong = []
        for version in dict.fromkeys(case[0] for case in CASES):
            with opened(f"sglang=={version}") as tree:
                it = interpreter_of(tree, cached=True)
                for _, name, asked, expected in (case for case in CASES if case[0] == version):
                    target = built(it, target_config(name))
                    found = capture_request(it, WORDS, target, asked)
                    if found.positions != expected or not found.is_exact or not found.places:
                        wrong.append(f"{version} {name} {asked}: {found}")
        assert not wrong, "\n".join(wrong)

    deep(work)


@pytest.mark.release
def test_the_last_layer_as_an_output_breaks_flags_and_is_lost_in_lists() -> None:
    """DOMAIN.md 2.2, second row: id L-1 raises where layers carry flags, and is one position too far in a list."""

    def work() -> None:
        with opened("sglang==0.5.23") as tree:
            it = interpreter_of(tree, cached=True)
            flagged = capture_request(it, WORDS, built(it, target_config("qwen3-30b-a3b")), [3, 11, 47])
            assert not flagged.returns
            assert [(r.exception, r.certain) for r in flagged.raised] == [("IndexError", True)]
            place = flagged.raised[0].place
            assert place is not None
            assert place.symbol == "Qwen2MoeModel.set_eagle3_layers_to_capture"
            listed = capture_request(it, WORDS, built(it, target_config("llama-3.1-8b")), [3, 11, 31])
            assert listed.positions == (4, 12, 32)

    deep(work)
