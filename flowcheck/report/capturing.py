"""What a tree captures for a pair, as rows of the report. Imported only where there is a pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from flowcheck.checks.capture_layers import RowEnd
from flowcheck.checks.findings import Verdict
from flowcheck.draft import Pairing
from flowcheck.flow.facts import Place, Step
from flowcheck.flow.pair_facts import CaptureRow, PairFacts, Reach, Told
from flowcheck.report import model
from flowcheck.report.source_text import plain

PerRank = Literal["complete", "partial", "scattered"]
RANKS: dict[Reach, PerRank] = {Reach.COMPLETE: "complete", Reach.PARTIAL: "partial", Reach.SCATTERED: "scattered"}

HANDED_OVER = "workers, runners and buffers hand what the logits processor stores to the draft as it is, on every rank"
"""Nobody has followed the states there."""

__all__ = ["assumptions_of", "capture_rows", "intake_part", "label_of", "open_rows"]


def capture_rows(
    facts: PairFacts,
    ends: Sequence[RowEnd],
    pairing: Pairing,
    evidence: Callable[[Iterable[Step]], list[model.Evidence]],
) -> list[model.Capture]:
    """One row for each path and condition."""
    return [_row(facts, end, pairing, evidence) for end in ends]


def _row(
    facts: PairFacts, end: RowEnd, pairing: Pairing, evidence: Callable[[Iterable[Step]], list[model.Evidence]]
) -> model.Capture:
    row, trained = end.row, pairing.trained
    taken = _taken(facts, pairing)
    last = next((told for told in reversed(row.told) if told.ids is not None), None)
    return model.Capture(
        architecture=facts.architecture,
        model_class=row.model_class,
        phase=row.phase.value,
        path=row.path.value,
        runner=row.runner,
        condition=plain(row.condition),
        batch=row.batch,
        cuts=list(row.cuts),
        ids=list(last.ids) if last is not None and last.ids is not None and row.told[-1] is last else None,
        ids_key=plain(last.key) if last is not None else "",
        captured_boundaries=list(row.boundaries),
        states=[_state(row, number) for number in range(len(row.states))],
        needed_boundaries=list(trained.boundaries) if trained.boundaries is not None else None,
        readings=[list(each.boundaries) for each in trained.readings],
        captures_embedding=0 in row.boundaries,
        per_rank=per_rank(row),
        rows=row.rows,
        width=row.width,
        draft_fc_in_features=taken,
        fits=row.width == taken if None not in (row.width, taken) else None,
        verdict=end.verdict.value,
        rules=list(end.rules),
        reason=plain(end.reason or row.raised),
        evidence=evidence(row.chain),
        told=[_told(each) for each in row.told],
        kept=[
            model.KeptState(text=plain(left.text), places=[_location(place) for place in left.places])
            for left in row.left
        ],
        concat=_location(row.concat) if row.concat is not None else None,
    )


def _told(told: Told) -> model.ToldIds:
    return model.ToldIds(
        method=plain(told.method),
        ids=list(told.ids) if told.ids is not None else None,
        key=plain(told.key),
        reason=plain(told.reason),
        place=_location(told.place) if told.place is not None else None,
    )


def _location(place: Place) -> model.Location:
    return model.Location(
        file=plain(place.path), line=place.span.line, column=place.span.column, symbol=plain(place.symbol)
    )


def _taken(facts: PairFacts, pairing: Pairing) -> int | None:
    """How many columns of captured states the draft's class takes; by the pair alone where the tree does not say."""
    layer = facts.intake.projection if facts.intake is not None else None
    if layer is not None and layer.in_features is not None:
        return layer.in_features - layer.beside
    return pairing.fc_in_features


def intake_part(facts: PairFacts) -> model.Intake | None:
    """What the draft's class of the tree takes in."""
    took = facts.intake
    if took is None:
        return None
    layer = took.projection
    states, width = (layer.states, layer.width) if layer is not None else (None, None)
    place = layer.place if layer is not None and layer.place is not None else took.place
    return model.Intake(
        model_class=took.model_class,
        layer=layer.path if layer is not None else "",
        file=plain(place.path) if place is not None else None,
        line=place.span.line if place is not None else None,
        in_features=layer.in_features if layer is not None else None,
        out_features=layer.out_features if layer is not None else None,
        bias=layer.bias if layer is not None else None,
        states=states.value if states is not None else None,
        states_key=plain(states.key) if states is not None else "",
        state_width=width.value if width is not None else None,
        state_width_key=plain(width.key) if width is not None else "",
        skipped_at=sorted(skip.width for skip in took.skips),
        question=plain(took.open or (layer.open if layer is not None else "")),
    )


def _state(row: CaptureRow, number: int) -> model.CapturedState:
    state = row.states[number]
    return model.CapturedState(
        boundary=state.boundary,
        normed=state.normed,
        per_rank=state.reach.value,
        rows=state.rows,
        width=state.width,
        reason=plain(state.reason),
        file=plain(state.place.path) if state.place else None,
        line=state.place.span.line if state.place else None,
    )


def per_rank(row: CaptureRow) -> PerRank | None:
    """What each rank holds of the states: the worst of them; None where none are known."""
    reaches = [state.reach for state in row.states if state.certain or state.boundary is not None]
    for reach in (Reach.PARTIAL, Reach.SCATTERED, Reach.COMPLETE):
        if reach in reaches:
            return RANKS[reach]
    return None


def label_of(row: CaptureRow) -> str:
    """The name of a row: "verify/decode_graph/CudaGraphRunner"."""
    return "/".join(part for part in (row.phase.value, row.path.value, row.runner, row.batch) if part)


def open_rows(ends: Iterable[RowEnd]) -> list[model.Unproved]:
    """The rows that stay open although no rule speaks of them: what the draft was trained on is open."""
    return [
        model.Unproved(
            question=f"does {label_of(end.row)} capture what the draft was trained on",
            reason=plain(end.reason),
            file=end.row.place.path if end.row.place else None,
            line=end.row.place.span.line if end.row.place else None,
            phase=end.row.phase.value,
            path=end.row.path.value,
            worker=end.row.runner,
            about="pair",
            rule="HS402",
        )
        for end in ends
        if end.verdict is Verdict.UNPROVED and not end.rules
    ]


def assumptions_of(facts: PairFacts) -> list[model.Assumption]:
    """What the rows rest on, each with the rows that do."""
    users: dict[str, list[str]] = {}
    for row in facts.rows:
        for text in row.assumptions:
            users.setdefault(text, []).append(label_of(row))
    if facts.rows:
        if facts.deployment:
            users.setdefault(f"deployed on {facts.deployment}", [label_of(row) for row in facts.rows])
        text = "kernels, linear layers and collectives do what their contracts say; captured states are named by layer"
        users.setdefault(text, [label_of(row) for row in facts.rows])
        users.setdefault(HANDED_OVER, [label_of(row) for row in facts.rows])
    return [
        model.Assumption(
            id="handed-over" if text == HANDED_OVER else "capture",
            text=plain(text),
            used_by=list(dict.fromkeys(labels)),
        )
        for text, labels in users.items()
    ]
