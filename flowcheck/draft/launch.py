"""A launch command, read from a shell script: arguments and environment of the server, and what could not be read.

Only what the script writes out counts. A value that a shell would have to find is reported, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from flowcheck.draft.documents import parse_object, read_bytes
from flowcheck.draft.errors import LaunchError
from flowcheck.draft.shell import Command, Word, commands_in, constants_of

__all__ = ["ALGORITHM", "DRAFT", "MODEL", "Launch", "Scalar", "Unread", "Value", "launches_in", "read_launch"]

Scalar = Union[bool, int, float, str, None]
Value = Union[bool, int, float, str, None, tuple[Union[bool, int, float, str, None], ...]]

MAX_SCRIPT_BYTES = 256 * 1024

MODULES = ("sglang.launch_server", "sglang.launch_server_llavavid", "sglang.srt.server")
OVERRIDE = "json-model-override-args".replace("-", "_")
ALGORITHM = "speculative-algorithm".replace("-", "_")
MODEL = "model_path"
DRAFT = "speculative_draft_model_path"
TENSOR_PARALLEL = "tp_size"

ALIASES = {
    "model": "model_path",
    "tp": TENSOR_PARALLEL,
    "tensor_parallel_size": TENSOR_PARALLEL,
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "speculative_algo": ALGORITHM,
    "speculative_draft_model": "speculative_draft_model_path",
}
"""Other spellings of an argument; the name that it has in the server's arguments is on the right."""

TALK = frozenset({"echo", "printf", "grep", "pkill", "pgrep", "alias"})
"""Commands that only mention a launch."""

ENVIRONMENT_OPTIONS = ("-e", "--env")
"""How a container's runner is given a variable."""


@dataclass(frozen=True)
class Unread:
    """Something that only a shell would know. ``argument`` is the one that it belongs to, ``""`` if it may be any."""

    line: int
    argument: str
    text: str
    reason: str

    def __str__(self) -> str:
        name = f"{self.argument}: " if self.argument else ""
        return f"line {self.line}: {name}{self.text} {self.reason}"


@dataclass(frozen=True)
class Launch:
    """One launch of a server.

    ``arguments`` are those of its command line under the names that the server gives them, dashes as underscores; a
    switch without a value is true. ``environment`` is what the script sets before. Both hold only what was read.
    """

    line: int
    arguments: Mapping[str, Value] = field(hash=False)
    environment: Mapping[str, str] = field(hash=False)
    unread: tuple[Unread, ...] = ()

    @property
    def model_path(self) -> str | None:
        """The target, as it is given."""
        return self._text("model_path")

    @property
    def draft_path(self) -> str | None:
        """The draft, as it is given."""
        return self._text("speculative_draft_model_path")

    @property
    def model(self) -> str | None:
        """The target as `open_model` takes it: at its revision, if the launch names one and it is no path."""
        return _at(self.model_path, self._text("revision"))

    @property
    def draft(self) -> str | None:
        """The draft as `open_model` takes it."""
        return _at(self.draft_path, self._text("speculative_draft_model_revision"))

    @property
    def algorithm(self) -> str | None:
        """The speculative algorithm, in capitals."""
        found = self._text(ALGORITHM)
        return found.upper() if found else None

    @property
    def tensor_parallel(self) -> int | None:
        """Over how many ranks the target is split."""
        found = self.arguments.get(TENSOR_PARALLEL)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    @property
    def deployment(self) -> dict[str, Scalar]:
        """The arguments of one value that may decide how a batch runs: no models, addresses, files or logs."""
        return {
            name: value
            for name, value in sorted(self.arguments.items())
            if not isinstance(value, tuple) and _decides(name) and value != HIDDEN
        }

    @property
    def left_open(self) -> tuple[Unread, ...]:
        """What was not read and may decide how a batch runs."""
        return tuple(each for each in self.unread if not each.argument or _decides(each.argument))

    @property
    def model_override(self) -> dict[str, Any]:
        """What the launch lays over the target's configuration. Raises `LaunchError` where it is no JSON object."""
        text = self._text(OVERRIDE)
        if not text:
            return {}
        return parse_object(
            text.encode("utf-8", "surrogatepass"), f"the model override of line {self.line}", LaunchError
        )

    def _text(self, name: str) -> str | None:
        found = self.arguments.get(name)
        return found if isinstance(found, str) else None


