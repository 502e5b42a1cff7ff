"""What is wrong with a pair, whatever tree serves it: HS2xx, HS3xx and HS4xx as far as the pair's own data says.

The room ``draft`` gives the mismatches; here each becomes a finding of the rule whose business it is. Nothing here says
what a tree makes of a pair. Imported only where there is a pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flowcheck.checks.findings import Finding, Verdict
from flowcheck.checks.rules import Rule, RuleBook
from flowcheck.checks.run import ordered
from flowcheck.draft import Kind, Mismatch, Pairing, mismatches_of

__all__ = ["SPEAKS_OF", "declarable", "pair_findings"]

SPEAKS_OF: Mapping[str, tuple[Kind, ...]] = {
    "HS202": (Kind.IDS_OUT_OF_RANGE, Kind.IDS_REPEATED, Kind.IDS_NOT_TRAINED, Kind.IDS_NEGATIVE, Kind.IDS_UNSORTED),
    "HS303": (Kind.TARGET_WIDTH, Kind.TARGET_WIDTH_NULL, Kind.TARGET_DEPTH, Kind.TARGET_OTHER),
    "HS401": (Kind.IDS_UNREAD, Kind.IDS_ABSENT),
    "HS402": (Kind.CONVENTION_OPEN, Kind.CONVENTION_DOUBTED, Kind.KEY_OVERRULED),
    "HS403": (Kind.NORMS_EXCLUDE, Kind.COUNTS_DISAGREE),
    "HS404": (
        Kind.FC_MISSING,
        Kind.FC_UNUSED,
        Kind.FC_WIDTH,
        Kind.FC_TARGET_WIDTH,
        Kind.FC_OUTPUT,
        Kind.FC_BOUNDARIES,
        Kind.QKV_INPUT,
        Kind.HEADS,
        Kind.NORM_WIDTH,
        Kind.LAYER_COUNT,
        Kind.HIDDEN_NORM_MISSING,
        Kind.INPUT_NORM,
        Kind.FC_NORM,
        Kind.EMBEDDING_MISSING,
        Kind.EMBEDDING_SHAPE,
    ),
    "HS405": (Kind.BIAS, Kind.TRAINING_NAMES),
    "HS406": (Kind.PLAIN_ARCHITECTURE, Kind.NESTED_DIMENSIONS, Kind.DEPTH_COPIED),
    "HS407": (Kind.POSITIONS_SHORT,),
    "HS408": (Kind.ALGORITHM_FLAG, Kind.EAGLE1_HEAD, Kind.PARALLEL_HEAD, Kind.DOMINO_HEAD),
    "HS409": (
        Kind.LM_HEAD_ROWS,
        Kind.LM_HEAD_MISSING,
        Kind.D2T_LENGTH,
        Kind.D2T_MISSING,
        Kind.T2D_LENGTH,
        Kind.DRAFT_VOCABULARY_ABSENT,
        Kind.DRAFT_VOCABULARY_LARGER,
        Kind.VOCABULARY_DIFFERS,
        Kind.TIED_REDUCED,
    ),
}
"""The kinds of mismatches that each rule is about; every kind is one rule's."""

MOST = 12
"""A draft that takes more states does not exist; a longer list is no line for a terminal."""

OPEN = frozenset({Kind.CONVENTION_OPEN})
"""Kinds that are a question, not a defect that was shown."""


def pair_findings(pairing: Pairing, rules: RuleBook, *, algorithm: str | None = None) -> tuple[Finding, ...]:
    """All findings about a pair; ``algorithm`` is the one that it is launched with, if that is known."""
    found = mismatches_of(pairing, algorithm=algorithm)
    return ordered(
        finding for rule_id, kinds in SPEAKS_OF.items() for finding in _findings(found, kinds, rules[rule_id], pairing)
    )


def _findings(found: tuple[Mismatch, ...], kinds: tuple[Kind, ...], rule: Rule, pairing: Pairing) -> Iterator[Finding]:
    for mismatch in found:
        kind = mismatch.kind
        if kind not in kinds:
            continue
        fields = {
            "said": mismatch.message,
            "expected": mismatch.expected,
            "found": mismatch.found,
            "keys": ", ".join(mismatch.where),
            "options": declarable(pairing),
        }
        yield Finding(
            rule=rule.id,
            severity=rule.severity_of(kind.title),
            verdict=Verdict.UNPROVED if kind in OPEN else Verdict.VIOLATED,
            message=rule.message("mismatch", **fields),
            place=None,
            phase=None,
            mode="",
            evidence=(),
            fix=rule.fix_of(kind.title, **fields),
            subjects=(),
            mismatch=mismatch,
        )


def declarable(pairing: Pairing) -> str:
    """The declarations that would settle what a draft was trained on, as options of a command line."""
    trained = pairing.trained
    answers = [each.boundaries for each in (*trained.readings, *trained.set_aside) if not each.post_norm]
    layers = pairing.target.layers
    sound = [each for each in dict.fromkeys(answers) if 0 < len(each) <= MOST and 0 <= each[0] <= each[-1] <= layers]
    said = [f"--trained-boundaries {','.join(map(str, each))}" for each in sound]
    return " or ".join(said) or "--trained-boundaries with the boundaries"
