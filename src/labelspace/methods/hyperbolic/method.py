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
from scipy.sparse import csr_matrix

from labelspace._core.arrays import with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace._core.sparse import as_csr, pack_csr, unit_rows, unpack_csr
from labelspace.components.calibration import fit_line, log_odds, probabilities_of_shares
from labelspace.components.holdout import cut_validation
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import TrainingError
from labelspace.methods.base import Method
from labelspace.methods.hyperbolic.objective import BatchObjective
from labelspace.methods.hyperbolic.space import INTO, OPTIMISERS, Space
from labelspace.methods.parameters import (
    KEEP,
    METRIC,
    PATIENCE,
    SEED,
    Parameter,
    choice,
    integer,
    layers,
    number,
)
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import Encoder
from labelspace.nn.ensemble_trainer import Arrays, MemberTrainer
from labelspace.nn.row_tables import OptimiserGroup, RowOptimiser
from labelspace.nn.trainer import TorchOptimiser, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.faiss import load_faiss
from labelspace.search.lorentz import build_neighbours, restore_neighbours
from labelspace.search.points import GEOMETRIES, ExactNeighbours, NeighbourIndex

MOST_VALIDATED = 2000
LEAST_SHARE = 1e-4  # of votes that calibration tells apart from none
QUERIES_AT_A_TIME = 4096  # bounds the memory that votes take
NEAR_LABELS = 50  # labels that get a score when labels are ranked by their distance


