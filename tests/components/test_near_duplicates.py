"""Near duplicates: groups are connected components, and a hold-out takes whole ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from labelspace._core.sparse import unit_rows
from labelspace.components import near_duplicates as module
from labelspace.components.holdout import split_rows
from labelspace.components.near_duplicates import (
    NEAR_DUPLICATE_COSINE,
    cut_by_group,
    group_sizes,
    near_duplicates,
)


def test_half_of_a_hold_out_has_no_near_duplicates_in_training():
    rng = np.random.default_rng(0)
    originals = rng.random((60, 40)) * (rng.random((60, 40)) < 0.15)
    copies = originals[rng.integers(0, 60, 300)]
    X = csr_matrix((copies + 0.1 * (rng.random((300, 40)) < 0.03)).astype(np.float32))
    unit = X.toarray() / np.maximum(1e-9, np.linalg.norm(X.toarray(), axis=1, keepdims=True))
    rows, cut = cut_by_group(X, 60, seed=1)
    assert len(cut) == 60
    assert np.array_equal(np.sort(np.concatenate([rows, cut])), np.arange(300))
    plain = split_rows(300, 0.2, seed=1)
    new = [
        ((unit[c] @ unit[r].T).max(axis=1) < NEAR_DUPLICATE_COSINE).sum()
        for r, c in ((rows, cut), plain)
    ]
    assert 25 <= new[0] <= 35
    assert new[1] < 10


def test_examples_that_are_all_alike_are_cut_all_the_same():
    rows, cut = cut_by_group(csr_matrix(np.ones((20, 3), np.float32)), 5, seed=0)
    assert (len(rows), len(cut)) == (15, 5)


def test_groups_are_what_near_duplicates_connect():
    chain = np.array([[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0.28, 0.96, 0, 0], [0, 0, 1, 0]], np.float32)
    both = np.vstack([chain, 3 * chain[3:], np.zeros((1, 4), np.float32)])
    assert chain[0] @ chain[2] < NEAR_DUPLICATE_COSINE  # but both are near duplicates of the second
    assert group_sizes(csr_matrix(both)).tolist() == [3, 3, 3, 2, 2, 1]


def work(X, share=0.1):
    n = X.shape[0]
    return near_duplicates(X, np.random.default_rng(0).permutation(n), round(share * n) // 2)[1]


@pytest.mark.parametrize("constant", [0.0, 9.0])
def test_many_that_are_alike_are_found_in_work_that_grows_with_their_number(constant):
    def alike(n):
        rng = np.random.default_rng(1)
        X = np.tile(rng.random(20, np.float32), (n, 1)) if constant == 0 else rng.random((n, 20))
        return csr_matrix(np.hstack([X, np.full((n, 1), constant)]).astype(np.float32))

    done = [work(alike(n)) for n in (500, 1000, 2000, 4000)]
    assert all(more <= 2.1 * less for less, more in pairwise(done))
    rows, cut = cut_by_group(alike(2000), 200, seed=0)
    assert len(cut) == 200
    assert np.array_equal(np.sort(np.concatenate([rows, cut])), np.arange(2000))
    assert (group_sizes(alike(2000)) == 2000).all()


def test_the_search_ends_when_enough_was_read():
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.standard_normal((400, 30)).astype(np.float32))
    order = np.arange(400)
    sizes, whole = near_duplicates(X, order, 400)
    assert (sizes == 1).all()
    some, done = near_duplicates(X, order, 400, max_work=whole / 4)
    assert done <= whole / 3
    assert 50 < some.sum() < 200  # those compared by then
    none, nothing = near_duplicates(X, order, 400, max_work=0)
    assert not none.any()
    assert nothing == 0


def test_a_search_in_pieces_finds_what_it_finds_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    originals = rng.random((40, 30)) * (rng.random((40, 30)) < 0.2)
    X = csr_matrix(originals[rng.integers(0, 40, 300)].astype(np.float32))
    order = rng.permutation(300)
    whole, done = near_duplicates(X, order, 150)
    monkeypatch.setattr(module, "WORK_PER_CALL", 50)  # Ctrl-C is heard between pieces
    again, done_again = near_duplicates(X, order, 150)
    np.testing.assert_array_equal(again, whole)
    assert done_again == done


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 3.0), st.integers(1, 60))
def test_groups_are_the_connected_components_of_near_duplicates(seed, constant, n):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 8)) * (rng.random((n, 8)) < 0.4)
    X = np.hstack([X, np.full((n, 1), constant)]).astype(np.float32)
    unit = unit_rows(csr_matrix(X)).toarray().astype(np.float64)
    cosines = unit @ unit.T
    if (np.abs(cosines - NEAR_DUPLICATE_COSINE) < 1e-5).any():
        return  # rounding decides
    part = connected_components(csr_matrix(cosines >= NEAR_DUPLICATE_COSINE))[1]
    assert group_sizes(csr_matrix(X)).tolist() == np.bincount(part)[part].tolist()
