"""Comparisons: a process each, the report's shape, peers for real, and failures in words."""

from __future__ import annotations

import json
import os
import re
import statistics
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack

from labelspace.comparison.compare import (
    COSTS,
    METRICS,
    Entrant,
    compare,
    entrants,
    over_runs,
    raise_if_failed,
)
from labelspace.comparison.csv_table import comparison_csv
from labelspace.comparison.figures import label_texts_sentence, three_digits
from labelspace.comparison.page import comparison_page
from labelspace.comparison.peers import PEERS, as_ranking, make_peer, why_missing
from labelspace.data import read_split
from labelspace.data.dataset import Dataset
from labelspace.data.label_texts import LabelRecord, LabelTexts
from labelspace.errors import LabelspaceError, ParameterError
from labelspace.methods import registry
from labelspace.methods.baselines import Random
from labelspace.methods.knn import KNN
from labelspace.methods.parameters import choice
from labelspace.metrics.ranking import evaluate
from labelspace.metrics.reliability import reliability
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
        assert result["std"][key] == pytest.approx(0.0)
    assert result["ECE"] == pytest.approx(100 * reliability(ranking, test.labels, 5).ece)
    assert [run["seed"] for run in result["runs"]] == report["settings"]["seeds"] == [0, 1]
    assert all(result[key] > 0 for key in COSTS)
    assert report["data"]["points"] == 300
    assert report["data"]["test_points"] == 60
    assert report["machine"]["cores"] >= 1
    json.dumps(report, allow_nan=False)


@pytest.mark.parametrize("peer", PEERS)
def test_peers_learn_what_is_planted(data, peer, monkeypatch):
    monkeypatch.setenv(
        "OMP_THREAD_LIMIT", "1"
    )  # threads of PECOS spin, beside other tests for long
    if (reason := why_missing(peer)) is not None:
        pytest.skip(reason)
    seen = []
    report = compare(*data, entrants(["most-common"], [peer], {}), on_result=seen.append)
    floor, result = report["entrants"]
    assert seen == report["entrants"]
    assert result["kind"] == "peer"
    assert result["P@1"] > floor["P@1"] + 20
    (pair,) = report["significance"]["pairs"]
    assert pair["names"] == ["most-common", peer]
    assert pair["P@1"]["high"] < 0
    assert all(result[key] > 0 for key in COSTS)


def test_names_and_settings_are_checked_before_anything_runs():
    with pytest.raises(ParameterError, match="no method 'kn'"):
        entrants(["kn"], [], {})
    with pytest.raises(ParameterError, match="no peer 'omikuj'; did you mean 'omikuji'"):
        entrants([], ["omikuj"], {})
    with pytest.raises(ParameterError, match="not among the methods"):
        entrants(["knn"], [], {"glas.dim": "5"})
    with pytest.raises(ParameterError, match="did you mean 'neighbours'"):
        entrants(["knn"], [], {"knn.neighbors": "5"})


@pytest.fixture
def with_presets(monkeypatch):
    """Register a method with presets, of which one has a dot in its name."""

    class WithPresets(KNN):
        name = "own"
        preset: str | None = choice("Settings.", "paper", "v1.0", default=None, none="none of them")

    monkeypatch.setitem(registry._registered, "own", WithPresets)


@pytest.mark.usefixtures("with_presets")
def test_a_preset_is_an_entrant_of_its_own():
    settings = {"own:paper.neighbours": "3", "own.neighbours": "5", "own:v1.0.neighbours": "7"}
    assert entrants(["own", "own:paper", "own:v1.0"], [], settings) == [
        Entrant("own", "method", {"neighbours": 5}, "own"),
        Entrant("own:paper", "method", {"preset": "paper", "neighbours": 3}, "own"),
        Entrant("own:v1.0", "method", {"preset": "v1.0", "neighbours": 7}, "own"),
    ]
    # A preset that is set is not part of the name.
    (same,) = entrants(["own"], [], {"own.preset": "paper"})
    assert same == Entrant("own", "method", {"preset": "paper"})


