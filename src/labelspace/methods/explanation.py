"""Explanations of a label's score: effects of features, similar labels and similar examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import as_csr, checked_features, unit_rows
from labelspace.errors import InputError
from labelspace.methods.base import Method


@dataclass(frozen=True)
class LabelExplanation:
    """The strongest features, labels and training examples for a label of one example.

    Attributes
    ----------
    label : int
        The explained label.
    features : list of (int, float)
        Input features, and by how much the label's score falls without each.
    labels : list of (int, float)
        The most similar labels, and their cosine similarities.
    examples : list of (int, float)
        The closest rows of the training data, and their cosine similarities; rows of later
        `partial_fit` calls are numbered after those of `fit`.
    labelled : list of list of int
        The labels of each of these examples.
    """

    label: int
    features: list[tuple[int, float]]
    labels: list[tuple[int, float]]
    examples: list[tuple[int, float]]
    labelled: list[list[int]]


def checked_row(model: Method, X: Any) -> csr_matrix:
    """Return X as CSR; raise InputError if it is not one row."""
    X = as_csr(checked_features(X, model.n_features_in_))
    if X.shape[0] != 1:
        raise InputError(f"X has {X.shape[0]} rows: pass one example")
    return X


def checked_example(model: Method, X: Any, label: int) -> csr_matrix:
    """Return X as CSR; raise InputError if it is not one row or there is no such label."""
    X = checked_row(model, X)
    if not 0 <= label < model.n_labels_:
        raise InputError(f"label {label}: the model has labels 0 to {model.n_labels_ - 1}")
    return X


def score_changes(
    X: csr_matrix, raw_score: Callable[[csr_matrix], np.ndarray], k: int
) -> list[tuple[int, float]]:
    """Return the k features with the largest effect, and the score minus that without each.

    Parameters
    ----------
    X : csr_matrix of shape (1, n_features)
    raw_score : callable
        Returns the score of each row of a matrix.
    k : int
    """
    if X.nnz == 0:
        return []
    without = csr_matrix(
        (np.tile(X.data, X.nnz), np.tile(X.indices, X.nnz), np.arange(X.nnz + 1) * X.nnz),
        shape=(X.nnz, X.shape[1]),
    )
    without.data[np.arange(X.nnz) * (X.nnz + 1)] = 0.0  # feature i of row i
    change = raw_score(X) - raw_score(without)
    best = np.argsort(-np.abs(change), kind="stable")[:k]
    return pairs(X.indices[best], change[best])


def most_similar_rows(weights: csr_matrix, row: int, k: int) -> list[tuple[int, float]]:
    """Return the k other rows of a sparse matrix with the largest positive cosine to a row."""
    rows = unit_rows(weights)
    cosines = np.asarray((rows @ rows[row].T).todense()).ravel()
    cosines[row] = 0.0
    best = np.argsort(-cosines, kind="stable")[:k]
    return pairs(best[cosines[best] > 0], cosines[best][cosines[best] > 0])


def nearest_vectors(vectors: np.ndarray, row: int, k: int) -> list[tuple[int, float]]:
    """Return the k other rows of an array with the largest positive cosine to a row."""
    vectors = np.asarray(vectors, np.float32)
    lengths = np.linalg.norm(vectors, axis=1)
    if lengths[row] == 0:
        return []
    cosines = vectors @ vectors[row] / np.maximum(lengths * lengths[row], 1e-12)
    cosines[row] = -np.inf
    order = np.argsort(-cosines, kind="stable")[: min(k, len(cosines) - 1)]
    return [(int(each), float(cosines[each])) for each in order if cosines[each] > 0]


def pairs(numbers: np.ndarray, weights: np.ndarray) -> list[tuple[int, float]]:
    """Return numbers and their weights as pairs, without the padding -1."""
    return [(int(n), float(w)) for n, w in zip(numbers, weights, strict=True) if n >= 0]
