"""The network of NeuralXC: two autoencoders, a regressor between their codes, and the way through.

After training only the way from features to labels is kept; the decoder of features and the encoder
of labels have done their work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts, prefixed, with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace.nn.autoencoder import (
    Autoencoder,
    Decoder,
    DenseLayers,
    restore_decoder,
)
from labelspace.nn.encoder import Encoder
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.row_tables import RowTable

DENSE_PACE = 0.02  # dense layers see every example, and need smaller steps than rows
SHORT = 0.1  # rows of features begin so much shorter: what is random in them is only noise


class Layers(NamedTuple):
    """Widths: of the encoder of features, of that of labels, codes last; of the regressor's."""

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
    """From features to labels: encoder, regressor, decoder of labels."""

    def __init__(self, encoder: Encoder, regressor: DenseLayers, decoder: Decoder) -> None:
        self.encoder, self.regressor, self.decoder = encoder, regressor, decoder

    @property
    def vectors(self) -> np.ndarray:
        """(labels, width + 1): a label's logit is its inner product with a query."""
        return self.decoder.table.weight

    def codes(self, X: csr_matrix) -> np.ndarray:
        """The label codes that the regressor expects of examples, (n, code)."""
        return self.regressor.apply(self.encoder.encode(X))

    def queries(self, X: csr_matrix) -> np.ndarray:
        return self.decoder.queries(self.codes(X))

    def arrays(self) -> dict[str, np.ndarray]:
        between = prefixed("regressor.", self.regressor.arrays())
        return {**self.encoder.arrays(), **between, **self.decoder.arrays()}

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_features: int, n_labels: int) -> Path:
        encoder = Encoder.restore(arrays, n_features)
        regressor = DenseLayers.restore(with_prefix("regressor.", arrays))
        decoder = restore_decoder(arrays)
        width = decoder.hidden.width(regressor.width(encoder.dim))
        fits = are_numbers(decoder.table.weight, n_labels, width + 1)
        expect(fits, "the vectors of the labels do not fit the decoder")
        return cls(encoder, regressor, decoder)


class Network:
    """One learner with all that training needs.

    inputs     autoencoder of features
    outputs    autoencoder of labels
    regressor  from the code of features to the code of labels
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
        """log_odds: of each label, where its bias begins; pace: see `Encoder.fresh`."""
        inputs = Autoencoder.fresh(n_features, layers.inputs, rng, row_lr_scale=row_lr_scale)
        inputs.encoder.input_layer.weight *= np.float32(SHORT)
        outputs = Autoencoder.fresh(len(log_odds), layers.outputs, rng)
        outputs.decoder.table.weight[:, -1] = log_odds
        widths = (layers.inputs[-1], *layers.regressor, layers.outputs[-1])
        return cls(inputs, outputs, DenseLayers.fresh(widths, rng))

    def tensors(self) -> dict[str, torch.Tensor]:
        """All weights by name, sharing memory, for the Trainer."""
        parts = {
            "inputs": self.inputs.tensors(),
            "outputs": self.outputs.tensors(),
            "regressor": self.regressor.tensors(),
        }
        return joined_parts(parts)

    def tables(self, alpha: float, beta: float) -> dict[str, RowTable]:
        """What a batch trains by rows; what has no weight in the loss stays as it is."""
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
        regressor = list(self.regressor.tensors().values())
        return [*self.inputs.dense_parameters(), *self.outputs.dense_parameters(), *regressor]


def optimiser(
    networks: list[Network], lr: float, label_pace: float, alpha: float, beta: float
) -> OptimiserGroup:
    """Adam for all networks: by rows where a batch uses few of them."""
    rows = {
        f"{number}.{name}": (table, lr * (label_pace if name == "labels out" else 1.0))
        for number, network in enumerate(networks)
        for name, table in network.tables(alpha, beta).items()
    }
    dense = [tensor for network in networks for tensor in network.dense_parameters()]
    adam = torch.optim.Adam(dense, lr=DENSE_PACE * lr)
    return OptimiserGroup({"rows": RowOptimiser(rows), "dense": TorchOptimiser(adam)})
