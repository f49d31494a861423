"""The prediction half of DXML: training examples in the learned space, and how votes count.

Where raw features tell more than a learned space can, as for many labels with few examples each,
the nearest by raw features vote too: how much they have to say is chosen on validation data.
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
from labelspace.components.calibration import fit_line, log_odds, probabilities_of_shares
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import unit_array
from labelspace.ranking import Ranking
from labelspace.search.exact import ExactIndex
from labelspace.search.index import InnerProductIndex
from labelspace.search.neighbours import (
    ClusterIndex,
    extend_neighbours,
    rank_votes,
    restore_neighbours,
)
from labelspace.search.sparse_neighbours import SparseNeighbours

CALIBRATED_ON = 20  # best labels of each held-out example
_NEIGHBOURS = (5, 10, 15, 20, 30, 50, 100)
_POWERS = (0.0, 4.0, 16.0, 64.0)
_RAW_SHARES = (0.0, 0.25, 0.5, 0.75)
RAW_POWER = 2.0
LEAST_SHARE = 1e-4  # of votes that calibration tells apart from none


@dataclass(frozen=True)
class Rule:
    """How neighbours become labels.

    neighbours   how many vote, for each learner
    power        a vote weighs (similarity / that of the nearest) ** power
    raw          the share that neighbours by raw features have of the votes
    calibration  (slope, offset) from the log odds of a share of votes to those of a hit
    """

    neighbours: int = 20
    power: float = 4.0
    raw: float = 0.0
    calibration: tuple[float, float] = (1.0, 0.0)


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
        """All examples are looked at: for choices made while training."""
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
        """The k best labels (n, k) and their shares of the votes of what `find` gave."""
        near, similarity = near[:, :, : rule.neighbours], similarity[:, :, : rule.neighbours]
        n_learners = len(self.indexes)
        powers, says = [rule.power] * n_learners, [(1.0 - rule.raw) / n_learners] * n_learners
        if near.shape[1] > n_learners:
            powers, says = [*powers, RAW_POWER], [*says, rule.raw]
        return rank_votes(near, similarity, np.array(powers), self.Y, k, np.array(says))

    def rank(self, queries: Sequence[np.ndarray], X: csr_matrix | None, k: int) -> Ranking:
        """The k best labels of points given by each learner, scored by calibrated votes."""
        rule, index = self.rule, self.indexes[0]
        if isinstance(index, ClusterIndex) and len(self.indexes) == 1 and self.raw is None:
            near = min(rule.neighbours, self.Y.shape[0])
            labels, shares = index.votes(queries[0], near, rule.power, self.Y, k)
        else:
            labels, shares = self.votes(*self.find(queries, X, rule.neighbours), rule, k)
        line = rule.calibration
        return Ranking(labels, probabilities_of_shares(labels, shares, line, LEAST_SHARE))

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
        """The rule that serves held-out queries with labels Y best; what is given stays."""
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

        def score(rule: Rule) -> float:
            return measure(metric, Ranking(*self.votes(*found, rule, k)), Y, self.Y)

        best = max(rules, key=score)
        labels, shares = self.votes(*found, best, CALIBRATED_ON)
        slope, offset = fit_line(labels, log_odds(shares, LEAST_SHARE), Y)
        return replace(best, calibration=(float(slope), float(offset)))

    def extended(self, points: Sequence[np.ndarray], X: csr_matrix, Y: csr_matrix) -> Voters:
        """With further examples behind those here; Y may have more labels."""
        indexes = [
            extend_neighbours(index, np.vstack([index.vectors, rows]), self.rule.neighbours)
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
        arrays = {
            **pack_csr("Y", self.Y),
            "rule": np.array([rule.neighbours, rule.power, rule.raw, *rule.calibration]),
        }
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
        """Take back what `state` gave, for spaces of these dimensions."""
        neighbours, power, share, slope, offset = arrays["rule"].tolist()
        rule = Rule(int(neighbours), power, share, (slope, offset))
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
    """Y with room for more labels; the arrays are shared."""
    return csr_matrix((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], n_labels))
