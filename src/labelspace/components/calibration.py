"""Calibration of scores as probabilities: Platt's sigmoid, fitted by Newton's method.

A calibration is a slope and an offset, P(label | score) = sigmoid(slope * score + offset), fitted
on the best labels of held-out examples (Platt, 1999). Where a method's scores are probabilities or
shares of votes, it acts on their log odds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import expit

from labelspace._core.compiled import loop
from labelspace._core.sparse import hits_of

CALIBRATION_K = 20  # best labels per held-out example that a calibration is fitted on
# Distance from 0 and 1 within which log odds are clipped, by the kind of score:
EPS = 1e-9  # probabilities
PATH_EPS = 1e-6  # products of float32 probabilities, which round to 1 from about here
VOTE_EPS = 1e-4  # shares of a few votes, most of which are exactly 0 or 1
_NEWTON_STEPS = 50  # far more than convergence takes
_RIDGE = 1e-3  # penalty on the distance from the identity; keeps separable data finite
_MIN_SLOPE = 1e-3  # a smaller or negative slope would change the ranking


@dataclass(frozen=True)
class Calibration:
    """A sigmoid that turns scores into probabilities without changing their order.

    Attributes
    ----------
    slope, offset : float
        P = sigmoid(slope * score + offset). The default is the identity on logits.
    eps : float
        0: scores are logits. Above 0: scores are probabilities or shares; their log odds are
        calibrated, clipped to those of `eps` and 1 - `eps`.
    """

    slope: float = 1.0
    offset: float = 0.0
    eps: float = 0.0

    @classmethod
    def fit(
        cls,
        labels: np.ndarray,
        scores: np.ndarray,
        Y: csr_matrix,
        eps: float = 0.0,
        sample_weight: np.ndarray | None = None,
    ) -> Calibration:
        """Fit the calibration to labels that were ranked for held-out examples.

        Parameters
        ----------
        labels, scores : ndarray of shape (n_examples, k)
            A ranking; places whose label is -1 are ignored.
        Y : csr_matrix of shape (n_examples, n_labels)
            True labels.
        eps : float
            As of the class.
        sample_weight : ndarray of shape (n_examples,), optional
            Weight per example; 1 by default.

        Returns
        -------
        Calibration
            The identity where nothing was ranked, or all labels or none are true.
        """
        given = labels >= 0
        if not given.any():
            return cls(eps=eps)
        rows = np.broadcast_to(np.arange(len(labels))[:, None], labels.shape)[given]
        logits = log_odds(scores[given], eps) if eps > 0.0 else scores[given]
        weights = None if sample_weight is None else sample_weight[rows]
        return cls(*fit_platt(logits, hits_of(Y, rows, labels[given]), weights), eps)

    def __call__(self, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return probabilities as float32; 0 where the label is -1."""
        found = np.empty(labels.shape, np.float32)
        _sigmoid(labels.ravel(), scores.ravel(), self.slope, self.offset, self.eps, found.ravel())
        return found

    def state(self) -> np.ndarray:
        """Return slope and offset as an array, which `restore` takes."""
        return np.array([self.slope, self.offset])

    @classmethod
    def restore(cls, array: np.ndarray, eps: float = 0.0) -> Self:
        """Rebuild a calibration from what `state` returned, two floats."""
        slope, offset = array.tolist()
        return cls(slope, offset, eps)


def fit_platt(
    scores: np.ndarray, hits: np.ndarray, weights: np.ndarray | None = None
) -> tuple[float, float]:
    """Return slope and offset for which sigmoid(slope * score + offset) is the chance of a hit.

    The slope is positive, so that probabilities keep the order of the scores. If there are only
    hits or only misses, or no positive slope fits, scores are taken to be logits: (1, 0).
    """
    scores, hits = scores.astype(np.float64), hits.astype(np.float64)
    identity = np.array([1.0, 0.0])
    line = identity.copy()
    if 0.0 < hits.mean() < 1.0 and np.ptp(scores) > 0.0:
        design = np.stack([scores, np.ones_like(scores)])
        counted = design if weights is None else design * weights
        for _ in range(_NEWTON_STEPS):
            p = expit(line @ design)
            gradient = counted @ (p - hits) + _RIDGE * (line - identity)
            curvature = (counted * (p * (1.0 - p))) @ design.T + _RIDGE * np.eye(2)
            move = np.linalg.solve(curvature, gradient)
            line -= np.clip(move, -1.0, 1.0)
            if np.abs(move).max() < 1e-8:
                break
        if not np.isfinite(line).all() or line[0] <= _MIN_SLOPE:
            line = identity
    return float(line[0]), float(line[1])


def log_odds(p: np.ndarray, eps: float = EPS) -> np.ndarray:
    """Return log(p / (1 - p)) in float64, with p clipped to [eps, 1 - eps]."""
    inner = np.clip(p.astype(np.float64), eps, 1.0 - eps)
    return np.asarray(np.log(inner / (1.0 - inner)))


# Compiled, since one example has a handful of scores: the calls of numpy would take longer.
@loop
def _sigmoid(labels, scores, slope, offset, eps, found):  # type: ignore[no-untyped-def]
    """Write the calibrated probabilities into `found`; eps as in `Calibration`."""
    for place in range(len(found)):
        if labels[place] < 0:
            found[place] = 0.0
            continue
        x = np.float64(scores[place])
        if eps > 0.0:
            p = min(max(x, eps), 1.0 - eps)
            x = np.log(p / (1.0 - p))
        found[place] = 1.0 / (1.0 + np.exp(-(slope * x + offset)))
