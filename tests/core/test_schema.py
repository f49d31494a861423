"""Arrays against what is declared of them: types, shapes, ranges, order, and none beside."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from labelspace._core.schema import (
    Elsewhere,
    check_arrays,
    csr,
    floats,
    ints,
    letters,
    numbering,
    offsets,
    once,
    optional,
    parents,
    same_as,
    scalars,
    sizes_of,
    unverified,
)
from labelspace._core.sparse import pack_csr
from labelspace.errors import ModelFormatError


def array(*values, dtype=np.int32):
    return np.array(values, dtype)


def refused(schema, values, **sizes):
    try:
        check_arrays([schema], {"a": values}, **sizes)
    except ModelFormatError:
        return True
    return False


@pytest.mark.parametrize(
    ("declared", "right", "wrong"),
    [
        (
            floats("a", "labels", low=0.0, high=1.0),
            [np.array([0, 0.5, 1], np.float32)],
            [
                np.zeros(2, np.float32), np.zeros((3, 1), np.float32), np.zeros(3),
                np.full(3, 1.5, np.float32), np.full(3, -0.1, np.float32), array(0, 0, 1),
            ],
        ),
        (
            ints("a", "labels", limit="features + 1"),
            [array(0, 4, 2), array(0, 4, 2, dtype=np.int64)],
            [array(0, 5, 2), array(0, -1, 2), array(0, 1, 2, dtype=np.uint8), array(0, 1)],
        ),
        (
            offsets("a", "labels", "features"),
            [array(0, 1, 1, 4)],
            [array(0, 2, 1, 4), array(1, 1, 1, 4), array(0, 1, 1, 3), array(0, 1, 4), array()],
        ),
        (
            offsets("a", "labels", "features", filled=True),
            [array(0, 1, 3, 4)],
            [array(0, 1, 1, 4)],
        ),
        (numbering("a", "labels"), [array(2, 0, 1)], [array(2, 0, 0), array(0, 1, 3), array(0)]),
        (
            ints("a", "labels", low=-1, limit=9, rules=(once,)),
            [array(2, -1, 0), array(-1, -1, -1)],
            [array(2, -1, 2)],
        ),
        (
            parents("a", "nodes", "widest"),
            [array(-1), array(-1, 0, 0, 1), array(-1, 0, 1, 1)],
            [
                array(), array(0), array(-1, 1), array(-1, 0, 2, 2), array(-1, 0, 1, 0),
                array(-1, -1), array(-1, 0, 3, 1), array(-1, 2**31 - 1),
            ],
        ),
        (sizes_of("a", "labels", "features"), [array(3, 4)], [array(4, 3), array(3), array(3, 5)]),
        (sizes_of("a", "new", least=1), [array(1)], [array(0), array(-1)]),
        (same_as("a", "labels"), [np.array(3)], [np.array(4), array(3), np.array(3.0)]),
        (
            floats("a", 2, low=-1e30, high=1e30, types="f2 f4"),
            [np.zeros(2, np.float16), np.full(2, 6e4, np.float16)],
            [np.full(2, 2e30, np.float32), np.full(2, np.nan, np.float32)],
        ),
        (scalars("a", 2), [np.zeros(2), np.zeros(2, np.float32)], [np.zeros(3), np.zeros((2, 1))]),
        (letters("a", 3), [array(65, dtype=np.uint8)], [array(65), np.zeros(4, np.uint8)]),
    ],
)  # fmt: skip
def test_what_is_declared_is_taken_and_all_else_refused(declared, right, wrong):
    assert not any(refused(declared, values, labels=3, features=4) for values in right)
    assert all(refused(declared, values, labels=3, features=4) for values in wrong)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e35])
def test_numbers_that_are_not_finite_or_overflow_are_refused(dtype, value):
    with np.errstate(over="ignore"):
        damaged = np.zeros((3, 2), dtype)
        damaged[1, 1] = value
    schema = [floats("a", 3, 2, types=dtype)]
    check_arrays(schema, {"a": np.zeros((3, 2), dtype)})
    with pytest.raises(ModelFormatError, match="out of range"):
        check_arrays(schema, {"a": damaged})


def test_the_first_array_of_a_size_sets_it_for_those_that_follow():
    schema = [floats("x", "rows", "dim"), floats("y", "dim + 1"), ints("of", "rows", limit="dim")]
    arrays = {"x": np.zeros((2, 3), np.float32), "y": np.zeros(4, np.float32), "of": array(2, 0)}
    assert check_arrays(schema, arrays) == {"rows": 2, "dim": 3}
    for name, damaged in (
        ("y", np.zeros(3, np.float32)), ("of", array(3, 0)), ("of", array(0)),
        ("x", np.zeros((3, 3), np.float32)),
    ):  # fmt: skip
        with pytest.raises(ModelFormatError):
            check_arrays(schema, {**arrays, name: damaged})


def test_sums_of_sizes():
    schema = [floats("x", "one"), floats("y", "two"), floats("z", "one + 1 + two")]
    arrays = {name: np.zeros(size, np.float32) for name, size in (("x", 2), ("y", 3), ("z", 6))}
    assert check_arrays(schema, arrays) == {"one": 2, "two": 3}
    with pytest.raises(ModelFormatError, match="z has shape"):
        check_arrays(schema, {**arrays, "z": np.zeros(5, np.float32)})


def test_arrays_that_are_missing_or_not_declared_are_refused():
    pair = [floats("x", 1), floats("y", 1)]
    one, two = ({name: np.zeros(1, np.float32) for name in names} for names in ("x", "xy"))
    with pytest.raises(ModelFormatError, match="y is missing"):
        check_arrays(pair, one)
    with pytest.raises(ModelFormatError, match="y is no array of such a model"):
        check_arrays(pair[:1], two)
    check_arrays([*pair[:1], Elsewhere("y")], two)
    check_arrays(optional(pair, {}), {})
    with pytest.raises(ModelFormatError, match="y is missing"):
        check_arrays(optional(pair, one), one)


def test_rows_that_are_sets_have_no_column_twice():
    X = csr_matrix(np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]], np.float32))
    arrays, schema = pack_csr("X", X), csr("X", 3, 3, sets=True)
    check_arrays(schema, arrays)
    for indices in ((0, 0, 0, 1), (2, 0, 0, 1), (0, 2, 1, 1)):
        with pytest.raises(ModelFormatError, match="do not fit each other"):
            check_arrays(schema, {**arrays, "X.indices": array(*indices)})


def packed():
    X = random(7, 4, 0.5, format="csr", dtype=np.float32, random_state=0)
    return {name: np.array(array) for name, array in pack_csr("X", X).items()}


def damaged(part, place, value):
    arrays = packed()
    arrays[f"X.{part}"][place] = value
    return arrays


@pytest.mark.parametrize(
    ("part", "place", "value"),
    [
        ("indices", 0, 4), ("indices", -1, -1), ("indices", 0, 2**30),
        ("indptr", 0, 1), ("indptr", 0, -1), ("indptr", -1, 10**6), ("indptr", -1, 0),
        ("indptr", 3, 0), ("shape", 0, 8), ("shape", 0, -1), ("shape", 1, 1), ("shape", 1, 2**62),
    ],
)  # fmt: skip
def test_arrays_that_are_no_matrix_are_refused(part, place, value):
    with pytest.raises(ModelFormatError, match="X"):
        check_arrays(csr("X", "rows", "columns"), damaged(part, place, value))


@pytest.mark.parametrize(
    "change",
    [
        {"indices": lambda a: a.astype(float)},
        {"indices": lambda a: a.astype(np.uint8)},
        {"indices": lambda a: a[:-1]},
        {"indices": lambda a: a[:, None]},
        {"data": lambda a: a[:-1]},
        {"indptr": lambda a: a[:-1]},
        {"indptr": lambda a: a.astype(np.float32)},
        {"indptr": lambda a: a[:0]},
        {"shape": lambda a: a[:1]},
        {"shape": lambda a: a.astype(float)},
    ],
)
def test_arrays_of_other_types_and_lengths_are_refused(change):
    arrays = packed()
    for part, do in change.items():
        arrays[f"X.{part}"] = do(arrays[f"X.{part}"])
    with pytest.raises(ModelFormatError, match="X"):
        check_arrays(csr("X", "rows", "columns"), arrays)


def test_a_matrix_of_another_shape_than_declared_is_refused():
    arrays = packed()
    assert check_arrays(csr("X", "rows", 4), arrays)["rows"] == 7
    for shape in ((8, 4), (7, 5), (4, 7), ("known", 4), (7, "known + 1")):
        with pytest.raises(ModelFormatError, match="shape"):
            check_arrays(csr("X", *shape), arrays, known=4)


def test_values_of_unread_arrays_are_checked_where_a_model_is_verified():
    schema = [floats("V", 3, unread=True), floats("W", 3)]
    fine, broken = np.ones(3, np.float32), np.full(3, np.nan, np.float32)
    check_arrays(unverified(schema), {"V": broken, "W": fine})
    for arrays, declared in (
        ({"V": broken, "W": fine}, schema),
        ({"V": fine, "W": broken}, unverified(schema)),
        ({"V": fine[:2], "W": fine}, unverified(schema)),
        ({"V": fine.astype(np.int32), "W": fine}, unverified(schema)),
    ):
        with pytest.raises(ModelFormatError):
            check_arrays(declared, arrays)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_bounds_beyond_those_of_a_narrow_type_hold(dtype):
    most = np.iinfo(dtype)
    array = np.array([most.min, most.max], dtype)
    types = array.dtype.str[1:]
    check_arrays([ints("A", 2, low=-128, limit=256, types=types)], {"A": array})
    for declared in (
        ints("A", 2, low=-128, limit=int(most.max), types=types),
        ints("A", 2, low=int(most.min) + 1, types=types),
    ):
        with pytest.raises(ModelFormatError, match="out of range"):
            check_arrays([declared], {"A": array})
