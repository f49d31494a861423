"""Accepted examples on disk, until a saved model contains them.

The journal is a file of JSON lines beside the model's directory. Its first line names it, and every
other line is an example with its sequence number and a checksum. A line is on the disk (fsync)
before the example is accepted. A model stores the name of the journal and the last sequence number
that it contains, in its `model.json`, which is exchanged together with its arrays: after a kill at
any moment, every accepted example is either in the model or in the journal, and none is applied
twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from labelspace._core.files import replaced, sync
from labelspace.errors import StoreError

_CHECKSUM = "checksum"


@dataclass(frozen=True)
class Entry:
    """An accepted example.

    Attributes
    ----------
    sequence : int
        Its number, from 1.
    text : str
        The text.
    labels : tuple of str
        The ids of its labels.
    """

    sequence: int
    text: str
    labels: tuple[str, ...]


class Journal:
    """The examples that a model does not contain yet; all methods may be called from any thread.

    Parameters
    ----------
    path : Path
        The file; it is made with the first example.

    Attributes
    ----------
    name : str
        A random name, by which a model refers to this journal.

    Raises
    ------
    StoreError
        If a line other than the last was damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self.name, self._next, self._entries, end = _read(path)
        if end is not None:
            # A line that a kill cut off was never accepted.
            with open(path, "r+b") as file:
                file.truncate(end)
                os.fsync(file.fileno())
        self._end = path.stat().st_size if path.exists() else 0  # of lines that were accepted

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, examples: Sequence[tuple[str, Sequence[str]]]) -> int:
        """Write (text, labels) pairs to the disk; return the sequence number of the last one."""
        with self._lock:
            entries = [
                Entry(number, text, tuple(labels))
                for number, (text, labels) in enumerate(examples, self._next)
            ]
            lines = [_entry_line(entry) for entry in entries]
            # Without a buffer: it would keep what a full disk refuses, and write it later.
            with open(self.path, "ab", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size > self._end:  # what could not be removed when it was refused
                    file.truncate(self._end)
                start = min(size, self._end)
                if start == 0:
                    lines.insert(0, _line({"journal": self.name, "next": self._next}))
                try:
                    _write_whole(file, b"".join(lines))
                    os.fsync(file.fileno())
                except OSError:
                    # What is written in part is not accepted, and must not be in front of others.
                    with suppress(OSError):
                        file.truncate(start)
                    raise
                self._end = os.fstat(file.fileno()).st_size
            if start == 0:
                sync(self.path.parent)
            self._entries += entries
            self._next += len(entries)
            return self._next - 1

    def after(self, sequence: int, most: int) -> list[Entry]:
        """Return up to `most` entries with a larger sequence number."""
        with self._lock:
            return [entry for entry in self._entries if entry.sequence > sequence][:most]

    def forget(self, sequence: int) -> None:
        """Remove the entries up to this sequence number, once a saved model contains them."""
        with self._lock:
            kept = [entry for entry in self._entries if entry.sequence > sequence]
            if len(kept) == len(self._entries):
                return
            with replaced(self.path, durable=True) as file:
                file.write(_line({"journal": self.name, "next": self._next}))
                file.writelines(_entry_line(entry) for entry in kept)
                end = file.tell()
            self._entries, self._end = kept, end


def _write_whole(file: IO[bytes], content: bytes) -> None:
    """Write all of it to a file without a buffer, whose `write` may end early."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def _entry_line(entry: Entry) -> bytes:
    return _line({"sequence": entry.sequence, "text": entry.text, "labels": entry.labels})


def _line(record: dict[str, Any]) -> bytes:
    """Return a record with its checksum as a line; only ASCII, so that no text breaks a line."""
    return json.dumps({**record, _CHECKSUM: _checksum(record)}).encode() + b"\n"


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()[:16]


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the record of a whole line; None if the line is damaged."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
        stored = record.pop(_CHECKSUM)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None
    return record if stored == _checksum(record) else None


def _read(path: Path) -> tuple[str, int, list[Entry], int | None]:
    """Return name, next sequence number, entries, and where a damaged end of the file begins."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        lines = []
    name, following, entries = secrets.token_hex(8), 1, []
    start, damaged = 0, None
    for number, line in enumerate(lines, 1):
        record = _parsed(line)
        if record is None:
            damaged = (number, start) if damaged is None else damaged
        elif damaged is not None:
            raise StoreError(
                f"{path}:{damaged[0]}: this line is damaged (wrong checksum) and others follow it: "
                "restore the file from a copy, or remove the line"
            )
        elif number == 1:
            name, following = str(record["journal"]), int(record["next"])
        else:
            entries.append(Entry(record["sequence"], record["text"], tuple(record["labels"])))
            following = max(following, entries[-1].sequence + 1)
        start += len(line)
    return name, following, entries, None if damaged is None else damaged[1]
