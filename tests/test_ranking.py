"""Rankings from sparse scores."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from labelspace.ranking import Ranking


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 6), st.integers(1, 8), st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_from_sparse_is_a_stable_sort_of_each_row(n, n_labels, k, seed):
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 4, (n, n_labels)) / 4
    ranking = Ranking.from_sparse(csr_matrix(dense.astype(np.float32)), k)
    for row in range(n):
        by_score = np.argsort(-dense[row], kind="stable")
        order = [label for label in by_score if dense[row, label] > 0][:k]
        padded = order + [-1] * (k - len(order))
        assert ranking.labels[row].tolist() == padded
        assert ranking.scores[row, : len(order)].tolist() == dense[row, order].tolist()


def test_stack_and_take():
    parts = [Ranking.empty(2, 3), Ranking(np.ones((1, 3), np.int64), np.ones((1, 3), np.float32))]
    whole = Ranking.stack(parts)
    assert len(whole) == 3
    assert whole.take(np.array([2])).labels.tolist() == [[1, 1, 1]]
