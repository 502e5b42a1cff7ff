"""From a file's bytes to text, as Python reads source."""

from __future__ import annotations

import io
import tokenize

from flowcheck.syntax._model import SyntaxProblem

__all__ = ["decode"]


def decode(path: str, data: bytes) -> str:
    """The text of a source file with "\\n" line ends, without its byte order mark. Raises SyntaxProblem."""
    try:
        encoding = _encoding(data)
        text = data.decode(encoding)
    except SyntaxError as error:
        raise SyntaxProblem(path, 1, error.msg or "unknown encoding") from error
    except LookupError as error:  # a codec that makes no text, such as "hex"
        raise SyntaxProblem(path, 1, f"unusable encoding {encoding}") from error
    except UnicodeDecodeError as error:
        before = data[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        line = before.count(b"\n") + 1
        raise SyntaxProblem(path, line, f"not valid {error.encoding}: {error.reason}") from error
    except ValueError as error:
        raise SyntaxProblem(path, 1, f"not valid {encoding}: {error}") from error
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise SyntaxProblem(path, text.count("\n", 0, text.index("\0")) + 1, "null byte in source")
    return text


def _encoding(data: bytes) -> str:
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError as error:
        if "missing encoding declaration" in str(error.msg):  # the first lines are no UTF-8: decoding says where
            return "utf-8"
        raise
