"""A pair as a part of the report, and the questions about it that stay open whatever is found.

Imported only where there is a pair.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from flowcheck.draft import Algorithm, DraftConfig, Header, Pairing, TargetConfig, is_judged
from flowcheck.draft import Reading as Known
from flowcheck.draft.pairing import Origin
from flowcheck.report import model
from flowcheck.report.source_text import plain

__all__ = ["asked", "digest_of", "left_without_tree", "pairing_part"]


def pairing_part(pair: Pairing) -> model.Pairing:
    """What a report says about a pair."""
    return model.Pairing(
        name=pair.name,
        algorithm=pair.algorithm.value,
        producers=list(pair.recognition.producers),
        evidence=[plain(each) for each in pair.recognition.evidence],
        draft=_model(pair.draft, pair.draft_origin),
        target=_model(pair.target, pair.target_origin),
        ids=[
            model.Ids(
                key=each.key,
                ids=list(each.ids),
                convention=each.convention.value,
                firmness=each.firmness.value,
                writers=each.writers,
            )
            for each in pair.draft.id_lists
        ],
        trained=_trained(pair),
        fc=_projection(pair),
        vocabulary=model.Vocabulary(
            draft=pair.draft.draft_vocab_size or pair.draft.vocab_size, target=pair.target.vocab_size
        ),
        header=_header(pair.header),
        no_header=plain(pair.no_header),
    )


def _model(config: DraftConfig | TargetConfig, origin: Origin) -> model.PairModel:
    return model.PairModel(
        label=plain(config.label),
        repository=plain(origin.repository),
        revision=plain(origin.revision),
        architectures=[plain(each) for each in config.architectures],
        layers=config.layers,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        positions=config.positions,
    )


def _trained(pair: Pairing) -> model.Trained:
    trained = pair.trained
    return model.Trained(
        boundaries=list(trained.boundaries) if trained.boundaries is not None else None,
        question=plain(trained.question.text) if trained.question else None,
        doubt=plain(trained.doubt.text) if trained.doubt else None,
        readings=[_reading(each) for each in trained.readings],
        set_aside=[_reading(each) for each in trained.set_aside],
        remarks=[plain(each) for each in trained.remarks],
    )


def _reading(reading: Known) -> model.Reading:
    return model.Reading(
        boundaries=list(reading.boundaries),
        post_norm=reading.post_norm,
        basis=reading.basis.value,
        convention=reading.convention.value if reading.convention else None,
        key=reading.key,
        reason=plain(reading.reason),
    )


def _projection(pair: Pairing) -> model.Projection:
    fc = pair.header.fc if pair.header else None
    shape = fc.shape if fc is not None and not fc.is_packed else None
    takes = pair.draft.takes_aux
    beside = pair.draft.algorithm in (Algorithm.EAGLE, Algorithm.MTP)
    return model.Projection(
        states=pair.states,
        with_embedding=beside,
        state_width=pair.target_width,
        wanted=pair.states * pair.target_width if takes else replace(pair, header=None).fc_in_features,
        found=shape[1] if shape else None,
        output=shape[0] if shape else pair.draft.hidden_size if takes or beside else None,
    )


def _header(header: Header | None) -> model.Header | None:
    if header is None:
        return None
    return model.Header(
        tensors=len(header.tensors),
        files=header.files,
        layers=len(header.layers),
        layer_naming=header.layer_naming,
        fc=header.fc is not None or bool(header.fc_name),
    )


def digest_of(pair: Pairing) -> str:
    """A digest of all that is known of a pair, whatever it is called."""
    tensors = pair.header.tensors.values() if pair.header else ()
    content = {
        "draft": dict(pair.draft.raw),
        "target": dict(pair.target.raw),
        "tensors": sorted((each.name, each.dtype, list(each.shape)) for each in tensors),
        "trained": [(list(each.boundaries), each.post_norm) for each in pair.trained.readings],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "replace")).hexdigest()


def asked(question: str, reason: str, rule: str = "") -> model.Unproved:
    """A question that a pair poses, and that stays open."""
    return model.Unproved(
        question=question,
        reason=plain(reason),
        file=None,
        line=None,
        phase=None,
        path=None,
        worker="",
        about="pair",
        rule=rule,
    )


def left_without_tree(pair: Pairing, algorithm: str | None = None) -> list[model.Unproved]:
    """What nobody could ask of the pair's data."""
    left = []
    if pair.header is None:
        question = "is the draft's checkpoint what its configuration says"
        left.append(asked(question, f"the checkpoint was not looked at: {pair.no_header}"))
    if algorithm is not None and not is_judged(algorithm):
        left.append(asked("does the head fit the algorithm", f"it is not known which heads {algorithm} runs"))
    return left
