"""The randomisation test against enumeration and scipy, its p-values under the null, intervals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from labelspace.errors import InputError
from labelspace.metrics import significance
from labelspace.metrics.significance import holm, paired_tests


def of_two(a, b, **options):
    (found,) = paired_tests(np.column_stack([a, b]), [(0, 1)], **options)
    return found


def error_of_share(p, flips):
    """Return four standard errors of a share that was estimated from so many flips."""
    return 4 * np.sqrt(p * (1 - p) / flips) + 1 / flips


@pytest.mark.parametrize(
    "differences",
    [
        [0.3, -0.1, 0.25, 0.4, 0.05, -0.2, 0.6, 0.35],
        [1, 1, 1, -1, 0, 0, 1, 0, -1, 1],  # with ties, as of P@1
        [0.2, 0.4, -0.2, 0.6, 0.4, 0.2, 0.2, 0.8, 0.1],
        [1.0],
    ],
)
def test_few_examples_agree_with_all_flips_enumerated(differences):
    d = np.array(differences)
    sums = np.array([np.dot(d, signs) for signs in product((1, -1), repeat=len(d))])
    exact = np.mean(np.abs(sums) >= abs(d.sum()) - 1e-9)
    found = of_two(np.full(len(d), 0.5) + d, np.full(len(d), 0.5), flips=40_000)
    assert found.p == pytest.approx(exact, abs=error_of_share(exact, 40_000))
    assert found.difference == pytest.approx(d.mean())


@pytest.mark.parametrize("seed", range(2, 6))
def test_differences_that_are_equal_but_for_rounding_are_equal(seed):
    """Thirds, as of P@3, have no exact sums."""
    a, b = np.random.default_rng(seed).integers(0, 4, (2, 12))
    signs = np.array(list(product((1, -1), repeat=12)))
    exact = np.mean(np.abs(signs @ (a - b)) >= abs((a - b).sum()))
    found = of_two(a / 3, b / 3, flips=40_000)
    assert found.p == pytest.approx(exact, abs=error_of_share(exact, 40_000))


@pytest.mark.parametrize("seed", range(5))
def test_random_values_agree_with_scipy(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.random(80), rng.random(80)
    b += rng.normal(0, 0.03)

    def mean_difference(x, y, axis):
        return np.mean(x - y, axis=axis)

    expected = stats.permutation_test(
        (a, b),
        mean_difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=9_999,
        random_state=seed,
    )
    found = of_two(a, b)
    assert found.difference == pytest.approx(expected.statistic)
    # Both are estimates.
    assert found.p == pytest.approx(expected.pvalue, abs=2 * error_of_share(found.p, 9_999))


def test_the_interval_agrees_with_scipy():
    rng = np.random.default_rng(3)
    a, b = rng.random(200) ** 2, rng.random(200)
    expected = stats.bootstrap(
        (a - b,), np.mean, method="percentile", n_resamples=2_000, random_state=0
    ).confidence_interval
    found = of_two(a, b)
    width = expected.high - expected.low
    assert found.low == pytest.approx(expected.low, abs=0.06 * width)
    assert found.high == pytest.approx(expected.high, abs=0.06 * width)
    assert found.low < found.difference < found.high
    narrower = of_two(a, b, confidence=0.5)
    assert found.low < narrower.low < narrower.high < found.high


def test_p_values_are_uniform_where_systems_do_not_differ():
    rng = np.random.default_rng(0)
    p = []
    for _ in range(400):
        skill = rng.random(60)  # an example that is easy is easy for both
        a, b = (rng.random((2, 60)) < skill).astype(float) + rng.normal(0, 0.1, (2, 60))
        p.append(of_two(a, b, flips=299, resamples=1).p)
    assert stats.kstest(p, "uniform").pvalue > 0.05
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.03)


def test_a_planted_difference_is_found_by_pairing():
    """Examples vary far more than the systems do, so that only pairs show the difference."""
    rng = np.random.default_rng(1)
    common = rng.random(500)
    a = common + 0.02 + rng.normal(0, 0.05, 500)
    b = common + rng.normal(0, 0.05, 500)
    found = of_two(a, b)
    assert found.p < 0.001
    assert 0 < found.low < 0.02 < found.high < 0.04
    assert stats.ttest_ind(a, b).pvalue > 0.05
    back = of_two(b, a)
    assert back.p == found.p
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low), abs=1e-9)


def test_equal_systems_do_not_differ():
    values = np.random.default_rng(2).random(1000)
    found = of_two(values, values)
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_p_is_never_zero():
    assert of_two(np.ones(200), np.zeros(200)).p == 1 / 10_001


def test_the_same_seed_gives_the_same_result():
    a, b = np.random.default_rng(0).random((2, 50))
    assert of_two(a, b, seed=4) == of_two(a, b, seed=4)
    assert of_two(a, b, seed=4) != of_two(a, b, seed=5)


def test_pairs_are_tested_as_if_each_were_alone():
    values = np.random.default_rng(0).random((70, 3))
    together = paired_tests(values, [(0, 1), (2, 1), (0, 2)])
    assert together[1] == of_two(values[:, 2], values[:, 1])
    assert together[0].difference == pytest.approx(values[:, 0].mean() - values[:, 1].mean())


@pytest.mark.parametrize("size", [1, 7, 64, 100])
def test_examples_in_several_blocks_are_all_used(monkeypatch, size):
    rng = np.random.default_rng(6)
    a, b = rng.random(100), rng.random(100) + 0.05
    whole = of_two(a, b)
    monkeypatch.setattr(significance, "_EXAMPLES", size)
    parts = of_two(a, b)
    assert parts.difference == pytest.approx(whole.difference)
    assert parts.p == pytest.approx(whole.p, abs=2 * error_of_share(whole.p, 10_000))
    assert parts.low == pytest.approx(whole.low, abs=0.01)
    assert parts.high == pytest.approx(whole.high, abs=0.01)


def test_holm_is_that_of_the_definition():
    # Sorted, the i-th of m is multiplied by m - i + 1, and none is below one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_holm_keeps_the_chance_of_any_wrong_rejection():
    rng = np.random.default_rng(0)
    wrong = [min(holm(rng.random(10))) <= 0.05 for _ in range(2000)]
    assert np.mean(wrong) == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("values", [np.empty((0, 2)), np.ones(3), np.array([[1.0, np.nan]])])
def test_values_that_cannot_be_tested_are_refused(values):
    with pytest.raises(InputError, match="at least one row"):
        paired_tests(values, [(0, 1)])
