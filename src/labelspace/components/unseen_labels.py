"""Labels that are treated as if they had no examples while a combination is fitted.

Examples that are held out have some labels that no other example has, about as many as new texts
will have. Where labels are few and have many examples there are hardly any, and what is fitted
would never rank a label without examples. Then some labels are held out too.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.ranking import Ranking

SHARE = 0.05  # of the labels of held-out examples that are to be without other examples


def labels_to_hide(Y: csr_matrix, counts: np.ndarray, seed: int) -> np.ndarray:
    """Return labels to hide, so that a share of the pairs of Y are of labels without examples.

    Parameters
    ----------
    Y : csr_matrix of shape (n, n_labels)
        Labels of held-out examples.
    counts : ndarray of shape (n_labels,)
        Examples of each label among the others.
    seed : int
        Seed of the order in which labels are taken.

    Returns
    -------
    ndarray of int64
        Sorted; never all labels that have examples.
    """
    pairs = np.bincount(Y.indices, minlength=Y.shape[1])
    missing = SHARE * pairs.sum() - pairs[counts == 0].sum()
    known = np.flatnonzero((pairs > 0) & (counts > 0))
    if missing <= 0 or len(known) < 2:
        return np.empty(0, np.int64)
    order = np.random.default_rng([seed, len(known)]).permutation(known)
    enough = int(np.searchsorted(np.cumsum(pairs[order]), missing)) + 1
    return np.sort(order[: min(enough, len(known) - 1)])


def without_labels(ranking: Ranking, hidden: np.ndarray) -> Ranking:
    """Return a ranking whose places with one of these labels are empty."""
    if not len(hidden):
        return ranking
    gone = np.isin(ranking.labels, hidden)
    return Ranking(np.where(gone, -1, ranking.labels), np.where(gone, 0.0, ranking.scores))
