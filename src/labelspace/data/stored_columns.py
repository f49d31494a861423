"""Adapts the columns that a model was trained with to another file."""

from __future__ import annotations

import codecs
import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

from labelspace._core.streams import opened
from labelspace.data.columns import Columns
from labelspace.data.formats import frames

_LOOKED_AT = 1 << 20  # bytes at the start of a file


def fitting_columns(columns: Columns, source: Any) -> Columns:
    """Return the columns for reading `source`, which may lack some text, label or id columns.

    Delimiter and encoding are kept only where the start of the file agrees with them.
    """
    named = columns.named(require_labels=True)
    optional = tuple(name for name in named if name not in columns.numbers)
    found = replace(columns, optional=optional)
    if columns.delimiter is None and columns.encoding is None:
        return found
    if not frames.is_path(source) or not Path(source).is_file():
        return found  # no file, or a pipe, which can be read only once
    with opened(source) as stream:
        head = stream.read(_LOOKED_AT)
    if columns.encoding is not None and not _encoding_fits(head, columns.encoding):
        found = replace(found, encoding=None)
    if columns.delimiter is not None:
        text = head.decode(_known(found.encoding), errors="replace")
        if not _delimiter_fits(text, columns):
            found = replace(found, delimiter=None)
    return found


def _encoding_fits(head: bytes, encoding: str) -> bool:
    """Return whether the bytes are text in this encoding and not more likely in UTF-8."""
    text, as_utf8 = (_decoded(head, name) for name in (_known(encoding), "utf-8"))
    if text is None or as_utf8 is None:
        return text is not None
    # UTF-16 of plain letters is valid UTF-8 with a NUL for every other character.
    return text == as_utf8 or "\0" in as_utf8


def _decoded(head: bytes, encoding: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return None


def _known(encoding: str | None) -> str:
    try:
        return codecs.lookup(encoding or "utf-8").name
    except LookupError:
        return "utf-8"  # the reader names the encoding that does not exist


def _delimiter_fits(text: str, columns: Columns) -> bool:
    header = text.removeprefix("\ufeff").partition("\n")[0].rstrip("\r")
    try:
        cells = next(csv.reader([header], delimiter=columns.delimiter or ","), [])
    except (csv.Error, TypeError):
        return False
    return not columns.wanted().isdisjoint(cells)
