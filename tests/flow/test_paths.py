"""Edits of the healthy fixture on the way from the worker to the logits processor: the harmful ones are caught at the
guilty line, those that keep the meaning stay proved. CPython runs every tree too, and has the last word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.broken import BROKEN
from tests.flow.broken_fetched import FETCHED, HEALTHY_FETCHED
from tests.flow.broken_from_afar import FROM_AFAR, HEALTHY_FROM_AFAR
from tests.flow.broken_hands import HANDS, HEALTHY_HANDS
from tests.flow.broken_names import HEALTHY_NAMES, NAMES
from tests.flow.broken_patches import HEALTHY_PATCHES, PATCHES
from tests.flow.broken_recordings import HEALTHY_RECORDINGS, RECORDINGS
from tests.flow.broken_state import HEALTHY_STATE, STATE
from tests.flow.broken_ways import HARD
from tests.flow.edits import Case, method, prefill_graph
from tests.flow.rewrites import HEALTHY_REWRITES
from tests.flow.trees import EAGLE_WORKER, GRAPH_RUNNER, QUESTIONS, Answer, Truth, edited, marks, scan, truths, write

REFUSED = (
    "the-graph-refuses-what-it-did-not-record",
    "a-runner-that-refuses-what-one-setting-does-not-record",
)
"""A graph that the tree refuses to replay loses nothing: a warning, and CPython has nothing to say."""

HARMFUL = (*BROKEN, *HARD, *FROM_AFAR, *RECORDINGS, *NAMES, *STATE, *PATCHES, *HANDS, *FETCHED)
HARMLESS = (
    *HEALTHY_REWRITES,
    *HEALTHY_FROM_AFAR,
    *HEALTHY_RECORDINGS,
    *HEALTHY_NAMES,
    *HEALTHY_STATE,
    *HEALTHY_PATCHES,
    *HEALTHY_HANDS,
    *HEALTHY_FETCHED,
)


@pytest.fixture(scope="module")
def answers() -> dict[int, Answer]:
    """The scans that were made, by case."""
    return {}


@pytest.fixture(scope="module")
def concrete(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Truth]:
    """What CPython says about every case that it can run."""
    cases = [case for case in (*HARMFUL, *HARMLESS) if case.runs]
    roots = [write(tmp_path_factory.mktemp("concrete"), case.files) for case in cases]
    found = truths([(root, case.settings) for root, case in zip(roots, cases, strict=True)])
    return {id(case): truth for case, truth in zip(cases, found, strict=True)}


def answer_of(case: Case, answers: dict[int, Answer], folder: Path) -> Answer:
    if id(case) not in answers:
        answers[id(case)] = scan(write(folder, case.files))
    return answers[id(case)]


@pytest.mark.parametrize("case", HARMFUL, ids=lambda case: case.name)
def test_a_harmful_edit_is_caught(case: Case, answers: dict[int, Answer], tmp_path: Path) -> None:
    answer = answer_of(case, answers, tmp_path)
    marked = marks(case.files)
    assert answer.rules - case.also == (case.rules or {rule for rule, _, _ in marked}) - case.also, str(answer)
    assert answer.rules, str(answer)
    assert marked <= answer.places, str(answer)
    assert set(case.workers) <= set(answer.facts.workers), str(answer)


@pytest.mark.parametrize("case", [case for case in HARMFUL if case.condition], ids=lambda case: case.name)
def test_a_finding_says_when_it_holds(case: Case, answers: dict[int, Answer], tmp_path: Path) -> None:
    answer = answer_of(case, answers, tmp_path)
    assert any(case.condition in condition for condition in answer.conditions), answer.conditions


@pytest.mark.parametrize("case", [case for case in HARMFUL if case.runs], ids=lambda case: case.name)
def test_nothing_is_proved_that_cpython_refutes(
    case: Case, answers: dict[int, Answer], concrete: dict[int, Truth], tmp_path: Path
) -> None:
    truth = concrete[id(case)]
    assert not truth.healthy or case.name in REFUSED
    answer = answer_of(case, answers, tmp_path)
    assert not truth.broken & answer.proved, f"CPython broke {sorted(truth.broken)}\n{answer}"


@pytest.mark.parametrize("case", HARMLESS, ids=lambda case: case.name)
def test_a_rewrite_that_keeps_the_meaning_stays_proved(
    case: Case, answers: dict[int, Answer], concrete: dict[int, Truth], tmp_path: Path
) -> None:
    if case.runs:
        assert concrete[id(case)] == Truth(QUESTIONS, set(), ())
    answer = answer_of(case, answers, tmp_path)
    assert answer.findings == (), str(answer)
    assert answer.proved == QUESTIONS
    assert answer.facts.workers == case.workers


def test_a_graph_that_is_never_replayed_is_a_warning_and_no_lost_row(
    answers: dict[int, Answer], tmp_path: Path
) -> None:
    case = next(case for case in BROKEN if case.name == "the-graph-refuses-what-it-did-not-record")
    answer = answer_of(case, answers, tmp_path)
    assert [(each.rule, each.severity.value) for each in answer.findings] == [("HS104", "warning")]
    assert ("verify", "eager") in answer.proved


def test_a_prefill_graph_is_a_question_of_its_own(tmp_path: Path) -> None:
    answer = scan(write(tmp_path, prefill_graph()))
    assert answer.findings == (), str(answer)
    assert answer.proved >= {*QUESTIONS, ("extend", "prefill_graph")}


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (
            "self.capture_hidden_mode = CaptureHiddenMode.FULL\n",
            "self.capture_hidden_mode = CaptureHiddenMode.LAST  # HS104\n",
            "HS104",
        ),
        ("capture_hidden_mode=self.capture_hidden_mode", "capture_hidden_mode=CaptureHiddenMode.NULL", "HS104"),
        ("            capture_hidden_mode=self.capture_hidden_mode,\n", "", ""),
        ("if model_runner.spec_algorithm.is_eagle():", "if model_runner.spec_algorithm.is_ngram():", "HS104"),
    ],
    ids=["last", "null", "nothing", "another-algorithm"],
)
def test_a_prefill_graph_that_is_recorded_lower_is_caught(old: str, new: str, rule: str, tmp_path: Path) -> None:
    files = prefill_graph(("", old, new))
    answer = scan(write(tmp_path, files))
    assert rule in answer.rules or not rule, str(answer)
    assert answer.findings, str(answer)
    assert marks(files) <= answer.places, str(answer)
    assert ("extend", "prefill_graph") not in answer.proved
    assert ("extend", "eager") in answer.proved


def test_a_graph_is_kept_however_it_is_stored(tmp_path: Path) -> None:
    pair = (
        "self.graphs[bs], self.output_buffers[bs] = self.capture_one_batch_size(bs, self.model_runner.model.forward)\n"
    )
    split = """made = self.capture_one_batch_size(bs, self.model_runner.model.forward)
            self.graphs[bs], self.output_buffers[bs] = made[0], made[1]
"""
    files = edited(
        [(GRAPH_RUNNER, pair, split), (GRAPH_RUNNER, "batch_size <= self.capture_bs[-1]", "batch_size in self.graphs")]
    )
    assert scan(write(tmp_path, files)).proved == QUESTIONS


def test_a_method_that_the_walk_does_not_follow_to_its_store_stays_an_open_question(tmp_path: Path) -> None:
    files = edited(
        [
            (EAGLE_WORKER, "        self.num_steps =", "        self.shortcut = True\n        self.num_steps ="),
            (
                EAGLE_WORKER,
                "        spec_info = self.draft(batch)\n",
                "        if self.shortcut:\n            batch.output_ids = None\n        spec_info = self.draft(batch)\n",
            ),
            method("""
                def marked(self, batch, mode):
                    batch.capture_hidden_mode = mode  # HS109
                    return batch

                def refresh(self, batch):
                    if self.marked(batch, CaptureHiddenMode.LAST).input_ids:
                        self.shortcut = False
            """),
        ]
    )
    answer = scan(write(tmp_path, files))
    assert answer.places == marks(files), str(answer)
