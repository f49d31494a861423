"""Why GLaS gives a label: by the space in which examples and labels lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.methods.explanation import LabelExplanation, pairs, score_changes

if TYPE_CHECKING:
    from labelspace.methods.glas.method import GLaS


def explain(model: GLaS, X: csr_matrix, label: int, k: int) -> LabelExplanation:
    """Explain one label of the one example X by the space that both lie in."""
    examples: list[tuple[int, float]] = []
    labelled: list[list[int]] = []
    voters = model.blend_.voters
    if voters is not None:
        rows, cosines = voters.nearest(model.embed(X), k)
        examples = pairs(rows[0], cosines[0])
        labelled = [voters.Y[row].indices.tolist() for row, _ in examples]
    wanted = np.array([label])
    by_features = score_changes(X, lambda rows: model.logits(rows, wanted)[:, 0], k)
    return LabelExplanation(label, by_features, _near(model, label, k), examples, labelled)


def _near(model: GLaS, label: int, k: int) -> list[tuple[int, float]]:
    vectors = model.table_.weight  # as they are trained: a cosine needs no vectors of length 1
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)), 1e-12)
    cosines = vectors @ vectors[label] / (lengths * lengths[label])
    cosines[label] = -np.inf
    best = np.argsort(-cosines, kind="stable")[: min(k, len(cosines) - 1)]
    return pairs(best, cosines[best])
