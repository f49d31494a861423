"""Bins of scores beside the share of true labels, and the error between them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.errors import InputError, ParameterError
from labelspace.metrics.reliability import reliability
from labelspace.ranking import Ranking


def test_a_worked_example():
    ranking = Ranking(
        np.array([[0, 1, -1], [1, 2, 0]]),
        np.array([[1.0, 0.15, 0.0], [0.95, 0.1, 0.05]], np.float32),
    )
    Y = csr_matrix(np.array([[1, 1, 0], [0, 0, 0]], np.float32))
    found = reliability(ranking, Y)
    assert found.counts.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 2]
    np.testing.assert_allclose(found.scores[[0, 1, 9]], [0.05, 0.125, 0.975], rtol=1e-6)
    np.testing.assert_allclose(found.hits[[0, 1, 9]], [0, 0.5, 0.5])
    assert found.ece == pytest.approx((0.05 + 2 * 0.375 + 2 * 0.475) / 5)
    metadata = found.metadata()
    assert metadata["ECE"] == pytest.approx(35.0)
    assert metadata["pairs"] == 5
    assert [(one["from"], one["to"]) for one in metadata["bins"]] == [
        (0, 0.1),
        (0.1, 0.2),
        (0.9, 1),
    ]
    first = reliability(ranking, Y, k=1)
    assert first.counts.sum() == 2
    assert first.ece == pytest.approx(0.475)


def test_honest_scores_have_no_error_and_boasts_have_theirs():
    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.random((20_000, 3)), axis=1)
    Y = np.zeros((20_000, 3), np.float32)
    Y[:, :] = rng.random(scores.shape) < scores
    labels = np.tile(np.arange(3), (20_000, 1))
    honest = Ranking(labels, scores.astype(np.float32))
    assert reliability(honest, csr_matrix(Y)).ece < 0.01
    boast = Ranking(labels, np.sqrt(scores).astype(np.float32))
    # The mean of sqrt(u) - u for uniform u is 1/6.
    assert reliability(boast, csr_matrix(Y)).ece == pytest.approx(1 / 6, abs=0.01)


def test_bins_must_be_some():
    with pytest.raises(ParameterError, match="bins=0"):
        reliability(Ranking.empty(1, 1), csr_matrix((1, 1)), bins=0)


def test_a_ranking_without_labels_has_no_error():
    found = reliability(Ranking.empty(3, 2), csr_matrix(np.eye(3, dtype=np.float32)))
    assert np.isnan(found.ece)
    assert found.metadata() == {"ECE": None, "pairs": 0, "bins": []}


def test_titles_with_dollar_signs_are_drawn_as_they_are():
    pytest.importorskip("matplotlib")
    from labelspace.plots.curves import curves_page
    from labelspace.plots.reliability import reliability_page, reliability_picture

    title = r"models/$\frac{$ and $x$"
    ranking = Ranking(np.array([[0]]), np.array([[0.5]], np.float32))
    found = reliability(ranking, csr_matrix(np.ones((1, 1), np.float32)))
    assert reliability_picture(found, title, "png").startswith(b"\x89PNG")
    assert b"<svg" in reliability_page(found, title)
    assert b"<svg" in curves_page({"epochs": [{"epoch": 1, "loss": 0.5}]}, title)


def test_nothing_to_draw_is_an_error_of_ours():
    pytest.importorskip("matplotlib")
    from labelspace.plots.reliability import reliability_picture

    found = reliability(Ranking.empty(3, 2), csr_matrix(np.eye(3, dtype=np.float32)))
    with pytest.raises(InputError, match="no scores to draw"):
        reliability_picture(found, "x", "png")
