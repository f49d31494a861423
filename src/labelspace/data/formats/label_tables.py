"""Tables of label texts, one label per row: TSV, CSV and JSON lines."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from labelspace.data.cells import enumerated, listed, parts, shown
from labelspace.data.formats.delimited import (
    DELIMITERS,
    first_lines,
    lines_without_nul,
    table_rows,
)
from labelspace.data.formats.json_lines import objects
from labelspace.data.formats.label_fields import (
    EXPECTED,
    Field,
    field_of,
    fields_of,
    is_header,
    language_of,
)
from labelspace.data.label_texts import LabelRecord
from labelspace.data.language import likely_language
from labelspace.errors import DataError

logger = logging.getLogger(__name__)

SEPARATOR = "|"
_LIKELY_SEPARATORS = (", ", "; ")
_LEAST_SHARE = 0.05  # of the cells that hold three or more parts, if the parts are names
_WORDS_OF_A_NAME = 5  # a third column with more words per cell holds descriptions
_CSV_DELIMITERS = (",", ";", "\t")
_OBJECT = '{"id": "...", "name": "...", "alternative": ["...", ...]}'

Row = tuple[int, list[tuple[Field, Any]]]  # the line, and what it holds


def table_records(
    path: Path,
    kind: str,
    *,
    header: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> Iterator[LabelRecord]:
    """Yield the labels of a file.

    Names whose language is not given have the one that their function words show, if they do.

    Parameters
    ----------
    path : Path
        The file.
    kind : {"tsv", "csv", "jsonl"}
        Its format.
    header : sequence of str, optional
        The names of the columns of a TSV or CSV file without a header.
    separator : str, optional
        What separates the names of one cell. Default: "|", or a comma or semicolon where the names
        are evidently lists.
    encoding : str, optional
        The encoding. Default: UTF-8, or the byte order mark's.
    """
    if kind == "jsonl":
        rows = list(_objects(path, encoding))
    else:
        rows = list(_table(path, kind, header, encoding))
    rows = _with_languages(rows)
    separators = _separators(rows) if separator is None else dict.fromkeys(_LISTS, separator)
    has_ids = any(field.role == "id" for _, cells in rows for field, _ in cells)
    for line, cells in rows:
        try:
            yield _record(line, cells, separators, has_ids)
        except (TypeError, ValueError) as error:
            raise DataError(f"{error}; expected {_OBJECT}", path=path, line=line) from None


# Rows -----------------------------------------------------------------------------------------


def _objects(path: Path, encoding: str | None) -> Iterator[Row]:
    unknown: dict[str, None] = {}
    for line, record in objects(path, encoding, _OBJECT):
        try:
            fields = fields_of(list(record))
        except DataError as error:
            raise DataError(error.message, path=path, line=line) from None
        cells = []
        for (key, value), field in zip(record.items(), fields, strict=True):
            if field is None:
                unknown[key] = None
            elif value is not None:
                cells.append((field, value))
        yield line, cells
    _warn(path, list(unknown))


def _table(
    path: Path, kind: str, given: Sequence[str] | None, encoding: str | None
) -> Iterator[Row]:
    rows = _rows(path, kind, encoding)
    first = next(rows, None)
    if first is None:
        raise DataError("the file is empty", path=path)
    line, cells = first
    body: Iterator[tuple[int, list[str]]]
    try:
        if given is not None:
            fields, body = _named(given), chain([first], rows)
        elif is_header(cells):
            fields, body = fields_of(cells), rows
            names = [name for name, field in zip(cells, fields, strict=True) if field is None]
            _warn(path, [name for name in names if name.strip()])
        else:
            kept = [first, *rows]
            fields, body = _unnamed(kept, path), iter(kept)
    except DataError as error:
        raise DataError(error.message, path=error.path or path, line=error.line or line) from None
    for line, cells in body:
        if any(cell.strip() for cell in cells[len(fields) :]):
            message = f"{len(cells)} cells where there are {len(fields)} columns"
            raise DataError(message, path=path, line=line)
        pairs = zip(fields, cells, strict=False)
        yield line, [(field, text) for field, cell in pairs if field and (text := cell.strip())]


def _rows(path: Path, kind: str, encoding: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank. Quotation marks have a meaning in CSV only."""
    lines = lines_without_nul(path, encoding)
    if kind == "tsv":
        for number, text in enumerate(lines, 1):
            if text.strip():
                yield number, text.rstrip("\r\n").split(DELIMITERS[kind])
        return
    blank, first = first_lines(lines)
    delimiter = max(_CSV_DELIMITERS, key=first.count)
    reader = csv.reader(chain(blank, [first], lines), delimiter=delimiter, strict=True)
    for number, cells in table_rows(reader, path):
        if any(cell.strip() for cell in cells):
            yield number, cells


def _named(given: Sequence[str]) -> list[Field | None]:
    unknown = [name for name in given if name.strip() and field_of(name) is None]
    if unknown:
        raise DataError(f"unknown columns: {enumerated(unknown)}; {EXPECTED}")
    return fields_of(given)


