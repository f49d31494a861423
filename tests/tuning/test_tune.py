"""Tuning: the best trial is kept, files are written, and a study that was stopped continues."""

from __future__ import annotations

import csv
import json

import pytest

import labelspace as ls
from labelspace.data.dataset import Dataset
from labelspace.errors import CheckpointError, LabelspaceError, ParameterError
from labelspace.methods import registry
from labelspace.methods.knn import KNN
from labelspace.methods.search_range import among
from labelspace.tuning import study
from support.planted import planted

pytest.importorskip("optuna")


@pytest.fixture
def data():
    X, Y = planted(150, seed=3)
    return Dataset(labels=Y, features=X)


def drawn(tuned):
    return [(trial.number, trial.parameters, trial.score) for trial in tuned.trials]


def test_the_best_trial_is_the_highest_and_the_first_has_the_defaults(data):
    tuned = ls.tune(data, method="knn", trials=6, metric="P@1")
    scores = [trial.score for trial in tuned.trials]
    assert tuned.best.score == max(scores)
    assert tuned.defaults is tuned.trials[0]
    assert tuned.defaults.parameters == {}
    assert len({str(trial.parameters) for trial in tuned.trials}) == 6
    for name, value in tuned.best.parameters.items():
        assert tuned.tagger.method.get_params()[name] == value
    assert tuned.tagger.metadata["data"]["points"] == len(data)  # the model is trained on all data


def test_files_of_a_study(data, tmp_path):
    tuned = ls.tune(data, method="knn", trials=4, metric="P@1", cuts=2, out=tmp_path / "t")
    report = json.loads((tmp_path / "t" / "report.json").read_text())
    assert report["trials"] == {"complete": 4}
    assert report["best"]["figures"]["P@1"] == pytest.approx(tuned.best.score)
    assert report["defaults"]["figures"]["P@1"] == pytest.approx(tuned.defaults.score)
    assert report["defaults"]["figures"].keys() == report["best"]["figures"].keys()
    for name in report["best"]["parameters"]:
        assert report["defaults"]["parameters"][name] == str(KNN().get_params()[name])
    text = (tmp_path / "t" / "report.txt").read_text()
    assert "on 2 validation cuts: 4 complete" in text
    assert f"{tuned.best.score:.2f}" in text
    with (tmp_path / "t" / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["trial"] for row in rows] == ["1", "2", "3", "4"]
    assert float(rows[0]["P@1"]) == pytest.approx(tuned.defaults.score, abs=1e-3)
    loaded = ls.load(tmp_path / "t" / "model")
    assert loaded.method.get_params() == tuned.tagger.method.get_params()


