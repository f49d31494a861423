"""Platt scaling finds the line that made the data, and never turns a ranking round."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.calibration import (
    AS_IT_IS,
    fit_line,
    fit_platt,
    log_odds,
    probabilities,
)


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


def test_the_line_of_a_known_distortion_is_found():
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.02, 0.98, (3000, 4))
    Y = csr_matrix((rng.random(truth.shape) < truth).astype(np.float32))
    odds = np.log(truth / (1 - truth))
    stated = 1 / (1 + np.exp(-(0.5 * odds - 1.0)))
    labels = np.tile(np.arange(4), (3000, 1))
    line = fit_line(labels, log_odds(stated), Y)
    np.testing.assert_allclose(line, [2.0, 2.0], rtol=0.1)
    np.testing.assert_allclose(probabilities(labels, log_odds(stated), line), truth, atol=0.05)


def test_extremes_and_padding_have_scores():
    odds = log_odds(np.array([[1.0, 0.0, 0.0]]), least=1e-6)
    scores = probabilities(np.array([[3, 1, -1]]), odds, AS_IT_IS)
    np.testing.assert_allclose(scores, [[1.0, 0.0, 0.0]], atol=1e-5)
    assert scores[0, 2] == 0.0
    none = fit_line(np.full((2, 3), -1), np.zeros((2, 3)), csr_matrix((2, 5), dtype=np.float32))
    assert np.array_equal(none, AS_IT_IS)


def test_probabilities_are_the_sigmoid_of_the_line():
    from scipy.special import expit

    from labelspace.components.calibration import log_odds, probabilities, probabilities_of_shares

    rng = np.random.default_rng(3)
    labels = rng.integers(-1, 5, (40, 7))
    scores, shares = rng.normal(0.0, 300.0, (40, 7)), rng.random((40, 7)).astype(np.float32)
    shares[0, :3] = 0.0, 1.0, 0.5
    found = probabilities(labels, scores, (0.7, -0.2))
    given = labels >= 0
    np.testing.assert_allclose(found[given], expit(0.7 * scores - 0.2)[given], atol=1e-6)
    found = probabilities_of_shares(labels, shares, np.array([1.3, 0.4]), 1e-4)
    expected = expit(1.3 * log_odds(shares, 1e-4) + 0.4)
    np.testing.assert_allclose(found[given], expected[given], rtol=1e-5)
    assert not found[~given].any()
