"""The network of NeuralXC: two autoencoders and a regressor between their codes.

Prediction needs the path from features to labels alone; the decoder of features and the encoder of
labels are dropped after training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import joined_parts, prefixed, with_prefix
from labelspace._core.schema import Schema, floats
from labelspace.nn.activations import LINEAR, RELU, SIGMOID, TANH, Activation, leaky_relu
from labelspace.nn.autoencoder import Autoencoder, Decoder, restore_decoder
from labelspace.nn.dense_layers import DenseLayers
from labelspace.nn.encoder import Encoder
from labelspace.nn.row_tables import RowTable


class Layers(NamedTuple):
    """Widths of the feature encoder and label encoder, codes last, and of hidden regressor layers.

    Attributes
    ----------
    inputs, outputs, regressor : tuple of int
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    regressor: tuple[int, ...]


class Activations(NamedTuple):
    """The activations that differ between networks; the other hidden layers have ReLU.

    Attributes
    ----------
    feature_decoder, label_encoder : Activation
        Of hidden layers.
    label_code : Activation
        Of the label encoder's and of the regressor's last layer.
    feature_output : Activation
        Of the feature decoder's last layer. That of the label decoder is the sigmoid.
    """

    feature_decoder: Activation
    label_encoder: Activation
    label_code: Activation
    feature_output: Activation

    @classmethod
    def of(cls, kind: str, output: str) -> Activations:
        """Return those of the parameters `activations` and `feature_output`."""
        ends = {"linear": LINEAR, "sigmoid": SIGMOID, "relu": RELU}
        if kind == "relu":
            return cls(RELU, RELU, LINEAR, ends[output])
        return cls(leaky_relu(0.2), leaky_relu(0.1), TANH, ends[output])


