"""pip as a subprocess: one wheel of a release, by the index, proxies and credentials that pip is set up with.

pip runs an sdist's build backend to learn its metadata, so it is only ever asked for wheels; those it does not even
unpack. Its log names every file of the project: from it come the tags of a wheel for another platform, and the address
of an sdist.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from flowcheck.source.errors import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.tags import Tag

__all__ = ["Log", "Offered", "Runner", "failure", "first_error", "is_unreachable", "offered", "run_pip", "tag_options"]
__all__ += ["usual_options"]

Runner = Callable[[list[str], "Path"], "Log"]
"""Runs pip with these arguments in this (empty) folder."""


@dataclass(frozen=True)
class Log:
    """How a run of pip ended, and all that it printed."""

    code: int
    text: str


@dataclass(frozen=True)
class Offered:
    """The files that pip's log names for one release."""

    wheels: tuple[frozenset[Tag], ...]
    sdists: tuple[str, ...]
    """Addresses."""


_LINK = re.compile(r"(?:Found link|Skipping link:.*?:) ((?:https?|file)://\S+)")
_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_NO_PIP = re.compile(r"No module named '?pip\b")
_OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|Read timed out|ProxyError|SSLError"
    r"|ConnectionReset|Remote end closed|RemoteDisconnected|Max retries exceeded|connection broken|connection error"
    r"|Could not fetch URL"
    r"|Temporary failure in name resolution|Network is unreachable|not a trusted or secure host"
)
_ABSENT = re.compile(r"404 Client Error|\b404\b.*Not Found")


def run_pip(arguments: list[str], folder: Path) -> Log:
    """Run ``python -m pip`` in ``folder``, which is empty: ``-m`` looks for modules there first."""
    environment = {
        **os.environ,
        # A constraint, or a rule that asks for a virtual environment, is about installing; this only reads.
        "PIP_CONSTRAINT": os.devnull,
        "PIP_REQUIRE_VIRTUALENV": "0",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_PROGRESS_BAR": "off",
        "PYTHONIOENCODING": "utf-8",
        "LC_ALL": "C",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        return Log(1, f"cannot run {sys.executable}: {error}")
    return Log(done.returncode, done.stdout.decode("utf-8", "replace"))


def offered(text: str, name: str, version: Version) -> Offered:
    """The wheels and sdists of ``name`` ``version`` that pip's verbose log names."""
    wheels: dict[frozenset[Tag], None] = {}
    sdists: dict[str, None] = {}
    for address in _LINK.findall(text):
        leaf = unquote(urlparse(address).path.rpartition("/")[2])
        try:
            if leaf.endswith(".whl"):
                found, at, _, tags = parse_wheel_filename(leaf)
                if (found, at) == (name, version):
                    wheels[tags] = None
            elif parse_sdist_filename(leaf) == (name, version):
                sdists[address] = None
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue
    return Offered(tuple(wheels), tuple(sdists))


def tag_options(tags: frozenset[Tag]) -> list[str]:
    """pip's options that make a wheel with ``tags`` acceptable on any machine."""
    options: list[str] = []
    for tag in sorted(tags, key=str):
        implementation, digits = tag.interpreter[:2], tag.interpreter[2:]
        options = ["--implementation", implementation, "--abi", tag.abi, "--platform", tag.platform]
        if digits:
            options += ["--python-version", digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"]
        break
    return options


def usual_options() -> list[list[str]]:
    """What to try when the log named no file: releases have wheels for these."""
    platforms = ["manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64", "any"]
    every = [option for platform in platforms for option in ("--platform", platform)]
    return [
        [*every, "--implementation", "cp", "--python-version", f"3.{minor}", "--abi", f"cp3{minor}"]
        for minor in (12, 11, 10, 13)
    ]


def failure(text: str, name: str, version: Version) -> str:
    """One line for the user: why pip gave no file."""
    if _NO_PIP.search(text):
        return f"fetching {name}=={version} needs pip, and {sys.executable} has none"
    versions = _VERSIONS.findall(text)
    known = versions[-1] if versions else None
    if known and known != "none":
        return f"no such release: {name}=={version}{_nearest(known, version)}"
    if is_unreachable(text):
        return f"no network, or the package index does not answer: cannot fetch {name}=={version}"
    if known == "none" or "No matching distribution found" in text:
        return f"no such release: the package index has no project {name}"
    return f"pip cannot fetch {name}=={version}: {first_error(text)}"


def is_unreachable(text: str) -> bool:
    """Whether pip's log says that the package index did not answer."""
    return any(_OFFLINE.search(line) and not _ABSENT.search(line) for line in text.splitlines())


def first_error(text: str) -> str:
    """The line of pip's log that says what went wrong."""
    lines = text.splitlines()
    errors = [line for line in lines if line.startswith("ERROR:")] or [line for line in lines if line.strip()]
    return one_line(errors[0].removeprefix("ERROR:"))[:300] if errors else "it printed nothing"


def _nearest(known: str, version: Version) -> str:
    listed = [Version(item) for item in re.findall(r"\d[\w.!+]*", known)]
    if version in listed:
        return " has neither a wheel nor an sdist that can be read"
    below = max((item for item in listed if item < version), default=None)
    above = min((item for item in listed if item > version), default=None)
    near = [str(item) for item in (below, above) if item is not None]
    verb = "is" if len(near) == 1 else "are"
    return f" (the nearest {verb} {' and '.join(near)})" if near else ""