class Hyperbolic(Method):
    """Examples and labels in the Poincare ball; near training examples vote."""

    name: ClassVar[str] = "hyperbolic"
    has_space: ClassVar[bool] = True
    summary: ClassVar[str] = "examples and labels in the Poincare ball, near examples vote"
    # At the rim of the ball, 16 bits would push points out of it.
    full_precision: ClassVar[tuple[str, ...]] = ("points", "labels", "centres")
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "dim": integer("dimension of the space", low=1, high=4096),
        "geometry": choice("of the space; all else is the same", *GEOMETRIES),
        "into": choice("how examples come into the ball: exponential map, or drawn back", *INTO),
        "hidden": layers("widths of hidden ReLU layers; none is a linear map"),
        "alpha": number("how steeply the loss falls with distance", low=0.0),
        "negatives": choice(
            "labels an example is pushed from, beside its batch's", "uniform", "frequency", "hard"
        ),
        "n_negatives": integer("how many of them are drawn", low=0),
        "examples_weight": number("of the term between examples; 0 is the paper's loss", low=0.0),
        "partners": integer("draws for an example that shares labels; the best counts", low=1),
        "optimiser": choice("of label points and the map", *OPTIMISERS),
        "label_spread": number("standard deviation of label points at first", low=0.0),
        "map_spread": number("standard deviation of the map's weights at first", low=0.0),
        "keep": KEEP,
        "rare": number("features in fewer examples are damped; 0: no damping", low=0.0),
        "epochs": integer("passes over the training data at most", low=1),
        "batch_size": integer("examples a step", low=1),
        "lr": number("learning rate", low=0.0),
        "patience": PATIENCE,
        "validation": number("share cut off for early stopping", low=0.0, high=0.5),
        "metric": METRIC,
        "predict_by": choice("who names labels", "examples", "labels", "both"),
        "neighbours": integer("how many training examples vote", low=1),
        "sharpness": number("votes weigh exp(-sharpness alpha d); 0 counts heads", low=0.0),
        "labels_share": number("of label distances where both name labels", low=0.0, high=1.0),
        "ensemble": integer("learners whose votes are averaged", low=1),
        "search": choice("for neighbours", "auto", "exact", "codes", "cells", "lift"),
        "recall": number("share of true neighbours that search must find", low=0.5, high=1.0),
        "seed": SEED,
    }

    def __init__(
        self,
        *,
        dim: int = 50,
        geometry: str = "hyperbolic",
        into: str = "exp",
        hidden: tuple[int, ...] = (),
        alpha: float = 20.0,
        negatives: str = "uniform",
        n_negatives: int = 300,
        examples_weight: float = 1.0,
        partners: int = 8,
        optimiser: str = "adam",
        label_spread: float = 1e-3,
        map_spread: float = 1e-4,
        keep: float = 1.0,
        rare: float = 0.0,
        epochs: int = 5,
        batch_size: int = 512,
        lr: float = 0.004,
        patience: int = 25,
        validation: float = 0.05,
        metric: str = "nDCG@5",
        predict_by: str = "examples",
        neighbours: int = 50,
        sharpness: float = 1.5,
        labels_share: float = 0.3,
        ensemble: int = 1,
        search: str = "auto",
        recall: float = 0.99,
        seed: int = 0,
    ) -> None:
        self.dim = dim
        self.geometry = geometry
        self.into = into
        self.hidden = hidden
        self.alpha = alpha
        self.negatives = negatives
        self.n_negatives = n_negatives
        self.examples_weight = examples_weight
        self.partners = partners
        self.optimiser = optimiser
        self.label_spread = label_spread
        self.map_spread = map_spread
        self.keep = keep
        self.rare = rare
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.patience = patience
        self.validation = validation
        self.metric = metric
        self.predict_by = predict_by
        self.neighbours = neighbours
        self.sharpness = sharpness
        self.labels_share = labels_share
        self.ensemble = ensemble
        self.search = search
        self.recall = recall
        self.seed = seed

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.search == "codes":
            load_faiss()

    def _fit(self, data: TrainingData) -> None:
        X, Y = unit_rows(as_csr(data.X)), data.Y
        rows, cut = np.arange(X.shape[0]), np.arange(0)
        if data.valid is None:
            share = min(self.validation, MOST_VALIDATED / X.shape[0])
            rows, cut = cut_validation(X.shape[0], share, self.seed)
            valid = (X[cut], Y[cut])
        else:
            valid = (unit_rows(as_csr(data.valid[0])), data.valid[1])
        held = valid if valid[1].nnz else None
        done = self._train(data, X[rows], Y[rows], held)
        self.spaces_ = [self._frozen(member) for member in done]
        self.calibration_ = np.array([1.0, 0.0])
        if held is not None:
            self._vote_among(X[rows], Y[rows], search="exact")
            self.calibration_ = self._calibrate(*held)
        # The examples that were held out vote too.
        order = np.concatenate([rows, cut])
        self._vote_among(X[order], Y[order], self.search, None if held is None else held[0])

    def _train(
        self,
        data: TrainingData,
        X: csr_matrix,
        Y: csr_matrix,
        held: tuple[csr_matrix, csr_matrix] | None,
    ) -> list[Arrays]:
        """The weights of all learners."""
        done: list[Arrays] = []
        self.history_: list[dict[str, float]] = []
        while len(done) < self.ensemble:
            trainer = MemberTrainer(
                done,
                self.ensemble,
                epochs=self.epochs,
                batch_size=self.batch_size,
                seed=self.seed,
                schedule="linear",
                patience=self.patience,
                callbacks=data.callbacks,
                identity=data.identity,
            )
            space = self._fresh_space(X, Y.shape[1], trainer.seed)
            objective = BatchObjective(self, space, X, Y)
            score = None if held is None else lambda space=space: self._score(space, X, Y, *held)
            self._watch(data, space, (X, Y), held)
            trainer.progress.history = self.history_
            learner = TrainingTask(space.tensors(), objective, self._optimiser(space), score)
            self.history_ = trainer.run(learner, X.shape[0])
            if not all(np.isfinite(array).all() for array in space.arrays().values()):
                raise TrainingError("the weights became NaN or infinite; lower the learning rate")
            done.append({name: np.array(array) for name, array in space.arrays().items()})
        return done

    def _fresh_space(self, X: csr_matrix, n_labels: int, seed: int) -> Space:
        rng = np.random.default_rng([seed, X.shape[1]])
        row_lr_scale = None
        if self.rare > 0:
            examples = np.bincount(X.indices, minlength=X.shape[1])
            row_lr_scale = np.sqrt(np.minimum(1.0, (examples + 1) / self.rare)).astype(np.float32)
        widths = (*self.hidden, self.dim)
        encoder = Encoder.fresh(X.shape[1], widths, rng, row_lr_scale=row_lr_scale)
        if self.hidden:
            with torch.no_grad():  # begin near the centre, as the linear map does
                encoder.hidden[-1]["length"] *= 0.1
        else:
            encoder.first.weight *= np.float32(self.map_spread * np.sqrt(self.dim))
        labels = rng.standard_normal((n_labels, self.dim), np.float32)
        labels *= np.float32(self.label_spread)
        return Space.fresh(self.geometry, self.into, self.optimiser, encoder, labels)

    def _frozen(self, arrays: Arrays) -> Space:
        return Space.frozen(self.geometry, self.into, arrays)

    def _optimiser(self, space: Space) -> OptimiserGroup:
        label_rate = self.lr
        if self.geometry == "hyperbolic":  # so that a step at the centre is as long as a flat one
            label_rate *= 2.0 * self.dim**0.5 if self.optimiser == "riemannian-adam" else 4.0
        tables = {"encoder": (space.encoder.first, self.lr), "labels": (space.labels, label_rate)}
        parts: dict[str, Any] = {"rows": RowOptimiser(tables)}
        if space.encoder.hidden:
            dense = space.encoder.dense_parameters()
            rule = torch.optim.SGD if self.optimiser == "sgd" else torch.optim.Adam
            parts["dense"] = TorchOptimiser(rule(dense, lr=self.lr / 5))
        return OptimiserGroup(parts)

    def _score(
        self, space: Space, X: csr_matrix, Y: csr_matrix, X_held: csr_matrix, Y_held: csr_matrix
    ) -> float:
        """The validation score of one learner."""
        queries = space.embed(X_held)
        if not np.isfinite(queries).all():
            raise TrainingError("points became NaN or infinite; lower the learning rate")
        ranking = self._rank_by(space, queries, X, Y, min(5, Y.shape[1]))
        return measure(self.metric, ranking, Y_held, Y)

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
        points = ExactNeighbours(space.embed(X), self.geometry)
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
        return ExactNeighbours(space.label_points(), self.geometry)

    def _vote_among(
        self, X: csr_matrix, Y: csr_matrix, search: str, queries: csr_matrix | None = None
    ) -> None:
        """Let these examples vote from now on."""
        self.Y_ = Y
        self.points_ = [space.embed(X) for space in self.spaces_]
        self.indexes_ = [
            build_neighbours(
                points,
                self.geometry,
                kind=search,
                k=self.neighbours,
                recall=self.recall,
                seed=self.seed,
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
        """(examples, labels) what each label has of the votes, mean over learners.

        own  rows of Y that the queries are, which do not vote for themselves; None: they are others
        """
        of_labels = {"examples": 0.0, "labels": 1.0, "both": self.labels_share}[self.predict_by]
        total = csr_matrix((len(queries[0]), Y.shape[1]), dtype=np.float64)
        if of_labels < 1.0:
            near = [
                _weighed(index, points, self.neighbours, self.sharpness * self.alpha, own)
                for index, points in zip(indexes, queries, strict=True)
            ]
            total += (1.0 - of_labels) / len(near) * (sum(near[1:], near[0]) @ Y)
        if of_labels > 0.0:
            near = [
                _weighed(index, points, NEAR_LABELS, self.alpha)
                for index, points in zip(label_indexes, queries, strict=True)
            ]
            total += of_labels / len(near) * sum(near[1:], near[0])
        return total

    def _calibrate(self, X: csr_matrix, Y: csr_matrix) -> np.ndarray:
        """Platt's two numbers on the validation cut, so that shares become probabilities."""
        best = self._ranked(X, min(20, Y.shape[1]))
        return fit_line(best.labels, log_odds(best.scores, LEAST_SHARE), Y)

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
        labels, line = best.labels, self.calibration_
        return Ranking(labels, probabilities_of_shares(labels, best.scores, line, LEAST_SHARE))

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
        arrays = {**pack_csr("Y", self.Y_), "calibration": self.calibration_}
        members = zip(self.spaces_, self.points_, self.indexes_, strict=True)
        for place, (space, points, index) in enumerate(members):
            found = {f"index.{name}": array for name, array in index.state().items()}
            own = {**space.arrays(), "points": points, **found}
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
        return arrays

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.Y_ = unpack_csr("Y", arrays, (None, self.n_labels_))
        self.calibration_ = arrays["calibration"]
        expect(are_numbers(self.calibration_, 2), "the calibration is not two numbers")
        expect(f"{self.ensemble - 1}.points" in arrays, "a learner is missing")
        own = [with_prefix(f"{place}.", arrays) for place in range(self.ensemble)]
        self.spaces_ = [self._frozen(member) for member in own]
        self.points_ = [member["points"] for member in own]
        for space, points in zip(self.spaces_, self.points_, strict=True):
            dim, first = space.encoder.dim, space.encoder.first.weight
            holds = (
                len(first) == self.n_features_in_
                and are_numbers(points, self.Y_.shape[0], dim)
                and are_numbers(space.labels.weight, self.n_labels_, dim)
            )
            expect(holds, "the points of a learner do not fit")
        self.indexes_ = [
            restore_neighbours(member["points"], self.geometry, with_prefix("index.", member))
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
