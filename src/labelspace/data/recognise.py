"""Recognises the format of a data file."""

from __future__ import annotations

import re
from pathlib import Path

from labelspace._core.streams import at_rest, opened
from labelspace.data.formats import delimited, xc
from labelspace.data.formats.text import beginning
from labelspace.errors import DataError

_TABLE_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
}
_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
_PACKED = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # ZIP, and the older format of spreadsheets
_SVMLIGHT_SUFFIXES = (".svm", ".svmlight", ".libsvm")
DATA_SUFFIXES = (*_TABLE_SUFFIXES, *_SVMLIGHT_SUFFIXES, ".txt")


def recognise(path: Path) -> str:
    """Return the format of a file: from its content where that is clear, else from its suffix."""
    path = at_rest(path)
    with opened(path) as stream:
        head = stream.read(1 << 12)
    if head.startswith(b"PAR1"):
        return "parquet"
    ending = suffix(path)
    if head.startswith(_PACKED):
        what = "a spreadsheet; save it as CSV" if ending in _SPREADSHEETS else "packed; unpack it"
        raise DataError(f"this is {what} first", path=path)
    start = beginning(head).lstrip()
    if not start:
        raise DataError("the file is empty", path=path)
    if start.startswith("{"):
        return "jsonl"
    if _TABLE_SUFFIXES.get(ending) not in delimited.DELIMITERS and re.match(r"\[\s*\{", start):
        return "json"
    if ending in _TABLE_SUFFIXES:
        return _TABLE_SUFFIXES[ending]
    found = xc.sniff(path)
    if found is not None:
        return found
    if ending in _SVMLIGHT_SUFFIXES:
        return "svmlight"  # its reader raises the error
    if delimited.looks_like_table(start):
        return "csv"
    message = "this is neither JSON lines, Parquet, XC text, a matrix nor svmlight"
    raise DataError(f"{message}; CSV and TSV need a first line that names the columns", path=path)


def suffix(path: Path) -> str:
    """Return the suffix of a file in lower case, that before .gz if it is compressed."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def stem(path: Path) -> str:
    """Return the name of a file without its suffix and .gz."""
    return Path(path.name.removesuffix(".gz")).stem
