"""Declared arrays of a model, and the one function that checks them.

What has arrays in a model file declares them: name, type, shape and range of each. `check_arrays`
compares what a file holds with the declaration, before a method or a compiled loop reads it. Sizes
are names or numbers: the first array that has a name as its length, as `examples` here, sets it for
all that follow.

    [*csr("Y", "examples", "labels"), floats("points", "examples", 50), ints("rows", "examples")]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from labelspace._core.checks import expect

Size = int | str  # a number, a name, or a name and more, such as "labels + 1"
Sizes = dict[str, int]
Rule = Callable[[np.ndarray, Sizes], bool]

MOST_LETTERS = 1 << 28  # of a tokenizer with its vocabulary, or of a list of words
# Weights beyond it are none of a training that succeeded, and would overflow from layer to layer.
LARGEST_WEIGHT = 1e9
LARGEST = 1e30  # of numbers that no others are multiplied with, such as thresholds
MOST = 2**62  # numbers that are counted: sums of two of them are still numbers of 64 bits


@dataclass(frozen=True)
class Array:
    """What an array of a model holds.

    Attributes
    ----------
    name : str
    types : str
        Names of the types that it may have, in numpy's letters.
    shape : tuple of int or str
        The size of each dimension.
    low : float, optional
        Least value.
    high : float, optional
        Largest value.
    limit : int or str, optional
        A size that all values are below.
    rules : tuple of callable
        What else holds: rule(array, sizes).
    required : bool
        Whether it must be there.
    unread : bool
        Whether values are read only where a model is verified: they may be many, as those of all
        labels, and no place in memory follows from them.
    """

    name: str
    types: str
    shape: tuple[Size, ...]
    low: float | None = None
    high: float | None = None
    limit: Size | None = None
    rules: tuple[Rule, ...] = field(default=())
    required: bool = True
    unread: bool = False


@dataclass(frozen=True)
class Together:
    """A rule on two arrays that are declared before it.

    Attributes
    ----------
    first, second : str
        Their names.
    holds : callable
        holds(first array, second array).
    """

    first: str
    second: str
    holds: Callable[[np.ndarray, np.ndarray], bool]


@dataclass(frozen=True)
class Elsewhere:
    """Arrays whose names have this prefix, which are checked where they are taken apart."""

    prefix: str


Schema = list[Array | Together | Elsewhere]


def floats(
    name: str,
    *shape: Size,
    low: float | None = -LARGEST_WEIGHT,
    high: float | None = LARGEST_WEIGHT,
    types: str = "f4",
    **more: Any,
) -> Array:
    """Declare floats, such as the weights of a layer."""
    return Array(name, types, shape, low, high, **more)


def scalars(name: str, *shape: Size, low: float = -LARGEST, **more: Any) -> Array:
    """Declare a few floats that are read in Python, of 32 or 64 bits."""
    return Array(name, "f4 f8", shape, low, LARGEST, **more)


def ints(
    name: str,
    *shape: Size,
    low: int = 0,
    limit: Size = MOST,
    types: str = "i4 i8",
    **more: Any,
) -> Array:
    """Declare whole numbers from `low` to below a limit, such as the numbers of labels."""
    return Array(name, types, shape, low, None, limit, **more)


def letters(name: str, most: int = 1 << 20) -> Array:
    """Declare a short text in bytes, such as JSON."""
    return Array(name, "u1", (f"{name} letters",), rules=(lambda array, _: array.size <= most,))


def offsets(name: str, count: Size, end: Size, *, filled: bool = False) -> Array:
    """Declare the bounds of slices: from 0 they rise to `end`; if `filled`, no slice is empty."""

    def rising(array: np.ndarray, sizes: Sizes) -> bool:
        steps = array[1:] > array[:-1] if filled else array[1:] >= array[:-1]
        return array[0] == 0 and array[-1] == _size(end, sizes) and bool(steps.all())

    return Array(name, "i4 i8", (f"{count} + 1",), 0, rules=(rising,))


def sizes_of(name: str, *wanted: Size, least: int = 0) -> Array:
    """Declare an array whose values are sizes, such as the shape of a matrix."""

    def same(array: np.ndarray, sizes: Sizes) -> bool:
        return all(_fits(size, int(n), sizes) for size, n in zip(wanted, array, strict=True))

    return ints(name, len(wanted), low=least, rules=(same,))


def parents(name: str, nodes: Size, widest: str) -> Array:
    """Declare the parents of the nodes of a tree, level by level; -1 is that of the root.

    `widest` becomes the size of the largest number of children.
    """

    def tree(array: np.ndarray, sizes: Sizes) -> bool:
        above = array[1:]
        holds = (
            len(array) > 0
            and array[0] == -1
            and bool((above >= 0).all())
            and bool((above < np.arange(1, len(array))).all())  # so that there is no cycle
            and bool((above[1:] >= above[:-1]).all())
        )
        sizes[widest] = int(np.bincount(above).max(initial=0)) if holds else 0
        return holds

    return ints(name, nodes, low=-1, types="i4", rules=(tree,))


def numbering(name: str, size: Size) -> Array:
    """Declare all numbers from 0 to below a size, each once, in any order."""

    def all_once(array: np.ndarray, _: Sizes) -> bool:
        return len(array) == 0 or int(np.bincount(array, minlength=len(array)).min()) == 1

    return ints(name, size, limit=size, types="i4", rules=(all_once,))


def once(array: np.ndarray, _: Sizes) -> bool:
    """Return whether no number occurs twice but -1, which stands for none."""
    return bool((np.bincount(array[array >= 0]) <= 1).all())


def filled(array: np.ndarray, _: Sizes) -> bool:
    """Return whether there is any number."""
    return array.size > 0


def same_as(name: str, size: Size) -> Array:
    """Declare a single number, without a dimension, that is a size."""

    def same(array: np.ndarray, sizes: Sizes) -> bool:
        return _fits(size, int(array), sizes)

    return ints(name, low=1, rules=(same,))


def csr(
    prefix: str,
    rows: Size,
    columns: Size,
    *,
    types: str = "f4",
    low: float | None = -LARGEST,
    high: float | None = LARGEST,
    sets: bool = False,
) -> Schema:
    """Declare a matrix that `pack_csr` packs; where rows are `sets`, no row has a column twice."""
    cells = f"{prefix} cells"
    return [
        sizes_of(f"{prefix}.shape", rows, columns, least=1),
        ints(f"{prefix}.indices", cells, limit=columns),
        offsets(f"{prefix}.indptr", rows, cells),
        floats(f"{prefix}.data", cells, low=low, high=high, types=types),
        *([Together(f"{prefix}.indptr", f"{prefix}.indices", _rising_rows)] if sets else []),
    ]


def optional(schema: Schema, arrays: Mapping[str, np.ndarray]) -> Schema:
    """Declare arrays that are all there or none of them."""
    names = [each.name for each in schema if isinstance(each, Array)]
    return schema if any(name in arrays for name in names) else []


def unverified(schema: Schema) -> Schema:
    """Return the same without bounds of arrays that are declared as `unread`."""
    return [
        replace(each, low=None, high=None) if isinstance(each, Array) and each.unread else each
        for each in schema
    ]


def check_arrays(schema: Schema, arrays: Mapping[str, np.ndarray], **sizes: int) -> Sizes:
    """Raise ModelFormatError unless the arrays are those that are declared; return all sizes.

    Arrays that are not declared are refused too: so each that a method saves is declared.
    """
    known = dict(sizes)
    for each in schema:
        if isinstance(each, Array) and each.name in arrays:
            _check(each, arrays[each.name], known)
        elif isinstance(each, Array):
            expect(not each.required, f"{each.name} is missing")
        elif isinstance(each, Together) and each.first in arrays and each.second in arrays:
            holds = each.holds(arrays[each.first], arrays[each.second])
            expect(holds, f"{each.first} and {each.second} do not fit each other")
    declared = {each.name for each in schema if isinstance(each, Array)}
    prefixes = tuple(each.prefix for each in schema if isinstance(each, Elsewhere))
    for name in arrays:
        expect(name in declared or name.startswith(prefixes), f"{name} is no array of such a model")
    return known


def _check(declared: Array, array: np.ndarray, sizes: Sizes) -> None:
    name, shape = declared.name, declared.shape
    expect(array.dtype.str[1:] in declared.types.split(), f"{name} has type {array.dtype}")
    fits = array.ndim == len(shape) and all(
        _fits(size, length, sizes) for size, length in zip(shape, array.shape, strict=True)
    )
    expect(fits, f"{name} has shape {array.shape}")
    if not array.size:
        expect(_hold(declared.rules, array, sizes), f"{name} is empty")
        return
    expect(_in_range(declared, array, sizes), f"{name} has values out of range")
    expect(_hold(declared.rules, array, sizes), f"{name} does not fit")


def _in_range(declared: Array, array: np.ndarray, sizes: Sizes) -> bool:
    """Return whether all values are within the bounds; one that its type implies is not read."""
    low, high = declared.low, declared.high
    limit = None if declared.limit is None else _size(declared.limit, sizes)
    if array.dtype.kind in "iu":
        of_type = np.iinfo(array.dtype)
        low = None if low is not None and of_type.min >= low else low
        limit = None if limit is not None and of_type.max < limit else limit
    # As Python's numbers: a bound may be beyond what a narrow type holds.
    return (
        (low is None or float(array.min()) >= low)
        and (high is None or float(array.max()) <= high)
        and (limit is None or int(array.max()) < limit)
    )


def _hold(rules: tuple[Rule, ...], array: np.ndarray, sizes: Sizes) -> bool:
    return all(rule(array, sizes) for rule in rules)


def _fits(size: Size, length: int, sizes: Sizes) -> bool:
    """Return whether a length is the one that is declared; a name that is new is set to it."""
    if isinstance(size, int):
        return length == size
    name, _, more = size.partition(" + ")
    if name not in sizes:
        sizes[name] = length - (_size(more, sizes) if more else 0)
        return sizes[name] >= 0
    return length == _size(size, sizes)


def _size(size: Size, sizes: Sizes) -> int:
    if isinstance(size, int):
        return size
    return sum(int(part) if part.isdigit() else sizes[part] for part in size.split(" + "))


def _rising_rows(indptr: np.ndarray, indices: np.ndarray) -> bool:
    rises = indices[1:] > indices[:-1]
    first = indptr[1:-1]
    rises[first[(first > 0) & (first < len(indices))] - 1] = True  # from one row to the next
    return bool(rises.all())
