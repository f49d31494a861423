"""Plain text files as examples without labels: one document per file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from scipy.sparse import csr_matrix

from labelspace._core.streams import opened
from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset
from labelspace.data.formats import xc
from labelspace.data.formats.text import beginning
from labelspace.errors import DataError

SUFFIX = ".txt"


def are_documents(path: Path, columns: Columns) -> bool:
    """Return whether this is a directory, or a .txt file that is not in another format."""
    if path.is_dir():
        return True
    if path.suffix.lower() != SUFFIX or not path.is_file():
        return False
    return not _holds_data(path) and not _is_table(path, columns)


def iter_documents(path: Path, batch_size: int, encoding: str | None) -> Iterator[Dataset]:
    """Yield the documents in order of file name; the id of each is its file's name."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() == SUFFIX)
        if not files:
            message = f"there are no {SUFFIX} files in this folder; name a file of examples"
            raise DataError(message, path=path)
        for file in files:
            if _holds_data(file):
                message = "this file holds examples, not one document; name it by itself"
                raise DataError(message, path=file)
    for start in range(0, len(files), batch_size):
        chosen = files[start : start + batch_size]
        yield Dataset(
            csr_matrix((len(chosen), 0)),
            texts=[_text(file, encoding or "utf-8") for file in chosen],
            ids=[file.name for file in chosen],
            source=str(path),
        )


def _holds_data(path: Path) -> bool:
    with opened(path) as stream:
        start = stream.read(1 << 12)
    return start.lstrip().startswith(b"{") or xc.sniff(path) is not None


def _is_table(path: Path, columns: Columns) -> bool:
    """Return whether the first line names one of the columns, as in text saved by spreadsheets."""
    with opened(path) as stream:
        start = beginning(stream.read(1 << 12)).lstrip()
    cells = re.split(r"[,;|\t]", start.partition("\n")[0])
    names = {cell.strip(' "\r') for cell in cells} if len(cells) > 1 else set()
    return not columns.wanted().isdisjoint(names)


def _text(path: Path, encoding: str) -> str:
    with opened(path) as stream:
        content = stream.read()
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise DataError(f"there is no encoding {encoding!r}", path=path) from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = f"not {encoding}; give its encoding, e.g. --encoding cp1252"
        raise DataError(message, path=path, line=line) from None