def _unnamed(rows: Sequence[tuple[int, list[str]]], path: Path) -> list[Field | None]:
    """Return the meaning of columns without a header: an id, a name, and one more.

    The third column holds descriptions if its cells have many words. Otherwise it holds names,
    preferred ones if they are evidently in another language.
    """
    line, widest = max(rows, key=lambda row: len(row[1]))
    if len(widest) > 3:
        message = f"{len(widest)} columns without a header; begin the file with a line of names"
        raise DataError(f"{message}: {EXPECTED}", path=path, line=line)
    words = [len(cells[2].split()) for _, cells in rows if len(cells) > 2 and cells[2].strip()]
    long = sum(words) > _WORDS_OF_A_NAME * len(words)
    third = Field("description") if long else Field("alternative")
    if not long and len(widest) == 3:
        names, others = ([c[at] for _, c in rows if len(c) > at] for at in (1, 2))
        other = likely_language(others)
        if other and other != likely_language(names):
            third = Field("name", other)
    fields: list[Field | None] = [Field("id"), Field("name"), third]
    return fields[: len(widest)]


def _warn(path: Path, unknown: list[str]) -> None:
    if unknown:
        logger.warning("%s: columns that are not used: %s", path, enumerated(unknown))


def _with_languages(rows: list[Row]) -> list[Row]:
    """Return the rows with a language for names of which none is given, where it is clear."""
    present = {field for _, cells in rows for field, _ in cells}
    guessed = {}
    for role in ("name", "alternative"):
        texts = (cell for _, cells in rows for field, cell in cells if field == Field(role))
        found = Field(role, likely_language(text for text in texts if isinstance(text, str)))
        if found not in present:
            guessed[Field(role)] = found
    return [
        (line, [(guessed.get(field, field), cell) for field, cell in cells]) for line, cells in rows
    ]


# Cells ----------------------------------------------------------------------------------------

_LISTS = ("name", "alternative", "broader")  # roles whose cells may hold several


def _separators(rows: Sequence[Row]) -> dict[str, str]:
    """Return what separates the names in the cells of each role.

    A comma or a semicolon separates names if many cells hold at least three parts: a name such as
    `Goethe, Johann Wolfgang von` has two.
    """
    found = dict.fromkeys(_LISTS, SEPARATOR)
    for role in _LISTS:
        cells = [
            cell
            for _, row in rows
            for field, cell in row
            if field.role == role and isinstance(cell, str)
        ]
        if any(SEPARATOR in cell for cell in cells):
            continue
        for mark in _LIKELY_SEPARATORS:
            several = sum(cell.count(mark) >= 2 for cell in cells)
            if several > _LEAST_SHARE * len(cells):
                found[role] = mark
    return found


def _record(
    line: int, cells: Sequence[tuple[Field, Any]], separators: Mapping[str, str], has_ids: bool
) -> LabelRecord:
    single: dict[str, str] = {}
    preferred: dict[str, str] = {}
    alternative: dict[str, list[str]] = {}
    broader: list[str] = []
    for (role, language), value in cells:
        if role == "name":
            for of, names in _by_language(value, language, separators[role]):
                if names:
                    preferred.setdefault(of, names[0])
                    alternative.setdefault(of, []).extend(names[1:])
        elif role == "alternative":
            for of, names in _by_language(value, language, separators[role]):
                alternative.setdefault(of, []).extend(names)
        elif role == "broader":
            broader += _texts(value, separators[role])
        elif role == "description":
            texts = [text for _, names in _by_language(value, language, "") for text in names]
            single.setdefault(role, " ".join(texts))
        else:
            single[role] = _text(value)
    label = single.get("id", "")
    if not has_ids:
        name = next(iter(preferred.values()), "")
        label = single.get("uri") or single.get("notation") or name
    if not label:
        raise ValueError("a label without an id")
    is_uri = label.startswith("<") and label.endswith(">")
    label = label[1:-1] if is_uri else label
    others = {
        of: tuple(name for name in dict.fromkeys(names) if name != preferred.get(of))
        for of, names in alternative.items()
    }
    return LabelRecord(
        label,
        preferred,
        {of: names for of, names in others.items() if names},
        single.get("description", ""),
        single.get("notation", ""),
        single.get("uri", label if is_uri else ""),
        tuple(parent.strip("<>") if is_uri else parent for parent in broader),
        line,
    )


def _by_language(value: Any, language: str, separator: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (language, texts); the value may be an object with a key per language."""
    if isinstance(value, dict):
        for tag, texts in value.items():
            yield language_of(tag), _texts(texts, separator)
    else:
        yield language, _texts(value, separator)


def _texts(value: Any, separator: str) -> list[str]:
    """Return the texts of a cell or a JSON value: a list, or one text with separators."""
    if isinstance(value, list):
        return [text for each in value if (text := _text(each))]
    text = _text(value)
    if not separator:
        return [text] if text else []
    found = listed(text)
    return parts(text, separator)[0] if found is None else found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if type(value) is int:
        return str(value)
    raise TypeError(f"{shown(str(value))} is not a text")
