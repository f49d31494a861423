"""The validation cut: every row once, the share asked for, the same for the same seed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given as given_drawn
from hypothesis import settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, vstack
from scipy.sparse.csgraph import connected_components

from labelspace._core.sparse import unit_rows
from labelspace.components import holdout as validation
from labelspace.components.holdout import (
    RELATED,
    _families,
    cut_apart,
    cut_validation,
    family_sizes,
    parts_of,
    validation_share,
)
from labelspace.components.training_data import TrainingData


@pytest.mark.parametrize(("n", "share", "size"), [(100, 0.1, 10), (7, 0.5, 4), (3, 1.0, 2)])
def test_a_cut_holds_every_row_once(n, share, size):
    rows, cut = cut_validation(n, share, seed=5)
    assert len(cut) == size
    assert np.array_equal(np.sort(np.concatenate([rows, cut])), np.arange(n))
    assert np.array_equal(cut, cut_validation(n, share, seed=5)[1])


def test_few_examples_give_a_larger_share_and_many_no_more_than_are_needed():
    assert validation_share(None, 500) == 0.1
    assert validation_share(None, 20_000) == 0.05
    assert validation_share(None, 100_000) == 0.02
    assert validation_share(None, 10**6) * 10**6 == pytest.approx(4000)
    assert validation_share(0.3, 1000) == 0.3


def test_half_of_a_cut_has_no_versions_on_the_other_side():
    rng = np.random.default_rng(0)
    originals = rng.random((60, 40)) * (rng.random((60, 40)) < 0.15)
    copies = originals[rng.integers(0, 60, 300)]
    X = csr_matrix((copies + 0.1 * (rng.random((300, 40)) < 0.03)).astype(np.float32))
    unit = X.toarray() / np.maximum(1e-9, np.linalg.norm(X.toarray(), axis=1, keepdims=True))
    rows, cut = cut_apart(X, 0.2, seed=1)
    assert len(cut) == 60
    assert np.array_equal(np.sort(np.concatenate([rows, cut])), np.arange(300))
    plain = cut_validation(300, 0.2, seed=1)
    new = [((unit[c] @ unit[r].T).max(axis=1) < RELATED).sum() for r, c in ((rows, cut), plain)]
    assert 25 <= new[0] <= 35
    assert new[1] < 10


def test_examples_that_are_all_alike_are_cut_all_the_same():
    rows, cut = cut_apart(csr_matrix(np.ones((20, 3), np.float32)), 0.25, seed=0)
    assert (len(rows), len(cut)) == (15, 5)


def test_families_are_what_versions_join():
    chain = np.array([[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0.28, 0.96, 0, 0], [0, 0, 1, 0]], np.float32)
    both = np.vstack([chain, 3 * chain[3:], np.zeros((1, 4), np.float32)])
    assert chain[0] @ chain[2] < RELATED  # but both are versions of the second
    assert family_sizes(csr_matrix(both)).tolist() == [3, 3, 3, 2, 2, 1]


def given(Y, valid=None):
    X = csr_matrix(np.arange(2.0 * len(Y), dtype=np.float32).reshape(-1, 2) + 1)
    return TrainingData(X, csr_matrix(Y), valid, None, (), "")


def test_parts_are_the_rows_they_say_they_are():
    data = given(np.eye(20, dtype=np.float32))
    X, Y, valid, rows = parts_of(data, 0.3, 0)
    assert valid is not None
    assert valid[1].shape[0] == 6
    np.testing.assert_array_equal(data.X[rows].toarray(), vstack([X, valid[0]]).toarray())
    np.testing.assert_array_equal(data.Y[rows].toarray(), vstack([Y, valid[1]]).toarray())


def test_held_out_examples_of_the_callers_are_taken_if_they_have_labels():
    held = (csr_matrix(np.ones((3, 2))), csr_matrix(np.eye(3, 20)))
    parts = parts_of(given(np.eye(20), held), 0.3, 0)
    assert parts.X.shape[0] == 20
    assert parts.valid is not None
    assert parts.valid[1].nnz == 3
    nothing = (held[0], csr_matrix((3, 20)))
    assert parts_of(given(np.eye(20), nothing), 0.3, 0).valid is None


def test_without_labels_on_both_sides_there_is_no_validation():
    Y = np.zeros((10, 3))
    Y[0, 0] = 1
    parts = parts_of(given(Y), 0.3, 0)
    assert parts.valid is None
    assert parts.X.shape[0] == 10


def work(X, share=0.1):
    n = X.shape[0]
    return _families(X, np.random.default_rng(0).permutation(n), round(share * n) // 2)[1]


@pytest.mark.parametrize("constant", [0.0, 9.0])
def test_many_that_are_alike_are_found_in_work_that_grows_with_their_number(constant):
    def alike(n):
        rng = np.random.default_rng(1)
        X = np.tile(rng.random(20, np.float32), (n, 1)) if constant == 0 else rng.random((n, 20))
        return csr_matrix(np.hstack([X, np.full((n, 1), constant)]).astype(np.float32))

    done = [work(alike(n)) for n in (500, 1000, 2000, 4000)]
    assert all(more <= 2.1 * less for less, more in pairwise(done))
    rows, cut = cut_apart(alike(2000), 0.1, seed=0)
    assert len(cut) == 200
    assert np.array_equal(np.sort(np.concatenate([rows, cut])), np.arange(2000))
    assert (family_sizes(alike(2000)) == 2000).all()


def test_the_search_for_versions_ends_when_enough_was_read():
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.standard_normal((400, 30)).astype(np.float32))
    order = np.arange(400)
    sizes, whole = _families(X, order, 400)
    assert (sizes == 1).all()
    some, done = _families(X, order, 400, most_work=whole / 4)
    assert done <= whole / 3
    assert 50 < some.sum() < 200  # those looked at by then
    none, nothing = _families(X, order, 400, most_work=0)
    assert not none.any()
    assert nothing == 0


def test_a_search_in_pieces_finds_what_it_finds_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    originals = rng.random((40, 30)) * (rng.random((40, 30)) < 0.2)
    X = csr_matrix(originals[rng.integers(0, 40, 300)].astype(np.float32))
    order = rng.permutation(300)
    whole, done = _families(X, order, 150)
    monkeypatch.setattr(validation, "WORK_AT_A_TIME", 50)  # Ctrl-C is heard between pieces
    again, done_again = _families(X, order, 150)
    np.testing.assert_array_equal(again, whole)
    assert done_again == done


@settings(max_examples=30, deadline=None)
@given_drawn(st.integers(0, 10**6), st.floats(0.0, 3.0), st.integers(1, 60))
def test_families_are_the_connected_parts_of_the_graph_of_versions(seed, constant, n):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 8)) * (rng.random((n, 8)) < 0.4)
    X = np.hstack([X, np.full((n, 1), constant)]).astype(np.float32)
    unit = unit_rows(csr_matrix(X)).toarray().astype(np.float64)
    cosines = unit @ unit.T
    if (np.abs(cosines - RELATED) < 1e-5).any():
        return  # rounding decides
    part = connected_components(csr_matrix(cosines >= RELATED))[1]
    assert family_sizes(csr_matrix(X)).tolist() == np.bincount(part)[part].tolist()