@pytest.mark.usefixtures("with_presets")
@pytest.mark.parametrize(
    ("method", "settings", "why"),
    [
        ("own:papr", {}, "own.preset"),
        ("own:", {}, "own.preset"),
        ("knn:paper", {}, "knn:paper: knn has no presets"),
        ("kn:paper", {}, "no method 'kn'"),
        ("own", {"own:paper.neighbours": "1"}, "'own:paper' is not among the methods"),
        ("own:paper", {"own.neighbours": "1"}, "'own' is not among the methods"),
        ("own:paper", {"own:paper.preset": "none"}, "its name has the preset"),
    ],
)
def test_a_preset_that_cannot_be_is_refused(method, settings, why):
    with pytest.raises(ParameterError, match=why):
        entrants([method], [], settings)


def test_a_name_in_the_report_is_not_that_of_the_method(data):
    named = Entrant("nearest", "method", {"neighbours": 3}, "knn")
    (result,) = compare(*data, [named])["entrants"]
    assert (result["name"], result["method"]) == ("nearest", "knn")
    assert result["params"]["neighbours"] == 3


def test_an_entrant_that_fails_does_not_cost_the_others(data):
    failing = [
        Entrant("knn", "method", {"nonsense": 0}),
        Entrant("knn", "method", {"neighbours": 0}),
        Entrant("no such", "method"),
        Entrant("most-common", "method"),
    ]
    report = compare(*data, failing)
    one, two, three, fine = report["entrants"]
    assert "no knn parameter" in one["error"]
    assert two["name"] == "knn"
    assert two["params"] == {"neighbours": 0}
    assert "neighbours=0" in two["error"]
    assert "no method 'no such'" in three["error"]
    assert fine["P@1"] > 0
    page = comparison_page(report, "x")
    assert "neighbours=0" in page
    assert f"{fine['P@1']:.2f}" in page
    with pytest.raises(LabelspaceError, match=r"knn: .*neighbours=0"):
        raise_if_failed(two)
    raise_if_failed(fine)
    report["entrants"] = [two]
    assert "neighbours=0" in comparison_page(report, "x")


# Read by each process when it starts: methods that end badly.
FAILING = """
import os, signal
from labelspace.methods.baselines import MostCommon
from labelspace.methods.registry import register

@register
class Killed(MostCommon):
    name = "killed"

    def _fit(self, data):
        os.kill(os.getpid(), signal.SIGKILL)

@register
class FailsLater(MostCommon):
    name = "fails-later"

    def _fit(self, data):
        super()._fit(data)
        if self.params_.seed == 1:
            raise RuntimeError("bad luck")
"""


def test_a_killed_process_and_a_failing_seed_do_not_cost_the_others(data, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(FAILING)
    places = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, places)))
    field = [Entrant(name, "method") for name in ("killed", "fails-later", "most-common")]
    started = []
    report = compare(
        *data,
        field,
        repeat=2,
        state=tmp_path / "state",
        on_start=lambda *run: started.append(run),
    )
    killed, failed, fine = report["entrants"]
    assert [name for name, _ in started] == ["killed", *2 * ["fails-later"], *2 * ["most-common"]]
    assert killed["error"].startswith("ended by signal 9 (out of memory?)")
    assert failed["error"] == "seed 1: failed with exit code 1: RuntimeError: bad luck"
    assert "P@1" not in failed
    assert fine["P@1"] > 0
    assert fine["std"]["P@1"] == 0
    assert "significance" not in report  # one system is left
    # What was finished is kept, also of the one that failed later.
    assert len((tmp_path / "state").read_text().splitlines()) == 1 + 3


def test_several_runs_give_means_and_sample_deviations(data):
    train, test = data
    report = compare(*data, entrants(["random"], [], {}), repeat=2)
    (result,) = report["entrants"]
    single = [
        evaluate(
            Random(seed=seed).fit(train.features, train.labels).predict(test.features, 5),
            test.labels,
            train.labels,
        )
        for seed in range(2)
    ]
    values = [run["P@5"] for run in single]
    assert len(set(values)) > 1
    assert [run["P@5"] for run in result["runs"]] == pytest.approx(values)
    assert result["P@5"] == pytest.approx(statistics.mean(values))
    assert result["std"]["P@5"] == pytest.approx(statistics.stdev(values))
    tails = [run["bands"]["tail"]["recall@5"] for run in single]
    assert len(set(tails)) > 1
    assert result["bands"]["tail"]["recall@5"] == pytest.approx(statistics.mean(tails))
    assert result["std"]["bands"]["tail"]["recall@5"] == pytest.approx(statistics.stdev(tails))
    page = comparison_page(report, "x")
    assert f"{result['P@1']:.2f} ± {result['std']['P@1']:.2f}" in page
    assert "sample standard deviation (n - 1) over 2 runs per system, seeds 0, 1" in page


