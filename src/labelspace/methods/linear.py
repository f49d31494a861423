"""One-vs-all linear classifiers on sparse features, with all or with hard negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import OFFSETS
from labelspace._core.schema import Schema, csr, ints, optional, scalars
from labelspace._core.sparse import as_csr, checked_features, rows_with, unit_rows, with_values
from labelspace._core.threads import cores
from labelspace.classifiers.lanes import LANES
from labelspace.classifiers.naive_bayes import Shortlister, label_weights, likeliest_examples
from labelspace.classifiers.one_vs_rest import DENSE, LinearRanker, candidate_matrix
from labelspace.components.calibration import CALIBRATION_K, Calibration
from labelspace.components.examples import (
    Examples,
    check_kept,
    due_for_fit,
    examples_schema,
    restored_counts,
)
from labelspace.components.held_out_ranking import HeldOutRanking
from labelspace.components.holdout import HoldOut
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ModelFormatError
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.defaults import autos, resolve_shared
from labelspace.methods.explanation import (
    LabelExplanation,
    checked_example,
    most_similar_rows,
    score_changes,
)
from labelspace.methods.parameters import (
    AUTO,
    KEEP_EXAMPLES,
    METRIC,
    PRUNE,
    SEED,
    VALIDATION,
    Auto,
    choice,
    having,
    integer,
    number,
)
from labelspace.methods.search_range import among, between
from labelspace.metrics.ranking import measure
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback, kept_blocks, progress_reporter

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.runs.checkpoint_files import Blocks

# Labels times the work of a pass over all examples, in multiply-adds; above, negatives are hard.
MAX_WORK = 2e9
EXAMPLE_WORK = 10  # work per example beyond its non-zeros, in non-zeros
SHORTLIST_WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.4)  # values of c that are tried
DEFAULT_SHORTLIST_WEIGHT = 0.1  # c without a hold-out


class Linear(Method):
    """One-vs-all linear classifiers on sparse features.

    Every label has a classifier <w_l, x> + b_l, trained by dual coordinate descent on examples of
    length 1; small weights are set to zero, as in DiSMEC [1]_. With few labels, the negatives of a
    label are all examples without it, and `predict` scores all labels. With many labels, its
    negatives are hard ones: the examples that have it on their short list of candidates, as in
    Slice [2]_. `predict` then scores the short list by

        h(x)_l = <w_l, x> + b_l + c s_l(x)

    where s_l is the candidate's naive Bayes score. A hold-out is used to choose c and to calibrate
    h to a probability.

    Attributes
    ----------
    ranker_ : LinearRanker
        The classifiers.
    shortlister_ : Shortlister or None
        Finds candidates, with hard negatives.
    shortlist_weight_ : float
        c.
    calibration_ : Calibration

    References
    ----------
    .. [1] R. Babbar, B. Schölkopf. DiSMEC: Distributed Sparse Machines for Extreme Multi-label
       Classification. WSDM 2017.
    .. [2] H. Jain, V. Balasubramanian, B. Chunduri, M. Varma. Slice: Scalable Linear Extreme
       Classifiers Trained on 100 Million Labels for Related Searches. WSDM 2019.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.tile(np.eye(3), (4, 1))
    >>> Y = np.tile([[1, 0, 1], [1, 1, 0], [0, 1, 0]], (4, 1))
    >>> model = Linear().fit(X, Y)
    >>> model.params_.negatives
    'all'
    >>> model.predict(X[2:3], 1).labels.tolist()
    [[1]]
    """

    name: ClassVar[str] = "linear"
    can_explain: ClassVar[bool] = True
    summary: ClassVar[str] = "one-vs-all linear classifiers, hard negatives where labels are many"
    can_rerank: ClassVar[bool] = True
    can_update: ClassVar[bool] = True
    can_refit_grown: ClassVar[bool] = True
    can_compare_labels: ClassVar[bool] = True

    loss: str = choice(
        "Loss of a label's classifier.",
        "squared_hinge",
        "logistic",
        default="squared_hinge",
        search=among("squared_hinge", "logistic"),
    )
    C: float | Auto = number(
        "Weight of the losses against the size of the weights.",
        default=AUTO,
        group="usual",
        low=1e-6,
        auto="0.5 against all examples, 1 against hard negatives, 10 for the logistic loss",
        search=between(0.03, 30.0, log=True),
    )
    negatives: str = choice(
        "Negatives of a label: all other examples, or those that have it among their candidates.",
        "all",
        "hard",
        default=AUTO,
        group="usual",
        auto="all where labels are few enough to train against all examples, else hard",
    )
    shortlist: int = integer(
        "Number of candidates per example, with hard negatives.", default=100, group="usual", low=1
    )
    prune: float = having(PRUNE, default=0.1)
    tolerance: float = number(
        "Tolerance at which the training of a label stops.", default=0.1, low=1e-9
    )
    passes: int = integer("Maximum number of passes over a label's examples.", default=20, low=1)
    validation: float | Auto = having(
        VALIDATION, help="Share of the training examples to hold out for calibration."
    )
    metric: str = METRIC
    keep_examples: bool = KEEP_EXAMPLES
    seed: int = SEED

    examples_: Examples | None

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        negatives = params["negatives"]
        if negatives == AUTO:
            work = shape.labels * (shape.feature_nnz + EXAMPLE_WORK * shape.points)
            negatives = "all" if work <= MAX_WORK else "hard"
        C = 10.0 if params["loss"] == "logistic" else 0.5 if negatives == "all" else 1.0
        found = {"negatives": negatives, **autos(params, {"C": C})}
        return {**found, **resolve_shared(params, shape)}

    def _fit(self, data: TrainingData) -> None:
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y = as_csr(data.X), data.Y
        self.shortlist_weight_, self.calibration_ = DEFAULT_SHORTLIST_WEIGHT, Calibration()
        blocks = kept_blocks(data.callbacks, "part", data.identity)
        self._fit_weights(hold_out.X, hold_out.Y, data.callbacks, blocks)
        if hold_out.valid is not None:
            self._calibrate(*hold_out.valid, hold_out.Y)
        if hold_out.refits:
            blocks = kept_blocks(data.callbacks, "all", data.identity)
            self._fit_weights(X, Y, data.callbacks, blocks)
        self.examples_ = Examples.of(X, Y) if self.params_.keep_examples else None

    def _fit_weights(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        callbacks: Sequence[Callback] = (),
        blocks: Blocks | None = None,
    ) -> None:
        """Fit the classifiers, and with hard negatives what finds candidates."""
        self.shortlister_, candidates = None, None
        if self.params_.negatives == "hard":
            self.shortlister_ = Shortlister.fit(unit_rows(X), Y)
            listed, _ = self.shortlister_.search(X, min(self.params_.shortlist, Y.shape[1]))
            candidates = candidate_matrix(listed, Y.shape[1])
        self.fitted_counts_ = np.bincount(Y.indices, minlength=Y.shape[1])
        self.ranker_ = LinearRanker.fit(
            *(X, Y, candidates),
            **self._descent(),
            progress=progress_reporter(
                callbacks, "classifiers", int(np.count_nonzero(self.fitted_counts_))
            ),
            blocks=blocks,
        )

    def _descent(self) -> dict[str, Any]:
        """Return the settings of the descent by which a classifier is fitted."""
        names = ("loss", "C", "prune", "tolerance", "passes", "seed")
        return {name: getattr(self.params_, name) for name in names}

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        del taxonomy
        self._fit_weights(X, Y)
        return True

    def _check_updatable(self) -> None:
        check_kept(self.examples_, self.name)

    def _partial_fit(self, data: TrainingData) -> None:
        assert self.examples_ is not None
        self.examples_ = self.examples_.plus(as_csr(data.X), data.Y)
        self.refit_grown(self.examples_)

    def refit_grown(self, examples: Examples) -> None:
        """Fit classifiers again whose labels have a quarter more examples, as `Method` defines.

        With hard negatives, those of a label are the examples that naive Bayes scores highest.
        """
        Y = examples.Y
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        fitted = np.zeros_like(counts)
        fitted[: len(self.fitted_counts_)] = self.fitted_counts_
        labels = due_for_fit(counts, fitted)
        rows = candidates = None
        if self.params_.negatives == "hard":
            candidates = self._likeliest(examples, labels)
            rows = np.union1d(rows_with(Y, labels), np.flatnonzero(np.diff(candidates.indptr)))
            Y, candidates = Y[rows], candidates[rows]
        if len(labels) or Y.shape[1] > len(self.fitted_counts_):
            X = examples.rows(rows)
            self.ranker_ = self.ranker_.refitted(X, Y, labels, candidates, **self._descent())
        fitted[labels] = counts[labels]
        self.fitted_counts_, self.n_labels_ = fitted, Y.shape[1]

    def _likeliest(self, examples: Examples, labels: np.ndarray) -> csr_matrix:
        """Return the examples that naive Bayes scores highest for labels, and update the lists."""
        Y, by_feature = examples.Y, examples.by_feature()
        by_feature = with_values(by_feature, np.abs(by_feature.data))
        mass = np.asarray(by_feature.sum(axis=1), np.float64).ravel()
        rows = rows_with(Y, labels)
        weights = label_weights(unit_rows(examples.rows(rows)), Y[rows][:, labels], mass)
        if self.shortlister_ is not None:
            self.shortlister_ = self.shortlister_.updated(Y, labels, weights)
        if len(labels) == 0:
            return csr_matrix((Y.shape[0], 0), dtype=np.float32)
        return likeliest_examples(by_feature, Y, labels, weights, self.params_.shortlist)

    def _calibrate(self, X: csr_matrix, Y: csr_matrix, Y_train: csr_matrix) -> None:
        """Fit c and the calibration on a hold-out."""
        if self.shortlister_ is not None:
            found, counts = self._scored(X, self.params_.shortlist), LabelCounts.of(Y_train)

            def score(weight: float) -> float:
                best = Ranking(*_ordered(*found, weight, min(5, Y.shape[1])))
                return measure(self.params_.metric, best, Y, counts)

            self.shortlist_weight_ = max(SHORTLIST_WEIGHTS, key=score)
        labels, scores = self._rank(X, min(CALIBRATION_K, self.params_.shortlist, Y.shape[1]))
        self.calibration_ = Calibration.fit(labels, scores, Y)
        self.held_out_ = HeldOutRanking.calibrated(labels, scores, Y)

    def _rank(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels by h, and h; -1 and -inf pad."""
        if self.params_.negatives == "all":
            return self.ranker_.best(X, k)
        return _ordered(*self._scored(X, max(k, self.params_.shortlist)), self.shortlist_weight_, k)

    def _scored(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return candidates (n, k), their scores, and their naive Bayes log-likelihoods."""
        if self.shortlister_ is None:  # a member of a fusion that reranks keeps none
            raise ModelFormatError("the short list is missing: restore the model from a copy")
        listed, log_likelihood = self.shortlister_.search(X, min(k, self.ranker_.weights.shape[0]))
        log_likelihood[listed < 0] = 0.0  # -inf times a weight of 0 would be NaN
        return listed, self.ranker_.score(X, listed), log_likelihood

    def _predict(self, X: Features, k: int) -> Ranking:
        labels, scores = self._rank(as_csr(X), k)
        return Ranking(labels, self.calibration_(labels, scores))

    def _rerank(self, X: csr_matrix, candidates: np.ndarray) -> Ranking:
        scores = self.ranker_.score(X, candidates)
        return Ranking(candidates, self.calibration_(candidates, scores))

    def drop_candidate_search(self) -> None:
        self.shortlister_ = None

    def margins(self, X: Any, candidates: np.ndarray) -> np.ndarray:
        """Return <w_l, x> + b_l for given labels.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features)
            Features of the examples, which are scaled to length 1.
        candidates : ndarray of int of shape (n, k)
            Labels per example; -1 pads.

        Returns
        -------
        ndarray of shape (n, k)
            -inf where the candidate is -1.
        """
        self._check_fitted()
        return self.ranker_.score(as_csr(checked_features(X, self.n_features_in_)), candidates)

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Return the features that raise or lower a label's score most, and similar labels.

        The weight of a feature is the score minus that without it. Labels are compared by their
        weights. There are no training examples.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, n_features)
            One example.
        label : int
            Column of Y.
        k : int, default 5
            Number of features and of labels.

        Returns
        -------
        LabelExplanation
        """
        self._check_fitted()
        X = checked_example(self, X, label)

        def score(rows: csr_matrix) -> np.ndarray:
            return self.ranker_.score(rows, np.full((rows.shape[0], 1), label))[:, 0]

        changes, similar = score_changes(X, score, k), self.similar_labels(label, k)
        return LabelExplanation(label, changes, similar, [], [])

    def label_features(self) -> csr_matrix:
        return self.ranker_.weights[:, :-1]

    def similar_labels(self, label: int, k: int) -> list[tuple[int, float]]:
        """Return the labels whose weights have the largest cosine to the label's."""
        return most_similar_rows(self.label_features(), label, k)

    def metadata(self) -> dict[str, Any]:
        weights = self.ranker_.weights
        return {
            "negatives": self.params_.negatives,
            "weights per label": round(weights.nnz / weights.shape[0], 1),
        }

    def arrays_to_round(self) -> dict[str, np.ndarray]:
        return self.state()

    def state(self) -> dict[str, np.ndarray]:
        listed = {} if self.shortlister_ is None else self.shortlister_.state()
        numbers = np.array([self.shortlist_weight_, *self.calibration_.state()])
        kept = {} if self.examples_ is None else self.examples_.state()
        counts = {"fitted_counts": self.fitted_counts_}
        return {**self.ranker_.state(), **listed, **kept, **counts, "numbers": numbers}

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:
        return [
            *csr("weights", "labels", "features + 1"),
            *optional(Shortlister.schema(), arrays),
            *examples_schema(arrays),
            ints("fitted_counts", "labels", required=False),
            scalars("numbers", 3),
        ]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.ranker_ = LinearRanker.restore(arrays)
        self.shortlister_ = Shortlister.restore(arrays) if OFFSETS in arrays else None
        self.shortlist_weight_ = float(arrays["numbers"][0])
        self.calibration_ = Calibration.restore(arrays["numbers"][1:])
        self.examples_ = Examples.restore(arrays)
        self.fitted_counts_ = restored_counts(arrays, self.n_labels_)

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        kind = params["negatives"]
        per_example = shape.feature_nnz / max(1, shape.points)
        # A label has weights for the features of its positives and of its negatives.
        per_label = min(float(shape.features), 20.0 * per_example)
        needs = {
            "weights of the labels": int(24 * shape.labels * per_label),
            "training and held-out examples of length 1": 2 * shape.data_bytes
            + 16 * shape.feature_nnz,
            # Classifiers against all examples are trained many at a time.
            "dense vectors of each thread": cores()
            * (12 * shape.features + 24 * shape.points)
            * (1 if kind == "hard" else LANES // 3),
        }
        if params["keep_examples"]:
            needs["kept examples"] = shape.data_bytes
        if kind == "all":  # to score all labels, weights are also stored by feature
            by_feature = 8.0 * shape.labels * per_label
            if per_label >= DENSE * shape.features:
                by_feature += 4.0 * shape.labels * shape.features
            needs["weights by feature"] = int(by_feature)
        if kind == "hard":
            k = min(params["shortlist"], shape.labels)
            needs["candidates"] = 36 * shape.points * k
            needs["naive Bayes weights"] = int(16 * shape.label_nnz * per_example)
        return needs


def _ordered(
    listed: np.ndarray, scores: np.ndarray, log_likelihood: np.ndarray, weight: float, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k labels of largest h = score + weight * log_likelihood, and h."""
    h = scores + np.float32(weight) * log_likelihood
    order = np.argsort(-h, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(listed, order, 1), np.take_along_axis(h, order, 1)
