"""Files of label names: one name per line, in the order of the labels' numbers.

A name that a line cannot hold as it is, because it contains a control character or a line break, or
begins with a quotation mark, is written as a JSON string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from labelspace._core.streams import PathLike, at_rest, limited_lines, opened
from labelspace.errors import DataError

# Line breaks of any kind and control characters; a byte order mark is dropped by many programs.
_SPECIAL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def read_names(path: PathLike) -> list[str]:
    """Read label names, one per line; they must differ."""
    place = at_rest(path)
    lines: dict[str, int] = {}
    with opened(place) as stream:
        for line, raw in limited_lines(stream, place):
            name = unquoted(decoded(raw, place, line).rstrip("\r\n"))
            if not name:
                raise DataError("a label name is empty", path=place, line=line)
            if name in lines:
                message = f"{name!r} is already the name on line {lines[name]}; names must differ"
                raise DataError(message, path=place, line=line)
            lines[name] = line
    return list(lines)


def name_lines(names: Iterable[str]) -> Iterator[bytes]:
    """Yield the lines of a file from which `read_names` returns these names."""
    return (f"{quoted(name)}\n".encode() for name in names)


def quoted(name: str) -> str:
    """Return the name, as a JSON string if it cannot be written on a line as it is."""
    return json.dumps(name) if name.startswith('"') or _SPECIAL.search(name) else name


def unquoted(text: str) -> str:
    """Invert `quoted`; text that begins with a quotation mark but is not JSON is kept."""
    if not text.startswith('"'):
        return text
    try:
        name = json.loads(text)
        name.encode()  # half a surrogate pair is not text
    except ValueError:
        return text
    return str(name)


def decoded(raw: bytes, path: Path, line: int) -> str:
    """Decode a line of UTF-8, without a byte order mark at the beginning of the file."""
    try:
        return raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        message = "not UTF-8; save the file as UTF-8"
        raise DataError(message, path=path, line=line, column=error.start + 1) from None
