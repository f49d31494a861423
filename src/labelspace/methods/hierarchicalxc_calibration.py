"""From path probabilities to the frequencies they stand for, by examples that were held out."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.nn.calibration import fit_platt

HELD_OUT, LARGEST_SHARE = 500, 0.1  # two numbers need no more; of few examples this share
MOST_HELD_OUT = 2000
LOOKED_AT = 20  # labels of each example that was held out
SURE = 1e-6  # rounding may say 1, of which there are no log odds

AS_IT_IS = np.array([1.0, 0.0])


def cut(n: int, share: float | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows held out, both sorted."""
    if share is None:
        share = min(LARGEST_SHARE, HELD_OUT / n)
    size = min(round(share * n), MOST_HELD_OUT, n - 1)
    order = np.random.default_rng([seed, n]).permutation(n)
    return np.sort(order[size:]), np.sort(order[:size])


def fit_line(labels: np.ndarray, scores: np.ndarray, Y: csr_matrix) -> np.ndarray:
    """Slope and offset for `frequencies`, from labels ranked for examples whose own are Y."""
    given = labels >= 0
    hits = Y[np.arange(len(labels))[:, None], np.maximum(labels, 0)].toarray() > 0
    return fit_platt(_log_odds(scores[given]), hits[given]) if given.any() else AS_IT_IS


def frequencies(labels: np.ndarray, scores: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Scores that say how often such a label is right, in the same order; 0 where there is none."""
    found = 1.0 / (1.0 + np.exp(-(line[0] * _log_odds(scores) + line[1])))
    return np.where(labels >= 0, found, 0.0).astype(np.float32)


def _log_odds(scores: np.ndarray) -> np.ndarray:
    bounded = np.clip(scores, SURE, 1.0 - SURE)
    return np.asarray(np.log(bounded) - np.log1p(-bounded))
