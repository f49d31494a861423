"""Comparisons: a process each, the report's shape, peers for real, and failures in words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack

from labelspace.data.dataset import Dataset
from labelspace.errors import LabelspaceError, ParameterError
from labelspace.evaluation.compare import COSTS, METRICS, Entrant, compare, entrants
from labelspace.evaluation.metrics import evaluate
from labelspace.evaluation.peers import as_ranking
from labelspace.evaluation.reliability import reliability
from labelspace.evaluation.report import comparison_page
from labelspace.methods.knn import KNN
from support.planted import planted


@pytest.fixture(scope="module")
def data():
    X, Y = planted(360, seed=5)
    unseen = csr_matrix((np.ones(3), ([0, 1, 2], [0, 0, 1])), shape=(60, 2))
    test = Dataset(labels=hstack([Y[300:], unseen]).tocsr(), features=X[300:])
    return Dataset(labels=Y[:300], features=X[:300]), test


def test_a_method_scores_as_it_does_in_this_process(data):
    train, test = data
    report = compare(train, test, entrants(["knn"], [], {"knn.neighbours": "7"}), repeat=2)
    ranking = KNN(neighbours=7).fit(train.features, train.labels).predict(test.features, 5)
    expected = evaluate(ranking, test.labels, train.labels)
    (result,) = report["entrants"]
    assert result["params"]["neighbours"] == 7
    assert result["kind"] == "method"
    for key in METRICS:
        assert result[key] == pytest.approx(expected[key])
        assert result["spread"][key] == pytest.approx(0.0)
    assert result["ECE"] == pytest.approx(100 * reliability(ranking, test.labels, 5).ece)
    assert len(result["runs"]) == 2
    assert all(result[key] > 0 for key in COSTS)
    assert report["data"]["points"] == 300
    assert report["data"]["test_points"] == 60
    assert report["machine"]["cores"] >= 1
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize("peer", ["omikuji", "omikuji-bonsai", "napkinxc"])
def test_peers_learn_what_is_planted(data, peer):
    pytest.importorskip(peer.partition("-")[0], reason="extra 'peers' is not installed")
    seen = []
    report = compare(*data, entrants(["most-common"], [peer], {}), on_result=seen.append)
    floor, result = report["entrants"]
    assert seen == report["entrants"]
    assert result["kind"] == "peer"
    assert result["P@1"] > floor["P@1"] + 20
    assert all(result[key] > 0 for key in COSTS)


def test_names_and_settings_are_checked_before_anything_runs():
    with pytest.raises(ParameterError, match="no method 'kn'"):
        entrants(["kn"], [], {})
    with pytest.raises(ParameterError, match="no peer 'omikuj'; did you mean 'omikuji'"):
        entrants([], ["omikuj"], {})
    with pytest.raises(LabelspaceError, match="not among the methods"):
        entrants(["knn"], [], {"glas.dim": "5"})
    with pytest.raises(ParameterError, match="did you mean 'neighbours'"):
        entrants(["knn"], [], {"knn.neighbors": "5"})


def test_an_entrant_that_fails_says_why(data):
    with pytest.raises(LabelspaceError, match=r"knn: .*neighbours=0"):
        compare(*data, [Entrant("knn", "method", {"neighbours": 0})])
    with pytest.raises(LabelspaceError, match=r"knn failed with exit code 1.*TypeError"):
        compare(*data, [Entrant("knn", "method", {"nonsense": 0})])


def test_a_peers_answers_become_a_ranking():
    ranking = as_ranking([[(3, 0.5), (1, 0.25)], []], k=3)
    assert ranking.labels.tolist() == [[3, 1, -1], [-1, -1, -1]]
    assert ranking.scores.tolist() == [[0.5, 0.25, 0], [0, 0, 0]]


def test_the_page_shows_every_entrant_and_escapes_names(data):
    report = compare(*data, entrants(["most-common", "random"], [], {}))
    page = comparison_page(report, title="<b>& data")
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp; data" in page
    for entrant in report["entrants"]:
        assert f"{entrant['P@1']:.2f}" in page
        assert entrant["name"] in page
    assert "http" not in page.replace("http-equiv", "")  # nothing is fetched


def test_texts_are_compared_and_shown_with_the_features_they_became():
    words = ["red", "green", "blue", "grey"]
    texts = [f"{word} {word} thing" for word in words] * 5
    Y = csr_matrix(np.tile(np.eye(4, dtype=np.float32), (5, 1)))
    data = Dataset(labels=Y, texts=texts)
    report = compare(data, data, entrants(["knn", "most-common"], [], {}))
    assert report["data"]["features"] == 5
    assert report["entrants"][0]["P@1"] == 100.0
    assert "5 features, 4 labels" in comparison_page(report, "colours")
