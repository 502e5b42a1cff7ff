"""What released trees make of public pairs: which paths serve the draft, and which rule says so where one does not."""

from __future__ import annotations

from functools import cache

import pytest

from flowcheck.checks.capture_layers import layer_findings, row_ends
from flowcheck.checks.rules import load_rules
from flowcheck.checks.widths import width_findings
from flowcheck.draft import Pairing
from flowcheck.flow import Scenario
from flowcheck.flow.facts import Path
from flowcheck.flow.pair_facts import CaptureRow, PairFacts
from flowcheck.flow.serving import serve
from tests.draft.samples import meta, sample
from tests.releases.test_boundaries import release

pytestmark = pytest.mark.release

Ends = dict[str, set[tuple[str, tuple[str, ...]]]]


def kind_of(row: CaptureRow) -> str:
    """Which rows the released trees treat alike: small batches under all-reduce fusion, and all others."""
    return "fused" if row.condition.endswith(" is true") and row.batch.startswith("<=") else "others"


@cache
def served(version: str, name: str) -> tuple[PairFacts, Pairing]:
    pairing = sample(name)
    algorithm = pairing.algorithm.value if pairing.algorithm.value in ("DFLASH", "DSPARK", "EAGLE") else "EAGLE3"
    return serve(release(version), Scenario(algorithm, {}), pairing), pairing


def ends(version: str, name: str) -> Ends:
    facts, pairing = served(version, name)
    rules = load_rules()
    findings = (*layer_findings(facts, pairing, rules), *width_findings(facts, pairing, rules))
    out: Ends = {}
    for end in row_ends(facts, pairing, findings):
        out.setdefault(kind_of(end.row), set()).add((end.verdict.value, end.rules))
    return out


RIGHT: Ends = {"others": {("proved", ())}}
SMALL_BATCHES: Ends = {"others": {("proved", ())}, "fused": {("violated", ("HS209",))}}
"""Up to 2048 rows the fused kernel sums a layer's output in the next layer, after the capture has read it."""

long = pytest.mark.long
EXPECTED = [
    pytest.param("0.5.12", "llama-3.1-8b.specforge-eagle3", RIGHT),
    pytest.param("0.5.12", "qwen3-8b.specforge-eagle3", RIGHT),
    pytest.param("0.5.6", "longcat-flash.specforge-eagle3", RIGHT),
    pytest.param("0.5.6", "phi-4.specforge-eagle3", RIGHT),
    pytest.param("0.5.6", "llama-4-scout.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.6", "qwen2.5-vl-32b.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.12", "gemma3-1b.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.12", "qwen3-30b-a3b.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.12", "deepseek-v3.specforge-eagle3", SMALL_BATCHES, marks=long),
    pytest.param("0.5.17", "deepseek-v3.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.17", "llama-4-scout.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.17", "longcat-flash.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.17", "qwen3-next-80b-a3b.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.23", "qwen3-30b-a3b.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.23", "qwen3-30b-a3b.specforge-eagle3.1", RIGHT, marks=long),
    pytest.param("0.5.23", "deepseek-v3.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.23", "kimi-k2.5.torchspec-eagle3-mla", RIGHT, marks=long),
    pytest.param("0.5.23", "qwen3-next-80b-a3b.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.12", "qwen3-8b.specforge-dflash", RIGHT, marks=long),
    pytest.param("0.5.12", "qwen3.5-35b-a3b.specforge-dflash", RIGHT, marks=long),
    pytest.param("0.5.17", "qwen3.5-35b-a3b.specforge-dflash", RIGHT, marks=long),
    pytest.param("0.5.14", "qwen3.5-35b-a3b.specforge-dflash", RIGHT, marks=long),
    pytest.param("0.5.20", "deepseek-v3.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.20", "kimi-k2.5.torchspec-eagle3-mla", RIGHT, marks=long),
    pytest.param("0.5.20", "longcat-flash.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.23", "longcat-flash.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.23", "qwen3-8b.specforge-dflash", RIGHT, marks=long),
    pytest.param("0.5.23", "qwen3.6-27b.specforge-dspark", RIGHT, marks=long),
]


def called_for(version: str, name: str, path: Path) -> tuple[int, ...] | None:
    """Which boundaries the meta file of a draft says that a release captures on a path; None where it says of none.

    It was written from the setters alone: what happens to a state after it was captured is not in it.
    """
    said = meta(name)["consumer_captured_boundaries"]
    if "sglang_set_dflash(+1)" in said:
        return tuple(said["sglang_set_dflash(+1)"])
    number = tuple(map(int, version.split(".")))
    for key, captured in said.items():
        engine, _, rest = key.partition("_")
        span, _, path_of_it = rest.partition("_")
        if engine != "sglang":
            continue
        first, last = (tuple(map(int, end.split("."))) for end in span.split("-"))
        graph = path_of_it.startswith("cuda_graph")
        if first <= number <= last and (not path_of_it or graph is (path is Path.DECODE_GRAPH)):
            return tuple(captured["captured"] if isinstance(captured, dict) else captured)
    return None


