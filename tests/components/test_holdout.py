"""The hold-out: every row once, of the given share, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from labelspace.components import holdout
from labelspace.components.holdout import HoldOut, held_out_share, split_rows
from labelspace.components.near_duplicates import cut_by_group
from labelspace.components.training_data import TrainingData


@pytest.mark.parametrize(("n", "share", "size"), [(100, 0.1, 10), (7, 0.5, 4), (3, 1.0, 2)])
def test_a_cut_holds_every_row_once(n, share, size):
    rows, cut = split_rows(n, share, seed=5)
    assert len(cut) == size
    assert np.array_equal(np.sort(np.concatenate([rows, cut])), np.arange(n))
    assert np.array_equal(cut, split_rows(n, share, seed=5)[1])


def test_few_examples_give_a_larger_share_and_many_no_more_than_are_needed():
    assert held_out_share(None, 500) == 0.1
    assert held_out_share(None, 20_000) == 0.05
    assert held_out_share(None, 100_000) == 0.02
    assert held_out_share(None, 10**6) * 10**6 == pytest.approx(4000)
    assert held_out_share(0.3, 1000) == 0.3


def given(Y, valid=None):
    X = csr_matrix(np.arange(2.0 * len(Y), dtype=np.float32).reshape(-1, 2) + 1)
    return TrainingData(X, csr_matrix(Y), valid, None, (), "")


def test_parts_are_the_rows_of_their_numbers():
    data = given(np.eye(20, dtype=np.float32))
    found = HoldOut.of(data, 0.3, 0)
    assert found.valid is not None
    assert len(found.held_rows) == found.valid[1].shape[0] == 6
    rows = np.concatenate([found.train_rows, found.held_rows])
    assert np.array_equal(np.sort(rows), np.arange(20))
    both = vstack([found.X, found.valid[0]]), vstack([found.Y, found.valid[1]])
    np.testing.assert_array_equal(data.X[rows].toarray(), both[0].toarray())
    np.testing.assert_array_equal(data.Y[rows].toarray(), both[1].toarray())


def test_held_out_examples_of_the_callers_are_taken_if_they_have_labels():
    held = (csr_matrix(np.ones((3, 2))), csr_matrix(np.eye(3, 20)))
    parts = HoldOut.of(given(np.eye(20), held), 0.3, 0)
    assert parts.X.shape[0] == 20
    assert parts.valid is not None
    assert parts.valid[1].nnz == 3
    assert len(parts.held_rows) == 0
    assert not parts.refits
    nothing = (held[0], csr_matrix((3, 20)))
    assert HoldOut.of(given(np.eye(20), nothing), 0.3, 0).valid is None


def test_without_labels_on_both_sides_there_is_no_validation():
    Y = np.zeros((10, 3))
    Y[0, 0] = 1
    parts = HoldOut.of(given(Y), 0.3, 0)
    assert parts.valid is None
    assert parts.X.shape[0] == 10


def test_a_cap_bounds_the_hold_out():
    data = given(np.eye(20))
    assert len(HoldOut.of(data, 0.5, 0, cap=3).held_rows) == 3
    assert len(HoldOut.of(data, 0.5, 0).held_rows) == 10
    assert HoldOut.of(data, 0.0, 0).valid is None


def test_groups_of_near_duplicates_stay_together():
    rng = np.random.default_rng(0)
    X = csr_matrix(np.repeat(rng.random((10, 30)) * (rng.random((10, 30)) < 0.2), 4, axis=0))
    data = TrainingData(X, csr_matrix(np.ones((40, 1))), None, None, (), "")
    found = HoldOut.of(data, 0.4, 3, groups=True)
    assert np.array_equal(found.held_rows, cut_by_group(X, 16, 3)[1])
    whole = [rows for rows in np.arange(40).reshape(10, 4) if np.isin(rows, found.held_rows).all()]
    assert len(whole) >= 2  # half of 16, in groups of 4
    # Without any work, nothing is known to be alike: the hold-out has its size, of random rows.
    random = HoldOut.of(data, 0.4, 3, groups=True, max_work=0).held_rows
    assert len(random) == 16
    assert np.array_equal(random, cut_by_group(X, 16, 3, max_work=0)[1])
    assert not np.array_equal(random, found.held_rows)


def test_a_refit_is_for_few_examples_of_which_some_were_held_out(monkeypatch):
    data = given(np.eye(20))
    assert HoldOut.of(data, 0.3, 0).refits
    assert not HoldOut.of(data, 0.0, 0).refits
    monkeypatch.setattr(holdout, "FEW_EXAMPLES", 19)
    assert not HoldOut.of(data, 0.3, 0).refits
