"""How the captured states enter the draft: HS3xx, and what a tree makes of the draft's own configuration (HS4xx).

A width that fits is a fact and no proof. One that does not is blamed on the factor that is wrong: how many states there are,
or how wide each of them is. Imported only where there is a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flowcheck.checks.findings import Finding, Verdict, merged
from flowcheck.checks.rules import Rule, RuleBook
from flowcheck.checks.run import ordered
from flowcheck.draft import Pairing
from flowcheck.flow.facts import Place, Step
from flowcheck.flow.pair_facts import CaptureRow, PairFacts
from flowcheck.flow.width import Factor, Fit, Intake, Use, WidthFact, fits

__all__ = ["WIDTH_CHECKS", "width_facts", "width_findings"]

MOST_NAMES = 3

Check = Callable[[PairFacts, Pairing, Rule], list[Finding]]


def width_facts(facts: PairFacts, pairing: Pairing) -> tuple[tuple[CaptureRow, WidthFact], ...]:
    """How the width of each row fits the draft's class of the tree."""
    if facts.intake is None:
        return ()
    stored, took = _stored(pairing), facts.intake
    return tuple((row, fits(row.width, took, stored, row.phase)) for row in facts.rows if not row.question)


def _stored(pairing: Pairing) -> tuple[int, ...] | None:
    fc = pairing.header.fc if pairing.header is not None else None
    return tuple(fc.shape) if fc is not None and not fc.is_packed else None


