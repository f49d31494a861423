"""DXML: examples in a learned space, whose neighbours vote (Zhang et al., ICMR 2018).

A network puts an example on the unit sphere, z = F(x) / |F(x)|; the k training examples nearest to
a query vote for their labels, each with the weight (similarity / that of the nearest) ** power.

The paper trains z towards f_y = V y / nnz(y), where V are DeepWalk vectors of the labels on their
co-occurrence graph, by a smooth L1 distance: loss="smooth-l1", or "contrastive" or "triplet". The
default goes past it: loss="votes" trains on what prediction does, votes of neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace._core.sparse import as_csr
from labelspace.components.holdout import cut_validation
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.errors import ParameterError
from labelspace.labels.cooccurrence import MEASURES
from labelspace.labels.deepwalk import deepwalk_bytes
from labelspace.methods.base import Method
from labelspace.methods.dxml.defaults import batch, hidden_layers, learners, passes
from labelspace.methods.dxml.objective import Anchors, BatchObjective
from labelspace.methods.dxml.targets import label_points, place_labels
from labelspace.methods.dxml.voting import Rule, Voters, widened
from labelspace.methods.parameters import (
    KEEP,
    METRIC,
    PATIENCE,
    SEED,
    Parameter,
    choice,
    flag,
    integer,
    layers,
    number,
)
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import Encoder, principal_directions, unit_array
from labelspace.nn.momentum import MOMENTUM, WEIGHT_DECAY, MomentumLinear
from labelspace.nn.row_tables import OptimiserGroup, RowOptimiser
from labelspace.nn.trainer import TorchOptimiser, Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.faiss import load_faiss
from labelspace.search.inner_product import check_search
from labelspace.search.neighbours import KINDS, build_neighbours, neighbour_bytes
from labelspace.search.sparse_neighbours import SparseNeighbours

MOST_VALIDATED = 4000
BY_NEIGHBOURS, BY_TARGETS = ("neighbours", "votes"), ("smooth-l1", "contrastive", "triplet")


class DXML(Method):
    """Neighbours in a learned space vote for their labels."""

    name: ClassVar[str] = "dxml"
    has_space: ClassVar[bool] = True
    summary: ClassVar[str] = "deep embedding of examples, whose nearest neighbours vote"
    can_update: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "dim": integer("dimension of the space", low=1, high=4096),
        "hidden": layers(
            "widths of hidden ReLU layers, empty for a linear map; none: 512 for few features",
            none=True,
        ),
        "loss": choice("what training makes small", *BY_NEIGHBOURS, *BY_TARGETS),
        "scale": number("of similarities within a batch, by neighbours", low=0.1),
        "partners": flag("every example of a batch brings one that shares a label with it"),
        "margin": number("of the contrastive and triplet losses", low=0.0),
        "graph": choice("of labels, for losses by targets", "cooccurrence", "taxonomy"),
        "graph_weights": choice("of co-occurrence edges", "none", *MEASURES),
        "walks": integer("from each label; none: 10, more for few labels", low=1, none=True),
        "walk_length": integer("labels in a walk", low=2),
        "window": integer("steps of a walk that count as context", low=1),
        "deterministic": flag("label vectors by one worker, the same bits every time"),
        "keep": KEEP,
        "dropout": number("share of the last layer's outputs dropped", low=0.0, high=0.95),
        "optimiser": choice("adam, or sgd with momentum and weight decay", "adam", "sgd"),
        "lr": number("learning rate", low=0.0),
        "epochs": integer(
            "passes over the training data at most; none: about a thousand steps, 6 to 30 passes",
            low=1,
            none=True,
        ),
        "batch_size": integer("examples a step; none: 1024 for few, else 512", low=2, none=True),
        "patience": PATIENCE,
        "validation": number("share cut off for early stopping", low=0.0, high=0.5),
        "metric": METRIC,
        "neighbours": integer("that vote; none: chosen on validation data", low=1, none=True),
        "power": number(
            "votes weigh similarity to this power, 0 counts heads; none: chosen like neighbours",
            low=0.0,
            high=256.0,
            none=True,
        ),
        "raw": flag("neighbours by raw features vote too, as much as validation data say"),
        "reduce": integer(
            "dimension to which the trained space is brought, by its principal directions; none: "
            "it stays as it is",
            low=1,
            none=True,
        ),
        "ensemble": integer(
            "learners, whose votes are averaged; none: 5 for few examples, 1 for many",
            low=1,
            none=True,
        ),
        "search": choice("of neighbours", *KINDS),
        "clusters": integer("of training examples; none: by their number", low=1, none=True),
        "probes": integer("clusters searched; none: by recall", low=1, none=True),
        "recall": number("share of the true neighbours that search must find", low=0.5, high=1.0),
        "more_epochs": integer("passes over new examples in partial_fit", low=0),
        "seed": SEED,
    }

    graph_vectors_: np.ndarray | None

    def __init__(
        self,
        *,
        dim: int = 300,
        hidden: tuple[int, ...] | None = None,
        loss: str = "votes",
        scale: float = 20.0,
        partners: bool = True,
        margin: float = 1.0,
        graph: str = "cooccurrence",
        graph_weights: str = "none",
        walks: int | None = None,
        walk_length: int = 40,
        window: int = 5,
        deterministic: bool = True,
        keep: float = 0.7,
        dropout: float = 0.1,
        optimiser: str = "adam",
        lr: float = 0.005,
        epochs: int | None = None,
        batch_size: int | None = None,
        patience: int = 10,
        validation: float = 0.1,
        metric: str = "nDCG@5",
        neighbours: int | None = None,
        power: float | None = None,
        raw: bool = True,
        reduce: int | None = None,
        ensemble: int | None = None,
        search: str = "auto",
        clusters: int | None = None,
        probes: int | None = None,
        recall: float = 0.99,
        more_epochs: int = 2,
        seed: int = 0,
    ) -> None:
        self.dim = dim
        self.hidden = hidden
        self.loss = loss
        self.scale = scale
        self.partners = partners
        self.margin = margin
        self.graph = graph
        self.graph_weights = graph_weights
        self.walks = walks
        self.walk_length = walk_length
        self.window = window
        self.deterministic = deterministic
        self.keep = keep
        self.dropout = dropout
        self.optimiser = optimiser
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.patience = patience
        self.validation = validation
        self.metric = metric
        self.neighbours = neighbours
        self.power = power
        self.raw = raw
        self.reduce = reduce
        self.ensemble = ensemble
        self.search = search
        self.clusters = clusters
        self.probes = probes
        self.recall = recall
        self.more_epochs = more_epochs
        self.seed = seed

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.search in ("quantised", "hnsw"):
            load_faiss()
        if self.reduce is not None and self.loss in BY_TARGETS:
            raise ParameterError(
                f"dxml.reduce={self.reduce}: with loss={self.loss} examples are held against "
                f"label vectors, which have all {self.dim} dimensions; set dim instead"
            )

    def _fit(self, data: TrainingData) -> None:
        if self.search == "auto" and self.clusters is None and self.probes is None:
            check_search(data.X.shape[0], self.reduce or self.dim)
        X, Y, held = self._cut(data)
        self.graph_vectors_ = None
        if self.loss in BY_TARGETS:
            self.graph_vectors_ = label_points(self, Y, data.taxonomy)
        self.encoders_ = [
            self._prepared(
                Encoder.fresh(
                    X.shape[1],
                    (*hidden_layers(self.hidden, X.shape[1]), self.dim),
                    np.random.default_rng([self.seed, X.shape[1], learner]),
                )
            )
            for learner in range(learners(self.ensemble, X.shape[0]))
        ]
        usual = Rule()
        rule = Rule(
            self.neighbours or usual.neighbours, usual.power if self.power is None else self.power
        )

        def rank(queries: csr_matrix, k: int) -> Ranking:
            voters = Voters.exact(self._points(X), Y, rule)
            return voters.rank(self._points(queries), None, k)

        def rank_own(rows: np.ndarray, k: int) -> Ranking:
            return Voters.exact(self._points(X), Y, rule).rank_own(rows, k)

        def score() -> float:
            assert held is not None
            return measure(self.metric, rank(held[0], 5), held[1], Y)

        watch(data.callbacks, rank, (X, Y), held, rank_own=rank_own)
        self.history_ = self._train(
            data,
            X,
            Y,
            passes(self.epochs, self.batch_size, X.shape[0]),
            None if held is None else score,
        )
        if self.reduce is not None and self.reduce < self.dim:
            self.encoders_ = [
                encoder.projected(principal_directions(points, self.reduce))
                for encoder, points in zip(self.encoders_, self._points(X), strict=True)
            ]
        if held is not None:
            raw = SparseNeighbours.of(X) if self.raw else None
            rule = Voters.exact(self._points(X), Y, rule, raw).choose_rule(
                self._points(held[0]), *held, self.metric, self.neighbours, self.power
            )
        self._keep_voters(X, Y, rule, held, returns=data.valid is None)

    def _cut(
        self, data: TrainingData
    ) -> tuple[csr_matrix, csr_matrix, tuple[csr_matrix, csr_matrix] | None]:
        """Examples with labels, for only they can vote, and the validation cut."""
        X, Y = as_csr(data.X), data.Y
        labelled = np.flatnonzero(np.diff(Y.indptr))
        if 0 < len(labelled) < X.shape[0]:
            X, Y = X[labelled], Y[labelled]
        if data.valid is not None:
            held = (as_csr(data.valid[0]), data.valid[1])
        else:
            share = min(self.validation, MOST_VALIDATED / X.shape[0])
            rows, cut = cut_validation(X.shape[0], share, self.seed)
            held = (X[cut], Y[cut])
            X, Y = X[rows], Y[rows]
        return X, Y, held if held[1].nnz else None

    def _prepared(self, encoder: Encoder) -> Encoder:
        if self.optimiser == "sgd":
            encoder.first = MomentumLinear(encoder.first.weight)
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
            batch_size=batch(self.batch_size, X.shape[0]),
            seed=self.seed,
            schedule="linear" if self.optimiser == "adam" else "constant",
            patience=self.patience,
            callbacks=data.callbacks,
            identity=data.identity,
        )
        tensors = {
            f"{number}.{name}": tensor
            for number, encoder in enumerate(self.encoders_)
            for name, tensor in encoder.tensors().items()
        }
        objective = BatchObjective(self, self.encoders_, X, Y, anchors)
        return trainer.run(TrainingTask(tensors, objective, self._optimiser(), score), X.shape[0])

    def _optimiser(self) -> OptimiserGroup:
        sparse = {str(n): (encoder.first, self.lr) for n, encoder in enumerate(self.encoders_)}
        dense = [tensor for encoder in self.encoders_ for tensor in encoder.dense_parameters()]
        parts: dict[str, Any] = {"rows": RowOptimiser(sparse)}
        if dense and self.optimiser == "adam":
            parts["dense"] = TorchOptimiser(torch.optim.Adam(dense, lr=self.lr / 5))
        elif dense:
            sgd = torch.optim.SGD(dense, self.lr, MOMENTUM, weight_decay=WEIGHT_DECAY)
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
        """Index the examples; those cut off for validation return to vote too."""
        queries = [None] * len(self.encoders_) if held is None else self._points(held[0])
        if held is not None and returns:
            X, Y = vstack([X, held[0]], "csr"), vstack([Y, held[1]], "csr")
        indexes = [
            build_neighbours(
                points,
                rule.neighbours,
                kind=self.search,
                recall=self.recall,
                clusters=self.clusters,
                probes=self.probes,
                seed=self.seed,
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
        if self.more_epochs > 0 and len(labelled):
            # The old examples hold the space in place: their points stay as they are.
            points = [np.asarray(index.vectors) for index in self.voters_.indexes]
            anchors = Anchors(points, widened(self.voters_.Y, Y.shape[1]))
            self.encoders_ = [self._prepared(encoder.trainable()) for encoder in self.encoders_]
            self._train(data, X, Y, self.more_epochs, anchors=anchors)
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
        dim, size = params["dim"], batch(params["batch_size"], shape.points)
        n_learners = learners(params["ensemble"], shape.points)
        first = (*hidden_layers(params["hidden"], shape.features), dim)[0]
        mean = shape.label_nnz / max(1, shape.points)
        labels = min(float(shape.labels), size * mean)
        needs = {
            "the data, cut in two": shape.data_bytes,
            "the encoders, moments and the best so far": 16 * n_learners * shape.features * first,
            "the examples' points": 8 * n_learners * shape.points * (dim + max(first, dim)),
            "votes within a batch": int(16 * size * (2 * size + labels)),
            "the search index": n_learners * neighbour_bytes(shape.points, dim, params["search"]),
        }
        if params["raw"]:
            needs["neighbours by raw features"] = 3 * 8 * shape.feature_nnz + 8 * shape.features
        if params["loss"] in BY_TARGETS:
            needs["the label graph"] = 12 * shape.cooccurrences()
            needs["label vectors"] = deepwalk_bytes(shape.labels, dim)
            needs["the examples' targets"] = 4 * shape.points * dim
        return needs