@pytest.mark.parametrize(("version", "name", "expected"), EXPECTED)
def test_public_pairs(version: str, name: str, expected: Ends) -> None:
    assert ends(version, name) == expected
    facts, pairing = served(version, name)
    assert pairing.trained.boundaries == tuple(meta(name)["trained_boundaries"])
    assert facts.rows
    for row in facts.rows:
        assert row.boundaries == called_for(version, name, row.path) == pairing.trained.boundaries
        assert row.width == meta(name)["expected_fc_in_features"]
    assert facts.repair is None


@long
@pytest.mark.parametrize(
    ("version", "name", "rules"),
    [
        # The meta file says what the setter of other models would do with the ids: no release has one for LongCat.
        ("0.5.12", "longcat-flash.specforge-dflash", ["HS204"]),
        # The class is made of a base of transformers and has no hook before 0.5.12: the server stops where it tells the target.
        ("0.5.9", "gemma3-1b.specforge-eagle3", ["HS204"]),
        # A tree from before the algorithm: no code of it spells the setter, and no class is registered for the draft.
        ("0.5.6", "qwen3-8b.specforge-dflash", ["HS204", "HS406"]),
        # A head that takes the last state asks for nothing, and nothing is captured for it.
        ("0.5.6", "llama-2-7b.hass-eagle1", []),
        ("0.5.12", "llama-2-7b.hass-eagle1", []),
    ],
)
def test_nothing_is_captured(version: str, name: str, rules: list[str]) -> None:
    facts, pairing = served(version, name)
    book = load_rules()
    said = (*layer_findings(facts, pairing, book), *width_findings(facts, pairing, book))
    assert (facts.rows, [finding.rule for finding in said]) == ((), rules)


@long
def test_a_draft_that_its_own_class_refuses() -> None:
    """The target serves it, and 0.5.23's class cannot be made: the head asks for ``markov_rank`` at the top of the file, which
    writes it below ``dflash_config``, where the tree's own reader of such files finds it (models/dspark.py, build_markov_head).
    """
    facts, pairing = served("0.5.23", "qwen3.6-27b.specforge-dspark")
    assert [finding.rule for finding in width_findings(facts, pairing, load_rules())] == ["HS406"]


@long
def test_a_draft_that_the_start_of_the_server_refuses() -> None:
    """0.5.20 asks the same key of the file where it resolves what the target is told, and raises before it tells it."""
    facts, pairing = served("0.5.20", "kimi-k3.specforge-dspark")
    rules = load_rules()
    said = (*layer_findings(facts, pairing, rules), *width_findings(facts, pairing, rules))
    assert {finding.rule for finding in said} == {"HS219", "HS406"}
    assert all(told.ids is None and told.reason for row in facts.rows for told in row.told)


LOST = [
    # A layer's first norm takes the sum of the stream by now: what the loop appends is a layer's output without the residual,
    # and the next fused norm writes the norm of the sum into it (gemma3_causal.py, models since the residual is kept apart).
    pytest.param("0.5.17", "gemma3-1b.specforge-eagle3", None, marks=long),
    # What is appended is whole, and the layer's own second norm adds the attention's output to it in place
    # (gemma4_causal.py: residual is the appended tensor when pre_feedforward_layernorm is called with it).
    pytest.param("0.5.20", "gemma3-1b.specforge-eagle3", None, marks=long),
    pytest.param("0.5.12", "gemma4-31b.redhatai-speculators-eagle3", (2, 30, 57), marks=long),
    pytest.param("0.5.17", "gemma4-31b.redhatai-speculators-eagle3", (2, 30, 57), marks=long),
]


@pytest.mark.parametrize(("version", "name", "meant"), LOST)
def test_states_that_are_lost_after_their_capture(version: str, name: str, meant: tuple[int, ...] | None) -> None:
    """The meta files say that these releases capture what the drafts need: the setters do ask for it."""
    assert ends(version, name) == {"others": {("violated", ("HS201",))}}
    facts, pairing = served(version, name)
    for row in facts.rows:
        assert called_for(version, name, row.path) == pairing.trained.boundaries
        assert row.boundaries == (None, None, None)
        assert all(state.certain for state in row.states)
        assert meant is None or tuple(state.meant for state in row.states) == meant


GRAPH: Ends = {
    "others": {("unproved", ()), ("violated", ("HS205",))},
    "fused": {("violated", ("HS209",)), ("violated", ("HS205", "HS209"))},
}


def test_graphs_of_old_releases_are_recorded_for_the_default_layers() -> None:
    """What the draft was trained on is open: the meta file knows it from SpecForge's convention, the draft does not say it."""
    version, name = "0.5.6", "gpt-oss-20b.specforge-eagle3"
    assert ends(version, name) == GRAPH
    facts, _ = served(version, name)
    assert {row.path for row in facts.rows} == {Path.EAGER, Path.DECODE_GRAPH}
    for row in facts.rows:
        assert row.boundaries == called_for(version, name, row.path)
