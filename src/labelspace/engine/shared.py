"""Arguments that all tasks share: large arrays go to files once, and each worker maps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

LARGE = 1 << 20  # bytes; smaller arrays travel with the task


@dataclass(frozen=True)
class _OnDisk:
    """An array that lies in a .npy file."""

    path: Path


@dataclass(frozen=True)
class _Rows:
    """A CSR matrix in parts."""

    parts: tuple[Any, Any, Any]
    shape: tuple[int, int]


def placed(shared: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """`shared` with its large arrays put into files of the directory."""

    def put(name: str, value: Any) -> Any:
        if isinstance(value, csr_matrix):
            parts = {part: getattr(value, part) for part in ("data", "indices", "indptr")}
            data, indices, indptr = (put(f"{name}.{part}", array) for part, array in parts.items())
            return _Rows((data, indices, indptr), value.shape)
        if not isinstance(value, np.ndarray) or value.nbytes < LARGE or value.dtype.hasobject:
            return value
        path = directory / f"{name}.npy"
        np.save(path, value, allow_pickle=False)
        return _OnDisk(path)

    return {name: put(name, value) for name, value in shared.items()}


def opened(shared: Mapping[str, Any]) -> dict[str, Any]:
    """What `placed` gave, its arrays as read-only memory maps."""

    def get(value: Any) -> Any:
        if isinstance(value, _Rows):
            return csr_matrix(tuple(map(get, value.parts)), shape=value.shape, copy=False)
        if isinstance(value, _OnDisk):
            # Plain arrays on the map, since compiled loops do not take the memmap class.
            return np.asarray(np.load(value.path, mmap_mode="r"))
        return value

    return read_only({name: get(value) for name, value in shared.items()})


def read_only(shared: Mapping[str, Any]) -> dict[str, Any]:
    """`shared` with arrays that refuse to be written, as other processes' would be in vain."""

    def lock(value: Any) -> Any:
        if isinstance(value, csr_matrix):
            parts = tuple(map(lock, (value.data, value.indices, value.indptr)))
            return csr_matrix(parts, shape=value.shape, copy=False)
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        return value

    return {name: lock(value) for name, value in shared.items()}
