"""Activations of layers, with gradient for training and without it for prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Kind = Literal["linear", "relu", "leaky-relu", "tanh", "sigmoid"]


@dataclass(frozen=True)
class Activation:
    """A function of each output of a layer.

    Attributes
    ----------
    kind : {"linear", "relu", "leaky-relu", "tanh", "sigmoid"}
    slope : float
        Slope of the leaky ReLU below 0.

    Examples
    --------
    >>> import numpy as np
    >>> leaky_relu(0.5).apply(np.array([-2.0, 3.0]))
    array([-1.,  3.])
    """

    kind: Kind
    slope: float = 0.0

    def __call__(self, h: Tensor) -> Tensor:
        """Return the activations with their gradient."""
        if self.kind == "relu":
            return torch.relu(h)
        if self.kind == "leaky-relu":
            return torch.nn.functional.leaky_relu(h, self.slope)
        if self.kind == "tanh":
            return torch.tanh(h)
        return torch.sigmoid(h) if self.kind == "sigmoid" else h

    def apply(self, h: np.ndarray) -> np.ndarray:
        """Return the activations of an array."""
        if self.kind == "relu":
            return np.asarray(np.maximum(h, 0.0))
        if self.kind == "leaky-relu":
            return np.asarray(np.where(h < 0.0, h.dtype.type(self.slope) * h, h))
        if self.kind == "tanh":
            return np.asarray(np.tanh(h))
        return np.asarray(1.0 / (1.0 + np.exp(-h))) if self.kind == "sigmoid" else h


LINEAR, RELU, TANH, SIGMOID = (
    Activation("linear"),
    Activation("relu"),
    Activation("tanh"),
    Activation("sigmoid"),
)


def leaky_relu(slope: float) -> Activation:
    """Return the leaky ReLU with this slope below 0."""
    return Activation("leaky-relu", slope)
