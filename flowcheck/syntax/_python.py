"""What Python's own parser says of files, in a process of its own that knows nothing but the standard library.

The parser executes nothing, builds no tree of objects, and reads a megabyte in a tenth of a second; but it is C code
that is given whatever a scanned tree holds, and it may die of it. Frames on stdin (a length of 8 bytes, then the file)
are answered on stdout with a line each, after one that says that the process is there.
"""

from __future__ import annotations

import sys
from io import BytesIO
from symtable import symtable
from tokenize import detect_encoding
from typing import BinaryIO

__all__ = ["READY", "fault_of", "main"]

READY = "ready"
_ONLY_AST = 0x400


def fault_of(data: bytes) -> tuple[int, str, bool] | None:
    """The line and reason for which this Python refuses a file, and whether every other version does; None for none."""
    try:
        symtable(data, "<file>", "exec")  # type: ignore[arg-type]  # bytes are read by their own encoding
    except SyntaxError as error:
        return error.lineno or 1, str(error.msg), isinstance(error, TabError) or _parses(data)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return 1, str(error), False
    return _undecodable(data)


def _undecodable(data: bytes) -> tuple[int, str, bool] | None:
    """What cannot be decoded: the parser does not look at what a comment in the last line is made of."""
    try:
        encoding, _ = detect_encoding(BytesIO(data).readline)
    except SyntaxError:
        encoding = "utf-8"
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return line, f"not valid {error.encoding}: {error.reason}", True
    return None


def _parses(data: bytes) -> bool:
    """Whether the grammar takes it: what was refused breaks a rule of scopes then, and those do not change."""
    try:
        compile(data, "<file>", "exec", _ONLY_AST)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def main(given: BinaryIO, said: BinaryIO) -> None:
    """Answer every frame, at once: a reader has to know at which file the process ended."""
    answers = [READY]
    while True:
        said.write("".join(f"{answer}\n" for answer in answers).encode("ascii", "backslashreplace"))
        said.flush()
        size = given.read(8)
        if len(size) < 8:
            return
        fault = fault_of(given.read(int.from_bytes(size, "big")))
        answers = [""] if fault is None else [f"{fault[0]} {int(fault[2])} {' '.join(fault[1].split())}"]


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
