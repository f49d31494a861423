"""The encoder from sparse features to vectors: one sparse layer, and optional hidden layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import with_prefix
from labelspace._core.dense import unit_array as unit_array
from labelspace._core.schema import Schema, floats
from labelspace._core.threads import product
from labelspace.nn.activations import RELU, Activation
from labelspace.nn.products import dense_times_dense, sparse_times_dense
from labelspace.nn.row_tables import SparseLinear

TINY = 1e-6


class Encoder:
    """phi(x): X W + b through layers with an activation; linear where there are no hidden ones.

    Hidden layers can be weight-normalised as in section 3.1 of Guo et al. 2019: the weight vectors
    of a layer's neurons share one trainable length, each keeps its own direction. The sparse layer
    is if `length`, the shared one, is given. Its columns' own lengths are then constants of a
    batch: a gradient through them would touch every row and only undo growth that the division
    undoes too.

    Parameters
    ----------
    input_layer : SparseLinear
    hidden : sequence of dict of Tensor
        `direction`, `length` and `bias` of each hidden layer, or `weight` and `bias`.
    length : Tensor of shape (1,), optional
    bias : Tensor of shape (outputs of the input layer,), optional
        Bias of the input layer; None is none.
    activation : Activation
        Of all layers but the last.
    frozen : bool
        Whether the weights are never trained: those of hidden layers are then normalised once.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> encoder = Encoder.fresh(100, (16, 8), np.random.default_rng(0))
    >>> X = csr_matrix(np.eye(3, 100, dtype=np.float32))
    >>> encoder.encode(X).shape
    (3, 8)
    >>> encoder(X).requires_grad
    True
    """

    def __init__(
        self,
        input_layer: SparseLinear,
        hidden: Sequence[dict[str, torch.Tensor]],
        length: torch.Tensor | None = None,
        *,
        bias: torch.Tensor | None = None,
        activation: Activation = RELU,
        frozen: bool = False,
    ) -> None:
        self.input_layer = input_layer
        self.hidden = hidden
        self.length = length
        self.bias = bias
        self.activation = activation
        self.frozen = frozen
        self._dense: list[tuple[np.ndarray, np.ndarray]] | None = None

    @classmethod
    def fresh(
        cls,
        n_features: int,
        widths: Sequence[int],
        rng: np.random.Generator,
        *,
        row_lr_scale: np.ndarray | None = None,
        weight_norm: bool = False,
        bias: bool = True,
        hidden_norm: bool = True,
        input_bias: bool = False,
        activation: Activation = RELU,
        spread: float | None = None,
        hidden_spread: float | None = None,
    ) -> Encoder:
        """Return an encoder with random weights: without hidden layers, a random projection.

        Parameters
        ----------
        n_features : int
        widths : sequence of int
            Outputs of the sparse layer and of each hidden layer.
        rng : numpy.random.Generator
        row_lr_scale : ndarray of shape (n_features,), optional
            Factor of the learning rate and of the initial weights of each feature.
        weight_norm : bool
            Normalise the sparse layer too, at the cost of a pass over its weights per batch.
        bias : bool
            Train the biases of hidden layers; otherwise they stay 0.
        hidden_norm : bool
            Normalise the hidden layers; without it they have plain weights, drawn alike.
        input_bias : bool
            Give the sparse layer a bias, too.
        activation : Activation
            Of all layers but the last.
        spread, hidden_spread : float, optional
            Standard deviation of the initial weights of the sparse and of the hidden layers; by
            default 1 / sqrt(outputs) and sqrt(2 / inputs).

        Returns
        -------
        Encoder
        """
        weight = rng.standard_normal((n_features, widths[0]), np.float32)
        weight /= np.sqrt(np.float32(widths[0])) if spread is None else np.float32(1.0 / spread)
        if row_lr_scale is not None:
            weight *= row_lr_scale[:, None]
        hidden = []
        for fan_in, fan_out in pairwise(widths):
            drawn = rng.standard_normal((fan_in, fan_out), np.float32)
            layer = {
                "direction": torch.from_numpy(drawn).requires_grad_(),
                "length": torch.ones(1).mul_(_length(fan_in, hidden_spread)).requires_grad_(),
                "bias": torch.zeros(fan_out, requires_grad=bias),
            }
            hidden.append(layer if hidden_norm else _without_norm(layer))
        length = None
        if weight_norm:
            length = torch.tensor([float(_column_lengths(weight).mean())], requires_grad=True)
        shift = torch.zeros(widths[0], requires_grad=True) if input_bias else None
        first = SparseLinear(weight, row_lr_scale)
        return cls(first, hidden, length, bias=shift, activation=activation)

    @staticmethod
    def schema(
        arrays: Mapping[str, np.ndarray], prefix: str = "", *, unread: bool = False
    ) -> Schema:
        """Declare the arrays of `arrays`; the size f"{prefix}code" is that of the vectors.

        `unread` declares that of the vectors, whatever they hold, no place in memory follows.
        """
        name, n_hidden = f"{prefix}encoder.", 0
        while f"{name}{n_hidden}.bias" in arrays:
            n_hidden += 1
        widths = [*(f"{name}{number}" for number in range(n_hidden)), f"{prefix}code"]
        found: Schema = [
            floats(f"{name}first", "features", widths[0], unread=unread),
            floats(f"{name}bias", widths[0], required=False),
        ]
        for number, sizes in enumerate(pairwise(widths)):
            plain = f"{name}{number}.weight"
            found.append(floats(f"{name}{number}.bias", sizes[1]))
            if plain in arrays:
                found.append(floats(plain, *sizes))
            else:
                found.append(floats(f"{name}{number}.direction", *sizes))
                found.append(floats(f"{name}{number}.length", 1))
        return found

    @classmethod
    def restore(
        cls,
        arrays: Mapping[str, np.ndarray],
        *,
        activation: Activation = RELU,
    ) -> Encoder:
        """Return the encoder of what `arrays` returned, for prediction alone."""
        first = arrays["encoder.first"]
        hidden: list[dict[str, torch.Tensor]] = []
        while own := with_prefix(f"encoder.{len(hidden)}.", arrays):
            hidden.append({part: torch.from_numpy(np.array(a)) for part, a in own.items()})
        shift = None
        if "encoder.bias" in arrays:
            shift = torch.from_numpy(np.array(arrays["encoder.bias"]))
        table = SparseLinear.frozen(first)
        return cls(table, hidden, bias=shift, activation=activation, frozen=True)

    @property
    def dim(self) -> int:
        """Return the dimension of the vectors."""
        last = _weight(self.hidden[-1]) if self.hidden else self.input_layer.weight
        return int(last.shape[1])

    def __call__(self, X: csr_matrix) -> torch.Tensor:
        """Return the vectors of a batch with their gradient, for training."""
        h = self.input_layer(X)
        if self.length is not None:
            h = h * (self.length / torch.from_numpy(_column_lengths(self.input_layer.weight)))
        if self.bias is not None:
            h = h + self.bias
        for layer in self.hidden:
            h = self.activation(h) @ _weight(layer) + layer["bias"]
        return h

    def encode(self, X: csr_matrix, *, by_row: bool = True) -> np.ndarray:
        """Return vectors without gradient; a row does not depend on the rows beside it.

        Without `by_row` it may, in the last bits: hidden layers are then several times as fast.
        """
        h = sparse_times_dense(X, self.input_layer.weight)
        if self.length is not None:
            h *= self.length.detach().numpy() / _column_lengths(self.input_layer.weight)
        if self.bias is not None:
            h += self.bias.detach().numpy()
        for weight, bias in self._dense_layers():
            h = self.activation.apply(h)
            h = dense_times_dense(h, weight, bias) if by_row else product(h, weight) + bias
        return h

    def _dense_layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return weights and biases of the hidden layers."""
        if self._dense is not None:
            return self._dense
        found = [
            (_weight(layer).detach().numpy(), layer["bias"].detach().numpy())
            for layer in self.hidden
        ]
        if self.frozen:
            self._dense = found
        return found

    def fold(self) -> None:
        """Multiply the weights by the shared length, which gives the same vectors without it."""
        if self.length is not None:
            self.input_layer.weight *= self.length.detach().numpy() / _column_lengths(
                self.input_layer.weight
            )
            self.length = None

    def trainable(self) -> Encoder:
        """Return a copy for training, with moments of zero as after loading."""
        hidden = [
            {part: tensor.detach().clone().requires_grad_() for part, tensor in layer.items()}
            for layer in self.hidden
        ]
        bias = None if self.bias is None else self.bias.detach().clone().requires_grad_()
        first = SparseLinear(np.array(self.input_layer.weight))
        return Encoder(first, hidden, bias=bias, activation=self.activation)

    def projected(self, directions: np.ndarray) -> Encoder:
        """Return the encoder of phi(x) D, for orthogonal columns D (dim, fewer)."""
        self.fold()
        turn = torch.from_numpy(directions)
        with torch.no_grad():
            if not self.hidden:
                bias = None if self.bias is None else self.bias @ turn
                return Encoder(SparseLinear(self.input_layer.weight @ directions), [], bias=bias)
            last = self.hidden[-1]
            turned = {"weight": _weight(last) @ turn, "bias": last["bias"] @ turn}
        hidden = [*self.hidden[:-1], turned]
        return Encoder(self.input_layer, hidden, bias=self.bias, activation=self.activation)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return all weights by name, sharing memory, for the Trainer."""
        shared = {} if self.length is None else {"encoder.length": self.length}
        first = torch.from_numpy(self.input_layer.weight)
        return {"encoder.first": first, **shared, **self._dense_by_name()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights by name; the first may be a memory map, unlike torch's tensors."""
        dense = {name: tensor.detach().numpy() for name, tensor in self._dense_by_name().items()}
        return {"encoder.first": self.input_layer.weight, **dense}

    def _dense_by_name(self) -> dict[str, torch.Tensor]:
        own = {} if self.bias is None else {"encoder.bias": self.bias}
        return own | {
            f"encoder.{number}.{part}": tensor
            for number, layer in enumerate(self.hidden)
            for part, tensor in layer.items()
        }

    def dense_parameters(self) -> list[torch.Tensor]:
        own = [tensor for tensor in (self.length, self.bias) if tensor is not None]
        return own + [tensor for layer in self.hidden for tensor in layer.values()]


