"""Level figures: against scikit-learn, against sets by hand, and what NA may not do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import InputError
from labelspace.labels.levels import Levels
from labelspace.metrics.levels import (
    above_threshold,
    evaluate_levels,
    figures_with_na,
    level_figures,
    likeliest_paths,
    na_figures,
    path_figures,
    set_figures,
)
from labelspace.ranking import Ranking

NAMES = ["a", "b", "a1", "a2", "b1", "a11", "brand: x", "brand: y"]
PAIRS = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a11", "a1")]
LEVELS = Levels.build(Taxonomy.from_names(PAIRS, NAMES), NAMES)


def ranked(*rows):
    """Return rows of {label name: score} as a Ranking."""
    best = Ranking.empty(len(rows), len(NAMES))
    for number, row in enumerate(rows):
        for place, (name, score) in enumerate(sorted(row.items(), key=lambda pair: -pair[1])):
            best.labels[number, place] = NAMES.index(name)
            best.scores[number, place] = score
    return best


def matrix(*rows):
    return csr_matrix([[float(name in row) for name in NAMES] for row in rows], dtype=np.float32)


def names_of(chosen):
    return [{NAMES[label] for label in chosen[row].indices} for row in range(chosen.shape[0])]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.0, 0.6), st.floats(0.0, 0.6))
def test_sets_are_measured_as_scikit_learn_does(seed, density, agreement):
    rng = np.random.default_rng(seed)
    truth = rng.random((30, 7)) < density
    chosen = np.where(rng.random(truth.shape) < agreement, truth, rng.random(truth.shape) < density)
    found = set_figures(csr_matrix(chosen, dtype=np.float32), csr_matrix(truth, dtype=np.float32))
    micro = precision_recall_fscore_support(truth, chosen, average="micro", zero_division=0)
    used = np.flatnonzero(truth.any(axis=0) | chosen.any(axis=0))
    # What is 0 / 0 is no figure.
    assert [found[name] is None for name in ("precision", "recall", "micro-F1", "macro-F1")] == [
        not len(used), not truth.any(), not len(used), not len(used)
    ]  # fmt: skip
    for name, value in zip(("precision", "recall", "micro-F1"), micro[:3], strict=True):
        assert found[name] is None or found[name] == pytest.approx(100 * value)
    if len(used):
        macro = precision_recall_fscore_support(
            truth, chosen, average="macro", labels=used, zero_division=0
        )[2]
        assert found["macro-F1"] == pytest.approx(100 * macro)
    labelled = truth.any(axis=1)
    exact = 100 * accuracy_score(truth[labelled], chosen[labelled]) if labelled.any() else None
    assert found["accuracy"] == (exact if exact is None else pytest.approx(exact))
    assert found["examples"] == labelled.sum()


def test_nothing_given_where_there_is_nothing_is_no_success():
    """A model that never predicts a label of a level is right on all examples without one."""
    truth = matrix(["a", "a1"], ["b"], ["b"], ["b"])
    chosen = matrix(["a"], ["b"], ["b"], ["b"])
    found = level_figures(chosen, truth, np.full(8, 100), LEVELS)
    assert found["L1"]["NA"] == {"examples": 3, "kept empty": 100.0, "missed": 100.0}
    figures = ("precision", "recall", "micro-F1", "macro-F1", "accuracy")
    assert [found["L1"][figure] for figure in figures] == [0.0] * 5
    assert found["L0"]["accuracy"] == 100.0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.0, 1.0))
def test_with_na_figures_are_those_of_classes_of_which_na_is_one(seed, agreement):
    """With one label or none per example, micro-F1 is the share of examples that are right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(-1, 4, 40)  # -1 is NA
    chosen = np.where(rng.random(40) < agreement, truth, rng.integers(-1, 4, 40))
    sets = [csr_matrix(np.eye(5)[labels][:, :4]) for labels in (chosen, truth)]
    found = figures_with_na(*sets)
    assert found["micro-F1"] == pytest.approx(100 * accuracy_score(truth, chosen))
    macro = precision_recall_fscore_support(truth, chosen, average="macro", zero_division=0)[2]
    assert found["macro-F1"] == pytest.approx(100 * macro)


def test_a_level_that_few_have_looks_good_if_na_counts():
    truth = matrix(["a", "a1"], ["b"], ["b"], ["b"])
    chosen = matrix(["a"], ["b"], ["b"], ["b"])
    found = level_figures(chosen, truth, np.full(8, 100), LEVELS)["L1"]
    assert found["micro-F1"] == 0.0
    assert found["with NA"]["micro-F1"] == 75.0


