"""The chosen threshold is the best of all, by trying them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.metrics import f1_score

from labelspace.errors import InputError, ParameterError
from labelspace.metrics.ranking import evaluate
from labelspace.metrics.thresholds import choose_threshold
from labelspace.ranking import Ranking


def drawn(seed, n=30, n_labels=12, k=6, levels=1000):
    """Draw a ranking with scores of so many values, and labels that correlate with them."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n, n_labels)) < 0.2
    truth[0, 0] = True
    scores = np.clip(0.5 * truth + 0.5 * rng.random((n, n_labels)), 0.01, 1)
    scores = np.round(scores * levels) / levels
    ranking = Ranking.from_sparse(csr_matrix(scores.astype(np.float32)), k)
    short = rng.random(n) < 0.2  # some rows rank fewer
    ranking.labels[short, k // 2 :], ranking.scores[short, k // 2 :] = -1, 0
    return ranking, csr_matrix(truth.astype(np.float32))


def figures_at(ranking, Y, threshold):
    """Return precision, recall, micro-F1 and macro-F1 of the sets, from dense matrices."""
    chosen = np.zeros(Y.shape, bool)
    for row in range(len(ranking)):
        given_labels = ranking.labels[row][ranking.scores[row] >= threshold]
        chosen[row, given_labels[given_labels >= 0]] = True
    truth = Y.toarray() > 0
    right = (chosen & truth).sum()
    present = np.flatnonzero((chosen | truth).any(axis=0))
    return {
        "precision": 100 * right / max(chosen.sum(), 1),
        "recall": 100 * right / truth.sum(),
        "micro_f1": 100 * f1_score(truth, chosen, average="micro", zero_division=0),
        "macro_f1": 100 * f1_score(truth, chosen, average="macro", labels=present, zero_division=0),
    }


@given(seed=st.integers(0, 10_000), levels=st.sampled_from([5, 20, 1000]))
@settings(max_examples=25, deadline=None)
def test_no_other_threshold_is_better(seed, levels):
    ranking, Y = drawn(seed, levels=levels)
    tried = [figures_at(ranking, Y, t) for t in np.unique(ranking.scores[ranking.labels >= 0])]
    for goal, figure in (("micro-f1", "micro_f1"), ("macro-f1", "macro_f1")):
        found = choose_threshold(ranking, Y, goal)
        assert getattr(found, figure) == pytest.approx(max(t[figure] for t in tried), abs=1e-3)
        for name, value in figures_at(ranking, Y, found.value).items():
            assert getattr(found, name) == pytest.approx(value, abs=1e-3)


@given(seed=st.integers(0, 10_000), wanted=st.sampled_from([0.3, 0.6, 0.8]))
@settings(max_examples=25, deadline=None)
def test_a_wanted_precision_is_reached_with_the_largest_sets(seed, wanted):
    ranking, Y = drawn(seed, levels=20)
    found = choose_threshold(ranking, Y, f"precision={wanted}")
    at = figures_at(ranking, Y, found.value)
    assert at["precision"] >= 100 * wanted - 1e-6
    for t in np.unique(ranking.scores[ranking.labels >= 0]):
        other = figures_at(ranking, Y, t)
        if other["precision"] >= 100 * wanted:
            assert other["recall"] <= at["recall"] + 1e-6


def test_the_metrics_agree():
    ranking, Y = drawn(3)
    found = choose_threshold(ranking, Y)
    other = evaluate(ranking, Y, threshold=found.value)
    assert found.micro_f1 == pytest.approx(other["micro-F1"], abs=1e-3)
    assert found.macro_f1 == pytest.approx(other["macro-F1"], abs=1e-3)


def test_the_threshold_lies_between_two_scores():
    ranking = Ranking(np.array([[0, 1], [1, 0]]), np.array([[0.75, 0.25], [0.5, 0.25]], np.float32))
    Y = csr_matrix(np.eye(2, dtype=np.float32))
    found = choose_threshold(ranking, Y)
    assert found.value == 0.375
    assert (found.precision, found.recall, found.examples) == (100, 100, 2)
    # Nothing fits between neighbouring numbers: then it is the score itself.
    near = np.float32(0.5)
    ranking.scores[:, 1] = np.nextafter(near, np.float32(0))
    assert choose_threshold(ranking, Y).value == 0.5


def test_labels_unknown_to_the_truth_are_mistakes_and_unranked_ones_missed():
    ranking = Ranking(np.array([[0, 7]]), np.array([[0.9, 0.8]], np.float32))
    Y = csr_matrix(np.array([[1, 1]], np.float32))
    found = choose_threshold(ranking, Y)
    assert found.value == pytest.approx(0.85)
    assert (found.precision, found.recall) == (100, 50)
    assert found.macro_f1 == 50


def test_what_cannot_be_is_said():
    ranking = Ranking(np.array([[0, 1]]), np.array([[0.9, 0.8]], np.float32))
    Y = csr_matrix(np.array([[0, 1]], np.float32))
    with pytest.raises(InputError, match=r"no threshold gives precision 0\.9: .* 0\.500"):
        choose_threshold(ranking, Y, "precision=0.9")
    with pytest.raises(InputError, match="no labels"):
        choose_threshold(ranking, csr_matrix((1, 2), dtype=np.float32))
    with pytest.raises(InputError, match="empty"):
        choose_threshold(Ranking.empty(1, 2), Y)
    for wrong in ("f1", "precision", "precision=", "precision=2", "precision=0", "precision=x"):
        with pytest.raises(ParameterError, match="expected micro-f1, macro-f1"):
            choose_threshold(ranking, Y, wrong)