class Path:
    """The path from features to labels: feature encoder, regressor, label decoder.

    Parameters
    ----------
    encoder : Encoder
    regressor : DenseLayers
    label_code : Activation
        Of the regressor's last layer.
    decoder : Decoder
    """

    def __init__(
        self,
        encoder: Encoder,
        regressor: DenseLayers,
        label_code: Activation,
        decoder: Decoder,
    ) -> None:
        self.encoder, self.regressor = encoder, regressor
        self.label_code, self.decoder = label_code, decoder

    @property
    def vectors(self) -> np.ndarray:
        """Label vectors (labels, width + 1): the inner product with a query is the logit."""
        return self.decoder.table.weight

    @property
    def dim(self) -> int:
        """The width of the label code."""
        return self.regressor.width(self.encoder.dim)

    def codes(self, X: csr_matrix) -> np.ndarray:
        """Return the label codes that the regressor predicts, (n, width of the code)."""
        return self.label_code.apply(self.regressor.apply(self.encoder.encode(X)))

    def queries(self, X: csr_matrix) -> np.ndarray:
        """Return each row as a query of `vectors`, (n, width + 1)."""
        return self.decoder.queries(self.codes(X))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights by name, for `restore`."""
        between = prefixed("regressor.", self.regressor.arrays())
        return {**self.encoder.arrays(), **between, **self.decoder.arrays()}

    @classmethod
    def restore(
        cls,
        arrays: Mapping[str, np.ndarray],
        label_code: Activation,
    ) -> Path:
        """Return a path for prediction, of what `arrays` returned."""
        regressor = DenseLayers.restore(with_prefix("regressor.", arrays))
        return cls(Encoder.restore(arrays), regressor, label_code, restore_decoder(arrays))

    @staticmethod
    def schema(arrays: Mapping[str, np.ndarray], prefix: str) -> tuple[Schema, str, str]:
        """Declare what `arrays` returns; then the names of two widths: code and label vectors."""
        regressor, code = DenseLayers.schema(arrays, f"{prefix}regressor.", f"{prefix}code")
        decoder, width = DenseLayers.schema(arrays, f"{prefix}decoder.", code)
        found = [
            *Encoder.schema(arrays, prefix),
            *regressor,
            *decoder,
            floats(f"{prefix}decoder.table", "labels", f"{width} + 1"),
        ]
        return found, code, f"{width} + 1"


class Network:
    """All weights that are trained together.

    Parameters
    ----------
    inputs, outputs : Autoencoder
        Of features and of labels.
    regressor : DenseLayers
        Maps the code of features to the code of labels.
    label_code : Activation
        Of codes of labels.

    Attributes
    ----------
    path : Path
        The part that prediction needs; it shares the weights.
    """

    def __init__(
        self,
        inputs: Autoencoder,
        outputs: Autoencoder,
        regressor: DenseLayers,
        label_code: Activation = LINEAR,
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.regressor, self.label_code = regressor, label_code
        self.path = Path(inputs.encoder, regressor, label_code, outputs.decoder)

    @classmethod
    def fresh(
        cls,
        params: SimpleNamespace,
        n_features: int,
        log_odds: np.ndarray,
        row_lr_scale: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Network:
        """Return a network with random weights.

        Parameters
        ----------
        params : SimpleNamespace
            The parameters of the method.
        n_features : int
        log_odds : ndarray of shape (labels,)
            Initial biases of the labels with `prior`.
        row_lr_scale : ndarray of shape (n_features,), optional
            Factor of the learning rate and initial weights of each feature.
        rng : numpy.random.Generator
        """
        layers = Layers(params.input_layers, params.output_layers, params.regressor_layers)
        kinds = Activations.of(params.activations, params.feature_output)
        inputs = Autoencoder.fresh(
            *(n_features, layers.inputs, rng),
            row_lr_scale=row_lr_scale,
            weight_norm=params.weight_norm,
            decoding=kinds.feature_decoder,
            output=kinds.feature_output,
        )
        outputs = Autoencoder.fresh(
            *(len(log_odds), layers.outputs, rng),
            weight_norm=params.weight_norm,
            encoding=kinds.label_encoder,
        )
        widths = (layers.inputs[-1], *layers.regressor, layers.outputs[-1])
        network = cls(inputs, outputs, DenseLayers.fresh(widths, rng), kinds.label_code)
        if params.init == "xavier":
            network.draw_uniform(rng)
        inputs.encoder.input_layer.weight *= np.float32(params.initial_factor)
        if params.prior:
            outputs.decoder.table.weight[:, -1] = log_odds
        return network

    def draw_uniform(self, rng: np.random.Generator) -> None:
        """Draw all weights anew: Glorot & Bengio's uniform ones, and biases as torch's default.

        A weight is from +-sqrt(6 / (inputs + outputs)), a bias from +-1 / sqrt(inputs).
        """

        def uniform(target: np.ndarray, limit: float) -> None:
            target[:] = (2.0 * limit) * rng.random(target.shape, np.float32) - np.float32(limit)

        for weight, bias in self._weights_and_biases():
            inputs, outputs = weight.shape
            uniform(weight, np.sqrt(6.0 / (inputs + outputs)))
            if bias is not None:
                uniform(bias, 1.0 / np.sqrt(inputs))

    def _weights_and_biases(self) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Yield each layer's weight, of shape (inputs, outputs), and its bias, sharing memory."""
        for autoencoder in (self.inputs, self.outputs):
            encoder, table = autoencoder.encoder, autoencoder.decoder.table.weight
            bias = None if encoder.bias is None else encoder.bias.detach().numpy()
            yield encoder.input_layer.weight, bias
            for layer in (*encoder.hidden, *autoencoder.decoder.hidden.layers):
                yield _weight_and_bias(layer)
            yield table[:, :-1].T, table[:, -1]
        for layer in self.regressor.layers:
            yield _weight_and_bias(layer)

    def regress(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the codes of labels that the regressor predicts, with gradient."""
        return self.label_code(self.regressor(codes))

    def encode_labels(self, Y: csr_matrix) -> torch.Tensor:
        """Return the codes of rows of labels, with gradient."""
        return self.label_code(self.outputs.encoder(Y))

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


def _weight_and_bias(layer: Mapping[str, torch.Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Return both of a dense layer, sharing memory; of a normalised one the directions."""
    weight = layer["weight"] if "weight" in layer else layer["direction"]
    return weight.detach().numpy(), layer["bias"].detach().numpy()