def _decides(argument: str) -> bool:
    return argument != ALGORITHM and not _ELSEWHERE.search(argument)


_ELSEWHERE = re.compile(
    r"(?:^|_)(?:path|name|host|port|addr|address|ip|dir|file|template|revision|args|key|parser|level|interval|url|seed)$"
    r"|^(?:log|api|tokenizer|trust|download|enable_metrics|show|crash|watchdog|config|served|mem_fraction)(?:_|$)"
)
"""Arguments that have no part in how a batch runs."""


def read_launch(path: Path | str) -> Launch:
    """The one launch command in a shell script.

    Raises:
        LaunchError: the file cannot be read, or holds no launch of SGLang, or several.
    """
    label = str(path)
    data = read_bytes(Path(path), label, MAX_SCRIPT_BYTES, LaunchError)
    try:
        script = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as problem:
        raise LaunchError(f"{label} is no text (byte {problem.start} is not UTF-8)") from None
    found = launches_in(script)
    if not found:
        raise LaunchError(f"{label} holds no launch of SGLang (python -m sglang.launch_server …, or sglang serve …)")
    if len(found) > 1:
        lines = ", ".join(str(each.line) for each in found[:8])
        raise LaunchError(f"{label} holds {len(found)} launches (lines {lines}); leave the one that is meant")
    return found[0]


def launches_in(script: str) -> tuple[Launch, ...]:
    """Every launch command in a script, in order. Raises `LaunchError` where one cannot be told into words."""
    return tuple(_launches(script, 0, {}, 0))


HIDDEN = "(hidden)"
_SECRET = re.compile(r"(?:^|_)(?:token|api_key|secret|password)$", re.I)
_COMMON = frozenset({"PATH", "LD_LIBRARY_PATH", "HOME"})
"""Variables of every script, that say nothing about a deployment."""


def _launches(script: str, offset: int, environment: dict[str, str], depth: int) -> list[Launch]:
    found: list[Launch] = []
    unset: dict[str, Unread] = {}
    for command in commands_in(script, constants_of(script)):
        line = command.line + offset
        if command.problem:
            if _mentions(command.text):
                raise LaunchError(f"the launch on line {line} cannot be read: {command.problem}")
            continue
        start = _start(command.words)
        if start is not None:
            before = dict(environment)
            unread = [*unset.values(), *_set(command.words[: start[0]], before, line)]
            found.append(_launch(command.words[start[1] :], line, before, unread, positional=start[2]))
            continue
        inner = next((each.text for each in command.words if " " in each.text and _mentions(each.text)), None)
        if inner is not None and depth < 3 and command.words[0].text not in TALK:
            before = dict(environment)
            _set(command.words, before, line)
            found += _launches(inner, line - 1, before, depth + 1)
        elif command.words[0].text in ("export", "declare", "readonly"):
            _export(command, environment, unset, line)
    return found


def _export(command: Command, environment: dict[str, str], unset: dict[str, Unread], line: int) -> None:
    """What a script sets for good before it launches; what it only may set is as unknown as a substitution."""
    given: dict[str, str] = {}
    for each in _set(command.words[1:], given, line):
        if each.argument not in _COMMON:
            unset[each.argument] = each
        environment.pop(each.argument, None)
    for name, value in given.items():
        if command.is_certain:
            environment[name] = value
            unset.pop(name, None)
        else:
            environment.pop(name, None)
            unset[name] = Unread(line, name, f"{name}={value}", "is set under a condition")


def _mentions(text: str) -> bool:
    return (
        any(each in text for each in MODULES)
        or re.search(r"\bsglang\s+serve\b|\blaunch_server\.py\b", text) is not None
    )


