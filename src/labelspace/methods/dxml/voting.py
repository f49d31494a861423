"""Prediction of DXML: votes of the nearest training examples in the learned space.

Where raw features separate labels better than a learned space can, as for many labels with few
examples each, the nearest examples by raw features vote too; their share is chosen on the hold-out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace._core.sparse import pack_csr, unpack_csr
from labelspace.components.calibration import CALIBRATION_K, VOTE_EPS, Calibration
from labelspace.labels.propensity import LabelCounts
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import unit_array
from labelspace.ranking import Ranking
from labelspace.search.exact import ExactIndex
from labelspace.search.index import InnerProductIndex
from labelspace.search.neighbours.build import extend_neighbours, restore_neighbours
from labelspace.search.neighbours.clusters import ClusterIndex
from labelspace.search.neighbours.sparse import SparseNeighbours
from labelspace.search.neighbours.voting import rank_votes

UNCALIBRATED = Calibration(eps=VOTE_EPS)  # shares of votes as they are
_NEIGHBOURS = (5, 10, 15, 20, 30, 50, 100)
_POWERS = (0.0, 4.0, 16.0, 64.0)
_RAW_SHARES = (0.0, 0.25, 0.5, 0.75)
RAW_POWER = 2.0


@dataclass(frozen=True)
class Rule:
    """How the labels of neighbours are ranked.

    Attributes
    ----------
    neighbours : int
        Neighbours that vote, per learner.
    power : float
        A vote weighs (similarity / that of the nearest) ** power.
    raw : float
        The share of the votes that neighbours by raw features have.
    calibration : Calibration
        From shares of votes to probabilities.
    """

    neighbours: int = 20
    power: float = 4.0
    raw: float = 0.0
    calibration: Calibration = UNCALIBRATED


class Voters:
    """Examples that vote: one index a learner over their points, and their labels.

    raw  finds them by raw features, where these have a say
    """

    def __init__(
        self,
        indexes: Sequence[InnerProductIndex],
        Y: csr_matrix,
        rule: Rule,
        raw: SparseNeighbours | None = None,
    ) -> None:
        self.indexes, self.Y, self.rule, self.raw = list(indexes), Y, rule, raw

    @classmethod
    def exact(
        cls,
        points: Sequence[np.ndarray],
        Y: csr_matrix,
        rule: Rule,
        raw: SparseNeighbours | None = None,
    ) -> Self:
        """Build exact indexes, for choices made during training."""
        return cls([ExactIndex(rows) for rows in points], Y, rule, raw)

    def find(
        self, queries: Sequence[np.ndarray], X: csr_matrix | None, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The nearest examples and their similarities, both (n, learners, k), raw ones last.

        X: the queries' features, where raw ones have a say
        """
        k = min(k, self.Y.shape[0])
        found = [index.search(q, k) for index, q in zip(self.indexes, queries, strict=True)]
        if self.raw is not None and X is not None:
            found.append(self.raw.search(X, k))
        if len(found) == 1:  # a view, for `stack` takes a while
            return found[0][0][:, None], found[0][1][:, None]
        return np.stack([f[0] for f in found], axis=1), np.stack([f[1] for f in found], axis=1)

    def votes(
        self, near: np.ndarray, similarity: np.ndarray, rule: Rule, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels (n, k) and their shares of the votes among `find`."""
        near, similarity = near[:, :, : rule.neighbours], similarity[:, :, : rule.neighbours]
        n_learners = len(self.indexes)
        powers = [rule.power] * n_learners
        weights = [(1.0 - rule.raw) / n_learners] * n_learners
        if near.shape[1] > n_learners:
            powers, weights = [*powers, RAW_POWER], [*weights, rule.raw]
        return rank_votes(near, similarity, np.array(powers), self.Y, k, np.array(weights))

    def rank(self, queries: Sequence[np.ndarray], X: csr_matrix | None, k: int) -> Ranking:
        """Return the k best labels of points given per learner, scored by calibrated votes."""
        rule, index = self.rule, self.indexes[0]
        if isinstance(index, ClusterIndex) and len(self.indexes) == 1 and self.raw is None:
            near = min(rule.neighbours, self.Y.shape[0])
            labels, shares = index.votes(queries[0], near, rule.power, self.Y, k)
        else:
            labels, shares = self.votes(*self.find(queries, X, rule.neighbours), rule, k)
        return Ranking(labels, rule.calibration(labels, shares))

    def rank_own(self, rows: np.ndarray, k: int) -> Ranking:
        """Rank labels for examples that vote themselves, by their numbers: all others vote."""
        near, similarity = self.find(
            [index.vectors[rows] for index in self.indexes], None, self.rule.neighbours + 1
        )
        own = near == rows[:, None, None]
        # The example itself goes last, or the farthest where many points are equally near.
        others = np.argsort(own, axis=2, kind="stable")[:, :, :-1]
        near, similarity = (np.take_along_axis(a, others, axis=2) for a in (near, similarity))
        return Ranking(*self.votes(near, similarity, self.rule, k))

    def choose_rule(
        self,
        queries: Sequence[np.ndarray],
        X: csr_matrix,
        Y: csr_matrix,
        metric: str,
        neighbours: int | None,
        power: float | None,
    ) -> Rule:
        """Return the rule of the best metric on the hold-out; parameters that are given stay."""
        rules = [
            Rule(*choice)
            for choice in product(
                _NEIGHBOURS if neighbours is None else (neighbours,),
                _POWERS if power is None else (power,),
                (0.0,) if self.raw is None else _RAW_SHARES,
            )
        ]
        found = self.find(queries, X, max(rule.neighbours for rule in rules))
        k = int(metric.partition("@")[2])

        counts = LabelCounts.of(self.Y)

        def score(rule: Rule) -> float:
            return measure(metric, Ranking(*self.votes(*found, rule, k)), Y, counts)

        best = max(rules, key=score)
        labels, shares = self.votes(*found, best, CALIBRATION_K)
        return replace(best, calibration=Calibration.fit(labels, shares, Y, VOTE_EPS))

    def extended(self, points: Sequence[np.ndarray], X: csr_matrix, Y: csr_matrix) -> Voters:
        """Return voters with further examples appended; Y may have more labels."""
        indexes = [
            extend_neighbours(index, np.vstack([index.vectors, rows]))
            for index, rows in zip(self.indexes, points, strict=True)
        ]
        raw = None if self.raw is None else self.raw.extended(X)
        return Voters(indexes, vstack([widened(self.Y, Y.shape[1]), Y], "csr"), self.rule, raw)

    @cached_property
    def centroids(self) -> np.ndarray:
        """The mean direction of each label's examples, (labels, learners * dim)."""
        points = np.hstack([index.vectors for index in self.indexes])
        return unit_array(np.asarray(self.Y.T @ points, np.float32))

    def metadata(self) -> dict[str, Any]:
        index, rule = self.indexes[0], self.rule
        return {
            "search": {"kind": index.kind, "recall": index.recall, **index.settings},
            "votes": {"neighbours": rule.neighbours, "power": rule.power, "raw": rule.raw},
        }

    def state(self) -> dict[str, np.ndarray]:
        rule = self.rule
        kept = [rule.neighbours, rule.power, rule.raw, *rule.calibration.state()]
        arrays = {**pack_csr("Y", self.Y), "rule": np.array(kept)}
        if self.raw is not None:
            arrays |= self.raw.state()
        for number, index in enumerate(self.indexes):
            arrays[f"points.{number}"] = index.vectors
            arrays |= prefixed(f"index.{number}.", index.state())
        return arrays

    @classmethod
    def restore(
        cls, arrays: Mapping[str, np.ndarray], dims: Sequence[int], n_features: int, n_labels: int
    ) -> Self:
        """Rebuild voters from what `state` returned, for spaces of these dimensions."""
        expect(are_numbers(arrays["rule"], 5), "the rule of the votes is not five numbers")
        neighbours, power, share = arrays["rule"][:3].tolist()
        calibration = Calibration.restore(arrays["rule"][3:], VOTE_EPS)
        rule = Rule(int(neighbours), power, share, calibration)
        holds = rule.neighbours >= 1 and power >= 0.0 and 0.0 <= share <= 1.0 and len(dims) > 0
        expect(holds, "the rule of the votes is out of range")
        Y = unpack_csr("Y", arrays, (None, n_labels))
        n_examples = Y.shape[0]
        raw = SparseNeighbours.restore(arrays, (n_features, n_examples)) if share > 0 else None
        indexes = []
        for number, dim in enumerate(dims):
            points, parts = arrays[f"points.{number}"], with_prefix(f"index.{number}.", arrays)
            expect(are_numbers(points, n_examples, dim), "the points do not fit the examples")
            indexes.append(restore_neighbours(points, parts))
        return cls(indexes, Y, rule, raw)


def widened(Y: csr_matrix, n_labels: int) -> csr_matrix:
    """Return Y with `n_labels` columns; the arrays are shared."""
    return csr_matrix((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], n_labels))
