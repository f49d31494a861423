"""One-vs-all linear classifiers on the sparse features (DiSMEC, Babbar and Schoelkopf 2017).

Each label has weights of its own, <w_l, x> + b_l, trained by dual coordinate descent on examples of
length 1; small weights are dropped. Where labels are few, a label's negatives are all examples that
do not carry it, and all labels are scored. Where they are many, its negatives are the hard ones:
examples that have it on their short list (Slice, Jain et al. 2019), and the short list is scored:

    h(x)_l = <w_l, x> + b_l + c s_l(x)

with s the short list's own score, which knows what sets the listed labels apart from all others.
c, and the sigmoid that makes h a probability, come from a validation cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import OFFSETS, are_numbers, expect
from labelspace._core.sparse import as_csr, checked_features, unit_rows
from labelspace._core.threads import cores
from labelspace.classifiers.naive_bayes import Shortlister, as_candidates
from labelspace.classifiers.one_vs_rest import DENSE, LinearRanker
from labelspace.components.calibration import fit_line, probabilities
from labelspace.components.holdout import validation_share
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.methods.base import Method
from labelspace.methods.explanation import LabelExplanation, alike, checked_example, pushes
from labelspace.methods.parameters import METRIC, SEED, Parameter, choice, integer, number
from labelspace.metrics.ranking import measure
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback, kept_blocks, teller

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.runs.checkpoint_files import Blocks

MOST_WORK = 2e9  # of a pass over all examples for each label: above, negatives are the hard ones
EXAMPLE_WORK = 10  # an example costs as much as so many of its non-zeros
SHARES = (0.0, 0.05, 0.1, 0.2, 0.4)  # of the short list's score that are tried
UNTRIED_SHARE = 0.1  # where there is no validation cut
FEW_EXAMPLES = 20_000  # up to here it is trained again on all, the validation cut included
_CALIBRATED = 20  # labels of each validation example that calibration looks at


class Linear(Method):
    """A sparse linear classifier a label."""

    name: ClassVar[str] = "linear"
    can_explain: ClassVar[bool] = True
    summary: ClassVar[str] = "one-vs-all linear classifiers, hard negatives where labels are many"
    can_rerank: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "loss": choice("of a label's classifier", "squared_hinge", "logistic"),
        "C": number(
            "weight of the losses; none: 0.5 against all, 1 against hard negatives, 10 if logistic",
            low=1e-6,
            none=True,
        ),
        "negatives": choice(
            "of a label: all other examples, or those that have it on their short list; none: all "
            "where labels are few",
            *("all", "hard"),
            none=True,
        ),
        "shortlist": integer("labels on the short list of an example", low=1),
        "prune": number("weights below it in absolute value are dropped", low=0.0),
        "tolerance": number("at which a label's training stops", low=1e-9),
        "passes": integer("over a label's examples at most", low=1),
        "validation": number(
            "share cut off for calibration; none: 0.02, up to 0.1 of few examples",
            low=0.0,
            high=0.5,
            none=True,
        ),
        "metric": METRIC,
        "seed": SEED,
    }

    def __init__(
        self,
        *,
        loss: str = "squared_hinge",
        C: float | None = None,
        negatives: str | None = None,
        shortlist: int = 100,
        prune: float = 0.1,
        tolerance: float = 0.1,
        passes: int = 20,
        validation: float | None = None,
        metric: str = "nDCG@5",
        seed: int = 0,
    ) -> None:
        self.loss = loss
        self.C = C
        self.negatives = negatives
        self.shortlist = shortlist
        self.prune = prune
        self.tolerance = tolerance
        self.passes = passes
        self.validation = validation
        self.metric = metric
        self.seed = seed

    def _fit(self, data: TrainingData) -> None:
        X, Y = as_csr(data.X), data.Y
        share = 0.0 if data.valid else validation_share(self.validation, X.shape[0])
        order = np.random.default_rng([self.seed, X.shape[0]]).permutation(X.shape[0])
        rows, held = np.split(order, [X.shape[0] - round(share * X.shape[0])])
        rows.sort()
        valid = data.valid or (X[held], Y[held])
        # Decided once, by all examples: what is calibrated below holds for one kind alone.
        self.kind_ = self.negatives or usual_negatives(Shape.of(X, Y))
        self.numbers_ = np.array([UNTRIED_SHARE, 1.0, 0.0])
        blocks = kept_blocks(data.callbacks, "part", data.identity)
        self._learn(X[rows], Y[rows], data.callbacks, blocks)
        if valid[1].nnz:
            self._calibrate(as_csr(valid[0]), valid[1], Y[rows])
        if len(held) and X.shape[0] <= FEW_EXAMPLES:
            blocks = kept_blocks(data.callbacks, "all", data.identity)
            self._learn(X, Y, data.callbacks, blocks)

    def _learn(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        callbacks: Sequence[Callback] = (),
        blocks: Blocks | None = None,
    ) -> None:
        self.shortlister_, candidates = None, None
        if self.kind_ == "hard":
            self.shortlister_ = Shortlister.fit(unit_rows(X), Y)
            listed, _ = self.shortlister_.search(X, min(self.shortlist, Y.shape[1]))
            candidates = as_candidates(listed, Y.shape[1])
        usual = 10.0 if self.loss == "logistic" else 0.5 if self.kind_ == "all" else 1.0
        self.ranker_ = LinearRanker.fit(
            *(X, Y, candidates),
            loss="logistic" if self.loss == "logistic" else "squared_hinge",
            C=self.C or usual,
            prune=self.prune, tolerance=self.tolerance, passes=self.passes, seed=self.seed,
            progress=teller(callbacks, "classifiers", int(np.count_nonzero(Y.getnnz(axis=0)))),
            blocks=blocks,
        )  # fmt: skip

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        del taxonomy
        self._learn(X, Y)
        return True

    def _calibrate(self, X: csr_matrix, Y: csr_matrix, Y_train: csr_matrix) -> None:
        """Choose c and the sigmoid on held-out examples."""

        if self.shortlister_ is not None:
            found = self._scored(X, self.shortlist)

            def worth(share: float) -> float:
                best = Ranking(*_ordered(*found, share, min(5, Y.shape[1])))
                return measure(self.metric, best, Y, Y_train)

            self.numbers_[0] = max(SHARES, key=worth)
        labels, scores = self._rank(X, min(_CALIBRATED, self.shortlist, Y.shape[1]))
        self.numbers_[1:] = fit_line(labels, scores, Y)

    def _rank(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels by h, and h; -1 and -inf pad."""
        if self.shortlister_ is None:
            return self.ranker_.best(X, k)
        return _ordered(*self._scored(X, max(k, self.shortlist)), self.numbers_[0], k)

    def _scored(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The short lists (n, k), the scores of their labels, and how likely these made them."""
        assert self.shortlister_ is not None
        listed, likely = self.shortlister_.search(X, min(k, self.ranker_.weights.shape[0]))
        likely[listed < 0] = 0.0  # its -inf times a share of 0 would be NaN
        return listed, self.ranker_.score(X, listed), likely

    def _predict(self, X: Features, k: int) -> Ranking:
        labels, scores = self._rank(as_csr(X), k)
        return Ranking(labels, probabilities(labels, scores, self.numbers_[1:]))

    def _rerank(self, X: csr_matrix, candidates: np.ndarray) -> Ranking:
        scores = self.ranker_.score(X, candidates)
        return Ranking(candidates, probabilities(candidates, scores, self.numbers_[1:]))

    def drop_candidate_search(self) -> None:
        self.shortlister_ = None

    def margins(self, X: Any, candidates: np.ndarray) -> np.ndarray:
        """<w_l, x> + b_l of each example's candidates (n, k), -inf where a candidate is -1."""
        self._check_fitted()
        return self.ranker_.score(as_csr(checked_features(X, self.n_features_in_)), candidates)

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Which features speak for the label, and which labels have weights like it."""
        self._check_fitted()
        X = checked_example(self, X, label)

        def score(rows: csr_matrix) -> np.ndarray:
            return self.ranker_.score(rows, np.full((rows.shape[0], 1), label))[:, 0]

        return LabelExplanation(label, pushes(X, score, k), self.alike(label, k), [], [])

    def alike(self, label: int, k: int) -> list[tuple[int, float]]:
        """The labels whose weights are most like the label's, and their cosines."""
        return alike(self.ranker_.weights[:, :-1], label, k)

    def metadata(self) -> dict[str, Any]:
        weights = self.ranker_.weights
        return {
            "negatives": self.kind_,
            "weights a label": round(weights.nnz / weights.shape[0], 1),
        }

    def state(self) -> dict[str, np.ndarray]:
        listed = {} if self.shortlister_ is None else self.shortlister_.state()
        hard = np.array([self.kind_ == "hard"], np.uint8)
        return {**self.ranker_.state(), **listed, "numbers": self.numbers_, "hard": hard}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        sizes = self.n_labels_, self.n_features_in_
        self.ranker_ = LinearRanker.restore(arrays, *sizes)
        self.shortlister_ = Shortlister.restore(arrays, *sizes) if OFFSETS in arrays else None
        self.numbers_ = arrays["numbers"]
        expect(are_numbers(self.numbers_, 3), "the calibration is not three numbers")
        # Files of version 0.1.0 do not hold the kind.
        hard = bool(arrays["hard"][0]) if "hard" in arrays else OFFSETS in arrays
        self.kind_ = "hard" if hard else "all"

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        kind = params["negatives"] or usual_negatives(shape)
        per_example = shape.feature_nnz / max(1, shape.points)
        # A weight needs an example of the label, or a negative, in which its feature is seen.
        seen = min(float(shape.features), 20.0 * per_example)
        needs = {
            "weights of the labels": int(24 * shape.labels * seen),
            "examples, cut in two and of length 1": 2 * shape.data_bytes + 16 * shape.feature_nnz,
            "dense vectors of each thread": (12 * shape.features + 24 * shape.points) * cores(),
        }
        if kind == "all":  # all labels are scored by weights that are laid out feature by feature
            by_feature = 8.0 * shape.labels * seen
            if seen >= DENSE * shape.features:
                by_feature += 4.0 * shape.labels * shape.features
            needs["weights by feature"] = int(by_feature)
        if kind == "hard":
            k = min(params["shortlist"], shape.labels)
            needs["short lists"] = 36 * shape.points * k
            needs["the short list's weights"] = int(16 * shape.label_nnz * per_example)
        return needs


def _ordered(
    listed: np.ndarray, scores: np.ndarray, likely: np.ndarray, share: float, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k labels of largest h = score + share * likely, and h."""
    h = scores + np.float32(share) * likely
    order = np.argsort(-h, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(listed, order, 1), np.take_along_axis(h, order, 1)


def usual_negatives(shape: Shape) -> str:
    """All other examples, where that is not too much work."""
    work = shape.labels * (shape.feature_nnz + EXAMPLE_WORK * shape.points)
    return "all" if work <= MOST_WORK else "hard"
