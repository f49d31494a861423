"""Parsed files cached as arrays, so that the same file is parsed once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core import cache
from labelspace._core.cache import Arrays, cache_folder
from labelspace._core.schema import Schema, check_arrays, csr, floats, ints
from labelspace._core.sparse import pack_csr, unpack_csr
from labelspace._core.streams import PathLike
from labelspace.data.dataset import Dataset
from labelspace.errors import ParameterError

ENTRY_VERSION = 2  # raise it when a parser returns something else or an entry looks different

Parser = Callable[[PathLike], Dataset]


def cached(path: PathLike, parse: Parser, directory: PathLike | None = None) -> Dataset:
    """Return `parse(path)`, from the cache where this content was parsed before.

    `parse` is a function of a module or a functools.partial of one. Only arrays are cached: a data
    set with texts, names, ids or a taxonomy is parsed each time. The directory is by default
    $LABELSPACE_CACHE or ~/.cache/labelspace.
    """
    parser_name = _name_of(parse)
    try:
        key = _key(path, parser_name)
    except OSError:
        return parse(path)  # the parser's error describes a file that cannot be read
    return cache.cached(
        Path(directory) if directory is not None else cache_folder(),
        key,
        str(path),
        make=lambda: parse(path),
        pack=_pack,
        restore=partial(_restore, source=str(path)),
    )


def _name_of(parse: Parser) -> str:
    """Return a name that is the same in every process and differs where results may differ."""
    if isinstance(parse, partial):
        return f"{_name_of(parse.func)}{parse.args!r}{sorted(parse.keywords.items())!r}"
    name = getattr(parse, "__qualname__", "<unnamed>")
    if "<" in name:
        raise ParameterError(
            f"parse: {name} cannot be distinguished from other functions of that name; "
            "use a function of a module, or functools.partial of one"
        )
    return f"{parse.__module__}.{name}"


def _key(path: PathLike, parser_name: str) -> str:
    with open(path, "rb") as source:
        content = hashlib.file_digest(source, "sha256").hexdigest()
    whole = f"{ENTRY_VERSION} {parser_name} {content}"
    return hashlib.sha256(whole.encode()).hexdigest()[:32]


def _pack(dataset: Dataset) -> Arrays | None:
    extras = (
        dataset.texts,
        dataset.label_names,
        dataset.ids,
        dataset.taxonomy,
        dataset.label_texts,
    )
    if any(extra is not None for extra in extras):
        return None
    arrays: dict[str, np.ndarray] = {}
    for name, matrix in (("labels", dataset.labels), ("features", dataset.features)):
        if isinstance(matrix, csr_matrix):
            arrays |= pack_csr(name, matrix)
        elif matrix is not None:
            arrays[name] = matrix
    if dataset.index_base is not None:
        arrays["index_base"] = np.array(dataset.index_base)
    return arrays


def _schema(arrays: Arrays) -> Schema:
    """Declare the arrays of `_pack`; of labels and features alone, each of any kind."""
    kinds: dict[str, Any] = {"types": "f4 f8 i4 i8 b1", "low": None, "high": None}
    features: Schema = [floats("features", "rows", "columns", required=False, **kinds)]
    if "features.shape" in arrays:
        features = csr("features", "rows", "columns", **kinds)
    return [
        *csr("labels", "rows", "labels", **kinds),
        *features,
        ints("index_base", required=False),
    ]


def _restore(arrays: Arrays, source: str) -> Dataset:
    check_arrays(_schema(arrays), arrays)
    features = arrays.get("features")
    if "features.shape" in arrays:
        features = unpack_csr("features", arrays)
    base = int(arrays["index_base"]) if "index_base" in arrays else None
    return Dataset(unpack_csr("labels", arrays), features, source=source, index_base=base)
