"""The base class: identity of a run, score, ranking and reranking without checks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import CheckpointError, UnsupportedError
from labelspace.methods.baselines import MostCommon
from labelspace.methods.knn import KNN
from labelspace.methods.linear import Linear
from labelspace.runs.callbacks import Checkpoint
from support.planted import planted
from support.toy import Toy


def test_a_checkpoint_belongs_to_its_held_out_examples_and_taxonomy(tmp_path):
    X, Y = planted()
    tree = Taxonomy.from_names([("1", "0"), ("2", "0")], [str(label) for label in range(12)])
    other = Taxonomy.from_names([("1", "0"), ("2", "1")], [str(label) for label in range(12)])
    runs = [
        {},
        {"valid": (X[:20], Y[:20])},
        {"valid": (X[:21], Y[:21])},
        {"taxonomy": tree},
        {"taxonomy": other},
    ]

    class Stop(Checkpoint):
        def on_batch(self, run):
            self.save(run)
            raise KeyboardInterrupt

    for place, given in enumerate(runs):
        with pytest.raises(KeyboardInterrupt):
            Toy().fit(X, Y, callbacks=[Stop(tmp_path)], **given)
        for at, another in enumerate(runs):
            resumed = Checkpoint(tmp_path, resume=True)
            if at == place:
                Toy().fit(X, Y, callbacks=[resumed], **another)
            else:
                with pytest.raises(CheckpointError, match="other data or parameters"):
                    Toy().fit(X, Y, callbacks=[resumed], **another)


def test_grid_search_takes_arrays_of_numpy_and_needs_no_scorer():
    X, Y = planted()
    grid = {"C": np.array([1e-6, 1.0]), "passes": np.arange(5, 7)}
    found = GridSearchCV(Linear(validation=0.0), grid, cv=2).fit(X, Y)
    assert found.best_params_["C"] == 1.0
    first = found.best_estimator_.predict(X, 1).labels[:, 0]
    right = Y.toarray()[np.arange(len(first)), first].mean()
    assert found.best_estimator_.score(X, Y) == pytest.approx(right)


def test_rank_is_predict_without_checks_and_rerank_scores_given_labels():
    X, Y = planted()
    model = Linear().fit(X, Y)
    found = model.predict(X, 4)
    ranked = model.rank(X, 4)
    np.testing.assert_array_equal(ranked.labels, found.labels)
    np.testing.assert_array_equal(ranked.scores, found.scores)
    again = model.rerank(X, found.labels[:, ::-1])
    np.testing.assert_array_equal(again.labels, found.labels[:, ::-1])
    np.testing.assert_allclose(again.scores, found.scores[:, ::-1], atol=1e-6)


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
