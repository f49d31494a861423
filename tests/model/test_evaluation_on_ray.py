"""Evaluation on a Ray cluster gives the figures of this process."""

from __future__ import annotations

import pytest

import labelspace as ls
from labelspace.engine import use
from labelspace.model import evaluation

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.xdist_group("ray")

from labelspace.engine.ray import RayEngine  # noqa: E402


@pytest.mark.usefixtures("ray_cluster")
def test_figures_are_the_same(monkeypatch):
    monkeypatch.setattr(evaluation, "_ROWS_PER_TASK", 7)
    words = ("apple", "saw", "rose", "pear")
    rows = [{"text": f"{word} {n % 5}", "labels": [word]} for n in range(8) for word in words]
    tagger = ls.train(rows, method="linear")
    calls = []
    engine = RayEngine()
    monkeypatch.setattr(engine, "map", counted(engine.map, calls))
    with use(engine):
        found = tagger.evaluate(rows[:20], threshold=0.2)
    assert calls == [3]
    assert found == tagger.evaluate(rows[:20], threshold=0.2)


def counted(map_, calls):
    def call(function, tasks, **more):
        calls.append(len(tasks))
        return map_(function, tasks, **more)

    return call
