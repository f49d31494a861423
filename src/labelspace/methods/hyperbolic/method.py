"""Labels and examples together in the Poincare ball (Gerald & Baskiotis, CAp 2019).

A linear map f brings an example to r = p(f(x)), where p draws points back into the unit ball; each
label has a point l in the same ball. Training lowers, for every label i of an example,

    -log ( e(l_i) / (e(l_i) + sum_{k not a label of x} e(l_k)) ),    e(l) = exp(-alpha d(r, l))

with d the hyperbolic distance and the sum over sampled labels. The nearest training examples of a
new one then vote for their labels. What goes past the paper: a second term of the same form that
draws an example to another that shares its labels (`examples_weight`), votes that weigh
exp(-sharpness alpha d), a Riemannian Adam, and the same method in flat and in spherical space.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace._core.sparse import as_csr, pack_csr, unit_rows, unpack_csr
from labelspace.components.calibration import CALIBRATION_K, VOTE_EPS, Calibration
from labelspace.components.holdout import HoldOut
from labelspace.components.training_counts import TrainingCounts
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import TrainingError
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.defaults import resolve_shared
from labelspace.methods.hyperbolic.objective import BatchObjective
from labelspace.methods.hyperbolic.space import BALL_MAPS, OPTIMISERS, Space
from labelspace.methods.parameters import (
    AUTO,
    BATCH_SIZE,
    FEATURE_DAMPING,
    KEEP,
    METRIC,
    PATIENCE,
    SEED,
    VALIDATION,
    Auto,
    choice,
    having,
    integer,
    layers,
    number,
)
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import Encoder
from labelspace.nn.ensemble_trainer import Arrays, MemberTrainer
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.trainer import TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.faiss import load_faiss
from labelspace.search.geometry.build import build_neighbours, restore_neighbours
from labelspace.search.geometry.points import GEOMETRIES, ExactNeighbours, NeighbourIndex

MAX_HELD_OUT = 2000  # scoring them looks at all examples, after every epoch
QUERIES_AT_A_TIME = 4096  # bounds the memory that votes take
NEAR_LABELS = 50  # labels that get a score when labels are ranked by their distance


class Hyperbolic(Method):
    """Examples and labels in the Poincare ball; near training examples vote."""

    name: ClassVar[str] = "hyperbolic"
    has_space: ClassVar[bool] = True
    summary: ClassVar[str] = "examples and labels in the Poincare ball, near examples vote"
    # At the rim of the ball, 16 bits would push points out of it.
    full_precision: ClassVar[tuple[str, ...]] = ("points", "labels", "centres")

    dim: int = integer("Dimension of the space.", default=50, group="usual", low=1, high=4096)
    geometry: str = choice(
        "Geometry of the space; all else stays the same.",
        *GEOMETRIES,
        default="hyperbolic",
        group="usual",
    )
    ball_map: str = choice(
        "How examples are mapped into the ball: by the exponential map, or by projection onto it.",
        *BALL_MAPS,
        default="exp",
        group="paper",
    )
    hidden: tuple[int, ...] | None = layers(
        "Widths of hidden ReLU layers of the encoder.", default=None, none="the encoder is linear"
    )
    alpha: float = number(
        "Inverse temperature of the loss: how steeply it falls with distance.",
        default=20.0,
        group="paper",
        low=0.0,
    )
    negatives: str = choice(
        "How to sample negative labels beside those of the batch.",
        "uniform",
        "frequency",
        "hard",
        default="uniform",
        group="paper",
    )
    n_negatives: int = integer(
        "Number of sampled negative labels per batch.", default=300, group="paper", low=0
    )
    examples_weight: float = number(
        "Weight of the loss between examples that share labels; 0 is the paper's loss.",
        default=1.0,
        low=0.0,
    )
    partners: int = integer(
        "Number of draws for the example that shares labels with another; the one that shares most "
        "is taken.",
        default=8,
        low=1,
    )
    optimiser: str = choice(
        "Optimiser of the label points and of the encoder.",
        *OPTIMISERS,
        default="adam",
        group="paper",
    )
    label_spread: float = number(
        "Standard deviation of the initial label points.", default=0.001, group="paper", low=0.0
    )
    map_spread: float = number(
        "Standard deviation of the encoder's initial weights.",
        default=0.0001,
        group="paper",
        low=0.0,
    )
    keep: float = having(KEEP, default=1.0, group="expert")
    feature_damping: float | Auto | None = having(FEATURE_DAMPING, default=None)
    epochs: int = integer(
        "Maximum number of passes over the training data.", default=5, group="usual", low=1
    )
    batch_size: int = having(BATCH_SIZE, default=512, auto=None)
    lr: float = number("Learning rate.", default=0.004, group="usual", low=0.0)
    patience: int = having(PATIENCE, default=25, group="paper")
    validation: float = having(VALIDATION, default=0.05, auto=None, group="paper")
    metric: str = METRIC
    predict_by: str = choice(
        "What ranks the labels: votes of near training examples, distances to label points, or "
        "both.",
        "examples",
        "labels",
        "both",
        default="examples",
        group="paper",
    )
    neighbours: int = integer(
        "Number of nearest training examples that vote.", default=50, group="usual", low=1
    )
    sharpness: float = number(
        "Votes are weighted by exp(-sharpness * alpha * distance); 0 counts every vote alike.",
        default=1.5,
        low=0.0,
    )
    labels_share: float = number(
        "Weight of the label distances if `predict_by` is both.", default=0.3, low=0.0, high=1.0
    )
    ensemble: int = integer(
        "Number of spaces whose votes are averaged.", default=1, group="usual", low=1
    )
    search: str = choice(
        "Index of the neighbours.",
        "exact",
        "codes",
        "cells",
        default=AUTO,
        auto="by the number of examples",
        tuned=True,
    )
    recall: float = number(
        "Share of the true neighbours that approximate search has to find.",
        default=0.99,
        group="usual",
        low=0.5,
        high=1.0,
    )
    seed: int = SEED

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.search == "codes":
            load_faiss()

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve_shared(params, shape)

    def _fit(self, data: TrainingData) -> None:
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed, cap=MAX_HELD_OUT)
        X, Y, held = unit_rows(hold_out.X), hold_out.Y, hold_out.valid
        if held is not None:
            held = (unit_rows(held[0]), held[1])
        done = self._train(data, X, Y, held)
        self.spaces_ = [self._frozen(member) for member in done]
        self.calibration_ = Calibration(eps=VOTE_EPS)
        if held is not None:
            self._vote_among(X, Y, search="exact")
            best = self._ranked(held[0], min(CALIBRATION_K, Y.shape[1]))
            self.calibration_ = Calibration.fit(best.labels, best.scores, held[1], VOTE_EPS)
        if held is not None and len(hold_out.held_rows):  # in the end the hold-out votes too
            X, Y = vstack([X, held[0]], "csr"), vstack([Y, held[1]], "csr")
        self._vote_among(X, Y, self.params_.search, None if held is None else held[0])

    def _train(
        self,
        data: TrainingData,
        X: csr_matrix,
        Y: csr_matrix,
        held: tuple[csr_matrix, csr_matrix] | None,
    ) -> list[Arrays]:
        """Train all learners; return their weights."""
        done: list[Arrays] = []
        counts = LabelCounts.of(Y)
        self.history_: list[dict[str, float]] = []
        while len(done) < self.params_.ensemble:
            trainer = MemberTrainer(
                done,
                self.params_.ensemble,
                epochs=self.params_.epochs,
                batch_size=self.params_.batch_size,
                seed=self.params_.seed,
                schedule="linear",
                patience=self.params_.patience,
                callbacks=data.callbacks,
                identity=data.identity,
            )
            space = self._fresh_space(X, Y, trainer.seed)
            objective = BatchObjective(self, space, X, Y)
            score = (
                None
                if held is None
                else lambda space=space: self._score(space, X, Y, *held, counts)
            )
            self._watch(data, space, (X, Y), held)
            trainer.progress.history = self.history_
            learner = TrainingTask(space.tensors(), objective, self._optimiser(space), score)
            self.history_ = trainer.run(learner, X.shape[0])
            if not all(np.isfinite(array).all() for array in space.arrays().values()):
                raise TrainingError("the weights became NaN or infinite; lower the learning rate")
            done.append({name: np.array(array) for name, array in space.arrays().items()})
        return done

    def _fresh_space(self, X: csr_matrix, Y: csr_matrix, seed: int) -> Space:
        rng = np.random.default_rng([seed, X.shape[1]])
        lr_scale = TrainingCounts.of(X, Y).row_lr_scale(self.params_.feature_damping)
        widths = (*self.params_.hidden, self.params_.dim)
        encoder = Encoder.fresh(X.shape[1], widths, rng, row_lr_scale=lr_scale)
        if self.params_.hidden:
            with torch.no_grad():  # begin near the centre, as the linear map does
                encoder.hidden[-1]["length"] *= 0.1
        else:
            encoder.input_layer.weight *= np.float32(
                self.params_.map_spread * np.sqrt(self.params_.dim)
            )
        labels = rng.standard_normal((Y.shape[1], self.params_.dim), np.float32)
        labels *= np.float32(self.params_.label_spread)
        return Space.fresh(
            self.params_.geometry, self.params_.ball_map, self.params_.optimiser, encoder, labels
        )

    def _frozen(self, arrays: Arrays) -> Space:
        return Space.frozen(self.params_.geometry, self.params_.ball_map, arrays)

    def _optimiser(self, space: Space) -> OptimiserGroup:
        label_rate = self.params_.lr
        if self.params_.geometry == "hyperbolic":
            # A step at the centre is then as long as a Euclidean one.
            riemannian = self.params_.optimiser == "riemannian-adam"
            label_rate *= 2.0 * self.params_.dim**0.5 if riemannian else 4.0
        tables = {
            "encoder": (space.encoder.input_layer, self.params_.lr),
            "labels": (space.labels, label_rate),
        }
        parts: dict[str, Any] = {"rows": RowOptimiser(tables)}
        if space.encoder.hidden:
            dense = space.encoder.dense_parameters()
            rule = torch.optim.SGD if self.params_.optimiser == "sgd" else torch.optim.Adam
            parts["dense"] = TorchOptimiser(rule(dense, lr=self.params_.lr / 5))
        return OptimiserGroup(parts)

    def _score(
        self,
        space: Space,
        X: csr_matrix,
        Y: csr_matrix,
        X_held: csr_matrix,
        Y_held: csr_matrix,
        counts: LabelCounts,
    ) -> float:
        """Return the validation score of one learner."""
        queries = space.embed(X_held)
        if not np.isfinite(queries).all():
            raise TrainingError("points became NaN or infinite; lower the learning rate")
        ranking = self._rank_by(space, queries, X, Y, min(5, Y.shape[1]))
        return measure(self.params_.metric, ranking, Y_held, counts)

    def _rank_by(
        self,
        space: Space,
        queries: np.ndarray,
        X: csr_matrix,
        Y: csr_matrix,
        k: int,
        own: np.ndarray | None = None,
    ) -> Ranking:
        """Rank by one learner as it is now; own: the rows of X that the queries are."""
        points = ExactNeighbours(space.embed(X), self.params_.geometry)
        shares = self._shares([queries], [points], [self._label_index(space)], Y, own)
        return Ranking.from_sparse(shares, k)

    def _watch(
        self,
        data: TrainingData,
        space: Space,
        train: tuple[csr_matrix, csr_matrix],
        held: tuple[csr_matrix, csr_matrix] | None,
    ) -> None:
        """Measure the learner after each epoch, where a history is kept."""

        def rank(queries: csr_matrix, k: int) -> Ranking:
            return self._rank_by(space, space.embed(queries), *train, k)

        def rank_own(rows: np.ndarray, k: int) -> Ranking:
            return self._rank_by(space, space.embed(train[0][rows]), *train, k, rows)

        watch(data.callbacks, rank, train, held, rank_own=rank_own)

    def _label_index(self, space: Space) -> NeighbourIndex:
        return ExactNeighbours(space.label_points(), self.params_.geometry)

    def _vote_among(
        self, X: csr_matrix, Y: csr_matrix, search: str, queries: csr_matrix | None = None
    ) -> None:
        """Build the indexes of the examples that vote."""
        self.Y_ = Y
        self.points_ = [space.embed(X) for space in self.spaces_]
        self.indexes_ = [
            build_neighbours(
                points,
                self.params_.geometry,
                kind=search,
                k=self.params_.neighbours,
                recall=self.params_.recall,
                seed=self.params_.seed,
                queries=None if queries is None else space.embed(queries),
            )
            for space, points in zip(self.spaces_, self.points_, strict=True)
        ]
        self.label_indexes_ = [self._label_index(space) for space in self.spaces_]

    def _shares(
        self,
        queries: list[np.ndarray],
        indexes: list[NeighbourIndex],
        label_indexes: list[NeighbourIndex],
        Y: csr_matrix,
        own: np.ndarray | None = None,
    ) -> csr_matrix:
        """Return the share of the votes of each label, (examples, labels), mean over learners.

        own  rows of Y that the queries are, which do not vote for themselves; None: they are others
        """
        # Sums of sparse matrices instead of `search.neighbours.voting`: distances to the labels
        # are added to the votes, in float64.
        of_labels = {"examples": 0.0, "labels": 1.0, "both": self.params_.labels_share}[
            self.params_.predict_by
        ]
        total = csr_matrix((len(queries[0]), Y.shape[1]), dtype=np.float64)
        if of_labels < 1.0:
            near = [
                _weighed(
                    index,
                    points,
                    self.params_.neighbours,
                    self.params_.sharpness * self.params_.alpha,
                    own,
                )
                for index, points in zip(indexes, queries, strict=True)
            ]
            total += (1.0 - of_labels) / len(near) * (sum(near[1:], near[0]) @ Y)
        if of_labels > 0.0:
            near = [
                _weighed(index, points, NEAR_LABELS, self.params_.alpha)
                for index, points in zip(label_indexes, queries, strict=True)
            ]
            total += of_labels / len(near) * sum(near[1:], near[0])
        return total

    def _ranked(self, X: csr_matrix, k: int) -> Ranking:
        queries = [space.embed(X) for space in self.spaces_]
        shares = self._shares(queries, self.indexes_, self.label_indexes_, self.Y_)
        return Ranking.from_sparse(shares, k)

    def _predict(self, X: Features, k: int) -> Ranking:
        rows = unit_rows(as_csr(X))
        starts = range(0, max(1, rows.shape[0]), QUERIES_AT_A_TIME)
        best = Ranking.stack(
            [self._ranked(rows[start : start + QUERIES_AT_A_TIME], k) for start in starts]
        )
        return Ranking(best.labels, self.calibration_(best.labels, best.scores))

    def embed(self, X: Any) -> np.ndarray:
        """The examples' points in the first learner's space, (n, dim)."""
        return self.spaces_[0].embed(unit_rows(as_csr(X)))

    @property
    def label_vectors_(self) -> np.ndarray:
        """The labels' points in the first learner's space, (labels, dim)."""
        return self.spaces_[0].label_points()

    @property
    def space_geometry(self) -> str:
        return self.geometry

    def metadata(self) -> dict[str, Any]:
        recalls = [index.recall for index in self.indexes_]
        kinds = sorted({index.kind for index in self.indexes_})
        return {"search": {"kind": ", ".join(kinds), "recall": min(recalls)}}

    def state(self) -> dict[str, np.ndarray]:
        arrays = {**pack_csr("Y", self.Y_), "calibration": self.calibration_.state()}
        members = zip(self.spaces_, self.points_, self.indexes_, strict=True)
        for place, (space, points, index) in enumerate(members):
            found = prefixed("index.", index.state())
            arrays |= prefixed(f"{place}.", {**space.arrays(), "points": points, **found})
        return arrays

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.Y_ = unpack_csr("Y", arrays, (None, self.n_labels_))
        self.calibration_ = Calibration.restore(arrays["calibration"], VOTE_EPS)
        expect(f"{self.params_.ensemble - 1}.points" in arrays, "a learner is missing")
        own = [with_prefix(f"{place}.", arrays) for place in range(self.params_.ensemble)]
        self.spaces_ = [self._frozen(member) for member in own]
        self.points_ = [member["points"] for member in own]
        for space, points in zip(self.spaces_, self.points_, strict=True):
            dim, first = space.encoder.dim, space.encoder.input_layer.weight
            holds = (
                len(first) == self.n_features_in_
                and are_numbers(points, self.Y_.shape[0], dim)
                and are_numbers(space.labels.weight, self.n_labels_, dim)
            )
            expect(holds, "the points of a learner do not fit")
        self.indexes_ = [
            restore_neighbours(
                member["points"], self.params_.geometry, with_prefix("index.", member)
            )
            for member in own
        ]
        self.label_indexes_ = [self._label_index(space) for space in self.spaces_]

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        dim, n = params["dim"], params["ensemble"]
        first = (*params["hidden"], dim)[0]
        in_batch = min(shape.labels, 8 * params["batch_size"]) + params["n_negatives"]
        return {
            "the data, cut in two": shape.data_bytes,
            "maps: weights, moments and the best so far": 4 * (3 + n) * shape.features * first,
            "label points: weights, moments and the best so far": 4 * (3 + n) * shape.labels * dim,
            "points of the examples and search": 8 * (n + 1) * shape.points * dim,
            "labels by example and by label": 24 * shape.label_nnz,
            "distances of a batch": 48 * params["batch_size"] * (in_batch + params["batch_size"]),
        }


def _weighed(
    index: NeighbourIndex,
    queries: np.ndarray,
    k: int,
    slope: float,
    own: np.ndarray | None = None,
) -> csr_matrix:
    """(queries, points) weights exp(-slope distance) of the k nearest, each row's sum 1.

    own  points that are the queries themselves and left out
    """
    k = min(k, len(index.points) - (own is not None))
    ids, distances = index.search(queries, k + (own is not None))
    if own is not None:
        # The query itself goes last, or the farthest where many points are equally near.
        others = np.argsort(ids == own[:, None], axis=1, kind="stable")[:, :k]
        ids = np.take_along_axis(ids, others, axis=1)
        distances = np.take_along_axis(distances, others, axis=1)
    # Relative to the nearest, or far queries would have no weights left.
    weights = np.exp(-slope * (distances - distances[:, :1]))
    weights /= weights.sum(axis=1, keepdims=True)
    indptr = np.arange(len(queries) + 1) * k
    shape = (len(queries), len(index.points))
    return csr_matrix((weights.ravel(), ids.ravel(), indptr), shape=shape)
