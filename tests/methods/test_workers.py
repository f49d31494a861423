"""Workers with a part of each batch train what one worker with the whole batch trains."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from labelspace.methods.registry import method_class, method_names
from support.planted import planted
from support.workers import together

CASES = [
    ("glas", {"dim": 8, "n_negatives": 5}),
    ("glas", {"dim": 8, "hidden": (12,), "loss": "softmax", "negatives": "hard",
              "regulariser": "gravity"}),
    ("glas", {"dim": 8, "loss": "margin", "negatives": "frequency", "optimiser": "sgd",
              "regulariser": "laplacian", "regularised": "sampled", "lr": 0.05}),
    ("dxml", {"dim": 8, "ensemble": 2}),
    ("dxml", {"dim": 8, "ensemble": 1, "loss": "triplet", "reduced_dim": None}),
    ("dxml", {"dim": 8, "ensemble": 1, "loss": "smooth-l1", "hidden": (10,), "dropout": 0.3,
              "optimiser": "sgd", "reduced_dim": None, "lr": 0.01}),
    ("hyperbolic", {"dim": 4}),
    ("hyperbolic", {"dim": 4, "negatives": "per-example", "weighting": "pairs"}),
    ("hyperbolic", {"dim": 4, "negatives": "hard", "n_negatives": 5, "examples_weight": 0.5}),
    ("neuralxc", {"exact": 10, "samples": 8}),
    ("treespace", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params"), CASES)
def test_the_size_of_the_group_does_not_change_the_model(name, params):
    X, Y = planted(90, 40, 14)
    method = method_class(name)

    def fit(_=None):
        model = method(**params, epochs=2, batch_size=16).fit(X, Y)
        return model.history_, model.predict(X, 3), model.state()

    history, ranking, _ = fit()
    found = together(2, fit)
    for own_history, own_ranking, _ in found:
        assert len(own_history) == len(history) == 2
        for one, two in zip(history, own_history, strict=True):
            assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
            assert two["score"] == pytest.approx(one["score"], abs=1.0)
        # Rounding may exchange labels that are as good.
        np.testing.assert_allclose(own_ranking.scores, ranking.scores, atol=2e-3)
    (_, _, one), (_, _, two) = found
    assert all(np.array_equal(one[part], two[part]) for part in one)  # copies do not drift apart


@pytest.mark.parametrize("name", ["glas", "dxml", "hyperbolic"])
def test_a_batch_may_have_fewer_examples_than_there_are_workers(name):
    X, Y = planted(63, 40, 14)

    def fit(_=None):
        model = method_class(name)(dim=8, epochs=2, batch_size=16)  # the last batch has one
        return model.fit(X[:33], Y[:33], valid=(X[33:], Y[33:])).history_

    alone = [entry["loss"] for entry in fit()]
    for history in together(3, fit):
        assert [entry["loss"] for entry in history] == pytest.approx(alone, rel=1e-5)


def test_methods_that_train_in_workers_are_those_tested():
    found = {name for name in method_names() if method_class(name).can_train_in_workers}
    assert found == {name for name, _ in CASES}
