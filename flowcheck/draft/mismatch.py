"""What a check of a pair answers: one typed fact for each thing that does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Kind", "Mismatch", "Subject", "Weight"]


class Subject(str, Enum):
    """What a kind of mismatch is about; each is one rule's business."""

    CONVENTION = "convention"
    HEADER = "header"
    NAMES = "names"
    FORMAT = "format"
    POSITIONS = "positions"
    ALGORITHM = "algorithm"
    VOCABULARY = "vocabulary"
    IDS = "ids"
    WIDTH = "width"
    KEYS = "keys"


class Weight(str, Enum):
    """How bad it is: it will not work, it may not, or it is good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Kind(Enum):
    """Every mismatch there is: a stable name, what it is about, and how much it weighs."""

    FC_MISSING = ("fc-missing", Subject.HEADER, Weight.ERROR)
    FC_UNUSED = ("fc-unused", Subject.HEADER, Weight.ERROR)
    FC_WIDTH = ("fc-width", Subject.HEADER, Weight.ERROR)
    FC_TARGET_WIDTH = ("fc-target-width", Subject.HEADER, Weight.ERROR)
    FC_OUTPUT = ("fc-output", Subject.HEADER, Weight.ERROR)
    FC_BOUNDARIES = ("fc-boundaries", Subject.HEADER, Weight.ERROR)
    QKV_INPUT = ("qkv-input", Subject.HEADER, Weight.ERROR)
    HEADS = ("heads", Subject.HEADER, Weight.ERROR)
    NORM_WIDTH = ("norm-width", Subject.HEADER, Weight.ERROR)
    LAYER_COUNT = ("layer-count", Subject.HEADER, Weight.ERROR)
    HIDDEN_NORM_MISSING = ("hidden-norm-missing", Subject.HEADER, Weight.WARNING)
    INPUT_NORM = ("input-norm", Subject.HEADER, Weight.ERROR)
    FC_NORM = ("fc-norm", Subject.HEADER, Weight.ERROR)
    EMBEDDING_MISSING = ("embedding-missing", Subject.HEADER, Weight.ERROR)
    EMBEDDING_SHAPE = ("embedding-shape", Subject.HEADER, Weight.ERROR)
    BIAS = ("bias", Subject.NAMES, Weight.WARNING)
    TRAINING_NAMES = ("training-names", Subject.NAMES, Weight.WARNING)

    EAGLE1_HEAD = ("eagle1-head", Subject.ALGORITHM, Weight.ERROR)
    PARALLEL_HEAD = ("parallel-head", Subject.ALGORITHM, Weight.WARNING)
    DOMINO_HEAD = ("domino-head", Subject.ALGORITHM, Weight.ERROR)
    ALGORITHM_FLAG = ("algorithm-flag", Subject.ALGORITHM, Weight.ERROR)

    LM_HEAD_ROWS = ("lm-head-rows", Subject.VOCABULARY, Weight.ERROR)
    LM_HEAD_MISSING = ("lm-head-missing", Subject.VOCABULARY, Weight.ERROR)
    D2T_LENGTH = ("d2t-length", Subject.VOCABULARY, Weight.ERROR)
    D2T_MISSING = ("d2t-missing", Subject.VOCABULARY, Weight.ERROR)
    T2D_LENGTH = ("t2d-length", Subject.VOCABULARY, Weight.ERROR)
    DRAFT_VOCABULARY_ABSENT = ("draft-vocabulary-absent", Subject.VOCABULARY, Weight.WARNING)
    DRAFT_VOCABULARY_LARGER = ("draft-vocabulary-larger", Subject.VOCABULARY, Weight.ERROR)
    VOCABULARY_DIFFERS = ("vocabulary-differs", Subject.VOCABULARY, Weight.WARNING)
    TIED_REDUCED = ("tied-reduced", Subject.VOCABULARY, Weight.ERROR)

    POSITIONS_SHORT = ("positions-short", Subject.POSITIONS, Weight.WARNING)

    CONVENTION_OPEN = ("convention-open", Subject.CONVENTION, Weight.WARNING)
    CONVENTION_DOUBTED = ("convention-doubted", Subject.CONVENTION, Weight.WARNING)
    KEY_OVERRULED = ("key-overruled", Subject.CONVENTION, Weight.NOTE)

    IDS_OUT_OF_RANGE = ("ids-out-of-range", Subject.IDS, Weight.ERROR)
    IDS_NEGATIVE = ("ids-negative", Subject.IDS, Weight.WARNING)
    IDS_REPEATED = ("ids-repeated", Subject.IDS, Weight.ERROR)
    IDS_UNSORTED = ("ids-unsorted", Subject.IDS, Weight.WARNING)
    IDS_UNREAD = ("ids-unread", Subject.IDS, Weight.WARNING)
    IDS_ABSENT = ("ids-absent", Subject.IDS, Weight.WARNING)
    IDS_NOT_TRAINED = ("ids-not-trained", Subject.IDS, Weight.WARNING)
    COUNTS_DISAGREE = ("counts-disagree", Subject.IDS, Weight.WARNING)

    TARGET_WIDTH = ("target-width", Subject.WIDTH, Weight.ERROR)
    TARGET_WIDTH_NULL = ("target-width-null", Subject.WIDTH, Weight.WARNING)
    TARGET_DEPTH = ("target-depth", Subject.WIDTH, Weight.WARNING)
    TARGET_OTHER = ("target-other", Subject.WIDTH, Weight.WARNING)
    DEPTH_COPIED = ("depth-copied", Subject.WIDTH, Weight.WARNING)

    NORMS_EXCLUDE = ("norms-exclude", Subject.KEYS, Weight.WARNING)
    PLAIN_ARCHITECTURE = ("plain-architecture", Subject.FORMAT, Weight.WARNING)
    NESTED_DIMENSIONS = ("nested-dimensions", Subject.FORMAT, Weight.WARNING)

    def __init__(self, title: str, subject: Subject, weight: Weight) -> None:
        self.title = title
        self.subject = subject
        self.weight = weight


@dataclass(frozen=True)
class Mismatch:
    """One thing about a pair that does not fit.

    ``message`` is a sentence that needs no other. ``where`` names the keys and tensors that contradict each other, the
    one to look at first in front. ``expected`` and ``found`` are the two sides as text, where there are two.
    """

    kind: Kind
    message: str
    where: tuple[str, ...]
    expected: str = ""
    found: str = ""

    def __str__(self) -> str:
        return f"{self.kind.title}: {self.message}"
