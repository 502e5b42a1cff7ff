"""What the header of a draft's checkpoint says against the configurations: the real shapes, and what is not there.

Pure functions from a pair to facts. A quantised tensor hides its shape; nothing is said of it then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flowcheck.draft.errors import counted, spelled
from flowcheck.draft.header import TRAINING, Header, Tensor, listed
from flowcheck.draft.mismatch import Kind, Mismatch
from flowcheck.draft.pairing import Pairing
from flowcheck.draft.producers import Algorithm
from flowcheck.draft.training import Basis

__all__ = ["algorithm_mismatches", "header_mismatches", "is_judged"]

EAGLE3_LIKE = (Algorithm.EAGLE3, Algorithm.PEAGLE)

SERVED_BY = {
    "EAGLE3": (Algorithm.EAGLE3,),
    "EAGLE": (Algorithm.EAGLE, Algorithm.MTP),
    "NEXTN": (Algorithm.EAGLE, Algorithm.MTP),
    "DFLASH": (Algorithm.DFLASH,),
    "DSPARK": (Algorithm.DSPARK,),
}
"""The heads that each algorithm of a launch can run. An algorithm that is not here takes no head, or one of its own."""


def is_judged(asked: str) -> bool:
    """Whether it is known which heads an algorithm of a launch can run."""
    return asked.upper() in SERVED_BY


def algorithm_mismatches(pair: Pairing, asked: str) -> Iterator[Mismatch]:
    """Whether the head fits the algorithm that a launch asks for."""
    served = SERVED_BY.get(asked.upper())
    real = pair.algorithm
    if served is None or real is Algorithm.UNKNOWN or real in served:
        return
    if asked.upper() == "EAGLE3" and real is Algorithm.PEAGLE:
        if pair.draft.algorithm is Algorithm.PEAGLE:  # else the header is what says so, and is asked elsewhere
            message = "the launch asks for EAGLE3, and the draft is a head for parallel drafting (P-EAGLE)"
            yield Mismatch(Kind.PARALLEL_HEAD, message, ("architectures",), expected=real.value, found="EAGLE3")
        return
    why = "; ".join(pair.recognition.evidence[:1])
    message = f"the launch asks for {asked.upper()}, and the draft is made for {real.value}{f' ({why})' if why else ''}"
    if asked.upper() in ("EAGLE", "NEXTN") and real in EAGLE3_LIKE:
        message += ": one state arrives, as wide as an embedding, and fc is passed over without an error"
    yield Mismatch(Kind.ALGORITHM_FLAG, message, ("architectures",), expected=real.value, found=asked.upper())


def header_mismatches(pair: Pairing) -> Iterator[Mismatch]:
    """Everything that the header can be asked; nothing where there is none."""
    header = pair.header
    if header is None:
        return
    yield from _head(pair, header)
    if not pair.is_eagle1_head:
        yield from _projection(pair, header)
    yield from _norms(pair, header)
    yield from _layers(pair, header)
    yield from _embedding(pair, header)
    if pair.draft.algorithm in EAGLE3_LIKE:
        yield from _vocabulary(pair, header)
        yield from _biases(pair, header)
    training = header.beginning(*TRAINING)
    if training:
        message = f"names of training were left in the checkpoint ({listed(training)}): it was not exported"
        yield Mismatch(Kind.TRAINING_NAMES, message, tuple(each.name for each in training[:3]))


def _head(pair: Pairing, header: Header) -> Iterator[Mismatch]:
    fc, width = header.fc, pair.draft.hidden_size
    if pair.is_eagle1_head and fc is not None and pair.draft.algorithm.takes_aux:
        message = (
            f"{fc} takes an embedding and one hidden state ({width} each): it is an EAGLE-1 head, "
            f"and the configuration speaks of {pair.draft.algorithm.value}"
        )
        yield Mismatch(Kind.EAGLE1_HEAD, message, (fc.name,), pair.draft.algorithm.value, Algorithm.EAGLE.value)
    if header.find("mask_hidden") is not None and pair.draft.algorithm is Algorithm.EAGLE3:
        message = "the checkpoint has mask_hidden: it is a head for parallel drafting (P-EAGLE), not for EAGLE-3"
        yield Mismatch(Kind.PARALLEL_HEAD, message, ("mask_hidden",), Algorithm.EAGLE3.value, Algorithm.PEAGLE.value)
    domino = header.beginning("prefix_gru.", "embed_proj.")
    if domino and "domino" not in str(pair.draft.raw).lower():
        message = f"the checkpoint has a Domino projector ({listed(domino)}), and the configuration does not say so"
        yield Mismatch(Kind.DOMINO_HEAD, message, (domino[0].name, "projector_type"))


def _projection(pair: Pairing, header: Header) -> Iterator[Mismatch]:
    draft, fc = pair.draft, header.fc
    if fc is None:
        if draft.takes_aux and not header.fc_name:
            message = f"the checkpoint has no fc, and the draft takes {counted(pair.states, 'state')} of the target"
            yield Mismatch(Kind.FC_MISSING, message, ("fc.weight",))
        return
    if fc.is_packed:
        return
    if not draft.takes_aux and draft.algorithm in EAGLE3_LIKE:
        message = f"use_aux_hidden_state is false, and the checkpoint has {fc}: one state comes, and fc is not for one"
        yield Mismatch(Kind.FC_UNUSED, message, (fc.name, "use_aux_hidden_state"))
    if draft.hidden_size is not None and fc.shape[0] != draft.hidden_size:
        message = f"{fc} puts out {fc.shape[0]}, and the hidden size of the draft is {draft.hidden_size}"
        yield Mismatch(Kind.FC_OUTPUT, message, (fc.name, "hidden_size"), str(draft.hidden_size), str(fc.shape[0]))
    if draft.takes_aux:
        yield from _width(pair, fc)


def _width(pair: Pairing, fc: Tensor) -> Iterator[Mismatch]:
    wide, target = fc.shape[1], pair.target
    expected = pair.states * pair.target_width
    sum_ = f"{pair.states} x {pair.target_width}"
    if wide != expected:
        if wide % target.hidden_size == 0:
            holds = counted(wide // target.hidden_size, "state")
            message = f"{fc} takes {holds} of {target.label}, and by the configuration it takes {sum_} = {expected}"
            yield Mismatch(Kind.FC_WIDTH, message, (fc.name, *_count_keys(pair)), str(expected), str(wide))
        else:
            message = (
                f"{fc} takes {wide}, which is no multiple of the hidden size of {target.label} ({target.hidden_size})"
            )
            yield Mismatch(Kind.FC_TARGET_WIDTH, message, (fc.name, "target_hidden_size"), str(expected), str(wide))
    elif wide == pair.draft.hidden_size:
        message = f"{fc} takes one state as wide as an embedding: an engine that compares these widths passes fc over"
        yield Mismatch(Kind.FC_UNUSED, message, (fc.name,))
    reading = pair.trained.reading
    if reading is not None and reading.basis in (Basis.DECLARED, Basis.COMPUTED):
        number = len(reading.boundaries) + reading.post_norm
        if number * target.hidden_size != wide:
            asked = f"{counted(number, 'state')} of {spelled(reading.boundaries)}"
            message = f"{fc} does not take the {asked}, which are {reading.basis.value}"
            yield Mismatch(Kind.FC_BOUNDARIES, message, (fc.name,), str(number * target.hidden_size), str(wide))


def _count_keys(pair: Pairing) -> tuple[str, ...]:
    if pair.draft.aux_count is not None:
        return (pair.draft.aux_count_key,)
    return tuple(each.key for each in pair.draft.id_lists if each.ids)[:1]


def _norms(pair: Pairing, header: Header) -> Iterator[Mismatch]:
    draft = pair.draft
    norm = header.find("norm.weight")
    if norm is not None and draft.hidden_size is not None and norm.shape != (draft.hidden_size,):
        message = f"{norm} does not fit the hidden size {draft.hidden_size}"
        yield Mismatch(Kind.NORM_WIDTH, message, (norm.name, "hidden_size"), str(draft.hidden_size), str(norm.shape))
    whole = pair.states * pair.target_width
    yield from _input_norm(pair, header, whole)
    legacy = [each for name in ("low", "mid", "high") if (each := header.find(f"aux_norm_{name}.weight"))]
    norms = list(header.numbered("fc_norm").values()) or legacy
    wanted = draft.is_on("fc_norm", "use_aux_norm")
    if norms and not wanted:
        message = (
            f"the checkpoint has norms before fc ({listed(norms)}), and no fc_norm in the configuration turns them on"
        )
        yield Mismatch(Kind.FC_NORM, message, (norms[0].name, "fc_norm"))
    elif wanted and len(norms) != pair.states:
        key = next(draft.flags[name].key for name in ("fc_norm", "use_aux_norm") if draft.is_on(name))
        message = (
            f"{key} is true, and the checkpoint has {counted(len(norms), 'norm')} for {counted(pair.states, 'state')}"
        )
        yield Mismatch(Kind.FC_NORM, message, ("fc_norm", key), str(pair.states), str(len(norms)))
    for each in norms:
        if each.shape != (pair.target_width,):
            message = f"{each} does not fit a state of {pair.target_width}"
            yield Mismatch(Kind.FC_NORM, message, (each.name,), str(pair.target_width), str(each.shape))


def _input_norm(pair: Pairing, header: Header, whole: int) -> Iterator[Mismatch]:
    norm, wanted = header.find("input_norm.weight"), pair.draft.is_on("norm_before_fc")
    if norm is None and wanted:
        key = pair.draft.flags["norm_before_fc"].key
        message = f"{key} is true, and the checkpoint has no input_norm"
        yield Mismatch(Kind.INPUT_NORM, message, ("input_norm.weight", key))
    if norm is None:
        return
    if not wanted:
        message = f"the checkpoint has {norm}, and no norm_before_fc in the configuration turns it on"
        yield Mismatch(Kind.INPUT_NORM, message, (norm.name, "norm_before_fc"))
    elif norm.shape != (whole,):
        message = f"{norm} does not fit the {whole} that fc takes"
        yield Mismatch(Kind.INPUT_NORM, message, (norm.name,), str(whole), str(norm.shape))


def _layers(pair: Pairing, header: Header) -> Iterator[Mismatch]:
    draft = pair.draft
    there = len(header.layers)
    if draft.layers is not None and draft.algorithm is not Algorithm.MTP and there != draft.layers:
        message = f"the checkpoint has {counted(there, 'decoder layer')}, and num_hidden_layers is {draft.layers}"
        yield Mismatch(Kind.LAYER_COUNT, message, ("num_hidden_layers",), str(there), str(draft.layers))
    if draft.algorithm is Algorithm.MTP or draft.hidden_size is None:
        return
    first = min(header.layers, default=0)
    doubled = draft.algorithm in EAGLE3_LIKE and not pair.is_eagle1_head
    for number, layer in header.layers.items():
        expected = 2 * draft.hidden_size if doubled and number == first else draft.hidden_size
        yield from _attention(layer.values(), expected, number)
        yield from _heads(pair, layer.get("self_attn.q_proj.weight"), layer.get("self_attn.k_proj.weight"))
    plain = [number for number, layer in header.layers.items() if number != first and "hidden_norm.weight" not in layer]
    if doubled and plain:
        message = (
            f"layer {plain[0]} has no hidden_norm: an engine that normalises the input of every layer with it would use "
            "a norm of ones"
        )
        yield Mismatch(Kind.HIDDEN_NORM_MISSING, message, (f"layers.{plain[0]}.hidden_norm.weight",))


INPUTS = ("q_proj", "k_proj", "v_proj", "qkv_proj", "q_a_proj", "kv_a_proj_with_mqa")


def _attention(tensors: Iterable[Tensor], expected: int, number: int) -> Iterator[Mismatch]:
    wrong = [
        each
        for each in sorted(tensors, key=lambda each: each.name)
        if each.name.endswith(tuple(f"self_attn.{name}.weight" for name in INPUTS))
        and len(each.shape) == 2
        and not each.is_packed
        and each.shape[1] != expected
    ]
    if wrong:
        message = (
            f"the attention of layer {number} takes {wrong[0].shape[1]} ({wrong[0]}), and {expected} is what comes"
        )
        yield Mismatch(Kind.QKV_INPUT, message, (wrong[0].name, "hidden_size"), str(expected), str(wrong[0].shape[1]))


def _heads(pair: Pairing, query: Tensor | None, key: Tensor | None) -> Iterator[Mismatch]:
    draft = pair.draft
    if draft.heads is None or draft.hidden_size is None:
        return
    dimension = draft.head_dim or draft.hidden_size // draft.heads
    for tensor, heads, name in (
        (query, draft.heads, "num_attention_heads"),
        (key, draft.kv_heads or draft.heads, "num_key_value_heads"),
    ):
        if tensor is None or tensor.is_packed or len(tensor.shape) != 2 or tensor.shape[0] == heads * dimension:
            continue
        message = (
            f"{tensor} has {tensor.shape[0]} rows, and {name} x head_dim is {heads} x {dimension} = {heads * dimension}"
        )
        yield Mismatch(Kind.HEADS, message, (tensor.name, name), str(heads * dimension), str(tensor.shape[0]))


def _embedding(pair: Pairing, header: Header) -> Iterator[Mismatch]:
    draft, embedding = pair.draft, header.find("embed_tokens.weight")
    own = draft.target_hidden_size
    if embedding is None:
        if own is not None and draft.hidden_size is not None and own != draft.hidden_size:
            message = (
                f"the draft is {draft.hidden_size} wide and its target {own}: it needs an embedding of its own, "
                "and the checkpoint has no embed_tokens"
            )
            yield Mismatch(Kind.EMBEDDING_MISSING, message, ("embed_tokens.weight", "target_hidden_size"))
        return
    expected = (draft.vocab_size, draft.hidden_size)
    if None not in expected and not embedding.is_packed and embedding.shape != expected:
        message = f"{embedding} is not vocab_size x hidden_size = {list(expected)}"
        yield Mismatch(
            Kind.EMBEDDING_SHAPE, message, (embedding.name, "vocab_size"), str(expected), str(embedding.shape)
        )


def _vocabulary(pair: Pairing, header: Header) -> Iterator[Mismatch]:
    draft, whole = pair.draft, pair.target.vocab_size or pair.draft.vocab_size
    own = draft.draft_vocab_size
    head, d2t, t2d = header.find("lm_head.weight"), header.find("d2t"), header.find("t2d")
    rows = own or draft.vocab_size
    if head is not None and rows is not None and not head.is_packed and head.shape[:1] != (rows,):
        key = "draft_vocab_size" if own else "vocab_size"
        message = f"{head} has {head.shape[0] if head.shape else 0} rows, and {key} is {rows}"
        yield Mismatch(Kind.LM_HEAD_ROWS, message, (head.name, key), str(rows), str(head.shape[:1]))
    named = any(name.startswith("lm_head.") for name in header.plain)
    if not named and own is not None and not draft.ties_embeddings:
        message = (
            f"draft_vocab_size is {own}, and the checkpoint has no lm_head: the head would stay as it was allocated"
        )
        yield Mismatch(Kind.LM_HEAD_MISSING, message, ("lm_head.weight", "draft_vocab_size"))
    if d2t is not None and rows is not None and d2t.shape != (rows,):
        message = f"{d2t} does not give each of the {rows} tokens of the draft its token of the target"
        yield Mismatch(Kind.D2T_LENGTH, message, (d2t.name, "draft_vocab_size"), str(rows), str(d2t.shape))
    if d2t is None and own is not None and whole is not None and own < whole:
        message = f"the draft knows {own} of {whole} tokens, and the checkpoint has no d2t that says which"
        yield Mismatch(Kind.D2T_MISSING, message, ("d2t", "draft_vocab_size"))
    if t2d is not None and whole is not None and t2d.shape != (whole,):
        message = f"{t2d} does not cover the {whole} tokens of the target"
        yield Mismatch(Kind.T2D_LENGTH, message, (t2d.name, "vocab_size"), str(whole), str(t2d.shape))


def _biases(pair: Pairing, header: Header) -> Iterator[Mismatch]:
    biases = [each for each in header.ending(".bias") if not (each.name.endswith("fc.bias") and pair.draft.fc_bias)]
    if biases:
        message = f"the checkpoint has biases ({listed(biases)}), and engines build EAGLE-3 layers without them"
        yield Mismatch(Kind.BIAS, message, tuple(each.name for each in biases[:3]))
