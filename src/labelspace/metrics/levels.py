"""Metrics of the labels predicted from a ranking, level by level of a taxonomy.

The ranking is cut to the predicted labels. Each level is then evaluated on its own, with the labels
of few training examples apart from the others. No label on a level ("NA") never counts as correct:
it is counted and reported separately, and as a label in figures of their own ("with NA"), as other
work does. docs/metrics.md defines everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack

from labelspace._core.sparse import checked_labels, rows_of
from labelspace.errors import InputError
from labelspace.labels.levels import Levels
from labelspace.metrics.ranking import RankedLabels

MOST_TAIL_SAMPLES = 25
RANKED = 50  # labels per example among which labels are chosen
THRESHOLD = 0.5


def evaluate_levels(
    ranking: RankedLabels,
    Y_test: Any,
    counts: np.ndarray,
    levels: Levels,
    *,
    single_path: bool,
    threshold: float = THRESHOLD,
) -> dict[str, Any]:
    """Return all metrics, in percent, of the labels that are predicted from the ranking.

    Parameters
    ----------
    ranking : Ranking
    Y_test : csr_matrix or ndarray of shape (n, labels)
        The true labels.
    counts : ndarray
        Training examples per label; labels beyond its end have none.
    levels : Levels
        The level of each label.
    single_path : bool
        Whether to predict the likeliest path of each example and its likeliest label of each other
        kind; if False, all labels whose score is at least the threshold.
    threshold : float

    Returns
    -------
    dict
        With "exact path", "hierarchical" and, by name of the level, "levels".

    Raises
    ------
    InputError
        If Y_test and the levels have different numbers of labels.
    """
    truth = checked_labels(Y_test, Y_test.shape[0])
    if truth.shape[1] != len(levels.of):
        raise InputError(f"Y_test has {truth.shape[1]} labels, the levels {len(levels.of)}")
    if single_path:
        chosen = likeliest_paths(ranking, levels)
    else:
        chosen = above_threshold(ranking, threshold, len(levels.of))
    return {
        "chosen": "likeliest path" if single_path else f"score of at least {threshold:g}",
        **evaluate_sets(chosen, truth, counts, levels),
    }


def evaluate_sets(
    chosen: csr_matrix, Y_test: Any, counts: np.ndarray, levels: Levels
) -> dict[str, Any]:
    """Return the metrics of `evaluate_levels` for given sets of labels.

    Parameters
    ----------
    chosen : csr_matrix of shape (n, labels)
        1 for each predicted label.
    Y_test, counts, levels
        As in `evaluate_levels`.

    Returns
    -------
    dict
        With "exact path", "hierarchical" and, by name of the level, "levels".
    """
    truth = checked_labels(Y_test, Y_test.shape[0])
    return {
        **path_figures(chosen, truth, levels),
        "levels": level_figures(chosen, truth, counts, levels),
    }


def above_threshold(ranking: RankedLabels, threshold: float, n_labels: int) -> csr_matrix:
    """Return the labels whose score is at least the threshold, (n, labels)."""
    scores = _score_matrix(ranking, n_labels)
    scores.data = (scores.data >= threshold).astype(np.float32)
    scores.eliminate_zeros()
    return scores


def likeliest_paths(ranking: RankedLabels, levels: Levels) -> csr_matrix:
    """Return one path for each example, and one label of each other kind, or none: (n, labels).

    That a path ends at a node is as likely as the node less its children, and that there is no path
    as likely as what the roots leave of 1. The likeliest end is chosen, with all its ancestors.
    """
    n_nodes, n_labels = levels.edges.shape[0], len(levels.of)
    scores = _score_matrix(ranking, n_nodes)
    ends = scores - (scores @ levels.edges).multiply(scores > 0)
    group = np.where(levels.on_path, 0, levels.of - levels.depth + 1)
    is_root = np.asarray(levels.edges.sum(axis=1)).ravel()[:n_labels] == 0
    closure = levels.ancestors()[:, :n_labels]
    chosen = csr_matrix((scores.shape[0], n_labels), dtype=np.float32)
    for number in range(int(group.max(initial=0)) + 1):
        members = group == number
        nothing = 1.0 - _among(scores[:, :n_labels], members & is_root).sum(axis=1)
        best = _best(_among(ends[:, :n_labels], members), np.asarray(nothing).ravel())
        chosen = chosen + best @ closure
    return _as_ones(chosen)


def path_figures(chosen: csr_matrix, truth: csr_matrix, levels: Levels) -> dict[str, Any]:
    """Return the share of paths that are exactly right, and hierarchical precision, recall, F1."""
    chosen, truth = _among(chosen, levels.on_path), _among(truth, levels.on_path)
    closure = levels.ancestors()
    wide_chosen, wide_truth = _as_ones(chosen @ closure), _as_ones(truth @ closure)
    right = wide_chosen.multiply(wide_truth).sum()
    precision = _precision(right, wide_chosen.nnz, wide_truth.nnz)
    recall = _share(right, wide_truth.nnz)
    return {
        "exact path": _accuracy(chosen, truth),
        "hierarchical": {
            "precision": precision,
            "recall": recall,
            "F1": _share(2 * right, wide_chosen.nnz + wide_truth.nnz),
        },
    }


def level_figures(
    chosen: csr_matrix, truth: csr_matrix, counts: np.ndarray, levels: Levels
) -> dict[str, dict[str, Any]]:
    """Return, by level, the metrics of all its labels, of tail and head labels, and of NA.

    Tail labels have at most MOST_TAIL_SAMPLES training examples.
    """
    samples = np.zeros(len(levels.of), np.int64)
    samples[: len(counts)] = counts[: len(samples)]
    is_tail = samples <= MOST_TAIL_SAMPLES
    found = {}
    for number, name in enumerate(levels.names):
        here = levels.of == number
        parts = [_among(matrix, here) for matrix in (chosen, truth)]
        found[name] = {
            **set_figures(*parts),
            "NA": na_figures(*parts),
            "with NA": figures_with_na(*parts),
            "tail": set_figures(*(_among(matrix, is_tail) for matrix in parts)),
            "head": set_figures(*(_among(matrix, ~is_tail) for matrix in parts)),
        }
    return found


def set_figures(chosen: csr_matrix, truth: csr_matrix) -> dict[str, float | None]:
    """Return precision, recall and F1 of pairs of example and label, and subset accuracy.

    macro-F1 is the mean over the labels that are true or chosen for any example; accuracy is the
    share of the examples with true labels whose chosen labels are just those. Where nothing is
    true, recall and accuracy are None; the others too where nothing is chosen either.
    """
    n = chosen.shape[1]
    right = np.bincount(chosen.multiply(truth).tocsr().indices, minlength=n)
    named = np.bincount(chosen.indices, minlength=n) + np.bincount(truth.indices, minlength=n)
    occurs = named > 0
    macro = 100.0 * float(np.mean(2 * right[occurs] / named[occurs])) if occurs.any() else None
    return {
        "examples": int(np.count_nonzero(np.diff(truth.indptr))),
        "labels": int(np.count_nonzero(np.bincount(truth.indices, minlength=n))),
        "precision": _precision(right.sum(), chosen.nnz, truth.nnz),
        "recall": _share(right.sum(), truth.nnz),
        "micro-F1": _share(2 * right.sum(), chosen.nnz + truth.nnz),
        "macro-F1": macro,
        "accuracy": _accuracy(chosen, truth),
    }


def na_figures(chosen: csr_matrix, truth: csr_matrix) -> dict[str, float | None]:
    """Return how many examples have no label here, and the share of them predicted to have none.

    missed is the share of the examples with a label here that were given none. A share of no
    examples is None.
    """
    without, nothing = np.diff(truth.indptr) == 0, np.diff(chosen.indptr) == 0
    return {
        "examples": int(without.sum()),
        "kept empty": _share((without & nothing).sum(), without.sum()),
        "missed": _share((~without & nothing).sum(), (~without).sum()),
    }


def figures_with_na(chosen: csr_matrix, truth: csr_matrix) -> dict[str, float | None]:
    """Return micro- and macro-F1 where no label counts as one more label, NA.

    On a level that few examples have, most of it is the success of predicting nothing.
    """
    extended = [
        hstack([matrix, csr_matrix((np.diff(matrix.indptr) == 0)[:, None])], format="csr")
        for matrix in (chosen, truth)
    ]
    found = set_figures(*extended)
    return {name: found[name] for name in ("micro-F1", "macro-F1")}


def _accuracy(chosen: csr_matrix, truth: csr_matrix) -> float | None:
    n_true, n_chosen = np.diff(truth.indptr), np.diff(chosen.indptr)
    n_right = np.diff(chosen.multiply(truth).tocsr().indptr)
    labelled = n_true > 0
    exact = (n_right == n_true) & (n_right == n_chosen)
    return _share((exact & labelled).sum(), labelled.sum())


def _precision(right: float, chosen: int, true: int) -> float | None:
    """Return 0 where labels are true and none is predicted."""
    return 0.0 if true and not chosen else _share(right, chosen)


def _share(part: float, whole: float) -> float | None:
    return 100.0 * float(part) / float(whole) if whole else None


def _score_matrix(ranking: RankedLabels, width: int) -> csr_matrix:
    """Return the scores above zero, (n, width); labels beyond the width cannot be right."""
    labels, scores = np.asarray(ranking.labels), np.asarray(ranking.scores, np.float32)
    given = (labels >= 0) & (scores > 0) & (labels < width)
    rows = np.nonzero(given)[0]
    matrix = csr_matrix((scores[given], (rows, labels[given])), shape=(len(labels), width))
    matrix.sort_indices()
    return matrix


def _among(matrix: csr_matrix, columns: np.ndarray) -> csr_matrix:
    """Return the matrix with all other columns empty."""
    kept = matrix.tocsr().copy()
    kept.data = np.where(columns[kept.indices], kept.data, 0).astype(np.float32)
    kept.eliminate_zeros()
    return kept


def _best(ends: csr_matrix, nothing: np.ndarray) -> csr_matrix:
    """Return a one at the largest value of each row, unless `nothing` is larger: (n, labels)."""
    rows = rows_of(ends)
    # Within a row by falling value; equal values by label, so that the order of input is no matter.
    order = np.lexsort((ends.indices, -ends.data, rows))
    filled = np.flatnonzero(np.diff(ends.indptr))
    first = order[ends.indptr[filled]]
    kept = ends.data[first] > nothing[filled]
    places = (filled[kept], ends.indices[first[kept]])
    return csr_matrix((np.ones(int(kept.sum()), np.float32), places), shape=ends.shape)


def _as_ones(matrix: csr_matrix) -> csr_matrix:
    matrix = matrix.tocsr()
    matrix.sort_indices()
    matrix.data[:] = 1.0
    return matrix
