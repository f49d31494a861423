"""Prediction of `hyperbolic`: shares of the votes of near examples, and of near label points."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.search.geometry.points import NeighbourIndex

NEAR_LABELS = 50  # labels that get a score when labels are ranked by their distance


def label_shares(
    params: SimpleNamespace,
    queries: Sequence[np.ndarray],
    indexes: Sequence[NeighbourIndex],
    label_indexes: Sequence[NeighbourIndex],
    Y: csr_matrix,
    own: np.ndarray | None = None,
) -> csr_matrix:
    """Return the scores of labels, (queries, labels), mean over learners.

    Sums of sparse matrices, not `search.neighbours.voting`: votes and label distances are added, in
    float64.

    Parameters
    ----------
    params : SimpleNamespace
        Resolved parameters of the method.
    queries : sequence of ndarray of shape (n, dim)
        Points of the queries, one array per learner; so are the indexes.
    indexes, label_indexes : sequence of NeighbourIndex
        Over the points of the examples and of the labels.
    Y : csr_matrix of shape (examples, labels)
        Labels of the examples that vote.
    own : ndarray of shape (n,), optional
        Rows of Y that the queries are, which do not vote for themselves.
    """
    label_weight = {"examples": 0.0, "labels": 1.0, "both": params.labels_share}[params.predict_by]
    total = csr_matrix((len(queries[0]), Y.shape[1]), dtype=np.float64)
    if label_weight < 1.0:
        slope = params.sharpness * params.alpha
        near = [
            neighbour_weights(index, points, params.neighbours, slope, own)
            for index, points in zip(indexes, queries, strict=True)
        ]
        total += (1.0 - label_weight) / len(near) * (sum(near[1:], near[0]) @ Y)
    if label_weight > 0.0:
        near = [
            neighbour_weights(index, points, NEAR_LABELS, params.alpha)
            for index, points in zip(label_indexes, queries, strict=True)
        ]
        total += label_weight / len(near) * sum(near[1:], near[0])
    return total


def neighbour_weights(
    index: NeighbourIndex,
    queries: np.ndarray,
    k: int,
    slope: float,
    own: np.ndarray | None = None,
) -> csr_matrix:
    """Return weights exp(-slope distance) of the k nearest points, with sum 1 per query.

    The matrix is (queries, points). `own` are the points that the queries are, which are left out.
    """
    k = min(k, len(index.points) - (own is not None))
    ids, distances = index.search(queries, k + (own is not None))
    if own is not None:
        # The query goes last and is left out, or the farthest point if it was not found among
        # many that are equal.
        others = np.argsort(ids == own[:, None], axis=1, kind="stable")[:, :k]
        ids = np.take_along_axis(ids, others, axis=1)
        distances = np.take_along_axis(distances, others, axis=1)
    # Relative to the nearest: far from all points, every exponential would be 0.
    weights = np.exp(-slope * (distances - distances[:, :1]))
    weights /= weights.sum(axis=1, keepdims=True)
    indptr = np.arange(len(queries) + 1) * k
    shape = (len(queries), len(index.points))
    return csr_matrix((weights.ravel(), ids.ravel(), indptr), shape=shape)
