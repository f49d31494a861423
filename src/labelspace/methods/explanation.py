"""Why a label was given: what pushed its score, and what lies near in the space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import checked_features, unit_rows
from labelspace.errors import InputError
from labelspace.methods.base import Method, as_csr

if TYPE_CHECKING:
    from labelspace.methods.glas.method import GLaS


@dataclass(frozen=True)
class Explanation:
    """Pairs of a number and how much it counts, strongest first.

    label     the label that is explained
    features  input features, and by how much the label's score falls without them
    labels    the labels closest to it in the space, and their cosines
    examples  rows of the training data closest to the example, and their cosines; those of later
              `partial_fit`s are counted on
    labelled  the labels of each of these examples
    """

    label: int
    features: list[tuple[int, float]]
    labels: list[tuple[int, float]]
    examples: list[tuple[int, float]]
    labelled: list[list[int]]

    @property
    def carriers(self) -> list[int]:
        """Which of the examples carry the label."""
        pairs = zip(self.examples, self.labelled, strict=True)
        return [row for (row, _), labels in pairs if self.label in labels]


def checked_example(model: Method, X: Any, label: int) -> csr_matrix:
    """X as the one example whose label is explained."""
    X = as_csr(checked_features(X, model.n_features_in_))
    if X.shape[0] != 1:
        raise InputError(f"X has {X.shape[0]} rows: one example is explained at a time")
    if not 0 <= label < model.n_labels_:
        raise InputError(f"label {label}: the model has labels 0 to {model.n_labels_ - 1}")
    return X


def explain(model: GLaS, X: csr_matrix, label: int, k: int) -> Explanation:
    """Explain one label of the one example X by the space that both lie in."""
    examples: list[tuple[int, float]] = []
    labelled: list[list[int]] = []
    voters = model.blend_.voters
    if voters is not None:
        rows, cosines = voters.nearest(model.embed(X), k)
        examples = _pairs(rows[0], cosines[0])
        labelled = [voters.Y[row].indices.tolist() for row, _ in examples]
    wanted = np.array([label])
    by_features = pushes(X, lambda rows: model.logits(rows, wanted)[:, 0], k)
    return Explanation(label, by_features, _near(model, label, k), examples, labelled)


def pushes(
    X: csr_matrix, raw_score: Callable[[csr_matrix], np.ndarray], k: int
) -> list[tuple[int, float]]:
    """The score with all features less the score without each: right for any model."""
    if X.nnz == 0:
        return []
    without = csr_matrix(
        (np.tile(X.data, X.nnz), np.tile(X.indices, X.nnz), np.arange(X.nnz + 1) * X.nnz),
        shape=(X.nnz, X.shape[1]),
    )
    without.data[np.arange(X.nnz) * (X.nnz + 1)] = 0.0  # feature i of row i
    push = raw_score(X) - raw_score(without)
    best = np.argsort(-np.abs(push), kind="stable")[:k]
    return _pairs(X.indices[best], push[best])


def alike(weights: csr_matrix, label: int, k: int) -> list[tuple[int, float]]:
    """The labels whose sparse weights, one row each, point the most in the label's direction."""
    rows = unit_rows(weights)
    cosines = np.asarray((rows @ rows[label].T).todense()).ravel()
    cosines[label] = 0.0
    best = np.argsort(-cosines, kind="stable")[:k]
    return _pairs(best[cosines[best] > 0], cosines[best][cosines[best] > 0])


def _near(model: GLaS, label: int, k: int) -> list[tuple[int, float]]:
    vectors = model.table_.weight  # as they are trained: a cosine needs no vectors of length 1
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)), 1e-12)
    cosines = vectors @ vectors[label] / (lengths * lengths[label])
    cosines[label] = -np.inf
    best = np.argsort(-cosines, kind="stable")[: min(k, len(cosines) - 1)]
    return _pairs(best, cosines[best])


def _pairs(numbers: np.ndarray, weights: np.ndarray) -> list[tuple[int, float]]:
    return [(int(n), float(w)) for n, w in zip(numbers, weights, strict=True) if n >= 0]
