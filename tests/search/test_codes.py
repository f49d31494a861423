"""Integers for vectors: how far they are off, and sums that do not overflow."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.search.codes import LARGEST_CODE, integer_dot, quantise, to_integers


def test_codes_are_within_half_a_step_of_the_vectors():
    vectors = np.random.default_rng(0).standard_normal((5000, 12), np.float32)
    vectors *= np.logspace(-6, 6, 12, dtype=np.float32)  # each dimension has a step of its own
    steps, codes = quantise(vectors)
    assert codes.dtype == np.int8
    assert (np.abs(codes).max(axis=0) == LARGEST_CODE).all()
    assert (np.abs(codes * steps - vectors) <= 0.5001 * steps).all()


def test_a_dimension_of_zeros_has_codes_of_zeros():
    vectors = np.random.default_rng(1).standard_normal((50, 3), np.float32)
    vectors[:, 1] = 0
    steps, codes = quantise(vectors)
    assert (codes[:, 1] == 0).all()
    assert np.isfinite(steps).all()
    assert (steps > 0).all()


@pytest.mark.parametrize("dim", [1, 64, 4096])
def test_the_largest_sum_does_not_overflow(dim):
    query, steps = np.full(dim, 3.0, np.float32), np.full(dim, 0.01, np.float32)
    integers = np.empty(dim, np.int16)
    to_integers(query, steps, integers)
    codes = np.stack([np.full(dim, LARGEST_CODE), np.full(dim, -LARGEST_CODE)]).astype(np.int8)
    for row, sign in ((0, 1), (1, -1)):
        expected = sign * int(integers.astype(np.int64).sum()) * LARGEST_CODE
        assert integer_dot(integers, codes, row) == expected
        assert abs(expected) < 2**31
    assert integers.min() > 0


def test_integer_products_follow_real_ones():
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((300, 32), np.float32)
    steps, codes = quantise(vectors)
    query = rng.standard_normal(32).astype(np.float32)
    integers = np.empty(32, np.int16)
    to_integers(query, steps, integers)
    found = np.array([integer_dot(integers, codes, row) for row in range(len(codes))])
    assert np.array_equal(found, codes.astype(np.int64) @ integers.astype(np.int64))
    real = vectors @ query
    unit = np.abs(query * steps).max() / np.abs(integers).max()
    assert np.abs(found * unit - real).max() < 0.02 * np.abs(real).max()


def test_a_query_of_zeros_is_zeros():
    integers = np.full(4, 7, np.int16)
    to_integers(np.zeros(4, np.float32), np.ones(4, np.float32), integers)
    assert (integers == 0).all()