def test_every_figure_has_a_mean_and_a_deviation(data, monkeypatch):
    """Runs as of data with a taxonomy; counts and texts are not figures."""

    def of_run(job, _):
        figure = 10.0 + 2 * job["seed"]
        level = {"examples": 7, "micro-F1": figure, "macro-F1": None, "tail": {"recall": figure}}
        return {
            **dict.fromkeys((*METRICS, *COSTS, "ECE"), figure),
            "params": {},
            "hits": "",
            "bands": {"tail": {"P@1": figure}},
            "by_level": {"chosen": "likeliest path", "exact path": figure, "levels": {"L0": level}},
        }

    monkeypatch.setattr("labelspace.comparison.compare.run", of_run)
    (result,) = compare(*data, entrants(["random"], [], {}), repeat=3)["entrants"]
    level = {"micro-F1": 2.0, "macro-F1": None, "tail": {"recall": 2.0}}
    assert result["by_level"]["levels"]["L0"]["micro-F1"] == 12.0
    assert result["by_level"]["levels"]["L0"]["examples"] == 7
    assert result["std"] == {
        **dict.fromkeys((*METRICS, *COSTS, "ECE"), 2.0),
        "bands": {"tail": {"P@1": 2.0}},
        "by_level": {"exact path": 2.0, "levels": {"L0": level}},
    }


def test_figures_within_figures_are_averaged_too():
    runs = [
        {"chosen": "likeliest path", "levels": {"L0": {"examples": 5, "recall": 40.0, "x": None}}},
        {"chosen": "likeliest path", "levels": {"L0": {"examples": 5, "recall": 60.0, "x": 1.0}}},
    ]
    assert over_runs(runs, statistics.mean) == {
        "chosen": "likeliest path",
        "levels": {"L0": {"examples": 5, "recall": 50.0, "x": None}},
    }


def test_an_entrant_that_ranks_nothing_has_no_calibration_error():
    Y = csr_matrix(np.tile(np.eye(2, dtype=np.float32), (5, 1)))
    train = Dataset(labels=Y, texts=["red", "green"] * 5)
    test = Dataset(labels=Y, texts=["one", "two"] * 5)
    (knn,) = compare(train, test, entrants(["knn"], [], {}))["entrants"]
    assert (knn["P@1"], knn["ECE"]) == (0.0, None)


def test_repeated_runs_of_a_peer_have_seeds_of_their_own(tmp_path):
    pytest.importorskip("napkinxc", reason="extra 'peers' is not installed")
    assert make_peer("napkinxc", tmp_path, seed=3).params["seed"] == 3


def test_a_peers_answers_become_a_ranking():
    ranking = as_ranking([[(3, 0.5), (1, 0.25)], []], k=3)
    assert ranking.labels.tolist() == [[3, 1, -1], [-1, -1, -1]]
    assert ranking.scores.tolist() == [[0.5, 0.25, 0], [0, 0, 0]]


@pytest.fixture(scope="module")
def measured(data):
    return compare(*data, entrants(["most-common", "random"], [], {}))


@pytest.fixture
def report(measured):
    return deepcopy(measured)


def test_the_page_shows_every_entrant_and_escapes_names(report):
    page = comparison_page(report, title="<b>& data")
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp; data" in page
    for entrant in report["entrants"]:
        assert f"{entrant['P@1']:.2f}" in page
        assert entrant["name"] in page
    assert "http" not in page.replace("http-equiv", "")  # nothing is fetched
    report["entrants"][0]["name"] = "<script>alert(1)</script>"
    report["entrants"][1] = {**report["entrants"][1], "error": "<script>alert(2)</script>"}
    assert "<script" not in comparison_page(report, title="x")


