"""Shell scripts as far as a launch needs them: the simple commands with their words, and what a word does not say.

Nothing is run or looked up in this process. The one thing that is expanded is a variable that can have but one value: it
is assigned once in the script, at the top, as plain text, and nothing that could set it otherwise comes after.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Command", "Word", "commands_in", "constants_of"]

OPAQUE = "\ue000"
"""Stands in a command's text before each part that only a shell can evaluate; private to Unicode, so nobody's own."""

MAX_COMMAND = 32_000
"""A longer command is no launch that somebody wrote."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_ANY_ASSIGNMENT = re.compile(r"(?<![\w$-])([A-Za-z_]\w*)(?:\[[^\]\n]{0,100}\])?\+?=", re.ASCII)
_OTHER_SETTERS = re.compile(
    r"\b(?:for|select|read|mapfile|readarray|getopts|unset|local|printf\s+-v)\b[^\n;|&]*|\(\([^\n]{0,200}?\)\)|\$\{\w+:?=",
    re.S,
)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_PARAMETER = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])", re.ASCII)
_ESCAPED = re.compile(r"\$'(?:[^'\\]|\\.){0,10000}'", re.S)
_LONGEST = 10_000
_REDIRECT = re.compile(r"(?:\d*|&|\{\w+\})(?:<>|>>?\|?|<{1,3})&?")
_HERE = re.compile(r"(?<!<)<<-?[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([\w.-]+))")
_PLAIN = re.compile(r"[\w./:@%+,=-]*", re.ASCII)

OPENING = frozenset({"if", "while", "until", "for", "case", "select", "{"})
CLOSING = frozenset({"fi", "done", "esac", "}"})
LEADING = frozenset({"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"})
OUTSIDE = frozenset({"source", ".", "eval"})
"""Commands after which a variable may have any value."""


@dataclass(frozen=True)
class Word:
    """One word of a command, without its quotes. ``is_opaque`` says that a shell would replace a part of it."""

    text: str
    is_opaque: bool = False

    @property
    def assignment(self) -> tuple[str, str] | None:
        """The name and the value, if the word has the shape of an assignment."""
        match = _ASSIGNMENT.match(self.text)
        return (match.group()[:-1], self.text[match.end() :]) if match else None


@dataclass(frozen=True)
class Command:
    """A simple command: its words without keywords and redirections, and the line on which it begins.

    ``is_certain`` says that a run of the script comes to it whatever happens. ``problem`` says why its words could not
    be told apart; it has none then.
    """

    line: int
    words: tuple[Word, ...]
    text: str
    is_certain: bool = True
    problem: str = ""


@dataclass(frozen=True)
class Constant:
    """A variable with one value, below the line that assigns it."""

    value: str
    line: int


def commands_in(script: str, constants: Mapping[str, Constant] | None = None) -> Iterator[Command]:
    """The simple commands of a script in order, those inside of loops, functions and conditions too.

    ``constants`` are variables whose value is known.
    """
    depth = 0
    for piece in _Splitter(script.replace("\r\n", "\n").replace(OPAQUE, "\ufffd"), constants or {}).run():
        text = piece.text.replace(OPAQUE, "")
        if len(piece.text) > MAX_COMMAND:  # shlex needs the square of a word's length
            yield Command(piece.line, (), text, False, f"it is longer than {MAX_COMMAND} characters")
            continue
        try:
            words = list(_words(shlex.split(piece.text, comments=False, posix=True)))
        except ValueError as problem:
            yield Command(piece.line, (), text, False, str(problem).lower())
            continue
        while words:
            first = words[0].text
            depth += first in OPENING
            depth -= first in CLOSING
            if first not in LEADING:
                break
            del words[0]
        if words:
            yield Command(piece.line, tuple(words), text, depth <= 0 and not piece.is_conditional)


def constants_of(script: str) -> dict[str, Constant]:
    """The variables that have one value wherever the script uses them below the line that assigns it."""
    written = Counter(match.group(1) for match in _ANY_ASSIGNMENT.finditer(script))
    otherwise = set(re.findall(r"\w+", " ".join(match.group() for match in _OTHER_SETTERS.finditer(script))))
    found: dict[str, Constant] = {}
    for command in commands_in(script):
        if command.words and command.words[0].text in OUTSIDE:
            found.clear()
        for word in _assigned(command):
            name, value = word.assignment or ("", "")
            if written[name] == 1 and name not in otherwise and not word.is_opaque:
                found[name] = Constant(value, command.line)
    return found


def _assigned(command: Command) -> Iterable[Word]:
    """The assignments that a command makes for good: it does nothing else, or exports them."""
    words = command.words
    if words and words[0].text in ("export", "readonly", "declare"):
        words = words[1:]
    if not command.is_certain or not all(each.assignment for each in words):
        return ()
    return words


def _words(parts: list[str]) -> Iterator[Word]:
    skip = False
    for part in parts:
        if skip:
            skip = False
            continue
        match = _REDIRECT.match(part)
        if match is not None:
            skip = match.end() == len(part)  # the file is the next word
            continue
        yield Word(part.replace(OPAQUE, ""), OPAQUE in part)


