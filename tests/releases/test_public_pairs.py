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
    pytest.param("0.5.12", "qwen3-30b-a3b.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.12", "deepseek-v3.specforge-eagle3", SMALL_BATCHES, marks=long),
    pytest.param("0.5.17", "deepseek-v3.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.23", "qwen3-30b-a3b.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.23", "qwen3-30b-a3b.specforge-eagle3.1", RIGHT, marks=long),
    pytest.param("0.5.23", "deepseek-v3.specforge-eagle3", RIGHT, marks=long),
    pytest.param("0.5.23", "kimi-k2.5.torchspec-eagle3-mla", RIGHT, marks=long),
    pytest.param("0.5.23", "qwen3-next-80b-a3b.specforge-eagle3", RIGHT, marks=long),
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
