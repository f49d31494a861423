"""Inputs of the classifiers of a tree: the features, a dense code of them, or both."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix, hstack

from labelspace._core.schema import Schema
from labelspace._core.sparse import unit_rows
from labelspace.components.training_counts import default_batch_size
from labelspace.errors import InputError

if TYPE_CHECKING:
    import torch

    from labelspace.components.training_data import TrainingData
    from labelspace.nn.autoencoder import Autoencoder
    from labelspace.nn.encoder import Encoder
    from labelspace.nn.optimisers import OptimiserGroup
    from labelspace.nn.trainer import Batch

INPUTS = ("raw", "code", "both")
CODE_INITS = ("svd", "random")
# Up to EXACT features, the reconstruction loss is over all of them; above, zeros are sampled.
EXACT, SAMPLES = 10_000, 5000


class Inputs:
    """Transforms features into the classifiers' inputs: CSR, each part of length 1.

    Parameters
    ----------
    kind : {"raw", "code", "both"}
    encoder : Encoder or None
        Computes the code; None if the inputs are the features alone.
    """

    def __init__(self, kind: str, encoder: Encoder | None) -> None:
        self.kind, self.encoder = kind, encoder

    def __call__(self, X: csr_matrix) -> csr_matrix:
        """Return the inputs of each row."""
        raw = unit_rows(X)
        if self.encoder is None:
            return raw
        code = unit_rows(csr_matrix(self.encoder.encode(raw)))
        return code if self.kind == "code" else csr_matrix(hstack([raw, code], "csr"))

    def width(self, n_features: int) -> int:
        """Return the number of inputs, for examples with so many features."""
        if self.encoder is None:
            return n_features
        return self.encoder.dim + (n_features if self.kind == "both" else 0)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the encoder, for `restore`."""
        return {} if self.encoder is None else self.encoder.arrays()

    @staticmethod
    def schema(kind: str, arrays: Mapping[str, np.ndarray]) -> tuple[Schema, str]:
        """Declare the arrays of the encoder; the second value is the number of inputs."""
        if kind == "raw":
            return [], "features"
        from labelspace.nn.encoder import Encoder

        return Encoder.schema(arrays), "code" if kind == "code" else "features + code"

    @classmethod
    def restore(cls, kind: str, arrays: Mapping[str, np.ndarray]) -> Inputs:
        """Return the inputs whose `arrays` are among these."""
        if kind == "raw":
            return cls(kind, None)
        from labelspace.nn.encoder import Encoder

        own = {name: array for name, array in arrays.items() if name.startswith("encoder.")}
        return cls(kind, Encoder.restore(own))


def fit_encoder(
    X: csr_matrix, params: SimpleNamespace, data: TrainingData
) -> tuple[Encoder, list[dict[str, float]]]:
    """Return the encoder of an autoencoder of the examples, and the history of its training.

    With a single layer it is linear, and its optimum are the leading singular vectors of the
    examples. With more layers it is initialised by them. With random initial weights it is trained
    whatever its depth.
    """
    from labelspace.nn.autoencoder import Autoencoder, Zeros
    from labelspace.nn.trainer import Trainer, TrainingTask

    if X.shape[1] == 0:
        raise InputError("X has no columns: there are no features to encode")
    X, widths, seed = unit_rows(X), params.layers, params.seed
    rng = np.random.default_rng([seed, X.shape[1]])
    if params.code_init == "random":
        autoencoder = Autoencoder.fresh(X.shape[1], widths, rng, weight_norm=False)
    else:
        limits = [widths[-1], *(width // 2 for width in widths[:-1])]
        directions = _singular_directions(X, min(*limits, *X.shape), seed)
        if len(widths) == 1:
            return _linear(directions), []
        autoencoder = Autoencoder.along(directions, widths, rng)
    n_zeros = None if X.shape[1] <= EXACT else SAMPLES

    def loss(batch: Batch) -> torch.Tensor:
        return autoencoder.loss(X[batch.rows], Zeros.draw(X.shape[1], n_zeros, batch.rng))

    trainer = Trainer(
        epochs=params.epochs,
        batch_size=default_batch_size(X.shape[0]),
        seed=seed,
        schedule="linear",
        callbacks=data.callbacks,
        identity=data.identity,
    )
    task = TrainingTask(autoencoder.tensors(), loss, _optimiser(autoencoder, params.code_lr))
    history = trainer.run(task, X.shape[0])
    return autoencoder.encoder, history


def _singular_directions(X: csr_matrix, dim: int, seed: int) -> np.ndarray:
    """Return the leading right singular vectors, an array of shape (n_features, dim)."""
    from sklearn.utils.extmath import randomized_svd

    _, _, directions = randomized_svd(X, dim, n_iter=4, random_state=seed)
    return np.ascontiguousarray(directions.T, np.float32)


def _linear(directions: np.ndarray) -> Encoder:
    """Return the encoder that projects on the directions."""
    from labelspace.nn.encoder import Encoder
    from labelspace.nn.row_tables import SparseLinear

    return Encoder(SparseLinear.frozen(directions), [])


def _optimiser(autoencoder: Autoencoder, lr: float) -> OptimiserGroup:
    import torch

    from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser

    rows = {name: (table, lr) for name, table in autoencoder.tables().items()}
    dense = torch.optim.Adam(autoencoder.dense_parameters(), lr=lr)
    return OptimiserGroup({"rows": RowOptimiser(rows), "dense": TorchOptimiser(dense)})
