"""What "auto" becomes for GLaS."""

from __future__ import annotations

import pytest

from labelspace.components.training_data import Shape
from labelspace.methods.glas.method import GLaS


def resolved(labels, **params):
    shape = Shape(10_000, 500, labels, 10**5, 3 * 10**4)
    return GLaS.resolve(GLaS(**params).get_params(), shape)


def test_many_labels_get_more_dimensions():
    assert [resolved(n)["dim"] for n in (10, 25_000, 25_001)] == [512, 512, 1024]
    assert resolved(25_001, dim=16)["dim"] == 16


def test_search_may_miss_more_where_votes_add_labels():
    assert resolved(10)["recall"] == 0.95
    assert resolved(10, neighbours=0)["recall"] == 0.998
    assert resolved(10, recall=0.7)["recall"] == 0.7


def test_feature_damping_follows_the_examples_per_label():
    assert resolved(3_000)["feature_damping"] == pytest.approx(30.0)
    assert resolved(3_000, feature_damping=None)["feature_damping"] is None
