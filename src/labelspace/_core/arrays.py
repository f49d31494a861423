"""Named arrays in one safetensors file: written atomically, read back as memory maps."""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from labelspace._core.files import replaced
from labelspace._core.json_text import parsed_json, shortened

# From the last to the first in a file, as safetensors orders them.
_DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
    "F16": np.float16, "I32": np.int32, "U32": np.uint32, "F32": np.float32, "F64": np.float64,
    "I64": np.int64, "U64": np.uint64,
}  # fmt: skip
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_ORDER = {np.dtype(dtype): place for place, dtype in enumerate(_DTYPES.values())}
_LONGEST_HEADER = 100_000_000  # bytes, as in safetensors

T = TypeVar("T")


def write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> None:
    """Write one safetensors file, replacing what is there atomically."""
    with replaced(path, durable=True) as file:
        put_arrays(file, arrays, metadata)


def put_arrays(
    file: IO[bytes], arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> None:
    """Write arrays to an open file, byte for byte as safetensors does.

    Written by hand because safetensors makes a file of its own, which only its owner may read, in
    place of one that is open and locked.
    """
    ready = {}
    for name, array in arrays.items():
        plain = np.asarray(array, order="C")
        ready[name] = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
        if ready[name].dtype not in _NAMES:
            raise TypeError(f"arrays of type {plain.dtype} cannot be kept: {name!r}")
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    names = sorted(ready, key=lambda name: (-_ORDER[ready[name].dtype], name.encode()))
    end = 0
    for name in names:
        array, start = ready[name], end
        end += array.nbytes
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for name in names:
        if ready[name].size:
            file.write(ready[name].reshape(-1).view(np.uint8).data)


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays of a safetensors file as read-only memory maps, and its metadata.

    A file that is not one raises ValueError.
    """
    with open(os.open(path, open_flags()), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file")
        return mapped_arrays(file, str(path))


def open_flags() -> int:
    """Return flags for opening a file to read that never wait, as for a FIFO without a writer."""
    return os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC if os.name != "nt" else os.O_RDONLY


def mapped_arrays(file: IO[bytes], name: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Do what `read_arrays` does for an open file; `name` is for errors.

    Read by hand because safetensors' numpy reader copies each array into memory.
    """
    file.seek(0)
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or not 2 <= length <= min(size - 8, _LONGEST_HEADER):
        raise ValueError(f"{name} is not a safetensors file")
    try:
        entries = parsed_json(file.read(length))
    except ValueError as error:
        raise ValueError(f"{name} is not a safetensors file: its header is no JSON") from error
    if not isinstance(entries, dict):
        raise ValueError(f"{name} is not a safetensors file: its header is no object")
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError(f"{name}: the metadata must be texts by name")
    # Plain arrays on the map, since compiled loops do not take the memmap class.
    body = np.empty(0, np.uint8)
    if size > 8 + length:
        whole = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        body = np.frombuffer(whole, np.uint8, offset=8 + length)
    arrays, end = {}, 0
    layouts = {key: _layout(key, entry, len(body), name) for key, entry in entries.items()}
    for key, (dtype, shape, start, stop) in sorted(layouts.items(), key=lambda item: item[1][2:]):
        if start < end:
            raise ValueError(f"{name}: array {shortened(repr(key))} overlaps another one")
        end = stop
        part = body[start:stop]
        if part.ctypes.data % dtype.itemsize:  # compiled loops expect aligned arrays
            part = part.copy()
            part.flags.writeable = False
        arrays[key] = part.view(dtype).reshape(shape)
    return {key: arrays[key] for key in entries}, metadata


def _layout(
    key: str, entry: Any, n_bytes: int, name: str
) -> tuple[np.dtype[Any], list[int], int, int]:
    """Return the checked type, shape, start and end of an array that the header describes."""
    shown = shortened(repr(key))
    if not isinstance(entry, dict) or {"dtype", "shape", "data_offsets"} - entry.keys():
        raise ValueError(f"{name}: array {shown} is not described by dtype, shape, data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _DTYPES:
        raise ValueError(
            f"{name}: array {shown} has type {shortened(repr(kind))}; types that can be read: "
            + ", ".join(sorted(_DTYPES))
        )
    dtype = np.dtype(_DTYPES[kind])
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"{name}: array {shown} has a shape or offsets that are no whole numbers")
    start, stop = offsets
    if not start <= stop <= n_bytes or stop - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: array {shown} does not fit the file: it was cut or changed")
    return dtype, shape, start, stop


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)


def with_prefix(prefix: str, arrays: Mapping[str, T]) -> dict[str, T]:
    """Return the arrays whose names begin with the prefix, by the rest of their names."""
    return {k[len(prefix) :]: array for k, array in arrays.items() if k.startswith(prefix)}


def prefixed(prefix: str, arrays: Mapping[str, T]) -> dict[str, T]:
    """Return the arrays with the prefix before their names, as `with_prefix` reads them."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def joined_parts(parts: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """Return the arrays of all parts by `part.name`, as `with_prefix("part.", ...)` reads them."""
    return {name: a for part, own in parts.items() for name, a in prefixed(f"{part}.", own).items()}
