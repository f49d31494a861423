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

from labelspace._core.arrays import joined_parts, with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace._core.sparse import as_csr
from labelspace.components.holdout import HoldOut
from labelspace.components.neighbour_blend import BlendParameters, NeighbourBlend
from labelspace.components.training_counts import (
    TrainingCounts,
    default_batch_size,
)
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.base import Method
from labelspace.methods.explanation import LabelExplanation, checked_example
from labelspace.methods.glas.defaults import resolve
from labelspace.methods.glas.explain import explain
from labelspace.methods.glas.objective import BatchObjective
from labelspace.methods.glas.update import grow, passes_to_grow
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
    flag,
    integer,
    layers,
    number,
)
from labelspace.metrics.ranking import measure
from labelspace.nn.encoder import Encoder, unit_array
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.row_tables import RowTable
from labelspace.nn.trainer import Trainer, TrainingTask
from labelspace.ranking import Ranking
from labelspace.runs.history import watch
from labelspace.search.build import build_index, check_search, index_bytes, restore_index
from labelspace.search.index import InnerProductIndex
from labelspace.search.neighbours.compressed import CompressedExamples, compressed_bytes
from labelspace.search.tuning import TYPICAL, evenly


class GLaS(Method):
    """Examples and labels in one space, ranked by inner product."""

    name: ClassVar[str] = "glas"
    can_explain: ClassVar[bool] = True
    has_space: ClassVar[bool] = True
    can_update: ClassVar[bool] = True
    summary: ClassVar[str] = "neural embedding with a label-graph regulariser, inner-product search"

    dim: int | Auto = integer(
        "Dimension of the space.",
        default=AUTO,
        group="usual",
        low=1,
        high=4096,
        auto="512, or 1024 above 25,000 labels",
    )
    hidden: tuple[int, ...] | None = layers(
        "Widths of hidden ReLU layers of the encoder.",
        default=None,
        group="paper",
        none="the encoder is linear",
    )
    loss: str = choice(
        "Loss of a batch.",
        "binary",
        "softmax",
        "margin",
        "mined-margin",
        default="binary",
        group="paper",
    )
    margin: float = number("Margin of the margin losses.", default=1.0, group="paper", low=0.0)
    hardest: int = integer(
        "Number of highest-scoring negatives in the mined margin loss.",
        default=10,
        group="paper",
        low=1,
    )
    negatives: str = choice(
        "How to sample the labels that are scored beside those of the batch.",
        "in-batch",
        "uniform",
        "frequency",
        "hard",
        "all",
        default="uniform",
        group="paper",
    )
    n_negatives: int = integer("Number of sampled labels per batch.", default=1000, low=0)
    regulariser: str | None = choice(
        "Regulariser of the label vectors.",
        "spread-out",
        "laplacian",
        "glas",
        "gravity",
        default="glas",
        group="paper",
        none="no regulariser",
    )
    lam: float = number("Weight of the regulariser.", default=0.1, group="paper", low=0.0)
    target: str = choice(
        "Co-occurrence measure that the GLaS regulariser approximates.",
        "arithmetic",
        "geometric",
        "jaccard",
        "pmi",
        default="arithmetic",
        group="paper",
    )
    keep: float = KEEP
    feature_damping: float | Auto | None = FEATURE_DAMPING
    scale: float = number(
        "Initial value of the trained scale of inner products.", default=20.0, low=0.1
    )
    unit_inputs: bool = flag(
        "Scale the examples' vectors to length 1.", default=True, group="paper"
    )
    unit_labels: bool = flag("Scale the label vectors to length 1.", default=True, group="paper")
    prior: bool = flag("Train a bias per label, initialised at its log odds.", default=True)
    init: str = choice(
        "Initial label vectors: centroids of the labels' examples, or random.",
        "centroid",
        "random",
        default="centroid",
    )
    epochs: int = integer(
        "Maximum number of passes over the training data.", default=8, group="usual", low=1
    )
    batch_size: int | Auto = BATCH_SIZE
    lr: float = number("Learning rate of Adam.", default=0.004, group="usual", low=0.0)
    patience: int = PATIENCE
    validation: float | Auto = VALIDATION
    metric: str = METRIC
    neighbours: int = integer(
        "Number of nearest training examples that vote beside the labels' scores; 0, as in the "
        "paper, ranks by the labels' scores alone.",
        default=10,
        group="usual",
        low=0,
    )
    recall: float | Auto = number(
        "Share of the best 5 labels that approximate search has to find.",
        default=AUTO,
        group="usual",
        low=0.5,
        high=1.0,
        auto="0.95 if training examples vote, which add what search misses, else 0.998",
    )
    seed: int = SEED

    @classmethod
    def _resolve(cls, params: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
        return resolve(params, shape)

    def _fit(self, data: TrainingData) -> None:
        hold_out = HoldOut.of(data, self.params_.validation, self.params_.seed)
        X, Y, valid = hold_out.X, hold_out.Y, hold_out.valid
        rng = np.random.default_rng([self.params_.seed, X.shape[1]])
        self.counts_ = TrainingCounts.of(X, Y)
        check_search(Y.shape[1], self.params_.dim + 1)
        self.encoder_ = Encoder.fresh(
            *(X.shape[1], (*self.params_.hidden, self.params_.dim), rng),
            row_lr_scale=self.counts_.row_lr_scale(self.params_.feature_damping),
        )
        self.table_ = RowTable(self._first_vectors(X, Y, rng))
        bias = self.counts_.log_odds() if self.params_.prior else np.zeros(Y.shape[1], np.float32)
        self.bias_ = torch.from_numpy(bias).requires_grad_(self.params_.prior)
        self.scale_ = torch.tensor(float(self.params_.scale), requires_grad=True)
        counts = LabelCounts.of(Y)
        score = None if valid is None else lambda: self._score(*valid, counts)
        watch(data.callbacks, self._rank_exactly, (X, Y), valid)
        self.history_ = self.train(BatchObjective(self, X, Y), data, self.params_.epochs, score)
        self.encoder_.fold()
        self._finish(X, Y, valid)
        if valid is not None and len(hold_out.held_rows):
            self.blend_.add_examples(self.embed, *valid)
            self.counts_ = self.counts_.plus(*valid)
            if self.blend_.voters is not None:
                rows = np.concatenate([hold_out.train_rows, hold_out.held_rows])
                self.blend_.voters = self.blend_.voters.renumbered(rows)

    def train(
        self,
        objective: BatchObjective,
        data: TrainingData,
        epochs: int,
        score: Callable[[], float] | None = None,
        batch_size: int | None = None,
    ) -> list[dict[str, float]]:
        """Minimise the objective over its examples; returns the history."""
        trainer = Trainer(
            epochs=epochs,
            batch_size=batch_size or self.params_.batch_size,
            seed=self.params_.seed,
            schedule="linear",
            patience=self.params_.patience,
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
        if self.params_.neighbours:
            voters = CompressedExamples.build(self.embed, X, Y, self.params_.seed, z)
        typical = None
        if queries is not None:  # examples of training, too, where few were cut off
            more = evenly(X.shape[0], max(0, TYPICAL - len(queries)))
            typical = np.concatenate([queries, self.queries(X[more])])
        self.blend_ = NeighbourBlend(self.build_index(typical), voters, self.params_.neighbours)
        if valid is not None and z is not None and queries is not None:
            held, counts = valid[1], LabelCounts.of(Y)
            self.blend_.fit(
                *(z, queries, held),
                lambda *best: measure(self.params_.metric, Ranking(*best), held, counts),
            )

    def _partial_fit(self, data: TrainingData) -> None:
        """Extend the space to further examples and labels; see `update.py`."""
        X, Y = as_csr(data.X), data.Y
        objective = grow(self, X, Y)
        batch_size = self.batch_size
        if batch_size == AUTO:
            batch_size = default_batch_size(X.shape[0])
        epochs = passes_to_grow(self.params_.epochs, X.shape[0], batch_size)
        self.train(objective, data, epochs, batch_size=batch_size)
        before, voters = self.blend_.index, self.blend_.voters
        typical = self.queries(X)
        if voters is not None and self.params_.unit_inputs:  # what is kept of the examples before
            old = voters.points(evenly(len(voters), max(0, TYPICAL - len(typical))))
            typical = np.concatenate([typical, self._queries(old)])
        index = self.blend_.index = self.build_index(typical, at_least=before)
        if index.kind == before.kind:
            # New examples may be few or of one kind: what was measured on the cut counts too.
            index.recall = min(index.recall, before.recall)
        self.blend_.add_examples(self.embed, X, Y)

    def _first_vectors(self, X: csr_matrix, Y: csr_matrix, rng: np.random.Generator) -> np.ndarray:
        """Centroids of the labels' examples, or random; labels without examples are random."""
        vectors = unit_array(rng.standard_normal((Y.shape[1], self.params_.dim), np.float32))
        if self.params_.init == "centroid":
            centroids = np.asarray(Y.T @ unit_array(self.encoder_.encode(X)), np.float32)
            found = np.abs(centroids).max(axis=1) > 0
            vectors[found] = unit_array(centroids[found])
        return vectors

    def _optimiser(self) -> OptimiserGroup:
        tables = {
            "encoder": (self.encoder_.input_layer, self.params_.lr),
            "labels": (self.table_, self.params_.lr),
        }
        dense = [
            {"params": [self.scale_], "lr": 0.01},
            {"params": self.encoder_.dense_parameters(), "lr": self.params_.lr / 5},
        ]
        if self.params_.prior:
            dense.append({"params": [self.bias_], "lr": self.params_.lr})
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
        return unit_array(z) if self.params_.unit_inputs else z

    @property
    def label_vectors_(self) -> np.ndarray:
        """The labels' points in the space, (labels, dim)."""
        return unit_array(self.table_.weight) if self.params_.unit_labels else self.table_.weight

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
        return build_index(
            self._search_vectors(),
            recall=recall or self.params_.recall,
            seed=self.params_.seed,
            queries=queries,
            at_least=at_least,
        )

    def _score(self, X: csr_matrix, Y: csr_matrix, counts: LabelCounts) -> float:
        return measure(self.params_.metric, self._rank_exactly(X, min(5, Y.shape[1])), Y, counts)

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
            share = blend.parameters.neighbour_share
            metadata["votes"] = {"share": share, "examples": len(blend.voters)}
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
            "blend": np.array(self.blend_.parameters),
            **joined_parts(parts),
        }

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.encoder_ = Encoder.restore(arrays, self.n_features_in_)
        holds = (
            are_numbers(arrays["labels"], self.n_labels_, self.encoder_.dim)
            and are_numbers(arrays["bias"], self.n_labels_)
            and arrays["scale"].size == 1
        )
        expect(holds, "the vectors of the labels do not fit the encoder")
        self.table_ = RowTable.frozen(arrays["labels"])
        self.bias_ = torch.from_numpy(np.array(arrays["bias"]))
        self.scale_ = torch.from_numpy(np.array(arrays["scale"]))
        index = restore_index(self._search_vectors(), with_prefix("index.", arrays))
        voters = with_prefix("voters.", arrays)
        self.counts_ = TrainingCounts(**with_prefix("counts.", arrays))
        self.blend_ = NeighbourBlend(
            index,
            CompressedExamples.restore(voters, *self.table_.weight.shape) if voters else None,
            self.params_.neighbours,
            BlendParameters.restore(arrays["blend"]),
        )

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        dim = params["dim"]
        first = (*params["hidden"], dim)[0]
        batch = params["batch_size"]
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
            needs["training examples that vote"] = compressed_bytes(shape.points)
        return needs
