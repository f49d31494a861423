"""Metrics against a naive implementation, scikit-learn's F1, hand-made and published answers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.metrics import f1_score

from labelspace.data.formats.xc import read_xc
from labelspace.data.stats import label_bands
from labelspace.errors import InputError, ParameterError
from labelspace.labels.propensity import LabelCounts, inverse_propensities
from labelspace.metrics.ranking import (
    evaluate,
    f1s,
    hits,
    measure,
    ndcgs,
    precisions,
    recalls,
)

Sets = list[set[int]]


def matrix(rows: Sets, n_labels: int) -> csr_matrix:
    """Return a label matrix from one set of labels per row."""
    cells = [(i, label) for i, row in enumerate(rows) for label in sorted(row)]
    where = np.array(cells, dtype=np.int64).reshape(-1, 2).T
    ones = np.ones(len(cells), dtype=np.float32)
    return csr_matrix((ones, (where[0], where[1])), shape=(len(rows), n_labels))


def ranked(rows: list[list[int]], width: int, scores: list[list[float]] | None = None):
    """Return a ranking padded to `width`."""
    labels = np.full((len(rows), width), -1, dtype=np.int64)
    values = np.zeros((len(rows), width), dtype=np.float32)
    for i, row in enumerate(rows):
        labels[i, : len(row)] = row
        values[i, : len(row)] = scores[i] if scores else np.linspace(1, 0.1, len(row))
    return SimpleNamespace(labels=labels, scores=values)


@st.composite
def cases(draw):
    """Draw rankings with truth and training labels: empty rows, short rankings, unseen labels."""
    widths = {name: draw(st.integers(2, 9)) for name in ("test", "train", "ranking")}
    n, k = draw(st.integers(1, 7)), draw(st.integers(1, 6))

    def label_sets(rows: int, width: int) -> Sets:
        labels = st.sets(st.integers(0, width - 1), max_size=width)
        return draw(st.lists(labels, min_size=rows, max_size=rows))

    truth = label_sets(n, widths["test"])
    truth[draw(st.integers(0, n - 1))].add(0)
    train = label_sets(draw(st.integers(1, 12)), widths["train"])
    labels = st.lists(st.integers(0, widths["ranking"] - 1), unique=True, max_size=k)
    rows = draw(st.lists(labels, min_size=n, max_size=n))
    steps = [
        sorted(draw(st.lists(st.integers(0, 4), min_size=len(r), max_size=len(r)))) for r in rows
    ]
    scores = [[step / 4 for step in reversed(row)] for row in steps]
    return truth, train, rows, scores, k, widths


def naive_at_k(truth: Sets, rows: list[list[int]], k: int, weight) -> dict[str, float]:
    """Compute the definitions of docs/metrics.md, one row and one label at a time."""
    n = len(truth)
    precision = recall = ndcg = 0.0
    psp, psp_best, psndcg, psndcg_best = 0.0, 0.0, 0.0, 0.0
    for true, row in zip(truth, rows, strict=True):
        if not true:
            continue
        places = [place for place, label in enumerate(row[:k], start=1) if label in true]
        ideal = sum(1 / math.log2(place + 1) for place in range(1, min(k, len(true)) + 1))
        precision += len(places) / k
        recall += len(places) / len(true)
        ndcg += sum(1 / math.log2(place + 1) for place in places) / ideal
        best = sorted((weight(label) for label in true), reverse=True)[:k]
        psp += sum(weight(row[place - 1]) for place in places)
        psp_best += sum(best)
        psndcg += sum(weight(row[p - 1]) / math.log2(p + 1) for p in places) / ideal
        psndcg_best += sum(w / math.log2(p + 1) for p, w in enumerate(best, start=1)) / ideal
    right = {label for true, row in zip(truth, rows, strict=True) for label in true & set(row[:k])}
    values = {
        "P": precision / n,
        "nDCG": ndcg / n,
        "recall": recall / n,
        "coverage": len(right) / len(set().union(*truth)),
        "PSP": psp / psp_best,
        "PSnDCG": psndcg / psndcg_best,
    }
    return {f"{name}@{k}": 100 * value for name, value in values.items()}


def naive_f1(truth: Sets, rows, scores, threshold: float, among=lambda _: True):
    """Compute F1 by counting (row, label) pairs."""
    true = {(i, label) for i, row in enumerate(truth) for label in row if among(label)}
    chosen = {
        (i, label)
        for i, row in enumerate(rows)
        for label, score in zip(row, scores[i], strict=True)
        if score >= threshold and among(label)
    }
    labels = {label for _, label in true | chosen}
    per_label = []
    for label in labels:
        pairs = [{pair for pair in part if pair[1] == label} for part in (true, chosen)]
        per_label.append(2 * len(pairs[0] & pairs[1]) / (len(pairs[0]) + len(pairs[1])))
    micro = 2 * len(true & chosen) / (len(true) + len(chosen))
    return {"micro-F1": 100 * micro, "macro-F1": 100 * sum(per_label) / len(labels)}


def naive_weights(counted: Sets):
    """Return inverse propensities by label, for labels in `counted` and others."""
    c = max(math.log(len(counted)) - 1, 0) * 2.5**0.55
    return lambda label: 1 + c * (sum(label in row for row in counted) + 1.5) ** -0.55


@given(cases())
@settings(max_examples=120, deadline=None)
def test_every_metric_agrees_with_a_naive_implementation(case) -> None:
    truth, train, rows, scores, width, widths = case
    for source, counted in (("train", train), ("test", truth)):
        result = evaluate(
            ranked(rows, width, scores),
            matrix(truth, widths["test"]),
            matrix(train, widths["train"]),
            ks=(1, 2, 5),
            threshold=0.5,
            propensity_from=source,
            bands=False,
        )
        expected = naive_f1(truth, rows, scores, 0.5)
        for k in (1, 2, 5):
            expected |= naive_at_k(truth, rows, k, naive_weights(counted))
        assert result == pytest.approx(expected, abs=1e-9)


@given(cases())
@settings(max_examples=80, deadline=None)
def test_a_band_keeps_places_and_drops_rows_without_its_labels(case) -> None:
    truth, train, rows, scores, width, widths = case
    n_labels = max(widths.values())
    counts = [sum(label in row for row in train) for label in range(n_labels)]
    band_of = label_bands(np.array(counts))
    result = evaluate(
        ranked(rows, width, scores),
        matrix(truth, widths["test"]),
        matrix(train, widths["train"]),
        ks=(1, 3),
        threshold=0.25,
    )
    expected = {}
    for band, name in enumerate(("head", "torso", "tail")):
        inside = {label for label in range(n_labels) if band_of[label] == band}
        kept = [i for i, true in enumerate(truth) if true & inside]
        if not kept:
            continue
        expected[name] = naive_f1(truth, rows, scores, 0.25, inside.__contains__)
        for k in (1, 3):
            expected[name] |= naive_at_k(
                [truth[i] & inside for i in kept], [rows[i] for i in kept], k, naive_weights(train)
            )
    assert result["bands"].keys() == expected.keys()
    for name in expected:
        assert result["bands"][name] == pytest.approx(expected[name], abs=1e-9)


@given(cases(), st.sampled_from([0.0, 0.3, 0.75, 1.0]))
@settings(max_examples=60, deadline=None)
def test_f1_agrees_with_sklearn(case, threshold: float) -> None:
    truth, _, rows, scores, width, widths = case
    n_labels = max(widths.values())
    true = np.zeros((len(truth), n_labels), dtype=int)
    chosen = np.zeros_like(true)
    for i, row in enumerate(rows):
        true[i, list(truth[i])] = 1
        chosen[i, [label for label, s in zip(row, scores[i], strict=True) if s >= threshold]] = 1
    present = np.flatnonzero(true.any(axis=0) | chosen.any(axis=0))
    Y_test = matrix(truth, widths["test"])
    result = evaluate(ranked(rows, width, scores), Y_test, threshold=threshold)
    for average in ("micro", "macro"):
        expected = f1_score(true, chosen, labels=present, average=average, zero_division=0)
        assert result[f"{average}-F1"] == pytest.approx(100 * expected)


def test_known_answers_by_hand() -> None:
    truth = [{0, 1, 2}, {3}, set(), {1}]
    rows = [[0, 5, 1], [4, 3], [0, 1, 2], []]
    result = evaluate(ranked(rows, 3), matrix(truth, 6), ks=(1, 3))
    dcg_first, ideal_three = 1 + 1 / 2, 1 + 1 / math.log2(3) + 1 / 2
    expected = {
        "P@1": 100 * 1 / 4,
        "P@3": 100 * (2 / 3 + 1 / 3) / 4,
        "nDCG@1": 100 * 1 / 4,
        "nDCG@3": 100 * (dcg_first / ideal_three + 1 / math.log2(3)) / 4,
        "recall@1": 100 * (1 / 3) / 4,
        "recall@3": 100 * (2 / 3 + 1) / 4,
        "coverage@1": 100 * 1 / 4,
        "coverage@3": 100 * 3 / 4,
    }
    assert result == pytest.approx(expected)


def test_the_truth_as_ranking_scores_full_marks_where_it_can() -> None:
    """Ranked by weight, the truth reaches the best achievable PSP; P@k stays under it."""
    truth = [{0, 3}, {1}, {2, 3, 4}]
    train = matrix([{0}, {0, 1}, {0, 1, 2}, {0, 3}, {0}], 5)
    weights = inverse_propensities(train)
    rows = [sorted(row, key=lambda label: -weights[label]) for row in truth]
    result = evaluate(ranked(rows, 3), matrix(truth, 5), train, bands=False)
    full = [key for key in result if key.startswith(("PSP", "PSnDCG", "nDCG"))]
    assert len(full) == 9
    assert [result[key] for key in full] == pytest.approx([100.0] * 9)
    assert result["P@3"] == pytest.approx(100 * (2 + 1 + 3) / 9)
    assert result["coverage@3"] == 100.0


def test_most_common_labels_of_bibtex_score_as_published(shared_data) -> None:
    folder = shared_data("bibtex")
    train, test = (read_xc(folder / f"{part}.txt.gz").labels for part in ("train", "test"))
    counts = np.asarray(train.sum(axis=0)).ravel()
    rows = np.tile(np.argsort(-counts, kind="stable")[:5], (test.shape[0], 1))
    result = evaluate(SimpleNamespace(labels=rows, scores=np.ones(rows.shape)), test, train)
    expected = {
        "P@1": 13.96,
        "P@3": 9.28,
        "P@5": 7.17,
        "nDCG@3": 13.63,
        "nDCG@5": 14.52,
        "PSP@1": 8.15,
        "PSP@3": 9.24,
        "PSP@5": 10.88,
    }
    assert {key: round(result[key], 2) for key in expected} == expected


def test_without_training_labels_there_are_no_bands_and_no_propensities() -> None:
    ranking, Y = ranked([[0]], 1), matrix([{0}], 2)
    assert {key.split("@")[0] for key in evaluate(ranking, Y)} == {
        "P",
        "nDCG",
        "recall",
        "coverage",
    }
    assert evaluate(ranking, Y, propensity_from="test")["PSP@1"] == 100.0


def test_label_counts_stand_in_for_the_training_matrix() -> None:
    truth, train = matrix([{0, 1}, {2}, {4}], 5), matrix([{0}, {0, 1}, {0, 3}, {1}], 4)
    ranking = ranked([[0, 3], [2], [4, 1]], 2)
    assert evaluate(ranking, truth, LabelCounts.of(train)) == evaluate(ranking, truth, train)


def test_stored_zeros_are_no_labels_and_order_of_storage_does_not_matter() -> None:
    untidy = csr_matrix(
        (np.array([1.0, 0.0, 1.0]), np.array([4, 2, 1]), np.array([0, 3])), shape=(1, 5)
    )
    tidy = matrix([{1, 4}], 5)
    ranking = ranked([[2, 4, 1]], 3)
    assert evaluate(ranking, untidy, untidy) == evaluate(ranking, tidy, tidy)
    assert untidy.nnz == 3, "the caller's matrix must stay as it was"


def test_a_pad_never_hits_the_last_label_of_the_row_before() -> None:
    result = evaluate(ranked([[0], []], 2), matrix([{2}, {1}], 3), ks=(2,))
    assert result["P@2"] == result["recall@2"] == 0.0


def test_float32_scores_meet_the_threshold_they_were_given() -> None:
    ranking = ranked([[0, 1]], 2, [[0.3, 0.1]])
    assert evaluate(ranking, matrix([{0}], 2), threshold=0.3)["micro-F1"] == 100.0


@pytest.mark.parametrize(
    ("labels", "Y", "message"),
    [
        (np.zeros((0, 2), int), csr_matrix((0, 3)), "no label"),
        (np.array([[0, 1]]), csr_matrix((1, 3)), "no label"),
        (np.array([[0, 1]]), matrix([{0}, {1}], 3), "1 rows and Y_test has 2"),
        (np.array([[1, 2, 1]]), matrix([{0}], 3), "row 0 .* label 1 twice"),
        (np.array([[0, -2]]), matrix([{0}], 3), "label -2"),
        (np.array([[0.0, 1.0]]), matrix([{0}], 3), "integer labels"),
        (np.array([0, 1]), matrix([{0}], 3), "shape"),
        (np.array([[0, 1]]), [{0}], "matrix"),
        (np.array([[0, 1]]), [[0, 1]], "got list; lists of label ids .* MultiLabelBinarizer"),
        (np.array([[0], [1]]), [[0], [1, 2]], "got list"),
        (np.array([[0, 1]]), np.zeros(3), "matrix"),
    ],
)
def test_inputs_that_do_not_fit_are_named(labels, Y, message: str) -> None:
    ranking = SimpleNamespace(labels=labels, scores=np.zeros(labels.shape))
    with pytest.raises(InputError, match=message):
        evaluate(ranking, Y)


def test_training_labels_must_be_a_matrix_too():
    ranking = SimpleNamespace(labels=np.array([[0]]), scores=np.ones((1, 1)))
    with pytest.raises(InputError, match=r"Y_train must be a sparse or dense matrix .* got list"):
        evaluate(ranking, matrix([{0}], 2), [[0]])


@pytest.mark.parametrize(
    "options",
    [
        {"ks": ()},
        {"ks": (0,)},
        {"ks": (1.5,)},
        {"threshold": 1.5},
        {"threshold": math.nan},
        {"propensity_from": "valid"},
        {"propensity": (-1.0, 1.5)},
        {"propensity": (0.5, 0.0)},
    ],
)
def test_options_out_of_range_are_named(options) -> None:
    Y = matrix([{0}], 2)
    with pytest.raises(ParameterError, match=r"ks|threshold|propensity_from|a=|b="):
        evaluate(ranked([[0]], 1), Y, Y, **options)


def test_one_metric_is_that_of_all_and_counts_training_labels_only_where_it_needs_them():
    truth = matrix([{0, 1}, {2}, {1, 3}], 4)
    ranking = SimpleNamespace(labels=np.array([[0, 2], [2, 1], [1, 0]]), scores=np.ones((3, 2)))
    everything = evaluate(ranking, truth, truth, ks=(1, 2))
    for metric in ("P@1", "P@2", "nDCG@2", "PSP@2"):
        assert measure(metric, ranking, truth, truth) == everything[metric]
        assert measure(metric, ranking, truth, LabelCounts.of(truth)) == everything[metric]
    assert measure("nDCG@2", ranking, truth, "no matrix") == everything["nDCG@2"]


def test_values_of_single_examples():
    """Hits at ranks 1 and 3 of two true labels; none of one; one of four, in a ranking of two."""
    hits = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]], bool)
    n_true, n_ranked = np.array([2, 1, 4]), np.array([4, 4, 2])
    assert precisions(hits, 2).tolist() == [0.5, 0.0, 0.5]
    assert recalls(hits, n_true, 3).tolist() == [1.0, 0.0, 0.25]
    assert recalls(hits, np.zeros(3, int), 3)[1] == 0.0
    assert f1s(hits, n_true, n_ranked, 3) == pytest.approx([2 * 2 / (3 + 2), 0, 2 * 1 / (2 + 4)])
    first = 1 / math.log2(3)
    ideal = 1 + first
    assert ndcgs(hits, n_true, 2) == pytest.approx([1 / ideal, 0, first / ideal])
    whole = ideal + 1 / math.log2(4) + 1 / math.log2(5)
    assert ndcgs(hits, n_true, 2, ideal_at=4) == pytest.approx([1 / ideal, 0, first / whole])


def test_f1_of_single_examples_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth = (rng.random((30, 8)) < 0.3).astype(int)
    rows = [rng.permutation(8)[: rng.integers(0, 6)].tolist() for _ in range(30)]
    ranking = ranked(rows, 6)
    chosen = np.zeros_like(truth)
    for i, row in enumerate(rows):
        chosen[i, row[:5]] = 1
    found = f1s(
        hits(ranking, truth), truth.sum(axis=1), (ranking.labels >= 0).sum(axis=1), 5
    ).mean()
    assert found == pytest.approx(f1_score(truth, chosen, average="samples", zero_division=0))
