"""Raw scores to probabilities: Platt's sigmoid of a line, fitted by Newton's method."""

from __future__ import annotations

import numpy as np

ROUNDS = 50


def fit_platt(scores: np.ndarray, hits: np.ndarray) -> np.ndarray:
    """(slope, offset) for which sigmoid(slope * score + offset) is the likelihood of a hit.

    The slope is kept above zero, so that probabilities never change the ranking; where there are
    only hits or only misses, or Newton leaves the ground, the scores are taken as logits already.
    """
    scores, hits = scores.astype(np.float64), hits.astype(np.float64)
    as_it_is = np.array([1.0, 0.0])
    if not 0.0 < hits.mean() < 1.0 or np.ptp(scores) == 0.0:
        return as_it_is
    line = as_it_is.copy()
    design = np.stack([scores, np.ones_like(scores)])
    for _ in range(ROUNDS):
        p = 1.0 / (1.0 + np.exp(-np.clip(line @ design, -60.0, 60.0)))
        gradient = design @ (p - hits) + 1e-3 * (line - as_it_is)
        curvature = (design * (p * (1.0 - p))) @ design.T + 1e-3 * np.eye(2)
        move = np.linalg.solve(curvature, gradient)
        line -= np.clip(move, -1.0, 1.0)
        if np.abs(move).max() < 1e-8:
            break
    return line if np.isfinite(line).all() and line[0] > 1e-3 else as_it_is
