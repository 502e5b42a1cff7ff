"""Pairs as files: everything that a later run needs of a pair, in a small file that is committed and read offline.

A pair called NAME lies in ``.flowcheck/pairs/NAME.json`` below the folder that a command runs in. It holds the two
configurations, names and shapes of the draft's tensors, the commits on the hub, and what the draft was trained on. It
never holds weights, tokens, or a path of the machine that wrote it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flowcheck.draft.config import draft_from
from flowcheck.draft.conventions import Convention
from flowcheck.draft.documents import MAX_DEPTH, parse_object, read_bytes
from flowcheck.draft.errors import DraftError, ManifestError, shown
from flowcheck.draft.header import Header, header_from
from flowcheck.draft.pairing import Origin, Pairing
from flowcheck.draft.target import target_from
from flowcheck.draft.training import Basis, Question, QuestionKind, Reading, Trained

__all__ = [
    "FOLDER",
    "SCHEMA",
    "Manifest",
    "check_name",
    "freeze",
    "pair_names",
    "pair_path",
    "read_pair",
    "thaw",
    "write_pair",
]

SCHEMA = "flowcheck.pair/1"
FOLDER = Path(".flowcheck") / "pairs"
MAX_BYTES = 64 * 1024 * 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.I)
_SECRET_KEY = re.compile(
    r"(?:(?:^|_)(?:hf|auth|access|api)_|^)token$|(?:^|_)(?:api_key|secret|password|credentials?)$", re.I
)
_SECRET = re.compile(r"\bhf_[A-Za-z0-9]{8,}\b|\b\w+://[^/\s:@]+:[^/\s@]+@\S*")
_PATH = re.compile(r"(?:/|~|\.{1,2}/|[A-Za-z]:[\\/]|\\\\|file://).*", re.S)
_PATH_INSIDE = re.compile(r"(?<![^\s(\"'=])(?:file://|~|[A-Za-z]:)?[\\/](?:[^\s\\/]+[\\/])+([^\s\\/]*)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Text = Annotated[str, Field(max_length=4000)]


class FrozenModel(_Strict):
    """A model as it was: its name, where it came from, and its configuration."""

    label: Text
    repository: Text = ""
    revision: Annotated[str, Field(max_length=250)] = ""
    config: dict[str, Any]


class FrozenReading(_Strict):
    """One way to understand what the draft was trained on."""

    boundaries: list[int]
    basis: Literal["declared", "computed", "key", "range", "default", "shape"]
    reason: Text
    convention: Literal["output", "boundary", "postnorm"] | None = None
    key: Text = ""
    ids: list[int] | None = None
    post_norm: bool = False


class FrozenQuestion(_Strict):
    """What stayed open or in doubt."""

    kind: Literal[
        "shape-contradicts-key",
        "no-default-matches",
        "negative-id",
        "lists-disagree",
        "no-ids-in-list",
        "ids-absent",
        "ids-out-of-range",
    ]
    text: Text


class FrozenTraining(_Strict):
    """What the draft was trained on, as far as it was known."""

    readings: Annotated[list[FrozenReading], Field(min_length=1)]
    question: FrozenQuestion | None = None
    doubt: FrozenQuestion | None = None
    set_aside: list[FrozenReading] = []
    remarks: list[Text] = []


class Manifest(_Strict):
    """A frozen pair."""

    format: Literal["flowcheck.pair/1"] = Field(alias="schema")
    name: str
    draft: FrozenModel
    target: FrozenModel
    header: dict[str, tuple[str, list[int]]] | None = None
    header_files: Annotated[int, Field(ge=1)] = 1
    no_header: Text = ""
    trained: FrozenTraining


def check_name(name: str) -> str:
    """The name of a pair if it can be the name of a file on every system. Raises `ManifestError`."""
    if not _NAME.fullmatch(name) or name.endswith(".") or ".." in name or _RESERVED.fullmatch(name):
        raise ManifestError(
            f"{shown(name)} is no name for a pair: letters, digits, dots, dashes and underscores, 64 at most"
        )
    return name


def pair_path(name: str, root: Path | None = None) -> Path:
    """Where the pair of that name lies: ``.flowcheck/pairs/NAME.json`` below ``root`` (the working directory)."""
    return (root or Path()) / FOLDER / f"{check_name(name)}.json"


def pair_names(root: Path | None = None) -> list[str]:
    """The names of the pairs that are kept below ``root``. Raises `ManifestError`: the folder cannot be read."""
    folder = (root or Path()) / FOLDER
    try:
        found = list(folder.iterdir()) if folder.is_dir() else []
    except OSError as problem:
        raise ManifestError(f"cannot read the folder {folder.as_posix()}: {problem.strerror or problem}") from None
    return sorted(each.stem for each in found if each.suffix == ".json" and not each.name.startswith("."))


def freeze(pair: Pairing, name: str) -> Manifest:
    """The pair as a manifest, without secrets and without paths: a path in a configuration keeps its last part only."""
    header, trained = pair.header, pair.trained
    document = {
        "schema": SCHEMA,
        "name": check_name(name),
        "draft": _frozen(pair.draft.label, pair.draft_origin, pair.draft.raw),
        "target": _frozen(pair.target.label, pair.target_origin, pair.target.raw),
        "header": {each.name: (each.dtype, list(each.shape)) for each in header.tensors.values()} if header else None,
        "header_files": header.files if header else 1,
        "no_header": _clean_text(pair.no_header),
        "trained": {
            "readings": [_reading(each) for each in trained.readings],
            "question": _question(trained.question),
            "doubt": _question(trained.doubt),
            "set_aside": [_reading(each) for each in trained.set_aside],
            "remarks": list(trained.remarks),
        },
    }
    try:
        return Manifest.model_validate(document)
    except ValidationError as problem:  # such as text that is no Unicode
        raise ManifestError(f"pair {name} cannot be frozen: {_first(problem)}") from None


def thaw(manifest: Manifest, label: str = "") -> Pairing:
    """The pair that a manifest holds; ``label`` says in messages which one it is.

    Raises `DraftError`: what it holds is no draft, no target, or no boundaries of that target.
    """
    where = label or f"pair {manifest.name}"
    try:
        draft = draft_from(manifest.draft.config, f"the draft of {where}")
        target = target_from(manifest.target.config, f"the target of {where}")
        header = _thawed_header(manifest, where)
    except ManifestError:
        raise
    except DraftError as problem:
        raise ManifestError(str(problem)) from None
    held = manifest.trained
    trained = Trained(
        readings=tuple(_thawed(each) for each in held.readings),
        question=_asked(held.question),
        doubt=_asked(held.doubt),
        set_aside=tuple(_thawed(each) for each in held.set_aside),
        remarks=tuple(held.remarks),
    )
    for reading in trained.readings if trained.question is None else ():
        if list(reading.boundaries) != sorted({each for each in reading.boundaries if 0 <= each <= target.layers}):
            raise ManifestError(f"{where}: {reading} cannot be those of a target of {target.layers} layers")
    return Pairing(
        draft=replace(draft, label=manifest.draft.label),
        target=replace(target, label=manifest.target.label),
        trained=trained,
        header=header,
        no_header=manifest.no_header,
        draft_origin=Origin(manifest.draft.repository, manifest.draft.revision),
        target_origin=Origin(manifest.target.repository, manifest.target.revision),
        name=manifest.name,
    )


def write_pair(pair: Pairing, name: str, root: Path | None = None) -> Path:
    """Freeze a pair into its file and give the path. The same pair gives the same bytes. Raises `ManifestError`."""
    path = pair_path(name, root)
    document = freeze(pair, name).model_dump(by_alias=True, mode="python")
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{name}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(scratch).chmod(0o644)
            Path(scratch).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(scratch).unlink()
            raise
    except OSError as problem:
        raise ManifestError(f"cannot write {path}: {problem.strerror or problem}") from None
    return path


def read_pair(name: str, root: Path | None = None) -> Pairing:
    """The frozen pair of that name, read offline. Raises `ManifestError`: none of that name, damaged, or of a newer format."""
    path = pair_path(name, root)
    if not os.path.lexists(path):
        raise ManifestError(f"there is no pair {name} ({path.as_posix()} does not exist){_known(root)}")
    return thaw(read_manifest(path), path.as_posix())


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file. Raises `ManifestError`."""
    label = path.as_posix()
    data = read_bytes(path, label, MAX_BYTES, ManifestError)
    document = parse_object(data, label, ManifestError, depth=MAX_DEPTH + 8)
    schema = document.get("schema")
    if not isinstance(schema, str) or not schema.startswith("flowcheck.pair/"):
        raise ManifestError(f"{label} is no frozen pair: its schema is {shown(schema)}")
    if schema != SCHEMA:
        known = f"this flowcheck reads {SCHEMA}: update it, or freeze the pair anew"
        raise ManifestError(f"{label} is of the format {schema[:40]!r}; {known}")
    try:
        manifest = Manifest.model_validate(_tupled(document))
    except ValidationError as problem:
        raise ManifestError(f"{label} is damaged: {_first(problem)}") from None
    if manifest.name != path.stem:
        raise ManifestError(f"{label} holds the pair {shown(manifest.name)}; a pair lies in a file of its own name")
    return manifest


