"""Label vectors in 16 or 8 bits per number, searched as they are stored: nothing is copied at load.

Half precision keeps three significant digits. In 8 bits, a vector has a scale of its own; its last
number, which holds the label's bias, is larger than the others and keeps 32 bits. An index decodes
the vectors that it reads to float32, in blocks where it reads all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from labelspace._core.dense import read_only
from labelspace._core.schema import Schema, floats, ints
from labelspace.search.codes import LARGEST_CODE
from labelspace.search.row_products import Stored

PRECISIONS = ("float32", "float16", "int8")
_BLOCK = 16_384  # vectors that are encoded at a time
_LARGEST_HALF = np.float32(np.finfo(np.float16).max)


class StoredVectors:
    """Vectors of fewer bits, which slices and rows decode to float32.

    Attributes
    ----------
    arrays : dict of str to ndarray
        float16 `halves` (n, dimension); or int8 `codes` (n, dimension - 1), and float32 `scales`
        and `last`, both (n,). They may be read-only memory maps.

    Examples
    --------
    >>> import numpy as np
    >>> stored = StoredVectors.of(np.array([[1.0, -0.5, 7.0]], np.float32), "int8")
    >>> stored[:].round(2).tolist(), stored.arrays["codes"].tolist()
    ([[1.0, -0.5, 7.0]], [[127, -64]])
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = dict(arrays)

    @classmethod
    def of(cls, vectors: Any, precision: str) -> Self:
        """Encode vectors (n, dimension) in "float16" or "int8"."""
        n, dim = vectors.shape
        if precision == "float16":
            halves = np.empty((n, dim), np.float16)
            for start in range(0, n, _BLOCK):
                rows = slice(start, start + _BLOCK)
                halves[rows] = np.clip(vectors[rows], -_LARGEST_HALF, _LARGEST_HALF)
            return cls({"halves": halves})
        codes, scales = np.empty((n, dim - 1), np.int8), np.empty(n, np.float32)
        last = np.empty(n, np.float32)
        for start in range(0, n, _BLOCK):
            rows = slice(start, start + _BLOCK)
            part = vectors[rows]
            last[rows] = part[:, -1]
            largest = np.abs(part[:, :-1]).max(axis=1, initial=0.0) / np.float32(LARGEST_CODE)
            scales[rows] = np.where(largest < np.finfo(np.float32).tiny, 1, largest)
            codes[rows] = np.rint(part[:, :-1] / scales[rows][:, None])
        return cls({"codes": codes, "scales": scales, "last": last})

    @property
    def parts(self) -> Any:
        """What compiled loops read: see `row_products`."""
        if "halves" in self.arrays:
            return read_only(self.arrays["halves"]).view(np.uint16)
        return tuple(read_only(self.arrays[name]) for name in ("codes", "scales", "last"))

    @property
    def shape(self) -> tuple[int, int]:
        """Number and dimension of the vectors, as they are decoded."""
        if "halves" in self.arrays:
            n, dim = self.arrays["halves"].shape
            return n, dim
        n, dim = self.arrays["codes"].shape
        return n, dim + 1

    @property
    def size(self) -> int:
        """The count of numbers, as they are decoded."""
        n, dim = self.shape
        return n * dim

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return the vectors of a slice or of row numbers, float32."""
        if "halves" in self.arrays:
            return np.asarray(self.arrays["halves"][rows], np.float32)
        codes, scales, last = (self.arrays[name][rows] for name in ("codes", "scales", "last"))
        return np.hstack([codes * scales[:, None], last[:, None]])


Vectors = np.ndarray | StoredVectors


def loop_parts(vectors: Vectors) -> Stored:
    """Return what compiled loops read of vectors in any precision."""
    return vectors.parts if isinstance(vectors, StoredVectors) else read_only(vectors)


def vectors_schema(prefix: str, precision: str, rows: str, dim: str) -> Schema:
    """Declare so many vectors of `dim` numbers and a last one: `full`, or those of StoredVectors.

    A search multiplies and adds these numbers, and takes no places of them.
    """
    if precision == "float32":
        return [floats(f"{prefix}full", rows, f"{dim} + 1", unread=True)]
    if precision == "float16":
        return [floats(f"{prefix}halves", rows, f"{dim} + 1", types="f2", unread=True)]
    return [
        ints(f"{prefix}codes", rows, dim, low=-128, types="i1"),
        floats(f"{prefix}scales", rows, low=0.0, unread=True),
        floats(f"{prefix}last", rows, unread=True),
    ]