def test_a_stopped_study_continues_with_the_trials_of_one_that_was_not(data, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RANDOM_TRIALS", 2)  # so that the sampler models the scores

    def stop(trial, _):
        if trial.number == 3:
            raise KeyboardInterrupt

    whole = ls.tune(data, method="knn", trials=6)
    with pytest.raises(KeyboardInterrupt):
        ls.tune(data, method="knn", trials=6, out=tmp_path / "stopped", on_trial=stop)
    assert not (tmp_path / "stopped" / "model").exists()
    assert len((tmp_path / "stopped" / "trials.csv").read_text().splitlines()) == 1 + 3
    seen = []
    ended = ls.tune(
        *(data,), method="knn", trials=6, out=tmp_path / "stopped",
        on_trial=lambda trial, _: seen.append(trial.number),
    )  # fmt: skip
    assert seen == [4, 5, 6]
    assert drawn(ended) == drawn(whole)
    assert ended.parameters == whole.parameters


def test_more_trials_follow_those_of_an_earlier_run(data, tmp_path):
    first = ls.tune(data, method="knn", trials=2, out=tmp_path)
    more = ls.tune(data, method="knn", trials=4, out=tmp_path)
    assert drawn(more)[:2] == drawn(first)
    assert len(more.trials) == 4


def test_a_study_of_other_data_or_settings_is_refused(data, tmp_path):
    ls.tune(data, method="knn", trials=1, out=tmp_path)
    with pytest.raises(CheckpointError, match="another metric"):
        ls.tune(data, method="knn", trials=1, out=tmp_path, metric="P@1")
    other = Dataset(labels=data.labels, features=2 * data.features)
    with pytest.raises(CheckpointError, match="another data"):
        ls.tune(other, method="knn", trials=1, out=tmp_path)
    ls.tune(other, method="knn", trials=1, out=tmp_path, restart=True)
    (tmp_path / "study.db").write_bytes(b"no database")
    with pytest.raises(CheckpointError, match="cannot be read as a study"):
        ls.tune(data, method="knn", trials=1, out=tmp_path)


def test_a_directory_is_tuned_in_by_one_process(data, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / "study.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CheckpointError, match="another process"):
            ls.tune(data, method="knn", trials=1, out=tmp_path)


def test_after_the_timeout_no_trial_begins_but_the_defaults(data):
    tuned = ls.tune(data, method="knn", trials=50, timeout=1e-9)
    assert [trial.number for trial in tuned.trials] == [1]
    assert tuned.best is tuned.defaults


class _Fails(KNN):
    """KNN that fails with a power above 2."""

    name = "fails"

    def _fit(self, data):
        if self.params_.power != 2.0:
            raise ValueError("power is too high")
        super()._fit(data)


def test_a_trial_that_fails_is_a_result_and_the_study_goes_on(data, monkeypatch):
    monkeypatch.setitem(registry._registered, "fails", _Fails)
    tuned = ls.tune(data, method="fails", trials=3)
    assert [trial.state for trial in tuned.trials] == ["complete", "failed", "failed"]
    assert tuned.trials[1].reason == "ValueError: power is too high"
    assert tuned.best is tuned.defaults
    with pytest.raises(LabelspaceError, match=r"no trial was completed.*too high"):
        ls.tune(data, method="fails", trials=2, power=3.0)


def test_trials_at_the_same_time_are_as_many(data):
    tuned = ls.tune(data, method="knn", trials=3, jobs=2, metric="P@1")
    assert [trial.number for trial in tuned.trials] == [1, 2, 3]
    alone = ls.tune(data, method="knn", trials=1, metric="P@1")
    assert tuned.defaults.score == alone.defaults.score


def test_parameters_of_members_of_a_fusion_are_searched(data):
    tuned = ls.tune(
        *(data,), method="fusion", trials=3, cuts=1, members="linear,knn",
        search=("shortlist", "linear.C", "knn.neighbours"),
    )  # fmt: skip
    for trial in tuned.trials[1:]:
        assert trial.parameters.keys() == {"shortlist", "linear.C", "knn.neighbours"}
        assert trial.state == "complete", trial.reason
    scores = [trial.score for trial in tuned.trials]
    assert len(set(scores)) > 1  # members are fitted with what was drawn


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "accuracy"}, "expected a name such as P@1"),
        ({"trials": 0}, "trials"),
        ({"search": ("seed",)}, "declares no values to search.*neighbours, power"),
        ({"search": ("neighbors",)}, "neighbours"),
        ({"search": ("linear.C",)}, "knn has no members"),
        ({"power": 1.0, "neighbours": 3}, "are set"),
        ({"cuts": 9}, "cuts=9: expected 1 to 4"),
    ],
)
def test_what_cannot_be_tuned_is_refused(data, options, message):
    with pytest.raises(ParameterError, match=message):
        ls.tune(data, method="knn", **{"trials": 1, **options})


def test_ranges_are_checked_where_they_are_declared():
    with pytest.raises(ParameterError, match="neighbours"):

        class _Wrong(KNN):
            name = "wrong"
            neighbours: int = KNN.parameters["neighbours"].__class__(
                "integer", "Neighbours.", 5, low=1, search=among(0, 1)
            )
