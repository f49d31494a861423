"""The prediction half of DXML: training examples in the learned space, and how votes count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace.evaluation.metrics import measure
from labelspace.methods.ranking import Ranking
from labelspace.nn.calibration import fit_platt
from labelspace.nn.encoder import unit_array
from labelspace.search.exact import ExactIndex
from labelspace.search.index import InnerProductIndex
from labelspace.search.neighbours import extend_neighbours, rank_votes, restore_neighbours
from labelspace.sparse import pack_csr, unpack_csr

CALIBRATED_ON = 20  # best labels of each held-out example
_NEIGHBOURS = (5, 10, 15, 20, 30, 50, 100)
_POWERS = (0.0, 4.0, 16.0, 64.0)


@dataclass(frozen=True)
class Rule:
    """How neighbours become labels.

    neighbours   how many vote, for each learner
    power        a vote weighs (similarity / that of the nearest) ** power
    calibration  (slope, offset) from the log odds of a share of votes to those of a hit
    """

    neighbours: int = 20
    power: float = 4.0
    calibration: tuple[float, float] = (1.0, 0.0)


class Voters:
    """Examples that vote: one index a learner over their points, and their labels."""

    def __init__(self, indexes: Sequence[InnerProductIndex], Y: csr_matrix, rule: Rule) -> None:
        self.indexes, self.Y, self.rule = list(indexes), Y, rule

    @classmethod
    def exact(cls, points: Sequence[np.ndarray], Y: csr_matrix, rule: Rule) -> Self:
        """All examples are looked at: for choices made while training."""
        return cls([ExactIndex(rows) for rows in points], Y, rule)

    def find(self, queries: Sequence[np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
        """The nearest examples and their similarities, both (n, learners, k)."""
        k = min(k, self.Y.shape[0])
        found = [index.search(q, k) for index, q in zip(self.indexes, queries, strict=True)]
        return np.stack([f[0] for f in found], axis=1), np.stack([f[1] for f in found], axis=1)

    def rank(self, queries: Sequence[np.ndarray], k: int) -> Ranking:
        """The k best labels of points given by each learner, scored by calibrated votes."""
        near, similarity = self.find(queries, self.rule.neighbours)
        labels, shares = rank_votes(near, similarity, self.rule.power, self.Y, k)
        slope, offset = self.rule.calibration
        logits = np.clip(slope * _log_odds(shares) + offset, -60.0, 60.0)
        scores = (1.0 / (1.0 + np.exp(-logits))).astype(np.float32)
        scores[labels < 0] = 0.0
        return Ranking(labels, scores)

    def choose_rule(
        self,
        queries: Sequence[np.ndarray],
        Y: csr_matrix,
        metric: str,
        neighbours: int | None,
        power: float | None,
    ) -> Rule:
        """The rule that serves held-out queries with labels Y best; what is given stays."""
        choices = list(
            product(
                _NEIGHBOURS if neighbours is None else (neighbours,),
                _POWERS if power is None else (power,),
            )
        )
        near, similarity = self.find(queries, max(count for count, _ in choices))
        k = int(metric.partition("@")[2])
        best, highest = choices[0], -np.inf
        for count, weight in choices:
            votes = rank_votes(near[:, :, :count], similarity[:, :, :count], weight, self.Y, k)
            score = measure(metric, Ranking(*votes), Y, self.Y)
            if score > highest:
                best, highest = (count, weight), score
        count, weight = best
        votes = rank_votes(
            near[:, :, :count], similarity[:, :, :count], weight, self.Y, CALIBRATED_ON
        )
        return Rule(count, weight, _calibrated(*votes, Y))

    def extended(self, points: Sequence[np.ndarray], Y: csr_matrix) -> Voters:
        """With further examples behind those here; Y may have more labels."""
        indexes = [
            extend_neighbours(index, np.vstack([index.vectors, rows]), self.rule.neighbours)
            for index, rows in zip(self.indexes, points, strict=True)
        ]
        return Voters(indexes, vstack([widened(self.Y, Y.shape[1]), Y], "csr"), self.rule)

    def centroids(self) -> np.ndarray:
        """The mean direction of each label's examples, (labels, learners * dim)."""
        points = np.hstack([index.vectors for index in self.indexes])
        return unit_array(np.asarray(self.Y.T @ points, np.float32))

    def facts(self) -> dict[str, Any]:
        index, rule = self.indexes[0], self.rule
        return {
            "search": {"kind": index.kind, "recall": index.recall, **index.settings},
            "votes": {"neighbours": rule.neighbours, "power": rule.power},
        }

    def state(self) -> dict[str, np.ndarray]:
        rule = self.rule
        arrays = {
            **pack_csr("Y", self.Y),
            "rule": np.array([rule.neighbours, rule.power, *rule.calibration], np.float64),
        }
        for number, index in enumerate(self.indexes):
            arrays[f"points.{number}"] = index.vectors
            arrays |= {f"index.{number}.{name}": part for name, part in index.state().items()}
        return arrays

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], learners: int) -> Self:
        """Take back what `state` gave."""
        neighbours, power, *calibration = arrays["rule"].tolist()
        rule = Rule(int(neighbours), power, (calibration[0], calibration[1]))
        indexes = []
        for number in range(learners):
            prefix = f"index.{number}."
            parts = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
            indexes.append(restore_neighbours(arrays[f"points.{number}"], parts))
        return cls(indexes, unpack_csr("Y", arrays), rule)


def widened(Y: csr_matrix, n_labels: int) -> csr_matrix:
    """Y with room for more labels; the arrays are shared."""
    return csr_matrix((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], n_labels))


def _calibrated(labels: np.ndarray, shares: np.ndarray, Y: csr_matrix) -> tuple[float, float]:
    """Platt's two numbers for labels (n, k) with shares of votes, beside the true labels Y."""
    voted = labels >= 0
    rows = np.repeat(np.arange(len(labels)), voted.sum(axis=1))
    if len(rows) == 0:
        return 1.0, 0.0
    hits = np.asarray(Y[rows, labels[voted]]).ravel() > 0
    slope, offset = fit_platt(_log_odds(shares[voted]), hits)
    return float(slope), float(offset)


def _log_odds(shares: np.ndarray) -> np.ndarray:
    inner = np.clip(shares.astype(np.float64), 1e-4, 1.0 - 1e-4)
    return np.asarray(np.log(inner / (1.0 - inner)))
