"""Reads files of label texts: TSV, CSV, JSON lines, and SKOS vocabularies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from labelspace._core.streams import PathLike, at_rest, opened
from labelspace.data.cells import shown
from labelspace.data.formats.label_tables import table_records
from labelspace.data.formats.skos import SKOS_FORMATS, skos_records
from labelspace.data.formats.text import beginning
from labelspace.data.label_texts import LabelRecord, LabelTexts
from labelspace.data.recognise import suffix
from labelspace.data.taxonomy import cycle_of
from labelspace.errors import DataError

TABLE_FILES = ("label_texts.tsv", "label_texts.csv", "label_texts.jsonl")
SKOS_FILES = ("labels.ttl", "labels.rdf", "labels.nt")

_TABLES = {".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_XML_STARTS = ("<?xml", "<rdf:RDF", "<!DOCTYPE")


def read_label_texts(
    path: PathLike,
    *,
    header: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> LabelTexts:
    """Read the texts of labels: TSV, CSV, JSON lines, or SKOS as RDF/XML, Turtle or N-Triples.

    Parameters
    ----------
    path : path
        The file, which may be compressed (gzip).
    header : sequence of str, optional
        The names of the columns of a TSV or CSV file that has no header, such as
        ("id", "name@de", "name@en"). Default: an id, a name, and a third column that is a
        description if its cells have more than five words on average, otherwise another name.
    separator : str, optional
        What separates several names in a cell of a table. Default: "|"; or ", " or "; ", if more
        than 5 percent of the cells hold three or more parts.
    encoding : str, optional
        The encoding of a table. Default: UTF-8, or the byte order mark's.

    Returns
    -------
    LabelTexts
        The labels in the order of the file.

    Raises
    ------
    DataError
        If the file cannot be read, an id occurs twice, or the broader labels have a cycle; the
        message names file and line.
    MissingExtraError
        If the file is SKOS and rdflib is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from labelspace.data import read_label_texts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "label_texts.tsv")
    ...     _ = file.write_text("id\\tname\\tname@de\\nc1\\tfruit\\tObst\\n")
    ...     read_label_texts(file).names("de")
    ['Obst']
    """
    place = at_rest(path)
    kind = _kind(place)
    if kind in SKOS_FORMATS:
        if header is not None or separator is not None:
            raise DataError("SKOS has neither a header nor separators: leave them out", path=place)
        records = skos_records(place, kind)
    else:
        records = table_records(place, kind, header=header, separator=separator, encoding=encoding)
    return label_texts_of(records, place)


def label_texts_of(records: Iterable[LabelRecord], path: Path) -> LabelTexts:
    """Return the texts of the records of a file; refuse ids that occur twice, and cycles."""
    found = list(_distinct(records, path))
    if not found:
        raise DataError("no labels in this file", path=path)
    texts = replace(LabelTexts.of(found), source=str(path))
    number = {each.id: place for place, each in enumerate(found)}
    edges = [(number[child], number[parent]) for child, parent in texts.broader if parent in number]
    cycle = cycle_of(np.array(edges, np.int64).reshape(-1, 2), len(found))
    if cycle:
        names = " -> ".join(shown(found[each].id) for each in cycle[:6])
        more = f" -> ... ({len(cycle) - 1} labels)" if len(cycle) > 6 else ""
        raise DataError(
            f"the broader labels have a cycle: {names}{more}; remove one of these relations",
            path=path,
            line=found[cycle[0]].line,
        )
    return texts


def _distinct(records: Iterable[LabelRecord], path: Path) -> Iterator[LabelRecord]:
    lines: dict[str, int | None] = {}
    for record in records:
        if record.id in lines:
            raise DataError(
                f"the label {shown(record.id)} is already on line {lines[record.id]}; give each "
                'label one row, with several names as "name|name"',
                path=path,
                line=record.line,
            )
        lines[record.id] = record.line
        yield record


def _kind(path: Path) -> str:
    with opened(path) as stream:
        start = beginning(stream.read(1 << 12)).lstrip()
    if not start:
        raise DataError("the file is empty", path=path)
    if start.startswith(_XML_STARTS):
        return "xml"
    if start.startswith("{"):
        return "jsonl"
    ending = suffix(path)
    for kind, endings in SKOS_FORMATS.items():
        if ending in endings:
            return kind
    if ending in _TABLES:
        return _TABLES[ending]
    return "tsv" if "\t" in start.partition("\n")[0] else "csv"
