"""Counts of training data, and the defaults that are chosen by them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.training_counts import (
    TrainingCounts,
    default_batch_size,
    default_damping,
)


@pytest.mark.parametrize(
    ("n", "size"), [(1, 32), (5119, 32), (10_240, 64), (81_919, 256), (81_920, 512), (10**7, 512)]
)
def test_batches_are_powers_of_two_that_leave_an_epoch_enough_steps(n, size):
    assert default_batch_size(n) == size


def counts(features, labels):
    return TrainingCounts(np.array(features), np.array(labels), np.array([1000]))


def test_rare_features_are_damped_by_the_root_of_their_examples():
    found = counts([0, 3, 15, 99], [5]).row_lr_scale(16.0)
    np.testing.assert_allclose(found, [0.25, 0.5, 1.0, 1.0])
    assert found.dtype == np.float32
    assert counts([0, 3], [5]).row_lr_scale(0.0) is None
    assert counts([0, 3], [5]).row_lr_scale(None) is None


def test_damping_follows_the_mean_examples_of_labels_that_occur():
    assert default_damping(40, 2) == pytest.approx(60)
    assert default_damping(200, 2) == pytest.approx(600)
    assert default_damping(40, 2, few_undamped=True) == pytest.approx(24)
    assert default_damping(100, 1, few_undamped=True) == pytest.approx(600)
    assert default_damping(0, 0) == 0


def test_further_examples_and_labels_are_added():
    X, Y = csr_matrix([[1, 0], [2, 3]]), csr_matrix([[1], [1]])
    more = TrainingCounts.of(X, Y).plus(X[1:], csr_matrix([[0, 1]]))
    assert more.features.tolist() == [3, 2]
    assert more.labels.tolist() == [2, 1]
    assert more.examples.tolist() == [3]
    share = (np.array([2, 1]) + 0.5) / 4
    np.testing.assert_allclose(more.log_odds(), np.log(share / (1 - share)), rtol=1e-6)
