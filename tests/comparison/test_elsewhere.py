"""Runs of a comparison on a cluster have the figures of runs here; an error stays with its run."""

from __future__ import annotations

import pytest

from labelspace.comparison.compare import METRICS, Entrant, compare
from labelspace.data.dataset import Dataset
from labelspace.engine import use
from support.planted import planted

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.xdist_group("ray")

from labelspace.engine.ray import RayEngine  # noqa: E402


@pytest.mark.usefixtures("ray_cluster")
def test_figures_are_the_same_and_errors_stay_with_their_runs():
    X, Y = planted(360, seed=5)
    train = Dataset(labels=Y[:300], features=X[:300])
    test = Dataset(labels=Y[300:], features=X[300:])
    chosen = [Entrant("knn", "method", {"neighbours": count}) for count in (7, 0)]
    started = []
    with use(RayEngine()):
        report = compare(train, test, chosen, repeat=2, on_start=lambda *run: started.append(run))
    one, failed = report["entrants"]
    assert started == [("knn", 0), ("knn", 1)] * 2
    [expected] = compare(train, test, chosen[:1], repeat=2)["entrants"]
    assert {name: one[name] for name in METRICS} == {name: expected[name] for name in METRICS}
    assert "neighbours=0" in failed["error"]
