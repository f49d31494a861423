"""CSV and TSV: detects what separates the cells, and reads the rows."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

from labelspace.data.cells import enumerated
from labelspace.data.columns import Columns
from labelspace.data.formats.text import text_lines
from labelspace.data.rows import RowParser
from labelspace.errors import DataError, LabelspaceError, ParameterError

DELIMITERS = {"csv": ",", "tsv": "\t"}

Record = tuple[int, dict[str, Any]]

_CANDIDATES = (",", ";", "\t", "|")
_WRITTEN_TAB = ("\\t", "tab", "TAB")
_SEPARATOR_LINE = re.compile(r"sep=(.)\s*")  # what spreadsheets put above the header
_SUBJECTS = r"<[^<>\s]+>(?:\s+<[^<>\s]+>)*\s*"
_TEXT_AND_SUBJECTS = re.compile(rf"[^\t]*\t{_SUBJECTS}")
_HEADER_CELL = re.compile(r"[\s\"]*[^\W\d][^:<>{}\[\]]{0,59}")
_CELL_LIMIT = 1 << 28  # characters
_ROWS_AT_ONCE = 64
_LIMIT_LOCK = Lock()


def looks_like_table(head: str) -> bool:
    """Return whether the beginning of a file without a known suffix may be a CSV or TSV table."""
    line = next((line for line in head.splitlines() if line.strip()), "")
    if _TEXT_AND_SUBJECTS.fullmatch(line) or _SEPARATOR_LINE.fullmatch(line):
        return True
    for delimiter in _CANDIDATES:
        cells = line.split(delimiter)
        if len(cells) > 1 and all(_HEADER_CELL.fullmatch(cell) for cell in cells):
            return len(set(cells)) == len(cells)
    return False


def records(parser: RowParser, kind: str) -> Iterator[Record]:
    """Yield (line, record) for each row below the header."""
    lines = lines_without_nul(parser.source, parser.columns.encoding)
    above, header = first_lines(lines)
    separator = _SEPARATOR_LINE.fullmatch(header)
    if separator:
        more, header = first_lines(lines)
        above += ["\n", *more]  # in place of the line, so that lines are numbered as in the file
    delimiter = _given_delimiter(parser.columns)
    if delimiter is None and separator:
        delimiter = separator[1]
    if delimiter is None:
        if _is_text_and_subjects(header, parser.columns):
            parser.present.update(("text", "labels"))
            return _subject_records(len(above), chain([header], lines), parser.source)
        delimiter = _likely_delimiter(header, DELIMITERS[kind], parser.columns)
    return _table_records(parser, chain(above, [header], lines), delimiter)


def first_lines(lines: Iterator[str]) -> tuple[list[str], str]:
    """Return the blank lines at the beginning, and the first other line."""
    blank: list[str] = []
    for line in lines:
        if line.strip("\r\n"):
            return blank, line
        blank.append(line)
    return blank, ""


def _given_delimiter(columns: Columns) -> str | None:
    given = "\t" if columns.delimiter in _WRITTEN_TAB else columns.delimiter
    if given is not None and (len(given) != 1 or given in '"\r\n\0'):
        raise ParameterError(f"delimiter {given!r}: expected one character, such as ; or tab")
    return given


def _likely_delimiter(header: str, default: str, columns: Columns) -> str:
    """Return the delimiter that gives most of the wanted columns, preferring the default."""
    wanted = columns.wanted()

    def merit(delimiter: str) -> tuple[int, bool, int]:
        names = [cell.strip().strip('"') for cell in header.split(delimiter)]
        usual = delimiter == default and len(names) > 1
        return len(wanted.intersection(names)), usual, len(names)

    return max((default, *_CANDIDATES), key=merit)


def _table_records(parser: RowParser, lines: Iterator[str], delimiter: str) -> Iterator[Record]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    places: list[tuple[str, int]] = []
    for line, cells in table_rows(reader, parser.source):
        if header is None:
            header = _column_names(cells, parser, line)
            parser.present.update(header)
            parser.require_columns()
            wanted = parser.columns.wanted()
            places = [(name, place) for place, name in enumerate(header) if name in wanted]
        elif len(cells) != len(header):
            message = f"{len(cells)} cells where the header has {len(header)} columns"
            raise DataError(
                f"{message}; put quotes around cells that hold {delimiter!r}",
                path=parser.source,
                line=line,
            )
        else:
            yield line, {name: cells[place] or None for name, place in places}


def _column_names(header: Sequence[str], parser: RowParser, line: int) -> list[str]:
    wanted = parser.columns.wanted()
    names = [name if name in wanted else name.strip() for name in header]
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        message = f"the header names a column twice: {enumerated(sorted(twice))}"
        raise DataError(message, path=parser.source, line=line)
    return names


def table_rows(reader: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield rows that are not blank, each with the line on which it begins."""
    end: Exception | None = None
    while end is None:
        rows, end = _next_rows(reader, path)
        yield from rows
    if not isinstance(end, StopIteration):
        raise end


def _next_rows(reader: Any, path: Path) -> tuple[list[tuple[int, list[str]]], Exception | None]:
    """Return some rows, and what ended them: the end of the file or an error.

    The limit on cells, 128 KB, is one for the whole process, so it is raised only meanwhile.
    """
    rows: list[tuple[int, list[str]]] = []
    line = 0
    with _LIMIT_LOCK:
        before = csv.field_size_limit(_CELL_LIMIT)
        try:
            for _ in range(_ROWS_AT_ONCE):
                line = reader.line_num + 1
                cells = next(reader)
                if cells:
                    rows.append((line, cells))
        except (StopIteration, LabelspaceError) as error:
            return rows, error
        except csv.Error as error:
            return rows, _broken_row(error, path, line)
        finally:
            csv.field_size_limit(before)
    return rows, None


def _broken_row(error: csv.Error, path: Path, line: int) -> DataError:
    problem = str(error)
    if "field limit" in problem:
        problem = f"a cell of more than {_CELL_LIMIT >> 20} MB; is a quotation mark missing"
    return DataError(f"a row that begins here is broken: {problem}", path=path, line=line)


def lines_without_nul(path: Path, encoding: str | None) -> Iterator[str]:
    """Yield the lines of a text file; a NUL byte is an error."""
    for line, text in text_lines(path, encoding):
        if "\0" in text:
            message = "a NUL byte: the file is damaged, not text, or UTF-16 (--encoding)"
            raise DataError(message, path=path, line=line, column=text.index("\0") + 1)
        yield text


# Text and subjects ----------------------------------------------------------------------------


def _is_text_and_subjects(line: str, columns: Columns) -> bool:
    """Return whether this is Annif's corpus format: no header, a text, a tab, `<uri> <uri>`."""
    default = Columns()
    usual = (columns.text, columns.labels) == (default.text, default.labels)
    return usual and bool(_TEXT_AND_SUBJECTS.fullmatch(line.rstrip("\r\n")))


def _subject_records(above: int, lines: Iterator[str], path: Path) -> Iterator[Record]:
    for number, line in enumerate(lines, above + 1):
        text, tab, subjects = line.rstrip("\r\n").partition("\t")
        if not text.strip() and not tab:
            continue
        if not re.fullmatch(rf"\s*(?:{_SUBJECTS})?", subjects):
            message = "expected a text, a tab and URIs in angle brackets, as on the first line"
            raise DataError(message, path=path, line=number)
        yield number, {"text": text or None, "labels": re.findall(r"<([^<>]+)>", subjects)}