def _start(words: tuple[Word, ...]) -> tuple[int, int, bool] | None:
    """Where the command of the launch begins, where its arguments do, and whether the first may be the model."""
    texts = [each.text for each in words]
    if texts and texts[0] in TALK:
        return None
    for index, text in enumerate(texts):
        name = text.rpartition("/")[2]
        if text in MODULES and texts[index - 1 : index] == ["-m"]:
            return index, index + 1, False
        if name == "launch_server.py" and index > 0:
            return index, index + 1, False
        if name == "sglang" and texts[index + 1 : index + 2] == ["serve"]:
            return index, index + 2, True
    return None


def _set(words: tuple[Word, ...], environment: dict[str, str], line: int) -> list[Unread]:
    """The assignments in front of a command, after ``env``, or for a container; those that cannot be read are given back."""
    unread = []
    in_front, wanted = True, False
    for word in words:
        text = word
        for option in ENVIRONMENT_OPTIONS:
            if word.text.startswith(option + "="):
                text, wanted = Word(word.text[len(option) + 1 :], word.is_opaque), True
        pair = text.assignment if in_front or wanted else None
        if pair is None:
            in_front = word.text.rpartition("/")[2] in ("env", "sudo") or (in_front and word.text.startswith("-"))
        elif word.is_opaque:
            environment.pop(pair[0], None)
            unread.append(Unread(line, pair[0], word.text, "is set from what only the shell knows"))
        else:
            environment[pair[0]] = HIDDEN if _SECRET.search(pair[0]) else pair[1]
        wanted = word.text in ENVIRONMENT_OPTIONS
    return unread


def _launch(
    words: tuple[Word, ...], line: int, environment: dict[str, str], unread: list[Unread], *, positional: bool
) -> Launch:
    arguments: dict[str, Value] = {}
    index = 0
    if positional and words and not words[0].text.startswith("-"):
        _store(arguments, unread, "model_path", words[:1], line)
        index = 1
    while index < len(words):
        word = words[index]
        index += 1
        if not word.text.startswith("--") or word.text == "--":
            if word.is_opaque:
                unread.append(Unread(line, "", word.text, "may stand for any arguments"))
            elif word.text != "--":
                unread.append(Unread(line, "", word.text, "belongs to no argument"))
            continue
        name, equals, value = word.text[2:].partition("=")
        if equals:
            given: tuple[Word, ...] = (Word(value, word.is_opaque),)
        else:
            end = index
            while end < len(words) and not _is_flag(words[end]):
                end += 1
            given, index = words[index:end], end
        known = _known_as(name)
        _store(arguments, unread, known, given, line)
        if known == "config" and given and not given[0].is_opaque:
            unread.append(Unread(line, "", given[0].text, "is a file with more arguments, which is not read"))
    return Launch(line, arguments, environment, tuple(unread))


def _is_flag(word: Word) -> bool:
    return word.text.startswith("-") and re.fullmatch(r"-(?:\d.*|\.\d.*)?", word.text) is None


def _known_as(name: str) -> str:
    plain = name.replace("-", "_")
    return ALIASES.get(plain, plain)


def _store(arguments: dict[str, Value], unread: list[Unread], name: str, given: tuple[Word, ...], line: int) -> None:
    """Keep the value of an argument; the last one wins, as it does on a command line."""
    opaque = next((index for index, each in enumerate(given) if each.is_opaque), None)
    if opaque == 1:  # one value, and then what may be more of them or arguments of its own
        unread.append(Unread(line, "", given[1].text, "may stand for any arguments"))
        given = given[:1]
    elif opaque is not None:
        arguments.pop(name, None)
        unread.append(Unread(line, name, given[opaque].text, "is only known to the shell"))
        more = [each for each in given[opaque + 1 :] if each.is_opaque]
        unread += [Unread(line, "", each.text, "may stand for any arguments") for each in more]
        return
    values = [HIDDEN if _SECRET.search(name) else _value(each.text, name) for each in given]
    arguments[name] = True if not values else values[0] if len(values) == 1 else tuple(values)


def _value(text: str, name: str) -> Union[bool, int, float, str, None]:
    if name.endswith(("path", "name", "algorithm", "args", "revision", "key", "host")):
        return text
    if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d{1,3})?", text, re.ASCII):
        return float(text)
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _at(path: str | None, revision: str | None) -> str | None:
    if path is None or revision is None or path.startswith(("/", "~", ".")):
        return path
    return f"{path}@{revision}"
