"""Hits as one byte per example: the means of what they give are the metrics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.metrics.packed_hits import METRICS, example_values, packed_hits
from labelspace.metrics.ranking import evaluate
from labelspace.ranking import Ranking


@pytest.mark.parametrize("width", [3, 5, 9])
def test_means_over_examples_are_the_metrics(width):
    rng = np.random.default_rng(width)
    truth = csr_matrix((rng.random((200, 12)) < 0.2).astype(np.float32))
    assert (np.diff(truth.indptr) == 0).any()  # examples without labels count as 0
    labels = np.array([rng.permutation(12)[:width] for _ in range(200)])
    labels[:50, 2:] = -1
    ranking = Ranking(labels, np.tile(np.linspace(1, 0, width), (200, 1)))
    packed = packed_hits(ranking, truth)
    assert packed.shape == (200,)
    assert packed.dtype == np.uint8
    assert packed.max() < 32
    values = example_values(packed, np.diff(truth.indptr))
    expected = evaluate(ranking, truth)
    assert 100 * values.mean(axis=0) == pytest.approx([expected[name] for name in METRICS])


def test_the_first_rank_is_the_lowest_bit():
    truth = csr_matrix(np.array([[1, 0, 0, 1], [0, 0, 0, 0]], np.float32))
    ranking = Ranking(np.array([[0, 1, 3], [2, -1, -1]]), np.zeros((2, 3)))
    assert packed_hits(ranking, truth).tolist() == [0b101, 0]
