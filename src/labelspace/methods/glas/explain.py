"""Explanations of GLaS: features, labels and training examples in the space of a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.methods.explanation import LabelExplanation, pairs, score_changes

if TYPE_CHECKING:
    from labelspace.methods.glas.method import GLaS
    from labelspace.methods.glas.space import LabelSpace


def explain(model: GLaS, X: csr_matrix, label: int, k: int) -> LabelExplanation:
    """Explain one label of the one example X; see `GLaS.explain`."""
    examples: list[tuple[int, float]] = []
    labelled: list[list[int]] = []
    voters = model.blend_.voters
    if voters is not None:
        rows, cosines = voters.nearest(model.space_.embed(X), k)
        examples = pairs(rows[0], cosines[0])
        labelled = [voters.Y[row].indices.tolist() for row, _ in examples]
    vector = model.blend_.index.vectors[[label]].T
    by_feature = score_changes(X, lambda rows: (model.space_.queries(rows) @ vector)[:, 0], k)
    near = nearest_labels(model.space_, label, k)
    return LabelExplanation(label, by_feature, near, examples, labelled)


def nearest_labels(space: LabelSpace, label: int, k: int) -> list[tuple[int, float]]:
    """Return the k labels with the largest cosine to a label, and these cosines."""
    cosines = space.cosines(label)
    cosines[label] = -np.inf
    best = np.argsort(-cosines, kind="stable")[: min(k, len(cosines) - 1)]
    return pairs(best, cosines[best])