# ------------------------------------------------------------------------------------------------------------- rules
def width_differs(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS301: what is captured is not as wide as the input of the draft's projection, or as its weight in the checkpoint."""

    def found() -> Iterator[Finding]:
        compared = width_facts(facts, pairing)
        for row, fact in compared:
            if fact.fit is Fit.DIFFERS and _to_blame(facts, pairing, row) == "":
                message = rule.message("differs", found=str(fact.captured), expected=str(fact.taken), keys=_keys(facts))
                yield _finding(rule, "differs", message, fact.places, row.chain, (row,))
        shape = _stored(pairing)
        layer = facts.intake.projection if facts.intake is not None else None
        if any(fact.fit is Fit.DIFFERS for _, fact in compared):
            return  # a layer that is made too wide fits the checkpoint no better
        if facts.intake is not None and facts.intake.open:
            return  # it may be another layer that takes the states in
        if shape is not None and layer is not None and facts.intake is not None:
            fact = fits(layer.in_features, facts.intake, shape)
            if fact.loads is False:
                made = f"{layer.out_features} x {layer.in_features}"
                stored = " x ".join(map(str, shape))
                message = rule.message("stored", found=stored, expected=made, keys=layer.path)
                yield _finding(rule, "stored", message, (layer.place,) if layer.place else (), (), ())

    return merged(found())


def states_hard_coded(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS302: the tree writes how many states the projection takes, and the draft has another number."""

    def found() -> Iterator[Finding]:
        for row, fact in width_facts(facts, pairing):
            factor = _states(facts.intake)
            if fact.fit is Fit.DIFFERS and factor is not None and _to_blame(facts, pairing, row) == rule.id:
                message = rule.message("literal", found=str(factor.value), expected=str(len(row.states)))
                yield _finding(rule, "literal", message, factor.places[-1:] or fact.places, row.chain, (row,))

    return merged(found())


def state_width_not_read(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS303: the projection is made for states of another width than the target's."""

    def found() -> Iterator[Finding]:
        for row, fact in width_facts(facts, pairing):
            layer = facts.intake.projection if facts.intake is not None else None
            if fact.fit is Fit.DIFFERS and layer is not None and layer.width is not None:
                if _to_blame(facts, pairing, row) != rule.id:
                    continue
                fields = {"found": str(layer.width.value), "expected": str(pairing.target.hidden_size)}
                message = rule.message("factor", keys=layer.width.key, **fields)
                yield _finding(rule, "factor", message, layer.width.places[-1:], row.chain, (row,))

    return merged(found())


def projection_skipped(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS304: the draft leaves its projection out: what is captured is as wide as its embedding, or comes in a phase for which
    its forward does not apply it."""

    def found() -> Iterator[Finding]:
        for row, fact in width_facts(facts, pairing):
            if fact.fit is Fit.SKIPPED and facts.intake is not None and facts.intake.projection is not None:
                if not _is_wanted(pairing):
                    continue
                layer = facts.intake.projection
                fields = {"found": str(fact.captured), "keys": layer.path, "expected": str(layer.in_features)}
                key = "phase" if fact.captured != facts.intake.embedding else "skipped"
                places = fact.places or ((layer.place,) if layer.place is not None else ())
                message = rule.message(key, phase=row.phase.value, **fields)
                yield _finding(rule, "", message, places, row.chain, (row,))

    return merged(found())


def ids_not_read(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS401: the tree does not hand the draft's ids to the target."""
    written = [each for each in pairing.draft.id_lists if each.ids]
    told = [(row, each) for row in facts.rows for each in row.told]
    if not written or not told or any(each.key or each.reason for _, each in told):
        return []
    by_default = [each for _, each in told if each.ids is None]
    if not by_default:
        return []
    uses = {use.key: use for use in facts.uses}
    keys = ", ".join(each.key for each in written)
    somewhere = any(uses[each.key].use is Use.READ for each in written if each.key in uses)
    message = rule.message("elsewhere" if somewhere else "unread", keys=keys, found=_spelled(written[0].ids))
    places = [each.place for each in by_default if each.place is not None]
    evidence = tuple(Step(place, "the target is told to capture without ids") for place in dict.fromkeys(places))
    return [_finding(rule, "unread", message, places[-1:], evidence, ())]


def keys_ignored(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS403: a key that changes what the draft computes is read by nobody."""
    neutral: Mapping[str, Any] = rule.parameters["neutral"]
    found = []
    for use in facts.uses:
        name = use.key.rpartition(".")[2]
        value = _value(pairing.draft.raw, use.key)
        if use.use is not Use.IGNORED or name not in neutral or value is None or value == neutral[name]:
            continue
        message = rule.message("ignored", keys=use.key, found=str(value).lower())
        place = facts.intake.place if facts.intake is not None else None
        found.append(_finding(rule, "ignored", message, (place,) if place else (), (), (), keys=use.key))
    return found


def tensors_without_a_place(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS405: the draft's loader passes over tensors of the checkpoint, or leaves parameters as they were allocated."""
    found = facts.loading
    if found is None or found.open:
        return []
    harmless, shared = rule.parameters["harmless"], rule.parameters["shared"]
    over = [each.name for each in found.tensors if each.taken is False and not _among(each.name, harmless)]
    left = [name for name in found.left if not _among(name, shared)]
    here = (found.place,) if found.place is not None else ()
    if left:
        message = rule.message("unfilled", keys=_some(left), found=_some(over) or "none")
        return [_finding(rule, "unfilled", message, here, (), (), keys=" ".join(left))]
    if over:
        return [_finding(rule, "skipped", rule.message("skipped", keys=_some(over)), here, (), (), keys=" ".join(over))]
    return []


def draft_not_loaded(facts: PairFacts, pairing: Pairing, rule: Rule) -> list[Finding]:
    """HS406: the tree has no class for the draft, cannot make it, or has one that does not take states."""
    if facts.no_draft:
        names = ", ".join(name for name in facts.no_draft if name) or "a configuration without architectures"
        return [_finding(rule, "unregistered", rule.message("unregistered", keys=names), (), (), ())]
    took = facts.intake
    if took is None:
        return []
    here = (took.place,) if took.place is not None else ()
    if took.raises is not None and took.raises.certain:
        at = (took.raises.place,) if took.raises.place is not None else here
        message = rule.message("raises", keys=took.model_class, found=took.raises.exception, reason=_lacking(took))
        return [_finding(rule, "raises", message, at, (), ())]
    if took.takes_states is False and _is_wanted(pairing):
        message = rule.message("not-taken", keys=took.model_class)
        return [_finding(rule, "not-taken", message, here, (), ())]
    return []


WIDTH_CHECKS: Mapping[str, Check] = {
    "HS301": width_differs,
    "HS302": states_hard_coded,
    "HS303": state_width_not_read,
    "HS304": projection_skipped,
    "HS401": ids_not_read,
    "HS403": keys_ignored,
    "HS405": tensors_without_a_place,
    "HS406": draft_not_loaded,
}


def width_findings(facts: PairFacts, pairing: Pairing, rules: RuleBook) -> tuple[Finding, ...]:
    """All findings about what the draft takes in."""
    return ordered(each for rule_id, check in WIDTH_CHECKS.items() for each in check(facts, pairing, rules[rule_id]))


# ----------------------------------------------------------------------------------------------------------- helpers
def _to_blame(facts: PairFacts, pairing: Pairing, row: CaptureRow) -> str:
    """The rule of the factor that is wrong, "" where none is told apart."""
    layer = facts.intake.projection if facts.intake is not None else None
    if layer is None or layer.states is None or layer.width is None:
        return ""
    if pairing.target.hidden_size and layer.width.value != pairing.target.hidden_size:
        return "HS303"
    return "HS302" if not layer.states.key and layer.states.value != len(row.states) else ""


def _among(name: str, words: Sequence[str]) -> bool:
    """Whether a tensor's name ends in one of these, part by part."""
    return any(f".{name}".endswith(f".{word}") for word in words)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def _states(took: Intake | None) -> Factor | None:
    return took.projection.states if took is not None and took.projection is not None else None


def _keys(facts: PairFacts) -> str:
    """The keys that say how wide the projection is."""
    layer = facts.intake.projection if facts.intake is not None else None
    factors = (layer.states, layer.width) if layer is not None else ()
    return ", ".join(factor.key for factor in factors if factor is not None and factor.key)


def _is_wanted(pairing: Pairing) -> bool:
    """Whether the draft was trained with states from inside the target."""
    return pairing.draft.takes_aux


def _lacking(took: Intake) -> str:
    return f"the configuration lacks {', '.join(took.lacking)}" if took.lacking else ""


def _spelled(ids: Sequence[int]) -> str:
    return f"[{', '.join(map(str, ids))}]"


def _value(raw: Mapping[str, Any], path: str) -> Any:
    held: Any = raw
    for key in path.split("."):
        held = held.get(key) if isinstance(held, Mapping) else None
    return held


def _finding(
    rule: Rule,
    kind: str,
    message: str,
    places: Sequence[Place],
    evidence: tuple[Step, ...],
    rows: tuple[CaptureRow, ...],
    keys: str = "",
) -> Finding:
    return Finding(
        rule=rule.id,
        severity=rule.severity_of(kind),
        verdict=Verdict.VIOLATED,
        message=message,
        place=places[0] if places else None,
        phase=None,
        mode=keys,
        evidence=evidence,
        fix=rule.fix_of(kind),
        subjects=rows,
    )
