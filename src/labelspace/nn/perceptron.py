"""A perceptron on sparse rows, with plain weights and a bias in every layer.

`Encoder` has weight-normalised hidden layers and no bias in its first one; this is the usual form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import are_numbers, expect
from labelspace.nn.activations import RELU, Activation
from labelspace.nn.dense_layers import DenseLayers
from labelspace.nn.products import sparse_times_dense
from labelspace.nn.row_tables import SparseLinear


class Perceptron:
    """Maps sparse rows x to the output of dense layers on x W + b; the last layer is linear.

    Parameters
    ----------
    input_layer : SparseLinear
        W.
    bias : Tensor of shape (outputs of the input layer,)
    rest : DenseLayers
        The other layers. Their activation precedes each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> layers = Perceptron.fresh(100, (16, 8), np.random.default_rng(0))
    >>> layers.encode(csr_matrix(np.eye(3, 100, dtype=np.float32))).shape
    (3, 8)
    """

    def __init__(self, input_layer: SparseLinear, bias: Tensor, rest: DenseLayers) -> None:
        self.input_layer, self.bias, self.rest = input_layer, bias, rest

    @classmethod
    def fresh(
        cls,
        n_columns: int,
        widths: Sequence[int],
        rng: np.random.Generator,
        *,
        row_lr_scale: np.ndarray | None = None,
        activation: Activation = RELU,
    ) -> Perceptron:
        """Return a perceptron with random weights.

        Parameters
        ----------
        n_columns : int
        widths : sequence of int
            Outputs of each layer.
        rng : numpy.random.Generator
        row_lr_scale : ndarray of shape (n_columns,), optional
            Factor of the learning rate and of the initial weights of each row of W.
        activation : Activation
            Of all layers but the last.
        """
        weight = rng.standard_normal((n_columns, widths[0]), np.float32)
        weight /= np.sqrt(np.float32(widths[0]))
        if row_lr_scale is not None:
            weight *= row_lr_scale[:, None]
        bias = torch.zeros(widths[0], requires_grad=True)
        rest = DenseLayers.fresh(widths, rng, activation)
        return cls(SparseLinear(weight, row_lr_scale), bias, rest)

    @classmethod
    def restore(
        cls,
        arrays: Mapping[str, np.ndarray],
        n_columns: int | None = None,
        activation: Activation = RELU,
    ) -> Perceptron:
        """Return the perceptron of what `arrays` returned, for prediction alone.

        Raises
        ------
        ModelFormatError
            If the arrays do not fit each other or the number of columns.
        """
        first, bias = arrays["encoder.first"], np.array(arrays["encoder.first_bias"])
        expect(are_numbers(first, n_columns, None), "the encoder does not fit the features")
        expect(are_numbers(bias, first.shape[1]), "the encoder's bias does not fit its layer")
        rest = DenseLayers.restore(with_prefix("encoder.rest.", arrays), activation)
        rest.width(first.shape[1])
        return cls(SparseLinear.frozen(first), torch.from_numpy(bias), rest)

    @property
    def dim(self) -> int:
        """The width of the output."""
        return self.rest.width(self.input_layer.weight.shape[1])

    def __call__(self, X: csr_matrix) -> Tensor:
        """Return the outputs of a batch with their gradient, for training."""
        h = self.input_layer(X) + self.bias
        return self.rest(self.rest.activation(h)) if self.rest.layers else h

    def encode(self, X: csr_matrix) -> np.ndarray:
        """Return outputs without gradient; a row does not depend on the rows beside it."""
        h = sparse_times_dense(X, self.input_layer.weight) + self.bias.detach().numpy()
        return self.rest.apply(self.rest.activation.apply(h)) if self.rest.layers else h

    def tensors(self) -> dict[str, Tensor]:
        """Return all weights by name, sharing memory, for the Trainer."""
        return {"encoder.first": torch.from_numpy(self.input_layer.weight), **self._dense()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights by name; the first may be a memory map, unlike torch's tensors."""
        dense = {name: tensor.detach().numpy() for name, tensor in self._dense().items()}
        return {"encoder.first": self.input_layer.weight, **dense}

    def _dense(self) -> dict[str, Tensor]:
        rest = prefixed("encoder.rest.", self.rest.tensors())
        return {"encoder.first_bias": self.bias, **rest}

    def dense_parameters(self) -> list[Tensor]:
        """Return the weights that every batch trains."""
        return list(self._dense().values())
