"""Reads text files line by line: detects the encoding, and reports where a byte is invalid."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from labelspace._core import streams as _files
from labelspace.errors import DataError, ParameterError

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_MARK = "\ufeff"


def text_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number, text with its line break); without an encoding a file is UTF-8.

    A byte order mark gives another encoding, and is not part of the text.
    """
    if encoding is not None:
        _check(encoding)
    with _files.opened(path) as stream:
        lines = _files.limited_lines(stream, path)
        for number, raw in lines:
            if number == 1:
                encoding = encoding or _marked(raw) or "utf-8"
                if "\n".encode(encoding) != b"\n":
                    yield from _wide_lines(raw, lines, path, encoding)
                    return
            text = _decoded(raw, path, number, encoding or "utf-8")
            yield number, text.removeprefix(_MARK) if number == 1 else text


def beginning(head: bytes, encoding: str | None = None) -> str:
    """Decode the first bytes of a file; invalid ones are replaced."""
    if encoding is not None:
        _check(encoding)
    return head.decode(encoding or _marked(head) or "utf-8", "replace").removeprefix(_MARK)


def _check(encoding: str) -> None:
    try:
        "\n".encode(encoding)
    except (LookupError, ValueError):
        message = f"encoding {encoding!r}: not one that Python knows, such as utf-8 or cp1252"
        raise ParameterError(message) from None


def _marked(head: bytes) -> str | None:
    """Return the encoding that a byte order mark gives, other than UTF-8."""
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)


def _decoded(line: bytes, path: Path, number: int, encoding: str) -> str:
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode(encoding, "replace").removeprefix(_MARK)) + 1
        _refuse(f"byte 0x{line[error.start]:02x}", encoding, path, number, column)
    except UnicodeError:
        _refuse("this line", encoding, path, number)


def _refuse(what: str, encoding: str, path: Path, line: int, column: int | None = None) -> NoReturn:
    advice = "save the file as UTF-8, or name its encoding, e.g. --encoding cp1252"
    name = "UTF-8" if encoding == "utf-8" else encoding
    raise DataError(f"{what} is not {name}; {advice}", path=path, line=line, column=column)


def _wide_lines(
    first: bytes, lines: Iterator[tuple[int, bytes]], path: Path, encoding: str
) -> Iterator[tuple[int, str]]:
    """Yield lines of an encoding in which byte 10 alone is not a line break, such as UTF-16."""
    decoder = codecs.getincrementaldecoder(encoding)()
    number, size = 1, 0
    parts: list[str] = []
    pieces = [first]
    while pieces:
        piece = pieces.pop()
        try:
            text = decoder.decode(piece, final=not piece)
        except UnicodeError:
            _refuse("this line", encoding, path, number)
        if number == 1 and not parts:
            text = text.removeprefix(_MARK)
        *ended, rest = text.split("\n")
        for end in ended:
            yield number, "".join((*parts, end, "\n"))
            number, parts, size = number + 1, [], 0
        parts.append(rest)
        size += len(rest)
        if size > _files.LINE_BYTES:
            raise _files.endless_line(path, number)
        if piece:
            pieces.append(next(lines, (0, b""))[1])
    if any(parts):
        yield number, "".join(parts)
