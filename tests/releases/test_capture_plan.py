"""From the draft's file to what each path asks the target for, on released trees: which call decides, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from flowcheck.flow.capture_plan import CapturePlan, plan_of
from flowcheck.flow.facts import Path, Phase
from flowcheck.flow.scenario import Scenario
from flowcheck.program.modules import Program
from flowcheck.source import cache_root
from flowcheck.syntax import SyntaxCache, SyntaxStore
from tests.flow.models import WORDS, deep, opened, target_config

pytestmark = pytest.mark.release

KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"


def draft_with(eagle: object) -> dict[str, Any]:
    base = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1}
    return {**base, "hidden_size": 64, **({"eagle_config": eagle} if eagle is not None else {})}


def planned(version: str, target: str, ids: list[int] | None, **more: object) -> CapturePlan:
    eagle = None if ids is None else {"eagle_aux_hidden_state_layer_ids": ids, **more}

    def work() -> CapturePlan:
        with opened(f"sglang=={version}") as tree:
            store = SyntaxStore(tree, SyntaxCache(cache_root() / "syntax"))
            found = plan_of(tree, Program(store), WORDS, Scenario(), target_config(target), draft_with(eagle))
            store.save()
            return found

    return deep(work)


def positions(plan: CapturePlan, phase: Phase, path: Path) -> set[tuple[int, ...] | None]:
    rows = plan.of(phase, path)
    assert rows
    assert [row.open for row in rows] == [""] * len(rows)
    return {row.requested.positions for row in rows}


@pytest.mark.parametrize(
    ("version", "target", "eager", "graph"),
    [
        ("0.4.9.post3", "llama-3.1-8b", (3, 31, 59), (2, 16, 29)),
        ("0.5.6", "deepseek-v3", (3, 31, 59), (2, 30, 58)),
        ("0.5.9", "deepseek-v3", (3, 31, 59), (2, 30, 58)),
        ("0.5.10", "kimi-k2.5", (3, 31, 59), (2, 30, 58)),
        ("0.5.12", "kimi-k2.5", (3, 31, 59), (3, 31, 59)),
        ("0.5.14", "deepseek-v3", (2, 30, 58), (2, 30, 58)),
        ("0.5.17", "kimi-k2.5", (2, 30, 58), (2, 30, 58)),
        ("0.5.23", "kimi-k2.5", (2, 30, 58), (2, 30, 58)),
    ],
)
def test_graphs_hold_what_was_asked_before_they_were_recorded(
    version: str, target: str, eager: tuple[int, ...], graph: tuple[int, ...]
) -> None:
    """Up to 0.5.10 a graph runner installs the default and records, and only then do the draft's ids arrive."""
    plan = planned(version, target, [2, 30, 58])
    for phase in (Phase.EXTEND, Phase.VERIFY):
        assert positions(plan, phase, Path.EAGER) == {eager}
    assert positions(plan, Phase.VERIFY, Path.DECODE_GRAPH) == {graph}
    assert {call.key for call in plan.calls if call.ids is not None} == {KEY}
    assert not plan.unmet
    assert plan.missing is None
    last = plan.calls[-1]
    assert last.ids == (2, 30, 58)
    assert last.place is not None


def test_flags_of_both_calls_stay_where_a_graph_runner_sets_them_first() -> None:
    plan = planned("0.5.9", "qwen3-30b-a3b", [2, 30, 40])
    (graph,) = {row.requested for row in plan.of(Phase.VERIFY, Path.DECODE_GRAPH)}
    assert [f.indices for f in graph.flags] == [(2, 24, 45)]
    (eager,) = {row.requested for row in plan.of(Phase.EXTEND, Path.EAGER)}
    assert [f.indices for f in eager.flags] == [(2, 3, 24, 31, 41, 45)]
    assert eager.positions is None


@pytest.mark.parametrize("version", ["0.5.6", "0.5.9", "0.5.23"])
def test_a_draft_without_ids_gets_the_default(version: str) -> None:
    """Reading the key raises inside the tree's own try, and the tree goes on without ids."""
    plan = planned(version, "llama-3.1-8b", None)
    assert positions(plan, Phase.EXTEND, Path.EAGER) == {(2, 16, 29)}
    assert {call.ids for call in plan.calls} == {None}
    assert all(call.known for call in plan.calls)


def test_a_draft_that_takes_no_states_is_honoured_from_0_5_8_on() -> None:
    """DOMAIN.md 3: ``use_aux_hidden_state: false`` is ignored by 0.5.6, and 0.5.9 asks for nothing."""
    old = planned("0.5.6", "llama-3.1-8b", [2, 16, 28], use_aux_hidden_state=False)
    assert positions(old, Phase.EXTEND, Path.EAGER) == {(3, 17, 29)}
    new = planned("0.5.9", "llama-3.1-8b", [2, 16, 28], use_aux_hidden_state=False)
    assert new.of(Phase.EXTEND, Path.EAGER)[0].requested.asks_nothing
    assert new.calls == ()


def test_a_wrapper_without_a_hook_stops_the_server() -> None:
    """Kimi-K2.5's wrapper has its hook since 0.5.10."""
    plan = planned("0.5.9", "kimi-k2.5", [2, 30, 58])
    assert plan.missing is not None
    assert plan.missing.inner == ("language_model",)
    assert "AttributeError" in plan.stopped
