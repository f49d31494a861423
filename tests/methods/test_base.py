"""The base class: identity of a run, score, ranking and reranking without checks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import CheckpointError
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
