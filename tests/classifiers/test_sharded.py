"""Labels divided over the tasks of an engine have the same weights, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from labelspace.classifiers import dual_descent, tree_edges
from labelspace.classifiers.dual_descent import all_against, solve
from labelspace.classifiers.one_vs_rest import hard_negative_tasks
from labelspace.classifiers.tree_edges import train_edges
from labelspace.engine import LocalEngine, use
from labelspace.labels.clustering import build_tree
from labelspace.runs.checkpoint_files import Blocks


class Shards(LocalEngine):
    """An engine that divides work as a cluster does, in this process; it counts its tasks."""

    shards = 3

    def __init__(self):
        super().__init__(workers=1)
        self.n_tasks = 0

    def map(self, function, tasks, **more):
        tasks = list(tasks)
        self.n_tasks += len(tasks)
        return super().map(function, tasks, **more)


@pytest.fixture
def shards(monkeypatch):
    monkeypatch.setattr(dual_descent, "WORTH_SHARING", 0)
    return Shards()


def data():
    X = random(200, 50, 0.2, format="csr", random_state=0, dtype=np.float32)
    Y = csr_matrix(random(200, 61, 0.1, format="csr", random_state=1) > 0, dtype=np.float32)
    return X, Y


def equal(one, other):
    return one.shape == other.shape and (one != other).nnz == 0


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("against", ["all", "hard"])
def test_weights_do_not_depend_on_the_number_of_shards(shards, loss, against):
    X, Y = data()
    tasks = all_against(Y)
    if against == "hard":
        tasks = hard_negative_tasks(Y, Y[::-1], np.ones(Y.shape[1], np.bool_))
    counts = []
    with use(shards):
        found = solve(X, tasks, loss=loss, progress=counts.append)
    assert equal(found, solve(X, tasks, loss=loss))
    assert shards.n_tasks == 3
    assert sum(counts) == 61


def test_little_work_stays_in_the_process():
    X, Y = data()
    engine = Shards()
    with use(engine):
        solve(X, all_against(Y))
    assert engine.n_tasks == 0


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_edges_of_a_tree_are_divided_by_nodes(shards, monkeypatch, tmp_path, loss):
    monkeypatch.setattr(tree_edges, "CELLS_AT_A_TIME", 1000)
    X, Y = data()
    tree = build_tree("kmeans", X, Y, fanout=4, leaf_size=4, seed=0)
    settings = {"loss": loss, "C": 1.0, "prune": 0.1, "seed": 3}
    expected = train_edges(X, Y, tree, **settings)

    def kept(resume):
        return lambda number: Blocks(tmp_path, f"range-{number}", "x", 0.0, resume)

    counts = []
    with use(shards):
        found = train_edges(X, Y, tree, **settings, progress=counts.append, blocks=kept(False))
    n_tasks = shards.n_tasks
    assert equal(found, expected)
    assert sum(counts) == len(tree) - 1
    assert n_tasks >= 3
    with use(shards):
        again = train_edges(X, Y, tree, **settings, blocks=kept(True))
    assert equal(again, expected)
    assert shards.n_tasks == n_tasks  # all were kept
    assert equal(train_edges(X, Y, tree, **settings, blocks=kept(True)), expected)
