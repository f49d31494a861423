"""Prediction of DXML: the nearest training examples in the learned space vote for their labels.

Where raw features separate labels better than a learned space can, as with many labels of few
examples each, the nearest examples by raw features vote too, with a weight chosen on the hold-out.
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
from labelspace._core.checks import expect
from labelspace._core.dense import unit_array
from labelspace._core.schema import Schema, csr, floats, ints, optional, scalars, sizes_of
from labelspace._core.sparse import as_csr, pack_csr, unpack_csr, with_columns
from labelspace.components.calibration import CALIBRATION_K, VOTE_EPS, Calibration
from labelspace.components.held_out_ranking import HeldOutRanking
from labelspace.components.training_data import TrainingData
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Neighbour
from labelspace.metrics.ranking import measure
from labelspace.ranking import Ranking
from labelspace.search.exact import ExactIndex
from labelspace.search.index import InnerProductIndex
from labelspace.search.neighbours.build import (
    extend_neighbours,
    neighbour_schema,
    restore_neighbours,
)
from labelspace.search.neighbours.clusters import ClusterIndex
from labelspace.search.neighbours.sparse import SparseNeighbours
from labelspace.search.neighbours.voting import rank_votes

# The grid that parameters of the vote are chosen from on the hold-out.
NEIGHBOURS = (5, 10, 15, 20, 30, 50, 100)
POWERS = (0.0, 4.0, 16.0, 64.0)
RAW_WEIGHTS = (0.0, 0.25, 0.5, 0.75)
UNCALIBRATED = Calibration(eps=VOTE_EPS)
RAW_POWER = 2.0  # the default of `knn`, which has the same neighbours


@dataclass(frozen=True)
class VoteParameters:
    """Parameters of the neighbours' vote.

    Attributes
    ----------
    neighbours : int
        Number of neighbours that vote, per learner.
    power : float
        A vote is weighted by (similarity / similarity of the nearest neighbour) ** power.
    raw_weight : float
        Weight of the votes of neighbours by raw features; those in the learned space have the rest.
    calibration : Calibration
        Calibration of shares of the votes as probabilities; by default shares as they are.
    """

    neighbours: int = 20
    power: float = 4.0
    raw_weight: float = 0.0
    calibration: Calibration = UNCALIBRATED


class NeighbourVote:
    """Ranks labels by the votes of the nearest training examples.

    Parameters
    ----------
    indexes : sequence of InnerProductIndex
        Per learner an index over the points of the examples.
    Y : csr_matrix of shape (examples, labels)
        Labels of the examples.
    params : VoteParameters
    raw : SparseNeighbours, optional
        Search by raw features; None if these do not vote.

    Attributes
    ----------
    rows : ndarray of shape (examples,)
        The row of the training data that each example is; examples without labels do not vote.
    n_seen : int
        Rows of the training data and of all updates.
    """

    def __init__(
        self,
        indexes: Sequence[InnerProductIndex],
        Y: csr_matrix,
        params: VoteParameters,
        raw: SparseNeighbours | None = None,
    ) -> None:
        self.indexes, self.Y, self.params, self.raw = list(indexes), Y, params, raw
        self.rows, self.n_seen = np.arange(Y.shape[0]), Y.shape[0]

    @classmethod
    def exact(
        cls,
        points: Sequence[np.ndarray],
        Y: csr_matrix,
        params: VoteParameters,
        raw: SparseNeighbours | None = None,
    ) -> Self:
        """Return a vote with exact search, for validation during training."""
        return cls([ExactIndex(rows) for rows in points], Y, params, raw)

    def search(
        self, queries: Sequence[np.ndarray], X: csr_matrix | None, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest examples and their similarities, both (n, searches, k).

        There is one search per learner, and a last one by raw features where these vote and the
        queries' features X are given.
        """
        k = min(k, self.Y.shape[0])
        found = [index.search(q, k) for index, q in zip(self.indexes, queries, strict=True)]
        if self.raw is not None and X is not None:
            found.append(self.raw.search(X, k))
        if len(found) == 1:  # views: `stack` copies
            return found[0][0][:, None], found[0][1][:, None]
        return np.stack([f[0] for f in found], axis=1), np.stack([f[1] for f in found], axis=1)

    def votes(
        self, near: np.ndarray, similarity: np.ndarray, params: VoteParameters, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels (n, k) and their shares of the votes of what `search` found."""
        near, similarity = near[:, :, : params.neighbours], similarity[:, :, : params.neighbours]
        n_learners = len(self.indexes)
        powers = [params.power] * n_learners
        weights = [(1.0 - params.raw_weight) / n_learners] * n_learners
        if near.shape[1] > n_learners:
            powers, weights = [*powers, RAW_POWER], [*weights, params.raw_weight]
        return rank_votes(near, similarity, np.array(powers), self.Y, k, np.array(weights))

    def rank(self, queries: Sequence[np.ndarray], X: csr_matrix | None, k: int) -> Ranking:
        """Return the k best labels with calibrated scores.

        Parameters
        ----------
        queries : sequence of ndarray of shape (n, dim)
            Points of the queries, one array per learner.
        X : csr_matrix of shape (n, features) or None
            Their features, for neighbours by raw features.
        k : int
        """
        params, index = self.params, self.indexes[0]
        if isinstance(index, ClusterIndex) and len(self.indexes) == 1 and self.raw is None:
            near = min(params.neighbours, self.Y.shape[0])
            labels, shares = index.votes(queries[0], near, params.power, self.Y, k)
        else:
            labels, shares = self.votes(*self.search(queries, X, params.neighbours), params, k)
        return Ranking(labels, params.calibration(labels, shares))

    def nearest(self, queries: Sequence[np.ndarray], k: int) -> list[Neighbour]:
        """Return the k examples nearest to one query, by their mean cosine over the learners."""
        found, _ = self.search(queries, None, k)
        near = np.unique(found[found >= 0])
        products = [
            index.vectors[near] @ query[0]
            for index, query in zip(self.indexes, queries, strict=True)
        ]
        cosines = np.mean(products, axis=0)
        return [
            Neighbour(
                int(self.rows[near[place]]),
                float(cosines[place]),
                self.Y[near[place]].indices.tolist(),
            )
            for place in np.argsort(-cosines, kind="stable")[:k]
        ]

    def rank_own(self, rows: np.ndarray, k: int) -> Ranking:
        """Return the k best labels of the examples of these rows, which do not vote themselves."""
        near, similarity = self.search(
            [index.vectors[rows] for index in self.indexes], None, self.params.neighbours + 1
        )
        own = near == rows[:, None, None]
        # The example itself goes last and is left out; so is the farthest neighbour where more
        # than so many points are equal and it was not found.
        others = np.argsort(own, axis=2, kind="stable")[:, :, :-1]
        near, similarity = (np.take_along_axis(a, others, axis=2) for a in (near, similarity))
        return Ranking(*self.votes(near, similarity, self.params, k))

    def tuned(
        self,
        queries: Sequence[np.ndarray],
        X: csr_matrix,
        Y: csr_matrix,
        metric: str,
        neighbours: int | None,
        power: float | None,
    ) -> tuple[VoteParameters, HeldOutRanking]:
        """Return the parameters with the best metric on held-out examples, calibrated.

        The second result is the ranking of these examples, for the model's figures.

        Parameters
        ----------
        queries, X, Y
            Points per learner, features and labels of the held-out examples.
        metric : str
            Such as "nDCG@5".
        neighbours, power
            Values that the user gave; None: to be chosen.
        """
        grid = [
            VoteParameters(*values)
            for values in product(
                NEIGHBOURS if neighbours is None else (neighbours,),
                POWERS if power is None else (power,),
                (0.0,) if self.raw is None else RAW_WEIGHTS,
            )
        ]
        found = self.search(queries, X, max(params.neighbours for params in grid))
        k = int(metric.partition("@")[2])
        counts = LabelCounts.of(self.Y)

        def score(params: VoteParameters) -> float:
            return measure(metric, Ranking(*self.votes(*found, params, k)), Y, counts)

        best = max(grid, key=score)
        labels, shares = self.votes(*found, best, CALIBRATION_K)
        calibrated = replace(best, calibration=Calibration.fit(labels, shares, Y, VOTE_EPS))
        return calibrated, HeldOutRanking.calibrated(labels, shares, Y, VOTE_EPS)

    def extended(
        self,
        points: Sequence[np.ndarray],
        X: csr_matrix,
        Y: csr_matrix,
        rows: np.ndarray,
        n_seen: int,
    ) -> NeighbourVote:
        """Return a vote with further examples appended; Y may have more labels.

        They are the given rows of an update with `n_seen` rows.
        """
        indexes = [
            extend_neighbours(index, np.vstack([index.vectors[:], rows]))
            for index, rows in zip(self.indexes, points, strict=True)
        ]
        raw = None if self.raw is None else self.raw.extended(X)
        labels = vstack([with_columns(self.Y, Y.shape[1]), Y], "csr")
        vote = NeighbourVote(indexes, labels, self.params, raw)
        vote.rows = np.concatenate([self.rows, self.n_seen + rows])
        vote.n_seen = self.n_seen + n_seen
        return vote

    @cached_property
    def centroids(self) -> np.ndarray:
        """Mean direction of each label's examples, (labels, learners * dim), computed once."""
        points = np.hstack([index.vectors[:] for index in self.indexes])
        return unit_array(np.asarray(self.Y.T @ points, np.float32))

    def metadata(self) -> dict[str, Any]:
        """Return the index and the parameters of the vote for `model.json`."""
        index, params = self.indexes[0], self.params
        return {
            "search": {"kind": index.kind, "recall": index.recall, **index.settings},
            "votes": {
                "neighbours": params.neighbours,
                "power": params.power,
                "raw_weight": params.raw_weight,
            },
        }

    def state(self) -> dict[str, np.ndarray]:
        """Return everything as arrays, which `restore` takes."""
        params = self.params
        numbers = [params.neighbours, params.power, params.raw_weight, *params.calibration.state()]
        arrays = {**pack_csr("Y", self.Y), "vote": np.array(numbers)}
        arrays |= {"rows": self.rows, "n_seen": np.array([self.n_seen])}
        if self.raw is not None:
            arrays |= self.raw.state()
        for learner, index in enumerate(self.indexes):
            own = {"points": index.vectors[:], **prefixed("index.", index.state())}
            arrays |= prefixed(f"{learner}.", own)
        return arrays

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_learners: int) -> Self:
        """Rebuild a vote from what `state` returned.

        Raises
        ------
        ModelFormatError
            If its parameters are out of range.
        """
        neighbours, power, raw_weight = arrays["vote"][:3].tolist()
        calibration = Calibration.restore(arrays["vote"][3:], VOTE_EPS)
        params = VoteParameters(int(neighbours), power, raw_weight, calibration)
        in_range = params.neighbours >= 1 and power >= 0.0 and 0.0 <= raw_weight <= 1.0
        expect(in_range, "the parameters of the vote are out of range")
        raw = SparseNeighbours.restore(arrays) if raw_weight > 0 else None
        indexes = []
        for learner in range(n_learners):
            own = with_prefix(f"{learner}.", arrays)
            indexes.append(restore_neighbours(own["points"], with_prefix("index.", own)))
        vote = cls(indexes, unpack_csr("Y", arrays), params, raw)
        if "rows" in arrays:  # absent from older models
            vote.rows, vote.n_seen = arrays["rows"], int(arrays["n_seen"][0])
        return vote

    @staticmethod
    def schema(arrays: Mapping[str, np.ndarray], n_learners: int) -> Schema:
        """Declare the arrays of `state`; the points of a learner have f"{learner}.code" numbers."""
        found: Schema = [
            *csr("Y", "examples", "labels", sets=True),
            scalars("vote", 5),
            *optional(csr("postings", "features", "examples"), arrays),
            *optional([sizes_of("n_seen", "seen"), ints("rows", "examples", limit="seen")], arrays),
        ]
        for learner in range(n_learners):
            points, index = f"{learner}.code", f"{learner}.index."
            found.append(floats(f"{learner}.points", "examples", points))
            found += neighbour_schema(arrays, index, "examples", points)
        return found


def voter_rows(Y: csr_matrix) -> np.ndarray:
    """Return the rows that can vote: those with labels, or all if there are none."""
    labelled = np.flatnonzero(np.diff(Y.indptr))
    return labelled if len(labelled) else np.arange(Y.shape[0])


def voters(data: TrainingData) -> TrainingData:
    """Return the data without examples that have no labels, which cannot vote."""
    labelled = voter_rows(data.Y)
    if len(labelled) == data.Y.shape[0]:
        return data
    return replace(data, X=as_csr(data.X)[labelled], Y=data.Y[labelled])
