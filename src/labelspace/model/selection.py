"""Predictions among some labels only, and with the ancestors of every label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Features
from labelspace.data.taxonomy import label_ancestors
from labelspace.errors import ParameterError
from labelspace.model.label_lookup import LabelList, LabelLookup
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.methods.base import Method
    from labelspace.model.model_labels import ModelLabels

_CELLS = 1 << 23  # of a ranking in memory
_DEEPER = 4  # times as many labels are ranked, where those so far are too few


class Selection:
    """The labels that may be predicted, and whether their ancestors are added.

    Parameters
    ----------
    tagger : ModelLabels
        The model.
    only, exclude : list of str or Path, optional
        The labels that may be predicted, and those that may not; see `LabelLookup`.
    ancestors : bool, default False
        Whether the ancestors of predicted labels are added. A label whose ancestor is not allowed
        is then not allowed either.

    Raises
    ------
    ParameterError
        If a label is not known, none is left, or `ancestors` is given without a taxonomy.
    """

    def __init__(
        self,
        tagger: ModelLabels,
        only: LabelList | None = None,
        exclude: LabelList | None = None,
        *,
        ancestors: bool = False,
    ) -> None:
        n_labels = len(tagger.label_names)
        self.above: csr_matrix | None = None
        if ancestors:
            self.above, self._depths = tagger.derived(_ancestors)
        self.allowed: np.ndarray | None = None
        if only is not None or exclude is not None:
            lookup = tagger.derived(LabelLookup)
            allowed = np.ones(n_labels, dtype=bool) if only is None else lookup.mask(only)
            if exclude is not None:
                allowed &= ~lookup.mask(exclude)
            if self.above is not None:
                allowed &= self.above @ (~allowed).astype(np.float32) == 0
            if not allowed.any():
                raise ParameterError("only, exclude: no label is left to predict")
            self.allowed = allowed

    def rank(self, method: Method, X: Features, k: int) -> Ranking:
        """Return the k best labels of each row among those that are allowed.

        Rows are ranked deeper until k allowed labels are found, or until the method has no more
        candidates. A method that ranks candidates only can thus return fewer than k labels.
        """
        if self.allowed is None:
            return method.predict(X, k)
        found = Ranking.empty(X.shape[0], k)
        allowed = np.append(self.allowed, False)  # -1 pads
        left, depth = np.arange(X.shape[0]), min(2 * k, method.n_labels_)
        while len(left):
            lacking = []
            size = max(1, _CELLS // depth)
            for start in range(0, len(left), size):
                rows = left[start : start + size]
                ranking = method.predict(X[rows], depth)
                kept = allowed[ranking.labels]
                place = np.cumsum(kept, axis=1) - 1
                kept &= place < k
                row, column = np.nonzero(kept)
                to = rows[row], place[row, column]
                found.labels[rows], found.scores[rows] = -1, 0.0
                found.labels[to] = ranking.labels[row, column]
                found.scores[to] = ranking.scores[row, column]
                goes_on = (kept.sum(axis=1) < k) & (ranking.labels[:, -1] >= 0)
                lacking.append(rows[goes_on])
            if depth == method.n_labels_:
                break
            left, depth = np.concatenate(lacking), min(_DEEPER * depth, method.n_labels_)
        return found

    def closed(self, ranking: Ranking) -> Ranking:
        """Return the ranking with the ancestors of all its labels, if they are wanted.

        An ancestor has at least the score of each of its descendants, and comes before them. Labels
        from any score on thus include all their ancestors.
        """
        if self.above is None:
            return ranking
        rows, ranks = np.nonzero(ranking.labels >= 0)
        labels, scores = ranking.labels[rows, ranks], ranking.scores[rows, ranks]
        starts, counts = self.above.indptr[labels], np.diff(self.above.indptr)[labels]
        within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
        added = self.above.indices[np.repeat(starts, counts) + within]
        labels = np.concatenate([labels, added]).astype(np.int64)
        rows, ranks, scores = (
            np.concatenate([own, np.repeat(own, counts)]) for own in (rows, ranks, scores)
        )
        # The best rank and the largest score of each (row, label), then the order within a row.
        order = np.lexsort((ranks, labels, rows))
        rows, labels, ranks, scores = rows[order], labels[order], ranks[order], scores[order]
        first = np.ones(len(rows), dtype=bool)
        first[1:] = (rows[1:] != rows[:-1]) | (labels[1:] != labels[:-1])
        if len(rows):
            scores = np.maximum.reduceat(scores, np.flatnonzero(first))
        rows, labels, ranks = rows[first], labels[first], ranks[first]
        order = np.lexsort((labels, self._depths[labels], ranks, rows))
        rows, labels, scores = rows[order], labels[order], scores[order]
        per_row = np.bincount(rows, minlength=len(ranking))
        place = np.arange(len(rows)) - np.repeat(per_row.cumsum() - per_row, per_row)
        found = Ranking.empty(len(ranking), max(ranking.k, int(per_row.max(initial=0))))
        found.labels[rows, place], found.scores[rows, place] = labels, scores
        return found


def _ancestors(tagger: ModelLabels) -> tuple[csr_matrix, np.ndarray]:
    """Return the ancestors of each label, and its depth."""
    taxonomy, n_labels = tagger.taxonomy, len(tagger.label_names)
    if taxonomy is None:
        raise ParameterError(
            "ancestors: the model has no taxonomy; train it with --path-columns, with "
            "hierarchy.tsv beside the data, or with --labels that have broader labels"
        )
    return label_ancestors(taxonomy, n_labels), taxonomy.depths()[:n_labels]
