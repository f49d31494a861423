"""Inverse propensities against published ones, the formula by hand, and their limits."""

from __future__ import annotations

import gzip
import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.data.formats.xc import read_matrix
from labelspace.errors import InputError, ParameterError
from labelspace.labels.propensity import LabelCounts, inverse_propensities


def test_reproduces_the_published_weights_of_eurlex(shared_data) -> None:
    folder = shared_data("eurlex-4k-labels")
    ours = inverse_propensities(read_matrix(folder / "trn_X_Y.txt.gz"))
    with gzip.open(folder / "inv_prop.txt.gz", "rt") as lines:
        printed = [line.strip() for line in lines if line.strip()]
    assert len(ours) == 3993
    assert [f"{weight:.5g}" for weight in ours] == printed, "to the five digits that are printed"


def test_matches_the_formula_by_hand() -> None:
    weights = inverse_propensities([0, 3, 100], 1000, a=0.6, b=2.6)
    c = (math.log(1000) - 1) * 3.6**0.6
    assert weights == pytest.approx([1 + c / 2.6**0.6, 1 + c / 5.6**0.6, 1 + c / 102.6**0.6])


def test_a_matrix_and_its_counts_give_the_same() -> None:
    Y = csr_matrix(np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=np.float32))
    assert inverse_propensities(Y) == pytest.approx(inverse_propensities([3, 2, 0], 4))


def test_counts_of_a_matrix_reach_beyond_its_labels() -> None:
    counts = LabelCounts.of(csr_matrix(np.array([[1, 0], [1, 0], [0, 0]])))
    assert counts.n_points == 3
    assert counts.counts.tolist() == [2, 0]
    assert counts.widened(4).tolist() == [2, 0, 0, 0]
    assert counts.widened(1).tolist() == [2, 0]


def test_stored_zeros_are_not_counted() -> None:
    Y = csr_matrix(
        (np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 2, 2, 2, 2])), shape=(4, 2)
    )
    assert inverse_propensities(Y) == pytest.approx(inverse_propensities([1, 0], 4))


def test_rarer_labels_weigh_more_and_no_label_less_than_one() -> None:
    weights = inverse_propensities(np.arange(50), 100)
    assert (np.diff(weights) < 0).all()
    for n_points in (1, 2, 3):
        assert (inverse_propensities([0, 1], n_points) >= 1).all()


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="n_points"):
        inverse_propensities([1, 2])
    with pytest.raises(InputError, match="counts"):
        inverse_propensities([-1, 2], 10)
    with pytest.raises(InputError, match="label matrix"):
        inverse_propensities(np.zeros((2, 2, 2)), 10)
    with pytest.raises(ParameterError, match="a="):
        inverse_propensities([1], 10, a=math.nan)
    with pytest.raises(ParameterError, match="b="):
        inverse_propensities([1], 10, b=0.0)
