"""What a method does not support is refused."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.errors import UnsupportedError
from labelspace.methods.baselines import MostCommon
from labelspace.methods.knn import KNN
from support.planted import planted


def test_what_a_method_does_not_support_is_an_error_that_names_it():
    X, Y = planted()
    model = KNN().fit(X, Y)
    for call in (
        lambda: model.rerank(X, np.zeros((X.shape[0], 1), np.int64)),
        lambda: model.explain(X[0], 0),
        lambda: model.similar_labels(0, 3),
        lambda: model.embed(X),
        lambda: model.label_vectors_,
    ):
        with pytest.raises(UnsupportedError, match="knn"):
            call()
    with pytest.raises(UnsupportedError, match="most-common"):
        MostCommon().fit(X, Y).partial_fit(X, Y)
    assert not MostCommon().fit(X, Y).refit(X, Y, None)
