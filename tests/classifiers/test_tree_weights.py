"""Weights of a tree's classifiers, by parent and feature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.classifiers.tree_weights import FeatureBuckets, edge_margins, lay_out_children

FIRST_CHILD = np.array(
    [1, 4, 9, 9, 9, 9, 9, 9, 9, 9]
)  # the root has nodes 1 to 3, node 1 has 4 to 8


@pytest.mark.parametrize("kind", ["even", "at the end", "few"])
def test_margins_are_those_of_dense_weights_however_features_are_spread(kind):
    rng = np.random.default_rng(0)
    width = 2000
    dense = np.where(rng.random((9, width + 1)) < 0.2, rng.standard_normal((9, width + 1)), 0.0)
    if kind == "at the end":
        dense[:, 30 : width - 400] = 0.0
    if kind == "few":
        dense[:, 5:width] = 0.0
    dense[0] = 0.0
    model = lay_out_children(FIRST_CHILD, csr_matrix(dense.astype(np.float32)))
    places = FeatureBuckets.of(model)
    indices = np.flatnonzero(rng.random(width) < 0.3).astype(np.int32)  # some beyond the last one
    data = rng.standard_normal(len(indices)).astype(np.float32)
    for node, first in ((0, 1), (1, 4)):
        count = FIRST_CHILD[node + 1] - first
        margins = np.empty(count)
        edge_margins((indices, data), model, places, node, first, count, margins)
        rows = dense[first : first + count]
        np.testing.assert_allclose(margins, rows[:, indices] @ data + rows[:, -1], atol=1e-4)


def test_a_bucket_holds_few_features():
    dense = np.zeros((9, 4001), np.float32)
    dense[1, ::4] = 1.0
    places = FeatureBuckets.of(lay_out_children(FIRST_CHILD, csr_matrix(dense)))
    sizes = np.diff(places.buckets[places.begins[0] : places.begins[1]])
    assert sizes.sum() == 1000
    assert sizes.max() <= 8