def test_a_label_given_where_there_is_none_costs_precision():
    truth, chosen = matrix(["a", "a1"], ["b"]), matrix(["a", "a1"], ["b", "b1"])
    found = level_figures(chosen, truth, np.full(8, 100), LEVELS)["L1"]
    assert (found["precision"], found["recall"], found["accuracy"]) == (50.0, 100.0, 100.0)
    assert found["NA"] == {"examples": 1, "kept empty": 0.0, "missed": 0.0}


def test_tail_and_head_divide_the_labels_of_a_level():
    counts = np.array([26, 25])  # a is head; b is tail, and so are labels beyond the counts
    truth, chosen = matrix(["a"], ["b"], ["b1"]), matrix(["a"], ["a"], ["b1"])
    found = level_figures(chosen, truth, counts, LEVELS)
    assert (found["L0"]["head"]["precision"], found["L0"]["head"]["recall"]) == (50.0, 100.0)
    assert (found["L0"]["tail"]["precision"], found["L0"]["tail"]["recall"]) == (0.0, 0.0)
    assert found["L1"]["tail"]["accuracy"] == 100.0
    assert found["L1"]["head"] == {
        "examples": 0,
        "labels": 0,
        "accuracy": None,
        **dict.fromkeys(("precision", "recall", "micro-F1", "macro-F1")),
    }


def test_ancestors_count_in_hierarchical_f1_and_brands_do_not():
    truth, chosen = matrix(["a11", "brand: x"]), matrix(["a2", "brand: x"])
    found = path_figures(chosen, truth, LEVELS)  # {a, a1, a11} and {a, a2}
    assert found["exact path"] == 0.0
    assert found["hierarchical"]["precision"] == pytest.approx(50.0)
    assert found["hierarchical"]["recall"] == pytest.approx(100 / 3)
    assert found["hierarchical"]["F1"] == pytest.approx(40.0)


def test_exact_paths_are_whole_and_optional():
    truth = matrix(["a", "a1", "a11"], ["a", "a1"], ["b"], ["brand: x"])
    chosen = matrix(["a", "a1", "a11"], ["a", "a1", "a11"], ["b", "brand: x"], ["brand: x"])
    assert path_figures(chosen, truth, LEVELS)["exact path"] == pytest.approx(200 / 3)


def test_the_likeliest_end_of_a_path_is_chosen_with_its_ancestors():
    chosen = likeliest_paths(
        ranked(
            {"a": 0.9, "a1": 0.8, "a11": 0.3, "a2": 0.1},  # ends: a 0, a1 0.5, a11 0.3, a2 0.1
            {"a": 0.9, "a1": 0.45, "a2": 0.4},  # a1 0.45 beats a 0.05 and a2 0.4
            {"a": 0.3, "b": 0.2},  # no path: 0.5
            {"brand: x": 0.35, "brand: y": 0.2, "b1": 0.7, "b": 0.8},  # no brand: 0.45
            {"brand: x": 0.5, "brand: y": 0.2},
        ),
        LEVELS,
    )
    assert names_of(chosen) == [{"a", "a1"}, {"a", "a1"}, set(), {"b", "b1"}, {"brand: x"}]


def test_a_threshold_chooses_any_number_of_labels():
    scores = ranked({"a": 0.5, "b": 0.49, "a1": 0.7}, {})
    assert names_of(above_threshold(scores, 0.5, len(NAMES))) == [{"a", "a1"}, set()]


def test_evaluate_levels_reports_how_labels_were_chosen():
    scores = ranked({"a": 0.9, "a1": 0.6, "a2": 0.55}, {"b": 0.8, "brand: y": 0.9})
    truth = matrix(["a", "a1"], ["b", "brand: y"])
    by_path = evaluate_levels(scores, truth, np.ones(8), LEVELS, single_path=True)
    assert by_path["chosen"] == "likeliest path"
    assert by_path["exact path"] == 100.0
    assert by_path["levels"]["brand"]["accuracy"] == 100.0
    by_score = evaluate_levels(scores, truth, np.ones(8), LEVELS, single_path=False)
    assert by_score["exact path"] == 50.0
    assert by_score["levels"]["L1"]["precision"] == 50.0
    with pytest.raises(InputError, match="5 labels"):
        evaluate_levels(scores, truth[:, :5], np.ones(8), LEVELS, single_path=True)


def test_a_share_of_no_examples_is_no_figure():
    empty = csr_matrix((0, 4), dtype=np.float32)
    assert na_figures(empty, empty) == {"examples": 0, "kept empty": None, "missed": None}
