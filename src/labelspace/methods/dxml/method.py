"""DXML: examples in a learned space, whose neighbours vote (Zhang et al., ICMR 2018).

A network puts an example on the unit sphere, z = F(x) / |F(x)|; the k training examples nearest to
a query vote for their labels, each with the weight (similarity / that of the nearest) ** power.

The paper trains z towards f_y = V y / nnz(y), where V are DeepWalk vectors of the labels on their
co-occurrence graph, by a smooth L1 distance: loss="smooth-l1", or "contrastive" or "triplet". The
default goes past it: loss="votes" trains on what prediction does, votes of neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace._core.arrays import joined_parts
from labelspace._core.sparse import as_csr
from labelspace.components.holdout import HoldOut
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError
from labelspace.labels.cooccurrence import MEASURES
from labelspace.labels.deepwalk import deepwalk_bytes
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.dxml.defaults import resolve
from labelspace.methods.dxml.objective import Anchors, BatchObjective
from labelspace.methods.dxml.targets import label_points, place_labels
from labelspace.methods.dxml.voting import Rule, Voters, widened
from labelspace.methods.parameters import (
    AUTO,
    BATCH_SIZE,
    KEEP,
    METRIC,
    PATIENCE,
    SEED,
    VALIDATION,
    Auto,
    choice,
    flag,
    having,
    integer,
    layers,
    number,
)
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import Encoder, principal_directions, unit_array
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.row_rules import MOMENTUM, WEIGHT_DECAY, MomentumLinear
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.build import check_search
from labelspace.search.faiss import load_faiss
from labelspace.search.neighbours.build import KINDS, build_neighbours, neighbour_bytes
from labelspace.search.neighbours.sparse import SparseNeighbours

BY_TARGETS = ("smooth-l1", "contrastive", "triplet")


class DXML(Method):
    """Neighbours in a learned space vote for their labels."""

    name: ClassVar[str] = "dxml"
    has_space: ClassVar[bool] = True
    summary: ClassVar[str] = "deep embedding of examples, whose nearest neighbours vote"
    can_update: ClassVar[bool] = True

    dim: int = integer("Dimension of the space.", default=300, group="usual", low=1, high=4096)
    hidden: tuple[int, ...] | Auto | None = layers(
        "Widths of hidden ReLU layers of the encoder.",
        default=AUTO,
        group="paper",
        auto="512 for few features, else none",
        none="the encoder is linear",
    )
    loss: str = choice(
        "Training objective: the likelihood of the neighbours' votes, or the distance to a target "
        "made of label vectors, as in the paper.",
        "votes",
        *BY_TARGETS,
        default="votes",
        group="paper",
    )
    scale: float = number(
        "Scale of the similarities within a batch, for the losses on neighbours.",
        default=20.0,
        low=0.1,
    )
    partners: bool = flag(
        "Add to every example of a batch one that shares a label with it.", default=True
    )
    margin: float = number(
        "Margin of the contrastive and triplet losses.", default=1.0, group="paper", low=0.0
    )
    graph: str = choice(
        "Label graph of the losses on targets.",
        "cooccurrence",
        "taxonomy",
        default="cooccurrence",
        group="paper",
    )
    graph_weights: str | None = choice(
        "Weights of co-occurrence edges.",
        *MEASURES,
        default=None,
        group="paper",
        none="every edge counts the same",
    )
    walks: int | Auto = integer(
        "DeepWalk: number of walks from each label.",
        default=AUTO,
        group="paper",
        low=1,
        auto="10, more for few labels",
    )
    walk_length: int = integer(
        "DeepWalk: number of labels per walk.", default=40, group="paper", low=2
    )
    window: int = integer(
        "DeepWalk: number of steps of a walk that are context.", default=5, group="paper", low=1
    )
    keep: float = having(KEEP, default=0.7)
    dropout: float = number(
        "Share of the last layer's outputs to drop in training.", default=0.1, low=0.0, high=0.95
    )
    optimiser: str = choice(
        "Adam, or SGD with momentum 0.9 and weight decay as in the paper.",
        "adam",
        "sgd",
        default="adam",
        group="paper",
    )
    lr: float = number("Learning rate.", default=0.005, group="usual", low=0.0)
    epochs: int | Auto = integer(
        "Maximum number of passes over the training data.",
        default=AUTO,
        group="usual",
        low=1,
        auto="about a thousand steps, 6 to 30 passes",
    )
    batch_size: int | Auto = having(BATCH_SIZE, low=2, auto="1024 for few examples, else 512")
    patience: int = having(PATIENCE, default=10)
    validation: float = having(VALIDATION, default=0.1, auto=None)
    metric: str = METRIC
    neighbours: int | Auto = integer(
        "Number of nearest training examples that vote.",
        default=AUTO,
        group="usual",
        low=1,
        auto="chosen on held-out examples",
        tuned=True,
    )
    power: float | Auto = number(
        "Power of the similarity that a vote is weighted by; 0 counts every vote alike.",
        default=AUTO,
        low=0.0,
        high=256.0,
        auto="chosen on held-out examples",
        tuned=True,
    )
    raw_neighbours: bool = flag(
        "Let nearest neighbours by raw features vote too, with a weight chosen on held-out "
        "examples.",
        default=True,
    )
    reduced_dim: int | None = integer(
        "Dimension to which the trained space is reduced by principal components.",
        default=None,
        low=1,
        none="the space is not reduced",
    )
    ensemble: int | Auto = integer(
        "Number of encoders whose neighbours' votes are averaged.",
        default=AUTO,
        group="usual",
        low=1,
        auto="5 for few examples, 1 for many",
    )
    search: str = choice(
        "Index of the neighbours.",
        *KINDS,
        default=AUTO,
        auto="by the number of examples",
        tuned=True,
    )
    clusters: int | Auto = integer(
        "Number of clusters of training examples.",
        default=AUTO,
        group="paper",
        low=1,
        auto="by the number of examples",
        tuned=True,
    )
    probes: int | Auto = integer(
        "Number of clusters to search.",
        default=AUTO,
        group="paper",
        low=1,
        auto="as many as `recall` needs",
        tuned=True,
    )
    recall: float = number(
        "Share of the true neighbours that approximate search has to find.",
        default=0.99,
        group="usual",
        low=0.5,
        high=1.0,
    )
    update_epochs: int = integer(
        "Number of passes over new examples in `partial_fit`.", default=2, group="usual", low=0
    )
    seed: int = SEED

    graph_vectors_: np.ndarray | None

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.search == "quantised":
            load_faiss()
        if self.reduced_dim is not None and self.loss in BY_TARGETS:
            raise ParameterError(
                f"dxml.reduced_dim={self.reduced_dim}: with loss={self.loss} examples are compared "
                f"with label vectors, which have all {self.dim} dimensions; set dim instead"
            )

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        tuned = (self.params_.search, self.params_.clusters, self.params_.probes)
        if tuned == (AUTO, AUTO, AUTO):
            check_search(data.X.shape[0], self.params_.reduced_dim or self.params_.dim)
        hold_out = HoldOut.of(_labelled(data), self.params_.validation, self.params_.seed)
        X, Y, held = hold_out.X, hold_out.Y, hold_out.valid
        counts = LabelCounts.of(Y)
        self.graph_vectors_ = None
        if self.params_.loss in BY_TARGETS:
            self.graph_vectors_ = label_points(self, Y, data.taxonomy)
        self.encoders_ = [
            self._prepared(
                Encoder.fresh(
                    X.shape[1],
                    (*self.params_.hidden, self.params_.dim),
                    np.random.default_rng([self.params_.seed, X.shape[1], learner]),
                )
            )
            for learner in range(self.params_.ensemble)
        ]
        usual = Rule()
        rule = Rule(
            _given(self.params_.neighbours) or usual.neighbours,
            usual.power if self.params_.power == AUTO else self.params_.power,
        )

        def rank(queries: csr_matrix, k: int) -> Ranking:
            voters = Voters.exact(self._points(X), Y, rule)
            return voters.rank(self._points(queries), None, k)

        def rank_own(rows: np.ndarray, k: int) -> Ranking:
            return Voters.exact(self._points(X), Y, rule).rank_own(rows, k)

        def score() -> float:
            assert held is not None
            return measure(self.params_.metric, rank(held[0], 5), held[1], counts)

        watch(data.callbacks, rank, (X, Y), held, rank_own=rank_own)
        self.history_ = self._train(
            data,
            X,
            Y,
            self.params_.epochs,
            None if held is None else score,
        )
        if self.params_.reduced_dim is not None and self.params_.reduced_dim < self.params_.dim:
            self.encoders_ = [
                encoder.projected(principal_directions(points, self.params_.reduced_dim))
                for encoder, points in zip(self.encoders_, self._points(X), strict=True)
            ]
        if held is not None:
            raw = SparseNeighbours.of(X) if self.params_.raw_neighbours else None
            rule = Voters.exact(self._points(X), Y, rule, raw).choose_rule(
                self._points(held[0]),
                *held,
                self.params_.metric,
                _given(self.params_.neighbours),
                _given(self.params_.power),
            )
        self._keep_voters(X, Y, rule, held, returns=len(hold_out.held_rows) > 0)

    def _prepared(self, encoder: Encoder) -> Encoder:
        if self.params_.optimiser == "sgd":
            encoder.input_layer = MomentumLinear(encoder.input_layer.weight)
        return encoder

    def _train(
        self,
        data: TrainingData,
        X: csr_matrix,
        Y: csr_matrix,
        epochs: int,
        score: Any = None,
        anchors: Anchors | None = None,
    ) -> list[dict[str, float]]:
        """All learners at once, so that one checkpoint holds the whole run."""
        trainer = Trainer(
            epochs=epochs,
            batch_size=self.params_.batch_size,
            seed=self.params_.seed,
            schedule="linear" if self.params_.optimiser == "adam" else "constant",
            patience=self.params_.patience,
            callbacks=data.callbacks,
            identity=data.identity,
        )
        parts = {str(number): encoder.tensors() for number, encoder in enumerate(self.encoders_)}
        tensors = joined_parts(parts)
        objective = BatchObjective(self, self.encoders_, X, Y, anchors)
        return trainer.run(TrainingTask(tensors, objective, self._optimiser(), score), X.shape[0])

    def _optimiser(self) -> OptimiserGroup:
        sparse = {
            str(n): (encoder.input_layer, self.params_.lr)
            for n, encoder in enumerate(self.encoders_)
        }
        dense = [tensor for encoder in self.encoders_ for tensor in encoder.dense_parameters()]
        parts: dict[str, Any] = {"rows": RowOptimiser(sparse)}
        if dense and self.params_.optimiser == "adam":
            parts["dense"] = TorchOptimiser(torch.optim.Adam(dense, lr=self.params_.lr / 5))
        elif dense:
            sgd = torch.optim.SGD(dense, self.params_.lr, MOMENTUM, weight_decay=WEIGHT_DECAY)
            parts["dense"] = TorchOptimiser(sgd)
        return OptimiserGroup(parts)

    def _points(self, X: csr_matrix) -> list[np.ndarray]:
        """Where each learner puts the examples."""
        return [unit_array(encoder.encode(X)) for encoder in self.encoders_]

    def embed(self, X: Any) -> np.ndarray:
        """The examples' points, of length 1: the learners' side by side, (n, ensemble * dim)."""
        return np.hstack(self._points(as_csr(X))) / np.float32(np.sqrt(len(self.encoders_)))

    @property
    def label_vectors_(self) -> np.ndarray:
        """The mean direction of each label's examples, (labels, ensemble * dim)."""
        return self.voters_.centroids

    def _keep_voters(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        rule: Rule,
        held: tuple[csr_matrix, csr_matrix] | None,
        returns: bool,
    ) -> None:
        """Index the examples that vote; with `returns` those of the hold-out vote too."""
        queries = [None] * len(self.encoders_) if held is None else self._points(held[0])
        if held is not None and returns:
            X, Y = vstack([X, held[0]], "csr"), vstack([Y, held[1]], "csr")
        indexes = [
            build_neighbours(
                points,
                rule.neighbours,
                kind=self.params_.search,
                recall=self.params_.recall,
                clusters=_given(self.params_.clusters),
                probes=_given(self.params_.probes),
                seed=self.params_.seed,
                queries=typical,
            )
            for points, typical in zip(self._points(X), queries, strict=True)
        ]
        raw = SparseNeighbours.of(X) if rule.raw > 0 else None
        self.voters_ = Voters(indexes, Y, rule, raw)

    def _partial_fit(self, data: TrainingData) -> None:
        labelled = np.flatnonzero(np.diff(data.Y.indptr))
        X, Y = as_csr(data.X)[labelled], data.Y[labelled]
        if self.graph_vectors_ is not None:
            self.graph_vectors_ = place_labels(self.graph_vectors_, Y, self._points(X)[0])
        if self.params_.update_epochs > 0 and len(labelled):
            # The old examples hold the space in place: their points stay as they are.
            points = [np.asarray(index.vectors) for index in self.voters_.indexes]
            anchors = Anchors(points, widened(self.voters_.Y, Y.shape[1]))
            self.encoders_ = [self._prepared(encoder.trainable()) for encoder in self.encoders_]
            self._train(data, X, Y, self.params_.update_epochs, anchors=anchors)
        self.voters_ = self.voters_.extended(self._points(X), X, Y)

    def _predict(self, X: Features, k: int) -> Ranking:
        X = as_csr(X)
        return self.voters_.rank(self._points(X), X, k)

    def metadata(self) -> dict[str, Any]:
        return self.voters_.metadata()

    def state(self) -> dict[str, np.ndarray]:
        arrays = self.voters_.state()
        for learner, encoder in enumerate(self.encoders_):
            arrays |= {f"{name}.{learner}": array for name, array in encoder.arrays().items()}
        if self.graph_vectors_ is not None:
            arrays["graph_vectors"] = self.graph_vectors_
        return arrays

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        n_learners = sum(name.startswith("encoder.first.") for name in arrays)
        self.graph_vectors_ = arrays.get("graph_vectors")
        self.encoders_ = []
        for learner in range(n_learners):
            mine = f".{learner}"
            own = {k.removesuffix(mine): part for k, part in arrays.items() if k.endswith(mine)}
            self.encoders_.append(Encoder.restore(own, self.n_features_in_))
        dims = [encoder.dim for encoder in self.encoders_]
        self.voters_ = Voters.restore(arrays, dims, self.n_features_in_, self.n_labels_)

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        dim, size = params["dim"], params["batch_size"]
        n_learners = params["ensemble"]
        first = (*params["hidden"], dim)[0]
        mean = shape.label_nnz / max(1, shape.points)
        labels = min(float(shape.labels), size * mean)
        needs = {
            "the data, cut in two": shape.data_bytes,
            "the encoders, moments and the best so far": 16 * n_learners * shape.features * first,
            "the examples' points": 8 * n_learners * shape.points * (dim + max(first, dim)),
            "votes within a batch": int(16 * size * (2 * size + labels)),
            "the search index": n_learners * neighbour_bytes(shape.points, dim, params["search"]),
        }
        if params["raw_neighbours"]:
            needs["neighbours by raw features"] = 3 * 8 * shape.feature_nnz + 8 * shape.features
        if params["loss"] in BY_TARGETS:
            needs["the label graph"] = 12 * shape.cooccurrences()
            needs["label vectors"] = deepwalk_bytes(shape.labels, dim)
            needs["the examples' targets"] = 4 * shape.points * dim
        return needs


def _labelled(data: TrainingData) -> TrainingData:
    """Return the examples with labels, since only these can vote; all if none has one."""
    labelled = np.flatnonzero(np.diff(data.Y.indptr))
    if not 0 < len(labelled) < data.Y.shape[0]:
        return data
    return replace(data, X=as_csr(data.X)[labelled], Y=data.Y[labelled])


def _given(value: Any) -> Any:
    """Return a value, or None for "auto"."""
    return None if value == AUTO else value
