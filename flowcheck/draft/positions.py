"""How many positions a configuration says its model can tell apart."""

from __future__ import annotations

from flowcheck.draft.documents import Document

__all__ = ["positions_of"]

KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
    "n_positions",
)


def positions_of(document: Document) -> int | None:
    """The longest context, or None if the configuration does not say.

    A rotary scaling stretches it, unless the scaling names the length that it started from: then the number that is
    written is the stretched one.
    """
    written = next((found for key in KEYS if (found := document.integer(key, least=0))), None)
    if written is None:
        return None
    return int(written * _stretch(document))


def _stretch(document: Document) -> float:
    scaling = document.inside("rope_scaling")
    if scaling is None or scaling.has("original_max_position_embeddings") or scaling.raw.get("rope_type") == "llama3":
        return 1.0
    factor = scaling.raw.get("factor")
    plain = isinstance(factor, (int, float)) and not isinstance(factor, bool) and 1.0 <= factor < 1e6
    return float(factor) if plain and factor is not None else 1.0
