from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.unseen_labels import SHARE, labels_to_hide, without_labels
from labelspace.ranking import Ranking


def test_labels_are_hidden_until_a_share_of_the_pairs_is_unseen():
    Y = csr_matrix(np.eye(100, dtype=np.float32))
    hidden = labels_to_hide(Y, np.ones(100, np.int64), seed=0)
    assert len(hidden) == round(100 * SHARE)
    assert np.array_equal(hidden, labels_to_hide(Y, np.ones(100, np.int64), seed=0))


def test_nothing_is_hidden_where_labels_without_examples_are_many():
    Y = csr_matrix(np.eye(100, dtype=np.float32))
    assert len(labels_to_hide(Y, np.arange(100) // 10, seed=0)) == 0


def test_a_single_label_is_never_hidden():
    assert len(labels_to_hide(csr_matrix(np.ones((5, 1))), np.array([3]), seed=0)) == 0


def test_hidden_labels_are_taken_out_of_a_ranking():
    ranking = Ranking(np.array([[2, 1, -1]]), np.array([[0.9, 0.5, 0.0]], np.float32))
    without = without_labels(ranking, np.array([2]))
    assert without.labels.tolist() == [[-1, 1, -1]]
    assert without.scores.tolist() == [[0.0, 0.5, 0.0]]
