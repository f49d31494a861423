"""Dense layers, such as those of a regressor between codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from labelspace._core.schema import Schema, floats
from labelspace.nn.activations import RELU, Activation
from labelspace.nn.products import dense_times_dense


class DenseLayers:
    """Linear layers with an activation between them; the identity if there are none.

    Parameters
    ----------
    layers : sequence of dict of Tensor
        `weight` (inputs, outputs) and `bias` (outputs,) of each layer.
    activation : Activation
        Of all layers but the last, which is linear.
    """

    def __init__(self, layers: Sequence[dict[str, Tensor]], activation: Activation = RELU) -> None:
        self.layers, self.activation = layers, activation

    @classmethod
    def fresh(
        cls, widths: Sequence[int], rng: np.random.Generator, activation: Activation = RELU
    ) -> DenseLayers:
        """Return layers with random weights; a single square layer is initialised as identity.

        Parameters
        ----------
        widths : sequence of int
            Width of the input, of hidden layers and of the output.
        rng : numpy.random.Generator
        activation : Activation
        """
        layers = []
        for fan_in, fan_out in pairwise(widths):
            if len(widths) == 2 and fan_in == fan_out:
                weight = np.eye(fan_in, dtype=np.float32)
            else:
                weight = rng.standard_normal((fan_in, fan_out), np.float32)
                weight *= np.sqrt(np.float32(2.0 / (fan_in + fan_out)))
            bias = torch.zeros(fan_out, requires_grad=True)
            layers.append({"weight": torch.from_numpy(weight).requires_grad_(), "bias": bias})
        return cls(layers, activation)

    @classmethod
    def restore(
        cls, arrays: Mapping[str, np.ndarray], activation: Activation = RELU
    ) -> DenseLayers:
        """Return the layers of `arrays`."""
        layers = [
            {part: torch.from_numpy(np.array(arrays[f"{n}.{part}"])) for part in _PARTS}
            for n in range(len(arrays) // len(_PARTS))
        ]
        return cls(layers, activation)

    @staticmethod
    def schema(arrays: Mapping[str, np.ndarray], prefix: str, width: str) -> tuple[Schema, str]:
        """Declare `arrays` for inputs of this width; the second value is that of the output."""
        found: Schema = []
        while f"{prefix}{len(found) // len(_PARTS)}.bias" in arrays:
            name = f"{prefix}{len(found) // len(_PARTS)}"
            found += [floats(f"{name}.weight", width, name), floats(f"{name}.bias", name)]
            width = name
        return found, width

    def width(self, width: int) -> int:
        """Return the width of the output for an input of this width."""
        return int(self.layers[-1]["weight"].shape[1]) if self.layers else width

    def __call__(self, h: Tensor) -> Tensor:
        """Return the output with its gradient, for training."""
        for number, layer in enumerate(self.layers):
            h = (self.activation(h) if number else h) @ layer["weight"] + layer["bias"]
        return h

    def apply(self, h: np.ndarray) -> np.ndarray:
        """Return the output without gradient; a row does not depend on the rows beside it."""
        for number, layer in enumerate(self.layers):
            weight, bias = (layer[part].detach().numpy() for part in _PARTS)
            h = dense_times_dense(self.activation.apply(h) if number else h, weight) + bias
        return h

    def tensors(self) -> dict[str, Tensor]:
        """Return all weights by name, sharing memory, for the Trainer."""
        return {
            f"{n}.{part}": layer[part] for n, layer in enumerate(self.layers) for part in _PARTS
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights by name, for `restore`."""
        return {name: tensor.detach().numpy() for name, tensor in self.tensors().items()}


_PARTS = ("weight", "bias")
