"""From what a user typed to a pair: a folder, a ``config.json``, or a model on the hub, for the draft and the target."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flowcheck.draft.checkpoint import header_in, read_header_file
from flowcheck.draft.config import draft_from
from flowcheck.draft.documents import Document, read_object
from flowcheck.draft.errors import ConfigError, DraftError
from flowcheck.draft.header import Header
from flowcheck.draft.hub import Access, HubName, fetch_config, fetch_header, hub_name
from flowcheck.draft.pairing import Origin, Pairing, pair
from flowcheck.draft.producers import recognise
from flowcheck.draft.target import target_from
from flowcheck.draft.training import Computed, TrainingTree

__all__ = ["Model", "open_model", "read_header", "read_pairing"]

ONLINE = Access()
LOCAL = Origin()
FORMS = "a folder, a config.json, or org/name[@revision] on the hub"
CONFIG = "config.json"


@dataclass(frozen=True)
class Model:
    """A model whose configuration was read. ``spec`` is what the user typed, ``label`` a short name without folders."""

    spec: str
    label: str
    raw: dict[str, Any]
    origin: Origin = LOCAL
    folder: Path | None = None
    hub: HubName | None = None

    def header(self, access: Access = ONLINE) -> Header | str:
        """The header of its checkpoint, or the reason why there is none. Raises `HeaderError`."""
        if self.hub is not None:
            return fetch_header(self.hub, self.origin.revision, access)
        if self.folder is None:
            return "the configuration was given as a file of its own"
        found = header_in(self.folder, self.spec)
        return found if isinstance(found, str) else replace(found, label=self.label)


def open_model(spec: str, *, role: str = "MODEL", access: Access = ONLINE) -> Model:
    """Read the configuration of the model that ``spec`` names. A path that exists wins over a name on the hub.

    Args:
        spec: a folder with a ``config.json``, a JSON file, or ``org/name[@revision]``.
        role: what messages call an empty argument (``DRAFT``, ``TARGET``).
        access: whether and how the hub may be asked.

    Raises:
        ConfigError: no such path, or no JSON object in it.
        HubError: no such model on the hub, no access, no network, or no package to ask with.
    """
    if not spec.strip() or "\0" in spec:
        raise ConfigError(f"{role} is empty; give {FORMS}" if "\0" not in spec else f"{role} holds a NUL character")
    try:
        path = Path(spec).expanduser()
    except RuntimeError:  # the home of a user who does not exist
        path = Path(spec)
    try:
        exists = os.path.lexists(path)
    except OSError:  # a name that is too long is no path
        exists = False
    if exists:
        return _local(spec, path)
    name = hub_name(spec)
    if name is None or spec.startswith(("~", ".", "/")):
        raise ConfigError(f"no such file or folder: {spec} ({role} is {FORMS})")
    raw, commit = fetch_config(name, access)
    return Model(spec, name.repository, raw, Origin(name.repository, commit), hub=name)


def _local(spec: str, path: Path) -> Model:
    if path.is_dir() and path.name != CONFIG:
        config = path / CONFIG
        if not os.path.lexists(config):
            hint = (
                "; it is a folder of the hub's cache: name the model instead" if (path / "snapshots").is_dir() else ""
            )
            raise ConfigError(f"{spec} is a folder without a {CONFIG}{hint}")
        return Model(spec, _named(path), read_object(config, f"{spec.rstrip('/')}/{CONFIG}"), folder=path)
    if path.suffix.lower() in (".safetensors", ".bin", ".gguf"):
        raise ConfigError(f"{spec} is a checkpoint; name the folder that it lies in, or its {CONFIG}")
    raw = read_object(path, spec)
    if path.name == CONFIG:
        return Model(spec, _named(path.parent), raw, folder=path.parent)
    return Model(spec, path.stem, raw)


def _check_is_target(model: Model) -> None:
    """A draft has layers and a width too: given as the target, it would pass for one."""
    found = recognise(Document(model.spec, model.raw))
    if found.algorithm.takes_aux:
        raise ConfigError(f"{model.spec} is a draft ({'; '.join(found.evidence[:1])}), not a target")


def _named(folder: Path) -> str:
    return folder.resolve().name or "model"


def read_header(spec: str) -> Header | str:
    """The header of a checkpoint on disk: a folder, a safetensors file, or a dump of names and shapes as JSON.

    Raises `HeaderError`.
    """
    try:
        path = Path(spec).expanduser()
    except RuntimeError:
        path = Path(spec)
    if "\0" not in spec and path.is_dir():
        found = header_in(path, spec)
        return found if isinstance(found, str) else replace(found, label=_named(path))
    return replace(read_header_file(path, spec), label=path.stem)


def read_pairing(
    draft: str,
    target: str,
    *,
    header: str | None = None,
    declared: Sequence[int] | None = None,
    training: TrainingTree | Computed | None = None,
    access: Access = ONLINE,
    override: Mapping[str, object] | None = None,
) -> Pairing:
    """Read a pair.

    Args:
        draft: the draft, as `open_model` takes it.
        target: the target, likewise. No header of it is read.
        header: where the header of the draft's checkpoint is, if not beside its configuration (see `read_header`).
        declared: the boundaries that the draft was trained on, by somebody who knows.
        training: what the training tree makes of the draft, or a function that finds out.
        access: whether and how the hub may be asked.
        override: keys that a launch lays over the target's configuration.

    Raises:
        DraftError: something cannot be read or describes no draft, no target, or no boundaries of it; in one line.
    """
    drafted = open_model(draft, role="DRAFT", access=access)
    aimed = open_model(target, role="TARGET", access=access)
    facts = draft_from(drafted.raw, draft)
    _check_is_target(aimed)
    goal = target_from({**aimed.raw, **(override or {})}, target)
    try:
        found = read_header(header) if header is not None else drafted.header(access)
    except DraftError as problem:
        raise type(problem)(f"the draft's checkpoint: {problem}") from None
    return pair(
        replace(facts, label=drafted.label),
        replace(goal, label=aimed.label),
        header=found,
        declared=declared,
        training=training,
        draft_origin=drafted.origin,
        target_origin=aimed.origin,
    )
