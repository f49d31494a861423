"""Files of a checkpoint: arrays and metadata under one checksum, and blocks of a computation.

Whatever is wrong with a file, or with the disk, is a CheckpointError of one sentence.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from labelspace._core.arrays import read_arrays, write_arrays
from labelspace._core.sparse import digest
from labelspace.errors import CheckpointError, LabelspaceError
from labelspace.runs.callbacks import WORTH_WRITING

logger = logging.getLogger(__name__)

Arrays = Mapping[str, np.ndarray]


def write_checkpoint(path: Path, arrays: Arrays, metadata: Mapping[str, Any]) -> None:
    """Replace the file whole, or leave what was there and raise CheckpointError."""
    text = json.dumps(metadata)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, arrays, {"run": text, "checksum": _checksum(arrays, text)})
    except (OSError, LabelspaceError) as error:
        raise CheckpointError(
            f"the checkpoint {path} cannot be written: {_reason(error)}"
        ) from error


def read_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays as memory maps, and the metadata; raise CheckpointError if damaged."""
    try:
        arrays, header = read_arrays(path)
        text = header["run"]
        whole = header["checksum"] == _checksum(arrays, text)
        metadata = json.loads(text)
        if not isinstance(metadata, dict):
            raise TypeError("its header is not an object")
    except (
        *(OSError, ValueError, LookupError, TypeError, AttributeError),
        *(ArithmeticError, RecursionError, LabelspaceError),
    ) as error:
        raise CheckpointError(
            f"{path} is not a readable checkpoint: {_reason(error)}; remove it to start anew"
        ) from None
    if not whole:
        raise CheckpointError(
            f"{path} is not the checkpoint that was written (wrong checksum): it was changed or "
            "damaged; remove it to start anew"
        )
    return arrays, metadata


def of_another_run(path: Path) -> CheckpointError:
    """Return the error for a checkpoint of another run."""
    return CheckpointError(
        f"{path} belongs to a run with other data or parameters; "
        "give the same ones, or remove it to start anew"
    )


class Blocks:
    """Results of a computation in blocks, each a tuple of arrays, kept in files as they are done.

    A file holds the blocks since the last one, written after `minutes` or by `flush`. `take`
    returns the blocks of an earlier run, if `resume`. Both `take` and `put` may be called from
    any thread.
    """

    def __init__(
        self, directory: Path, name: str, identity: str, minutes: float, resume: bool
    ) -> None:
        self.directory, self.name, self.identity = directory, name, identity
        self.minutes = minutes
        self._lock = threading.Lock()
        self._fresh: dict[int, tuple[np.ndarray, ...]] = {}
        self._kept: dict[int, tuple[np.ndarray, ...]] = {}
        self._files = 0
        self._begun = self._last = time.monotonic()
        while resume and self._path(self._files).exists():
            self._kept |= self._read(self._path(self._files))
            self._files += 1

    def take(self, start: int) -> tuple[np.ndarray, ...] | None:
        """Return the block that begins at `start`, or None if it is yet to be computed."""
        with self._lock:
            return self._kept.pop(start, None)

    def put(self, start: int, block: tuple[np.ndarray, ...]) -> None:
        """Keep a block; a disk that fails is logged, since the computation can do without it."""
        with self._lock:
            self._fresh[start] = block
            if time.monotonic() - self._last < 60 * self.minutes:
                return
            try:
                self._write()
            except CheckpointError as error:
                logger.warning("%s; training goes on without it", error)
                self._last = time.monotonic()

    def close(self) -> None:
        """Write the rest of a long computation; a short one stays in memory for `flush`."""
        with self._lock:
            if time.monotonic() - self._begun >= WORTH_WRITING:
                try:
                    self._write()
                except CheckpointError as error:
                    logger.warning("%s; training goes on without it", error)

    def flush(self) -> None:
        """Write all blocks that are not in a file yet."""
        with self._lock:
            self._write()

    def _path(self, number: int) -> Path:
        return self.directory / f"{self.name}-{number + 1}.safetensors"

    def _write(self) -> None:
        if not self._fresh:
            return
        blocks = list(self._fresh.values())
        arrays = {
            "starts": np.array(list(self._fresh), np.int64),
            "lengths": np.array([[len(part) for part in block] for block in blocks], np.int64),
        }
        parts = zip(*blocks, strict=True)
        arrays |= {f"part.{place}": np.concatenate(each) for place, each in enumerate(parts)}
        write_checkpoint(self._path(self._files), arrays, {"identity": self.identity})
        self._files += 1
        self._fresh.clear()
        self._last = time.monotonic()

    def _read(self, path: Path) -> dict[int, tuple[np.ndarray, ...]]:
        arrays, metadata = read_checkpoint(path)
        if metadata.get("identity") != self.identity:
            raise of_another_run(path)
        try:
            starts, lengths = arrays["starts"], arrays["lengths"]
            ends = lengths.cumsum(axis=0)
            parts = [arrays[f"part.{place}"] for place in range(lengths.shape[1])]
            if len(starts) != len(lengths) or lengths.min(initial=0) < 0:
                raise ValueError("its blocks do not fit together")
            if [len(part) for part in parts] != ends[-1].tolist():
                raise ValueError("its blocks do not fit together")
            places = list(
                zip(starts.tolist(), (ends - lengths).tolist(), ends.tolist(), strict=True)
            )
        except (LookupError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"{path} is not a readable checkpoint: {_reason(error)}; remove it to start anew"
            ) from None
        return {
            start: tuple(part[i:j] for part, i, j in zip(parts, first, last, strict=True))
            for start, first, last in places
        }


def _checksum(arrays: Arrays, text: str) -> str:
    items: list[Any] = [text]
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        items += [(name, array.dtype.str), array]
    return digest(*items)


def _reason(error: BaseException) -> str:
    return str((isinstance(error, OSError) and error.strerror) or error)
