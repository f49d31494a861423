"""One trial: its figures, what prunes it, and what it does with an error."""

from __future__ import annotations

import pytest

from labelspace.data.dataset import Dataset
from labelspace.methods import registry
from labelspace.methods.knn import KNN
from labelspace.metrics.ranking import evaluate
from labelspace.tuning.cuts import make_cuts
from labelspace.tuning.trial import FIGURES, Pruned, Steps, TrialTask, run_trial
from support.planted import planted

pytest.importorskip("optuna")


@pytest.fixture
def cuts():
    X, Y = planted(200, seed=1)
    return make_cuts(Dataset(labels=Y, features=X), KNN(), None, 2, seed=0)


def shared(cuts):
    return {name: value for i, cut in enumerate(cuts) for name, value in cut.shared(i).items()}


def test_figures_are_means_over_the_cuts(cuts):
    result = run_trial(TrialTask("knn", {"neighbours": 7}, "nDCG@7", 2), **shared(cuts))
    assert result.state == "complete"
    by_hand = [
        evaluate(
            KNN(neighbours=7).fit(cut.X, cut.Y).predict(cut.held_X, 7),
            *(cut.held_Y, cut.Y),
            ks=(1, 3, 5, 7),
        )
        for cut in cuts
    ]
    assert result.figures.keys() == {*FIGURES, "nDCG@7"}
    for name, value in result.figures.items():
        assert value == pytest.approx(sum(one[name] for one in by_hand) / 2)
    assert result.score == result.figures["nDCG@7"]


def test_a_trial_below_the_median_of_the_first_cut_is_pruned(cuts):
    def run(score):
        earlier = [{5: score}] * 5
        return run_trial(TrialTask("knn", {}, "P@1", 2, earlier), **shared(cuts))

    good, bad = run(1.0), run(100.1)
    assert good.state == "complete"
    assert (bad.state, bad.score, bad.figures) == ("pruned", None, {})
    assert bad.reason == "below the median of earlier trials after validation cut 1"
    assert bad.steps == {5: good.steps[5]}


def test_epochs_of_the_trainer_prune(cuts, monkeypatch):
    pytest.importorskip("torch")
    from support.toy import Toy

    monkeypatch.setitem(registry._registered, "toy", Toy)

    def run(score):
        earlier = [{1: score, 2: score, 3: score, 4: score}] * 5
        return run_trial(TrialTask("toy", {"epochs": 8}, "P@1", 1, earlier), **shared(cuts))

    bad, good = run(100.1), run(0.0)
    assert bad.reason == "below the median of earlier trials after 2 of 4 quarters of the epochs"
    assert bad.steps.keys() == {1, 2}
    assert good.state == "complete"
    assert good.steps.items() >= bad.steps.items()


def test_few_or_no_earlier_trials_prune_nothing(cuts):
    for earlier in ([], [{5: 100.1}] * 4):
        task = TrialTask("knn", {}, "P@1", 2, earlier)
        assert run_trial(task, **shared(cuts)).state == "complete"


def test_scores_of_epochs_are_not_compared_with_those_of_cuts():
    earlier = [{4: 90.0, 5: 50.0}] * 5
    found = {4: 95.0}
    steps = Steps(earlier, found, range(5, 7), prune_from=5)
    steps.report(5, 51.0)
    with pytest.raises(Pruned):
        Steps(earlier, {4: 95.0}, range(5, 7), prune_from=5).report(5, 49.0)
    assert found == {4: 95.0, 5: 51.0}


def test_an_error_is_a_result(cuts):
    result = run_trial(TrialTask("knn", {"neighbours": 0}, "P@1", 1), **shared(cuts))
    assert result.state == "failed"
    assert result.score is None
    assert "neighbours" in result.reason
