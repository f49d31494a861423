"""Platt scaling finds the line that made the data, and never turns a ranking round."""

from __future__ import annotations

import numpy as np

from labelspace.nn.calibration import fit_platt


def test_it_finds_the_line_behind_the_hits():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 3, 200_000)
    hits = rng.random(len(scores)) < 1 / (1 + np.exp(-(0.7 * scores - 1.5)))
    np.testing.assert_allclose(fit_platt(scores, hits), [0.7, -1.5], atol=0.03)


def test_what_cannot_be_fitted_is_left_alone():
    scores = np.arange(10.0)
    for hits in (np.ones(10), np.zeros(10), scores < 5):  # the last would need a falling line
        assert fit_platt(scores, hits).tolist() == [1.0, 0.0]
    assert fit_platt(np.ones(4), np.array([0, 1, 0, 1])).tolist() == [1.0, 0.0]


def test_separable_data_stay_finite():
    line = fit_platt(np.arange(100.0), np.arange(100) > 50)
    assert np.isfinite(line).all()
    assert line[0] > 0