def _first(problem: ValidationError) -> str:
    first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"])) or "the document"
    return f"{where[:120]}: {first['msg']}"


def _tupled(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the pairs of dtype and shape as tuples, which a strict model wants and JSON does not have."""
    header = document.get("header")
    if not isinstance(header, dict):
        return document
    pairs = {name: tuple(each) if isinstance(each, list) else each for name, each in header.items()}
    return {**document, "header": pairs}


def _known(root: Path | None) -> str:
    with contextlib.suppress(ManifestError):
        names = pair_names(root)
        if names:
            return f"; there are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
    return ""


def _thawed_header(manifest: Manifest, where: str) -> Header | None:
    if manifest.header is None:
        return None
    dump = {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in manifest.header.items()}
    header = header_from({"tensors": dump}, f"the header of {where}", files=manifest.header_files)
    return replace(header, label=manifest.draft.label)


def _frozen(label: str, origin: Origin, raw: Mapping[str, Any]) -> dict[str, Any]:
    cleaned = _clean(raw)
    return {"label": label[:4000], "repository": origin.repository, "revision": origin.revision, "config": cleaned}


def _clean(value: Any) -> Any:
    """The value without secrets and paths. Their absence changes nothing about the wiring."""
    if isinstance(value, Mapping):
        return {key: _clean(each) for key, each in value.items() if not _is_secret(key, each)}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return _clean_text(value) if isinstance(value, str) else value


def _is_secret(key: str, value: Any) -> bool:
    return isinstance(value, str) and (_SECRET_KEY.search(key) is not None or _SECRET.search(value) is not None)


def _clean_text(text: str) -> str:
    if _SECRET.search(text):
        return ""
    if not _PATH.fullmatch(text):
        return _PATH_INSIDE.sub(r"\1", text)
    return re.split(r"[\\/]+", text.rstrip("\\/"))[-1]


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "boundaries": list(reading.boundaries),
        "basis": reading.basis.value,
        "reason": _clean_text(reading.reason),
        "convention": reading.convention.value if reading.convention else None,
        "key": reading.key,
        "ids": list(reading.ids) if reading.ids is not None else None,
        "post_norm": reading.post_norm,
    }


def _thawed(held: FrozenReading) -> Reading:
    return Reading(
        boundaries=tuple(held.boundaries),
        convention=Convention(held.convention) if held.convention else None,
        basis=Basis(held.basis),
        reason=held.reason,
        key=held.key,
        ids=tuple(held.ids) if held.ids is not None else None,
        post_norm=held.post_norm,
    )


def _question(question: Question | None) -> dict[str, str] | None:
    return {"kind": question.kind.value, "text": _clean_text(question.text)} if question else None


def _asked(held: FrozenQuestion | None) -> Question | None:
    return Question(QuestionKind(held.kind), held.text) if held else None
