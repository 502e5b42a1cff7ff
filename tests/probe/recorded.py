"""Plans and what ranks left, as the fixtures ``probe-*`` have them, and small changes to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowcheck.probe.plan import Model, Plan, PlannedPath
from flowcheck.probe.protocol import Phase, PhaseResult, RankResult, loads

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

Results = dict[int, RankResult]


def ids_of(told: list[list[int] | None]) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(tuple(ids) if ids is not None else None for ids in told)


def plan_of(name: str = "probe-healthy") -> Plan:
    """The plan of a fixture."""
    raw: dict[str, Any] = json.loads((FIXTURES / name / "plan.json").read_text("utf-8"))
    paths = tuple(
        PlannedPath(
            phase=each["phase"],
            path=each["path"],
            runner="",
            condition="",
            batch="",
            told=ids_of(each["told"]),
            expected=tuple(each["expected"]),
            stands_in=each["phase_of_job"],
            excluded=each.get("excluded", ""),
        )
        for each in raw["paths"]
    )
    phases = (Phase("extend", "extend", 2, 5, paths[0].told), Phase("verify", "verify", 2, 4, paths[0].told))
    sizes = Model(raw["target_width"], raw["draft_width"])
    return Plan(raw["backend"], raw["ranks"], paths, phases, tuple(raw["needed"]), model=sizes)


def results_of(name: str = "probe-healthy") -> Results:
    """What the ranks of a fixture left."""
    found = [loads(RankResult, path.read_bytes()) for path in sorted((FIXTURES / name).glob("rank-*.json"))]
    return {each.rank: each for each in found}


def changed(
    results: Results, change: Callable[[PhaseResult], PhaseResult], *, ranks: tuple[int, ...] = (0, 1), phase: str = ""
) -> Results:
    """The same results with one phase (or every one) of some ranks changed."""
    return {
        rank: replace(
            result,
            phases=tuple(
                change(each) if rank in ranks and phase in ("", each.phase) else each for each in result.phases
            ),
        )
        for rank, result in results.items()
    }
