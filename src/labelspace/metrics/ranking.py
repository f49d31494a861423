"""Metrics of a ranking: precision, nDCG, recall, PSP, PSnDCG, coverage and F1.

Each metric and each corner case (rows without labels, short rankings, unseen labels) is defined
in docs/metrics.md. Everything is counted from the non-zeros of the label matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import checked_labels, rows_of
from labelspace.data.stats import label_bands
from labelspace.errors import InputError, ParameterError
from labelspace.labels.propensity import LabelCounts, inverse_propensities

BANDS = ("head", "torso", "tail")


class RankedLabels(Protocol):
    """A ranking as `evaluate` reads it: labels (n, k), best first, -1 for none; their scores."""

    @property
    def labels(self) -> np.ndarray: ...

    @property
    def scores(self) -> np.ndarray: ...


def measure(metric: str, ranking: RankedLabels, Y_test: Any, Y_train: Any = None) -> float:
    """Return one metric in percent.

    Parameters
    ----------
    metric : str
        Its name in the result of `evaluate`, such as "P@1" or "PSP@5".
    ranking, Y_test, Y_train
        As for `evaluate`; the training labels are needed for PSP and PSnDCG only.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from labelspace import Ranking
    >>> ranking = Ranking(np.array([[1, 0]]), np.array([[0.9, 0.1]]))
    >>> measure("P@1", ranking, np.array([[1, 0, 0]]))
    0.0
    """
    k = int(metric.partition("@")[2])
    counted = Y_train if metric.startswith("PS") else None  # no other metric needs the counts
    return float(evaluate(ranking, Y_test, counted, ks=(k,), bands=False)[metric])


def evaluate(
    ranking: RankedLabels,
    Y_test: Any,
    Y_train: Any = None,
    *,
    ks: Sequence[int] = (1, 3, 5),
    propensity: tuple[float, float] = (0.55, 1.5),
    propensity_from: Literal["train", "test"] = "train",
    threshold: float | None = None,
    bands: bool = True,
) -> dict[str, Any]:
    """Return all metrics in percent.

    Parameters
    ----------
    ranking : Ranking
        Any object with `labels` and `scores`, both of shape (n, k).
    Y_test : csr_matrix or ndarray of shape (n, labels)
        The true labels.
    Y_train : csr_matrix, ndarray or LabelCounts, optional
        The training labels, also of another width. Without them PSP, PSnDCG and bands are left
        out.
    ks : sequence of int
        The values of k.
    propensity : tuple of float
        The constants (a, b) of `inverse_propensities`.
    propensity_from : {"train", "test"}
        The labels that are counted for PSP and PSnDCG; results of the two are not comparable.
    threshold : float, optional
        If given, add F1 of the labels whose score is at least this.
    bands : bool
        Whether to add every metric for head, torso and tail labels. A band of which no test
        example has a label is left out.

    Returns
    -------
    dict
        {"P@1": 63.2, ..., "bands": {"tail": {"recall@5": 31.0, ...}}}

    Raises
    ------
    InputError
        If the ranking and the label matrix do not fit, or there is no true label.
    ParameterError
        If an option is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from labelspace import Ranking, evaluate
    >>> ranking = Ranking(np.array([[0, 1], [2, 1]]), np.array([[0.9, 0.4], [0.8, 0.7]]))
    >>> Y_test = np.array([[1, 0, 0], [0, 1, 0]])
    >>> found = evaluate(ranking, Y_test, ks=(1, 2), threshold=0.5)
    >>> found["P@1"], found["recall@2"], round(found["micro-F1"], 1)
    (50.0, 100.0, 80.0)
    """
    _check_options(ks, propensity_from, threshold)
    case = _Case.of(ranking, Y_test)
    known = Y_train is None or isinstance(Y_train, LabelCounts)
    if not known:
        _check_matrix("Y_train", Y_train)
    train = Y_train if known else LabelCounts.of(Y_train)
    counted = LabelCounts.of(case.truth) if propensity_from == "test" else train
    n_labels = max(case.n_labels, 0 if train is None else len(train.counts))
    weights = None
    if counted is not None:
        weights = inverse_propensities(counted.widened(n_labels), counted.n_points, *propensity)

    def scores_of(part: _Case, among: np.ndarray) -> dict[str, float]:
        found = part.at_ks(ks, weights)
        # F1 needs the rows that a band has no true labels in: a wrong label there is an error.
        return found if threshold is None else found | case.f1(threshold, among)

    result: dict[str, Any] = scores_of(case, np.ones(n_labels, dtype=bool))
    if bands and train is not None:
        result["bands"] = {}
        band_of = label_bands(train.widened(n_labels))
        for band, name in enumerate(BANDS):
            part = case.within(band_of == band)
            if len(part.hits):
                result["bands"][name] = scores_of(part, band_of == band)
    return result


def hits(ranking: RankedLabels, Y_test: Any) -> np.ndarray:
    """Return which places of a ranking hold a true label, (n, k)."""
    return _Case.of(ranking, Y_test).hits


def precisions(hits: np.ndarray, k: int) -> np.ndarray:
    """Return the precision at k of each example, from 0 to 1."""
    return np.asarray(hits[:, :k].sum(axis=1) / k)


def recalls(hits: np.ndarray, n_true: np.ndarray, k: int) -> np.ndarray:
    """Return the recall at k of each example, from 0 to 1; 0 without true labels."""
    return np.asarray(hits[:, :k].sum(axis=1) / np.maximum(n_true, 1))


def f1s(hits: np.ndarray, n_true: np.ndarray, n_ranked: np.ndarray, k: int) -> np.ndarray:
    """Return F1 of the first k labels of each example, from 0 to 1.

    Unlike in P@k, places that a ranking leaves empty are not counted as errors: precision is the
    share of hits among the labels that are there. `n_ranked` are their numbers.
    """
    named = np.minimum(n_ranked, k) + n_true
    return np.asarray(2.0 * hits[:, :k].sum(axis=1) / np.maximum(named, 1))


def ndcgs(
    hits: np.ndarray, n_true: np.ndarray, k: int, *, ideal_at: int | None = None
) -> np.ndarray:
    """Return nDCG at k of each example, from 0 to 1; `n_true` are its numbers of true labels.

    The ideal ranking is cut at k as well, or at `ideal_at`.
    """
    return np.asarray(_discounted(hits[:, :k]) / _ideal(n_true, ideal_at or k))


@dataclass(frozen=True)
class _Case:
    """A ranking and the truth: labels, scores and hits (n, k), truth CSR (n, labels)."""

    labels: np.ndarray
    scores: np.ndarray
    hits: np.ndarray
    truth: csr_matrix

    @classmethod
    def of(cls, ranking: RankedLabels, Y_test: Any) -> _Case:
        labels, scores = np.asarray(ranking.labels), np.asarray(ranking.scores)
        _check_matrix("Y_test", Y_test)
        truth = checked_labels(Y_test, Y_test.shape[0])
        _check_ranking(labels, scores, truth)
        labels = labels.astype(np.int64, copy=False)
        return cls(labels, scores, _hits(labels, truth), truth)

    @property
    def n_labels(self) -> int:
        return int(max(self.truth.shape[1], self.labels.max(initial=-1) + 1))

    def within(self, among: np.ndarray) -> _Case:
        """Return the rows that have true labels among these, with only these as truth and hits."""
        cells = among[self.truth.indices]
        n_true = np.bincount(rows_of(self.truth)[cells], minlength=len(self.hits))
        rows = n_true > 0
        indptr = np.concatenate(([0], np.cumsum(n_true[rows])))
        parts = (self.truth.data[cells], self.truth.indices[cells], indptr)
        labels = self.labels[rows]
        return _Case(
            labels=labels,
            scores=self.scores[rows],
            hits=self.hits[rows] & among[labels],
            truth=csr_matrix(parts, shape=(len(indptr) - 1, self.truth.shape[1])),
        )

    def at_ks(self, ks: Sequence[int], weights: np.ndarray | None) -> dict[str, float]:
        """Return the metrics at each k; the propensity-scored ones if labels have weights."""
        n_true = np.diff(self.truth.indptr)
        n_occurring = _n_distinct(self.truth.indices)
        scores: dict[str, dict[int, Any]] = {
            name: {} for name in ("P", "nDCG", "recall", "coverage", "PSP", "PSnDCG")
        }
        if weights is not None:
            gains = np.where(self.hits[:, : max(ks)], weights[self.labels[:, : max(ks)]], 0.0)
            best_gains = _best_weights(self.truth, weights, max(ks))
        for k in ks:
            hits = self.hits[:, :k]
            scores["P"][k] = np.mean(precisions(hits, k))
            scores["nDCG"][k] = np.mean(ndcgs(hits, n_true, k))
            scores["recall"][k] = np.mean(recalls(hits, n_true, k))
            scores["coverage"][k] = _n_distinct(self.labels[:, :k][hits]) / n_occurring
            if weights is not None:
                got, best, ideal = gains[:, :k], best_gains[:, :k], _ideal(n_true, k)
                scores["PSP"][k] = got.sum() / best.sum()
                scores["PSnDCG"][k] = np.sum(_discounted(got) / ideal) / np.sum(
                    _discounted(best) / ideal
                )
        return {
            f"{name}@{k}": 100.0 * float(value)
            for name, at_k in scores.items()
            for k, value in at_k.items()
        }

    def f1(self, threshold: float, among: np.ndarray) -> dict[str, float]:
        """Return F1 of the labels whose score is at least the threshold, for `among` alone."""
        chosen = (self.scores >= threshold) & (self.labels >= 0)
        n = len(among)
        right = np.bincount(self.labels[chosen & self.hits], minlength=n)[among]
        named = np.bincount(self.labels[chosen], minlength=n)[among]
        named += np.bincount(self.truth.indices, minlength=n)[among]
        present = named > 0
        per_label = 2.0 * right[present] / named[present]
        return {
            "micro-F1": 100.0 * float(2.0 * right.sum() / named.sum()),
            "macro-F1": 100.0 * float(per_label.mean()),
        }


def _hits(labels: np.ndarray, truth: csr_matrix) -> np.ndarray:
    """Return which cells of a ranking hold a true label, by a search among (row, label) keys."""
    width = max(truth.shape[1], int(labels.max(initial=-1)) + 1)
    known = rows_of(truth) * width + truth.indices
    ranked = np.arange(len(labels), dtype=np.int64)[:, None] * width + labels
    places = np.minimum(np.searchsorted(known, ranked), len(known) - 1)
    return np.asarray((known[places] == ranked) & (labels >= 0))


def _best_weights(truth: csr_matrix, weights: np.ndarray, k: int) -> np.ndarray:
    """Return the k largest weights of each row's true labels, descending, then zeros."""
    order = np.argsort(-weights, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    rows = rows_of(truth)
    keys = np.sort(rows * len(order) + rank[truth.indices])
    place = np.arange(len(keys)) - truth.indptr[rows]
    kept = place < k
    best = np.zeros((truth.shape[0], k))
    best[rows[kept], place[kept]] = weights[order[keys[kept] % len(order)]]
    return best


def _discounts(k: int) -> np.ndarray:
    return np.asarray(1.0 / np.log2(np.arange(2, k + 2)))


def _discounted(gains: np.ndarray) -> np.ndarray:
    """Return each row's sum of gains, discounted by rank."""
    return np.asarray(gains @ _discounts(gains.shape[1]))


def _ideal(n_true: np.ndarray, k: int) -> np.ndarray:
    """Return the best DCG at k of rows with so many true labels; infinite for none, nDCG is 0."""
    best = np.concatenate(([np.inf], np.cumsum(_discounts(k))))
    return np.asarray(best[np.minimum(n_true, k)])


def _n_distinct(labels: np.ndarray) -> int:
    return int(np.count_nonzero(np.bincount(labels)))


def _check_matrix(name: str, Y: Any) -> None:
    if getattr(Y, "ndim", None) != 2:  # lists too: they might hold ids, or a row of 0 and 1 each
        raise InputError(
            f"{name} must be a sparse or dense matrix (examples, labels), got "
            f"{type(Y).__name__}; lists of label ids become one by scikit-learn's "
            "MultiLabelBinarizer(classes=range(n_labels), sparse_output=True).fit_transform(lists)"
        )


def _check_ranking(labels: np.ndarray, scores: np.ndarray, truth: csr_matrix) -> None:
    if labels.ndim != 2 or labels.dtype.kind not in "iu" or scores.shape != labels.shape:
        raise InputError(
            "a ranking needs integer labels and scores of one shape (n, k), got "
            f"{labels.dtype} {labels.shape} and {scores.shape}"
        )
    if len(labels) != truth.shape[0]:
        raise InputError(f"the ranking has {len(labels)} rows and Y_test has {truth.shape[0]}")
    if truth.nnz == 0:
        raise InputError("Y_test holds no label: there is nothing to compare the ranking with")
    if labels.min(initial=0) < -1:
        raise InputError(f"label {labels.min()} in the ranking: ids start at 0, and -1 is no label")
    ordered = np.sort(labels, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any():
        row, place = np.argwhere(twice)[0]
        raise InputError(f"row {row} of the ranking names label {ordered[row, place]} twice")


def _check_options(ks: Sequence[int], propensity_from: str, threshold: float | None) -> None:
    if not ks or any(not isinstance(k, int | np.integer) or k < 1 for k in ks):
        raise ParameterError(f"ks={ks!r}: expected integers of at least 1")
    if propensity_from not in ("train", "test"):
        raise ParameterError(f"propensity_from={propensity_from!r}: expected 'train' or 'test'")
    if threshold is not None and not 0.0 <= threshold <= 1.0:
        raise ParameterError(f"threshold={threshold!r}: expected a number from 0 to 1, or None")
