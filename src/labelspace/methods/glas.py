"""GLaS: regularised neural embeddings and inner-product search (Guo et al., NeurIPS 2019).

An encoder phi puts an example into the space of the label vectors V; labels are ranked by

    h(x)_l = s <phi(x), v_l> + b_l

with phi(x) and v_l of length 1. Training is Algorithm 2 of the paper: a batch of examples with
input dropout, a loss over candidate labels, and the regulariser

    l_GLaS = 1/m^2 || V_b V_b^T - U_b ||_F^2,    U = 1/2 (A Z^-1 + Z^-1 A),  A = Y^T Y,  Z = diag(A)

on the batch's m labels. With lam = 0 and keep = 1 it is Algorithm 1. What goes past the paper: a
label prior b_l, label vectors that start at the centroids of their examples, and rows of rare
features that start short and move slowly, since those are what such a model overfits on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Features
from labelspace.evaluation.metrics import evaluate
from labelspace.methods.base import Method, Shape, TrainingData, as_csr
from labelspace.methods.glas_objective import BatchObjective
from labelspace.methods.parameters import (
    SEED,
    Parameter,
    choice,
    flag,
    integer,
    layers,
    number,
)
from labelspace.methods.ranking import Ranking
from labelspace.nn.calibration import fit_platt
from labelspace.nn.encoder import Encoder, unit_array
from labelspace.nn.rows import RowAdam, RowTable, SparseLinear, Together
from labelspace.nn.trainer import Learner, TorchOptimiser, Trainer, cut_validation
from labelspace.search.inner_product import build_index, index_bytes, restore_index

MOST_VALIDATED = 4000
RARE_PER_LABEL = 3.0
REGULARISERS = ("none", "spread-out", "laplacian", "glas", "gravity")


class GLaS(Method):
    """Examples and labels in one space, ranked by inner product."""

    name: ClassVar[str] = "glas"
    summary: ClassVar[str] = "neural embedding with a label-graph regulariser, inner-product search"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "dim": integer("dimension of the space", low=1, high=4096),
        "hidden": layers("widths of hidden ReLU layers; none is a linear map"),
        "loss": choice("what a batch is trained on", "binary", "softmax", "margin", "mined-margin"),
        "margin": number("of the margin losses", low=0.0),
        "hardest": integer("negatives that the mined margin loss looks at", low=1),
        "negatives": choice(
            "labels scored beside the batch's own",
            "in-batch",
            "uniform",
            "frequency",
            "all",
        ),
        "n_negatives": integer("how many of them", low=0),
        "regulariser": choice("on the label vectors", *REGULARISERS),
        "lam": number("weight of the regulariser", low=0.0),
        "target": choice(
            "co-occurrence measure of glas", "arithmetic", "geometric", "jaccard", "pmi"
        ),
        "keep": number("share of the input features that dropout keeps", low=0.05, high=1.0),
        "rare": number(
            "features in fewer examples are damped; 0: no damping, none: chosen from the data",
            low=0.0,
            none=True,
        ),
        "scale": number("where the trained scale of inner products begins", low=0.1),
        "unit_inputs": flag("examples have length 1"),
        "unit_labels": flag("label vectors have length 1"),
        "prior": flag("a trained bias a label, begun at its log odds"),
        "init": choice("where label vectors begin", "centroid", "random"),
        "epochs": integer("passes over the training data at most", low=1),
        "batch_size": integer("examples a step", low=1),
        "lr": number("learning rate of Adam", low=0.0),
        "patience": integer("epochs without a better validation score before it stops", low=1),
        "validation": number("share cut off for early stopping", low=0.0, high=0.5),
        "metric": choice("validation score", "P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@5"),
        "recall": number("share of the true best 5 that search must find", low=0.5, high=1.0),
        "seed": SEED,
    }

    def __init__(
        self,
        *,
        dim: int = 512,
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
        unit_inputs: bool = True,
        unit_labels: bool = True,
        prior: bool = True,
        init: str = "centroid",
        epochs: int = 8,
        batch_size: int = 512,
        lr: float = 0.004,
        patience: int = 2,
        validation: float = 0.02,
        metric: str = "nDCG@5",
        recall: float = 0.998,
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
        self.recall = recall
        self.seed = seed

    def _fit(self, data: TrainingData) -> None:
        X, Y, valid = self._cut(data)
        rng = np.random.default_rng([self.seed, X.shape[1]])
        self.encoder_ = Encoder.fresh(
            X.shape[1], (*self.hidden, self.dim), rng, pace=self._pace(X, Y)
        )
        self.table_ = RowTable(self._first_vectors(X, Y, rng))
        self.bias_ = torch.from_numpy(self._log_odds(Y)).requires_grad_(self.prior)
        self.scale_ = torch.tensor(float(self.scale), requires_grad=True)
        objective = BatchObjective(self, X, Y)
        trainer = Trainer(
            epochs=self.epochs,
            batch_size=self.batch_size,
            seed=self.seed,
            schedule="linear",
            patience=self.patience,
            callbacks=data.callbacks,
            identity=data.identity,
        )
        score = None if valid is None else lambda: self._score(*valid, Y)
        learner = Learner(self._tensors(), objective, self._optimiser(), score)
        self.history_ = trainer.run(learner, X.shape[0])
        self.calibration_ = np.array([1.0, 0.0])
        if valid is not None:
            self.calibration_ = self._calibrate(*valid)
        self._index(None if valid is None else self._queries(valid[0]))

    def _cut(
        self, data: TrainingData
    ) -> tuple[csr_matrix, csr_matrix, tuple[csr_matrix, csr_matrix] | None]:
        """Training rows that have labels and features, and the validation cut."""
        X, Y = as_csr(data.X), data.Y
        if data.valid is not None:
            held = (as_csr(data.valid[0]), data.valid[1])
        else:
            rows, cut = cut_validation(X.shape[0], self.validation, self.seed)
            held = (X[cut[:MOST_VALIDATED]], Y[cut[:MOST_VALIDATED]])
            X, Y = X[rows], Y[rows]
        return X, Y, held if held[1].nnz else None

    def _pace(self, X: csr_matrix, Y: csr_matrix) -> np.ndarray | None:
        """How far a feature's row may go: sqrt(examples / rare), at most 1.

        The rule for `rare`, from validation cuts of three sets: a few times the examples that a
        label has on average. Labels with many examples can be told apart by frequent features;
        labels with few need the rare ones.
        """
        rare = self.rare
        if rare is None:
            rare = RARE_PER_LABEL * Y.nnz / max(1, np.count_nonzero(np.bincount(Y.indices)))
        if rare == 0:
            return None
        examples = np.bincount(X.indices, minlength=X.shape[1])
        return np.sqrt(np.minimum(1.0, (examples + 1) / rare)).astype(np.float32)

    def _first_vectors(self, X: csr_matrix, Y: csr_matrix, rng: np.random.Generator) -> np.ndarray:
        """Centroids of the labels' examples, or random; labels without examples are random."""
        vectors = unit_array(rng.standard_normal((Y.shape[1], self.dim), np.float32))
        if self.init == "centroid":
            centroids = np.asarray(Y.T @ unit_array(self.encoder_.encode(X)), np.float32)
            found = np.abs(centroids).max(axis=1) > 0
            vectors[found] = unit_array(centroids[found])
        return vectors

    def _log_odds(self, Y: csr_matrix) -> np.ndarray:
        if not self.prior:
            return np.zeros(Y.shape[1], np.float32)
        share = (np.bincount(Y.indices, minlength=Y.shape[1]) + 0.5) / (Y.shape[0] + 1.0)
        return np.asarray(np.log(share / (1.0 - share)), np.float32)

    def _optimiser(self) -> Together:
        tables = {"encoder": (self.encoder_.first, self.lr), "labels": (self.table_, self.lr)}
        dense = [
            {"params": [self.scale_], "lr": 0.01},
            {"params": self.encoder_.dense_parameters(), "lr": self.lr / 5},
        ]
        if self.prior:
            dense.append({"params": [self.bias_], "lr": self.lr})
        adam = torch.optim.Adam([group for group in dense if group["params"]])
        return Together({"rows": RowAdam(tables), "dense": TorchOptimiser(adam)})

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

    def _queries(self, X: csr_matrix) -> np.ndarray:
        """Points with a one at the end, which meets the labels' biases."""
        return np.hstack([self.embed(X), np.ones((X.shape[0], 1), np.float32)])

    def _search_vectors(self) -> np.ndarray:
        """Label vectors times the scale, with the bias at the end: <query, vector> is h(x)_l."""
        bias = self.bias_.detach().numpy()[:, None]
        scaled = np.float32(self.scale_.item()) * self.label_vectors_
        return np.ascontiguousarray(np.hstack([scaled, bias]), np.float32)

    def _index(self, queries: np.ndarray | None) -> None:
        self.index_ = build_index(
            self._search_vectors(), recall=self.recall, seed=self.seed, queries=queries
        )

    def _score(self, X: csr_matrix, Y: csr_matrix, Y_train: csr_matrix) -> float:
        labels, logits = build_index(self._search_vectors(), kind="exact").search(
            self._queries(X), min(5, Y.shape[1])
        )
        ks = (int(self.metric.partition("@")[2]),)
        found = evaluate(Ranking(labels, logits), Y, Y_train, ks=ks, bands=False)
        return float(found[self.metric])

    def _calibrate(self, X: csr_matrix, Y: csr_matrix) -> np.ndarray:
        """Platt's two numbers on the validation cut, so that scores are probabilities."""
        exact = build_index(self._search_vectors(), kind="exact")
        labels, logits = exact.search(self._queries(X), min(20, Y.shape[1]))
        hits = np.asarray(Y[np.arange(len(labels))[:, None], labels].todense()) > 0
        return fit_platt(logits.ravel(), hits.ravel())

    def _predict(self, X: Features, k: int) -> Ranking:
        labels, logits = self.index_.search(self._queries(as_csr(X)), k)
        slope, offset = self.calibration_
        scores = 1.0 / (1.0 + np.exp(-np.clip(slope * logits + offset, -60.0, 60.0)))
        scores[labels < 0] = 0.0
        return Ranking(labels, scores.astype(np.float32))

    def facts(self) -> dict[str, Any]:
        return {"search": {"kind": self.index_.kind, "recall@5": self.index_.recall}}

    def state(self) -> dict[str, np.ndarray]:
        index = {f"index.{name}": array for name, array in self.index_.state().items()}
        return {
            **self.encoder_.arrays(),
            "labels": self.table_.weight,
            "bias": self.bias_.detach().numpy(),
            "scale": self.scale_.detach().numpy(),
            "calibration": self.calibration_,
            **index,
        }

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        first = SparseLinear.frozen(arrays["encoder.first"])
        hidden = [
            {
                part: torch.from_numpy(np.array(arrays[f"encoder.{number}.{part}"]))
                for part in ("direction", "length", "bias")
            }
            for number in range(len(self.hidden))
        ]
        self.encoder_ = Encoder(first, hidden)
        self.table_ = RowTable.frozen(arrays["labels"])
        self.bias_ = torch.from_numpy(np.array(arrays["bias"]))
        self.scale_ = torch.from_numpy(np.array(arrays["scale"]))
        self.calibration_ = arrays["calibration"]
        prefix = "index."
        index = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
        self.index_ = restore_index(self._search_vectors(), index)

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        first = (*params["hidden"], params["dim"])[0]
        candidates = shape.labels if params["negatives"] == "all" else 8 * params["batch_size"]
        needs = {
            "the encoder, moments and the best so far": 16 * shape.features * first,
            "label vectors, moments and the best so far": 20 * shape.labels * params["dim"],
            "scores of a batch": 12 * params["batch_size"] * (candidates + params["n_negatives"]),
            "the search index": index_bytes(shape.labels, params["dim"] + 1),
        }
        if params["regulariser"] in ("glas", "laplacian") and params["lam"] > 0:
            mean = shape.label_nnz / max(1, shape.points)
            needs["the label graph"] = int(12 * shape.label_nnz * min(100.0, 2 * mean + 1))
        return needs