def _length(fan_in: int, spread: float | None) -> float:
    """Return the length of a neuron's weights whose entries have this standard deviation."""
    return float(np.sqrt(2.0) if spread is None else spread * np.sqrt(fan_in))


def _column_lengths(weight: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.einsum("ij,ij->j", weight, weight))
    return np.asarray(np.maximum(lengths, np.float32(TINY)))


def _without_norm(layer: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a layer that computes the same, trained by its weights as they are."""
    return {"weight": _weight(layer).detach().requires_grad_(), "bias": layer["bias"]}


def _weight(layer: dict[str, torch.Tensor]) -> torch.Tensor:
    if "weight" in layer:  # plain, or turned, so that neurons no longer share a length
        return layer["weight"]
    direction = layer["direction"]
    lengths: torch.Tensor = direction.norm(dim=0, keepdim=True)
    return times_scalar(layer["length"], direction) / lengths.clamp_min(TINY)


def times_scalar(scalar: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return a matrix times a trained number, with the same gradient on any number of threads.

    torch sums a whole matrix in as many parts as it has threads; here each row is summed first.
    """
    return scalar.expand(len(rows), 1) * rows


def principal_directions(points: np.ndarray, dim: int) -> np.ndarray:
    """Return the leading principal directions, as columns, of points (n, more), not centred."""
    _, directions = np.linalg.eigh(points.T.astype(np.float64) @ points)  # in rising order
    return np.ascontiguousarray(directions[:, ::-1][:, :dim], np.float32)


def unit(rows: torch.Tensor) -> torch.Tensor:
    """Return rows scaled to length 1; rows of zeros stay, without a gradient.

    The same for arrays is `unit_array`.
    """
    lengths: torch.Tensor = rows.norm(dim=1, keepdim=True)
    return rows / lengths.masked_fill(lengths < TINY, torch.inf)
