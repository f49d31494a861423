from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from labelspace._core.schema import check_arrays
from labelspace.components.boosted_trees import BoostedTrees
from labelspace.errors import ModelFormatError


def samples(n=2000):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n, 3)).astype(np.float32)
    hits = features[:, 0] * features[:, 1] + 0.3 * rng.normal(size=n) > 0
    return features, hits


def test_the_trees_are_those_of_scikit_learn():
    features, hits = samples()
    trees = BoostedTrees.fit(features, hits, trees=20, leaves=8, rate=0.1)
    model = HistGradientBoostingClassifier(
        max_iter=20, learning_rate=0.1, max_leaf_nodes=8, min_samples_leaf=10,
        l2_regularization=1.0, early_stopping=False, random_state=0,
    ).fit(features, hits)  # fmt: skip
    expected = model.decision_function(features)
    np.testing.assert_allclose(trees.log_odds(features), expected, atol=1e-12)
    loaded = BoostedTrees.restore(trees.state())
    assert np.array_equal(loaded.log_odds(features), trees.log_odds(features))


@pytest.mark.parametrize("hits", [np.zeros(9, bool), np.ones(9, bool), np.zeros(0, bool)])
def test_without_both_kinds_there_is_no_tree(hits):
    trees = BoostedTrees.fit(np.zeros((len(hits), 2)), hits, trees=3, leaves=4, rate=0.1)
    assert len(trees.feature) == 0
    assert np.sign(trees.log_odds(np.zeros((1, 2)))[0]) == np.sign(hits.sum() - len(hits) / 2)
    check_arrays(BoostedTrees.schema("", 2), trees.state())


@pytest.mark.parametrize(
    ("name", "value"), [("left", 0), ("right", 10**6), ("feature", 3), ("feature", -1)]
)
def test_damaged_trees_are_refused(name, value):
    features, hits = samples(500)
    arrays = BoostedTrees.fit(features, hits, trees=2, leaves=4, rate=0.1).state()
    broken = arrays[name].copy()
    broken[0] = value
    with pytest.raises(ModelFormatError):
        check_arrays(BoostedTrees.schema("", 3), {**arrays, name: broken})
