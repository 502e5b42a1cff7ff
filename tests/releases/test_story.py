"""A fork of 0.5.9, its setter and its draft: full modes, fitting widths, and three defects that none of them shows.

The draft was trained on the outputs of layers 2, 30 and 58 of a target of 61 layers, 7168 wide. The fork's setter takes -1 for
the embedding; its ids became [-1, 2, 30].
"""

from __future__ import annotations

from functools import cache

import pytest

from flowcheck.checks.capture_layers import layer_findings, row_ends
from flowcheck.checks.rules import load_rules
from flowcheck.checks.widths import width_facts, width_findings
from flowcheck.draft import Pairing, draft_from, pair, target_from
from flowcheck.flow import Scenario
from flowcheck.flow.pair_facts import CaptureRow, PairFacts
from flowcheck.flow.serving import serve
from flowcheck.flow.width import Fit
from tests.mutations.overlay import Changes, Release
from tests.releases.test_boundaries import DEEPSEEK

pytestmark = pytest.mark.release

FUSION = "enable_flashinfer_allreduce_fusion"
TRAINED = (3, 31, 59)
TARGET = {**DEEPSEEK, "num_hidden_layers": 61}
MODELS = "sglang/srt/models/deepseek_v2.py"
GRAPHS = "sglang/srt/model_executor/cuda_graph_runner.py"

TOLD = "            self.model.layers_to_capture = [val + 1 for val in layer_ids]\n"
FORKED = (
    "            self.model.capture_embedding_for_eagle3 = -1 in layer_ids\n"
    "            self.model.layers_to_capture = [one + 1 for one in layer_ids if one != -1]\n"
)
COLLECTED = "        aux_hidden_states = []\n"
EMBEDDED = (
    COLLECTED + '        if getattr(self, "capture_embedding_for_eagle3", False):\n'
    "            aux_hidden_states.append(hidden_states.clone())\n"
)
BY_DEFAULT = "            self.model_runner.model.set_eagle3_layers_to_capture()\n"
WITH_IDS = (
    "            self.model_runner.model.set_eagle3_layers_to_capture(\n"
    "                self.model_runner.eagle_aux_hidden_state_layer_ids\n"
    "            )\n"
)


def edited(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


@cache
def fork(*, mended: bool = False) -> object:
    """The fork; mended: its graph runner tells the target the draft's ids."""
    release = Release("0.5.9")
    text = edited(edited(release.text(MODELS), TOLD, FORKED), COLLECTED, EMBEDDED)
    files = {MODELS: text.encode()}
    if mended:
        files[GRAPHS] = edited(release.text(GRAPHS), BY_DEFAULT, WITH_IDS).encode()
    return release.with_changes(Changes(files))


def made(ids: tuple[int, ...]) -> Pairing:
    draft = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": 7168,
        "num_hidden_layers": 1,
        "num_attention_heads": 64,
        "intermediate_size": 18432,
        "vocab_size": 129280,
        "draft_vocab_size": 32000,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(ids)},
    }
    return pair(draft_from(draft, "draft"), target_from(TARGET, "target"), declared=TRAINED)


@cache
def served(ids: tuple[int, ...], *, fusion: bool, mended: bool = False) -> PairFacts:
    return serve(fork(mended=mended), Scenario("EAGLE3", {FUSION: fusion}), made(ids))  # type: ignore[arg-type]


def ends(ids: tuple[int, ...], facts: PairFacts) -> dict[str, tuple[str, tuple[str, ...]]]:
    pairing, rules = made(ids), load_rules()
    findings = (*layer_findings(facts, pairing, rules), *width_findings(facts, pairing, rules))
    return {name(each.row): (each.verdict.value, each.rules) for each in row_ends(facts, pairing, findings)}


def name(row: CaptureRow) -> str:
    return " ".join(filter(None, (row.phase.value, row.path.value, row.batch)))


PROVED: tuple[str, tuple[str, ...]] = ("proved", ())


def test_minus_one_turns_on_the_embedding_and_pushes_out_the_last_state() -> None:
    facts = served((-1, 2, 30), fusion=False)
    eager = [row for row in facts.rows if row.path.value == "eager"]
    assert {row.boundaries for row in eager} == {(0, 3, 31)}
    assert ends((-1, 2, 30), facts) == {
        "extend eager": ("violated", ("HS203",)),
        "verify eager": ("violated", ("HS203",)),
        "verify decode_graph": ("violated", ("HS205",)),
    }
    assert facts.repair is not None
    assert facts.repair.ids == (2, 30, 58)


def test_the_width_says_nothing_about_it() -> None:
    for ids in ((-1, 2, 30), (2, 30, 58)):
        facts = served(ids, fusion=False)
        assert {(row.width, fact.fit) for row, fact in width_facts(facts, made(ids))} == {(21504, Fit.FITS)}


def test_the_graph_replays_other_layers_even_with_the_right_ids() -> None:
    facts = served((2, 30, 58), fusion=False)
    assert ends((2, 30, 58), facts) == {
        "extend eager": PROVED,
        "verify eager": PROVED,
        "verify decode_graph": ("violated", ("HS205",)),
    }
    (graph,) = (row for row in facts.rows if row.path.value == "decode_graph")
    assert graph.boundaries == (2, 30, 58)
    assert [(told.ids, told.place.span.line) for told in graph.told if told.place] == [(None, 1906), (None, 365)]


def test_fusion_leaves_partial_sums_of_small_batches() -> None:
    facts = served((2, 30, 58), fusion=True, mended=True)
    assert ends((2, 30, 58), facts) == {
        "extend eager <=2048 tok": ("violated", ("HS209",)),
        "extend eager >2048 tok": PROVED,
        "verify eager <=2048 tok": ("violated", ("HS209",)),
        "verify eager >2048 tok": PROVED,
        "verify decode_graph <=2048 tok": ("violated", ("HS209",)),
        "verify decode_graph >2048 tok": PROVED,
    }


def test_with_all_three_mended_everything_is_proved() -> None:
    facts = served((2, 30, 58), fusion=False, mended=True)
    assert set(ends((2, 30, 58), facts).values()) == {PROVED}
    assert {row.boundaries for row in facts.rows} == {TRAINED}