def test_the_page_has_what_one_must_know_of_the_figures(report):
    page = comparison_page(report, title="x")
    assert report["date"][:10] in page
    assert "seed 0" in page
    assert "most-common" in page
    assert "seed=0" in page  # the parameters
    assert "propensity-scored" in page
    assert "A = 0.55, B = 1.5, counted in the training labels" in page
    tail = report["entrants"][0]["bands"]["tail"]
    assert f"<h3>tail: {report['data']['tail_labels']:,} labels</h3>" in page
    assert f"{tail['recall@5']:.2f}" in page
    assert "grey" not in page  # there are no peers
    assert "take no seed" not in page
    assert not re.search(r"[0-9]e[-+][0-9]", page.replace(_style(page), ""))
    report["entrants"] += [{**report["entrants"][0], "name": "omikuji", "kind": "peer"}]
    page = comparison_page(report, title="x")
    assert "peers are grey" in page
    assert "omikuji takes no seed: its figures differ from run to run." in page


def test_the_page_fits_a_phone(report):
    page = comparison_page(report, title="x" * 300)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    # What is wide scrolls within the page: every table lies in a box that does.
    assert page.count("<table>") == page.count('<div class="scroll"><table>') > 3
    assert ".scroll { overflow-x: auto; max-width: 100%; }" in page
    assert "overflow-wrap: anywhere" in page  # a long name without blanks
    assert "grid-template-columns: minmax(0, max-content) minmax(4rem, 1fr) max-content" in page


def _style(page):
    return page[page.index("<style>") : page.index("</style>")]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0.00"), (6.22e-05, "<0.001"), (0.01234, "0.0123"), (1.2, "1.20"), (12345.6, "12,346"),
     (-0.0001, "-0.000"), (123.4, "123")],
)  # fmt: skip
def test_costs_have_three_digits_and_no_exponent(value, shown):
    assert three_digits(value) == shown


def test_texts_are_compared_and_shown_with_the_features_they_became():
    words = ["red", "green", "blue", "grey"]
    texts = [f"{word} {word} thing" for word in words] * 5
    Y = csr_matrix(np.tile(np.eye(4, dtype=np.float32), (5, 1)))
    data = Dataset(labels=Y, texts=texts)
    report = compare(data, data, entrants(["knn", "most-common"], [], {}))
    assert report["data"]["features"] == 5
    assert report["entrants"][0]["P@1"] == 100.0
    assert "5 features, 4 labels (" in comparison_page(report, "colours")


def _with_label_texts() -> tuple[Dataset, Dataset]:
    """Return data of which a test label has a name in the text, and no training example."""
    records = [LabelRecord(name, {"en": name}) for name in ("fruit", "tool", "toy", "boat")]
    rows = [{"text": f"ripe fruit {i}", "labels": ["fruit"]} for i in range(30)]
    rows += [{"text": f"a sharp tool {i}", "labels": ["tool"]} for i in range(30)]
    test = [*rows[::10], *({"text": "small toys", "labels": ["toy"]} for _ in range(6))]
    return read_split(rows, test, label_texts=LabelTexts.of(records))


def test_label_texts_are_read_by_methods_that_use_them_alone():
    train, test = _with_label_texts()
    field = entrants(["lexical", "lexical:no-labels", "knn"], [], {})
    report = compare(train, test, field)
    lexical, without, knn = report["entrants"]
    assert [each.get("label_texts") for each in report["entrants"]] == [True, False, False]
    assert lexical["P@1"] == 100.0
    assert without["P@1"] < 100.0
    assert knn["P@1"] == 50.0  # it knows two labels, as without label texts
    assert report["data"]["labels"] == 2
    assert report["data"]["label_texts"]["named"] == 4
    plain = compare(replace(train, label_texts=None), test, entrants(["knn"], [], {}))
    assert "label_texts" not in plain["data"]
    assert plain["entrants"][0]["PSP@1"] == knn["PSP@1"]
    sentence = "Label texts (4 names) were read by lexical; the others did not."
    assert label_texts_sentence(report) == sentence
    assert sentence in comparison_page(report, "t")
    assert comparison_csv(report).splitlines()[1].startswith("lexical,method,lexical,True,1,")


def test_only_methods_that_use_label_texts_can_do_without():
    with pytest.raises(ParameterError, match="knn never reads label texts"):
        entrants(["knn:no-labels"], [], {})
