"""Platt scaling finds the line that made the data, and never turns a ranking round."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.calibration import Calibration, fit_platt, log_odds


def test_it_finds_the_line_behind_the_hits():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 3, 200_000)
    hits = rng.random(len(scores)) < 1 / (1 + np.exp(-(0.7 * scores - 1.5)))
    np.testing.assert_allclose(fit_platt(scores, hits), [0.7, -1.5], atol=0.03)


def test_what_cannot_be_fitted_is_left_alone():
    scores = np.arange(10.0)
    for hits in (np.ones(10), np.zeros(10), scores < 5):  # the last would need a falling line
        assert fit_platt(scores, hits) == (1.0, 0.0)
    assert fit_platt(np.ones(4), np.array([0, 1, 0, 1])) == (1.0, 0.0)


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
    found = Calibration.fit(labels, log_odds(stated), Y)
    np.testing.assert_allclose(found.state(), [2.0, 2.0], rtol=0.1)
    np.testing.assert_allclose(found(labels, log_odds(stated)), truth, atol=0.05)
    # The same from the probabilities themselves, whose log odds it takes.
    of_shares = Calibration.fit(labels, stated, Y, eps=1e-9)
    np.testing.assert_array_equal(of_shares.state(), found.state())
    np.testing.assert_allclose(of_shares(labels, stated), truth, atol=0.05)


def test_extremes_and_padding_have_scores():
    odds = log_odds(np.array([[1.0, 0.0, 0.0]]), eps=1e-6)
    scores = Calibration()(np.array([[3, 1, -1]]), odds)
    np.testing.assert_allclose(scores, [[1.0, 0.0, 0.0]], atol=1e-5)
    assert scores[0, 2] == 0.0
    nothing = np.full((2, 3), -1), np.zeros((2, 3)), csr_matrix((2, 5), dtype=np.float32)
    assert Calibration.fit(*nothing, eps=1e-4) == Calibration(eps=1e-4)


def test_probabilities_are_the_sigmoid_of_the_line():
    from scipy.special import expit

    rng = np.random.default_rng(3)
    labels = rng.integers(-1, 5, (40, 7))
    scores, shares = rng.normal(0.0, 300.0, (40, 7)), rng.random((40, 7)).astype(np.float32)
    shares[0, :3] = 0.0, 1.0, 0.5
    found = Calibration(0.7, -0.2)(labels, scores)
    given = labels >= 0
    np.testing.assert_allclose(found[given], expit(0.7 * scores - 0.2)[given], atol=1e-6)
    found = Calibration(1.3, 0.4, 1e-4)(labels, shares)
    expected = expit(1.3 * log_odds(shares, 1e-4) + 0.4)
    np.testing.assert_allclose(found[given], expected[given], rtol=1e-5)
    assert not found[~given].any()


def test_it_comes_back_from_its_state():
    found = Calibration(1.3, 0.4, 1e-4)
    assert Calibration.restore(found.state(), 1e-4) == found
