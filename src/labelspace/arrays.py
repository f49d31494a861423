"""Named arrays in one safetensors file: written atomically, read back as memory maps."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

_DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32,
    "I16": np.int16, "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16,
    "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


def write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> None:
    """One safetensors file, replaced atomically."""
    fresh = path.with_name(f".{path.name}.new-{os.getpid()}")
    save_file({k: np.asarray(v, order="C") for k, v in arrays.items()}, fresh, metadata)
    sync(fresh)
    os.replace(fresh, path)
    sync(path.parent)


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays of a safetensors file as read-only memory maps, and its metadata.

    Read by hand because safetensors' numpy reader copies each array into memory.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= size - 8:
            raise ValueError(f"{path} is no safetensors file")
        entries: dict[str, Any] = json.loads(file.read(length))
    metadata = entries.pop("__metadata__", {})
    # np.asarray: plain arrays on the map, since compiled loops do not take the memmap class.
    empty = size == 8 + length
    body = (
        np.empty(0, np.uint8) if empty else np.asarray(np.memmap(path, np.uint8, "r", 8 + length))
    )
    arrays = {}
    for name, entry in entries.items():
        start, stop = entry["data_offsets"]
        arrays[name] = body[start:stop].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays, metadata


def under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those whose names begin with the prefix, by the rest of their names."""
    return {k[len(prefix) :]: array for k, array in arrays.items() if k.startswith(prefix)}


def sync(path: Path) -> None:
    """Make a file's or directory's content durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
