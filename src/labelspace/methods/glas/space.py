"""The trained weights of GLaS: an encoder of examples and one vector and bias per label.

    h(x)_l = s <phi(x), v_l> + b_l

Every formula that combines the weights is here, with gradient for training and without for search.

After training the vectors are kept once, as they are searched: scaled, with the bias appended, in
the precision that the parameter `precision` names. Updates make the trained weights of them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.schema import Schema, floats
from labelspace.components.training_counts import TrainingCounts
from labelspace.nn.encoder import Encoder, times_scalar, unit, unit_array
from labelspace.nn.optimisers import Optimiser, OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.row_rules import GradientLinear, GradientTable
from labelspace.nn.row_tables import RowTable, SparseLinear
from labelspace.search.stored_vectors import StoredVectors, Vectors, vectors_schema

SCALE_LR = 0.01  # Adam's, of the scale: near 20, it needs larger steps than weights near 0
MIN_NORM = 1e-12
_COPIED = 1 << 14  # labels scaled at a time


class LabelSpace:
    """The space of examples and labels.

    Parameters
    ----------
    encoder : Encoder
        phi.
    table : RowTable or None
        The label vectors v, as they are trained: of any length. None once they are stored.
    bias : Tensor of shape (labels,)
        b; all 0, and without gradient, if labels have no prior.
    scale : Tensor
        s, a scalar; without gradient if it is held.
    unit_inputs, unit_labels : bool
        Whether phi(x) and v are scaled to length 1.
    """

    def __init__(
        self,
        encoder: Encoder,
        table: RowTable | None,
        bias: torch.Tensor,
        scale: torch.Tensor,
        *,
        unit_inputs: bool,
        unit_labels: bool,
    ) -> None:
        self.encoder, self._table, self.bias, self.scale = encoder, table, bias, scale
        self.unit_inputs, self.unit_labels = unit_inputs, unit_labels
        self._stored: Vectors | None = None
        self._lengths: np.ndarray | None = None

    @property
    def table(self) -> RowTable:
        """The label vectors while they are trained."""
        assert self._table is not None, "the vectors are stored"
        return self._table

    @classmethod
    def fresh(
        cls, X: csr_matrix, Y: csr_matrix, counts: TrainingCounts, params: SimpleNamespace
    ) -> LabelSpace:
        """Return the initial space for these training data and parameters."""
        rng = np.random.default_rng([params.seed, X.shape[1]])
        encoder = Encoder.fresh(
            *(X.shape[1], (*params.hidden, params.dim), rng),
            row_lr_scale=counts.row_lr_scale(params.feature_damping),
            weight_norm=params.weight_norm,
            bias=params.hidden_bias,
        )
        first = encoder.input_layer
        encoder.input_layer = trained_layer(params.optimiser, first.weight, first.row_lr_scale)
        points = unit_array(encoder.encode(X)) if params.init == "centroid" else None
        table = trained_table(params.optimiser, initial_vectors(Y, points, params.dim, rng))
        bias = counts.log_odds() if params.prior else np.zeros(Y.shape[1], np.float32)
        return cls(
            encoder,
            table,
            torch.from_numpy(bias).requires_grad_(params.prior),
            torch.tensor(float(params.scale), requires_grad=params.train_scale),
            unit_inputs=params.unit_inputs,
            unit_labels=params.unit_labels,
        )

    @staticmethod
    def schema(arrays: Mapping[str, np.ndarray], precision: str) -> Schema:
        """Declare what `arrays` returns; "code" is the dimension of the space."""
        found = Encoder.schema(arrays, unread=True)
        found += [floats("bias", "labels"), floats("scale")]
        if "labels" in arrays:  # trained vectors, as version 2 stored them
            return [*found, floats("labels", "labels", "code")]
        return [
            *found,
            *vectors_schema("vectors.", precision, "labels", "code"),
            floats("vectors.lengths", "labels", low=0.0, unread=True),
        ]

    @classmethod
    def restore(
        cls,
        arrays: Mapping[str, np.ndarray],
        params: SimpleNamespace,
    ) -> LabelSpace:
        """Return a space for prediction, of the arrays that `arrays` returned.

        They may be read-only memory maps, and are not copied.
        """
        trained = "labels" in arrays  # as version 2 stored them
        space = cls(
            Encoder.restore(arrays),
            RowTable.frozen(arrays["labels"]) if trained else None,
            torch.from_numpy(np.array(arrays["bias"])),
            torch.from_numpy(np.array(arrays["scale"])),
            unit_inputs=params.unit_inputs,
            unit_labels=params.unit_labels,
        )
        if trained:
            space.store("float32")
            return space
        own = with_prefix("vectors.", arrays)
        space._lengths = own.pop("lengths")
        space._stored = own["full"] if "full" in own else StoredVectors(own)
        return space

    # With gradient, for training.

    def points(self, X: csr_matrix) -> torch.Tensor:
        """Return phi(x) of a batch."""
        z = self.encoder(X)
        return unit(z) if self.unit_inputs else z

    def vectors(self, labels: np.ndarray) -> torch.Tensor:
        """Return the vectors of these labels."""
        rows = self.table.rows(labels)
        return unit(rows) if self.unit_labels else rows

    def logits(self, z: torch.Tensor, vectors: torch.Tensor, labels: np.ndarray) -> torch.Tensor:
        """Return h(x)_l of points and of labels with these vectors, (points, labels)."""
        logits = times_scalar(self.scale, z @ vectors.T)
        if self.bias.requires_grad:
            logits = logits + self.bias[torch.from_numpy(labels)]
        return logits

    # Without gradient, for search.

    def embed(self, X: csr_matrix) -> np.ndarray:
        """Return phi(x) of each row, (n, dim)."""
        z = self.encoder.encode(X)
        return unit_array(z) if self.unit_inputs else z

    def store(self, precision: str) -> None:
        """Keep the label vectors as they are searched, in this precision, and drop what trains."""
        searched = self.search_vectors()
        self._lengths = _lengths_of(self.table.weight)
        self._stored = searched if precision == "float32" else StoredVectors.of(searched, precision)
        self._table = None
        # Without moments, which an update begins anew.
        self.encoder.input_layer = SparseLinear.frozen(self.encoder.input_layer.weight)

    def trained_vectors(self) -> np.ndarray:
        """Return the label vectors v as they were trained, of stored ones: a copy."""
        if self._stored is None or self._lengths is None:
            return self.table.weight
        scale = float(self.scale.item()) or 1.0
        factors = np.full(len(self._stored), 1.0 / scale, np.float32)
        if self.unit_labels:
            factors *= self._lengths
        vectors = np.empty((len(factors), self._stored.shape[1] - 1), np.float32)
        for start in range(0, len(vectors), _COPIED):
            rows = slice(start, start + _COPIED)
            np.multiply(self._stored[rows][:, :-1], factors[rows, None], out=vectors[rows])
        return vectors

    @property
    def label_vectors(self) -> np.ndarray:
        """The vectors of all labels, (labels, dim)."""
        weight = self.trained_vectors()
        return unit_array(weight) if self.unit_labels else weight

    def cosines(self, label: int) -> np.ndarray:
        """Return the cosine of every label's vector and that of one label."""
        vectors = self.search_vectors()
        own = vectors[label : label + 1][0, :-1]
        found = np.empty(len(vectors), np.float32)
        for start in range(0, len(vectors), _COPIED):
            part = vectors[start : start + _COPIED][:, :-1]
            found[start : start + _COPIED] = part @ own / _lengths_of(part)
        return np.asarray(found / _lengths_of(own[None, :]))

    def queries(self, X: csr_matrix) -> np.ndarray:
        """Return each row as a query of `search_vectors`, (n, dim + 1)."""
        return as_queries(self.embed(X))

    def search_vectors(self) -> Vectors:
        """Return s v_l with b_l appended: the inner product with a query is h(x)_l."""
        if self._stored is not None:
            return self._stored
        weight, scale = self.table.weight, np.float32(self.scale.item())
        vectors = np.empty((len(weight), weight.shape[1] + 1), np.float32)
        for start in range(0, len(weight), _COPIED):  # one copy of all labels, not three
            part = weight[start : start + _COPIED]
            own = unit_array(part) if self.unit_labels else part
            np.multiply(scale, own, out=vectors[start : start + _COPIED, :-1])
        vectors[:, -1] = self.bias.detach().numpy()
        return vectors

    # What the trainer and the store read.

    def optimiser(self, params: SimpleNamespace) -> OptimiserGroup:
        """Return the optimiser of all weights, by rows for the tables of which a batch uses few.

        The encoder has the learning rate `lr`, what belongs to the labels `label_lr`.
        """
        lr, adam = params.lr, params.optimiser == "adam"
        label_lr = lr if params.label_lr is None else params.label_lr
        tables = {"encoder": (self.encoder.input_layer, lr), "labels": (self.table, label_lr)}
        parts: dict[str, Optimiser] = {"rows": RowOptimiser(tables)}
        dense = [
            ([self.scale], SCALE_LR if adam else label_lr),
            (self.encoder.dense_parameters(), lr / params.hidden_lr_divisor),
            ([self.bias], label_lr),
        ]
        groups = [
            {"params": trained, "lr": rate}
            for tensors, rate in dense
            if (trained := [tensor for tensor in tensors if tensor.requires_grad])
        ]
        if groups:
            rule = torch.optim.Adam if adam else torch.optim.SGD
            parts["dense"] = TorchOptimiser(rule(groups))
        return OptimiserGroup(parts)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all weights by name, sharing memory, for the Trainer."""
        return {
            **self.encoder.tensors(),
            "labels": torch.from_numpy(self.table.weight),
            "bias": self.bias,
            "scale": self.scale,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights by name, for `restore`; the label vectors are stored before."""
        assert self._stored is not None
        assert self._lengths is not None
        stored = self._stored
        own = stored.arrays if isinstance(stored, StoredVectors) else {"full": stored}
        return {
            **self.encoder.arrays(),
            **prefixed("vectors.", {**own, "lengths": self._lengths}),
            "bias": self.bias.detach().numpy(),
            "scale": self.scale.detach().numpy(),
        }


