"""Parsed files kept in a binary form, so that the same file is parsed once.

An entry is one safetensors file of plain arrays, mapped into memory when it is read: nothing is
unpickled. Its name is made of what went in (the source file and the parser) and of a checksum of
what it holds, so that a damaged entry is recognised. Entries may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data._files import PathLike, replacing
from labelspace.data.dataset import Dataset
from labelspace.errors import DataError, ParameterError

logger = logging.getLogger(__name__)

ENTRY_VERSION = 1  # raise it when a parser returns something else or an entry looks different
TYPE_NAMES = {"<f4": "F32", "<f8": "F64", "<i4": "I32", "<i8": "I64"}

Parser = Callable[[PathLike], Dataset]


def cached(path: PathLike, parse: Parser, directory: PathLike | None = None) -> Dataset:
    """What `parse(path)` returns, from the cache where this content was parsed before.

    `parse` is a function of a module or a functools.partial of one. Only arrays are kept: a data
    set with texts, names, ids or a taxonomy is parsed each time. The directory is by default
    $LABELSPACE_CACHE or ~/.cache/labelspace.
    """
    folder = Path(directory) if directory is not None else _default_directory()
    parser_name = _name_of(parse)
    try:
        key = _key(path, parser_name)
    except OSError:
        return parse(path)  # the parser has the words for a file that cannot be read
    found = _load(folder, key, source=str(path))
    if found is not None:
        return found
    dataset = parse(path)
    extras = (dataset.texts, dataset.label_names, dataset.ids, dataset.taxonomy)
    if all(extra is None for extra in extras):
        try:
            _save(dataset, folder, key)
        except (OSError, DataError) as error:  # a full or read-only disk is no reason to fail
            logger.warning("%s is not cached: %s", path, error)
    return dataset


def _default_directory() -> Path:
    return Path(os.environ.get("LABELSPACE_CACHE") or Path.home() / ".cache" / "labelspace")


def _name_of(parse: Parser) -> str:
    """A name that is the same in every process and differs where results may differ."""
    if isinstance(parse, partial):
        return f"{_name_of(parse.func)}{parse.args!r}{sorted(parse.keywords.items())!r}"
    name = getattr(parse, "__qualname__", "<unnamed>")
    if "<" in name:
        raise ParameterError(
            f"parse: {name} cannot be told from other functions of that name; "
            "use a function of a module, or functools.partial of one"
        )
    return f"{parse.__module__}.{name}"


def _key(path: PathLike, parser_name: str) -> str:
    with open(path, "rb") as source:
        content = hashlib.file_digest(source, "sha256").hexdigest()
    whole = f"{ENTRY_VERSION} {parser_name} {content}"
    return hashlib.sha256(whole.encode()).hexdigest()[:32]


def _save(dataset: Dataset, folder: Path, key: str) -> None:
    arrays = _arrays_of(dataset)
    header: dict[str, object] = {}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        header[name] = {
            "dtype": TYPE_NAMES[array.dtype.str],
            "shape": array.shape,
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pieces: list[bytes | memoryview] = [len(text).to_bytes(8, "little"), text]
    pieces += [array.data for array in arrays.values()]
    checksum = hashlib.sha256()
    for piece in pieces:
        checksum.update(piece)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{key}-{checksum.hexdigest()[:32]}.safetensors") as out:
        for piece in pieces:
            out.write(piece)


def _arrays_of(dataset: Dataset) -> dict[str, np.ndarray]:
    """Named arrays, those of wider numbers first so that all of them are aligned in the file."""
    arrays: dict[str, np.ndarray] = {}
    for name, matrix in (("labels", dataset.labels), ("features", dataset.features)):
        if isinstance(matrix, csr_matrix):
            arrays[f"{name}.shape"] = np.array(matrix.shape, dtype=np.int64)
            for part in ("indptr", "indices", "data"):
                arrays[f"{name}.{part}"] = np.ascontiguousarray(getattr(matrix, part))
        elif matrix is not None:
            arrays[name] = np.ascontiguousarray(matrix)
    return dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))


def _load(folder: Path, key: str, source: str) -> Dataset | None:
    for entry in folder.glob(f"{key}-*.safetensors"):
        try:
            with open(entry, "rb") as file:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            logger.warning("cache entry %s is left aside: %s", entry, error)
            continue
        if entry.stem.endswith(hashlib.sha256(memory).hexdigest()[:32]):
            return _dataset_of(_arrays_in(memory), source)
        logger.warning("cache entry %s is damaged; %s is parsed again", entry, source)
    return None


def _arrays_in(memory: mmap.mmap) -> dict[str, np.ndarray]:
    """The arrays of an entry as views of the mapped file."""
    types = {short: np.dtype(long) for long, short in TYPE_NAMES.items()}
    data_start = 8 + int.from_bytes(memory[:8], "little")
    arrays = {}
    for name, about in json.loads(memory[8:data_start]).items():
        start, end = about["data_offsets"]
        dtype = types[about["dtype"]]
        flat = np.frombuffer(memory, dtype, (end - start) // dtype.itemsize, data_start + start)
        arrays[name] = flat.reshape(about["shape"])
    return arrays


def _dataset_of(arrays: dict[str, np.ndarray], source: str) -> Dataset:
    matrices = {}
    for name in ("labels", "features"):
        if f"{name}.shape" in arrays:
            parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
            shape = tuple(arrays[f"{name}.shape"].tolist())
            matrices[name] = csr_matrix(parts, shape=shape, copy=False)
    features = matrices.get("features", arrays.get("features"))
    return Dataset(matrices["labels"], features, source=source)
