"""The network of NeuralXC: two autoencoders and a regressor between their codes.

Prediction needs the path from features to labels alone; the decoder of features and the encoder of
labels are dropped after training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts, prefixed, with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace.nn.autoencoder import Autoencoder, Decoder, DenseLayers, restore_decoder
from labelspace.nn.encoder import Encoder
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.row_tables import RowTable

DENSE_LR_SCALE = 0.02  # dense layers are updated by every example: they need smaller steps
INITIAL_FACTOR = 0.1  # on the random weights of features, which are noise


class Layers(NamedTuple):
    """Widths of the feature encoder and label encoder, codes last, and of hidden regressor layers.

    Attributes
    ----------
    inputs, outputs, regressor : tuple of int
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    regressor: tuple[int, ...]


# The widths of the public code that belongs to the paper; its decoders mirror its encoders.
PRESETS = {
    "bibtex": Layers((1152, 600, 256), (96, 32), (112,)),
    "delicious": Layers((250, 125), (326, 163, 82), (104,)),
    "mediamill": Layers((100, 50), (75, 50, 32), (41,)),
    "eurlex": Layers((2500, 1250, 500), (1331, 443, 141), (325,)),
}


class Path:
    """The path from features to labels: feature encoder, regressor, label decoder.

    Parameters
    ----------
    encoder : Encoder
    regressor : DenseLayers
    decoder : Decoder
    """

    def __init__(self, encoder: Encoder, regressor: DenseLayers, decoder: Decoder) -> None:
        self.encoder, self.regressor, self.decoder = encoder, regressor, decoder

    @property
    def vectors(self) -> np.ndarray:
        """Label vectors (labels, width + 1): the inner product with a query is the logit."""
        return self.decoder.table.weight

    def codes(self, X: csr_matrix) -> np.ndarray:
        """Return the label codes that the regressor predicts, (n, width of the code)."""
        return self.regressor.apply(self.encoder.encode(X))

    def queries(self, X: csr_matrix) -> np.ndarray:
        """Return each row as a query of `vectors`, (n, width + 1)."""
        return self.decoder.queries(self.codes(X))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights by name, for `restore`."""
        between = prefixed("regressor.", self.regressor.arrays())
        return {**self.encoder.arrays(), **between, **self.decoder.arrays()}

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_features: int, n_labels: int) -> Path:
        """Return a path for prediction; raise ModelFormatError if the arrays do not fit."""
        encoder = Encoder.restore(arrays, n_features)
        regressor = DenseLayers.restore(with_prefix("regressor.", arrays))
        decoder = restore_decoder(arrays)
        width = decoder.hidden.width(regressor.width(encoder.dim))
        fits = are_numbers(decoder.table.weight, n_labels, width + 1)
        expect(fits, "the vectors of the labels do not fit the decoder")
        return cls(encoder, regressor, decoder)


class Network:
    """All weights that are trained together.

    Parameters
    ----------
    inputs, outputs : Autoencoder
        Of features and of labels.
    regressor : DenseLayers
        Maps the code of features to the code of labels.

    Attributes
    ----------
    path : Path
        The part that prediction needs; it shares the weights.
    """

    def __init__(self, inputs: Autoencoder, outputs: Autoencoder, regressor: DenseLayers) -> None:
        self.inputs, self.outputs, self.regressor = inputs, outputs, regressor
        self.path = Path(inputs.encoder, regressor, outputs.decoder)

    @classmethod
    def fresh(
        cls,
        layers: Layers,
        n_features: int,
        log_odds: np.ndarray,
        row_lr_scale: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Network:
        """Return a network with random weights.

        Parameters
        ----------
        layers : Layers
        n_features : int
        log_odds : ndarray of shape (labels,)
            Initial biases of the labels.
        row_lr_scale : ndarray of shape (n_features,), optional
            Factor of the learning rate and initial weights of each feature.
        rng : numpy.random.Generator
        """
        inputs = Autoencoder.fresh(n_features, layers.inputs, rng, row_lr_scale=row_lr_scale)
        inputs.encoder.input_layer.weight *= np.float32(INITIAL_FACTOR)
        outputs = Autoencoder.fresh(len(log_odds), layers.outputs, rng)
        outputs.decoder.table.weight[:, -1] = log_odds
        widths = (layers.inputs[-1], *layers.regressor, layers.outputs[-1])
        return cls(inputs, outputs, DenseLayers.fresh(widths, rng))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all weights by name, sharing memory, for the Trainer."""
        parts = {
            "inputs": self.inputs.tensors(),
            "outputs": self.outputs.tensors(),
            "regressor": self.regressor.tensors(),
        }
        return joined_parts(parts)

    def tables(self, alpha: float, beta: float) -> dict[str, RowTable]:
        """Return the tables that are trained by rows: those with a weight in the loss."""
        tables = {
            "features in": self.inputs.encoder.input_layer,
            "labels out": self.outputs.decoder.table,
        }
        if alpha > 0:
            tables["features out"] = self.inputs.decoder.table
        if beta > 0:
            tables["labels in"] = self.outputs.encoder.input_layer
        return tables

    def dense_parameters(self) -> list[torch.Tensor]:
        """Return the weights that every batch trains."""
        regressor = list(self.regressor.tensors().values())
        return [*self.inputs.dense_parameters(), *self.outputs.dense_parameters(), *regressor]


def optimiser(
    networks: list[Network], lr: float, label_lr_scale: float, alpha: float, beta: float
) -> OptimiserGroup:
    """Return Adam for all networks, by rows for the tables of which a batch uses few."""
    rows = {
        f"{number}.{name}": (table, lr * (label_lr_scale if name == "labels out" else 1.0))
        for number, network in enumerate(networks)
        for name, table in network.tables(alpha, beta).items()
    }
    dense = [tensor for network in networks for tensor in network.dense_parameters()]
    adam = torch.optim.Adam(dense, lr=DENSE_LR_SCALE * lr)
    return OptimiserGroup({"rows": RowOptimiser(rows), "dense": TorchOptimiser(adam)})
