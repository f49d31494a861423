"""Raw scores to probabilities: Platt's sigmoid of a line, fitted by Newton's method."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix
from scipy.special import expit

from labelspace._core.sparse import hits_of

ROUNDS = 50
AS_IT_IS = np.array([1.0, 0.0])


def fit_platt(scores: np.ndarray, hits: np.ndarray) -> np.ndarray:
    """(slope, offset) for which sigmoid(slope * score + offset) is the likelihood of a hit.

    The slope is kept above zero, so that probabilities never change the ranking; where there are
    only hits or only misses, or Newton leaves the ground, the scores are taken as logits already.
    """
    scores, hits = scores.astype(np.float64), hits.astype(np.float64)
    as_it_is = AS_IT_IS.copy()
    if not 0.0 < hits.mean() < 1.0 or np.ptp(scores) == 0.0:
        return as_it_is
    line = as_it_is.copy()
    design = np.stack([scores, np.ones_like(scores)])
    for _ in range(ROUNDS):
        p = expit(line @ design)
        gradient = design @ (p - hits) + 1e-3 * (line - as_it_is)
        curvature = (design * (p * (1.0 - p))) @ design.T + 1e-3 * np.eye(2)
        move = np.linalg.solve(curvature, gradient)
        line -= np.clip(move, -1.0, 1.0)
        if np.abs(move).max() < 1e-8:
            break
    return line if np.isfinite(line).all() and line[0] > 1e-3 else as_it_is


def fit_line(labels: np.ndarray, scores: np.ndarray, Y: csr_matrix) -> np.ndarray:
    """(slope, offset) from scores of labels (n, k) that were ranked for examples whose own are Y.

    Places without a label, -1, do not count.
    """
    given = labels >= 0
    if not given.any():
        return AS_IT_IS.copy()
    rows = np.broadcast_to(np.arange(len(labels))[:, None], labels.shape)[given]
    return fit_platt(scores[given], hits_of(Y, rows, labels[given]))


Line = np.ndarray | tuple[float, float]  # slope and offset


def probabilities(labels: np.ndarray, scores: np.ndarray, line: Line) -> np.ndarray:
    """sigmoid(slope * score + offset) as float32; 0 where there is no label, -1."""
    found = np.empty(labels.shape, np.float32)
    _sigmoid(labels.ravel(), scores.ravel(), line[0], line[1], 0.0, found.ravel())
    return found


def probabilities_of_shares(
    labels: np.ndarray, shares: np.ndarray, line: Line, least: float = 1e-9
) -> np.ndarray:
    """The same of the log odds of shares, which are taken to be within least and 1 - least."""
    found = np.empty(labels.shape, np.float32)
    _sigmoid(labels.ravel(), shares.ravel(), line[0], line[1], least, found.ravel())
    return found


@njit(cache=True, nogil=True)
def _sigmoid(labels, scores, slope, offset, least, found):  # type: ignore[no-untyped-def]
    """Compiled, since the answer to a single question is a handful of numbers: numpy's own calls
    would take longer than they do. least: 0 for scores, above it for shares."""
    for place in range(len(found)):
        if labels[place] < 0:
            found[place] = 0.0
            continue
        x = np.float64(scores[place])
        if least > 0.0:
            p = min(max(x, least), 1.0 - least)
            x = np.log(p / (1.0 - p))
        found[place] = 1.0 / (1.0 + np.exp(-(slope * x + offset)))


def log_odds(p: np.ndarray, least: float = 1e-9) -> np.ndarray:
    """log(p / (1 - p)) in float64; p is taken to be within least and 1 - least."""
    inner = np.clip(p.astype(np.float64), least, 1.0 - least)
    return np.asarray(np.log(inner / (1.0 - inner)))
