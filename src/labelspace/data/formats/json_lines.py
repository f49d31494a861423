"""JSON lines and JSON arrays of objects: rows with the line on which each begins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from labelspace.data.formats.text import text_lines
from labelspace.data.rows import RowParser
from labelspace.errors import DataError

Record = tuple[int, dict[str, Any]]

_EXAMPLE = '{"text": "...", "labels": ["...", ...]}'
_ARRAY_START, _ARRAY_NEXT = re.compile(r"\s*\[\s*(?=\{)"), re.compile(r"\s*,\s*(?=\{)")


def line_records(parser: RowParser) -> Iterator[Record]:
    """Yield (line, object) for each line of a data file that is not blank."""
    return objects(parser.source, parser.columns.encoding, _EXAMPLE)


def objects(path: Path, encoding: str | None, expected: str) -> Iterator[Record]:
    """Yield (line, object) for each line that is not blank; errors show what is `expected`."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    for line, text in text_lines(path, encoding):
        if text.strip():
            with _json_errors(path, line, expected):
                record: dict[str, Any] = decoder.decode(text.rstrip("\r\n"))
                _check_record(record, text)
            yield line, record


def array_records(parser: RowParser) -> Iterator[Record]:
    """Yield (line, object) for each object of one JSON array, which is read whole."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    text = "".join(line for _, line in text_lines(parser.source, parser.columns.encoding))
    position, line, mark = 0, 1, _ARRAY_START
    while found := mark.match(text, position):
        line += text.count("\n", position, found.end())
        position, mark = found.end(), _ARRAY_NEXT
        with _json_errors(parser.source, line, _EXAMPLE):
            record, position = decoder.raw_decode(text, position)
            _check_record(record, text[found.end() : position])
        yield line, record
        line += text.count("\n", found.end(), position)
    if text[position:].strip() != "]":
        message = "expected a comma and another object, or the end of the JSON array"
        raise DataError(message, path=parser.source, line=line)


def _check_record(record: Any, text: str) -> None:
    if not isinstance(record, dict):
        raise TypeError("each line must be an object in braces")
    if "\\ud" in text or "\\uD" in text:
        json.dumps(record, ensure_ascii=False).encode("utf-8")


@contextmanager
def _json_errors(path: Path, line: int, expected: str) -> Iterator[None]:
    """Convert errors of the JSON parser, which counts lines from 1, to a DataError."""
    column = None
    try:
        yield
        return
    except json.JSONDecodeError as error:
        problem, column = f"not valid JSON ({error.msg.lower()})", error.colno
        line = error.lineno if error.lineno > 1 else line
    except TypeError as error:
        problem = str(error)
    except UnicodeEncodeError:
        problem = "half of a \\u surrogate pair, which is not a character"
    except (ValueError, RecursionError) as error:
        problem = f"not valid JSON ({error})"
    message = f"{problem}; expected {expected} on one line"
    raise DataError(message, path=path, line=line, column=column) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
