"""Writes a data set to a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from labelspace._core.streams import PathLike, replacing
from labelspace.data.beside import NAMES_FILE, companion
from labelspace.data.dataset import Dataset
from labelspace.data.formats import xc
from labelspace.data.formats.write_tables import write_jsonl, write_parquet
from labelspace.data.name_files import name_lines
from labelspace.data.recognise import suffix
from labelspace.data.taxonomy import HIERARCHY_FILE, taxonomy_lines
from labelspace.errors import ParameterError


def write(dataset: Dataset, path: PathLike, format: str | None = None) -> list[Path]:
    """Write a data set as XC text (.txt), JSON lines or Parquet; a name ending in .gz is gzipped.

    XC text cannot hold label names, and no format holds a taxonomy: these are written to
    FILE.labels.txt and FILE.hierarchy.tsv, where `read` finds them.

    Parameters
    ----------
    dataset : Dataset
        The data to write.
    path : path
        The file; it is replaced whole, or not at all. If it has companion files, it is removed
        before they are replaced, so that it is never found beside those of other data.
    format : {"xc", "jsonl", "parquet"}, optional
        Default: by the suffix.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    ParameterError
        If the suffix or `format` is not one of these.
    DataError
        If the format cannot hold the data, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from labelspace.data import read, write
    >>> data = read([{"text": "Wireless earbuds", "labels": ["Audio"]}])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = write(data, f"{folder}/data.parquet")
    ...     again = read(files[0])
    >>> again.texts, again.label_names
    (['Wireless earbuds'], ('Audio',))
    """
    writers = {"xc": xc.write_xc, "jsonl": write_jsonl, "parquet": write_parquet}
    place = Path(path)
    kind = format or {".txt": "xc", ".jsonl": "jsonl", ".parquet": "parquet"}.get(suffix(place))
    if kind not in writers:
        message = (
            f"format={format!r}" if format else f"{place.name}: the suffix is not that of a format"
        )
        raise ParameterError(f"{message}; labelspace writes .txt (xc), .jsonl and .parquet")
    if kind == "parquet" and place.suffix == ".gz":
        raise ParameterError(f"{place.name}: Parquet is compressed inside; leave out .gz")
    beside: dict[Path, Iterator[bytes] | None] = {}
    if kind == "xc":
        names = dataset.label_names
        beside[companion(place, NAMES_FILE)] = None if names is None else name_lines(names)
    edges = None if dataset.taxonomy is None else taxonomy_lines(dataset.taxonomy)
    beside[companion(place, HIERARCHY_FILE)] = edges
    with ExitStack() as drafts:
        files = []
        for file, lines in beside.items():
            if lines is not None:
                files.append(drafts.enter_context(replacing(file)))
                files[-1].writelines(lines)

        def publish() -> None:
            """Let companion files take their names, while no data of that name are there."""
            for each in files:
                each.flush()  # a full disk is found out before anything is removed
            if files or any(file.exists() for file in beside):
                _remove_file(place)
            drafts.close()
            for file, lines in beside.items():
                if lines is None:
                    file.unlink(missing_ok=True)  # it belonged to the data that are replaced

        writers[kind](dataset, place, publish)
    return [place, *(file for file, lines in beside.items() if lines is not None)]


def _remove_file(place: Path) -> None:
    """Remove a regular file, or that to which a link leads; a device stays."""
    target = Path(os.path.realpath(place))
    if target.is_file():
        target.unlink()