def trained_layer(
    optimiser: str, weight: np.ndarray, row_lr_scale: np.ndarray | None = None
) -> SparseLinear:
    """Return the sparse layer of these weights, which the optimiser's rule updates."""
    return (SparseLinear if optimiser == "adam" else GradientLinear)(weight, row_lr_scale)


def trained_table(
    optimiser: str, weight: np.ndarray, row_lr_scale: np.ndarray | None = None
) -> RowTable:
    """Return the label vectors, which the optimiser's rule updates."""
    return (RowTable if optimiser == "adam" else GradientTable)(weight, row_lr_scale)


def initial_vectors(
    Y: csr_matrix, points: np.ndarray | None, dim: int, rng: np.random.Generator
) -> np.ndarray:
    """Return a unit vector per label: the centroid of its examples, or random if it has none.

    Parameters
    ----------
    Y : csr_matrix of shape (n, labels)
    points : ndarray of shape (n, dim), optional
        The examples, of length 1. If None, all vectors are random.
    dim : int
    rng : numpy.random.Generator
    """
    vectors = unit_array(rng.standard_normal((Y.shape[1], dim), np.float32))
    if points is not None:
        centroids = np.asarray(Y.T @ points, np.float32)
        found = np.abs(centroids).max(axis=1) > 0
        vectors[found] = unit_array(centroids[found])
    return vectors


def _lengths_of(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), MIN_NORM))


def as_queries(z: np.ndarray) -> np.ndarray:
    """Return points with a one appended, which multiplies the biases of the labels."""
    return np.hstack([z, np.ones((len(z), 1), np.float32)])