@dataclass(frozen=True)
class _Piece:
    """The text of a command, with marks where a shell would replace something."""

    line: int
    text: str
    is_conditional: bool


@dataclass
class _Splitter:
    """Cuts a script at its operators, minding quotes, comments, continuations, substitutions and here-documents."""

    script: str
    constants: Mapping[str, Constant]
    at: int = 0
    line: int = 1
    begin: int = 0
    quote: str = ""
    parentheses: int = 0
    is_conditional: bool = False
    text: list[str] = field(default_factory=list)
    here: list[str] = field(default_factory=list)

    def run(self) -> Iterator[_Piece]:
        while self.at < len(self.script):
            char = self.script[self.at]
            if self.script.startswith("\\\n", self.at) and self.quote != "'":
                self.take(2, "")
            elif char == "\\" and self.quote != "'":
                bare = self.quote and self.script[self.at + 1 : self.at + 2] in (
                    "$",
                    "`",
                )  # shlex would keep the backslash
                self.take(2, self.script[self.at + 1] if bare else None)
            elif self.quote:
                self.inside(char)
            elif char in "'\"":
                self.quote = char
                self.take(1)
            elif char in "$`":
                self.substitution()
            elif char == "#" and (not self.text or self.text[-1].isspace()):
                self.comment()
            elif char in "\n;|()" or (char == "&" and not self.is_redirect()):
                yield from self.operator(char)
            else:
                self.take(1)
        yield from self.flush()

    def inside(self, char: str) -> None:
        if char == self.quote:
            self.quote = ""
            self.take(1)
        elif char in "$`" and self.quote == '"':
            self.substitution()
        else:
            self.take(1)

    def operator(self, char: str) -> Iterator[_Piece]:
        yield from self.flush()
        self.parentheses = max(
            0, self.parentheses + (char == "(") - (char == ")")
        )  # those of a case pattern only close
        doubled = self.script.startswith(char * 2, self.at) and char in "&|"
        self.is_conditional = doubled or (self.is_conditional and char not in "\n;")
        self.take(2 if doubled else 1, "")
        if char == "\n":
            self.skip_here()

    def take(self, count: int, instead: str | None = None) -> None:
        """Go on by ``count`` characters, which stand in the command as they are or as ``instead``."""
        piece = self.script[self.at : self.at + count]
        kept = piece if instead is None else instead
        if kept.strip() and not self.begin:
            self.begin = self.line
        if kept and self.begin:
            self.text.append(kept)
        self.line += piece.count("\n")
        self.at += count

    def flush(self) -> Iterator[_Piece]:
        text = "".join(self.text).strip()
        if text:
            self.here += [next(filter(None, match.groups())) for match in _HERE.finditer(text)]
            yield _Piece(self.begin, text, self.is_conditional or self.parentheses > 0)
        self.text, self.begin = [], 0

    def skip_here(self) -> None:
        """Pass over the here-documents that the last line announced: they are text, not commands."""
        for end in self.here:
            match = re.compile(rf"^[ \t]*{re.escape(end)}[ \t]*$", re.M).search(self.script, self.at)
            self.take((match.end() if match else len(self.script)) - self.at, "")
        self.here = []

    def comment(self) -> None:
        end = self.script.find("\n", self.at)
        self.take((end if end >= 0 else len(self.script)) - self.at, "")

    def is_redirect(self) -> bool:
        """Whether an ``&`` belongs to ``>&`` or ``&>``."""
        return self.script[self.at - 1 : self.at] in (">", "<") or self.script.startswith("&>", self.at)

    def substitution(self) -> None:
        """A ``$`` or a backtick that the shell acts on: what is known is put in, else its text is kept and marked."""
        length = self.span()
        piece = self.script[self.at : self.at + length]
        match = _VARIABLE.fullmatch(piece)
        constant = self.constants.get(match.group(1) or match.group(2)) if match else None
        known = constant.value if constant is not None and constant.line < self.line else None
        if known is not None and self.quote:
            self.take(length, re.sub(r'([\\"])', r"\\\1", known))
        elif known is not None and _PLAIN.fullmatch(known):
            self.take(length, known)
        elif piece == "$":
            self.take(1)
        else:
            self.take(length, OPAQUE + re.sub(r"[\s'\"\\]", "", piece))

    def span(self) -> int:
        """How long the substitution is that begins here; 1 where a ``$`` begins none."""
        if self.script[self.at] == "`":
            end = self.script.find("`", self.at + 1, self.at + _LONGEST)
            return end + 1 - self.at if end > 0 else len(self.script[self.at : self.at + _LONGEST])
        if not self.quote and (match := _ESCAPED.match(self.script, self.at)):
            return match.end() - self.at
        for opening, closing in (("$(", ")"), ("${", "}")):
            if self.script.startswith(opening, self.at):
                return _closed(self.script[self.at : self.at + _LONGEST], opening[1], closing)
        match = _PARAMETER.match(self.script, self.at)
        return match.end() - self.at if match else 1


def _closed(text: str, opening: str, closing: str) -> int:
    depth = 0
    for index, char in enumerate(text):
        depth += (char == opening) - (char == closing)
        if depth == 0 and index > 0:
            return index + 1
    return len(text)
