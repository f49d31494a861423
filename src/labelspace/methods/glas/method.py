"""GLaS: regularised neural embeddings and inner-product search (Guo et al., NeurIPS 2019).

An encoder phi puts an example into the space of the label vectors V; labels are ranked by

    h(x)_l = s <phi(x), v_l> + b_l

with phi(x) and v_l of length 1. Training is Algorithm 2 of the paper: a batch of examples with
input dropout, a loss over candidate labels, and the regulariser

    l_GLaS = 1/m^2 || V_b V_b^T - U_b ||_F^2,    U = 1/2 (A Z^-1 + Z^-1 A),  A = Y^T Y,  Z = diag(A)

on the batch's m labels. With lam = 0 and keep = 1 it is Algorithm 1. What goes past the paper: a
label prior b_l, label vectors that start at the centroids of their examples, rows of rare features
that start short and move slowly, since those are what such a model overfits on, and the votes of
near training examples beside the labels' scores (`components/neighbour_blend.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace._core.sparse import as_csr
from labelspace.components.holdout import parts_of
from labelspace.components.neighbour_blend import NeighbourBlend
from labelspace.components.training_counts import TrainingCounts, batch_of, dimension, row_lr_scale
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.methods.base import Method
from labelspace.methods.explanation import LabelExplanation, checked_example
from labelspace.methods.glas.explain import explain
from labelspace.methods.glas.objective import BatchObjective
from labelspace.methods.glas.update import grow, passes_to_grow
from labelspace.methods.parameters import (
    BATCH_SIZE,
    KEEP,
    METRIC,
    PATIENCE,
    RARE,
    SEED,
    VALIDATION,
    Parameter,
    choice,
    flag,
    integer,
    layers,
    number,
)
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import Encoder, unit_array
from labelspace.nn.row_tables import OptimiserGroup, RowOptimiser, RowTable
from labelspace.nn.trainer import TorchOptimiser, Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.index import InnerProductIndex
from labelspace.search.inner_product import build_index, check_search, index_bytes, restore_index
from labelspace.search.tuning import TYPICAL, evenly
from labelspace.search.voters import Voters, voter_bytes

REGULARISERS = ("none", "spread-out", "laplacian", "glas", "gravity")


class GLaS(Method):
    """Examples and labels in one space, ranked by inner product."""

    name: ClassVar[str] = "glas"
    can_explain: ClassVar[bool] = True
    has_space: ClassVar[bool] = True
    can_update: ClassVar[bool] = True
    summary: ClassVar[str] = "neural embedding with a label-graph regulariser, inner-product search"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "dim": integer(
            "dimension of the space; none: 512, or 1024 above 25,000 labels",
            low=1,
            high=4096,
            none=True,
        ),
        "hidden": layers("widths of hidden ReLU layers; none is a linear map"),
        "loss": choice("what a batch is trained on", "binary", "softmax", "margin", "mined-margin"),
        "margin": number("of the margin losses", low=0.0),
        "hardest": integer("negatives that the mined margin loss looks at", low=1),
        "negatives": choice(
            "labels scored beside a batch's own", "in-batch", "uniform", "frequency", "hard", "all"
        ),
        "n_negatives": integer("how many of them", low=0),
        "regulariser": choice("on the label vectors", *REGULARISERS),
        "lam": number("weight of the regulariser", low=0.0),
        "target": choice(
            "co-occurrence measure of glas", "arithmetic", "geometric", "jaccard", "pmi"
        ),
        "keep": KEEP,
        "rare": RARE,
        "scale": number("where the trained scale of inner products begins", low=0.1),
        "weight_norm": flag("of the sparse layer; hidden layers always have it"),
        "unit_inputs": flag("examples have length 1"),
        "unit_labels": flag("label vectors have length 1"),
        "prior": flag("a trained bias a label, begun at its log odds"),
        "init": choice("where label vectors begin", "centroid", "random"),
        "epochs": integer("passes over the training data at most", low=1),
        "batch_size": BATCH_SIZE,
        "lr": number("learning rate of Adam", low=0.0),
        "patience": PATIENCE,
        "validation": VALIDATION,
        "metric": METRIC,
        "neighbours": integer("training examples that vote; 0: none, as in the paper", low=0),
        "precision": choice("of the product of examples and labels", "float32", "bfloat16"),
        "recall": number(
            "share of the best 5 labels that search must find; none: 0.95 if examples vote, who "
            "name what it misses, else 0.998",
            low=0.5,
            high=1.0,
            none=True,
        ),
        "seed": SEED,
    }

    def __init__(
        self,
        *,
        dim: int | None = None,
        hidden: tuple[int, ...] = (),
        loss: str = "binary",
        margin: float = 1.0,
        hardest: int = 10,
        negatives: str = "uniform",
        n_negatives: int = 1000,
        regulariser: str = "glas",
        lam: float = 0.1,
        target: str = "arithmetic",
        keep: float = 0.8,
        rare: float | None = None,
        scale: float = 20.0,
        weight_norm: bool = False,
        unit_inputs: bool = True,
        unit_labels: bool = True,
        prior: bool = True,
        init: str = "centroid",
        epochs: int = 8,
        batch_size: int | None = None,
        lr: float = 0.004,
        patience: int = 2,
        validation: float | None = None,
        metric: str = "nDCG@5",
        neighbours: int = 10,
        precision: str = "float32",
        recall: float | None = None,
        seed: int = 0,
    ) -> None:
        self.dim = dim
        self.hidden = hidden
        self.loss = loss
        self.margin = margin
        self.hardest = hardest
        self.negatives = negatives
        self.n_negatives = n_negatives
        self.regulariser = regulariser
        self.lam = lam
        self.target = target
        self.keep = keep
        self.rare = rare
        self.scale = scale
        self.weight_norm = weight_norm
        self.unit_inputs = unit_inputs
        self.unit_labels = unit_labels
        self.prior = prior
        self.init = init
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.patience = patience
        self.validation = validation
        self.metric = metric
        self.neighbours = neighbours
        self.precision = precision
        self.recall = recall
        self.seed = seed

    def _fit(self, data: TrainingData) -> None:
        X, Y, valid, numbers = parts_of(data, self.validation, self.seed)
        rng = np.random.default_rng([self.seed, X.shape[1]])
        self.counts_ = TrainingCounts.of(X, Y)
        self.dim_ = dimension(self.dim, int(np.count_nonzero(self.counts_.labels)))
        check_search(Y.shape[1], self.dim_ + 1)
        self.encoder_ = Encoder.fresh(
            *(X.shape[1], (*self.hidden, self.dim_), rng),
            row_lr_scale=row_lr_scale(self.rare, self.counts_.features, self.counts_.labels),
            weight_norm=self.weight_norm,
        )
        self.table_ = RowTable(self._first_vectors(X, Y, rng))
        bias = self.counts_.log_odds() if self.prior else np.zeros(Y.shape[1], np.float32)
        self.bias_ = torch.from_numpy(bias).requires_grad_(self.prior)
        self.scale_ = torch.tensor(float(self.scale), requires_grad=True)
        score = None if valid is None else lambda: self._score(*valid, Y)
        watch(data.callbacks, self._rank_exactly, (X, Y), valid)
        self.history_ = self.train(BatchObjective(self, X, Y), data, self.epochs, score)
        self.encoder_.fold()
        self._finish(X, Y, valid)
        if valid is not None and data.valid is None:  # nobody is left out of the vote
            self._add_voters(*valid)
            self.counts_ = self.counts_.plus(*valid)
            if self.blend_.voters is not None:
                self.blend_.voters = self.blend_.voters.renumbered(numbers)

    def train(
        self,
        objective: BatchObjective,
        data: TrainingData,
        epochs: int,
        score: Callable[[], float] | None = None,
    ) -> list[dict[str, float]]:
        """Minimise the objective over its examples; returns the history."""
        trainer = Trainer(
            epochs=epochs,
            batch_size=batch_of(self.batch_size, objective.X.shape[0]),
            seed=self.seed,
            schedule="linear",
            patience=self.patience,
            # The objective first: a checkpoint holds what it did at the end of an epoch.
            callbacks=[objective, *data.callbacks],
            identity=data.identity,
        )
        tensors = {**self._tensors(), **objective.tensors()}
        learner = TrainingTask(tensors, objective, self._optimiser(), score)
        return trainer.run(learner, objective.X.shape[0])

    def _finish(
        self, X: csr_matrix, Y: csr_matrix, valid: tuple[csr_matrix, csr_matrix] | None
    ) -> None:
        """All that is built on the trained vectors: index, voters, calibration."""
        z = None if valid is None else self.embed(valid[0])
        queries = None if z is None else self._queries(z)
        voters = None
        if self.neighbours:
            voters = Voters.build(self.embed, X, Y, self.seed, z)
        typical = None
        if queries is not None:  # examples of training, too, where few were cut off
            more = evenly(X.shape[0], max(0, TYPICAL - len(queries)))
            typical = np.concatenate([queries, self.queries(X[more])])
        self.blend_ = NeighbourBlend(self.build_index(typical), voters, self.neighbours)
        if valid is not None and z is not None and queries is not None:
            held = valid[1]
            self.blend_.fit(
                *(z, queries, held),
                lambda *best: measure(self.metric, Ranking(*best), held, Y),
            )

    def _add_voters(self, X: csr_matrix, Y: csr_matrix) -> None:
        if self.blend_.voters is not None:
            self.blend_.voters = self.blend_.voters.extended(self.embed, X, Y)

    def _partial_fit(self, data: TrainingData) -> None:
        """See `glas_growth`: the space keeps its shape, and rows move as far as is new of them."""
        X, Y = as_csr(data.X), data.Y
        objective = grow(self, X, Y)
        self.train(objective, data, passes_to_grow(self, X.shape[0]))
        before, voters = self.blend_.index, self.blend_.voters
        typical = self.queries(X)
        if voters is not None and self.unit_inputs:  # what is kept of the examples before
            old = voters.points(evenly(len(voters), max(0, TYPICAL - len(typical))))
            typical = np.concatenate([typical, self._queries(old)])
        index = self.blend_.index = self.build_index(typical, at_least=before)
        if index.kind == before.kind:
            # New examples may be few or of one kind: what was measured on the cut counts too.
            index.recall = min(index.recall, before.recall)
        self._add_voters(X, Y)

    def _first_vectors(self, X: csr_matrix, Y: csr_matrix, rng: np.random.Generator) -> np.ndarray:
        """Centroids of the labels' examples, or random; labels without examples are random."""
        vectors = unit_array(rng.standard_normal((Y.shape[1], self.dim_), np.float32))
        if self.init == "centroid":
            centroids = np.asarray(Y.T @ unit_array(self.encoder_.encode(X)), np.float32)
            found = np.abs(centroids).max(axis=1) > 0
            vectors[found] = unit_array(centroids[found])
        return vectors

    def _optimiser(self) -> OptimiserGroup:
        tables = {"encoder": (self.encoder_.first, self.lr), "labels": (self.table_, self.lr)}
        dense = [
            {"params": [self.scale_], "lr": 0.01},
            {"params": self.encoder_.dense_parameters(), "lr": self.lr / 5},
        ]
        if self.prior:
            dense.append({"params": [self.bias_], "lr": self.lr})
        adam = torch.optim.Adam([group for group in dense if group["params"]])
        return OptimiserGroup({"rows": RowOptimiser(tables), "dense": TorchOptimiser(adam)})

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {
            **self.encoder_.tensors(),
            "labels": torch.from_numpy(self.table_.weight),
            "bias": self.bias_,
            "scale": self.scale_,
        }

    def embed(self, X: Any) -> np.ndarray:
        """The examples' points in the space, (n, dim)."""
        z = self.encoder_.encode(as_csr(X))
        return unit_array(z) if self.unit_inputs else z

    @property
    def label_vectors_(self) -> np.ndarray:
        """The labels' points in the space, (labels, dim)."""
        return unit_array(self.table_.weight) if self.unit_labels else self.table_.weight

    def queries(self, X: csr_matrix) -> np.ndarray:
        """The examples' points as `build_index`'s vectors meet them."""
        return self._queries(self.embed(X))

    def _queries(self, z: np.ndarray) -> np.ndarray:
        """Points with a one at the end, which meets the labels' biases."""
        return np.hstack([z, np.ones((len(z), 1), np.float32)])

    def _search_vectors(self) -> np.ndarray:
        """Label vectors times the scale, with the bias at the end: <query, vector> is h(x)_l."""
        bias = self.bias_.detach().numpy()[:, None]
        scaled = np.float32(self.scale_.item()) * self.label_vectors_
        return np.ascontiguousarray(np.hstack([scaled, bias]), np.float32)

    def build_index(
        self,
        queries: np.ndarray | None,
        recall: float | None = None,
        at_least: InnerProductIndex | None = None,
    ) -> InnerProductIndex:
        """An index over the labels as they are now: <query, vector> is h(x)_l."""
        # Approximate search misses rare labels first, and those are what votes bring back.
        recall = recall or self.recall or (0.95 if self.neighbours else 0.998)
        return build_index(
            self._search_vectors(),
            recall=recall,
            seed=self.seed,
            queries=queries,
            at_least=at_least,
        )

    def _score(self, X: csr_matrix, Y: csr_matrix, Y_train: csr_matrix) -> float:
        return measure(self.metric, self._rank_exactly(X, min(5, Y.shape[1])), Y, Y_train)

    def _rank_exactly(self, X: csr_matrix, k: int) -> Ranking:
        """Rank by the vectors of the moment, without votes; scores are not calibrated."""
        exact = build_index(self._search_vectors(), kind="exact")
        return Ranking(*exact.search(self.queries(X), k))

    def _predict(self, X: Features, k: int) -> Ranking:
        z = self.embed(X)
        return Ranking(*self.blend_.rank(z, self._queries(z), k))

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Why the one example X is given the label, or how far it is from it."""
        self._check_fitted()
        return explain(self, checked_example(self, X, label), label, k)

    def logits(self, X: csr_matrix, labels: np.ndarray) -> np.ndarray:
        """h(x)_l of every example for these labels, (n, labels), before calibration."""
        return np.asarray(self.queries(X) @ self.blend_.index.vectors[labels].T)

    def metadata(self) -> dict[str, Any]:
        index, blend = self.blend_.index, self.blend_
        metadata: dict[str, Any] = {"search": {"kind": index.kind, "recall@5": index.recall}}
        if blend.voters is not None:
            metadata["votes"] = {"share": float(blend.numbers[2]), "examples": len(blend.voters)}
        return metadata

    def state(self) -> dict[str, np.ndarray]:
        parts = {"index": self.blend_.index.state(), "counts": self.counts_.state()}
        if self.blend_.voters is not None:
            parts["voters"] = self.blend_.voters.state()
        return {
            **self.encoder_.arrays(),
            "labels": self.table_.weight,
            "bias": self.bias_.detach().numpy(),
            "scale": self.scale_.detach().numpy(),
            "blend": self.blend_.numbers,
            **{f"{part}.{name}": a for part, arrays in parts.items() for name, a in arrays.items()},
        }

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.encoder_ = Encoder.restore(arrays, self.n_features_in_)
        holds = (
            are_numbers(arrays["labels"], self.n_labels_, self.encoder_.dim)
            and are_numbers(arrays["bias"], self.n_labels_)
            and arrays["scale"].size == 1
            and are_numbers(arrays["blend"], 5)
        )
        expect(holds, "the vectors of the labels do not fit the encoder")
        self.table_ = RowTable.frozen(arrays["labels"])
        self.dim_ = self.table_.weight.shape[1]
        self.bias_ = torch.from_numpy(np.array(arrays["bias"]))
        self.scale_ = torch.from_numpy(np.array(arrays["scale"]))
        index = restore_index(self._search_vectors(), with_prefix("index.", arrays))
        voters = with_prefix("voters.", arrays)
        self.counts_ = TrainingCounts(**with_prefix("counts.", arrays))
        self.blend_ = NeighbourBlend(
            index,
            Voters.restore(voters, *self.table_.weight.shape) if voters else None,
            self.neighbours,
            arrays["blend"],
        )

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        dim = dimension(params["dim"], shape.labels)
        first = (*params["hidden"], dim)[0]
        batch = batch_of(params["batch_size"], shape.points)
        drawn = 8 * batch + params["n_negatives"]
        candidates = shape.labels if params["negatives"] == "all" else min(drawn, shape.labels)
        needs = {
            "the data, cut in two": shape.data_bytes,
            "the encoder, moments and the best so far": 16 * shape.features * first,
            "label vectors, moments and the best so far": 20 * shape.labels * dim,
            "label vectors as they are searched": 12 * shape.labels * dim,
            "scores of a batch": 12 * batch * candidates,
            "the search index": index_bytes(shape.labels, dim + 1),
        }
        if params["regulariser"] in ("glas", "laplacian") and params["lam"] > 0:
            needs["the label graph"] = 12 * shape.cooccurrences()
        if params["init"] == "centroid":
            widest = max(*params["hidden"], dim) if params["hidden"] else dim
            needs["points of all examples, for label centroids"] = 8 * shape.points * widest
        if params["neighbours"]:
            needs["training examples that vote"] = voter_bytes(shape.points)
        return needs
