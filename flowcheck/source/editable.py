"""Where the editable installs in a site-packages folder point to. Their files are read, never imported or run."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["editable_targets"]

_MAX_BYTES = 1 << 20


def editable_targets(folder: Path) -> list[Path]:
    """Folders that the editable installs in ``folder`` (or in the environment ``folder``) refer to; those that exist.

    Sources: ``direct_url.json`` of a ``*.dist-info`` marked editable, ``__editable___*_finder.py`` (its ``MAPPING``, by
    `ast.literal_eval`), the paths in ``*.pth`` files, ``*.egg-link``.
    """
    found: dict[str, Path] = {}
    places = [folder, *sorted(folder.glob("lib/python3*/site-packages")), *sorted(folder.glob("Lib/site-packages"))]
    for place in places:
        for target in (*_direct_urls(place), *_finders(place), *_paths(place)):
            resolved = os.path.realpath(target)
            if resolved != os.path.realpath(place) and Path(resolved).is_dir():
                found.setdefault(resolved, Path(resolved))
    return list(found.values())


def _text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return ""
        return path.read_text("utf-8-sig", "replace")
    except OSError:
        return ""


def _direct_urls(place: Path) -> Iterator[Path]:
    for path in sorted(place.glob("*.dist-info/direct_url.json")):
        try:
            record = json.loads(_text(path) or "null")
        except ValueError:
            continue
        if not isinstance(record, dict):
            continue
        info, url = record.get("dir_info"), record.get("url")
        if isinstance(info, dict) and info.get("editable") is True and isinstance(url, str):
            parsed = urlparse(url)
            if parsed.scheme == "file":
                yield Path(unquote(parsed.path))


def _finders(place: Path) -> Iterator[Path]:
    for path in sorted(place.glob("__editable__*_finder.py")):
        try:
            body = ast.parse(_text(path)).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for statement in body:
            if isinstance(statement, ast.Assign):
                targets, value = statement.targets, statement.value
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                targets, value = [statement.target], statement.value
            else:
                continue
            if not any(isinstance(target, ast.Name) and target.id == "MAPPING" for target in targets):
                continue
            try:
                mapping = ast.literal_eval(value)
            except (ValueError, TypeError, RecursionError, MemoryError):
                continue
            if isinstance(mapping, dict):
                yield from (place / item for item in mapping.values() if isinstance(item, str))


def _paths(place: Path) -> Iterator[Path]:
    for pattern in ("*.pth", "*.egg-link"):
        for path in sorted(place.glob(pattern)):
            for line in _text(path).splitlines():
                entry = line.strip()
                if entry and not entry.startswith(("#", "import ", "import\t")) and "\0" not in entry:
                    yield place / entry
