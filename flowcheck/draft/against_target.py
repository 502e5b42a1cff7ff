"""What the configurations of a draft and a target say against each other, and a draft's against itself.

Pure functions from a pair to facts. No tree is asked: what an engine makes of a key is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator

from flowcheck.draft.config import IdList
from flowcheck.draft.conventions import default_boundaries
from flowcheck.draft.errors import counted, spelled
from flowcheck.draft.mismatch import Kind, Mismatch
from flowcheck.draft.pairing import Pairing
from flowcheck.draft.producers import Algorithm, is_draft_name
from flowcheck.draft.training import Basis, Reading

__all__ = ["config_mismatches"]


def config_mismatches(pair: Pairing) -> Iterator[Mismatch]:
    """Everything that can be said without a header."""
    yield from _convention(pair)
    for ids in pair.draft.id_lists:
        yield from _ids(pair, ids)
    yield from _counts(pair)
    yield from _target(pair)
    yield from _vocabulary(pair)
    yield from _positions(pair)
    yield from _format(pair)


def _convention(pair: Pairing) -> Iterator[Mismatch]:
    trained = pair.trained
    keys = tuple(dict.fromkeys(each.key for each in (*trained.readings, *trained.set_aside) if each.key)) or ("ids",)
    if trained.question is not None:
        readings = " or ".join(str(each) for each in trained.readings)
        said = "the draft was trained on" if len(trained.readings) > 1 else "the best guess is"
        message = f"{trained.question.text}; {said} {readings}"
        yield Mismatch(Kind.CONVENTION_OPEN, message, keys, found=readings)
    if trained.doubt is not None:
        other = ", not ".join(str(each) for each in (*trained.readings, *trained.set_aside))
        yield Mismatch(Kind.CONVENTION_DOUBTED, f"{trained.doubt.text}; it is read as {other}", keys)
    reading = trained.reading
    if reading is not None and reading.basis in (Basis.DECLARED, Basis.COMPUTED, Basis.RANGE):
        against = next(_against_declared(pair, reading), None)
        if against is not None:
            yield against
            return
        for each in trained.set_aside:
            if each.basis is Basis.KEY:
                message = (
                    f"{each.key} {spelled(each.ids or ())} would be {each} by its key, but {reading.reason}: {reading}"
                )
                yield Mismatch(Kind.KEY_OVERRULED, message, (each.key,), expected=str(reading), found=str(each))


def _against_declared(pair: Pairing, reading: Reading) -> Iterator[Mismatch]:
    """Whether what was declared can be what is written, in whatever convention."""
    draft, declared = pair.draft, reading.boundaries
    if reading.basis is not Basis.DECLARED or not draft.takes_aux:
        return
    lists = [each for each in draft.id_lists if each.ids]
    if not lists:
        default = default_boundaries(pair.target.layers)
        if declared != default and not draft.algorithm.is_block:
            message = (
                f"no layer ids are written, and the draft was trained on {reading}: an engine takes its own default "
                f"then, most often {spelled(default)}"
            )
            keys = tuple(each.key for each in draft.id_lists) or ("ids",)
            yield Mismatch(Kind.IDS_ABSENT, message, keys, expected=spelled(declared), found=spelled(default))
        return
    ways = [tuple(sorted({each + offset for each in ids.ids})) for ids in lists for offset in (1, 0)]
    if declared not in ways:
        written = " and ".join(f"{ids.key} {spelled(ids.ids)}" for ids in lists)
        message = (
            f"{written} means {spelled(ways[0])} as outputs of layers and {spelled(ways[1])} as inputs, "
            f"and the draft was trained on {reading}"
        )
        if len(lists) > 1:
            message = f"{written} mean other boundaries in any convention than those of the training: {reading}"
        keys = tuple(ids.key for ids in lists)
        yield Mismatch(Kind.IDS_NOT_TRAINED, message, keys, expected=spelled(declared), found=spelled(ways[0]))


def _ids(pair: Pairing, ids: IdList) -> Iterator[Mismatch]:
    layers, written = pair.target.layers, f"{ids.key} {spelled(ids.ids)}"
    reading = pair.trained.reading
    offset = ids.convention.offset
    if reading is not None and reading.basis is Basis.RANGE and reading.convention is not None:
        offset = reading.convention.offset
    if reading is not None and reading.basis in (Basis.DECLARED, Basis.COMPUTED):
        meant = (each for each in (0, 1) if tuple(sorted({i + each for i in ids.ids})) == reading.boundaries)
        offset = next(meant, offset)
    outside = [each for each in ids.ids if each < -1 or each + offset > layers]
    if outside:
        name = spelled(outside[:1])[1:-1]
        message = f"{written} asks for layer {name} of a target of {counted(layers, 'layer')}: another target is meant"
        yield Mismatch(Kind.IDS_OUT_OF_RANGE, message, (ids.key,), expected=f"at most {layers - offset}", found=name)
    if min(ids.ids, default=0) < 0:
        message = f"{written} has a negative id: engines capture the embedding, or nothing, or stop"
        yield Mismatch(Kind.IDS_NEGATIVE, message, (ids.key,))
    if len(set(ids.ids)) < len(ids.ids):
        states = counted(len(set(ids.ids)), "state")
        message = f"{written} names a layer twice: a forward captures {states} and fc takes {len(ids.ids)}"
        yield Mismatch(Kind.IDS_REPEATED, message, (ids.key,), expected=states, found=str(len(ids.ids)))
    elif list(ids.ids) != sorted(ids.ids):
        message = f"{written} is not ascending: states are captured in the order of the layers, not of the list"
        yield Mismatch(Kind.IDS_UNSORTED, message, (ids.key,))
    if not ids.is_read:
        message = f"{written} stands where no engine looks for ids"
        yield Mismatch(Kind.IDS_UNREAD, message, (ids.key,))


def _counts(pair: Pairing) -> Iterator[Mismatch]:
    draft = pair.draft
    if not draft.takes_aux:
        return
    counts = [(each.key, len(each.ids)) for each in draft.id_lists if each.ids]
    if draft.aux_count is not None:
        counts.insert(0, (draft.aux_count_key, draft.aux_count))
    if len({number for _, number in counts}) > 1:
        said = ", ".join(f"{key} says {number}" for key, number in counts)
        message = f"how many states the draft takes is written in several ways: {said}"
        yield Mismatch(Kind.COUNTS_DISAGREE, message, tuple(key for key, _ in counts))


def _target(pair: Pairing) -> Iterator[Mismatch]:
    draft, target = pair.draft, pair.target
    own, wide = draft.target_hidden_size, target.hidden_size
    if own is not None and own != wide:
        message = f"target_hidden_size is {own}, and the hidden size of {target.label} is {wide}"
        yield Mismatch(Kind.TARGET_WIDTH, message, ("target_hidden_size",), str(wide), str(own))
    elif own is None and draft.hidden_size is not None and draft.hidden_size != wide:
        message = (
            f"hidden_size is {draft.hidden_size}, that of {target.label} is {wide}, and no target_hidden_size says so: "
            "fc and the shared embedding would be sized for another target"
        )
        yield Mismatch(Kind.TARGET_WIDTH, message, ("hidden_size",), str(wide), str(draft.hidden_size))
    if own is None and draft.writes("target_hidden_size"):
        message = "target_hidden_size is null: a reader that asks only whether it is there multiplies by null"
        yield Mismatch(Kind.TARGET_WIDTH_NULL, message, ("target_hidden_size",))
    if draft.target_layers is not None and draft.target_layers != target.layers:
        message = (
            f"num_target_layers is {draft.target_layers}, and {target.label} has {counted(target.layers, 'layer')}"
        )
        yield Mismatch(Kind.TARGET_DEPTH, message, ("num_target_layers",), str(target.layers), str(draft.target_layers))
    named = set(draft.verifier_architectures)
    inner = target.text.get("architectures")
    known = {*target.architectures, *(inner if isinstance(inner, list) else ())}
    if named and known and not named & known:
        said, real = ", ".join(sorted(named)), ", ".join(target.architectures)
        message = (
            f"the draft was made for {said}{f' ({draft.verifier})' if draft.verifier else ''}, and the target is {real}"
        )
        yield Mismatch(Kind.TARGET_OTHER, message, ("speculators_config.verifier.architectures",), said, real)
    copied = pair.header is None and draft.layers is not None and draft.layers == target.layers > 4
    if copied and not draft.algorithm.is_block:
        message = f"num_hidden_layers is {draft.layers}, the depth of the target: it was probably copied from there"
        yield Mismatch(Kind.DEPTH_COPIED, message, ("num_hidden_layers",), found=str(draft.layers))


def _vocabulary(pair: Pairing) -> Iterator[Mismatch]:
    draft, target = pair.draft, pair.target
    whole, own = target.vocab_size, draft.draft_vocab_size
    if draft.vocab_size is not None and whole is not None and draft.vocab_size != whole:
        message = f"vocab_size is {draft.vocab_size}, and that of {target.label} is {whole}"
        yield Mismatch(Kind.VOCABULARY_DIFFERS, message, ("vocab_size",), str(whole), str(draft.vocab_size))
    limit = whole or draft.vocab_size
    if own is not None and limit is not None and own > limit:
        message = f"draft_vocab_size is {own}, more than the {limit} tokens of the target"
        yield Mismatch(Kind.DRAFT_VOCABULARY_LARGER, message, ("draft_vocab_size",), f"at most {limit}", str(own))
    if draft.algorithm not in (Algorithm.EAGLE3, Algorithm.PEAGLE):
        return
    if not draft.writes("draft_vocab_size") and not draft.ties_embeddings:
        message = "draft_vocab_size is not written, and readers of EAGLE-3 drafts expect it, if only as null"
        yield Mismatch(Kind.DRAFT_VOCABULARY_ABSENT, message, ("draft_vocab_size",))
    if draft.ties_embeddings and own is not None and limit is not None and own < limit:
        message = (
            f"tie_word_embeddings is true while draft_vocab_size ({own}) is smaller than the vocabulary ({limit}): "
            "the head would be the embedding, whose rows are other tokens"
        )
        yield Mismatch(Kind.TIED_REDUCED, message, ("tie_word_embeddings", "draft_vocab_size"))


def _positions(pair: Pairing) -> Iterator[Mismatch]:
    short, long = pair.draft.positions, pair.target.positions
    if short is not None and long is not None and short < long:
        message = (
            f"the draft knows {short} positions and the target {long}: beyond {short} the draft is lost or refused"
        )
        yield Mismatch(Kind.POSITIONS_SHORT, message, ("max_position_embeddings",), str(long), str(short))


def _format(pair: Pairing) -> Iterator[Mismatch]:
    draft = pair.draft
    if draft.is_on("norm_before_fc") and draft.is_on("fc_norm", "use_aux_norm"):
        keys = tuple(
            draft.flags[name].key for name in ("norm_before_fc", "fc_norm", "use_aux_norm") if draft.is_on(name)
        )
        message = f"{' and '.join(keys)} are both on, and a draft has one norm before fc or the other"
        yield Mismatch(Kind.NORMS_EXCLUDE, message, keys)
    plain = [each for each in draft.architectures if not is_draft_name(each)]
    if draft.takes_aux and plain:
        message = f"the architecture is {plain[0]}, under which an engine loads a plain language model, not a draft"
        yield Mismatch(Kind.PLAIN_ARCHITECTURE, message, ("architectures",), found=plain[0])
    if draft.nesting:
        message = f"the dimensions stand in {draft.nesting} (the format of speculators), and at the top there are none"
        yield Mismatch(Kind.NESTED_DIMENSIONS, message, (draft.nesting,))
