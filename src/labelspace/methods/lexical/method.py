"""The lexical method: labels whose names occur in the text, scored by how they occur.

`features/name_matcher.py` finds the names and writes the properties of each match in match columns.
Boosted trees make a probability of them and of what training shows about the label: how many
examples it has, and how often a match of its names was right. A label without examples is found by
its name like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.schema import Schema, ints
from labelspace._core.sparse import as_csr, hits_of, right_columns
from labelspace._core.threads import parallel_blocks
from labelspace.components.boosted_trees import BoostedTrees
from labelspace.components.calibration import log_odds
from labelspace.components.name_matches import N_FEATURES, Matches
from labelspace.components.training_data import Shape, TrainingData
from labelspace.components.unseen_labels import labels_to_hide
from labelspace.data.dataset import Features
from labelspace.features.name_codes import COLUMNS, N_PROPERTIES
from labelspace.methods.base import Method
from labelspace.methods.explanation import LabelExplanation, checked_example, score_changes
from labelspace.methods.lexical.scoring import (
    ORDER,
    count_matches,
    rank_matches,
    read_matches,
)
from labelspace.methods.parameters import SEED, integer, number
from labelspace.methods.search_range import between
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy

MAX_SCORED = 400_000  # matches that the trees are fitted to, about
MAX_COMMON = 1000  # labels for rows without a match
EPS = 1e-7  # probabilities nearer to 0 or 1 differ by rounding alone
_PRIOR = 5.0  # matches of all labels that are added to those of a label, for its share of hits
_RATE = 0.1  # learning rate of the trees


class Lexical(Method):
    """Labels whose names occur in the text.

    Candidates are the labels of which a name matches; gradient-boosted trees [1]_ score a match by
    how often and where the name occurs, how its words stand and are inflected, how long and how
    ambiguous it is, the number of training examples of the label, and how often its matches were
    right in training. The trees are fitted to some of the training examples, with the label
    statistics of the others, so that these are as reliable as for a new text. The idea is that of
    lexical subject indexing [2]_.

    It needs label texts (`--labels`); from arrays, match columns, which
    `labelspace.features.name_matcher.NameMatcher` makes. An example without any match gets the most
    frequent labels.

    Attributes
    ----------
    counts_ : ndarray of shape (n_labels, 5)
        Training examples of each label; its matches in order, and how many of them were right; all
        its matches, and how many of them were right.
    trees_of_matches_ : BoostedTrees

    References
    ----------
    .. [1] J. H. Friedman. Greedy function approximation: a gradient boosting machine. Annals of
       Statistics 29(5), 2001.
    .. [2] O. Medelyan. Human-competitive automatic topic indexing. PhD thesis, University of
       Waikato, 2009.

    Examples
    --------
    >>> from labelspace.data.label_texts import LabelRecord, LabelTexts
    >>> from labelspace.features.name_matcher import NameMatcher
    >>> records = [LabelRecord(name, {"en": name}) for name in ("fruit", "tool", "toy")]
    >>> matcher = NameMatcher.of(LabelTexts.of(records))
    >>> X = matcher.transform(["ripe fruits", "a sharp tool"] * 20)
    >>> model = Lexical().fit(X, [[1, 0, 0], [0, 1, 0]] * 20, name_matches=True)
    >>> model.predict(matcher.transform(["small toys"]), 1).labels.tolist()
    [[2]]
    """

    name: ClassVar[str] = "lexical"
    can_explain: ClassVar[bool] = True
    uses_label_texts: ClassVar[bool] = True
    takes_name_matches: ClassVar[bool] = True
    summary: ClassVar[str] = "label names found in the text, scored by boosted trees"

    trees: int = integer(
        "Number of boosted trees that score a match.",
        default=120,
        group="usual",
        low=1,
        high=2000,
        search=between(50, 400, log=True),
    )
    leaves: int = integer(
        "Leaves per tree.",
        default=31,
        group="usual",
        low=2,
        high=1000,
        search=between(8, 128, log=True),
    )
    scored: float = number(
        "Share of the training examples that the trees are fitted to; the others give the "
        "statistics of the labels.",
        default=0.25,
        group="usual",
        low=0.01,
        high=0.9,
        search=between(0.1, 0.5),
    )
    seed: int = SEED

    def _fit(self, data: TrainingData) -> None:
        X, Y = as_csr(data.X), data.Y
        self.n_text_ = data.n_text_features
        matches = right_columns(X, self.n_text_)
        rows = self._scored_rows(matches)
        others = np.ones(Y.shape[0], np.bool_)
        others[rows] = False
        self._count(matches[others], Y[others])
        found, labels, features = self._read(matches[rows])
        hidden = labels_to_hide(Y[rows], self.counts_[:, 0], self.params_.seed)
        features[:, N_PROPERTIES:] = self.without_examples_of(hidden)._of_labels[labels]
        hits = hits_of(Y[rows], found, labels)
        self.trees_of_matches_ = BoostedTrees.fit(
            features, hits, trees=self.params_.trees, leaves=self.params_.leaves, rate=_RATE
        )
        self._count(matches, Y)

    def _scored_rows(self, matches: csr_matrix) -> np.ndarray:
        """Return the examples that the trees are fitted to."""
        n = matches.shape[0]
        order = np.random.default_rng([self.params_.seed, n]).permutation(n)
        mean = max(1.0, matches.nnz / COLUMNS / n)
        size = min(round(self.params_.scored * n), round(MAX_SCORED / mean), n - 1)
        return np.sort(order[: max(size, 0)])

    def _read(self, matches: csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return row and label of all matches, and their features without those of labels."""
        cells = matches.indptr, matches.indices, matches.data
        count = count_matches(*cells, 0, matches.shape[0])
        rows, labels = np.empty(count, np.int64), np.empty(count, np.int64)
        features = np.zeros((count, N_FEATURES), np.float32)
        read_matches(*cells, rows, labels, features)
        return rows, labels, features

    def _count(self, matches: csr_matrix, Y: csr_matrix) -> None:
        """Count examples, matches and hits of each label, in these examples."""
        n_labels = Y.shape[1]
        counts = np.zeros((n_labels, 5), np.int64)
        counts[:, 0] = np.bincount(Y.indices, minlength=n_labels)
        for start in range(0, matches.shape[0], 8192):
            part = slice(start, start + 8192)  # bounds memory
            rows, labels, features = self._read(matches[part])
            hits, in_order = hits_of(Y[part], rows, labels), features[:, ORDER] == 2
            for column, chosen in enumerate((in_order, in_order & hits, None, hits), start=1):
                own = labels if chosen is None else labels[chosen]
                counts[:, column] += np.bincount(own, minlength=n_labels)
        self.counts_, self.n_points_ = counts, Y.shape[0]
        self._prepare()

    def _prepare(self) -> None:
        """Set what follows from the counts."""
        self._of_labels = self._statistics(self.counts_)
        common = np.argsort(-self.counts_[:, 0], kind="stable")[:MAX_COMMON]
        self._common = common
        self._chances = (self.counts_[common, 0] / max(1, self.n_points_)).astype(np.float32)

    def _statistics(self, counts: np.ndarray) -> np.ndarray:
        """Return the features of labels with these counts: `N_STATISTICS` of them."""
        of_all = self.counts_.sum(axis=0).astype(np.float64)
        parts = [np.log1p(counts[:, 0])]
        for matched, right in ((1, 2), (3, 4)):
            prior = (of_all[right] + 1.0) / (of_all[matched] + 10.0)
            share = (counts[:, right] + _PRIOR * prior) / (counts[:, matched] + _PRIOR)
            parts += [np.log1p(counts[:, matched]), share]
        return np.stack(parts, axis=1).astype(np.float32)

    def without_examples_of(self, labels: np.ndarray) -> Lexical:
        other, nothing = copy(self), np.zeros((1, 5), np.int64)
        other._of_labels = self._of_labels.copy()
        other._of_labels[labels] = self._statistics(nothing)
        return other

    def matches_of(self, X: csr_matrix) -> Matches:
        return Matches(right_columns(X, self.n_text_), self._of_labels)

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        del taxonomy
        self._count(right_columns(X, self.n_text_), Y)
        return True

    def add_labels(self, n_labels: int, n_features: int) -> None:
        """Add labels without examples; their names are found if there are columns for them."""
        more = n_labels - len(self.counts_)
        self.counts_ = np.pad(self.counts_, ((0, more), (0, 0)))
        self.n_labels_, self.n_features_in_ = n_labels, n_features
        self._prepare()

    def count_further(self, X: csr_matrix, Y: csr_matrix) -> None:
        """Count the matches of further examples, of labels that the method knows.

        For a fusion. It is no `partial_fit`, as nothing but names finds a label.
        """
        before, n_before = self.counts_, self.n_points_
        self._count(right_columns(X, self.n_text_), Y)
        self.counts_ += before
        self.n_points_ += n_before
        self._prepare()

    def _predict(self, X: Features, k: int) -> Ranking:
        matches = right_columns(as_csr(X), self.n_text_)
        best = Ranking.empty(matches.shape[0], k)
        trees = self.trees_of_matches_.arrays()

        def block(start: int, stop: int) -> None:
            rank_matches(
                *(matches.indptr[start : stop + 1], matches.indices, matches.data),
                *(self._of_labels, trees, self._common, self._chances),
                *(best.labels[start:stop], best.scores[start:stop]),
            )

        parallel_blocks(matches.shape[0], block, least=8)
        return best

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Return the match columns that raise the score of a label most.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, n_features)
            One example.
        label : int
            Column of Y.
        k : int, default 5
            Number of features.

        Returns
        -------
        LabelExplanation
            The weight of a feature is the log odds that the label loses without it. There are no
            similar labels and no training examples.
        """
        self._check_fitted()
        X = checked_example(self, X, label)

        def odds(rows: csr_matrix) -> np.ndarray:
            ranked = self._predict(rows, self.n_labels_)
            found = np.where(ranked.labels == label, ranked.scores, 0.0).max(axis=1)
            return log_odds(found, EPS)

        changes = [pair for pair in score_changes(X, odds, k) if pair[1] != 0.0]
        return LabelExplanation(label, changes, [], [], [])

    def arrays_to_round(self) -> dict[str, np.ndarray]:
        return self.state()

    def state(self) -> dict[str, np.ndarray]:
        return {
            "counts": self.counts_,
            "sizes": np.array([self.n_points_, self.n_text_], np.int64),
            **prefixed("trees.", self.trees_of_matches_.state()),
        }

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:  # noqa: ARG002
        return [
            ints("counts", "labels", 5, limit=2**53),  # floats hold them exactly
            ints("sizes", 2),
            *BoostedTrees.schema("trees.", N_FEATURES),
        ]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.n_points_, self.n_text_ = (int(size) for size in arrays["sizes"])
        width = self.n_features_in_ - self.n_text_
        holds = width in range(0, COLUMNS * self.n_labels_ + 1, COLUMNS)
        expect(holds, "the match columns do not fit the labels")
        self.counts_ = arrays["counts"].astype(np.int64)
        self.trees_of_matches_ = BoostedTrees.restore(with_prefix("trees.", arrays))
        self._prepare()

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        matches = (shape.match_nnz or 0) // COLUMNS
        scored = min(MAX_SCORED, params["scored"] * matches)
        return {
            "matches": 16 * matches,
            # Features, their copy in 64 bits and in bins, gradients.
            "scored matches": int(scored) * (13 * N_FEATURES + 64),
            "label statistics": 60 * shape.labels,
        }
